//! SQL, and the small commands of its clients.

use std::borrow::Cow;

use crate::classify::draft::Draft;
use crate::classify::given::Given;
use crate::classify::harm::{self, Touch};
use crate::classify::judge::{Call, Judge};
use crate::classify::state::State;
use crate::command::knowledge::{CODE, Language, Means};
use crate::effect::Action;
use crate::risk::Risk;

/// Words of statements that run texts.
const RUNS_TEXT: &[&str] = &[
    "exec",
    "execute",
    "sp_executesql",
    "prepare",
    "eval",
    "evalsha",
    "dblink",
    "dblink_exec",
    "query(",
    "query_to_xml",
    "openquery",
    "schedule(",
    "function",
    "procedure",
    "do ''",
];

/// More files than this are not looked at.
const MAX_FILES: usize = 32;

/// Looks through statements and the commands between them.
pub(crate) fn statements(
    judge: &mut Judge<'_>,
    state: &mut State,
    call: &Call,
    draft: &mut Draft,
    source: &Given,
) {
    draft.raise(Risk::Normal);
    let lower = source.text.to_ascii_lowercase();
    // A backslash before a quote means something to some databases, and nothing to others.
    let escapes: &[bool] = match lower.contains('\\') {
        true => &[false, true],
        false => &[false],
    };
    if escapes.iter().any(|escapes| destroys(&lower, *escapes)) {
        draft.effect(
            Action::Discards,
            Risk::Dangerous,
            "Destroys data in a database",
            source.span,
        );
    }
    for line in source.text.lines() {
        own_command(judge, state, call, draft, source, line.trim());
    }
    files(judge, state, draft, source, &lower);
}

/// A client's own command: `\! ls`, `.shell ls`, `.output file`.
fn own_command(
    judge: &mut Judge<'_>,
    state: &mut State,
    call: &Call,
    draft: &mut Draft,
    source: &Given,
    line: &str,
) {
    let behind = |names: &[&str]| names.iter().find_map(|name| line.strip_prefix(name));
    if let Some(command) = behind(&["\\!", ".shell ", ".system ", "system "]) {
        let mut inner = call.with_args(Vec::new(), &draft.program.name);
        inner.stdin = Default::default();
        let mut fresh = State::new(state.cwd.clone());
        judge.text(command, &mut fresh, &inner, source.span);
    }
    let writing = [
        ".output ", ".once ", ".backup ", ".save ", ".log ", "\\o ", "\\w ",
    ];
    if let Some(words) = behind(&writing)
        && let Some(file) = words.split_ascii_whitespace().next_back()
    {
        file_named(judge, state, draft, source, file, Touch::Write);
    }
}

/// Whether a statement destroys data, hands out rights or leaves the database.
fn destroys(text: &str, escapes: bool) -> bool {
    let bare = without_texts(text, escapes);
    let words: Vec<&str> = bare
        .lines()
        .filter(|line| !line.trim_start().starts_with('.'))
        .flat_map(str::split_whitespace)
        .collect();
    let spaced = words.join(" ");
    let named = CODE
        .iter()
        .filter(|code| code.means == Means::Drop && code.languages.contains(&Language::Sql))
        .any(|code| code.text.iter().any(|text| stands(&spaced, text.get())));
    named || spaced.split(';').any(is_unbounded)
}

/// Whether a word stands in a text as a word of its own: `executed_at` runs nothing.
fn is_called(text: &str, word: &str) -> bool {
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let begins = !text[..at].ends_with(in_name);
        let ends = !word.ends_with(in_name) || !text[at + word.len()..].starts_with(in_name);
        begins && ends
    })
}

/// Whether words stand in a text, and not within a longer name.
fn stands(text: &str, words: &str) -> bool {
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(words).any(|(at, _)| {
        let behind = &text[at + words.len()..];
        let continues = words.starts_with(in_name) && text[..at].ends_with(in_name);
        let continued = words.ends_with(in_name) && behind.starts_with('_');
        !continues && !continued
    })
}

