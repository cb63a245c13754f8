//! HTTP/1 requests in a stream: each head is read before any of it goes on, so that a
//! connection that was opened for one host cannot be used for another.
//!
//! A head, a length or a chunk that two readers could read in two ways is read in none:
//! what this file takes for the end of a request is the end for every server.

use super::hello::{LONGEST, Said, named};

/// A line with the size of a chunk is not longer than this.
const LONGEST_SIZE: usize = 1 << 10;

/// Nor a line behind the last chunk than this.
const LONGEST_TRAILER: usize = 8 << 10;

/// What a request's head says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Head {
    said: Said,
    body: Body,
    upgrade: Option<Upgrade>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Length(u64),
    Chunked,
}

/// What a request wants its connection to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upgrade {
    /// Frames, which are for the same host.
    WebSocket,
    /// Something that may hide further hosts.
    Other,
}

const MALFORMED: Said = Said::Nobody("its HTTP head is malformed");
const BAD_BODY: Said = Said::Nobody("the body of its HTTP request is malformed");

/// Whom the first request is for. So much of it was `seen` before, and was not enough.
pub fn first(bytes: &[u8], seen: usize) -> Said {
    let method = bytes
        .iter()
        .take(20)
        .take_while(|byte| byte.is_ascii_uppercase() || b"-_".contains(byte))
        .count();
    match bytes.get(method) {
        None if method < 20 => return Said::More,
        Some(b' ') => {}
        _ => return Said::Other,
    }
    let fresh = bytes.get(seen..).unwrap_or_default();
    if fresh.contains(&b'\n') && !could_be_request(bytes) {
        return Said::Other;
    }
    match next(bytes, seen) {
        Err(said) => said,
        Ok(None) => Said::More,
        Ok(Some((head, _))) => head.said,
    }
}

/// Whether a first line is one that some web server takes for a request. Others greet with a
/// word and an argument, too, and then wait for an answer.
fn could_be_request(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next();
    let line = line.unwrap_or_default().to_ascii_uppercase();
    line.starts_with(b"GET ") || find(&line, b"HTTP").is_some()
}

/// The first complete head, and where it ends; what makes it none, if nothing can. So much
/// was `seen` before, without an end.
fn next(bytes: &[u8], seen: usize) -> Result<Option<(Head, usize)>, Said> {
    if bytes.starts_with(b"PRI * HTTP/2") {
        return Err(Said::Nobody(
            "it speaks HTTP/2 without TLS, which hides the host",
        ));
    }
    // An end may have begun in what was seen.
    let from = seen.saturating_sub(3);
    let end = find(bytes.get(from..).unwrap_or_default(), b"\r\n\r\n").map(|at| from + at);
    let text = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    let too_long = end.is_none() && text.len() > LONGEST;
    if has_bare_end(text, from) || (end.is_some() && text.ends_with(b"\r")) || too_long {
        return Err(MALFORMED);
    }
    let Some(end) = end else {
        return Ok(None);
    };
    let head = head(text).ok_or(MALFORMED)?;
    Ok(Some((head, end + 4)))
}

/// Whether a line ends, from there on, in a way that not all readers take for an end.
fn has_bare_end(text: &[u8], from: usize) -> bool {
    let fresh = text.get(from..).unwrap_or_default();
    let ends = fresh.windows(2).any(|pair| match pair {
        [before, b'\n'] => *before != b'\r',
        [b'\r', after] => *after != b'\n',
        _ => false,
    });
    ends || text.first() == Some(&b'\n')
}

/// A head without its last line ends; `None` if it is malformed.
fn head(text: &[u8]) -> Option<Head> {
    let odd = |byte: &u8| (*byte < b' ' && !b"\r\n\t".contains(byte)) || *byte == 0x7f;
    if text.iter().any(odd) {
        return None;
    }
    let text = String::from_utf8_lossy(text);
    let mut lines = text.split("\r\n");
    let [method, target, version] = lines
        .next()?
        .split(' ')
        .collect::<Vec<_>>()
        .try_into()
        .ok()?;
    let (mut host, mut length, mut encoding, mut upgrade) = (None, None, None, None);
    for line in lines {
        let (name, value) = field(line)?;
        let value = value.trim_matches([' ', '\t']);
        let slot = match name.as_str() {
            "host" => &mut host,
            "content-length" => &mut length,
            "transfer-encoding" => &mut encoding,
            "upgrade" => {
                upgrade = Some(match (upgrade, value.eq_ignore_ascii_case("websocket")) {
                    (None, true) => Upgrade::WebSocket,
                    _ => Upgrade::Other,
                });
                continue;
            }
            _ => continue,
        };
        // Given twice, two readers could mean two things.
        if slot.replace(value).is_some() {
            return None;
        }
    }
    let body = match (length, encoding) {
        (None, None) => Body::Length(0),
        (Some(length), None) => Body::Length(number(length)?),
        (None, Some(encoding))
            if encoding.eq_ignore_ascii_case("chunked") && version == "HTTP/1.1" =>
        {
            Body::Chunked
        }
        _ => return None,
    };
    Some(Head {
        said: whom(method, target, version, host)?,
        body,
        upgrade,
    })
}

