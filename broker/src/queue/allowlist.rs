//! The allow list that `sjail allowlist` keeps, with who and when.

use rusqlite::{Connection, params};
use sjail_policy::wire::control::{Allowed, AllowlistAdd};

use crate::audit::ledger::Ledger;
use crate::audit::record::{Entry, Event};
use crate::error::{Error, Result};

/// Puts a pattern on the list. Whether it may be there was checked before.
pub fn add(ledger: &mut Ledger, what: &AllowlistAdd, by: &str, now: i64) -> Result<()> {
    let auto = what.auto_approve.unwrap_or(true);
    let added = ledger
        .connection()
        .execute(
            "INSERT INTO allowed (pattern, reason, added_by, added, auto) \
             VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
            params![what.pattern, what.reason, by, now, auto],
        )
        .map_err(Error::database("add a pattern"))?;
    if added == 0 {
        return Ok(());
    }
    let decision = if auto { "added" } else { "noted" };
    record(ledger, decision, &what.pattern, what.reason.as_deref(), by)
}

/// Takes a pattern off the list.
pub fn remove(ledger: &mut Ledger, pattern: &str, by: &str) -> Result<()> {
    let removed = ledger
        .connection()
        .execute("DELETE FROM allowed WHERE pattern = ?1", [pattern])
        .map_err(Error::database("remove a pattern"))?;
    if removed == 0 {
        return Err(Error::NotFound {
            what: "pattern",
            name: pattern.to_owned(),
        });
    }
    record(ledger, "removed", pattern, None, by)
}

fn record(
    ledger: &mut Ledger,
    decision: &str,
    pattern: &str,
    reason: Option<&str>,
    by: &str,
) -> Result<()> {
    let mut entry = Entry::new(Event::Allowlist);
    entry.decision = Some(decision.to_owned());
    entry.approver = Some(by.to_owned());
    let detail = serde_json::json!({ "pattern": pattern, "reason": reason });
    ledger.append(entry.detail(&detail))?;
    Ok(())
}

/// The patterns whose commands run without being asked about.
pub fn patterns(connection: &Connection) -> Result<Vec<String>> {
    let lines = list(connection)?.into_iter();
    Ok(lines
        .filter(|line| line.auto_approve)
        .map(|line| line.pattern)
        .collect())
}

/// The list, in the order in which it grew.
pub fn list(connection: &Connection) -> Result<Vec<Allowed>> {
    let act = "list the patterns";
    let mut statement = connection
        .prepare_cached(
            "SELECT pattern, reason, added_by, added, auto FROM allowed ORDER BY number",
        )
        .map_err(Error::database(act))?;
    let rows = statement
        .query_map([], |row| {
            Ok(Allowed {
                pattern: row.get(0)?,
                reason: row.get(1)?,
                added_by: row.get(2)?,
                added: row.get(3)?,
                auto_approve: row.get(4)?,
            })
        })
        .map_err(Error::database(act))?;
    rows.collect::<rusqlite::Result<_>>()
        .map_err(Error::database(act))
}
