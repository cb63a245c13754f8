//! Comparing what a preview left with what the host has.
//!
//! Of an overlay only the upper layer is gone through: what the command did not touch is
//! not looked at, however large the workspace is. Of a copy everything is.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::FileStat;
use sha2::{Digest, Sha256};

use super::entry::{Act, Base, Entry, Span, content_size, is_own};
use super::layer::Means;
use super::names::Guarded;
use crate::beneath::{Beneath, Kind, kind, stat_in};

/// Up to this size a file's content is hashed, to tell later whether the host changed it.
const HASHED: u64 = 64 << 20;

/// So many folders are kept open, one below the other.
const OPEN: usize = 64;

/// Folders below this are not looked through: nobody has so many in each other, and the way to
/// each is walked again.
const DEEPEST: usize = 512;

/// One place's layer and the host's folder under it.
pub struct Walk<'a> {
    /// The place's number.
    pub layer: usize,
    /// What the command left.
    pub upper: &'a Beneath,
    /// What the host has.
    pub lower: &'a Beneath,
    /// How the layer is made.
    pub means: Means,
    /// What must not be committed.
    pub guarded: &'a Guarded,
    /// What is mounted below the host's folder: a commit cannot reach into it.
    pub mounts: &'a [PathBuf],
    /// When the command started: an older file of a copy was not touched, a newer one of
    /// the host has changed meanwhile.
    pub started: (i64, i64),
    /// The only name that counts, where it is not the whole folder.
    pub only: Option<&'a Path>,
    /// Who judges the configuration of a repository that the command made.
    pub judge: &'a mut dyn FnMut(&Path),
    /// Who takes the changes.
    pub sink: &'a mut dyn FnMut(Entry) -> io::Result<()>,
}

/// A folder that is being gone through.
struct Folder {
    path: PathBuf,
    /// The layer's, open: what is in it is found without going all the way each time. None
    /// where so many are open already that there would be no end of them.
    place: Option<OwnedFd>,
    /// What the layer has in it, in order.
    names: Vec<OsString>,
    next: usize,
    ground: Ground,
}

/// Whether the host has the folder that is being gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ground {
    /// It has, and what is in it shows through.
    Merged,
    /// It has, but the layer hides all of it: the folder, or one above, was made anew. Only
    /// the topmost of those carries the overlay's mark.
    Hidden,
    /// It has not.
    New,
}

