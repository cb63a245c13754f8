//! Holding the command of a finished jail back until the broker has it in writing.

use std::os::fd::{AsFd, BorrowedFd};

use nix::poll::PollFlags;

use super::Permission;
use crate::channel::ToJail;
use crate::error::Error;
use crate::spawn::Jail;
use crate::supervise::{Guard, Notice};

/// Holds the command of a finished jail back until the broker has it in writing.
#[derive(Debug)]
pub struct Gate<'a> {
    permission: &'a mut Permission,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing may start.
    Closed,
    /// The command was let go.
    Open,
    /// It never will be.
    Failed(Option<Error>),
}

impl<'a> Gate<'a> {
    /// A closed gate.
    pub fn new(permission: &'a mut Permission) -> Gate<'a> {
        Gate {
            permission,
            state: State::Closed,
        }
    }

    /// Why the command was not let go, if that is so.
    pub fn failure(&mut self) -> Option<Error> {
        match &mut self.state {
            State::Failed(error) => error.take(),
            State::Closed | State::Open => None,
        }
    }

    /// Whether the command still has to be held back.
    pub fn is_closed(&self) -> bool {
        !matches!(self.state, State::Open)
    }

    fn look(&mut self) -> Result<bool, Error> {
        match self.permission.inquiry.client.answer_if_any() {
            Ok(None) => Ok(false),
            Ok(Some(answer)) => self.permission.confirmed(answer).map(|()| true),
            Err(trouble) => self.permission.ask_again(trouble).map(|()| false),
        }
    }
}

impl Guard for Gate<'_> {
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let client = &self.permission.inquiry.client;
        match self.state {
            State::Closed if client.has_more() => {
                // It has arrived already: the poll is to return at once.
                Some((
                    client.stream().as_fd(),
                    PollFlags::POLLIN | PollFlags::POLLOUT,
                ))
            }
            State::Closed => Some((client.stream().as_fd(), PollFlags::POLLIN)),
            State::Open | State::Failed(_) => None,
        }
    }

    fn notice(&mut self, jail: &Jail) -> Notice {
        match self.look() {
            Ok(false) => Notice::GoOn,
            Ok(true) => {
                self.state = State::Open;
                // Pid 1 may have ended meanwhile; its pidfd tells.
                let _ = jail.channel.send(ToJail::Start);
                Notice::GoOn
            }
            Err(error) => {
                self.state = State::Failed(Some(error));
                Notice::End
            }
        }
    }
}
