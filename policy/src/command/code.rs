//! Source text of other languages, looked through for what it does.
//!
//! No parser: known calls are found by their text, their literal arguments are read. What
//! is not found is `normal`; the jail holds it.

mod awk;
mod bare;
mod carried;
mod fetched;
mod files;
mod hidden;
mod homes;
mod imports;
mod lexed;
mod literals;
mod pairs;
mod strangers;
mod together;

use std::borrow::Cow;

use super::act::Act;
use super::knowledge::{CODE, Code, Language, Means, Modifiers, Role};
use super::script;
use crate::classify::draft::Draft;
use crate::classify::flow::Sources;
use crate::classify::given::Given;
use crate::classify::judge::{Call, Judge};
use crate::classify::state::State;
use crate::effect::Action;
use crate::risk::Risk;
use crate::shell::decode;
use literals::{Words, literals};
use pairs::Pairs;
use together::is_outside;

/// More calls than this in one source are not looked at one by one.
const MAX_CALLS: usize = 64;
/// The arguments of one call are looked for in this many bytes.
const MAX_ARGUMENTS: usize = 4096;

/// Source text in an argument (`-c`, `-e`).
pub(crate) fn argument(act: &mut Act<'_, '_>, language: Language, given: &Given) {
    // Filters only read, until their script says otherwise.
    if !matches!(language, Language::Sed | Language::Awk) || !given.exact {
        act.draft.raise(Risk::Normal);
    }
    if given.from.has(Sources::NETWORK) {
        act.draft.effect(
            Action::Opaque,
            Risk::Critical,
            "Runs a download in an interpreter",
            given.span,
        );
    }
    if language == Language::PowerShell && act.reading.modifiers.has(Modifiers::DECODES) {
        return encoded(act, given);
    }
    judge(act, language, given);
    confused(act, language, given);
}

/// `powershell -EncodedCommand`: base64 of UTF-16, judged when it can be undone.
fn encoded(act: &mut Act<'_, '_>, given: &Given) {
    let bytes = given
        .literal()
        .and_then(|text| decode::base64(text.as_bytes()))
        .unwrap_or_default();
    let units: Vec<u16> = bytes
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect();
    match String::from_utf16(&units) {
        Ok(text) if !text.is_empty() => {
            let source = Given::known(text, given.span);
            judge(act, Language::PowerShell, &source);
        }
        _ => act.role(Role::Opaque, given),
    }
}

/// `perl -e "rm -rf /"`: a shell's line handed to another language. It fails there, and whoever
/// wrote it meant it.
fn confused(act: &mut Act<'_, '_>, language: Language, given: &Given) {
    let first = given.text.split_ascii_whitespace().next().unwrap_or("");
    let is_command =
        matches!(first, "rm" | "dd" | "shred" | "wipefs" | "sudo") || first.starts_with("mkfs");
    let is_text = matches!(
        language,
        Language::Perl
            | Language::Ruby
            | Language::Python
            | Language::JavaScript
            | Language::Php
            | Language::PowerShell
    );
    if is_command && is_text && given.exact {
        let call = act.call.with_args(Vec::new(), &act.draft.program.name);
        let cwd = act.cwd.clone();
        let risk = act.judge.aside(|judge| {
            let mut state = State::new(cwd);
            judge.text(&given.text, &mut state, &call, given.span);
        });
        if risk >= Risk::Dangerous {
            let says = "Hands a grave command to an interpreter";
            act.draft
                .effect(Action::Opaque, risk.min(Risk::Critical), says, given.span);
        }
    }
}

/// Looks through a source in the scene of a command.
pub(crate) fn judge(act: &mut Act<'_, '_>, language: Language, source: &Given) {
    if language == Language::Shell {
        act.shell_text(source);
        return;
    }
    judge_parts(act.judge, act.state, act.call, act.draft, language, source);
}

