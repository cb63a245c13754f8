//! What the landlock crate does not offer: the kernel's ABI as a number, and a layer made
//! without memory.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

/// The Landlock ABI of the running kernel; `ENOSYS` when it is not built in,
/// `EOPNOTSUPP` when it is switched off at boot.
pub fn kernel_abi() -> nix::Result<i32> {
    const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: with this flag the call takes no attributes and answers a number.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    Errno::result(abi).map(|abi| abi as i32)
}

/// A further layer for this process that refuses signals and abstract sockets to whoever
/// is not below it, and nothing else: its parent, in the layers above, is out of its reach
/// then. Needs ABI 6 and no_new_privs.
pub fn leave_scope() -> nix::Result<()> {
    #[repr(C)]
    struct Attributes {
        files: u64,
        network: u64,
        scoped: u64,
    }
    const ABSTRACT_UNIX_SOCKET: u64 = 1;
    const SIGNAL: u64 = 2;
    let attributes = Attributes {
        files: 0,
        network: 0,
        scoped: ABSTRACT_UNIX_SOCKET | SIGNAL,
    };
    // SAFETY: the kernel reads the attributes, which outlive the call.
    let raw = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const attributes,
            size_of_val(&attributes),
            0_u32,
        )
    };
    let raw = Errno::result(raw)?;
    // SAFETY: a fresh descriptor that is ours alone.
    let ruleset = unsafe { OwnedFd::from_raw_fd(raw as RawFd) };
    // SAFETY: the call takes a descriptor, which is open, and a number.
    let done =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0_u32) };
    Errno::result(done).map(drop)
}
