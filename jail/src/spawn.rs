//! Starting a jail: `clone3` into new namespaces, and what the supervisor keeps of it.

use std::os::fd::{BorrowedFd, OwnedFd};

use nix::fcntl::{OFlag, open};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal};
use nix::sys::stat::{Mode, stat};
use nix::unistd::Pid;

use crate::channel::{self, Outside, ToJail};
use crate::child::{self, Child};
use crate::error::Error;
use crate::layout::{Layout, NetworkSpace};
use crate::sys;
use crate::sys::clone::{Side, Stack, into_namespaces};
use crate::sys::file::FileId;

/// A jail whose pid 1 is building it. It builds its mounts at once and waits for
/// [`Jail::go`] before it closes the door behind itself.
///
/// Dropping this closes the channel, upon which pid 1 ends and the jail with it.
#[derive(Debug)]
pub struct Jail {
    /// Pid 1 of the jail, as seen from outside. Not yet reaped.
    pub pid: Pid,
    /// Its pidfd: readable when pid 1 has ended; for `waitid(P_PIDFD)` and signals.
    pub pidfd: OwnedFd,
    /// The supervisor's end of the channel.
    pub channel: Outside,
    /// The jail's user namespace, for `setns`.
    pub userns: OwnedFd,
    /// The jail's mount namespace, for `setns`.
    pub mntns: OwnedFd,
    /// `/proc/PID/mountinfo`, to be polled with POLLPRI. It was opened before
    /// `pivot_root`, so its *text* is of no use: read `/proc/self/mountinfo` after setns.
    pub mountinfo: OwnedFd,
}

impl Jail {
    /// Lets pid 1 go on: call it when the limits are in place.
    pub fn go(&self) -> Result<(), Error> {
        self.channel.send(ToJail::Go).map_err(Error::Channel)
    }
}

/// What the command gets as standard input, output or error.
#[derive(Debug)]
pub enum End {
    /// The supervisor's own descriptor of the same number (`/dev/null` if it is closed).
    Inherit,
    /// The slave of the jail's own pty.
    Pty,
    /// This descriptor, a pipe for instance.
    Pipe(OwnedFd),
}

/// The command's standard streams and its terminal.
///
/// A host terminal must never be [`End::Inherit`]ed: whoever fills this in puts
/// [`End::Pty`] for each stream that is one.
#[derive(Debug)]
pub struct Streams {
    /// Descriptors 0, 1 and 2.
    pub ends: [End; 3],
    /// The pty's first size; `None` when no stream is [`End::Pty`].
    pub window: Option<libc::winsize>,
    /// The pty's first settings, copied from the terminal outside.
    pub termios: Option<libc::termios>,
    /// Whether the command's group starts with the pty's foreground.
    pub start: Start,
}

/// Where the command's process group stands when it starts; of no meaning without a pty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It has the terminal at once.
    Foreground,
    /// sjail is in the background, or shares the terminal with the rest of a pipeline:
    /// pid 1's own group keeps the foreground, so that the first read or change of
    /// settings stops the command (SIGTTIN, SIGTTOU). Pid 1 reports that, and the
    /// supervisor hands the terminal over, or stops as any background job does.
    Background,
}

/// Clones pid 1 of the jail and gathers its handles. With a limits group (the
/// descriptor of a cgroup v2 folder) the jail is born in it. The command gets the signal
/// mask that sjail itself was started with.
pub fn spawn(
    layout: &Layout,
    streams: &Streams,
    group: Option<BorrowedFd<'_>>,
    mask: SigSet,
) -> Result<Jail, Error> {
    let (outside, inside) = channel::pair().map_err(Error::Channel)?;
    let mut stack = Stack::new();
    let child = Child {
        layout,
        streams,
        channel: &inside,
        mask,
    };
    default_child_signal()?;
    match into_namespaces(namespaces(layout.network), group).map_err(Error::Clone)? {
        Side::Child => child::run(&child, &mut stack),
        Side::Parent { pid, pidfd } => {
            drop(inside);
            let jail = Jail {
                pid,
                pidfd,
                channel: outside,
                userns: handle(pid, "ns/user")?,
                mntns: handle(pid, "ns/mnt")?,
                mountinfo: handle(pid, "mountinfo")?,
            };
            all_differ(pid, layout.network)?;
            Ok(jail)
        }
    }
}

/// The namespaces of every jail. The cgroup namespace comes later: made here it would be
/// rooted where the supervisor is, not in the limits group. So does a network that nobody
/// has to reach from outside: it takes longest, and pid 1 has it made while it mounts.
fn namespaces(network: NetworkSpace) -> u64 {
    let always = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    let flags = match network {
        NetworkSpace::Filtered => always | libc::CLONE_NEWNET,
        NetworkSpace::Own | NetworkSpace::Host => always,
    };
    flags as u32 as u64
}

/// A caller that ignores SIGCHLD would have the kernel reap pid 1 behind our back.
fn default_child_signal() -> Result<(), Error> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    sys::process::set_action(Signal::SIGCHLD, &default).map_err(Error::Signals)
}

fn handle(pid: Pid, name: &'static str) -> Result<OwnedFd, Error> {
    let path = format!("/proc/{pid}/{name}");
    open(
        path.as_str(),
        OFlag::O_RDONLY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
    .map_err(|errno| Error::Handle { name, errno })
}

/// Claims only what is so: each namespace of the jail is another than ours. (Those that
/// pid 1 makes itself are its own affair, see [`crate::verify`].)
fn all_differ(pid: Pid, network: NetworkSpace) -> Result<(), Error> {
    let names: &[&'static str] = match network {
        NetworkSpace::Filtered => &["user", "mnt", "pid", "ipc", "uts", "net"],
        NetworkSpace::Own | NetworkSpace::Host => &["user", "mnt", "pid", "ipc", "uts"],
    };
    for name in names {
        let id = |whose: &str| {
            stat(format!("/proc/{whose}/ns/{name}").as_str())
                .map(|stat| FileId::from(&stat))
                .map_err(|errno| Error::Handle { name, errno })
        };
        if id(&pid.to_string())? == id("self")? {
            return Err(Error::SharedNamespace { name });
        }
    }
    Ok(())
}
