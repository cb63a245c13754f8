//! What a process does about its signals, where nix can only change it.

use std::mem::zeroed;
use std::ptr::null;

/// Whether this process ignores a signal: `nohup` and background jobs of a shell
/// without job control start their programs so.
pub fn is_ignored(signal: nix::sys::signal::Signal) -> bool {
    // SAFETY: an all-zero sigaction is a valid value of a plain C struct.
    let mut now: libc::sigaction = unsafe { zeroed() };
    // SAFETY: a null new action only asks; the old one is written to `now`, which
    // outlives the call.
    let asked = unsafe { libc::sigaction(signal as i32, null(), &raw mut now) };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}
