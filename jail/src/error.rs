//! Everything that can go wrong outside the command: one enum, one sentence each that
//! says what was being done, why it failed and what to do.

use nix::errno::Errno;

use crate::exit::Exit;
use crate::step::Failure;

/// A failed act of sjail's own.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine is not linked in.
    #[error("the jail cannot be started yet")]
    Unready,
    /// The channel to pid 1 broke.
    #[error("talking to the jail's first process failed: {0}")]
    Channel(Errno),
    /// The limits group would not take the jail.
    #[error("limiting the jail failed: {0}")]
    Group(crate::limits::cgroup::Error),
    /// The loop's own waiting failed.
    #[error("waiting for the jail failed: {0}")]
    Wait(Errno),
    /// The pty's master could not be set up.
    #[error("connecting the terminal to the jail failed: {0}")]
    Terminal(Errno),
    /// A step of the set-up failed inside.
    #[error("setting up the jail failed: {0:?}")]
    SetUp(Failure),
    /// Pid 1 ended without saying how the command ended.
    #[error(
        "the jail's first process died before the command ended; was it killed from outside, or is memory short?"
    )]
    JailDied,
}

impl Error {
    /// The exit status that goes with the error.
    pub fn exit(&self) -> Exit {
        match self {
            Error::Unready
            | Error::Channel(_)
            | Error::Group(_)
            | Error::Wait(_)
            | Error::Terminal(_)
            | Error::SetUp(_)
            | Error::JailDied => Exit::Failed,
        }
    }
}