/// Looks through a source.
pub(crate) fn judge_parts(
    judge: &mut Judge<'_>,
    state: &mut State,
    call: &Call,
    draft: &mut Draft,
    language: Language,
    source: &Given,
) {
    if !judge.may_read(&source.text, source.span) {
        return;
    }
    match language {
        Language::Sql => return script::statements(judge, state, call, draft, source),
        Language::Vim => return script::vim(judge, state, call, draft, source),
        Language::Sed => return script::sed_script(judge, state, call, draft, source),
        _ => {}
    }
    match language {
        Language::Other => tcl(judge, state, call, source),
        Language::Awk => awk::look(judge, state, call, draft, source),
        _ => {}
    }
    let whole = match language {
        Language::Python | Language::JavaScript => imports::whole_names(&source.text, language),
        _ => Cow::Borrowed(source.text.as_str()),
    };
    let rewritten = match homes::as_literals(&whole, language) {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => match whole {
            Cow::Owned(text) => Some(text),
            Cow::Borrowed(_) => None,
        },
    };
    let rewritten = rewritten.map(|text| source.part(&text));
    let source = rewritten.as_ref().unwrap_or(source);
    let lexed = lexed::lexed(&source.text, language);
    let spoken = lexed.as_ref().map(|lexed| source.part(&lexed.spoken));
    let source = spoken.as_ref().unwrap_or(source);
    let mut look = Look {
        judge,
        state,
        call,
        draft,
        source,
        language,
        calls: 0,
        in_background: false,
    };
    look.through(lexed.map(|lexed| lexed.code));
}

/// `exec rm x`, `spawn sh`, `file delete -force x`: Tcl and expect write commands without quotes,
/// and some of them between brackets.
fn tcl(judge: &mut Judge<'_>, state: &mut State, call: &Call, source: &Given) {
    let parts = source.text.split(['\n', ';', '[', '{']).take(MAX_CALLS * 4);
    let commands = parts.filter_map(|part| {
        let part = part.trim().trim_end_matches([']', '}']);
        if let Some(paths) = part.strip_prefix("file delete ") {
            let force = if paths.starts_with("-force") {
                "-rf"
            } else {
                ""
            };
            let paths = paths.trim_start_matches("-force").trim_start_matches(" --");
            return Some(Cow::Owned(format!("rm {force} {paths}")));
        }
        if let Some(keys) = part.strip_prefix("send ") {
            // What somebody would type, to a shell more often than not.
            let keys = keys.trim_start_matches("-- ").trim_matches('"');
            return Some(Cow::Owned(keys.replace("\\r", "\n").replace("\\n", "\n")));
        }
        let command = part
            .strip_prefix("spawn ")
            .or_else(|| part.strip_prefix("exec "));
        command.map(Cow::Borrowed)
    });
    for command in commands.take(MAX_CALLS) {
        let inner = call.with_args(Vec::new(), "exec");
        judge.isolated(state, |judge, state| {
            judge.text(&command, state, &inner, source.span)
        });
    }
}

struct Look<'l, 'c> {
    judge: &'l mut Judge<'c>,
    state: &'l mut State,
    call: &'l Call,
    draft: &'l mut Draft,
    source: &'l Given,
    language: Language,
    calls: usize,
    /// Whether a call starts something in the background.
    in_background: bool,
}

/// What a source holds.
struct Found {
    anywhere: Vec<Means>,
    /// What stands outside of texts and comments, too.
    outside: Vec<Means>,
    /// The source without texts and comments.
    bare: Vec<u8>,
    /// Whether it is certain what its texts are.
    certain: bool,
}

impl Found {
    fn note(&mut self, means: Means, outside: bool) {
        if !self.anywhere.contains(&means) {
            self.anywhere.push(means);
        }
        if outside && !self.outside.contains(&means) {
            self.outside.push(means);
        }
    }
}

impl Look<'_, '_> {
    /// `code` is the source without texts and comments, where it is certain what these are.
    fn through(&mut self, code: Option<Vec<u8>>) {
        self.fetched();
        let text = self.source.text.as_str();
        let pairs = Pairs::of(text);
        let mut found = Found {
            anywhere: Vec::new(),
            outside: Vec::new(),
            certain: code.is_some(),
            bare: code.unwrap_or_else(|| bare::bare(text, self.language)),
        };
        // What looks like a statement in a text is data, unless something may run it.
        let mut data: Vec<&str> = Vec::new();
        // So is what looks like a call, where it is certain what the texts are.
        let mut deferred: Vec<(Means, &str)> = Vec::new();
        let looked_for = CODE.iter().filter(|code| code.means != Means::Home);
        let language = self.language;
        for code in looked_for.filter(|code| speaks(language, code)) {
            for pattern in &code.text {
                let pattern = pattern.get();
                if pattern == "`" && language == Language::Other {
                    // A plain text in most of them.
                    continue;
                }
                if !pairs.may_hold(pattern) {
                    continue;
                }
                let mut calls = text
                    .match_indices(pattern)
                    .filter(|(at, _)| is_call(text, *at, pattern, code.means))
                    .peekable();
                if calls.peek().is_none() {
                    continue;
                }
                let outside = calls.any(|(at, _)| is_outside(&found.bare, at, pattern));
                if !(language == Language::JavaScript && matches_texts(text, pattern)) {
                    found.note(code.means, outside);
                }
                let is_text = code.means == Means::Drop && !outside;
                if is_text && language != Language::PowerShell {
                    data.push(pattern);
                } else if found.certain {
                    deferred.push((code.means, pattern));
                } else {
                    self.occurrences(code.means, pattern, None);
                }
            }
        }
        if found.starts(text) {
            for pattern in data {
                self.occurrences(Means::Drop, pattern, None);
            }
        }
        let bare = (!found.runs_texts(text, language)).then_some(found.bare.as_slice());
        for (means, pattern) in deferred {
            self.occurrences(means, pattern, bare);
        }
        self.together(&found);
        self.carried(&found);
        let readable = self.hidden(&found);
        self.strangers(&found, readable);
    }

