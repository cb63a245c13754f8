//! The permission to run, and the word that it is written down.

use serde::Serialize;
use sjail_policy::config::OnFailure;
use sjail_policy::wire::request::{Answer, Run};

use super::case::Case;
use crate::error::{Error, Result};
use crate::notify;
use crate::server::Visit;
use crate::service::Failure;

/// What is said when the intent is durable, or is not and the policy goes on; remembers a run
/// that is not in the log until that can be said in it.
pub(super) async fn recorded_or_not(
    visit: &Visit,
    case: &Case,
    result: Result<i64>,
) -> Result<Answer> {
    let service = &visit.service;
    let failure = result.as_ref().err().map(ToString::to_string);
    let mut answer = recorded(case, result)?;
    let Answer::Recorded { alerts, .. } = &mut answer else {
        return Ok(answer);
    };
    match failure {
        Some(why) => {
            service.unrecorded.add(&why);
            notify::trouble(
                &case.judgement.settings.on_ask,
                &format!("a run is not in the audit log: {why}"),
            );
        }
        None => alerts.extend(service.unrecorded.tell(&service.writer).await),
    }
    Ok(answer)
}

/// What is said when the intent is durable, or is not and the policy goes on.
pub(super) fn recorded(case: &Case, result: Result<i64>) -> Result<Answer> {
    match result {
        Ok(seq) => Ok(Answer::Recorded {
            seq: Some(seq.unsigned_abs()),
            alerts: case.judgement.alerts.clone(),
        }),
        // The caller's fault, not the log's.
        Err(error @ Error::Parameter(_)) => Err(error),
        Err(error) if case.judgement.settings.on_failure == OnFailure::Alert => {
            let mut alerts = case.judgement.alerts.clone();
            alerts.push(format!("this run is not in the audit log: {error}"));
            Ok(Answer::Recorded { seq: None, alerts })
        }
        Err(error) => Err(error),
    }
}

/// The permission for a caller that takes one reply: what its record comes to is added to it.
pub(super) struct InOne {
    /// A JSON object without its end.
    text: String,
}

/// What is added.
#[derive(Serialize)]
struct Added<'a> {
    seq: Option<u64>,
    alerts: &'a [String],
}

impl InOne {
    /// The permission by itself; a plan has hundreds of entries, and there is time to write
    /// them while the disk works.
    pub(super) fn begin(run: &Answer) -> Result<InOne> {
        let mut text = written(run)?;
        text.truncate(text.len().saturating_sub(1));
        Ok(InOne { text })
    }

    /// The whole of it.
    pub(super) async fn send(
        self,
        visit: &mut Visit,
        recorded: &Answer,
    ) -> std::result::Result<(), Failure> {
        let (seq, alerts) = match recorded {
            Answer::Recorded { seq, alerts } => (*seq, alerts.as_slice()),
            _ => (None, &[][..]),
        };
        let added = written(&Added { seq, alerts })?;
        // Both are objects: the second goes on where the first was left open.
        let whole = format!("{},{}", self.text, added.get(1..).unwrap_or_default());
        visit.connection.reply_written(&whole).await?;
        Ok(())
    }
}

fn written(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Unreadable {
        what: "an answer",
        problem: error.to_string(),
    })
}

pub(super) async fn let_run(
    visit: &mut Visit,
    case: &Case,
    run: Run,
    recorded: Answer,
) -> std::result::Result<(), Failure> {
    let run = Answer::Run(Box::new(run));
    if !case.more {
        return InOne::begin(&run)?.send(visit, &recorded).await;
    }
    visit.connection.reply_and_go_on(&run).await?;
    visit.connection.reply(&recorded).await?;
    Ok(())
}
