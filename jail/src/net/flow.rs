//! One direction of a connection: bytes from one socket to the other, through a pipe, so
//! that they never come into the relay's own memory.

use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::sys::socket::{MsgFlags, recv, send};
use nix::unistd::pipe2;
use std::os::fd::AsRawFd;

/// What a pipe holds at first, which is what the kernel gives.
const SMALL: usize = 64 << 10;

/// What a pipe holds that was filled to the brim, if the kernel gives that much: the most that
/// it gives to an ordinary user.
const LARGE: usize = 1 << 20;

/// So many of them: a user's share is not large.
const MOST_LARGE: usize = 16;

/// What is moved in one go.
const PIECE: usize = LARGE;

/// So many moves before others have their turn.
const TURN: usize = 16;

/// So many empty pipes are kept for the next who needs one.
const SPARE: usize = 64;

/// Pipes that nobody uses at the moment.
#[derive(Debug, Default)]
pub struct Pipes {
    small: Vec<Pipe>,
    large: Vec<Pipe>,
    /// Each large one has a part of this, in use or not.
    share: Rc<()>,
}

/// An empty pipe, or one that a flow is filling.
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    /// Of a large one.
    share: Option<Rc<()>>,
}

impl Pipes {
    /// A pipe; a large one for much, as long as there are any.
    fn take(&mut self, much: bool) -> nix::Result<Pipe> {
        if much && let Some(pipe) = self.large.pop() {
            return Ok(pipe);
        }
        let mut pipe = match self.small.pop() {
            Some(pipe) => pipe,
            None => {
                let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
                Pipe {
                    reader,
                    writer,
                    share: None,
                }
            }
        };
        if much && Rc::strong_count(&self.share) <= MOST_LARGE {
            // Beyond the user's share the kernel gives less; that is slower, not wrong.
            let _ = fcntl(&pipe.writer, FcntlArg::F_SETPIPE_SZ(LARGE as i32));
            pipe.share = Some(Rc::clone(&self.share));
        }
        Ok(pipe)
    }

    fn give(&mut self, pipe: Pipe) {
        match pipe.share {
            Some(_) => self.large.push(pipe),
            None if self.small.len() < SPARE => self.small.push(pipe),
            None => {}
        }
    }
}

/// One direction.
#[derive(Debug, Default)]
pub struct Flow {
    /// What goes first: bytes that were read to see whom they are for.
    head: Vec<u8>,
    /// The pipe, while bytes are in it.
    pipe: Option<Pipe>,
    inside: usize,
    ended: bool,
    /// Whether what ends here was cut off: the end is then none to be passed on.
    cut: bool,
    /// Whether the source has sent urgent data, which splice stops at.
    urgent: bool,
    /// How much may be taken from the source; everything, if nothing is said.
    allowance: Option<u64>,
    /// Whether there was more than a small pipe holds.
    much: bool,
    /// What was taken since somebody asked.
    taken: u64,
    /// Whether the end has been passed on: nothing more will come.
    done: bool,
    /// Bytes that were passed on.
    total: u64,
}

/// How far it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// As far as it goes for now.
    Waits,
    /// There is more, after others have had their turn.
    More,
    /// One of the two is broken.
    Broken,
}

impl Flow {
    /// Bytes to be passed on before any that are still with the source.
    pub fn first(&mut self, head: Vec<u8>) {
        self.head.extend(head);
    }

    /// How much may be taken from the source from now on.
    pub fn allow(&mut self, allowance: Option<u64>) {
        self.allowance = allowance;
    }

    /// How much was taken since this was asked last.
    pub fn took(&mut self) -> u64 {
        std::mem::take(&mut self.taken)
    }

    /// Whether it could go on, but may not.
    pub fn is_held(&self) -> bool {
        self.allowance == Some(0) && self.head.is_empty() && self.inside == 0 && !self.ended
    }

    /// The source has sent urgent data: it is read the plain way from now on.
    pub fn read_plainly(&mut self) {
        self.urgent = true;
    }

    /// Somebody has broken off: what is there is passed on, and then it is broken.
    pub fn cut(&mut self) {
        self.cut = true;
    }

    /// Whether bytes were taken that have not been passed on.
    pub fn holds_bytes(&self) -> bool {
        !self.head.is_empty() || self.inside > 0
    }

    /// The source has ended.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Whether everything has been passed on, and the end as well.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Bytes that were passed on.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Moves what can be moved.
    pub fn advance(&mut self, from: &TcpStream, to: &TcpStream, pipes: &mut Pipes) -> Moved {
        for _ in 0..TURN {
            if self.done {
                return Moved::Waits;
            }
            match self.step(from, to, pipes) {
                Ok(()) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Moved::Waits,
                Err(_) => return Moved::Broken,
            }
        }
        Moved::More
    }

