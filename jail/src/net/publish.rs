//! Ports of the jail that are served on the host.
//!
//! The supervisor listens on the host. A process of its own takes what comes, and dials it
//! in the jail's network, which it has entered for good; it is confined as the relay is.
//! Nothing inside gets to know the host's sockets, and nothing can be dialled from inside.

use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ::landlock::ABI;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::PollFlags;
use nix::sched::{CloneFlags, setns};
use nix::sys::stat::Mode;
use sjail_policy::plan::{NetworkMode, Plan, Publish};

use super::attendant::Attendant;
use super::gate::{DNS, Gate};
use super::inside::{Listener, Serves};
use super::lookup::Book;
use super::process::Process;
use super::record::Entry;
use crate::error::Error;
use crate::spawn::Jail;
use crate::supervise::{Guard, Notice};
use crate::sys;

/// The published ports of one run.
#[derive(Debug)]
pub struct Door {
    ports: Vec<Publish>,
    sockets: Vec<OwnedFd>,
    gate: Gate,
    abi: Option<ABI>,
    mode: NetworkMode,
    relay: Attendant,
}

impl Door {
    /// Listens where the plan says; nothing if it publishes nothing.
    pub fn open(plan: &Plan) -> Result<Option<Door>, Error> {
        let network = &plan.network;
        if network.publish.is_empty() {
            return Ok(None);
        }
        let gate = Gate::new(network);
        let mut sockets = Vec::new();
        for port in &network.publish {
            let failed = |why: String| Error::Publish {
                outside: port.outside(),
                inside: port.inside(),
                why,
            };
            match network.mode {
                NetworkMode::Host => {
                    let why = "with --net host the command's ports are the host's own: leave --publish out, or choose another network";
                    return Err(failed(why.to_owned()));
                }
                NetworkMode::Filtered
                    if port.inside() == DNS || gate.ports().contains(&port.inside()) =>
                {
                    let why = "inside, the filtered network has this port for itself: let the command serve another";
                    return Err(failed(why.to_owned()));
                }
                NetworkMode::Filtered | NetworkMode::None => {}
            }
            let socket = listen(port).map_err(|error| failed(why(&error)))?;
            sockets.push(socket);
        }
        Ok(Some(Door {
            ports: network.publish.clone(),
            sockets,
            gate,
            abi: None,
            mode: network.mode,
            relay: Attendant::default(),
        }))
    }

    /// What there is to say about it.
    pub fn notes(&self) -> Vec<String> {
        let open = |port: &&Publish| port.is_open();
        let note = |port: &Publish| {
            format!(
                "port {} of the command is served at {}, which other machines may reach",
                port.inside(),
                port.outside()
            )
        };
        self.ports.iter().filter(open).map(note).collect()
    }

    /// The Landlock that the process is held by as well.
    pub fn held_by(&mut self, abi: Option<ABI>) {
        self.abi = abi;
    }

    /// The jail has ended: who came.
    pub fn finish(self) -> Vec<Entry> {
        self.relay.finish()
    }
}

fn listen(port: &Publish) -> std::io::Result<OwnedFd> {
    let socket = TcpListener::bind(port.outside())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn why(error: &std::io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EADDRINUSE) => "the port is in use on the host: choose another".to_owned(),
        Some(Errno::EACCES) => {
            "ports below 1024 are for root: choose a higher one on the host".to_owned()
        }
        Some(Errno::EADDRNOTAVAIL) => "this machine has no such address".to_owned(),
        _ => error.to_string(),
    }
}

impl Guard for Door {
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.relay.waits_for()
    }

    fn born(&mut self, jail: &Jail) -> Result<(), Error> {
        let net = open(
            format!("/proc/{}/ns/net", jail.pid).as_str(),
            OFlag::O_RDONLY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .map_err(Error::Network)?;
        let mut listeners = Vec::new();
        for (port, socket) in self.ports.iter().zip(&self.sockets) {
            listeners.push(Listener {
                socket: socket
                    .try_clone()
                    .map_err(|_| Error::Network(Errno::EMFILE))?,
                serves: Serves::Published(port.inside()),
                six: port.outside().is_ipv6(),
            });
        }
        let mode = self.mode;
        let enter = || {
            let spaces = jail.spaces.as_ref().ok_or(Errno::ENOTSUP)?;
            setns(spaces.user.as_fd(), CloneFlags::CLONE_NEWUSER)?;
            setns(net.as_fd(), CloneFlags::CLONE_NEWNET)?;
            match mode {
                // The jail may not have come to it yet.
                NetworkMode::None => sys::net::loopback_up(),
                _ => Ok(()),
            }
        };
        self.relay.end();
        let gate = self.gate.clone();
        let started = Process::start(enter, listeners, gate, Book::default(), self.abi)?;
        self.relay.begin(started);
        Ok(())
    }

    fn notice(&mut self, _: &Jail) -> Notice {
        let Some(process) = self.relay.process() else {
            return Notice::GoOn;
        };
        // It says nothing before it is asked: it is gone.
        if !matches!(process.hear(), Ok(Some(_))) {
            self.relay.lose();
        }
        Notice::GoOn
    }
}
