//! As much of D-Bus as asking systemd one thing takes: messages in the little-endian form,
//! one connection for one question, everything sent in advance.

use std::io;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// The longest message that is read.
const LONGEST: usize = 1 << 20;
/// The longest line of the greeting.
const LINE: usize = 4096;

/// The numbers of the header's fields.
mod field {
    pub const PATH: u8 = 1;
    pub const INTERFACE: u8 = 2;
    pub const MEMBER: u8 = 3;
    pub const ERROR: u8 = 4;
    pub const REPLY_TO: u8 = 5;
    pub const DESTINATION: u8 = 6;
    pub const SIGNATURE: u8 = 8;
}

/// What is called.
#[derive(Debug, Clone, Copy)]
pub struct Method<'a> {
    /// Whose; on a connection straight to the service there is nobody else.
    pub destination: Option<&'a str>,
    /// The object.
    pub path: &'a str,
    /// The interface.
    pub interface: &'a str,
    /// The method.
    pub member: &'a str,
    /// The types of its arguments.
    pub signature: &'a str,
}

/// Values one after the other, each where its type must stand.
#[derive(Debug, Default)]
pub struct Body(Vec<u8>);

impl Body {
    /// Zeros up to the next multiple.
    pub fn align(&mut self, to: usize) -> &mut Body {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
        self
    }

    /// A number.
    pub fn u32(&mut self, value: u32) -> &mut Body {
        self.align(4).0.extend(value.to_le_bytes());
        self
    }

    /// Yes or no.
    pub fn boolean(&mut self, value: bool) -> &mut Body {
        self.u32(u32::from(value))
    }

    /// A text or an object's path. One that does not fit into a message cannot come
    /// here: all that is sent is short.
    pub fn text(&mut self, value: &str) -> &mut Body {
        self.u32(u32::try_from(value.len()).unwrap_or(0));
        self.0.extend(value.as_bytes());
        self.0.push(0);
        self
    }

    /// The type of what follows.
    pub fn signature(&mut self, value: &str) -> &mut Body {
        self.0.push(u8::try_from(value.len()).unwrap_or(0));
        self.0.extend(value.as_bytes());
        self.0.push(0);
        self
    }

    /// A list whose elements stand at multiples of `align`.
    pub fn array(&mut self, align: usize, fill: impl FnOnce(&mut Body)) -> &mut Body {
        self.u32(0);
        let length_at = self.0.len() - 4;
        self.align(align);
        let start = self.0.len();
        fill(self);
        let length = u32::try_from(self.0.len() - start).unwrap_or(0);
        self.0[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
        self
    }
}

/// A message that came in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// The call that it answers.
    pub reply_to: Option<u32>,
    /// A signal's or method's name.
    pub member: Option<String>,
    /// An error's name.
    pub error: Option<String>,
    body: Vec<u8>,
}

impl Message {
    /// Reads the values.
    pub fn values(&self) -> Values<'_> {
        Values {
            bytes: &self.body,
            at: 0,
        }
    }
}

/// Reads values one after the other; nothing where there is none.
#[derive(Debug)]
pub struct Values<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Values<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// A number.
    pub fn u32(&mut self) -> Option<u32> {
        self.align(4);
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// A text or an object's path.
    pub fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.u32()?).ok()?;
        let text = self.take(length)?;
        self.take(1)?;
        std::str::from_utf8(text).ok()
    }

    fn signature(&mut self) -> Option<&'a str> {
        let length = usize::from(self.u8()?);
        let text = self.take(length)?;
        self.take(1)?;
        std::str::from_utf8(text).ok()
    }
}

/// One connection.
#[derive(Debug)]
pub struct Bus {
    stream: UnixStream,
    /// What was sent last.
    serial: u32,
    outgoing: Vec<u8>,
}

impl Bus {
    /// Connects; the greeting goes out with the first messages.
    pub async fn connect(socket: &Path, uid: u32) -> io::Result<Bus> {
        let hex: String = uid
            .to_string()
            .bytes()
            .map(|b| format!("{b:02x}"))
            .collect();
        Ok(Bus {
            stream: UnixStream::connect(socket).await?,
            serial: 0,
            outgoing: format!("\0AUTH EXTERNAL {hex}\r\nBEGIN\r\n").into_bytes(),
        })
    }

    /// Puts a call with the others and gives its number.
    pub fn call(&mut self, method: Method<'_>, body: &Body) -> u32 {
        self.serial += 1;
        self.outgoing.extend(encode(self.serial, method, body));
        self.serial
    }

