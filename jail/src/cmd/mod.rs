//! The sub-commands that look and explain, and run nothing; those that need the store are
//! handed on to the broker's program.

pub mod check;
pub mod doctor;
pub mod explain;
pub mod help;
pub mod policy;
pub mod preview;
pub mod quarantine;
pub mod sandbox;
pub mod trust;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, IsTerminal, Write};

use clap::Parser;
use sjail_policy::show::inert_json;
use sjail_policy::usage;

use crate::cli::RunArgs;
use crate::client;
use crate::error::Error;
use crate::exit::Exit;
use crate::inside;
use crate::report::Report;

/// Runs the sub-command of that name and gives the exit status.
pub fn run(name: &OsStr, words: &[OsString]) -> u8 {
    let run = match name.to_str().unwrap_or_default() {
        "help" | "--help" | "-h" => return help::print(),
        "--version" | "-V" => {
            print(concat!("sjail ", env!("CARGO_PKG_VERSION"), "\n"));
            return Exit::Success.code();
        }
        "check" => check::run,
        "explain" => explain::run,
        "policy" => policy::run,
        "quarantine" => quarantine::run,
        "doctor" => doctor::run,
        "previews" => preview::list,
        "diff" => preview::diff,
        "commit" => preview::commit,
        "discard" => preview::discard,
        "undo" => preview::undo,
        "trust" => trust::run,
        "sandbox" => sandbox::run,
        "hook" => crate::hook::run,
        "code" => crate::code::run,
        "init" => crate::setup::run,
        "queue" | "audit" | "allowlist" | "session" if inside::an_agents_jail() => {
            return Failure::Error(Error::OwnersBusiness).said();
        }
        "queue" | "audit" | "allowlist" | "session" | "mcp" => {
            let words: Vec<&OsStr> = std::iter::once(name)
                .chain(words.iter().map(OsString::as_os_str))
                .collect();
            return Failure::Error(client::hand_on(&words)).said();
        }
        #[cfg(feature = "manual")]
        "manual" => return crate::manual::run(words),
        _ => return help::unknown(name),
    };
    run(words).unwrap_or_else(|failure| failure.said())
}

/// Why a sub-command ends early.
pub enum Failure {
    /// Wrong usage, or help was asked for.
    Usage(clap::Error),
    /// Something could not be done.
    Error(Error),
}

impl Failure {
    fn said(self) -> u8 {
        match self {
            Failure::Usage(error) => misused(&error),
            Failure::Error(error) => {
                crate::report::say(&error.to_string());
                error.exit().code()
            }
        }
    }
}

/// Says what is wrong about the words that were typed, or prints the help that was asked
/// for; gives the exit status.
pub fn misused(error: &clap::Error) -> u8 {
    if error.use_stderr() {
        crate::report::say(&wrong_usage(error));
        return Exit::Failed.code();
    }
    let _ = error.print();
    Exit::Success.code()
}

/// The same for `sjail run`, whose caller may be waiting for a result object.
pub fn misused_run(error: &clap::Error, words: &[OsString]) -> u8 {
    match Report::new(&RunArgs::at_a_guess(words)) {
        Ok(report) if error.use_stderr() => report.failed(&Error::Usage(wrong_usage(error))),
        _ => misused(error),
    }
}

fn wrong_usage(error: &clap::Error) -> String {
    usage::sentence(&error.render().to_string())
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Error(error.into())
    }
}

/// Reads the words of a sub-command.
pub fn read<T: Parser>(words: &[OsString]) -> Result<T, Failure> {
    T::try_parse_from(std::iter::once(OsString::from("sjail")).chain(words.iter().cloned()))
        .map_err(Failure::Usage)
}

/// Prints to standard output; a reader that has gone away is no error of ours.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Asks a question on the terminal that only a typed `yes` answers; without a terminal there
/// is nobody to ask.
pub fn says_yes(question: &str, nobody: Error) -> Result<bool, Error> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(nobody);
    }
    // Keys typed before the question was there are no answer to it.
    let _ = nix::sys::termios::tcflush(std::io::stdin(), nix::sys::termios::FlushArg::TCIFLUSH);
    print(&format!("{question} Type yes: "));
    let _ = std::io::stdout().flush();
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Error::Stream { error })?;
    Ok(answer.trim() == "yes")
}

/// Prints a value as JSON, for people if they are looking.
pub fn print_json(value: &impl serde::Serialize) {
    use std::io::IsTerminal;
    let text = if std::io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    if let Ok(text) = text {
        print(&format!("{}\n", inert_json(&text)));
    }
}