/// A field's name in lower case, and its value. `_` counts as `-`: some servers do not tell
/// them apart.
fn field(line: &str) -> Option<(String, &str)> {
    let (name, value) = line.split_once(':')?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (!name.is_empty() && name.bytes().all(fits))
        .then(|| (name.to_ascii_lowercase().replace('_', "-"), value))
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Whom a request is for; `None` if it is malformed.
fn whom(method: &str, target: &str, version: &str, host: Option<&str>) -> Option<Said> {
    if !["HTTP/1.0", "HTTP/1.1"].contains(&version) {
        return Some(Said::Nobody("its HTTP is older than Host"));
    }
    if method == "CONNECT" {
        return Some(Said::Nobody("it asks for a tunnel (CONNECT)"));
    }
    let Some(host) = host.filter(|host| !host.is_empty()) else {
        return Some(Said::Nobody("its HTTP request names no host"));
    };
    // A whole URL must not name somebody else; what is neither a URL nor a path means nothing.
    if !target.starts_with('/') && target != "*" {
        let (_, rest) = target.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if !without_port(authority).eq_ignore_ascii_case(without_port(host)) {
            return Some(Said::Odd(authority.to_owned()));
        }
    }
    Some(named(without_port(host).as_bytes()))
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// The requests of one connection, all for one host.
#[derive(Debug)]
pub struct Requests {
    host: String,
    state: State,
    /// Bytes that were read and not yet let through.
    pending: Vec<u8>,
    /// So many of them have been let through meanwhile.
    used: usize,
    /// So many of the rest are known to hold no whole head.
    seen: usize,
    /// What the first request wants, until it is over.
    upgrade: Option<Upgrade>,
    first: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Body(u64),
    Size,
    Chunk(u64),
    ChunkEnd,
    Trailer,
    Upgrading(Upgrade),
    /// No longer HTTP, with everybody's consent.
    Free,
}

/// What is needed to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// Bytes to be read and looked at.
    Words,
    /// So many bytes may pass unseen.
    Bytes(u64),
    /// The first line of the answer.
    Answer,
    /// Everything may pass.
    Everything,
}

/// So much of an answer is needed: `HTTP/1.1 101`.
pub const ANSWER: usize = 12;

impl Requests {
    /// Requests that must be for this canonical name.
    pub fn to(host: &str) -> Requests {
        Requests {
            host: host.to_owned(),
            state: State::Head,
            pending: Vec::new(),
            used: 0,
            seen: 0,
            upgrade: None,
            first: true,
        }
    }

    /// What is needed to go on.
    pub fn wants(&self) -> Wants {
        match self.state {
            State::Free => Wants::Everything,
            State::Upgrading(_) => Wants::Answer,
            State::Body(left) | State::Chunk(left) if self.pending.is_empty() => Wants::Bytes(left),
            _ => Wants::Words,
        }
    }

    /// So many bytes of those that may pass unseen have passed.
    pub fn passed(&mut self, count: u64) {
        match self.state {
            State::Body(left) => self.body(left.saturating_sub(count)),
            State::Chunk(left) => self.chunk(left.saturating_sub(count)),
            _ => {}
        }
    }

    /// Takes what was read, and gives what may go on; what is wrong with it otherwise.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Said> {
        self.pending.extend_from_slice(bytes);
        let mut out = Vec::new();
        while self.step(&mut out)? {}
        self.pending.drain(..self.used);
        self.used = 0;
        Ok(out)
    }

    /// Whether something that was read waits for the answer.
    pub fn holds_words(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The answer has begun: gives what may go on now.
    pub fn answered(&mut self, line: &[u8]) -> Result<Vec<u8>, Said> {
        if let State::Upgrading(upgrade) = self.state {
            let agreed = line.starts_with(b"HTTP/1.") && line.ends_with(b" 101");
            self.state = match (agreed, upgrade) {
                (false, _) => State::Head,
                (true, Upgrade::WebSocket) => State::Free,
                (true, Upgrade::Other) => {
                    return Err(Said::Nobody("it went on to a protocol that hides the host"));
                }
            };
        }
        self.take(b"")
    }

    /// Whatever comes may pass from now on, after a fault: gives what was held back, and what
    /// went before the fault in the same piece.
    pub fn free(&mut self) -> Vec<u8> {
        self.state = State::Free;
        self.used = 0;
        std::mem::take(&mut self.pending)
    }

    /// One thing; whether there may be another.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<bool, Said> {
        match self.state {
            State::Free => self.pass(self.rest().len(), out),
            State::Upgrading(_) => {}
            State::Body(left) | State::Chunk(left) => {
                let count = usize::try_from(left).unwrap_or(usize::MAX);
                let count = count.min(self.rest().len());
                self.pass(count, out);
                self.passed(count as u64);
                return Ok(!self.rest().is_empty());
            }
            State::Head => return self.head(out),
            State::Size => {
                let Some(line) = self.line(LONGEST_SIZE)? else {
                    return Ok(false);
                };
                let size = size(self.ahead(line)).ok_or(BAD_BODY)?;
                self.pass(line, out);
                self.state = match size {
                    0 => State::Trailer,
                    size => State::Chunk(size),
                };
                return Ok(true);
            }
            State::ChunkEnd => match self.rest().get(..2) {
                None => {}
                Some(b"\r\n") => {
                    self.pass(2, out);
                    self.state = State::Size;
                    return Ok(true);
                }
                Some(_) => return Err(BAD_BODY),
            },
            State::Trailer => {
                let Some(line) = self.line(LONGEST_TRAILER)? else {
                    return Ok(false);
                };
                let is_last = self.ahead(line) == b"\r\n";
                if !is_last && !is_trailer(self.ahead(line)) {
                    return Err(BAD_BODY);
                }
                self.pass(line, out);
                if is_last {
                    self.ends();
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn head(&mut self, out: &mut Vec<u8>) -> Result<bool, Said> {
        // Empty lines between requests mean nothing.
        while self.rest().starts_with(b"\r\n") {
            self.pass(2, out);
            self.seen = 0;
        }
        let Some((head, end)) = next(self.rest(), self.seen)? else {
            self.seen = self.rest().len();
            return Ok(false);
        };
        self.seen = 0;
        match &head.said {
            Said::Name(name) if *name == self.host => {}
            other => return Err(other.clone()),
        }
        self.pass(end, out);
        self.upgrade = head.upgrade.filter(|_| self.first);
        self.first = false;
        match head.body {
            Body::Length(length) => self.body(length),
            Body::Chunked => self.state = State::Size,
        }
        Ok(true)
    }

    fn body(&mut self, left: u64) {
        match left {
            0 => self.ends(),
            left => self.state = State::Body(left),
        }
    }

    fn chunk(&mut self, left: u64) {
        self.state = match left {
            0 => State::ChunkEnd,
            left => State::Chunk(left),
        };
    }

    fn ends(&mut self) {
        self.state = match self.upgrade.take() {
            Some(upgrade) => State::Upgrading(upgrade),
            None => State::Head,
        };
    }

    /// How long the next line is with its end, if it is there.
    fn line(&self, longest: usize) -> Result<Option<usize>, Said> {
        match find(self.ahead(longest + 2), b"\r\n") {
            Some(end) => Ok(Some(end + 2)),
            None if self.rest().len() <= longest => Ok(None),
            None => Err(BAD_BODY),
        }
    }

    /// What was not let through yet.
    fn rest(&self) -> &[u8] {
        self.pending.get(self.used..).unwrap_or_default()
    }

    /// The next so many bytes, or what there is of them.
    fn ahead(&self, count: usize) -> &[u8] {
        let rest = self.rest();
        rest.get(..count).unwrap_or(rest)
    }

    /// Lets so many bytes through.
    fn pass(&mut self, count: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(self.ahead(count));
        self.used = (self.used + count).min(self.pending.len());
    }
}

/// The size in a chunk's first line; what stands behind `;` means nothing to anybody.
fn size(line: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(b"\r\n")?;
    let text = std::str::from_utf8(line).ok()?;
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return None;
    }
    let digits = text.split(';').next()?;
    let fits = (1..=15).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    fits.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

fn is_trailer(line: &[u8]) -> bool {
    let Some(line) = line.strip_suffix(b"\r\n") else {
        return false;
    };
    let odd = |byte: &u8| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f;
    let framing = ["host", "content-length", "transfer-encoding"];
    !line.iter().any(odd)
        && field(&String::from_utf8_lossy(line))
            .is_some_and(|(name, _)| !framing.contains(&name.as_str()))
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const A: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    const B: &str = "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n";

    /// What gets through, however the bytes are cut.
    fn through(text: &str) -> Result<String, Said> {
        let mut results = Vec::new();
        for size in [1, 2, 7, text.len().max(1)] {
            let mut requests = Requests::to("a.test");
            let mut all = Vec::new();
            let mut fault = None;
            for piece in text.as_bytes().chunks(size) {
                match requests.take(piece) {
                    Ok(out) => all.extend(out),
                    Err(said) => {
                        fault = Some(said);
                        break;
                    }
                }
            }
            results.push(match fault {
                Some(said) => Err(said),
                None => Ok(String::from_utf8(all).unwrap()),
            });
        }
        let first = results.first().unwrap().clone();
        assert!(results.iter().all(|other| *other == first), "{results:?}");
        first
    }

    #[test]
    fn requests_for_the_host_pass_whole() {
        let post = "POST / HTTP/1.1\r\nHost: A.test:80\r\nContent-Length: 5\r\n\r\nGET /";
        let chunked = "POST / HTTP/1.1\r\nhost: a.test\r\nTransfer-Encoding: Chunked\r\n\r\n\
            3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n";
        for text in [
            A.to_owned(),
            [A, post, "\r\n", chunked, A].concat(),
            post.repeat(3),
        ] {
            assert_eq!(through(&text).unwrap(), text);
        }
    }

    #[test]
    fn a_second_host_is_seen() {
        let post = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabc";
        for text in [[A, B].concat(), [post, B].concat(), ["\r\n", B].concat()] {
            assert_eq!(through(&text), Err(Said::Name("b.test".into())), "{text}");
        }
        let chunked = format!(
            "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{B}"
        );
        assert_eq!(through(&chunked), Err(Said::Name("b.test".into())));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_read_in_none() {
        let head = |fields: &str| format!("POST / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n\r\n{B}");
        for fields in [
            "Content-Length: 0\r\nContent-Length: 40",
            "Content-Length: 0\r\nTransfer-Encoding: chunked",
            "Content_Length: 0\r\nContent-Length: 40",
            "Content-Length: +5",
            "Content-Length: 5, 5",
            "Content-Length:",
            "Content-Length: 99999999999999999999",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding:\x0bchunked",
            "Transfer-Encoding : chunked",
            " Transfer-Encoding: chunked",
            "X: y\nTransfer-Encoding: chunked",
            "X: y\rTransfer-Encoding: chunked",
            "Host: b.test",
        ] {
            assert_eq!(through(&head(fields)), Err(MALFORMED), "{fields:?}");
        }
        let chunks = |body: &str| {
            format!(
                "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n{body}{B}"
            )
        };
        for body in [
            "3\nabc\r\n0\r\n\r\n",
            "3;a\nb\r\nabc\r\n0\r\n\r\n",
            "3 \r\nabc\r\n0\r\n\r\n",
            "0x3\r\nabc\r\n0\r\n\r\n",
            "-1\r\nabc\r\n0\r\n\r\n",
            "3\r\nabcd\r\n0\r\n\r\n",
            "ffffffffffffffff\r\n",
            "0\r\nHost: b.test\r\n\r\n",
            "0\r\nno colon\r\n\r\n",
        ] {
            assert_eq!(through(&chunks(body)), Err(BAD_BODY), "{body:?}");
        }
        let old = "POST / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(through(old), Err(MALFORMED));
    }

    #[test]
    fn bodies_pass_unseen() {
        let mut requests = Requests::to("a.test");
        let head = b"PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nabc";
        assert_eq!(requests.take(head).unwrap(), head);
        assert_eq!(requests.wants(), Wants::Bytes(997));
        requests.passed(996);
        assert_eq!(requests.wants(), Wants::Bytes(1));
        requests.passed(1);
        assert_eq!(requests.wants(), Wants::Words);
        assert!(requests.take(B.as_bytes()).is_err());
    }

    #[test]
    fn an_upgrade_is_one_when_the_server_says_so() {
        let ask = |what: &str| {
            let mut requests = Requests::to("a.test");
            let head = format!("GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: {what}\r\n\r\n");
            assert_eq!(requests.take(head.as_bytes()).unwrap(), head.as_bytes());
            assert_eq!(requests.wants(), Wants::Answer);
            assert_eq!(requests.take(B.as_bytes()).unwrap(), b"");
            requests
        };
        let mut agreed = ask("websocket");
        assert_eq!(agreed.answered(b"HTTP/1.1 101").unwrap(), B.as_bytes());
        assert_eq!(agreed.wants(), Wants::Everything);
        assert!(ask("websocket").answered(b"HTTP/1.1 200").is_err());
        assert!(ask("h2c").answered(b"HTTP/1.1 101").is_err());
        assert!(ask("h2c, websocket").answered(b"HTTP/1.1 101").is_err());
        // Only a connection's first request may.
        let mut later = Requests::to("a.test");
        later.take(A.as_bytes()).unwrap();
        later
            .take(b"GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\n\r\n")
            .unwrap();
        assert_eq!(later.wants(), Wants::Words);
    }
}
