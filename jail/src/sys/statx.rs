//! What `statx` says beyond `stat`.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;

/// The mount that an open file was reached through.
pub fn mount_id(file: BorrowedFd<'_>) -> nix::Result<u64> {
    let answer = statx(file)?;
    if answer.stx_mask & libc::STATX_MNT_ID == 0 {
        return Err(Errno::ENOSYS);
    }
    Ok(answer.stx_mnt_id)
}

/// Whether an open file is what a mount shows, not something below it.
pub fn is_mount_root(file: BorrowedFd<'_>) -> nix::Result<bool> {
    let root = libc::STATX_ATTR_MOUNT_ROOT as u64;
    let answer = statx(file)?;
    if answer.stx_attributes_mask & root == 0 {
        return Err(Errno::ENOSYS);
    }
    Ok(answer.stx_attributes & root != 0)
}

/// When a file was made, by its path, links not followed: with device and inode it tells
/// a file from a later one that was given the same number. Zero where nobody knows.
pub fn born(path: &CStr) -> nix::Result<(i64, u32)> {
    // SAFETY: all-zero statx is valid.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: `path` is NUL-terminated; `answer` is writable and outlives the call.
    let done = unsafe {
        libc::statx(
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_SYMLINK_NOFOLLOW,
            libc::STATX_BTIME,
            &raw mut answer,
        )
    };
    Errno::result(done)?;
    Ok((answer.stx_btime.tv_sec, answer.stx_btime.tv_nsec))
}

fn statx(file: BorrowedFd<'_>) -> nix::Result<libc::statx> {
    // SAFETY: all-zero statx is valid.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the empty path names the descriptor itself; `answer` is writable and
    // outlives the call.
    let done = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_MNT_ID,
            &raw mut answer,
        )
    };
    Errno::result(done).map(|_| answer)
}
