//! Capabilities: all five sets emptied, the securebits locked, and both looked at again.

use nix::errno::Errno;

/// `_LINUX_CAPABILITY_VERSION_3`: two words per set.
const VERSION: u32 = 0x2008_0522;

/// More capabilities than this no kernel can have: the sets are 64 bits wide.
const MOST: libc::c_ulong = 64;

/// SECBIT_NOROOT, NO_SETUID_FIXUP, KEEP_CAPS (off), NO_CAP_AMBIENT_RAISE and the lock of
/// each: root means nothing special any more, for good.
const SECUREBITS: libc::c_ulong = 0b1110_1111;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const NONE: Sets = Sets {
    effective: 0,
    permitted: 0,
    inheritable: 0,
};

/// Locks the securebits and empties the bounding, ambient, inheritable, permitted and
/// effective sets, in this order: each step needs what the next one takes away.
pub fn drop_all() -> nix::Result<()> {
    prctl(libc::PR_SET_SECUREBITS, SECUREBITS, 0)?;
    for capability in 0..MOST {
        match prctl(libc::PR_CAPBSET_DROP, capability, 0) {
            Ok(_) => {}
            // The first number that this kernel does not know.
            Err(Errno::EINVAL) if capability > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    drop_without_bounding()
}

/// The same for a process that may not touch the bounding set: where user namespaces
/// are missing an ordinary user has nothing but empty sets to begin with.
pub fn drop_without_bounding() -> nix::Result<()> {
    prctl(
        libc::PR_CAP_AMBIENT,
        libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong,
        0,
    )?;
    let header = Header {
        version: VERSION,
        pid: 0,
    };
    // SAFETY: header and two data words as version 3 of the interface wants them.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw const header, [NONE; 2].as_ptr()) };
    Errno::result(done).map(drop)
}

/// Whether the effective, permitted, inheritable and ambient sets are empty.
pub fn usable_are_empty() -> nix::Result<bool> {
    let mut header = Header {
        version: VERSION,
        pid: 0,
    };
    let mut sets = [NONE; 2];
    // SAFETY: header and room for two data words as version 3 of the interface wants them.
    let done = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
    Errno::result(done)?;
    Ok(sets == [NONE; 2] && none_set(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_IS_SET)?)
}

/// Whether the bounding set is empty and the securebits are locked.
pub fn bounding_is_empty() -> nix::Result<bool> {
    Ok(none_set(libc::PR_CAPBSET_READ, 0)?
        && prctl(libc::PR_GET_SECUREBITS, 0, 0)? == SECUREBITS as i32)
}

/// Asks about each capability in turn; the option takes either the capability or a
/// sub-command and the capability.
fn none_set(option: i32, sub: i32) -> nix::Result<bool> {
    for capability in 0..MOST {
        let answer = match sub {
            0 => prctl(option, capability, 0),
            sub => prctl(option, sub as libc::c_ulong, capability),
        };
        match answer {
            Ok(0) => {}
            Ok(_) => return Ok(false),
            Err(Errno::EINVAL) if capability > 0 => return Ok(true),
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

fn prctl(option: i32, first: libc::c_ulong, second: libc::c_ulong) -> nix::Result<i32> {
    const ZERO: libc::c_ulong = 0;
    // SAFETY: these options take plain numbers.
    Errno::result(unsafe { libc::prctl(option, first, second, ZERO, ZERO) })
}
