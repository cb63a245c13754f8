//! The words between the supervisor outside and pid 1 inside.
//!
//! ```text
//!   supervisor ── Go, Start, Signal, Foreground, Background, Settle,
//!                 Halt, Resume ────────────────────────────────────► pid 1 of the jail
//!              ◄─ Failed | Ready (+ pty master) ·
//!                 Started (+ /proc) · Stopped* · Settled* · Exited ─
//! ```
//!
//! One `SOCK_SEQPACKET` pair, close-on-exec at both ends, so the command itself never
//! holds it. Every message is [`SIZE`] bytes, encoded by hand: pid 1 must not allocate.
//! The supervisor does not trust what it reads: an unknown or short message is an
//! error, a second descriptor is closed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use crate::step::{Failure, Step};
use crate::sys::socket;

/// The length of every message: four 32-bit words.
pub const SIZE: usize = 16;

/// What the supervisor says to pid 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToJail {
    /// Everything outside is prepared (limits group, namespace handles): go on.
    Go,
    /// The command may start, if pid 1 was told to wait for this word.
    Start,
    /// Send this signal to the command's process group.
    Signal(i32),
    /// Send this signal to the command's first process alone.
    SignalCommand(i32),
    /// Give the command's process group the pty's foreground.
    Foreground,
    /// Take the pty's foreground away from it (pid 1's own group has it then): the next
    /// read from the pty stops the command with SIGTTIN, which is a `Stopped`.
    Background,
    /// Say `Settled` when all that was said before is done.
    Settle,
    /// Stop every process of the jail, and do not report that.
    Halt,
    /// Whoever said `Halt` lets them go on now: report again who stops.
    Resume,
}

/// What pid 1 says to the supervisor.
#[derive(Debug, PartialEq, Eq)]
pub enum FromJail {
    /// The set-up failed; pid 1 ends after this.
    Failed(Failure),
    /// Every layer is on and verified; comes with the pty's master when there is a pty.
    Ready,
    /// The command has been executed; its pid is the one inside. Comes with a descriptor
    /// of the jail's `/proc`, through which the watchdog looks.
    Started {
        /// The pid in the jail's own pid namespace.
        pid: i32,
    },
    /// The command was stopped by a signal (Ctrl-Z, or a read or write of the pty from
    /// the background).
    Stopped {
        /// The signal that stopped it.
        signal: i32,
    },
    /// What was said before `Settle` is done.
    Settled,
    /// The command is under observation; comes with the observer's descriptor, before
    /// `Started`.
    Observed,
    /// The command ended; pid 1 ends after this, and all other processes with it.
    Exited {
        /// The raw status as `waitpid` gave it.
        status: i32,
    },
}

/// The supervisor's end.
#[derive(Debug)]
pub struct Outside(OwnedFd);

/// The end of pid 1.
#[derive(Debug)]
pub struct Inside(OwnedFd);

/// A new channel: the supervisor's end and the jail's.
pub fn pair() -> nix::Result<(Outside, Inside)> {
    let (outside, inside) = socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?;
    Ok((Outside(outside), Inside(inside)))
}

impl Outside {
    /// Says something to pid 1. `EPIPE` or `ECONNRESET` means that it has ended.
    pub fn send(&self, message: ToJail) -> nix::Result<()> {
        let words = match message {
            ToJail::Go => [1, 0, 0, 0],
            ToJail::Signal(signal) => [2, signal, 0, 0],
            ToJail::SignalCommand(signal) => [3, signal, 0, 0],
            ToJail::Foreground => [4, 0, 0, 0],
            ToJail::Background => [5, 0, 0, 0],
            ToJail::Start => [6, 0, 0, 0],
            ToJail::Settle => [7, 0, 0, 0],
            ToJail::Halt => [8, 0, 0, 0],
            ToJail::Resume => [9, 0, 0, 0],
        };
        socket::send(self.0.as_fd(), &encode(words), None)
    }

    /// Whether pid 1 has read all that was said, and so done all but the last of it.
    pub fn is_heard(&self) -> bool {
        !matches!(socket::unread(self.0.as_fd()), Ok(unread) if unread > 0)
    }

    /// Waits for the next message; `None` when pid 1 has closed its end, that is, ended.
    pub fn receive(&self) -> nix::Result<Option<(FromJail, Option<OwnedFd>)>> {
        let mut bytes = [0; SIZE];
        let (length, descriptor) = match socket::receive(self.0.as_fd(), &mut bytes) {
            // Pid 1 ended without reading all we said. That is told once, before its own
            // last words: the next look finds those, or the end.
            Err(Errno::ECONNRESET) => socket::receive(self.0.as_fd(), &mut bytes)?,
            received => received?,
        };
        if length == 0 {
            return Ok(None);
        }
        let message = decode(&bytes, length)
            .and_then(|[tag, a, b, c]| match tag {
                1 => Some(FromJail::Failed(Failure {
                    step: Step::from_number(a)?,
                    errno: b,
                    item: c as u32,
                })),
                2 => Some(FromJail::Ready),
                3 => Some(FromJail::Started { pid: a }),
                4 => Some(FromJail::Stopped { signal: a }),
                5 => Some(FromJail::Exited { status: a }),
                6 => Some(FromJail::Observed),
                7 => Some(FromJail::Settled),
                _ => None,
            })
            .ok_or(Errno::EBADMSG)?;
        Ok(Some((message, descriptor)))
    }
}

