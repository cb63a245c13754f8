//! Both ends of a connection and what flows between them: first words are read before
//! anything goes out, requests are read along.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::{MsgFlags, recv};
use sjail_policy::plan::Unnamed;

use super::connection::Host;
use super::flow::{Flow, Moved, Pipes};
use super::gate::{Gate, USUAL};
use super::hello::{Hello, Said, UNFINISHED};
use super::http::{self, Requests, Wants};
use crate::sys::socket::unread;

/// That a peer will say no more, perhaps behind bytes that are still to be read.
const ENDS: EpollFlags = EpollFlags::EPOLLRDHUP
    .union(EpollFlags::EPOLLHUP)
    .union(EpollFlags::EPOLLERR);

/// So often requests are looked at before others have their turn.
const TURN: usize = 16;

/// Both ends and what flows between them.
#[derive(Debug)]
pub struct Open {
    /// The end outside.
    pub server: TcpStream,
    /// First words whose meaning is not clear yet: nothing of them has gone out.
    hello: Option<Hello>,
    /// HTTP that is read along, request by request.
    requests: Option<Requests>,
    /// From whoever dialled.
    pub(super) up: Flow,
    /// To whoever dialled.
    pub(super) down: Flow,
    /// Whether nothing goes up any more because somebody broke off; what whoever dialled is
    /// still to get comes first.
    broken: bool,
    /// Whether it was whoever dialled: what can be passed on at once still is.
    gone: bool,
    /// Whether the end of what comes up is known to have come, behind what is to be read.
    said_all: bool,
    /// The same of what comes down.
    answered_all: bool,
}

/// What became of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// It waits for one of its sockets.
    Waits,
    /// It wants another turn.
    More,
    /// Both sides have ended in good order.
    Ended,
    /// One side broke off; so the other is.
    Broken,
    /// The same, once the other has got the last words: to be looked at again soon.
    Lingers,
    /// The first words were for somebody else: why.
    Refused {
        /// As it goes on behind the host's name.
        why: String,
        /// What would let it through.
        fix: Option<String>,
    },
}

impl Open {
    /// Both ends, and whatever is to be said to whoever dialled before anything else.
    pub fn new(server: TcpStream, hello: Option<Hello>, down: Flow) -> Open {
        Open {
            server,
            hello,
            requests: None,
            up: Flow::default(),
            down,
            broken: false,
            gone: false,
            said_all: false,
            answered_all: false,
        }
    }

    /// News of the command's end.
    pub fn client_has(&mut self, news: EpollFlags) {
        if news.contains(EpollFlags::EPOLLPRI) {
            self.up.read_plainly();
        }
        if news.contains(EpollFlags::EPOLLERR) {
            self.gone = true;
        }
        self.said_all |= news.intersects(ENDS);
    }

    /// News of the end outside.
    pub fn server_has(&mut self, news: EpollFlags) {
        if news.contains(EpollFlags::EPOLLPRI) {
            self.down.read_plainly();
        }
        self.answered_all |= news.intersects(ENDS);
    }

