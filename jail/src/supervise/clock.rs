//! What happens by the clock: timeouts, looks at the jail, settling down to wait.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::PollTimeout;

use super::{Ahead, Phase, Supervisor};
use crate::channel::ToJail;
use crate::limits::Means;
use crate::limits::watchdog::{Excess, Watchdog};
use crate::outcome::Cause;
use crate::sys::{memory, pidfd};

/// Between the polite signal and the final one when the time is up: enough for git to
/// remove its lock file, too short to go on working.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// A command that has run this long is likely to run on: what only its start needed can
/// go.
pub(super) const SETTLED: Duration = Duration::from_millis(100);

/// What happens when the time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// The command has had its time: the polite signal.
    Timeout,
    /// And the final one.
    Kill,
}

/// The most that the watchdog saw.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Peaks {
    pub memory: u64,
    pub pids: u64,
}

impl Supervisor<'_> {
    /// Before a long sleep: lets go of what waiting does not need.
    pub(super) fn settle(&mut self) {
        let now = Instant::now();
        if self.settle_at.is_some_and(|when| now >= when) {
            memory::let_go_of_free_memory();
            memory::let_go_of_code();
            // The next look at the jail brings some of the code back.
            self.settle_at = self.watchdog.as_ref().map(Watchdog::due);
        }
    }

    /// How long to sleep at most. Rounded up: a poll that wakes early would spin.
    pub(super) fn patience(&self) -> PollTimeout {
        if self.ahead == Ahead::More {
            return PollTimeout::ZERO;
        }
        let due = [
            self.settle_at,
            self.due.map(|(due, _)| due),
            self.watchdog.as_ref().map(Watchdog::due),
        ];
        let Some(due) = due.into_iter().flatten().min() else {
            return PollTimeout::NONE;
        };
        let left = due.saturating_duration_since(Instant::now());
        let milliseconds = left.as_micros().div_ceil(1000).min(3_600_000);
        PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX)
    }

    /// What is due by the clock.
    pub(super) fn keep_time(&mut self) {
        let now = Instant::now();
        if let Some((when, due)) = self.due
            && now >= when
        {
            match due {
                Due::Timeout => {
                    self.cause = self.watch.timeout.map(Cause::Timeout);
                    self.tell(ToJail::Signal(libc::SIGTERM));
                    self.tell(ToJail::Signal(libc::SIGCONT));
                    self.due = Some((now + GRACE, Due::Kill));
                }
                Due::Kill => {
                    self.due = None;
                    let _ = pidfd::send_signal(self.jail.pidfd.as_fd(), libc::SIGKILL);
                }
            }
        }
        if let Some(watchdog) = &mut self.watchdog
            && now >= watchdog.due()
        {
            let excess = watchdog.look(now);
            self.peaks = Peaks {
                memory: watchdog.peak_memory(),
                pids: watchdog.peak_pids(),
            };
            match excess {
                None => {}
                Some(Excess::Memory(used)) => self.kill(Cause::Memory {
                    limit: self.watch.limits.watch().memory.unwrap_or(0),
                    by: Means::Watchdog,
                    used: Some(used),
                }),
                Some(Excess::Pids(found)) => self.kill(Cause::Pids {
                    limit: self.watch.limits.watch().pids.unwrap_or(0),
                    by: Means::Watchdog,
                    found: Some(found),
                }),
            }
        }
    }

    /// Ends the jail at once: SIGKILL for pid 1 is SIGKILL for all.
    pub(super) fn kill(&mut self, cause: Cause) {
        if self.phase < Phase::Dead {
            self.cause.get_or_insert(cause);
            self.watchdog = None;
            let _ = pidfd::send_signal(self.jail.pidfd.as_fd(), libc::SIGKILL);
        }
    }
}
