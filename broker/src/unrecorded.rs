//! Runs that the log could not take and that went on all the same, because the policy says
//! so: whoever comes next hears of them, and the log does as soon as it can be written.

use std::sync::{Mutex, PoisonError};

use crate::audit::record::{Entry, Event};
use crate::writer::Writer;

/// What is missing in the log.
#[derive(Debug, Default)]
pub struct Unrecorded {
    missing: Mutex<Missing>,
}

#[derive(Debug, Default)]
struct Missing {
    runs: u64,
    why: String,
}

impl Unrecorded {
    /// A run is not in the log.
    pub fn add(&self, why: &str) {
        let mut missing = self.lock();
        missing.runs += 1;
        why.clone_into(&mut missing.why);
    }

    /// What has to be said about runs before this one; said once it is in the log.
    pub async fn tell(&self, writer: &Writer) -> Option<String> {
        let Missing { runs, why } = std::mem::take(&mut *self.lock());
        if runs == 0 {
            return None;
        }
        let what = match runs {
            1 => "a run before this one is".to_owned(),
            runs => format!("{runs} runs before this one are"),
        };
        let message = format!("{what} not in the audit log: {why}");
        let detail = serde_json::json!({ "alert": "audit", "message": message });
        let written = writer
            .write(move |ledger| ledger.append(Entry::new(Event::Alert).detail(&detail)))
            .await;
        if written.is_err() {
            let mut missing = self.lock();
            missing.runs += runs;
            missing.why = why;
        }
        Some(message)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Missing> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
