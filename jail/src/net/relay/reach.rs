//! From a dialled address to an open connection: decided, looked up, checked, dialled.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;

use super::{FRESH, NEWS, Relay, Token, tell};
use crate::net::connection::{Connection, Host, Stage, Way};
use crate::net::gate::{self, DNS, Verdict};
use crate::net::inside::Serves;
use crate::net::lookup::{Lookup, Progress};
use crate::net::proxy::Talk;
use crate::net::record::{Decision, FromRelay};

/// So many hosts may be asked about at once. Few enough that questions and answers never
/// fill the channel: both sides would wait for each other.
const MOST_ASKED: usize = 16;

/// So many lookups are remembered before old ones are forgotten.
const MOST_KNOWN: usize = 1024;

/// So many addresses of one name are tried.
const MOST_ADDRESSES: usize = 32;

impl Relay {
    /// Somebody has dialled.
    pub(super) fn accepted(&mut self, client: TcpStream, serves: Serves) {
        let (Ok(to), Ok(from)) = (client.local_addr(), client.peer_addr()) else {
            return;
        };
        if client.set_nonblocking(true).is_err() {
            return;
        }
        let connection = match serves {
            Serves::Published(port) => {
                let from = Host::Address(from.ip().to_canonical());
                Connection::new(client, from, port, Way::Published(to))
            }
            Serves::Connections(port) => {
                let host = self.host(to.ip().to_canonical());
                Connection::new(client, host, port, Way::Dialled)
            }
            // Packets are nothing that is accepted.
            Serves::Packets => return,
        };
        if self.connections.len() >= self.most {
            connection.reset();
            let entry = connection.entry(Decision::Refuse);
            self.ledger
                .add(entry.because("would have been one too many at once"));
            return;
        }
        match serves {
            Serves::Published(_) => self.bring_in(connection),
            Serves::Connections(DNS) => {
                self.keep(connection, Stage::Resolver(Vec::new()));
            }
            Serves::Connections(_) if self.gate.is_proxy(to) => {
                self.keep(connection, Stage::Proxy(Talk::default()));
            }
            Serves::Connections(_) | Serves::Packets => self.decide(connection),
        }
    }

    /// Whom an address inside stands for.
    pub(super) fn host(&self, address: IpAddr) -> Host {
        match self.names.name(address) {
            Some(name) => Host::Name(name.to_owned()),
            None => Host::Address(address),
        }
    }

    /// Somebody outside wants a port of the command, which listens on loopback or everywhere.
    fn bring_in(&mut self, connection: Connection) {
        let inside = VecDeque::from([
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ]);
        let Some(id) = self.keep(connection, Stage::LookingUp) else {
            return;
        };
        let dialled = self
            .connections
            .get_mut(&id)
            .map(|connection| connection.dial(inside, "nobody listens"));
        match dialled {
            Some(Ok(())) => self.dialling(id),
            Some(Err(why)) => self.fail(id, &why),
            None => {}
        }
    }

    /// The command wants a host: decided before anything else is done.
    pub(super) fn decide(&mut self, connection: Connection) {
        let port = connection.port;
        let verdict = match &connection.host {
            Host::Name(name) => self.gate.name(name, port),
            Host::Address(address) => self.gate.address(*address, port),
        };
        match verdict {
            Verdict::Refuse(why) => {
                connection.turn_away(Decision::Refuse);
                let shown = connection.host.to_string();
                let mut entry = connection.entry(Decision::Refuse).because(why.words());
                entry.fix = gate::fix(why, &shown, Some(port));
                self.ledger.add(entry);
            }
            Verdict::Ask => {
                let name = connection.host.to_string();
                let open: BTreeSet<(String, u16)> = self
                    .connections
                    .values()
                    .filter(|other| matches!(other.stage, Stage::Asking))
                    .map(|other| (other.host.to_string(), other.port))
                    .collect();
                let asked = open.contains(&(name.clone(), port));
                if !asked && open.len() >= MOST_ASKED {
                    connection.turn_away(Decision::Refuse);
                    let entry = connection.entry(Decision::Refuse);
                    self.ledger
                        .add(entry.because("would have been one question too many at once"));
                    return;
                }
                self.keep(connection, Stage::Asking);
                // Whoever asks the same waits for the same answer.
                if !asked
                    && tell(
                        &self.channel,
                        &FromRelay::Ask {
                            name: name.clone(),
                            port,
                        },
                    )
                    .is_err()
                {
                    self.answered(&name, port, false);
                }
            }
            Verdict::Allow => {
                if let Some(id) = self.keep(connection, Stage::LookingUp) {
                    self.look_up(id);
                }
            }
        }
    }

