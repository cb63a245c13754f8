//! The file tree of the jail while it is being drawn up: what is made, what is mounted,
//! and where a path inside comes from outside.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::lstat;

use super::origin::{Kind, Origin, Seen, Shown};
use super::path::{absolute, c_string, join, relative, same, within};
use super::{Mount, NewFile, NewFolder, NewLink, Place, Root, What};
use crate::error::Error;
use crate::sys::mount::{NO_DEVICES, NO_EXEC, NO_SUID, READ_ONLY};

/// The permissions of folders that only lead somewhere.
const WAY: u32 = 0o755;

/// The tree, by paths inside: absolute, without links, `.` or `..`.
#[derive(Debug, Default)]
pub struct Tree {
    /// By their bytes: a folder comes before what is in it.
    folders: BTreeMap<OsString, u32>,
    files: Vec<NewFile>,
    links: Vec<(PathBuf, PathBuf)>,
    /// What is mounted, in the order in which it was asked for.
    mounts: Vec<Entry>,
    /// Where sjail's own folders that outlive the run are mounted.
    kept: Vec<PathBuf>,
}

/// Something mounted.
#[derive(Debug)]
pub struct Entry {
    /// Where, inside.
    pub dest: PathBuf,
    /// What.
    pub origin: Origin,
    /// `MOUNT_ATTR_*`.
    attributes: u64,
}

impl Entry {
    /// Whether what is mounted can be changed through it.
    pub fn is_writable(&self) -> bool {
        self.attributes & READ_ONLY == 0
    }

    /// Whether it shows nothing else than what is there anyway.
    fn is_pin(&self) -> bool {
        matches!(self.origin, Origin::Own(What::Itself))
    }
}

impl Tree {
    /// A folder of the jail's own. Parents are made as needed.
    pub fn folder(&mut self, path: &Path, mode: u32) {
        self.ways_to(path);
        self.folders.insert(path.into(), mode);
    }

    /// A file of the jail's own with these contents.
    pub fn file(&mut self, path: &Path, contents: Vec<u8>, mode: u32) -> Result<(), Error> {
        self.ways_to(path);
        self.files.push(NewFile {
            path: relative(path)?,
            contents,
            mode,
        });
        Ok(())
    }

    /// A symbolic link of the jail's own.
    pub fn link(&mut self, path: &Path, target: &Path) {
        self.ways_to(path);
        self.links.push((path.to_owned(), target.to_owned()));
    }

    /// Shows a host path. The same destination again replaces what was there before.
    pub fn show(&mut self, seen: Seen, dest: &Path, shown: Shown) {
        self.mounts
            .retain(|entry| !same(&entry.dest, dest) || !matches!(entry.origin, Origin::Host(_)));
        self.mounts.push(Entry {
            dest: dest.to_owned(),
            origin: Origin::Host(seen),
            attributes: shown.attributes(),
        });
    }

    /// Shows a folder of sjail's own that is kept between runs; what is mounted inside it
    /// finds its place made.
    pub fn keep(&mut self, seen: Seen, dest: &Path) {
        self.show(seen, dest, Shown::Writable);
        self.kept.push(dest.to_owned());
    }

    /// Whether [`Tree::keep`] has put something there.
    pub fn is_kept(&self, dest: &Path) -> bool {
        self.kept.iter().any(|kept| same(kept, dest))
    }

    /// Whether a path inside was granted: it is a host mount or lies below one that is not
    /// sjail's own.
    pub fn granted(&self, inside: &Path) -> bool {
        self.mounts.iter().any(|entry| {
            matches!(entry.origin, Origin::Host(_))
                && within(inside, &entry.dest)
                && !self.is_kept(&entry.dest)
        })
    }

    /// Mounts something of the jail's own.
    pub fn own(&mut self, what: What, dest: &Path, attributes: u64) {
        self.mounts.push(Entry {
            dest: dest.to_owned(),
            origin: Origin::Own(what),
            attributes,
        });
    }

