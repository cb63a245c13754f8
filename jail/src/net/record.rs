//! What is written down of the network's use, and the few words between the relay and the
//! supervisor.

use serde::{Deserialize, Serialize};
use sjail_policy::show;

/// So many entries are kept apart; further ones are added to an earlier one of their kind.
const APART: usize = 256;

/// What was let through takes at most so many bytes in the record, and what was refused, which
/// takes no room from it. Whoever is inside chooses names, and the record of a run is one
/// message to the broker: three ledgers of this size fit into it.
const ROOM_ALLOWED: usize = 160 << 10;
const ROOM_REFUSED: usize = 96 << 10;

/// A name or a reason is not longer, or one entry would not fit into a message.
const LONGEST_TEXT: usize = 512;

/// Stands for all that found no room; no host has this name.
const OTHERS: &str = "(others)";

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
    /// Which key of the ssh agent has signed in there, and as whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<String>,
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
            host: show::clipped(host.as_bytes(), LONGEST_TEXT),
            port,
            decision,
            reason: None,
            fix: None,
            address: None,
            published: None,
            signed: None,
            count: 1,
            sent: 0,
            received: 0,
            duration_ms: 0,
        }
    }

    /// With a reason.
    pub fn because(mut self, reason: impl Into<String>) -> Entry {
        self.reason = Some(show::clipped(reason.into().as_bytes(), LONGEST_TEXT));
        self
    }

    /// A login there, by a key of the ssh agent.
    pub fn signed(mut self, key: &str, user: &str) -> Entry {
        let text = format!("{key} as {user}");
        self.signed = Some(show::clipped(text.as_bytes(), LONGEST_TEXT));
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
        if self.host == OTHERS {
            return Some(format!(
                "network: {} more are not listed: {reason}",
                self.count
            ));
        }
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
            && (&self.host, &self.reason, &self.published, &self.signed)
                == (&other.host, &other.reason, &other.published, &other.signed)
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
    allowed: Part,
    refused: Part,
}

/// All of one decision.
#[derive(Debug, Default)]
struct Part {
    entries: Vec<Entry>,
    /// The bytes that they take.
    taken: usize,
    /// What found no room of its own.
    rest: Option<Entry>,
}

impl Ledger {
    /// Writes one down. What was refused or failed is counted; what was let through is
    /// kept apart as long as there is room.
    pub fn add(&mut self, entry: Entry) {
        match entry.decision {
            Decision::Allow if entry.reason.is_some() => self.allowed.add(entry, 0, ROOM_ALLOWED),
            Decision::Allow => self.allowed.add(entry, APART, ROOM_ALLOWED),
            Decision::Refuse => self.refused.add(entry, 0, ROOM_REFUSED),
        }
    }

    /// All of it.
    pub fn finish(self) -> Vec<Entry> {
        let parts = [self.allowed, self.refused];
        parts
            .into_iter()
            .flat_map(|part| part.entries.into_iter().chain(part.rest))
            .collect()
    }
}

impl Part {
    fn add(&mut self, entry: Entry, apart: usize, room: usize) {
        let joins = self.entries.len() >= apart;
        if joins && let Some(like) = self.entries.iter_mut().find(|own| own.is_like(&entry)) {
            like.add(&entry);
            return;
        }
        let length = serde_json::to_vec(&entry).map_or(room, |text| text.len());
        if self.taken + length <= room {
            self.taken += length;
            self.entries.push(entry);
        } else {
            let rest = self.rest.get_or_insert_with(|| {
                let mut rest = Entry::new(OTHERS, None, entry.decision)
                    .because("too many to be written down one by one");
                rest.count = 0;
                rest
            });
            rest.add(&entry);
        }
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
    /// A connection to the owner's ssh agent is wanted.
    Dial,
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
    /// The answer to a `Dial`; comes with the connection, where there is one.
    Dialled,
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
            let mut allowed = Entry::new("a.test", Some(443), Decision::Allow);
            allowed.sent = 2;
            ledger.add(allowed);
            ledger.add(Entry::new("b.test", None, Decision::Refuse).because("is not listed"));
            ledger.add(Entry::new(
                &format!("n{number}.test"),
                None,
                Decision::Refuse,
            ));
        }
        let entries = ledger.finish();
        let length = serde_json::to_vec(&entries).unwrap().len();
        assert!(
            length <= ROOM_ALLOWED + ROOM_REFUSED + (4 << 10),
            "{length}"
        );
        let total: u64 = entries.iter().map(|entry| entry.count).sum();
        assert_eq!(total, 15000);
        let sent: u64 = entries.iter().map(|entry| entry.sent).sum();
        assert_eq!(sent, 10000);
        let refused = entries.iter().find(|entry| entry.host == "b.test").unwrap();
        assert_eq!(refused.count, 5000);
    }

    #[test]
    fn failures_of_a_kind_are_one_sentence() {
        let mut ledger = Ledger::default();
        for _ in 0..6 {
            ledger.add(Entry::new("a.test", Some(443), Decision::Allow).because("it is closed"));
        }
        let sentences: Vec<_> = ledger.finish().iter().map(Entry::sentence).collect();
        let sentence = "network: a.test:443 could not be reached, 6 times: it is closed";
        assert_eq!(sentences, [Some(sentence.to_owned())]);
    }

    #[test]
    fn refusals_take_no_room_from_what_was_let_through() {
        let mut ledger = Ledger::default();
        for number in 0..5000 {
            ledger.add(Entry::new(
                &format!("n{number}.test"),
                None,
                Decision::Refuse,
            ));
        }
        ledger.add(Entry::new("a.test", Some(443), Decision::Allow));
        let entries = ledger.finish();
        assert!(entries.iter().any(|entry| entry.host == "a.test"));
    }

    #[test]
    fn every_entry_fits_into_a_message() {
        // Each of these takes several characters to show.
        let odd = "\u{202e}".repeat(40 << 10);
        let entry = Entry::new(&odd, Some(80), Decision::Refuse)
            .because(format!("was dialled, but what was said was for {odd}"))
            .helped_by("--allow-host x");
        let word = serde_json::to_vec(&FromRelay::Entry(Box::new(entry))).unwrap();
        assert!(word.len() <= LONGEST, "{}", word.len());
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
