//! Answering a request, and using the answer once.

use rusqlite::{Connection, OptionalExtension, params};
use sjail_policy::bytes::ByteString;
use sjail_policy::plan::Plan;
use sjail_policy::risk::Risk;
use sjail_policy::wire::control::{AllowlistAdd, Extent, RequestStatus, Scope, word};
use sjail_policy::wire::request::Binding;

use crate::audit::ledger::Ledger;
use crate::audit::record::{Entry, Event, Hash};
use crate::binding;
use crate::error::{Error, Result};
use crate::process::ProcessId;
use crate::queue::request::{self, about, find, set_status};
use crate::queue::{Stored, Subject, allowlist, narrow, permit};

/// Somebody who answers.
#[derive(Debug, Clone)]
pub struct Approver {
    /// The account, the terminal, the process, as the kernel names them.
    pub summary: String,
    /// The process itself and all above it.
    pub line: Vec<ProcessId>,
    /// The name they give themselves, a claim.
    pub claimed: Option<String>,
    /// The word that they typed, where a command is critical.
    pub word: Option<String>,
}

impl Approver {
    /// Nobody answers for what they have asked themselves, unless a person sits at
    /// the very terminal where it was typed.
    fn may_answer(&self, stored: &Stored) -> Result<()> {
        let body = &stored.body;
        let own = self.line.first();
        if body.inline && own.is_some() && own == body.requester.as_ref() {
            return Ok(());
        }
        let related = self.line.iter().find(|id| body.circle.contains(id));
        match related {
            None => Ok(()),
            Some(id) => Err(Error::Refused(format!(
                "process {} is, or descends from, whoever asked (pid {}): answer from another terminal",
                own.map_or(0, |own| own.pid),
                id.pid
            ))),
        }
    }
}

/// Nobody makes a rule that concerns what they wait for themselves.
pub fn may_rule(
    connection: &Connection,
    by: &Approver,
    concerns: impl Fn(&Stored) -> bool,
) -> Result<()> {
    let asked = request::pending(connection)?;
    asked
        .iter()
        .filter(|asked| concerns(asked))
        .try_for_each(|asked| by.may_answer(asked))
}

/// To a critical command a yes is typed in full, and is good for once.
fn typed_in_full(stored: &Stored, by: &Approver, extent: &Extent) -> Result<()> {
    if stored.body.risk < Risk::Critical {
        return Ok(());
    }
    if by.word.as_deref() != Some(word(&stored.id)) {
        return Err(Error::Refused(format!(
            "this command is critical: `sjail queue show {0}` names the word that lets it run, `sjail queue approve {0} --word WORD` says it",
            stored.id
        )));
    }
    match *extent == Extent::default() {
        true => Ok(()),
        false => Err(Error::Refused(
            "a critical command is allowed once, and asked about each time".to_owned(),
        )),
    }
}

/// Says yes.
pub fn approve(
    ledger: &mut Ledger,
    id: &str,
    by: &Approver,
    extent: &Extent,
    without: &[ByteString],
    note: Option<&str>,
    now: i64,
) -> Result<Stored> {
    let mut stored = open_request(ledger, id, by, now)?;
    typed_in_full(&stored, by, extent)?;
    // As long as the policy gave the question, the answer has to be used.
    let ttl = stored.expires - stored.created;
    let lasting = extent.seconds.is_some()
        || extent.count.is_some()
        || matches!(extent.scope, Scope::Workspace | Scope::Session);
    if !without.is_empty() {
        if lasting || extent.scope == Scope::Always {
            return Err(Error::Refused(
                "what is left out is left out of one run: --without goes with a plain yes"
                    .to_owned(),
            ));
        }
        narrow::leave_out(ledger, &stored, without)?;
    }
    if extent.apply || stored.body.commit.is_some() {
        if lasting || extent.scope == Scope::Always || !without.is_empty() {
            return Err(Error::Refused(
                "what a preview showed is kept once: --apply goes with a plain yes".to_owned(),
            ));
        }
        let kept = stored.body.kept();
        stored.body.apply = Some(kept.ok_or_else(|| {
            Error::Refused(format!(
                "there is nothing to apply: no preview has shown what {id} would do"
            ))
        })?);
    }
    let is_host = matches!(stored.body.subject, Subject::Host { .. });
    if extent.scope == Scope::Always && !is_host {
        let proposal = stored.body.always.clone();
        let Some(pattern) = proposal.as_ref().and_then(|p| p.pattern.clone()) else {
            return Err(Error::BadPattern(format!(
                "this command cannot be allowed for good: {}",
                proposal.map_or_else(
                    || "no pattern is narrow enough".to_owned(),
                    |proposal| proposal.widest
                )
            )));
        };
        let always = AllowlistAdd {
            pattern,
            reason: Some(format!("always, from {id}")),
            auto_approve: None,
        };
        allowlist::add(ledger, &always, &by.summary, now)?;
    } else if lasting || extent.scope == Scope::Always {
        permit::give(ledger, &stored, extent, &by.summary, now)?;
    }
    set_status(
        ledger,
        &stored,
        RequestStatus::Approved,
        Some(&by.summary),
        note,
    )?;
    ledger
        .connection()
        .execute(
            "UPDATE request SET expires = ?2 WHERE id = ?1",
            params![id, now + ttl],
        )
        .map_err(Error::database("change a request"))?;
    answered(
        ledger,
        &stored,
        RequestStatus::Approved,
        by,
        note,
        Some(extent),
        without,
    )?;
    find(ledger.connection(), id)
}