    /// Lays an unreadable file or folder over a path.
    pub fn mask(&mut self, dest: &Path, kind: Kind) {
        let what = match kind {
            Kind::Folder => What::MaskFolder,
            Kind::File | Kind::Link => What::MaskFile,
        };
        self.own(what, dest, READ_ONLY | NO_SUID | NO_DEVICES | NO_EXEC);
    }

    /// Makes a folder inside something granted a mount of its own, so that it cannot be
    /// renamed or removed: with it, what is mounted below would move out of its name.
    pub fn pin(&mut self, dest: &Path) {
        if !self.mounts.iter().any(|entry| same(&entry.dest, dest)) {
            self.own(What::Itself, dest, 0);
        }
    }

    /// Pins every folder between a path and the writable mount that it lies on.
    pub fn pin_way_to(&mut self, path: &Path) {
        let Some((entry, _)) = self.outside(path) else {
            return;
        };
        if !entry.is_writable() {
            return;
        }
        let top = entry.dest.clone();
        let way: Vec<PathBuf> = path
            .ancestors()
            .skip(1)
            .take_while(|above| *above != top)
            .map(Path::to_owned)
            .collect();
        for above in way {
            self.pin(&above);
        }
    }

    /// Everything mounted so far.
    pub fn mounts(&self) -> &[Entry] {
        &self.mounts
    }

    /// Whether the jail has a symbolic link of its own at this path.
    pub fn link_at(&self, path: &Path) -> Option<&Path> {
        self.links
            .iter()
            .find(|(link, _)| same(link, path))
            .map(|(_, target)| target.as_path())
    }

    /// The deepest host mount that a path inside lies on or below, with the host path
    /// that this amounts to. Links are not followed.
    pub fn outside(&self, inside: &Path) -> Option<(&Entry, PathBuf)> {
        let entry = self
            .mounts
            .iter()
            .filter(|entry| within(inside, &entry.dest) && !entry.is_pin())
            .max_by_key(|entry| entry.dest.as_os_str().len())?;
        let Origin::Host(seen) = &entry.origin else {
            return None;
        };
        let rest = inside.strip_prefix(&entry.dest).ok()?;
        Some((entry, join(&seen.path, rest)))
    }

    /// Whether a path inside is a folder of the jail's own.
    pub fn has_folder(&self, inside: &Path) -> bool {
        self.folders.contains_key(inside.as_os_str())
            || self.mounts.iter().any(|entry| same(&entry.dest, inside))
    }

    /// Whether a path inside is a host mount or lies below one.
    pub fn covered(&self, inside: &Path) -> bool {
        self.mounts
            .iter()
            .any(|entry| matches!(entry.origin, Origin::Host(_)) && within(inside, &entry.dest))
    }

    fn ways_to(&mut self, path: &Path) {
        for parent in path.ancestors().skip(1) {
            let parent = parent.as_os_str();
            if parent != "/" && !self.folders.contains_key(parent) {
                self.folders.insert(parent.to_owned(), WAY);
            }
        }
    }

