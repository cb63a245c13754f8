//! Finding out whether the jail still holds a file that it could reach for a moment.
//!
//! Between a host process replacing a protected file and our mounting the new one, the
//! jail can open it through the writable mount, and whatever was opened then (a
//! descriptor, a working folder, a mapping, even a mere `O_PATH` handle) goes on working.
//! So afterwards every process of the jail is looked at: whoever holds the file by a
//! writable mount has to let go, or the jail is ended. A descriptor on its way through a
//! socket is seen as well (the kernel counts those). A descriptor that is passed around
//! so fast that one look misses it is not missed by [`LOOKS`] of them.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::stat::{SFlag, fstat, lstat};
use nix::sys::statvfs::{FsFlags, fstatvfs};

use super::scan::{Role, Sighting};
use crate::spawn::Jail;
use crate::sys::directory::Kind;
use crate::sys::file::{FileId, openat2};
use crate::sys::statx;

/// How many looks must find nothing. A descriptor that wanders through many processes
/// escapes one look with a chance of about one in three.
const LOOKS: usize = 24;

/// How long a process may keep what it opened in good faith, reading a file at the very
/// moment it was replaced.
const PATIENCE: usize = 10;
const PAUSE: Duration = Duration::from_millis(2);

/// Looks until the jail surely holds none of these but by the mounts that were just made
/// (or other read-only ones). When it does not let go: the sentence that says so.
pub fn found(jail: &Jail, closed: &[Sighting], mounts: &[u64]) -> Option<String> {
    let targets: Vec<Target> = closed
        .iter()
        .filter(|sighting| sighting.kind != Kind::Link)
        .map(Target::new)
        .collect();
    if targets.is_empty() {
        return None;
    }
    let mut clean = 0;
    let mut held = 0;
    while clean < LOOKS {
        match look(jail.pid.as_raw(), &targets, mounts) {
            None => clean += 1,
            Some(path) => {
                clean = 0;
                held += 1;
                if held > PATIENCE {
                    return Some(format!(
                        "{} was replaced on the host during the run, and a process in the jail got hold of the new one before it was closed; the jail was ended so that it cannot write it",
                        path.display()
                    ));
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
    None
}

/// A file or folder that nobody in the jail may hold by a writable mount.
struct Target {
    path: PathBuf,
    id: FileId,
    kind: Kind,
    /// Files in the folder: a file that is held by itself does not lead to its folder.
    inside: Vec<FileId>,
}

impl Target {
    fn new(sighting: &Sighting) -> Target {
        // A way may be a large folder: what matters in it is a target of its own.
        let inside = match (sighting.kind, sighting.role) {
            (_, Role::Way) => Vec::new(),
            (Kind::Folder, _) => files_in(&sighting.path),
            _ => Vec::new(),
        };
        Target {
            path: sighting.path.clone(),
            id: sighting.id,
            kind: sighting.kind,
            inside,
        }
    }
}

fn files_in(folder: &Path) -> Vec<FileId> {
    const MOST: usize = 1000;
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(stat) = lstat(&entry.path()) else {
                continue;
            };
            found.push(FileId::from(&stat));
            if found.len() >= MOST {
                return found;
            }
            if stat.st_mode & libc::S_IFMT == libc::S_IFDIR {
                folders.push(entry.path());
            }
        }
    }
    found
}

/// One look at every process: the first target that is held.
fn look<'a>(first: i32, targets: &'a [Target], mounts: &[u64]) -> Option<&'a Path> {
    processes(first).into_iter().find_map(|pid| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let mut threads = fs::read_dir(process.join("task"))
            .into_iter()
            .flatten()
            .flatten();
        threads
            .find_map(|thread| held_by(&thread.path(), targets, mounts))
            .or_else(|| mapped_by(&process, targets))
    })
}

