//! Copies that are exact: for layers where overlays cannot be had, and for carrying a
//! layer to another file system. Content (holes stay holes, blocks are shared where the
//! file system can), permissions, times, attributes, links and names of the same file.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, Mode, SFlag, UtimensatFlags, mknodat, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, Whence, fchownat, linkat, symlinkat};

use super::entry::content_size;
use super::look::Look;
use crate::beneath::{Beneath, Kind, kind};
use crate::sys::file::{self, BENEATH, openat2};

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

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Io(errno.into())
    }
}

/// Copies what is in a folder into another one that is empty.
pub fn copy_tree(from: &Beneath, to: &Beneath) -> Result<(), Stop> {
    let mut copy = Copying::new(from, to, Bound::Small);
    copy.enter(PathBuf::new(), PathBuf::new())?;
    copy.run(&mut || {})
}

/// Copies one thing with all that is in it, however much that is; `each` is called for
/// everything that is copied. What could not be copied as a whole is not there.
pub fn copy(
    from: &Beneath,
    source: &Path,
    to: &Beneath,
    dest: &Path,
    each: &mut dyn FnMut(),
) -> io::Result<()> {
    let mut copy = Copying::new(from, to, Bound::None);
    copy.open
        .push(Task::Copy(source.to_owned(), dest.to_owned()));
    copy.run(each).map_err(|stop| {
        let _ = to.remove(dest);
        match stop {
            Stop::Io(error) => error,
            Stop::TooLarge(why) => io::Error::other(why),
        }
    })
}

/// Whether a copy has an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Small,
    None,
}

/// What is still to be done.
enum Task {
    Copy(PathBuf, PathBuf),
    /// A folder looks like its source when everything is in it.
    Finish(PathBuf, PathBuf),
}

/// Whoever writes to either side can swap a folder for a link at any moment: every path
/// goes through no link.
struct Copying<'a> {
    from: &'a Beneath,
    to: &'a Beneath,
    open: Vec<Task>,
    /// Files with several names: the copy of each, by device and inode.
    links: HashMap<(u64, u64), PathBuf>,
    files: u64,
    bytes: u64,
    bound: Bound,
}

impl<'a> Copying<'a> {
    fn new(from: &'a Beneath, to: &'a Beneath, bound: Bound) -> Copying<'a> {
        Copying {
            from,
            to,
            open: Vec::new(),
            links: HashMap::new(),
            files: 0,
            bytes: 0,
            bound,
        }
    }

    /// Not by recursion: a command can nest folders deeper than a stack is.
    fn run(&mut self, each: &mut dyn FnMut()) -> Result<(), Stop> {
        while let Some(task) = self.open.pop() {
            match task {
                Task::Copy(source, dest) => self.one(source, dest, each)?,
                Task::Finish(source, dest) => like(self.from, &source, self.to, &dest)?,
            }
        }
        Ok(())
    }

    fn one(&mut self, source: PathBuf, dest: PathBuf, each: &mut dyn FnMut()) -> Result<(), Stop> {
        let stat = self.from.stat(&source)?.ok_or(Errno::ENOENT)?;
        // An overlay's mark for something deleted is no file.
        if kind(&stat) == Kind::Whiteout {
            return Ok(());
        }
        self.count(&stat)?;
        each();
        if kind(&stat) == Kind::Folder {
            self.to.make_folder(&dest)?;
            return self.enter(source, dest);
        }
        if stat.st_nlink > 1 {
            if let Some(first) = self.links.get(&(stat.st_dev, stat.st_ino)) {
                return Ok(second_name(self.to, first, &dest)?);
            }
            self.links.insert((stat.st_dev, stat.st_ino), dest.clone());
        }
        self.leaf(&source, &dest, &stat)?;
        Ok(like(self.from, &source, self.to, &dest)?)
    }

    fn enter(&mut self, source: PathBuf, dest: PathBuf) -> Result<(), Stop> {
        let names = self.from.names(&source)?;
        self.open.push(Task::Finish(source.clone(), dest.clone()));
        let below = names
            .iter()
            .map(|name| Task::Copy(source.join(name), dest.join(name)));
        self.open.extend(below);
        Ok(())
    }

    fn count(&mut self, stat: &FileStat) -> Result<(), Stop> {
        self.files += 1;
        self.bytes += content_size(stat);
        let is_much = self.files > MOST_FILES || self.bytes > MOST_BYTES;
        match is_much && self.bound == Bound::Small {
            true => Err(Stop::TooLarge(format!(
                "more than {MOST_FILES} files or {} MB",
                MOST_BYTES >> 20
            ))),
            false => Ok(()),
        }
    }

    /// Something that is no folder, without its looks.
    fn leaf(&self, source: &Path, dest: &Path, stat: &FileStat) -> io::Result<()> {
        let (folder, name) = self.to.parent(dest)?;
        match kind(stat) {
            Kind::File => {
                let new = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
                let copy = openat2(Some(folder.as_fd()), &name, new, 0o600, BENEATH)?;
                content(&self.from.file(source)?, &copy.into(), content_size(stat))
            }
            Kind::Link => {
                let target = self.from.link(source)?;
                Ok(symlinkat(target.as_os_str(), &folder, name.as_c_str())?)
            }
            _ => {
                let kind = SFlag::from_bits_truncate(stat.st_mode & libc::S_IFMT);
                let mode = Mode::from_bits_truncate(stat.st_mode & 0o7777);
                Ok(mknodat(&folder, name.as_c_str(), kind, mode, stat.st_rdev)?)
            }
        }
    }
}

