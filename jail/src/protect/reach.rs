//! Getting at what a jailed command has left behind.
//!
//! It lies under the caller's own uid, so the command can give its files and folders modes
//! that keep even their owner from reading, writing or moving them, and with it sjail. The
//! owner can give itself those permissions back; that is all that is done here, to folders
//! and files of the caller's alone, and only where they are in the way.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, fstat};

use crate::sys::file::{DescriptorPath, NO_LINKS, openat2};

/// Lets the owner read, write and enter this folder, and enter those above it.
pub fn folder(path: &Path) -> Result<(), Errno> {
    let mut at = openat2(None, c"/", libc::O_PATH | libc::O_DIRECTORY, 0, 0)?;
    for part in path.components() {
        if let Component::Normal(name) = part {
            at = match below(at.as_fd(), name, libc::O_DIRECTORY) {
                Err(Errno::EACCES) => {
                    allow(at.as_fd())?;
                    below(at.as_fd(), name, libc::O_DIRECTORY)?
                }
                found => found?,
            };
        }
    }
    allow(at.as_fd())
}

/// Lets the owner read and write this file, or read, write and enter this folder, in a
/// folder that can be reached already. A link stays as it is.
pub fn name(path: &Path) -> Result<(), Errno> {
    let parent = path.parent().ok_or(Errno::EINVAL)?;
    let parent = below(AT_FDCWD, parent.as_os_str(), libc::O_DIRECTORY)?;
    let name = path.file_name().ok_or(Errno::EINVAL)?;
    allow(below(parent.as_fd(), name, 0)?.as_fd())
}

fn below(at: BorrowedFd<'_>, name: &OsStr, flags: i32) -> Result<OwnedFd, Errno> {
    let name = CString::new(name.as_bytes()).map_err(|_| Errno::EINVAL)?;
    openat2(
        Some(at),
        &name,
        libc::O_PATH | libc::O_NOFOLLOW | flags,
        0,
        NO_LINKS,
    )
}

/// By descriptor: what has taken the name meanwhile is not touched.
fn allow(file: BorrowedFd<'_>) -> Result<(), Errno> {
    let stat = fstat(file)?;
    let needed = match stat.st_mode & libc::S_IFMT {
        libc::S_IFDIR => 0o700,
        libc::S_IFREG => 0o600,
        _ => return Ok(()),
    };
    let mode = stat.st_mode & 0o7777;
    if mode & needed == needed {
        return Ok(());
    }
    let mode = Mode::from_bits_truncate(mode | needed);
    let place = DescriptorPath::of(file);
    fchmodat(
        AT_FDCWD,
        place.as_c_str(),
        mode,
        FchmodatFlags::FollowSymlink,
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn only_what_is_in_the_way_is_changed() {
        let base = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(base.path()).unwrap();
        let (above, inner) = (base.join("a"), base.join("a/b"));
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("file"), "").unwrap();
        std::os::unix::fs::symlink(&base, inner.join("link")).unwrap();
        fs::set_permissions(&base, Permissions::from_mode(0o755)).unwrap();
        for (path, bits) in [
            (inner.join("file"), 0o040),
            (inner.clone(), 0o050),
            (above, 0),
        ] {
            fs::set_permissions(path, Permissions::from_mode(bits)).unwrap();
        }
        folder(&inner).unwrap();
        assert_eq!(mode(&inner), 0o750);
        name(&inner.join("file")).unwrap();
        assert_eq!(mode(&inner.join("file")), 0o640);
        name(&inner.join("link")).unwrap();
        assert_eq!(mode(&base), 0o755);
        assert!(folder(&inner.join("link")).is_err());
        assert!(name(&inner.join("missing")).is_err());
    }
}
