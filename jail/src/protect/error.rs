//! Why protecting cannot begin.

use std::io;
use std::path::PathBuf;

use nix::errno::Errno;
use sjail_policy::show;

use super::gitlinks::Unread;
use super::scan::MAX_NAMES;
use crate::cleanup;

/// Why protecting cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folders cannot be watched.
    #[error("watching the workspace for protected names failed: {}", .0.desc())]
    Watch(Errno),
    /// There are too many protected names to hold each of them.
    #[error(
        "{} and the repositories in it hold {found} protected names, more than the {} that can be held; run it in a folder further down, with --workspace there, or with a smaller protect.depth",
        show::name(workspace),
        MAX_NAMES
    )]
    TooMany {
        /// Where.
        workspace: PathBuf,
        /// How many.
        found: usize,
    },
    /// Nobody can tell what is in the workspace.
    #[error("the workspace {path} cannot be looked into, because its mode keeps its own owner out, so nobody can tell which names in it are protected; `chmod u+rwx {path}` opens it", path = show::name(.0))]
    Shut(PathBuf),
    /// Nobody can tell what git would obey.
    #[error("{index} {why}, so nobody can tell what `git status` would obey; `git reset` writes a new one, or move it away", index = show::name(index))]
    Index {
        /// Which file.
        index: PathBuf,
        /// What is the matter with it.
        why: Unread,
    },
    /// The copy of a folder of git cannot be made.
    #[error(
        "making a copy of {} for a git command that writes git's configuration failed: {source}",
        show::name(path)
    )]
    Copy {
        /// Which folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The copy cannot be noted for the case that sjail is killed.
    #[error(transparent)]
    Note(#[from] cleanup::Error),
    /// A protected file can be written by another name.
    #[error("{path} has a second name (a hard link), by which a command could write it, and cannot be made a file of its own: {source}; `find . -samefile {path}` shows the other, remove one", path = show::name(path))]
    SecondName {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The record cannot be written.
    #[error("writing the record of protected names failed: {0}; is XDG_RUNTIME_DIR yours?")]
    Record(io::Error),
}
