//! One connection of the command, from the moment it is accepted to its end.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::sockopt::{
    KeepAlive, Linger, OobInline, SocketError, TcpKeepIdle, TcpKeepInterval, TcpNoDelay,
};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, connect, getsockopt, recv,
    setsockopt, socket,
};
use sjail_policy::plan::Unnamed;

use super::flow::{Flow, Moved, Pipes};
use super::gate::{Gate, USUAL};
use super::hello::{Hello, Said, UNFINISHED};
use super::http::{self, Requests, Wants};
use super::proxy::{Protocol, Talk};
use super::record::{Decision, Entry};
use crate::sys::socket::unread;

/// How long one address has to take a connection.
pub const DIAL: Duration = Duration::from_secs(10);

/// A peer that has said nothing for so many seconds is asked whether it is still there.
const QUIET: u32 = 60;

/// That a peer will say no more, perhaps behind bytes that are still to be read.
const ENDS: EpollFlags = EpollFlags::EPOLLRDHUP
    .union(EpollFlags::EPOLLHUP)
    .union(EpollFlags::EPOLLERR);

/// So often requests are looked at before others have their turn.
const TURN: usize = 16;

/// Whom the command dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A name, by the address that stands for it.
    Name(String),
    /// An address of its own making.
    Address(IpAddr),
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(address) => write!(f, "{address}"),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// The command's end.
    pub client: TcpStream,
    /// Whom it dialled.
    pub host: Host,
    /// The port.
    pub port: u16,
    /// How it came about.
    pub way: Way,
    /// What is being done about it.
    pub stage: Stage,
    /// What the command has sent already, for the host that it wants.
    pub early: Vec<u8>,
    /// What has happened to the command's end so far.
    news: EpollFlags,
    started: Instant,
    dialled: Option<IpAddr>,
}

/// How a connection came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The command dialled.
    Dialled,
    /// The command asked the proxy.
    Proxied(Protocol),
    /// Somebody outside came to this published address.
    Published(SocketAddr),
}

/// What is being done about a connection.
#[derive(Debug)]
pub enum Stage {
    /// The proxy is told what is wanted.
    Proxy(Talk),
    /// A person is asked; not a byte has been read.
    Asking,
    /// The name is looked up.
    LookingUp,
    /// An address is dialled.
    Dialling {
        /// The socket that is connecting.
        server: TcpStream,
        /// What else can be tried.
        rest: VecDeque<IpAddr>,
        /// Until when.
        deadline: Instant,
    },
    /// Both ends are there.
    Open(Box<Open>),
    /// Questions for names in a stream, and what has come of the next one.
    Resolver(Vec<u8>),
}

/// Both ends and what flows between them.
#[derive(Debug)]
pub struct Open {
    /// The end outside.
    pub server: TcpStream,
    /// First words whose meaning is not clear yet: nothing of them has gone out.
    hello: Option<Hello>,
    /// HTTP that is read along, request by request.
    requests: Option<Requests>,
    /// From whoever dialled.
    up: Flow,
    /// To whoever dialled.
    down: Flow,
    /// Whether nothing goes up any more because somebody broke off; what whoever dialled is
    /// still to get comes first.
    broken: bool,
    /// Whether it was whoever dialled: what can be passed on at once still is.
    gone: bool,
    /// Whether the end of what comes up is known to have come, behind what is to be read.
    said_all: bool,
    /// The same of what comes down.
    answered_all: bool,
}

/// What became of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// It waits for one of its sockets.
    Waits,
    /// It wants another turn.
    More,
    /// Both sides have ended in good order.
    Ended,
    /// One side broke off; so the other is.
    Broken,
    /// The same, once the other has got the last words: to be looked at again soon.
    Lingers,
    /// The first words were for somebody else: why.
    Refused {
        /// As it goes on behind the host's name.
        why: String,
        /// What would let it through.
        fix: Option<String>,
    },
}

impl Connection {
    /// A connection that was just accepted.
    pub fn new(client: TcpStream, host: Host, port: u16, way: Way) -> Connection {
        prepare(&client);
        Connection {
            client,
            host,
            port,
            way,
            stage: Stage::LookingUp,
            early: Vec::new(),
            news: EpollFlags::empty(),
            started: Instant::now(),
            dialled: None,
        }
    }

    /// Dials the next address; without one, why the last failed.
    pub fn dial(&mut self, mut rest: VecDeque<IpAddr>, last: &str) -> Result<(), String> {
        let mut why = last.to_owned();
        while let Some(address) = rest.pop_front() {
            match begin(SocketAddr::new(address, self.port)) {
                Ok(server) => {
                    self.dialled = Some(address);
                    self.stage = Stage::Dialling {
                        server,
                        rest,
                        deadline: Instant::now() + DIAL,
                    };
                    return Ok(());
                }
                Err(errno) => why = format!("connecting to {address} failed: {}", errno.desc()),
            }
        }
        Err(why)
    }

