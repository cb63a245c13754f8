//! Acting inside the jail's namespaces from outside.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, setns};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pipe2};

/// Runs `work` in a child that has entered the user and the mount namespace, and gives
/// the bytes it answered with. The child has every capability there, sees the jail's
/// files at the jail's paths, and is itself no part of the jail: it stays in our pid
/// namespace, where the jail can neither see nor touch it.
///
/// The process must be single-threaded: the child goes on in a copy of its memory.
pub fn inside<F>(user: BorrowedFd<'_>, mount: BorrowedFd<'_>, work: F) -> nix::Result<Vec<u8>>
where
    F: FnOnce() -> nix::Result<Vec<u8>>,
{
    child(|| {
        setns(user, CloneFlags::CLONE_NEWUSER)?;
        setns(mount, CloneFlags::CLONE_NEWNS)?;
        work()
    })
}

/// Runs `work` in a child that goes its own way, and gives its pid; somebody must wait for
/// it. The child ends with what `work` gives.
///
/// The process must be single-threaded: the child goes on in a copy of its memory.
pub fn apart<F>(work: F) -> nix::Result<Pid>
where
    F: FnOnce() -> i32,
{
    // SAFETY: the process is single-threaded, so the child may do whatever we may.
    match unsafe { fork() }? {
        ForkResult::Child => {
            let status = work();
            // SAFETY: does not return; nothing of the parent's is run or dropped.
            unsafe { libc::_exit(status) }
        }
        ForkResult::Parent { child } => Ok(child),
    }
}

/// Runs `work` in a child and gives the bytes it answered with, or its errno.
///
/// The process must be single-threaded: the child goes on in a copy of its memory.
pub fn child<F>(work: F) -> nix::Result<Vec<u8>>
where
    F: FnOnce() -> nix::Result<Vec<u8>>,
{
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
    // SAFETY: the process is single-threaded, so the child may do whatever we may.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop(reader);
            let answer = work();
            let status = match answer {
                Ok(bytes) if File::from(writer).write_all(&bytes).is_ok() => 0,
                Ok(_) => Errno::EPIPE as i32,
                Err(errno) => errno as i32,
            };
            // SAFETY: does not return; nothing of the parent's is run or dropped.
            unsafe { libc::_exit(status) }
        }
        ForkResult::Parent { child } => {
            drop(writer);
            let mut bytes = Vec::new();
            let read = File::from(reader).read_to_end(&mut bytes);
            loop {
                return match waitpid(child, None) {
                    Err(Errno::EINTR) => continue,
                    Ok(WaitStatus::Exited(_, 0)) => read.map(|_| bytes).map_err(|_| Errno::EIO),
                    Ok(WaitStatus::Exited(_, errno)) => Err(Errno::from_raw(errno)),
                    Ok(_) => Err(Errno::ECHILD),
                    Err(errno) => Err(errno),
                };
            }
        }
    }
}
