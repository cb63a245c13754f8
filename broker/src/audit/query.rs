//! Looking into the log: single records, and commands with all that became of them.

use std::collections::HashSet;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use serde::Serialize;
use serde_json::Value as Json;
use sjail_policy::wire::control::AuditFilter;

use crate::audit::record::{Event, Record};
use crate::audit::row;
use crate::error::{Error, Result};

/// So many commands are shown when nobody says how many.
pub const DEFAULT_LAST: u32 = 50;

/// More commands than this are many.
const MANY: i64 = 10_000;

/// One command with its decision, its answer and its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The record that tells of it first.
    pub seq: i64,
    /// When, RFC 3339 in UTC.
    pub timestamp: String,
    /// Its id.
    pub id: Option<String>,
    /// How it stands: `executed`, `failed`, `running`, `lost`, `blocked`, `pending`,
    /// `approved`, `rejected`, `expired`.
    pub status: String,
    /// The command as one line.
    pub command: String,
    /// Its arguments.
    pub argv: Json,
    /// Where it started.
    pub cwd: Option<String>,
    /// The account.
    pub user: Option<String>,
    /// The agent, a claim.
    pub agent: Option<String>,
    /// The session, a claim unless registered.
    pub session: Option<String>,
    /// The risk.
    pub risk_level: Option<String>,
    /// Why.
    pub risk_reasons: Json,
    /// What was decided.
    pub decision: Option<String>,
    /// The rule that decided.
    pub rule: Option<String>,
    /// Who answered.
    pub approver: Option<String>,
    /// What they wrote.
    pub note: Option<String>,
    /// The exit code.
    pub exit_code: Option<i64>,
    /// The signal that ended it.
    pub signal: Option<i64>,
    /// How long it ran.
    pub duration_ms: Option<f64>,
    /// The start of its output.
    pub output: Option<String>,
    /// How the program text begins that it was given, where it was given one.
    #[serde(skip)]
    pub text: Option<String>,
}

/// The newest commands that the filter lets through, the oldest of them first.
pub fn commands(connection: &Connection, filter: &AuditFilter) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    let last = filter.last.unwrap_or(DEFAULT_LAST) as usize;
    scan(
        connection,
        filter,
        Kind::Commands,
        Order::NewestFirst,
        |record| {
            let line = line_of(connection, record)?;
            if filter
                .status
                .as_ref()
                .is_none_or(|status| *status == line.status)
            {
                lines.push(line);
            }
            Ok(if lines.len() < last { Go::On } else { Go::Stop })
        },
    )?;
    lines.reverse();
    Ok(lines)
}

/// The names of all commands that stand as the filter wants; `None` where it does not say.
pub fn standing(connection: &Connection, filter: &AuditFilter) -> Result<Option<HashSet<String>>> {
    let Some(status) = &filter.status else {
        return Ok(None);
    };
    let mut names = HashSet::new();
    let order = Order::NewestFirst;
    scan(connection, filter, Kind::Commands, order, |record| {
        let line = line_of(connection, record)?;
        if line.status == *status {
            names.extend(line.id);
        }
        Ok(Go::On)
    })?;
    Ok(Some(names))
}

/// The newest records that the filter lets through, the oldest of them first.
pub fn records(connection: &Connection, filter: &AuditFilter) -> Result<Vec<Record>> {
    let mut found = Vec::new();
    let last = filter.last.unwrap_or(DEFAULT_LAST) as usize;
    scan(
        connection,
        filter,
        Kind::All,
        Order::NewestFirst,
        |record| {
            found.push(record);
            Ok(if found.len() < last { Go::On } else { Go::Stop })
        },
    )?;
    found.reverse();
    Ok(found)
}

/// The record of that number.
pub fn record(connection: &Connection, seq: i64) -> Result<Option<Record>> {
    connection
        .query_row(
            &format!("SELECT {} FROM record WHERE seq = ?1", row::COLUMNS),
            [seq],
            |row| Ok(row::read(row).ok()),
        )
        .optional()
        .map(Option::flatten)
        .map_err(Error::database("read a record"))
}

