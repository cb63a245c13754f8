//! Checking a log from its first record to its last, against its checkpoints, the
//! head beside it and what the system's log remembers. Reads row by row: a million
//! records need no more memory than ten.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use rusqlite::Connection;

use crate::audit::head::{self, Head, SignedHead};
use crate::audit::key::{Key, PublicKey};
use crate::audit::record::{Event, Hash, Record};
use crate::audit::row;
use crate::error::{Error, Result};
use crate::store::{self, Files};

/// So many problems are named; a log with more is broken enough.
const NAMED: usize = 20;

/// What is wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Records are not there.
    Missing {
        /// The first that is not there.
        from: i64,
        /// The last that is not there.
        to: i64,
    },
    /// A record's content does not have the hash that stands beside it.
    Changed {
        /// The record.
        seq: i64,
    },
    /// A record does not follow the one before it.
    Unlinked {
        /// The record.
        seq: i64,
    },
    /// A row holds something else than a record.
    Unreadable {
        /// The row.
        seq: i64,
        /// What is wrong with it.
        why: String,
    },
    /// The log itself reports what a start of the broker found.
    Reported {
        /// The alert record.
        seq: i64,
        /// What it says.
        message: String,
    },
    /// A checkpoint's signature is wrong.
    ForgedCheckpoint {
        /// The record that it speaks of.
        seq: i64,
    },
    /// A signature was made with another key than the log began with.
    OtherKey {
        /// Where: `checkpoint 512`, `audit.head`, `audit.key`.
        place: String,
        /// The key found.
        found: PublicKey,
    },
    /// A signed head speaks of a record that is now another one.
    Replaced {
        /// The record.
        seq: i64,
        /// Who remembers it otherwise.
        witness: String,
    },
    /// The log once went further.
    CutTail {
        /// Where it ends now.
        last: i64,
        /// How far it went.
        known: i64,
        /// Who remembers.
        witness: String,
    },
    /// The head beside the database is not there or cannot be read.
    NoHead {
        /// Why.
        why: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Missing { from, to } if from == to => {
                write!(
                    f,
                    "record {from} is missing, and no prune record accounts for it"
                )
            }
            Problem::Missing { from, to } => {
                write!(
                    f,
                    "records {from} to {to} are missing, and no prune record accounts for them"
                )
            }
            Problem::Changed { seq } => write!(
                f,
                "record {seq} was changed: its content does not have the hash that was written with it"
            ),
            Problem::Unlinked { seq } => write!(
                f,
                "record {seq} does not follow the record before it: one of the two was put in later"
            ),
            Problem::Unreadable { seq, why } => write!(f, "row {seq} is not a record: {why}"),
            Problem::Reported { seq, message } => {
                write!(
                    f,
                    "record {seq} reports what the broker found at its start: {message}"
                )
            }
            Problem::ForgedCheckpoint { seq } => {
                write!(
                    f,
                    "the checkpoint of record {seq} is not signed by the key it names"
                )
            }
            Problem::OtherKey { place, found } => {
                write!(
                    f,
                    "{place}: another signing key ({found}) than the one the log began with"
                )
            }
            Problem::Replaced { seq, witness } => write!(
                f,
                "record {seq} is not the one that {witness} vouches for: the database was exchanged or rewritten"
            ),
            Problem::CutTail {
                last,
                known,
                witness,
            } => write!(
                f,
                "the log ends at record {last}, but {witness} vouches for record {known}: its tail was cut off"
            ),
            Problem::NoHead { why } => {
                write!(f, "the signed head beside the log is of no use: {why}")
            }
        }
    }
}

/// What was checked and what was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// How many records were read.
    pub records: u64,
    /// The number of the first.
    pub first: i64,
    /// The number of the last.
    pub last: i64,
    /// How many checkpoints were checked.
    pub checkpoints: u64,
    /// What is wrong, in the order of the log; the first is the first bad record.
    pub problems: Vec<Problem>,
    /// Whether there are more problems than are named.
    pub more: bool,
}

impl Report {
    fn add(&mut self, problem: Problem) {
        if self.problems.len() < NAMED {
            self.problems.push(problem);
        } else {
            self.more = true;
        }
    }
}

