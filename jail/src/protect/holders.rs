//! Finding out whether the jail still holds a file that it could reach for a moment.
//!
//! Between a host process replacing a protected file and our mounting the new one, the
//! jail can open it through the writable mount, and whatever was opened then (a
//! descriptor, a working folder, a mapping, even a mere `O_PATH` handle) goes on working.
//! So afterwards every process of the jail is looked at while it does not move
//! ([`super::stillness`]): whoever holds the file by a writable mount has to let go, or
//! the jail is ended. A descriptor on its way through a socket is seen as well (the kernel
//! counts those). A process that does not let itself be looked at counts as one that holds.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat, lstat};
use nix::sys::statvfs::{FsFlags, fstatvfs};
use nix::unistd::Pid;
use sjail_policy::show;

use super::inventory::{Role, Sighting};
use super::stillness::{Halt, Stillness};
use crate::spawn::Jail;
use crate::sys::directory::Kind;
use crate::sys::file::{FileId, openat2};
use crate::sys::{pidfd, statx};

/// How often a process may be found that keeps what it opened in good faith, reading a
/// file at the very moment it was replaced.
const PATIENCE: usize = 10;
const PAUSE: Duration = Duration::from_millis(2);

/// How long a jail may take to stand still. Honest programs do as soon as they get a
/// processor; those that have themselves woken again and again do not.
const UNREST: Duration = Duration::from_secs(10);

/// Looks until the jail surely holds none of these but by the mounts that were just made
/// (or other read-only ones). When it does not let go: the sentence that says so.
pub fn found(jail: &Jail, closed: &[Sighting], mounts: &[u64]) -> Option<String> {
    let targets: Vec<Target> = closed
        .iter()
        .filter(|sighting| sighting.kind != Kind::Link)
        .map(Target::new)
        .collect();
    let first = targets.first()?;
    let until = Instant::now() + UNREST;
    let mut halt: Option<Halt<'_>> = None;
    let mut held = 0;
    while !has_ended(jail) {
        let before = Stillness::now(jail.pid.as_raw());
        let is_still = match &halt {
            None => before.is_still(),
            Some(halt) => halt.is_done(&before),
        };
        let found = match is_still {
            true => look(&before, &targets, mounts),
            false => None,
        };
        match found {
            Some(path) => {
                held += 1;
                if held > PATIENCE {
                    if let Some(halt) = halt {
                        halt.for_good();
                    }
                    return Some(format!(
                        "{} was replaced on the host during the run, and a process in the jail got hold of the new one before it was closed; the jail was ended so that it cannot write it",
                        show::name(path)
                    ));
                }
                // They can let go only when they run.
                halt = None;
            }
            None if is_still && before == Stillness::now(jail.pid.as_raw()) => return None,
            None if Instant::now() > until => {
                if let Some(halt) = halt {
                    halt.for_good();
                }
                return Some(format!(
                    "{} was replaced on the host during the run, and the processes in the jail could not be looked at for moving all the time; the jail was ended so that none of them can write it",
                    show::name(&first.path)
                ));
            }
            None => match &halt {
                None => {
                    halt = Some(Halt::begin(jail));
                    continue;
                }
                Some(halt) => halt.again(),
            },
        }
        std::thread::sleep(PAUSE);
    }
    None
}

/// Whether the jail's pid 1, and so all of it, is gone.
fn has_ended(jail: &Jail) -> bool {
    let mut gone = [PollFd::new(jail.pidfd.as_fd(), PollFlags::POLLIN)];
    poll(&mut gone, PollTimeout::ZERO) == Ok(1)
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

    /// Whether it is the file with this number, or has it in it. (Which disk it is on maps
    /// do not say reliably.)
    fn has(&self, inode: u64) -> bool {
        (self.kind == Kind::File && self.id.inode == inode)
            || self.inside.iter().any(|file| file.inode == inode)
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

/// One look at every process: the first target that is held, or may be.
fn look<'a>(jail: &Stillness, targets: &'a [Target], mounts: &[u64]) -> Option<&'a Path> {
    let mut last = None;
    jail.living().find_map(|(process, thread)| {
        let folder = PathBuf::from(format!("/proc/{process}/task/{thread}"));
        let links = ["cwd", "root"]
            .iter()
            .find_map(|link| leads_to(&folder.join(link), targets, mounts));
        // Threads of one process have one memory.
        let is_other = last.replace(process) != Some(process);
        links
            .or_else(|| match fs::read_dir(folder.join("fd")) {
                // It made itself undumpable; its descriptors can be had all the same.
                Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
                    taken_from(process, thread, targets, mounts)
                }
                entries => seen(entries, targets, |entries| {
                    entries.flatten().find_map(|entry| {
                        leads_to(&entry.path(), targets, mounts).or_else(|| {
                            let info = folder.join("fdinfo").join(entry.file_name());
                            is_carrying(&info, targets)
                        })
                    })
                }),
            })
            .or_else(|| match is_other {
                true => mapped_by(&folder, targets),
                false => None,
            })
    })
}

