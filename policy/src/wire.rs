//! What `sjail` and `sjail-broker` say to each other: Varlink, that is JSON objects
//! ended by a NUL byte on a Unix socket.
//!
//! Two interfaces on two sockets. [`request`] is what may be asked by anybody who
//! runs commands, a jailed agent included; [`control`] is what only the owner may
//! say, and its socket never enters a jail. The interface files are part of this
//! module, so that both sides and the introspection answer speak of the same text.
//!
//! Framing works on byte buffers, whoever holds the socket moves the bytes.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

pub mod control;
pub mod frame;
pub mod message;
pub mod request;

pub use frame::{FrameError, Frames, encode};
pub use message::{Call, Reply};

/// The version both sides must agree on; raised when a message changes its meaning.
pub const PROTOCOL: u32 = 3;

/// The file name of the socket where commands are submitted.
pub const REQUEST_SOCKET: &str = "request.sock";
/// The file name of the socket where the owner answers.
pub const CONTROL_SOCKET: &str = "control.sock";

/// The folder of both sockets: in the session's own, said or not (cron, `su`), or one in /tmp that
/// is the account's.
pub fn sockets_folder(runtime: Option<PathBuf>, uid: u32) -> PathBuf {
    let session = PathBuf::from(format!("/run/user/{uid}"));
    let is_own = |folder: &PathBuf| {
        std::fs::symlink_metadata(folder).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid)
    };
    match runtime.or(Some(session).filter(is_own)) {
        Some(folder) => folder.join("sjail"),
        None => PathBuf::from(format!("/tmp/sjail-{uid}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The names that a description declares with `keyword`, as `interface.Name`.
    fn declared(interface: &str, description: &str, keyword: &str) -> Vec<String> {
        description
            .lines()
            .filter_map(|line| line.strip_prefix(keyword)?.strip_prefix(' '))
            .map(|rest| rest.split(['(', ' ']).next().unwrap())
            .map(|name| format!("{interface}.{name}"))
            .collect()
    }

    #[test]
    fn the_interface_files_name_what_the_code_answers() {
        use control as c;
        use request as r;
        assert_eq!(
            declared(r::INTERFACE, r::DESCRIPTION, "method"),
            [
                r::SUBMIT,
                r::CHECK,
                r::STATUS,
                r::OUTCOME,
                r::ASK_HOST,
                r::GROUP,
                r::ATTACH,
                r::OFFER,
                r::REFUSED,
                r::DELIVER
            ]
        );
        assert_eq!(
            declared(r::INTERFACE, r::DESCRIPTION, "error"),
            [
                r::ERROR_UNKNOWN_ID,
                r::ERROR_BUSY,
                r::ERROR_VERSION,
                r::ERROR_UNABLE
            ]
        );
        assert_eq!(
            declared(c::INTERFACE, c::DESCRIPTION, "method"),
            [
                c::LIST,
                c::SHOW,
                c::APPROVE,
                c::REJECT,
                c::CLEAR,
                c::WATCH,
                c::GRANTS,
                c::REVOKE,
                c::ALLOWLIST_ADD,
                c::ALLOWLIST_REMOVE,
                c::ALLOWLIST_LIST,
                c::ALLOWLIST_TEST,
                c::AUDIT_LOG,
                c::AUDIT_STATS,
                c::AUDIT_PRUNE,
                c::POLICY_STATUS,
                c::REGISTER_SESSION,
                c::SESSIONS,
                c::STOP
            ]
        );
        assert_eq!(
            declared(c::INTERFACE, c::DESCRIPTION, "error"),
            [
                c::ERROR_NOT_FOUND,
                c::ERROR_REFUSED,
                c::ERROR_WRONG_STATUS,
                c::ERROR_BAD_PATTERN
            ]
        );
    }

    #[test]
    fn an_answer_carries_its_state_beside_its_fields() {
        let answer = request::Answer::Recorded {
            seq: Some(3),
            alerts: Vec::new(),
        };
        assert_eq!(
            serde_json::to_string(&answer).unwrap(),
            r#"{"state":"recorded","seq":3}"#
        );
    }
}
