//! Git's configuration files: read into keys, compared, and edited in place.
//!
//! What a jailed command leaves in a `config` is never taken over as text. It is read
//! into keys, each change is judged ([`crate::git_keys`]), and what is harmless is
//! written by [`Document::apply`] in our own spelling into the text that was there
//! before. So it does not matter whether git reads a strange file otherwise than we do:
//! nothing of it but the judged keys and values ever reaches the host.

mod reader;
mod writer;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use reader::{is_blank, sections};
use writer::{Edit, edited, header, line};

/// A key such as `remote.origin.url`. Section and name are lower case, the subsection
/// keeps its bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The part before the first dot.
    pub section: Arc<str>,
    /// The part between the first and the last dot.
    pub subsection: Option<Arc<[u8]>>,
    /// The part behind the last dot.
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subsection {
            Some(subsection) => write!(
                f,
                "{}.{}.{}",
                self.section,
                String::from_utf8_lossy(subsection).escape_debug(),
                self.name
            ),
            None => write!(f, "{}.{}", self.section, self.name),
        }
    }
}

/// One `name = value` line. A name without `=` has no value and means true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Which key.
    pub key: Key,
    /// The value with quotes and escapes resolved.
    pub value: Option<Vec<u8>>,
}

/// Why a file is no git configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// Counted from one.
    pub line: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// A configuration file: its text, and where in it each entry stands.
#[derive(Debug, Clone)]
pub struct Document {
    text: Vec<u8>,
    sections: Vec<Section>,
}

#[derive(Debug, Clone)]
struct Section {
    name: Arc<str>,
    subsection: Option<Arc<[u8]>>,
    /// From `[` to the byte before the next section's `[`.
    start: usize,
    end: usize,
    /// Behind the `]`.
    body: usize,
    entries: Vec<Placed>,
}

#[derive(Debug, Clone)]
struct Placed {
    entry: Entry,
    start: usize,
    /// Behind the newline that ends it.
    end: usize,
}

/// The largest file that is read; git's own are a few kilobytes.
pub const MAX_LENGTH: usize = 1 << 20;

impl Document {
    /// Reads a file as strictly as git does, or stricter.
    pub fn parse(text: &[u8]) -> Result<Document, ParseError> {
        let mut text = text.to_vec();
        if !text.is_empty() && !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        // A line that would go on ends with the file, whatever is written behind it.
        if text.ends_with(b"\\\n") {
            text.push(b'\n');
        }
        let sections = sections(&text)?;
        Ok(Document { text, sections })
    }

