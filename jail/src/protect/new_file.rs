//! A file that takes another's place by being renamed over it.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::beneath::Beneath;

/// A name of our own in the same folder.
pub fn beside(below: &Path) -> PathBuf {
    let bytes = crate::sys::random::bytes::<6>();
    let unique: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    below.with_file_name(format!(".sjail-{unique}"))
}

/// A new file beside the one that it is to replace; gone if it does not.
#[derive(Debug)]
pub struct New {
    folder: OwnedFd,
    name: Option<CString>,
    /// Open for writing.
    pub file: File,
}

impl New {
    /// Makes it beneath an open folder.
    pub fn make(side: &Beneath, beside: &Path, mode: Mode) -> io::Result<New> {
        let (folder, name) = side.parent(beside)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let file = openat(&folder, name.as_c_str(), flags | OFlag::O_NOFOLLOW, mode)?;
        Ok(New {
            folder,
            name: Some(name),
            file: file.into(),
        })
    }

    /// Gives it the name of the one that it replaces.
    pub fn rename(mut self, over: &Path) -> io::Result<()> {
        let over = over.file_name().unwrap_or_default();
        if let Some(name) = &self.name {
            renameat(&self.folder, name.as_c_str(), &self.folder, over)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for New {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(&self.folder, name.as_c_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}
