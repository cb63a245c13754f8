//! `--net filtered`: the network by name, without root, a proxy variable or a packet
//! filter.
//!
//! ```text
//!   command ── connect ──► any address is local ──► sockets of the jail's network
//!                                                          │ held outside by
//!   supervisor ◄── asks, at the end the ledger ── relay ◄──┘ ── dials ──► the host
//! ```
//!
//! [`inside`] makes the jail's network, where every address is this machine's own.
//! [`resolver`] gives names that lead somewhere an address of a range that is nobody's
//! ([`names`]). [`relay`] takes what is dialled, finds the name, lets [`gate`] decide,
//! only then looks it up ([`lookup`]), checks where that leads ([`address`]), dials, reads
//! first words ([`hello`]) and passes bytes on ([`flow`]). It runs in a process of its own
//! that can do nothing else ([`confine`]).

mod address;
pub mod ask;
mod confine;
mod connection;
mod dns;
mod flow;
mod gate;
mod hello;
mod inside;
mod lookup;
mod names;
pub mod record;
pub mod registry;
mod relay;
mod resolver;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ::landlock::ABI;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getpid};
use sjail_policy::plan::{NetworkMode, Plan};

use self::ask::{Asker, Questions};
use self::gate::Gate;
use self::lookup::Book;
use self::record::{Decision, Entry, FromRelay, LONGEST, ToRelay};
use self::relay::Relay;
use crate::error::Error;
use crate::spawn::Jail;
use crate::supervise::{Guard, Notice};
use crate::sys::{namespace, socket};

/// Where names are asked for inside, for `resolv.conf`.
pub const RESOLVER: std::net::Ipv4Addr = names::RESOLVER;

/// So many ports can lead somewhere; each needs two sockets.
const MOST_PORTS: usize = 64;

/// How long the relay may take to hand in its ledger.
const PATIENCE: Duration = Duration::from_secs(10);

/// The filtered network of one run, as the supervisor sees it.
#[derive(Debug)]
pub struct Filtered<'a> {
    plan: &'a sjail_policy::plan::Network,
    abi: Option<ABI>,
    relay: Option<Process>,
    ended_early: bool,
    questions: Questions,
}

/// The relay's process.
#[derive(Debug)]
struct Process {
    pid: Pid,
    channel: OwnedFd,
}

