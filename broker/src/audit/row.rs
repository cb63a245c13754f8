//! A record as a row of the table.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};

use crate::audit::record::{Entry, Event, Hash, Record};

/// The columns, in the order in which [`read`] expects them.
pub const COLUMNS: &str = "seq, time, event, id, command, argv, cwd, user, agent, session, risk, \
     reasons, decision, rule, approver, policy, isolation, exit, signal, duration, usage, \
     output_head, output_tail, detail, prev, hash";

/// Adds a record.
pub fn insert(connection: &Connection, record: &Record) -> rusqlite::Result<()> {
    let entry = &record.entry;
    connection
        .prepare_cached(
            "INSERT INTO record (seq, time, event, id, command, argv, cwd, user, agent, session, \
             risk, reasons, decision, rule, approver, policy, isolation, exit, signal, duration, \
             usage, output_head, output_tail, detail, prev, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, \
             ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, \
             ?24, ?25, ?26)",
        )?
        .execute(params![
            record.seq,
            record.time,
            entry.event.name(),
            entry.id,
            entry.command,
            entry.argv,
            entry.cwd,
            entry.user,
            entry.agent,
            entry.session,
            entry.risk,
            entry.reasons,
            entry.decision,
            entry.rule,
            entry.approver,
            entry.policy,
            entry.isolation,
            entry.exit,
            entry.signal,
            entry.duration,
            entry.usage,
            entry.output_head,
            entry.output_tail,
            entry.detail,
            record.prev.0,
            record.hash.0,
        ])?;
    Ok(())
}

/// Why a row is not a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotARecord(pub String);

/// Reads a row that was selected with [`COLUMNS`]. Takes nothing for granted: the
/// file may have been changed by anybody.
pub fn read(row: &Row<'_>) -> Result<Record, NotARecord> {
    let name = text(row, 2)?.unwrap_or_default();
    let event = Event::ALL
        .into_iter()
        .find(|event| event.name() == name)
        .ok_or_else(|| NotARecord(format!("unknown event {name:?}")))?;
    Ok(Record {
        seq: required(row, 0)?,
        time: required(row, 1)?,
        entry: Entry {
            event,
            id: text(row, 3)?,
            command: text(row, 4)?,
            argv: text(row, 5)?,
            cwd: text(row, 6)?,
            user: text(row, 7)?,
            agent: text(row, 8)?,
            session: text(row, 9)?,
            risk: text(row, 10)?,
            reasons: text(row, 11)?,
            decision: text(row, 12)?,
            rule: text(row, 13)?,
            approver: text(row, 14)?,
            policy: text(row, 15)?,
            isolation: text(row, 16)?,
            exit: number(row, 17)?,
            signal: number(row, 18)?,
            duration: number(row, 19)?,
            usage: text(row, 20)?,
            output_head: text(row, 21)?,
            output_tail: text(row, 22)?,
            detail: text(row, 23)?,
        },
        prev: hash(row, 24)?,
        hash: hash(row, 25)?,
    })
}

fn value<'row>(row: &'row Row<'_>, column: usize) -> Result<ValueRef<'row>, NotARecord> {
    row.get_ref(column)
        .map_err(|error| NotARecord(error.to_string()))
}

fn text(row: &Row<'_>, column: usize) -> Result<Option<String>, NotARecord> {
    match value(row, column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(NotARecord(format!("column {column} is not UTF-8"))),
        },
        _ => Err(NotARecord(format!("column {column} is not text"))),
    }
}

fn number(row: &Row<'_>, column: usize) -> Result<Option<i64>, NotARecord> {
    match value(row, column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(number) => Ok(Some(number)),
        _ => Err(NotARecord(format!("column {column} is not a number"))),
    }
}

fn required(row: &Row<'_>, column: usize) -> Result<i64, NotARecord> {
    number(row, column)?.ok_or_else(|| NotARecord(format!("column {column} is empty")))
}

fn hash(row: &Row<'_>, column: usize) -> Result<Hash, NotARecord> {
    match value(row, column)? {
        ValueRef::Blob(bytes) => bytes
            .try_into()
            .map(Hash)
            .map_err(|_| NotARecord(format!("column {column} is not a hash"))),
        _ => Err(NotARecord(format!("column {column} is not a hash"))),
    }
}
