//! How a run ended, and why, in words.

use std::fmt;
use std::time::Duration;

use sjail_policy::size::Size;
use sjail_policy::wire::request::Outcome as Told;

use crate::exit::{self, Exit};
use crate::limits::Means;
use crate::output::Captured;
use crate::result::{Output, Status, Usage};
use crate::spawn::Spaces;

/// A command that was started and has ended, and everything else in its jail with it.
#[derive(Debug)]
pub struct Outcome {
    /// Its raw status as `waitpid` gave it; SIGKILL if the jail was ended from outside.
    pub status: i32,
    /// The limit that ended it, if one did.
    pub cause: Option<Cause>,
    /// What was kept of its output.
    pub output: Output,
    /// The end of what it wrote to the terminal.
    pub tail: Vec<u8>,
    /// From the command's start to its end.
    pub duration: Duration,
    /// What all its processes used up together.
    pub usage: Usage,
    /// Its empty namespaces, where they are still held. The kernel takes a while to take a
    /// jail's file tree down; that can go on while the end is being recorded.
    pub remains: Option<Spaces>,
}

/// The limit that a command ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The wall clock.
    Timeout(Duration),
    /// Memory.
    Memory {
        /// Bytes allowed.
        limit: u64,
        /// Who held it.
        by: Means,
        /// Bytes found, where sjail looked itself.
        used: Option<u64>,
    },
    /// Processes and threads.
    Pids {
        /// How many are allowed.
        limit: u64,
        /// Who held it.
        by: Means,
        /// How many were found, where sjail looked itself.
        found: Option<u64>,
    },
    /// Output.
    Output {
        /// Bytes allowed.
        limit: u64,
    },
    /// No limit, but a guard that could not keep its promise any more; it says why itself.
    Guard,
}

impl Outcome {
    /// The end of what the command said, wherever that is known: its standard error, or
    /// what it wrote to the terminal.
    pub fn last_words(&self) -> &[u8] {
        const MOST: usize = 16 << 10;
        let said = match &self.output.stderr {
            Some(captured) => captured.bytes.as_slice(),
            None => self.tail.as_slice(),
        };
        said.get(said.len().saturating_sub(MOST)..).unwrap_or(said)
    }

    /// What sjail exits with.
    pub fn exit_code(&self) -> u8 {
        match self.cause {
            Some(Cause::Timeout(_)) => Exit::TimedOut.code(),
            Some(Cause::Guard) => Exit::Failed.code(),
            _ => exit::of_wait_status(self.status),
        }
    }

    /// The signal that ended the command.
    pub fn signal(&self) -> Option<i32> {
        libc::WIFSIGNALED(self.status).then(|| libc::WTERMSIG(self.status))
    }

    /// The outcome as the broker records it, with so much of the output.
    pub fn told(&self, isolation: serde_json::Value, recorded: Recorded) -> Told {
        let word = serde_json::to_value(self.word()).unwrap_or_default();
        let kept = [&self.output.stdout, &self.output.stderr]
            .into_iter()
            .flatten()
            .flat_map(|captured| captured.bytes.iter().copied());
        let mut output: Vec<u8> = kept.collect();
        if recorded.terminal {
            output.extend_from_slice(&self.tail);
        }
        let (head, tail) = excerpt(&output, recorded.most);
        Told {
            status: word.as_str().unwrap_or_default().to_owned(),
            exit: Some(i32::from(self.exit_code())),
            signal: self.signal(),
            duration_us: self.duration.as_micros().try_into().unwrap_or(u64::MAX),
            usage: serde_json::to_value(self.usage).unwrap_or_default(),
            isolation,
            output_head: head.map(Into::into),
            output_tail: tail.map(Into::into),
            ..Told::default()
        }
    }

