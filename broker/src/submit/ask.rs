//! A person must answer: the request is put in the queue, and its caller waits.

use std::path::PathBuf;
use std::time::Duration;

use sjail_policy::wire::control::RequestStatus;
use sjail_policy::wire::request::{Answer, Approval, Asking, Binding, Place, Run};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::approved::{Use, refuse_by_status, status_now, use_approval};
use super::case::Case;
use super::outside;
use super::recorded::{let_run, recorded};
use crate::audit::record::Event;
use crate::binding::kin;
use crate::error::{Error, Result};
use crate::id;
use crate::notify;
use crate::peer::Home;
use crate::process;
use crate::queue::answer::begin_run;
use crate::queue::permit::{self, Used, Whereabouts};
use crate::queue::{Asked, Body, New, Stored, Subject, question, request};
use crate::server::Visit;
use crate::service::{Change, Failure, now};
use crate::tied::Tied;

/// A command that changes while it waits is asked about again so many times.
const ASKED_AGAIN: u32 = 3;

/// The answer for all other folders, be they there on the host or not.
const STARTS_ELSEWHERE: &str = "it must be approved, and from inside a jail only what starts in a folder of the jail's workspace can be: change into the workspace first";

/// Asks a person, waits as long as the caller wants, and lets run what was approved.
pub(super) async fn ask(
    visit: &mut Visit,
    case: Case,
    place: Place,
) -> std::result::Result<(), Failure> {
    let mut case = case;
    if !outside::starts_where_it_may(visit, &case.submission).await {
        let refusal = case.refusal(String::new(), STARTS_ELSEWHERE.to_owned());
        visit.connection.reply(&Answer::Blocked(refusal)).await?;
        return Ok(());
    }
    let mut changed = Vec::new();
    for _ in 0..ASKED_AGAIN {
        let binding = bind(visit, &case).await?;
        let mut changes = visit.service.listen();
        let asked = match put_in_queue(visit, &case, place, &binding, &changed).await? {
            Put::Granted(run, answer) => return let_run(visit, &case, *run, answer).await,
            Put::Full { waiting } => return refuse_full(visit, &case, waiting).await,
            Put::Waits(stored) => *stored,
        };
        // Somebody has said yes already, and nobody was there to hear it.
        if asked.status == RequestStatus::Pending
            && let Waited::Over = wait(visit, &case, &asked, &mut changes).await?
        {
            return Ok(());
        }
        match use_approval(visit, &mut case, &asked.id).await? {
            Use::Over => return Ok(()),
            Use::Drifted(what) => changed = what,
        }
    }
    let message = "what would run changes faster than it can be answered".to_owned();
    let refusal = case.refusal(String::new(), message);
    visit.connection.reply(&Answer::Expired(refusal)).await?;
    Ok(())
}

/// Too many wait already: the owner hears of it, and this one is not asked about.
pub(super) async fn refuse_full(
    visit: &mut Visit,
    case: &Case,
    waiting: u64,
) -> std::result::Result<(), Failure> {
    let message = format!(
        "the approval queue is full ({waiting} waiting): answer or clear some with `sjail queue`"
    );
    notify::trouble(&case.judgement.settings.on_ask, &message);
    let refusal = case.refusal(String::new(), message);
    visit.connection.reply(&Answer::Blocked(refusal)).await?;
    Ok(())
}

pub(super) async fn bind(visit: &Visit, case: &Case) -> Result<Binding> {
    let binder = visit.service.binder.clone();
    let plan = &case.judgement.plan;
    let argv = plan.command.argv.clone();
    let env = plan.command.env.clone();
    let cwd = PathBuf::from(case.submission.cwd.as_os_str());
    let Tied { files, open } = case.judgement.tied(&case.typed());
    let given = case.judgement.given();
    let policy = case.judgement.policy_hash.clone();
    let work = move || binder.bind(&argv, &cwd, &env, (&files, &given), &policy);
    let bound = tokio::task::spawn_blocking(work);
    let binding = bound.await.map_err(|_| Error::WriterGone)??;
    Ok(Binding {
        text: case.text(),
        open,
        ..binding
    })
}

