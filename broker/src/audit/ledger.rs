//! Appending to the log. There is one ledger per database, owned by the one thread
//! that writes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, params};

use crate::audit::head::{self, Head, HeadFile, SignedHead};
use crate::audit::key::{Key, PublicKey};
use crate::audit::mirror::Mirror;
use crate::audit::record::{Entry, Event, Hash, Record};
use crate::audit::row;
use crate::audit::tally;
use crate::error::{Error, Result};
use crate::store::{self, Files};

/// So many records at most between two checkpoints in the database.
const CHECKPOINT_EVERY: i64 = 256;

/// The writing end of the log.
pub struct Ledger {
    connection: Connection,
    head: Head,
    last_time: i64,
    last_checkpoint: i64,
    key: Key,
    head_file: HeadFile,
    mirror: Mirror,
    wal: Wal,
}

impl Ledger {
    /// Opens the log, or makes one. What does not fit together (a cut tail, another
    /// database, another key) becomes an alert in the log itself: it goes on, but
    /// the gap stays visible for good.
    pub fn open(files: &Files, mirror: Mirror) -> Result<Ledger> {
        let connection = store::open(files)?;
        let key = Key::load_or_create(&files.key())?;
        let (head, last_time) = last_record(&connection)?;
        let last_checkpoint = connection
            .query_row("SELECT max(seq) FROM checkpoint", [], |row| {
                row.get::<_, Option<i64>>(0)
            })
            .map_err(Error::database("read the checkpoints"))?
            .unwrap_or(0);
        let mut ledger = Ledger {
            connection,
            head,
            last_time,
            last_checkpoint,
            key,
            head_file: HeadFile::open(&files.head())?,
            mirror,
            wal: Wal::of(files),
        };
        let alarms = ledger.compare_with_head_file(files)?;
        ledger.transaction(|ledger| ledger.begin(&alarms))?;
        Ok(ledger)
    }

    /// The key that vouches for this log.
    pub fn public_key(&self) -> PublicKey {
        self.key.public()
    }

    /// How far the log goes.
    pub fn head(&self) -> Head {
        self.head
    }

    /// The database, for what is kept beside the log.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Appends a record; it lasts when the transaction around it is committed.
    pub fn append(&mut self, entry: Entry) -> Result<i64> {
        let time = now_micros().max(self.last_time);
        let record = Record::seal(self.head.seq + 1, time, entry, self.head.hash);
        row::insert(&self.connection, &record).map_err(Error::database("append a record"))?;
        tally::count(&self.connection, &record)?;
        if record.entry.event == Event::Alert {
            self.mirror
                .alert(record.entry.detail.as_deref().unwrap_or_default());
        }
        self.head = Head {
            seq: record.seq,
            hash: record.hash,
        };
        self.last_time = time;
        Ok(record.seq)
    }

    /// Runs one piece of work; when it fails, nothing of it stays.
    pub fn attempt<T>(&mut self, work: impl FnOnce(&mut Ledger) -> Result<T>) -> Result<T> {
        let (head, time) = (self.head, self.last_time);
        self.execute("SAVEPOINT work")?;
        let result = work(self);
        let ended = match &result {
            Ok(_) => self.execute("RELEASE work"),
            Err(_) => self
                .execute("ROLLBACK TO work")
                .and_then(|()| self.execute("RELEASE work")),
        };
        if result.is_err() || ended.is_err() {
            (self.head, self.last_time) = (head, time);
        }
        // A failed rollback means that SQLite has already undone the whole
        // transaction; the commit that follows will say so.
        match ended {
            Err(error) if result.is_ok() => Err(error),
            _ => result,
        }
    }

    /// Runs work and makes it durable.
    pub fn transaction<T>(&mut self, work: impl FnOnce(&mut Ledger) -> Result<T>) -> Result<T> {
        let before = self.begin_transaction()?;
        let result = self.attempt(work);
        self.commit(before)?;
        self.sync()?;
        result
    }

    /// Starts a transaction; the mark is for [`Ledger::commit`].
    pub fn begin_transaction(&mut self) -> Result<Mark> {
        self.execute("BEGIN IMMEDIATE")?;
        Ok(Mark {
            head: self.head,
            time: self.last_time,
            checkpoint: self.last_checkpoint,
            changes: self.connection.total_changes(),
        })
    }

    /// Whether the transaction still stands; on a full disk SQLite gives it up.
    pub fn in_transaction(&self) -> bool {
        !self.connection.is_autocommit()
    }