/// `delete from t`, `update t set x`, with nothing that says which rows.
fn is_unbounded(statement: &str) -> bool {
    let statement = statement.trim();
    if statement.starts_with("explain ") && !statement.contains("analyze") {
        return false;
    }
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let deletes = statement
        .match_indices("delete from")
        .find(|(at, _)| !statement[..*at].ends_with(in_name));
    let sets = statement.rfind(" set ").unwrap_or(0);
    let updates = statement.match_indices("update ").find(|(at, _)| {
        let before = statement[..*at].trim_end();
        // `on conflict do update`, `select … for update`, triggers.
        let part = ["do", "key", "for", "on", "or", "after", "before", "of"];
        let last = before.rsplit(' ').next().unwrap_or_default();
        !statement[..*at].ends_with(in_name) && !part.contains(&last) && *at < sets
    });
    let starts = [deletes, updates].into_iter().flatten();
    starts.into_iter().any(|(at, _)| {
        let condition = statement[at..]
            .split_once(" where")
            .map(|(_, condition)| condition.trim().trim_matches(['(', ')']).replace(' ', ""));
        match condition.as_deref() {
            None => true,
            Some(condition) => matches!(condition, "true" | "1" | "1=1" | "''=''" | "notfalse"),
        }
    })
}

/// The statements without comments and without what texts say: that is data. As they are where a
/// text may be run, or where databases disagree about what is a text.
fn without_texts(source: &str, escapes: bool) -> Cow<'_, str> {
    if !source.contains(['\'', '-', '/']) || source.contains("$$") {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find(['\'', '"', '`', '-', '/', '#', '$']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let comment = rest.starts_with("/*") && !rest.starts_with("/*!");
        let quote = rest.chars().next().filter(|c| "'\"`".contains(*c));
        let end = if let Some(quote) = quote {
            text_end(rest, quote, escapes)
        } else if comment {
            rest.find("*/").map(|end| end + 2)
        } else if rest.starts_with("--") && !rest[2..].starts_with(|c: char| !c.is_whitespace()) {
            Some(rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("--") || rest.starts_with(['#', '$']) {
            // A comment to some, an operator or another quote to others.
            None
        } else {
            out.push_str(&rest[..1]);
            rest = &rest[1..];
            continue;
        };
        let Some(end) = end else {
            return Cow::Borrowed(source);
        };
        match quote {
            Some('\'') => out.push_str("''"),
            Some(_) => out.push_str(&rest[..end]),
            None => out.push(' '),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    if RUNS_TEXT.iter().any(|word| is_called(&out, word)) {
        return Cow::Borrowed(source);
    }
    Cow::Owned(out)
}

/// Where a text ends, its closing quote included; two quotes are one inside it.
fn text_end(text: &str, quote: char, escapes: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    loop {
        match *bytes.get(at)? {
            b'\\' if escapes => at += 2,
            byte if char::from(byte) == quote => {
                if bytes.get(at + 1) != Some(&byte) {
                    return Some(at + 1);
                }
                at += 2;
            }
            _ => at += 1,
        }
    }
}

/// Files that statements read and write themselves.
fn files(judge: &Judge<'_>, state: &State, draft: &mut Draft, source: &Given, lower: &str) {
    let functions = [
        ("readfile(", Touch::Read),
        ("pg_read_file(", Touch::Read),
        ("pg_read_binary_file(", Touch::Read),
        ("read_text(", Touch::Read),
        ("read_blob(", Touch::Read),
        ("read_csv(", Touch::Read),
        ("writefile(", Touch::Write),
    ];
    let copies = lower.contains("copy ").then_some((" to ", Touch::Write));
    for (function, touch) in functions.into_iter().chain(copies) {
        for (at, _) in lower.match_indices(function).take(MAX_FILES) {
            let behind = source.text[at + function.len()..].trim_start();
            let file = behind
                .strip_prefix('\'')
                .and_then(|text| text.split('\'').next());
            if let Some(file) = file {
                file_named(judge, state, draft, source, file, touch);
            }
        }
    }
}

fn file_named(
    judge: &Judge<'_>,
    state: &State,
    draft: &mut Draft,
    source: &Given,
    file: &str,
    touch: Touch,
) {
    let given = source.part(file.trim_matches(['\'', '"']));
    let target = judge.target(&given, &state.cwd);
    match touch {
        Touch::Read => harm::touch_secret(draft, &given, target),
        _ => harm::touch(draft, touch, &given, target),
    }
}
