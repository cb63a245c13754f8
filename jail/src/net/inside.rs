//! The jail's side of the filtered network: every address is local there, and the sockets
//! that listen at all of them are handed out.
//!
//! A child enters the jail's user and network namespaces, where it may do all this, and
//! ends when it is done. The sockets stay those of the jail's network, whoever holds them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::sockopt::{
    Ipv4PacketInfo, Ipv6RecvPacketInfo, Ipv6V6Only, ReuseAddr, SockType as TypeOf,
};
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, bind,
    getsockname, getsockopt, listen, recv, send, setsockopt, socket, socketpair,
};
use nix::sys::stat::Mode;

use super::gate::DNS;
use super::names::{RESOLVER, RESOLVER_V6};
use crate::spawn::Jail;
use crate::sys::{self, namespace};

/// Connections that nobody has accepted yet, per socket.
const BACKLOG: i32 = 1024;

/// How the jail's network sends: it never leaves the machine, so there is no line to be probed,
/// and a host whose own choice paces what it sends (bbr) would pace this too. Every kernel has reno.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// A socket of the jail's network that everybody inside reaches, whatever they dial.
#[derive(Debug)]
pub struct Listener {
    /// The socket.
    pub socket: OwnedFd,
    /// What comes to it.
    pub serves: Serves,
    /// Whether it is IPv6.
    pub six: bool,
}

/// What comes to a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serves {
    /// Questions for names, in packets.
    Packets,
    /// Connections to this port; to [`DNS`], questions in a stream.
    Connections(u16),
    /// Connections from the host to a published port; this is the one inside.
    Published(u16),
}

