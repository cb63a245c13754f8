//! The proxy inside, for programs that insist on one: HTTP (`CONNECT` and whole URLs) and
//! SOCKS5 at one port. It leads where every connection leads; only the way to say whom is
//! meant is another.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sjail_policy::host;

use super::record::Decision;

/// What somebody says before a host is named is not longer than this.
const LONGEST: usize = 64 << 10;

/// How the proxy was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `CONNECT host:port`.
    Connect,
    /// `GET http://host/…`.
    Plain,
    /// SOCKS5.
    Socks,
}

impl Protocol {
    /// What is said when the host has been reached.
    pub fn yes(self) -> &'static [u8] {
        match self {
            Protocol::Connect => b"HTTP/1.1 200 Connection established\r\n\r\n",
            Protocol::Plain => b"",
            Protocol::Socks => &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0],
        }
    }

    /// What is said when it was not.
    pub fn no(self, decision: Decision) -> &'static [u8] {
        match (self, decision) {
            (Protocol::Socks, Decision::Refuse) => &[5, 2, 0, 1, 0, 0, 0, 0, 0, 0],
            (Protocol::Socks, Decision::Allow) => &[5, 4, 0, 1, 0, 0, 0, 0, 0, 0],
            (_, Decision::Refuse) => {
                b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 43\r\n\
                Connection: close\r\n\r\nsjail: this host is not one it may reach.\r\n"
            }
            (_, Decision::Allow) => {
                b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nContent-Length: 38\r\n\
                Connection: close\r\n\r\nsjail: the host could not be reached.\n"
            }
        }
    }
}

/// Whom somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The host.
    pub target: Target,
    /// The port.
    pub port: u16,
    /// How it was asked for.
    pub protocol: Protocol,
    /// What has come for the host already.
    pub early: Vec<u8>,
}

/// A host as it was named to the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A canonical name.
    Name(String),
    /// An address.
    Address(IpAddr),
    /// Neither.
    Odd(String),
}

impl Target {
    fn of(text: &str) -> Target {
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
        match bare.unwrap_or(text).parse() {
            Ok(address) => Target::Address(address),
            Err(_) => match host::canonical(text) {
                Some(name) => Target::Name(name),
                None => Target::Odd(text.to_owned()),
            },
        }
    }
}

/// What has been heard so far.
#[derive(Debug, Default)]
pub struct Talk {
    bytes: Vec<u8>,
    /// So many of them are known to hold no whole request.
    seen: usize,
    greeted: bool,
}