    /// The dialled socket is ready, or its time is up: goes on, or tries the next.
    pub fn dialled(&mut self, now: Instant) -> Result<(), String> {
        let stage = std::mem::replace(&mut self.stage, Stage::LookingUp);
        let Stage::Dialling {
            server,
            rest,
            deadline,
        } = stage
        else {
            self.stage = stage;
            return Ok(());
        };
        let errno = match getsockopt(&server, SocketError) {
            Ok(0) if server.peer_addr().is_ok() => {
                let mut down = Flow::default();
                if let Way::Proxied(protocol) = self.way {
                    down.first(protocol.yes().to_vec());
                }
                let early = std::mem::take(&mut self.early);
                let mut open = Box::new(Open {
                    server,
                    hello: match self.way {
                        Way::Published(_) => None,
                        Way::Dialled | Way::Proxied(_) => Some(Hello::of(early)),
                    },
                    requests: None,
                    up: Flow::default(),
                    down,
                    broken: false,
                    gone: false,
                    said_all: false,
                    answered_all: false,
                });
                open.client_has(self.news);
                self.stage = Stage::Open(open);
                return Ok(());
            }
            Ok(0) if now < deadline => {
                self.stage = Stage::Dialling {
                    server,
                    rest,
                    deadline,
                };
                return Ok(());
            }
            Ok(0) => Errno::ETIMEDOUT,
            Ok(code) => Errno::from_raw(code),
            Err(errno) => errno,
        };
        drop(server);
        let address = self.dialled.map(|to| to.to_string()).unwrap_or_default();
        self.dial(
            rest,
            &format!("connecting to {address} failed: {}", errno.desc()),
        )
    }

    /// News of the command's end.
    pub fn client_has(&mut self, news: EpollFlags) {
        self.news |= news;
        if let Stage::Open(open) = &mut self.stage {
            open.client_has(news);
        }
    }

    /// News of the end outside.
    pub fn server_has(&mut self, news: EpollFlags) {
        if let Stage::Open(open) = &mut self.stage {
            open.server_has(news);
        }
    }

    /// Moves bytes, once both ends are there.
    pub fn advance(&mut self, gate: &Gate, pipes: &mut Pipes) -> Turn {
        let Stage::Open(open) = &mut self.stage else {
            return Turn::Waits;
        };
        if open.hello.is_some() {
            match open.listen(&self.client, &self.host, self.port, gate) {
                Ok(()) => {}
                Err(turn) => return turn,
            }
        }
        let up = match open.hello {
            _ if open.broken => Moved::Broken,
            Some(_) => Moved::Waits,
            None => match open.up(&self.client, &self.host, self.port, gate, pipes) {
                Ok(moved) => moved,
                Err(turn) => return turn,
            },
        };
        if up == Moved::Broken {
            open.broken = true;
            open.down.cut();
        }
        let down = match open.requests.as_ref().map(Requests::wants) {
            _ if open.gone => Moved::Waits,
            // Held until its first line has been seen.
            Some(Wants::Answer) => Moved::Waits,
            _ => open.down.advance(&open.server, &self.client, pipes),
        };
        let turn = match (up, down) {
            // A server that breaks off may have given its answer before.
            (Moved::Broken, Moved::More) => Turn::More,
            (Moved::Broken, Moved::Waits) if open.down.holds_bytes() && !open.gone => Turn::Waits,
            (Moved::Broken, _) | (_, Moved::Broken) => Turn::Broken,
            _ if open.up.is_done() && open.down.is_done() => Turn::Ended,
            (Moved::More, _) | (_, Moved::More) => Turn::More,
            (Moved::Waits, Moved::Waits) if open.gone => Turn::Broken,
            (Moved::Waits, Moved::Waits) => Turn::Waits,
        };
        // A reset overtakes what was said before it.
        let says_last = || unread(self.client.as_fd()).is_ok_and(|count| count > 0);
        match turn {
            Turn::Broken if !open.gone && says_last() => {
                open.broken = true;
                Turn::Lingers
            }
            turn => turn,
        }
    }

    /// Whether all that the command had to say has been passed on.
    pub fn has_said_all(&self) -> bool {
        match (&self.stage, self.way) {
            (Stage::Open(open), Way::Published(_)) => open.down.is_done(),
            (Stage::Open(open), _) => open.up.is_done(),
            _ => true,
        }
    }

