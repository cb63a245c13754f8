//! One record of the log, and the bytes that its hash covers.

use std::borrow::Cow;
use std::fmt;

use sha2::{Digest, Sha256};

/// What a record tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The log was made.
    Genesis,
    /// The broker started.
    Start,
    /// The broker ended.
    Stop,
    /// A command is about to run.
    Intent,
    /// A command ended, or its runner went away without a word.
    Outcome,
    /// A command was held back: it waits for an answer, or is blocked.
    Decision,
    /// A person answered.
    Approval,
    /// A standing permission was given or taken back.
    Grant,
    /// The allow list changed.
    Allowlist,
    /// The policy in force changed, or could not be read.
    Policy,
    /// A session was registered by its operator.
    Session,
    /// Something that somebody should look at.
    Alert,
    /// Old records were removed.
    Prune,
}

impl Event {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Event; 13] = [
        Event::Genesis,
        Event::Start,
        Event::Stop,
        Event::Intent,
        Event::Outcome,
        Event::Decision,
        Event::Approval,
        Event::Grant,
        Event::Allowlist,
        Event::Policy,
        Event::Session,
        Event::Alert,
        Event::Prune,
    ];

    /// The name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Event::Genesis => "genesis",
            Event::Start => "start",
            Event::Stop => "stop",
            Event::Intent => "intent",
            Event::Outcome => "outcome",
            Event::Decision => "decision",
            Event::Approval => "approval",
            Event::Grant => "grant",
            Event::Allowlist => "allowlist",
            Event::Policy => "policy",
            Event::Session => "session",
            Event::Alert => "alert",
            Event::Prune => "prune",
        }
    }
}

/// What is to be recorded; the ledger adds number, time and hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it tells.
    pub event: Event,
    /// The command's id; the same in all records about one command.
    pub id: Option<String>,
    /// The command as one line.
    pub command: Option<String>,
    /// The arguments, a JSON array of strings.
    pub argv: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The account, as the kernel names the peer.
    pub user: Option<String>,
    /// The agent's name: a claim of the caller.
    pub agent: Option<String>,
    /// The session's name: a claim of the caller unless an operator registered it.
    pub session: Option<String>,
    /// The risk's name.
    pub risk: Option<String>,
    /// Why, a JSON array of strings.
    pub reasons: Option<String>,
    /// What was decided.
    pub decision: Option<String>,
    /// The rule that decided, with its file and line.
    pub rule: Option<String>,
    /// Who answered.
    pub approver: Option<String>,
    /// The hash of the policy in force.
    pub policy: Option<String>,
    /// The isolation that was promised or achieved, a JSON object.
    pub isolation: Option<String>,
    /// The exit code.
    pub exit: Option<i64>,
    /// The signal that ended the command.
    pub signal: Option<i64>,
    /// How long it ran, in microseconds.
    pub duration: Option<i64>,
    /// What it used, a JSON object.
    pub usage: Option<String>,
    /// The start of its output.
    pub output_head: Option<String>,
    /// The end of its output, where that is not in the start.
    pub output_tail: Option<String>,
    /// Everything else, a JSON object: the peer, what a grant covers, what changed.
    pub detail: Option<String>,
}

impl Entry {
    /// An entry that says nothing but its kind.
    pub fn new(event: Event) -> Entry {
        Entry {
            event,
            id: None,
            command: None,
            argv: None,
            cwd: None,
            user: None,
            agent: None,
            session: None,
            risk: None,
            reasons: None,
            decision: None,
            rule: None,
            approver: None,
            policy: None,
            isolation: None,
            exit: None,
            signal: None,
            duration: None,
            usage: None,
            output_head: None,
            output_tail: None,
            detail: None,
        }
    }

    /// The same entry with its JSON detail.
    pub fn detail(mut self, detail: &serde_json::Value) -> Entry {
        self.detail = Some(detail.to_string());
        self
    }
}

/// A SHA-256 hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// What stands before the first record.
    pub const ZERO: Hash = Hash([0; 32]);

    /// The hash of some bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(Sha256::digest(bytes).into())
    }

    /// Reads the 64 hexadecimal digits that [`fmt::Display`] writes.
    pub fn parse(hex: &str) -> Option<Hash> {
        let mut bytes = [0; 32];
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Hash(bytes))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An entry in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number: one more than the record before.
    pub seq: i64,
    /// Microseconds since 1970, never less than the record before.
    pub time: i64,
    /// What happened.
    pub entry: Entry,
    /// The hash of the record before.
    pub prev: Hash,
    /// The hash of this record.
    pub hash: Hash,
}

