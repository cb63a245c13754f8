//! Starting a jail: a vanguard makes its namespaces and clones its first process into them;
//! what the supervisor keeps of it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal};
use nix::sys::stat::{FileStat, Mode, fstat, stat};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getegid, geteuid, getpid};

use crate::channel::{self, FromJail, Outside, ToJail};
use crate::child::{self, Child};
use crate::degraded::family::{self, Member};
use crate::error::Error;
use crate::layout::{Layout, NetworkSpace};
use crate::step::{Failure, Step};
use crate::sys;
use crate::sys::clone::{Cloned, Stack, without_namespaces};
use crate::sys::file::FileId;
use crate::sys::vanguard::{Network, Vanguard};

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
    /// The ways into its namespaces; none where it has none of its own.
    pub spaces: Option<Spaces>,
    /// Whoever was below the supervisor before the jail, where the jail's processes are
    /// known by descent alone.
    pub spared: Vec<Member>,
}

/// The ways into a jail's namespaces.
#[derive(Debug)]
pub struct Spaces {
    /// The user namespace, for `setns`.
    pub user: OwnedFd,
    /// The mount namespace, for `setns`.
    pub mount: OwnedFd,
    /// `/proc/PID/mountinfo`, to be polled with POLLPRI. It was opened before
    /// `pivot_root`, so its *text* is of no use: read `/proc/self/mountinfo` after setns.
    pub mountinfo: OwnedFd,
}

impl Jail {
    /// Ends what is left of the jail when its first process has ended: with a pid namespace
    /// the kernel has done it.
    pub fn end_rest(&self) {
        if self.spaces.is_none() {
            family::end(&self.spared);
        }
    }

    /// Lets pid 1 go on: call it when the limits are in place.
    pub fn go(&self) -> Result<(), Error> {
        match self.channel.send(ToJail::Go) {
            // It has failed already, and told us why: that is heard with all that it says.
            Err(Errno::EPIPE) => Ok(()),
            sent => sent.map_err(Error::Channel),
        }
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

/// Sends a process ahead that makes the jail's namespaces while the rest is prepared.
pub fn ahead(network: Network) -> Result<Vanguard, Error> {
    default_child_signal()?;
    // The ids that stay themselves.
    let map = |id: u32| format!("{id} {id} 1\n").into_bytes();
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    Vanguard::send(network, map(uid), map(gid)).map_err(Error::Fork)
}

/// Clones pid 1 of the jail and gathers its handles. With a limits group (the
/// descriptor of a cgroup v2 folder) the jail is born in it. The command gets the signal
/// mask that sjail itself was started with.
pub fn spawn(
    layout: &Layout,
    streams: &Streams,
    group: Option<BorrowedFd<'_>>,
    mask: SigSet,
    mut vanguard: Option<Vanguard>,
) -> Result<Jail, Error> {
    let (outside, inside) = channel::pair().map_err(Error::Channel)?;
    let child = Child {
        layout,
        streams,
        channel: &inside,
        mask,
    };
    let mut begin = (child, Stack::new());
    let mut spared = Vec::new();
    let Cloned { pid, pidfd } = match &mut vanguard {
        Some(vanguard) => vanguard
            .clone_first(group, child::run, &mut begin)
            .map_err(not_made)?,
        None => {
            default_child_signal()?;
            // Before orphans come to us: whoever is below us now is not of the jail.
            spared = family::below(getpid(), &[]);
            sys::process::adopt_orphans().map_err(Error::Adopt)?;
            without_namespaces(child::run, &mut begin).map_err(Error::Fork)?
        }
    };
    drop(inside);
    // Gone by now: nothing is waited for.
    drop(vanguard);
    let spaces = match layout.bare {
        None => match Spaces::of(pid, layout.network) {
            Ok(spaces) => Some(spaces),
            Err(error) => return Err(last_words(&pidfd, &outside).unwrap_or(error)),
        },
        Some(_) => None,
    };
    Ok(Jail {
        pid,
        pidfd,
        channel: outside,
        spaces,
        spared,
    })
}

/// What a first process said that failed before we could look at it.
fn last_words(pidfd: &OwnedFd, channel: &Outside) -> Option<Error> {
    let _ = sys::pidfd::send_signal(pidfd.as_fd(), libc::SIGKILL);
    let _ = waitid(Id::PIDFd(pidfd.as_fd()), WaitPidFlag::WEXITED);
    match channel.receive() {
        Ok(Some((FromJail::Failed(failure), _))) => Some(Error::SetUp(failure)),
        _ => None,
    }
}

/// Makes the namespaces of a jail and lets them go again.
pub fn try_namespaces() -> Result<(), Error> {
    ahead(Network::Own)?.dismiss().map_err(not_made)
}

/// Why there is no first process: the namespaces themselves have words of their own.
fn not_made(failure: Failure) -> Error {
    match failure.step {
        Step::Namespaces => Error::Clone(Errno::from_raw(failure.errno)),
        _ => Error::SetUp(failure),
    }
}

/// A caller that ignores SIGCHLD would have the kernel reap pid 1 behind our back.
fn default_child_signal() -> Result<(), Error> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    sys::process::set_action(Signal::SIGCHLD, &default).map_err(Error::Signals)
}

impl Spaces {
    /// Those of a first process, if all of them are others than ours.
    fn of(pid: Pid, network: NetworkSpace) -> Result<Spaces, Error> {
        let spaces = Spaces {
            user: handle(pid, "ns/user")?,
            mount: handle(pid, "ns/mnt")?,
            mountinfo: handle(pid, "mountinfo")?,
        };
        all_differ(pid, &spaces, network)?;
        Ok(spaces)
    }
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

/// Claims only what is so: each namespace of the jail is another than ours. (The cgroup
/// namespace pid 1 makes itself, see [`crate::verify`]: here it would be rooted where the
/// supervisor is, not in the limits group.)
fn all_differ(pid: Pid, spaces: &Spaces, network: NetworkSpace) -> Result<(), Error> {
    let names: &[&'static str] = match network {
        NetworkSpace::Own | NetworkSpace::Published | NetworkSpace::Filtered => {
            &["user", "mnt", "pid", "ipc", "uts", "net"]
        }
        NetworkSpace::Host => &["user", "mnt", "pid", "ipc", "uts"],
    };
    for name in names {
        let path = |whose: &str| stat(format!("/proc/{whose}/ns/{name}").as_str());
        let of_jail = match *name {
            "user" => fstat(&spaces.user),
            "mnt" => fstat(&spaces.mount),
            _ => path(&pid.to_string()),
        };
        let id = |stat: nix::Result<FileStat>| {
            stat.map(|stat| FileId::from(&stat))
                .map_err(|errno| Error::Handle { name, errno })
        };
        if id(of_jail)? == id(path("self"))? {
            return Err(Error::SharedNamespace { name });
        }
    }
    Ok(())
}