    /// Ends it for a reason: a proxy's client is told, everybody else is reset.
    pub fn turn_away(&self, decision: Decision) {
        match (&self.stage, self.way) {
            (Stage::Open(_), _) | (_, Way::Dialled | Way::Published(_)) => self.reset(),
            (_, Way::Proxied(protocol)) => {
                // Who does not read its answer goes without.
                let _ = (&self.client).write_all(protocol.no(decision));
            }
        }
    }

    /// Breaks both ends off, so that both peers see a reset and not an end.
    pub fn reset(&self) {
        let now = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        let _ = setsockopt(&self.client, Linger, &now);
        if let Stage::Open(open) = &self.stage {
            let _ = setsockopt(&open.server, Linger, &now);
        }
    }

    /// What is written down about it.
    pub fn entry(&self, decision: Decision) -> Entry {
        let mut entry = Entry::new(&self.host.to_string(), Some(self.port), decision);
        entry.address = self.dialled.map(|address| address.to_string());
        entry.duration_ms = self
            .started
            .elapsed()
            .as_millis()
            .try_into()
            .unwrap_or(u64::MAX);
        if let Stage::Open(open) = &self.stage {
            (entry.sent, entry.received) = (open.up.total(), open.down.total());
        }
        if let Way::Published(place) = self.way {
            std::mem::swap(&mut entry.sent, &mut entry.received);
            entry.published = Some(place.to_string());
        }
        entry
    }
}

impl Open {
    fn client_has(&mut self, news: EpollFlags) {
        if news.contains(EpollFlags::EPOLLPRI) {
            self.up.read_plainly();
        }
        if news.contains(EpollFlags::EPOLLERR) {
            self.gone = true;
        }
        self.said_all |= news.intersects(ENDS);
    }

    fn server_has(&mut self, news: EpollFlags) {
        if news.contains(EpollFlags::EPOLLPRI) {
            self.down.read_plainly();
        }
        self.answered_all |= news.intersects(ENDS);
    }

    /// Reads first words until it is clear whom they are for.
    fn listen(
        &mut self,
        mut client: &TcpStream,
        host: &Host,
        port: u16,
        gate: &Gate,
    ) -> Result<(), Turn> {
        let Some(mut hello) = self.hello.take() else {
            return Ok(());
        };
        let mut piece = [0; 16 << 10];
        loop {
            let said = hello.read();
            if said != Said::More {
                return self.begin(hello.into_words(), said, host, port, gate);
            }
            match client.read(&mut piece) {
                Ok(0) if hello.is_empty() => {
                    self.up.end();
                    return Ok(());
                }
                Ok(0) => {
                    self.up.end();
                    return self.begin(hello.into_words(), UNFINISHED, host, port, gate);
                }
                Ok(length) => hello.add(piece.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.hello = Some(hello);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Turn::Broken),
            }
        }
    }

    /// The first words are complete: lets them go on, if they may.
    fn begin(
        &mut self,
        words: Vec<u8>,
        said: Said,
        host: &Host,
        port: u16,
        gate: &Gate,
    ) -> Result<(), Turn> {
        let is_http = words.first().is_some_and(u8::is_ascii_uppercase);
        match (host, &said) {
            (Host::Name(name), Said::Name(other)) if is_http && name == other => {
                let mut requests = Requests::to(name);
                let out = passed(requests.take(&words), &mut requests, host, port, gate)?;
                self.up.first(out);
                self.requests = Some(requests);
            }
            _ => {
                judge(said, host, port, gate)?;
                self.up.first(words);
            }
        }
        Ok(())
    }

    /// Moves what the client says; requests are read before they go on.
    fn up(
        &mut self,
        mut client: &TcpStream,
        host: &Host,
        port: u16,
        gate: &Gate,
        pipes: &mut Pipes,
    ) -> Result<Moved, Turn> {
        let mut piece = [0; 16 << 10];
        for _ in 0..TURN {
            let Some(requests) = &mut self.requests else {
                return Ok(self.up.advance(client, &self.server, pipes));
            };
            let allowance = match requests.wants() {
                Wants::Everything => None,
                Wants::Bytes(count) => Some(count),
                Wants::Words => Some(0),
                Wants::Answer => {
                    if let Some(line) = first_of_answer(&self.server, self.answered_all) {
                        let out = requests.answered(&line);
                        let out = passed(out, requests, host, port, gate)?;
                        self.up.first(out);
                        continue;
                    }
                    // Whoever has said all and goes is not kept for the answer's sake.
                    if self.said_all && !requests.holds_words() {
                        self.up.end();
                    }
                    Some(0)
                }
            };
            self.up.allow(allowance);
            let moved = self.up.advance(client, &self.server, pipes);
            requests.passed(self.up.took());
            if moved != Moved::Waits || !self.up.is_held() {
                return Ok(moved);
            }
            match requests.wants() {
                Wants::Answer if allowance == Some(0) => return Ok(Moved::Waits),
                Wants::Words => {}
                _ => continue,
            }
            match client.read(&mut piece) {
                Ok(0) => self.up.end(),
                Ok(length) => {
                    let out = requests.take(piece.get(..length).unwrap_or_default());
                    let out = passed(out, requests, host, port, gate)?;
                    self.up.first(out);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Moved::Waits),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Ok(Moved::Broken),
            }
        }
        Ok(Moved::More)
    }
}

