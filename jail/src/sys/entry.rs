//! Where the C library hands over to us.
//!
//! Rust's own entry reads `/proc/self/maps` and sets up a stack for a message about stack
//! overflows: a tenth of what it takes to start a jail, for every jail. What it does
//! besides, and is needed, is done in `crate::main`.

use std::ffi::{c_char, c_int};

// SAFETY: the one `main` of the program, with the type that the C library calls.
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _words: *const *const c_char) -> c_int {
    // Writes out what is still in the standard library's buffers, unlike a return.
    std::process::exit(crate::main().into())
}