/// What follows from what was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// More is needed.
    More,
    /// This is to be said, and more is needed.
    Say(&'static [u8]),
    /// A host is wanted.
    Wants(Wanted),
    /// It makes no sense: the last words.
    Nonsense(&'static [u8]),
}

const BAD: Heard =
    Heard::Nonsense(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");

impl Talk {
    /// Takes what was read.
    pub fn hear(&mut self, more: &[u8]) -> Heard {
        self.bytes.extend_from_slice(more);
        if self.bytes.len() > LONGEST {
            return BAD;
        }
        match self.bytes.first() {
            None => Heard::More,
            Some(5) => self.socks(),
            Some(b'A'..=b'Z') => self.http(),
            Some(_) => Heard::Nonsense(b""),
        }
    }

    fn socks(&mut self) -> Heard {
        if !self.greeted {
            let Some(count) = self.bytes.get(1).copied() else {
                return Heard::More;
            };
            let end = 2 + usize::from(count);
            let Some(methods) = self.bytes.get(2..end) else {
                return Heard::More;
            };
            // Without a password: who is inside is known.
            if !methods.contains(&0) {
                return Heard::Nonsense(&[5, 0xff]);
            }
            self.bytes.drain(..end);
            self.greeted = true;
            return Heard::Say(&[5, 0]);
        }
        let bytes = self.bytes.as_slice();
        let Some(&[_, command, _, kind]) = bytes.get(..4) else {
            return Heard::More;
        };
        let (length, from) = match kind {
            1 => (4, 4),
            4 => (16, 4),
            3 => match bytes.get(4) {
                Some(length) => (usize::from(*length), 5),
                None => return Heard::More,
            },
            _ => return Heard::Nonsense(&[5, 8, 0, 1, 0, 0, 0, 0, 0, 0]),
        };
        let end = from + length;
        let (Some(host), Some(&[high, low])) = (bytes.get(from..end), bytes.get(end..end + 2))
        else {
            return Heard::More;
        };
        if command != 1 {
            return Heard::Nonsense(&[5, 7, 0, 1, 0, 0, 0, 0, 0, 0]);
        }
        let target = match (<[u8; 4]>::try_from(host), <[u8; 16]>::try_from(host)) {
            (Ok(four), _) if kind == 1 => Target::Address(Ipv4Addr::from(four).into()),
            (_, Ok(six)) if kind == 4 => Target::Address(Ipv6Addr::from(six).into()),
            _ => match std::str::from_utf8(host) {
                Ok(text) => Target::of(text),
                Err(_) => Target::Odd(String::from_utf8_lossy(host).into_owned()),
            },
        };
        Heard::Wants(Wanted {
            target,
            port: u16::from_be_bytes([high, low]),
            protocol: Protocol::Socks,
            early: bytes.get(end + 2..).unwrap_or_default().to_vec(),
        })
    }

    fn http(&mut self) -> Heard {
        // An end may have begun in what was seen.
        let from = self.seen.saturating_sub(3);
        let fresh = self.bytes.get(from..).unwrap_or_default();
        let ends = |window: &[u8]| window == b"\r\n\r\n";
        let Some(end) = fresh.windows(4).position(ends).map(|at| from + at) else {
            self.seen = self.bytes.len();
            return Heard::More;
        };
        let (head, rest) = self.bytes.split_at(end + 4);
        let Ok(head) = std::str::from_utf8(head) else {
            return BAD;
        };
        let mut lines = head.trim_end_matches("\r\n").split("\r\n");
        let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, target, version] = first.as_slice() else {
            return BAD;
        };
        if *method == "CONNECT" {
            let Some((host, Some(port))) = authority(target) else {
                return BAD;
            };
            return Heard::Wants(Wanted {
                target: Target::of(host),
                port,
                protocol: Protocol::Connect,
                early: rest.to_vec(),
            });
        }
        let Some(url) = target.strip_prefix("http://") else {
            return BAD;
        };
        let (place, path) = match url.find(['/', '?']) {
            Some(at) => url.split_at(at),
            None => (url, ""),
        };
        let Some((host, port)) = authority(place) else {
            return BAD;
        };
        // As the host itself would be asked, once: the next request may be for another.
        let slash = if path.starts_with('/') { "" } else { "/" };
        let mut early = format!("{method} {slash}{path} {version}\r\n");
        for line in lines {
            let name = line.split(':').next().unwrap_or_default();
            let ours = ["connection", "proxy-connection", "proxy-authorization"];
            if !ours.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                early.push_str(line);
                early.push_str("\r\n");
            }
        }
        early.push_str("Connection: close\r\n\r\n");
        let mut early = early.into_bytes();
        early.extend_from_slice(rest);
        Heard::Wants(Wanted {
            target: Target::of(host),
            port: port.unwrap_or(80),
            protocol: Protocol::Plain,
            early,
        })
    }
}

