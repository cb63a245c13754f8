//! The loop outside: waits for the jail, relays, watches limits.

use crate::channel::FromJail;
use crate::error::Error;
use crate::spawn::Jail;

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// The command's raw status as `waitpid` gave it.
    pub status: i32,
}

/// Lets the jail go and waits for its end.
pub fn run(jail: Jail) -> Result<Outcome, Error> {
    jail.go()?;
    let mut status = None;
    while let Some((message, _)) = jail.channel.receive().map_err(Error::Channel)? {
        match message {
            FromJail::Failed(failure) => return Err(Error::SetUp(failure)),
            FromJail::Exited { status: s } => status = Some(s),
            FromJail::Ready | FromJail::Started { .. } | FromJail::Stopped { .. } => {}
        }
    }
    status
        .map(|status| Outcome { status })
        .ok_or(Error::JailDied)
}