    /// Moves bytes.
    pub fn advance(
        &mut self,
        client: &TcpStream,
        host: &Host,
        port: u16,
        gate: &Gate,
        pipes: &mut Pipes,
    ) -> Turn {
        if self.hello.is_some() {
            match self.listen(client, host, port, gate) {
                Ok(()) => {}
                Err(turn) => return turn,
            }
        }
        let up = match self.hello {
            _ if self.broken => Moved::Broken,
            Some(_) => Moved::Waits,
            None => match self.up(client, host, port, gate, pipes) {
                Ok(moved) => moved,
                Err(turn) => return turn,
            },
        };
        if up == Moved::Broken {
            self.broken = true;
            self.down.cut();
        }
        let down = match self.requests.as_ref().map(Requests::wants) {
            _ if self.gone => Moved::Waits,
            // Held until its first line has been seen.
            Some(Wants::Answer) => Moved::Waits,
            _ => self.down.advance(&self.server, client, pipes),
        };
        let turn = match (up, down) {
            // A server that breaks off may have given its answer before.
            (Moved::Broken, Moved::More) => Turn::More,
            (Moved::Broken, Moved::Waits) if self.down.holds_bytes() && !self.gone => Turn::Waits,
            (Moved::Broken, _) | (_, Moved::Broken) => Turn::Broken,
            _ if self.up.is_done() && self.down.is_done() => Turn::Ended,
            (Moved::More, _) | (_, Moved::More) => Turn::More,
            (Moved::Waits, Moved::Waits) if self.gone => Turn::Broken,
            (Moved::Waits, Moved::Waits) => Turn::Waits,
        };
        // A reset overtakes what was said before it.
        let says_last = || unread(client.as_fd()).is_ok_and(|count| count > 0);
        match turn {
            Turn::Broken if !self.gone && says_last() => {
                self.broken = true;
                Turn::Lingers
            }
            turn => turn,
        }
    }

    /// Reads first words until it is clear whom they are for.
    fn listen(
        &mut self,
        mut client: &TcpStream,
        host: &Host,
        port: u16,
        gate: &Gate,
    ) -> Result<(), Turn> {
        let Some(mut hello) = self.hello.take() else {
            return Ok(());
        };
        let mut piece = [0; 16 << 10];
        loop {
            let said = hello.read();
            if said != Said::More {
                return self.begin(hello.into_words(), said, host, port, gate);
            }
            match client.read(&mut piece) {
                Ok(0) if hello.is_empty() => {
                    self.up.end();
                    return Ok(());
                }
                Ok(0) => {
                    self.up.end();
                    return self.begin(hello.into_words(), UNFINISHED, host, port, gate);
                }
                Ok(length) => hello.add(piece.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.hello = Some(hello);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Turn::Broken),
            }
        }
    }

    /// The first words are complete: lets them go on, if they may.
    fn begin(
        &mut self,
        words: Vec<u8>,
        said: Said,
        host: &Host,
        port: u16,
        gate: &Gate,
    ) -> Result<(), Turn> {
        let is_http = words.first().is_some_and(u8::is_ascii_uppercase);
        match (host, &said) {
            (Host::Name(name), Said::Name(other)) if is_http && name == other => {
                let mut requests = Requests::to(name);
                let out = passed(requests.take(&words), &mut requests, host, port, gate)?;
                self.up.first(out);
                self.requests = Some(requests);
            }
            _ => {
                judge(said, host, port, gate)?;
                self.up.first(words);
            }
        }
        Ok(())
    }

    /// Moves what the client says; requests are read before they go on.
    fn up(
        &mut self,
        mut client: &TcpStream,
        host: &Host,
        port: u16,
        gate: &Gate,
        pipes: &mut Pipes,
    ) -> Result<Moved, Turn> {
        let mut piece = [0; 16 << 10];
        for _ in 0..TURN {
            let Some(requests) = &mut self.requests else {
                return Ok(self.up.advance(client, &self.server, pipes));
            };
            let allowance = match requests.wants() {
                Wants::Everything => None,
                Wants::Bytes(count) => Some(count),
                Wants::Words => Some(0),
                Wants::Answer => {
                    if let Some(line) = first_of_answer(&self.server, self.answered_all) {
                        let out = requests.answered(&line);
                        let out = passed(out, requests, host, port, gate)?;
                        self.up.first(out);
                        continue;
                    }
                    // Whoever has said all and goes is not kept for the answer's sake.
                    if self.said_all && !requests.holds_words() {
                        self.up.end();
                    }
                    Some(0)
                }
            };
            self.up.allow(allowance);
            let moved = self.up.advance(client, &self.server, pipes);
            requests.passed(self.up.took());
            if moved != Moved::Waits || !self.up.is_held() {
                return Ok(moved);
            }
            match requests.wants() {
                Wants::Answer if allowance == Some(0) => return Ok(Moved::Waits),
                Wants::Words => {}
                _ => continue,
            }
            match client.read(&mut piece) {
                Ok(0) => self.up.end(),
                Ok(length) => {
                    let out = requests.take(piece.get(..length).unwrap_or_default());
                    let out = passed(out, requests, host, port, gate)?;
                    self.up.first(out);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Moved::Waits),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Ok(Moved::Broken),
            }
        }
        Ok(Moved::More)
    }
}