impl<'a> Filtered<'a> {
    /// The filtered network, if the plan has one.
    pub fn of(plan: &'a Plan, asker: Option<Asker>) -> Option<Filtered<'a>> {
        (plan.network.mode == NetworkMode::Filtered).then(|| Filtered {
            plan: &plan.network,
            abi: None,
            relay: None,
            ended_early: false,
            questions: Questions::to(asker),
        })
    }

    /// The Landlock that the relay is held by as well.
    pub fn held_by(&mut self, abi: Option<ABI>) {
        self.abi = abi;
    }

    /// The jail has ended: what happened on its network.
    pub fn finish(mut self) -> Vec<Entry> {
        self.questions.withdraw();
        let Some(relay) = self.relay.take() else {
            return self.gone();
        };
        let mut entries = Vec::new();
        let mut whole = say(&relay.channel, &ToRelay::Finish).is_ok();
        let deadline = Instant::now() + PATIENCE;
        while whole {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut wait = [PollFd::new(relay.channel.as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut wait, timeout) {
                Ok(0) => whole = false,
                Err(Errno::EINTR) => {}
                Err(_) => whole = false,
                Ok(_) => match hear(&relay.channel) {
                    Ok(Some(FromRelay::Entry(entry))) => entries.push(*entry),
                    // It asks no more: nobody is left to be answered for.
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => whole = false,
                },
            }
        }
        if !whole {
            let _ = kill(relay.pid, Signal::SIGKILL);
            self.ended_early = true;
        }
        while waitpid(relay.pid, None) == Err(Errno::EINTR) {}
        entries.extend(self.gone());
        entries
    }

    /// What is said about a relay that is not there to say it.
    fn gone(&self) -> Vec<Entry> {
        match self.ended_early {
            false => Vec::new(),
            true => vec![
                Entry::new("(relay)", None, Decision::Refuse)
                    .because("was ended before it could say what happened"),
            ],
        }
    }

    fn start(&mut self, jail: &Jail) -> Result<Process, Error> {
        let gate = Gate::new(self.plan);
        let ports = gate.ports();
        if ports.len() > MOST_PORTS {
            return Err(Error::TooManyPorts {
                count: ports.len(),
                most: MOST_PORTS,
            });
        }
        let book = Book::open();
        let listeners = inside::open_network(jail, &ports).map_err(Error::Network)?;
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )
        .map_err(Error::Network)?;
        let (supervisor, abi) = (getpid(), self.abi);
        let pid = namespace::apart(|| {
            let mut keep: Vec<BorrowedFd<'_>> = listeners
                .iter()
                .map(|listener| listener.socket.as_fd())
                .collect();
            keep.push(theirs.as_fd());
            let descriptors = match confine::confine(supervisor, &keep, abi) {
                Ok(descriptors) => descriptors,
                Err((wall, errno)) => {
                    let why = format!("{wall}: {errno}");
                    let _ = relay::tell(&theirs, &FromRelay::Failed { why });
                    return 1;
                }
            };
            let done = relay::tell(&theirs, &FromRelay::Ready)
                .and_then(|()| Relay::new(theirs, listeners, gate, book, descriptors))
                .and_then(Relay::run);
            i32::from(done.is_err())
        })
        .map_err(Error::Network)?;
        let process = Process { pid, channel: ours };
        match hear(&process.channel) {
            Ok(Some(FromRelay::Ready)) => Ok(process),
            Ok(Some(FromRelay::Failed { why })) => Err(Error::Relay { why }),
            _ => Err(Error::Relay {
                why: "it ended at once".to_owned(),
            }),
        }
    }
}

impl Guard for Filtered<'_> {
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let relay = self.relay.as_ref()?;
        Some((relay.channel.as_fd(), PollFlags::POLLIN))
    }

    fn born(&mut self, jail: &Jail) -> Result<(), Error> {
        self.relay = Some(self.start(jail)?);
        Ok(())
    }

    fn notice(&mut self, _: &Jail) -> Notice {
        let Some(relay) = &self.relay else {
            return Notice::GoOn;
        };
        match hear(&relay.channel) {
            Ok(Some(FromRelay::Ask { name, port })) => {
                self.questions.put(&name, port, &relay.channel);
            }
            Ok(Some(_)) => {}
            // The relay is gone, and with it every way out: nothing is open that was closed.
            Ok(None) | Err(_) => {
                if let Some(relay) = self.relay.take() {
                    let _ = kill(relay.pid, Signal::SIGKILL);
                    while waitpid(relay.pid, None) == Err(Errno::EINTR) {}
                }
                self.ended_early = true;
            }
        }
        Notice::GoOn
    }
}

/// The relay's next word; `None` when it has ended.
fn hear(channel: &OwnedFd) -> nix::Result<Option<FromRelay>> {
    let mut bytes = vec![0; LONGEST];
    match socket::receive(channel.as_fd(), &mut bytes) {
        Ok((0, _)) | Err(Errno::ECONNRESET) => Ok(None),
        Ok((length, _)) => serde_json::from_slice(bytes.get(..length).unwrap_or_default())
            .map(Some)
            .map_err(|_| Errno::EBADMSG),
        Err(errno) => Err(errno),
    }
}

fn say(channel: &OwnedFd, word: &ToRelay) -> nix::Result<()> {
    let bytes = serde_json::to_vec(word).map_err(|_| Errno::EINVAL)?;
    socket::send(channel.as_fd(), &bytes, None)
}
