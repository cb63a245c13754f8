//! Messages over a socket pair, with at most one descriptor beside them.

use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

/// Room for the control message that carries one descriptor, suitably aligned.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Sends one packet, with a descriptor where one is given. Never raises SIGPIPE.
pub fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> nix::Result<()> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: an all-zero msghdr is a valid, empty one.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if let Some(descriptor) = descriptor {
        header.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: the macros compute sizes and a pointer into `control`, which is
        // aligned and larger than the space for one descriptor; `control` outlives
        // the call below.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as usize;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize;
            libc::CMSG_DATA(first)
                .cast::<RawFd>()
                .write_unaligned(descriptor.as_raw_fd());
        }
    }
    loop {
        // SAFETY: `header` points at live, correctly sized buffers; sendmsg reads them.
        let sent =
            unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
        match Errno::result(sent) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
            Ok(_) => return Ok(()),
        }
    }
}

/// How much of what was sent the other side has not read yet, by the kernel's own measure.
pub fn unread(socket: BorrowedFd<'_>) -> nix::Result<usize> {
    let mut unread: libc::c_int = 0;
    // SAFETY: the call writes one int, into a variable that outlives it.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut unread) };
    Errno::result(done).map(|_| usize::try_from(unread).unwrap_or(0))
}

/// Receives one packet; the length 0 is end of file. A descriptor that came along is
/// close-on-exec; a second one is dropped by the kernel for want of room.
pub fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> nix::Result<(usize, Option<OwnedFd>)> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: an all-zero msghdr is a valid, empty one.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: a computation on constants.
    header.msg_controllen = unsafe { libc::CMSG_LEN(size_of::<RawFd>() as u32) } as usize;
    let length = loop {
        // SAFETY: `header` points at live, writable buffers of the stated sizes.
        let received =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        match Errno::result(received) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
            Ok(length) => break length as usize,
        }
    };
    let mut descriptor = None;
    // SAFETY: the kernel filled `control` and set msg_controllen; the first header, if
    // any, lies within it.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        if !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS
            && (*first).cmsg_len >= libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize
        {
            let raw = libc::CMSG_DATA(first).cast::<RawFd>().read_unaligned();
            // A fresh descriptor that the kernel just installed: ours alone.
            descriptor = Some(OwnedFd::from_raw_fd(raw));
        }
    }
    Ok((length, descriptor))
}
