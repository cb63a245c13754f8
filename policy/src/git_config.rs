//! Git's configuration files: read into keys, compared, and edited in place.
//!
//! What a jailed command leaves in a `config` is never taken over as text. It is read
//! into keys, each change is judged ([`crate::git_keys`]), and what is harmless is
//! written by [`Document::apply`] in our own spelling into the text that was there
//! before. So it does not matter whether git reads a strange file otherwise than we do:
//! nothing of it but the judged keys and values ever reaches the host.

use std::fmt;

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

fn sections(text: &[u8]) -> Result<Vec<Section>, ParseError> {
    let mut reader = Reader { text, at: 0 };
    if text.len() > MAX_LENGTH {
        return Err(reader.error("the file is longer than 1 MiB"));
    }
    if text.contains(&0) {
        return Err(reader.error("the file has a NUL byte"));
    }
    if text.starts_with(b"\xef\xbb\xbf") {
        reader.at = 3;
    }
    let mut sections: Vec<Section> = Vec::new();
    loop {
        reader.skip_blank();
        let start = reader.at;
        match reader.peek() {
            None => break,
            Some(b'#' | b';') => reader.skip_line(),
            Some(b'[') => {
                let (name, subsection) = reader.header()?;
                if let Some(last) = sections.last_mut() {
                    last.end = start;
                }
                sections.push(Section {
                    name,
                    subsection,
                    start,
                    end: text.len(),
                    body: reader.at,
                    entries: Vec::new(),
                });
            }
            Some(_) => {
                let Some(section) = sections.last_mut() else {
                    return Err(reader.error("a key before the first section"));
                };
                let (name, value) = reader.entry()?;
                let key = Key {
                    section: section.name.clone(),
                    subsection: section.subsection.clone(),
                    name,
                };
                section.entries.push(Placed {
                    entry: Entry { key, value },
                    start,
                    end: reader.at,
                });
            }
        }
    }
    Ok(sections)
}

/// A replacement of `text[start..end]`.
#[derive(Debug)]
struct Edit {
    start: usize,
    end: usize,
    with: Vec<u8>,
}

fn edited(text: &[u8], mut edits: Vec<Edit>) -> Vec<u8> {
    // Stable: insertions at one place keep their order, and come before what is removed
    // there. A removed section swallows the removals inside it: it starts first.
    edits.sort_by_key(|edit| {
        (
            edit.start,
            edit.end > edit.start,
            std::cmp::Reverse(edit.end),
        )
    });
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for edit in edits {
        if edit.start < at {
            continue;
        }
        out.extend(text.get(at..edit.start).unwrap_or_default());
        out.extend(edit.with);
        at = at.max(edit.end);
    }
    out.extend(text.get(at..).unwrap_or_default());
    out
}

fn header(key: &Key) -> Vec<u8> {
    let mut out = format!("[{}", key.section).into_bytes();
    if let Some(subsection) = &key.subsection {
        out.extend(b" \"");
        for byte in subsection {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(*byte);
        }
        out.push(b'"');
    }
    out.extend(b"]\n");
    out
}

