//! Copies that are exact: for layers where overlays cannot be had, and for carrying a
//! layer to another file system. Content (holes stay holes, blocks are shared where the
//! file system can), permissions, times, attributes, links and names of the same file.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::{Mode, SFlag, UtimensatFlags, mknod, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::Whence;

use super::beneath::attributes;
use crate::sys::file::{self, openat2};
use crate::sys::xattr;

/// A copy of a workspace holds at most so many files and folders,
const MOST_FILES: u64 = 50_000;
/// and so many bytes.
const MOST_BYTES: u64 = 2 << 30;

/// Why a copy ends early.
#[derive(Debug)]
pub enum Stop {
    /// The kernel said no.
    Io(io::Error),
    /// There is too much to copy.
    TooLarge(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Io(error)
    }
}

/// Copies what is in a folder into another one that exists.
pub fn copy_tree(from: &Path, to: &Path) -> Result<(), Stop> {
    let mut copy = Copying {
        links: HashMap::new(),
        files: 0,
        bytes: 0,
        bound: Bound::Small,
        each: &mut || {},
    };
    copy.folder(from, to)
}

/// The same, however much it is; `each` is called for everything that is copied.
pub fn copy_all(from: &Path, to: &Path, each: &mut dyn FnMut()) -> io::Result<()> {
    let mut copy = Copying {
        links: HashMap::new(),
        files: 0,
        bytes: 0,
        bound: Bound::None,
        each,
    };
    copy.folder(from, to).map_err(|stop| match stop {
        Stop::Io(error) => error,
        Stop::TooLarge(why) => io::Error::other(why),
    })
}

/// Whether a copy has an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Small,
    None,
}

struct Copying<'a> {
    /// Files with several names: the copy of each, by device and inode.
    links: HashMap<(u64, u64), PathBuf>,
    files: u64,
    bytes: u64,
    bound: Bound,
    each: &'a mut dyn FnMut(),
}

impl Copying<'_> {
    fn folder(&mut self, from: &Path, to: &Path) -> Result<(), Stop> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let (source, dest) = (entry.path(), to.join(entry.file_name()));
            let meta = fs::symlink_metadata(&source)?;
            // An overlay's mark for something deleted is no file.
            if meta.file_type().is_char_device() && meta.rdev() == 0 {
                continue;
            }
            self.files += 1;
            (self.each)();
            self.bytes += if meta.is_file() { meta.size() } else { 0 };
            let is_much = self.files > MOST_FILES || self.bytes > MOST_BYTES;
            if is_much && self.bound == Bound::Small {
                return Err(Stop::TooLarge(format!(
                    "more than {MOST_FILES} files or {} MB",
                    MOST_BYTES >> 20
                )));
            }
            if meta.is_dir() {
                fs::create_dir(&dest)?;
                self.folder(&source, &dest)?;
                continue;
            }
            if meta.nlink() > 1 {
                match self.links.get(&(meta.dev(), meta.ino())) {
                    Some(first) => {
                        fs::hard_link(first, &dest)?;
                        continue;
                    }
                    None => {
                        self.links.insert((meta.dev(), meta.ino()), dest.clone());
                    }
                }
            }
            copy(&source, &dest)?;
        }
        like(from, to)?;
        Ok(())
    }
}

/// Copies one file, by its name in a folder, into another folder.
pub fn copy_one(folder: &Path, name: &OsStr, to: &Path) -> io::Result<()> {
    copy(&folder.join(name), &to.join(name))
}

/// Copies one thing that is no folder.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(from)?;
    let kind = meta.file_type();
    if kind.is_file() {
        let source = File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(from)?;
        let dest = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(to)?;
        content(&source, &dest, meta.size())?;
    } else if kind.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(from)?, to)?;
    } else {
        let kind = SFlag::from_bits_truncate(meta.mode() & libc::S_IFMT);
        mknod(
            to,
            kind,
            Mode::from_bits_truncate(meta.mode() & 0o7777),
            meta.rdev(),
        )?;
    }
    like(from, to)
}

