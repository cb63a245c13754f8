//! Git's configuration files: read into keys, compared, and edited in place.
//!
//! What a jailed command leaves in a `config` is never taken over as text. It is read
//! into keys, each change is judged ([`crate::git_keys`]), and what is harmless is
//! written by [`Document::apply`] in our own spelling into the text that was there
//! before. So it does not matter whether git reads a strange file otherwise than we do:
//! nothing of it but the judged keys and values ever reaches the host.

mod reader;
mod writer;

use std::fmt;

use reader::{is_blank, sections};
use writer::{Edit, edited, header, line};

/// A key such as `remote.origin.url`. Section and name are lower case, the subsection
/// keeps its bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The part before the first dot.
    pub section: String,
    /// The part between the first and the last dot.
    pub subsection: Option<Vec<u8>>,
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
    name: String,
    subsection: Option<Vec<u8>>,
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
                entry.key.section == section
                    && entry.key.subsection.as_deref() == subsection
                    && entry.key.name == name
            })
            .last()
            .map(|entry| entry.value.as_deref().unwrap_or(b"true"))
    }

    /// The keys whose values differ in `after`, in the order in which they are met.
    pub fn changes(&self, after: &Document) -> Vec<Change> {
        let mut keys: Vec<&Key> = Vec::new();
        for entry in self.entries().chain(after.entries()) {
            if !keys.contains(&&entry.key) {
                keys.push(&entry.key);
            }
        }
        keys.into_iter()
            .filter_map(|key| {
                let own = |document: &Document| {
                    document
                        .values(key)
                        .map(|value| value.map(<[u8]>::to_vec))
                        .collect::<Vec<_>>()
                };
                let (before, after) = (own(self), own(after));
                (before != after).then(|| Change {
                    key: key.clone(),
                    before,
                    after,
                })
            })
            .collect()
    }

    /// The text with these changes made: everything else stays byte for byte.
    pub fn apply(&self, changes: &[Change]) -> Vec<u8> {
        let mut edits: Vec<Edit> = Vec::new();
        let mut appended: Vec<(&Key, &Option<Vec<u8>>)> = Vec::new();
        for change in changes {
            let same = change
                .before
                .iter()
                .zip(&change.after)
                .take_while(|(old, new)| old == new)
                .count();
            let placed = self.sections.iter().flat_map(|section| &section.entries);
            for old in placed
                .filter(|placed| placed.entry.key == change.key)
                .skip(same)
            {
                edits.push(self.removal(old));
            }
            for value in change.after.iter().skip(same) {
                appended.push((&change.key, value));
            }
        }
        edits.extend(self.emptied(&edits, &appended));
        let mut fresh: Vec<(&Key, Vec<u8>)> = Vec::new();
        for (key, value) in appended {
            let line = line(&key.name, value.as_deref());
            let home = self.sections.iter().rev().find(|section| {
                section.name == key.section && section.subsection == key.subsection
            });
            match home {
                Some(section) => edits.push(self.insertion(section, line)),
                None => match fresh
                    .iter_mut()
                    .find(|(of, _)| of.section == key.section && of.subsection == key.subsection)
                {
                    Some((_, lines)) => lines.extend(line),
                    None => fresh.push((key, line)),
                },
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
        let removed = |placed: &Placed| edits.iter().any(|edit| edit.end == placed.end);
        self.sections
            .iter()
            .filter(|section| {
                !section.entries.is_empty()
                    && section.entries.iter().all(removed)
                    && !appended.iter().any(|(key, _)| {
                        key.section == section.name && key.subsection == section.subsection
                    })
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
        let at = section.entries.last().map_or_else(
            || {
                let rest = self.text.get(section.body..).unwrap_or_default();
                let newline = rest.iter().position(|byte| *byte == b'\n');
                section.body + newline.map_or(rest.len(), |at| at + 1)
            },
            |last| last.end,
        );
        Edit {
            start: at,
            end: at,
            with: line,
        }
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
    /// The values that were not there before.
    pub fn added(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.after
            .iter()
            .filter(|value| !self.before.contains(value))
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
}
