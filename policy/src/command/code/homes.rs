//! The home folder as languages spell it: `process.env.HOME + "/.npmrc"`, `Path.home() / ".ssh"`,
//! `"#{Dir.home}/.netrc"`. It becomes a literal that begins with `~`, as the tables know paths.

use std::borrow::Cow;

use super::literals::quoted;
use super::{Means, speaks};
use crate::command::knowledge::{CODE, Language};

/// Sources longer than this are looked through as they are.
const MAX_SOURCE: usize = 16 * 1024;
/// More places than this are not rewritten.
const MAX_PLACES: usize = 64;

/// The source with `"~…"` in place of each spelling of a home folder, and of the variables that
/// hold one.
pub(super) fn as_literals(source: &str, language: Language) -> Cow<'_, str> {
    let hints = ["HOME", "home", "Home", "expanduser", "path.expand"];
    if source.len() > MAX_SOURCE || !hints.iter().any(|word| source.contains(word)) {
        return Cow::Borrowed(source);
    }
    let spellings: Vec<(&str, String)> = CODE
        .iter()
        .filter(|code| code.means == Means::Home && speaks(language, code))
        .flat_map(|code| &code.text)
        .map(|spelling| (spelling.get(), "~".to_owned()))
        .collect();
    let Some((text, names)) = rewritten(source, &spellings) else {
        return Cow::Borrowed(source);
    };
    let names: Vec<(&str, String)> = names
        .iter()
        .map(|(name, path)| (name.as_str(), path.clone()))
        .collect();
    match rewritten(&text, &names) {
        Some((twice, _)) => Cow::Owned(twice),
        None => Cow::Owned(text),
    }
}

/// Where a spelling stands.
struct Place<'p> {
    start: usize,
    end: usize,
    path: &'p str,
    /// Whether it is an object of Python's pathlib.
    is_object: bool,
}

/// The source with paths in place of spellings, and the variables that were given one.
fn rewritten(
    source: &str,
    spellings: &[(&str, String)],
) -> Option<(String, Vec<(String, String)>)> {
    let mut places: Vec<Place<'_>> = spellings
        .iter()
        .flat_map(|(spelling, path)| found(source, spelling, path))
        .take(MAX_PLACES)
        .collect();
    if places.is_empty() {
        return None;
    }
    // Of several at one place the longest; what stands inside another is part of it.
    places.sort_by_key(|place| (place.start, usize::MAX - place.end));
    let mut out = String::with_capacity(source.len() + 64);
    let mut names = Vec::new();
    let mut done = 0;
    let mut quote = None;
    for place in places {
        if place.start < done {
            continue;
        }
        let between = &source[done..place.start];
        quote = quote_behind(between, quote);
        out.push_str(between);
        let behind = &source[place.end..];
        done = place.end;
        if quote.is_some() {
            match interpolated(&mut out, behind, &source[place.start..place.end]) {
                Some(rest) => {
                    out.push_str(place.path);
                    done = source.len() - rest.len();
                }
                None => out.push_str(&source[place.start..place.end]),
            }
            continue;
        }
        let in_join = between.trim_end().ends_with("join(");
        let mut path = place.path.to_owned();
        let rest = continued(&mut path, behind, in_join);
        done = source.len() - rest.len();
        if let Some(name) = assigned_name(&out) {
            names.push((name.to_owned(), path.clone()));
        }
        let (open, close) = match place.is_object {
            true => ("Path(\"", "\")"),
            false => ("\"", "\""),
        };
        out.push_str(open);
        out.push_str(&path.replace('"', "\\\""));
        out.push_str(close);
    }
    out.push_str(&source[done..]);
    Some((out, names))
}

/// Each place of one spelling, with the module before it and the bracket behind it.
fn found<'p>(source: &str, spelling: &str, path: &'p str) -> Vec<Place<'p>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let in_module = |c: char| is_word(c) || c == '.';
    let mut places = Vec::new();
    for (at, _) in source.match_indices(spelling).take(MAX_PLACES) {
        let mut end = at + spelling.len();
        let behind = &source[end..];
        if spelling.ends_with(is_word) && behind.starts_with(is_word) {
            continue;
        }
        if spelling.ends_with(['\'', '"']) {
            // A default behind the name.
            let Some(close) = behind.find([')', '\n']) else {
                continue;
            };
            end += close + 1;
        } else if behind.starts_with("()") {
            end += 2;
        }
        let before = &source[..at];
        let start = match spelling.starts_with(is_word) {
            true => before.trim_end_matches(in_module).len(),
            false => at,
        };
        // `=` behind a variable gives it something else.
        let given_anew = source[end..].trim_start().starts_with('=');
        let is_variable = spelling.chars().all(is_word);
        let continues = spelling.starts_with(is_word) && before.ends_with(is_word)
            || is_variable && before.ends_with('.');
        if !continues && !given_anew {
            let is_object = spelling.starts_with("Path") && spelling.ends_with("()");
            places.push(Place {
                start,
                end,
                path,
                is_object,
            });
        }
    }
    places
}

