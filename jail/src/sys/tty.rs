//! Terminal system calls that nix leaves out: window size, pseudo-terminal pairs,
//! the controlling terminal.
//!
//! Nothing here allocates: the jail's pid 1 calls it between clone3 and exec.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

/// Rows and columns of a terminal.
pub type WindowSize = libc::winsize;

/// The window size of the terminal behind `fd`.
pub fn window_size(fd: impl AsFd) -> Result<WindowSize, Errno> {
    let mut size = WindowSize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCGWINSZ writes one winsize to the pointer, which outlives the call.
    Errno::result(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &mut size) })?;
    Ok(size)
}

/// Gives the terminal behind `fd` a new size; the kernel sends SIGWINCH to its
/// foreground group when the size differs.
pub fn set_window_size(fd: impl AsFd, size: &WindowSize) -> Result<(), Errno> {
    // SAFETY: TIOCSWINSZ reads one winsize from the pointer, which outlives the call.
    Errno::result(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCSWINSZ, size) })?;
    Ok(())
}

/// Opens the slave that belongs to `master`, without a path and whatever mount
/// namespace the caller is in. The slave must not become anyone's controlling
/// terminal by accident: O_NOCTTY.
pub fn open_slave(master: impl AsFd) -> Result<OwnedFd, Errno> {
    let master = master.as_fd().as_raw_fd();
    let unlock: libc::c_int = 0;
    // SAFETY: TIOCSPTLCK reads one int from the pointer, which outlives the call.
    Errno::result(unsafe { libc::ioctl(master, libc::TIOCSPTLCK, &unlock) })?;
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: TIOCGPTPEER takes open flags by value and returns a new descriptor.
    let slave = Errno::result(unsafe { libc::ioctl(master, libc::TIOCGPTPEER, flags) })?;
    // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(slave) })
}

/// Makes `tty` the controlling terminal of the calling session leader.
pub fn take_control(tty: impl AsFd) -> Result<(), Errno> {
    // SAFETY: TIOCSCTTY takes its argument by value; 0 means "do not steal".
    Errno::result(unsafe { libc::ioctl(tty.as_fd().as_raw_fd(), libc::TIOCSCTTY, 0) })?;
    Ok(())
}

/// Puts the process group `group` into the foreground of `tty`.
pub fn set_foreground(tty: BorrowedFd<'_>, group: libc::pid_t) -> Result<(), Errno> {
    // SAFETY: TIOCSPGRP reads one pid_t from the pointer, which outlives the call.
    Errno::result(unsafe { libc::ioctl(tty.as_raw_fd(), libc::TIOCSPGRP, &group) })?;
    Ok(())
}

/// Sets line discipline settings without waiting for output to drain.
pub fn set_attributes(tty: impl AsFd, settings: &libc::termios) -> Result<(), Errno> {
    // SAFETY: tcsetattr reads one termios from the pointer, which outlives the call.
    Errno::result(unsafe { libc::tcsetattr(tty.as_fd().as_raw_fd(), libc::TCSANOW, settings) })?;
    Ok(())
}

/// Whether a filter refuses to type into a terminal, with this errno, before the kernel has
/// even looked at the descriptor, which is none: only ours does.
pub fn typing_is_refused(answer: Errno) -> Result<bool, Errno> {
    let byte = 0_u8;
    // SAFETY: TIOCSTI reads one byte from the pointer, which outlives the call.
    let typed = unsafe { libc::ioctl(-1, libc::TIOCSTI, &raw const byte) };
    match Errno::result(typed) {
        Err(errno) if errno == answer => Ok(true),
        Err(Errno::EBADF) => Ok(false),
        Err(errno) => Err(errno),
        Ok(_) => Ok(false),
    }
}

/// The line discipline settings of `tty`.
pub fn attributes(tty: impl AsFd) -> Result<libc::termios, Errno> {
    // SAFETY: an all-zero termios is a valid value of a plain C struct.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: tcgetattr writes one termios to the pointer, which outlives the call.
    Errno::result(unsafe { libc::tcgetattr(tty.as_fd().as_raw_fd(), &mut settings) })?;
    Ok(settings)
}

/// `settings` changed to the raw mode of `cfmakeraw(3)`.
pub fn raw(settings: &libc::termios) -> libc::termios {
    let mut raw = *settings;
    // SAFETY: cfmakeraw only changes fields of the struct it is given.
    unsafe { libc::cfmakeraw(&mut raw) };
    raw
}
