//! The steps of a commit, each of which can be done, done again, and taken back.
//!
//! Whether a step was done is not written down but seen: a new file has the inode that
//! the plan names, a replaced one lies among the backups. So a commit that was killed at
//! any moment can be finished or taken back by whoever comes next, and `undo` is the same
//! walk backwards.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::{FchmodatFlags, Mode, UtimensatFlags, fchmodat, mkdirat, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, unlinkat};
use serde::{Deserialize, Serialize};
use sjail_policy::bytes::ByteString;

use super::beneath::{Attributes, Beneath, Kind, attributes, kind, stat_in};
use crate::sys::file::DescriptorPath;
use crate::sys::xattr;

/// One step, at one path of one layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The layer's number.
    pub layer: usize,
    /// The path below it.
    pub path: ByteString,
    /// What is done.
    pub act: Act,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// Puts something of the layer in its place: this inode.
    Put {
        /// The inode of what is put.
        new: u64,
        /// The inode of what it replaces, which becomes the backup.
        over: Option<u64>,
    },
    /// Takes something away: it becomes the backup.
    Take {
        /// Its inode.
        old: u64,
    },
    /// Makes a folder of which only a part is committed.
    MakeFolder,
    /// Sets permissions, times and attributes of what stays in its place.
    Set {
        /// As they were; nothing for a folder that was just made.
        old: Option<Look>,
        /// As they shall be.
        new: Look,
    },
}

/// Permissions, times and attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    mode: Option<u32>,
    mtime: (i64, i64),
    attributes: Vec<(ByteString, ByteString)>,
}

impl Look {
    /// How something looks.
    pub fn of(beneath: &Beneath, path: &Path) -> io::Result<Look> {
        let stat = beneath.stat(path)?.ok_or(Errno::ENOENT)?;
        let is_link = kind(&stat) == Kind::Link;
        let own = match is_link {
            true => Attributes::new(),
            false => beneath.attributes(path)?,
        };
        Ok(Look {
            mode: (!is_link).then_some(stat.st_mode & 0o7777),
            mtime: (stat.st_mtime, stat.st_mtime_nsec),
            attributes: own
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        })
    }

    /// The same with this time, where one is known.
    pub fn at(self, mtime: Option<(i64, i64)>) -> Look {
        Look {
            mtime: mtime.unwrap_or(self.mtime),
            ..self
        }
    }

    fn apply(&self, folder: &OwnedFd, name: &CStr, place: Option<OwnedFd>) -> io::Result<()> {
        if let (Some(mode), Some(place)) = (self.mode, place) {
            for own in attributes(&place)?.keys() {
                if !self
                    .attributes
                    .iter()
                    .any(|(name, _)| name.as_bytes() == own)
                {
                    xattr::remove(place.as_fd(), &CString::new(own.as_slice())?)?;
                }
            }
            for (own, value) in &self.attributes {
                xattr::set(
                    place.as_fd(),
                    &CString::new(own.as_bytes())?,
                    value.as_bytes(),
                )?;
            }
            // Through the descriptor: the name may be a link by now.
            let own = DescriptorPath::of(place.as_fd());
            let mode = Mode::from_bits_truncate(mode);
            fchmodat(AT_FDCWD, own.as_c_str(), mode, FchmodatFlags::FollowSymlink)?;
        }
        self.apply_time(folder, name)
    }

    fn apply_time(&self, folder: &OwnedFd, name: &CStr) -> io::Result<()> {
        let time = TimeSpec::new(self.mtime.0, self.mtime.1);
        let flags = UtimensatFlags::NoFollowSymlink;
        Ok(utimensat(
            folder,
            name,
            &TimeSpec::UTIME_OMIT,
            &time,
            flags,
        )?)
    }
}

/// The three folders that steps of one layer work in.
#[derive(Debug)]
pub struct Ground {
    /// The host's folder.
    pub host: Beneath,
    /// What is put, on the same file system.
    pub stage: Beneath,
    /// Where backups go, likewise.
    pub backup: Beneath,
}

/// Whether somebody else's change is written over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// It stops the walk.
    No,
    /// It is, and becomes part of the backup.
    Yes,
}

impl Ground {
    /// Does one step, or what is left of it. `number` names its backup.
    pub fn forward(&self, number: usize, step: &Step, force: Force) -> io::Result<()> {
        let path = step.path.as_path();
        match &step.act {
            Act::Put { new, over } => self.put(number, path, *new, *over, force),
            Act::Take { old } => self.take(number, path, *old, force),
            Act::MakeFolder => {
                let (folder, name) = self.host.parent(path)?;
                match mkdirat(&folder, name.as_c_str(), Mode::S_IRWXU) {
                    Err(Errno::EEXIST) if self.host_kind(path)? == Some(Kind::Folder) => Ok(()),
                    done => Ok(done?),
                }
            }
            Act::Set { new, .. } => self.set(path, new),
        }
    }

