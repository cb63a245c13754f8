//! Looking at the host: what a path is, without following links unasked.

use std::path::Path;

use nix::errno::Errno;
use nix::sys::stat::{FileStat, lstat};

use super::tree::{Kind, Seen};
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