fn line(name: &str, value: Option<&[u8]>) -> Vec<u8> {
    let mut out = format!("\t{name}").into_bytes();
    if let Some(value) = value {
        out.extend(b" = ");
        let plain =
            |byte: &u8| byte.is_ascii_graphic() && !b"\"\\#;".contains(byte) || *byte >= 0x80;
        let quoted = !value.iter().all(plain);
        if quoted {
            out.push(b'"');
        }
        for byte in value {
            match byte {
                b'\n' => out.extend(b"\\n"),
                b'\t' => out.extend(b"\\t"),
                0x08 => out.extend(b"\\b"),
                b'"' => out.extend(b"\\\""),
                b'\\' => out.extend(b"\\\\"),
                other => out.push(*other),
            }
        }
        if quoted {
            out.push(b'"');
        }
    }
    out.push(b'\n');
    out
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn error(&self, what: &'static str) -> ParseError {
        let before = self.text.get(..self.at).unwrap_or(self.text);
        ParseError {
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            what,
        }
    }

    fn peek(&self) -> Option<u8> {
        match self.text.get(self.at..) {
            Some([b'\r', b'\n', ..]) => Some(b'\n'),
            Some([byte, ..]) => Some(*byte),
            _ => None,
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += if self.text.get(self.at) == Some(&b'\r') && byte == b'\n' {
            2
        } else {
            1
        };
        Some(byte)
    }

    fn skip_blank(&mut self) {
        while self
            .peek()
            .is_some_and(|byte| is_blank(byte) || byte == b'\n')
        {
            self.next();
        }
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    fn header(&mut self) -> Result<(String, Option<Vec<u8>>), ParseError> {
        self.next();
        let mut name = String::new();
        loop {
            match self.next() {
                Some(b']') => break,
                Some(byte) if is_blank(byte) => return self.quoted_header(name),
                Some(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') => {
                    name.push(char::from(byte.to_ascii_lowercase()));
                }
                _ => return Err(self.error("a broken section header")),
            }
        }
        // The old spelling: [branch.main], its subsection in lower case.
        match name.split_once('.') {
            Some((section, subsection)) if !section.is_empty() => {
                Ok((section.to_owned(), Some(subsection.as_bytes().to_vec())))
            }
            None if !name.is_empty() => Ok((name, None)),
            _ => Err(self.error("a section without a name")),
        }
    }

    fn quoted_header(&mut self, name: String) -> Result<(String, Option<Vec<u8>>), ParseError> {
        while self.peek().is_some_and(is_blank) {
            self.next();
        }
        if name.is_empty() || self.next() != Some(b'"') {
            return Err(self.error("a broken section header"));
        }
        let mut subsection = Vec::new();
        loop {
            match self.next() {
                Some(b'"') => break,
                Some(b'\\') => match self.next() {
                    Some(byte) if byte != b'\n' => subsection.push(byte),
                    _ => return Err(self.error("a broken section header")),
                },
                Some(byte) if byte != b'\n' => subsection.push(byte),
                _ => return Err(self.error("a section header without its end")),
            }
        }
        if self.next() != Some(b']') {
            return Err(self.error("a section header without its end"));
        }
        Ok((name, Some(subsection)))
    }

    fn entry(&mut self) -> Result<(String, Option<Vec<u8>>), ParseError> {
        let mut name = String::new();
        while let Some(byte) = self.peek() {
            if !(byte.is_ascii_alphanumeric() || byte == b'-') {
                break;
            }
            name.push(char::from(byte.to_ascii_lowercase()));
            self.next();
        }
        if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(self.error("a key that does not start with a letter"));
        }
        while self.peek().is_some_and(is_blank) {
            self.next();
        }
        match self.peek() {
            Some(b'=') => {
                self.next();
                Ok((name, Some(self.value()?)))
            }
            Some(b'\n') | None => {
                self.next();
                Ok((name, None))
            }
            Some(b'#' | b';') => {
                self.skip_line();
                Ok((name, None))
            }
            Some(_) => Err(self.error("a key without `=`")),
        }
    }

    fn value(&mut self) -> Result<Vec<u8>, ParseError> {
        let mut value = Vec::new();
        let mut blanks: Vec<u8> = Vec::new();
        let mut quoted = false;
        loop {
            match self.next() {
                None | Some(b'\n') if quoted => return Err(self.error("a quote without its end")),
                None | Some(b'\n') => return Ok(value),
                Some(byte) if is_blank(byte) && !quoted => {
                    if !value.is_empty() {
                        blanks.push(byte);
                    }
                }
                Some(b'#' | b';') if !quoted => {
                    self.skip_line();
                    return Ok(value);
                }
                Some(b'"') => {
                    quoted = !quoted;
                    value.append(&mut blanks);
                }
                Some(b'\\') => {
                    value.append(&mut blanks);
                    match self.next() {
                        Some(b'\n') => {}
                        Some(b'n') => value.push(b'\n'),
                        Some(b't') => value.push(b'\t'),
                        Some(b'b') => value.push(0x08),
                        Some(byte @ (b'"' | b'\\')) => value.push(byte),
                        _ => return Err(self.error("an unknown escape")),
                    }
                }
                Some(byte) => {
                    value.append(&mut blanks);
                    value.push(byte);
                }
            }
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
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
