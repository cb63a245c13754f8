//! Names of hosts in the network policy: `example.org`, `*.example.org:443`,
//! `192.0.2.1:53`, `[2001:db8::1]:443`, `192.0.2.0/24`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A host, or all hosts below a name, with or without a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPattern {
    host: Host,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Host {
    /// Exactly this name, lower case, without a final dot.
    Name(String),
    /// Every name that ends in `.` and this one, but not the name itself.
    Below(String),
    /// Exactly this address.
    Address(IpAddr),
    /// Every address with this many leading bits in common.
    Range(IpAddr, u8),
    /// Every host.
    Any,
}

/// Why a host pattern could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a host: {why}")]
pub struct HostError {
    text: String,
    why: &'static str,
}

impl HostPattern {
    /// Whether a connection to this name and port is meant. The name is compared
    /// label by label, without regard to case, with or without its final dot; a
    /// name that is no valid host name matches nothing.
    pub fn matches(&self, name: &str, port: u16) -> bool {
        if self.port.is_some_and(|own| own != port) {
            return false;
        }
        if let Some(address) = address(name) {
            return match &self.host {
                Host::Address(_) | Host::Range(..) => self.names_address(address),
                Host::Any => true,
                Host::Name(_) | Host::Below(_) => false,
            };
        }
        let Ok(name) = canonical_name(name) else {
            return false;
        };
        match &self.host {
            Host::Any => true,
            Host::Name(own) => *own == name,
            Host::Below(own) => name
                .strip_suffix(own.as_str())
                .is_some_and(|front| front.len() > 1 && front.ends_with('.')),
            Host::Address(_) | Host::Range(..) => false,
        }
    }

    /// Whether this very address is named, alone or in a range. `*` names none: whoever
    /// means a private address, or one without a name, says so.
    pub fn names_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match &self.host {
            Host::Address(own) => *own == address,
            Host::Range(own, bits) => {
                own.is_ipv4() == address.is_ipv4()
                    && network_part(*own, *bits) == network_part(address, *bits)
            }
            Host::Name(_) | Host::Below(_) | Host::Any => false,
        }
    }

    /// The first and the last address, where a range is meant.
    pub fn range(&self) -> Option<(IpAddr, IpAddr)> {
        let Host::Range(own, bits) = &self.host else {
            return None;
        };
        Some(match own {
            IpAddr::V4(own) => {
                let host = u32::MAX.checked_shr(u32::from(*bits)).unwrap_or(0);
                let own = u32::from(*own);
                (
                    Ipv4Addr::from(own & !host).into(),
                    Ipv4Addr::from(own | host).into(),
                )
            }
            IpAddr::V6(own) => {
                let host = u128::MAX.checked_shr(u32::from(*bits)).unwrap_or(0);
                let own = u128::from(*own);
                (
                    Ipv6Addr::from(own & !host).into(),
                    Ipv6Addr::from(own | host).into(),
                )
            }
        })
    }

    /// The one name that is meant, where it is one name.
    pub fn name(&self) -> Option<&str> {
        match &self.host {
            Host::Name(name) => Some(name),
            Host::Below(_) | Host::Address(_) | Host::Range(..) | Host::Any => None,
        }
    }

    /// The port, where one is named.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The ports that an entry of an allow list without a port means.
    pub const USUAL: [u16; 2] = [80, 443];

    /// Whether an entry of the allow list means this port.
    pub fn means_port(&self, port: u16) -> bool {
        match self.port {
            Some(own) => own == port,
            None => Self::USUAL.contains(&port),
        }
    }

    /// Whether, in an allow list, everything that `other` opens is opened by this one, too.
    /// `*` opens names: no address, and not `localhost`, which stands for some.
    pub fn covers(&self, other: &HostPattern) -> bool {
        let ports = match (self.port, other.port) {
            (None, None) => true,
            (None, Some(port)) => self.means_port(port),
            (Some(_), _) => self.port == other.port,
        };
        if !ports {
            return false;
        }
        match (&self.host, &other.host) {
            (Host::Any, Host::Name(name)) => name != "localhost",
            (Host::Any, Host::Below(_) | Host::Any) => true,
            (Host::Any, Host::Address(_) | Host::Range(..)) => false,
            (Host::Below(own), Host::Name(name) | Host::Below(name)) => {
                (matches!(other.host, Host::Below(_)) && own == name)
                    || name
                        .strip_suffix(own.as_str())
                        .is_some_and(|front| front.ends_with('.'))
            }
            (Host::Range(..), Host::Address(address)) => self.names_address(*address),
            (Host::Range(own, bits), Host::Range(theirs, more)) => {
                own.is_ipv4() == theirs.is_ipv4()
                    && bits <= more
                    && network_part(*own, *bits) == network_part(*theirs, *bits)
            }
            (own, theirs) => own == theirs,
        }
    }
}

