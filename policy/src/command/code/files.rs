//! What calls of other languages do to files.

use super::carried::texts;
use super::homes::continued;
use super::literals::{Words, literals};
use super::{Language, Look, Means};
use crate::classify::flow::Flow;
use crate::classify::given::Given;
use crate::classify::harm::{self, Touch};
use crate::command::files::{is_for_others, lets_others_read};
use crate::effect::{Action, Place};
use crate::risk::Risk;

/// More patterns for names than this are not looked at.
const MAX_GLOBS: usize = 8;
/// A pattern is looked for in this many bytes.
const MAX_PATTERN: usize = 256;

/// What lists the names in a folder, or those that a pattern finds.
const LISTINGS: &[&str] = &[
    "glob",
    "walk(",
    "listdir(",
    "scandir(",
    "iterdir(",
    "readdirSync(",
    "readdir(",
    "Dir.children(",
    "Dir.each_child(",
    "Dir.entries(",
    "Find.find(",
    "find(",
    "DirectoryIterator(",
    "DirectoryWalker(",
    "Files.walk(",
    "ReadDir(",
];

impl Look<'_, '_> {
    /// A call that touches the files its literals name.
    pub(super) fn file(&mut self, means: Means, words: &Words) {
        let first = words.list.first().map(String::as_str);
        match means {
            Means::DeleteTree => match first {
                Some(path) => self.path(Touch::DeleteTree, path),
                None => self.effect(Action::Discards, Risk::Dangerous, "Recursive deletion"),
            },
            Means::Delete => match first {
                Some(path) => self.path(Touch::Delete, path),
                None => self.each_found(),
            },
            Means::Open => match words.opened(self.language) {
                Some((path, true)) => self.path(Touch::Write, path),
                Some((path, false)) => self.path(Touch::Read, path),
                None => {}
            },
            Means::Write => self.maybe(Touch::Write, words.leading()),
            Means::Read => self.maybe(Touch::Read, first),
            Means::Copy => {
                self.maybe(Touch::Read, words.leading());
                self.maybe(Touch::Write, words.trailing());
            }
            Means::Move => {
                self.maybe(Touch::Move, words.leading());
                self.maybe(Touch::Write, words.trailing());
            }
            Means::Attributes => {
                self.maybe(Touch::Attributes, first);
                self.shows(first);
            }
            Means::Path => self.object(words),
            _ => {}
        }
    }