enum Put {
    /// A standing permission covers it.
    Granted(Box<Run>, Answer),
    /// It waits, or waits to be used.
    Waits(Box<Stored>),
    /// No room.
    Full { waiting: u64 },
}

async fn put_in_queue(
    visit: &Visit,
    case: &Case,
    place: Place,
    binding: &Binding,
    changed: &[String],
) -> Result<Put> {
    let judgement = &case.judgement;
    let uid = visit.peer.uid;
    let here = whereabouts(visit, case, binding);
    let is_shown_first = case.is_shown_first(visit, place);
    let new = question_of(visit, case, place, binding, changed);
    let grants = case.submission.asking == Asking::Policy;
    let (run_id, token) = (case.run_id()?, id::token()?);
    let note = case.note(visit, &token);
    let mut intent = case.entry(visit, Event::Intent);
    intent.id = Some(run_id.clone());
    intent.decision = Some("granted".to_owned());
    let granted_id = run_id.clone();
    let outcome = visit
        .service
        .writer
        .write(move |ledger| {
            if let Some(stored) = question::answered(ledger.connection(), &new, now())? {
                return Ok(Queued::Asked(Asked::Same(Box::new(stored))));
            }
            if grants && let Some(used) = permit::use_one(ledger, &here, now())? {
                intent.approver = Some(used.approver.clone());
                let seq = begin_run(ledger, &granted_id, uid, &note, intent, now())?;
                return Ok(Queued::Granted(used, seq));
            }
            question::ask(ledger, new, now()).map(Queued::Asked)
        })
        .await?;
    match outcome {
        Queued::Granted(used, seq) => {
            let mut run = case.permission(run_id, token, place, "granted");
            run.binding = Some(binding.clone());
            run.approval = Some(Approval {
                id: used.id,
                approver: used.approver,
                note: None,
            });
            let recorded = recorded(case, Ok(seq))?;
            Ok(Put::Granted(Box::new(run), recorded))
        }
        Queued::Asked(Asked::New(stored)) => {
            visit.service.tell(&stored);
            match is_shown_first {
                true => notify_late(visit, &stored),
                false => notify::asked(&judgement.settings.on_ask, &stored),
            }
            Ok(Put::Waits(stored))
        }
        Queued::Asked(Asked::Same(stored)) => Ok(Put::Waits(stored)),
        Queued::Asked(Asked::Full { waiting }) => Ok(Put::Full { waiting }),
    }
}

/// Where a standing permission would have to hold.
pub(super) fn whereabouts(visit: &Visit, case: &Case, binding: &Binding) -> Whereabouts {
    let uid = visit.peer.uid;
    Whereabouts {
        uid,
        kin: kin(uid, binding),
        cwd: (binding.cwd.dev, binding.cwd.ino),
        workspace: case.judgement.plan.workspace.path.as_bytes().to_vec(),
        circle: process::circle(&visit.peer.lineage()),
        session: case.submission.session.clone(),
        client: None,
    }
}