    fn put(
        &self,
        number: usize,
        path: &Path,
        new: u64,
        over: Option<u64>,
        force: Force,
    ) -> io::Result<()> {
        let (folder, name) = self.host.parent(path)?;
        let there = stat_in(&folder, &name)?.map(|stat| stat.st_ino);
        let (stage, own) = self.stage.parent(path)?;
        let backup = backup(number)?;
        let is_backed = stat_in(self.backup.root(), &backup)?.is_some();
        match (there, over) {
            (Some(ino), None) if ino == new => Ok(()),
            (Some(ino), Some(_)) if ino == new && is_backed => Ok(()),
            // Exchanged, but what was replaced is still on the stage.
            (Some(ino), Some(_)) if ino == new => rename(&stage, &own, self.backup.root(), &backup),
            (None, _) if over.is_none() || is_backed => rename(&stage, &own, &folder, &name),
            (Some(ino), Some(old)) if ino == old || force == Force::Yes => {
                match exchange(&stage, &own, &folder, &name) {
                    Ok(()) => rename(&stage, &own, self.backup.root(), &backup),
                    Err(error) if cannot_exchange(&error) => {
                        rename(&folder, &name, self.backup.root(), &backup)?;
                        rename(&stage, &own, &folder, &name)
                    }
                    Err(error) => Err(error),
                }
            }
            _ => Err(changed()),
        }
    }

    fn take(&self, number: usize, path: &Path, old: u64, force: Force) -> io::Result<()> {
        let backup = backup(number)?;
        if stat_in(self.backup.root(), &backup)?.is_some() {
            return Ok(());
        }
        let (folder, name) = self.host.parent(path)?;
        match stat_in(&folder, &name)? {
            None => Ok(()),
            Some(stat) if stat.st_ino == old || force == Force::Yes => {
                rename(&folder, &name, self.backup.root(), &backup)
            }
            Some(_) => Err(changed()),
        }
    }

    fn set(&self, path: &Path, look: &Look) -> io::Result<()> {
        if path.as_os_str().is_empty() {
            let place = self.host.place(path)?;
            return look.apply(self.host.root(), c".", Some(place));
        }
        let (folder, name) = self.host.parent(path)?;
        // The same name again through its own open folder, never through a link.
        let place = (look.mode.is_some()).then(|| self.host.place(path));
        let place = place.transpose()?;
        if let Some(place) = &place
            && kind(&nix::sys::stat::fstat(place)?) == Kind::Link
        {
            return Err(changed());
        }
        look.apply(&folder, &name, place)
    }

    /// Takes one step back, or what is left of that.
    pub fn backward(&self, number: usize, step: &Step, force: Force) -> io::Result<()> {
        let path = step.path.as_path();
        match &step.act {
            Act::Put { new, over } => self.unput(number, path, *new, *over, force),
            Act::Take { .. } => {
                let backup = backup(number)?;
                if stat_in(self.backup.root(), &backup)?.is_none() {
                    return Ok(());
                }
                let (folder, name) = self.host.parent(path)?;
                match rename(self.backup.root(), &backup, &folder, &name) {
                    Err(error) if exists(&error) && force == Force::Yes => {
                        exchange(self.backup.root(), &backup, &folder, &name)
                    }
                    Err(error) if exists(&error) => Err(changed()),
                    done => done,
                }
            }
            Act::MakeFolder => {
                let (folder, name) = self.host.parent(path)?;
                match unlinkat(&folder, name.as_c_str(), UnlinkatFlags::RemoveDir) {
                    // Somebody has put something there: it stays.
                    Err(Errno::ENOENT | Errno::ENOTEMPTY | Errno::EEXIST) => Ok(()),
                    done => Ok(done?),
                }
            }
            Act::Set { old: None, .. } => Ok(()),
            Act::Set { old: Some(old), .. } => match self.host_kind(path)? {
                None => Ok(()),
                Some(_) => self.set(path, old),
            },
        }
    }

