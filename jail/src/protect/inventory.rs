//! What a look at a workspace has found: protected names, the folders around them, and
//! the moment at which it began.

use std::collections::HashSet;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::errno::Errno;
use nix::sys::stat::{FileStat, lstat};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, clock_gettime};

use super::gitlinks::Unread;
use crate::sys::directory::Kind;
use crate::sys::file::FileId;
use crate::sys::statx;
use crate::tick;

/// Everything that one look found.
#[derive(Debug, Default)]
pub struct Inventory {
    /// Protected names that exist.
    pub sightings: Vec<Sighting>,
    /// Folders whose names matter: a protected name could appear in them.
    pub places: Vec<Watched>,
    /// The folders of git.
    pub git_dirs: Vec<GitDir>,
    /// Folders that were read in search of repositories, with their depth.
    pub searched: Vec<(PathBuf, u8)>,
    /// The folders in those, searched or not.
    pub children: Vec<PathBuf>,
    /// The tops: the workspace's, repositories', and those on the way to the working folder.
    pub tops: Vec<PathBuf>,
    /// When the look began.
    pub time: Option<Moment>,
    /// What something protected leads to and is not there yet.
    pub awaited: Vec<PathBuf>,
    /// A protected name could appear in folders that are not watched.
    pub is_unwatched: bool,
    /// The indexes of git that were read for what they name.
    pub indexes: Vec<PathBuf>,
    /// Those of which nobody can tell that.
    pub unread: Vec<(PathBuf, Unread)>,
    /// Folders that cannot be looked into.
    pub shut: Vec<PathBuf>,
    /// Folders that could not, and were opened.
    pub opened: Vec<PathBuf>,
    /// Folders outside the workspace that git needs, checked both ways.
    pub grants: Vec<PathBuf>,
    /// What could not be honoured, in sentences.
    pub notes: Vec<String>,
}

/// A protected name that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// Absolute.
    pub path: PathBuf,
    /// Which file it is.
    pub id: FileId,
    /// When it was made: numbers of deleted files are given again.
    pub born: (i64, u32),
    /// What it is.
    pub kind: Kind,
    /// How many names lead to it.
    pub names: u64,
    /// What it is for.
    pub role: Role,
}

/// What a protected name is for, which says how a change is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A name of the list, or one that git's configuration points to.
    Plain,
    /// A configuration of git: judged by its keys.
    GitConfig,
    /// Git's hooks: samples are harmless.
    GitHooks,
    /// Another file of git that points elsewhere.
    GitOther,
    /// A `.git` file, which says where git's folder is.
    Pointer,
    /// What git keeps of a working tree that is not in the workspace: nothing changes.
    ForeignWorktree,
    /// What a protected name leads to that was a link at the start.
    Target,
    /// A folder that could not be looked into at the start: nothing in it changes.
    Shut,
    /// A folder on the way to one of the others.
    Way,
}

/// A folder of git: `.git`, a submodule's, a bare repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitDir {
    /// Absolute.
    pub path: PathBuf,
}

/// An open folder that can be asked to report changes.
#[derive(Debug)]
pub struct Watched {
    /// Absolute.
    pub path: PathBuf,
    /// Open for reading.
    pub fd: OwnedFd,
}

impl Sighting {
    /// Whether the other one is of the same file at the same place.
    pub fn is_same(&self, other: &Sighting) -> bool {
        self.path == other.path && self.id == other.id && self.born == other.born
    }

    /// Whether it is a file that was to be found by another name, too, when it was seen.
    pub fn has_second_name(&self) -> bool {
        self.kind == Kind::File && self.names > 1
    }

    /// What is at a path now.
    pub fn at(path: &Path, role: Role) -> Option<Sighting> {
        let stat = lstat(path).ok()?;
        let name = CString::new(path.as_os_str().as_bytes()).ok()?;
        let kind = match stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR => Kind::Folder,
            libc::S_IFREG => Kind::File,
            libc::S_IFLNK => Kind::Link,
            _ => Kind::Other,
        };
        Some(Sighting {
            path: path.to_owned(),
            id: FileId::from(&stat),
            born: statx::born(&name).unwrap_or_default(),
            kind,
            names: stat.st_nlink,
            role,
        })
    }
}

