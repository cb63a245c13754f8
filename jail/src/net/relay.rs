//! The relay: a process of its own outside the jail, confined to sockets, that takes the
//! command's connections and dials those that may be dialled.
//!
//! One `epoll`, edge-triggered for connections: each is moved as far as it goes whenever
//! one of its sockets has news.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::connection::{Connection, Host, Stage, Turn};
use super::dns;
use super::flow::Pipes;
use super::gate::{self, DNS, Gate, Verdict};
use super::inside::{Listener, Serves};
use super::lookup::{Book, Lookup, Progress};
use super::names::Names;
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

/// What the command has sent may take so long to go out after its end.
const LAST: Duration = Duration::from_secs(2);

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
                    self.advance(id);
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
            Token::Server(id) => self.on_server(id),
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
                    self.fail(id, "the command ended before it was open");
                }
            }
        }
        Ok(())
    }

    fn on_listener(&mut self, index: u32) {
        let Some(listener) = self.listeners.get(index as usize) else {
            return;
        };
        let Serves::Connections(port) = listener.serves else {
            let six = self.listeners.iter().any(|listener| listener.six);
            let mut resolver = Resolver {
                gate: &self.gate,
                names: &mut self.names,
                ledger: &mut self.ledger,
                six,
            };
            resolver.packets(listener.socket.as_fd());
            return;
        };
        let Ok(socket) = listener.socket.try_clone() else {
            return;
        };
        let socket = std::net::TcpListener::from(socket);
        for _ in 0..TURN {
            match socket.accept() {
                Ok((client, _)) => self.accepted(client, port),
                Err(_) => return,
            }
        }
    }

    /// Somebody inside has dialled: decided before anything else is done.
    fn accepted(&mut self, client: TcpStream, port: u16) {
        let Ok(to) = client.local_addr() else {
            return;
        };
        let to = to.ip().to_canonical();
        if client.set_nonblocking(true).is_err() {
            return;
        }
        let host = match self.names.name(to) {
            Some(name) => Host::Name(name.to_owned()),
            None => Host::Address(to),
        };
        let connection = Connection::new(client, host, port, Stage::LookingUp);
        if self.connections.len() >= self.most {
            connection.reset();
            let entry = connection.entry(Decision::Refuse);
            self.ledger
                .add(entry.because("would have been one too many at once"));
            return;
        }
        if port == DNS {
            self.keep(connection, Stage::Resolver(Vec::new()));
            return;
        }
        let verdict = match &connection.host {
            Host::Name(name) => self.gate.name(name, port),
            Host::Address(address) => self.gate.address(*address, port),
        };
        match verdict {
            Verdict::Refuse(why) => {
                connection.reset();
                let shown = connection.host.to_string();
                let mut entry = connection.entry(Decision::Refuse).because(why.words());
                entry.fix = gate::fix(why, &shown, Some(port));
                self.ledger.add(entry);
            }
            Verdict::Ask => {
                let name = connection.host.to_string();
                let asked = self.connections.values().any(|other| {
                    matches!(other.stage, Stage::Asking)
                        && (&other.host, other.port) == (&connection.host, port)
                });
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

    fn keep(&mut self, mut connection: Connection, stage: Stage) -> Option<u32> {
        connection.stage = stage;
        let id = self.number();
        let flags = EpollFlags::EPOLLIN
            | EpollFlags::EPOLLOUT
            | EpollFlags::EPOLLRDHUP
            | EpollFlags::EPOLLET;
        self.watch(connection.client.as_fd(), Token::Client(id), flags)
            .ok()?;
        self.connections.insert(id, connection);
        Some(id)
    }

    fn answered(&mut self, name: &str, port: u16, allowed: bool) {
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
    fn look_up(&mut self, id: u32) {
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

    fn on_lookup(&mut self, id: u32, now: Instant) {
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
    fn dial(&mut self, id: u32, found: Vec<IpAddr>) {
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

    fn dialling(&mut self, id: u32) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let Stage::Dialling {
            server, deadline, ..
        } = &connection.stage
        else {
            return;
        };
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        let watched = self.watch(server.as_fd(), Token::Server(id), flags);
        self.due.push(Reverse((*deadline, Token::Server(id))));
        // The same socket as before is watched already.
        if watched.is_err_and(|errno| errno != Errno::EEXIST) {
            self.fail(id, "too many descriptors are open");
        }
    }

    fn on_server(&mut self, id: u32) {
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
        self.advance(id);
    }

    fn on_client(&mut self, id: u32, flags: EpollFlags) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        match &mut connection.stage {
            Stage::Open(_) => self.advance(id),
            Stage::Resolver(_) => self.questions(id),
            _ if flags.intersects(EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) => {
                self.fail(id, "the command gave up before it was open");
            }
            _ => {}
        }
    }

    /// Questions for names in a stream, each behind its length.
    fn questions(&mut self, id: u32) {
        use std::io::{Read, Write};
        let six = self.listeners.iter().any(|listener| listener.six);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let Stage::Resolver(came) = &mut connection.stage else {
            return;
        };
        let mut piece = [0; dns::LONGEST];
        let goes_on = loop {
            match connection.client.read(&mut piece) {
                Ok(0) => break false,
                Ok(length) => came.extend_from_slice(piece.get(..length).unwrap_or_default()),
                Err(error) => break error.kind() == std::io::ErrorKind::WouldBlock,
            }
            let mut resolver = Resolver {
                gate: &self.gate,
                names: &mut self.names,
                ledger: &mut self.ledger,
                six,
            };
            let mut answers = Vec::new();
            while let Some((length, rest)) = came.split_first_chunk::<2>()
                && let Some((question, rest)) =
                    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
            {
                if let Some(answer) = resolver.answer(question) {
                    answers.extend_from_slice(&(answer.len() as u16).to_be_bytes());
                    answers.extend_from_slice(&answer);
                }
                *came = rest.to_vec();
            }
            // Who does not read its answers, or sends no questions, is not waited for.
            if came.len() > dns::LONGEST || connection.client.write_all(&answers).is_err() {
                break false;
            }
        };
        if !goes_on {
            self.connections.remove(&id);
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
            Turn::Refused { why, fix } => self.refuse(id, why, fix),
        }
    }

    fn refuse(&mut self, id: u32, why: String, fix: Option<String>) {
        if let Some(connection) = self.connections.remove(&id) {
            connection.reset();
            let mut entry = connection.entry(Decision::Refuse).because(why);
            entry.fix = fix;
            self.ledger.add(entry);
        }
    }

    /// It was allowed, and could not be reached all the same.
    fn fail(&mut self, id: u32, why: &str) {
        if let Some(connection) = self.connections.remove(&id) {
            connection.reset();
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
                        self.on_server(id);
                    }
                }
                Token::Lookup(id) => self.on_lookup(id, now),
                Token::Channel | Token::Listener(_) | Token::Client(_) => {}
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
