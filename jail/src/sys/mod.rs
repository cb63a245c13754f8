//! Every contact with the kernel that the safe crates do not offer, and all unsafe code.
//!
//! One file per kernel notion. Functions return `nix::Result` and take borrowed
//! descriptors; none of them allocates, so the jail's side may call them between
//! `clone3` and `execve`.

pub mod capability;
pub mod clone;
pub mod directory;
#[cfg(not(test))]
mod entry;
pub mod file;
pub mod landlock;
pub mod memory;
pub mod mount;
pub mod namespace;
pub mod net;
pub mod notify;
pub mod pidfd;
pub mod process;
pub mod random;
pub mod raw;
pub mod signal;
pub mod socket;
pub mod statx;
pub mod tty;
pub mod vanguard;
pub mod xattr;