/// Says no.
pub fn reject(
    ledger: &mut Ledger,
    id: &str,
    by: &Approver,
    reason: Option<&str>,
    now: i64,
) -> Result<Stored> {
    let stored = open_request(ledger, id, by, now)?;
    set_status(
        ledger,
        &stored,
        RequestStatus::Rejected,
        Some(&by.summary),
        reason,
    )?;
    answered(
        ledger,
        &stored,
        RequestStatus::Rejected,
        by,
        reason,
        None,
        &[],
    )?;
    find(ledger.connection(), id)
}

fn open_request(ledger: &Ledger, id: &str, by: &Approver, now: i64) -> Result<Stored> {
    let stored = find(ledger.connection(), id)?;
    by.may_answer(&stored)?;
    let status = if stored.status == RequestStatus::Pending && stored.expires <= now {
        RequestStatus::Expired
    } else {
        stored.status
    };
    if status == RequestStatus::Pending {
        Ok(stored)
    } else {
        Err(Error::WrongStatus {
            id: id.to_owned(),
            status: status.name(),
        })
    }
}

fn answered(
    ledger: &mut Ledger,
    stored: &Stored,
    status: RequestStatus,
    by: &Approver,
    note: Option<&str>,
    extent: Option<&Extent>,
    without: &[ByteString],
) -> Result<()> {
    let mut entry = about(stored, Event::Approval, status);
    entry.approver = Some(by.summary.clone());
    let detail = serde_json::json!({
        "note": note,
        "claimed_by": by.claimed,
        "extent": extent,
        "apply": stored.body.apply,
        "without": without,
        // What lay before whoever answered.
        "evidence": stored.body.evidence.as_ref().map(|shown| Hash::of(shown.to_string().as_bytes()).to_string()),
    });
    ledger.append(entry.detail(&detail))?;
    Ok(())
}

/// What came of using an approval.
#[derive(Debug)]
pub enum Taken {
    /// It may run; the approval is used up.
    Run {
        /// The request.
        stored: Box<Stored>,
        /// What was shown, and is to be enforced.
        plan: Option<Box<Plan>>,
        /// The number of the intent record.
        seq: i64,
    },
    /// Something is not as it was approved; the approval is void.
    Drifted {
        /// The request.
        stored: Box<Stored>,
        /// What is different.
        changed: Vec<String>,
    },
}

