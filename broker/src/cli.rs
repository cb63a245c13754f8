//! What can be typed. People type it as `sjail queue …`; `sjail` hands the words on.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use sjail_policy::usage;
use sjail_policy::wire::control;

use crate::client::Client;
use crate::cmd;
use crate::daemon::{self, Options};
use crate::error::{Error, Result};
use crate::mcp;
use crate::paths::Places;

/// Decisions, approvals and the audit log of sjail.
#[derive(Debug, Parser)]
#[command(name = "sjail-broker", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serve this account until nobody needs it
    Serve {
        /// End after so long without a connection; 0s never ends
        #[arg(long, value_name = "TIME", default_value = "60s")]
        idle: sjail_policy::duration::Duration,
        /// Leave the terminal, and say on standard output when the sockets are there
        #[arg(long)]
        detach: bool,
    },
    /// End the broker of this account
    Stop,
    /// See and answer requests
    #[command(subcommand)]
    Queue(cmd::queue::Queue),
    /// Read and check the audit log
    #[command(subcommand)]
    Audit(cmd::audit::Audit),
    /// Patterns that run without being asked about
    #[command(subcommand)]
    Allowlist(cmd::allowlist::Allowlist),
    /// Sessions that are the owner's own
    #[command(subcommand)]
    Session(cmd::session::Session),
    /// Serve tools to an agent over standard input and output (Model Context Protocol)
    Mcp(mcp::McpArgs),
}

/// Wrong usage, or something could not be done.
const FAILED: u8 = 125;
/// Refused.
const BLOCKED: u8 = 77;

/// Everything that can be typed, for the manual.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Reads the words and does what they say.
pub fn main() -> ExitCode {
    let arguments = match read() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            let said = usage::sentence(&error.render().to_string());
            let _ = writeln!(std::io::stderr(), "sjail: {said}");
            return ExitCode::from(FAILED);
        }
        Err(error) => {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
    };
    let called = called();
    if called == "sjail" || called.starts_with("sandbox-") {
        // Whoever reads who has answered knows it by what was typed.
        let _ = std::fs::write("/proc/self/comm", called);
    }
    let result = match arguments.verb {
        Verb::Serve { idle, detach } => {
            if detach {
                leave_terminal();
            }
            daemon::serve(&Options {
                idle: Duration::from_millis(idle.millis()),
                announce: detach,
            })
            .map(|()| 0)
        }
        Verb::Stop => stop(),
        Verb::Queue(verb) => cmd::queue::run(verb),
        Verb::Audit(verb) => cmd::audit::run(verb),
        Verb::Allowlist(verb) => cmd::allowlist::run(verb),
        Verb::Session(verb) => cmd::session::run(verb),
        Verb::Mcp(args) => mcp::run(args),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "sjail: {error}");
            ExitCode::from(code_of(&error))
        }
    }
}

/// Reads the words; the verbs that people type behind `sjail` are named so, and those that have
/// a name of their own are named by it.
fn read() -> std::result::Result<Arguments, clap::Error> {
    let called = called();
    let verb = match called.as_str() {
        "sandbox-queue" => Verb::Queue(read_as("sandbox-queue")?),
        "sandbox-audit" => Verb::Audit(read_as("sandbox-audit")?),
        "sandbox-allowlist" => Verb::Allowlist(read_as("sandbox-allowlist")?),
        _ => {
            let own = std::env::args().nth(1);
            let own =
                own.is_none_or(|verb| verb == "serve" || verb == "stop" || verb.starts_with('-'));
            let name = if own { "sjail-broker" } else { "sjail" };
            let matches = Arguments::command().bin_name(name).try_get_matches()?;
            return Arguments::from_arg_matches(&matches);
        }
    };
    Ok(Arguments { verb })
}

/// The last part of the name that was typed.
fn called() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The words behind the verb, as those of a program of that name.
fn read_as<T: Subcommand>(name: &'static str) -> std::result::Result<T, clap::Error> {
    let command = clap::Command::new(name)
        .bin_name(name)
        .subcommand_required(true)
        .arg_required_else_help(true);
    let words = std::iter::once(OsString::from(name)).chain(std::env::args_os().skip(2));
    let matches = T::augment_subcommands(command).try_get_matches_from(words)?;
    T::from_arg_matches(&matches)
}

/// What is refused is told apart from what went wrong.
fn code_of(error: &Error) -> u8 {
    match error {
        Error::Refused(_) | Error::BadPattern(_) => BLOCKED,
        Error::NotFound { .. } | Error::WrongStatus { .. } => 1,
        _ => FAILED,
    }
}

/// Ends the broker, if there is one.
fn stop() -> Result<u8> {
    let places = Places::prepare()?;
    if std::os::unix::net::UnixStream::connect(places.control_socket()).is_err() {
        return Ok(0);
    }
    let _: serde_json::Value = Client::connect()?.call(control::STOP, &serde_json::json!({}))?;
    Ok(0)
}

/// A session of its own: what is typed at the caller's terminal is not for us, its
/// folder is free to be unmounted, and whatever it had open is not held open by us.
fn leave_terminal() {
    let _ = nix::unistd::setsid();
    let _ = std::env::set_current_dir("/");
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in open {
        // The one that listed them is among them, and is closed already.
        let _ = nix::unistd::close(number);
    }
}
