//! Doing one step of a commit, or what is left of it, and taking it back.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{RenameFlags, renameat2};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::journal::{Act, Step};
use super::look::Look;
use crate::beneath::{Beneath, Kind, kind, stat_in};

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

    fn spot(&self, number: usize, path: &Path) -> io::Result<Spot<'_>> {
        let (folder, name) = self.host.parent(path)?;
        let (stage, own) = self.stage.parent(path)?;
        let (backups, backup) = (self.backup.root(), backup(number)?);
        let inode = |folder: &OwnedFd, name: &CString| {
            Ok::<_, io::Error>(stat_in(folder, name)?.map(|stat| stat.st_ino))
        };
        Ok(Spot {
            there: inode(&folder, &name)?,
            backed: inode(backups, &backup)?,
            folder,
            name,
            stage,
            own,
            backups,
            backup,
        })
    }

    fn put(
        &self,
        number: usize,
        path: &Path,
        new: u64,
        over: Option<u64>,
        force: Force,
    ) -> io::Result<()> {
        let spot = self.spot(number, path)?;
        let is_backed = spot.backed.is_some();
        match (spot.there, over) {
            (Some(ino), None) if ino == new => Ok(()),
            (Some(ino), Some(_)) if ino == new && is_backed => Ok(()),
            // Exchanged, but what was replaced is still on the stage.
            (Some(ino), Some(_)) if ino == new => spot.stage_to_backup(),
            (None, _) if over.is_none() || is_backed => spot.stage_to_host(),
            (Some(ino), Some(old)) if ino == old || force == Force::Yes => {
                match spot.exchange_stage() {
                    Ok(()) => spot.stage_to_backup(),
                    Err(error) if cannot_exchange(&error) => {
                        spot.host_to_backup()?;
                        spot.stage_to_host()
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

    /// Nothing is done to what looks so already: somebody else's folder could not be set.
    fn set(&self, path: &Path, look: &Look) -> io::Result<()> {
        let now = Look::of(&self.host, path)?;
        if now == *look {
            return Ok(());
        }
        match self.apply(path, look) {
            // Whose folder it is says when it was changed; the commit has done so.
            Err(error) if is_foreign(&error) && now.differs_by_time_alone(look) => Ok(()),
            done => done,
        }
    }

    fn apply(&self, path: &Path, look: &Look) -> io::Result<()> {
        if path.as_os_str().is_empty() {
            let place = self.host.place(path)?;
            return look.apply(self.host.root(), c".", Some(place));
        }
        let (folder, name) = self.host.parent(path)?;
        // The same name again through its own open folder, never through a link.
        let place = (look.has_mode()).then(|| self.host.place(path));
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
        let spot = self.spot(number, path)?;
        match (over, spot.there, spot.backed) {
            (None, Some(ino), _) if ino == new => spot.host_to_stage(),
            (None, None, _) => Ok(()),
            // Never done, or already undone.
            (None, Some(_), _) if spot.is_staged()? => Ok(()),
            (None, Some(_), _) => Err(changed()),
            (Some(_), Some(ino), None) if ino == new => spot.exchange_stage(),
            (Some(_), _, None) => Ok(()),
            // Exchanged back already: only the new one has to return to the stage.
            (Some(_), Some(ino), Some(kept)) if kept == new && ino != new => spot.backup_to_stage(),
            (Some(_), None, Some(_)) => spot.backup_to_host(),
            (Some(_), Some(ino), Some(_)) if ino == new || force == Force::Yes => {
                match spot.exchange_backup() {
                    Ok(()) if ino != new => Ok(()),
                    Ok(()) => spot.backup_to_stage(),
                    Err(error) if cannot_exchange(&error) => {
                        spot.host_to_stage()?;
                        spot.backup_to_host()
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
        let done = match path.as_os_str().is_empty() {
            true => old.apply_time(self.host.root(), c"."),
            false => {
                let (folder, name) = self.host.parent(path)?;
                old.apply_time(&folder, &name)
            }
        };
        match done {
            Err(error) if is_foreign(&error) => Ok(()),
            done => done,
        }
    }

    fn host_kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        Ok(self.host.stat(path)?.as_ref().map(kind))
    }
}

/// The three places of one path: on the host, on the stage, among the backups.
struct Spot<'a> {
    folder: OwnedFd,
    name: CString,
    /// The inode that the host has there.
    there: Option<u64>,
    stage: OwnedFd,
    own: CString,
    backups: &'a OwnedFd,
    backup: CString,
    /// The inode of the backup.
    backed: Option<u64>,
}

impl Spot<'_> {
    fn is_staged(&self) -> io::Result<bool> {
        Ok(stat_in(&self.stage, &self.own)?.is_some())
    }

    fn stage_to_host(&self) -> io::Result<()> {
        rename(&self.stage, &self.own, &self.folder, &self.name)
    }

    fn stage_to_backup(&self) -> io::Result<()> {
        rename(&self.stage, &self.own, self.backups, &self.backup)
    }

    fn host_to_stage(&self) -> io::Result<()> {
        rename(&self.folder, &self.name, &self.stage, &self.own)
    }

    fn host_to_backup(&self) -> io::Result<()> {
        rename(&self.folder, &self.name, self.backups, &self.backup)
    }

    fn backup_to_host(&self) -> io::Result<()> {
        rename(self.backups, &self.backup, &self.folder, &self.name)
    }

    fn backup_to_stage(&self) -> io::Result<()> {
        rename(self.backups, &self.backup, &self.stage, &self.own)
    }

    fn exchange_stage(&self) -> io::Result<()> {
        exchange(&self.stage, &self.own, &self.folder, &self.name)
    }

    fn exchange_backup(&self) -> io::Result<()> {
        exchange(self.backups, &self.backup, &self.folder, &self.name)
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

/// Whether something belongs to somebody else.
fn is_foreign(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EPERM)
}

fn exists(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AlreadyExists
}

fn changed() -> io::Error {
    io::Error::other("somebody changed it on the host meanwhile")
}
