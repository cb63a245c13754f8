//! New processes: `clone3` into namespaces, and a child that shares memory until it execs.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use super::pidfd;

/// Linux's number; the libc crate's constant is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Which side of a clone this is.
#[derive(Debug)]
pub enum Side {
    /// The caller goes on.
    Parent {
        /// The new process as the caller sees it.
        pid: Pid,
        /// A handle on it that cannot be mistaken for a later process.
        pidfd: OwnedFd,
    },
    /// The new process begins.
    Child,
}

/// Clones this process into new namespaces (`CLONE_NEW*` flags), where a group is given
/// as a member of that cgroup v2 folder.
///
/// The process must be single-threaded: the child goes on in a copy of its memory.
pub fn into_namespaces(flags: u64, group: Option<BorrowedFd<'_>>) -> nix::Result<Side> {
    let mut pidfd: RawFd = -1;
    // SAFETY: all-zero clone_args is valid and means "nothing special".
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = flags | libc::CLONE_PIDFD as u64;
    args.pidfd = (&raw mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    if let Some(group) = group {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = group.as_raw_fd() as u64;
    }
    // SAFETY: `args` is a valid clone_args of the stated size; without CLONE_VM and
    // without a stack the call behaves like fork. The kernel writes the descriptor
    // into `pidfd`, which outlives the call.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) };
    match Errno::result(pid)? {
        0 => Ok(Side::Child),
        pid => Ok(Side::Parent {
            pid: Pid::from_raw(pid as i32),
            // SAFETY: the kernel has just installed this descriptor for us alone.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
        }),
    }
}

/// A plain copy of this process, for a jail without namespaces: filters that refuse those
/// hide `clone3` altogether.
///
/// The process must be single-threaded: the child goes on in a copy of its memory.
pub fn without_namespaces() -> nix::Result<Side> {
    // SAFETY: the process is single-threaded, so the child may do whatever we may.
    match unsafe { fork() }? {
        ForkResult::Child => Ok(Side::Child),
        ForkResult::Parent { child } => Ok(Side::Parent {
            pid: child,
            // It is ours and not reaped: the number is its own.
            pidfd: pidfd::open(child)?,
        }),
    }
}

/// Room for a child that shares our memory; reserved before the fork.
#[derive(Debug)]
pub struct Stack(Box<[MaybeUninit<u128>]>);

impl Stack {
    /// 64 KiB, ample for a walk over prepared data.
    pub fn new() -> Stack {
        // Not written to: what the child does not use costs no page.
        Stack(Box::new_uninit_slice(64 * 1024 / size_of::<u128>()))
    }
}

/// Runs `body` in a new process that borrows our memory (`CLONE_VM | CLONE_VFORK`):
/// nothing is copied, and we sleep until it has executed a program or ended. The body
/// must not return into ours: what it returns is the child's exit status.
pub fn borrowing_memory<T>(
    stack: &mut Stack,
    body: extern "C" fn(&T) -> i32,
    argument: &T,
) -> nix::Result<Pid> {
    struct Call<'a, T> {
        body: extern "C" fn(&T) -> i32,
        argument: &'a T,
    }
    extern "C" fn enter<T>(call: *mut libc::c_void) -> i32 {
        // SAFETY: the pointer is the `Call` below; its frame sleeps until we are done.
        let call = unsafe { &*call.cast::<Call<'_, T>>() };
        (call.body)(call.argument)
    }
    let call = Call { body, argument };
    let top = stack.0.as_mut_ptr_range().end;
    // SAFETY: `top` is the 16-byte aligned end of a live buffer used by nobody else.
    // CLONE_VFORK keeps this frame, hence `call`, alive and untouched until the child
    // has left the shared memory.
    let pid = unsafe {
        libc::clone(
            enter::<T>,
            top.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw const call).cast_mut().cast(),
        )
    };
    Errno::result(pid).map(Pid::from_raw)
}

/// What a process beside ours does. It shares our memory, and errno with it: it makes
/// system calls and nothing else, and allocates nothing.
pub trait Work: Sync {
    /// Does it.
    fn work(&self) -> nix::Result<()>;
}

/// Has `work` done by a process that shares our memory and descriptors (`CLONE_VM |
/// CLONE_FILES`) while we go on with `meanwhile`, and waits for it: what we came to, and
/// how it ended.
pub fn beside<W: Work, R>(
    stack: &mut Stack,
    work: &W,
    meanwhile: impl FnOnce() -> R,
) -> nix::Result<(R, nix::Result<()>)> {
    extern "C" fn enter<W: Work>(work: *mut libc::c_void) -> i32 {
        // SAFETY: the pointer is `work` below, which outlives this process: it is waited for.
        let work = unsafe { &*work.cast::<W>() };
        match work.work() {
            Ok(()) => 0,
            Err(errno) => errno as i32,
        }
    }
    let top = stack.0.as_mut_ptr_range().end;
    // SAFETY: `top` is the 16-byte aligned end of a live buffer used by nobody else; it and
    // `work` stay until the process has been waited for, which happens before we return.
    let pid = unsafe {
        libc::clone(
            enter::<W>,
            top.cast(),
            libc::CLONE_VM | libc::CLONE_FILES | libc::SIGCHLD,
            (&raw const *work).cast_mut().cast(),
        )
    };
    let pid = Errno::result(pid).map(Pid::from_raw)?;
    let result = meanwhile();
    let ended = loop {
        match waitpid(pid, None) {
            Ok(WaitStatus::Exited(_, 0)) => break Ok(()),
            Ok(WaitStatus::Exited(_, errno)) => break Err(Errno::from_raw(errno)),
            Ok(_) => break Err(Errno::EIO),
            Err(Errno::EINTR) => {}
            Err(errno) => break Err(errno),
        }
    };
    Ok((result, ended))
}
