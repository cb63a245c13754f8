//! The relay: a process of its own outside the jail, confined to sockets, that takes the
//! command's connections and dials those that may be dialled.
//!
//! One `epoll`, edge-triggered for connections: each is moved as far as it goes whenever
//! one of its sockets has news.

mod reach;
mod streams;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::connection::{Connection, Stage};
use super::flow::Pipes;
use super::gate::Gate;
use super::inside::{Listener, Serves};
use super::lookup::{Book, Lookup};
use super::names::Names;
use super::open::Turn;
use super::record::{Decision, FromRelay, LONGEST, Ledger, ToRelay};
use super::resolver::Resolver;
use crate::sys::socket;

/// So many connections at once, if there are descriptors for them.
const MOST: u64 = 4096;

/// What a connection may need: two sockets and two pipes.
const DESCRIPTORS_EACH: u64 = 6;

/// So many are accepted before others have their turn.
const TURN: usize = 64;

/// What has been looked up is good for so long.
const FRESH: Duration = Duration::from_secs(5);

/// When somebody who gets last words is looked at again.
const SOON: Duration = Duration::from_millis(20);

/// What the command has sent may take so long to go out after its end.
const LAST: Duration = Duration::from_secs(2);

/// Everything that may happen to a connection's socket, each time it happens.
const NEWS: EpollFlags = EpollFlags::EPOLLIN
    .union(EpollFlags::EPOLLPRI)
    .union(EpollFlags::EPOLLOUT)
    .union(EpollFlags::EPOLLRDHUP)
    .union(EpollFlags::EPOLLET);

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Token {
    Channel,
    Listener(u32),
    Client(u32),
    Server(u32),
    Lookup(u32),
}

/// The relay's state.
#[derive(Debug)]
pub struct Relay {
    channel: OwnedFd,
    epoll: Epoll,
    listeners: Vec<Listener>,
    gate: Gate,
    names: Names,
    book: Book,
    ledger: Ledger,
    pipes: Pipes,
    connections: HashMap<u32, Connection>,
    most: usize,
    lookups: HashMap<u32, Lookup>,
    known: HashMap<String, (Instant, Vec<IpAddr>)>,
    /// Connections that want another turn.
    ready: VecDeque<u32>,
    /// What is due when; what is no longer waited for is passed over.
    due: BinaryHeap<Reverse<(Instant, Token)>>,
    next: u32,
    /// Set when the jail has ended: until when last bytes may go out.
    last: Option<Instant>,
}

