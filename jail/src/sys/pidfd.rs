//! Processes by descriptor: never the wrong one, however late.

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;

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