/// The quote that is open behind a text.
fn quote_behind(text: &str, mut quote: Option<char>) -> Option<char> {
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                letters.next();
            }
            '\n' if quote != Some('`') => quote = None,
            '"' | '\'' | '`' if quote.is_none() => quote = Some(letter),
            _ if quote == Some(letter) => quote = None,
            _ => {}
        }
    }
    quote
}

/// `${…}`, `#{…}`, `{…}` and Perl's variables inside a text: their brackets go, too.
fn interpolated<'t>(out: &mut String, behind: &'t str, spelling: &str) -> Option<&'t str> {
    if let Some(before) = out.strip_suffix('{')
        && let Some(rest) = behind.strip_prefix('}')
    {
        let length = before.trim_end_matches(['$', '#']).len();
        out.truncate(length);
        return Some(rest);
    }
    spelling.starts_with('$').then_some(behind)
}

/// Makes a path longer by the literals that the source joins to it; what is left of the source.
pub(super) fn continued<'t>(path: &mut String, text: &'t str, in_join: bool) -> &'t str {
    let mut rest = text;
    loop {
        let text = rest.trim_start();
        let operators = [
            ("+", false),
            ("..", false),
            (".joinpath(", true),
            (".", false),
            ("<>", false),
            ("/", true),
            (",", true),
        ];
        let Some((operator, parts)) = operators
            .into_iter()
            .filter(|(operator, _)| *operator != "," || in_join)
            .find(|(operator, _)| text.starts_with(operator))
        else {
            return rest;
        };
        let behind = text[operator.len()..].trim_start();
        let Some(quote) = behind.chars().next().filter(|c| "\"'`".contains(*c)) else {
            return rest;
        };
        let (word, after) = quoted(&behind[1..], quote);
        if parts && !path.ends_with('/') && !word.starts_with('/') {
            path.push('/');
        }
        path.push_str(&word);
        rest = match operator {
            ".joinpath(" => after.strip_prefix(')').unwrap_or(after),
            _ => after,
        };
    }
}

/// The variable that is given what comes next.
fn assigned_name(before: &str) -> Option<&str> {
    let before = before.trim_end().strip_suffix('=')?;
    let before = before.strip_suffix(':').unwrap_or(before).trim_end();
    let start = before
        .trim_end_matches(|c: char| c.is_alphanumeric() || c == '_')
        .trim_end_matches('$')
        .len();
    let name = &before[start..];
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_become_literals() {
        for (language, source, read) in [
            (
                Language::JavaScript,
                "f(process.env.HOME+\"/.npmrc\")",
                "f(\"~/.npmrc\")",
            ),
            (
                Language::JavaScript,
                "f(require('os').homedir(),{a:1})",
                "f(\"~\",{a:1})",
            ),
            (
                Language::JavaScript,
                "f(`${process.env.HOME}/.ssh/id`)",
                "f(`~/.ssh/id`)",
            ),
            (
                Language::JavaScript,
                "const h = os.homedir(); f(path.join(h, '.ssh', 'id'))",
                "const h = \"~\"; f(path.join(\"~/.ssh/id\"))",
            ),
            (
                Language::Python,
                "open(os.environ['HOME'] + '/.ssh/id')",
                "open(\"~/.ssh/id\")",
            ),
            (
                Language::Python,
                "os.path.join(os.environ.get('HOME', '/root'), '.ssh', n)",
                "os.path.join(\"~/.ssh\", n)",
            ),
            (
                Language::Python,
                "pathlib.Path.home().joinpath(\".ssh/id\").read_bytes()",
                "Path(\"~/.ssh/id\").read_bytes()",
            ),
            (
                Language::Python,
                "home = os.path.expanduser('~')\nopen(f'{home}/.ssh/id')",
                "home = \"~\"\nopen(f'~/.ssh/id')",
            ),
            (Language::Perl, "f($ENV{HOME})", "f(\"~\")"),
            (Language::Perl, "f \"$ENV{HOME}/*\"", "f \"~/*\""),
            (Language::Php, "f(getenv(\"HOME\").\"/*\")", "f(\"~/*\")"),
            (Language::Ruby, "f(\"#{Dir.home}/.n\")", "f(\"~/.n\")"),
            (Language::Other, "rm(homedir(), x)", "rm(\"~\", x)"),
            // Another name, and a text that only mentions it.
            (Language::Ruby, "Dir.homely", "Dir.homely"),
            (
                Language::JavaScript,
                "'process.env.HOME'",
                "'process.env.HOME'",
            ),
        ] {
            assert_eq!(as_literals(source, language), read, "{source}");
        }
    }
}
