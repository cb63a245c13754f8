//! Text changes as unified diffs; other files by size and hash. Nothing that a file holds
//! reaches the terminal alive.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use similar::TextDiff;
use sjail_policy::show::{inert, is_plain};

use super::entry::{Act, Entry};
use super::layer::Home;
use super::record::{Record, entries};
use super::show::{Ink, size};
use super::walk::hash;
use crate::beneath::{Beneath, Kind};

/// Larger files are shown by size and hash alone,
const MOST: u64 = 1 << 20;
/// and even larger ones by size.
const HASHED: u64 = 1 << 30;
/// Longer diffs are cut, and say so.
const LINES: usize = 2000;

/// The differences of a preview, or of those paths that are named, one after the other.
pub fn all(
    folder: &Path,
    record: &Record,
    paths: &[PathBuf],
    ink: Ink,
    mut shown: impl FnMut(&str) -> io::Result<()>,
) -> io::Result<()> {
    let mut open: Option<(usize, Beneath, Beneath)> = None;
    for entry in entries(folder)? {
        let entry = entry?;
        let Some(layer) = record.layers.get(entry.layer) else {
            continue;
        };
        let full = layer.host.as_path().join(entry.path.as_path());
        if !paths.is_empty() && !paths.iter().any(|path| full.starts_with(path)) {
            continue;
        }
        if open
            .as_ref()
            .is_none_or(|(number, ..)| *number != entry.layer)
        {
            let upper = Home::of(folder, entry.layer).open()?;
            open = Some((entry.layer, upper, Beneath::open(layer.host.as_path())?));
        }
        if let Some((_, upper, lower)) = &open
            && entry.renamed_to.is_none()
        {
            shown(&of(&entry, upper, lower, ink))?;
        }
    }
    Ok(())
}

/// The difference of one entry in words, if there is one to see.
pub fn of(entry: &Entry, upper: &Beneath, lower: &Beneath, ink: Ink) -> String {
    let path = entry.path.as_path();
    let full = lower.path().join(path);
    let name = inert(full.as_os_str().as_encoded_bytes());
    let mut text = String::new();
    if let Some(from) = &entry.renamed_from {
        let from = lower.path().join(from.as_path());
        let from = inert(from.as_os_str().as_encoded_bytes());
        return format!("renamed {from} → {name}\n");
    }
    if let Some((before, now)) = entry.mode {
        text.push_str(&format!("mode {before:04o} → {now:04o} {name}\n"));
    }
    let has_old = entry.act != Act::Created && entry.was.unwrap_or(entry.kind) == Kind::File;
    let has_new = entry.act != Act::Deleted && entry.kind == Kind::File;
    match (entry.act, entry.kind) {
        (Act::Touched, _) if !entry.is_shown() => return text,
        (Act::Touched, _) => return format!("time {name}\n"),
        (Act::Changed, _) if entry.mode.is_none() => return format!("attributes {name}\n"),
        (Act::Changed, _) => return text,
        (Act::Deleted, Kind::Folder) => {
            return format!("deleted {name}/ with everything in it\n");
        }
        (Act::Deleted, Kind::Link | Kind::Other) => return format!("deleted {name}\n"),
        (Act::Created, Kind::Folder) => return format!("folder {name}/\n"),
        (Act::Created, Kind::Other) => return format!("pipe or socket {name}\n"),
        (Act::Created | Act::Modified, Kind::Link) => {
            let target = entry.target.as_ref().map(|t| inert(t.as_bytes()));
            let target = target.unwrap_or_default();
            return format!("{text}link {name} → {target}\n");
        }
        _ if !has_old && !has_new => return text,
        _ => {}
    }
    let old = has_old.then(|| read(lower, path));
    let new = has_new.then(|| read(upper, path));
    text.push_str(&content(&name, old, new, ink));
    text
}

/// What a file holds, as far as it is shown.
enum Held {
    Text(String),
    Bytes { size: u64, sha256: Option<String> },
    Gone(String),
}

fn read(beneath: &Beneath, path: &Path) -> Held {
    let held = || -> std::io::Result<Held> {
        let file = beneath.file(path)?;
        let length = file.metadata()?.len();
        if length <= MOST {
            let mut bytes = Vec::new();
            file.take(MOST).read_to_end(&mut bytes)?;
            if !bytes.contains(&0)
                && let Ok(text) = String::from_utf8(bytes)
            {
                return Ok(Held::Text(text));
            }
        }
        Ok(Held::Bytes {
            size: length,
            sha256: match length <= HASHED {
                true => Some(hash(beneath.file(path)?)?),
                false => None,
            },
        })
    };
    held().unwrap_or_else(|error| Held::Gone(error.to_string()))
}

