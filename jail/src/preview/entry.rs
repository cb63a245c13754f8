//! One thing that a preview changed: what is shown, compared and committed.

use nix::sys::stat::FileStat;
use serde::{Deserialize, Serialize};
use sjail_policy::bytes::ByteString;

use crate::beneath::{Kind, kind};

/// A change below one of the writable places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The number of the place in the preview's list.
    pub layer: usize,
    /// The path below that place; empty for the place itself.
    pub path: ByteString,
    /// What happened.
    pub act: Act,
    /// What it is now, or was before it was deleted.
    pub kind: Kind,
    /// What it was, where it is something else now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<Kind>,
    /// Whether a folder above it is new as well and takes it along.
    #[serde(default, skip_serializing_if = "is_false")]
    pub within: bool,
    /// Files in it, for a deleted folder; 1 otherwise.
    pub files: u64,
    /// Its size now, 0 where it is gone.
    pub size: u64,
    /// Its size before, with all that was in it.
    pub old_size: u64,
    /// Its permissions before and now, where they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<(u32, u32)>,
    /// Its owner before and now, `uid:gid`, where they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<(String, String)>,
    /// Where a new or changed link leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<ByteString>,
    /// Where the same content was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<ByteString>,
    /// Where its content is now, of something deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_to: Option<ByteString>,
    /// The names that the host's file has; one of them changes, the others do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<u64>,
    /// When a folder was last changed: a commit that takes things out of it changes that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtime: Option<(i64, i64)>,
    /// What the layer had when it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Made>,
    /// What the host had when the preview ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    /// Why it is never committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_out: Option<String>,
    /// What would run it on the host later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_exec: Option<String>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// What happened to something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// It is new.
    Created,
    /// It has another content, or is something else.
    Modified,
    /// It is gone.
    Deleted,
    /// Its permissions or attributes differ.
    Changed,
    /// Only its times differ.
    Touched,
}

/// What the host had: enough to know later whether it still has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Its inode.
    pub ino: u64,
    /// When it was last changed in any way; for a deleted folder the newest in it.
    pub ctime: (i64, i64),
    /// When its content was last changed.
    pub mtime: (i64, i64),
    /// Its permissions.
    pub mode: u32,
    /// The hash of its content, where it is a file that is not too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Base {
    /// What this stat says.
    pub fn of(stat: &FileStat) -> Base {
        Base {
            ino: stat.st_ino,
            ctime: (stat.st_ctime, stat.st_ctime_nsec),
            mtime: (stat.st_mtime, stat.st_mtime_nsec),
            mode: stat.st_mode,
            sha256: None,
        }
    }

    /// Whether this stat says the same. Our own moves, which took place within these spans
    /// of time, change nothing but the time of the last change, and between file systems
    /// the inode.
    pub fn is(&self, stat: &FileStat, own: &[Span]) -> bool {
        let ctime = (stat.st_ctime, stat.st_ctime_nsec);
        let mtime = (stat.st_mtime, stat.st_mtime_nsec);
        self.mode == stat.st_mode
            && ((self.ino == stat.st_ino && self.ctime == ctime)
                || (self.ino != 0 && self.mtime == mtime && is_own(ctime, own)))
    }
}

/// What a layer had: enough to know later that nobody has put something else there. A
/// commit and its undoing move it about, which changes none of this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Its inode.
    pub ino: u64,
    /// When its content was last changed.
    pub mtime: (i64, i64),
    /// Its permissions.
    pub mode: u32,
}

impl Made {
    /// What this stat says.
    pub fn of(stat: &FileStat) -> Made {
        Made {
            ino: stat.st_ino,
            mtime: (stat.st_mtime, stat.st_mtime_nsec),
            mode: stat.st_mode,
        }
    }

    /// Whether this is still that, of this size. What is put into a folder, or taken out of
    /// it, is told by the names.
    pub fn is(&self, stat: &FileStat, size: u64) -> bool {
        let now = Made::of(stat);
        match kind(stat) {
            Kind::Folder => (self.ino, self.mode) == (now.ino, now.mode),
            _ => *self == now && content_size(stat) == size,
        }
    }
}

/// A span of time, as file systems tell it.
pub type Span = ((i64, i64), (i64, i64));

/// Whether a moment lies within one of these spans.
pub fn is_own(time: (i64, i64), own: &[Span]) -> bool {
    own.iter().any(|(from, to)| (*from..*to).contains(&time))
}

impl Entry {
    /// A change with nothing more said about it.
    pub fn new(layer: usize, path: ByteString, act: Act, now: Kind) -> Entry {
        Entry {
            layer,
            path,
            act,
            kind: now,
            was: None,
            within: false,
            files: 1,
            size: 0,
            old_size: 0,
            mode: None,
            owner: None,
            target: None,
            renamed_from: None,
            renamed_to: None,
            links: None,
            mtime: None,
            made: None,
            base: None,
            kept_out: None,
            auto_exec: None,
        }
    }

    /// Takes over what the host has.
    pub fn over(mut self, old: &FileStat) -> Entry {
        self.base = Some(Base::of(old));
        self.old_size = content_size(old);
        if kind(old) != self.kind {
            self.was = Some(kind(old));
        }
        if kind(old) == Kind::File && old.st_nlink > 1 {
            self.links = Some(old.st_nlink);
        }
        self
    }

    /// Takes over what the layer has.
    pub fn with(mut self, new: &FileStat) -> Entry {
        self.size = content_size(new);
        self.made = Some(Made::of(new));
        if kind(new) == Kind::Folder {
            self.mtime = Some((new.st_mtime, new.st_mtime_nsec));
        }
        self
    }

    /// Notes permissions and owners that differ.
    pub fn compare(mut self, old: &FileStat, new: &FileStat) -> Entry {
        let (before, now) = (old.st_mode & 0o7777, new.st_mode & 0o7777);
        if before != now && kind(new) != Kind::Link && kind(old) != Kind::Link {
            self.mode = Some((before, now));
        }
        let owner = |stat: &FileStat| format!("{}:{}", stat.st_uid, stat.st_gid);
        if owner(old) != owner(new) {
            self.owner = Some((owner(old), owner(new)));
        }
        self
    }

    /// Whether people want to hear of it.
    pub fn is_shown(&self) -> bool {
        // A folder's time follows from what is done in it.
        self.act != Act::Touched || self.kind != Kind::Folder
    }
}

/// The bytes that something holds itself.
pub fn content_size(stat: &FileStat) -> u64 {
    match kind(stat) {
        Kind::File => stat.st_size.unsigned_abs(),
        _ => 0,
    }
}
