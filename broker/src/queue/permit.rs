//! Standing permissions between once and always: the same command again, for a
//! while, so many times, in one workspace, for one tree of processes.

use rusqlite::{OptionalExtension, Row, params};
use sjail_policy::wire::control::{Extent, Grant, Scope};

use crate::audit::ledger::Ledger;
use crate::audit::record::{Entry, Event, Hash};
use crate::binding;
use crate::error::{Error, Result};
use crate::id;
use crate::process::ProcessId;
use crate::queue::{Stored, Subject};
use crate::registries::Registry;

/// Without a limit of its own a permission ends after so many seconds: a day.
const LONGEST_UNSAID: u64 = 86_400;
/// Longer than anybody asks: a hundred years.
const FOR_GOOD: u64 = 100 * 365 * 86_400;
/// Where a permission holds that holds everywhere.
const EVERYWHERE: &str = "everywhere";
/// Where one holds that holds for a package manager.
const CLIENT: &str = "client ";
/// What stands before a host in the command of a permission about one.
pub const CONNECT: &str = "connect ";

/// Gives a standing permission for the command of a request.
pub fn give(
    ledger: &mut Ledger,
    stored: &Stored,
    extent: &Extent,
    approver: &str,
    now: i64,
) -> Result<String> {
    let within = match extent.scope {
        Scope::Workspace => workspace_key(stored.body.workspace.as_bytes()),
        Scope::Session => match session_key(&stored.body.circle, stored.body.session.as_deref()) {
            Some(key) => key,
            None => {
                return Err(Error::Refused(
                    "the session cannot be told: the process that asked is gone".to_owned(),
                ));
            }
        },
        Scope::Always => match &stored.body.subject {
            Subject::Host {
                client: Some(client),
                ..
            } => client_key(client),
            Subject::Host { client: None, .. } | Subject::Command => EVERYWHERE.to_owned(),
        },
        Scope::Once => {
            let cwd = &stored.body.binding.cwd;
            place_key(cwd.dev, cwd.ino)
        }
    };
    let unsaid = match extent.scope {
        Scope::Always => FOR_GOOD,
        Scope::Once | Scope::Workspace | Scope::Session => LONGEST_UNSAID,
    };
    let expires = now.saturating_add_unsigned(extent.seconds.unwrap_or(unsaid));
    // The request itself is one use.
    let remaining = extent.count.map(|count| count.saturating_sub(1));
    let id = id::grant()?;
    ledger
        .connection()
        .prepare_cached(
            "INSERT INTO permit (id, request, uid, scope, within, expires, remaining, approver, \
             created, twin, command) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                id,
                stored.id,
                stored.uid,
                scope_name(extent.scope),
                within,
                expires,
                remaining,
                approver,
                now,
                binding::kin(stored.uid, &stored.body.binding).0,
                stored.body.redacted.command
            ])
        })
        .map_err(Error::database("give a permission"))?;
    let mut entry = Entry::new(Event::Grant);
    entry.id = Some(stored.id.clone());
    entry.command = Some(stored.body.redacted.command.clone());
    entry.user = Some(stored.body.user.clone());
    entry.agent.clone_from(&stored.body.agent);
    entry.session.clone_from(&stored.body.session);
    entry.approver = Some(approver.to_owned());
    entry.decision = Some("granted".to_owned());
    let detail = serde_json::json!({
        "grant": id, "extent": extent, "within": within, "expires": expires, "left": remaining,
    });
    ledger.append(entry.detail(&detail))?;
    Ok(id)
}

/// Where a command is about to run, as permissions see it.
#[derive(Debug, Clone)]
pub struct Whereabouts {
    /// The account.
    pub uid: u32,
    /// The command without its place.
    pub kin: Hash,
    /// The working directory, device and inode.
    pub cwd: (u64, u64),
    /// The workspace's path.
    pub workspace: Vec<u8>,
    /// Everything that acts for whoever asks.
    pub circle: Vec<ProcessId>,
    /// The session, a claim.
    pub session: Option<String>,
    /// The package manager that asks for a host.
    pub client: Option<String>,
}

/// A permission that was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// Its name.
    pub id: String,
    /// Who gave it.
    pub approver: String,
    /// How far it goes.
    pub scope: Scope,
    /// How often it may still be used, where that is counted.
    remaining: Option<i64>,
}

/// Uses a permission that covers the command, if there is one.
pub fn use_one(ledger: &Ledger, here: &Whereabouts, now: i64) -> Result<Option<Used>> {
    let found = find(ledger, here, now)?;
    if let Some(used) = &found
        && used.remaining.is_some()
    {
        ledger
            .connection()
            .execute(
                "UPDATE permit SET remaining = remaining - 1 WHERE id = ?1",
                [&used.id],
            )
            .map_err(Error::database("use a permission"))?;
    }
    Ok(found)
}

