//! Processes by descriptor: never the wrong one, however late.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::unistd::Pid;

/// A handle on the process that has this number now.
pub fn open(pid: Pid) -> nix::Result<OwnedFd> {
    // SAFETY: the call takes integers.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0_u32) };
    // SAFETY: on success a fresh descriptor that is ours alone; the kernel sets
    // close-on-exec.
    Errno::result(raw).map(|raw| unsafe { OwnedFd::from_raw_fd(raw as RawFd) })
}

/// Sends a signal to the process behind a pidfd.
pub fn send_signal(pidfd: BorrowedFd<'_>, signal: i32) -> nix::Result<()> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the call takes integers and a null pointer, which stands for an ordinary
    // kill(2); the descriptor is borrowed for the call.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            no_info,
            0_u32,
        )
    };
    Errno::result(sent).map(drop)
}

/// Opens a pidfd of a single thread (Linux 6.9); for a process's first thread, of the process.
pub fn open_thread(process: Pid, thread: Pid) -> nix::Result<OwnedFd> {
    const THREAD: libc::c_uint = libc::O_EXCL as libc::c_uint;
    if process == thread {
        return open(process);
    }
    // SAFETY: takes two integers; a non-negative result is a new descriptor nobody owns.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, thread.as_raw(), THREAD);
        Errno::result(fd).map(|fd| OwnedFd::from_raw_fd(fd as i32))
    }
}

/// The file behind another process's descriptor, as a descriptor of our own.
pub fn descriptor(pidfd: BorrowedFd<'_>, number: u32) -> nix::Result<OwnedFd> {
    // SAFETY: takes three integers; a non-negative result is a new descriptor nobody owns.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), number, 0);
        Errno::result(fd).map(|fd| OwnedFd::from_raw_fd(fd as i32))
    }
}