/// Uses an approval: in one transaction it becomes `used`, the run is noted and its
/// intent recorded.
pub fn take(
    ledger: &mut Ledger,
    id: &str,
    uid: u32,
    present: &Binding,
    run: &RunNote,
    intent: Entry,
    now: i64,
) -> Result<Taken> {
    let stored = find(ledger.connection(), id)?;
    if stored.uid != uid {
        return Err(Error::NotFound {
            what: "request",
            name: id.to_owned(),
        });
    }
    let status = match stored.status {
        RequestStatus::Approved if stored.expires <= now => RequestStatus::Expired,
        status => status,
    };
    if status != RequestStatus::Approved {
        return Err(Error::WrongStatus {
            id: id.to_owned(),
            status: status.name(),
        });
    }
    let changed = binding::differences(&stored.body.binding, present);
    if !changed.is_empty() {
        let note = format!("void: {}", changed.join("; "));
        set_status(ledger, &stored, RequestStatus::Expired, None, Some(&note))?;
        let entry = about(&stored, Event::Approval, RequestStatus::Expired);
        ledger.append(entry.detail(&serde_json::json!({ "note": note })))?;
        return Ok(Taken::Drifted {
            stored: Box::new(stored),
            changed,
        });
    }
    let plan = request::plan(ledger.connection(), id)?.map(Box::new);
    set_status(ledger, &stored, RequestStatus::Used, None, None)?;
    let mut intent = intent;
    intent.event = Event::Intent;
    intent.id = Some(id.to_owned());
    intent.decision = Some("approved".to_owned());
    intent.approver.clone_from(&stored.approver);
    let seq = ledger.append(intent)?;
    note_run(ledger, id, uid, run, seq, now)?;
    Ok(Taken::Run {
        stored: Box::new(stored),
        plan,
        seq,
    })
}

/// What is kept of a run until its outcome is told.
#[derive(Debug, Clone)]
pub struct RunNote {
    /// What the outcome must carry.
    pub token: String,
    /// The process that runs it.
    pub runner: Option<ProcessId>,
    /// What was submitted, salted and hashed.
    pub asked: Option<Hash>,
}

/// Lets a run go: its intent is recorded and the run noted. The same run submitted again
/// by the same process (the broker went away before it had answered) is not recorded
/// twice, and has a new token.
pub fn begin_run(
    ledger: &mut Ledger,
    id: &str,
    uid: u32,
    run: &RunNote,
    intent: Entry,
    now: i64,
) -> Result<i64> {
    if let Some(seq) = resumed(ledger, id, uid, run)? {
        return Ok(seq);
    }
    let known: bool = ledger
        .connection()
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM record WHERE id = ?1) \
             OR EXISTS (SELECT 1 FROM run WHERE id = ?1)",
        )
        .and_then(|mut statement| statement.query_row([id], |row| row.get(0)))
        .map_err(Error::database("look for a run"))?;
    if known {
        return Err(Error::Parameter(
            "run: there was one of this name".to_owned(),
        ));
    }
    let seq = ledger.append(intent)?;
    note_run(ledger, id, uid, run, seq, now)?;
    Ok(seq)
}

/// The intent of a run that this very process has submitted before and has not ended.
fn resumed(ledger: &Ledger, id: &str, uid: u32, run: &RunNote) -> Result<Option<i64>> {
    let (Some(runner), Some(asked)) = (run.runner, run.asked) else {
        return Ok(None);
    };
    ledger
        .connection()
        .prepare_cached(
            "UPDATE run SET token = ?6 WHERE id = ?1 AND uid = ?2 AND pid = ?3 \
             AND started = ?4 AND asked = ?5 RETURNING seq",
        )
        .and_then(|mut statement| {
            statement
                .query_row(
                    params![
                        id,
                        uid,
                        runner.pid,
                        runner.started.cast_signed(),
                        asked.0,
                        run.token
                    ],
                    |row| row.get(0),
                )
                .optional()
        })
        .map_err(Error::database("look for a run"))
}

/// Notes that a run was let go.
pub fn note_run(
    ledger: &Ledger,
    id: &str,
    uid: u32,
    run: &RunNote,
    seq: i64,
    now: i64,
) -> Result<()> {
    let (pid, started) = run
        .runner
        .map_or((0, 0), |runner| (runner.pid, runner.started.cast_signed()));
    ledger
        .connection()
        .prepare_cached(
            "INSERT INTO run (id, token, uid, pid, started, seq, created, asked) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )
        .and_then(|mut statement| {
            let asked = run.asked.map(|asked| asked.0);
            statement.execute(params![id, run.token, uid, pid, started, seq, now, asked])
        })
        .map(|_| ())
        .map_err(Error::database("note a run"))
}
