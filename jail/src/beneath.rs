//! A folder and what lies beneath it, reached by descriptors alone.
//!
//! Whoever writes to a workspace can swap a folder for a link at any moment. Every path
//! here starts at an open folder and goes through no link, so that nothing is read or
//! written outside it.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, RenameFlags, readlinkat, renameat2};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, fchmodat, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use serde::{Deserialize, Serialize};

use crate::sys::file::{BENEATH, DescriptorPath, NO_LINKS, openat2};
use crate::sys::xattr;

/// The attributes of a file that belong to it: by name, those of overlays taken out.
pub type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

/// What an overlay keeps for itself.
const OVERLAY: &[u8] = b"user.overlay.";

/// An open folder.
#[derive(Debug)]
pub struct Beneath {
    root: OwnedFd,
    path: PathBuf,
}

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, a socket, a device.
    Other,
    /// The mark of an overlay for something deleted.
    Whiteout,
}

/// What this is the stat of.
pub fn kind(stat: &FileStat) -> Kind {
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG => Kind::File,
        libc::S_IFDIR => Kind::Folder,
        libc::S_IFLNK => Kind::Link,
        libc::S_IFCHR if stat.st_rdev == 0 => Kind::Whiteout,
        _ => Kind::Other,
    }
}

impl Beneath {
    /// Opens a folder by a path without links.
    pub fn open(path: &Path) -> io::Result<Beneath> {
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        Ok(Beneath {
            root: openat2(None, &c_path(path)?, flags, 0, NO_LINKS)?,
            path: path.to_owned(),
        })
    }

    /// A folder beneath it, which keeps what it is whatever is done to its name.
    pub fn below(&self, path: &Path) -> io::Result<Beneath> {
        Ok(Beneath {
            root: self.at(path, libc::O_PATH | libc::O_DIRECTORY)?,
            path: self.path.join(path),
        })
    }

    /// Makes a folder of the caller's own.
    pub fn make_folder(&self, below: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(below)?;
        Ok(mkdirat(&folder, name.as_c_str(), Mode::S_IRWXU)?)
    }

