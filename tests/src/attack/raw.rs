//! System calls as the kernel takes them, in all three dialects of x86-64.

use std::ffi::CString;
use std::io;

/// A system call by number; libraries in between would tidy arguments up.
pub fn call(number: i64, arguments: &[usize]) -> io::Result<usize> {
    let mut six = [0usize; 6];
    six[..arguments.len()].copy_from_slice(arguments);
    // SAFETY: every pointer an attempt passes is to memory it holds until the
    // call returns; the calls that would end this very process are what is tried.
    let result = unsafe { libc::syscall(number, six[0], six[1], six[2], six[3], six[4], six[5]) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result as usize)
    }
}

/// Whether an error is this errno.
pub fn is(error: &io::Error, errno: i32) -> bool {
    error.raw_os_error() == Some(errno)
}

/// A path or name as the kernel wants it.
pub fn c(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// A system call through the 32-bit gate, `int 0x80`. Pointers must lie below
/// 4 GiB: see [`low_page`].
#[cfg(target_arch = "x86_64")]
pub fn int80(number: u32, arguments: [u32; 3]) -> io::Result<u32> {
    let mut result: i64 = i64::from(number);
    // SAFETY: rbx is saved around the call because the compiler keeps it for
    // itself; the gate clobbers r8 to r11 on some kernels.
    unsafe {
        std::arch::asm!(
            "xchg {first:r}, rbx",
            "int 0x80",
            "xchg {first:r}, rbx",
            first = inout(reg) i64::from(arguments[0]) => _,
            inout("rax") result,
            in("rcx") i64::from(arguments[1]),
            in("rdx") i64::from(arguments[2]),
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    let result = result as i32;
    if (-4095..0).contains(&result) {
        Err(io::Error::from_raw_os_error(-result))
    } else {
        Ok(result as u32)
    }
}

/// A zeroed page below 4 GiB, for pointers of 32-bit calls.
pub fn low_page() -> io::Result<*mut u8> {
    // SAFETY: a fresh anonymous mapping, owned by the caller for good.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(page.cast())
    }
}

/// A buffer's address as a system call argument.
pub fn address<T: ?Sized>(value: &T) -> usize {
    std::ptr::from_ref(value).cast::<u8>() as usize
}

/// A mutable buffer's address as a system call argument.
pub fn address_mut<T: ?Sized>(value: &mut T) -> usize {
    std::ptr::from_mut(value).cast::<u8>() as usize
}
