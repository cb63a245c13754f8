//! What is written down of the network's use, and the few words between the relay and the
//! supervisor.

use serde::{Deserialize, Serialize};
use sjail_policy::show;

/// So many entries are kept apart; further ones are added to an earlier one of their kind.
const APART: usize = 256;

/// So many are kept at all.
const MOST: usize = 1024;

/// One connection, or several of the same kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The name, or the address where there was no name. Inert.
    pub host: String,
    /// The port; absent for a name that was only looked up.
    pub port: Option<u16>,
    /// `allow` or `refuse`.
    pub decision: Decision,
    /// Why it was refused, or why it failed although it was allowed.
    pub reason: Option<String>,
    /// What would let it through, where something would.
    pub fix: Option<String>,
    /// The address that was dialled.
    pub address: Option<String>,
    /// Where on the host it came in, for a published port; `host` then is who came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// How many connections or lookups this stands for.
    pub count: u64,
    /// Bytes from the command.
    pub sent: u64,
    /// Bytes to the command.
    pub received: u64,
    /// How long it was open.
    pub duration_ms: u64,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It was let through.
    Allow,
    /// It was not.
    Refuse,
}

impl Entry {
    /// A connection to a host, before anything has happened.
    pub fn new(host: &str, port: Option<u16>, decision: Decision) -> Entry {
        Entry {
            host: show::inert(host.as_bytes()),
            port,
            decision,
            reason: None,
            fix: None,
            address: None,
            published: None,
            count: 1,
            sent: 0,
            received: 0,
            duration_ms: 0,
        }
    }

    /// With a reason.
    pub fn because(mut self, reason: impl Into<String>) -> Entry {
        self.reason = Some(show::inert(reason.into().as_bytes()));
        self
    }

    /// With what would help.
    pub fn helped_by(mut self, fix: impl Into<String>) -> Entry {
        self.fix = Some(fix.into());
        self
    }

    /// What is said about it after the run; nothing about what simply worked.
    pub fn sentence(&self) -> Option<String> {
        let reason = self.reason.as_deref()?;
        let place = match self.port {
            Some(port) if self.host.contains(':') => format!("[{}]:{port}", self.host),
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        };
        let times = match self.count {
            1 => String::new(),
            count => format!(", {count} times"),
        };
        let fix = match &self.fix {
            Some(fix) => format!("; {fix} allows it"),
            None => String::new(),
        };
        if let Some(published) = &self.published {
            let inside = self.port.unwrap_or_default();
            return Some(format!(
                "network: {published} was dialled{times}, and port {inside} inside did not answer: {reason}"
            ));
        }
        Some(match self.decision {
            Decision::Refuse => format!("network: {place} was refused{times}: it {reason}{fix}"),
            Decision::Allow => format!("network: {place} could not be reached{times}: {reason}"),
        })
    }

    fn is_like(&self, other: &Entry) -> bool {
        let kind = |entry: &Entry| (entry.port, entry.decision);
        kind(self) == kind(other)
            && (&self.host, &self.reason, &self.published)
                == (&other.host, &other.reason, &other.published)
    }

    fn add(&mut self, other: &Entry) {
        self.count += other.count;
        self.sent += other.sent;
        self.received += other.received;
        self.duration_ms += other.duration_ms;
    }
}

/// Everything that happened, within bounds.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Vec<Entry>,
    /// What found no room at all.
    lost: u64,
}

impl Ledger {
    /// Writes one down. What was refused is counted; what was let through is kept apart
    /// as long as there is room.
    pub fn add(&mut self, entry: Entry) {
        let apart = entry.decision == Decision::Allow && self.entries.len() < APART;
        if !apart && let Some(like) = self.entries.iter_mut().find(|own| own.is_like(&entry)) {
            like.add(&entry);
        } else if self.entries.len() < MOST {
            self.entries.push(entry);
        } else {
            self.lost += entry.count;
        }
    }

    /// All of it.
    pub fn finish(mut self) -> Vec<Entry> {
        if self.lost > 0 {
            let mut rest = Entry::new("(others)", None, Decision::Refuse)
                .because("was one of too many to be written down one by one");
            rest.count = self.lost;
            self.entries.push(rest);
        }
        self.entries
    }
}

/// From the relay to the supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromRelay {
    /// Every wall of the relay's own is up.
    Ready,
    /// It could not be confined or set up.
    Failed {
        /// Which wall, and why.
        why: String,
    },
    /// May this name be reached?
    Ask {
        /// The name.
        name: String,
        /// The port.
        port: u16,
    },
    /// One entry of the ledger, at the end.
    Entry(Box<Entry>),
}

/// From the supervisor to the relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToRelay {
    /// The answer to an `Ask`.
    Answer {
        /// The name.
        name: String,
        /// The port.
        port: u16,
        /// Whether it may.
        allowed: bool,
    },
    /// The jail has ended: pass on what is under way, hand in the ledger and end.
    Finish,
}

/// No message is longer.
pub const LONGEST: usize = 16 << 10;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_ledger_is_bounded() {
        let mut ledger = Ledger::default();
        for number in 0..5000 {
            ledger.add(Entry::new("a.test", Some(443), Decision::Allow));
            ledger.add(Entry::new("b.test", None, Decision::Refuse).because("is not listed"));
            ledger.add(Entry::new(
                &format!("n{number}.test"),
                None,
                Decision::Refuse,
            ));
        }
        let entries = ledger.finish();
        assert!(entries.len() <= MOST + 1);
        let total: u64 = entries.iter().map(|entry| entry.count).sum();
        assert_eq!(total, 15000);
        let refused = entries.iter().find(|entry| entry.host == "b.test").unwrap();
        assert_eq!(refused.count, 5000);
    }

    #[test]
    fn sentences() {
        let refused = Entry::new("b.test", Some(443), Decision::Refuse)
            .because("is not listed")
            .helped_by("--allow-host b.test");
        assert_eq!(
            refused.sentence().unwrap(),
            "network: b.test:443 was refused: it is not listed; --allow-host b.test allows it"
        );
        assert_eq!(
            Entry::new("b.test", Some(443), Decision::Allow).sentence(),
            None
        );
    }
}
