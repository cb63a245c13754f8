//! System calls that leave `errno` alone.
//!
//! A process that shares our memory while we go on shares `errno` with us, too: what it
//! calls by way of the C library could change the number that we are about to look at.

use std::arch::asm;

use nix::errno::Errno;

/// Makes a system call; what it returns, or the error it names.
///
/// # Safety
///
/// As for the call itself: pointers among the arguments must be good for what the kernel
/// does with them.
pub unsafe fn call(number: libc::c_long, arguments: [usize; 5]) -> nix::Result<usize> {
    let [a, b, c, d, e] = arguments;
    let answer: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel's calling convention: these registers in, `rax` out, `rcx` and
    // `r11` lost; memory is what the caller vouches for.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the same convention in this processor's registers.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => answer,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e,
            options(nostack),
        );
    }
    match answer {
        -4095..0 => Err(Errno::from_raw(-answer as i32)),
        answer => Ok(answer as usize),
    }
}