    fn unput(
        &self,
        number: usize,
        path: &Path,
        new: u64,
        over: Option<u64>,
        force: Force,
    ) -> io::Result<()> {
        let (folder, name) = self.host.parent(path)?;
        let there = stat_in(&folder, &name)?.map(|stat| stat.st_ino);
        let (stage, own) = self.stage.parent(path)?;
        let backup = backup(number)?;
        let backed = stat_in(self.backup.root(), &backup)?.map(|stat| stat.st_ino);
        match (over, there, backed) {
            (None, Some(ino), _) if ino == new => rename(&folder, &name, &stage, &own),
            (None, None, _) => Ok(()),
            // Never done, or already undone.
            (None, Some(_), _) if stat_in(&stage, &own)?.is_some() => Ok(()),
            (None, Some(_), _) => Err(changed()),
            (Some(_), Some(ino), None) if ino == new => exchange(&stage, &own, &folder, &name),
            (Some(_), _, None) => Ok(()),
            // Exchanged back already: only the new one has to return to the stage.
            (Some(_), Some(ino), Some(kept)) if kept == new && ino != new => {
                rename(self.backup.root(), &backup, &stage, &own)
            }
            (Some(_), None, Some(_)) => rename(self.backup.root(), &backup, &folder, &name),
            (Some(_), Some(ino), Some(_)) if ino == new || force == Force::Yes => {
                match exchange(self.backup.root(), &backup, &folder, &name) {
                    Ok(()) if ino != new => Ok(()),
                    Ok(()) => rename(self.backup.root(), &backup, &stage, &own),
                    Err(error) if cannot_exchange(&error) => {
                        rename(&folder, &name, &stage, &own)?;
                        rename(self.backup.root(), &backup, &folder, &name)
                    }
                    Err(error) => Err(error),
                }
            }
            _ => Err(changed()),
        }
    }

    /// Sets the time of a folder once more: what was done in it has changed it.
    pub fn time_again(&self, step: &Step) -> io::Result<()> {
        let Act::Set { old: Some(old), .. } = &step.act else {
            return Ok(());
        };
        let path = step.path.as_path();
        if self.host_kind(path)? != Some(Kind::Folder) {
            return Ok(());
        }
        if path.as_os_str().is_empty() {
            return old.apply_time(self.host.root(), c".");
        }
        let (folder, name) = self.host.parent(path)?;
        old.apply_time(&folder, &name)
    }

    fn host_kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        Ok(self.host.stat(path)?.as_ref().map(kind))
    }
}

/// The name of a step's backup.
fn backup(number: usize) -> io::Result<CString> {
    Ok(CString::new(number.to_string())?)
}

/// Moves something to a name that must be free.
fn rename(from: &OwnedFd, name: &CStr, to: &OwnedFd, new: &CStr) -> io::Result<()> {
    match renameat2(from, name, to, new, RenameFlags::RENAME_NOREPLACE) {
        // A file system without this flag: the look and the move are two steps there.
        Err(Errno::EINVAL) => match stat_in(to, &new.to_owned())? {
            Some(_) => Err(Errno::EEXIST.into()),
            None => Ok(renameat2(from, name, to, new, RenameFlags::empty())?),
        },
        done => Ok(done?),
    }
}

fn exchange(from: &OwnedFd, name: &CStr, to: &OwnedFd, other: &CStr) -> io::Result<()> {
    Ok(renameat2(
        from,
        name,
        to,
        other,
        RenameFlags::RENAME_EXCHANGE,
    )?)
}

fn cannot_exchange(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS))
}

fn exists(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AlreadyExists
}

fn changed() -> io::Error {
    io::Error::other("somebody changed it on the host meanwhile")
}

const JOURNAL: &str = "journal.jsonl";

/// Writes the journal, step by step; it counts when it is closed.
#[derive(Debug)]
pub struct Writer {
    out: BufWriter<File>,
    folder: std::path::PathBuf,
    /// The steps so far.
    pub count: usize,
}

impl Writer {
    /// Starts a journal in a preview's folder.
    pub fn begin(folder: &Path) -> io::Result<Writer> {
        Ok(Writer {
            out: BufWriter::new(File::create(folder.join(JOURNAL).with_extension("new"))?),
            folder: folder.to_owned(),
            count: 0,
        })
    }

    /// Adds a step.
    pub fn add(&mut self, step: &Step) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, step)?;
        self.count += 1;
        self.out.write_all(b"\n")
    }

    /// The journal is complete and on the disk.
    pub fn close(self) -> io::Result<()> {
        let file = self.out.into_inner().map_err(|error| error.into_error())?;
        file.sync_all()?;
        let path = self.folder.join(JOURNAL);
        std::fs::rename(path.with_extension("new"), path)
    }
}

/// Reads the journal of a preview's folder.
pub fn read(folder: &Path) -> io::Result<impl Iterator<Item = io::Result<Step>> + use<>> {
    let file = BufReader::new(File::open(folder.join(JOURNAL))?);
    Ok(file
        .split(b'\n')
        .map(|line| Ok(serde_json::from_slice(&line?)?)))
}
