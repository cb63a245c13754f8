//! The walk of one submission: judge, ask where a person must answer, record the
//! intent, let it run.

mod approved;
mod ask;
mod case;
mod outside;
mod recorded;

use serde_json::json;
use sjail_policy::config::Mode as Jailed;
use sjail_policy::redact::Redactor;
use sjail_policy::wire::request::{Answer, Checked, Meets, Place, Run, Submission};

use self::approved::run_approved;
use self::ask::ask;
use self::case::Case;
use self::recorded::{InOne, recorded_or_not};
use crate::audit::record::{Entry, Event};
use crate::error::Result;
use crate::id;
use crate::judge::{Judgement, Mode, Verdict};
use crate::notify;
use crate::peer::Home;
use crate::queue::answer::begin_run;
use crate::queue::session;
use crate::server::Visit;
use crate::service::{Failure, now};

/// Answers [`sjail_policy::wire::request::CHECK`].
pub async fn check(visit: &mut Visit, submission: Submission) -> std::result::Result<(), Failure> {
    let judgement = judge(visit, &submission).await?;
    let (action, asks) = match judgement.verdict {
        Verdict::Run(_) => ("execute", false),
        Verdict::Ask(_) => ("queue_for_approval", true),
        Verdict::Block => ("block", false),
    };
    let reply = Checked {
        command: judgement.command,
        risk_level: judgement.risk,
        risk_reasons: judgement.reasons,
        requires_approval: asks,
        suggested_action: action.to_owned(),
        rule: judgement.rule,
    };
    visit.connection.reply(&reply).await?;
    Ok(())
}

/// Answers [`sjail_policy::wire::request::SUBMIT`].
pub async fn submit(
    visit: &mut Visit,
    submission: Submission,
    more: bool,
) -> std::result::Result<(), Failure> {
    if submission.approval.is_some() {
        return run_approved(visit, submission, more).await;
    }
    if let Some(errand) = outside::leaves(visit, &submission, more).await? {
        return outside::run(visit, errand).await;
    }
    let judgement = judge(visit, &submission).await?;
    let case = Case {
        redactor: Redactor::new(&submission.env),
        submission,
        judgement,
        more,
    };
    match (case.judgement.verdict, case.judgement.mode) {
        (Verdict::Block, _) => block(visit, &case).await,
        // Nobody is asked: nothing of the host changes. Elevated or not, it is in the jail.
        (Verdict::Run(_), Mode::Preview) => {
            run_at_once(visit, &case, AtOnce::Preview(Meets::Execute)).await
        }
        (Verdict::Ask(_), Mode::Preview) => {
            run_at_once(visit, &case, AtOnce::Preview(Meets::Ask)).await
        }
        (Verdict::Run(_), Mode::Act) if case.judgement.unjailed => {
            run_at_once(visit, &case, AtOnce::Unjailed).await
        }
        (Verdict::Run(place), Mode::Act) => run_at_once(visit, &case, AtOnce::In(place)).await,
        (Verdict::Ask(place), Mode::Act) => ask(visit, case, place).await,
    }
}

/// How a command runs that nobody is asked about.
#[derive(Debug, Clone, Copy)]
enum AtOnce {
    /// There.
    In(Place),
    /// On the host: `sandbox.mode` leaves the session out.
    Unjailed,
    /// In the jail and on layers; this is what it would meet without them.
    Preview(Meets),
}

impl AtOnce {
    fn place(self) -> Place {
        match self {
            AtOnce::In(place) => place,
            AtOnce::Unjailed => Place::Host,
            AtOnce::Preview(_) => Place::Jail,
        }
    }

    fn preview(self) -> Option<Meets> {
        match self {
            AtOnce::In(_) | AtOnce::Unjailed => None,
            AtOnce::Preview(meets) => Some(meets),
        }
    }

    fn decision(self) -> &'static str {
        match self {
            AtOnce::In(Place::Jail) | AtOnce::Unjailed => "allow",
            AtOnce::In(Place::Host) => "elevated",
            AtOnce::Preview(_) => "preview",
        }
    }
}

async fn judge(visit: &Visit, submission: &Submission) -> Result<Judgement> {
    let mut judgement = visit.service.judge.judge(submission).await?;
    if is_unjailed(visit, submission, judgement.jailed).await? {
        judgement.leave_the_jail();
    }
    judgement.settle_needs(visit.peer.home);
    note_policy(visit, &judgement).await;
    Ok(judgement)
}

