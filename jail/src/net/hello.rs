//! Whom a connection's first words are for: the TLS ClientHello's server name, the HTTP
//! request's Host.

use sjail_policy::host;

use super::http;

/// First words are not longer than this.
pub const LONGEST: usize = 64 << 10;

/// What is said of words that never come to an end.
pub const UNFINISHED: Said = Said::Nobody("its first words end before they name a host");

/// What the first words say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// More bytes are needed to tell.
    More,
    /// This canonical name.
    Name(String),
    /// A name that is no host name, or an address.
    Odd(String),
    /// A protocol that could name its host, and does not: no SNI, an encrypted hello,
    /// HTTP without Host.
    Nobody(&'static str),
    /// Another protocol, which names nobody.
    Other,
}

/// First words as they come. What was looked at is not looked at again: words in many small
/// pieces must not cost more to read than to send.
#[derive(Debug, Default)]
pub struct Hello {
    words: Vec<u8>,
    /// So many of them were looked at: whole TLS records, or a part of an HTTP head.
    seen: usize,
    /// The TLS handshake in the records so far.
    message: Vec<u8>,
}

impl Hello {
    /// Words that have come already.
    pub fn of(words: Vec<u8>) -> Hello {
        Hello {
            words,
            ..Hello::default()
        }
    }

    /// More words.
    pub fn add(&mut self, words: &[u8]) {
        self.words.extend_from_slice(words);
    }

    /// Whether nothing has come yet.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// All words, to be passed on.
    pub fn into_words(self) -> Vec<u8> {
        self.words
    }

    /// What they say so far.
    pub fn read(&mut self) -> Said {
        let said = match self.words.first() {
            None => return Said::More,
            Some(0x16) => self.tls(),
            Some(b'A'..=b'Z') => {
                let said = http::first(&self.words, self.seen);
                self.seen = self.words.len();
                said
            }
            // Servers take empty lines before a request for nothing.
            Some(b'\r' | b'\n') => Said::Nobody("it begins with an empty line"),
            Some(_) => Said::Other,
        };
        match said {
            Said::More if self.words.len() > LONGEST => UNFINISHED,
            said => said,
        }
    }

    /// A ClientHello, perhaps in several records.
    fn tls(&mut self) -> Said {
        loop {
            if let Some(said) = client_hello(&self.message) {
                return said;
            }
            let rest = self.words.get(self.seen..).unwrap_or_default();
            let Some([kind, major, _, high, low]) = rest.get(..5) else {
                return Said::More;
            };
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if *kind != 0x16 || *major != 3 || length == 0 || length > 1 << 14 {
                return Said::Nobody("its TLS hello is malformed");
            }
            let Some(record) = rest.get(5..5 + length) else {
                return Said::More;
            };
            self.message.extend_from_slice(record);
            self.seen += 5 + length;
        }
    }
}

/// Reads a handshake message; `None` if it is not complete.
fn client_hello(bytes: &[u8]) -> Option<Said> {
    let malformed = Said::Nobody("its TLS hello is malformed");
    let length = bytes.get(1..4)?;
    if bytes.first() != Some(&1) {
        return Some(malformed);
    }
    let length = length
        .iter()
        .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let body = bytes.get(4..4 + length)?;
    Some(server_name(body).unwrap_or(malformed))
}

/// The server name in a ClientHello's body; `None` if it is malformed.
fn server_name(body: &[u8]) -> Option<Said> {
    let mut body = Cursor(body);
    body.take(2 + 32)?;
    let session = body.byte()?;
    body.take(session.into())?;
    let ciphers = body.number()?;
    body.take(ciphers)?;
    let compressions = body.byte()?;
    body.take(compressions.into())?;
    if body.0.is_empty() {
        return Some(Said::Nobody("its TLS hello names no host (no SNI)"));
    }
    let length = body.number()?;
    let mut extensions = Cursor(body.take(length)?);
    if !body.0.is_empty() {
        return None;
    }
    let mut name = None;
    let mut encrypted = false;
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let length = extensions.number()?;
        let data = extensions.take(length)?;
        match kind {
            // Given twice, two readers could mean two hosts.
            0 if name.is_some() => return None,
            0 => name = Some(host_name(data)?),
            0xfe0d | 0xffce => encrypted = true,
            _ => {}
        }
    }
    Some(match name {
        _ if encrypted => Said::Nobody("its TLS hello is encrypted (ECH)"),
        None => Said::Nobody("its TLS hello names no host (no SNI)"),
        Some(name) => named(name),
    })
}

/// The one host name of the extension.
fn host_name(data: &[u8]) -> Option<&[u8]> {
    let mut data = Cursor(data);
    let length = data.number()?;
    let mut list = Cursor(data.take(length)?);
    if !data.0.is_empty() || list.byte()? != 0 {
        return None;
    }
    let length = list.number()?;
    let name = list.take(length)?;
    list.0.is_empty().then_some(name)
}