impl Walk<'_> {
    /// Goes through the whole layer.
    pub fn run(&mut self) -> io::Result<()> {
        if let Some(name) = self.only {
            let old = self.lower.stat(name)?;
            return match self.upper.stat(name)? {
                Some(new) => self.leaf(name, &new, old.as_ref(), Ground::Merged),
                None => Ok(()),
            };
        }
        let top = Path::new("");
        if let (Some(old), Some(new)) = (self.lower.stat(top)?, self.upper.stat(top)?) {
            self.merged(top, &old, &new)?;
        }
        // Not by recursion: a command can nest folders deeper than a stack is.
        let mut open = vec![self.folder(top.to_owned(), Ground::Merged, 0)?];
        while let Some(folder) = open.last_mut() {
            let Some(name) = folder.names.get(folder.next) else {
                self.hidden(folder)?;
                open.pop();
                continue;
            };
            folder.next += 1;
            let path = folder.path.join(name);
            let new = match &folder.place {
                Some(place) => stat_in(place, &CString::new(name.as_bytes())?)?,
                None => self.upper.stat(&path)?,
            };
            let found = match new {
                Some(new) if kind(&new) == Kind::Folder && path.iter().count() > DEEPEST => {
                    self.too_deep(&path, folder.ground).map(|()| None)?
                }
                Some(new) => self.one(&path, &new, folder.ground)?,
                None => self.too_deep(&path, folder.ground).map(|()| None)?,
            };
            if let Some(ground) = found {
                open.push(self.folder(path, ground, open.len())?);
            }
        }
        Ok(())
    }

    fn folder(&self, path: PathBuf, ground: Ground, depth: usize) -> io::Result<Folder> {
        let is_marked = self.means == Means::Copy || self.upper.is_opaque(&path);
        Ok(Folder {
            place: match depth < OPEN {
                true => Some(self.upper.place(&path)?),
                false => None,
            },
            names: self.upper.names(&path)?,
            next: 0,
            ground: match ground {
                Ground::Merged if is_marked => Ground::Hidden,
                ground => ground,
            },
            path,
        })
    }

    /// What the host has in a folder and the layer hides, without putting anything there.
    fn hidden(&mut self, folder: &Folder) -> io::Result<()> {
        if folder.ground != Ground::Hidden {
            return Ok(());
        }
        for name in self.lower.names(&folder.path).unwrap_or_default() {
            if folder.names.binary_search(&name).is_err() {
                let path = folder.path.join(name);
                if let Some(old) = self.lower.stat(&path)? {
                    self.deleted(&path, &old)?;
                }
            }
        }
        Ok(())
    }

    /// One name; a folder is gone into, and this is what the host has there.
    fn one(&mut self, path: &Path, new: &FileStat, ground: Ground) -> io::Result<Option<Ground>> {
        let old = match ground {
            Ground::Merged | Ground::Hidden => self.lower.stat(path)?,
            Ground::New => None,
        };
        let old = old.as_ref();
        match (kind(new), old) {
            (Kind::Whiteout, Some(old)) => self.deleted(path, old)?,
            (Kind::Whiteout, None) => {}
            (Kind::Folder, Some(old)) if kind(old) == Kind::Folder => {
                self.merged(path, old, new)?;
                return Ok(Some(ground));
            }
            (Kind::Folder, old) => {
                let act = if old.is_some() {
                    Act::Modified
                } else {
                    Act::Created
                };
                let mut entry = self.entry(path, act, Kind::Folder).with(new);
                entry.files = 0;
                entry.within = ground == Ground::New;
                let entry = match old {
                    Some(old) => self.based(entry, path, old),
                    None => entry,
                };
                self.put(entry)?;
                // A repository, by its name or by what is in it.
                let has = |name: &str| matches!(self.upper.stat(&path.join(name)), Ok(Some(_)));
                if path.file_name() == Some(".git".as_ref()) || has("HEAD") && has("config") {
                    (self.judge)(&self.upper.path().join(path).join("config"));
                }
                return Ok(Some(Ground::New));
            }
            _ => self.leaf(path, new, old, ground)?,
        }
        Ok(None)
    }

    /// Deeper than a path can say, or than anybody looks: it stays behind.
    fn too_deep(&mut self, path: &Path, ground: Ground) -> io::Result<()> {
        let mut entry = self.entry(path, Act::Created, Kind::Folder);
        entry.files = 0;
        entry.within = ground == Ground::New;
        entry.kept_out = Some("lies too deep to be looked through".to_owned());
        (self.sink)(entry)
    }

    /// A folder on both sides.
    fn merged(&mut self, path: &Path, old: &FileStat, new: &FileStat) -> io::Result<()> {
        let entry = self
            .entry(path, Act::Changed, Kind::Folder)
            .over(old)
            .with(new)
            .compare(old, new);
        let attributes = self.upper.attributes(path)? != self.lower.attributes(path)?;
        // Also where nothing differs: what a commit puts into it changes its time.
        let act = match entry.mode.is_some() || attributes {
            true => Act::Changed,
            false => Act::Touched,
        };
        self.put(Entry {
            act,
            files: 0,
            ..entry
        })
    }

    fn leaf(
        &mut self,
        path: &Path,
        new: &FileStat,
        old: Option<&FileStat>,
        ground: Ground,
    ) -> io::Result<()> {
        let now = kind(new);
        let Some(old) = old else {
            let mut entry = self.entry(path, Act::Created, now).with(new);
            entry.within = ground == Ground::New;
            entry.target = self.target(path, now);
            return self.put(entry);
        };
        if self.means == Means::Copy && (new.st_ctime, new.st_ctime_nsec) < self.started {
            return Ok(());
        }
        let same = kind(old) == now
            && match now {
                Kind::File => content_size(old) == content_size(new) && self.same_content(path)?,
                Kind::Link => self.upper.link(path)? == self.lower.link(path)?,
                _ => old.st_rdev == new.st_rdev,
            };
        // A second name of the same file is only kept if both names are carried over.
        let linked = self.means == Means::Overlay && new.st_nlink > 1 && now == Kind::File;
        let act = if !same || linked {
            Act::Modified
        } else if self.upper.attributes(path)? != self.lower.attributes(path)?
            || (old.st_mode != new.st_mode && now != Kind::Link)
        {
            Act::Changed
        } else if times(old) != times(new) {
            Act::Touched
        } else {
            return Ok(());
        };
        let entry = self.entry(path, act, now);
        let mut entry = self.based(entry, path, old).with(new).compare(old, new);
        if !same {
            entry.target = self.target(path, now);
        }
        self.put(entry)
    }

    /// Whether something lies in, or holds, what is mounted below the host's folder.
    fn mounted(&self, entry: &Entry) -> Option<String> {
        let path = entry.path.as_path();
        let is_kept = matches!(entry.act, Act::Changed | Act::Touched);
        let found = self
            .mounts
            .iter()
            .find(|mount| path.starts_with(mount) || mount.starts_with(path) && !is_kept)?;
        Some(match path.starts_with(found) {
            true => "lies on a file system that is mounted there".to_owned(),
            false => "holds something that is mounted there".to_owned(),
        })
    }

    fn target(&self, path: &Path, now: Kind) -> Option<sjail_policy::bytes::ByteString> {
        match now {
            Kind::Link => self.upper.link(path).ok().map(Into::into),
            _ => None,
        }
    }

    fn deleted(&mut self, path: &Path, old: &FileStat) -> io::Result<()> {
        let entry = self.entry(path, Act::Deleted, kind(old));
        let mut entry = self.based(entry, path, old);
        entry.was = None;
        if kind(old) == Kind::Folder {
            let mut count = Count::default();
            count.add(self.lower, path);
            entry.files = count.files;
            entry.old_size = count.bytes;
            if let Some(base) = &mut entry.base {
                base.ctime = base.ctime.max(count.newest);
            }
        }
        self.put(entry)
    }

    fn entry(&self, path: &Path, act: Act, now: Kind) -> Entry {
        Entry::new(self.layer, path.into(), act, now)
    }

    /// What the host has, with its content where that can be told apart.
    fn based(&self, entry: Entry, path: &Path, old: &FileStat) -> Entry {
        let mut entry = entry.over(old);
        if let Some(base) = &mut entry.base
            && base.ctime >= self.started
        {
            // The host changed it while the command ran: it is never what was seen.
            base.ino = 0;
            return entry;
        }
        let hashed =
            kind(old) == Kind::File && content_size(old) <= HASHED && entry.act != Act::Deleted;
        if hashed && let Some(base) = &mut entry.base {
            base.sha256 = self.lower.file(path).and_then(hash).ok();
        }
        entry
    }

    fn same_content(&self, path: &Path) -> io::Result<bool> {
        same(self.upper.file(path)?, self.lower.file(path)?)
    }

    fn put(&mut self, mut entry: Entry) -> io::Result<()> {
        let full = self.lower.path().join(entry.path.as_path());
        entry.kept_out = self
            .guarded
            .why(&full, entry.act, self.upper, self.lower)
            .or_else(|| self.mounted(&entry));
        if entry.act == Act::Touched && entry.kept_out.is_some() && entry.kind == Kind::Folder {
            return Ok(());
        }
        entry.auto_exec = match entry.act {
            Act::Deleted | Act::Touched => None,
            _ if entry.kind == Kind::Folder => None,
            _ => super::auto_exec::runs(&full).map(str::to_owned),
        };
        (self.sink)(entry)
    }
}