/// Which records are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The first record of every command.
    Commands,
    /// All.
    All,
}

/// In which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As written.
    OldestFirst,
    /// Backwards.
    NewestFirst,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    /// With the next record.
    On,
    /// Enough.
    Stop,
}

/// Hands each matching record to `visit`, one at a time.
pub fn scan(
    connection: &Connection,
    filter: &AuditFilter,
    kind: Kind,
    order: Order,
    mut visit: impl FnMut(Record) -> Result<Go>,
) -> Result<()> {
    let (sql, values) = statement(connection, filter, kind, order)?;
    let mut statement = connection
        .prepare(&sql)
        .map_err(Error::database("search the log"))?;
    let mut rows = statement
        .query(params_from_iter(values))
        .map_err(Error::database("search the log"))?;
    while let Some(row) = rows.next().map_err(Error::database("search the log"))? {
        // What is not a record is verify's to name.
        if let Ok(record) = row::read(row)
            && visit(record)? == Go::Stop
        {
            break;
        }
    }
    Ok(())
}

fn statement(
    connection: &Connection,
    filter: &AuditFilter,
    kind: Kind,
    order: Order,
) -> Result<(String, Vec<Value>)> {
    let mut conditions: Vec<String> = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    let mut add = |condition: &str, value: Value| {
        values.push(value);
        conditions.push(condition.replace('?', &format!("?{}", values.len())));
    };
    // Time grows with the number, so a time is a number after a short search.
    if let Some(since) = filter.since {
        let first = first_at(connection, since.saturating_mul(1_000_000))?;
        add("seq >= ?", Value::Integer(first.unwrap_or(i64::MAX)));
    }
    if let Some(until) = filter.until
        && let Some(after) = first_at(
            connection,
            until.saturating_add(1).saturating_mul(1_000_000),
        )?
    {
        add("seq < ?", Value::Integer(after));
    }
    let text = |value: &str| Value::Text(value.to_owned());
    if let Some(risk) = filter.risk {
        // Spelled out, not bound: the partial index is only used for a constant.
        add(
            &format!("risk = '{}' AND ? = 1", risk.name()),
            Value::Integer(1),
        );
    }
    if let Some(user) = &filter.user {
        add("user = ?", text(user));
    }
    if let Some(agent) = &filter.agent {
        add("agent = ?", text(agent));
    }
    if let Some(session) = &filter.session {
        add("session = ?", text(session));
    }
    if let Some(id) = &filter.id {
        add("id = ?", text(id));
    }
    if let Some(pattern) = &filter.command_pattern {
        match kind {
            Kind::Commands => match few_like(connection, pattern)? {
                Some(found) => add("seq IN (SELECT value FROM json_each(?))", text(&found)),
                // Some of the many are near the end of the log: the plus keeps them from
                // being gathered and sorted.
                None => add("+command GLOB ?", text(pattern)),
            },
            _ => add("command GLOB ?", text(pattern)),
        }
    }
    if kind == Kind::Commands {
        conditions.push(first_of(connection, filter.status.as_deref())?);
    }
    let filtered = if conditions.is_empty() {
        String::new()
    } else {
        format!("WHERE {}", conditions.join(" AND "))
    };
    let direction = match order {
        Order::OldestFirst => "ASC",
        Order::NewestFirst => "DESC",
    };
    let sql = format!(
        "SELECT {} FROM record {filtered} ORDER BY seq {direction}",
        row::COLUMNS
    );
    Ok((sql, values))
}