impl AsFd for Outside {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Inside {
    /// Tells the supervisor, handing over a descriptor where there is one.
    pub fn send(&self, message: &FromJail, descriptor: Option<BorrowedFd<'_>>) -> nix::Result<()> {
        let words = match message {
            FromJail::Failed(failure) => {
                [1, failure.step as i32, failure.errno, failure.item as i32]
            }
            FromJail::Ready => [2, 0, 0, 0],
            FromJail::Started { pid } => [3, *pid, 0, 0],
            FromJail::Stopped { signal } => [4, *signal, 0, 0],
            FromJail::Exited { status } => [5, *status, 0, 0],
            FromJail::Observed => [6, 0, 0, 0],
            FromJail::Settled => [7, 0, 0, 0],
        };
        socket::send(self.0.as_fd(), &encode(words), descriptor)
    }

    /// Waits for the supervisor's next word; `None` when the supervisor is gone.
    pub fn receive(&self) -> nix::Result<Option<ToJail>> {
        let mut bytes = [0; SIZE];
        let (length, _) = socket::receive(self.0.as_fd(), &mut bytes)?;
        if length == 0 {
            return Ok(None);
        }
        match decode(&bytes, length) {
            Some([1, ..]) => Ok(Some(ToJail::Go)),
            Some([2, signal, ..]) => Ok(Some(ToJail::Signal(signal))),
            Some([3, signal, ..]) => Ok(Some(ToJail::SignalCommand(signal))),
            Some([4, ..]) => Ok(Some(ToJail::Foreground)),
            Some([5, ..]) => Ok(Some(ToJail::Background)),
            Some([6, ..]) => Ok(Some(ToJail::Start)),
            Some([7, ..]) => Ok(Some(ToJail::Settle)),
            Some([8, ..]) => Ok(Some(ToJail::Halt)),
            Some([9, ..]) => Ok(Some(ToJail::Resume)),
            _ => Err(Errno::EBADMSG),
        }
    }
}

impl AsFd for Inside {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn encode(words: [i32; 4]) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    for (chunk, word) in bytes.chunks_exact_mut(4).zip(words) {
        chunk.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

fn decode(bytes: &[u8; SIZE], length: usize) -> Option<[i32; 4]> {
    if length != SIZE {
        return None;
    }
    let mut words = [0; 4];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = i32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_message_arrives_as_it_was_sent() {
        let (outside, inside) = pair().unwrap();
        for message in [
            ToJail::Go,
            ToJail::Signal(15),
            ToJail::SignalCommand(10),
            ToJail::Foreground,
            ToJail::Background,
            ToJail::Start,
            ToJail::Settle,
            ToJail::Halt,
            ToJail::Resume,
        ] {
            outside.send(message).unwrap();
            assert!(!outside.is_heard());
            assert_eq!(inside.receive().unwrap(), Some(message));
            assert!(outside.is_heard());
        }
        let failure = Failure {
            step: Step::Attach,
            errno: 13,
            item: 7,
        };
        for message in [
            FromJail::Failed(failure),
            FromJail::Ready,
            FromJail::Started { pid: 2 },
            FromJail::Stopped { signal: 20 },
            FromJail::Settled,
            FromJail::Exited { status: 256 },
        ] {
            inside.send(&message, None).unwrap();
            let (received, descriptor) = outside.receive().unwrap().unwrap();
            assert_eq!(received, message);
            assert!(descriptor.is_none());
        }
    }

    #[test]
    fn a_descriptor_travels_with_ready() {
        let (outside, inside) = pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        inside.send(&FromJail::Ready, Some(file.as_fd())).unwrap();
        let (message, descriptor) = outside.receive().unwrap().unwrap();
        assert_eq!(message, FromJail::Ready);
        assert!(descriptor.is_some());
    }

    #[test]
    fn last_words_arrive_although_the_speaker_did_not_listen() {
        let (outside, inside) = pair().unwrap();
        outside.send(ToJail::Go).unwrap();
        inside.send(&FromJail::Ready, None).unwrap();
        drop(inside);
        let (message, _) = outside.receive().unwrap().unwrap();
        assert_eq!(message, FromJail::Ready);
        assert!(outside.receive().unwrap().is_none());
    }

    #[test]
    fn end_of_file_and_garbage_are_told_apart() {
        let (outside, inside) = pair().unwrap();
        socket::send(inside.as_fd(), b"short", None).unwrap();
        assert_eq!(outside.receive().map(drop), Err(Errno::EBADMSG));
        socket::send(inside.as_fd(), &encode([99, 0, 0, 0]), None).unwrap();
        assert_eq!(outside.receive().map(drop), Err(Errno::EBADMSG));
        drop(inside);
        assert!(outside.receive().unwrap().is_none());
    }
}
