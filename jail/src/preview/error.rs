//! Why a preview cannot be made, found, committed or taken back.

use std::io;
use std::path::PathBuf;

use super::commit::Conflict;
use super::show_path;

/// Why a preview cannot be made, found or committed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The layers' folders cannot be made.
    #[error("making the layers of the preview below {} failed: {source}; is there room, and is the folder yours?", path.display())]
    Make {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What the command did cannot be read.
    #[error("reading what the command did in the preview failed: {0}; the host is unchanged")]
    Look(io::Error),
    /// No such preview.
    #[error("there is no preview {id}; `sjail previews` lists them")]
    Unknown {
        /// As it was typed.
        id: String,
    },
    /// A preview that cannot be read.
    #[error("reading preview {id} failed: {source}; `sjail discard {id}` drops it")]
    Read {
        /// Which.
        id: String,
        /// Why.
        source: io::Error,
    },
    /// Somebody is at it.
    #[error("preview {id} is in use by another sjail; try again when that has ended")]
    Busy {
        /// Which.
        id: String,
    },
    /// The commit did not happen.
    #[error("committing preview {id} failed: {source}; the host is as it was before")]
    Commit {
        /// Which.
        id: String,
        /// Why.
        source: io::Error,
    },
    /// A commit could not be taken back to its end.
    #[error(
        "taking the commit of preview {id} back failed: {source}; what is left of it is done by `sjail undo {id}` when that is out of the way"
    )]
    Undo {
        /// Which.
        id: String,
        /// Why.
        source: io::Error,
    },
    /// The host has other plans.
    #[error("{}", conflicts_in_words(id, conflicts))]
    Conflicts {
        /// Which.
        id: String,
        /// What differs.
        conflicts: Vec<Conflict>,
    },
    /// What was approved is gone.
    #[error(
        "preview {id} is not what was shown to whoever approved it: nothing was done; ask again"
    )]
    NotAsShown {
        /// Which.
        id: String,
    },
    /// The approval is not one to keep it.
    #[error("preview {id} is not committed: the approval is for running the command; ask again")]
    NotApproved {
        /// Which.
        id: String,
    },
    /// Nothing to take back.
    #[error("preview {id} is not committed; there is nothing to take back")]
    NotCommitted {
        /// Which.
        id: String,
    },
    /// Nothing to commit again.
    #[error("preview {id} is already committed; `sjail undo {id}` takes it back")]
    IsCommitted {
        /// Which.
        id: String,
    },
    /// A path that was named is none of its changes.
    #[error(
        "preview {id} changes nothing at {}; `sjail diff --stat {id}` shows what it changes",
        show_path(path)
    )]
    NoChange {
        /// Which.
        id: String,
        /// As it was understood.
        path: PathBuf,
    },
    /// A path that was named is a part of what can only go as a whole.
    #[error(
        "preview {id} deletes {} as a whole; name that folder, not {}",
        show_path(above),
        show_path(path)
    )]
    DeletedWith {
        /// Which.
        id: String,
        /// As it was understood.
        path: PathBuf,
        /// The folder that is deleted.
        above: PathBuf,
    },
    /// The layers are not what was recorded.
    #[error(
        "preview {id} is not what it was when it was shown: {} in its layer was changed since; nothing was done, `sjail discard {id}` drops it",
        show_path(path)
    )]
    Tampered {
        /// Which.
        id: String,
        /// Where.
        path: PathBuf,
    },
    /// Its folder is needed.
    #[error(
        "preview {id} is half on the host, and its folder holds what is missing: `sjail undo {id}` takes it back; `sjail discard --force {id}` leaves the host as it is"
    )]
    HalfWay {
        /// Which.
        id: String,
    },
    /// A copy would be too large.
    #[error(
        "no preview of {}: an overlay cannot be had there, and a copy would be too large ({why}); a smaller --workspace, or XDG_STATE_HOME on another file system, may help",
        path.display()
    )]
    TooLarge {
        /// Of what.
        path: PathBuf,
        /// How large.
        why: String,
    },
}

impl Error {
    /// Why the commit of this preview did not happen.
    pub fn commit_of(id: &str) -> impl Fn(io::Error) -> Error + Copy {
        move |source| Error::Commit {
            id: id.to_owned(),
            source,
        }
    }

    /// Why the commit of this preview is not taken back.
    pub fn undo_of(id: &str) -> impl Fn(io::Error) -> Error + Copy {
        move |source| Error::Undo {
            id: id.to_owned(),
            source,
        }
    }

    /// Whether permissions were in the way.
    pub fn is_closed_door(&self) -> bool {
        match self {
            Error::Look(source) | Error::Commit { source, .. } | Error::Undo { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }
}

fn conflicts_in_words(id: &str, conflicts: &[Conflict]) -> String {
    const MOST: usize = 20;
    let mut text = format!(
        "nothing was done: the host is not what preview {id} saw; --force writes over it, or name the paths that you want"
    );
    for conflict in conflicts.iter().take(MOST) {
        let path = show_path(&conflict.path);
        text.push_str(&format!("\n  {path} {}", conflict.why));
    }
    if conflicts.len() > MOST {
        text.push_str(&format!("\n  … and {} more", conflicts.len() - MOST));
    }
    text
}
