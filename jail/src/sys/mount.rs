//! The mount API by descriptors: copies of mounts, fresh file systems, attributes.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

/// No changes through this mount.
pub const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
/// Set-user-id bits and file capabilities mean nothing.
pub const NO_SUID: u64 = libc::MOUNT_ATTR_NOSUID;
/// Device files cannot be opened.
pub const NO_DEVICES: u64 = libc::MOUNT_ATTR_NODEV;
/// Programs cannot be executed.
pub const NO_EXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

/// How far down a copy or a change of attributes reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// This mount alone.
    One,
    /// Every mount below it as well.
    Tree,
}

impl Reach {
    fn flag(self) -> i32 {
        match self {
            Reach::One => 0,
            Reach::Tree => libc::AT_RECURSIVE,
        }
    }
}

/// A detached copy of the mount that `source` lies on, rooted at `source`.
pub fn copy(source: BorrowedFd<'_>, reach: Reach) -> nix::Result<OwnedFd> {
    let flags = libc::AT_EMPTY_PATH as u32
        | reach.flag() as u32
        | libc::OPEN_TREE_CLONE
        | libc::OPEN_TREE_CLOEXEC;
    // SAFETY: an empty path with AT_EMPTY_PATH names the descriptor itself.
    let raw =
        unsafe { libc::syscall(libc::SYS_open_tree, source.as_raw_fd(), c"".as_ptr(), flags) };
    owned(raw)
}

/// Sets attributes; none is ever cleared, so flags that the kernel has locked stay.
pub fn set_attributes(mount: BorrowedFd<'_>, attributes: u64, reach: Reach) -> nix::Result<()> {
    change(mount, attributes, 0, reach)
}

/// Makes the mount tree that the working root belongs to private: nothing that happens
/// here is seen outside, nor the other way round.
pub fn make_private(root: BorrowedFd<'_>) -> nix::Result<()> {
    change(root, 0, libc::MS_PRIVATE, Reach::Tree)
}

fn change(mount: BorrowedFd<'_>, set: u64, propagation: u64, reach: Reach) -> nix::Result<()> {
    let attr = libc::mount_attr {
        attr_set: set,
        attr_clr: 0,
        propagation,
        userns_fd: 0,
    };
    // SAFETY: `attr` has the stated size and outlives the call; the empty path names
    // the descriptor itself.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | reach.flag(),
            &raw const attr,
            size_of_val(&attr),
        )
    };
    Errno::result(done).map(drop)
}

/// Attaches a detached mount on top of an open folder or file.
pub fn attach(mount: BorrowedFd<'_>, on: BorrowedFd<'_>) -> nix::Result<()> {
    const F_EMPTY_PATH: u32 = libc::MOVE_MOUNT_F_EMPTY_PATH;
    const T_EMPTY_PATH: u32 = libc::MOVE_MOUNT_T_EMPTY_PATH;
    // SAFETY: both paths are empty and name the descriptors themselves.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            on.as_raw_fd(),
            c"".as_ptr(),
            F_EMPTY_PATH | T_EMPTY_PATH,
        )
    };
    Errno::result(done).map(drop)
}

/// A fresh, detached file system of this type with these options.
pub fn fresh(kind: &CStr, options: &[(&CStr, &CStr)], attributes: u64) -> nix::Result<OwnedFd> {
    // Linux's numbers, which the libc crate does not name.
    const FSOPEN_CLOEXEC: u32 = 1;
    const FSMOUNT_CLOEXEC: u32 = 1;
    const FSCONFIG_SET_FLAG: u32 = 0;
    const FSCONFIG_SET_STRING: u32 = 1;
    const FSCONFIG_CMD_CREATE: u32 = 6;
    // SAFETY: `kind` is NUL-terminated.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) })?;
    for (key, value) in options {
        // An option without a value is a flag.
        let (command, value) = match value.is_empty() {
            true => (FSCONFIG_SET_FLAG, std::ptr::null()),
            false => (FSCONFIG_SET_STRING, value.as_ptr()),
        };
        // SAFETY: key and value are NUL-terminated (or null, for a flag) and copied by
        // the kernel.
        let done = unsafe {
            libc::syscall(
                libc::SYS_fsconfig,
                context.as_raw_fd(),
                command,
                key.as_ptr(),
                value,
                0,
            )
        };
        Errno::result(done)?;
    }
    // SAFETY: the command takes neither key nor value.
    let done = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            FSCONFIG_CMD_CREATE,
            std::ptr::null::<u8>(),
            std::ptr::null::<u8>(),
            0,
        )
    };
    Errno::result(done)?;
    // SAFETY: plain numbers.
    owned(unsafe {
        libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            attributes,
        )
    })
}

fn owned(raw: libc::c_long) -> nix::Result<OwnedFd> {
    // SAFETY: on success a fresh descriptor that is ours alone.
    Errno::result(raw).map(|raw| unsafe { OwnedFd::from_raw_fd(raw as RawFd) })
}
