//! Everything that can go wrong in the broker, in the words of whoever must mend it.

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

/// A failed act.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A folder of ours cannot be made or looked at.
    #[error(
        "cannot prepare the folder {path}: {source}; check that its parent is yours and writable"
    )]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder of ours belongs to, or is open to, somebody else.
    #[error(
        "{path} is not safe to use: {problem}; make it yours alone (chown, chmod 700) or remove it"
    )]
    UnsafeFolder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file of ours cannot be read or written.
    #[error("cannot {act} {path}: {source}")]
    File {
        /// What was being done: `read`, `write`, `lock`.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of ours holds something else than it should.
    #[error("{path} is damaged: {problem}; `sjail audit verify` tells more")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// systemd gives no group for limits.
    #[error("systemd gives no group for limits: {0}")]
    Scope(String),
    /// The database refuses.
    #[error(
        "cannot {act} in the broker's audit database: {source}{}",
        what_to_do(source)
    )]
    Database {
        /// What was being done.
        act: &'static str,
        /// Why.
        source: rusqlite::Error,
    },
    /// A database of another program, or of a later sjail.
    #[error(
        "{path} was written by a different version of sjail ({found}, this one knows {known}); use that version, or move the file away"
    )]
    StoreVersion {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: i64,
        /// The version known.
        known: i64,
    },
    /// What was to be written was not, because the transaction around it failed.
    #[error("the broker cannot make the record durable: {0}; free disk space or check the disk")]
    NotDurable(String),
    /// The thread that writes is gone.
    #[error("the audit writer has ended; restart sjail-broker")]
    WriterGone,
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(getrandom::Error),
    /// No request, grant or pattern has this name.
    #[error("there is no {what} {name}{}", shown_by(what))]
    NotFound {
        /// What was looked for: `request`, `grant`, `pattern`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A request can no longer be answered or used so.
    #[error("request {id} is {status}: it can no longer be answered or used")]
    WrongStatus {
        /// The request.
        id: String,
        /// How it stands.
        status: &'static str,
    },
    /// There is no policy that could be in force.
    #[error("the policy cannot be used: {0}")]
    Policy(String),
    /// The file that the log is exported to cannot be made.
    #[error(
        "the log cannot be exported to {path}: {source}; name a file in a folder that is there and yours to write to"
    )]
    Export {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A call's parameters are not what the method takes.
    #[error("a parameter is wrong: {0}")]
    Parameter(String),
    /// Somebody may not do this.
    #[error("{0}")]
    Refused(String),
    /// A pattern that must not be allowed for good.
    #[error("{0}")]
    BadPattern(String),
    /// Something kept in the store cannot be read back.
    #[error("cannot read {what} from the store: {problem}")]
    Unreadable {
        /// What was read.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A socket cannot be made or used.
    #[error("cannot {act} the socket {path}: {source}")]
    Socket {
        /// What was being done.
        act: &'static str,
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// Wraps a database error with what was being done.
    pub fn database(act: &'static str) -> impl FnOnce(rusqlite::Error) -> Error {
        move |source| Error::Database { act, source }
    }

    /// Wraps an I/O error with what was being done to which file.
    pub fn file(act: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { act, path, source }
    }
}

/// What most functions of the broker return.
pub type Result<T> = std::result::Result<T, Error>;

/// What helps against what the database says, where something does.
fn what_to_do(source: &rusqlite::Error) -> &'static str {
    match source.sqlite_error_code() {
        // A full disk has two names: the log's own pages, and those that its readers share.
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => {
            "; free disk space or check the disk"
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "; `sjail audit verify` tells more"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "; check that the file and its folder are yours and writable"
        }
        _ => "",
    }
}

/// What shows those that there are.
fn shown_by(what: &str) -> &'static str {
    match what {
        "request" => "; `sjail queue list --status all` shows the requests",
        "grant" => "; `sjail queue grants` shows the grants",
        "pattern" => "; `sjail allowlist list` shows the patterns",
        _ => "",
    }
}
