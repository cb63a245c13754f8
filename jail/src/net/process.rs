//! A relay's process, as the supervisor sees it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use ::landlock::ABI;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getpid};

use super::confine;
use super::gate::Gate;
use super::inside::Listener;
use super::lookup::Book;
use super::record::{Decision, Entry, FromRelay, LONGEST, ToRelay};
use super::relay::{self, Relay};
use crate::error::Error;
use crate::sys::{namespace, socket};

/// How long the relay may take to hand in its ledger.
const PATIENCE: Duration = Duration::from_secs(10);

/// A process of its own that relays and can do nothing else.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    channel: OwnedFd,
}

impl Process {
    /// Starts a relay: `enter` is done first, before the walls are up.
    pub fn start(
        enter: impl FnOnce() -> nix::Result<()>,
        listeners: Vec<Listener>,
        gate: Gate,
        book: Book,
        abi: Option<ABI>,
    ) -> Result<Process, Error> {
        let sockets = |listeners: &Vec<Listener>| -> Vec<RawFd> {
            let number = |listener: &Listener| listener.socket.as_raw_fd();
            listeners.iter().map(number).collect()
        };
        let work = |listeners, channel, descriptors| {
            Relay::new(channel, listeners, gate, book, descriptors).and_then(Relay::run)
        };
        Process::start_with(enter, listeners, sockets, abi, work)
    }

    /// Starts a process that does `work` with what it holds and its end of the channel;
    /// everything else is closed to it.
    pub fn start_with<T>(
        enter: impl FnOnce() -> nix::Result<()>,
        holds: T,
        descriptors: impl Fn(&T) -> Vec<RawFd>,
        abi: Option<ABI>,
        work: impl FnOnce(T, OwnedFd, u64) -> nix::Result<()>,
    ) -> Result<Process, Error> {
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )
        .map_err(Error::Network)?;
        let supervisor = getpid();
        let pid = namespace::apart(|| {
            let mut keep = descriptors(&holds);
            keep.push(theirs.as_raw_fd());
            let walls = enter()
                .map_err(|errno| ("entering the jail's network", errno))
                .and_then(|()| confine::confine(supervisor, &keep, abi));
            let most = match walls {
                Ok(most) => most,
                Err((wall, errno)) => {
                    let why = format!("{wall}: {errno}");
                    let _ = relay::tell(&theirs, &FromRelay::Failed { why });
                    return 1;
                }
            };
            let done =
                relay::tell(&theirs, &FromRelay::Ready).and_then(|()| work(holds, theirs, most));
            i32::from(done.is_err())
        })
        .map_err(Error::Network)?;
        let process = Process { pid, channel: ours };
        let why = match process.hear() {
            Ok(Some(FromRelay::Ready)) => return Ok(process),
            Ok(Some(FromRelay::Failed { why })) => why,
            _ => "it ended at once".to_owned(),
        };
        process.end();
        Err(Error::Relay { why })
    }

    /// Where it speaks, and is spoken to.
    pub fn channel(&self) -> &OwnedFd {
        &self.channel
    }

    /// Its next word; `None` when it has ended.
    pub fn hear(&self) -> nix::Result<Option<FromRelay>> {
        let mut bytes = vec![0; LONGEST];
        match socket::receive(self.channel.as_fd(), &mut bytes) {
            Ok((0, _)) | Err(Errno::ECONNRESET) => Ok(None),
            Ok((length, _)) => serde_json::from_slice(bytes.get(..length).unwrap_or_default())
                .map(Some)
                .map_err(|_| Errno::EBADMSG),
            Err(errno) => Err(errno),
        }
    }

    /// The jail has ended: what it has to say about it.
    pub fn finish(self) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut whole = say(&self.channel, &ToRelay::Finish).is_ok();
        let deadline = Instant::now() + PATIENCE;
        while whole {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut wait = [PollFd::new(self.channel.as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut wait, timeout) {
                Ok(0) => whole = false,
                Err(Errno::EINTR) => {}
                Err(_) => whole = false,
                Ok(_) => match self.hear() {
                    Ok(Some(FromRelay::Entry(entry))) => entries.push(*entry),
                    // It asks no more: nobody is left to be answered for.
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => whole = false,
                },
            }
        }
        match whole {
            true => self.wait(),
            false => {
                entries.push(silent());
                self.end();
            }
        }
        entries
    }

    /// Ends it, whatever it does.
    pub fn end(self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        self.wait();
    }

    fn wait(&self) {
        while waitpid(self.pid, None) == Err(Errno::EINTR) {}
    }
}

/// What is said about a relay that is not there to say it.
pub fn silent() -> Entry {
    Entry::new("(relay)", None, Decision::Refuse)
        .because("was ended before it could say what happened")
}

/// Says something to a relay.
pub fn say(channel: &OwnedFd, word: &ToRelay) -> nix::Result<()> {
    let bytes = serde_json::to_vec(word).map_err(|_| Errno::EINVAL)?;
    socket::send(channel.as_fd(), &bytes, None)
}
