//! The loop outside: one `poll`, and behind it everything that can happen to a jail
//! while it runs.
//!
//! It ends when pid 1 has ended (and with it, by the kernel, every process of the jail)
//! and all that the command wrote has been passed on.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::Signal;
use nix::sys::time::{TimeVal, TimeValLike};
use nix::sys::wait::{Id, WaitPidFlag, waitid};

use crate::channel::{FromJail, ToJail};
use crate::cleanup;
use crate::error::Error;
use crate::limits::cgroup::Tally;
use crate::limits::watchdog::{Excess, Watchdog};
use crate::limits::{Limits, Means};
use crate::outcome::{self, Cause, Outcome};
use crate::output::{Buffer, Passed, Stream, Tap, Wait};
use crate::result::{Measure, Usage};
use crate::signals::{Arrived, Reach, Signals, stop_own_group};
use crate::spawn::{Jail, Start};
use crate::stdio::Held;
use crate::step::Failure;
use crate::sys::pidfd;
use crate::terminal::{Moved, Side, Standing};

/// Between the polite signal and the final one when the time is up: enough for git to
/// remove its lock file, too short to go on working.
const GRACE: Duration = Duration::from_millis(500);

/// What the loop attends to besides the jail itself.
pub struct Watch<'a> {
    /// Blocked before the jail was cloned.
    pub signals: Signals,
    /// The streams that run through us.
    pub stdio: Held,
    /// The limits in force.
    pub limits: &'a Limits,
    /// Wall-clock time from the command's start.
    pub timeout: Option<Duration>,
    /// Others who need the loop: protected names, the tracer, the network relay.
    pub guards: Vec<&'a mut dyn Guard>,
}

/// Somebody who needs to be called when a descriptor is ready while the jail runs.
pub trait Guard {
    /// The descriptor, and what to wait for; none if there is nothing at the moment.
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)>;

    /// It is ready.
    fn notice(&mut self, jail: &Jail) -> Notice;
}

/// What follows from what a guard has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The run goes on.
    GoOn,
    /// The jail must end at once: a promise cannot be kept any more.
    End,
}

/// Lets the jail go and sees it through to its end.
pub fn run(jail: Jail, watch: Watch<'_>) -> Result<Outcome, Error> {
    if let Err(error) = watch.limits.admit(jail.pid) {
        end(&jail);
        return Err(Error::Group(error));
    }
    jail.go()?;
    // Pid 1 is busy for a while yet: the time to look for what others have left.
    cleanup::sweep();
    let mut supervisor = Supervisor {
        jail,
        watch,
        buffer: Buffer::new(),
        phase: Phase::Building,
        watchdog: None,
        due: None,
        peaks: Peaks::default(),
        started: Instant::now(),
        exited: None,
        failed: None,
        cause: None,
        wants_terminal: false,
    };
    let turned = supervisor.turn();
    if let Some(terminal) = &mut supervisor.watch.stdio.terminal {
        terminal.detach();
    }
    if turned.is_err() {
        end(&supervisor.jail);
    }
    turned?;
    supervisor.outcome()
}

/// Kills the whole jail and waits until it is gone.
fn end(jail: &Jail) {
    let _ = pidfd::send_signal(jail.pidfd.as_fd(), libc::SIGKILL);
    let _ = waitid(Id::PIDFd(jail.pidfd.as_fd()), WaitPidFlag::WEXITED);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Phase {
    /// Pid 1 builds the jail.
    Building,
    /// It is built and verified; pid 1 is about to start the command, or has, and takes
    /// orders as soon as it has.
    Ready,
    /// The command runs.
    Running,
    /// Pid 1 has closed the channel: it is about to end.
    Ending,
    /// Pid 1 has ended and been reaped.
    Dead,
}

/// What happens when the time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// The command has had its time: the polite signal.
    Timeout,
    /// And the final one.
    Kill,
}