fn times(stat: &FileStat) -> (i64, i64) {
    (stat.st_mtime, stat.st_mtime_nsec)
}

/// What is in a folder, all told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Everything but folders.
    pub files: u64,
    /// The bytes of the files.
    pub bytes: u64,
    /// The newest change of anything.
    pub newest: (i64, i64),
}

impl Count {
    /// Adds what lies below a path.
    pub fn add(&mut self, beneath: &Beneath, path: &Path) {
        let mut open = vec![path.to_owned()];
        while let Some(folder) = open.pop() {
            for name in beneath.names(&folder).unwrap_or_default() {
                let path: PathBuf = folder.join(name);
                let Ok(Some(stat)) = beneath.stat(&path) else {
                    continue;
                };
                self.newest = self.newest.max((stat.st_ctime, stat.st_ctime_nsec));
                if kind(&stat) == Kind::Folder {
                    open.push(path);
                } else {
                    self.files += 1;
                    self.bytes += content_size(&stat);
                }
            }
        }
    }
}

/// The SHA-256 of a file, hexadecimal.
pub fn hash(mut file: impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 17];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            length => hasher.update(buffer.get(..length).unwrap_or_default()),
        }
    }
    Ok(hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// Whether two files hold the same bytes.
pub fn same(mut one: File, mut other: File) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let length = fill(&mut one, &mut left)?;
        if length != fill(&mut other, &mut right)? || left.get(..length) != right.get(..length) {
            return Ok(false);
        }
        if length == 0 {
            return Ok(true);
        }
    }
}

fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(buffer.get_mut(length..).unwrap_or_default())? {
            0 => break,
            more => length += more,
        }
    }
    Ok(length)
}

/// Whether what the host has now is still what the preview saw.
pub fn unchanged(
    lower: &Beneath,
    path: &Path,
    base: &Base,
    now: &FileStat,
    own: &[Span],
) -> io::Result<bool> {
    if kind(now) == Kind::Folder {
        let mut count = Count::default();
        count.add(lower, path);
        let ctime = (now.st_ctime, now.st_ctime_nsec);
        let is_it = base.ino == now.st_ino || (base.ino != 0 && is_own(ctime, own));
        let same = is_it && base.mode == now.st_mode;
        let is_old = |time| time <= base.ctime || is_own(time, own);
        return Ok(same && is_old(ctime) && is_old(count.newest));
    }
    if base.is(now, own) {
        return Ok(true);
    }
    match &base.sha256 {
        Some(sha256) if base.mode == now.st_mode && kind(now) == Kind::File => {
            Ok(hash(lower.file(path)?)? == *sha256)
        }
        _ => Ok(false),
    }
}