/// What of a stream of requests may go on; a fault is judged as first words are.
fn passed(
    taken: Result<Vec<u8>, Said>,
    requests: &mut Requests,
    host: &Host,
    port: u16,
    gate: &Gate,
) -> Result<Vec<u8>, Turn> {
    match taken {
        Ok(out) => Ok(out),
        Err(said) => {
            judge(said, host, port, gate)?;
            Ok(requests.free())
        }
    }
}

/// The beginning of an answer's first line, which stays where it is; what there is of it, if
/// the server has `ended`; `None` if it is not there yet.
fn first_of_answer(server: &TcpStream, ended: bool) -> Option<Vec<u8>> {
    let mut line = [0; http::ANSWER];
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    match recv(server.as_raw_fd(), &mut line, flags) {
        Ok(length) if ended || length == line.len() || length == 0 => {
            Some(line.get(..length).unwrap_or_default().to_vec())
        }
        Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => None,
        Err(_) => Some(Vec::new()),
    }
}

/// Whether first words are for the host that was dialled.
fn judge(said: Said, host: &Host, port: u16, gate: &Gate) -> Result<(), Turn> {
    let refused = |why: String, fix: Option<String>| Err(Turn::Refused { why, fix });
    let Host::Name(name) = host else {
        // An address was allowed as such: whoever is there is meant.
        return Ok(());
    };
    let why = match said {
        Said::Name(other) if other == *name => return Ok(()),
        Said::Name(other) | Said::Odd(other) => {
            return refused(
                format!("was dialled, but what was said was for {other}"),
                None,
            );
        }
        Said::Nobody(why) => why,
        Said::Other if USUAL.contains(&port) => "it speaks neither TLS nor HTTP",
        Said::Other | Said::More => return Ok(()),
    };
    match gate.unnamed() {
        Unnamed::Allow => Ok(()),
        Unnamed::Refuse => refused(
            format!("was dialled, but the connection does not say for whom: {why}"),
            Some("`unnamed = \"allow\"` below [network] in the policy".to_owned()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sjail_policy::plan::{Network, NetworkMode, Unlisted};

    fn gate(unnamed: Unnamed) -> Gate {
        Gate::new(&Network {
            mode: NetworkMode::Filtered,
            allow: Vec::new(),
            deny: Vec::new(),
            unlisted: Unlisted::Refuse,
            unnamed,
            publish: Vec::new(),
            proxy: Default::default(),
            ssh_agent: Vec::new(),
        })
    }

    #[test]
    fn first_words_must_be_for_the_host() {
        let host = Host::Name("a.test".into());
        let strict = gate(Unnamed::Refuse);
        let mild = gate(Unnamed::Allow);
        let is = |said: Said, port, gate: &Gate| judge(said, &host, port, gate).is_ok();
        assert!(is(Said::Name("a.test".into()), 443, &strict));
        assert!(!is(Said::Name("b.test".into()), 443, &mild));
        assert!(!is(Said::Odd("a.test\0".into()), 443, &mild));
        assert!(!is(Said::Nobody("x"), 443, &strict));
        assert!(!is(Said::Nobody("x"), 8443, &strict));
        assert!(is(Said::Nobody("x"), 443, &mild));
        assert!(!is(Said::Other, 443, &strict));
        assert!(is(Said::Other, 22, &strict));
    }
}
