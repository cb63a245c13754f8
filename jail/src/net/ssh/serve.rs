//! The process that stands between the command and the owner's ssh agent.
//!
//! It is confined as the relay is and cannot reach that agent by itself: the supervisor
//! hands it one connection for each that is opened inside.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::session::{self, Act, Allowed, Session, Then};
use super::wire::{self, Next};
use crate::net::record::{Decision, Entry, FromRelay, LONGEST, Ledger, ToRelay};
use crate::net::relay::tell;
use crate::sys::socket;

/// So many connections at once; others wait.
const MOST: usize = 16;

/// Whose refusals these are.
const AGENT: &str = "ssh-agent";

/// The process's state.
#[derive(Debug)]
pub struct Agent {
    channel: OwnedFd,
    listener: UnixListener,
    allowed: Allowed,
    clients: Vec<Client>,
    ledger: Ledger,
    next: u64,
    /// Who waits for a connection to the owner's agent, in the order in which they asked.
    waiting: VecDeque<u64>,
}

/// One connection from inside.
#[derive(Debug)]
struct Client {
    number: u64,
    inside: Side,
    outside: Option<Side>,
    session: Session,
    /// The request that is under way.
    under_way: Option<(Vec<u8>, Then)>,
}

/// One end, and what has come from it.
#[derive(Debug)]
struct Side {
    stream: UnixStream,
    came: Vec<u8>,
}

/// What follows for a connection.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Ends,
}

impl Agent {
    /// Serves a socket of the jail's.
    pub fn new(channel: OwnedFd, listener: OwnedFd, allowed: Allowed) -> nix::Result<Agent> {
        let listener = UnixListener::from(listener);
        listener.set_nonblocking(true).map_err(|_| Errno::EBADF)?;
        Ok(Agent {
            channel,
            listener,
            allowed,
            clients: Vec::new(),
            ledger: Ledger::default(),
            next: 0,
            waiting: VecDeque::new(),
        })
    }

    /// Serves until the supervisor ends it, then hands in the ledger.
    pub fn run(mut self) -> nix::Result<()> {
        loop {
            let News {
                word,
                accept,
                ready,
            } = self.wait()?;
            if word && self.word()? {
                break;
            }
            for (number, inside, outside) in ready {
                self.serve(number, inside, outside);
            }
            if accept {
                self.accept();
            }
        }
        for entry in self.ledger.finish() {
            tell(&self.channel, &FromRelay::Entry(Box::new(entry)))?;
        }
        Ok(())
    }

    /// Waits for news: of the supervisor, of somebody new, of connections inside and outside.
    fn wait(&self) -> nix::Result<News> {
        let mut list = vec![PollFd::new(self.channel.as_fd(), PollFlags::POLLIN)];
        let mut owners = Vec::new();
        if self.clients.len() < MOST {
            list.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        }
        let others = list.len();
        for client in &self.clients {
            // While a request is under way the next one waits; that somebody has gone is heard.
            let wanted = match client.under_way {
                None => PollFlags::POLLIN,
                Some(_) => PollFlags::empty(),
            };
            list.push(PollFd::new(client.inside.stream.as_fd(), wanted));
            owners.push((client.number, true));
            if let Some(outside) = &client.outside {
                list.push(PollFd::new(outside.stream.as_fd(), PollFlags::POLLIN));
                owners.push((client.number, false));
            }
        }
        match poll(&mut list, PollTimeout::NONE) {
            Err(Errno::EINTR) => return Ok(News::default()),
            done => done?,
        };
        let news = |fd: &PollFd<'_>| fd.any().unwrap_or(false);
        let word = list.first().is_some_and(news);
        let accept = others > 1 && list.get(1).is_some_and(news);
        let mut ready: Vec<(u64, bool, bool)> = Vec::new();
        for (fd, (number, is_inside)) in list.iter().skip(others).zip(owners) {
            if !news(fd) {
                continue;
            }
            match ready.last_mut().filter(|last| last.0 == number) {
                Some(last) => last.2 |= !is_inside,
                None => ready.push((number, is_inside, !is_inside)),
            }
        }
        Ok(News {
            word,
            accept,
            ready,
        })
    }

    /// The supervisor speaks; whether that is the end.
    fn word(&mut self) -> nix::Result<bool> {
        let mut bytes = [0; LONGEST];
        let (length, descriptor) = socket::receive(self.channel.as_fd(), &mut bytes)?;
        let word = serde_json::from_slice(bytes.get(..length).unwrap_or_default());
        match word.map_err(|_| Errno::EPIPE)? {
            ToRelay::Finish => return Ok(true),
            ToRelay::Dialled => self.dialled(descriptor),
            ToRelay::Answer { .. } => {}
        }
        Ok(false)
    }

    fn accept(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else {
            return;
        };
        if stream.set_nonblocking(true).is_ok() {
            self.next += 1;
            self.clients.push(Client {
                number: self.next,
                inside: Side::new(stream),
                outside: None,
                session: Session::default(),
                under_way: None,
            });
        }
    }

