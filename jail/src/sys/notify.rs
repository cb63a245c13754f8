//! Seccomp user notification: calls that wait until somebody outside has looked at them.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

/// One call that waits.
pub type Call = libc::seccomp_notif;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

/// The calls that are shown: opening, executing, connecting, changing names.
#[cfg(target_arch = "x86_64")]
const SHOWN: [libc::c_long; 13] = [
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_creat,
    libc::SYS_execve,
    libc::SYS_connect,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
];
#[cfg(target_arch = "aarch64")]
const SHOWN: [libc::c_long; 8] = [
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_execve,
    libc::SYS_connect,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
];

const LENGTH: usize = SHOWN.len() + 5;

/// Puts this process under observation; the descriptor is the observer's. The filter lets
/// every other call pass, and can only be added to those that are already there.
pub fn observe() -> nix::Result<OwnedFd> {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    const ALLOW: u32 = 0x7fff_0000;
    const NOTIFY: u32 = 0x7fc0_0000;
    const fn step(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code, jt, jf, k }
    }
    let count = SHOWN.len() as u8;
    let mut code = [step(RETURN, 0, 0, ALLOW); LENGTH];
    // 0: another architecture is the other filters' affair.
    code[0] = step(LOAD, 0, 0, 4);
    code[1] = step(EQUAL, 0, count + 1, ARCH);
    code[2] = step(LOAD, 0, 0, 0);
    for (index, number) in SHOWN.iter().enumerate() {
        // From here to the last instruction, over the comparisons that are left and the
        // one that allows.
        code[3 + index] = step(EQUAL, count - index as u8, 0, *number as u32);
    }
    code[LENGTH - 1] = step(RETURN, 0, 0, NOTIFY);
    let program = libc::sock_fprog {
        len: LENGTH as u16,
        filter: code.as_mut_ptr(),
    };
    const SET_MODE_FILTER: u32 = 1;
    const NEW_LISTENER: u32 = 8;
    // SAFETY: `program` points to LENGTH instructions that outlive the call; the kernel
    // copies them.
    let raw = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SET_MODE_FILTER,
            NEW_LISTENER,
            &raw const program,
        )
    };
    // SAFETY: on success a fresh descriptor that is ours alone.
    Errno::result(raw).map(|raw| unsafe { OwnedFd::from_raw_fd(raw as RawFd) })
}

/// The next call that waits; `ENOENT` when its process has died meanwhile.
pub fn receive(listener: BorrowedFd<'_>) -> nix::Result<Call> {
    const RECEIVE: libc::c_ulong = 0xc050_2100;
    // SAFETY: all-zero is valid, and what the kernel wants to be given.
    let mut call: Call = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one seccomp_notif into `call`.
    let done = unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut call) };
    Errno::result(done).map(|_| call)
}

/// Lets a call go on as if nobody had looked.
pub fn go_on(listener: BorrowedFd<'_>, call: &Call) -> nix::Result<()> {
    const SEND: libc::c_ulong = 0xc018_2101;
    const CONTINUE: u32 = 1;
    let answer = libc::seccomp_notif_resp {
        id: call.id,
        val: 0,
        error: 0,
        flags: CONTINUE,
    };
    // SAFETY: `answer` is a valid seccomp_notif_resp that outlives the call.
    let done = unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw const answer) };
    Errno::result(done).map(drop)
}
