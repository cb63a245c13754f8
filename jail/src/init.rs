//! Pid 1 after the command has started: it reaps, passes signals on, reports.
//!
//! As confined as the command, undumpable, one thread, no allocation. When the command
//! has ended it ends, and the kernel ends every other process of the jail with it.

use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, killpg, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, getpgrp};

use crate::channel::{FromJail, Inside, ToJail};
use crate::degraded::family;
use crate::sys::memory;
use crate::sys::process::wait_any;
use crate::sys::tty;

/// The command as pid 1 keeps it.
#[derive(Debug)]
pub struct Command {
    /// Its first process; also the number of its process group.
    pub pid: Pid,
    /// The slave of the jail's pty, where there is one.
    pub pty: Option<OwnedFd>,
    /// Who ends the other processes of the jail when it is over.
    pub end: End,
}

/// What becomes of the others when the command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The kernel ends them with pid 1 of their namespace.
    WithPid1,
    /// There is no namespace: they are found by descent, and ended one by one.
    ByDescent,
}

/// What is said of a command that stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stops {
    /// The supervisor is told.
    Reported,
    /// Nothing: pid 1 itself has stopped it.
    Expected,
    /// Nothing this last time.
    LastExpected,
}

/// Nothing interrupts pid 1: what it must know it reads from descriptors.
pub fn block_signals() -> nix::Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)
}

/// Stays until the command ends; the result is pid 1's own exit status.
pub fn run(channel: &Inside, command: &Command) -> i32 {
    let attended = attend(channel, command);
    if command.end == End::ByDescent {
        family::end(&[]);
    }
    match attended {
        Ok(()) => 0,
        // The supervisor is gone or talks nonsense: the jail ends at once.
        Err(_) => 1,
    }
}

fn attend(channel: &Inside, command: &Command) -> nix::Result<()> {
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    let ended = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let proc = open(
        c"/proc",
        OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    let started = FromJail::Started {
        pid: command.pid.as_raw(),
    };
    channel.send(&started, Some(proc.as_fd()))?;
    drop(proc);
    // The command is on its way: from here on pid 1 needs little of what it is.
    memory::let_go_of_code();
    let mut stops = Stops::Reported;
    loop {
        if let Some(status) = reap(channel, command, stops)? {
            return channel.send(&FromJail::Exited { status }, None);
        }
        if stops == Stops::LastExpected {
            stops = Stops::Reported;
        }
        let mut waits = [
            PollFd::new(channel.as_fd(), PollFlags::POLLIN),
            PollFd::new(ended.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut waits, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
        let spoken = waits
            .first()
            .and_then(|wait| wait.revents())
            .is_some_and(|events| !events.is_empty());
        while ended.read_signal()?.is_some() {}
        if spoken {
            obey(channel, command, &mut stops)?;
        }
    }
}

/// Collects every process that has ended or stopped; the command's own end is returned.
fn reap(channel: &Inside, command: &Command, stops: Stops) -> nix::Result<Option<i32>> {
    while let Some((pid, status)) = wait_any()? {
        if pid != command.pid {
            continue;
        }
        if libc::WIFSTOPPED(status) {
            let signal = libc::WSTOPSIG(status);
            if stops == Stops::Reported {
                channel.send(&FromJail::Stopped { signal }, None)?;
            }
        } else if !libc::WIFCONTINUED(status) {
            return Ok(Some(status));
        }
    }
    Ok(None)
}

fn obey(channel: &Inside, command: &Command, stops: &mut Stops) -> nix::Result<()> {
    let Some(order) = channel.receive()? else {
        return Err(Errno::EPIPE);
    };
    let signal = |number: i32| Signal::try_from(number).ok();
    let done = match order {
        // Said twice; harmless.
        ToJail::Go | ToJail::Start => Ok(()),
        ToJail::Signal(number) => killpg(command.pid, signal(number)),
        ToJail::SignalCommand(number) => kill(command.pid, signal(number)),
        ToJail::Foreground => foreground(command, command.pid),
        ToJail::Background => foreground(command, getpgrp()),
        ToJail::Settle => channel.send(&FromJail::Settled, None),
        ToJail::Halt => {
            *stops = Stops::Expected;
            halt(command)
        }
        ToJail::Resume => {
            *stops = Stops::LastExpected;
            Ok(())
        }
    };
    match done {
        // It has just ended, or its group has no foreground to give: not our affair.
        Ok(()) | Err(Errno::ESRCH | Errno::EPERM | Errno::ENOTTY) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Stops everybody at once: in a pid namespace of its own a signal to all spares nobody
/// but pid 1, not even a process that is just being forked.
fn halt(command: &Command) -> nix::Result<()> {
    match command.end {
        End::WithPid1 => kill(Pid::from_raw(-1), Signal::SIGSTOP),
        // There "all" would be everybody of this user.
        End::ByDescent => Ok(()),
    }
}

fn foreground(command: &Command, group: Pid) -> nix::Result<()> {
    match &command.pty {
        Some(pty) => tty::set_foreground(pty.as_fd(), group.as_raw()),
        None => Ok(()),
    }
}
