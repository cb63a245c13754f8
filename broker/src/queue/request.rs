//! A request: what is kept of it, how it is asked, found and how it lapses.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use sjail_policy::bytes::ByteString;
use sjail_policy::need::Need;
use sjail_policy::plan::Plan;
use sjail_policy::risk::Risk;
use sjail_policy::wire::control::{Proposal, Request, RequestStatus};
use sjail_policy::wire::request::{Apply, Binding, Place, Typed};

use crate::audit::ledger::Ledger;
use crate::audit::record::{Entry, Event, Hash};
use crate::error::{Error, Result};
use crate::id;
use crate::process::ProcessId;

/// What is kept of a request beside its status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    /// The command as one line.
    pub command: String,
    /// As it was typed.
    pub typed: Typed,
    /// The program and its arguments.
    pub argv: Vec<ByteString>,
    /// Line and arguments without secrets: what the log gets, and what is left of
    /// them once the request is over.
    pub redacted: Redacted,
    /// Where it would start.
    pub cwd: ByteString,
    /// The workspace.
    pub workspace: ByteString,
    /// The options of the command line that change policy.
    pub options: Vec<ByteString>,
    /// The risk.
    pub risk: Risk,
    /// Why.
    pub reasons: Vec<String>,
    /// The rule that asks.
    pub rule: String,
    /// What it needs beyond the jail.
    pub needs: Vec<String>,
    /// The part of it that no option names.
    #[serde(default)]
    pub access: Vec<Need>,
    /// What differs from an earlier approval.
    pub changed: Vec<String>,
    /// The account.
    pub user: String,
    /// The agent, a claim.
    pub agent: Option<String>,
    /// The session, a claim.
    pub session: Option<String>,
    /// The process that asked, as the kernel saw it.
    pub peer: serde_json::Value,
    /// The process that asked.
    pub requester: Option<ProcessId>,
    /// Everything that acts for whoever asked.
    pub circle: Vec<ProcessId>,
    /// Whether the requester may answer at its own terminal.
    pub inline: bool,
    /// Where it would run.
    pub place: Place,
    /// What an approval ties itself to.
    pub binding: Binding,
    /// The pattern that "always" would allow.
    pub always: Option<Proposal>,
    /// What is asked for.
    #[serde(default)]
    pub subject: Subject,
    /// Asked for inside a jail, to run outside: who holds that jail and runs it.
    #[serde(default)]
    pub holder: Option<ProcessId>,
    /// What a preview found, as the requester tells it.
    #[serde(default)]
    pub evidence: Option<serde_json::Value>,
    /// The preview that is to be kept; nothing is to run.
    #[serde(default)]
    pub commit: Option<String>,
    /// Whoever said yes wants this kept as it was shown.
    #[serde(default)]
    pub apply: Option<Apply>,
    /// The command that tells the owner when a preview has shown what there is to see.
    #[serde(default)]
    pub on_ask: Vec<String>,
}

impl Body {
    /// What a preview showed, in one sentence.
    pub fn shown(&self) -> Option<&str> {
        self.evidence.as_ref()?["summary"].as_str()
    }

    /// Whether this is the question of `before` again. The same command in the same place is
    /// not enough: it comes under the same names, with the same options, for the same
    /// purpose, and out of a jail only from the processes that asked.
    fn comes_back_for(&self, before: &Body) -> bool {
        let is_jailed = |body: &Body| body.peer["jailed"] != false;
        let same_jail =
            is_jailed(self) && self.circle.iter().any(|own| before.circle.contains(own));
        self.typed == before.typed
            && self.cwd == before.cwd
            && self.workspace == before.workspace
            && self.options == before.options
            && self.agent == before.agent
            && self.session == before.session
            && self.subject == before.subject
            && self.commit == before.commit
            && self.place == before.place
            && self.holder == before.holder
            && is_jailed(self) == is_jailed(before)
            && (!is_jailed(self) || same_jail)
    }

    /// The preview that was shown, if it can be kept.
    pub fn kept(&self) -> Option<Apply> {
        let evidence = self.evidence.as_ref()?;
        Some(Apply {
            preview: evidence["preview"].as_str()?.to_owned(),
            digest: evidence["digest"].as_str()?.to_owned(),
        })
    }
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// To run a command.
    #[default]
    Command,
    /// To let a command that runs reach a host.
    Host {
        /// The run.
        run: String,
        /// The package manager that it is, where that needs a registry: always means for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
    },
}

/// A command without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redacted {
    /// As one line.
    pub command: String,
    /// The program and its arguments.
    pub argv: Vec<ByteString>,
}

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

const COLUMNS: &str = "number, id, status, uid, created, expires, approver, note, body";

/// Whether a reason says that something is sent away: its owner hears of that at once.
fn is_sending(reason: &str) -> bool {
    reason.starts_with("Sends ") && reason.ends_with(" away")
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
            "message": format!("the approval queue is full: {waiting} requests wait"),
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
fn read(row: &Row<'_>) -> rusqlite::Result<Result<Stored>> {
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

fn to_json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Unreadable {
        what: "a request",
        problem: error.to_string(),
    })
}
