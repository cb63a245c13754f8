//! Being told when a name appears in, leaves or changes in one of the watched folders.
//!
//! By directory notification (`F_NOTIFY`): one signal, SIGIO, whatever happens where. A
//! second one that comes before the first is read is merged with it, so a jail that
//! makes a million files wakes us as often as we can look, not a million times. Inotify
//! would say more, but closing its descriptor takes many milliseconds. A kernel without
//! directory notification gets a clock instead.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::inventory::Watched;
use crate::sys::directory;

/// How often folders are looked at where the kernel cannot tell.
const TICK: Duration = Duration::from_millis(20);

/// The one descriptor that becomes ready when there is something to look at.
#[derive(Debug)]
pub enum Watch {
    /// SIGIO, blocked.
    Signal(SignalFd),
    /// The clock.
    Clock(TimerFd),
}

impl Watch {
    /// Starts watching. SIGIO stays blocked in this process for good.
    pub fn start(folders: &[Watched]) -> Result<Watch, Errno> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGIO);
        set.thread_block()?;
        for folder in folders {
            match directory::notify(folder.fd.as_fd()) {
                Ok(()) => {}
                Err(_) => return Watch::clock(),
            }
        }
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        SignalFd::with_flags(&set, flags).map(Watch::Signal)
    }

    fn clock() -> Result<Watch, Errno> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        let tick = Expiration::Interval(TimeSpec::from(TICK));
        timer.set(tick, TimerSetTimeFlags::empty())?;
        Ok(Watch::Clock(timer))
    }

    /// Watches one more folder.
    pub fn add(&self, folder: &Watched) {
        if let Watch::Signal(_) = self {
            // A folder that cannot be watched is still looked at when the run ends.
            let _ = directory::notify(folder.fd.as_fd());
        }
    }

    /// Whether anything has happened since the last call.
    pub fn happened(&self) -> bool {
        match self {
            Watch::Signal(signal) => {
                let mut any = false;
                while let Ok(Some(_)) = signal.read_signal() {
                    any = true;
                }
                any
            }
            Watch::Clock(timer) => {
                let _ = timer.wait();
                true
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Watch::Signal(signal) => signal.as_fd(),
            Watch::Clock(timer) => timer.as_fd(),
        }
    }
}