/// Which records are the first of a command that may stand so. Few of many are found by an
/// index, not by looking at what became of each command.
fn first_of(connection: &Connection, status: Option<&str>) -> Result<String> {
    const FIRST: &str = "(event = 'decision' OR (event = 'intent' AND decision <> 'approved'))";
    const ASKED: &str = "event = 'decision' AND decision = 'ask'";
    const FAILED: &str = "event = 'outcome' AND exit IS NOT 0";
    Ok(match status {
        Some("blocked") => "event = 'decision' AND decision <> 'ask'".to_owned(),
        Some("pending") => {
            format!("{ASKED} AND id IN (SELECT id FROM request WHERE status = 'pending')")
        }
        Some(answer @ ("approved" | "rejected" | "expired")) => format!(
            "{ASKED} AND id IN \
             (SELECT id FROM record WHERE event = 'approval' AND decision = '{answer}')"
        ),
        Some("running") => format!("{FIRST} AND id IN (SELECT id FROM run)"),
        Some("previewed") => "event = 'intent' AND decision = 'preview'".to_owned(),
        Some("lost") => {
            format!("{FIRST} AND id IN (SELECT id FROM record WHERE {FAILED} AND exit IS NULL)")
        }
        Some("failed") if are_few(connection)? => {
            format!("{FIRST} AND id IN (SELECT id FROM record WHERE {FAILED})")
        }
        Some("failed") => format!(
            "{FIRST} AND EXISTS \
             (SELECT 1 FROM record AS later WHERE later.id = record.id AND {FAILED})"
        ),
        _ => FIRST.to_owned(),
    })
}

/// The numbers of the records whose command is like the pattern, as a JSON list, if they are
/// few: found in the index of commands, which is far smaller than the log.
fn few_like(connection: &Connection, pattern: &str) -> Result<Option<String>> {
    let found: Vec<i64> = connection
        .prepare_cached(
            // The first condition is the index's own.
            "SELECT seq FROM record WHERE command IS NOT NULL AND command GLOB ?1 LIMIT ?2",
        )
        .and_then(|mut statement| {
            statement
                .query_map(params![pattern, MANY], |row| row.get(0))?
                .collect()
        })
        .map_err(Error::database("search the log"))?;
    Ok(match (found.len() as i64) < MANY {
        true => serde_json::to_string(&found).ok(),
        false => None,
    })
}

/// Whether so few commands have failed that they are found by their ends; where many have,
/// the newest of them are near the end of the log.
fn are_few(connection: &Connection) -> Result<bool> {
    let found: i64 = connection
        .query_row(
            "SELECT count(*) FROM (SELECT 1 FROM record \
             WHERE event = 'outcome' AND exit IS NOT 0 LIMIT ?1)",
            [MANY],
            |row| row.get(0),
        )
        .map_err(Error::database("search the log"))?;
    Ok(found < MANY)
}

