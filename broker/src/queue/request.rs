//! A request in the store: how it is found, how it changes and how it lapses.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use sjail_policy::plan::Plan;
use sjail_policy::wire::control::{Request, RequestStatus};
use sjail_policy::wire::request::Typed;

use super::body::Body;
use crate::audit::ledger::Ledger;
use crate::audit::record::{Entry, Event};
use crate::error::{Error, Result};
use crate::process::ProcessId;

/// A request from the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its place in the order of asking.
    pub number: i64,
    /// Its name.
    pub id: String,
    /// How it stands.
    pub status: RequestStatus,
    /// The account.
    pub uid: u32,
    /// Seconds since 1970 when it was asked.
    pub created: i64,
    /// Seconds since 1970 when it lapses.
    pub expires: i64,
    /// Who answered.
    pub approver: Option<String>,
    /// What they wrote.
    pub note: Option<String>,
    /// The rest.
    pub body: Body,
}

/// As [`read`] wants them.
pub(super) const COLUMNS: &str = "number, id, status, uid, created, expires, approver, note, body";

/// Ends a request that nobody waits for any more.
pub fn withdraw(ledger: &mut Ledger, id: &str, why: &str) -> Result<()> {
    let stored = find(ledger.connection(), id)?;
    if stored.status != RequestStatus::Pending {
        return Err(wrong_status(&stored));
    }
    set_status(ledger, &stored, RequestStatus::Expired, None, Some(why))?;
    let entry = about(&stored, Event::Approval, RequestStatus::Expired);
    ledger.append(entry.detail(&serde_json::json!({ "note": why })))?;
    Ok(())
}

/// Uses an answer that lets nothing run by itself.
pub fn use_up(ledger: &mut Ledger, id: &str) -> Result<Stored> {
    let stored = find(ledger.connection(), id)?;
    if stored.status != RequestStatus::Approved {
        return Err(wrong_status(&stored));
    }
    set_status(ledger, &stored, RequestStatus::Used, None, None)?;
    Ok(stored)
}

/// Adds what a preview found to a request that waits: once, by the process that asked.
pub fn attach(
    ledger: &mut Ledger,
    id: &str,
    requester: ProcessId,
    evidence: serde_json::Value,
) -> Result<Stored> {
    let mut stored = find(ledger.connection(), id)?;
    if stored.body.requester != Some(requester) {
        return Err(Error::NotFound {
            what: "request",
            name: id.to_owned(),
        });
    }
    // What somebody may have read already is not changed under their eyes.
    if stored.status != RequestStatus::Pending || stored.body.evidence.is_some() {
        return Err(wrong_status(&stored));
    }
    stored.body.evidence = Some(evidence);
    set_status(ledger, &stored, RequestStatus::Pending, None, None)?;
    Ok(stored)
}

fn wrong_status(stored: &Stored) -> Error {
    Error::WrongStatus {
        id: stored.id.clone(),
        status: stored.status.name(),
    }
}

/// The request of that name.
pub fn find(connection: &Connection, id: &str) -> Result<Stored> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM request WHERE id = ?1"))
        .and_then(|mut statement| statement.query_row([id], read).optional())
        .map_err(Error::database("read a request"))?
        .unwrap_or_else(|| {
            Err(Error::NotFound {
                what: "request",
                name: id.to_owned(),
            })
        })
}

/// What the jail enforces for an approved request.
pub fn plan(connection: &Connection, id: &str) -> Result<Option<Plan>> {
    let text: Option<String> = connection
        .prepare_cached("SELECT plan FROM request WHERE id = ?1")
        .and_then(|mut statement| statement.query_row([id], |row| row.get(0)))
        .map_err(Error::database("read a plan"))?;
    text.map(|text| {
        serde_json::from_str(&text).map_err(|error| Error::Unreadable {
            what: "a plan",
            problem: error.to_string(),
        })
    })
    .transpose()
}

