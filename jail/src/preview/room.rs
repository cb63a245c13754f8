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

use nix::errno::Errno;
use nix::fcntl::renameat;

use super::fallback;
use super::ground::Ground;
use super::layer::{Home, Layer, remove_tree};
use crate::beneath::{Beneath, Kind, kind};
use crate::sys::statx::mount_id;

/// The places of one layer's commit.
#[derive(Debug)]
pub struct Room {
    /// The three folders.
    pub ground: Ground,
    place: Place,
    /// The backups at home.
    backup: PathBuf,
    /// Files with several names: the staged copy of each, by inode.
    links: HashMap<u64, PathBuf>,
}

/// Where things are staged.
#[derive(Debug)]
enum Place {
    /// In the preview's own folder.
    Home,
    /// In the host's folder; this is where the backups go in the end.
    Guest(Beneath),
}

impl Room {
    /// Opens the room of a layer; `id` names a folder in the host's if it needs one.
    pub fn open(preview: &Path, number: usize, layer: &Layer, id: &str) -> io::Result<Room> {
        let host = Beneath::open(layer.host.as_path())?;
        let upper = Home::of(preview, number).open()?;
        let backup = preview.join("backup").join(number.to_string());
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&backup)?;
        let home = Beneath::open(&fs::canonicalize(&backup)?)?;
        let (stage, kept, place) = match is_same_mount(&host, &upper)? {
            true => (upper, home, Place::Home),
            // A jail that runs meanwhile can write there: from now on they are known by
            // what they are, not by their names.
            false => {
                let guest = guest(id);
                let own = |name: &str| {
                    host.make_folders(&guest.join(name))?;
                    host.below(&guest.join(name))
                };
                (own("stage")?, own("backup")?, Place::Guest(home))
            }
        };
        Ok(Room {
            ground: Ground {
                host,
                stage,
                backup: kept,
            },
            place,
            backup,
            links: HashMap::new(),
        })
    }

    /// Whether what is put must be copied here first.
    pub fn is_guest(&self) -> bool {
        matches!(self.place, Place::Guest(_))
    }

    /// Copies something of the layer here, with the folders on the way.
    pub fn stage(
        &mut self,
        upper: &Beneath,
        path: &Path,
        each: &mut dyn FnMut(),
    ) -> io::Result<()> {
        if !self.is_guest() {
            return Ok(());
        }
        self.way(path)?;
        let stage = &self.ground.stage;
        stage.remove(path)?;
        let stat = upper.stat(path)?.ok_or(Errno::ENOENT)?;
        if kind(&stat) == Kind::File && stat.st_nlink > 1 {
            if let Some(first) = self.links.get(&stat.st_ino) {
                return fallback::second_name(stage, first, path);
            }
            self.links.insert(stat.st_ino, path.to_owned());
        }
        fallback::copy(upper, path, stage, path, each)
    }

    /// The folders on the way to something that is taken back to the stage.
    pub fn way(&self, path: &Path) -> io::Result<()> {
        match (&self.place, path.parent()) {
            (Place::Guest(_), Some(parent)) => self.ground.stage.make_folders(parent),
            _ => Ok(()),
        }
    }

    /// Copies the backups home. Each is there as a whole or not at all, and those in the
    /// host's folder count until the commit does.
    pub fn bring_home(&self, each: &mut dyn FnMut()) -> io::Result<()> {
        let Place::Guest(home) = &self.place else {
            return Ok(());
        };
        let draft = Path::new("draft");
        for name in self.ground.backup.names(Path::new(""))? {
            let name = Path::new(&name);
            if home.stat(name)?.is_none() {
                home.remove(draft)?;
                fallback::copy(&self.ground.backup, name, home, draft, each)?;
                renameat(home.root(), draft, home.root(), name)?;
            }
        }
        Ok(())
    }

    /// Copies the backups of a finished commit back beside their targets.
    pub fn fetch(&self, each: &mut dyn FnMut()) -> io::Result<()> {
        let Place::Guest(home) = &self.place else {
            return Ok(());
        };
        for name in home.names(Path::new(""))? {
            let name = Path::new(&name);
            fallback::copy(home, name, &self.ground.backup, name, each)?;
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
    let guest = guest(id);
    if let Ok(host) = Beneath::open(layer.host.as_path())
        && let Ok(Some(stat)) = host.stat(&guest)
        && kind(&stat) == Kind::Folder
        && stat.st_uid == nix::unistd::geteuid().as_raw()
    {
        let _ = host.remove(&guest);
    }
    let _ = fallback::times(layer.host.as_path(), time);
}

/// When a folder was last changed.
pub fn time_of(path: &Path) -> io::Result<(i64, i64)> {
    let meta = fs::symlink_metadata(path)?;
    Ok((meta.mtime(), meta.mtime_nsec()))
}

/// The name of our folder in the host's.
fn guest(id: &str) -> PathBuf {
    PathBuf::from(format!(".sjail-{id}"))
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
