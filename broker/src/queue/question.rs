//! A question: how it gets into the queue, or is found there already.

use rusqlite::{Connection, params};
use sjail_policy::plan::Plan;
use sjail_policy::wire::control::RequestStatus;

use super::body::Body;
use super::request::{COLUMNS, Stored, expire, find, read, to_json};
use crate::audit::ledger::Ledger;
use crate::audit::record::{Entry, Event, Hash};
use crate::error::{Error, Result};
use crate::id;

/// A request to be put in the queue.
#[derive(Debug, Clone)]
pub struct New {
    /// The account.
    pub uid: u32,
    /// What identifies the same command asked again.
    pub twin: Hash,
    /// So many seconds until it lapses.
    pub ttl: i64,
    /// So many may wait at once.
    pub limit: u64,
    /// The rest.
    pub body: Body,
    /// What the jail would enforce; its environment is taken from the run itself.
    pub plan: Option<Plan>,
    /// The record that tells of it; id and decision are filled in.
    pub entry: Entry,
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// It waits under this name.
    New(Box<Stored>),
    /// The very same command already waits, for an answer or to be run.
    Same(Box<Stored>),
    /// So many wait already that this one is refused.
    Full {
        /// How many.
        waiting: u64,
    },
}

/// The approval of this very question, if somebody has said yes to it and nobody has used
/// that yet: whoever did not wait for the answer comes back for it with the same command.
pub fn answered(connection: &Connection, new: &New, now: i64) -> Result<Option<Stored>> {
    same(connection, new, RequestStatus::Approved, now)
}

/// The same question, if it stands like this and has not lapsed.
fn same(
    connection: &Connection,
    new: &New,
    status: RequestStatus,
    now: i64,
) -> Result<Option<Stored>> {
    let act = "look for the same request";
    let mut statement = connection
        // The first condition is the index's own, word by word: it is not used otherwise.
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM request WHERE status IN ('pending', 'approved') \
             AND twin = ?1 AND status = ?2 AND expires > ?3 ORDER BY number"
        ))
        .map_err(Error::database(act))?;
    let rows = statement
        .query_map(params![new.twin.0, status.name(), now], read)
        .map_err(Error::database(act))?;
    for row in rows {
        let stored = row.map_err(Error::database(act))??;
        if stored.uid == new.uid && new.body.comes_back_for(&stored.body) {
            return Ok(Some(stored));
        }
    }
    Ok(None)
}

/// Puts a request in the queue, unless the same one waits already.
pub fn ask(ledger: &mut Ledger, new: New, now: i64) -> Result<Asked> {
    expire(ledger, now)?;
    let connection = ledger.connection();
    if let Some(same) = same(connection, &new, RequestStatus::Pending, now)? {
        return Ok(Asked::Same(Box::new(same)));
    }
    let waiting: i64 = connection
        .prepare_cached("SELECT count(*) FROM request WHERE status = 'pending'")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(Error::database("count the requests"))?;
    let waiting = waiting.unsigned_abs();
    // Jails fill half of it at most: whoever is outside can still ask.
    let half = new.limit.div_ceil(2);
    let is_jailed = new.body.peer["jailed"] == true;
    let jails_are_full = is_jailed && waiting >= half && jailed(connection)? >= half;
    if waiting >= new.limit || jails_are_full {
        let mut entry = new.entry;
        entry.event = Event::Decision;
        entry.decision = Some("block".to_owned());
        entry.rule = Some("approval.queue_limit".to_owned());
        ledger.append(entry)?;
        let detail = serde_json::json!({
            "alert": "queue-full",
            "message": format!("the approval queue is full: {waiting} waiting"),
        });
        ledger.append(Entry::new(Event::Alert).detail(&detail))?;
        return Ok(Asked::Full { waiting });
    }
    if let Some(reason) = new.body.reasons.iter().find(|reason| is_sending(reason)) {
        let message = format!("{reason}: {}", new.body.redacted.command);
        let detail = serde_json::json!({ "alert": "network", "message": message });
        ledger.append(Entry::new(Event::Alert).detail(&detail))?;
    }
    let connection = ledger.connection();
    let id = fresh_id(connection)?;
    let body = to_json(&new.body)?;
    let plan = new.plan.as_ref().map(to_json).transpose()?;
    connection
        .prepare_cached(
            "INSERT INTO request (id, status, uid, created, expires, twin, body, plan) \
             VALUES (?1, 'pending', ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                id,
                new.uid,
                now,
                now + new.ttl,
                new.twin.0,
                body,
                plan
            ])
        })
        .map_err(Error::database("put a request in the queue"))?;
    let mut entry = new.entry;
    entry.event = Event::Decision;
    entry.id = Some(id.clone());
    entry.decision = Some("ask".to_owned());
    ledger.append(entry)?;
    Ok(Asked::New(Box::new(find(ledger.connection(), &id)?)))
}

/// Whether a reason says that something is sent away: its owner hears of that at once.
fn is_sending(reason: &str) -> bool {
    reason.starts_with("Sends ") && reason.ends_with(" away")
}

/// How many of those that wait were asked for in a jail.
fn jailed(connection: &Connection) -> Result<u64> {
    // Text of others is escaped in there: it cannot look like this.
    let count = "SELECT count(*) FROM request WHERE status = 'pending' \
                 AND instr(body, '\"jailed\":true') > 0";
    let counted: i64 = connection
        .prepare_cached(count)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(Error::database("count the requests of jails"))?;
    Ok(counted.unsigned_abs())
}

/// A name that neither the queue nor the log knows.
fn fresh_id(connection: &Connection) -> Result<String> {
    loop {
        let id = id::request()?;
        let taken: bool = connection
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM request WHERE id = ?1) \
                 OR EXISTS (SELECT 1 FROM record WHERE id = ?1)",
            )
            .and_then(|mut statement| statement.query_row([&id], |row| row.get(0)))
            .map_err(Error::database("look for a free name"))?;
        if !taken {
            return Ok(id);
        }
    }
}

/// So many questions of one run wait.
pub fn waiting_for_run(connection: &Connection, run: &str) -> Result<u32> {
    connection
        .prepare_cached(
            "SELECT count(*) FROM request WHERE status = 'pending' \
             AND json_extract(body, '$.subject.host.run') = ?1",
        )
        .and_then(|mut statement| statement.query_row([run], |row| row.get(0)))
        .map_err(Error::database("count the requests"))
}