    pub(super) fn answered(&mut self, name: &str, port: u16, allowed: bool) {
        self.gate.answer(name, port, allowed);
        let waiting: Vec<u32> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                matches!(connection.stage, Stage::Asking)
                    && connection.port == port
                    && matches!(&connection.host, Host::Name(own) if own == name)
            })
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            if allowed {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.stage = Stage::LookingUp;
                }
                self.look_up(id);
            } else {
                self.refuse(id, gate::Why::Answered.words().to_owned(), None);
            }
        }
    }

    /// The name was allowed: now, and not before, it is looked up.
    pub(super) fn look_up(&mut self, id: u32) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let name = match &connection.host {
            Host::Address(address) => {
                let address = *address;
                return self.dial(id, vec![address]);
            }
            Host::Name(name) => name.clone(),
        };
        let written = self.book.written(&name);
        if !written.is_empty() {
            return self.dial(id, written);
        }
        if let Some((when, found)) = self.known.get(&name)
            && when.elapsed() < FRESH
        {
            let found = found.clone();
            return self.dial(id, found);
        }
        if self.lookups.values().any(|lookup| lookup.name() == name) {
            return;
        }
        let number = self.number();
        let mut lookup = Lookup::new(&self.book, &name);
        let progress = lookup.next();
        self.lookups.insert(number, lookup);
        self.looked(number, progress);
    }

    pub(super) fn on_lookup(&mut self, id: u32, now: Instant) {
        if let Some(lookup) = self.lookups.get_mut(&id) {
            let progress = lookup.advance(now);
            self.looked(id, progress);
        }
    }

    fn looked(&mut self, id: u32, progress: Progress) {
        let result = match progress {
            Progress::Done(result) => result,
            Progress::Waits => {
                let Some((fd, deadline)) = self.lookups.get(&id).and_then(Lookup::waits_for) else {
                    return;
                };
                // The same socket as before is watched already.
                match self.watch(fd, Token::Lookup(id), EpollFlags::EPOLLIN) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(_) => return,
                }
                self.due.push(Reverse((deadline, Token::Lookup(id))));
                return;
            }
        };
        let Some(lookup) = self.lookups.remove(&id) else {
            return;
        };
        let waiting: Vec<u32> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                matches!(connection.stage, Stage::LookingUp)
                    && matches!(&connection.host, Host::Name(name) if name == lookup.name())
            })
            .map(|(id, _)| *id)
            .collect();
        if let Ok(found) = &result {
            if self.known.len() >= MOST_KNOWN {
                self.known.retain(|_, (when, _)| when.elapsed() < FRESH);
                if self.known.len() >= MOST_KNOWN {
                    self.known.clear();
                }
            }
            self.known
                .insert(lookup.name().to_owned(), (Instant::now(), found.clone()));
        }
        for id in waiting {
            match &result {
                Ok(found) => self.dial(id, found.clone()),
                Err(why) => self.fail(id, why),
            }
        }
    }

    /// Dials those of the addresses that may be dialled.
    pub(super) fn dial(&mut self, id: u32, found: Vec<IpAddr>) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let port = connection.port;
        let mut forbidden = None;
        let mut good = VecDeque::new();
        for address in found {
            // In its one form: an address in disguise is dialled as what it is.
            let address = address.to_canonical();
            match self.gate.forbids(address, port) {
                None => good.push_back(address),
                Some(why) => forbidden = forbidden.or(Some((address, why))),
            }
        }
        good.make_contiguous().sort_by_key(IpAddr::is_ipv6);
        good.truncate(MOST_ADDRESSES);
        if let (true, Some((address, why))) = (good.is_empty(), forbidden) {
            let fix = gate::fix(gate::Why::NoName, &address.to_string(), Some(port));
            let fix = fix.map(|fix| format!("{fix} beside the name"));
            return self.refuse(id, format!("leads to {address}, {why}"), fix);
        }
        match connection.dial(good, "the name has no address") {
            Ok(()) => self.dialling(id),
            Err(why) => self.fail(id, &why),
        }
    }

    pub(super) fn dialling(&mut self, id: u32) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let Stage::Dialling {
            server, deadline, ..
        } = &connection.stage
        else {
            return;
        };
        let watched = self.watch(server.as_fd(), Token::Server(id), NEWS);
        self.due.push(Reverse((*deadline, Token::Server(id))));
        // The same socket as before is watched already.
        if watched.is_err_and(|errno| errno != Errno::EEXIST) {
            self.fail(id, "too many descriptors are open");
        }
    }

    pub(super) fn on_server(&mut self, id: u32, flags: EpollFlags) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if matches!(connection.stage, Stage::Dialling { .. }) {
            match connection.dialled(Instant::now()) {
                Err(why) => return self.fail(id, &why),
                Ok(()) if matches!(connection.stage, Stage::Dialling { .. }) => {
                    return self.dialling(id);
                }
                Ok(()) => {}
            }
        }
        connection.server_has(flags);
        self.advance(id);
    }
}
