//! Signals that arrive at sjail while a jail runs.
//!
//! They are blocked and read from a descriptor, so that the one loop in
//! [`crate::supervise`] sees them in order with everything else and none can strike
//! between two steps. The jail gets them through its pid 1.

use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::sys::signal::is_ignored;

/// What sjail listens to. SIGTTOU is among them so that restoring the terminal and
/// late output never stop us; SIGPIPE because a reader that left is an EPIPE here;
/// SIGCHLD is not: the end of the jail shows on its pidfd.
const HEARD: [Signal; 12] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGPIPE,
];

/// Those of them that stay ignored if sjail was started with them ignored.
const MAY_BE_IGNORED: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// The signals sjail holds back from itself while it lives.
pub struct Signals {
    fd: SignalFd,
    before: SigSet,
}

/// One signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub signal: Signal,
    /// Who it was meant for.
    pub reach: Reach,
}

/// Whom a signal is meant for inside the jail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The terminal (the kernel) sent it to our whole group, as with Ctrl-C: the
    /// command's whole group gets it.
    Group,
    /// A process sent it to sjail: the command alone gets it.
    Command,
}

impl Signals {
    /// Blocks the signals and opens the descriptor. To be called before clone3: a
    /// signal that comes while the jail is being built waits for the loop.
    pub fn block() -> Result<Signals, Errno> {
        let mut set = SigSet::empty();
        for signal in HEARD {
            // Who starts us with nohup, or in the background of a script, wants these
            // ignored; blocked, they would reach the descriptor all the same.
            if !(MAY_BE_IGNORED.contains(&signal) && is_ignored(signal)) {
                set.add(signal);
            }
        }
        let mut before = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&set), Some(&mut before))?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Signals { fd, before })
    }

    /// The mask that was in force when sjail started; the command gets it back.
    pub fn mask_before(&self) -> SigSet {
        self.before
    }

    /// The next signal, if one is waiting.
    pub fn next(&mut self) -> Option<Arrived> {
        loop {
            let info = self.fd.read_signal().ok()??;
            let Ok(signal) = Signal::try_from(info.ssi_signo.cast_signed()) else {
                continue;
            };
            let reach = if info.ssi_code == libc::SI_KERNEL {
                Reach::Group
            } else {
                Reach::Command
            };
            return Some(Arrived { signal, reach });
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Stops sjail's own process group with the stop signal `signal`, as the terminal would
/// have done, and returns when somebody continued it. Where nobody could continue
/// it (an orphaned group) the kernel drops the signal and this returns at once.
pub fn stop_own_group(signal: Signal) -> Result<(), Errno> {
    let mut only = SigSet::empty();
    only.add(signal);
    // Blocked, the stop would wait for ever; the mask is opened for the one call.
    // Its disposition is the default one: sjail never sets a handler for it.
    sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&only), None)?;
    let sent = kill(Pid::from_raw(0), signal);
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&only), None)?;
    sent
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_signal_from_a_process_reaches_the_command_alone() {
        // A thread of its own: the mask is per thread.
        std::thread::spawn(|| {
            let mut signals = Signals::block().unwrap();
            assert_eq!(signals.next(), None);
            nix::sys::signal::raise(Signal::SIGUSR1).unwrap();
            assert_eq!(
                signals.next(),
                Some(Arrived {
                    signal: Signal::SIGUSR1,
                    reach: Reach::Command
                })
            );
            assert_eq!(signals.next(), None);
        })
        .join()
        .unwrap();
    }
}
