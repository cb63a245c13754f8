//! awk: commands it pipes to and from, files it prints into.

use super::MAX_CALLS;
use super::carried::assigned;
use crate::classify::draft::Draft;
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;
use crate::classify::judge::{Call, Judge};
use crate::classify::state::State;
use crate::effect::Action;
use crate::risk::Risk;

/// What no pattern of the tables finds: commands and files that are not literals.
pub(super) fn look(
    judge: &mut Judge<'_>,
    state: &mut State,
    call: &Call,
    draft: &mut Draft,
    source: &Given,
) {
    let text = source.text.as_str();
    let mut commands: Vec<Expression<'_>> = Vec::new();
    for (at, _) in text.match_indices("getline").take(MAX_CALLS) {
        let before = text[..at].trim_end();
        if let Some(before) = before.strip_suffix('|') {
            commands.push(last_expression(before));
        }
    }
    for (at, word) in text.match_indices("system(").take(MAX_CALLS) {
        commands.push(first_expression(&text[at + word.len()..]));
    }
    for (at, word) in text.match_indices("print").take(MAX_CALLS) {
        match redirection(&text[at + word.len()..]) {
            Some(('>', _)) => draft.raise(Risk::Normal),
            Some((_, rest)) => {
                let statement = &text[at + word.len()..text.len() - rest.len() - 1];
                let command = first_expression(rest.trim_start_matches('|'));
                run(
                    judge,
                    state,
                    call,
                    draft,
                    source,
                    command,
                    printed(statement),
                );
            }
            None => {}
        }
    }
    for command in commands {
        run(judge, state, call, draft, source, command, Flow::default());
    }
}

/// The beginning of what is run or written.
enum Expression<'t> {
    Literal(&'t str),
    Name(&'t str),
    Other,
}

fn run(
    judge: &mut Judge<'_>,
    state: &mut State,
    call: &Call,
    draft: &mut Draft,
    source: &Given,
    command: Expression<'_>,
    input: Flow,
) {
    draft.raise(Risk::Normal);
    let texts = match command {
        Expression::Literal(text) => vec![text.to_owned()],
        // Its own network files.
        Expression::Name(name) => assigned(&source.text, name),
        Expression::Other => Vec::new(),
    };
    if texts.is_empty() {
        let says = "Runs what awk makes of its input";
        let foreign = call.stdin.from.has(Sources::FOREIGN.with(Sources::HIDDEN));
        let risk = match foreign {
            true => Risk::Critical,
            false => Risk::Dangerous,
        };
        draft.effect(Action::Opaque, risk, says, source.span);
        judge.opaque(says, source.span);
    }
    for text in texts.iter().filter(|text| !text.starts_with("/inet")) {
        let mut inner = call.with_args(Vec::new(), "awk");
        inner.stdin = input.clone().into();
        judge.isolated(state, |judge, state| {
            judge.text(text, state, &inner, source.span)
        });
    }
}

/// What a print statement gives to a command.
fn printed(statement: &str) -> Flow {
    let text = statement.trim();
    let inside = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    match inside {
        Some(literal) if !literal.contains(['"', '\\']) => Flow::literal(literal),
        _ => Flow::of(Sources::UNKNOWN),
    }
}

fn first_expression(text: &str) -> Expression<'_> {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '(' || c == '&');
    if let Some(literal) = text.strip_prefix('"') {
        return Expression::Literal(literal.split('"').next().unwrap_or_default());
    }
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(text.len());
    match &text[..end] {
        "" => Expression::Other,
        name => Expression::Name(name),
    }
}

fn last_expression(text: &str) -> Expression<'_> {
    let text = text.trim_end_matches(|c: char| c.is_whitespace() || c == ')');
    if let Some(literal) = text.strip_suffix('"') {
        return Expression::Literal(literal.rsplit('"').next().unwrap_or_default());
    }
    let name = text
        .rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .next()
        .unwrap_or_default();
    match name {
        "" => Expression::Other,
        name => Expression::Name(name),
    }
}

/// The `>` or `|` of a print statement, and what stands behind it.
fn redirection(statement: &str) -> Option<(char, &str)> {
    let (mut depth, mut quoted) = (0usize, false);
    let mut letters = statement.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => {
                letters.next();
            }
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.checked_sub(1)?,
            ';' | '}' | '\n' => return None,
            '|' if statement[at + 1..].starts_with('|') => return None,
            '>' | '|' if depth == 0 => return Some((letter, &statement[at + 1..])),
            _ => {}
        }
    }
    None
}
