//! The few words of DNS that are needed: one question and its answer, both ways.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sjail_policy::host;

/// An IPv4 address.
pub const A: u16 = 1;
/// An IPv6 address.
pub const AAAA: u16 = 28;
/// The internet.
const IN: u16 = 1;
/// What an answer may be long, so that it fits into one packet nearly everywhere.
const ROOM: u16 = 1232;
/// The longest question that anybody asks: header, name, type, class, and options.
pub const LONGEST: usize = 4096;

/// The resolver's answers hold so many seconds: a name allowed later is soon found.
const SECONDS: u32 = 5;

/// A question from inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question<'a> {
    header: &'a [u8],
    /// Name, type and class as they came.
    section: &'a [u8],
    /// The canonical name, if it is a host's name at all.
    pub name: Option<String>,
    /// The name as it was asked for, for the record.
    pub asked: Vec<u8>,
    /// The record type.
    pub kind: u16,
    class: u16,
}

/// What is said to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// One address of the type that was asked for.
    Address(IpAddr),
    /// The name exists, but has no such record.
    Nothing,
    /// There is no such name.
    NoSuchName,
    /// Not a question for a name server of this kind.
    NotImplemented,
}

impl<'a> Question<'a> {
    /// Reads one question; `None` for what is none and deserves no answer.
    pub fn read(packet: &'a [u8]) -> Option<Question<'a>> {
        let header = packet.get(..12)?;
        let is_response = header[2] & 0x80 != 0;
        if is_response || number(header, 4)? != 1 {
            return None;
        }
        let (labels, end) = labels(packet, 12)?;
        let section = packet.get(12..end + 4)?;
        Some(Question {
            header,
            section,
            name: canonical(&labels),
            asked: labels.join(&b'.'),
            kind: number(packet, end)?,
            class: number(packet, end + 2)?,
        })
    }

    /// Whether this is a plain question about the internet.
    pub fn is_plain(&self) -> bool {
        self.header[2] & 0x78 == 0 && self.class == IN
    }

    /// The packet that answers it.
    pub fn answer(&self, answer: Answer) -> Vec<u8> {
        let mut packet = Vec::with_capacity(self.section.len() + 48);
        packet.extend_from_slice(&self.header[..2]);
        let code: u8 = match answer {
            Answer::Address(_) | Answer::Nothing => 0,
            Answer::NoSuchName => 3,
            Answer::NotImplemented => 4,
        };
        // A response; opcode and "recursion desired" as they came; recursion available.
        packet.extend_from_slice(&[0x80 | (self.header[2] & 0x79), 0x80 | code]);
        let count = u16::from(matches!(answer, Answer::Address(_)));
        for field in [1, count, 0, 0] {
            packet.extend_from_slice(&field.to_be_bytes());
        }
        packet.extend_from_slice(self.section);
        if let Answer::Address(address) = answer {
            let (kind, bytes) = match address {
                IpAddr::V4(v4) => (A, v4.octets().to_vec()),
                IpAddr::V6(v6) => (AAAA, v6.octets().to_vec()),
            };
            // The name of the question, by a pointer to it.
            packet.extend_from_slice(&[0xc0, 12]);
            packet.extend_from_slice(&kind.to_be_bytes());
            packet.extend_from_slice(&IN.to_be_bytes());
            packet.extend_from_slice(&SECONDS.to_be_bytes());
            packet.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
            packet.extend_from_slice(&bytes);
        }
        packet
    }
}

/// A question to a name server of the host.
pub fn question(id: u16, name: &str, kind: u16) -> Vec<u8> {
    let mut packet = Vec::with_capacity(name.len() + 29);
    packet.extend_from_slice(&id.to_be_bytes());
    // Recursion desired; one question, and one option: how long an answer may be.
    for field in [0x0100, 1, 0, 0, 1] {
        packet.extend_from_slice(&u16::to_be_bytes(field));
    }
    for label in name.split('.') {
        packet.push(label.len() as u8);
        packet.extend_from_slice(label.as_bytes());
    }
    packet.push(0);
    packet.extend_from_slice(&kind.to_be_bytes());
    packet.extend_from_slice(&IN.to_be_bytes());
    packet.extend_from_slice(&[0, 0, 41]);
    packet.extend_from_slice(&ROOM.to_be_bytes());
    packet.extend_from_slice(&[0; 6]);
    packet
}

/// What a name server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The addresses, perhaps none.
    Addresses(Vec<IpAddr>),
    /// There is no such name.
    NoSuchName,
    /// The server could not say.
    Failed,
}

/// Reads the answer to [`question`]; `None` if it answers something else.
pub fn reply(packet: &[u8], id: u16, name: &str, kind: u16) -> Option<Reply> {
    let header = packet.get(..12)?;
    let is_response = header[2] & 0x80 != 0;
    if number(header, 0)? != id || !is_response || number(header, 4)? != 1 {
        return None;
    }
    let (asked, mut at) = labels(packet, 12)?;
    if canonical(&asked).as_deref() != Some(name) || number(packet, at)? != kind {
        return None;
    }
    match header[3] & 0x0f {
        0 => {}
        3 => return Some(Reply::NoSuchName),
        _ => return Some(Reply::Failed),
    }
    at += 4;
    let mut addresses = Vec::new();
    for _ in 0..number(header, 6)? {
        // A cut answer is used as far as it goes.
        let Some((address, next)) = record(packet, at) else {
            break;
        };
        match address {
            Some(address) if address.is_ipv4() == (kind == A) => addresses.push(address),
            _ => {}
        }
        at = next;
    }
    Some(Reply::Addresses(addresses))
}

