//! Starting a jail: `clone3` into new namespaces, and what the supervisor keeps of it.

use std::os::fd::{BorrowedFd, OwnedFd};

use nix::unistd::Pid;

use crate::channel::{Outside, ToJail};
use crate::error::Error;
use crate::layout::Layout;

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
    /// `/dev/null`.
    Null,
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
/// descriptor of a cgroup v2 folder) the jail is born in it.
pub fn spawn(
    layout: &Layout,
    streams: &Streams,
    group: Option<BorrowedFd<'_>>,
) -> Result<Jail, Error> {
    let _ = (layout, streams, group);
    Err(Error::Unready)
}