impl Inventory {
    /// Takes over what another look has found.
    pub fn absorb(&mut self, other: Inventory) {
        let known: HashSet<PathBuf> = paths(&self.sightings);
        let new = |sighting: &Sighting| !known.contains(&sighting.path);
        self.sightings
            .extend(other.sightings.into_iter().filter(new));
        let known: HashSet<PathBuf> = self.git_dirs.iter().map(|dir| dir.path.clone()).collect();
        let new = |git_dir: &GitDir| !known.contains(&git_dir.path);
        self.git_dirs.extend(other.git_dirs.into_iter().filter(new));
        self.places.extend(other.places);
        self.children.extend(other.children);
        self.opened.extend(other.opened);
        self.unread.extend(other.unread);
    }

    /// Without plain names and ways: what a new repository is judged by. Plain names in
    /// a folder that the command has made are nobody's settings yet.
    pub fn repositories_only(mut self) -> Inventory {
        self.sightings
            .retain(|sighting| !matches!(sighting.role, Role::Plain | Role::Target | Role::Way));
        self
    }

    /// The sightings in the order in which they must be mounted: ways before what they
    /// lead to. What lies below something read-only needs nothing of its own.
    pub fn mounted(&self) -> Vec<&Sighting> {
        let closing =
            |sighting: &&Sighting| sighting.role != Role::Way && sighting.kind == Kind::Folder;
        let folders: HashSet<&Path> = self
            .sightings
            .iter()
            .filter(closing)
            .map(|sighting| sighting.path.as_path())
            .collect();
        let closed = |sighting: &Sighting| {
            let mut above = sighting.path.ancestors().skip(1);
            above.any(|ancestor| folders.contains(ancestor))
        };
        let mut list: Vec<&Sighting> = self.sightings.iter().filter(|s| !closed(s)).collect();
        list.sort_by_key(|sighting| sighting.path.components().count());
        list
    }
}

/// The places of these, to be asked for.
pub fn paths(sightings: &[Sighting]) -> HashSet<PathBuf> {
    sightings
        .iter()
        .map(|sighting| sighting.path.clone())
        .collect()
}

/// A moment by the clock that file systems write change times with. Change times cannot
/// be set by anybody, so a folder whose change time lies before this has not changed since.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    real: TimeSpec,
    boot: TimeSpec,
    /// So much older a change time may be than what was changed.
    grain: TimeSpec,
}

impl Moment {
    /// Now.
    pub fn now() -> Moment {
        let read = |clock| clock_gettime(clock).unwrap_or(TimeSpec::new(0, 0));
        Moment {
            real: read(ClockId::CLOCK_REALTIME),
            boot: read(ClockId::CLOCK_BOOTTIME),
            grain: TimeSpec::new(0, 20_000_000),
        }
    }

    /// A moment from which on the clock of file systems can tell what came before it: waits
    /// for that clock's next step.
    pub fn sharp() -> Moment {
        let (seconds, nanoseconds) = tick::next();
        let (now, real) = (Moment::now(), TimeSpec::new(seconds, nanoseconds));
        Moment {
            real,
            boot: now.boot - (now.real - real),
            grain: TimeSpec::new(0, 0),
        }
    }

    /// A moment in the past; the beginning of time, if nobody knows it.
    pub fn at(time: &io::Result<SystemTime>) -> Moment {
        let now = Moment::now();
        let age = time.as_ref().ok().and_then(|time| time.elapsed().ok());
        let age = age.map_or(now.real, TimeSpec::from);
        Moment {
            real: now.real - age,
            boot: now.boot - age,
            ..now
        }
    }

    /// Whether names in a folder can have changed since. In doubt, yes: when the clock
    /// was set meanwhile, or the folder changed so shortly before that its file system's
    /// coarse clock cannot tell.
    pub fn may_have_changed(&self, folder: &Path) -> bool {
        lstat(folder).map_or(true, |stat| self.may_precede(&stat))
    }

    /// The same for what is in a file. On a file system in memory nobody notes when what is
    /// mapped was written.
    pub fn may_have_been_written(&self, file: &Path) -> bool {
        let in_memory = || statfs(file).is_ok_and(|fs| fs.filesystem_type() == TMPFS_MAGIC);
        match lstat(file) {
            Ok(stat) => self.may_precede(&stat) || in_memory(),
            Err(errno) => errno != Errno::ENOENT,
        }
    }

    /// The same for what this is the stat of.
    pub fn may_precede(&self, stat: &FileStat) -> bool {
        const STEP: i64 = 5_000_000;
        let now = Moment::now();
        let moved = (now.real - self.real) - (now.boot - self.boot);
        if moved.num_nanoseconds().abs() > STEP {
            return true;
        }
        let changed = TimeSpec::new(stat.st_ctime, stat.st_ctime_nsec);
        changed >= self.real - self.grain
    }
}
