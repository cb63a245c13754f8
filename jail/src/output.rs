//! The command's output where sjail has to see it: captured for a result object, or
//! passed on and counted.
//!
//! A plain run does not come here: the command then holds the caller's own
//! descriptors. Nothing here ever holds more than its bound: what is beyond is read and
//! dropped (captured output), or ends the run (output passed on).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{pipe2, read, write};

/// How much is read and passed on at once: the size of a pipe.
const CHUNK: usize = 64 << 10;

/// How much may be written to a descriptor that cannot be made non-blocking without
/// changing it for everybody who shares it: what a pipe takes whole once poll says
/// that it takes anything.
const CAREFUL_CHUNK: usize = 4096;

/// Of a bound on both streams together, this part is kept for standard error: a flood
/// on standard output must not drown the sentence that explains it.
const ERROR_SHARE: u64 = 8;

/// So much of the beginning and of the end of a stream is kept where it is passed on: as much
/// as the log takes at most.
pub const END: usize = 64 << 10;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Descriptor 1.
    Stdout,
    /// Descriptor 2.
    Stderr,
}

/// What is done with output beyond the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// It is dropped, the command goes on.
    Drop,
    /// The run is ended.
    End,
}

/// The bound on both streams together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    limit: Option<u64>,
    beyond: Beyond,
    used: u64,
    used_by_stderr: u64,
}

impl Budget {
    /// No more than `limit` bytes, if there is a limit.
    pub fn new(limit: Option<u64>, beyond: Beyond) -> Budget {
        Budget {
            limit,
            beyond,
            used: 0,
            used_by_stderr: 0,
        }
    }

    /// Takes `length` further bytes of a stream: how many of them are within the bound.
    pub fn take(&mut self, stream: Stream, length: usize) -> usize {
        let room = match self.limit {
            None => u64::MAX,
            Some(limit) => {
                let kept_back = match stream {
                    Stream::Stdout if self.beyond == Beyond::Drop => {
                        (limit / ERROR_SHARE).saturating_sub(self.used_by_stderr)
                    }
                    _ => 0,
                };
                limit.saturating_sub(self.used).saturating_sub(kept_back)
            }
        };
        let taken = usize::try_from(room).unwrap_or(usize::MAX).min(length);
        self.used += taken as u64;
        if stream == Stream::Stderr {
            self.used_by_stderr += taken as u64;
        }
        taken
    }

    /// What is done with the rest.
    pub fn beyond(&self) -> Beyond {
        self.beyond
    }

    /// The bound.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }
}

/// What became of some output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// It was taken; there may be more.
    Some,
    /// There is none at the moment, or nobody takes it.
    Later,
    /// The stream has ended.
    End,
    /// The bound is passed and the run has to end.
    TooMuch,
}

/// One output stream that runs through sjail.
#[derive(Debug)]
pub struct Tap {
    stream: Stream,
    source: Option<OwnedFd>,
    sink: Sink,
    truncated: bool,
}

#[derive(Debug)]
enum Sink {
    Keep(Vec<u8>),
    /// Passed on; what is kept of it on the way, if that is wanted.
    PassOn(Outlet, Option<Ends>),
}

/// The beginning and the end of a stream, of any length.
#[derive(Debug, Default)]
struct Ends {
    bytes: Vec<u8>,
    left_out: bool,
}

impl Ends {
    fn push(&mut self, more: &[u8]) {
        self.bytes.extend_from_slice(more);
        // Only now and then: moving bytes costs, too.
        if self.bytes.len() > 4 * END {
            self.left_out = true;
            self.bytes.drain(END..self.bytes.len() - END);
        }
    }
}

impl Tap {
    /// A pipe for `stream`: the tap, and the end that the command writes to.
    /// Its output is kept.
    pub fn keep(stream: Stream) -> Result<(Tap, OwnedFd), Errno> {
        Tap::new(stream, Sink::Keep(Vec::new()))
    }

    /// The same; its output goes on to our own descriptor of that number.
    pub fn pass_on(stream: Stream) -> Result<(Tap, OwnedFd), Errno> {
        Tap::new(stream, Sink::PassOn(Outlet::of(stream)?, None))
    }

