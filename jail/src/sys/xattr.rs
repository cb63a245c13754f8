//! Extended attributes, of which overlays keep theirs under `user.overlay.`.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;

/// The value of an attribute, links not followed; at most 256 bytes of it.
pub fn get(path: &Path, name: &CStr) -> nix::Result<Vec<u8>> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?;
    let mut value = vec![0_u8; 256];
    // SAFETY: both strings are NUL-terminated; the kernel writes at most the stated
    // number of bytes into `value`.
    let length = unsafe {
        libc::lgetxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    };
    let length = Errno::result(length)? as usize;
    value.truncate(length);
    Ok(value)
}
