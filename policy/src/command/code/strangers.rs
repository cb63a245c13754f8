//! Text of strangers in a source, from where it enters to where it is run: what a connection
//! sends, what was fetched, what a decoder made, what is piped into the interpreter.
//!
//! No parser here either: statements are what stands between `;` and line ends, and a name that is
//! given such text stands for it from then on.

use super::literals::literals;
use super::together::is_outside;
use super::{Found, Look, MAX_ARGUMENTS, Means, closing, is_call};
use crate::classify::flow::Sources;
use crate::effect::Action;
use crate::risk::Risk;

/// Longer sources are programs, not lines.
const MAX_SOURCE: usize = 16 * 1024;
/// More statements than this are not followed.
const MAX_STATEMENTS: usize = 512;
/// More names than this are not followed.
const MAX_NAMES: usize = 12;
/// What may start a program or run text is looked at in so many places of a source.
const MAX_STARTS: usize = 48;

/// A statement: where it begins, and its text.
type Statement<'t> = (usize, &'t str);

/// A call that starts a program or runs text.
struct Start<'t> {
    means: Means,
    /// What stands behind its opening bracket, up to the closing one.
    arguments: &'t str,
    /// The statement it stands in.
    statement: usize,
}

impl Look<'_, '_> {
    pub(super) fn strangers(&mut self, found: &Found, readable: bool) {
        let text = self.source.text.clone();
        let has = |means: Means| found.anywhere.contains(&means);
        let from = self.call.stdin.from;
        let piped = has(Means::Input) && from.has(Sources::FOREIGN.with(Sources::HIDDEN));
        let received = has(Means::Receive) && (has(Means::Socket) || has(Means::Serves));
        if text.len() > MAX_SOURCE
            || !(piped || received || has(Means::Network) || has(Means::Decode))
        {
            return;
        }
        let statements = statements(&text, &found.bare);
        let starts = self.starting(&text, &statements, found);
        if starts.is_empty() {
            return;
        }
        let network = || Action::Network { host: None };
        if received && self.reach(Means::Receive, &statements, &starts) {
            let says = "Connects a shell to the network";
            self.effect(network(), Risk::Critical, says);
        }
        if has(Means::Network) && self.reach(Means::Network, &statements, &starts) {
            let says = "Runs code from the network";
            self.effect(Action::Opaque, Risk::Critical, says);
        }
        if piped && self.reach(Means::Input, &statements, &starts) {
            let says = match from.has(Sources::FOREIGN) {
                true => "Pipes a download into an interpreter",
                false => "Runs decoded text",
            };
            self.effect(Action::Opaque, Risk::Critical, says);
        }
        if has(Means::Decode) && self.reach(Means::Decode, &statements, &starts) {
            // What could be read was judged for itself.
            let risk = match readable {
                true => Risk::Dangerous,
                false => Risk::Critical,
            };
            self.effect(Action::Opaque, risk, "Runs decoded text");
        }
    }

    fn starting<'t>(
        &self,
        text: &'t str,
        statements: &[Statement<'t>],
        found: &Found,
    ) -> Vec<Start<'t>> {
        let mut starts = Vec::new();
        for means in [Means::Shell, Means::Argv, Means::Evaluate] {
            if !found.outside.contains(&means) {
                continue;
            }
            for pattern in self.patterns(means) {
                for (at, _) in text.match_indices(pattern).take(MAX_STARTS) {
                    if !is_call(text, at, pattern, means) || !is_outside(&found.bare, at, pattern) {
                        continue;
                    }
                    let Some(statement) = statements.iter().rposition(|(start, _)| *start <= at)
                    else {
                        continue;
                    };
                    let (start, whole) = statements[statement];
                    let begin = (at + pattern.len()).min(start + whole.len());
                    // A call goes on over lines, to its bracket.
                    let end = match pattern.ends_with('(') {
                        true => text.floor_char_boundary(text.len().min(begin + MAX_ARGUMENTS)),
                        false => start + whole.len(),
                    };
                    let behind = &text[begin..end];
                    starts.push(Start {
                        means,
                        arguments: arguments(behind, &found.bare[begin..], pattern),
                        statement,
                    });
                    if starts.len() >= MAX_STARTS {
                        return starts;
                    }
                }
            }
        }
        starts
    }

    /// Whether text that enters by calls of one kind is run.
    fn reach(&self, means: Means, statements: &[Statement<'_>], starts: &[Start<'_>]) -> bool {
        let entries: Vec<&str> = self.patterns(means).collect();
        let enters = |text: &str| {
            entries.iter().any(|entry| {
                text.match_indices(entry)
                    .any(|(at, _)| is_call(text, at, entry, means) && !encodes(text, at))
            })
        };
        let mut names: Vec<&str> = Vec::new();
        // Twice: a loop's end may give what its beginning runs.
        for _ in 0..2 {
            for (_, statement) in statements {
                let tainted = names.iter().any(|name| mentions(statement, name));
                if names.len() < MAX_NAMES && (tainted || enters(statement)) {
                    for name in given(statement) {
                        if !names.contains(&name) {
                            names.push(name);
                        }
                    }
                }
            }
        }
        starts.iter().any(|start| {
            let arguments = start.arguments;
            let strange = enters(arguments) || names.iter().any(|name| mentions(arguments, name));
            let here = || statements[start.statement].1;
            strange && self.is_run(start, here())
        })
    }

    /// Whether an argument is what is run, and not a word of a command that stands there.
    fn is_run(&self, start: &Start<'_>, statement: &str) -> bool {
        let text = start.arguments.trim_start();
        let shells = [
            "sh",
            "bash",
            "/bin/sh",
            "/bin/bash",
            "cmd",
            "cmd.exe",
            "powershell",
            "zsh",
            "dash",
        ];
        let first = || {
            literals(text, None)
                .list
                .first()
                .cloned()
                .unwrap_or_default()
        };
        let quoted = text.trim_start_matches(['[', '(', '{', 'f', 'r', 'b']);
        let literal = quoted.strip_prefix(['"', '\'', '`']);
        match (start.means, literal) {
            (Means::Evaluate, _) => true,
            // `"#{cmd} 2>&1"`, `f"{cmd}"`, `"$cmd"`, `"%s"`: it begins the text.
            (Means::Shell, Some(text)) => {
                let text = text.trim_start();
                text.starts_with(['$', '{', '#', '%'])
                    || shells.contains(&first().as_str())
                    || runs_shell(text)
            }
            (Means::Shell, None) => true,
            (_, Some(text)) => {
                shells.contains(&first().as_str())
                    || statement.contains("shell=True")
                    || statement.contains("shell:") && text.starts_with(['$', '{'])
            }
            (_, None) => !text.starts_with(']'),
        }
    }
}

