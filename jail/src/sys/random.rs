//! Random bytes from the kernel.

/// `N` random bytes; never blocks once the machine has booted.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    loop {
        // SAFETY: the kernel writes at most N bytes to a buffer of N bytes.
        let length = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
        // Up to 256 bytes come whole; the call fails only with EINTR early in boot.
        if length == N as isize {
            return bytes;
        }
    }
}
