//! New processes: a plain copy, and a child that shares memory until it execs. The one that
//! gets namespaces of its own is cloned by the [`super::vanguard`].

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::unistd::{ForkResult, Pid, fork};

use super::pidfd;

/// Linux's number; the libc crate's constant is too narrow for it.
pub(super) const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A new process as the one who asked for it sees it.
#[derive(Debug)]
pub struct Cloned {
    /// Its number.
    pub pid: Pid,
    /// A handle on it that cannot be mistaken for a later process.
    pub pidfd: OwnedFd,
}

/// A plain copy of this process, for a jail without namespaces: filters that refuse those
/// hide `clone3` altogether.
///
/// The process must be single-threaded: the child goes on in a copy of its memory.
pub fn without_namespaces<T>(body: fn(&mut T) -> !, argument: &mut T) -> nix::Result<Cloned> {
    // SAFETY: the process is single-threaded, so the child may do whatever we may.
    match unsafe { fork() }? {
        ForkResult::Child => body(argument),
        ForkResult::Parent { child } => Ok(Cloned {
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
        Stack::of(64 * 1024)
    }

    /// Room of this size.
    pub fn of(bytes: usize) -> Stack {
        // Not written to: what the child does not use costs no page.
        Stack(Box::new_uninit_slice(bytes / size_of::<u128>()))
    }

    /// Where it begins: the end, 16-byte aligned.
    pub(super) fn top(&mut self) -> *mut u128 {
        self.0.as_mut_ptr_range().end.cast()
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
    let top = stack.top();
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
