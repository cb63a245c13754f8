//! A port of the jail that is served on the host: `127.0.0.1:8080:3000`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Where on the host, and which port inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Publish {
    outside: SocketAddr,
    inside: u16,
}

/// Why a published port could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not [ADDRESS:]PORT:PORT-INSIDE: {why}")]
pub struct PublishError {
    text: String,
    why: &'static str,
}

impl Publish {
    /// Where the host listens.
    pub fn outside(&self) -> SocketAddr {
        self.outside
    }

    /// The port that the command serves.
    pub fn inside(&self) -> u16 {
        self.inside
    }

    /// Whether others than this machine can reach it.
    pub fn is_open(&self) -> bool {
        !self.outside.ip().to_canonical().is_loopback()
    }
}

impl FromStr for Publish {
    type Err = PublishError;

    /// Without an address it is this machine's loopback; one port alone is both.
    fn from_str(text: &str) -> Result<Self, PublishError> {
        let wrong = |why| PublishError {
            text: text.to_owned(),
            why,
        };
        let text = text.trim();
        let (front, inside) = match text.rsplit_once(':') {
            Some((front, inside)) => (front, inside),
            None => (text, text),
        };
        let inside = port(inside).ok_or_else(|| wrong("the port inside is none"))?;
        let (address, outside) = match front.rsplit_once(':') {
            Some((address, outside)) => (Some(address), outside),
            None => (None, front),
        };
        let outside = port(outside).ok_or_else(|| wrong("the port on the host is none"))?;
        let address = match address {
            None => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some(text) => match text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
                Some(six) => six.parse().map(IpAddr::V6).ok(),
                None => text.parse().map(IpAddr::V4).ok(),
            }
            .ok_or_else(|| wrong("an address is written as 127.0.0.1 or [::1]"))?,
        };
        Ok(Publish {
            outside: SocketAddr::new(address, outside),
            inside,
        })
    }
}

fn port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0)
}

impl std::fmt::Display for Publish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.outside, self.inside)
    }
}

impl Serialize for Publish {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Publish {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ports_are_read_and_shown() {
        for (text, shown, open) in [
            ("127.0.0.1:8080:3000", "127.0.0.1:8080:3000", false),
            ("8080:3000", "127.0.0.1:8080:3000", false),
            ("3000", "127.0.0.1:3000:3000", false),
            ("[::1]:8080:3000", "[::1]:8080:3000", false),
            ("0.0.0.0:8080:3000", "0.0.0.0:8080:3000", true),
            ("[::]:80:80", "[::]:80:80", true),
            ("192.0.2.1:80:80", "192.0.2.1:80:80", true),
        ] {
            let publish: Publish = text.parse().unwrap();
            assert_eq!(publish.to_string(), shown);
            assert_eq!(publish.is_open(), open, "{text}");
            assert_eq!(shown.parse::<Publish>().unwrap(), publish);
        }
        for text in [
            "",
            ":",
            "0",
            "0:80",
            "80:0",
            "80:",
            ":80",
            "+80:80",
            "99999:1",
            "localhost:80:80",
            "::1:80:80",
            "[127.0.0.1]:80:80",
            "1:2:3:4",
            "127.1:80:80",
        ] {
            assert!(text.parse::<Publish>().is_err(), "{text}");
        }
    }
}