    /// Sends what was put together, and takes the greeting.
    pub async fn send(&mut self) -> io::Result<()> {
        let outgoing = std::mem::take(&mut self.outgoing);
        self.stream.write_all(&outgoing).await?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            if line.len() > LINE {
                return Err(garbled("its greeting has no end"));
            }
            line.push(self.stream.read_u8().await?);
        }
        match line.starts_with(b"OK ") {
            true => Ok(()),
            false => Err(garbled("it does not know who we are")),
        }
    }

    /// The next message.
    pub async fn next(&mut self) -> io::Result<Message> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head).await?;
        if head[0] != b'l' {
            return Err(garbled("it speaks with the other end first"));
        }
        let number = |at: usize| {
            let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
            usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX)
        };
        let (body, fields) = (number(4), number(12));
        if body > LONGEST || fields > LONGEST {
            return Err(garbled("a message is too long"));
        }
        let mut rest = vec![0; fields.next_multiple_of(8) + body];
        self.stream.read_exact(&mut rest).await?;
        let body = rest.split_off(fields.next_multiple_of(8));
        rest.truncate(fields);
        decode(&rest, body).ok_or_else(|| garbled("a message is not understood"))
    }
}

fn garbled(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn encode(serial: u32, method: Method<'_>, body: &Body) -> Vec<u8> {
    let mut message = Body::default();
    // Little-endian, a call, no flags, version 1.
    message.0.extend([b'l', 1, 0, 1]);
    message.u32(u32::try_from(body.0.len()).unwrap_or(0));
    message.u32(serial);
    message.array(8, |fields| {
        let mut text = |code: u8, kind: &str, value: &str| {
            fields.align(8).0.push(code);
            fields.signature(kind).text(value);
        };
        text(field::PATH, "o", method.path);
        text(field::INTERFACE, "s", method.interface);
        text(field::MEMBER, "s", method.member);
        if let Some(destination) = method.destination {
            text(field::DESTINATION, "s", destination);
        }
        if !method.signature.is_empty() {
            fields.align(8).0.push(field::SIGNATURE);
            fields.signature("g").signature(method.signature);
        }
    });
    message.align(8);
    message.0.extend(&body.0);
    message.0
}

fn decode(fields: &[u8], body: Vec<u8>) -> Option<Message> {
    let mut message = Message {
        body,
        ..Message::default()
    };
    let mut values = Values {
        bytes: fields,
        at: 0,
    };
    while values.at < fields.len() {
        values.align(8);
        let code = values.u8()?;
        match values.signature()? {
            "s" | "o" => {
                let text = values.text()?.to_owned();
                match code {
                    field::MEMBER => message.member = Some(text),
                    field::ERROR => message.error = Some(text),
                    _ => {}
                }
            }
            "u" => {
                let number = values.u32()?;
                if code == field::REPLY_TO {
                    message.reply_to = Some(number);
                }
            }
            "g" => {
                values.signature()?;
            }
            _ => return None,
        }
    }
    Some(message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_call_stands_as_the_specification_has_it() {
        let method = Method {
            destination: Some("a.b"),
            path: "/o",
            interface: "i.f",
            member: "M",
            signature: "su",
        };
        let mut body = Body::default();
        body.text("hey").u32(7);
        let bytes = encode(1, method, &body);
        assert_eq!(&bytes[..4], b"l\x01\x00\x01");
        assert_eq!(bytes[4..8], 12u32.to_le_bytes());
        assert_eq!(bytes[bytes.len() - 12..][..8], *b"\x03\0\0\0hey\0");
        let fields = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        assert_eq!(16 + fields.next_multiple_of(8) + 12, bytes.len());
        let read = decode(&bytes[16..16 + fields], bytes[bytes.len() - 12..].to_vec()).unwrap();
        assert_eq!(read.member.as_deref(), Some("M"));
        let mut values = read.values();
        assert_eq!((values.text(), values.u32()), (Some("hey"), Some(7)));
        assert_eq!(values.u32(), None);
    }

    #[test]
    fn a_list_counts_its_bytes_without_what_aligns_it() {
        let mut body = Body::default();
        body.array(8, |list| {
            list.align(8).text("x");
        });
        assert_eq!(body.0, b"\x06\0\0\0\0\0\0\0\x01\0\0\0x\0");
    }

    #[test]
    fn nonsense_is_no_message() {
        assert_eq!(decode(b"\x05\x01u", Vec::new()), None);
        assert_eq!(decode(b"\x03\x01s\0\xff\xff\xff\xff", Vec::new()), None);
        assert_eq!(decode(b"\x03\x02as\0", Vec::new()), None);
    }
}