impl FromStr for HostPattern {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let wrong = |why| HostError {
            text: text.to_owned(),
            why,
        };
        let trimmed = text.trim();
        if let Some(range) = range(trimmed).map_err(wrong)? {
            return Ok(range);
        }
        let (host, port) = split_port(trimmed).map_err(wrong)?;
        let host = if host == "*" {
            Host::Any
        } else if let Some(address) = address(host) {
            Host::Address(address)
        } else if let Some(parent) = host.strip_prefix("*.") {
            Host::Below(canonical_name(parent).map_err(wrong)?)
        } else {
            Host::Name(canonical_name(host).map_err(wrong)?)
        };
        Ok(Self { host, port })
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            Host::Name(name) => f.write_str(name)?,
            Host::Below(name) => write!(f, "*.{name}")?,
            Host::Address(IpAddr::V6(address)) if self.port.is_some() => write!(f, "[{address}]")?,
            Host::Address(address) => write!(f, "{address}")?,
            Host::Range(IpAddr::V6(address), bits) if self.port.is_some() => {
                write!(f, "[{address}/{bits}]")?;
            }
            Host::Range(address, bits) => write!(f, "{address}/{bits}")?,
            Host::Any => f.write_str("*")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

fn split_port(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    if text.contains("://") || text.contains('/') {
        return Err("give the name and the port only, without scheme or path");
    }
    if text.contains('@') {
        return Err("a host has no user part");
    }
    let (host, port) = if text.starts_with('[') {
        match text.rsplit_once("]:") {
            Some((host, port)) => (host.trim_start_matches('['), Some(port)),
            None => (text.trim_start_matches('[').trim_end_matches(']'), None),
        }
    } else if text.bytes().filter(|b| *b == b':').count() > 1 {
        (text, None)
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    match port {
        None | Some("*") => Ok((host, None)),
        Some(port) => match port.parse::<u16>() {
            Ok(number) if number > 0 && port.bytes().all(|b| b.is_ascii_digit()) => {
                Ok((host, Some(number)))
            }
            _ => Err("the port is not a number from 1 to 65535"),
        },
    }
}

/// `192.0.2.0/24`, `192.0.2.0/24:443`, `2001:db8::/32`, `[2001:db8::/32]:443`.
fn range(text: &str) -> Result<Option<HostPattern>, &'static str> {
    let Some((front, rest)) = text.split_once('/') else {
        return Ok(None);
    };
    let Some(address) = address(front.trim_start_matches('[')) else {
        return Ok(None);
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (bits, rest) = rest.split_at(digits);
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits
        .parse::<u8>()
        .ok()
        .filter(|bits| *bits <= most)
        .ok_or("a range is an address, `/` and how many bits are fixed, as in 192.0.2.0/24")?;
    if network_part(address, bits) != address {
        return Err("the address has bits set beyond the range: write it as 192.0.2.0/24");
    }
    let rest = match front.starts_with('[') {
        true => rest.strip_prefix(']').ok_or("the bracket is not closed")?,
        false => rest,
    };
    let (_, port) = split_port(&format!("x{rest}"))?;
    Ok(Some(HostPattern {
        host: Host::Range(address, bits),
        port,
    }))
}

/// The address with all but its first bits cleared.
fn network_part(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32)));
            std::net::Ipv4Addr::from(u32::from(v4) & mask.unwrap_or(0)).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128)));
            std::net::Ipv6Addr::from(u128::from(v6) & mask.unwrap_or(0)).into()
        }
    }
}

/// An address; one that is IPv4 in IPv6's clothes counts as IPv4.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    bare.parse::<IpAddr>()
        .ok()
        .map(|address| address.to_canonical())
}

/// The one spelling of a host's name: ASCII, lower case, no final dot; `None` for what is
/// no host name, addresses in any form among it.
pub fn canonical(name: &str) -> Option<String> {
    match address(name) {
        Some(_) => None,
        None => canonical_name(name).ok(),
    }
}