/// Which part of the queue is wanted.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Only this status.
    pub status: Option<RequestStatus>,
    /// At most so many.
    pub limit: u32,
    /// Only requests before the one of this name.
    pub before: Option<String>,
}

/// All that wait.
pub fn pending(connection: &Connection) -> Result<Vec<Stored>> {
    let all = Page {
        status: Some(RequestStatus::Pending),
        before: None,
        limit: u32::MAX,
    };
    list(connection, &all).map(|(stored, _)| stored)
}

/// Requests, the newest first, and how many there are in all.
pub fn list(connection: &Connection, page: &Page) -> Result<(Vec<Stored>, u64)> {
    let act = "list the requests";
    let status = page.status.map(RequestStatus::name);
    let before = match &page.before {
        Some(id) => find(connection, id)?.number,
        None => i64::MAX,
    };
    // A constant condition per case, so that the index serves both.
    let condition = if status.is_some() {
        "status = ?1"
    } else {
        "?1 IS NULL"
    };
    let total: i64 = connection
        .prepare_cached(&format!("SELECT count(*) FROM request WHERE {condition}"))
        .and_then(|mut statement| statement.query_row([status], |row| row.get(0)))
        .map_err(Error::database(act))?;
    let mut statement = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM request WHERE {condition} AND number < ?2 \
             ORDER BY number DESC LIMIT ?3"
        ))
        .map_err(Error::database(act))?;
    let rows = statement
        .query_map(params![status, before, page.limit], read)
        .map_err(Error::database(act))?;
    let mut found = Vec::new();
    for row in rows {
        found.push(row.map_err(Error::database(act))??);
    }
    Ok((found, total.unsigned_abs()))
}

/// Lets requests and approvals lapse whose time is over; returns their names.
pub fn expire(ledger: &mut Ledger, now: i64) -> Result<Vec<String>> {
    let act = "let requests lapse";
    let lapsed: Vec<String> = ledger
        .connection()
        // By name: SQLite would rather look at every request that waits.
        .prepare_cached(
            "SELECT id FROM request INDEXED BY request_expires \
             WHERE status IN ('pending', 'approved') AND expires <= ?1 LIMIT 500",
        )
        .and_then(|mut statement| statement.query_map([now], |row| row.get(0))?.collect())
        .map_err(Error::database(act))?;
    for id in &lapsed {
        let stored = find(ledger.connection(), id)?;
        set_status(ledger, &stored, RequestStatus::Expired, None, None)?;
        let entry = about(&stored, Event::Approval, RequestStatus::Expired);
        ledger.append(entry)?;
    }
    Ok(lapsed)
}

/// Forgets requests from before a time; those still waiting lapse first.
pub fn clear(ledger: &mut Ledger, before: i64, by: &str) -> Result<u64> {
    let act = "clear the queue";
    let waiting: Vec<String> = ledger
        .connection()
        .prepare_cached(
            "SELECT id FROM request WHERE status IN ('pending', 'approved') AND created < ?1",
        )
        .and_then(|mut statement| statement.query_map([before], |row| row.get(0))?.collect())
        .map_err(Error::database(act))?;
    for id in &waiting {
        let stored = find(ledger.connection(), id)?;
        set_status(
            ledger,
            &stored,
            RequestStatus::Expired,
            Some(by),
            Some("cleared"),
        )?;
        let mut entry = about(&stored, Event::Approval, RequestStatus::Expired);
        entry.approver = Some(by.to_owned());
        ledger.append(entry.detail(&serde_json::json!({ "note": "cleared" })))?;
    }
    let count = ledger
        .connection()
        .execute("DELETE FROM request WHERE created < ?1", [before])
        .map_err(Error::database(act))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

/// Changes how a request stands. Once it can no longer run, what only the run would
/// have needed is forgotten.
pub(super) fn set_status(
    ledger: &Ledger,
    stored: &Stored,
    status: RequestStatus,
    approver: Option<&str>,
    note: Option<&str>,
) -> Result<()> {
    let over = !matches!(status, RequestStatus::Pending | RequestStatus::Approved);
    let mut body = stored.body.clone();
    if over {
        body.options.clear();
        body.command.clone_from(&body.redacted.command);
        body.typed = Typed::Argv(body.redacted.argv.clone());
        body.argv.clone_from(&body.redacted.argv);
        body.binding.argv.clone_from(&body.redacted.argv);
    }
    let changed = ledger
        .connection()
        .prepare_cached(
            "UPDATE request SET status = ?2, approver = coalesce(?3, approver), \
             note = coalesce(?4, note), body = ?5, plan = iif(?7, NULL, plan) WHERE id = ?1 AND status = ?6",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                stored.id,
                status.name(),
                approver,
                note,
                to_json(&body).unwrap_or_default(),
                stored.status.name(),
                over
            ])
        })
        .map_err(Error::database("change a request"))?;
    if changed == 1 {
        Ok(())
    } else {
        Err(Error::WrongStatus {
            id: stored.id.clone(),
            status: stored.status.name(),
        })
    }
}