/// The bytes of a file: shared where the file system can, else copied, holes left out.
fn content(from: &File, to: &File, size: u64) -> io::Result<()> {
    if file::share(from.as_fd(), to.as_fd()).is_ok() {
        return Ok(());
    }
    to.set_len(size)?;
    let mut at: i64 = 0;
    let mut buffer = vec![0; 1 << 17];
    loop {
        let data = match nix::unistd::lseek(from, at, Whence::SeekData) {
            Ok(data) => data,
            Err(Errno::ENXIO) => return Ok(()),
            Err(Errno::EINVAL) => at,
            Err(errno) => return Err(errno.into()),
        };
        let hole = match nix::unistd::lseek(from, data, Whence::SeekHole) {
            Ok(hole) => hole,
            Err(Errno::ENXIO) => return Ok(()),
            Err(_) => size as i64,
        };
        at = data;
        while at < hole {
            let wanted = buffer.len().min((hole - at).unsigned_abs() as usize);
            let chunk = buffer.get_mut(..wanted).unwrap_or_default();
            let length = from.read_at(chunk, at.unsigned_abs())?;
            if length == 0 {
                return Ok(());
            }
            to.write_all_at(chunk.get(..length).unwrap_or_default(), at.unsigned_abs())?;
            at += length as i64;
        }
    }
}

/// Gives a copy the owner, attributes, permissions and times of what it is a copy of.
pub fn like(from: &Path, to: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(from)?;
    if !meta.is_symlink() {
        let place = |path: &Path| {
            let path = CString::new(path.as_os_str().as_bytes())?;
            Ok::<_, io::Error>(openat2(
                None,
                &path,
                libc::O_PATH | libc::O_NOFOLLOW,
                0,
                libc::RESOLVE_NO_MAGICLINKS,
            )?)
        };
        let (source, dest) = (place(from)?, place(to)?);
        let wanted = attributes(&source)?;
        for name in attributes(&dest)?.keys() {
            if !wanted.contains_key(name) {
                xattr::remove(dest.as_fd(), &CString::new(name.as_slice())?)?;
            }
        }
        for (name, value) in wanted {
            xattr::set(dest.as_fd(), &CString::new(name)?, &value)?;
        }
        // A group that the caller belongs to; somebody else's files stay the copier's.
        let _ = std::os::unix::fs::lchown(to, Some(meta.uid()), Some(meta.gid()));
        fs::set_permissions(to, fs::Permissions::from_mode(meta.mode() & 0o7777))?;
    }
    times(to, (meta.mtime(), meta.mtime_nsec()))
}

/// Sets the time of the last change of content, links not followed.
pub fn times(path: &Path, mtime: (i64, i64)) -> io::Result<()> {
    let mtime = TimeSpec::new(mtime.0, mtime.1);
    Ok(utimensat(
        nix::fcntl::AT_FDCWD,
        path,
        &TimeSpec::UTIME_OMIT,
        &mtime,
        UtimensatFlags::NoFollowSymlink,
    )?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_copy_has_everything_that_the_tree_has() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("sub/a"), "text").unwrap();
        fs::hard_link(from.join("sub/a"), from.join("b")).unwrap();
        std::os::unix::fs::symlink("nowhere", from.join("l")).unwrap();
        let sparse = File::create(from.join("sparse")).unwrap();
        sparse.set_len(1 << 20).unwrap();
        sparse.write_all_at(b"x", 1 << 19).unwrap();
        fs::set_permissions(from.join("sub"), fs::Permissions::from_mode(0o2750)).unwrap();
        times(&from.join("sub/a"), (1000, 7)).unwrap();
        copy_tree(&from, &to).unwrap();
        let meta = |path: &str| fs::symlink_metadata(to.join(path)).unwrap();
        assert_eq!(meta("sub/a").ino(), meta("b").ino());
        assert_eq!((meta("b").mtime(), meta("b").mtime_nsec()), (1000, 7));
        assert_eq!(meta("sub").mode() & 0o7777, 0o2750);
        assert_eq!(fs::read_link(to.join("l")).unwrap(), Path::new("nowhere"));
        assert_eq!(meta("sparse").len(), 1 << 20);
        assert!(meta("sparse").blocks() * 512 < 1 << 19);
    }
}