/// Gives a file of a folder another name there.
pub fn second_name(beneath: &Beneath, first: &Path, other: &Path) -> io::Result<()> {
    let ((from, old), (to, new)) = (beneath.parent(first)?, beneath.parent(other)?);
    let flags = AtFlags::empty();
    Ok(linkat(&from, old.as_c_str(), &to, new.as_c_str(), flags)?)
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
pub fn like(from: &Beneath, source: &Path, to: &Beneath, dest: &Path) -> io::Result<()> {
    let stat = from.stat(source)?.ok_or(Errno::ENOENT)?;
    let look = Look::of(from, source)?;
    let place = match look.has_mode() {
        true => Some(to.place(dest)?),
        false => None,
    };
    if let Some(place) = &place {
        // A group that the caller belongs to; somebody else's files stay the copier's.
        let (user, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        let _ = fchownat(place, c"", Some(user), Some(group), AtFlags::AT_EMPTY_PATH);
    }
    if dest.as_os_str().is_empty() {
        return look.apply(to.root(), c".", place);
    }
    let (folder, name) = to.parent(dest)?;
    look.apply(&folder, &name, place)
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
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

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
        let open = |path: &Path| Beneath::open(&fs::canonicalize(path).unwrap()).unwrap();
        copy_tree(&open(&from), &open(&to)).unwrap();
        let meta = |path: &str| fs::symlink_metadata(to.join(path)).unwrap();
        assert_eq!(meta("sub/a").ino(), meta("b").ino());
        assert_eq!((meta("b").mtime(), meta("b").mtime_nsec()), (1000, 7));
        assert_eq!(meta("sub").mode() & 0o7777, 0o2750);
        assert_eq!(fs::read_link(to.join("l")).unwrap(), Path::new("nowhere"));
        assert_eq!(meta("sparse").len(), 1 << 20);
        assert!(meta("sparse").blocks() * 512 < 1 << 19);
    }

    #[test]
    fn a_copy_leads_through_no_link() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = fs::canonicalize(folder.path()).unwrap();
        for name in ["from/sub", "to", "outside"] {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        fs::write(path.join("outside/secret"), "secret").unwrap();
        fs::write(path.join("from/sub/own"), "own").unwrap();
        let open = |name: &str| Beneath::open(&path.join(name)).unwrap();
        let (from, to) = (open("from"), open("to"));
        let attempt = |source: &str, dest: &str| {
            let (source, dest) = (Path::new(source), Path::new(dest));
            copy(&from, source, &to, dest, &mut || {})
        };
        // A folder of the source was swapped for a link.
        std::os::unix::fs::symlink(path.join("outside"), path.join("from/swapped")).unwrap();
        assert!(attempt("swapped/secret", "got").is_err());
        // One of the copy was.
        std::os::unix::fs::symlink(path.join("outside"), path.join("to/way")).unwrap();
        assert!(attempt("sub/own", "way/own").is_err());
        assert!(to.remove(Path::new("way/secret")).is_err());
        let names = fs::read_dir(path.join("outside")).unwrap().count();
        assert_eq!((names, path.join("to/got").exists()), (1, false));
    }
}
