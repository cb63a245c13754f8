//! `sjail explain`: every effective value and where it came from.

use std::ffi::OsString;

use clap::Parser;
use sjail_policy::config::Mode;
use sjail_policy::decide::Asking;
use sjail_policy::explain::{Detail, Explanation};
use sjail_policy::wire::control::{Registered, SESSIONS, Sessions};

use super::{Failure, print, print_json, read};
use crate::caller::Account;
use crate::cli::RunArgs;
use crate::client::{Client, Desk};
use crate::exit::Exit;
use crate::judge::{Judge, Typed};
use crate::request;

/// Says what holds for commands in this folder, and which file or option says so.
///
/// Of a command it says what would happen to it, step by step. Takes the options of `sjail
/// run`, to show what they would change.
#[derive(Debug, Parser)]
#[command(
    name = "sjail explain",
    bin_name = "sjail explain",
    override_usage = "sjail explain [--json] [--all] [OPTIONS OF RUN]\n       sjail explain [--json] [OPTIONS OF RUN] -- PROGRAM [ARG]...\n       sjail explain [--json] [OPTIONS OF RUN] -c 'SHELL LINE'",
    mut_arg("json", |arg| arg.help("Print as JSON"))
)]
pub struct ExplainArgs {
    /// Also the reason for each path, variable and name of the profile
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    run: RunArgs,
}

/// Explains, and gives the exit status.
pub fn run(words: &[OsString]) -> Result<u8, Failure> {
    let args: ExplainArgs = read(words)?;
    let account = Account::own();
    let judge = Judge::here(
        &account,
        args.run.workspace.as_deref(),
        request::options(&args.run, &account)?,
    )?;
    if let Some(typed) = typed(&args.run) {
        let asking = match args.run.require_approval {
            true => Asking::Always,
            false => Asking::Policy,
        };
        let steps = judge.with_kept(&account).steps(&typed, asking);
        match args.run.json {
            true => print_json(&steps),
            false => print(&steps.human()),
        }
        return Ok(Exit::Success.code());
    }
    let mut explanation = Explanation::of(&judge.loaded);
    if judge.loaded.policy.mode.value == Mode::NonMain {
        explanation.sessions = registered(&account);
    }
    explanation.notices.extend(judge.left_out());
    explanation.session.clone_from(&args.run.session);
    match args.run.json {
        true => print_json(&explanation),
        false => {
            let detail = if args.all {
                Detail::Reasons
            } else {
                Detail::Values
            };
            print(&explanation.human(detail));
        }
    }
    Ok(Exit::Success.code())
}

/// The command that was named, if one was.
fn typed(args: &RunArgs) -> Option<Typed> {
    match (&args.line, args.command.as_slice()) {
        (Some(line), _) => Some(Typed::Line(line.clone())),
        (None, []) => None,
        (None, argv) => Some(Typed::Argv(argv.to_vec())),
    }
}

/// The sessions that an operator registered, if a broker is there to be asked.
fn registered(account: &Account) -> Vec<Registered> {
    let reply = Client::control(&Desk::own(account))
        .and_then(|mut client| client.call(SESSIONS, &serde_json::json!({})));
    reply
        .ok()
        .and_then(|reply| serde_json::from_value::<Sessions>(reply).ok())
        .map(|reply| reply.sessions)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_are_consistent() {
        ExplainArgs::command().debug_assert();
    }
}