/// `sh -c …` at the beginning of a literal.
fn runs_shell(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    let shell = words.next().is_some_and(|word| word.ends_with("sh"));
    shell && words.next() == Some("-c")
}

/// `toString("base64")` makes such text, and undoes nothing.
fn encodes(text: &str, at: usize) -> bool {
    text[..at].trim_end_matches('(').ends_with("toString")
}

/// The statements of a source.
fn statements<'t>(text: &'t str, bare: &[u8]) -> Vec<Statement<'t>> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, byte) in bare.iter().enumerate() {
        if matches!(byte, b';' | b'\n') {
            if start < at {
                found.push((start, &text[start..at]));
            }
            start = at + 1;
            if found.len() >= MAX_STATEMENTS {
                return found;
            }
        }
    }
    if start < text.len() {
        found.push((start, &text[start..]));
    }
    found
}

/// The arguments of a call: up to the bracket or the quote that closes it.
fn arguments<'t>(behind: &'t str, bare: &[u8], pattern: &str) -> &'t str {
    if let Some(quote) = closing(pattern) {
        return behind.split(quote).next().unwrap_or_default();
    }
    if !pattern.ends_with('(') {
        return behind;
    }
    let mut depth = 0usize;
    let end = bare[..behind.len()].iter().position(|byte| {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 0 => return true,
            b')' => depth -= 1,
            _ => {}
        }
        false
    });
    &behind[..end.unwrap_or(behind.len())]
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Whether a name stands in a text as a word of its own.
fn mentions(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(|c| is_name(c) || c == '.') && !after.is_some_and(is_name)
    })
}

/// The names that a statement gives a value: before `=`, in a loop's head, as parameters of what
/// is called with it.
fn given(statement: &str) -> Vec<&str> {
    let mut names = Vec::new();
    if let Some(before) = assigned(statement) {
        let last = before
            .rsplit(['{', '(', '[', ':'])
            .next()
            .unwrap_or_default();
        for part in last.split(',') {
            names.extend(last_name(part));
        }
    }
    let head = statement
        .split_once("for ")
        .or_else(|| statement.split_once("foreach "));
    if let Some((_, head)) = head {
        let end = [" in ", " of ", "(", " <- "]
            .iter()
            .filter_map(|mark| head.find(mark))
            .min();
        names.extend(last_name(&head[..end.unwrap_or(0)]));
    }
    if let Some((_, after)) = statement.split_once(" as ") {
        let end = after
            .find(|c: char| !is_name(c) && c != '$')
            .unwrap_or(after.len());
        names.extend(last_name(&after[..end]));
    }
    // `|line|`, `d =>`, `function(d)`
    let mut bars = statement.split('|');
    if let (Some(_), Some(inside), Some(_)) = (bars.next(), bars.next(), bars.next()) {
        names.extend(inside.split(',').take(2).filter_map(last_name));
    }
    for (at, _) in statement.match_indices("=>").take(4) {
        let before = statement[..at].trim_end().trim_end_matches(')');
        let last = before.rsplit('(').next().unwrap_or_default();
        names.extend(last.split(',').take(3).filter_map(last_name));
    }
    for (at, word) in statement.match_indices("function").take(4) {
        let behind = &statement[at + word.len()..];
        let inside = behind.split_once('(').map_or("", |(_, rest)| rest);
        let inside = inside.split(')').next().unwrap_or_default();
        names.extend(inside.split(',').take(3).filter_map(last_name));
    }
    names.retain(|name| !matches!(*name, "_" | "self" | "this" | "e" | "err"));
    names
}

/// What stands before the `=` of an assignment.
fn assigned(statement: &str) -> Option<&str> {
    let bytes = statement.as_bytes();
    let at = bytes.iter().enumerate().position(|(at, byte)| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        *byte == b'='
            && !matches!(bytes.get(at + 1), Some(b'=' | b'>' | b'~'))
            && !matches!(before, Some(b'=' | b'!' | b'<' | b'>'))
    });
    // Tcl: `set name value`, `gets channel name`.
    match at {
        Some(at) => Some(&statement[..at]),
        None => {
            let mut words = statement.split_ascii_whitespace();
            let at = words.position(|word| matches!(word, "set" | "gets"))?;
            let word = statement.split_ascii_whitespace().nth(at + 1)?;
            Some(word)
        }
    }
}

/// The last word of a text, if it is a name.
fn last_name(text: &str) -> Option<&str> {
    let text = text.trim_end_matches(|c: char| !is_name(c));
    let start = text.rfind(|c: char| !is_name(c)).map_or(0, |at| {
        at + text[at..].chars().next().map_or(1, char::len_utf8)
    });
    let name = &text[start..];
    let named = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    (named && name.len() <= 64).then_some(name)
}
