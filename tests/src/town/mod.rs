//! A small world of its own for tests of the network: nothing in it reaches any other.
//!
//! The test's process moves into fresh user, mount and network namespaces, "the host",
//! where sjail is then run as ever. A thread has a second network, "the internet", with
//! servers at addresses that are public in this world and nowhere else. A pair of virtual
//! interfaces connects the two. The host's `/etc/hosts` and `/etc/resolv.conf` are the
//! world's own, by private mounts.

mod netlink;

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, gettid};

use crate::{Scene, Stop, Verdict, wait};

/// The host's own address.
pub const HOST: &str = "203.0.113.1";
/// The server that most names lead to.
pub const WEB: &str = "203.0.113.10";
/// The same by IPv6.
pub const WEB6: &str = "2001:db8:cafe::10";
/// The name server.
pub const NAMES: &str = "203.0.113.53";
/// Addresses of servers that are there, but that no name may lead to by itself.
pub const SPECIAL: [&str; 6] = [
    "10.9.9.9",
    "172.16.9.9",
    "192.168.9.9",
    "100.64.9.9",
    "169.254.169.254",
    "168.63.129.16",
];

/// The world; it ends with the test's process.
#[derive(Debug)]
pub struct Town {
    orders: Sender<Order>,
    asked: Arc<Mutex<Vec<String>>>,
}

type Order = Box<dyn FnOnce() + Send>;

impl Town {
    /// Moves the test's process into a new world. `names` is the content of its
    /// `/etc/hosts` below `localhost`; what is not there is asked of the name server,
    /// which knows `LABELS.at.ADDRESS.test`-like names: see `Town::name_server`.
    pub fn enter(scene: &Scene, names: &[(&str, &str)]) -> Verdict<Town> {
        if let Err(error) = separate() {
            return scene.skip(format!("no namespaces for a test network: {error}"));
        }
        let hosts: String = names
            .iter()
            .map(|(name, address)| format!("{address} {name}\n"))
            .collect();
        private(
            scene,
            "/etc/hosts",
            &format!("127.0.0.1 localhost\n::1 localhost\n{hosts}"),
        )?;
        private(scene, "/etc/resolv.conf", &format!("nameserver {NAMES}\n"))?;
        let (orders, work) = channel::<Order>();
        let (told, ready) = channel();
        let (go, begin) = channel::<()>();
        thread::spawn(move || {
            let _ = told.send(unshare(CloneFlags::CLONE_NEWNET).map(|()| gettid().as_raw()));
            if begin.recv().is_err() {
                return;
            }
            let _ = told.send(internet().map(|()| 0).map_err(|_| nix::errno::Errno::EIO));
            for order in work {
                order();
            }
        });
        let lost = |_| Stop::failed("the other network's thread has ended");
        let task = ready.recv().map_err(lost)??;
        netlink::up("lo")?;
        if let Err(error) = netlink::connect("out", "in", task) {
            return scene.skip(format!("no virtual interfaces here: {error}"));
        }
        for (address, bits) in [(HOST, 24), ("2001:db8:cafe::1", 64)] {
            netlink::address("out", parse(address), bits)?;
        }
        netlink::up("out")?;
        for family in [HOST, WEB6] {
            netlink::default_route("out", parse(family))?;
        }
        go.send(())?;
        ready.recv().map_err(lost)??;
        let town = Town {
            orders,
            asked: Arc::default(),
        };
        town.name_server()?;
        Ok(town)
    }

    /// Does something in the internet and gives what came of it.
    pub fn out_there<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Verdict<T> {
        let (told, result) = channel();
        self.orders.send(Box::new(move || {
            let _ = told.send(act());
        }))?;
        Ok(result.recv()??)
    }

    /// A server in the internet: each connection is served by `serve` in a thread.
    pub fn server(&self, port: u16, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Verdict {
        self.out_there(move || {
            let listener = TcpListener::bind(("::", port))?;
            thread::spawn(move || answer_all(listener, serve));
            Ok(())
        })
    }

    /// A web server on port 80 that says which host it was asked for, and by whom.
    pub fn web(&self) -> Verdict {
        self.server(80, say_hello)
    }

    /// The same on the host itself, on loopback and all its other addresses.
    pub fn web_at_home(&self) -> Verdict {
        let listener = TcpListener::bind("[::]:80")?;
        thread::spawn(move || answer_all(listener, say_hello));
        Ok(())
    }

    /// A program in the internet; gone when the test's process is.
    pub fn program(&self, command: Command) -> Verdict<std::process::Child> {
        self.out_there(move || start(command))
    }

    /// A program on the host; gone when the test's process is.
    pub fn at_home(&self, command: Command) -> Verdict<std::process::Child> {
        Ok(start(command)?)
    }

    /// Waits until a port of the internet is served.
    pub fn served(&self, port: u16) -> Verdict {
        wait::until_true(&format!("port {port} is served"), || {
            TcpStream::connect((WEB, port)).is_ok()
        })
    }

    /// What the name server was asked for so far, in order.
    pub fn asked(&self) -> Vec<String> {
        self.asked
            .lock()
            .map(|list| list.clone())
            .unwrap_or_default()
    }

    /// Answers `a-b-c-d.v4.test` with the address `a.b.c.d`, and `HEX.v6.test` (32 digits)
    /// with that IPv6 address; `none.test` does not exist; `many.test` has many
    /// addresses of the machine's own as well; all else is [`WEB`].
    fn name_server(&self) -> Verdict {
        let asked = Arc::clone(&self.asked);
        self.out_there(move || {
            let socket = UdpSocket::bind((NAMES, 53))?;
            thread::spawn(move || {
                let mut packet = [0; 1500];
                while let Ok((length, from)) = socket.recv_from(&mut packet) {
                    if let Some((name, answer)) = reply(&packet[..length]) {
                        if let Ok(mut list) = asked.lock() {
                            list.push(name);
                        }
                        let _ = socket.send_to(&answer, from);
                    }
                }
            });
            Ok(())
        })
    }
}

/// Starts a program that ends with whoever started it.
fn start(mut command: Command) -> io::Result<std::process::Child> {
    use std::os::unix::process::CommandExt;
    // SAFETY: prctl is signal-safe and takes plain numbers.
    unsafe {
        command.pre_exec(
            || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            },
        );
    }
    command.stdin(Stdio::null()).spawn()
}