    /// Commits everything since the mark, or undoes it all. What is committed outlives
    /// this process; [`Ledger::sync`] makes it outlive the machine's.
    pub fn commit(&mut self, mark: Mark) -> Result<()> {
        let result = if self.in_transaction() {
            self.checkpoint_if_due()
                .and_then(|()| self.execute("COMMIT"))
        } else {
            Err(Error::NotDurable("the disk refused the data".to_owned()))
        };
        if result.is_err() {
            if self.in_transaction() {
                let _ = self.execute("ROLLBACK");
            }
            self.head = mark.head;
            self.last_time = mark.time;
            self.last_checkpoint = mark.checkpoint;
        } else if self.connection.total_changes() != mark.changes {
            self.wal.dirty = true;
        }
        result
    }

    /// Waits until all that was committed is on the disk.
    pub fn sync(&mut self) -> Result<()> {
        self.wal.sync()
    }

    /// Makes room for what comes next, where there is time for it.
    pub fn reserve(&mut self) {
        // Without it, writing is only slower.
        let _ = self.wal.reserve();
    }

    /// Whether something committed is perhaps not on the disk yet.
    pub fn is_dirty(&self) -> bool {
        self.wal.dirty
    }

    /// Says beside the database how far the log goes. Only when it is on the disk, and
    /// after those who wait for it were told.
    pub fn publish_head(&self) {
        let signed = self.head.sign(&self.key);
        if let Err(error) = self.head_file.write(signed) {
            self.mirror.alert(&format!(
                "the head of the audit log could not be written: {error}"
            ));
        }
    }

    /// Writes a checkpoint for the present head and sends it to the system's log.
    pub fn checkpoint(&mut self) -> Result<()> {
        if self.head.seq == self.last_checkpoint || self.head.seq == 0 {
            return Ok(());
        }
        let signed = self.head.sign(&self.key);
        self.connection
            .prepare_cached(
                "INSERT INTO checkpoint (seq, time, hash, key, signature) VALUES (?1, ?2, ?3, ?4, ?5)",
            )
            .and_then(|mut statement| {
                statement.execute(params![
                    signed.head.seq,
                    self.last_time,
                    signed.head.hash.0,
                    signed.key.0,
                    signed.signature
                ])
            })
            .map_err(Error::database("write a checkpoint"))?;
        self.last_checkpoint = signed.head.seq;
        self.mirror.head(&signed);
        Ok(())
    }

    /// Moves everything into the one file, so that a copy of it is whole.
    pub fn settle(&self) {
        // Somebody who reads at this moment holds it up: the next start does it.
        let _ = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }

    fn checkpoint_if_due(&mut self) -> Result<()> {
        if self.head.seq - self.last_checkpoint >= CHECKPOINT_EVERY {
            self.checkpoint()?;
        }
        Ok(())
    }

    fn execute(&self, sql: &'static str) -> Result<()> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map(|_| ())
            .map_err(Error::database(sql))
    }

    /// The first records of this start.
    fn begin(&mut self, alarms: &[String]) -> Result<()> {
        if self
            .connection
            .query_row("SELECT NOT EXISTS (SELECT 1 FROM record)", [], |row| {
                row.get(0)
            })
            .map_err(Error::database("look for records"))?
        {
            let detail = serde_json::json!({ "key": self.key.public().to_string() });
            self.append(Entry::new(Event::Genesis).detail(&detail))?;
        }
        for alarm in alarms {
            let detail = serde_json::json!({ "alert": "tampering", "message": alarm });
            self.append(Entry::new(Event::Alert).detail(&detail))?;
        }
        Ok(())
    }

    /// What the head file and the database disagree about. Where the file is ahead
    /// and its signature right, numbering goes on behind it, so the gap stays.
    fn compare_with_head_file(&mut self, files: &Files) -> Result<Vec<String>> {
        let mut alarms = Vec::new();
        let claimed = match head::read(&files.head()) {
            Ok(claimed) => claimed,
            Err(error) => {
                alarms.push(error.to_string());
                None
            }
        };
        match claimed {
            Some(claimed) if !claimed.is_genuine() => {
                alarms.push("audit.head is not signed by the key it names".to_owned());
            }
            Some(claimed) => {
                if claimed.key != self.key.public() {
                    alarms.push(format!(
                        "the signing key has changed from {} to {}",
                        claimed.key,
                        self.key.public()
                    ));
                }
                self.compare_with(claimed, &mut alarms)?;
            }
            None if self.head.seq > 0 && alarms.is_empty() => {
                alarms.push("audit.head is missing".to_owned());
            }
            None => {}
        }
        Ok(alarms)
    }