/// The most that the watchdog saw.
#[derive(Debug, Clone, Copy, Default)]
struct Peaks {
    memory: u64,
    pids: u64,
}

/// A ready descriptor.
#[derive(Debug, Clone, Copy)]
enum Event {
    Signal,
    Channel,
    End,
    Tap(usize),
    Terminal(Side),
    Guard(usize),
}

struct Supervisor<'a> {
    jail: Jail,
    watch: Watch<'a>,
    buffer: Buffer,
    phase: Phase,
    watchdog: Option<Watchdog>,
    due: Option<(Instant, Due)>,
    started: Instant,
    peaks: Peaks,
    exited: Option<i32>,
    failed: Option<Failure>,
    cause: Option<Cause>,
    /// Whether the command has the terminal when sjail has it.
    wants_terminal: bool,
}

impl Supervisor<'_> {
    fn turn(&mut self) -> Result<(), Error> {
        while !self.is_over() {
            for event in self.wait()? {
                self.handle(event)?;
            }
            self.keep_time();
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let stdio = &self.watch.stdio;
        self.phase == Phase::Dead
            && stdio.taps.iter().all(|tap| tap.waits_for().is_none())
            && stdio.terminal.as_ref().is_none_or(|t| t.is_drained())
    }

    /// Sleeps until something is ready or due.
    fn wait(&self) -> Result<Vec<Event>, Error> {
        let mut events = Vec::with_capacity(8);
        let mut fds = Vec::with_capacity(8);
        let mut add = |event, fd, flags| {
            events.push(event);
            fds.push(PollFd::new(fd, flags));
        };
        let (input, output) = (PollFlags::POLLIN, PollFlags::POLLOUT);
        add(Event::Signal, self.watch.signals.as_fd(), input);
        if self.phase < Phase::Ending {
            add(Event::Channel, self.jail.channel.as_fd(), input);
        }
        if self.phase < Phase::Dead {
            add(Event::End, self.jail.pidfd.as_fd(), input);
            for (index, guard) in self.watch.guards.iter().enumerate() {
                if let Some((fd, flags)) = guard.waits_for() {
                    add(Event::Guard(index), fd, flags);
                }
            }
        }
        for (index, tap) in self.watch.stdio.taps.iter().enumerate() {
            match tap.waits_for() {
                None => {}
                Some(Wait::ToRead(fd)) => add(Event::Tap(index), fd, input),
                Some(Wait::ToWrite(fd)) => add(Event::Tap(index), fd, output),
            }
        }
        if let Some(terminal) = &self.watch.stdio.terminal {
            for (side, fd) in terminal.waits().into_iter().flatten() {
                let flags = match side {
                    Side::Keyboard | Side::Master => input,
                    Side::Screen | Side::Keys => output,
                };
                add(Event::Terminal(side), fd, flags);
            }
        }
        match poll(&mut fds, self.patience()) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Error::Wait(errno)),
        }
        Ok(events
            .into_iter()
            .zip(&fds)
            .filter(|(_, fd)| fd.any().unwrap_or(true))
            .map(|(event, _)| event)
            .collect())
    }

    /// How long to sleep at most. Rounded up: a poll that wakes early would spin.
    fn patience(&self) -> PollTimeout {
        let due = [
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

    fn handle(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Signal => {
                // A signal that the command provoked by its first words must not overtake
                // the news that it has started.
                self.hear_all()?;
                while let Some(arrived) = self.watch.signals.next() {
                    self.on_signal(arrived);
                }
            }
            Event::Channel => self.hear()?,
            Event::End => self.reap()?,
            Event::Tap(index) => self.on_output(index),
            Event::Terminal(side) => self.on_terminal(side),
            Event::Guard(index) => {
                let notice = match self.watch.guards.get_mut(index) {
                    Some(guard) => guard.notice(&self.jail),
                    None => Notice::GoOn,
                };
                if notice == Notice::End {
                    self.kill(Cause::Guard);
                }
            }
        }
        Ok(())
    }

    /// All messages that are there.
    fn hear_all(&mut self) -> Result<(), Error> {
        while self.phase < Phase::Ending {
            let mut channel = [PollFd::new(self.jail.channel.as_fd(), PollFlags::POLLIN)];
            if poll(&mut channel, PollTimeout::ZERO) != Ok(1) {
                break;
            }
            self.hear()?;
        }
        Ok(())
    }

    /// One message from pid 1.
    fn hear(&mut self) -> Result<(), Error> {
        let (message, descriptor) = match self.jail.channel.receive() {
            Ok(Some(received)) => received,
            Ok(None) | Err(Errno::ECONNRESET) => {
                self.phase = Phase::Ending;
                return Ok(());
            }
            Err(errno) => return Err(Error::Channel(errno)),
        };
        match message {
            FromJail::Failed(failure) => self.failed = Some(failure),
            FromJail::Ready => {
                self.phase = Phase::Ready;
                if let (Some(terminal), Some(master)) = (&mut self.watch.stdio.terminal, descriptor)
                {
                    terminal.connect(master).map_err(Error::Terminal)?;
                    if self.watch.stdio.start == Start::Foreground {
                        self.wants_terminal = true;
                        terminal.attach();
                    }
                }
            }
            FromJail::Started { .. } => {
                let now = Instant::now();
                self.phase = Phase::Running;
                self.started = now;
                self.due = self
                    .watch
                    .timeout
                    .map(|timeout| (now + timeout, Due::Timeout));
                let bounds = self.watch.limits.watch();
                if let Some(proc) = descriptor
                    && !bounds.is_idle()
                {
                    self.watchdog = Some(Watchdog::new(proc, bounds, now));
                }
            }
            FromJail::Stopped { signal } => self.on_stop(signal),
            FromJail::Exited { status } => {
                self.exited = Some(status);
                self.watchdog = None;
                // Pid 1 ends by itself now; should it not, it is helped.
                self.due = Some((Instant::now() + GRACE, Due::Kill));
            }
        }
        Ok(())
    }

    /// Pid 1 has ended; the kernel has ended everything else in the jail before that.
    fn reap(&mut self) -> Result<(), Error> {
        self.hear_all()?;
        waitid(Id::PIDFd(self.jail.pidfd.as_fd()), WaitPidFlag::WEXITED).map_err(Error::Wait)?;
        self.phase = Phase::Dead;
        self.due = None;
        self.watchdog = None;
        for index in 0..self.watch.stdio.taps.len() {
            self.on_output(index);
        }
        Ok(())
    }

    fn on_output(&mut self, index: usize) {
        let stdio = &mut self.watch.stdio;
        let Some(tap) = stdio.taps.get_mut(index) else {
            return;
        };
        let passed = tap.advance(&mut stdio.budget, &mut self.buffer);
        match passed {
            Passed::TooMuch => {
                let limit = stdio.budget.limit().unwrap_or(0);
                self.kill(Cause::Output { limit });
            }
            Passed::Later if self.phase == Phase::Dead => {
                if let Some(Wait::ToRead(_)) = tap.waits_for() {
                    tap.close();
                }
            }
            Passed::Some if self.phase == Phase::Dead => self.on_output(index),
            Passed::Some | Passed::Later | Passed::End => {}
        }
    }

    fn on_terminal(&mut self, side: Side) {
        let stdio = &mut self.watch.stdio;
        let Some(terminal) = &mut stdio.terminal else {
            return;
        };
        match terminal.advance(side, &mut self.buffer) {
            Moved::Bytes(length) => {
                if stdio.budget.take(Stream::Stdout, length) < length {
                    let limit = stdio.budget.limit().unwrap_or(0);
                    self.kill(Cause::Output { limit });
                }
            }
            Moved::HungUp => self.tell(ToJail::Signal(libc::SIGHUP)),
        }
    }

    fn on_signal(&mut self, arrived: Arrived) {
        let number = arrived.signal as i32;
        match arrived.signal {
            Signal::SIGWINCH => match &self.watch.stdio.terminal {
                Some(terminal) => terminal.resize(),
                None => self.tell(ToJail::Signal(number)),
            },
            Signal::SIGCONT => self.resume(),
            Signal::SIGTSTP if self.phase == Phase::Building => self.on_stop(number),
            // Ours alone: they never stop us (see signals.rs), and the command has a
            // terminal and pipes of its own.
            Signal::SIGTTIN | Signal::SIGTTOU | Signal::SIGPIPE => {}
            Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT
                if !matches!(self.phase, Phase::Ready | Phase::Running) =>
            {
                self.give_up(number);
            }
            _ => self.tell(match arrived.reach {
                Reach::Group => ToJail::Signal(number),
                Reach::Command => ToJail::SignalCommand(number),
            }),
        }
    }

    /// A signal to end while there is no command to pass it to: the jail is still being
    /// built, or has ended and somebody does not take its last output.
    fn give_up(&mut self, signal: i32) {
        if self.phase == Phase::Building {
            self.exited.get_or_insert(signal);
            let _ = pidfd::send_signal(self.jail.pidfd.as_fd(), libc::SIGKILL);
        }
        self.watch.stdio.taps.retain(|tap| !tap.is_passed_on());
        if self.phase == Phase::Dead {
            self.watch.stdio.terminal = None;
        }
    }

    /// The command has stopped: so do we, as the shell that waits for us expects.
    fn on_stop(&mut self, signal: i32) {
        let asks_for_terminal = signal == libc::SIGTTIN || signal == libc::SIGTTOU;
        if let Some(terminal) = &mut self.watch.stdio.terminal {
            if asks_for_terminal {
                self.wants_terminal = true;
                if terminal.standing() != Standing::Theirs {
                    return self.resume();
                }
            }
            terminal.detach();
        }
        let own = match signal {
            libc::SIGTTIN => Signal::SIGTTIN,
            libc::SIGTTOU => Signal::SIGTTOU,
            _ => Signal::SIGTSTP,
        };
        // Here sjail sleeps until its shell says `fg` or `bg`.
        let _ = stop_own_group(own);
        let mut continued = false;
        while let Some(arrived) = self.watch.signals.next() {
            if arrived.signal == Signal::SIGCONT {
                continued = true;
            } else {
                self.on_signal(arrived);
            }
        }
        // Nobody could have continued us, so the kernel did not stop us: it would have
        // spared the command the same, but for SIGSTOP.
        if continued || signal != libc::SIGSTOP {
            self.resume();
        }
    }

    /// Continues the command, with the terminal if it is ours again.
    fn resume(&mut self) {
        if let Some(terminal) = &mut self.watch.stdio.terminal {
            if terminal.standing() == Standing::Theirs {
                terminal.detach();
                self.tell(ToJail::Background);
            } else if self.wants_terminal {
                terminal.attach();
                self.tell(ToJail::Foreground);
            }
        }
        self.tell(ToJail::Signal(libc::SIGCONT));
    }

    /// What is due by the clock.
    fn keep_time(&mut self) {
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
    fn kill(&mut self, cause: Cause) {
        if self.phase < Phase::Dead {
            self.cause.get_or_insert(cause);
            self.watchdog = None;
            let _ = pidfd::send_signal(self.jail.pidfd.as_fd(), libc::SIGKILL);
        }
    }

    fn tell(&self, message: ToJail) {
        // Pid 1 may have ended meanwhile; its pidfd tells.
        let _ = self.jail.channel.send(message);
    }

    fn outcome(self) -> Result<Outcome, Error> {
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
        let kept = self.watch.stdio.taps.into_iter();
        Ok(Outcome {
            status,
            cause,
            output: outcome::output(kept.filter_map(Tap::finish).collect()),
            duration: self.started.elapsed(),
            usage: usage(self.peaks, tally),
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
    }
}