    /// The word for it in a result object.
    pub fn word(&self) -> Status {
        match self.cause {
            Some(Cause::Timeout(_)) => Status::TimedOut,
            Some(Cause::Memory { .. }) => Status::OutOfMemory,
            Some(Cause::Pids { .. }) => Status::TooManyProcesses,
            Some(Cause::Output { .. }) => Status::TooMuchOutput,
            Some(Cause::Guard) => Status::Signaled,
            None if self.signal().is_some() => Status::Signaled,
            None => Status::Completed,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Timeout(limit) => write!(
                f,
                "timed out: the command ran longer than {} and was killed with everything \
                 it had started (--timeout)",
                seconds(*limit)
            ),
            Cause::Memory {
                limit,
                used: Some(used),
                ..
            } => write!(
                f,
                "out of memory: the jail used {} of the {} it may use and was killed (--memory)",
                Size::from_bytes(*used >> 20 << 20),
                Size::from_bytes(*limit)
            ),
            Cause::Memory { limit, .. } => write!(
                f,
                "out of memory: the kernel killed a process because the jail had used up the {} \
                 it may use (--memory)",
                Size::from_bytes(*limit)
            ),
            Cause::Pids {
                limit,
                found: Some(found),
                by: Means::Watchdog,
            } => write!(
                f,
                "too many processes: {found} processes and threads were running, {limit} are \
                 allowed; the jail was killed (--pids)"
            ),
            Cause::Pids { limit, .. } => write!(
                f,
                "too many processes: the limit of {limit} processes and threads was reached and \
                 new ones were refused (--pids)"
            ),
            Cause::Output { limit } => write!(
                f,
                "too much output: the command wrote more than {} and was killed (--max-output)",
                Size::from_bytes(*limit)
            ),
            Cause::Guard => f.write_str(
                "the jail was ended because a protected name could no longer be kept from it",
            ),
        }
    }
}

/// How much of a run's output the record gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// So many bytes at most, half of them from the end.
    pub most: usize,
    /// Whether what was shown on the terminal counts as well.
    pub terminal: bool,
}

impl Recorded {
    /// What a policy says (`audit.output`); more than a message to the broker takes is never
    /// sent.
    pub fn new(policy: Option<u64>, terminal: bool) -> Recorded {
        const USUAL: usize = 64 << 10;
        const MOST: usize = 2 * crate::output::END;
        let most = policy.map_or(USUAL, |most| usize::try_from(most).unwrap_or(MOST));
        Recorded {
            most: most.min(MOST),
            terminal,
        }
    }
}

/// The start and the end of an output, where there is any.
fn excerpt(output: &[u8], most: usize) -> (Option<&[u8]>, Option<&[u8]>) {
    let half = most.div_ceil(2);
    match output.len() {
        0 => (None, None),
        _ if most == 0 => (None, None),
        length if length <= half => (Some(output), None),
        length => (
            output.get(..half),
            output.get(half.max(length - most / 2)..),
        ),
    }
}

/// A time as it is typed: `60s`, `1.5s`.
fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs_f64())
}

/// Puts captured streams in their places.
pub fn output(mut kept: Vec<(crate::output::Stream, Captured)>) -> Output {
    let mut take = |wanted| {
        let index = kept.iter().position(|(stream, _)| *stream == wanted)?;
        Some(kept.swap_remove(index).1)
    };
    Output {
        stdout: take(crate::output::Stream::Stdout),
        stderr: take(crate::output::Stream::Stderr),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: i32, cause: Option<Cause>) -> Outcome {
        Outcome {
            status,
            cause,
            output: Output::default(),
            duration: Duration::ZERO,
            usage: Usage::default(),
            remains: None,
            tail: Default::default(),
        }
    }

    #[test]
    fn a_long_output_keeps_both_ends() {
        assert_eq!(excerpt(b"", 8), (None, None));
        assert_eq!(excerpt(b"abcd", 8), (Some(&b"abcd"[..]), None));
        assert_eq!(
            excerpt(b"abcdefghijkl", 8),
            (Some(&b"abcd"[..]), Some(&b"ijkl"[..]))
        );
        assert_eq!(
            excerpt(b"abcdef", 8),
            (Some(&b"abcd"[..]), Some(&b"ef"[..]))
        );
        assert_eq!(excerpt(b"abcdef", 0), (None, None));
        assert_eq!(Recorded::new(None, false).most, 64 << 10);
        assert_eq!(Recorded::new(Some(10), false).most, 10);
        assert_eq!(Recorded::new(Some(u64::MAX), false).most, 128 << 10);
    }

    #[test]
    fn codes_and_words() {
        let timeout = Cause::Timeout(Duration::from_millis(1500));
        for (outcome, code, word) in [
            (outcome(0, None), 0, Status::Completed),
            (outcome(3 << 8, None), 3, Status::Completed),
            (outcome(15, None), 143, Status::Signaled),
            (outcome(0, Some(timeout)), 124, Status::TimedOut),
            (
                outcome(9, Some(Cause::Output { limit: 10 })),
                137,
                Status::TooMuchOutput,
            ),
        ] {
            assert_eq!((outcome.exit_code(), outcome.word()), (code, word));
        }
        assert!(timeout.to_string().contains("1.5s"));
    }
}
