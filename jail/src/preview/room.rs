//! Where a commit stages what it puts, and keeps what it replaces: on the same file
//! system as the target, so that every step is a rename.
//!
//! Usually that is the preview's own folder: the layer itself is the stage. Where the
//! workspace is on another file system, a folder of ours lies in its top while the commit
//! lasts; the backups are carried home afterwards.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::beneath::Beneath;
use super::fallback;
use super::ground::Ground;
use super::layer::{Home, Layer, remove_tree};
use crate::sys::statx::mount_id;

/// The places of one layer's commit.
#[derive(Debug)]
pub struct Room {
    /// The three folders.
    pub ground: Ground,
    /// The folder in the host's, where there is one.
    guest: Option<PathBuf>,
    backup: PathBuf,
    /// Files with several names: the staged copy of each, by inode.
    links: HashMap<u64, PathBuf>,
}

impl Room {
    /// Opens the room of a layer; `id` names a folder in the host's if it needs one.
    pub fn open(preview: &Path, number: usize, layer: &Layer, id: &str) -> io::Result<Room> {
        let home = Home::of(preview, number);
        let host = Beneath::open(layer.host.as_path())?;
        let upper = home.open()?;
        let backup = preview.join("backup").join(number.to_string());
        make(&backup)?;
        if is_same_mount(&host, &upper)? {
            return Ok(Room {
                ground: Ground {
                    host,
                    stage: upper,
                    backup: Beneath::open(&fs::canonicalize(&backup)?)?,
                },
                guest: None,
                backup,
                links: HashMap::new(),
            });
        }
        let guest = guest(layer, id);
        make(&guest.join("stage"))?;
        make(&guest.join("backup"))?;
        Ok(Room {
            ground: Ground {
                host,
                stage: Beneath::open(&guest.join("stage"))?,
                backup: Beneath::open(&guest.join("backup"))?,
            },
            guest: Some(guest),
            backup,
            links: HashMap::new(),
        })
    }

    /// Whether what is put must be copied here first.
    pub fn is_guest(&self) -> bool {
        self.guest.is_some()
    }

    /// Copies something of the layer here, with the folders on the way.
    pub fn stage(
        &mut self,
        upper: &Beneath,
        path: &Path,
        each: &mut dyn FnMut(),
    ) -> io::Result<()> {
        let Some(guest) = &self.guest else {
            return Ok(());
        };
        let to = guest.join("stage").join(path);
        if let Some(parent) = to.parent() {
            make(parent)?;
        }
        if fs::symlink_metadata(&to).is_ok() {
            remove_any(&to);
        }
        let from = upper.path().join(path);
        let meta = fs::symlink_metadata(&from)?;
        if meta.is_file() && meta.nlink() > 1 {
            if let Some(first) = self.links.get(&meta.ino()) {
                return fs::hard_link(first, &to);
            }
            self.links.insert(meta.ino(), to.clone());
        }
        carry(&from, &to, each)
    }

    /// The folders on the way to something that is taken back to the stage.
    pub fn way(&self, path: &Path) -> io::Result<()> {
        match (&self.guest, path.parent()) {
            (Some(guest), Some(parent)) => make(&guest.join("stage").join(parent)),
            _ => Ok(()),
        }
    }

    /// Copies the backups home. Each is there as a whole or not at all, and those in the
    /// host's folder count until the commit does.
    pub fn bring_home(&self, each: &mut dyn FnMut()) -> io::Result<()> {
        let Some(guest) = &self.guest else {
            return Ok(());
        };
        for entry in fs::read_dir(guest.join("backup"))? {
            let entry = entry?;
            let to = self.backup.join(entry.file_name());
            if fs::symlink_metadata(&to).is_err() {
                let draft = self.backup.join("draft");
                remove_any(&draft);
                carry(&entry.path(), &draft, each)?;
                fs::rename(&draft, &to)?;
            }
        }
        Ok(())
    }

    /// Copies the backups of a finished commit back beside their targets.
    pub fn fetch(&self, each: &mut dyn FnMut()) -> io::Result<()> {
        let Some(guest) = &self.guest else {
            return Ok(());
        };
        for entry in fs::read_dir(&self.backup)? {
            let entry = entry?;
            let to = guest.join("backup").join(entry.file_name());
            carry(&entry.path(), &to, each)?;
        }
        Ok(())
    }

    /// What was replaced is in its place again.
    pub fn drop_backups(self) {
        remove_tree(&self.backup);
    }
}

/// The time of the host's folder, if a folder of ours must come to lie in it.
pub fn time_abroad(preview: &Path, number: usize, layer: &Layer) -> io::Result<Option<(i64, i64)>> {
    let host = Beneath::open(layer.host.as_path())?;
    match is_same_mount(&host, &Home::of(preview, number).open()?)? {
        true => Ok(None),
        false => time_of(layer.host.as_path()).map(Some),
    }
}

/// Takes our folder out of the host's, whose time becomes this.
pub fn depart(layer: &Layer, id: &str, time: (i64, i64)) {
    let guest = guest(layer, id);
    let own = fs::symlink_metadata(&guest)
        .is_ok_and(|meta| meta.is_dir() && meta.uid() == nix::unistd::geteuid().as_raw());
    if own {
        remove_tree(&guest);
    }
    let _ = fallback::times(layer.host.as_path(), time);
}

/// When a folder was last changed.
pub fn time_of(path: &Path) -> io::Result<(i64, i64)> {
    let meta = fs::symlink_metadata(path)?;
    Ok((meta.mtime(), meta.mtime_nsec()))
}

fn guest(layer: &Layer, id: &str) -> PathBuf {
    layer.host.as_path().join(format!(".sjail-{id}"))
}

fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn is_same_mount(one: &Beneath, other: &Beneath) -> io::Result<bool> {
    let device = |beneath: &Beneath| nix::sys::stat::fstat(beneath.root()).map(|stat| stat.st_dev);
    if device(one)? != device(other)? {
        return Ok(false);
    }
    match (mount_id(one.root().as_fd()), mount_id(other.root().as_fd())) {
        (Ok(one), Ok(other)) => Ok(one == other),
        // A kernel that does not say: a rename would tell, and fail in the middle.
        _ => Ok(false),
    }
}

/// Copies a file, or a folder with all that is in it.
fn carry(from: &Path, to: &Path, each: &mut dyn FnMut()) -> io::Result<()> {
    each();
    let done = if fs::symlink_metadata(from)?.is_dir() {
        make(to).and_then(|()| fallback::copy_all(from, to, each))
    } else {
        fallback::copy(from, to)
    };
    if done.is_err() {
        remove_any(to);
    }
    done
}

fn remove_any(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir()) {
        remove_tree(path);
    } else {
        let _ = fs::remove_file(path);
    }
}
