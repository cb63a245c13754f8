//! The one question that the landlock crate keeps to itself.

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
