//! `sjail run`: from what was typed to the exit status.

mod alone;
mod confine;
mod guards;
mod host;
mod jailed;
mod noted;
mod protection;

use std::io::Write;
use std::time::Duration;

use sjail_policy::bytes::ByteString;
use sjail_policy::wire::request::{Elsewhere, Outcome as Told, Place};

use crate::bare::{self, Ground};
use crate::caller::{self, Account, State};
use crate::cli::RunArgs;
use crate::client::Desk;
use crate::error::Error;
use crate::evidence::{self, Said, Source};
use crate::outcome::{Outcome, Recorded};
use crate::output::Captured;
use crate::permission::{self, Answered, Permission, Wish};
use crate::report::{Report, say};
use crate::result::{self, RunResult};
use crate::sys::vanguard::{Network, Vanguard};
use crate::{inside, request, spawn, sys};
use alone::alone;
use jailed::jailed;

/// Runs the command and gives what became of it, for a caller who says it in its own form.
pub fn told(args: &RunArgs) -> Result<RunResult, Error> {
    let mut report = Report::new(args)?;
    let attempted = attempt(args, &mut report);
    Ok(report.told(attempted))
}

/// Runs the command, says what there is to say, and gives the exit status.
pub fn run(args: &RunArgs) -> u8 {
    let mut report = match Report::new(args) {
        Ok(report) => report,
        Err(error) => {
            say(&error.to_string());
            return error.exit().code();
        }
    };
    match attempt(args, &mut report) {
        Ok(outcome) => report.ended(outcome),
        Err(error) => report.failed(&error),
    }
}

fn attempt(args: &RunArgs, report: &mut Report) -> Result<Outcome, Error> {
    sys::process::survive_file_size_limit().map_err(Error::Signals)?;
    // Nobody is asked: the namespaces are what takes longest.
    let at_once = match (args.no_broker, &args.user) {
        (true, None) => ahead(args),
        _ => None,
    };
    let account = caller::become_user(args.user.as_deref())?;
    if account.uid == 0 {
        report
            .note("the command runs as root inside the jail; --user NAME runs it as somebody else");
    }
    let desk = Desk::of(args, &account);
    if args.no_broker {
        let ahead = at_once.or_else(|| ahead(args));
        return alone(args, account, ahead, report);
    }
    let wish = request::wish(args, &account)?;
    if desk.is_inside() {
        no_other_jail(&wish)?;
    }
    // Before the question: whoever answers it may take our processor meanwhile.
    let ahead = ahead(args);
    let inquiry = permission::submit(&desk, wish, report)?;
    let is_own = args.user.is_none() && args.approval.is_none() && !desk.is_inside();
    let source = match is_own {
        true => Source::Command {
            args,
            state: State::of(&account).path().to_owned(),
        },
        false => Source::Nothing,
    };
    match inquiry.answer(report, &source)? {
        Answered::Here(permission) => {
            permitted(args, account, *permission, desk.is_inside(), ahead, report)
        }
        Answered::Elsewhere(told) => Ok(ran_elsewhere(args, told, report)),
    }
}

/// Passes on what a command said that has run outside the jail that we are in.
fn ran_elsewhere(args: &RunArgs, told: Elsewhere, report: &mut Report) -> Outcome {
    report.ran_elsewhere(&told.id);
    let captured = |bytes: ByteString| Captured {
        bytes: bytes.into_bytes(),
        truncated: told.truncated,
    };
    let (stdout, stderr) = (captured(told.stdout), captured(told.stderr));
    let output = match args.json {
        true => result::Output {
            stdout: Some(stdout),
            stderr: Some(stderr),
        },
        false => {
            // A reader that has gone away is no reason to end differently.
            let _ = std::io::stdout().write_all(&stdout.bytes);
            let _ = std::io::stdout().flush();
            let _ = std::io::stderr().write_all(&stderr.bytes);
            if told.truncated {
                report.note("there was more output than is handed in");
            }
            result::Output::default()
        }
    };
    Outcome {
        status: i32::from(told.code) << 8,
        cause: None,
        output,
        tail: Vec::new(),
        duration: Duration::from_millis(told.duration_ms),
        usage: result::Usage::default(),
        remains: None,
    }
}

/// Has the namespaces made while the policy is read and the broker asked, where that is
/// likely to be of use. What stands in the way is said when they are needed.
fn ahead(args: &RunArgs) -> Option<Vanguard> {
    if args.allow_degraded || inside::an_agents_jail() {
        return None;
    }
    let network = match args.net.as_ref().is_some_and(|mode| mode == "host") {
        true => Network::Host,
        false => Network::Own,
    };
    spawn::ahead(network).ok()
}

/// In an agent's jail no other jail can be made: whoever asks for one is told.
fn no_other_jail(wish: &Wish) -> Result<(), Error> {
    let asked = wish
        .options
        .iter()
        .map(|option| String::from_utf8_lossy(option.as_bytes()))
        .find(|option| !inside::is_harmless(option));
    match asked {
        None => Ok(()),
        Some(option) => Err(Error::NoOtherJail {
            option: option.split('=').next().unwrap_or_default().to_owned(),
        }),
    }
}

/// Runs it as the broker says, and tells the broker how it went.
fn permitted(
    args: &RunArgs,
    account: Account,
    permission: Permission,
    inside: bool,
    ahead: Option<Vanguard>,
    report: &mut Report,
) -> Result<Outcome, Error> {
    let mut permission = permission;
    report.decided(permission.run());
    for notice in &permission.run().notices {
        report.note(notice);
    }
    let plan = permission.plan();
    let files = permission.files();
    let state = State::of(&account);
    let said = match args.json {
        true => Said::Kept,
        false => Said::Aloud,
    };
    let mut result = match (permission.apply(), permission.place()) {
        (Some(_), _) if inside => Err(Error::HostFromInside),
        (Some(kept), _) => evidence::apply(&kept, &mut permission, state.path(), said, report),
        (None, Place::Jail) if inside && files == Files::Layers => Err(Error::NoOtherJail {
            option: "commands.dry_run".to_owned(),
        }),
        (None, Place::Host) if inside => Err(Error::HostFromInside),
        (None, Place::Jail) if inside => {
            bare::run(args, &plan, Ground::AgentsJail, &mut permission, report)
        }
        (None, Place::Jail) => {
            let permission = Some(&mut permission);
            jailed(args, plan, account, ahead, report, files, permission)
        }
        (None, Place::Host) => {
            drop(ahead);
            bare::run(args, &plan, Ground::Host, &mut permission, report)
        }
    };
    let recorded = Recorded::new(permission.run().recorded_output, args.record_output);
    let told = match &result {
        Ok(outcome) => Told {
            detail: report.detail(),
            ..outcome.told(report.isolation(), recorded)
        },
        Err(error) => Told {
            status: "failed".to_owned(),
            exit: Some(i32::from(error.exit().code())),
            detail: serde_json::json!({ "error": error.to_string() }),
            ..Told::default()
        },
    };
    let remains = result
        .as_mut()
        .ok()
        .and_then(|outcome| outcome.remains.take());
    if let Err(error) = permission.tell(told, || drop(remains)) {
        report.note(&format!("how it ended is not recorded: {error}"));
    }
    result
}

/// On what a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// On the host's files, as far as the jail shows them.
    Host,
    /// On layers over them: a preview.
    Layers,
}