impl Relay {
    /// A relay with these sockets, talking to the supervisor over this channel.
    pub fn new(
        channel: OwnedFd,
        listeners: Vec<Listener>,
        gate: Gate,
        book: Book,
        descriptors: u64,
    ) -> nix::Result<Relay> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let most = (descriptors.saturating_sub(64) / DESCRIPTORS_EACH).clamp(8, MOST);
        let relay = Relay {
            channel,
            epoll,
            listeners,
            gate,
            names: Names::default(),
            book,
            ledger: Ledger::default(),
            pipes: Pipes::default(),
            connections: HashMap::new(),
            most: most as usize,
            lookups: HashMap::new(),
            known: HashMap::new(),
            ready: VecDeque::new(),
            due: BinaryHeap::new(),
            next: 0,
            last: None,
        };
        let input = EpollFlags::EPOLLIN;
        relay.watch(relay.channel.as_fd(), Token::Channel, input)?;
        for (index, listener) in (0..).zip(&relay.listeners) {
            relay.watch(listener.socket.as_fd(), Token::Listener(index), input)?;
        }
        Ok(relay)
    }

    /// Relays until the supervisor ends it, then hands in the ledger.
    pub fn run(mut self) -> nix::Result<()> {
        let mut events = vec![EpollEvent::empty(); 256];
        while !self.is_over() {
            let count = match self.epoll.wait(&mut events, self.patience()) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(errno) => return Err(errno),
            };
            for event in events.iter().take(count) {
                self.on_event(Token::of(event.data()), event.events())?;
            }
            self.on_time(Instant::now());
            for _ in 0..self.ready.len() {
                if let Some(id) = self.ready.pop_front() {
                    self.on_client(id, EpollFlags::empty());
                }
            }
        }
        for connection in self.connections.values() {
            self.ledger.add(connection.entry(Decision::Allow));
        }
        for entry in std::mem::take(&mut self.ledger).finish() {
            tell(&self.channel, &FromRelay::Entry(Box::new(entry)))?;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.last.is_some_and(|last| {
            Instant::now() >= last || self.connections.values().all(Connection::has_said_all)
        })
    }

    fn patience(&self) -> EpollTimeout {
        if !self.ready.is_empty() {
            return EpollTimeout::ZERO;
        }
        let due = self.due.peek().map(|Reverse((when, _))| *when);
        match [due, self.last].into_iter().flatten().min() {
            None => EpollTimeout::NONE,
            Some(when) => {
                let left = when.saturating_duration_since(Instant::now());
                // Rounded up: a wake-up too early is one more for nothing.
                EpollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(EpollTimeout::MAX)
            }
        }
    }

    fn on_event(&mut self, token: Token, flags: EpollFlags) -> nix::Result<()> {
        match token {
            Token::Channel => self.on_word()?,
            Token::Listener(index) => self.on_listener(index),
            Token::Client(id) => self.on_client(id, flags),
            Token::Server(id) => self.on_server(id, flags),
            Token::Lookup(id) => self.on_lookup(id, Instant::now()),
        }
        Ok(())
    }

    /// The supervisor speaks; that it does no longer is the end.
    fn on_word(&mut self) -> nix::Result<()> {
        let mut bytes = [0; LONGEST];
        let (length, _) = socket::receive(self.channel.as_fd(), &mut bytes)?;
        let word = serde_json::from_slice(bytes.get(..length).unwrap_or_default());
        match word.map_err(|_| Errno::EPIPE)? {
            ToRelay::Answer {
                name,
                port,
                allowed,
            } => self.answered(&name, port, allowed),
            ToRelay::Dialled => {}
            ToRelay::Finish => {
                self.last = Some(Instant::now() + LAST);
                self.listeners.clear();
                let early: Vec<u32> = self
                    .connections
                    .iter()
                    .filter(|(_, connection)| !matches!(connection.stage, Stage::Open(_)))
                    .map(|(id, _)| *id)
                    .collect();
                for id in early {
                    match self
                        .connections
                        .get(&id)
                        .map(|connection| &connection.stage)
                    {
                        // Nobody was dialled yet.
                        Some(Stage::Resolver(_) | Stage::Proxy(_)) => {
                            self.connections.remove(&id);
                        }
                        Some(Stage::Asking) => self.unanswered(id),
                        _ => self.fail(id, "the command ended before it was open"),
                    }
                }
            }
        }
        Ok(())
    }

    fn on_listener(&mut self, index: u32) {
        let Some(listener) = self.listeners.get(index as usize) else {
            return;
        };
        let serves = listener.serves;
        if serves == Serves::Packets {
            let six = self.listeners.iter().any(|listener| listener.six);
            let mut resolver = Resolver {
                gate: &self.gate,
                names: &mut self.names,
                ledger: &mut self.ledger,
                six,
            };
            resolver.packets(listener.socket.as_fd());
            return;
        }
        let Ok(socket) = listener.socket.try_clone() else {
            return;
        };
        let socket = std::net::TcpListener::from(socket);
        for _ in 0..TURN {
            match socket.accept() {
                Ok((client, _)) => self.accepted(client, serves),
                Err(_) => return,
            }
        }
    }

    fn keep(&mut self, mut connection: Connection, stage: Stage) -> Option<u32> {
        connection.stage = stage;
        let id = self.number();
        self.watch(connection.client.as_fd(), Token::Client(id), NEWS)
            .ok()?;
        self.connections.insert(id, connection);
        Some(id)
    }

    fn on_client(&mut self, id: u32, flags: EpollFlags) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.client_has(flags);
        match &mut connection.stage {
            Stage::Open(_) => self.advance(id),
            Stage::Resolver(_) => self.questions(id),
            Stage::Proxy(_) => self.proxy(id),
            Stage::Asking if flags.intersects(EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) => {
                self.unanswered(id);
            }
            _ if flags.intersects(EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) => {
                self.fail(id, "the command gave up before it was open");
            }
            _ => {}
        }
    }

    fn advance(&mut self, id: u32) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        match connection.advance(&self.gate, &mut self.pipes) {
            Turn::Waits => {}
            Turn::More => self.ready.push_back(id),
            Turn::Ended => {
                self.ledger.add(connection.entry(Decision::Allow));
                self.connections.remove(&id);
            }
            Turn::Broken => {
                connection.reset();
                self.ledger.add(connection.entry(Decision::Allow));
                self.connections.remove(&id);
            }
            Turn::Lingers => {
                let soon = Instant::now() + SOON;
                self.due.push(Reverse((soon, Token::Client(id))));
            }
            Turn::Refused { why, fix } => self.refuse(id, why, fix),
        }
    }

    fn refuse(&mut self, id: u32, why: String, fix: Option<String>) {
        if let Some(connection) = self.connections.remove(&id) {
            connection.turn_away(Decision::Refuse);
            let mut entry = connection.entry(Decision::Refuse).because(why);
            entry.fix = fix;
            self.ledger.add(entry);
        }
    }

    /// Somebody was asked, and the command waited no longer.
    fn unanswered(&mut self, id: u32) {
        self.refuse(
            id,
            "was asked about, and nobody answered in time".to_owned(),
            None,
        );
    }

    /// It was allowed, and could not be reached all the same.
    fn fail(&mut self, id: u32, why: &str) {
        if let Some(connection) = self.connections.remove(&id) {
            connection.turn_away(Decision::Allow);
            self.ledger
                .add(connection.entry(Decision::Allow).because(why));
        }
    }

    fn on_time(&mut self, now: Instant) {
        while let Some(Reverse((when, token))) = self.due.peek().copied()
            && when <= now
        {
            self.due.pop();
            match token {
                Token::Server(id) => {
                    let dials = self
                        .connections
                        .get(&id)
                        .is_some_and(|own| matches!(own.stage, Stage::Dialling { .. }));
                    if dials {
                        self.on_server(id, EpollFlags::empty());
                    }
                }
                Token::Lookup(id) => self.on_lookup(id, now),
                Token::Client(id) => self.advance(id),
                Token::Channel | Token::Listener(_) => {}
            }
        }
    }

    fn watch(&self, fd: BorrowedFd<'_>, token: Token, flags: EpollFlags) -> nix::Result<()> {
        self.epoll.add(fd, EpollEvent::new(flags, token.number()))
    }

    fn number(&mut self) -> u32 {
        loop {
            self.next = self.next.wrapping_add(1);
            if !self.connections.contains_key(&self.next) && !self.lookups.contains_key(&self.next)
            {
                return self.next;
            }
        }
    }
}

impl Token {
    fn number(self) -> u64 {
        let (kind, id) = match self {
            Token::Channel => (0, 0),
            Token::Listener(id) => (1, id),
            Token::Client(id) => (2, id),
            Token::Server(id) => (3, id),
            Token::Lookup(id) => (4, id),
        };
        kind << 32 | u64::from(id)
    }

    fn of(number: u64) -> Token {
        let id = number as u32;
        match number >> 32 {
            1 => Token::Listener(id),
            2 => Token::Client(id),
            3 => Token::Server(id),
            4 => Token::Lookup(id),
            _ => Token::Channel,
        }
    }
}

/// Says something to the supervisor.
pub fn tell(channel: &OwnedFd, word: &FromRelay) -> nix::Result<()> {
    let bytes = serde_json::to_vec(word).map_err(|_| Errno::EINVAL)?;
    socket::send(channel.as_fd(), &bytes, None)
}