    /// The owner's agent has been dialled for whoever asked first, or is not there.
    fn dialled(&mut self, descriptor: Option<OwnedFd>) {
        let Some(number) = self.waiting.pop_front() else {
            return;
        };
        let Some(client) = self.clients.iter_mut().find(|own| own.number == number) else {
            return;
        };
        let stream = descriptor.map(UnixStream::from);
        let Some(stream) = stream.filter(|stream| stream.set_nonblocking(true).is_ok()) else {
            let entry = Entry::new(AGENT, None, Decision::Refuse);
            self.ledger
                .add(entry.because("was asked for, and your own agent did not answer"));
            self.clients.retain(|own| own.number != number);
            return;
        };
        client.outside = Some(Side::new(stream));
        if client.pass_on() == Fate::Ends {
            self.clients.retain(|own| own.number != number);
        }
    }

    fn serve(&mut self, number: u64, inside: bool, outside: bool) {
        let Some(at) = self.clients.iter().position(|own| own.number == number) else {
            return;
        };
        let mut fate = Fate::Stays;
        if outside {
            fate = self.answered(at);
        }
        if inside && fate == Fate::Stays {
            fate = self.asked(at);
        }
        if fate == Fate::Ends {
            self.clients.swap_remove(at);
        }
    }

    /// Something came from inside, or its end has closed.
    fn asked(&mut self, at: usize) -> Fate {
        let Some(client) = self.clients.get_mut(at) else {
            return Fate::Stays;
        };
        if client.under_way.is_some() || client.inside.read() == Fate::Ends {
            return Fate::Ends;
        }
        loop {
            let request = match wire::next(&mut client.inside.came) {
                Next::More => return Fate::Stays,
                Next::TooLong => return Fate::Ends,
                Next::Message(request) => request,
            };
            match client.session.judge(&request, &self.allowed) {
                Act::Pass(then) => {
                    client.under_way = Some((request, then));
                    if client.outside.is_some() {
                        return client.pass_on();
                    }
                    self.waiting.push_back(client.number);
                    return match tell(&self.channel, &FromRelay::Dial) {
                        Ok(()) => Fate::Stays,
                        Err(_) => Fate::Ends,
                    };
                }
                Act::Refuse(refused) => {
                    let why = match refused.host {
                        Some(host) => format!("{} (in a session with {})", refused.why, host.name),
                        None => refused.why,
                    };
                    let entry = Entry::new(AGENT, None, Decision::Refuse);
                    self.ledger.add(entry.because(why));
                    if client.inside.say(&session::failure()) == Fate::Ends {
                        return Fate::Ends;
                    }
                }
            }
        }
    }

    /// The owner's agent has answered.
    fn answered(&mut self, at: usize) -> Fate {
        let Some(client) = self.clients.get_mut(at) else {
            return Fate::Stays;
        };
        let Some(outside) = &mut client.outside else {
            return Fate::Stays;
        };
        if outside.read() == Fate::Ends {
            return Fate::Ends;
        }
        let answer = match wire::next(&mut outside.came) {
            Next::More => return Fate::Stays,
            Next::TooLong => return Fate::Ends,
            Next::Message(answer) => answer,
        };
        let Some((_, then)) = client.under_way.take() else {
            // It was not asked.
            return Fate::Ends;
        };
        let (answer, signed) = client.session.answer(&then, &answer, &self.allowed);
        if let (true, Then::Sign { key, user, host }) = (signed, &then) {
            let entry = Entry::new(&host.name, Some(host.port), Decision::Allow);
            self.ledger.add(entry.signed(key, user));
        }
        client.inside.say(&answer)
    }
}

impl Client {
    /// The request that is under way goes to the owner's agent.
    fn pass_on(&mut self) -> Fate {
        match (&mut self.outside, &self.under_way) {
            (Some(outside), Some((request, _))) => outside.say(request),
            _ => Fate::Stays,
        }
    }
}

impl Side {
    fn new(stream: UnixStream) -> Side {
        Side {
            stream,
            came: Vec::new(),
        }
    }

    fn read(&mut self) -> Fate {
        let mut piece = [0; 8 << 10];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return Fate::Ends,
                Ok(length) => self
                    .came
                    .extend_from_slice(piece.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Fate::Stays,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Fate::Ends,
            }
            // One message, and a bit of the next.
            if self.came.len() > 2 * wire::LONGEST {
                return Fate::Ends;
            }
        }
    }

    /// Says a message; who does not read it goes without the next.
    fn say(&mut self, content: &[u8]) -> Fate {
        match self.stream.write_all(&wire::message(content)) {
            Ok(()) => Fate::Stays,
            Err(_) => Fate::Ends,
        }
    }
}

/// What has happened while nobody looked.
#[derive(Debug, Default)]
struct News {
    /// The supervisor has said something, or is gone.
    word: bool,
    /// Somebody new has come.
    accept: bool,
    /// Connections by number: news inside, news outside.
    ready: Vec<(u64, bool, bool)>,
}
