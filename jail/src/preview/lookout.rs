//! Sees which folders a command tries to rename in a preview: an overlay refuses what the
//! host would do, and whoever looks at the preview is to hear of it. Nothing is decided
//! here, and no other call is looked at.

use std::collections::BTreeSet;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use nix::poll::PollFlags;

use crate::spawn::Jail;
use crate::supervise::{Guard, Notice};
use crate::sys::notify::Call;
use crate::watched::{self, Answer, Watched};

/// More different names tell nobody more.
const MOST: usize = 1000;

/// Looks at renames while the command runs.
#[derive(Debug, Default)]
pub struct Lookout {
    calls: Watched,
    tried: BTreeSet<PathBuf>,
}

impl Lookout {
    /// What the command tried to rename, as it sees it.
    pub fn finish(self) -> BTreeSet<PathBuf> {
        self.tried
    }

    fn look(&mut self, call: &Call) -> Option<()> {
        if self.tried.len() >= MOST {
            return None;
        }
        let args = call.data.args;
        let (folder, text) = match libc::c_long::from(call.data.nr) {
            libc::SYS_renameat | libc::SYS_renameat2 => (args[0] as i32, args[1]),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => (libc::AT_FDCWD, args[0]),
            _ => return None,
        };
        let text = watched::string(&watched::memory(call.pid)?, text)?;
        self.tried.insert(watched::path(call.pid, folder, &text)?);
        Some(())
    }
}

impl Guard for Lookout {
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.calls.waits_for()
    }

    fn notice(&mut self, _: &Jail) -> Notice {
        let mut calls = std::mem::take(&mut self.calls);
        calls.answer(|call| {
            let _ = self.look(call);
            Answer::GoOn
        });
        self.calls = calls;
        Notice::GoOn
    }

    fn take_listener(&mut self, listener: OwnedFd) -> Option<OwnedFd> {
        self.calls.begin(listener)
    }
}
