//! Has what is refused written down: an agent that is told no runs nothing, so nobody else
//! would tell the broker.

use sjail_policy::wire::request::Refused;

use crate::caller::Account;
use crate::cli::RunArgs;
use crate::client::Desk;
use crate::error::Error;
use crate::evidence::Source;
use crate::permission;
use crate::refused;
use crate::report::Report;
use crate::request;

use super::agent::{Agent, CANARY};
use super::question::Question;

/// Tells what a tool that runs nothing was kept from: a file, or its use at all.
pub fn kept_from(agent: Agent, question: &Question, act: &str, rule: &str) {
    if act == CANARY {
        return;
    }
    let cwd = nix::unistd::getcwd().unwrap_or_else(|_| "/".into());
    refused::tell(&Refused {
        agent: Some(agent.name().to_owned()),
        session: question.session.clone(),
        cwd: cwd.into(),
        tool: question.name.clone(),
        act: act.to_owned(),
        rule: rule.to_owned(),
    });
}

/// Submits the line, which the broker refuses, too: with its record and its alert. Nothing is
/// run, whatever the answer is; without a broker it is refused all the same, unrecorded.
pub fn refused(agent: Agent, question: &Question, line: &str, only: &[String]) {
    if line == CANARY {
        return;
    }
    let args = RunArgs {
        line: Some(line.into()),
        agent: Some(agent.name().to_owned()),
        session: question.session.clone(),
        no_wait: true,
        only: only.to_vec(),
        quiet: true,
        ..RunArgs::default()
    };
    let _ = submitted(&args);
}

fn submitted(args: &RunArgs) -> Result<(), Error> {
    let report = Report::new(args)?;
    let account = Account::own();
    let desk = Desk::of(args, &account);
    let wish = request::wish(args, &account)?;
    let inquiry = permission::submit(&desk, wish, &report)?;
    inquiry.answer(&report, &Source::Nothing).map(drop)
}