    /// Looks at each call of a kind and its literal arguments; where the source without its
    /// texts is given, only at what stands outside of these.
    fn occurrences(&mut self, means: Means, pattern: &str, bare: Option<&[u8]>) {
        let text = self.source.text.as_str();
        for (at, _) in text.match_indices(pattern) {
            let is_data = bare.is_some_and(|bare| !is_outside(bare, at, pattern));
            if is_data || !is_call(text, at, pattern, means) {
                continue;
            }
            self.calls += 1;
            if self.calls > MAX_CALLS {
                return;
            }
            let quote = closing(pattern);
            let rest = &text[at + pattern.len()..];
            // Without brackets, what is meant stands on the same line.
            let line = rest.split('\n').next().unwrap_or_default();
            if pattern.ends_with(' ') && !line.contains(['"', '\'', '`', '(', '[', '{', '<']) {
                continue;
            }
            let mut end = rest.len().min(MAX_ARGUMENTS);
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            let words = literals(&rest[..end], quote);
            let means = match (means, self.language) {
                (Means::Delete, Language::R | Language::JavaScript | Language::Other)
                    if is_recursive(&rest[..end]) =>
                {
                    Means::DeleteTree
                }
                _ => means,
            };
            self.occurrence(means, &words);
        }
    }

    fn occurrence(&mut self, means: Means, words: &Words) {
        match means {
            Means::Shell | Means::Argv => match words.list.as_slice() {
                [] => {}
                [one] if !words.is_list => self.run_text(one, words.complete),
                _ => self.run_words(words),
            },
            Means::Open if self.language == Language::Perl && self.opens_pipe(words) => {}
            Means::Open
            | Means::Write
            | Means::Read
            | Means::Copy
            | Means::Move
            | Means::Attributes
            | Means::Path
            | Means::Delete
            | Means::DeleteTree => self.file(means, words),
            Means::Drop => {
                self.effect(
                    Action::Discards,
                    Risk::Dangerous,
                    "Destroys data in a database",
                );
            }
            Means::Statement => {
                for word in &words.list {
                    let statement = self.source.part(word);
                    script::statements(self.judge, self.state, self.call, self.draft, &statement);
                }
            }
            Means::Kill => {
                self.effect(Action::Kills, Risk::Dangerous, "Ends every process");
            }
            Means::Injects => {
                self.effect(
                    Action::Privilege,
                    Risk::Dangerous,
                    "Reaches into another process",
                );
            }
            Means::Socket
            | Means::Network
            | Means::Receive
            | Means::Serves
            | Means::Input
            | Means::Fetch
            | Means::Attach
            | Means::Decode
            | Means::Evaluate
            | Means::Environment
            | Means::Home
            | Means::Fork
            | Means::Forever
            | Means::Privilege => {}
        }
    }

    /// Perl's `open` of a pipe: `"|cmd"`, `"cmd|"`, or the direction apart: `"-|", "cmd"`.
    fn opens_pipe(&mut self, words: &Words) -> bool {
        let mut list = words.list.iter();
        while let Some(word) = list.next() {
            let text = word.trim();
            let command = match text {
                "-|" | "|-" => list.next().map(String::as_str),
                _ => text.strip_prefix('|').or_else(|| text.strip_suffix('|')),
            };
            if let Some(command) = command {
                self.run_text(command, words.complete);
                return true;
            }
        }
        false
    }

