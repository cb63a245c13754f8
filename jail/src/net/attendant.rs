//! A process that attends a jail from outside: not there before the jail is, and perhaps gone
//! before it.

use std::os::fd::{AsFd, BorrowedFd};

use nix::poll::PollFlags;

use super::process::{self, Process};
use super::record::Entry;

/// The process, while there is one.
#[derive(Debug, Default)]
pub struct Attendant {
    process: Option<Process>,
    /// Whether it has gone before the jail.
    ended_early: bool,
}

impl Attendant {
    /// The process.
    pub fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// Where it speaks.
    pub fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let process = self.process.as_ref()?;
        Some((process.channel().as_fd(), PollFlags::POLLIN))
    }

    /// A jail may be built a second time: the one of the first is ended.
    pub fn end(&mut self) {
        if let Some(earlier) = self.process.take() {
            earlier.end();
        }
    }

    /// From here it is this one.
    pub fn begin(&mut self, process: Process) {
        self.process = Some(process);
    }

    /// It is gone, or does not do what it is for.
    pub fn lose(&mut self) {
        self.end();
        self.ended_early = true;
    }

    /// The jail has ended: what it has to say about it.
    pub fn finish(self) -> Vec<Entry> {
        match self.process {
            Some(process) => process.finish(),
            None if self.ended_early => vec![process::silent()],
            None => Vec::new(),
        }
    }
}