    /// The same; its beginning and its end are kept on the way.
    pub fn pass_on_and_keep(stream: Stream) -> Result<(Tap, OwnedFd), Errno> {
        let sink = Sink::PassOn(Outlet::of(stream)?, Some(Ends::default()));
        Tap::new(stream, sink)
    }

    fn new(stream: Stream, sink: Sink) -> Result<(Tap, OwnedFd), Errno> {
        let (source, inside) = pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&source, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let tap = Tap {
            stream,
            source: Some(source),
            sink,
            truncated: false,
        };
        Ok((tap, inside))
    }

    /// The descriptor to wait for, and whether to wait for reading or writing.
    pub fn waits_for(&self) -> Option<Wait<'_>> {
        if let Sink::PassOn(outlet, _) = &self.sink
            && outlet.is_full()
        {
            return Some(Wait::ToWrite(outlet.as_fd()));
        }
        self.source
            .as_ref()
            .map(|source| Wait::ToRead(source.as_fd()))
    }

    /// Moves what there is, once.
    pub fn advance(&mut self, budget: &mut Budget, buffer: &mut Buffer) -> Passed {
        if let Sink::PassOn(outlet, _) = &mut self.sink
            && outlet.is_full()
        {
            match outlet.flush() {
                Ok(()) if outlet.is_full() => return Passed::Later,
                Ok(()) => {}
                Err(_) => return self.reader_left(),
            }
        }
        let Some(source) = &self.source else {
            return Passed::End;
        };
        let length = match read(source, buffer.bytes()) {
            Ok(0) => {
                self.source = None;
                return Passed::End;
            }
            Ok(length) => length,
            Err(Errno::EAGAIN | Errno::EINTR) => return Passed::Later,
            Err(_) => {
                self.source = None;
                return Passed::End;
            }
        };
        let within = budget.take(self.stream, length);
        let bytes = &buffer.bytes()[..within];
        match &mut self.sink {
            Sink::Keep(kept) => kept.extend_from_slice(bytes),
            Sink::PassOn(outlet, ends) => {
                if let Some(ends) = ends {
                    ends.push(bytes);
                }
                if outlet.push(bytes).is_err() {
                    return self.reader_left();
                }
            }
        }
        if within == length {
            return Passed::Some;
        }
        self.truncated = true;
        match budget.beyond() {
            Beyond::Drop => Passed::Some,
            Beyond::End => Passed::TooMuch,
        }
    }

    /// Whoever read our output has gone: closing our end gives the command the
    /// SIGPIPE it would have had without us.
    fn reader_left(&mut self) -> Passed {
        self.source = None;
        if let Sink::PassOn(outlet, _) = &mut self.sink {
            outlet.discard();
        }
        Passed::End
    }

    /// Whether it goes on to our own descriptor, whose reader may be slow.
    pub fn is_passed_on(&self) -> bool {
        matches!(self.sink, Sink::PassOn(..))
    }

    /// Nobody is left who could write: what is not there now never comes. (A descriptor
    /// of the pipe's other end that got out of the jail must not keep us waiting.)
    pub fn close(&mut self) {
        self.source = None;
    }

    /// Ends the tap: what was kept of which stream, and whether that is all.
    pub fn finish(self) -> Option<(Stream, Captured)> {
        let (bytes, left_out) = match self.sink {
            Sink::Keep(bytes) => (bytes, false),
            Sink::PassOn(_, Some(ends)) => (ends.bytes, ends.left_out),
            Sink::PassOn(_, None) => return None,
        };
        let captured = Captured {
            bytes,
            truncated: self.truncated || left_out,
        };
        Some((self.stream, captured))
    }

    #[cfg(test)]
    fn captured(self) -> Captured {
        Captured {
            bytes: match self.sink {
                Sink::Keep(bytes) => bytes,
                Sink::PassOn(..) => Vec::new(),
            },
            truncated: self.truncated,
        }
    }
}

