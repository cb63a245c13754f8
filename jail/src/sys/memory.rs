//! Memory of our own that we can do without.

use std::ffi::c_void;

unsafe extern "C" {
    /// The first byte of the program in memory; from the linker.
    static __executable_start: u8;
    /// The first byte behind its code; from the linker.
    static etext: u8;
}

/// Gives memory back that was allocated and is free again: reading policies and laying
/// out a jail takes some that watching it does not.
pub fn let_go_of_free_memory() {
    // SAFETY: takes a number, and only touches what the allocator itself holds as free.
    unsafe { libc::malloc_trim(0) };
}

/// Gives the pages of our own code and constants back. They are clean copies of the file
/// and come again, one by one, when they are needed: a supervisor that waits needs a
/// tenth of what starting a jail took. Costs some microseconds.
pub fn let_go_of_code() {
    let page = 4096;
    let start = (&raw const __executable_start)
        .addr()
        .next_multiple_of(page);
    let end = (&raw const etext).addr() / page * page;
    if start < end {
        // SAFETY: the range is whole pages of this program's own read-only file mapping
        // (headers, constants, code: all that lies before `etext`), which the kernel
        // reads again from the same file; nothing that was ever written to is among
        // them. A failure leaves everything as it was.
        unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_DONTNEED) };
    }
}
