//! Sees which folders a command tries to rename in a preview: an overlay refuses what the
//! host would do, and whoever looks at the preview is to hear of it. Nothing is decided
//! here, and no other call is looked at.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::poll::PollFlags;

use super::edges;
use crate::spawn::Jail;
use crate::supervise::{Guard, Notice};
use crate::sys::notify::{self, Call};
use crate::trace;

/// More different names tell nobody more.
const MOST: usize = 1000;

/// Looks at renames while the command runs.
#[derive(Debug, Default)]
pub struct Lookout {
    listener: Option<OwnedFd>,
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
        let text = trace::string(&trace::memory(call.pid)?, text)?;
        let base = match text.first() {
            Some(b'/') => PathBuf::from("/"),
            _ => trace::folder(call.pid, folder),
        };
        self.tried.insert(edges::joined(&base, &text)?);
        Some(())
    }
}

impl Guard for Lookout {
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let listener = self.listener.as_ref()?;
        Some((listener.as_fd(), PollFlags::POLLIN))
    }

    fn notice(&mut self, _: &Jail) -> Notice {
        let Some(listener) = self.listener.take() else {
            return Notice::GoOn;
        };
        match notify::receive(listener.as_fd()) {
            Ok(call) => {
                let _ = self.look(&call);
                // Its process may have died meanwhile: nobody waits for the answer then.
                let _ = notify::go_on(listener.as_fd(), &call);
                self.listener = Some(listener);
            }
            // Its process has died while it waited.
            Err(Errno::ENOENT | Errno::EINTR | Errno::EAGAIN) => self.listener = Some(listener),
            // Nobody is observed any more: the jail has ended.
            Err(_) => {}
        }
        Notice::GoOn
    }

    fn take_listener(&mut self, listener: OwnedFd) -> Option<OwnedFd> {
        self.listener.replace(listener)
    }
}
