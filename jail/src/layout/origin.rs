//! Where what a jail shows comes from, and how it is shown.

use std::path::PathBuf;

use nix::sys::stat::{FileStat, SFlag};

use super::What;
use crate::sys::file::FileId;
use crate::sys::mount::{NO_DEVICES, NO_EXEC, NO_SUID, READ_ONLY};

/// Where a mount comes from.
#[derive(Debug)]
pub enum Origin {
    /// The host's file system.
    Host(Seen),
    /// The jail's own.
    Own(What),
}

/// A folder or file of the host, as the supervisor saw it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its path, without links.
    pub path: PathBuf,
    /// Its identity.
    pub id: FileId,
    /// Whether it can contain others.
    pub kind: Kind,
}

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// Anything else: a file, a device, a socket.
    File,
}

impl Kind {
    /// What this is the stat of.
    pub fn of(stat: &FileStat) -> Kind {
        match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFDIR => Kind::Folder,
            SFlag::S_IFLNK => Kind::Link,
            _ => Kind::File,
        }
    }
}

/// How a host path is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Read and executed.
    ReadOnly,
    /// Changed as well.
    Writable,
    /// A device: used, but its own permissions and times cannot be changed.
    Device,
}

impl Shown {
    /// `MOUNT_ATTR_*`.
    pub fn attributes(self) -> u64 {
        match self {
            Shown::ReadOnly => READ_ONLY | NO_SUID | NO_DEVICES,
            Shown::Writable => NO_SUID | NO_DEVICES,
            Shown::Device => READ_ONLY | NO_SUID | NO_EXEC,
        }
    }
}
