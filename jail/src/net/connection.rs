//! One connection of the command, from the moment it is accepted to its end.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::sockopt::{
    KeepAlive, Linger, OobInline, SocketError, TcpKeepIdle, TcpKeepInterval, TcpNoDelay,
};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, getsockopt, setsockopt, socket,
};

use super::flow::{Flow, Pipes};
use super::gate::Gate;
use super::hello::Hello;
use super::open::{Open, Turn};
use super::proxy::{Protocol, Talk};
use super::record::{Decision, Entry};

/// How long one address has to take a connection.
pub const DIAL: Duration = Duration::from_secs(10);

/// A peer that has said nothing for so many seconds is asked whether it is still there.
const QUIET: u32 = 60;

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
                let hello = match self.way {
                    Way::Published(_) => None,
                    Way::Dialled | Way::Proxied(_) => Some(Hello::of(early)),
                };
                let mut open = Box::new(Open::new(server, hello, down));
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
        open.advance(&self.client, &self.host, self.port, gate, pipes)
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
