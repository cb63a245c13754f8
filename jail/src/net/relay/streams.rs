//! What is said to the relay itself: questions for names in a stream, and to the proxy.

use std::io::{ErrorKind, Read, Write};

use super::{Relay, TURN};
use crate::net::connection::{Connection, Host, Stage, Way};
use crate::net::dns;
use crate::net::proxy::{Heard, Target, Wanted};
use crate::net::record::Decision;
use crate::net::resolver::Resolver;

impl Relay {
    /// Questions for names in a stream, each behind its length.
    pub(super) fn questions(&mut self, id: u32) {
        let six = self.listeners.iter().any(|listener| listener.six);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let Stage::Resolver(came) = &mut connection.stage else {
            return;
        };
        let mut piece = [0; dns::LONGEST];
        let mut turns = 0..TURN;
        let goes_on = loop {
            if turns.next().is_none() {
                self.ready.push_back(id);
                return;
            }
            match connection.client.read(&mut piece) {
                Ok(0) => break false,
                Ok(length) => came.extend_from_slice(piece.get(..length).unwrap_or_default()),
                Err(error) => break error.kind() == ErrorKind::WouldBlock,
            }
            let mut resolver = Resolver {
                gate: &self.gate,
                names: &mut self.names,
                ledger: &mut self.ledger,
                six,
            };
            let mut answers = Vec::new();
            let mut left = came.as_slice();
            while let Some((length, rest)) = left.split_first_chunk::<2>()
                && let Some((question, rest)) =
                    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
            {
                if let Some(answer) = resolver.answer(question) {
                    answers.extend_from_slice(&(answer.len() as u16).to_be_bytes());
                    answers.extend_from_slice(&answer);
                }
                left = rest;
            }
            let used = came.len() - left.len();
            came.drain(..used);
            // Who does not read its answers, or sends no questions, is not waited for.
            if came.len() > dns::LONGEST || connection.client.write_all(&answers).is_err() {
                break false;
            }
        };
        if !goes_on {
            self.connections.remove(&id);
        }
    }

    /// The proxy is told whom somebody wants.
    pub(super) fn proxy(&mut self, id: u32) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let Stage::Proxy(talk) = &mut connection.stage else {
            return;
        };
        let mut piece = [0; 4 << 10];
        let wanted = loop {
            let heard = match connection.client.read(&mut piece) {
                Ok(0) => break None,
                Ok(length) => talk.hear(piece.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break None,
            };
            match heard {
                Heard::More => {}
                Heard::Say(words) => {
                    if connection.client.write_all(words).is_err() {
                        break None;
                    }
                    // What came with the greeting may hold the request as well.
                    match talk.hear(b"") {
                        Heard::Wants(wanted) => break Some(wanted),
                        Heard::More => {}
                        Heard::Say(_) | Heard::Nonsense(_) => break None,
                    }
                }
                Heard::Wants(wanted) => break Some(wanted),
                Heard::Nonsense(words) => {
                    let _ = connection.client.write_all(words);
                    break None;
                }
            }
        };
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        // The socket is watched under its next number.
        let _ = self.epoll.delete(&connection.client);
        if let Some(wanted) = wanted {
            self.wanted(connection, wanted);
        }
    }

    fn wanted(&mut self, connection: Connection, wanted: Wanted) {
        let way = Way::Proxied(wanted.protocol);
        let (host, odd) = match wanted.target {
            Target::Name(name) => (Host::Name(name), false),
            Target::Address(address) => (self.host(address.to_canonical()), false),
            Target::Odd(text) => (Host::Name(text), true),
        };
        let mut connection = Connection::new(connection.client, host, wanted.port, way);
        connection.early = wanted.early;
        if odd {
            connection.turn_away(Decision::Refuse);
            let entry = connection.entry(Decision::Refuse);
            self.ledger.add(entry.because("is not a host's name"));
            return;
        }
        self.decide(connection);
    }
}
