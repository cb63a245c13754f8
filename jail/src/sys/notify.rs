//! Seccomp user notification: calls that wait until somebody outside has looked at them.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use seccompiler::sock_filter;

/// One call that waits.
pub type Call = libc::seccomp_notif;

/// The calls that are shown: opening, executing, connecting, changing names.
#[cfg(target_arch = "x86_64")]
pub const SHOWN: [libc::c_long; 13] = [
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_creat,
    libc::SYS_execve,
    libc::SYS_connect,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
];
/// The calls that are shown: opening, executing, connecting, changing names.
#[cfg(target_arch = "aarch64")]
pub const SHOWN: [libc::c_long; 8] = [
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_execve,
    libc::SYS_connect,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
];

/// The calls that give something another name.
#[cfg(target_arch = "x86_64")]
pub const RENAMES: [libc::c_long; 3] = [libc::SYS_rename, libc::SYS_renameat, libc::SYS_renameat2];
/// The calls that give something another name.
#[cfg(target_arch = "aarch64")]
pub const RENAMES: [libc::c_long; 2] = [libc::SYS_renameat, libc::SYS_renameat2];

/// Puts this process under observation by a filter that asks; the descriptor is the
/// observer's. Where the kernel can, a signal does not break off a call that is being
/// looked at. The filter can only be added to those that are already there.
pub fn observe(filter: &[sock_filter]) -> nix::Result<OwnedFd> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| Errno::EINVAL)?,
        filter: filter.as_ptr().cast_mut().cast(),
    };
    const SET_MODE_FILTER: u32 = 1;
    const NEW_LISTENER: u32 = 8;
    const WAIT_KILLABLE: u32 = 32;
    let install = |flags: u32| {
        // SAFETY: `program` points to as many instructions, laid out as the kernel's, that
        // outlive the call; the kernel copies them.
        let raw = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        };
        // SAFETY: on success a fresh descriptor that is ours alone.
        Errno::result(raw).map(|raw| unsafe { OwnedFd::from_raw_fd(raw as RawFd) })
    };
    match install(NEW_LISTENER | WAIT_KILLABLE) {
        Err(Errno::EINVAL) => install(NEW_LISTENER),
        done => done,
    }
}

/// The next call that waits; `ENOENT` when its process has died meanwhile.
pub fn receive(listener: BorrowedFd<'_>) -> nix::Result<Call> {
    const RECEIVE: libc::c_ulong = 0xc050_2100;
    // SAFETY: all-zero is valid, and what the kernel wants to be given.
    let mut call: Call = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one seccomp_notif into `call`.
    let done = unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut call) };
    Errno::result(done).map(|_| call)
}

/// Lets a call go on as if nobody had looked.
pub fn go_on(listener: BorrowedFd<'_>, call: &Call) -> nix::Result<()> {
    const CONTINUE: u32 = 1;
    answer(listener, call, 0, CONTINUE)
}

/// Answers a call with an errno; it is not made.
pub fn refuse(listener: BorrowedFd<'_>, call: &Call, errno: i32) -> nix::Result<()> {
    answer(listener, call, -errno, 0)
}

fn answer(listener: BorrowedFd<'_>, call: &Call, error: i32, flags: u32) -> nix::Result<()> {
    const SEND: libc::c_ulong = 0xc018_2101;
    let answer = libc::seccomp_notif_resp {
        id: call.id,
        val: 0,
        error,
        flags,
    };
    // SAFETY: `answer` is a valid seccomp_notif_resp that outlives the call.
    let done = unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw const answer) };
    Errno::result(done).map(drop)
}