/// Letters, digits and hyphens in labels of at most 63; lower case, no final dot.
fn canonical_name(name: &str) -> Result<String, &'static str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        return Err("there is no name");
    }
    if name.len() > 253 {
        return Err("the name is longer than 253 characters");
    }
    if !name.is_ascii() {
        return Err("write an international name in its xn-- form");
    }
    for label in name.split('.') {
        if label.is_empty() || label.len() > 63 {
            return Err("each part between dots has 1 to 63 characters");
        }
        if label.contains('*') {
            return Err("`*` stands for whole parts at the front only, as in *.example.org");
        }
        let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if !label.bytes().all(inner) || label.starts_with('-') || label.ends_with('-') {
            return Err("a name consists of letters, digits and hyphens");
        }
    }
    // `127.1`, `0x7f.1` and `2130706433` are addresses to a C library, names to us.
    let last = name.rsplit('.').next().unwrap_or(name);
    if last.bytes().all(|b| b.is_ascii_digit()) || last.to_ascii_lowercase().starts_with("0x") {
        return Err("write an address in its usual form, such as 192.0.2.1");
    }
    Ok(name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match_by_label() {
        for (pattern, name, port, expected) in [
            ("example.org", "example.org", 443, true),
            ("example.org", "EXAMPLE.org.", 443, true),
            ("example.org", "www.example.org", 443, false),
            ("*.example.org", "www.example.org", 443, true),
            ("*.example.org", "example.org", 443, false),
            ("*.example.org", "evilexample.org", 443, false),
            ("*.example.org", ".example.org", 443, false),
            ("example.org", "example.org.evil.com", 443, false),
            ("*.example.org:443", "a.b.example.org", 443, true),
            ("*.example.org:443", "a.b.example.org", 80, false),
            ("192.0.2.1", "192.0.2.1", 1, true),
            ("192.0.2.1", "::ffff:192.0.2.1", 1, true),
            ("[2001:db8::1]:443", "2001:db8::1", 443, true),
            ("192.0.2.0/24", "192.0.2.77", 1, true),
            ("192.0.2.0/24:80", "192.0.2.77", 443, false),
            ("192.0.2.0/24", "192.0.3.1", 1, false),
            ("192.0.2.0/24", "::ffff:192.0.2.9", 1, true),
            ("0.0.0.0/0", "2001:db8::1", 1, false),
            ("[2001:db8::/32]:443", "2001:db8:9::1", 443, true),
            ("2001:db8::/32", "2001:db9::1", 443, false),
            ("*", "anything.org", 1, true),
            ("*", "evil\0.org", 1, false),
        ] {
            let parsed: HostPattern = pattern.parse().unwrap();
            assert_eq!(
                parsed.matches(name, port),
                expected,
                "{pattern} {name}:{port}"
            );
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            "",
            "*.",
            "a..b",
            "https://x.org",
            "user@x.org",
            "x.org:0",
            "x.org:99999",
            "x.org:+1",
            "exa*mple.org",
            "-x.org",
            "ex ample.org",
            "bücher.de",
            "127.1",
            "2130706433",
            "0x7f.0.0.1",
            "x.org/path",
            "a.*.org",
            "192.0.2.1/24",
            "192.0.2.0/33",
            "192.0.2.0/24/1",
            "192.0.2.0/24:0",
            "[2001:db8::/32:1",
        ] {
            assert!(bad.parse::<HostPattern>().is_err(), "{bad}");
        }
    }

    #[test]
    fn covering() {
        let covers = |a: &str, b: &str| {
            a.parse::<HostPattern>()
                .unwrap()
                .covers(&b.parse().unwrap())
        };
        assert!(covers("*.example.org", "a.example.org:443"));
        assert!(covers("*.example.org", "*.a.example.org"));
        assert!(covers("*.example.org", "*.example.org:80"));
        // Without a port, only the usual ones are open.
        assert!(!covers("*.example.org", "*.example.org:22"));
        assert!(!covers("git.test", "git.test:22"));
        assert!(!covers("*", "git.test:22"));
        // `*` opens names.
        assert!(!covers("*", "10.0.0.1"));
        assert!(!covers("*", "10.0.0.0/8:80"));
        assert!(!covers("*", "localhost"));
        assert!(covers("192.0.2.0/24", "192.0.2.1:80"));
        assert!(covers("192.0.0.0/16", "192.0.2.0/24"));
        assert!(!covers("192.0.2.0/24", "192.0.0.0/16"));
        assert!(covers("*", "example.org"));
        assert!(!covers("*.example.org", "example.org"));
        assert!(!covers("example.org:443", "example.org"));
        assert!(!covers("*.ample.org", "*.example.org"));
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(text in "(\\*\\.)?[a-z]{1,5}(\\.[a-z]{1,5}){0,3}(:[1-9][0-9]{0,3})?") {
            let pattern: HostPattern = text.parse().unwrap();
            prop_assert_eq!(pattern.to_string(), text);
        }

        #[test]
        fn never_panics(text in ".{0,40}") {
            let _ = text.parse::<HostPattern>();
        }
    }
}