    fn run_text(&mut self, text: &str, complete: bool) {
        let line = text.trim_end();
        self.in_background |= line.ends_with('&') && !line.ends_with("&&");
        let mut inner = self.call.with_args(Vec::new(), &self.draft.program.name);
        inner.stdin = Default::default();
        let source = if complete {
            text.to_owned()
        } else {
            text.replace("{}", "$_")
        };
        let span = self.source.span;
        let mut state = self.state.below(self.state.cwd.clone());
        self.judge.text(&source, &mut state, &inner, span);
    }

    fn run_words(&mut self, words: &Words) {
        let span = self.source.span;
        let mut args: Vec<Given> = words
            .list
            .iter()
            .map(|word| Given::known(word.as_str(), span))
            .collect();
        if !words.complete {
            args.push(Given::unknown(span));
        }
        let mut inner = self.call.with_args(args, &self.draft.program.name);
        inner.stdin = Default::default();
        self.judge
            .isolated(self.state, |judge, state| judge.invoke(state, &inner));
    }

    fn effect(&mut self, action: Action, risk: Risk, says: &'static str) {
        self.draft.effect(action, risk, says, self.source.span);
    }
}

/// What a source may print beside what any program prints: all variables of the environment, text
/// that it decodes.
pub(crate) fn printed(language: Language, source: &str) -> Sources {
    let all = CODE
        .iter()
        .filter(|code| code.means == Means::Environment && speaks(language, code))
        .flat_map(|code| &code.text)
        .any(|pattern| source.contains(pattern.get()));
    // `node -p process.env`
    let whole = language == Language::JavaScript && source.trim() == "process.env";
    let decodes = CODE
        .iter()
        .filter(|code| code.means == Means::Decode && speaks(language, code))
        .flat_map(|code| &code.text)
        .any(|pattern| source.contains(pattern.get()));
    let secret = match all || whole {
        true => Sources::SECRET,
        false => Sources::NONE,
    };
    match decodes {
        true => secret.with(Sources::DECODED),
        false => secret,
    }
}

/// Whether a language's sources are looked through for an entry.
fn speaks(language: Language, code: &Code) -> bool {
    code.languages.contains(&language)
        || (language == Language::Other && !code.languages.contains(&Language::Awk))
}

/// Whether the call is told to take whole folders.
fn is_recursive(arguments: &str) -> bool {
    let call = arguments.split(')').next().unwrap_or_default();
    call.contains("recursive") && !call.contains("FALSE") && !call.contains("false")
}

/// What ends the text that a pattern begins: a quote, or the bracket of `qx(…)` and `%x{…}`.
fn closing(pattern: &str) -> Option<char> {
    let letter = pattern.chars().last()?;
    let brackets = pattern.starts_with("qx") || pattern.starts_with("%x");
    match letter {
        '"' | '\'' | '`' => Some(letter),
        '(' if brackets => Some(')'),
        '{' if brackets => Some('}'),
        '[' if brackets => Some(']'),
        '/' if brackets => Some('/'),
        _ => None,
    }
}

/// `mysystem(` is not `system(`, and `json.load(` evaluates nothing.
fn is_call(text: &str, at: usize, pattern: &str, means: Means) -> bool {
    let before = text[..at].chars().next_back().unwrap_or(' ');
    let starts_word = pattern.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if starts_word && (before.is_ascii_alphanumeric() || before == '_') {
        return false;
    }
    let whole = pattern.ends_with(|c: char| c.is_ascii_alphanumeric());
    if means == Means::Delete && whole {
        // `unlink` alone takes what the loop is at.
        let behind = text[at + pattern.len()..].chars().next().unwrap_or(' ');
        return !(behind.is_ascii_alphanumeric() || behind == '_');
    }
    if means != Means::Evaluate {
        return true;
    }
    let name = pattern.trim_end_matches(['(', ' ']);
    let plain = name.bytes().all(|byte| byte.is_ascii_alphabetic());
    // Perl's `eval {` catches what its block throws.
    let block = pattern == "eval " && text[at + pattern.len()..].starts_with('{');
    !(block || plain && before == '.')
}

/// Whether a call is JavaScript's for regular expressions: `/re/.exec(text)` where nothing starts
/// programs.
fn matches_texts(text: &str, pattern: &str) -> bool {
    let starting = ["child_process", "shelljs", "execa", "zx"];
    matches!(pattern, ".exec(" | "exec(") && !starting.iter().any(|name| text.contains(name))
}