/// The request, as it is kept and shown.
pub(super) fn question_of(
    visit: &Visit,
    case: &Case,
    place: Place,
    binding: &Binding,
    changed: &[String],
) -> New {
    let judgement = &case.judgement;
    let uid = visit.peer.uid;
    let circle = process::circle(&visit.peer.lineage());
    let mut plan = judgement.plan.clone();
    plan.command.env.clear();
    let inline = judgement.settings.inline
        && visit.peer.home == Home::Host
        && visit.peer.terminal.is_some()
        && circle.len() == 1;
    let is_shown_first = case.is_shown_first(visit, place);
    New {
        uid,
        twin: case.twin(uid, binding),
        ttl: judgement.settings.ttl,
        limit: judgement.settings.queue_limit,
        entry: case.entry(visit, Event::Decision),
        body: Body {
            command: judgement.command.clone(),
            typed: case.typed(),
            argv: judgement.plan.command.argv.clone(),
            redacted: case.redacted(),
            cwd: case.submission.cwd.clone(),
            workspace: judgement.plan.workspace.path.clone(),
            options: case.submission.options.clone(),
            risk: judgement.risk,
            reasons: judgement.reasons.clone(),
            rule: judgement.rule.clone(),
            needs: judgement.needs.clone(),
            access: judgement.access.clone(),
            changed: changed.to_vec(),
            user: visit.service.user_name(uid),
            agent: case.submission.agent.clone(),
            session: case.submission.session.clone(),
            peer: visit.peer.describe(),
            requester: visit.peer.id,
            circle,
            inline,
            place,
            binding: binding.clone(),
            always: Some(judgement.always()),
            subject: Subject::Command,
            holder: None,
            evidence: None,
            commit: case.submission.commit.clone(),
            apply: None,
            on_ask: match is_shown_first {
                true => judgement.settings.on_ask.clone(),
                false => Vec::new(),
            },
        },
        plan: Some(plan),
    }
}

/// So long a preview may take before the owner hears of the question without it.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// Tells the owner when nobody has told what a preview showed; whoever tells that tells
/// the owner, too.
fn notify_late(visit: &Visit, stored: &Stored) {
    if stored.body.on_ask.is_empty() {
        return;
    }
    let (service, id) = (visit.service.clone(), stored.id.clone());
    tokio::spawn(async move {
        tokio::time::sleep(SHOWN_WITHIN).await;
        if let Ok(stored) = service.request(&id).await
            && stored.status == RequestStatus::Pending
            && stored.body.evidence.is_none()
        {
            notify::asked(&stored.body.on_ask, &stored);
        }
    });
}

enum Queued {
    Granted(Used, i64),
    Asked(Asked),
}

pub(super) enum Waited {
    /// Somebody said yes.
    Approved,
    /// The caller has its answer.
    Over,
}

pub(super) async fn wait(
    visit: &mut Visit,
    case: &Case,
    stored: &Stored,
    changes: &mut Receiver<Change>,
) -> std::result::Result<Waited, Failure> {
    let waiting = case.waiting(visit, stored);
    let patience = case.patience();
    if !case.more || patience.is_zero() {
        visit.connection.reply(&Answer::Pending(waiting)).await?;
        return Ok(Waited::Over);
    }
    visit
        .connection
        .reply_and_go_on(&Answer::Waiting(waiting.clone()))
        .await?;
    let until = Instant::now() + patience;
    let lapses = Instant::now()
        + Duration::from_secs(u64::try_from(stored.expires - now()).unwrap_or(0))
        + Duration::from_millis(1100);
    loop {
        let status = tokio::select! {
            change = changes.recv() => match change {
                Ok(change) if change.id == stored.id => change.status,
                Ok(_) => continue,
                // Too many changes at once: the store knows.
                Err(RecvError::Lagged(_)) => status_now(visit, &stored.id).await?,
                Err(RecvError::Closed) => return Err(Error::WriterGone.into()),
            },
            end = visit.connection.hung_up() => return Err(end.into()),
            () = tokio::time::sleep_until(lapses.min(until)) => {
                if Instant::now() < lapses {
                    visit.connection.reply(&Answer::Pending(waiting)).await?;
                    return Ok(Waited::Over);
                }
                let lapsed = visit.service.writer.write(|ledger| request::expire(ledger, now())).await?;
                for id in &lapsed {
                    visit.service.tell_status(id, RequestStatus::Expired);
                }
                status_now(visit, &stored.id).await?
            }
        };
        match status {
            RequestStatus::Pending => {}
            RequestStatus::Approved => return Ok(Waited::Approved),
            other => {
                refuse_by_status(visit, case, &stored.id, other).await?;
                return Ok(Waited::Over);
            }
        }
    }
}
