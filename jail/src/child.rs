//! Pid 1 of the jail, from its first breath in the new namespaces to the moment the
//! command runs.
//!
//! An ordered list of acts. Nothing here allocates, locks or prints; what can fail
//! fails with a [`Step`] that the supervisor puts into words.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::signal::SigSet;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, setpgid, setsid};

use crate::channel::{FromJail, Inside, ToJail};
use crate::degraded;
use crate::exec;
use crate::init;
use crate::landlock;
use crate::layout::{Layout, Observation, Release};
use crate::mounts;
use crate::seccomp;
use crate::spawn::{End, Start, Streams};
use crate::step::{At, Failure, Step};
use crate::sys::clone::{Stack, borrowing_memory};
use crate::sys::file::{self, FileId};
use crate::sys::{self, capability, notify, process, tty};
use crate::verify;

/// What pid 1 works with; made before the clone.
#[derive(Debug)]
pub struct Child<'a> {
    /// The prepared jail.
    pub layout: &'a Layout,
    /// The command's standard streams.
    pub streams: &'a Streams,
    /// Pid 1's end of the channel.
    pub channel: &'a Inside,
    /// The signals that the caller had blocked.
    pub mask: SigSet,
}

/// Builds the jail, starts the command in it and stays as its first process.
pub fn run((child, stack): &mut (Child<'_>, Stack)) -> ! {
    let status = match child.build(stack) {
        Ok(command) => init::run(child.channel, &command),
        Err(failure) => {
            // Nobody to tell when even this fails: the supervisor sees the end.
            let _ = child.channel.send(&FromJail::Failed(failure), None);
            i32::from(crate::exit::Exit::Failed.code())
        }
    };
    process::exit_now(status)
}

impl Child<'_> {
    fn build(&self, stack: &mut Stack) -> Result<init::Command, Failure> {
        let layout = self.layout;
        if let Some(bare) = &layout.bare {
            return degraded::child::build(self, bare, stack);
        }
        process::die_with_parent().at(Step::ParentDeath)?;
        init::block_signals().at(Step::ParentDeath)?;
        self.keep_descriptors().at(Step::Descriptors)?;
        setsid().at(Step::ParentDeath)?;

        let outside = mounts::enter(&layout.root)?;
        enter_working_folder(layout)?;
        let pty = self.open_pty(c"/dev/pts/ptmx").at(Step::Terminal)?;

        self.wait_for_go()?;
        self.offer_agent().at(Step::SshAgent)?;
        let before = verify::cgroup_namespace().at(Step::VerifyNamespace)?;
        process::new_cgroup_namespace().at(Step::CgroupNamespace)?;
        process::set_host_name(&layout.host_name).at(Step::HostName)?;
        layout.limits.apply().at(Step::Limits)?;

        capability::drop_all().at(Step::Capabilities)?;
        process::no_new_privileges().at(Step::NoNewPrivileges)?;
        process::undumpable().at(Step::Undumpable)?;
        if let Some(rules) = &layout.rules {
            landlock::enforce_on_command(rules, None)?;
            verify::rules_hold(&outside)?;
            landlock::keep_to_own_tree(rules.abi)?;
        }
        layout.processors.keep().at(Step::Seccomp)?;
        match &layout.observation {
            Observation::None | Observation::Renames(_) => seccomp::load().at(Step::Seccomp)?,
            Observation::Calls(filters) => seccomp::add(&filters.holding).at(Step::Seccomp)?,
        }

        verify::all(layout, &outside, before)?;
        drop(outside);

        let program = exec::open(&layout.program)?;
        if layout.release == Release::WhenTold {
            self.wait_for_word()?;
        }
        let master = pty.as_ref().map(|pty| pty.master.as_fd());
        self.channel.send(&FromJail::Ready, master).at(Step::Go)?;
        self.start(stack, &program, pty)
    }

    /// Makes the socket of the ssh agent inside, where there is to be one, and hands it out:
    /// whoever connects waits until somebody outside serves it.
    fn offer_agent(&self) -> nix::Result<()> {
        let Some(place) = &self.layout.ssh_agent else {
            return Ok(());
        };
        let flags = SockFlag::SOCK_CLOEXEC;
        let listener = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        bind(listener.as_raw_fd(), &UnixAddr::new(place.as_c_str())?)?;
        listen(&listener, Backlog::new(16)?)?;
        self.channel.send(&FromJail::Agent, Some(listener.as_fd()))
    }

    /// Waits until the supervisor has its handles on us and the limits are in place.
    pub(crate) fn wait_for_go(&self) -> Result<(), Failure> {
        match self.channel.receive().at(Step::Go)? {
            Some(ToJail::Go) => Ok(()),
            Some(_) => Err(Errno::EPROTO).at(Step::Go),
            None => process::exit_now(1),
        }
    }

    /// Waits until the supervisor lets the command go: what it is about to do must be on
    /// record first.
    pub(crate) fn wait_for_word(&self) -> Result<(), Failure> {
        loop {
            match self.channel.receive().at(Step::Go)? {
                Some(ToJail::Start) => return Ok(()),
                Some(ToJail::Settle) => {
                    self.channel.send(&FromJail::Settled, None).at(Step::Go)?;
                }
                // There is no command yet that a signal could be for.
                Some(_) => {}
                None => process::exit_now(1),
            }
        }
    }

    /// Closes everything but the standard streams, the pipes for the command and
    /// the channel: pid 1 never executes, so close-on-exec does nothing.
    pub(crate) fn keep_descriptors(&self) -> nix::Result<()> {
        let mut keep = [2; 4];
        for (slot, end) in keep.iter_mut().zip(&self.streams.ends) {
            if let End::Pipe(pipe) = end {
                *slot = pipe.as_raw_fd();
            }
        }
        keep[3] = self.channel.as_fd().as_raw_fd();
        keep.sort_unstable();
        let mut next = 3;
        for number in keep {
            if number as u32 >= next {
                file::close_range(next, number as u32 - 1)?;
                next = number as u32 + 1;
            }
        }
        file::close_range(next, u32::MAX)
    }

    /// Opens the jail's own terminal, where a stream is one.
    pub(crate) fn open_pty(&self, multiplexer: &CStr) -> nix::Result<Option<Pty>> {
        if !self.streams.ends.iter().any(|end| matches!(end, End::Pty)) {
            return Ok(None);
        }
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = open(multiplexer, flags, Mode::empty())?;
        let slave = tty::open_slave(&master)?;
        if let Some(termios) = &self.streams.termios {
            tty::set_attributes(&slave, termios)?;
        }
        if let Some(window) = &self.streams.window {
            tty::set_window_size(&slave, window)?;
        }
        tty::take_control(&slave)?;
        Ok(Some(Pty { master, slave }))
    }

    /// Starts the command and lets go of everything that is the command's alone.
    pub(crate) fn start(
        &self,
        stack: &mut Stack,
        program: &exec::Opened,
        pty: Option<Pty>,
    ) -> Result<init::Command, Failure> {
        let null = open(
            c"/dev/null",
            OFlag::O_RDWR | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .at(Step::Streams)?;
        let command = Command {
            child: self,
            program,
            pty: pty.as_ref().map(|pty| pty.slave.as_fd()),
            null: null.as_fd(),
        };
        let pid = borrowing_memory(stack, start_command, &command).at(Step::Fork)?;

        // What was the command's alone is let go: its reader must see the end of a pipe
        // when the command closes it. The pty's slave stays: it is pid 1's terminal.
        for number in 0..=2 {
            file::install(null.as_fd(), number).at(Step::Streams)?;
        }
        for end in &self.streams.ends {
            if let End::Pipe(pipe) = end {
                let number = pipe.as_raw_fd() as u32;
                file::close_range(number, number).at(Step::Streams)?;
            }
        }
        Ok(init::Command {
            pid,
            pty: pty.map(|pty| pty.slave),
            end: match self.layout.bare {
                None => init::End::WithPid1,
                Some(_) => init::End::ByDescent,
            },
            counts: match (&self.layout.bare, &self.layout.observation) {
                (None, Observation::Renames(_)) => init::Counts::Started,
                _ => init::Counts::Nothing,
            },
        })
    }
}

/// Both ends of the jail's own terminal.
pub(crate) struct Pty {
    pub(crate) master: OwnedFd,
    pub(crate) slave: OwnedFd,
}

/// What the command's process needs until it executes; it lives in pid 1's memory.
struct Command<'a> {
    child: &'a Child<'a>,
    program: &'a exec::Opened,
    pty: Option<BorrowedFd<'a>>,
    null: BorrowedFd<'a>,
}

