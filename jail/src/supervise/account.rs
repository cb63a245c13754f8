//! The end of a run: how it ended, why, and what it used up.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

use super::Supervisor;
use super::clock::Peaks;
use crate::error::Error;
use crate::limits::cgroup::Tally;
use crate::outcome::{self, Cause, Outcome};
use crate::output::Tap;
use crate::result::{Measure, Usage};
use crate::terminal::Terminal;

impl Supervisor<'_> {
    /// The account of a run that is over.
    pub(super) fn outcome(self) -> Result<Outcome, Error> {
        if let Some(failure) = self.failed {
            return Err(Error::SetUp(failure));
        }
        let tally = self.watch.limits.tally();
        let report = self.watch.limits.report();
        let status = match (self.exited, self.cause) {
            (Some(status), _) => status,
            (None, Some(_)) => libc::SIGKILL,
            // The kernel took pid 1 itself: possible when memory is short.
            (None, None) if tally.oom_kills > 0 => libc::SIGKILL,
            (None, None) => return Err(Error::JailDied),
        };
        let mut cause = self.cause;
        if cause.is_none() && status != 0 {
            if let (Some(memory), 1..) = (report.memory, tally.oom_kills) {
                cause = Some(Cause::Memory {
                    limit: memory.limit,
                    by: memory.by,
                    used: None,
                });
            } else if let Some(pids) = report.pids
                && (tally.forks_refused > 0 || self.peaks.pids >= pids.limit)
            {
                cause = Some(Cause::Pids {
                    limit: pids.limit,
                    by: pids.by,
                    found: None,
                });
            }
        }
        let mut stdio = self.watch.stdio;
        let tail = stdio.terminal.as_mut().map(Terminal::take_tail);
        let kept = stdio.taps.into_iter();
        Ok(Outcome {
            tail: tail.unwrap_or_default(),
            status,
            cause,
            output: outcome::output(kept.filter_map(Tap::finish).collect()),
            duration: self.started.elapsed(),
            usage: Usage {
                started: self.count,
                ..usage(self.peaks, tally)
            },
            remains: self.jail.spaces,
        })
    }
}

/// What the jail's processes used: all of them were reaped by pid 1, and pid 1 by us.
fn usage(peaks: Peaks, tally: Tally) -> Usage {
    let (mut cpu_ms, mut system_ms, mut largest) = (0, 0, 0);
    if let Ok(children) = getrusage(UsageWho::RUSAGE_CHILDREN) {
        let milliseconds = |time: TimeVal| u64::try_from(time.num_milliseconds()).unwrap_or(0);
        system_ms = milliseconds(children.system_time());
        cpu_ms = milliseconds(children.user_time()) + system_ms;
        largest = u64::try_from(children.max_rss()).unwrap_or(0) << 10;
    }
    let (peak_memory, peak_memory_of) = match tally.peak_memory {
        Some(peak) => (peak, Measure::Jail),
        None if peaks.memory > largest => (peaks.memory, Measure::Samples),
        None => (largest, Measure::LargestProcess),
    };
    let counted = Some(peaks.pids).filter(|count| *count > 0);
    Usage {
        cpu_ms,
        system_ms,
        peak_memory,
        peak_memory_of,
        processes: tally.peak_pids.or(counted),
        started: None,
    }
}
