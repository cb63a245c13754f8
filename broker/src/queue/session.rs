//! Sessions that an operator registered: only such a one is more than a claim.

use rusqlite::{Connection, OptionalExtension, params};

use sjail_policy::wire::control::Registered;

use crate::audit::ledger::Ledger;
use crate::audit::record::{Entry, Event};
use crate::error::{Error, Result};

/// The role of a session that has none any more.
const NONE: &str = "none";

/// Registers a session under a role.
pub fn register(ledger: &mut Ledger, name: &str, role: &str, by: &str, now: i64) -> Result<()> {
    ledger
        .connection()
        .execute(
            "INSERT INTO session (name, role, registered, by) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (name) DO UPDATE SET role = ?2, registered = ?3, by = ?4",
            params![name, role, now, by],
        )
        .map_err(Error::database("register a session"))?;
    let mut entry = Entry::new(Event::Session);
    entry.session = Some(name.to_owned());
    entry.approver = Some(by.to_owned());
    ledger.append(entry.detail(&serde_json::json!({ "role": role })))?;
    Ok(())
}

/// Every session that has a role.
pub fn list(connection: &Connection) -> Result<Vec<Registered>> {
    let mut statement = connection
        .prepare_cached("SELECT name, role, by FROM session WHERE role <> ?1 ORDER BY name")
        .map_err(Error::database("list the sessions"))?;
    let rows = statement.query_map([NONE], |row| {
        Ok(Registered {
            session: row.get(0)?,
            role: row.get(1)?,
            by: row.get(2)?,
        })
    });
    rows.and_then(Iterator::collect)
        .map_err(Error::database("list the sessions"))
}

/// The role of a session, if an operator gave it one.
pub fn role(connection: &Connection, name: &str) -> Result<Option<String>> {
    connection
        .prepare_cached("SELECT role FROM session WHERE name = ?1")
        .and_then(|mut statement| statement.query_row([name], |row| row.get(0)).optional())
        .map_err(Error::database("look for a session"))
}
