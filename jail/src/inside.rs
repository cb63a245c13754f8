//! Whether this process is itself in an agent's jail: there it can ask the broker, and
//! nothing else; no further jail can be made, and none is needed.
//!
//! The kernel says so, not a variable: whoever could set one could run without a jail.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use sjail_policy::wire::REQUEST_SOCKET;

/// Where an agent's jail has the broker's request socket.
pub const DESK: &str = "/run/sjail";

/// The owner's policy beside it: the whole machine's.
pub const SYSTEM: &str = "system.toml";
/// The owner's policy beside it: the user's.
pub const USER: &str = "user.toml";

/// Whether we are in an agent's jail: its request socket is there, and this process has
/// neither capabilities nor a way to any, and a seccomp filter.
pub fn an_agents_jail() -> bool {
    let socket = Path::new(DESK).join(REQUEST_SOCKET);
    fs::symlink_metadata(socket).is_ok_and(|meta| meta.file_type().is_socket())
        && fs::read_to_string("/proc/self/status").is_ok_and(|status| holds(&status))
}

/// Whether a process with this `/proc/PID/status` is held as every jail holds its own.
fn holds(status: &str) -> bool {
    let is = |name: &str, wanted: &str| {
        status
            .lines()
            .filter_map(|line| line.split_once(':'))
            .any(|(key, value)| key == name && value.trim() == wanted)
    };
    const NONE: &str = "0000000000000000";
    is("NoNewPrivs", "1")
        && is("Seccomp", "2")
        && ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]
            .iter()
            .all(|set| is(set, NONE))
}

/// The options that make sense where the jail is there already: those that do not ask
/// for another one.
pub fn is_harmless(option: &str) -> bool {
    let name = option.split('=').next().unwrap_or_default();
    matches!(
        name,
        "--timeout" | "--max-output" | "--env" | "--workspace" | "--no-dry-run" | "--install-host"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const JAILED: &str = "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n\
         CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\n\
         NoNewPrivs:\t1\nSeccomp:\t2\n";

    #[test]
    fn only_what_the_kernel_holds_is_a_jail() {
        assert!(holds(JAILED));
        for (part, other) in [
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0"),
            ("Seccomp:\t2", "Seccomp:\t0"),
            ("CapBnd:\t0000000000000000", "CapBnd:\t000001ffffffffff"),
        ] {
            assert!(!holds(&JAILED.replace(part, other)), "{other}");
        }
        assert!(!holds(""));
    }

    #[test]
    fn another_jail_cannot_be_asked_for() {
        assert!(is_harmless("--timeout=5s") && is_harmless("--env=A=b"));
        assert!(!is_harmless("--net=host") && !is_harmless("--profile=code"));
    }
}