extern "C" fn start_command(command: &Command<'_>) -> i32 {
    let failure = match command.prepare() {
        Err(failure) => failure,
        Ok(()) => exec::run(&command.child.layout.program, command.program),
    };
    let _ = command.child.channel.send(&FromJail::Failed(failure), None);
    i32::from(crate::exit::Exit::Failed.code())
}

impl Command<'_> {
    fn prepare(&self) -> Result<(), Failure> {
        // A process group of its own: Ctrl-Z then stops the command and not pid 1.
        setpgid(Pid::from_raw(0), Pid::from_raw(0)).at(Step::Streams)?;
        if let (Some(pty), Start::Foreground) = (self.pty, self.child.streams.start) {
            // SIGTTOU, which a background group earns by this, is blocked: see `run`.
            tty::set_foreground(pty, Pid::this().as_raw()).at(Step::Terminal)?;
        }
        for (number, end) in (0..).zip(&self.child.streams.ends) {
            let from = match end {
                End::Inherit => continue,
                End::Pty => self.pty.unwrap_or(self.null),
                End::Pipe(pipe) => pipe.as_fd(),
            };
            file::install(from, number as RawFd).at(Step::Streams)?;
        }
        file::close_on_exec_from(3).at(Step::Descriptors)?;
        if let Some(bare) = &self.child.layout.bare
            && bare.signals == degraded::Signals::Scoped
        {
            sys::landlock::leave_scope().at(Step::Landlock)?;
        }
        process::callers_signals(&self.child.mask).at(Step::Streams)?;
        let asking = match &self.child.layout.observation {
            Observation::None => None,
            Observation::Calls(filters) => Some(&filters.asking),
            Observation::Renames(asking) => Some(asking),
        };
        if let Some(asking) = asking {
            let listener = notify::observe(asking).at(Step::Observe)?;
            self.child
                .channel
                .send(&FromJail::Observed, Some(listener.as_fd()))
                .at(Step::Observe)?;
        }
        Ok(())
    }
}

/// Goes to where the command starts, if it is the folder that the supervisor saw.
pub(crate) fn enter_working_folder(layout: &Layout) -> Result<(), Failure> {
    let place = &layout.working_folder;
    nix::unistd::chdir(place.path.as_c_str()).at(Step::WorkingFolder)?;
    let here = file::openat2(None, c".", libc::O_PATH, 0, 0).at(Step::WorkingFolder)?;
    if !place.is(FileId::of(here.as_fd()).at(Step::WorkingFolder)?) {
        return Err(Errno::ESTALE).at(Step::WorkingFolder);
    }
    Ok(())
}
