//! Asking about a host that no rule speaks of, while its connection is held.
//!
//! Each question is put by a child of its own, which waits for the broker's answer and
//! passes it to the relay: nothing else waits for it.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use sjail_policy::wire::request::{ASK_HOST, AskHost, HostAnswer, HostVerdict};

use super::confine;
use super::record::ToRelay;
use crate::client::{Client, Desk};
use crate::report::say;
use crate::sys::{namespace, process};

/// So many questions may be open at once; who asks more is refused.
const MOST: usize = 8;

/// Who can be asked, and on whose behalf.
#[derive(Debug, Clone)]
pub struct Asker {
    /// Where the broker is.
    pub desk: Desk,
    /// The run.
    pub run: String,
    /// Its proof.
    pub token: String,
}

/// The questions of one run.
#[derive(Debug, Default)]
pub struct Questions {
    asker: Option<Asker>,
    open: Vec<Pid>,
}

impl Questions {
    /// With somebody who can be asked, or nobody.
    pub fn to(asker: Option<Asker>) -> Questions {
        Questions {
            asker,
            open: Vec::new(),
        }
    }

    /// Puts a question; the answer goes to the relay. Without anybody to ask it is no.
    pub fn put(&mut self, name: &str, port: u16, relay: &OwnedFd) {
        self.open.retain(|child| {
            let done = waitpid(*child, Some(nix::sys::wait::WaitPidFlag::WNOHANG));
            matches!(done, Ok(nix::sys::wait::WaitStatus::StillAlive))
        });
        let asked = match &self.asker {
            Some(asker) if self.open.len() < MOST => {
                say(&format!(
                    "the command wants to reach {name}:{port}, which waits for an answer: sjail queue list"
                ));
                namespace::apart(|| put(asker, name, port, relay))
            }
            _ => Err(Errno::EAGAIN),
        };
        match asked {
            Ok(child) => self.open.push(child),
            Err(_) => answer(relay, name, port, false),
        }
    }

    /// Nobody waits for answers any more.
    pub fn withdraw(&mut self) {
        for child in self.open.drain(..) {
            let _ = kill(child, Signal::SIGKILL);
            while waitpid(child, None) == Err(Errno::EINTR) {}
        }
    }
}

/// The child: asks, waits, passes the answer on.
fn put(asker: &Asker, name: &str, port: u16, relay: &OwnedFd) -> i32 {
    if process::die_with_parent().is_err() || confine::close_others(&[relay.as_raw_fd()]).is_err() {
        return 1;
    }
    let question = AskHost {
        run: asker.run.clone(),
        token: asker.token.clone(),
        host: name.to_owned(),
        port,
        reason: Some("the running command dials it, and no rule speaks of it".to_owned()),
        wait_ms: None,
    };
    let said = Client::connect(&asker.desk)
        .and_then(|mut client| client.call(ASK_HOST, &question))
        .ok()
        .and_then(|reply| serde_json::from_value::<HostAnswer>(reply).ok());
    let allowed = said.is_some_and(|said| said.answer != HostVerdict::No);
    answer(relay, name, port, allowed);
    0
}

fn answer(relay: &OwnedFd, name: &str, port: u16, allowed: bool) {
    let word = ToRelay::Answer {
        name: name.to_owned(),
        port,
        allowed,
    };
    // A relay that is gone needs no answers.
    let _ = super::process::say(relay, &word);
}