/// A record about a request.
pub(super) fn about(stored: &Stored, event: Event, status: RequestStatus) -> Entry {
    let mut entry = Entry::new(event);
    entry.id = Some(stored.id.clone());
    entry.command = Some(stored.body.redacted.command.clone());
    entry.user = Some(stored.body.user.clone());
    entry.agent.clone_from(&stored.body.agent);
    entry.session.clone_from(&stored.body.session);
    entry.risk = Some(stored.body.risk.name().to_owned());
    entry.decision = Some(status.name().to_owned());
    entry
}

impl Stored {
    /// As the owner sees it; the binding only when one request is looked at.
    pub fn to_wire(&self, detail: Detail) -> Request {
        let body = &self.body;
        Request {
            id: self.id.clone(),
            status: self.status,
            command: body.command.clone(),
            argv: body.argv.clone(),
            cwd: body.cwd.clone(),
            risk: body.risk,
            reasons: body.reasons.clone(),
            rule: body.rule.clone(),
            needs: body.needs.clone(),
            access: body.access.clone(),
            user: body.user.clone(),
            agent: body.agent.clone(),
            session: body.session.clone(),
            peer: body.peer.clone(),
            created: self.created,
            expires: self.expires,
            approver: self.approver.clone(),
            note: self.note.clone(),
            workspace: body.workspace.clone(),
            evidence: match detail {
                Detail::All => body.evidence.clone(),
                Detail::Short => body
                    .shown()
                    .map(|summary| serde_json::json!({ "summary": summary })),
            },
            binding: (detail == Detail::All).then(|| body.binding.clone()),
            always: if detail == Detail::All {
                body.always.clone()
            } else {
                None
            },
        }
    }
}

/// How much of a request is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What a listing needs.
    Short,
    /// Everything.
    All,
}

/// A row; the outer error is the database's, the inner one the content's.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Result<Stored>> {
    let unreadable = |problem: String| Error::Unreadable {
        what: "a request",
        problem,
    };
    let (status, body): (String, String) = (row.get(2)?, row.get(8)?);
    let parsed = RequestStatus::parse(&status)
        .ok_or_else(|| unreadable(format!("unknown status {status}")))
        .and_then(|status| {
            let body: Body =
                serde_json::from_str(&body).map_err(|error| unreadable(error.to_string()))?;
            Ok((status, body))
        });
    Ok(match parsed {
        Ok((status, body)) => Ok(Stored {
            number: row.get(0)?,
            id: row.get(1)?,
            status,
            uid: row.get(3)?,
            created: row.get(4)?,
            expires: row.get(5)?,
            approver: row.get(6)?,
            note: row.get(7)?,
            body,
        }),
        Err(error) => Err(error),
    })
}

pub(super) fn to_json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Unreadable {
        what: "a request",
        problem: error.to_string(),
    })
}