/// A signed head from somewhere else, and where it was found.
#[derive(Debug, Clone)]
pub struct Witness {
    /// What it says.
    pub head: SignedHead,
    /// Where it was found: `the system's journal`.
    pub place: String,
}

/// Checks the log in these files, and against these witnesses.
pub fn verify(files: &Files, witnesses: &[Witness]) -> Result<Report> {
    let connection = store::open_reader(&files.database())?;
    // One view of it all, though the broker may be writing.
    connection
        .execute_batch("BEGIN")
        .map_err(Error::database("begin to read"))?;
    // Before the records: the head file is written after each commit, so a head
    // read now never speaks of a record that the view does not have.
    let mut witnesses = witnesses.to_vec();
    let no_head = match head::read(&files.head()) {
        Ok(Some(head)) => {
            witnesses.push(Witness {
                head,
                place: "audit.head".to_owned(),
            });
            None
        }
        Ok(None) => Some("audit.head is missing".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    let mut checker = Checker {
        report: Report::default(),
        expected: None,
        key: None,
        prunes: Vec::new(),
        claims: claims(&connection, &witnesses)?,
        early: Vec::new(),
    };
    checker.walk(&connection)?;
    if let Some(why) = no_head {
        checker.report.add(Problem::NoHead { why });
    }
    checker.compare(&connection, &witnesses, &files.key())?;
    Ok(checker.report)
}

struct Checker {
    report: Report,
    /// The head that the next record must follow.
    expected: Option<Head>,
    /// The key named by the first record.
    key: Option<PublicKey>,
    /// What prune records account for: up to which record, and its hash.
    prunes: Vec<Head>,
    /// The hashes that checkpoints and witnesses state, by record.
    claims: HashMap<i64, Hash>,
    /// Records whose hash differs from such a claim.
    early: Vec<i64>,
}

/// The records that checkpoints and witnesses speak of.
fn claims(connection: &Connection, witnesses: &[Witness]) -> Result<HashMap<i64, Hash>> {
    let mut claims: HashMap<i64, Hash> = witnesses
        .iter()
        .map(|witness| (witness.head.head.seq, witness.head.head.hash))
        .collect();
    let mut statement = connection
        .prepare("SELECT seq, hash FROM checkpoint")
        .map_err(Error::database("read the checkpoints"))?;
    let mut rows = statement
        .query([])
        .map_err(Error::database("read the checkpoints"))?;
    while let Some(row) = rows
        .next()
        .map_err(Error::database("read the checkpoints"))?
    {
        if let (Ok(seq), Ok(hash)) = (row.get::<_, i64>(0), row.get::<_, [u8; 32]>(1)) {
            claims.entry(seq).or_insert(Hash(hash));
        }
    }
    Ok(claims)
}

impl Checker {
    fn walk(&mut self, connection: &Connection) -> Result<()> {
        let sql = format!("SELECT {} FROM record ORDER BY seq", row::COLUMNS);
        let mut statement = connection
            .prepare(&sql)
            .map_err(Error::database("read the records"))?;
        let mut rows = statement
            .query([])
            .map_err(Error::database("read the records"))?;
        let mut start = None;
        loop {
            let next = match rows.next() {
                Ok(next) => next,
                Err(error) => {
                    self.report.add(Problem::Unreadable {
                        seq: self.report.last + 1,
                        why: error.to_string(),
                    });
                    break;
                }
            };
            let Some(row) = next else { break };
            match row::read(row) {
                Ok(record) => {
                    start.get_or_insert(Head {
                        seq: record.seq - 1,
                        hash: record.prev,
                    });
                    self.check(&record);
                }
                Err(row::NotARecord(why)) => {
                    let seq = row.get(0).unwrap_or(self.report.last + 1);
                    self.report.add(Problem::Unreadable { seq, why });
                    self.expected = None;
                    self.report.last = seq;
                }
            }
        }
        self.check_start(start);
        Ok(())
    }

    fn check(&mut self, record: &Record) {
        self.report.records += 1;
        if self.report.records == 1 {
            self.report.first = record.seq;
        }
        if let Some(expected) = self.expected {
            if record.seq > expected.seq + 1 {
                self.report.add(Problem::Missing {
                    from: expected.seq + 1,
                    to: record.seq - 1,
                });
            } else if record.prev != expected.hash {
                self.report.add(Problem::Unlinked { seq: record.seq });
            }
        }
        let computed = record.computed_hash();
        if computed != record.hash {
            self.report.add(Problem::Changed { seq: record.seq });
        }
        if self
            .claims
            .get(&record.seq)
            .is_some_and(|claim| *claim != record.hash)
        {
            self.early.push(record.seq);
        }
        self.note(record);
        self.expected = Some(Head {
            seq: record.seq,
            hash: record.hash,
        });
        self.report.last = record.seq;
    }

    /// What single records tell about the log itself.
    fn note(&mut self, record: &Record) {
        let Some(detail) = record
            .entry
            .detail
            .as_deref()
            .filter(|_| {
                matches!(
                    record.entry.event,
                    Event::Genesis | Event::Prune | Event::Alert
                )
            })
            .and_then(|detail| serde_json::from_str::<serde_json::Value>(detail).ok())
        else {
            return;
        };
        let hash = |name: &str| detail[name].as_str().and_then(Hash::parse);
        match record.entry.event {
            Event::Genesis | Event::Prune => {
                if let Some(key) = hash("key") {
                    self.key.get_or_insert(PublicKey(key.0));
                }
                if let (Some(seq), Some(hash)) = (detail["through"].as_i64(), hash("hash")) {
                    self.prunes.push(Head { seq, hash });
                }
            }
            Event::Alert if detail["alert"] == "tampering" => {
                self.report.add(Problem::Reported {
                    seq: record.seq,
                    message: detail["message"].as_str().unwrap_or_default().to_owned(),
                });
            }
            _ => {}
        }
    }

    /// The first record must be the first ever, or follow what was pruned.
    fn check_start(&mut self, start: Option<Head>) {
        let Some(start) = start else { return };
        // A prune that was interrupted leaves some of what it could have removed.
        let accounted = start == Head::EMPTY
            || self
                .prunes
                .iter()
                .any(|prune| *prune == start || prune.seq > start.seq);
        if !accounted {
            let problem = if start.seq == 0 {
                Problem::Unlinked { seq: 1 }
            } else {
                Problem::Missing {
                    from: 1,
                    to: start.seq,
                }
            };
            // It comes before all that was found while reading.
            self.report.problems.insert(0, problem);
        }
    }

    fn compare(
        &mut self,
        connection: &Connection,
        witnesses: &[Witness],
        key_file: &Path,
    ) -> Result<()> {
        let mut checkpoints = connection
            .prepare("SELECT seq, hash, key, signature FROM checkpoint ORDER BY seq")
            .map_err(Error::database("read the checkpoints"))?;
        let mut rows = checkpoints
            .query([])
            .map_err(Error::database("read the checkpoints"))?;
        while let Some(row) = rows
            .next()
            .map_err(Error::database("read the checkpoints"))?
        {
            self.report.checkpoints += 1;
            let seq = row.get(0).unwrap_or(-1);
            let (Ok(hash), Ok(key), Ok(signature)) = (row.get(1), row.get(2), row.get(3)) else {
                self.report.add(Problem::ForgedCheckpoint { seq });
                continue;
            };
            let signed = SignedHead {
                head: Head {
                    seq,
                    hash: Hash(hash),
                },
                key: PublicKey(key),
                signature,
            };
            self.compare_head(&signed, &format!("checkpoint {seq}"));
        }
        for witness in witnesses {
            self.compare_head(&witness.head, &witness.place);
        }
        if let (Some(key), Ok(present)) = (self.key, Key::load(key_file))
            && present.public() != key
        {
            self.report.add(Problem::OtherKey {
                place: "audit.key".to_owned(),
                found: present.public(),
            });
        }
        Ok(())
    }

    fn compare_head(&mut self, signed: &SignedHead, place: &str) {
        let seq = signed.head.seq;
        if !signed.is_genuine() {
            self.report.add(if place == "audit.head" {
                Problem::NoHead {
                    why: "it is not signed by the key it names".to_owned(),
                }
            } else {
                Problem::ForgedCheckpoint { seq }
            });
        } else if self.key.is_some_and(|key| key != signed.key) {
            self.report.add(Problem::OtherKey {
                place: place.to_owned(),
                found: signed.key,
            });
        } else if seq > self.report.last {
            self.report.add(Problem::CutTail {
                last: self.report.last,
                known: seq,
                witness: place.to_owned(),
            });
        } else if seq >= self.report.first
            && (self.early.contains(&seq) && self.claims.get(&seq) == Some(&signed.head.hash))
        {
            self.report.add(Problem::Replaced {
                seq,
                witness: place.to_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::audit::ledger::Ledger;
    use crate::audit::mirror::Mirror;
    use crate::audit::record::Entry;

    /// A log of so many records in a folder of its own.
    fn log(records: i64) -> (tempfile::TempDir, Files) {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        extend(&files, records - 1);
        (folder, files)
    }

    fn extend(files: &Files, records: i64) {
        let mut ledger = Ledger::open(files, Mirror::none()).unwrap();
        ledger
            .transaction(|ledger| {
                for number in 0..records {
                    let mut entry = Entry::new(Event::Intent);
                    entry.command = Some(format!("echo {number}"));
                    ledger.append(entry)?;
                }
                ledger.checkpoint()
            })
            .unwrap();
        ledger.publish_head();
    }

    /// Changes the file as an attacker would who does not care for triggers.
    fn tamper(files: &Files, sql: &str) {
        let connection = Connection::open(files.database()).unwrap();
        connection
            .execute_batch(
                "DROP TRIGGER record_no_update; DROP TRIGGER record_no_delete; DROP TRIGGER record_in_order;
                 DROP TRIGGER checkpoint_no_update; DROP TRIGGER checkpoint_no_delete;",
            )
            .unwrap();
        connection.execute_batch(sql).unwrap();
    }

    fn problems(files: &Files) -> Vec<Problem> {
        verify(files, &[]).unwrap().problems
    }

    #[test]
    fn an_untouched_log_is_whole() {
        let (_folder, files) = log(600);
        let report = verify(&files, &[]).unwrap();
        assert_eq!(report.problems, []);
        assert_eq!((report.records, report.first, report.last), (600, 1, 600));
        assert!(report.checkpoints >= 1);
    }

    #[test]
    fn the_triggers_refuse_changes() {
        let (_folder, files) = log(3);
        let connection = Connection::open(files.database()).unwrap();
        for sql in [
            "UPDATE record SET command = 'x' WHERE seq = 2",
            "DELETE FROM record WHERE seq = 3",
            "INSERT INTO record (seq, time, event, prev, hash) VALUES (1, 1, 'stop', x'00', x'00')",
            "DELETE FROM checkpoint",
        ] {
            assert!(connection.execute(sql, []).is_err(), "{sql}");
        }
    }

    #[test]
    fn an_edited_record_is_named() {
        let (_folder, files) = log(20);
        tamper(&files, "UPDATE record SET command = 'ls' WHERE seq = 7");
        assert_eq!(problems(&files), [Problem::Changed { seq: 7 }]);
    }

    #[test]
    fn an_edited_record_with_a_fitting_hash_breaks_the_chain() {
        let (_folder, files) = log(20);
        let connection = Connection::open(files.database()).unwrap();
        let mut forged = connection
            .query_row(
                &format!("SELECT {} FROM record WHERE seq = 7", row::COLUMNS),
                [],
                |row| Ok(row::read(row).unwrap()),
            )
            .unwrap();
        forged.entry.command = Some("ls".to_owned());
        let hash = forged.computed_hash();
        drop(connection);
        tamper(
            &files,
            &format!("UPDATE record SET command = 'ls', hash = x'{hash}' WHERE seq = 7"),
        );
        assert_eq!(problems(&files), [Problem::Unlinked { seq: 8 }]);
    }

    #[test]
    fn a_deleted_record_is_a_gap() {
        let (_folder, files) = log(20);
        tamper(&files, "DELETE FROM record WHERE seq IN (7, 8)");
        assert_eq!(problems(&files), [Problem::Missing { from: 7, to: 8 }]);
    }

    #[test]
    fn exchanged_records_are_named() {
        let (_folder, files) = log(20);
        tamper(
            &files,
            "UPDATE record SET seq = -1 WHERE seq = 7; UPDATE record SET seq = 7 WHERE seq = 8;
             UPDATE record SET seq = 8 WHERE seq = -1;",
        );
        assert_eq!(
            problems(&files).first(),
            Some(&Problem::Unlinked { seq: 7 })
        );
    }

    #[test]
    fn removed_first_records_are_missing_without_a_prune_record() {
        let (_folder, files) = log(20);
        tamper(&files, "DELETE FROM record WHERE seq <= 5");
        assert_eq!(
            problems(&files).first(),
            Some(&Problem::Missing { from: 1, to: 5 })
        );
    }

    #[test]
    fn a_cut_tail_shows_by_the_head() {
        let (_folder, files) = log(20);
        tamper(
            &files,
            "DELETE FROM record WHERE seq > 15; DELETE FROM checkpoint WHERE seq > 15",
        );
        assert_eq!(
            problems(&files),
            [Problem::CutTail {
                last: 15,
                known: 20,
                witness: "audit.head".to_owned()
            }]
        );
        // The broker goes on behind the gap and says what it saw.
        extend(&files, 1);
        let found = problems(&files);
        assert_eq!(found.first(), Some(&Problem::Missing { from: 16, to: 20 }));
        assert!(matches!(
            found.get(1),
            Some(Problem::Reported { seq: 21, .. })
        ));
    }

    #[test]
    fn a_cut_tail_with_its_head_shows_by_the_systems_log() {
        let (_folder, files) = log(20);
        let witness = Witness {
            head: head::read(&files.head()).unwrap().unwrap(),
            place: "the journal".to_owned(),
        };
        let old = head::read(&files.head()).unwrap().unwrap();
        let key = Key::load(&files.key()).unwrap();
        let hash: [u8; 32] = Connection::open(files.database())
            .unwrap()
            .query_row("SELECT hash FROM record WHERE seq = 15", [], |row| {
                row.get(0)
            })
            .unwrap();
        tamper(
            &files,
            "DELETE FROM record WHERE seq > 15; DELETE FROM checkpoint WHERE seq > 15",
        );
        let head = Head {
            seq: 15,
            hash: Hash(hash),
        };
        head::HeadFile::open(&files.head())
            .unwrap()
            .write(head.sign(&key))
            .unwrap();
        assert_ne!(old.head, head);
        assert_eq!(problems(&files), []);
        let report = verify(&files, &[witness]).unwrap();
        assert_eq!(
            report.problems,
            [Problem::CutTail {
                last: 15,
                known: 20,
                witness: "the journal".to_owned()
            }]
        );
    }

    #[test]
    fn another_database_shows() {
        let (_folder, files) = log(20);
        let (_other, others) = log(30);
        std::fs::remove_file(files.database()).unwrap();
        Connection::open(others.database())
            .unwrap()
            .execute("VACUUM INTO ?1", [files.database().to_str().unwrap()])
            .unwrap();
        let found = problems(&files);
        assert!(
            found
                .iter()
                .any(|p| matches!(p, Problem::OtherKey { place, .. } if place == "audit.head")),
            "{found:?}"
        );
        // Its key comes along: the head still remembers another record.
        std::fs::copy(others.key(), files.key()).unwrap();
        let found = problems(&files);
        assert!(
            found.iter().any(|p| matches!(p, Problem::OtherKey { .. })),
            "{found:?}"
        );
    }

    #[test]
    fn another_key_shows() {
        let (_folder, files) = log(20);
        std::fs::remove_file(files.key()).unwrap();
        extend(&files, 1);
        let found = problems(&files);
        assert!(matches!(
            found.first(),
            Some(Problem::Reported { seq: 21, .. })
        ));
        assert!(found.iter().any(|p| matches!(p, Problem::OtherKey { .. })));
    }

    #[test]
    fn a_forged_checkpoint_shows() {
        let (_folder, files) = log(20);
        tamper(&files, "UPDATE checkpoint SET signature = zeroblob(64)");
        assert_eq!(problems(&files), [Problem::ForgedCheckpoint { seq: 20 }]);
    }

    #[test]
    fn a_missing_or_damaged_head_shows() {
        let (_folder, files) = log(20);
        std::fs::write(files.head(), "x").unwrap();
        assert!(matches!(
            problems(&files).as_slice(),
            [Problem::NoHead { .. }]
        ));
        std::fs::remove_file(files.head()).unwrap();
        assert!(matches!(
            problems(&files).as_slice(),
            [Problem::NoHead { .. }]
        ));
    }
}