/// Pid 1's descendants: in its pid namespace every orphan becomes its child.
fn processes(first: i32) -> Vec<i32> {
    let mut list = vec![first];
    let mut next = 0;
    while let Some(pid) = list.get(next).copied() {
        next += 1;
        for thread in fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            for child in children
                .split_whitespace()
                .filter_map(|word| word.parse().ok())
            {
                if !list.contains(&child) {
                    list.push(child);
                }
            }
        }
    }
    // Pid 1 is our own code: it opens nothing in the workspace.
    list.split_off(1)
}

fn held_by<'a>(thread: &Path, targets: &'a [Target], mounts: &[u64]) -> Option<&'a Path> {
    for link in ["cwd", "root"] {
        if let Some(path) = leads_to(&thread.join(link), targets, mounts) {
            return Some(path);
        }
    }
    for entry in fs::read_dir(thread.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
    {
        if let Some(path) = leads_to(&entry.path(), targets, mounts) {
            return Some(path);
        }
        if is_carrying(thread, &entry.file_name()) {
            return targets.first().map(|target| target.path.as_path());
        }
    }
    None
}

/// Whether a process's link leads, by a writable mount, to a target or below it.
fn leads_to<'a>(link: &Path, targets: &'a [Target], mounts: &[u64]) -> Option<&'a Path> {
    let link = std::ffi::CString::new(link.as_os_str().as_bytes()).ok()?;
    // A magic link: it leads to the very file and mount, whatever its name is now.
    let file = openat2(None, &link, libc::O_PATH, 0, 0).ok()?;
    let stat = fstat(&file).ok()?;
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    if kind != SFlag::S_IFREG && kind != SFlag::S_IFDIR {
        return None;
    }
    let id = FileId::from(&stat);
    let hit = targets
        .iter()
        .find(|target| target.id == id || target.inside.contains(&id))
        .or_else(|| match kind == SFlag::S_IFDIR {
            true => above(&file, targets),
            false => None,
        })?;
    let ours = statx::mount_id(file.as_fd()).is_ok_and(|mount| mounts.contains(&mount));
    let read_only = fstatvfs(&file).is_ok_and(|fs| fs.flags().contains(FsFlags::ST_RDONLY));
    (!ours && !read_only).then_some(hit.path.as_path())
}

/// The target that lies above a folder.
fn above<'a>(folder: &OwnedFd, targets: &'a [Target]) -> Option<&'a Target> {
    let up = |from: &OwnedFd| openat2(Some(from.as_fd()), c"..", libc::O_PATH, 0, 0).ok();
    let mut last = FileId::of(folder.as_fd()).ok()?;
    let mut at = up(folder)?;
    for _ in 0..64 {
        let id = FileId::of(at.as_fd()).ok()?;
        let hit = targets
            .iter()
            .find(|target| target.kind == Kind::Folder && target.id == id);
        if hit.is_some() || id == last {
            return hit;
        }
        last = id;
        at = up(&at)?;
    }
    None
}

/// Whether a socket has descriptors in it that nobody has received yet.
fn is_carrying(thread: &Path, fd: &OsStr) -> bool {
    let text = fs::read_to_string(thread.join("fdinfo").join(fd)).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.strip_prefix("scm_fds:"))
        .any(|count| count.trim() != "0")
}

/// Whether a target is mapped in a way that could be written.
fn mapped_by<'a>(process: &Path, targets: &'a [Target]) -> Option<&'a Path> {
    let maps = fs::read(process.join("maps")).ok()?;
    for line in maps.split(|byte| *byte == b'\n') {
        let mut words = line
            .split(|byte| *byte == b' ')
            .filter(|word| !word.is_empty());
        let (_, flags, _, device, inode) = (
            words.next()?,
            words.next(),
            words.next(),
            words.next(),
            words.next(),
        );
        let (Some(flags), Some(_), Some(inode)) = (flags, device, inode) else {
            continue;
        };
        if flags.last() != Some(&b's') {
            continue;
        }
        let inode = std::str::from_utf8(inode)
            .ok()
            .and_then(|text| text.parse::<u64>().ok());
        if let Some(hit) = targets
            .iter()
            .find(|target| target.kind == Kind::File && Some(target.id.inode) == inode)
        {
            return Some(hit.path.as_path());
        }
    }
    None
}
