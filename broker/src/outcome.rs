//! How a run ended: told by whoever ran it, found in the spool, or never heard of.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rusqlite::{OptionalExtension, params};
use serde_json::Value;
use sjail_policy::show;
use sjail_policy::wire::frame::MAX_REQUEST;
use sjail_policy::wire::request::Outcome;

use crate::audit::ledger::Ledger;
use crate::audit::record::{Entry, Event};
use crate::error::{Error, Result};
use crate::process::{ProcessId, Stat};
use crate::writer::Writer;

/// Records how a run ended and forgets the run. Secrets were taken out before.
pub fn record(ledger: &mut Ledger, uid: u32, outcome: &Outcome) -> Result<i64> {
    let unknown = || Error::NotFound {
        what: "run",
        name: outcome.id.clone(),
    };
    let token: Option<String> = ledger
        .connection()
        .prepare_cached("SELECT token FROM run WHERE id = ?1 AND uid = ?2")
        .and_then(|mut statement| {
            statement
                .query_row(params![outcome.id, uid], |row| row.get(0))
                .optional()
        })
        .map_err(Error::database("look for a run"))?;
    if token.is_none_or(|token| token != outcome.token) {
        return Err(unknown());
    }
    let text = |value: &Value| (!value.is_null()).then(|| value.to_string());
    let output = |bytes: &Option<sjail_policy::bytes::ByteString>| {
        bytes
            .as_ref()
            .map(|bytes| String::from_utf8_lossy(bytes.as_bytes()).into_owned())
    };
    let mut entry = Entry::new(Event::Outcome);
    entry.id = Some(outcome.id.clone());
    entry.exit = outcome.exit.map(i64::from);
    entry.signal = outcome.signal.map(i64::from);
    entry.duration = i64::try_from(outcome.duration_us).ok();
    entry.usage = text(&outcome.usage);
    entry.isolation = text(&outcome.isolation);
    entry.output_head = output(&outcome.output_head);
    entry.output_tail = output(&outcome.output_tail);
    let detail = serde_json::json!({ "status": outcome.status, "more": outcome.detail });
    let seq = ledger.append(entry.detail(&detail))?;
    if let Some(message) = suspicious(outcome) {
        let mut alarm = Entry::new(Event::Alert);
        alarm.id = Some(outcome.id.clone());
        let detail = serde_json::json!({ "alert": "network", "message": message });
        ledger.append(alarm.detail(&detail))?;
    }
    forget(ledger, &outcome.id)?;
    Ok(seq)
}

/// What a run tried to reach and was refused, in one line; nothing where all was well.
pub fn suspicious(outcome: &Outcome) -> Option<String> {
    const NAMED: usize = 5;
    let refused: Vec<String> = outcome.detail["network"]
        .as_array()?
        .iter()
        .filter(|entry| entry["decision"] == "refuse")
        .map(|entry| {
            let host = show::clipped(entry["host"].as_str().unwrap_or("?").as_bytes(), 100);
            match entry["port"].as_u64() {
                Some(port) => format!("{host}:{port}"),
                None => host,
            }
        })
        .collect();
    let more = refused.len().saturating_sub(NAMED);
    let named = refused.get(..NAMED.min(refused.len()))?.join(", ");
    match (refused.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("refused on the network: {named}")),
        (false, more) => Some(format!("refused on the network: {named} and {more} more")),
    }
}

fn forget(ledger: &Ledger, id: &str) -> Result<()> {
    ledger
        .connection()
        .prepare_cached("DELETE FROM run WHERE id = ?1")
        .and_then(|mut statement| statement.execute([id]))
        .map(|_| ())
        .map_err(Error::database("forget a run"))
}