/// Opens the jail's network, and gives the sockets for these ports and for names.
pub fn open_network(jail: &Jail, ports: &BTreeSet<u16>) -> nix::Result<Vec<Listener>> {
    let net = open(
        format!("/proc/{}/ns/net", jail.pid).as_str(),
        OFlag::O_RDONLY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    let (ours, theirs) = socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?;
    let mut listeners = Vec::new();
    // A few at a time: a full queue would keep the child waiting for a parent that waits.
    let all: Vec<u16> = ports.iter().copied().chain([DNS]).collect();
    for (turn, some) in all.chunks(16).enumerate() {
        let answer = namespace::child(|| {
            let spaces = jail.spaces.as_ref().ok_or(Errno::ENOTSUP)?;
            setns(spaces.user.as_fd(), CloneFlags::CLONE_NEWUSER)?;
            setns(net.as_fd(), CloneFlags::CLONE_NEWNET)?;
            let mut six = false;
            if turn == 0 {
                sys::net::loopback_up()?;
                // Where /proc is read-only it is slower, not wrong.
                let _ = std::fs::write(CONGESTION, "reno");
                every_address_is_local(IpAddr::V4(RESOLVER))?;
            }
            match socket_of(true, SockType::Datagram) {
                Ok(_) => six = true,
                // A kernel without IPv6.
                Err(Errno::EAFNOSUPPORT) => {}
                Err(errno) => return Err(errno),
            }
            if six && turn == 0 {
                match every_address_is_local(IpAddr::V6(RESOLVER_V6)) {
                    Ok(()) => {}
                    // Switched off by a sysctl: as good as not there.
                    Err(Errno::EACCES | Errno::EOPNOTSUPP | Errno::EPERM) => six = false,
                    Err(errno) => return Err(errno),
                }
            }
            let mut count = 0;
            for six in [false, true].into_iter().take(1 + usize::from(six)) {
                for port in some {
                    if *port == DNS {
                        let socket = packets(six)?;
                        sys::socket::send(theirs.as_fd(), b"s", Some(socket.as_fd()))?;
                        count += 1;
                    }
                    let socket = connections(six, *port)?;
                    sys::socket::send(theirs.as_fd(), b"s", Some(socket.as_fd()))?;
                    count += 1;
                }
            }
            Ok(vec![count])
        })?;
        for _ in 0..answer.first().copied().unwrap_or(0) {
            match sys::socket::receive(ours.as_fd(), &mut [0; 1])? {
                (1, Some(socket)) => listeners.push(Listener::of(socket)?),
                _ => return Err(Errno::EPROTO),
            }
        }
    }
    Ok(listeners)
}

impl Listener {
    fn of(socket: OwnedFd) -> nix::Result<Listener> {
        let name: SockaddrStorage = getsockname(socket.as_raw_fd())?;
        let (six, port) = match (name.as_sockaddr_in(), name.as_sockaddr_in6()) {
            (Some(four), _) => (false, four.port()),
            (_, Some(six)) => (true, six.port()),
            _ => return Err(Errno::EPROTO),
        };
        let serves = match getsockopt(&socket, TypeOf)? {
            SockType::Datagram => Serves::Packets,
            _ => Serves::Connections(port),
        };
        Ok(Listener {
            socket,
            serves,
            six,
        })
    }
}

fn socket_of(six: bool, kind: SockType) -> nix::Result<OwnedFd> {
    let family = match six {
        true => AddressFamily::Inet6,
        false => AddressFamily::Inet,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(family, kind, flags, None)?;
    if six {
        setsockopt(&socket, Ipv6V6Only, &true)?;
    }
    Ok(socket)
}

fn bound(six: bool, kind: SockType, port: u16) -> nix::Result<OwnedFd> {
    let socket = socket_of(six, kind)?;
    if kind == SockType::Stream {
        setsockopt(&socket, ReuseAddr, &true)?;
    }
    let everywhere: IpAddr = match six {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    let place = SockaddrStorage::from(std::net::SocketAddr::new(everywhere, port));
    bind(socket.as_raw_fd(), &place)?;
    Ok(socket)
}

fn connections(six: bool, port: u16) -> nix::Result<OwnedFd> {
    let socket = bound(six, SockType::Stream, port)?;
    listen(&socket, Backlog::new(BACKLOG)?)?;
    Ok(socket)
}

/// Tells with each packet which address was asked, so that the answer comes from there.
fn packets(six: bool) -> nix::Result<OwnedFd> {
    let socket = bound(six, SockType::Datagram, DNS)?;
    match six {
        true => setsockopt(&socket, Ipv6RecvPacketInfo, &true)?,
        false => setsockopt(&socket, Ipv4PacketInfo, &true)?,
    }
    Ok(socket)
}

/// One route makes all addresses of a family this machine's own. The address beside it
/// is for programs that ask for a kind of address only where the machine has one itself.
fn every_address_is_local(own: IpAddr) -> nix::Result<()> {
    let netlink = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    for request in [address_request(own), route_request(own)] {
        send(netlink.as_raw_fd(), &request, MsgFlags::empty())?;
        let mut answer = [0; 512];
        let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        acknowledged(answer.get(..length).unwrap_or_default())?;
    }
    Ok(())
}

/// `lo` is the first interface of every network.
const LOOPBACK: u32 = 1;

fn address_request(own: IpAddr) -> Vec<u8> {
    let (family, length, octets) = parts(own);
    let mut body = vec![
        family,
        length,
        libc::IFA_F_NODAD as u8,
        libc::RT_SCOPE_UNIVERSE,
    ];
    body.extend_from_slice(&LOOPBACK.to_ne_bytes());
    attribute(&mut body, libc::IFA_LOCAL, &octets);
    attribute(&mut body, libc::IFA_ADDRESS, &octets);
    message(libc::RTM_NEWADDR, &body)
}

fn route_request(own: IpAddr) -> Vec<u8> {
    let (family, ..) = parts(own);
    let mut body = vec![
        family,
        0,
        0,
        0,
        libc::RT_TABLE_LOCAL,
        libc::RTPROT_STATIC,
        libc::RT_SCOPE_HOST,
        libc::RTN_LOCAL,
    ];
    body.extend_from_slice(&0_u32.to_ne_bytes());
    attribute(&mut body, libc::RTA_OIF, &LOOPBACK.to_ne_bytes());
    message(libc::RTM_NEWROUTE, &body)
}

fn parts(address: IpAddr) -> (u8, u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (libc::AF_INET as u8, 32, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6 as u8, 128, v6.octets().to_vec()),
    }
}

/// A netlink request that makes something and wants to be acknowledged.
fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE;
    let mut message = Vec::with_capacity(16 + body.len());
    message.extend_from_slice(&(16 + body.len() as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&(flags as u16).to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(body);
    message
}

fn attribute(body: &mut Vec<u8>, kind: u16, data: &[u8]) {
    body.extend_from_slice(&(4 + data.len() as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(data);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// The errno in an acknowledgement; that it is there already is as good.
fn acknowledged(answer: &[u8]) -> nix::Result<()> {
    let word = |at: usize| {
        answer
            .get(at..at + 4)
            .and_then(|bytes| <[u8; 4]>::try_from(bytes).ok())
            .map(i32::from_ne_bytes)
    };
    let kind = answer
        .get(4..6)
        .map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
    match (kind.map(i32::from), word(16)) {
        (Some(libc::NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(libc::NLMSG_ERROR), Some(code)) => match Errno::from_raw(-code) {
            Errno::EEXIST => Ok(()),
            errno => Err(errno),
        },
        _ => Err(Errno::EPROTO),
    }
}