/// What a tap is waiting for.
#[derive(Debug, Clone, Copy)]
pub enum Wait<'a> {
    /// The command writes.
    ToRead(BorrowedFd<'a>),
    /// Our reader reads.
    ToWrite(BorrowedFd<'a>),
}

/// Output that was kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Captured {
    /// The bytes within the bound.
    pub bytes: Vec<u8>,
    /// Whether there were more.
    pub truncated: bool,
}

/// The one buffer that all taps of a run share; a run without taps has none.
#[derive(Debug, Default)]
pub struct Buffer(Box<[u8]>);

impl Buffer {
    /// Its bytes, made when they are first wanted.
    pub fn bytes(&mut self) -> &mut [u8] {
        if self.0.is_empty() {
            self.0 = vec![0; CHUNK].into_boxed_slice();
        }
        &mut self.0
    }
}

/// A descriptor of the caller's that is written to without ever blocking sjail and
/// without changing it for others.
#[derive(Debug)]
pub struct Outlet {
    fd: OwnedFd,
    chunk: usize,
    pending: Vec<u8>,
}

impl Outlet {
    /// Writes to our own descriptor of that number.
    fn of(stream: Stream) -> Result<Outlet, Errno> {
        match stream {
            Stream::Stdout => Outlet::to(std::io::stdout().as_fd()),
            Stream::Stderr => Outlet::to(std::io::stderr().as_fd()),
        }
    }

    /// Writes to what is behind `fd`. A pipe or terminal is opened anew, for a
    /// non-blocking mode of our own; everything else (files, sockets) is used as it is.
    pub fn to(fd: BorrowedFd<'_>) -> Result<Outlet, Errno> {
        let kind = SFlag::from_bits_truncate(fstat(fd)?.st_mode & SFlag::S_IFMT.bits());
        if kind == SFlag::S_IFIFO || kind == SFlag::S_IFCHR {
            let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
            let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
            if let Ok(twin) = open(path.as_str(), flags, Mode::empty()) {
                return Ok(Outlet::with(twin, CHUNK));
            }
        }
        let same = fd.try_clone_to_owned().map_err(|_| Errno::EMFILE)?;
        let chunk = if kind == SFlag::S_IFREG {
            CHUNK
        } else {
            CAREFUL_CHUNK
        };
        Ok(Outlet::with(same, chunk))
    }

    /// Writes to a descriptor of our own that is non-blocking already.
    pub fn non_blocking(fd: OwnedFd) -> Outlet {
        Outlet::with(fd, CHUNK)
    }

    fn with(fd: OwnedFd, chunk: usize) -> Outlet {
        Outlet {
            fd,
            chunk,
            pending: Vec::new(),
        }
    }

    /// Whether bytes are still waiting to be taken.
    pub fn is_full(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Takes `bytes` and writes as much of them as goes at once.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        self.pending.extend_from_slice(bytes);
        self.flush()
    }

    /// Forgets what is waiting: nobody will take it.
    pub fn discard(&mut self) {
        self.pending.clear();
    }

    /// Writes as much as goes. After a careful chunk it waits for poll again.
    pub fn flush(&mut self) -> Result<(), Errno> {
        let mut written = 0;
        let result = loop {
            let rest = &self.pending[written..];
            if rest.is_empty() {
                break Ok(());
            }
            match write(&self.fd, &rest[..rest.len().min(self.chunk)]) {
                Ok(length) => {
                    written += length;
                    if self.chunk == CAREFUL_CHUNK {
                        break Ok(());
                    }
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break Ok(()),
                Err(errno) => break Err(errno),
            }
        };
        self.pending.drain(..written);
        result
    }
}

impl AsFd for Outlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn drain(tap: &mut Tap, budget: &mut Budget) -> Passed {
        let mut buffer = Buffer::default();
        loop {
            match tap.advance(budget, &mut buffer) {
                Passed::Some => {}
                other => return other,
            }
        }
    }

