//! Addresses that a name on the internet has no business to lead to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Why an address is not dialled unless it is named itself; `None` for an ordinary one.
///
/// IPv6 addresses that carry an IPv4 address are judged by what they carry.
pub fn special(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    }
}

/// Whether an address is one of this machine's own, whatever interface has it. The kernel
/// answers from itself to such an address, and lets it be taken; nothing is sent.
pub fn is_own(address: IpAddr) -> bool {
    let (unspecified, nobody): (IpAddr, IpAddr) = match address {
        IpAddr::V4(_) => (
            Ipv4Addr::UNSPECIFIED.into(),
            Ipv4Addr::new(192, 0, 2, 255).into(),
        ),
        IpAddr::V6(_) => (
            Ipv6Addr::UNSPECIFIED.into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 0xffff).into(),
        ),
    };
    let takes = |address| UdpSocket::bind(SocketAddr::new(address, 0)).is_ok();
    let answers = UdpSocket::bind(SocketAddr::new(unspecified, 0))
        .and_then(|socket| {
            socket.connect(SocketAddr::new(address, 9))?;
            socket.local_addr()
        })
        .is_ok_and(|local| local.ip() == address);
    // Where every address may be taken (ip_nonlocal_bind), taking one says nothing.
    answers || (takes(address) && !takes(nobody))
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, d] = address.octets();
    match (a, b, c, d) {
        (0, ..) => Some("an address of this machine"),
        (127, ..) => Some("a loopback address"),
        (10, ..) | (172, 16..=31, ..) | (192, 168, ..) => Some("a private address"),
        (100, 64..=127, ..) => Some("a carrier's private address"),
        (169, 254, 169 | 170, _) | (168, 63, 129, 16) => Some("a cloud's metadata address"),
        (169, 254, ..) => Some("a link-local address"),
        (192, 0, 0, _) => Some("an address for special purposes"),
        (192, 88, 99, _) => Some("a tunnel's address"),
        (198, 18..=19, ..) => Some("an address for benchmarks"),
        (224..=239, ..) => Some("a multicast address"),
        (240.., ..) => Some("a reserved address"),
        _ => None,
    }
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let carried = |high: u16, low: u16| {
        special_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
            .map(|_| "an IPv4 address of that kind in IPv6's clothes")
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("an address of this machine"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        // IPv4-compatible and IPv4-translated: nobody uses them honestly.
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => {
            Some("an IPv4 address in IPv6's clothes")
        }
        // NAT64 is how an IPv6-only network reaches IPv4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => carried(high, low),
        [0x64, 0xff9b, ..] => Some("a private translated address"),
        [0x2002, high, low, ..] => carried(high, low),
        [0x2001, 0, ..] => Some("a tunnel's address"),
        [0x100, 0, 0, 0, ..] => Some("an address that discards"),
        [0xfc00..=0xfdff, ..] => Some("a private address"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xfec0..=0xfeff, ..] => Some("a private address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => carried(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_special() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.255.0.9",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.100.100.200",
            "169.254.169.254",
            "169.254.0.1",
            "168.63.129.16",
            "192.0.0.192",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2001:0:1::1",
            "fd00:ec2::254",
            "fc00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::5efe:7f00:1",
        ] {
            assert!(special(text.parse().unwrap()).is_some(), "{text}");
        }
        for text in [
            "203.0.113.7",
            "172.32.0.1",
            "172.15.0.1",
            "100.128.0.1",
            "198.20.0.1",
            "::ffff:203.0.113.7",
            "64:ff9b::203.0.113.7",
            "2002:cb00:7107::1",
            "2001:db8::1",
        ] {
            assert_eq!(special(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn loopback_is_our_own() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
    }
}
