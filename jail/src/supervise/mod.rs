//! The loop outside: one `poll`, and behind it everything that can happen to a jail
//! while it runs.
//!
//! It ends when pid 1 has ended (and with it, by the kernel, every process of the jail)
//! and all that the command wrote has been passed on.

mod account;
mod clock;
mod job_control;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{Id, WaitPidFlag, waitid};

use self::clock::{Due, GRACE, Peaks, SETTLED};
use crate::channel::{FromJail, ToJail};
use crate::cleanup;
use crate::error::Error;
use crate::limits::Limits;
use crate::limits::watchdog::{Members, Watchdog};
use crate::outcome::{Cause, Outcome};
use crate::output::{Buffer, Passed, Stream, Wait};
use crate::signals::Signals;
use crate::spawn::{Jail, Start};
use crate::stdio::Held;
use crate::step::Failure;
use crate::sys::{memory, pidfd};
use crate::terminal::{Moved, Side, Standing};

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

    /// Pid 1 is there and waits: what must be ready before the command is made so now.
    fn born(&mut self, _: &Jail) -> Result<(), Error> {
        Ok(())
    }

    /// The command has been executed.
    fn started(&mut self, _: &Jail) {}

    /// The command is under observation (`--trace`): whoever wants the descriptor keeps it.
    fn take_listener(&mut self, listener: OwnedFd) -> Option<OwnedFd> {
        Some(listener)
    }

    /// Nothing happens just now: a small piece of what can be done ahead is done.
    fn ahead(&mut self) -> Ahead {
        Ahead::Done
    }

    /// The jail has a socket for an ssh agent: whoever serves it keeps it.
    fn take_agent(&mut self, listener: OwnedFd) -> Option<OwnedFd> {
        Some(listener)
    }
}

/// What follows from what a guard has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The run goes on.
    GoOn,
    /// The jail must end at once: a promise cannot be kept any more.
    End,
}

/// Whether there is more that can be done ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// There is.
    More,
    /// Nothing is left.
    Done,
}

/// Lets the jail go and sees it through to its end.
pub fn run(jail: Jail, mut watch: Watch<'_>) -> Result<Outcome, Error> {
    let admitted = match jail.spaces {
        Some(_) => watch.limits.admit(jail.pid),
        None => watch.limits.admit_late(jail.pid),
    };
    if let Err(error) = admitted {
        end(&jail);
        return Err(Error::Group(error));
    }
    for guard in &mut watch.guards {
        if let Err(error) = guard.born(&jail) {
            end(&jail);
            return Err(error);
        }
    }
    if let Err(error) = jail.go() {
        end(&jail);
        return Err(error);
    }
    // Pid 1 is busy for a while yet: the time to look for what others have left, and to
    // let go of what making the jail took.
    cleanup::sweep();
    memory::let_go_of_code();
    let mut supervisor = Supervisor {
        jail,
        watch,
        buffer: Buffer::default(),
        phase: Phase::Building,
        watchdog: None,
        due: None,
        peaks: Peaks::default(),
        settle_at: None,
        started: Instant::now(),
        exited: None,
        count: None,
        failed: None,
        cause: None,
        wants_terminal: false,
        unsettled: 0,
        ahead: Ahead::More,
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
    jail.end_rest();
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
    /// When to settle down to waiting.
    settle_at: Option<Instant>,
    started: Instant,
    peaks: Peaks,
    exited: Option<i32>,
    /// The processes and threads that were started, where they were counted.
    count: Option<u64>,
    failed: Option<Failure>,
    cause: Option<Cause>,
    /// Whether the command has the terminal when sjail has it.
    wants_terminal: bool,
    /// How many times pid 1 has yet to say that what it was told is done.
    unsettled: u32,
    /// Whether guards have something to do while nothing happens.
    ahead: Ahead,
}

impl Supervisor<'_> {
    fn turn(&mut self) -> Result<(), Error> {
        while !self.is_over() {
            self.settle();
            let events = self.wait()?;
            if events.is_empty() {
                self.work_ahead();
            }
            for event in events {
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
        // Before the command runs there is nothing to show, and no key that it could take:
        // a Ctrl-Z would stop the process that is about to become it.
        let terminal = self.watch.stdio.terminal.as_ref();
        if let Some(terminal) = terminal.filter(|_| self.phase >= Phase::Running) {
            for (side, fd) in terminal.waits().into_iter().flatten() {
                if self.unsettled > 0 && side.is_inward() {
                    continue;
                }
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
            // Perhaps heard already, on behalf of a signal.
            Event::Channel => self.hear_all()?,
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

    /// One piece of what can be done ahead. The end of the command is waited for by somebody.
    fn work_ahead(&mut self) {
        if self.ahead == Ahead::Done {
            return;
        }
        let guards = self.watch.guards.iter_mut();
        self.ahead = match guards
            .map(|guard| guard.ahead())
            .any(|ahead| ahead == Ahead::More)
        {
            true => Ahead::More,
            false => Ahead::Done,
        };
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
                }
            }
            FromJail::Observed => {
                let mut listener = descriptor;
                for guard in &mut self.watch.guards {
                    listener = listener.and_then(|listener| guard.take_listener(listener));
                }
            }
            FromJail::Agent => {
                let mut listener = descriptor;
                for guard in &mut self.watch.guards {
                    listener = listener.and_then(|listener| guard.take_agent(listener));
                }
            }
            FromJail::Started { .. } => {
                for guard in &mut self.watch.guards {
                    guard.started(&self.jail);
                }
                if let (Some(terminal), Start::Foreground) =
                    (&mut self.watch.stdio.terminal, self.watch.stdio.start)
                {
                    self.wants_terminal = true;
                    // Somebody may have put us into the background meanwhile.
                    if terminal.standing() != Standing::Theirs {
                        terminal.attach();
                    }
                }
                let now = Instant::now();
                self.phase = Phase::Running;
                self.started = now;
                self.settle_at = Some(now + SETTLED);
                self.due = self
                    .watch
                    .timeout
                    .map(|timeout| (now + timeout, Due::Timeout));
                let bounds = self.watch.limits.watch();
                if let Some(proc) = descriptor
                    && !bounds.is_idle()
                {
                    let members = match self.jail.spaces {
                        Some(_) => Members::All,
                        None => Members::Below(self.jail.pid),
                    };
                    self.watchdog = Some(Watchdog::new(proc, members, bounds, now));
                }
            }
            FromJail::Stopped { signal } => self.on_stop(signal),
            FromJail::Settled => self.unsettled = self.unsettled.saturating_sub(1),
            FromJail::Exited { status, started } => {
                self.exited = Some(status);
                self.count = u64::try_from(started).ok().filter(|count| *count > 0);
                self.settle_at = None;
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
        self.jail.end_rest();
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
        // What was handled just before may have taken the keyboard away: a read in the
        // background is an error that looks like a hangup.
        let taken_away = side == Side::Keyboard && !terminal.is_attached();
        if taken_away || (side.is_inward() && self.unsettled > 0) {
            return;
        }
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

    fn tell(&self, message: ToJail) {
        // Pid 1 may have ended meanwhile; its pidfd tells.
        let _ = self.jail.channel.send(message);
    }
}