/// Looks at the descriptors of a process whose folder of them is closed to us.
fn taken_from<'a>(
    process: i32,
    thread: i32,
    targets: &'a [Target],
    mounts: &[u64],
) -> Option<&'a Path> {
    let pidfd = pidfd::open_thread(Pid::from_raw(process), Pid::from_raw(thread));
    seen(pidfd.map_err(io::Error::from), targets, |pidfd| {
        let slots = slots(process, thread);
        seen(slots, targets, |slots| {
            (0..slots).find_map(|number| match pidfd::descriptor(pidfd.as_fd(), number) {
                Err(Errno::EBADF) => None,
                taken => seen(taken.map_err(io::Error::from), targets, |file| {
                    let info = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
                    is_target(&file, targets, mounts)
                        .or_else(|| is_carrying(Path::new(&info), targets))
                }),
            })
        })
    })
}

/// How many descriptors a thread has room for at the moment.
fn slots(process: i32, thread: i32) -> io::Result<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/task/{thread}/status"))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("FDSize:")?.trim().parse().ok())
        .ok_or_else(|| io::Error::other("no FDSize"))
}

/// What follows from what was found; what is gone holds nothing, and what does not let
/// itself be looked at may hold anything.
fn seen<'a, T>(
    found: io::Result<T>,
    targets: &'a [Target],
    judge: impl FnOnce(T) -> Option<&'a Path>,
) -> Option<&'a Path> {
    match found {
        Ok(found) => judge(found),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => None,
            _ => targets.first().map(|target| target.path.as_path()),
        },
    }
}

/// Whether a process's link leads, by a writable mount, to a target or below it.
fn leads_to<'a>(link: &Path, targets: &'a [Target], mounts: &[u64]) -> Option<&'a Path> {
    let link = std::ffi::CString::new(link.as_os_str().as_bytes()).ok()?;
    // A magic link: it leads to the very file and mount, whatever its name is now.
    let opened = openat2(None, &link, libc::O_PATH, 0, 0).map_err(io::Error::from);
    seen(opened, targets, |file| is_target(&file, targets, mounts))
}

/// Whether a file is a target or below one, reached by a writable mount.
fn is_target<'a>(file: &OwnedFd, targets: &'a [Target], mounts: &[u64]) -> Option<&'a Path> {
    let stat = fstat(file).ok()?;
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    if kind != SFlag::S_IFREG && kind != SFlag::S_IFDIR {
        return None;
    }
    let id = FileId::from(&stat);
    let hit = targets
        .iter()
        .find(|target| target.id == id || target.inside.contains(&id))
        .or_else(|| match kind == SFlag::S_IFDIR {
            true => above(file, targets),
            false => None,
        })?;
    let ours = statx::mount_id(file.as_fd()).is_ok_and(|mount| mounts.contains(&mount));
    let read_only = fstatvfs(file).is_ok_and(|fs| fs.flags().contains(FsFlags::ST_RDONLY));
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
fn is_carrying<'a>(info: &Path, targets: &'a [Target]) -> Option<&'a Path> {
    let text = fs::read_to_string(info);
    seen(text, targets, |text| {
        let any = text
            .lines()
            .filter_map(|line| line.strip_prefix("scm_fds:"))
            .any(|count| count.trim() != "0");
        targets
            .first()
            .filter(|_| any)
            .map(|target| target.path.as_path())
    })
}

/// Whether a target, or a file in one, is mapped in a way that could be written.
fn mapped_by<'a>(thread: &Path, targets: &'a [Target]) -> Option<&'a Path> {
    seen(fs::read(thread.join("maps")), targets, |maps| {
        maps.split(|byte| *byte == b'\n')
            .filter_map(shared_inode)
            .find_map(|inode| targets.iter().find(|target| target.has(inode)))
            .map(|target| target.path.as_path())
    })
}

/// The inode of a line of `maps`, if changes to that memory reach the file.
fn shared_inode(line: &[u8]) -> Option<u64> {
    let mut words = line
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty());
    let flags = words.nth(1)?;
    let inode = words.nth(2)?;
    if flags.last() != Some(&b's') {
        return None;
    }
    std::str::from_utf8(inode).ok()?.parse().ok()
}
