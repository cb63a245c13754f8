//! The names in a folder, and what each of them is.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;

use crate::sys::directory::{self, Kind};
use crate::sys::file::{NO_LINKS, openat2};

/// What a folder holds that matters here.
#[derive(Debug)]
pub struct Listing {
    /// The folder, open for reading.
    pub fd: OwnedFd,
    /// What is in it.
    pub names: Vec<(CString, Kind)>,
}

/// Reads a folder, without following a link on the way to it.
pub fn of(path: &Path, buffer: &mut [u8]) -> Result<Listing, Errno> {
    let fd = open(path)?;
    // Reading the names is one permission, using them another.
    fstatat(&fd, c".", AtFlags::empty())?;
    let mut names = Vec::new();
    loop {
        let entries = directory::read(fd.as_fd(), buffer)?;
        if entries.is_end() {
            return Ok(Listing { fd, names });
        }
        for (name, kind) in entries {
            let kind = known(&fd, name, kind);
            names.push((name.to_owned(), kind));
        }
    }
}

/// Opens a folder, without following a link on the way to it.
pub fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?;
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    openat2(None, &path, flags, 0, NO_LINKS)
}

/// Some file systems do not say what a name is.
fn known(folder: &OwnedFd, name: &CStr, kind: Kind) -> Kind {
    if kind != Kind::Other {
        return kind;
    }
    match fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => match stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR => Kind::Folder,
            libc::S_IFREG => Kind::File,
            libc::S_IFLNK => Kind::Link,
            _ => Kind::Other,
        },
        Err(Errno::ENOENT) | Err(_) => Kind::Other,
    }
}

impl Listing {
    /// What a name stands for. Where none is spelled like this, one that differs in case
    /// only is it: a file system may fold case. Both can be there where it does not, and
    /// then `.GIT` must not pass for `.git`.
    pub fn kind(&self, wanted: &[u8]) -> Option<Kind> {
        let exactly = |name: &CStr| name.to_bytes() == wanted;
        let folded = |name: &CStr| name.to_bytes().eq_ignore_ascii_case(wanted);
        let mut names = self.names.iter();
        let found = names.clone().find(|(name, _)| exactly(name));
        found
            .or_else(|| names.find(|(name, _)| folded(name)))
            .map(|(_, kind)| *kind)
    }

    /// Whether there is such a name.
    pub fn has(&self, wanted: &[u8]) -> bool {
        self.kind(wanted).is_some()
    }

    /// Git takes a folder with these for a repository of its own; `commondir` says where the
    /// others are.
    pub fn is_bare(&self) -> bool {
        let own = self.has(b"objects") && self.has(b"refs");
        self.has(b"HEAD") && (own || self.has(b"commondir"))
    }
}