/// Has the log tell of a policy that is new to it. What cannot be written stands in the way
/// of the record that follows, and is said there.
async fn note_policy(visit: &Visit, judgement: &Judgement) {
    let (service, owners) = (&visit.service, &judgement.owners);
    let noted = service.policy_log.note(&service.writer, owners).await;
    if let (Ok(true), Some(problem)) = (noted, owners.problems.first()) {
        notify::trouble(&judgement.settings.on_ask, problem);
    }
}

/// Whether `sandbox.mode` leaves this session out: never one that is in a jail already,
/// and never a run that asks for a jail of some kind. The main session is the one that an
/// operator has registered.
async fn is_unjailed(visit: &Visit, submission: &Submission, mode: Jailed) -> Result<bool> {
    let plain = submission.options.iter().all(|option| {
        PLAIN
            .iter()
            .any(|plain| option.as_bytes().starts_with(plain))
    });
    if mode == Jailed::All || visit.peer.home != Home::Host || !plain {
        return Ok(false);
    }
    match (mode, &submission.session) {
        (Jailed::Off, _) => Ok(true),
        (Jailed::NonMain, Some(name)) => {
            let name = name.clone();
            let readers = &visit.service.readers;
            let role = readers.read(move |store| session::role(store, &name));
            Ok(role.await?.as_deref() == Some(MAIN))
        }
        (Jailed::NonMain, None) | (Jailed::All, _) => Ok(false),
    }
}

/// The options that ask for no jail: time, output, variables, and what sjail itself adds.
const PLAIN: [&[u8]; 5] = [
    b"--timeout=",
    b"--max-output=",
    b"--env=",
    b"--no-dry-run",
    b"--install-host=",
];
/// The role of the session that `non-main` leaves out.
const MAIN: &str = "main";

async fn block(visit: &mut Visit, case: &Case) -> std::result::Result<(), Failure> {
    let id = case.run_id()?;
    let mut entry = case.entry(visit, Event::Decision);
    entry.id = Some(id.clone());
    entry.decision = Some("block".to_owned());
    let alert = json!({
        "alert": "blocked",
        "message": format!("blocked: {}", case.redacted().command),
        "rule": case.judgement.rule,
    });
    let recorded = visit
        .service
        .writer
        .write(move |ledger| {
            let alert_id = entry.id.clone();
            ledger.append(entry)?;
            let mut alarm = Entry::new(Event::Alert);
            alarm.id = alert_id;
            ledger.append(alarm.detail(&alert))
        })
        .await;
    notify::alert(
        &case.judgement.settings.on_ask,
        &id,
        &case.redacted().command,
        case.judgement.risk,
    );
    let mut message = case.judgement.message.clone();
    if let Err(error) = recorded {
        message = format!("{message} (and it could not be recorded: {error})");
    }
    let refusal = case.refusal(id, message);
    visit.connection.reply(&Answer::Blocked(refusal)).await?;
    Ok(())
}

async fn run_at_once(
    visit: &mut Visit,
    case: &Case,
    way: AtOnce,
) -> std::result::Result<(), Failure> {
    let (id, token) = (case.run_id()?, id::token()?);
    let decision = way.decision();
    let mut entry = case.entry(visit, Event::Intent);
    entry.id = Some(id.clone());
    entry.decision = Some(decision.to_owned());
    let note = case.note(visit, &token);
    let uid = visit.peer.uid;
    let (writer, run_id) = (visit.service.writer.clone(), id.clone());
    let record = writer.write(move |ledger| begin_run(ledger, &run_id, uid, &note, entry, now()));
    let run = Answer::Run(Box::new(Run {
        preview: way.preview(),
        ..case.permission(id, token, way.place(), decision)
    }));
    if !case.more {
        let (recorded_as, begun) = tokio::join!(record, async { InOne::begin(&run) });
        let recorded = recorded_or_not(visit, case, recorded_as).await?;
        return begun?.send(visit, &recorded).await;
    }
    // The jail is being built while the disk works; it starts nothing before the
    // second reply.
    let (told, recorded_as) = tokio::join!(visit.connection.reply_and_go_on(&run), record);
    told?;
    let answer = recorded_or_not(visit, case, recorded_as).await?;
    visit.connection.reply(&answer).await?;
    Ok(())
}