fn content(name: &str, old: Option<Held>, new: Option<Held>, ink: Ink) -> String {
    let bytes = |held: &Option<Held>| match held {
        None => "nothing".to_owned(),
        Some(Held::Text(text)) => format!("text of {}", size(text.len() as u64)),
        Some(Held::Bytes {
            size: length,
            sha256,
        }) => match sha256 {
            Some(sha256) => format!(
                "{} (sha256 {})",
                size(*length),
                sha256.get(..16).unwrap_or(sha256)
            ),
            None => size(*length),
        },
        Some(Held::Gone(why)) => format!("unreadable ({why})"),
    };
    let (before, after) = match (&old, &new) {
        (Some(Held::Text(old)), Some(Held::Text(new))) => (old.as_str(), new.as_str()),
        (Some(Held::Text(old)), None) => (old.as_str(), ""),
        (None, Some(Held::Text(new))) => ("", new.as_str()),
        _ => return format!("binary {name}: {} → {}\n", bytes(&old), bytes(&new)),
    };
    let (from, to) = (
        old.as_ref().map_or("/dev/null", |_| name),
        new.as_ref().map_or("/dev/null", |_| name),
    );
    let diff = TextDiff::configure()
        .timeout(std::time::Duration::from_secs(2))
        .diff_lines(before, after);
    let whole = diff
        .unified_diff()
        .context_radius(3)
        .header(from, to)
        .to_string();
    let mut text = String::new();
    for (number, line) in whole.lines().enumerate() {
        if number >= LINES {
            text.push_str("… this difference is longer than is shown\n");
            break;
        }
        text.push_str(&dyed(line, ink));
        text.push('\n');
    }
    text
}

fn dyed(line: &str, ink: Ink) -> String {
    let safe = harmless(line);
    let code = match line.as_bytes().first() {
        Some(b'+') => "32",
        Some(b'-') => "31",
        Some(b'@') => "36",
        _ => return safe,
    };
    match ink {
        Ink::Colour => format!("\x1b[{code}m{safe}\x1b[0m"),
        Ink::Plain => safe,
    }
}

/// A line of a file as its author knows it: tabs, backslashes and blanks stand for themselves
/// as long as nothing else in it must be escaped, and no text is pushed out of sight.
fn harmless(line: &str) -> String {
    /// More blanks than that are no indentation.
    const BLANKS: usize = 64;
    let text = line.trim_end_matches(' ');
    let blanks = line.get(text.len()..).unwrap_or_default();
    let letters: String = text.chars().filter(|c| !"\t\\ ".contains(*c)).collect();
    if is_plain(letters.as_bytes()) && !text.contains(&" ".repeat(BLANKS)) {
        return format!("{text}{}", inert(blanks.as_bytes()));
    }
    let parts: Vec<String> = line
        .split('\t')
        .map(|part| inert(part.as_bytes()))
        .collect();
    parts.join("\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_compared_and_made_inert() {
        let text = |text: &str| Some(Held::Text(text.to_owned()));
        let shown = content("/w/f", text("a\nb\n"), text("a\n\u{1b}[31mc\n"), Ink::Plain);
        assert!(shown.contains("-b"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{shown}");
        let shown = content(
            "/w/f",
            text("a"),
            Some(Held::Bytes {
                size: 5,
                sha256: Some("ab".repeat(32)),
            }),
            Ink::Plain,
        );
        assert!(shown.starts_with("binary /w/f"), "{shown}");
    }

    #[test]
    fn ordinary_lines_stand_for_themselves() {
        let deep = format!("+{}\tprintf(\"a\\n\\x1b\"); // C:\\new", " ".repeat(20));
        assert_eq!(harmless(&deep), deep);
        assert_eq!(
            harmless("\\ No newline at end of file"),
            "\\ No newline at end of file"
        );
        // What differs in nothing else is told apart.
        assert_eq!(harmless("+end  "), "+end\\x20\\x20");
        for hostile in ["+a\u{202e}b", "+a\rb", "+\u{1b}]0;x\u{7}", "+a\u{200b}"] {
            let shown = harmless(hostile);
            assert!(shown.is_ascii() && shown.contains('\\'), "{shown}");
        }
        let far = format!("+ok{}evil", " ".repeat(200));
        assert!(harmless(&far).contains("\\x20"));
    }
}
