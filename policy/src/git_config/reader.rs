//! From the text of a configuration to its sections.

use std::sync::Arc;

use super::{Entry, Key, MAX_LENGTH, ParseError, Placed, Section};

/// A section's name is compared for each of its keys, and a key's is shown to people.
const LONGEST_NAME: usize = 1 << 10;

pub(super) fn sections(text: &[u8]) -> Result<Vec<Section>, ParseError> {
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
                if reader.at - start > LONGEST_NAME {
                    return Err(reader.error("a section whose name is longer than 1 KiB"));
                }
                if let Some(last) = sections.last_mut() {
                    last.end = start;
                }
                sections.push(Section {
                    name: name.into(),
                    subsection: subsection.map(Arc::from),
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
        if name.len() > LONGEST_NAME {
            return Err(self.error("a key whose name is longer than 1 KiB"));
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

/// Whether git takes a byte for a blank: fewer than other programs do.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}