    #[test]
    fn keeps_all_within_the_bound() {
        let mut budget = Budget::new(Some(1000), Beyond::Drop);
        let (mut tap, inside) = Tap::keep(Stream::Stdout).unwrap();
        assert_eq!(drain(&mut tap, &mut budget), Passed::Later);
        write(&inside, b"one\xff\n").unwrap();
        assert_eq!(drain(&mut tap, &mut budget), Passed::Later);
        drop(inside);
        assert_eq!(drain(&mut tap, &mut budget), Passed::End);
        let captured = tap.captured();
        assert_eq!(captured.bytes, b"one\xff\n");
        assert!(!captured.truncated);
    }

    #[test]
    fn drops_what_is_beyond_and_keeps_room_for_errors() {
        let mut budget = Budget::new(Some(800), Beyond::Drop);
        let (mut out, inside) = Tap::keep(Stream::Stdout).unwrap();
        write(&inside, &[b'x'; 5000]).unwrap();
        assert_eq!(drain(&mut out, &mut budget), Passed::Later);
        let (mut err, inside) = Tap::keep(Stream::Stderr).unwrap();
        write(&inside, &[b'e'; 5000]).unwrap();
        assert_eq!(drain(&mut err, &mut budget), Passed::Later);
        let (out, err) = (out.captured(), err.captured());
        assert_eq!((out.bytes.len(), out.truncated), (700, true));
        assert_eq!((err.bytes.len(), err.truncated), (100, true));
    }

    #[test]
    fn too_much_passed_on_ends_the_run() {
        let mut budget = Budget::new(Some(10), Beyond::End);
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let sink = Sink::PassOn(Outlet::to(writer.as_fd()).unwrap(), None);
        let (mut tap, inside) = Tap::new(Stream::Stdout, sink).unwrap();
        write(&inside, b"123456789012").unwrap();
        assert_eq!(drain(&mut tap, &mut budget), Passed::TooMuch);
        let mut got = [0; 64];
        assert_eq!(read(&reader, &mut got), Ok(10));
    }

    #[test]
    fn a_slow_reader_holds_the_command_back_and_loses_nothing() {
        let mut budget = Budget::new(None, Beyond::Drop);
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let sink = Sink::PassOn(Outlet::to(writer.as_fd()).unwrap(), None);
        drop(writer);
        let (mut tap, inside) = Tap::new(Stream::Stdout, sink).unwrap();
        fcntl(&inside, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let (mut sent, mut received) = (0, 0);
        let mut chunk = [0; 50_000];
        for round in 0..200 {
            while let Ok(length) = write(&inside, &chunk) {
                sent += length;
            }
            drain(&mut tap, &mut budget);
            if round % 10 == 9 {
                received += read(&reader, &mut chunk).unwrap();
            }
        }
        // One pipe before us, one behind us, one chunk in hand.
        assert!(
            sent <= received + 3 * CHUNK + chunk.len(),
            "{sent} {received}"
        );
        drop(inside);
        while let Some(Wait::ToRead(_) | Wait::ToWrite(_)) = tap.waits_for() {
            drain(&mut tap, &mut budget);
            received += read(&reader, &mut chunk).unwrap();
        }
        drop(tap);
        while let Ok(length @ 1..) = read(&reader, &mut chunk) {
            received += length;
        }
        assert_eq!(sent, received);
    }

    #[test]
    fn a_reader_that_left_closes_the_commands_pipe() {
        let mut budget = Budget::new(None, Beyond::Drop);
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let sink = Sink::PassOn(Outlet::to(writer.as_fd()).unwrap(), None);
        drop((reader, writer));
        let (mut tap, inside) = Tap::new(Stream::Stdout, sink).unwrap();
        write(&inside, b"x").unwrap();
        assert_eq!(drain(&mut tap, &mut budget), Passed::End);
        assert_eq!(write(&inside, b"x"), Err(Errno::EPIPE));
    }

    #[test]
    fn both_ends_of_a_long_stream_are_kept() {
        let mut ends = Ends::default();
        ends.push(b"begin");
        for _ in 0..100 {
            ends.push(&[b'x'; 8 << 10]);
        }
        ends.push(b"end");
        assert!(ends.left_out && ends.bytes.len() <= 4 * END);
        assert!(ends.bytes.starts_with(b"beginx") && ends.bytes.ends_with(b"xend"));
    }
}