/// The host and the port of `host[:port]`; nobody else may stand in it.
fn authority(text: &str) -> Option<(&str, Option<u16>)> {
    if text.contains(['@', '#', '\\']) {
        return None;
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let port = digits.then(|| port.parse().ok()).flatten()?;
            Some((host, Some(port)))
        }
        _ => Some((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(bytes: &[u8]) -> Heard {
        Talk::default().hear(bytes)
    }

    #[test]
    fn connect_and_urls() {
        let wanted = |target, port, protocol, early: &str| {
            Heard::Wants(Wanted {
                target,
                port,
                protocol,
                early: early.as_bytes().to_vec(),
            })
        };
        let a = || Target::Name("a.test".to_owned());
        for (said, heard_as) in [
            (
                "CONNECT A.test:443 HTTP/1.1\r\nHost: x\r\n\r\nhello",
                wanted(a(), 443, Protocol::Connect, "hello"),
            ),
            (
                "CONNECT [2001:db8::1]:443 HTTP/1.1\r\n\r\n",
                wanted(
                    Target::Address(IpAddr::V6(
                        "2001:db8::1".parse().unwrap_or(Ipv6Addr::UNSPECIFIED),
                    )),
                    443,
                    Protocol::Connect,
                    "",
                ),
            ),
            (
                "GET http://a.test/x?y HTTP/1.1\r\nHost: a.test\r\nProxy-Connection: keep-alive\r\n\r\n",
                wanted(
                    a(),
                    80,
                    Protocol::Plain,
                    "GET /x?y HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n",
                ),
            ),
            (
                "GET http://a.test:8080 HTTP/1.1\r\n\r\n",
                wanted(
                    a(),
                    8080,
                    Protocol::Plain,
                    "GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
                ),
            ),
            (
                "CONNECT evil\0.a.test:443 HTTP/1.1\r\n\r\n",
                wanted(
                    Target::Odd("evil\0.a.test".to_owned()),
                    443,
                    Protocol::Connect,
                    "",
                ),
            ),
            ("CONNECT a.test:443 HTTP/1.1\r\n", Heard::More),
            ("CONNECT a.test HTTP/1.1\r\n\r\n", BAD),
            ("CONNECT x@a.test:443 HTTP/1.1\r\n\r\n", BAD),
            ("GET http://a.test@b.test/ HTTP/1.1\r\n\r\n", BAD),
            ("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", BAD),
        ] {
            assert_eq!(heard(said.as_bytes()), heard_as, "{said:?}");
        }
    }

    #[test]
    fn socks() {
        let mut talk = Talk::default();
        assert_eq!(talk.hear(&[5]), Heard::More);
        assert_eq!(talk.hear(&[2, 2, 0]), Heard::Say(&[5, 0]));
        assert_eq!(talk.hear(b"\x05\x01\0\x03\x06a.te"), Heard::More);
        assert_eq!(
            talk.hear(b"st\x01\xbbx"),
            Heard::Wants(Wanted {
                target: Target::Name("a.test".to_owned()),
                port: 443,
                protocol: Protocol::Socks,
                early: b"x".to_vec(),
            })
        );
        assert_eq!(heard(&[5, 1, 2]), Heard::Nonsense(&[5, 0xff]));
        assert_eq!(heard(&[4, 1]), Heard::Nonsense(b""));
        let mut udp = Talk::default();
        udp.hear(&[5, 1, 0]);
        assert!(matches!(
            udp.hear(b"\x05\x03\0\x01\x7f\0\0\x01\0\x35"),
            Heard::Nonsense(_)
        ));
        let mut odd = Talk::default();
        odd.hear(&[5, 1, 0]);
        let Heard::Wants(wanted) = odd.hear(b"\x05\x01\0\x03\x0cx\0.good.test\x01\xbb") else {
            unreachable!()
        };
        assert_eq!(wanted.target, Target::Odd("x\0.good.test".to_owned()));
    }

    #[test]
    fn the_lengths_in_answers_are_right() {
        for decision in [Decision::Allow, Decision::Refuse] {
            let text = String::from_utf8_lossy(Protocol::Connect.no(decision)).into_owned();
            let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
            assert!(
                head.contains(&format!("Content-Length: {}", body.len())),
                "{text}"
            );
        }
    }
}
