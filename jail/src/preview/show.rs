//! A preview in words and colours: one line of numbers, then the changes as a tree.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use sjail_policy::show::inert;

use super::entry::{Act, Entry};
use super::record::{Record, State, Totals};
use crate::beneath::Kind;

/// A longer tree is cut, and says so.
const MOST: u64 = 200;

/// Whether to write in colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// For a terminal.
    Colour,
    /// For everything else.
    Plain,
}

impl Ink {
    /// For this stream, unless the user wants none.
    pub fn on(stream: &impl std::io::IsTerminal) -> Ink {
        match stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) {
            true => Ink::Colour,
            false => Ink::Plain,
        }
    }

    fn dye(self, code: &str, text: &str) -> String {
        match self {
            Ink::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
            Ink::Plain => text.to_owned(),
        }
    }
}

/// The numbers in one line.
pub fn numbers(totals: &Totals) -> String {
    let mut parts = Vec::new();
    for (count, word) in [
        (totals.created, "created"),
        (totals.modified, "modified"),
        (totals.deleted, "deleted"),
        (totals.renamed, "renamed"),
        (totals.changed, "with other permissions or attributes"),
        (totals.touched, "with another time"),
    ] {
        if count > 0 {
            parts.push(format!("{} {word}", grouped(count)));
        }
    }
    match totals.folders {
        0 => {}
        1 => parts.push("1 new folder".to_owned()),
        count => parts.push(format!("{} new folders", grouped(count))),
    }
    match totals.removed_folders {
        // With files in them, those say it.
        _ if totals.deleted > 0 => {}
        0 => {}
        1 => parts.push("1 deleted folder".to_owned()),
        count => parts.push(format!("{} deleted folders", grouped(count))),
    }
    if parts.is_empty() {
        return "nothing would change".to_owned();
    }
    let mut bytes = Vec::new();
    if totals.bytes_written > 0 {
        bytes.push(format!("{} written", size(totals.bytes_written)));
    }
    if totals.bytes_deleted > 0 {
        bytes.push(format!("{} deleted", size(totals.bytes_deleted)));
    }
    match bytes.is_empty() {
        true => format!("files: {}", parts.join(", ")),
        false => format!("files: {} ({})", parts.join(", "), bytes.join(", ")),
    }
}

/// The numbers as what it does, for whoever is asked: "deletes 31,204 files, 412 MB, none
/// tracked by git, none outside the workspace".
pub fn brief(totals: &Totals) -> String {
    if totals.is_nothing() {
        return "changes nothing".to_owned();
    }
    let files = |count: u64| match count {
        1 => "1 file".to_owned(),
        _ => format!("{} files", grouped(count)),
    };
    let mut parts = Vec::new();
    for (count, word, bytes) in [
        (totals.deleted, "deletes", totals.bytes_deleted),
        (totals.created, "creates", 0),
        (totals.modified, "changes", 0),
        (totals.renamed, "renames", 0),
        (totals.changed, "changes the permissions of", 0),
        (totals.touched, "changes the time of", 0),
    ] {
        if count > 0 {
            parts.push(format!("{word} {}", files(count)));
        }
        if bytes > 0 {
            parts.push(size(bytes));
        }
    }
    match totals.folders {
        0 => {}
        1 => parts.push("makes 1 folder".to_owned()),
        count => parts.push(format!("makes {} folders", grouped(count))),
    }
    match totals.removed_folders {
        // With files in them, those say it.
        _ if totals.deleted > 0 => {}
        0 => {}
        1 => parts.push("deletes 1 folder".to_owned()),
        count => parts.push(format!("deletes {} folders", grouped(count))),
    }
    if totals.bytes_written > 0 {
        parts.push(format!("writes {}", size(totals.bytes_written)));
    }
    let some = |count: u64, what: &str| match count {
        0 => format!("none {what}"),
        _ => format!("{} {what}", grouped(count)),
    };
    parts.extend(totals.tracked.map(|count| some(count, "tracked by git")));
    parts.push(some(totals.outside, "outside the workspace"));
    if totals.kept_out > 0 {
        parts.push(some(totals.kept_out, "protected and never committed"));
    }
    if totals.auto_exec > 0 {
        parts.push(some(totals.auto_exec, "that run code later"));
    }
    parts.join(", ")
}