    fn step(&mut self, from: &TcpStream, to: &TcpStream, pipes: &mut Pipes) -> nix::Result<()> {
        let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
        if !self.head.is_empty() {
            let sent = send(to.as_raw_fd(), &self.head, MsgFlags::MSG_NOSIGNAL)?;
            self.total += sent as u64;
            self.head.drain(..sent);
            return Ok(());
        }
        if self.inside > 0 {
            let Some(pipe) = &self.pipe else {
                return Err(Errno::EPIPE);
            };
            let moved = splice(&pipe.reader, None, to, None, self.inside, flags)?;
            self.total += moved as u64;
            self.inside = self.inside.saturating_sub(moved);
            if self.inside == 0
                && let Some(pipe) = self.pipe.take()
            {
                pipes.give(pipe);
            }
            return Ok(());
        }
        if self.ended && self.cut {
            return Err(Errno::ECONNRESET);
        }
        if self.ended {
            self.done = true;
            // The other side may have gone: then it needs no telling.
            let _ = to.shutdown(Shutdown::Write);
            return Ok(());
        }
        let piece = match self.allowance {
            Some(0) => return Err(Errno::EAGAIN),
            Some(left) => PIECE.min(usize::try_from(left).unwrap_or(PIECE)),
            None => PIECE,
        };
        if self.urgent {
            return self.read(from, piece);
        }
        let pipe = pipes.take(self.much)?;
        match splice(from, None, &pipe.writer, None, piece, flags) {
            Ok(0) => {
                pipes.give(pipe);
                // In front of urgent data splice finds the end too early.
                self.read(from, piece)
            }
            Ok(moved) => {
                self.inside = moved;
                self.much = moved >= SMALL / 2;
                self.took_in(moved);
                self.pipe = Some(pipe);
                Ok(())
            }
            Err(errno) => {
                pipes.give(pipe);
                // The kernel says so once, and speaks of an end afterwards.
                if !matches!(errno, Errno::EAGAIN | Errno::EINTR) {
                    (self.ended, self.cut) = (true, true);
                }
                Err(errno)
            }
        }
    }

    fn read(&mut self, from: &TcpStream, most: usize) -> nix::Result<()> {
        let mut bytes = [0; 4 << 10];
        let room = most.min(bytes.len());
        let room = bytes.get_mut(..room).unwrap_or_default();
        let length = recv(from.as_raw_fd(), room, MsgFlags::MSG_DONTWAIT)?;
        if length == 0 {
            self.ended = true;
        }
        self.head
            .extend_from_slice(room.get(..length).unwrap_or_default());
        self.took_in(length);
        Ok(())
    }

    fn took_in(&mut self, count: usize) {
        self.taken += count as u64;
        self.allowance = self.allowance.map(|left| left.saturating_sub(count as u64));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (two, _) = listener.accept().unwrap();
        (one, two)
    }

    #[test]
    fn large_pipes_are_few_and_used_again() {
        let mut pipes = Pipes::default();
        let is_large = |pipe: &Pipe| pipe.share.is_some();
        assert!(!is_large(&pipes.take(false).unwrap()));
        let mut taken: Vec<Pipe> = (0..MOST_LARGE + 4)
            .map(|_| pipes.take(true).unwrap())
            .collect();
        assert_eq!(
            taken.iter().filter(|pipe| is_large(pipe)).count(),
            MOST_LARGE
        );
        // One that is gone makes room, and one that is given back is taken again.
        drop(taken.remove(0));
        assert!(is_large(&pipes.take(true).unwrap()));
        pipes.give(taken.remove(0));
        assert!(is_large(&pipes.take(true).unwrap()));
        assert!(pipes.large.is_empty());
    }

    #[test]
    fn bytes_and_the_end_are_passed_on() {
        let (mut source, from) = pair();
        let (to, mut sink) = pair();
        from.set_nonblocking(true).unwrap();
        to.set_nonblocking(true).unwrap();
        let mut pipes = Pipes::default();
        let mut flow = Flow::default();
        flow.first(b"first ".to_vec());
        let writer = std::thread::spawn(move || {
            source.write_all(&vec![b'x'; 3 << 20]).unwrap();
        });
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            sink.read_to_end(&mut all).unwrap();
            all
        });
        while !flow.is_done() {
            assert_ne!(flow.advance(&from, &to, &mut pipes), Moved::Broken);
            std::thread::yield_now();
        }
        writer.join().unwrap();
        let all = reader.join().unwrap();
        assert_eq!(all.len(), (3 << 20) + 6);
        assert!(all.starts_with(b"first xxx"));
        assert_eq!(flow.total(), all.len() as u64);
    }
}
