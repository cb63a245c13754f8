//! Looking a name up as the host would: its hosts file, then its name servers.
//!
//! Only names that were allowed come here. A static program cannot use the C library's
//! modules, so what else `nsswitch.conf` names is not asked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use sjail_policy::host;

use super::dns::{self, Reply};
use crate::sys::random;

/// How long a server has to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Every server is asked so often.
const ROUNDS: usize = 2;

/// More servers than this nobody configures.
const MOST_SERVERS: usize = 3;

/// What the host knows: read once, before the relay is confined.
#[derive(Debug, Clone, Default)]
pub struct Book {
    hosts: Vec<(String, IpAddr)>,
    servers: Vec<SocketAddr>,
}

impl Book {
    /// Reads the host's two files.
    pub fn open() -> Book {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Book::read(&read("/etc/hosts"), &read("/etc/resolv.conf"))
    }

    fn read(hosts: &str, resolv: &str) -> Book {
        let mut book = Book::default();
        for line in hosts.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_ascii_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse().ok()) else {
                continue;
            };
            for name in words.filter_map(host::canonical) {
                book.hosts.push((name, address));
            }
        }
        for line in resolv.lines() {
            let mut words = line.split_ascii_whitespace();
            if words.next() == Some("nameserver")
                && let Some(address) = words.next().and_then(|word| word.parse().ok())
                && book.servers.len() < MOST_SERVERS
            {
                book.servers.push(SocketAddr::new(address, 53));
            }
        }
        book
    }

    /// The addresses that the hosts file has.
    pub fn written(&self, name: &str) -> Vec<IpAddr> {
        self.hosts
            .iter()
            .filter(|(own, _)| own == name)
            .map(|(_, address)| *address)
            .collect()
    }
}

/// One lookup under way.
#[derive(Debug)]
pub struct Lookup {
    name: String,
    servers: Vec<SocketAddr>,
    /// Servers asked so far, over all rounds.
    asked: usize,
    attempt: Option<Attempt>,
}

/// What has become of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// An answer is still to come, on a descriptor that may have changed.
    Waits,
    /// Found; perhaps nothing.
    Done(Result<Vec<IpAddr>, &'static str>),
}

/// One server that is being asked for both kinds of address.
#[derive(Debug)]
struct Attempt {
    socket: UdpSocket,
    deadline: Instant,
    /// The two questions, each with its id until it is answered.
    open: [Option<u16>; 2],
    found: Vec<IpAddr>,
    missing: bool,
}

const KINDS: [u16; 2] = [dns::A, dns::AAAA];

impl Lookup {
    /// Begins a lookup in the servers of the book.
    pub fn new(book: &Book, name: &str) -> Lookup {
        Lookup {
            name: name.to_owned(),
            servers: book.servers.clone(),
            asked: 0,
            attempt: None,
        }
    }

    /// The name that is looked up.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The socket that an answer comes to.
    pub fn waits_for(&self) -> Option<(BorrowedFd<'_>, Instant)> {
        self.attempt
            .as_ref()
            .map(|attempt| (attempt.socket.as_fd(), attempt.deadline))
    }

    /// Asks the next server.
    pub fn next(&mut self) -> Progress {
        let most = self.servers.len() * ROUNDS;
        while self.asked < most {
            let server = self.servers.get(self.asked % self.servers.len()).copied();
            self.asked += 1;
            self.attempt = server.and_then(|server| Attempt::new(server, &self.name).ok());
            if self.attempt.is_some() {
                return Progress::Waits;
            }
        }
        self.attempt = None;
        Progress::Done(Err(match most {
            0 => "this machine names no name server in /etc/resolv.conf",
            _ => "no name server answered",
        }))
    }

    /// Something came, or the time is up.
    pub fn advance(&mut self, now: Instant) -> Progress {
        let Some(attempt) = &mut self.attempt else {
            return self.next();
        };
        match attempt.hear(&self.name) {
            Heard::Nothing if now < attempt.deadline => Progress::Waits,
            // One kind came, the other did not: what is there is good enough.
            Heard::Nothing if !attempt.found.is_empty() => {
                Progress::Done(Ok(std::mem::take(&mut attempt.found)))
            }
            Heard::Nothing | Heard::Failure => self.next(),
            Heard::All => {
                let found = std::mem::take(&mut attempt.found);
                Progress::Done(match (found.is_empty(), attempt.missing) {
                    (false, _) => Ok(found),
                    (true, true) => Err("there is no such name"),
                    (true, false) => Err("the name has no address"),
                })
            }
        }
    }
}

