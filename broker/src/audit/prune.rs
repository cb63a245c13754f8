//! Removing what is older than its keeping time, so that the rest still verifies.

use rusqlite::{OptionalExtension, params};

use crate::audit::ledger::Ledger;
use crate::audit::query::first_at;
use crate::audit::record::{Entry, Event, Hash};
use crate::audit::tally::HOUR;
use crate::error::{Error, Result};
use crate::writer::Writer;

/// So many records are removed in one transaction: others want to write, too.
const CHUNK: i64 = 2000;

/// Removes the records from before a time, in microseconds since 1970; returns how
/// many. First the chain says up to where and with which hash, then rows go.
pub async fn prune(writer: &Writer, before: i64, by: String) -> Result<u64> {
    let Some(through) = writer
        .write(move |ledger| mark(ledger, before, &by))
        .await?
    else {
        return Ok(0);
    };
    let mut removed = 0;
    loop {
        let count = writer.write(move |ledger| remove(ledger, through)).await?;
        removed += count;
        if count == 0 {
            return Ok(removed);
        }
    }
}

fn mark(ledger: &mut Ledger, before: i64, by: &str) -> Result<Option<i64>> {
    let connection = ledger.connection();
    let Some(first_kept) = first_at(connection, before)? else {
        // Never all of it: the last record carries the chain on.
        return Ok(None);
    };
    let last = connection
        .query_row(
            "SELECT seq, hash FROM record WHERE seq < ?1 ORDER BY seq DESC LIMIT 1",
            [first_kept],
            |row| Ok((row.get::<_, i64>(0)?, Hash(row.get(1)?))),
        )
        .optional()
        .map_err(Error::database("look for old records"))?;
    let Some((through, hash)) = last else {
        return Ok(None);
    };
    let done: Option<i64> = connection
        .query_row("SELECT max(through) FROM pruned", [], |row| row.get(0))
        .map_err(Error::database("look for prune marks"))?;
    if done.is_none_or(|done| done < through) {
        let mut entry = Entry::new(Event::Prune).detail(&serde_json::json!({
            "through": through,
            "hash": hash.to_string(),
            "key": ledger.public_key().to_string(),
        }));
        entry.approver = Some(by.to_owned());
        let seq = ledger.append(entry)?;
        ledger
            .connection()
            .execute(
                "INSERT INTO pruned (through, hash, seq) VALUES (?1, ?2, ?3)",
                params![through, hash.0, seq],
            )
            .map_err(Error::database("write the prune mark"))?;
        for sql in [
            "DELETE FROM tally WHERE hour < ?1",
            "DELETE FROM held WHERE hour < ?1",
            "DELETE FROM spent WHERE hour < ?1",
        ] {
            ledger
                .connection()
                .execute(sql, [before.div_euclid(HOUR)])
                .map_err(Error::database("remove old counts"))?;
        }
    }
    Ok(Some(through))
}

fn remove(ledger: &mut Ledger, through: i64) -> Result<u64> {
    let connection = ledger.connection();
    let count = connection
        .execute(
            "DELETE FROM record WHERE seq IN (SELECT seq FROM record WHERE seq <= ?1 ORDER BY seq LIMIT ?2)",
            [through, CHUNK],
        )
        .map_err(Error::database("remove old records"))?;
    connection
        .execute("DELETE FROM checkpoint WHERE seq <= ?1", [through])
        .map_err(Error::database("remove old checkpoints"))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::audit::ledger::now_micros;
    use crate::audit::mirror::Mirror;
    use crate::audit::verify::verify;
    use crate::store::{self, Files};

    #[test]
    fn a_pruned_log_still_verifies_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        let ledger = Ledger::open(&files, Mirror::none()).unwrap();
        let (writer, thread) = Writer::start(ledger).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let add = |count: usize| {
            for _ in 0..count {
                runtime
                    .block_on(writer.write(|ledger| ledger.append(Entry::new(Event::Start))))
                    .unwrap();
            }
        };
        add(9);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let cut = now_micros();
        add(10);
        let removed = runtime
            .block_on(prune(&writer, cut, "test".to_owned()))
            .unwrap();
        assert_eq!(removed, 10);
        add(3);
        assert_eq!(
            runtime
                .block_on(prune(&writer, cut, "test".to_owned()))
                .unwrap(),
            0
        );
        // Everything is old now, but the last record stays to carry the chain.
        let removed = runtime
            .block_on(prune(&writer, now_micros() + 1_000_000, "test".to_owned()))
            .unwrap();
        assert_eq!(removed, 0);
        drop(writer);
        thread.join().unwrap();
        let report = verify(&files, &[]).unwrap();
        assert_eq!(report.problems, []);
        assert_eq!((report.first, report.last, report.records), (11, 24, 14));
        let connection = store::open_reader(&files.database()).unwrap();
        let count: i64 = connection
            .query_row("SELECT count(*) FROM record", [], |row| row.get(0))
            .unwrap();
        assert_eq!(count, 14);
    }
}
