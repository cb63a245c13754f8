//! The counts that statistics read, kept as records are written.

use rusqlite::{Connection, params};

use crate::audit::record::{Entry, Event, Record};
use crate::error::{Error, Result};

/// Microseconds in an hour.
pub const HOUR: i64 = 3_600_000_000;

/// So much of a command is kept to say what was asked or refused most.
const COMMAND: usize = 200;

/// Counts one record.
pub fn count(connection: &Connection, record: &Record) -> Result<()> {
    let hour = record.time.div_euclid(HOUR);
    let entry = &record.entry;
    if let (Event::Outcome, Some(duration)) = (entry.event, entry.duration) {
        let failed = i64::from(entry.exit != Some(0));
        return connection
            .prepare_cached(
                "INSERT INTO spent (hour, runs, failed, total, longest) VALUES (?1, 1, ?2, ?3, ?3) \
                 ON CONFLICT DO UPDATE SET runs = runs + 1, failed = failed + ?2, \
                 total = total + ?3, longest = max(longest, ?3)",
            )
            .and_then(|mut statement| statement.execute(params![hour, failed, duration]))
            .map(|_| ())
            .map_err(Error::database("count a run"));
    }
    let (Some(decision), Some(risk)) = (counted(entry), &entry.risk) else {
        return Ok(());
    };
    let agent = entry.agent.as_deref().unwrap_or_default();
    connection
        .prepare_cached(
            "INSERT INTO tally (hour, agent, risk, decision, count) VALUES (?1, ?2, ?3, ?4, 1) \
             ON CONFLICT DO UPDATE SET count = count + 1",
        )
        .and_then(|mut statement| statement.execute(params![hour, agent, risk, decision]))
        .map_err(Error::database("count a command"))?;
    if matches!(decision, "ask" | "block") {
        let command = entry.command.as_deref().unwrap_or_default();
        let command: String = command.chars().take(COMMAND).collect();
        connection
            .prepare_cached(
                "INSERT INTO held (hour, decision, command, count) VALUES (?1, ?2, ?3, 1) \
                 ON CONFLICT DO UPDATE SET count = count + 1",
            )
            .and_then(|mut statement| statement.execute(params![hour, decision, command]))
            .map_err(Error::database("count a command"))?;
    }
    Ok(())
}

/// The decision under which a record counts as one submitted command. An approved
/// command was counted when it was asked about, and a preview is not yet one.
fn counted(entry: &Entry) -> Option<&str> {
    let decision = entry.decision.as_deref()?;
    match entry.event {
        Event::Intent if matches!(decision, "approved" | "preview") => None,
        Event::Intent | Event::Decision => Some(decision),
        _ => None,
    }
}