/// A host as it is written on the wire.
pub fn named(name: &[u8]) -> Said {
    let text = String::from_utf8_lossy(name);
    match host::canonical(&text) {
        Some(name) => Said::Name(name),
        None => Said::Odd(text.into_owned()),
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<usize> {
        self.take(2)
            .map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Whole, and byte by byte: the same.
    fn read(bytes: &[u8]) -> Said {
        let whole = Hello::of(bytes.to_vec()).read();
        let mut hello = Hello::default();
        let mut said = Said::More;
        for byte in bytes {
            hello.add(&[*byte]);
            said = hello.read();
            if said != Said::More {
                break;
            }
        }
        assert_eq!(whole, said, "{:?}", String::from_utf8_lossy(bytes));
        whole
    }

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_be_bytes().to_vec();
        bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn sni(name: &[u8]) -> Vec<u8> {
        let mut data = ((name.len() + 3) as u16).to_be_bytes().to_vec();
        data.push(0);
        data.extend_from_slice(&(name.len() as u16).to_be_bytes());
        data.extend_from_slice(name);
        extension(0, &data)
    }

    fn hello(extensions: &[Vec<u8>]) -> Vec<u8> {
        let all = extensions.concat();
        let mut body = vec![3, 3];
        body.extend_from_slice(&[7; 32]);
        body.extend_from_slice(&[0, 0, 2, 0x13, 1, 1, 0]);
        body.extend_from_slice(&(all.len() as u16).to_be_bytes());
        body.extend_from_slice(&all);
        let mut message = vec![1, 0];
        message.extend_from_slice(&(body.len() as u16).to_be_bytes());
        message.extend_from_slice(&body);
        message
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in message.chunks(size) {
            bytes.extend_from_slice(&[0x16, 3, 1]);
            bytes.extend_from_slice(&(part.len() as u16).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }

    #[test]
    fn a_hello_names_its_host_however_it_is_cut() {
        let message = hello(&[extension(10, &[0, 0]), sni(b"WWW.example.org")]);
        for size in [1, 3, 100, 1000] {
            let bytes = records(&message, size);
            assert_eq!(read(&bytes), Said::Name("www.example.org".into()));
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes[..end]), Said::More, "{size} {end}");
            }
        }
    }

    #[test]
    fn what_was_looked_at_is_not_looked_at_again() {
        let mut head = Hello::of(b"GET / HTTP/1.1\r\nX: ".to_vec());
        for _ in 0..1000 {
            assert_eq!(head.read(), Said::More);
            assert_eq!(head.seen, head.words.len());
            head.add(b"x");
        }
        let bytes = records(&hello(&[sni(b"a.test")]), 1);
        let mut hello = Hello::default();
        for (count, byte) in (1..bytes.len()).zip(&bytes) {
            hello.add(&[*byte]);
            assert_eq!(hello.read(), Said::More);
            assert_eq!(hello.seen, count / 6 * 6);
        }
        let mut endless = Hello::of(vec![b'A'; 8]);
        endless.add(b" / HTTP/1.1\r\nX: ");
        endless.add(&vec![b'x'; LONGEST]);
        assert!(matches!(endless.read(), Said::Nobody(_)));
    }

    #[test]
    fn hellos_that_name_nobody() {
        let nobody = |extensions: &[Vec<u8>]| {
            let bytes = records(&hello(extensions), 1000);
            assert!(matches!(read(&bytes), Said::Nobody(_)), "{extensions:?}");
        };
        nobody(&[]);
        nobody(&[extension(16, b"\0\x03\x02h2")]);
        nobody(&[sni(b"example.org"), extension(0xfe0d, b"secret")]);
        nobody(&[sni(b"example.org"), sni(b"other.org")]);
        nobody(&[extension(0, b"")]);
        assert_eq!(
            read(&records(&hello(&[sni(b"evil\0.example.org")]), 1000)),
            Said::Odd("evil\0.example.org".into())
        );
        assert_eq!(
            read(&records(&hello(&[sni(b"127.0.0.1")]), 1000)),
            Said::Odd("127.0.0.1".into())
        );
        assert!(matches!(
            read(&[0x16, 3, 1, 0, 1, 2, 0, 0, 0]),
            Said::More | Said::Nobody(_)
        ));
    }

    #[test]
    fn requests_name_their_host() {
        for (text, said) in [
            (
                "GET / HTTP/1.1\r\nHost: Example.org:80\r\n\r\n",
                Said::Name("example.org".into()),
            ),
            (
                "POST /x HTTP/1.1\r\nA: b\r\nhost:example.org\r\n\r\nbody",
                Said::Name("example.org".into()),
            ),
            (
                "GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
                Said::Name("example.org".into()),
            ),
            (
                "GET http://evil.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
                Said::Odd("evil.org".into()),
            ),
            ("GET / HTTP/1.1\r\nHost: exam", Said::More),
            ("GE", Said::More),
            ("SSH-2.0-x\r\n", Said::Other),
            ("EHLO me\r\n", Said::Other),
            ("USER me\nPASS you\n", Said::Other),
            ("EHLO me", Said::More),
            ("hello", Said::Other),
            ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", Said::Other),
        ] {
            assert_eq!(read(text.as_bytes()), said, "{text:?}");
        }
        for text in [
            "GET / HTTP/1.1\r\nHost: a.org\r\nHost: b.org\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a.org\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.org\r\n b.org\r\n\r\n",
            "GET / HTTP/1.1\nHost: a.org\n\n",
            "GET / HTTP/1.1\r\nX: y\nHost: b.org\r\nHost: a.org\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.0\r\nHost:\r\n\r\n",
            "GET /\r\n\r\n",
            "FETCH / http/1.1\r\nHost: a.org\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.org\r\nX: y\r\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "CONNECT evil.org:443 HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET evil.org:80 HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET http:evil.org HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ] {
            assert!(
                matches!(read(text.as_bytes()), Said::Nobody(_)),
                "{text:?} {:?}",
                read(text.as_bytes())
            );
        }
    }
}
