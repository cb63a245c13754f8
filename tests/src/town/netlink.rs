//! The few words of netlink that lay out a small network.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

const VETH_INFO_PEER: u16 = 1;
const NLA_NESTED: u16 = 1 << 15;

/// A pair of connected interfaces: `near` here, `far` in the network of that task.
pub fn connect(near: &str, far: &str, task: i32) -> io::Result<()> {
    let mut peer = interface(0, 0);
    attribute(&mut peer, libc::IFLA_IFNAME, far.as_bytes());
    attribute(&mut peer, libc::IFLA_NET_NS_PID, &task.to_ne_bytes());
    let mut data = Vec::new();
    attribute(&mut data, VETH_INFO_PEER | NLA_NESTED, &peer);
    let mut info = Vec::new();
    attribute(&mut info, libc::IFLA_INFO_KIND, b"veth");
    attribute(&mut info, libc::IFLA_INFO_DATA | NLA_NESTED, &data);
    let mut body = interface(0, 0);
    attribute(&mut body, libc::IFLA_IFNAME, near.as_bytes());
    attribute(&mut body, libc::IFLA_LINKINFO | NLA_NESTED, &info);
    request(libc::RTM_NEWLINK, &body)
}

/// Switches an interface on.
pub fn up(name: &str) -> io::Result<()> {
    request(
        libc::RTM_NEWLINK,
        &interface(index(name)?, libc::IFF_UP as u32),
    )
}

/// Gives an interface an address.
pub fn address(name: &str, address: IpAddr, bits: u8) -> io::Result<()> {
    let (family, octets) = parts(address);
    let mut body = vec![family, bits, libc::IFA_F_NODAD as u8, 0];
    body.extend_from_slice(&index(name)?.to_ne_bytes());
    attribute(&mut body, libc::IFA_LOCAL, &octets);
    attribute(&mut body, libc::IFA_ADDRESS, &octets);
    request(libc::RTM_NEWADDR, &body)
}

/// Sends everything of a family that has no better way through an interface.
pub fn default_route(name: &str, like: IpAddr) -> io::Result<()> {
    let (family, _) = parts(like);
    let scope = match like {
        IpAddr::V4(_) => libc::RT_SCOPE_LINK,
        IpAddr::V6(_) => libc::RT_SCOPE_UNIVERSE,
    };
    let mut body = vec![
        family,
        0,
        0,
        0,
        libc::RT_TABLE_MAIN,
        libc::RTPROT_STATIC,
        scope,
        libc::RTN_UNICAST,
    ];
    body.extend_from_slice(&[0; 4]);
    attribute(&mut body, libc::RTA_OIF, &index(name)?.to_ne_bytes());
    request(libc::RTM_NEWROUTE, &body)
}

fn index(name: &str) -> io::Result<u32> {
    Ok(if_nametoindex(name)?)
}

fn parts(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (libc::AF_INET as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6 as u8, v6.octets().to_vec()),
    }
}

/// An `ifinfomsg`.
fn interface(index: u32, flags: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend_from_slice(&index.to_ne_bytes());
    body.extend_from_slice(&flags.to_ne_bytes());
    body.extend_from_slice(&flags.to_ne_bytes());
    body
}

fn attribute(body: &mut Vec<u8>, kind: u16, data: &[u8]) {
    body.extend_from_slice(&(4 + data.len() as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(data);
    body.resize(body.len().next_multiple_of(4), 0);
}

fn request(kind: u16, body: &[u8]) -> io::Result<()> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE) as u16;
    let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&flags.to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(body);
    let netlink = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    send(netlink.as_raw_fd(), &message, MsgFlags::empty())?;
    let mut answer = [0; 1024];
    let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let code = answer
        .get(16..20)
        .filter(|_| length >= 20)
        .map(|code| i32::from_ne_bytes([code[0], code[1], code[2], code[3]]));
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::other("the kernel's answer is cut short")),
    }
}