/// Takes in what runners left in the spool while no broker was there. Returns how
/// many outcomes there were. A file goes when what it tells is durable.
pub async fn collect_spool(writer: &Writer, folder: &Path, uid: u32) -> Result<usize> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(0);
    };
    let mut count = 0;
    for entry in entries.flatten() {
        let path = entry.path();
        // Still being written.
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        if let Some(outcome) = read_spooled(&path, uid) {
            match writer
                .write(move |ledger| record(ledger, uid, &outcome))
                .await
            {
                Ok(_) => count += 1,
                // Told already, or not ours to tell.
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let _ = fs::remove_file(&path);
    }
    Ok(count)
}

fn read_spooled(path: &Path, uid: u32) -> Option<Outcome> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let size = usize::try_from(metadata.len()).ok()?;
    if !metadata.is_file() || metadata.uid() != uid || size > MAX_REQUEST {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Records, for every run whose runner is gone without a word, that its end is not
/// known. Returns how many there were.
pub fn close_lost(ledger: &mut Ledger) -> Result<usize> {
    let act = "look for lost runs";
    let open: Vec<(String, ProcessId)> = ledger
        .connection()
        .prepare_cached("SELECT id, pid, started FROM run")
        .and_then(|mut statement| {
            statement
                .query_map([], |row| {
                    let started: i64 = row.get(2)?;
                    Ok((
                        row.get(0)?,
                        ProcessId {
                            pid: row.get(1)?,
                            started: started.cast_unsigned(),
                        },
                    ))
                })?
                .collect()
        })
        .map_err(Error::database(act))?;
    let mut count = 0;
    for (id, runner) in open {
        if Stat::read(runner.pid).is_some_and(|stat| stat.id == runner) {
            continue;
        }
        let mut entry = Entry::new(Event::Outcome);
        entry.id = Some(id.clone());
        let detail = serde_json::json!({
            "status": "lost",
            "message": "whoever ran it ended without telling how it went",
        });
        ledger.append(entry.detail(&detail))?;
        forget(ledger, &id)?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::audit::mirror::Mirror;
    use crate::queue::answer::{RunNote, note_run};
    use crate::store::Files;

    fn ledger_with_run(folder: &Path, runner: Option<ProcessId>) -> Ledger {
        let mut ledger = Ledger::open(&Files::new(folder), Mirror::none()).unwrap();
        let run = RunNote {
            token: "secret".to_owned(),
            runner,
            asked: None,
        };
        ledger
            .transaction(|ledger| note_run(ledger, "cmd_1", 7, &run, 1, 0))
            .unwrap();
        ledger
    }

    fn outcome(token: &str) -> Outcome {
        Outcome {
            id: "cmd_1".to_owned(),
            token: token.to_owned(),
            status: "finished".to_owned(),
            exit: Some(3),
            duration_us: 10,
            ..Outcome::default()
        }
    }

    #[test]
    fn an_outcome_is_taken_once_and_only_with_its_token() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = ledger_with_run(folder.path(), None);
        let mut tell = |uid, token| ledger.transaction(|l| record(l, uid, &outcome(token)));
        assert!(matches!(tell(7, "guess"), Err(Error::NotFound { .. })));
        assert!(matches!(tell(8, "secret"), Err(Error::NotFound { .. })));
        assert!(tell(7, "secret").is_ok());
        assert!(matches!(tell(7, "secret"), Err(Error::NotFound { .. })));
    }

    #[test]
    fn a_run_whose_runner_is_gone_is_closed_as_lost() {
        let folder = tempfile::tempdir().unwrap();
        let own = Stat::read(i32::try_from(std::process::id()).unwrap())
            .unwrap()
            .id;
        let mut ledger = ledger_with_run(folder.path(), Some(own));
        assert_eq!(ledger.transaction(close_lost).unwrap(), 0);
        ledger
            .connection()
            .execute("UPDATE run SET started = started + 1", [])
            .unwrap();
        assert_eq!(ledger.transaction(close_lost).unwrap(), 1);
        assert_eq!(ledger.transaction(close_lost).unwrap(), 0);
    }

    #[test]
    fn the_spool_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let uid = nix::unistd::getuid().as_raw();
        let ledger = ledger_with_run(folder.path(), None);
        ledger
            .connection()
            .execute("UPDATE run SET uid = ?1", [uid])
            .unwrap();
        let (writer, _thread) = Writer::start(ledger).unwrap();
        let spool = folder.path().join("spool");
        fs::create_dir(&spool).unwrap();
        let text = serde_json::to_string(&outcome("secret")).unwrap();
        fs::write(spool.join("a.json"), text).unwrap();
        fs::write(spool.join("b.json"), "nonsense").unwrap();
        fs::write(spool.join("c.json.new"), "{").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let count = runtime
            .block_on(collect_spool(&writer, &spool, uid))
            .unwrap();
        assert_eq!(count, 1);
        assert_eq!(fs::read_dir(&spool).unwrap().count(), 1);
    }
}
