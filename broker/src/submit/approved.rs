//! Using an approval: what runs is what was approved.

use sjail_policy::redact::Redactor;
use sjail_policy::wire::control::RequestStatus;
use sjail_policy::wire::request::{Answer, Approval, Place, Refusal, Submission};

use super::ask::{Waited, bind, wait};
use super::case::Case;
use super::recorded::{let_run, recorded};
use super::{block, judge, outside};
use crate::audit::record::Event;
use crate::error::{Error, Result};
use crate::id;
use crate::judge::Verdict;
use crate::queue::Subject;
use crate::queue::answer::{Taken, take};
use crate::server::Visit;
use crate::service::{Failure, now};

pub(super) async fn status_now(visit: &Visit, id: &str) -> Result<RequestStatus> {
    Ok(visit.service.request(id).await?.status)
}

/// The answer for a request that cannot be used.
pub(super) async fn refuse_by_status(
    visit: &mut Visit,
    case: &Case,
    id: &str,
    status: RequestStatus,
) -> std::result::Result<(), Failure> {
    let stored = visit.service.request(id).await.ok();
    let who = stored.as_ref().and_then(|stored| stored.approver.clone());
    let note = stored.and_then(|stored| stored.note);
    let because = note.map(|note| format!(": {note}")).unwrap_or_default();
    let refusal = |message| case.refusal(id.to_owned(), message);
    let answer = match status {
        RequestStatus::Rejected => Answer::Rejected(refusal(format!(
            "rejected by {}{because}",
            who.as_deref().unwrap_or("its owner")
        ))),
        RequestStatus::Expired => Answer::Expired(refusal(format!(
            "{id} has expired{because}: submit it again"
        ))),
        RequestStatus::Used => Answer::Blocked(refusal(
            "this approval was already used: it runs once".to_owned(),
        )),
        RequestStatus::Pending | RequestStatus::Approved => {
            Answer::Expired(refusal(format!("{id} is {}", status.name())))
        }
    };
    visit.connection.reply(&answer).await?;
    Ok(())
}

pub(super) enum Use {
    /// The caller has its answer.
    Over,
    /// What would run is not what was approved.
    Drifted(Vec<String>),
}

/// Uses an approval: judged and bound afresh, so that it runs only what a person saw.
pub(super) async fn use_approval(
    visit: &mut Visit,
    case: &mut Case,
    id: &str,
) -> std::result::Result<Use, Failure> {
    case.judgement = judge(visit, &case.submission).await?;
    let place = match case.judgement.verdict {
        Verdict::Block => {
            block(visit, case).await?;
            return Ok(Use::Over);
        }
        Verdict::Run(place) | Verdict::Ask(place) => place,
    };
    let binding = bind(visit, case).await?;
    let token = id::token()?;
    let note = case.note(visit, &token);
    let intent = case.entry(visit, Event::Intent);
    let (owned_id, uid, present) = (id.to_owned(), visit.peer.uid, binding.clone());
    let taken = visit
        .service
        .writer
        .write(move |ledger| take(ledger, &owned_id, uid, &present, &note, intent, now()))
        .await;
    match taken {
        Ok(Taken::Run { stored, plan, seq }) => {
            visit.service.tell_status(id, RequestStatus::Used);
            let mut run = case.permission(id.to_owned(), token, place, "approved");
            // What was shown is what runs, with the caller's own variables.
            if let Some(mut plan) = plan {
                plan.command
                    .env
                    .clone_from(&case.judgement.plan.command.env);
                run.plan = *plan;
            }
            run.place = stored.body.place;
            run.apply.clone_from(&stored.body.apply);
            run.binding = Some(binding);
            run.approval = Some(Approval {
                id: id.to_owned(),
                approver: stored.approver.clone().unwrap_or_default(),
                note: stored.note.clone(),
            });
            let answer = recorded(case, Ok(seq))?;
            let_run(visit, case, run, answer).await?;
            Ok(Use::Over)
        }
        Ok(Taken::Drifted { changed, .. }) => {
            visit.service.tell_status(id, RequestStatus::Expired);
            Ok(Use::Drifted(changed))
        }
        Err(Error::WrongStatus { status, .. }) => {
            let status = RequestStatus::parse(status).unwrap_or(RequestStatus::Expired);
            if status == RequestStatus::Used && case.submission.approval.is_none() {
                // Another caller with the very same command was first: ask anew.
                return Ok(Use::Drifted(vec![
                    "the approval was used by another run of the same command".to_owned(),
                ]));
            }
            refuse_by_status(visit, case, id, status).await?;
            Ok(Use::Over)
        }
        Err(error) => Err(error.into()),
    }
}

/// Runs what was approved under a name (`--approval`).
pub(super) async fn run_approved(
    visit: &mut Visit,
    submission: Submission,
    more: bool,
) -> std::result::Result<(), Failure> {
    let mut submission = submission;
    let id = submission.approval.clone().unwrap_or_default();
    let uid = visit.peer.uid;
    let stored = visit
        .service
        .request(&id)
        .await
        .ok()
        .filter(|stored| stored.uid == uid && stored.body.subject == Subject::Command);
    if let Some(stored) = &stored {
        // Alone, the name stands for the command; beside one, they must agree.
        if submission.command.is_none() {
            submission.command = Some(stored.body.typed.clone());
        }
        submission.options.clone_from(&stored.body.options);
    }
    let Some(stored) = stored.filter(|_| submission.command.is_some()) else {
        let refusal = Refusal {
            id: id.clone(),
            risk: sjail_policy::risk::Risk::Dangerous,
            reasons: Vec::new(),
            rule: "--approval".to_owned(),
            message: format!(
                "no approval {id} is known: `sjail queue list --status all` shows them"
            ),
        };
        visit.connection.reply(&Answer::Blocked(refusal)).await?;
        return Ok(());
    };
    if stored.body.place == Place::Host
        && let Some(errand) = outside::leaves(visit, &submission, more).await?
    {
        return outside::run_approved(visit, errand, &stored).await;
    }
    let judgement = judge(visit, &submission).await?;
    let mut case = Case {
        redactor: Redactor::new(&submission.env),
        submission,
        judgement,
        more,
    };
    if stored.status == RequestStatus::Pending {
        let mut changes = visit.service.listen();
        // It may have been answered between the look and the listening.
        let stored = visit.service.request(&id).await?;
        if stored.status == RequestStatus::Pending {
            match wait(visit, &case, &stored, &mut changes).await? {
                Waited::Over => return Ok(()),
                Waited::Approved => {}
            }
        }
    }
    match use_approval(visit, &mut case, &id).await? {
        Use::Over => Ok(()),
        Use::Drifted(changed) => {
            let refusal = case.refusal(
                id.clone(),
                format!(
                    "{id} was approved for something else, and is void now: {}; submit it again",
                    changed.join("; ")
                ),
            );
            visit.connection.reply(&Answer::Expired(refusal)).await?;
            Ok(())
        }
    }
}
