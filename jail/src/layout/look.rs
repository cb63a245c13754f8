//! Looking at the host: what a path is, without following links unasked.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::stat::{FileStat, lstat};

use super::origin::{Kind, Seen};
use crate::sys::file::FileId;

/// What is at this path; a link is reported as a link. `None` when there is nothing that
/// this user could see.
pub fn at(path: &Path) -> Option<(Seen, FileStat)> {
    let stat = lstat(path).ok()?;
    let seen = Seen {
        path: path.to_owned(),
        id: FileId::from(&stat),
        kind: Kind::of(&stat),
    };
    Some((seen, stat))
}

/// The names in a folder: one look instead of one for each of a long list of candidates.
#[derive(Debug, Default)]
pub struct Names(HashSet<OsString>);

impl Names {
    /// What is in this folder; nothing if it cannot be read.
    pub fn of(folder: &Path) -> Names {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        Names(entries.map(|entry| entry.file_name()).collect())
    }

    /// Whether a path below the folder can exist: its first part does.
    pub fn may_have(&self, below: &Path) -> bool {
        below
            .components()
            .next()
            .is_some_and(|first| self.0.contains(first.as_os_str()))
    }
}

/// What a path leads to when all its links are followed, under its name without links.
pub fn through_links(path: &Path) -> Result<Seen, Errno> {
    let real = std::fs::canonicalize(path)
        .map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
    let stat = lstat(&real)?;
    Ok(Seen {
        id: FileId::from(&stat),
        kind: Kind::of(&stat),
        path: real,
    })
}
