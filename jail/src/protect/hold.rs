//! Mounting a protected name on itself, read-only, inside a jail that already runs.
//!
//! A host process that replaces a protected file takes the file's mount with it: in the
//! running jail the new file is then bare. A helper outside enters the jail's namespaces
//! and mounts again. It must not be fooled by a jail that swaps names meanwhile: what is
//! mounted is a descriptor, and afterwards the name must lead to that very mount.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::inventory::Role;
use crate::spawn::Jail;
use crate::sys::file::{BENEATH, FileId, openat2};
use crate::sys::mount::{self, READ_ONLY, Reach};
use crate::sys::{namespace, statx};

/// How often a name is tried that changes under our hands.
const TRIES: usize = 16;

/// Something that is mounted on itself.
#[derive(Debug)]
pub struct Held {
    /// Every path inside by which it could be written.
    pub paths: Vec<PathBuf>,
    /// What it is for.
    pub role: Role,
}

/// Mounts every one of these on itself inside the running jail, ways writable, the rest
/// read-only. Names that do not exist (any more) are passed over. Gives the numbers of
/// the new mounts.
pub fn hold(jail: &Jail, all: &[Held]) -> Result<Vec<u64>, Errno> {
    let mut paths = Vec::new();
    for held in all {
        let inside = held.paths.iter().filter_map(|path| inside(path));
        paths.extend(inside.map(|path| (path, held.role)));
    }
    let spaces = jail.spaces.as_ref().ok_or(Errno::ENOTSUP)?;
    let answer = namespace::inside(spaces.user.as_fd(), spaces.mount.as_fd(), || {
        let root = openat2(None, c"/", libc::O_PATH | libc::O_DIRECTORY, 0, 0)?;
        let mut mounts = Vec::new();
        for (path, role) in &paths {
            match hold_one(root.as_fd(), path, *role) {
                Ok(mount) => mounts.extend(mount.to_ne_bytes()),
                Err(Errno::ENOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(mounts)
    })?;
    Ok(answer
        .chunks_exact(8)
        .filter_map(|chunk| chunk.try_into().ok().map(u64::from_ne_bytes))
        .collect())
}

/// Which of these are not mounted on themselves any more, by their places in the list: a
/// mount goes with the file it is on when that is deleted or replaced, and a new file may
/// even have the old one's number. What stands there instead is mounted on itself in the
/// same breath: until then the jail can write it.
pub fn mend(jail: &Jail, all: &[Held]) -> Result<Vec<usize>, Errno> {
    let paths: Vec<(Vec<Option<CString>>, Role)> = all
        .iter()
        .map(|held| {
            (
                held.paths.iter().map(|path| inside(path)).collect(),
                held.role,
            )
        })
        .collect();
    let spaces = jail.spaces.as_ref().ok_or(Errno::ENOTSUP)?;
    let answer = namespace::inside(spaces.user.as_fd(), spaces.mount.as_fd(), || {
        let root = openat2(None, c"/", libc::O_PATH | libc::O_DIRECTORY, 0, 0)?;
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let mut mounted = Vec::with_capacity(paths.len());
        for (paths, role) in &paths {
            let mut held = true;
            for path in paths {
                let is_mounted = path.as_ref().is_some_and(|path| {
                    openat2(Some(root.as_fd()), path, flags, 0, BENEATH)
                        .and_then(|file| statx::is_mount_root(file.as_fd()))
                        .unwrap_or(false)
                });
                if is_mounted {
                    continue;
                }
                held = false;
                // What cannot be closed now is tried again when it is judged, and the
                // jail ended if that fails too.
                if let Some(path) = path {
                    let _ = hold_one(root.as_fd(), path, *role);
                }
            }
            mounted.push(u8::from(held));
        }
        Ok(mounted)
    })?;
    Ok(answer
        .iter()
        .enumerate()
        .filter(|(_, mounted)| **mounted == 0)
        .map(|(index, _)| index)
        .collect())
}

/// The path as the helper opens it: relative to the jail's root.
fn inside(path: &Path) -> Option<CString> {
    let relative = path.strip_prefix("/").ok()?;
    CString::new(relative.as_os_str().as_bytes()).ok()
}

fn hold_one(root: BorrowedFd<'_>, path: &CString, role: Role) -> nix::Result<u64> {
    let open = || {
        openat2(
            Some(root),
            path,
            libc::O_PATH | libc::O_NOFOLLOW,
            0,
            BENEATH,
        )
    };
    for _ in 0..TRIES {
        let file = open()?;
        let tree = match mount::copy(file.as_fd(), Reach::Tree) {
            Ok(tree) => tree,
            // The file that was opened went, and its mount with it.
            Err(Errno::ENOENT | Errno::EINVAL) => continue,
            Err(errno) => return Err(errno),
        };
        if role != Role::Way {
            mount::set_attributes(tree.as_fd(), READ_ONLY, Reach::Tree)?;
        }
        match mount::attach(tree.as_fd(), file.as_fd()) {
            Ok(()) => {}
            // The file was replaced or deleted since it was opened.
            Err(Errno::ENOENT | Errno::EINVAL) => continue,
            Err(errno) => return Err(errno),
        }
        // The descriptor of a copy names the mount itself: the name leads to what was
        // mounted exactly when the two are the same file on the same mount.
        let mount = statx::mount_id(tree.as_fd())?;
        let found = open()?;
        if statx::mount_id(found.as_fd())? == mount
            && FileId::of(found.as_fd())? == FileId::of(tree.as_fd())?
        {
            return Ok(mount);
        }
    }
    Err(Errno::EBUSY)
}
