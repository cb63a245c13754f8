//! The names in a folder, and what each of them is.

use std::ffi::CString;
use std::ops::Range;
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
    /// All names, one after the other: a folder can have many.
    bytes: Vec<u8>,
    names: Vec<(Range<usize>, Kind)>,
}

/// Reads a folder, without following a link on the way to it.
pub fn of(path: &Path, buffer: &mut [u8]) -> Result<Listing, Errno> {
    let fd = open(path)?;
    // Reading the names is one permission, using them another.
    fstatat(&fd, c".", AtFlags::empty())?;
    let (mut bytes, mut names) = (Vec::new(), Vec::new());
    loop {
        let entries = directory::read(fd.as_fd(), buffer)?;
        if entries.is_end() {
            return Ok(Listing { fd, bytes, names });
        }
        for (name, kind) in entries {
            let start = bytes.len();
            bytes.extend_from_slice(name.to_bytes());
            let kind = directory::known(fd.as_fd(), name, kind);
            names.push((start..bytes.len(), kind));
        }
    }
}

/// A folder with hundreds of names of which only this one matters, spelled like this.
pub fn only(path: &Path, wanted: &[u8]) -> Result<Listing, Errno> {
    let fd = open(path)?;
    fstatat(&fd, c".", AtFlags::empty())?;
    let mut listing = Listing {
        fd,
        bytes: wanted.to_vec(),
        names: Vec::new(),
    };
    let name = CString::new(wanted).map_err(|_| Errno::EINVAL)?;
    match fstatat(&listing.fd, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => listing
            .names
            .push((0..wanted.len(), directory::kind(&stat))),
        Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno),
    }
    Ok(listing)
}

/// Opens a folder, without following a link on the way to it.
pub fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?;
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    openat2(None, &path, flags, 0, NO_LINKS)
}

impl Listing {
    /// Each name, and what it is.
    pub fn names(&self) -> impl Iterator<Item = (&[u8], Kind)> + Clone {
        let name = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        self.names
            .iter()
            .map(move |(range, kind)| (name(range), *kind))
    }

    /// What a name stands for. Where none is spelled like this, one that differs in case
    /// only is it: a file system may fold case. Both can be there where it does not, and
    /// then `.GIT` must not pass for `.git`.
    pub fn kind(&self, wanted: &[u8]) -> Option<Kind> {
        let mut names = self.names();
        let found = names.clone().find(|(name, _)| *name == wanted);
        found
            .or_else(|| names.find(|(name, _)| name.eq_ignore_ascii_case(wanted)))
            .map(|(_, kind)| kind)
    }

    /// Whether there is such a name.
    pub fn has(&self, wanted: &[u8]) -> bool {
        self.kind(wanted).is_some()
    }

    /// Git takes a folder with these for a repository of its own; `commondir` says where the
    /// others are.
    pub fn is_bare(&self) -> bool {
        let own = || self.has(b"objects") && self.has(b"refs");
        self.has(b"HEAD") && (own() || self.has(b"commondir"))
    }
}