/// One record: its address, if it is one, and where the next begins.
fn record(packet: &[u8], at: usize) -> Option<(Option<IpAddr>, usize)> {
    let at = skip_name(packet, at)?;
    let (kind, class) = (number(packet, at)?, number(packet, at + 2)?);
    let length = usize::from(number(packet, at + 8)?);
    let data = packet.get(at + 10..at + 10 + length)?;
    let address = match (kind, class) {
        (A, IN) => <[u8; 4]>::try_from(data)
            .ok()
            .map(|octets| Ipv4Addr::from(octets).into()),
        (AAAA, IN) => <[u8; 16]>::try_from(data)
            .ok()
            .map(|octets| Ipv6Addr::from(octets).into()),
        _ => None,
    };
    Some((address, at + 10 + length))
}

/// The labels of a name that is written out, and where it ends. A question never points
/// elsewhere.
fn labels(packet: &[u8], start: usize) -> Option<(Vec<&[u8]>, usize)> {
    let mut labels = Vec::new();
    let mut at = start;
    loop {
        let length = usize::from(*packet.get(at)?);
        at += 1;
        match length {
            0 => return Some((labels, at)),
            1..=63 if at - start <= 255 => {
                labels.push(packet.get(at..at + length)?);
                at += length;
            }
            _ => return None,
        }
    }
}

/// Where a name ends, whether written out or by a pointer.
fn skip_name(packet: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match usize::from(*packet.get(at)?) {
            0 => return Some(at + 1),
            length @ 1..=63 => at += 1 + length,
            192.. => return Some(at + 2),
            _ => return None,
        }
    }
}

/// A dot, a NUL or anything else that no host name has makes it none.
fn canonical(labels: &[&[u8]]) -> Option<String> {
    if labels.iter().any(|label| label.contains(&b'.')) {
        return None;
    }
    host::canonical(std::str::from_utf8(&labels.join(&b'.')).ok()?)
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([pair[0], pair[1]]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_question_is_read_and_answered() {
        let packet = question(7, "www.example.org", A);
        let read = Question::read(&packet).unwrap();
        assert_eq!(read.name.as_deref(), Some("www.example.org"));
        assert_eq!(read.kind, A);
        assert!(read.is_plain());
        let address: IpAddr = [198, 18, 1, 0].into();
        let answer = read.answer(Answer::Address(address));
        assert_eq!(
            reply(&answer, 7, "www.example.org", A),
            Some(Reply::Addresses(vec![address]))
        );
        assert_eq!(reply(&answer, 8, "www.example.org", A), None);
        assert_eq!(reply(&answer, 7, "www.example.com", A), None);
        assert_eq!(reply(&answer, 7, "www.example.org", AAAA), None);
        let none = read.answer(Answer::NoSuchName);
        assert_eq!(
            reply(&none, 7, "www.example.org", A),
            Some(Reply::NoSuchName)
        );
        let empty = read.answer(Answer::Nothing);
        assert_eq!(
            reply(&empty, 7, "www.example.org", A),
            Some(Reply::Addresses(Vec::new()))
        );
    }

    #[test]
    fn odd_names_are_no_names() {
        for label in [
            &b"evil\0"[..],
            b"a.b",
            b"a b",
            b"\xc3\xa4",
            b"-x",
            b"127",
            b"x*",
        ] {
            let mut packet = question(1, "x", A);
            packet.splice(
                12..14,
                [label.len() as u8].into_iter().chain(label.to_vec()),
            );
            let read = Question::read(&packet).unwrap();
            assert_eq!(read.name, None, "{label:?}");
            assert_eq!(read.asked, label);
        }
    }

    #[test]
    fn case_is_one() {
        let packet = question(1, "WWW.Example.ORG", A);
        let read = Question::read(&packet).unwrap();
        assert_eq!(read.name.as_deref(), Some("www.example.org"));
    }

    #[test]
    fn a_chain_of_names_ends_in_addresses() {
        let mut packet = question(3, "a.test", AAAA);
        packet.truncate(packet.len() - 11);
        packet[2] |= 0x80;
        packet[7] = 2;
        packet[11] = 0;
        packet.extend_from_slice(&[0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 1, 0, 3, 1, b'b', 0]);
        packet.extend_from_slice(&[1, b'b', 0, 0, 28, 0, 1, 0, 0, 0, 1, 0, 16]);
        packet.extend_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(
            reply(&packet, 3, "a.test", AAAA),
            Some(Reply::Addresses(vec!["2001:db8::9".parse().unwrap()]))
        );
    }

    #[test]
    fn garbage_is_survived() {
        let packet = question(1, "www.example.org", A);
        for end in 0..packet.len() {
            let _ = Question::read(&packet[..end]);
        }
        let mut noise = packet.clone();
        for at in 0..noise.len() {
            for value in [0, 1, 63, 64, 191, 192, 255] {
                noise[at] = value;
                let _ = Question::read(&noise).map(|read| read.answer(Answer::Nothing));
                let _ = reply(&noise, 1, "www.example.org", A);
            }
            noise[at] = packet[at];
        }
    }
}
