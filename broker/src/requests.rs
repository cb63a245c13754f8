//! `io.sjail.Broker`: what whoever runs commands says. Submitting has a file of its
//! own, [`crate::submit`], and so have questions about hosts, [`crate::hosts`].
//!
//! For the parts of `sjail` that call during a run, over a connection of their own to
//! `request.sock` (`Client::connect(desk)` and `Client::call` in the jail's `client.rs`;
//! id and token are those of `Permission::run`, the types are in `wire::request`):
//!
//! ```text
//! may the run reach a host?      io.sjail.Broker.AskHost
//!   {"run": Run.id, "token": Run.token, "host": "example.org", "port": 443,
//!    "reason": "…"?, "wait_ms": 60000?}
//!   held until answered → {"answer": "once|session|workspace|always|no",
//!    "id": "cmd_…", "approver": "…"?, "message": "why not"?}
//!   An earlier session, workspace or always answer is given at once. A closed
//!   connection withdraws the question.
//!
//! what a preview found           io.sjail.Broker.Attach
//!   {"id": Waiting.id, "evidence": {…}}     → {}
//!   By the process that submitted, while the request waits, once, 64 KiB at most;
//!   `summary` (a sentence) and `changes` (lines) are shown as the requester's word,
//!   `preview` and `digest` name what "apply what I saw" keeps; the answer's record
//!   holds the hash of all of it.
//! ```

use std::path::Path;

use sjail_policy::redact::Redactor;
use sjail_policy::wire::request as wire;
use sjail_policy::wire::{Call, PROTOCOL};

use crate::error::Error;
use crate::holders;
use crate::hosts;
use crate::id;
use crate::introspect::unknown_method;
use crate::notify;
use crate::outcome;
use crate::peer::Home;
use crate::queue::request;
use crate::refused;
use crate::scope;
use crate::server::Visit;
use crate::service::{Failure, parameters};
use crate::submit;

/// The most characters of a claimed name.
const NAME: usize = 200;
/// The most bytes of evidence.
const EVIDENCE: usize = 64 << 10;

/// Answers one call.
pub async fn answer(visit: &mut Visit, call: Call) -> Result<(), Failure> {
    match call.method.as_str() {
        wire::SUBMIT | wire::CHECK if speaks_otherwise(&call) => Err(version_mismatch(&call)),
        wire::SUBMIT => {
            let submission = at_home(visit, checked(parameters(&call)?)?).await?;
            submit::submit(visit, submission, call.more).await
        }
        wire::CHECK => {
            let submission = at_home(visit, checked(parameters(&call)?)?).await?;
            submit::check(visit, submission).await
        }
        wire::STATUS => status(visit, parameters(&call)?).await,
        wire::OUTCOME => tell_outcome(visit, parameters(&call)?).await,
        wire::ASK_HOST => hosts::ask(visit, parameters(&call)?).await,
        wire::GROUP => scope::answer(visit, parameters(&call)?).await,
        wire::ATTACH => attach(visit, parameters(&call)?).await,
        wire::OFFER if call.more => holders::offer(visit, parameters(&call)?).await,
        wire::REFUSED => refused::record(visit, parameters(&call)?).await,
        wire::DELIVER => holders::deliver(visit, parameters(&call)?).await,
        _ => {
            let (name, parameters) = unknown_method(visit.door, &call.method);
            Err(Failure::Named(name, parameters))
        }
    }
}

/// Whether the caller speaks another protocol, or is a newer program that wants a broker
/// of its own kind. Seen before the rest is read, which may have another form.
fn speaks_otherwise(call: &Call) -> bool {
    let caller = &call.parameters;
    caller["protocol"].as_u64() != Some(u64::from(PROTOCOL))
        || caller["version"].as_str().is_some_and(|version| {
            version_number(version) > version_number(env!("CARGO_PKG_VERSION"))
        })
}

fn version_mismatch(call: &Call) -> Failure {
    Failure::Named(
        wire::ERROR_VERSION,
        serde_json::json!({ "broker": PROTOCOL, "caller": call.parameters["protocol"] }),
    )
}

/// `1.20.3` as numbers that can be compared; what is no number counts as nothing.
fn version_number(text: &str) -> Vec<u32> {
    text.split(['.', '-', '+'])
        .take(3)
        .map(|part| part.parse().unwrap_or(0))
        .collect()
}

/// Whose policy counts is not for a jail to say: its workspace is the one that it was given.
async fn at_home(visit: &Visit, submission: wire::Submission) -> Result<wire::Submission, Failure> {
    let holder = match visit.peer.home {
        Home::Host => return Ok(submission),
        Home::Jail { .. } => visit.service.holders.wait_for(&visit.peer).await,
        Home::Unknown => None,
    };
    let Some(holder) = holder else {
        let why = "whoever asks must be there, and in a jail that a running sjail holds";
        return Err(Error::Refused(why.to_owned()).into());
    };
    Ok(wire::Submission {
        workspace: holder.workspace,
        ..submission
    })
}

