//! Sockets: to the host's daemons, to its loopback, of families nobody filters.

use std::io::Read;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::time::Duration;

use super::files::{proof, read_below_descriptor};
use super::gate::on_the_host;
use super::raw::{call, is};
use super::{Found, Held, word};

/// Long enough for a listener on this machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// `connect-unix PATH`: a daemon's socket by its path; it greets with the canary.
pub fn connect_unix(words: &[String]) -> Found {
    greet(UnixStream::connect(word(words, 0)?)?)
}

/// `connect-abstract NAME`: a socket that is in no file system.
pub fn connect_abstract(words: &[String]) -> Found {
    let address = SocketAddr::from_abstract_name(word(words, 0)?)?;
    greet(UnixStream::connect_addr(&address)?)
}

fn greet(mut stream: UnixStream) -> Found {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text)?;
    proof(&text)
}

/// `sendto-unix PATH`: one datagram, no connect; the host tells whether it came.
pub fn send_datagram(words: &[String]) -> Found {
    UnixDatagram::unbound()?.send_to(b"the jail was here", word(words, 0)?)?;
    Ok("a datagram went out".to_string())
}

/// `connect-tcp ADDRESS`: a listener on the host, which greets with the canary.
pub fn connect_tcp(words: &[String]) -> Found {
    let address = word(words, 0)?.parse().map_err(|_| "no address")?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text)?;
    proof(&text)
}

/// `udp ADDRESS`: one datagram, and the answer.
pub fn send_udp(words: &[String]) -> Found {
    let target = word(words, 0)?;
    let socket = UdpSocket::bind(if target.starts_with('[') {
        "[::1]:0"
    } else {
        "127.0.0.1:0"
    })?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    socket.send_to(b"hello", target)?;
    let mut text = [0; 256];
    let (read, _) = socket.recv_from(&mut text)?;
    proof(&text[..read])
}

/// `socket FAMILY`: families beyond unix, inet and inet6.
pub fn socket(words: &[String]) -> Found {
    let raw = libc::SOCK_RAW;
    let (family, kind, protocol) = match word(words, 0)? {
        "packet" => (libc::AF_PACKET, raw, 0),
        "raw" => (libc::AF_INET, raw, libc::IPPROTO_ICMP),
        "raw6" => (libc::AF_INET6, raw, libc::IPPROTO_ICMPV6),
        "vsock" => (libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        "alg" => (libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        "bluetooth" => (libc::AF_BLUETOOTH, raw, 1),
        "can" => (libc::AF_CAN, raw, 1),
        "key" => (libc::AF_KEY, raw, 2),
        "xdp" => (libc::AF_XDP, raw, 0),
        "tipc" => (libc::AF_TIPC, libc::SOCK_SEQPACKET, 0),
        "rds" => (libc::AF_RDS, libc::SOCK_SEQPACKET, 0),
        "smc" => (43, libc::SOCK_STREAM, 0),
        "kcm" => (41, libc::SOCK_SEQPACKET, 0),
        "qipcrtr" => (42, libc::SOCK_DGRAM, 0),
        "nfc" => (libc::AF_NFC, raw, 0),
        "x25" => (libc::AF_X25, libc::SOCK_SEQPACKET, 0),
        "appletalk" => (libc::AF_APPLETALK, libc::SOCK_DGRAM, 0),
        "phonet" => (libc::AF_PHONET, libc::SOCK_DGRAM, 0),
        "mctp" => (45, libc::SOCK_DGRAM, 0),
        other => {
            eprintln!("attacker: no such family: {other}");
            std::process::exit(2)
        }
    };
    make(family as usize, kind as usize, protocol as usize)
}

/// `high-socket`: the family is an int; bits above it must not fool the filter.
pub fn high_bits_family(_: &[String]) -> Found {
    make(
        libc::AF_NETLINK as usize | 1 << 32,
        libc::SOCK_RAW as usize,
        libc::NETLINK_KOBJECT_UEVENT as usize,
    )
}

/// `netlink PROTOCOL`: anything but routes.
pub fn netlink(words: &[String]) -> Found {
    let protocol = match word(words, 0)? {
        "audit" => libc::NETLINK_AUDIT,
        "uevent" => libc::NETLINK_KOBJECT_UEVENT,
        "diag" => libc::NETLINK_SOCK_DIAG,
        "netfilter" => libc::NETLINK_NETFILTER,
        "crypto" => libc::NETLINK_CRYPTO,
        "connector" => libc::NETLINK_CONNECTOR,
        "generic" => libc::NETLINK_GENERIC,
        "xfrm" => libc::NETLINK_XFRM,
        _ => libc::NETLINK_SELINUX,
    };
    make(
        libc::AF_NETLINK as usize,
        libc::SOCK_RAW as usize,
        protocol as usize,
    )
}

fn make(family: usize, kind: usize, protocol: usize) -> Found {
    match call(libc::SYS_socket, &[family, kind, protocol]) {
        Ok(descriptor) => Ok(format!(
            "made socket {descriptor} of family {}",
            family as i32
        )),
        Err(error)
            if on_the_host()
                && [
                    libc::EAFNOSUPPORT,
                    libc::EPROTONOSUPPORT,
                    libc::ESOCKTNOSUPPORT,
                ]
                .iter()
                .any(|&errno| is(&error, errno)) =>
        {
            Err(Held::Absent("this kernel has no such family".to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// `socket-same`: a pair of a family that may not be made singly.
pub fn socketpair_family(_: &[String]) -> Found {
    let mut pair = [0i32; 2];
    let arguments = [
        libc::AF_TIPC as usize,
        libc::SOCK_SEQPACKET as usize,
        0,
        super::raw::address_mut(&mut pair),
    ];
    match call(libc::SYS_socketpair, &arguments) {
        Ok(_) => Ok("made a pair".to_string()),
        Err(error) if on_the_host() && is(&error, libc::EAFNOSUPPORT) => {
            Err(Held::Absent("this kernel has no such family".to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// `scm-rights PATH NAME`: a friend outside hands a folder over a socket; reads
/// a file below it.
pub fn receive_descriptor(words: &[String]) -> Found {
    let stream = UnixStream::connect(word(words, 0)?)?;
    let mut byte = [0u8; 1];
    let mut control = [0u64; 8];
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    // SAFETY: all parts of the message live until recvmsg has returned, and the
    // control buffer is aligned and as long as said.
    let folder = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        if libc::recvmsg(stream.as_raw_fd(), &mut message, 0) < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        let header = libc::CMSG_FIRSTHDR(&message);
        if header.is_null() {
            return Err("no descriptor came".into());
        }
        libc::CMSG_DATA(header).cast::<i32>().read_unaligned()
    };
    read_below_descriptor(&[folder.to_string(), word(words, 1)?.to_string()])
}