    /// The lists that the child walks. Mounts go by depth; a place to mount on is made
    /// where the jail's own tmpfs is, and must exist where the host's files are.
    pub fn finish(mut self, size: CString, inodes: CString) -> Result<Root, Error> {
        let mut order: Vec<usize> = (0..self.mounts.len()).collect();
        order.sort_by_key(|index| {
            self.mounts
                .get(*index)
                .map(|entry| entry.dest.components().count())
        });
        let mut skipped = Vec::new();
        for index in &order {
            if let Ground::Missing = self.prepare_place(*index)? {
                skipped.push(*index);
            }
        }
        let links = std::mem::take(&mut self.links);
        for (link, _) in &links {
            // A folder on the way to a mount takes the place of a link.
            if self.folders.contains_key(link.as_os_str()) {
                return Err(Error::BehindLink { path: link.clone() });
            }
        }
        let covered = |path: &Path| {
            self.mounts
                .iter()
                .any(|entry| matches!(entry.origin, Origin::Host(_)) && within(path, &entry.dest))
        };
        let links = links
            .iter()
            .filter(|(path, _)| !covered(path))
            .map(|(path, target)| {
                Ok(NewLink {
                    path: relative(path)?,
                    target: c_string(target)?,
                })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let files = std::mem::take(&mut self.files)
            .into_iter()
            .filter(|file| !self.covered_strictly(&absolute(&file.path)))
            .collect();
        let folders = self
            .folders
            .iter()
            .map(|(path, mode)| (Path::new(path), mode))
            .filter(|(path, _)| !self.covered_strictly(path))
            .map(|(path, mode)| {
                Ok(NewFolder {
                    path: relative(path)?,
                    mode: *mode,
                })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let mut entries: Vec<Option<Entry>> = self.mounts.into_iter().map(Some).collect();
        let mounts = order
            .into_iter()
            .filter(|index| !skipped.contains(index))
            .filter_map(|index| entries.get_mut(index).and_then(Option::take))
            .map(|entry| {
                Ok(Mount {
                    dest: relative(&entry.dest)?,
                    attributes: entry.attributes,
                    what: match entry.origin {
                        Origin::Own(what) => what,
                        Origin::Host(seen) => What::Host(Place {
                            path: c_string(&seen.path)?,
                            id: Some(seen.id),
                        }),
                    },
                })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        Ok(Root {
            size,
            inodes,
            folders,
            files,
            links,
            mounts,
        })
    }

    fn covered_strictly(&self, path: &Path) -> bool {
        self.mounts.iter().any(|entry| {
            matches!(entry.origin, Origin::Host(_))
                && !same(path, &entry.dest)
                && within(path, &entry.dest)
        })
    }

    /// Sees to it that a mount finds something to be mounted on.
    fn prepare_place(&mut self, index: usize) -> Result<Ground, Error> {
        let Some(entry) = self.mounts.get(index) else {
            return Ok(Ground::Ready);
        };
        let dest = entry.dest.clone();
        let kind = match &entry.origin {
            Origin::Host(seen) => seen.kind,
            Origin::Own(What::MaskFile) => Kind::File,
            Origin::Own(_) => Kind::Folder,
        };
        let below_host = self.mounts.iter().find(|other| {
            matches!(other.origin, Origin::Host(_))
                && !same(&other.dest, &dest)
                && within(&dest, &other.dest)
        });
        if below_host.is_some() {
            // The deepest of them says what is there.
            let under = self
                .mounts
                .iter()
                .filter(|other| {
                    !same(&other.dest, &dest) && within(&dest, &other.dest) && !other.is_pin()
                })
                .max_by_key(|other| other.dest.as_os_str().len());
            if let Some(Entry {
                origin: Origin::Own(What::MaskFolder),
                ..
            }) = under
            {
                return Ok(Ground::Missing);
            }
            if let Some(Entry {
                origin: Origin::Host(seen),
                dest: above,
                ..
            }) = under
            {
                let rest = dest.strip_prefix(above).unwrap_or(Path::new(""));
                let there = join(&seen.path, rest);
                return match lstat(&there) {
                    Ok(stat) if (Kind::of(&stat) == Kind::Folder) == (kind == Kind::Folder) => {
                        Ok(Ground::Ready)
                    }
                    Ok(_) => Err(Error::PlaceKind { path: dest }),
                    Err(Errno::ENOENT)
                        if matches!(
                            self.mounts.get(index),
                            Some(Entry {
                                origin: Origin::Own(_),
                                ..
                            })
                        ) =>
                    {
                        Ok(Ground::Missing)
                    }
                    Err(_) => Err(Error::PlaceMissing { path: dest }),
                };
            }
        }
        // Parts of the jail's own /proc are there already.
        if !same(&dest, Path::new("/proc")) && within(&dest, Path::new("/proc")) {
            return Ok(Ground::Ready);
        }
        match kind {
            Kind::Folder => {
                if !self.folders.contains_key(dest.as_os_str()) {
                    self.folder(&dest, WAY);
                }
            }
            Kind::File | Kind::Link => {
                let path = relative(&dest)?;
                if !self.files.iter().any(|file| file.path == path) {
                    self.file(&dest, Vec::new(), 0o444)?;
                }
            }
        }
        Ok(Ground::Ready)
    }
}

/// Whether there is something to mount on.
enum Ground {
    Ready,
    Missing,
}