    /// Every entry, in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.sections
            .iter()
            .flat_map(|section| section.entries.iter().map(|placed| &placed.entry))
    }

    /// The values of one key, in order.
    pub fn values<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = Option<&'a [u8]>> {
        self.entries()
            .filter(move |entry| entry.key == *key)
            .map(|entry| entry.value.as_deref())
    }

    /// The last value of a key given as section, subsection and name, which is the one
    /// that git uses; a key without `=` reads as `true`.
    pub fn last(&self, section: &str, subsection: Option<&[u8]>, name: &str) -> Option<&[u8]> {
        self.entries()
            .filter(|entry| {
                &*entry.key.section == section
                    && entry.key.subsection.as_deref() == subsection
                    && entry.key.name == name
            })
            .last()
            .map(|entry| entry.value.as_deref().unwrap_or(b"true"))
    }

    /// The keys whose values differ in `after`, in the order in which they are met.
    pub fn changes(&self, after: &Document) -> Vec<Change> {
        let mut places: HashMap<&Key, usize> = HashMap::new();
        let mut changes: Vec<Change> = Vec::new();
        let own = self.entries().map(|entry| (entry, false));
        for (entry, is_after) in own.chain(after.entries().map(|entry| (entry, true))) {
            let place = *places.entry(&entry.key).or_insert(changes.len());
            if place == changes.len() {
                changes.push(Change::none(&entry.key));
            }
            if let Some(change) = changes.get_mut(place) {
                let values = match is_after {
                    false => &mut change.before,
                    true => &mut change.after,
                };
                values.push(entry.value.clone());
            }
        }
        changes.retain(|change| change.before != change.after);
        changes
    }

    /// The text with these changes made: everything else stays byte for byte.
    pub fn apply(&self, changes: &[Change]) -> Vec<u8> {
        let places = self.places();
        let mut edits: Vec<Edit> = Vec::new();
        let mut appended: Vec<(&Key, &Option<Vec<u8>>)> = Vec::new();
        for change in changes {
            let same = change
                .before
                .iter()
                .zip(&change.after)
                .take_while(|(old, new)| old == new)
                .count();
            let placed = places.get(&change.key).into_iter().flatten();
            edits.extend(placed.skip(same).map(|old| self.removal(old)));
            for value in change.after.iter().skip(same) {
                appended.push((&change.key, value));
            }
        }
        edits.extend(self.emptied(&edits, &appended));
        // The last section of a name is its home.
        let homes: HashMap<Name<'_>, &Section> = self
            .sections
            .iter()
            .map(|section| (section.full_name(), section))
            .collect();
        let mut fresh: Vec<(&Key, Vec<u8>)> = Vec::new();
        let mut known: HashMap<Name<'_>, usize> = HashMap::new();
        for (key, value) in appended {
            let line = line(&key.name, value.as_deref());
            if let Some(section) = homes.get(&key.home()) {
                edits.push(self.insertion(section, line));
                continue;
            }
            let place = *known.entry(key.home()).or_insert(fresh.len());
            match fresh.get_mut(place) {
                Some((_, lines)) => lines.extend(line),
                None => fresh.push((key, line)),
            }
        }
        let mut text = edited(&self.text, edits);
        for (key, lines) in fresh {
            if !text.is_empty() && !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            text.extend(header(key));
            text.extend(lines);
        }
        text
    }

    /// Where each key stands.
    fn places(&self) -> HashMap<&Key, Vec<&Placed>> {
        let mut places: HashMap<&Key, Vec<&Placed>> = HashMap::new();
        for placed in self.sections.iter().flat_map(|section| &section.entries) {
            places.entry(&placed.entry.key).or_default().push(placed);
        }
        places
    }

    /// Takes an entry out. What stands before it on its line stays, with its newline.
    fn removal(&self, placed: &Placed) -> Edit {
        let line = self.text[..placed.start]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let alone = self.text[line..placed.start].iter().all(|b| is_blank(*b));
        Edit {
            start: if alone { line } else { placed.start },
            end: placed.end,
            with: if alone { Vec::new() } else { b"\n".to_vec() },
        }
    }

    /// Section headers that lose their last entry and hold nothing else.
    fn emptied(&self, edits: &[Edit], appended: &[(&Key, &Option<Vec<u8>>)]) -> Vec<Edit> {
        let removed: HashSet<usize> = edits.iter().map(|edit| edit.end).collect();
        let filled: HashSet<Name<'_>> = appended.iter().map(|(key, _)| key.home()).collect();
        self.sections
            .iter()
            .filter(|section| {
                let mut entries = section.entries.iter();
                !section.entries.is_empty()
                    && entries.all(|placed| removed.contains(&placed.end))
                    && !filled.contains(&section.full_name())
                    && self.only_entries(section)
            })
            .map(|section| Edit {
                start: section.start,
                end: section.end,
                with: Vec::new(),
            })
            .collect()
    }

    fn only_entries(&self, section: &Section) -> bool {
        let mut at = section.body;
        for placed in &section.entries {
            if !self.text[at..placed.start]
                .iter()
                .all(u8::is_ascii_whitespace)
            {
                return false;
            }
            at = placed.end;
        }
        self.text[at..section.end]
            .iter()
            .all(u8::is_ascii_whitespace)
    }

    /// Puts a line behind the section's last entry, or behind its header's line.
    fn insertion(&self, section: &Section, line: Vec<u8>) -> Edit {
        let (at, line) = match section.entries.last() {
            Some(last) => (last.end, line),
            None => {
                let body = self.text.get(section.body..section.end).unwrap_or_default();
                match body.iter().position(|byte| *byte == b'\n') {
                    Some(newline) => (section.body + newline + 1, line),
                    // The next header is on the same line.
                    None => (section.end, [b"\n", &line[..]].concat()),
                }
            }
        };
        Edit {
            start: at,
            end: at,
            with: line,
        }
    }
}

/// What a section is called.
type Name<'a> = (&'a str, Option<&'a [u8]>);

impl Section {
    fn full_name(&self) -> Name<'_> {
        (&self.name, self.subsection.as_deref())
    }
}

impl Key {
    /// The section that it belongs into.
    fn home(&self) -> Name<'_> {
        (&self.section, self.subsection.as_deref())
    }
}

/// The values of one key before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which key.
    pub key: Key,
    /// Empty when the key is new.
    pub before: Vec<Option<Vec<u8>>>,
    /// Empty when the key is gone.
    pub after: Vec<Option<Vec<u8>>>,
}

