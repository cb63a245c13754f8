//! One connection of the command, from the moment it is accepted to its end.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::sockopt::{Linger, SocketError, TcpNoDelay};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, getsockopt, setsockopt, socket,
};
use sjail_policy::plan::Unnamed;

use super::flow::{Flow, Moved, Pipes};
use super::gate::{Gate, USUAL};
use super::hello::{self, Said};
use super::record::{Decision, Entry};

/// How long one address has to take a connection.
pub const DIAL: Duration = Duration::from_secs(10);

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
    /// What is being done about it.
    pub stage: Stage,
    started: Instant,
    dialled: Option<IpAddr>,
}

/// What is being done about a connection.
#[derive(Debug)]
pub enum Stage {
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
    hello: Option<Vec<u8>>,
    /// From the command.
    up: Flow,
    /// To the command.
    down: Flow,
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
    pub fn new(client: TcpStream, host: Host, port: u16, stage: Stage) -> Connection {
        let _ = setsockopt(&client, TcpNoDelay, &true);
        Connection {
            client,
            host,
            port,
            stage,
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
                self.stage = Stage::Open(Box::new(Open {
                    server,
                    hello: Some(Vec::new()),
                    up: Flow::default(),
                    down: Flow::default(),
                }));
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
            Some(_) => Moved::Waits,
            None => open.up.advance(&self.client, &open.server, pipes),
        };
        let down = open.down.advance(&open.server, &self.client, pipes);
        match (up, down) {
            (Moved::Broken, _) | (_, Moved::Broken) => Turn::Broken,
            _ if open.up.is_done() && open.down.is_done() => Turn::Ended,
            (Moved::More, _) | (_, Moved::More) => Turn::More,
            (Moved::Waits, Moved::Waits) => Turn::Waits,
        }
    }

    /// Whether all that the command had to say has been passed on.
    pub fn has_said_all(&self) -> bool {
        match &self.stage {
            Stage::Open(open) => open.up.is_done(),
            _ => true,
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
            entry.sent = open.up.total();
            entry.received = open.down.total();
        }
        entry
    }
}

impl Open {
    /// Reads first words until it is clear whom they are for.
    fn listen(
        &mut self,
        mut client: &TcpStream,
        host: &Host,
        port: u16,
        gate: &Gate,
    ) -> Result<(), Turn> {
        let Some(mut words) = self.hello.take() else {
            return Ok(());
        };
        let mut piece = [0; 16 << 10];
        loop {
            let said = match client.read(&mut piece) {
                Ok(0) => {
                    self.up.end();
                    match words.is_empty() {
                        true => return Ok(()),
                        false => hello_or_nobody(&words),
                    }
                }
                Ok(length) => {
                    words.extend_from_slice(piece.get(..length).unwrap_or_default());
                    match hello::read(&words) {
                        Said::More if words.len() > hello::LONGEST => hello_or_nobody(&words),
                        said => said,
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.hello = Some(words);
                    return Ok(());
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => return Err(Turn::Broken),
            };
            if said == Said::More {
                continue;
            }
            judge(said, host, port, gate)?;
            self.up.first(words);
            return Ok(());
        }
    }
}

fn hello_or_nobody(words: &[u8]) -> Said {
    match hello::read(words) {
        Said::More => Said::Nobody("its first words end before they name a host"),
        said => said,
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
                format!("was dialled, but the first words were for {other}"),
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

/// Begins to connect.
fn begin(to: SocketAddr) -> nix::Result<TcpStream> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(family, SockType::Stream, flags, None)?;
    let _ = setsockopt(&socket, TcpNoDelay, &true);
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
