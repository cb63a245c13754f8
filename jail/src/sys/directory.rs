//! The names in a folder, read into a buffer of the caller's: nothing is allocated per name.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, fstatat};

/// What a folder says about one of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A socket, pipe or device, or the file system does not say.
    Other,
}

/// Some names of a folder.
#[derive(Debug)]
pub struct Entries<'a>(&'a [u8]);

/// The next names of an open folder; empty at its end.
pub fn read<'a>(folder: BorrowedFd<'_>, buffer: &'a mut [u8]) -> nix::Result<Entries<'a>> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes into the buffer.
    let length = unsafe {
        libc::syscall(
            libc::SYS_getdents64,
            folder.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
        )
    };
    let length = Errno::result(length)? as usize;
    Ok(Entries(buffer.get(..length).unwrap_or_default()))
}

impl Entries<'_> {
    /// Whether the folder has no more names.
    pub fn is_end(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a CStr, Kind);

    fn next(&mut self) -> Option<(&'a CStr, Kind)> {
        // struct linux_dirent64: inode (8), offset (8), length (2), type (1), name.
        loop {
            let bytes = self.0;
            let length = usize::from(u16::from_ne_bytes([*bytes.get(16)?, *bytes.get(17)?]));
            let (entry, rest) = bytes.split_at_checked(length).filter(|_| length > 19)?;
            self.0 = rest;
            let kind = match *entry.get(18)? {
                libc::DT_DIR => Kind::Folder,
                libc::DT_REG => Kind::File,
                libc::DT_LNK => Kind::Link,
                _ => Kind::Other,
            };
            let name = CStr::from_bytes_until_nul(entry.get(19..)?).ok()?;
            if !matches!(name.to_bytes(), b"." | b"..") {
                return Some((name, kind));
            }
        }
    }
}

/// What a name in a folder is, where the folder may not have said it: some file systems
/// do not.
pub fn known(folder: BorrowedFd<'_>, name: &CStr, said: Kind) -> Kind {
    if said != Kind::Other {
        return said;
    }
    fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW).map_or(Kind::Other, |stat| kind(&stat))
}

/// What this is the stat of.
pub fn kind(stat: &FileStat) -> Kind {
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFDIR => Kind::Folder,
        libc::S_IFREG => Kind::File,
        libc::S_IFLNK => Kind::Link,
        _ => Kind::Other,
    }
}

/// Asks for SIGIO whenever a name appears in the folder, leaves it or changes.
///
/// Unlike inotify, whose descriptor takes several milliseconds to close, this costs a
/// microsecond. It lasts until the descriptor is closed, in this process alone.
pub fn notify(folder: BorrowedFd<'_>) -> nix::Result<()> {
    // Linux's numbers, which the libc crate does not name everywhere.
    const F_NOTIFY: i32 = 1026;
    const DN_CREATE: u64 = 0x4;
    const DN_DELETE: u64 = 0x8;
    const DN_RENAME: u64 = 0x10;
    const DN_MULTISHOT: u64 = 0x8000_0000;
    // SAFETY: flags on a descriptor that the caller has borrowed; no memory is involved.
    let done = unsafe {
        libc::fcntl(
            folder.as_raw_fd(),
            F_NOTIFY,
            DN_CREATE | DN_DELETE | DN_RENAME | DN_MULTISHOT,
        )
    };
    Errno::result(done).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn every_name_of_a_folder_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut wanted: Vec<String> = (0..500)
            .map(|n| format!("{n}-{}", "x".repeat(n % 50)))
            .collect();
        for name in &wanted {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("d")).unwrap();
        std::os::unix::fs::symlink("d", folder.path().join("l")).unwrap();
        let open = std::fs::File::open(folder.path()).unwrap();
        let mut buffer = vec![0; 4096];
        let mut seen = Vec::new();
        loop {
            let entries = read(open.as_fd(), &mut buffer).unwrap();
            if entries.is_end() {
                break;
            }
            for (name, kind) in entries {
                let name = name.to_str().unwrap().to_owned();
                match name.as_str() {
                    "d" => assert_eq!(kind, Kind::Folder),
                    "l" => assert_eq!(kind, Kind::Link),
                    _ => assert_eq!(kind, Kind::File),
                }
                seen.push(name);
            }
        }
        wanted.extend(["d".to_owned(), "l".to_owned()]);
        wanted.sort();
        seen.sort();
        assert_eq!(seen, wanted);
    }
}