    /// The same with those above it, as far as they are not there.
    pub fn make_folders(&self, below: &Path) -> io::Result<()> {
        let mut way = PathBuf::new();
        for name in below {
            way.push(name);
            match self.make_folder(&way) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Removes something with all that is in it; nothing there is no error.
    pub fn remove(&self, below: &Path) -> io::Result<()> {
        let (folder, name) = match self.parent(below) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            parent => parent?,
        };
        match unlinkat(&folder, name.as_c_str(), UnlinkatFlags::NoRemoveDir) {
            Err(Errno::EISDIR) => {}
            Err(Errno::ENOENT) => return Ok(()),
            done => return Ok(done?),
        }
        self.below(below)?.clear();
        Ok(unlinkat(
            &folder,
            name.as_c_str(),
            UnlinkatFlags::RemoveDir,
        )?)
    }

    /// Removes what is in it, as far as that can be done: also what is closed to its own
    /// user, or nested deeper than paths, descriptors or stacks reach. Every folder is
    /// brought to the top, and what it holds removed on the way.
    pub fn clear(&self) {
        let mut open = vec![PathBuf::new()];
        let mut number = 0_u64;
        while let Some(folder) = open.pop() {
            self.open_up(&folder);
            for name in self.names(&folder).unwrap_or_default() {
                let path = folder.join(name);
                if self.unlink(&path) {
                    continue;
                }
                if folder.as_os_str().is_empty() {
                    open.push(path);
                } else if let Some(flat) = self.flatten(&path, &mut number) {
                    open.push(flat);
                }
            }
            if !folder.as_os_str().is_empty() {
                self.unlink(&folder);
            }
        }
    }

    /// Whether a file or an empty folder could be removed.
    fn unlink(&self, path: &Path) -> bool {
        self.parent(path).is_ok_and(|(folder, name)| {
            [UnlinkatFlags::NoRemoveDir, UnlinkatFlags::RemoveDir]
                .into_iter()
                .any(|flag| unlinkat(&folder, name.as_c_str(), flag).is_ok())
        })
    }

    /// Brings a folder to the top, under a name that was free.
    fn flatten(&self, path: &Path, number: &mut u64) -> Option<PathBuf> {
        // A folder that is closed cannot be moved.
        self.open_up(path);
        let (folder, name) = self.parent(path).ok()?;
        loop {
            let flat = PathBuf::from(format!("flat-{number}"));
            *number += 1;
            let flag = RenameFlags::RENAME_NOREPLACE;
            match renameat2(&folder, name.as_c_str(), &self.root, &flat, flag) {
                Ok(()) => return Some(flat),
                Err(Errno::EEXIST) => {}
                Err(_) => return None,
            }
        }
    }

    fn open_up(&self, path: &Path) {
        if let Ok(place) = self.at(path, libc::O_PATH | libc::O_DIRECTORY) {
            let own = DescriptorPath::of(place.as_fd());
            let flag = FchmodatFlags::FollowSymlink;
            let _ = fchmodat(AT_FDCWD, own.as_c_str(), Mode::S_IRWXU, flag);
        }
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open folder itself.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Something beneath it as a place, links at the end not followed.
    pub fn place(&self, below: &Path) -> io::Result<OwnedFd> {
        Ok(self.at(below, libc::O_PATH | libc::O_NOFOLLOW)?)
    }

    fn at(&self, below: &Path, flags: i32) -> nix::Result<OwnedFd> {
        let path = c_path(below).map_err(|_| Errno::EINVAL)?;
        openat2(Some(self.root.as_fd()), &path, flags, 0, BENEATH)
    }

    /// What is there; nothing is no error, nor is a way that leads through a link or a file,
    /// or that is longer than paths can be.
    pub fn stat(&self, below: &Path) -> io::Result<Option<FileStat>> {
        match self.at(below, libc::O_PATH | libc::O_NOFOLLOW) {
            Ok(place) => Ok(Some(fstat(&place)?)),
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::ENAMETOOLONG) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens a regular file for reading.
    pub fn file(&self, below: &Path) -> io::Result<File> {
        self.regular(below, libc::O_RDONLY)
    }

    /// The same for writing, too.
    pub fn file_to_change(&self, below: &Path) -> io::Result<File> {
        self.regular(below, libc::O_RDWR)
    }

    fn regular(&self, below: &Path, way: i32) -> io::Result<File> {
        let flags = way | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = self.at(below, flags)?;
        match kind(&fstat(&file)?) {
            Kind::File => Ok(file.into()),
            _ => Err(io::Error::other("it is no regular file any more")),
        }
    }

    /// The folder that something lies in, and its name there.
    pub fn parent(&self, below: &Path) -> io::Result<(OwnedFd, CString)> {
        let name = below
            .file_name()
            .ok_or_else(|| io::Error::from(Errno::EINVAL))?;
        let folder = below.parent().unwrap_or(Path::new(""));
        let open = self.at(folder, libc::O_PATH | libc::O_DIRECTORY)?;
        Ok((open, CString::new(name.as_bytes())?))
    }

    /// The names in a folder, sorted.
    pub fn names(&self, below: &Path) -> io::Result<Vec<OsString>> {
        let folder = self.at(below, libc::O_RDONLY | libc::O_DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::from_fd(folder)?.iter() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Where a symbolic link says it leads.
    pub fn link(&self, below: &Path) -> io::Result<OsString> {
        let (folder, name) = self.parent(below)?;
        Ok(readlinkat(folder, name.as_c_str())?)
    }

    /// The attributes that something has of its own.
    pub fn attributes(&self, below: &Path) -> io::Result<Attributes> {
        attributes(&self.place(below)?)
    }

    /// Whether a folder of a layer hides what the host has in it.
    pub fn is_opaque(&self, below: &Path) -> bool {
        self.place(below).is_ok_and(|place| {
            xattr::value(place.as_fd(), c"user.overlay.opaque").as_deref() == Ok(b"y".as_slice())
        })
    }

    /// Takes away what an overlay wrote for itself: such a file leaves its layer.
    pub fn strip(&self, below: &Path) -> io::Result<()> {
        let place = self.place(below)?;
        for name in names(&place)? {
            if is_private(name.as_bytes()) {
                xattr::remove(place.as_fd(), &name)?;
            }
        }
        Ok(())
    }
}

/// The attributes of an open file that belong to it.
pub fn attributes(place: &OwnedFd) -> io::Result<Attributes> {
    let mut found = Attributes::new();
    for name in names(place)? {
        let bytes = name.as_bytes();
        // What the kernel's security modules write is not the file's own, nor can it be
        // written by just anybody.
        if is_private(bytes) || bytes.starts_with(b"security.") || bytes.starts_with(b"trusted.") {
            continue;
        }
        if let Ok(value) = xattr::value(place.as_fd(), &name) {
            found.insert(bytes.to_vec(), value);
        }
    }
    Ok(found)
}

fn names(place: &OwnedFd) -> io::Result<Vec<CString>> {
    match xattr::names(place.as_fd()) {
        Ok(names) => Ok(names),
        Err(Errno::ENOTSUP | Errno::EPERM) => Ok(Vec::new()),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether an attribute is an overlay's own note. A command inside may use the same names:
/// the kernel keeps those under `user.overlay.overlay.`, and neither sort is carried over.
fn is_private(name: &[u8]) -> bool {
    name.starts_with(OVERLAY)
}

/// What is there, links not followed, in an open folder.
pub fn stat_in(folder: &OwnedFd, name: &CString) -> io::Result<Option<FileStat>> {
    match fstatat(folder, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// A path as the kernel wants it; nothing at all is the folder itself.
fn c_path(path: &Path) -> io::Result<CString> {
    let bytes = path.as_os_str().as_bytes();
    Ok(CString::new(if bytes.is_empty() { b"." } else { bytes })?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn links_lead_nowhere() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.path().join("way")).unwrap();
        std::fs::write(inside.path().join("own"), "y").unwrap();
        let beneath = Beneath::open(&std::fs::canonicalize(inside.path()).unwrap()).unwrap();
        assert!(beneath.stat(Path::new("own")).unwrap().is_some());
        assert_eq!(
            kind(&beneath.stat(Path::new("way")).unwrap().unwrap()),
            Kind::Link
        );
        assert!(beneath.stat(Path::new("way/secret")).unwrap().is_none());
        assert!(beneath.file(Path::new("way/secret")).is_err());
        assert!(beneath.file(Path::new("way")).is_err());
        assert!(beneath.stat(Path::new("../x")).is_err());
    }
}