impl Change {
    fn none(key: &Key) -> Change {
        Change {
            key: key.clone(),
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    /// The values that were not there before.
    pub fn added(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let before: HashSet<_> = self.before.iter().collect();
        self.after
            .iter()
            .filter(move |value| !before.contains(value))
            .map(|value| value.as_deref())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn pairs(text: &str) -> Vec<(String, Option<String>)> {
        Document::parse(text.as_bytes())
            .unwrap()
            .entries()
            .map(|entry| {
                let value = entry.value.clone();
                (
                    entry.key.to_string(),
                    value.map(|value| String::from_utf8(value).unwrap()),
                )
            })
            .collect()
    }

    fn merged(before: &str, after: &str) -> String {
        let before = Document::parse(before.as_bytes()).unwrap();
        let after = Document::parse(after.as_bytes()).unwrap();
        String::from_utf8(before.apply(&before.changes(&after))).unwrap()
    }

    #[test]
    fn reads_what_git_reads() {
        let text = "# top\n[Core] bare = true ; said\n\tFileMode\n[remote \"o\\\"x\\\\\"]\r\n url = a \"b # c\"  d\\\n e  # no\n[branch.Main]\n m=\"\\t\\n\"";
        assert_eq!(
            pairs(text),
            [
                ("core.bare", Some("true")),
                ("core.filemode", None),
                ("remote.o\\\"x\\\\.url", Some("a b # c  d e")),
                ("branch.main.m", Some("\t\n")),
            ]
            .map(|(key, value)| (key.to_owned(), value.map(str::to_owned)))
        );
    }

    #[test]
    fn broken_files_say_where() {
        for (text, line) in [
            ("key = 1", 1),
            ("[a]\n1 = 2", 2),
            ("[a]\nb = \"x\n", 3),
            ("[a \"b]\n", 2),
            ("[a]\nb = \\x\n", 2),
            ("[a]\nb c\n", 2),
            ("[]\n", 1),
            ("[a\u{0}]", 1),
        ] {
            let error = Document::parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
        }
    }

    #[test]
    fn edits_leave_the_rest_alone() {
        let before = "# mine\n[core]\n\tbare = false ; keep\n[branch \"old\"]\n\tremote = origin\n\tmerge = refs/heads/old\n[user]\n# me\n\tname = A B\n";
        let after = "[core]\n\tbare = false\n[user]\n\tname = A B\n\temail = a@b\n[branch \"new\"]\n\tremote = origin\n";
        assert_eq!(
            merged(before, after),
            "# mine\n[core]\n\tbare = false ; keep\n[user]\n# me\n\tname = A B\n\temail = a@b\n[branch \"new\"]\n\tremote = origin\n"
        );
    }

    #[test]
    fn entries_beside_headers_and_sections_without_entries() {
        assert_eq!(merged("[a] b = 1\n", "[a]\n c = 2"), "[a] \n\tc = 2\n");
        assert_eq!(
            merged("[a] # x\n[b]\n", "[a]\nc = 2\nc = 3"),
            "[a] # x\n\tc = 2\n\tc = 3\n[b]\n"
        );
        assert_eq!(
            merged("", "[a \"x\"]\nc = \" 2\""),
            "[a \"x\"]\n\tc = \" 2\"\n"
        );
        assert_eq!(
            merged("[a]\nc = 1\nc = 2\n", "[a]\nc = 1\nc = 3"),
            "[a]\nc = 1\n\tc = 3\n"
        );
        // A last line that would go on does not swallow what is written behind it.
        for before in ["[a]\nc=\\", "[a]\nc=\\\n"] {
            assert_eq!(
                merged(before, "[a]\nc=\n[b]\nd = 1"),
                "[a]\nc=\\\n\n[b]\n\td = 1\n"
            );
        }
    }

    prop_compose! {
        fn text()(lines in proptest::collection::vec(prop_oneof![
            "\\[[a-c]( \"[a-b\\\\ .]{0,3}\")?\\]",
            "[a-c] ?= ?[a-c\"\\\\#; \t]{0,6}",
            "[a-c]",
            "[#;][a-z]{0,3}",
            "\\[[a-c]\\] [a-c] = [a-c]{0,3}",
        ], 0..12)) -> String { lines.join("\n") }
    }

    proptest! {
        #[test]
        fn applying_the_changes_gives_the_other_files_keys(before in text(), after in text()) {
            let (Ok(before), Ok(after)) =
                (Document::parse(before.as_bytes()), Document::parse(after.as_bytes())) else { return Ok(()) };
            let result = before.apply(&before.changes(&after));
            let result = Document::parse(&result).unwrap();
            prop_assert!(result.changes(&after).is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Document::parse(&bytes);
        }
    }

    /// Whatever a file has many of, it is read, compared and edited in one go each.
    #[test]
    fn many_of_everything_in_linear_time() {
        let many = |piece: &dyn Fn(usize) -> String| (0..30_000).map(piece).collect::<String>();
        let texts = [
            many(&|n| format!("[a{n}]k\n")),
            format!("[a]\n{}", many(&|n| format!("k{n}=1\n"))),
            format!("[a]\n{}", many(&|n| format!("k={n}\n"))),
            format!("[a]\nk={}\n", many(&|n| format!("{n}\\\n"))),
            format!(
                "[a \"{}\"]\n{}",
                "x".repeat(1000),
                many(&|_| "k\n".to_owned())
            ),
            format!("{}\n", many(&|n| format!("[a{n}]"))),
        ];
        let endless = format!("[a \"{}\"]\nk\n", "x".repeat(2000));
        assert!(Document::parse(endless.as_bytes()).is_err());
        let endless = format!("[a]\n{}\n", "k".repeat(2000));
        assert!(Document::parse(endless.as_bytes()).is_err());
        let started = std::time::Instant::now();
        for before in &texts {
            for after in &texts {
                merged(before, after);
            }
        }
        assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    }

    #[test]
    fn a_line_goes_into_its_own_section() {
        let text = merged("[a][b]\n", "[a]\n\tk = v\n[b]\n");
        assert_eq!(pairs(&text), [("a.k".to_owned(), Some("v".to_owned()))]);
    }
}