/// The first line of what is hashed; names the format.
const FORMAT: &[u8] = b"sjail-audit-1\n";

impl Record {
    /// Puts an entry behind the record whose hash is `prev`.
    pub fn seal(seq: i64, time: i64, entry: Entry, prev: Hash) -> Record {
        let hash = hash(seq, time, &entry, &prev);
        Record {
            seq,
            time,
            entry,
            prev,
            hash,
        }
    }

    /// The hash that the record ought to have.
    pub fn computed_hash(&self) -> Hash {
        hash(self.seq, self.time, &self.entry, &self.prev)
    }
}

/// SHA-256 over the canonical bytes: the line `sjail-audit-1`, then for every field
/// that is set, in the order of [`fields`], its name, a space, the length of its
/// value in bytes, a newline, the value, a newline. Numbers are decimal.
fn hash(seq: i64, time: i64, entry: &Entry, prev: &Hash) -> Hash {
    let mut bytes = Vec::with_capacity(512);
    bytes.extend_from_slice(FORMAT);
    for (name, value) in fields(seq, time, entry, prev) {
        if let Some(value) = value {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(value.len().to_string().as_bytes());
            bytes.push(b'\n');
            bytes.extend_from_slice(value.as_bytes());
            bytes.push(b'\n');
        }
    }
    Hash::of(&bytes)
}

/// The fields in the order in which they are hashed.
fn fields<'a>(
    seq: i64,
    time: i64,
    entry: &'a Entry,
    prev: &Hash,
) -> [(&'static str, Option<Cow<'a, str>>); 25] {
    let number = |value: i64| Some(Cow::Owned(value.to_string()));
    let text = |value: &'a Option<String>| value.as_deref().map(Cow::Borrowed);
    [
        ("prev", Some(Cow::Owned(prev.to_string()))),
        ("seq", number(seq)),
        ("time", number(time)),
        ("event", Some(Cow::Borrowed(entry.event.name()))),
        ("id", text(&entry.id)),
        ("command", text(&entry.command)),
        ("argv", text(&entry.argv)),
        ("cwd", text(&entry.cwd)),
        ("user", text(&entry.user)),
        ("agent", text(&entry.agent)),
        ("session", text(&entry.session)),
        ("risk", text(&entry.risk)),
        ("reasons", text(&entry.reasons)),
        ("decision", text(&entry.decision)),
        ("rule", text(&entry.rule)),
        ("approver", text(&entry.approver)),
        ("policy", text(&entry.policy)),
        ("isolation", text(&entry.isolation)),
        ("exit", entry.exit.and_then(number)),
        ("signal", entry.signal.and_then(number)),
        ("duration", entry.duration.and_then(number)),
        ("usage", text(&entry.usage)),
        ("output_head", text(&entry.output_head)),
        ("output_tail", text(&entry.output_tail)),
        ("detail", text(&entry.detail)),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_canonical_bytes_are_what_the_documentation_says() {
        let mut entry = Entry::new(Event::Intent);
        entry.id = Some("cmd_1".to_owned());
        entry.exit = Some(-1);
        let zeros = "0".repeat(64);
        let expected = format!(
            "sjail-audit-1\nprev 64\n{zeros}\nseq 1\n7\ntime 2\n99\nevent 6\nintent\nid 5\ncmd_1\nexit 2\n-1\n"
        );
        assert_eq!(
            Record::seal(7, 99, entry, Hash::ZERO).hash,
            Hash::of(expected.as_bytes())
        );
    }

    #[test]
    fn a_value_cannot_pose_as_another_field() {
        let mut forged = Entry::new(Event::Alert);
        forged.command = Some("a\nuser 1\nb".to_owned());
        let mut honest = Entry::new(Event::Alert);
        honest.command = Some("a".to_owned());
        honest.user = Some("b".to_owned());
        assert_ne!(
            hash(1, 1, &forged, &Hash::ZERO),
            hash(1, 1, &honest, &Hash::ZERO)
        );
    }

    #[test]
    fn a_hash_reads_back() {
        let hash = Hash::of(b"x");
        assert_eq!(Hash::parse(&hash.to_string()), Some(hash));
        assert_eq!(Hash::parse("zz"), None);
        assert_eq!(Hash::parse(&"g".repeat(64)), None);
    }
}