/// What of a stream of requests may go on; a fault is judged as first words are.
fn passed(
    taken: Result<Vec<u8>, Said>,
    requests: &mut Requests,
    host: &Host,
    port: u16,
    gate: &Gate,
) -> Result<Vec<u8>, Turn> {
    match taken {
        Ok(out) => Ok(out),
        Err(said) => {
            judge(said, host, port, gate)?;
            Ok(requests.free())
        }
    }
}

/// The beginning of an answer's first line, which stays where it is; what there is of it, if
/// the server has `ended`; `None` if it is not there yet.
fn first_of_answer(server: &TcpStream, ended: bool) -> Option<Vec<u8>> {
    let mut line = [0; http::ANSWER];
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    match recv(server.as_raw_fd(), &mut line, flags) {
        Ok(length) if ended || length == line.len() || length == 0 => {
            Some(line.get(..length).unwrap_or_default().to_vec())
        }
        Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => None,
        Err(_) => Some(Vec::new()),
    }
}

/// Whether first words are for the host that was dialled.
fn judge(said: Said, host: &Host, port: u16, gate: &Gate) -> Result<(), Turn> {
    let refused = |why: String, fix: Option<String>| Err(Turn::Refused { why, fix });
    let Host::Name(name) = host else {
        // An address was allowed as such: whoever is there is meant.
        return Ok(());
    };
    let why = match said {
        Said::Name(other) if other == *name => return Ok(()),
        Said::Name(other) | Said::Odd(other) => {
            return refused(
                format!("was dialled, but what was said was for {other}"),
                None,
            );
        }
        Said::Nobody(why) => why,
        Said::Other if USUAL.contains(&port) => "it speaks neither TLS nor HTTP",
        Said::Other | Said::More => return Ok(()),
    };
    match gate.unnamed() {
        Unnamed::Allow => Ok(()),
        Unnamed::Refuse => refused(
            format!("was dialled, but the connection does not say for whom: {why}"),
            Some("`unnamed = \"allow\"` below [network] in the policy".to_owned()),
        ),
    }
}

/// As either end of a connection is wanted: without delays, with urgent data in its place
/// (splice cannot take it out), and noticed when its other end is silently gone.
fn prepare(socket: &impl AsFd) {
    let _ = setsockopt(socket, TcpNoDelay, &true);
    let _ = setsockopt(socket, OobInline, &true);
    let _ = setsockopt(socket, KeepAlive, &true);
    let _ = setsockopt(socket, TcpKeepIdle, &QUIET);
    let _ = setsockopt(socket, TcpKeepInterval, &QUIET);
}

/// Begins to connect.
fn begin(to: SocketAddr) -> nix::Result<TcpStream> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(family, SockType::Stream, flags, None)?;
    prepare(&socket);
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(socket.into()),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sjail_policy::plan::{Network, NetworkMode, Unlisted};

    fn gate(unnamed: Unnamed) -> Gate {
        Gate::new(&Network {
            mode: NetworkMode::Filtered,
            allow: Vec::new(),
            deny: Vec::new(),
            unlisted: Unlisted::Refuse,
            unnamed,
            publish: Vec::new(),
            proxy: Default::default(),
            ssh_agent: Vec::new(),
        })
    }

    #[test]
    fn first_words_must_be_for_the_host() {
        let host = Host::Name("a.test".into());
        let strict = gate(Unnamed::Refuse);
        let mild = gate(Unnamed::Allow);
        let is = |said: Said, port, gate: &Gate| judge(said, &host, port, gate).is_ok();
        assert!(is(Said::Name("a.test".into()), 443, &strict));
        assert!(!is(Said::Name("b.test".into()), 443, &mild));
        assert!(!is(Said::Odd("a.test\0".into()), 443, &mild));
        assert!(!is(Said::Nobody("x"), 443, &strict));
        assert!(!is(Said::Nobody("x"), 8443, &strict));
        assert!(is(Said::Nobody("x"), 443, &mild));
        assert!(!is(Said::Other, 443, &strict));
        assert!(is(Said::Other, 22, &strict));
    }
}
