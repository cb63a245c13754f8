//! A fresh network namespace and its loopback interface.

use super::raw;

/// Brings `lo` up. For the vanguard as well: `errno` is left alone.
pub fn loopback_up() -> nix::Result<()> {
    let (family, kind) = (libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC);
    // SAFETY: an all-zero ifreq is valid; the name and the flags are filled in below.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    let (flags, address) = (libc::SIOCSIFFLAGS as usize, (&raw const request) as usize);
    // SAFETY: plain numbers, and an ifreq that outlives the call; the descriptor is ours
    // alone and closed once.
    unsafe {
        let socket = raw::call(libc::SYS_socket, [family as usize, kind as usize, 0, 0, 0])?;
        let done = raw::call(libc::SYS_ioctl, [socket, flags, address, 0, 0]);
        raw::call(libc::SYS_close, [socket, 0, 0, 0, 0])?;
        done.map(drop)
    }
}
