//! What another shell makes of a line: `((…))` and `[[ … ]]` are bash's, and a plain `sh` takes
//! them for subshells and for a command of that name.

use super::draft::Draft;
use super::judge::{Call, Judge};
use super::state::State;
use super::verdict::Program;
use crate::command::knowledge;
use crate::effect::{Action, Span};
use crate::risk::Risk;
use crate::shell::ast::Test;
use crate::shell::word::{Arithmetic, Part, PartKind};
use crate::shell::{Word, walk};

/// Longer expressions are not read a second time.
const MAX_TEXT: usize = 4096;
const MAX_WORDS: usize = 256;
const TOO_LONG: &str = "Too long to read as another shell does";

impl Judge<'_> {
    /// `((rm -rf x))`: arithmetic in bash, two subshells elsewhere.
    pub(crate) fn arithmetic_elsewhere(
        &mut self,
        arithmetic: &Arithmetic,
        state: &mut State,
        call: &Call,
    ) {
        let text = text_of(&arithmetic.parts);
        if let Some(risk) = begins_like_a_command(&text) {
            self.runs_elsewhere(risk, "", call.span);
        }
        self.elsewhere(&text, state, call);
    }

    /// `[[ a || reboot ]]`: a condition in bash; elsewhere a command that is not found, and
    /// then another one.
    pub(crate) fn test_elsewhere(&mut self, test: &Test, state: &mut State, call: &Call) {
        let cuts = |word: &Word| {
            let text = word.plain().unwrap_or_default();
            matches!(text, b"&&" | b"||" | b"<" | b">") || text.contains(&b'|')
        };
        let broken = !test.breaks.is_empty();
        if !broken && !test.words.iter().any(cuts) {
            return;
        }
        let plain = |word: &Word| matches!(word.plain(), Some(b"||" | b"<" | b">"));
        // At least an unknown program, or a file that is written; behind the bar of an
        // expression a command, too, but no likely one.
        let risk = match broken || test.words.iter().any(plain) {
            true => Risk::Normal,
            false => Risk::Safe,
        };
        self.runs_elsewhere(risk, "", call.span);
        if test.words.len() > MAX_WORDS {
            self.opaque(TOO_LONG, call.span);
            return;
        }
        // A word there, not a keyword, and its line ends where a line ends.
        let mut text = String::from("'[['");
        for (number, word) in test.words.iter().enumerate() {
            let begins = test.breaks.contains(&number);
            text.push(if begins { '\n' } else { ' ' });
            text.push_str(&text_of(&word.parts));
        }
        self.elsewhere(&text, state, call);
    }

    fn elsewhere(&mut self, text: &str, state: &mut State, call: &Call) {
        if !names_a_program(text) {
            return;
        }
        let span = call.span;
        if text.len() > MAX_TEXT || self.nested_deeply() {
            self.opaque(TOO_LONG, span);
            return;
        }
        let call = Call {
            redirects: Vec::new(),
            ..call.clone()
        };
        let risk = self.aside_named(|judge| {
            judge.isolated(state, |judge, state| {
                judge.inside(span, |judge| {
                    // Words that are plain here were quoted or expanded there: only known ones
                    // are commands.
                    let script = crate::shell::parse(text.as_bytes());
                    if walk::opaque(&script).is_empty() {
                        judge.script(&script, state, &call);
                    }
                });
            });
        });
        if risk >= Risk::Dangerous {
            let says = "Runs a command in a shell other than bash";
            self.runs_elsewhere(risk, says, span);
            self.opaque(says, span);
        }
    }

    fn runs_elsewhere(&mut self, risk: Risk, says: &'static str, span: Span) {
        let call = Call {
            span,
            ..Call::default()
        };
        let index = self.reserve(&call, &Program::default());
        let mut draft = Draft::new(Program::default());
        draft.effect(Action::Notes, risk, says, span);
        self.complete(index, draft);
    }
}

/// The text as it stands, near enough: quotes are gone, expansions keep their names.
fn text_of(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        match &part.kind {
            PartKind::Plain(bytes) | PartKind::Quoted(bytes) => {
                text.push_str(&String::from_utf8_lossy(bytes));
            }
            PartKind::Glob(byte) => text.push(char::from(*byte)),
            PartKind::Tilde(name) => {
                text.push('~');
                text.push_str(&String::from_utf8_lossy(name));
            }
            PartKind::Double(inner, _) => text.push_str(&text_of(inner)),
            PartKind::Parameter(parameter) => {
                text.push_str("${");
                text.push_str(&String::from_utf8_lossy(&parameter.name));
                text.push('}');
            }
            _ => text.push_str("$_"),
        }
    }
    text
}

/// Whether an expression begins, or goes on behind an operator of the shell's, as a command does:
/// as one of the system's, which no number is called like, or as a file that is run, `a/b`. It is
/// a command of the line either way: no list of commands that may run speaks of it.
fn begins_like_a_command(text: &str) -> Option<Risk> {
    let first_words = text
        .split(['(', ')', '|', '&', ';', '\n', '`'])
        .filter_map(|part| part.split_whitespace().next())
        .filter(|word| word.starts_with(|c: char| c.is_alphabetic() || "/.~_$".contains(c)));
    let risk = |word: &str| match word.contains('/') {
        true => Risk::Normal,
        false => Risk::Safe,
    };
    first_words.map(risk).max()
}

/// Whether some word of an expression is also the name of a program.
fn names_a_program(text: &str) -> bool {
    text.split(|c: char| c.is_whitespace() || "()|&;<>`".contains(c))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '.'))
        .any(|word| knowledge::program(word.rsplit('/').next().unwrap_or(word)).is_some())
}