    /// A mode for others, on keys and passwords.
    fn shows(&mut self, path: Option<&str>) {
        let Some(path) = path else { return };
        let given = Given::known(home(path, &self.judge.context.home), self.source.span);
        let mut numbers = self
            .source
            .text
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| word.starts_with('0') && (4..=5).contains(&word.len()));
        let secret = self.judge.target(&given, &self.state.cwd).place == Place::Secret;
        if secret && !is_for_others(path) && numbers.any(lets_others_read) {
            let says = "Lets others read keys or passwords";
            self.effect(Action::Privilege, Risk::Dangerous, says);
        }
    }

    /// `Path("/etc") / "passwd"`, and what is called on it.
    fn object(&mut self, words: &Words) {
        let Some(first) = words.leading() else {
            return;
        };
        let mut path = first.to_owned();
        let rest = words.tail.trim_start_matches(')');
        let rest = continued(&mut path, rest, false).trim_start_matches(')');
        let rest = rest.strip_prefix(".expanduser()").unwrap_or(rest);
        let method = rest.strip_prefix('.').and_then(|rest| {
            rest.split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .next()
        });
        let touch = match method.unwrap_or_default() {
            "write_text" | "write_bytes" | "touch" | "write" | "binwrite" => Touch::Write,
            "symlink_to" | "hardlink_to" | "make_link" | "make_symlink" => Touch::Write,
            "unlink" | "rmdir" | "delete" => Touch::Delete,
            "rmtree" => Touch::DeleteTree,
            "rename" | "replace" => Touch::Move,
            "chmod" | "lchmod" | "chown" => Touch::Attributes,
            "open" => {
                let mode = rest.split(['"', '\'']).nth(1).unwrap_or_default();
                match mode.contains(['w', 'a', 'x', '+']) {
                    true => Touch::Write,
                    false => Touch::Read,
                }
            }
            _ => Touch::Read,
        };
        self.path(touch, &path);
    }

    /// A deletion of what a pattern for names finds: `for f in glob("~/*"): os.remove(f)`.
    fn each_found(&mut self) {
        let text = self.source.text.as_str();
        let found = LISTINGS.iter().find_map(|listing| {
            let mut places = text.match_indices(listing).take(MAX_GLOBS);
            places.find_map(|(at, word)| listed(text, at, word))
        });
        if let Some(pattern) = found.as_ref().filter(|found| found.contains('*')) {
            self.path(Touch::Delete, pattern);
        } else if let Some(folder) = found {
            self.below(&folder);
        } else if self.reads_input() {
            let says = "Deletes whatever its input names";
            self.effect(Action::Discards, Risk::Dangerous, says);
        }
    }

    /// A deletion of what a folder holds. In the project and in temporary folders, sources choose
    /// among what they find there.
    fn below(&mut self, folder: &str) {
        let expanded = folder.replace("{home}", &self.judge.context.home);
        let path = home(&expanded, &self.judge.context.home);
        let given = Given::known(path, self.source.span);
        let place = self.judge.target(&given, &self.state.cwd).place;
        let chosen = [
            Place::Workspace,
            Place::WorkspaceItself,
            Place::Temp,
            Place::Unknown,
        ];
        if !chosen.contains(&place) {
            self.path(Touch::DeleteTree, folder);
        }
    }

    /// Whether somebody writes its input, and the source reads it.
    fn reads_input(&self) -> bool {
        let piped = self.call.stdin.text.is_none() && *self.call.stdin != Flow::default();
        let text = self.source.text.as_str();
        let mut entries = self.patterns(Means::Input);
        let bare = matches!(self.language, Language::Perl) && text.trim_end().ends_with("unlink");
        piped && (bare || entries.any(|entry| text.contains(entry)))
    }

    fn maybe(&mut self, touch: Touch, path: Option<&str>) {
        if let Some(path) = path {
            self.path(touch, path);
        }
    }

    fn path(&mut self, touch: Touch, path: &str) {
        let deletes = matches!(touch, Touch::Delete | Touch::DeleteTree);
        let glob = deletes && path.contains('*');
        let path = match self.language {
            // Perl's patterns stand side by side in one text.
            Language::Perl if glob => path.split_ascii_whitespace().next().unwrap_or(path),
            _ => path,
        };
        let expanded = path.replace("{home}", &self.judge.context.home);
        let given = Given {
            glob,
            ..Given::known(home(&expanded, &self.judge.context.home), self.source.span)
        };
        let target = self.judge.target(&given, &self.state.cwd);
        if touch == Touch::Read && target.place != Place::Secret {
            return;
        }
        let later = matches!(target.place, Place::Startup | Place::Protected);
        let resolved = target.resolved.clone();
        harm::touch(self.draft, touch, &given, target);
        if touch == Touch::Write
            && later
            && let Some(path) = resolved
        {
            self.writes_later(&path);
        }
    }

    /// Which of its texts a source writes into a file that runs later is not known: any of them.
    fn writes_later(&mut self, path: &str) {
        let texts: Vec<String> = texts(&self.source.text).map(|(_, text)| text).collect();
        let flow = Flow {
            partly: Some(texts.join("\n")),
            ..Flow::default()
        };
        self.judge.runs_later(path, &flow, self.call);
    }
}

/// The pattern or the folder that a listing at a place is given: `glob("/x/*")`, `walk("/x")`,
/// `Path("/x").iterdir()`.
fn listed(text: &str, at: usize, word: &str) -> Option<String> {
    let behind = text[at + word.len()..].trim_start_matches(['(', ' ']);
    let behind = &behind[..behind.floor_char_boundary(MAX_PATTERN)];
    let words = literals(behind.lines().next()?, None);
    let given = words.list.into_iter().next();
    match (object(&text[..at]), given) {
        (Some(folder), Some(pattern)) => Some(format!("{folder}/{pattern}")),
        (Some(folder), None) => Some(folder.to_owned()),
        (None, given) => given,
    }
}

/// The literal that a method is called on: `Path("/x").` before it.
fn object(before: &str) -> Option<&str> {
    let before = before.strip_suffix("r").unwrap_or(before);
    let object = before.strip_suffix('.')?.strip_suffix(')')?;
    let quote = object.chars().next_back().filter(|c| "\"'".contains(*c))?;
    let inner = &object[..object.len() - 1];
    let start = inner.rfind(quote)?;
    Some(&inner[start + 1..])
}

/// `~` as languages' own functions expand it.
fn home(path: &str, home: &str) -> String {
    match path.strip_prefix("~") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
        _ => path.to_owned(),
    }
}