enum Heard {
    Nothing,
    All,
    Failure,
}

impl Attempt {
    fn new(server: SocketAddr, name: &str) -> std::io::Result<Attempt> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        let random = random::bytes::<4>();
        let first = u16::from_ne_bytes([random[0], random[1]]);
        let second = u16::from_ne_bytes([random[2], random[3]]);
        // Two answers must not be taken for each other.
        let ids = [first, if second == first { !second } else { second }];
        for (id, kind) in ids.into_iter().zip(KINDS) {
            socket.send(&dns::question(id, name, kind))?;
        }
        Ok(Attempt {
            socket,
            deadline: Instant::now() + PATIENCE,
            open: ids.map(Some),
            found: Vec::new(),
            missing: false,
        })
    }

    fn hear(&mut self, name: &str) -> Heard {
        let mut packet = [0; 4096];
        loop {
            let length = match self.socket.recv(&mut packet) {
                Ok(length) => length,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    return Heard::Nothing;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => return Heard::Failure,
            };
            let packet = packet.get(..length).unwrap_or_default();
            for (open, kind) in self.open.iter_mut().zip(KINDS) {
                let Some(reply) = open.and_then(|id| dns::reply(packet, id, name, kind)) else {
                    continue;
                };
                match reply {
                    Reply::Addresses(addresses) => self.found.extend(addresses),
                    Reply::NoSuchName => self.missing = true,
                    // For one kind only, some servers say so.
                    Reply::Failed if kind == dns::AAAA => {}
                    Reply::Failed => return Heard::Failure,
                }
                *open = None;
            }
            if self.open == [None, None] {
                return Heard::All;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_hosts_two_files() {
        let book = Book::read(
            "# comment\n127.0.0.1 localhost\n203.0.113.7 Www.Test api.test # more\n\
             2001:db8::7 www.test\nnonsense x\n",
            "search example.org\nnameserver 192.0.2.53\nnameserver ::1\nnameserver fe80::1%eth0\n",
        );
        assert_eq!(book.written("www.test").len(), 2);
        assert_eq!(book.written("api.test"), [IpAddr::from([203, 0, 113, 7])]);
        assert!(book.written("x").is_empty());
        let servers: Vec<SocketAddr> = ["192.0.2.53:53", "[::1]:53"]
            .map(|text| text.parse().unwrap())
            .into();
        assert_eq!(book.servers, servers);
    }

    /// A server on loopback that answers each question by what `say` makes of it.
    fn server(say: impl Fn(&dns::Question<'_>) -> Option<dns::Answer> + Send + 'static) -> Book {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut packet = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                let question = dns::Question::read(&packet[..length]).unwrap();
                if let Some(answer) = say(&question) {
                    socket.send_to(&question.answer(answer), from).unwrap();
                }
            }
        });
        Book {
            hosts: Vec::new(),
            servers: vec![address],
        }
    }

    fn run(book: &Book, name: &str) -> Result<Vec<IpAddr>, &'static str> {
        let mut lookup = Lookup::new(book, name);
        let mut progress = lookup.next();
        while progress == Progress::Waits {
            std::thread::sleep(Duration::from_millis(1));
            progress = lookup.advance(Instant::now());
        }
        match progress {
            Progress::Done(result) => result,
            Progress::Waits => unreachable!(),
        }
    }

    #[test]
    fn a_server_is_asked() {
        let address = IpAddr::from([203, 0, 113, 9]);
        let book = server(move |question| {
            Some(match (question.name.as_deref(), question.kind) {
                (Some("a.test"), dns::A) => dns::Answer::Address(address),
                (Some("a.test"), _) => dns::Answer::Nothing,
                _ => dns::Answer::NoSuchName,
            })
        });
        assert_eq!(run(&book, "a.test"), Ok(vec![address]));
        assert_eq!(run(&book, "b.test"), Err("there is no such name"));
        assert!(run(&Book::default(), "a.test").is_err());
    }
}
