//! A fresh network namespace and its loopback interface.

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};

use super::clone::Work;

/// `SIOCGSKNS`: a handle on the network namespace of a socket.
const NAMESPACE_OF: libc::c_ulong = 0x894c;

/// Makes a network namespace with `lo` up, in a process beside ours that shares our
/// descriptors: the handle on it is what remains.
#[derive(Debug)]
pub struct Making(AtomicI32);

impl Default for Making {
    fn default() -> Making {
        Making(AtomicI32::new(-1))
    }
}

impl Work for Making {
    fn work(&self) -> nix::Result<()> {
        // SAFETY: a flag, no memory.
        Errno::result(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
        let socket = socket()?;
        up(&socket)?;
        // SAFETY: takes no argument; on success a fresh descriptor that is ours alone.
        let handle = unsafe {
            let raw = libc::ioctl(socket.as_raw_fd(), NAMESPACE_OF);
            OwnedFd::from_raw_fd(Errno::result(raw)?)
        };
        self.0.store(handle.into_raw_fd(), Ordering::Release);
        Ok(())
    }
}

impl Making {
    /// Enters what was made, once the other process has ended.
    pub fn enter(self) -> nix::Result<()> {
        let handle = match self.0.into_inner() {
            -1 => return Err(Errno::EBADF),
            // SAFETY: stored above, and given away by nobody else.
            raw => unsafe { OwnedFd::from_raw_fd(raw) },
        };
        setns(handle, CloneFlags::CLONE_NEWNET)
    }
}

/// Brings `lo` up.
pub fn loopback_up() -> nix::Result<()> {
    up(&socket()?)
}

fn socket() -> nix::Result<OwnedFd> {
    // SAFETY: plain numbers; on success a fresh descriptor that is ours alone.
    unsafe {
        let raw = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        Ok(OwnedFd::from_raw_fd(Errno::result(raw)?))
    }
}

fn up(socket: &OwnedFd) -> nix::Result<()> {
    // SAFETY: an all-zero ifreq is valid; the name and the flags are filled in below.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: `request` is a valid ifreq and outlives the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    Errno::result(done).map(drop)
}
