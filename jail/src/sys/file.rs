//! Opening by strict rules, executing by descriptor.

use std::ffi::{CStr, c_char};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

/// Neither symbolic nor magic links anywhere in the path.
pub const NO_LINKS: u64 = libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;

/// Nothing above the starting folder, and no links.
pub const BENEATH: u64 = libc::RESOLVE_BENEATH | NO_LINKS;

/// Opens a path from a folder (`None`: the working folder) by the `RESOLVE_*` rules.
/// The descriptor is close-on-exec.
pub fn openat2(
    folder: Option<BorrowedFd<'_>>,
    path: &CStr,
    flags: i32,
    mode: u32,
    resolve: u64,
) -> nix::Result<OwnedFd> {
    // SAFETY: all-zero open_how is valid.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (flags | libc::O_CLOEXEC) as u64;
    how.mode = u64::from(mode);
    how.resolve = resolve;
    // SAFETY: `path` is NUL-terminated and `how` has the stated size; both outlive the call.
    let raw = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            folder.map_or(libc::AT_FDCWD, |fd| fd.as_raw_fd()),
            path.as_ptr(),
            &raw const how,
            size_of_val(&how),
        )
    };
    // SAFETY: on success a fresh descriptor that is ours alone.
    Errno::result(raw).map(|raw| unsafe { OwnedFd::from_raw_fd(raw as RawFd) })
}

/// What makes a file this file: its device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

impl FileId {
    /// The identity of an open file.
    pub fn of(file: BorrowedFd<'_>) -> nix::Result<FileId> {
        let stat = nix::sys::stat::fstat(file)?;
        Ok(FileId::from(&stat))
    }
}

impl From<&libc::stat> for FileId {
    fn from(stat: &libc::stat) -> FileId {
        FileId {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// Lets one file share the blocks of another (a reflink), where the file system can.
pub fn share(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> nix::Result<()> {
    // SAFETY: both descriptors are borrowed for the call; no memory is involved.
    let done = unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE as _, from.as_raw_fd()) };
    Errno::result(done).map(drop)
}

/// The path of an open file in `/proc/self/fd`, made without allocating.
#[derive(Debug)]
pub struct DescriptorPath([u8; 32]);

impl DescriptorPath {
    /// The path that leads to this descriptor's file, whatever it is called.
    pub fn of(file: BorrowedFd<'_>) -> DescriptorPath {
        let mut text = [0; 32];
        let prefix = b"/proc/self/fd/";
        let mut digits = [0; 10];
        let mut number = file.as_raw_fd().unsigned_abs();
        let mut count = 0;
        for digit in &mut digits {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
            count += 1;
            if number == 0 {
                break;
            }
        }
        let written = prefix.iter().chain(digits.iter().take(count).rev());
        for (byte, character) in text.iter_mut().zip(written) {
            *byte = *character;
        }
        DescriptorPath(text)
    }

    /// As the kernel wants it.
    pub fn as_c_str(&self) -> &CStr {
        // 24 bytes at most of 32: there is always an end.
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// A list of C strings as the kernel wants it: pointers with a null at the end.
#[derive(Debug)]
pub struct Strings {
    pointers: Vec<*const c_char>,
    // Owns what the pointers point to; a CString's buffer does not move with it.
    _owned: Vec<std::ffi::CString>,
}

impl From<Vec<std::ffi::CString>> for Strings {
    fn from(owned: Vec<std::ffi::CString>) -> Strings {
        let pointers = owned
            .iter()
            .map(|string| string.as_ptr())
            .chain([std::ptr::null()])
            .collect();
        Strings {
            pointers,
            _owned: owned,
        }
    }
}

/// Executes the program that is open as `program`; returns only on failure.
pub fn execute(program: BorrowedFd<'_>, argv: &Strings, envp: &Strings) -> Errno {
    // SAFETY: both lists end in null and their strings live as long as the lists; an
    // empty path with AT_EMPTY_PATH names the descriptor itself.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            argv.pointers.as_ptr(),
            envp.pointers.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
    }
    Errno::last()
}

/// Makes `new` refer to what `old` refers to, without close-on-exec; also when the two
/// are the same number.
pub fn install(old: BorrowedFd<'_>, new: RawFd) -> nix::Result<()> {
    if old.as_raw_fd() == new {
        // SAFETY: a flag change on a descriptor the caller has borrowed.
        return Errno::result(unsafe { libc::fcntl(new, libc::F_SETFD, 0) }).map(drop);
    }
    // SAFETY: dup2 onto one of the standard numbers; whatever was there is replaced,
    // and no owned descriptor of ours has such a number (see `reserve_standard`).
    Errno::result(unsafe { libc::dup2(old.as_raw_fd(), new) }).map(drop)
}

/// Opens `/dev/null` on each of 0, 1, 2 that the caller left closed, so that no later
/// descriptor of ours takes such a number.
pub fn reserve_standard() -> nix::Result<()> {
    for number in 0..=2 {
        // SAFETY: a question about a number; no memory is involved.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0 {
            continue;
        }
        // SAFETY: a constant path; the lowest free number is `number`, because all
        // below it are open. It stays open for the life of the process.
        Errno::result(unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) })?;
    }
    Ok(())
}

/// The standard streams: what the numbers 0, 1 and 2 refer to.
pub fn standard() -> [BorrowedFd<'static>; 3] {
    // SAFETY: these numbers are open for the life of the process (see `reserve_standard`)
    // and owned by nobody.
    [0, 1, 2].map(|number| unsafe { BorrowedFd::borrow_raw(number) })
}

/// Marks every descriptor from `first` on close-on-exec.
pub fn close_on_exec_from(first: u32) -> nix::Result<()> {
    // SAFETY: changes flags only.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    Errno::result(done).map(drop)
}

/// Closes every descriptor from `first` to `last`. For a process about to exec or end
/// that owns none of them any more.
pub fn close_range(first: u32, last: u32) -> nix::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: the callers hold no owned descriptor in the range that they use or drop
    // afterwards.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    Errno::result(done).map(drop)
}

/// Takes over a descriptor that the caller handed us by its number (`--status-fd`): a
/// close-on-exec copy, so that nothing inside inherits it. The original is closed unless
/// it is a standard stream.
pub fn adopt(number: RawFd) -> nix::Result<OwnedFd> {
    // SAFETY: a copy of a descriptor by number; EBADF if there is none.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    let copy = Errno::result(copy)?;
    if number > 2 {
        close_range(number as u32, number as u32)?;
    }
    // SAFETY: the copy is fresh and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}