/// A permission that covers the command, if there is one.
pub fn find(ledger: &Ledger, here: &Whereabouts, now: i64) -> Result<Option<Used>> {
    let mut places = vec![
        place_key(here.cwd.0, here.cwd.1),
        workspace_key(&here.workspace),
    ];
    places.extend(session_key(&here.circle, here.session.as_deref()));
    places.extend(here.client.as_deref().map(client_key));
    places.push(EVERYWHERE.to_owned());
    for place in places {
        let found = ledger
            .connection()
            .prepare_cached(
                "SELECT id, approver, scope, remaining FROM permit WHERE twin = ?1 AND uid = ?2 \
                 AND within = ?3 AND expires > ?4 AND (remaining IS NULL OR remaining > 0) LIMIT 1",
            )
            .and_then(|mut statement| {
                statement
                    .query_row(params![here.kin.0, here.uid, place, now], |row| {
                        let scope: String = row.get(2)?;
                        Ok(Used {
                            id: row.get(0)?,
                            approver: row.get(1)?,
                            scope: scope_named(&scope),
                            remaining: row.get(3)?,
                        })
                    })
                    .optional()
            })
            .map_err(Error::database("look for a permission"))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The permissions that still hold.
pub fn list(connection: &rusqlite::Connection, now: i64) -> Result<Vec<Grant>> {
    let act = "list the permissions";
    let mut statement = connection
        .prepare_cached(
            "SELECT id, request, command, scope, within, expires, remaining, approver, created \
             FROM permit WHERE expires > ?1 AND (remaining IS NULL OR remaining > 0) ORDER BY created",
        )
        .map_err(Error::database(act))?;
    let rows = statement
        .query_map([now], read)
        .map_err(Error::database(act))?;
    rows.collect::<rusqlite::Result<_>>()
        .map_err(Error::database(act))
}

/// The hosts that were allowed for good for a package manager.
pub fn registries(connection: &rusqlite::Connection, now: i64) -> Result<Vec<Registry>> {
    let act = "list the registries";
    let mut statement = connection
        .prepare_cached(
            "SELECT within, command, expires FROM permit WHERE within GLOB ?1 AND expires > ?2 \
             AND remaining IS NULL ORDER BY created",
        )
        .map_err(Error::database(act))?;
    let rows = statement
        .query_map(params![client_key("*"), now], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .map_err(Error::database(act))?;
    let rows: Vec<(String, String, i64)> = rows
        .collect::<rusqlite::Result<_>>()
        .map_err(Error::database(act))?;
    let registry = |(within, command, expires): &(String, String, i64)| {
        Some(Registry {
            client: within.strip_prefix(CLIENT)?.to_owned(),
            host: command.strip_prefix(CONNECT)?.parse().ok()?,
            expires: *expires,
        })
    };
    Ok(rows.iter().filter_map(registry).collect())
}

/// Takes a permission back.
pub fn revoke(ledger: &mut Ledger, id: &str, by: &str) -> Result<()> {
    let command: Option<String> = ledger
        .connection()
        .query_row("SELECT command FROM permit WHERE id = ?1", [id], |row| {
            row.get(0)
        })
        .optional()
        .map_err(Error::database("look for a permission"))?;
    let Some(command) = command else {
        return Err(Error::NotFound {
            what: "grant",
            name: id.to_owned(),
        });
    };
    ledger
        .connection()
        .execute("DELETE FROM permit WHERE id = ?1", [id])
        .map_err(Error::database("take a permission back"))?;
    let mut entry = Entry::new(Event::Grant);
    entry.command = Some(command);
    entry.approver = Some(by.to_owned());
    entry.decision = Some("revoked".to_owned());
    ledger.append(entry.detail(&serde_json::json!({ "grant": id })))?;
    Ok(())
}

/// Forgets permissions that no longer hold.
pub fn sweep(ledger: &Ledger, now: i64) -> Result<()> {
    ledger
        .connection()
        .execute(
            "DELETE FROM permit WHERE expires <= ?1 OR remaining = 0",
            [now],
        )
        .map(|_| ())
        .map_err(Error::database("forget old permissions"))
}

fn read(row: &Row<'_>) -> rusqlite::Result<Grant> {
    let scope: String = row.get(3)?;
    Ok(Grant {
        id: row.get(0)?,
        request: row.get(1)?,
        command: row.get(2)?,
        scope: scope_named(&scope),
        within: row.get(4)?,
        expires: row.get(5)?,
        left: row.get(6)?,
        approver: row.get(7)?,
        created: row.get(8)?,
    })
}

fn place_key(dev: u64, ino: u64) -> String {
    format!("folder {dev}:{ino}")
}

fn client_key(client: &str) -> String {
    format!("{CLIENT}{client}")
}

fn workspace_key(path: &[u8]) -> String {
    format!("workspace {}", sjail_policy::show::inert(path))
}

/// A session is the tree of processes under the outermost one that acts for whoever
/// asks, and the name that they claim: the name alone would let anybody in.
fn session_key(circle: &[ProcessId], claimed: Option<&str>) -> Option<String> {
    let top = circle.last()?;
    Some(format!(
        "session {} {}:{}",
        claimed.unwrap_or("-"),
        top.pid,
        top.started
    ))
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Once => "once",
        Scope::Workspace => "workspace",
        Scope::Session => "session",
        Scope::Always => "always",
    }
}

fn scope_named(name: &str) -> Scope {
    [Scope::Workspace, Scope::Session, Scope::Always]
        .into_iter()
        .find(|scope| scope_name(*scope) == name)
        .unwrap_or(Scope::Once)
}
