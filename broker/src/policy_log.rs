//! The owner's policy as the log tells it: which one a start found, and each change of it
//! since, with what could not be read.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use sjail_policy::show;

use crate::audit::record::{Entry, Event, Hash};
use crate::error::Result;
use crate::sources::Owners;
use crate::writer::Writer;

/// Which policy the log knows of.
pub struct PolicyLog {
    known: Mutex<Hash>,
}

impl PolicyLog {
    /// The log tells of this one already.
    pub fn new(known: Hash) -> PolicyLog {
        PolicyLog {
            known: Mutex::new(known),
        }
    }

    /// Records the policy if it is another one than before. Whether it was.
    pub async fn note(&self, writer: &Writer, owners: &Owners) -> Result<bool> {
        let before = self.exchange(owners.hash);
        if before == owners.hash {
            return Ok(false);
        }
        let owners = owners.clone();
        let written = writer
            .write_soon(move |ledger| {
                let mut entry = Entry::new(Event::Policy).detail(&described(&owners));
                entry.policy = Some(owners.hash.to_string());
                ledger.append(entry)?;
                for problem in &owners.problems {
                    let alert = json!({ "alert": "policy", "message": problem });
                    ledger.append(Entry::new(Event::Alert).detail(&alert))?;
                }
                Ok(())
            })
            .await;
        if written.is_err() {
            // The next one tries again.
            self.exchange(before);
        }
        written.map(|()| true)
    }

    fn exchange(&self, hash: Hash) -> Hash {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *known, hash)
    }
}

/// The files of a policy and what is wrong with them, for a record.
pub fn described(owners: &Owners) -> Value {
    let files: Vec<Value> = owners
        .files
        .iter()
        .map(|(path, hash)| json!({ "path": show::inert(path.as_bytes()), "sha256": hash.to_string() }))
        .collect();
    json!({ "files": files, "problems": owners.problems })
}
