//! Extended attributes, of which overlays keep theirs under `user.overlay.`.

use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;

use nix::errno::Errno;

use super::file::DescriptorPath;

/// The names of an open file's attributes; the descriptor may be a place only (`O_PATH`).
pub fn names(file: BorrowedFd<'_>) -> nix::Result<Vec<CString>> {
    let path = DescriptorPath::of(file);
    let list = whole(|room| {
        // SAFETY: the path is NUL-terminated; the kernel writes at most the stated number
        // of bytes into `room`.
        unsafe {
            libc::listxattr(
                path.as_c_str().as_ptr(),
                room.as_mut_ptr().cast(),
                room.len(),
            )
        }
    })?;
    Ok(list
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .filter_map(|name| CString::new(name).ok())
        .collect())
}

/// The whole value of an open file's attribute.
pub fn value(file: BorrowedFd<'_>, name: &CStr) -> nix::Result<Vec<u8>> {
    let path = DescriptorPath::of(file);
    whole(|room| {
        // SAFETY: both strings are NUL-terminated; the kernel writes at most the stated
        // number of bytes into `room`.
        unsafe {
            libc::getxattr(
                path.as_c_str().as_ptr(),
                name.as_ptr(),
                room.as_mut_ptr().cast(),
                room.len(),
            )
        }
    })
}

/// What a call writes, whose length is not known before: most is short, and none is longer
/// than the kernel's own limit.
fn whole(mut call: impl FnMut(&mut [u8]) -> isize) -> nix::Result<Vec<u8>> {
    let mut room = vec![0; 256];
    let length = match Errno::result(call(&mut room)) {
        Err(Errno::ERANGE) => {
            room.resize(1 << 16, 0);
            Errno::result(call(&mut room))?
        }
        done => done?,
    };
    room.truncate(length as usize);
    Ok(room)
}

/// Sets an attribute of an open file.
pub fn set(file: BorrowedFd<'_>, name: &CStr, value: &[u8]) -> nix::Result<()> {
    let path = DescriptorPath::of(file);
    // SAFETY: both strings are NUL-terminated; the kernel reads the stated number of bytes.
    let done = unsafe {
        libc::setxattr(
            path.as_c_str().as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    };
    Errno::result(done).map(drop)
}

/// Takes an attribute of an open file away.
pub fn remove(file: BorrowedFd<'_>, name: &CStr) -> nix::Result<()> {
    let path = DescriptorPath::of(file);
    // SAFETY: both strings are NUL-terminated.
    let done = unsafe { libc::removexattr(path.as_c_str().as_ptr(), name.as_ptr()) };
    Errno::result(done).map(drop)
}
