//! Deciding without the broker: by the same policy, in this process.

use sjail_policy::config::Loaded;
use sjail_policy::decide::{Action, Asking, Decision, Place as Where};
use sjail_policy::plan::{NetworkMode, Plan};
use sjail_policy::risk::Risk;
use sjail_policy::wire::request::Refusal;

use super::Files;
use super::jailed::jailed;
use crate::caller::Account;
use crate::cli::RunArgs;
use crate::error::Error;
use crate::judge::{Judge, Typed};
use crate::outcome::Outcome;
use crate::report::Report;
use crate::request;
use crate::sys::vanguard::Vanguard;

/// Decides here and now, by the same policy: nobody is asked, nothing is recorded.
pub(super) fn alone(
    args: &RunArgs,
    account: Account,
    ahead: Option<Vanguard>,
    report: &mut Report,
) -> Result<Outcome, Error> {
    let request = request::read(args, &account)?;
    for notice in request.loaded.sentences() {
        report.note(&notice);
    }
    let mut plan = request.plan;
    let files = match request.loaded.policy.dry_run.value {
        true => Files::Layers,
        false => Files::Host,
    };
    if files == Files::Layers && args.net.is_none() {
        plan.network.mode = NetworkMode::None;
    }
    let decision = judged(args, &account, &plan, request.loaded);
    report.judged(&decision);
    let unrecorded = "without the broker: nothing of this run is recorded";
    match (decision.action, decision.place) {
        (Action::Execute, Where::Jail) => {
            report.note(unrecorded);
            jailed(args, plan, account, ahead, report, files, None)
        }
        // Nobody needs to be asked, for nothing of the host changes.
        (Action::Execute | Action::Ask, _)
            if files == Files::Layers && decision.risk < Risk::Critical =>
        {
            report.note(unrecorded);
            jailed(args, plan, account, ahead, report, files, None)
        }
        (Action::Block, _) => Err(refused(report, &decision, "blocked by policy")),
        // Somebody must be asked, or it runs on the host: both are the broker's business.
        _ => Err(refused(
            report,
            &decision,
            "this needs an approval, which --no-broker cannot ask for",
        )),
    }
}

/// What the policy says to the command, in process.
pub(super) fn judged(args: &RunArgs, account: &Account, plan: &Plan, loaded: Loaded) -> Decision {
    let typed = match &args.line {
        Some(line) => Typed::Line(line.clone()),
        None => Typed::Argv(args.command.clone()),
    };
    let cwd = plan.command.cwd.as_path();
    let judge = Judge::of(account, loaded, cwd, plan.workspace.path.as_path());
    judge.judge(&typed, &judge.context, Asking::Policy).1
}

pub(super) fn refused(report: &Report, decision: &Decision, why: &str) -> Error {
    let reasons = decision.reasons.join(", ");
    Error::Blocked(Box::new(Refusal {
        id: report.id().as_str().to_owned(),
        risk: decision.risk,
        reasons: decision.reasons.clone(),
        rule: decision.rule.to_string(),
        message: if reasons.is_empty() {
            format!("{why}: {}", decision.rule)
        } else {
            format!("{why}: {} ({reasons})", decision.rule)
        },
    }))
}
