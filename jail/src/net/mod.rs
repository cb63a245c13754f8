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
//! first words ([`open`], [`hello`], [`http`]) and passes bytes on ([`flow`]). It runs in a process of
//! its own that can do nothing else ([`confine`], [`process`]). Programs that insist on a
//! proxy find one inside ([`proxy`]). A port of the jail is served on the host by another
//! such process, in the jail's network ([`publish`]). The owner's ssh agent is lent, if he
//! says so, through a third ([`ssh`]).

mod address;
pub mod ask;
mod attendant;
pub mod confine;
mod connection;
mod dns;
mod flow;
mod gate;
mod hello;
mod http;
mod inside;
mod lookup;
mod names;
mod open;
mod process;
mod proxy;
pub mod publish;
pub mod record;
pub mod registry;
mod relay;
mod resolver;
pub mod settings;
pub mod ssh;

use std::os::fd::BorrowedFd;

use ::landlock::ABI;
use nix::poll::PollFlags;
use sjail_policy::plan::{NetworkMode, Plan};

use self::ask::{Asker, Questions};
use self::attendant::Attendant;
use self::gate::Gate;
use self::lookup::Book;
use self::process::Process;
use self::record::{Entry, FromRelay};
use crate::error::Error;
use crate::spawn::Jail;
use crate::supervise::{Guard, Notice};

/// Where names are asked for inside, for `resolv.conf`.
pub const RESOLVER: std::net::Ipv4Addr = names::RESOLVER;

/// So many ports can lead somewhere; each needs two sockets.
const MOST_PORTS: usize = 64;

/// The filtered network of one run, as the supervisor sees it.
#[derive(Debug)]
pub struct Filtered<'a> {
    plan: &'a sjail_policy::plan::Network,
    abi: Option<ABI>,
    relay: Attendant,
    questions: Questions,
}

impl<'a> Filtered<'a> {
    /// The filtered network, if the plan has one.
    pub fn of(plan: &'a Plan, asker: Option<Asker>) -> Option<Filtered<'a>> {
        (plan.network.mode == NetworkMode::Filtered).then(|| Filtered {
            plan: &plan.network,
            abi: None,
            relay: Attendant::default(),
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
        self.relay.finish()
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
        Process::start(|| Ok(()), listeners, gate, book, self.abi)
    }
}

impl Guard for Filtered<'_> {
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.relay.waits_for()
    }

    fn born(&mut self, jail: &Jail) -> Result<(), Error> {
        self.relay.end();
        let started = self.start(jail)?;
        self.relay.begin(started);
        Ok(())
    }

    fn notice(&mut self, _: &Jail) -> Notice {
        let Some(relay) = self.relay.process() else {
            return Notice::GoOn;
        };
        match relay.hear() {
            Ok(Some(FromRelay::Ask { name, port })) => {
                self.questions.put(&name, port, relay.channel());
            }
            Ok(Some(_)) => {}
            // The relay is gone, and with it every way out: nothing is open that was closed.
            Ok(None) | Err(_) => self.relay.lose(),
        }
        Notice::GoOn
    }
}