    fn compare_with(&mut self, claimed: SignedHead, alarms: &mut Vec<String>) -> Result<()> {
        let claimed = claimed.head;
        if claimed.seq > self.head.seq {
            alarms.push(format!(
                "the log ends at record {}, but record {} was written before: its tail is missing",
                self.head.seq, claimed.seq
            ));
            self.head = claimed;
            return Ok(());
        }
        let found = self
            .connection
            .query_row(
                "SELECT hash FROM record WHERE seq = ?1",
                [claimed.seq],
                |row| row.get::<_, [u8; 32]>(0),
            )
            .optional()
            .map_err(Error::database("read the last known record"))?;
        if found.map(Hash) != Some(claimed.hash) {
            alarms.push(format!(
                "record {} is not the one that was written: the database was exchanged or changed",
                claimed.seq
            ));
        }
        Ok(())
    }
}

/// A point to go back to.
pub struct Mark {
    head: Head,
    time: i64,
    checkpoint: i64,
    changes: u64,
}

/// The file that commits go to.
struct Wal {
    path: PathBuf,
    file: Option<File>,
    /// Something was committed since it was last written out.
    dirty: bool,
    /// It has blocks on the disk up to here.
    reserved: u64,
}

/// So much is made ready at once.
const AHEAD: u64 = 1 << 20;

impl Wal {
    fn of(files: &Files) -> Wal {
        Wal {
            path: files.wal(),
            file: None,
            dirty: true,
            reserved: 0,
        }
    }

    /// SQLite commits with `synchronous = NORMAL`: the data is with the kernel. Writing the
    /// file out is what `FULL` would do, one call for all commits before it. The file
    /// lives as long as the connection, and SQLite's locks are on another one.
    fn sync(&mut self) -> Result<()> {
        if !self.dirty {
            return Ok(());
        }
        if self.file.is_none() {
            self.file = match File::options().read(true).write(true).open(&self.path) {
                Ok(file) => Some(file),
                // All is in the database itself, which SQLite has written out.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Err(source) => return Err(Error::file("open", &self.path)(source)),
            };
        }
        if let Some(file) = &self.file {
            file.sync_data()
                .map_err(|error| Error::NotDurable(error.to_string()))?;
        }
        self.dirty = false;
        Ok(())
    }

    /// A file that grows with each commit has its length written out with each; one that is
    /// long enough takes half the time. SQLite reads no further than its checksums hold, so
    /// zeros behind the last commit mean nothing to it.
    fn reserve(&mut self) -> std::io::Result<()> {
        static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
        let Some(file) = &self.file else {
            return Ok(());
        };
        let length = file.metadata()?.len();
        if length <= self.reserved {
            return Ok(());
        }
        let end = length + AHEAD;
        for offset in (length..end).step_by(ZEROS.len()) {
            file.write_all_at(&ZEROS, offset)?;
        }
        file.sync_data()?;
        self.reserved = file.metadata()?.len();
        Ok(())
    }
}

fn last_record(connection: &Connection) -> Result<(Head, i64)> {
    let last = connection
        .query_row(
            "SELECT seq, hash, time FROM record ORDER BY seq DESC LIMIT 1",
            [],
            |row| {
                Ok((
                    Head {
                        seq: row.get(0)?,
                        hash: Hash(row.get(1)?),
                    },
                    row.get(2)?,
                ))
            },
        )
        .optional()
        .map_err(Error::database("read the last record"))?;
    Ok(last.unwrap_or((Head::EMPTY, 0)))
}

/// The time now, as records carry it.
pub fn now_micros() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|elapsed| i64::try_from(elapsed.as_micros()).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::audit::verify::verify;

    #[test]
    fn what_was_committed_is_found_after_a_crash_with_room_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        let mut ledger = Ledger::open(&files, Mirror::none()).unwrap();
        let after = tempfile::tempdir().unwrap();
        for round in 0..100 {
            ledger
                .transaction(|ledger| ledger.append(Entry::new(Event::Start)))
                .unwrap();
            ledger.publish_head();
            if round == 50 {
                ledger.reserve();
                let length = std::fs::metadata(files.wal()).unwrap().len();
                assert!(length > AHEAD);
                ledger.reserve();
                assert_eq!(std::fs::metadata(files.wal()).unwrap().len(), length);
            }
        }
        let copy = Files::new(after.path());
        for (from, to) in [
            (files.database(), copy.database()),
            (files.wal(), copy.wal()),
            (files.head(), copy.head()),
            (files.key(), copy.key()),
        ] {
            std::fs::copy(from, to).unwrap();
        }
        let next = Ledger::open(&copy, Mirror::none()).unwrap();
        assert_eq!(next.head(), ledger.head());
        drop(next);
        let report = verify(&copy, &[]).unwrap();
        assert_eq!((report.problems, report.records), (vec![], 101));
    }
}