fn answer_all(listener: TcpListener, serve: impl Fn(TcpStream) + Send + Sync + 'static) {
    let serve = Arc::new(serve);
    for stream in listener.incoming().flatten() {
        let serve = Arc::clone(&serve);
        thread::spawn(move || serve(stream));
    }
}

/// Answers one HTTP request: with the body `hello HOST`, and what else was sent.
pub fn say_hello(mut stream: TcpStream) {
    let Ok(copy) = stream.try_clone() else {
        return;
    };
    let mut reader = BufReader::new(copy);
    let mut host = String::new();
    let mut length = 0;
    let mut line = String::new();
    while matches!(reader.read_line(&mut line), Ok(count) if count > 2) {
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("host:") {
            host = value.trim().to_owned();
        }
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    let text = format!("hello {host} {}\n", String::from_utf8_lossy(&body));
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
}

/// The namespaces of the host.
fn separate() -> io::Result<()> {
    let (uid, gid) = (Uid::effective(), Gid::effective());
    let mut flags = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS;
    if !uid.is_root() {
        flags |= CloneFlags::CLONE_NEWUSER;
    }
    unshare(flags)?;
    if !uid.is_root() {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    }
    let none: Option<&str> = None;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(none, "/", none, private, none)?;
    Ok(())
}

/// The internet's side.
fn internet() -> io::Result<()> {
    netlink::up("lo")?;
    netlink::up("in")?;
    // Servers that are programs of their own have no privileges.
    fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")?;
    for address in [WEB, NAMES, "203.0.113.11"] {
        netlink::address("in", parse(address), 24)?;
    }
    netlink::address("in", parse(WEB6), 64)?;
    for address in SPECIAL {
        netlink::address("in", parse(address), 32)?;
    }
    for address in ["fd00:9::9", "64:ff9b::a09:909"] {
        netlink::address("in", parse(address), 128)?;
    }
    Ok(())
}

fn private(scene: &Scene, path: &str, content: &str) -> Verdict {
    let name = Path::new(path).file_name().unwrap_or_default();
    let file = scene.scratch().join(name);
    fs::write(&file, content)?;
    let none: Option<&str> = None;
    // A link is followed: the file that is read in the end is what is covered.
    let place = fs::canonicalize(path)?;
    mount(Some(&file), &place, none, MsFlags::MS_BIND, none)?;
    Ok(())
}

fn parse(text: &str) -> IpAddr {
    text.parse().unwrap_or(IpAddr::from([0, 0, 0, 0]))
}

/// The answer to a packet with one question, and the name that was asked for.
fn reply(packet: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut at = 12;
    let mut labels: Vec<String> = Vec::new();
    loop {
        let length = usize::from(*packet.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(packet.get(at..at + length)?).into_owned());
        at += length;
    }
    let kind = u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]);
    let name = labels.join(".").to_ascii_lowercase();
    let first = labels.first().cloned().unwrap_or_default();
    let (four, six): (Vec<u8>, Vec<u8>) = if name.ends_with(".v4.test") {
        let octets = first.split('-').filter_map(|part| part.parse().ok());
        (octets.collect(), Vec::new())
    } else if name.ends_with(".v6.test") {
        let octet = |at: usize| u8::from_str_radix(first.get(at..at + 2)?, 16).ok();
        (Vec::new(), (0..16).filter_map(|at| octet(2 * at)).collect())
    } else {
        (vec![203, 0, 113, 10], Vec::new())
    };
    let data = match kind {
        1 => four,
        28 => six,
        _ => Vec::new(),
    };
    let missing = name == "none.test";
    let mut all = Vec::new();
    if name == "many.test" && kind == 1 {
        all = vec![vec![127, 0, 0, 1]; 200];
    }
    if !data.is_empty() && !missing {
        all.push(data);
    }
    let mut answer = packet.get(..2)?.to_vec();
    let count = all.len() as u8;
    answer.extend_from_slice(&[0x81, if missing { 0x83 } else { 0x80 }, 0, 1, 0, count]);
    answer.extend_from_slice(&[0; 4]);
    answer.extend_from_slice(packet.get(12..at + 4)?);
    for data in all {
        answer.extend_from_slice(&[0xc0, 12, 0, kind as u8, 0, 1, 0, 0, 0, 0, 0]);
        answer.push(data.len() as u8);
        answer.extend_from_slice(&data);
    }
    Some((name, answer))
}

/// An address and a port, for connections from the test itself.
pub fn place(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(parse(address), port)
}