/// The changes, one in a line, for a list that is no tree.
pub fn lines(
    record: &Record,
    entries: impl Iterator<Item = std::io::Result<Entry>>,
    most: usize,
) -> Vec<String> {
    let mut shown = entries.flatten().filter(is_told);
    let mut lines: Vec<String> = shown
        .by_ref()
        .take(most)
        .map(|entry| {
            let host = record.layers.get(entry.layer).map(|layer| &layer.host);
            let host = host.map_or(Path::new("/"), |host| host.as_path());
            let path = host.join(entry.path.as_path());
            let workspace = record.workspace.as_path();
            let path = path.strip_prefix(workspace).unwrap_or(&path);
            let mut text = format!(
                "{} {}",
                mark(&entry).0,
                inert(path.as_os_str().as_encoded_bytes())
            );
            let facts = facts(&entry);
            if !facts.is_empty() {
                let _ = write!(text, "  {}", facts.join(", "));
            }
            text
        })
        .collect();
    let more = shown.count();
    if more > 0 {
        lines.push(format!("… and {} more", grouped(more as u64)));
    }
    lines
}

/// Whether a change has a line of its own: where a rename is shown its other end is not.
fn is_told(entry: &Entry) -> bool {
    entry.is_shown()
        && entry.renamed_to.is_none()
        && !(entry.within && entry.renamed_from.is_some())
}

/// Everything that there is to say to a person.
pub fn summary(
    record: &Record,
    entries: impl Iterator<Item = std::io::Result<Entry>>,
    ink: Ink,
) -> String {
    let state = match record.state {
        State::Pending => "nothing on the host has changed",
        State::Committing => "a commit of it has begun and not ended",
        State::Committed => "it is committed",
        State::Undoing => "its commit is being taken back",
    };
    let mut text = format!(
        "preview {}: {}; {state}\n",
        record.id,
        numbers(&record.totals)
    );
    tree(record, entries, ink, &mut text);
    for note in &record.notes {
        let _ = writeln!(text, "  {}", inert(note.as_bytes()));
    }
    let id = &record.id;
    let _ = match record.state {
        State::Pending if record.totals.is_nothing() => Ok(()),
        State::Pending => writeln!(
            text,
            "to see it: sjail diff {id} · to keep it: sjail commit {id} · to drop it: sjail discard {id}"
        ),
        _ => writeln!(text, "to take it back: sjail undo {id}"),
    };
    text
}

/// The preview as an object, without its list of changes.
pub fn object(record: &Record) -> serde_json::Value {
    serde_json::json!({
        "id": record.id,
        "state": record.state,
        "command": record.command,
        "workspace": record.workspace,
        "time": record.time,
        "expires": record.kept_until(),
        "exit_code": record.exit_code,
        "totals": record.totals,
        "places": record.layers.iter().map(|layer| {
            serde_json::json!({ "path": layer.host, "means": layer.means })
        }).collect::<Vec<_>>(),
        "verdict": record.verdict,
        "notes": record.notes,
    })
}

fn tree(
    record: &Record,
    entries: impl Iterator<Item = std::io::Result<Entry>>,
    ink: Ink,
    text: &mut String,
) {
    let mut shown = 0;
    let mut layer = None;
    let mut above = PathBuf::new();
    for entry in entries.flatten() {
        if !is_told(&entry) {
            continue;
        }
        shown += 1;
        if shown > MOST {
            continue;
        }
        if layer != Some(entry.layer) {
            layer = Some(entry.layer);
            above = PathBuf::new();
            let host = record.layers.get(entry.layer).map(|layer| &layer.host);
            let name = host.map(|host| inert(host.as_bytes())).unwrap_or_default();
            let _ = writeln!(text, "  {}", ink.dye("1", &name));
        }
        let path = entry.path.as_path();
        let depth = folders(path, &mut above, text);
        let _ = writeln!(text, "{}{}", indent(depth), line(&entry, ink));
        if entry.kind == Kind::Folder && entry.act != Act::Deleted {
            above = path.to_owned();
        }
    }
    if shown > MOST {
        let _ = writeln!(text, "  … and {} more", grouped(shown - MOST));
    }
}

/// Writes the folders on the way to a path that were not written yet; gives their number.
fn folders(path: &Path, above: &mut PathBuf, text: &mut String) -> usize {
    let parent = path.parent().unwrap_or(Path::new(""));
    let common = parent
        .components()
        .zip(above.components())
        .take_while(|(new, old)| new == old)
        .count();
    let parts: Vec<Component<'_>> = parent.components().collect();
    for (depth, part) in parts.iter().enumerate().skip(common) {
        let name = inert(part.as_os_str().as_encoded_bytes());
        let _ = writeln!(text, "{}{name}/", indent(depth));
    }
    *above = parent.to_owned();
    parts.len()
}

/// Nobody can follow what is deeper than this.
fn indent(depth: usize) -> String {
    "  ".repeat((depth + 2).min(24))
}

/// One change in one line, without its folder.
fn line(entry: &Entry, ink: Ink) -> String {
    let path = entry.path.as_path();
    let name = path.file_name().unwrap_or_else(|| ".".as_ref());
    let mut name = inert(name.as_encoded_bytes());
    if entry.kind == Kind::Folder {
        name.push('/');
    }
    let (mark, colour) = mark(entry);
    let mut text = ink.dye(colour, &format!("{mark} {name}"));
    let facts = facts(entry);
    if !facts.is_empty() {
        let _ = write!(text, "  {}", facts.join(", "));
    }
    text
}

