//! The command's standard streams: what it gets inside, and what sjail holds of them.
//!
//! A stream that nobody has to look at is handed through as it is: sjail costs nothing
//! on it. A terminal is never handed through; the command gets the jail's own pty in its
//! place.

use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::stat::{Mode, fchmod, fstat};

use crate::error::Error;
use crate::output::{Beyond, Budget, Stream, Tap};
use crate::report::say;
use crate::spawn::{End, Start, Streams};
use crate::sys::tty;
use crate::terminal::{Standing, Terminal};

/// How much output is kept for a result object when nobody said how much.
pub const KEPT_BY_DEFAULT: u64 = 1 << 20;

/// What becomes of the command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// It goes to our own standard output and error; more than the limit, if there is
    /// one, ends the run.
    Stream {
        /// Bytes, both streams together.
        limit: Option<u64>,
        /// Whether its beginning and its end are kept on the way, for the record.
        recorded: bool,
        /// Whether its standard error is: an agent reads why something failed, and sees no
        /// terminal.
        heard: bool,
    },
    /// It is kept for the result object; more than the limit is dropped.
    Keep {
        /// Bytes, both streams together.
        limit: u64,
    },
}

/// What sjail holds of the streams while the command runs.
#[derive(Debug)]
pub struct Held {
    /// The terminal, if one of the streams is one.
    pub terminal: Option<Terminal>,
    /// Output that runs through sjail.
    pub taps: Vec<Tap>,
    /// How much of it may be.
    pub budget: Budget,
    /// Whether the command starts with the terminal.
    pub start: Start,
}

/// One of our own standard streams, and what it is called.
struct Own<'a> {
    fd: BorrowedFd<'a>,
    name: &'static str,
}

/// Does something with all three of them.
fn with_own<T>(work: impl FnOnce([Own<'_>; 3]) -> T) -> T {
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let own = |fd, name| Own { fd, name };
    work([
        own(stdin.as_fd(), "standard input"),
        own(stdout.as_fd(), "standard output"),
        own(stderr.as_fd(), "standard error"),
    ])
}

/// Refuses what leads further than itself: below `/proc/self/fd` a folder is the way to
/// everything that is beside it on the host.
pub fn check() -> Result<(), Error> {
    with_own(|streams| {
        for Own { fd, name } in streams {
            let is_folder =
                fstat(fd).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFDIR);
            let is_path = fcntl(fd, FcntlArg::F_GETFL).is_ok_and(|flags| flags & libc::O_PATH != 0);
            if is_folder || is_path {
                return Err(Error::FolderAsStream { name });
            }
        }
        Ok(())
    })
}

/// What is handed through as it is, and the mode that it had: whoever owns a file may change
/// that by the descriptor alone, and nothing in a jail can keep them from it.
#[derive(Debug)]
pub struct Given([Option<libc::mode_t>; 3]);

impl Given {
    /// What these streams hand through.
    pub fn by(streams: &Streams) -> Given {
        let mode = |own: &Own<'_>| fstat(own.fd).ok().map(|stat| stat.st_mode);
        let mut modes = with_own(|own| own.map(|own| mode(&own)));
        for (mode, end) in modes.iter_mut().zip(&streams.ends) {
            mode.take_if(|_| !matches!(end, End::Inherit));
        }
        Given(modes)
    }

    /// Gives each its mode back, and says which had another.
    pub fn put_back(self) {
        with_own(|own| {
            for (Own { fd, name }, before) in own.into_iter().zip(self.0) {
                let Some(before) = before else { continue };
                if fstat(fd).is_ok_and(|now| now.st_mode == before) {
                    continue;
                }
                let mode = Mode::from_bits_truncate(before);
                let end = match fchmod(fd, mode) {
                    Ok(()) => "is back".to_owned(),
                    Err(errno) => format!("could not be put back: {}", errno.desc()),
                };
                say(&format!(
                    "the command changed the mode of what it was given as {name}; {:04o} {end}",
                    mode.bits()
                ));
            }
        });
    }
}

/// Both sides of the command's standard streams.
pub fn prepare(output: Output) -> Result<(Streams, Held), Errno> {
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let own = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let budget = match output {
        Output::Stream { limit, .. } => Budget::new(limit, Beyond::End),
        Output::Keep { limit } => Budget::new(Some(limit), Beyond::Drop),
    };
    let mut taps = Vec::new();
    let mut output_end = |stream, own: BorrowedFd<'_>| -> Result<End, Errno> {
        let (tap, inside) = match output {
            Output::Keep { .. } => Tap::keep(stream)?,
            // What the pty shows is counted there.
            Output::Stream { .. } if is_terminal(own) => return Ok(End::Pty),
            Output::Stream {
                recorded, heard, ..
            } if (recorded || heard && stream == Stream::Stderr) && is_open(own) => {
                Tap::pass_on_and_keep(stream)?
            }
            Output::Stream { limit: Some(_), .. } if is_open(own) => Tap::pass_on(stream)?,
            Output::Stream { .. } => return Ok(End::Inherit),
        };
        taps.push(tap);
        Ok(End::Pipe(inside))
    };
    let ends = [
        if is_terminal(own[0]) {
            End::Pty
        } else {
            End::Inherit
        },
        output_end(Stream::Stdout, own[1])?,
        output_end(Stream::Stderr, own[2])?,
    ];

    let uses_pty = ends.iter().any(|end| matches!(end, End::Pty));
    let terminal = if uses_pty {
        Terminal::of_caller()
    } else {
        None
    };
    let look = terminal.as_ref().map(Terminal::look);
    let start = start(&ends, terminal.as_ref());
    let streams = Streams {
        start,
        ends,
        window: look.map(|(size, _)| size),
        termios: look.and_then(|(_, settings)| settings),
    };
    let held = Held {
        terminal,
        taps,
        budget,
        start,
    };
    Ok((streams, held))
}

/// The command starts with the terminal if it is ours to give and nobody in a pipeline
/// around us shares it; else it has to ask for it by reading.
fn start(ends: &[End; 3], terminal: Option<&Terminal>) -> Start {
    let alone = matches!(ends, [End::Pty, End::Pty, _]);
    match terminal {
        Some(terminal) if alone && terminal.standing() == Standing::Ours => Start::Foreground,
        _ => Start::Background,
    }
}

fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    tty::attributes(fd).is_ok()
}

fn is_open(fd: BorrowedFd<'_>) -> bool {
    fstat(fd).is_ok()
}
