//! Calls of a command that wait until its supervisor has looked at them: one after the
//! other, until nobody is observed any more.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::poll::PollFlags;
use sjail_policy::git_keys::normal;

use crate::sys::notify::{self, Call};

/// The observer's end.
#[derive(Debug, Default)]
pub struct Watched(Option<OwnedFd>);

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It goes on as if nobody had looked.
    GoOn,
    /// It gets this errno, and is not made.
    Refuse(i32),
}

impl Watched {
    /// What to wait for.
    pub fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let listener = self.0.as_ref()?;
        Some((listener.as_fd(), PollFlags::POLLIN))
    }

    /// Begins to observe; gives back whom it observed before.
    pub fn begin(&mut self, listener: OwnedFd) -> Option<OwnedFd> {
        self.0.replace(listener)
    }

    /// Answers the next call that waits.
    pub fn answer(&mut self, look: impl FnOnce(&Call) -> Answer) {
        let Some(listener) = &self.0 else {
            return;
        };
        match notify::receive(listener.as_fd()) {
            Ok(call) => {
                // Its process may have died meanwhile: nobody waits for the answer then.
                let _ = match look(&call) {
                    Answer::GoOn => notify::go_on(listener.as_fd(), &call),
                    Answer::Refuse(errno) => notify::refuse(listener.as_fd(), &call, errno),
                };
            }
            // Its process has died while it waited.
            Err(Errno::ENOENT | Errno::EINTR | Errno::EAGAIN) => {}
            // Nobody is observed any more: the jail has ended.
            Err(_) => self.0 = None,
        }
    }
}

/// A path that a call names, as its process sees it, from the folder that it starts at.
pub fn path(pid: u32, folder: i32, text: &[u8]) -> Option<PathBuf> {
    let text = Path::new(OsStr::from_bytes(text));
    let base = match text.is_absolute() {
        true => PathBuf::from("/"),
        false => self::folder(pid, folder),
    };
    normal(&base.join(text))
}

fn folder(pid: u32, folder: i32) -> PathBuf {
    let link = match folder {
        libc::AT_FDCWD => format!("/proc/{pid}/cwd"),
        number => format!("/proc/{pid}/fd/{number}"),
    };
    std::fs::read_link(link).unwrap_or_default()
}

/// The memory of a process.
pub fn memory(pid: u32) -> Option<File> {
    File::open(format!("/proc/{pid}/mem")).ok()
}

/// A number in another process.
pub fn word(memory: &File, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read_exact_at(&mut bytes, at).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

/// A string in another process, at most as long as a path may be.
pub fn string(memory: &File, at: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut chunk = [0; 256];
    while text.len() < libc::PATH_MAX as usize {
        // Not over the end of a page: the next one may not be there.
        let from = at + text.len() as u64;
        let length = (4096 - from % 4096).min(256) as usize;
        let chunk = chunk.get_mut(..length)?;
        memory.read_exact_at(chunk, from).ok()?;
        match chunk.iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend_from_slice(chunk.get(..end)?);
                return Some(text);
            }
            None => text.extend_from_slice(chunk),
        }
    }
    None
}