/// The sign of a change, and its colour.
fn mark(entry: &Entry) -> (&'static str, &'static str) {
    match entry.act {
        _ if entry.kept_out.is_some() => ("!", "35"),
        Act::Created if entry.renamed_from.is_some() => (">", "36"),
        Act::Created => ("+", "32"),
        Act::Modified => ("~", "33"),
        Act::Deleted => ("-", "31"),
        Act::Changed => ("m", "34"),
        Act::Touched => ("t", "34"),
    }
}

fn facts(entry: &Entry) -> Vec<String> {
    let mut facts = Vec::new();
    match (entry.act, entry.kind) {
        (_, _) if entry.renamed_from.is_some() => {}
        (Act::Created, Kind::File) => facts.push(size(entry.size)),
        (Act::Modified, Kind::File) if entry.size != entry.old_size => {
            facts.push(format!("{} → {}", size(entry.old_size), size(entry.size)));
        }
        (Act::Deleted, Kind::Folder) => facts.push(match entry.files {
            1 => format!("1 file, {}", size(entry.old_size)),
            count => format!("{} files, {}", grouped(count), size(entry.old_size)),
        }),
        (Act::Deleted, Kind::File) => facts.push(size(entry.old_size)),
        (Act::Changed, _) if entry.mode.is_none() && entry.owner.is_none() => {
            facts.push("other attributes".to_owned());
        }
        (Act::Touched, _) => facts.push("another time".to_owned()),
        _ => {}
    }
    if let Some(was) = entry.was {
        facts.push(format!("was a {}", word(was)));
    }
    if entry.kind == Kind::Other && entry.act != Act::Deleted {
        facts.push("a pipe or socket".to_owned());
    }
    if let Some(from) = &entry.renamed_from {
        facts.push(format!("was {}", inert(from.as_bytes())));
    }
    if let Some((before, now)) = entry.mode {
        facts.push(format!("mode {before:04o} → {now:04o}"));
    }
    if let Some((before, now)) = &entry.owner {
        facts.push(format!("owner {before} → {now}"));
    }
    if let Some(target) = &entry.target {
        facts.push(format!("link to {}", inert(target.as_bytes())));
    }
    if let Some(links) = entry.links
        && entry.act == Act::Modified
    {
        facts.push(format!(
            "one of {links} names of the same file; the others stay as they are"
        ));
    }
    if let Some(by) = &entry.auto_exec {
        facts.push(format!("runs code later: {by}"));
    }
    if let Some(why) = &entry.kept_out {
        facts.push(format!("never committed, it {why}"));
    }
    facts
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Folder => "folder",
        Kind::Link => "link",
        Kind::Other | Kind::Whiteout => "special file",
    }
}

/// A number with its thousands apart.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A span of time for people, in its largest unit.
pub fn span(seconds: i64) -> String {
    let (count, unit) = match seconds.max(0) {
        seconds @ 0..60 => (seconds, "second"),
        seconds @ 60..3600 => (seconds / 60, "minute"),
        seconds @ 3600..172_800 => (seconds / 3600, "hour"),
        seconds => (seconds / 86_400, "day"),
    };
    match count {
        1 => format!("1 {unit}"),
        _ => format!("{count} {unit}s"),
    }
}

/// A number of bytes for people.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    match unit {
        0 => format!("{bytes} B"),
        _ if value < 10.0 => format!("{value:.1} {name}"),
        _ => format!("{value:.0} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(grouped(31204), "31,204");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000_000), "1,000,000");
        assert_eq!(size(12), "12 B");
        assert_eq!(size(1500), "1.5 KB");
        assert_eq!(size(412_000_000), "412 MB");
        assert_eq!(numbers(&Totals::default()), "nothing would change");
        assert_eq!(span(61), "1 minute");
        assert_eq!(span(7 * 86_400 - 1), "6 days");
    }

    #[test]
    fn what_it_does_in_a_sentence() {
        let totals = Totals {
            deleted: 31_204,
            bytes_deleted: 412_000_000,
            tracked: Some(0),
            ..Totals::default()
        };
        assert_eq!(
            brief(&totals),
            "deletes 31,204 files, 412 MB, none tracked by git, none outside the workspace"
        );
        assert_eq!(brief(&Totals::default()), "changes nothing");
    }

    #[test]
    fn names_of_strangers_are_inert() {
        let mut entry = Entry::new(0, "a\u{1b}[2Jb".into(), Act::Created, Kind::File);
        entry.size = 3;
        let text = line(&entry, Ink::Plain);
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.contains("3 B"));
    }
}