/// The number of the first record at or after a time, in microseconds.
pub fn first_at(connection: &Connection, time: i64) -> Result<Option<i64>> {
    let bounds: (Option<i64>, Option<i64>) = connection
        .query_row(
            "SELECT (SELECT min(seq) FROM record), (SELECT max(seq) FROM record)",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .map_err(Error::database("search the log by time"))?;
    let (Some(mut low), Some(high)) = bounds else {
        return Ok(None);
    };
    let mut high = high + 1;
    let mut probe = connection
        .prepare_cached("SELECT seq, time FROM record WHERE seq >= ?1 ORDER BY seq LIMIT 1")
        .map_err(Error::database("search the log by time"))?;
    while low < high {
        let middle = low + (high - low) / 2;
        let found: Option<(i64, i64)> = probe
            .query_row([middle], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(Error::database("search the log by time"))?;
        match found {
            Some((seq, at)) if at < time => low = seq + 1,
            _ => high = middle,
        }
    }
    probe
        .query_row([low], |row| row.get(0))
        .optional()
        .map_err(Error::database("search the log by time"))
}

/// What became of the command that this record tells of first.
pub fn line_of(connection: &Connection, first: Record) -> Result<Line> {
    let detail = json(first.entry.detail.as_deref());
    let mut line = Line {
        seq: first.seq,
        timestamp: timestamp(first.time),
        id: first.entry.id.clone(),
        status: match (first.entry.event, first.entry.decision.as_deref()) {
            (Event::Decision, Some("ask")) => "pending",
            (Event::Decision, _) => "blocked",
            _ => "running",
        }
        .to_owned(),
        command: first.entry.command.unwrap_or_default(),
        argv: json(first.entry.argv.as_deref()),
        cwd: first.entry.cwd,
        user: first.entry.user,
        agent: first.entry.agent,
        session: first.entry.session,
        risk_level: first.entry.risk,
        risk_reasons: json(first.entry.reasons.as_deref()),
        decision: first.entry.decision,
        rule: first.entry.rule,
        approver: first.entry.approver,
        note: None,
        exit_code: None,
        signal: None,
        duration_ms: None,
        output: None,
        text: detail["text"]["head"].as_str().map(str::to_owned),
    };
    let Some(id) = line.id.clone() else {
        return Ok(line);
    };
    let later = AuditFilter {
        id: Some(id),
        ..AuditFilter::default()
    };
    scan(
        connection,
        &later,
        Kind::All,
        Order::OldestFirst,
        |record| {
            if record.seq > line.seq {
                line.learn(record);
            }
            Ok(Go::On)
        },
    )?;
    Ok(line)
}

impl Line {
    fn learn(&mut self, record: Record) {
        let entry = record.entry;
        let detail = json(entry.detail.as_deref());
        match entry.event {
            Event::Approval => {
                self.status = entry.decision.unwrap_or_default();
                self.approver = entry.approver;
                self.note = detail["note"].as_str().map(str::to_owned);
            }
            Event::Intent => self.status = "running".to_owned(),
            Event::Outcome => {
                self.status = match (detail["status"].as_str(), entry.exit) {
                    (Some("lost"), _) => "lost",
                    // It ran, but on layers: the host is as before.
                    (_, Some(0)) if self.decision.as_deref() == Some("preview") => "previewed",
                    (_, Some(0)) => "executed",
                    _ => "failed",
                }
                .to_owned();
                self.exit_code = entry.exit;
                self.signal = entry.signal;
                self.duration_ms = entry.duration.map(|micros| micros as f64 / 1000.0);
                self.output = entry.output_head;
            }
            _ => {}
        }
    }
}

/// A record as people and programs read it.
pub fn record_json(record: &Record) -> Json {
    let entry = &record.entry;
    serde_json::json!({
        "seq": record.seq,
        "timestamp": timestamp(record.time),
        "time": record.time,
        "event": entry.event.name(),
        "id": entry.id,
        "command": entry.command,
        "argv": json(entry.argv.as_deref()),
        "cwd": entry.cwd,
        "user": entry.user,
        "agent": entry.agent,
        "session": entry.session,
        "risk_level": entry.risk,
        "risk_reasons": json(entry.reasons.as_deref()),
        "decision": entry.decision,
        "rule": entry.rule,
        "approver": entry.approver,
        "policy": entry.policy,
        "isolation": json(entry.isolation.as_deref()),
        "exit_code": entry.exit,
        "signal": entry.signal,
        "duration_ms": entry.duration.map(|micros| micros as f64 / 1000.0),
        "usage": json(entry.usage.as_deref()),
        "output_head": entry.output_head,
        "output_tail": entry.output_tail,
        "detail": json(entry.detail.as_deref()),
        "prev": record.prev.to_string(),
        "hash": record.hash.to_string(),
    })
}

/// A time in microseconds as RFC 3339 in UTC.
pub fn timestamp(micros: i64) -> String {
    match chrono::DateTime::from_timestamp_micros(micros) {
        Some(time) => time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
        None => micros.to_string(),
    }
}

fn json(text: Option<&str>) -> Json {
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or(Json::Null)
}
