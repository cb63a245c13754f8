//! What can be wrong with policy files and the options that go with them.

use std::sync::Arc;

use super::origin::Origin;
use crate::effect::Span;
use crate::show::{inert, underlined};

/// Why a policy could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is not TOML, not UTF-8 or not the Markdown that is understood.
    #[error("{at}: {why}{}", at.excerpt())]
    Syntax {
        /// Where.
        at: At,
        /// What is wrong.
        why: String,
    },
    /// A table or key that does not exist.
    #[error("{at}: unknown {what} `{name}`{}{}", hint(suggestion.as_deref()), at.excerpt())]
    Unknown {
        /// Where.
        at: At,
        /// `table`, `key`, `value`, …
        what: &'static str,
        /// As written.
        name: String,
        /// The nearest one that exists.
        suggestion: Option<String>,
    },
    /// A value that its key cannot have.
    #[error("{at}: `{key}`: {why}{}", at.excerpt())]
    Value {
        /// Where.
        at: At,
        /// The key.
        key: String,
        /// What is wrong with the value.
        why: String,
    },
    /// Somebody else could have written the file.
    #[error("{path} is not safe to obey: {culprit} can be changed by others ({why}); {fix}")]
    Writable {
        /// The policy file.
        path: String,
        /// The file or folder that is open to others.
        culprit: String,
        /// Owner or mode.
        why: String,
        /// The command that mends it.
        fix: String,
    },
    /// The command line would loosen what its owner locked.
    #[error(
        "{flag} would loosen `{key}`, which is locked by {by}; leave the option out, or ask whoever owns that file"
    )]
    Locked {
        /// The key.
        key: &'static str,
        /// The option.
        flag: &'static str,
        /// The lock.
        by: Origin,
    },
    /// An option with a value it cannot have.
    #[error("{flag}: {why}")]
    Flag {
        /// The option.
        flag: &'static str,
        /// What is wrong with the value.
        why: String,
    },
}

impl Error {
    /// The same without the line that it is about.
    pub fn without_place(&self) -> String {
        match self {
            Error::Syntax { why, .. } => why.clone(),
            Error::Unknown {
                what,
                name,
                suggestion,
                ..
            } => format!("unknown {what} `{name}`{}", hint(suggestion.as_deref())),
            Error::Value { key, why, .. } => format!("`{key}`: {why}"),
            Error::Writable { .. } | Error::Locked { .. } | Error::Flag { .. } => self.to_string(),
        }
    }

    /// Whether the error is a refusal by policy, not a mistake (exit code 77, not 125).
    pub fn is_refusal(&self) -> bool {
        matches!(self, Error::Locked { .. })
    }
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!(", did you mean `{name}`?"))
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    /// The file, inert.
    pub path: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The line itself and the mark under it, inert.
    excerpt: Vec<String>,
}

impl At {
    /// The place of a span of bytes in a file's text.
    pub fn new(path: &Arc<str>, text: &[u8], span: std::ops::Range<usize>) -> Self {
        let start = span.start.min(text.len());
        let before = text.get(..start).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let line_start = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let rest = text.get(line_start..).unwrap_or_default();
        let line_text = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line_text = line_text.strip_suffix(b"\r").unwrap_or(line_text);
        let in_line = start - line_start;
        let column = String::from_utf8_lossy(line_text.get(..in_line).unwrap_or(line_text))
            .chars()
            .count()
            + 1;
        let end = span.end.max(span.start + 1) - line_start;
        let excerpt = underlined(line_text, &[Span::new(in_line, end.min(line_text.len()))]);
        Self {
            path: Arc::clone(path),
            line,
            column,
            excerpt,
        }
    }

    /// The line with its mark, set off from the message; empty for an empty line.
    pub fn excerpt(&self) -> String {
        let Some(text) = self.excerpt.first().filter(|text| !text.trim().is_empty()) else {
            return String::new();
        };
        let number = self.line.to_string();
        let gap = " ".repeat(number.len());
        let mut shown = format!("\n  {number} | {text}");
        if let Some(mark) = self.excerpt.get(1) {
            shown.push_str(&format!("\n  {gap} | {mark}"));
        }
        shown
    }
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.path, self.line, self.column)
    }
}

/// The candidate that was probably meant: the nearest one, if it is near enough.
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let typed = typed.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (distance(&typed, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 4)
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}

/// How many letters must be added, dropped, replaced or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    let mut older: Vec<usize> = Vec::new();
    let mut old: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at =
                |row: &[usize], place: usize| row.get(place).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&old, j) + usize::from(x != y))
                .min(at(&old, j + 1) + 1)
                .min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                best = best.min(at(&older, j - 1) + 1);
            }
            row.push(best);
        }
        older = std::mem::replace(&mut old, row);
    }
    old.last().copied().unwrap_or_default()
}

/// A value as messages quote it: inert.
pub fn quoted(text: &str) -> String {
    inert(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_near() {
        let keys = ["filesystem", "network", "limits", "environment"];
        assert_eq!(nearest("filesytem", keys).as_deref(), Some("filesystem"));
        assert_eq!(nearest("netwrok", keys).as_deref(), Some("network"));
        assert_eq!(nearest("Limits", keys).as_deref(), Some("limits"));
        assert_eq!(nearest("banana", keys), None);
        assert_eq!(nearest(&"x".repeat(10_000), keys), None);
    }

    #[test]
    fn places_are_line_and_column() {
        let path: Arc<str> = Arc::from("p.toml");
        let text = "a = 1\n[filesytem]\r\nb = \"é\"".as_bytes();
        let at = At::new(&path, text, 7..16);
        assert_eq!((at.line, at.column), (2, 2));
        assert_eq!(at.excerpt(), "\n  2 | [filesytem]\n    |  ^^^^^^^^^");
        let end = At::new(&path, text, 100..200);
        assert_eq!((end.line, end.column), (3, 8));
    }
}