/// A submission whose form is right.
fn checked(submission: wire::Submission) -> Result<wire::Submission, Failure> {
    let wrong = |parameter: &str| Err(Error::Parameter(parameter.to_owned()).into());
    if !submission.cwd.as_bytes().starts_with(b"/") {
        return wrong("cwd is not absolute");
    }
    match &submission.command {
        Some(wire::Typed::Argv(argv)) if argv.is_empty() => return wrong("argv is empty"),
        None if submission.approval.is_none() => return wrong("command is missing"),
        _ => {}
    }
    if submission
        .run
        .as_deref()
        .is_some_and(|run| !id::is_run(run))
    {
        return wrong("run is no name of a run");
    }
    if !are_names([&submission.agent, &submission.session]) {
        return wrong(NAMES);
    }
    Ok(submission)
}

/// What is wrong with names that are none.
pub const NAMES: &str = "agent and session have 1 to 200 characters";

/// Whether claimed names have the form of names, as far as they are given.
pub fn are_names(names: [&Option<String>; 2]) -> bool {
    let is_name = |name: &String| !name.is_empty() && name.chars().count() <= NAME;
    names.into_iter().flatten().all(is_name)
}

async fn status(visit: &mut Visit, wanted: wire::StatusOf) -> Result<(), Failure> {
    let uid = visit.peer.uid;
    let stored = visit
        .service
        .request(&wanted.id)
        .await
        .ok()
        .filter(|stored| stored.uid == uid);
    let Some(stored) = stored else {
        return Err(unknown_id(&wanted.id));
    };
    let reply = wire::Status {
        id: stored.id,
        status: stored.status.name().to_owned(),
        note: stored.note,
    };
    visit.connection.reply(&reply).await?;
    Ok(())
}

async fn tell_outcome(visit: &mut Visit, told: wire::Outcome) -> Result<(), Failure> {
    let uid = visit.peer.uid;
    let id = told.id.clone();
    // Whoever ran it has taken out the values it knows; tokens show by their shape.
    let outcome = redacted(told);
    let alarm = outcome::suspicious(&outcome);
    let result = visit
        .service
        .writer
        .write_soon(move |ledger| outcome::record(ledger, uid, &outcome))
        .await;
    match result {
        Ok(seq) => {
            if let Some(message) = alarm
                && let Ok(in_force) = visit.service.judge.policies().load(Path::new("/"), &[])
            {
                let on_ask = &in_force.loaded.policy.on_ask.value;
                notify::network(on_ask, &id, &message);
            }
            let seq = seq.unsigned_abs();
            visit.connection.reply(&wire::Recorded { seq }).await?;
            Ok(())
        }
        Err(Error::NotFound { .. }) => Err(unknown_id(&id)),
        Err(error) => Err(error.into()),
    }
}

/// Adds what a preview found to the caller's own request.
async fn attach(visit: &mut Visit, what: wire::Attach) -> Result<(), Failure> {
    if !what.evidence.is_object() || what.evidence.to_string().len() > EVIDENCE {
        let text = format!("evidence is an object of at most {EVIDENCE} bytes");
        return Err(Error::Parameter(text).into());
    }
    // Whoever is asked must be able to believe it: what is in a jail only asks.
    if visit.peer.home != Home::Host {
        let text = "from inside a jail nothing is told of what a command would do";
        return Err(Failure::Named(
            wire::ERROR_UNABLE,
            serde_json::json!({ "message": text }),
        ));
    }
    let Some(requester) = visit.peer.id else {
        return Err(unknown_id(&what.id));
    };
    let id = what.id.clone();
    let result = visit
        .service
        .writer
        .write(move |ledger| request::attach(ledger, &what.id, requester, what.evidence))
        .await;
    match result {
        Ok(stored) => {
            visit.service.tell(&stored);
            crate::notify::asked(&stored.body.on_ask, &stored);
            visit.connection.reply(&serde_json::json!({})).await?;
            Ok(())
        }
        Err(Error::NotFound { .. }) => Err(unknown_id(&id)),
        Err(error @ Error::WrongStatus { .. }) => Err(Failure::Named(
            wire::ERROR_UNABLE,
            serde_json::json!({ "message": error.to_string() }),
        )),
        Err(error) => Err(error.into()),
    }
}

/// An outcome without tokens in its output.
pub fn redacted(mut outcome: wire::Outcome) -> wire::Outcome {
    let redactor = Redactor::new(&[]);
    for output in [&mut outcome.output_head, &mut outcome.output_tail]
        .into_iter()
        .flatten()
    {
        *output = redactor.redact(output.as_bytes()).into();
    }
    outcome
}

/// No request or run of the caller's has this id.
pub fn unknown_id(id: &str) -> Failure {
    Failure::Named(wire::ERROR_UNKNOWN_ID, serde_json::json!({ "id": id }))
}
