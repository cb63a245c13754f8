//! What can be typed. People type it as `sjail queue …`; `sjail` hands the words on.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::daemon::{self, Options};

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
}

/// Wrong usage, or something could not be done.
const FAILED: u8 = 125;

/// Reads the words and does what they say.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { FAILED } else { 0 });
        }
    };
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
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("sjail-broker: {error}");
            ExitCode::from(FAILED)
        }
    }
}

/// A session of its own: what is typed at the caller's terminal is not for us, and
/// its folder is free to be unmounted.
fn leave_terminal() {
    let _ = nix::unistd::setsid();
    let _ = std::env::set_current_dir("/");
}
