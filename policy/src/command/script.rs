//! Small languages inside arguments: awk, sed, SQL, vim's commands.

mod sql;

use super::act::Act;
use super::code;
use super::knowledge::{Language, Modifiers, Role};
use super::{describe, describe_base, describe_flags, output};
use crate::classify::draft::Draft;
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;
use crate::classify::harm::{self, Touch};
use crate::classify::judge::{Call, Judge};
use crate::classify::place;
use crate::classify::state::State;
use crate::effect::Action;
use crate::risk::Risk;
pub(crate) use sql::statements;

/// `awk 'program' files`.
pub(crate) fn awk(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    let mut words: Vec<Given> = act.positionals().cloned().collect();
    let mut printed = Sources::NONE;
    let in_file = act.reading.has("-f");
    let in_flag = act.reading.has("-e");
    if !in_file && !in_flag && !words.is_empty() {
        let program = words.remove(0);
        if !program.exact {
            act.draft.raise(Risk::Normal);
        }
        code::judge(act, Language::Awk, &program);
        printed = code::printed(Language::Awk, &program.text);
    }
    let in_place = act
        .reading
        .value("-i")
        .is_some_and(|library| library.text.trim_end_matches(".awk").ends_with("inplace"));
    let role = if in_place { Role::Write } else { Role::Read };
    for file in words.iter().filter(|word| !word.text.contains('=')) {
        act.role(role, file);
    }
    let mut flow = act.stdin();
    if let Some(file) = words.first() {
        flow = act.judge.content(file, &act.cwd);
    }
    flow.text = None;
    flow.from = flow.from.with(Sources::PROGRAM).with(printed);
    flow
}

/// `sed script files`.
pub(crate) fn sed(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    let in_flag = act.reading.has("-e") || act.reading.has("-f");
    let mut words: Vec<Given> = act.positionals().cloned().collect();
    if !in_flag && !words.is_empty() {
        let program = words.remove(0);
        if !program.exact {
            act.draft.raise(Risk::Normal);
        }
        sed_script(act.judge, act.state, act.call, act.draft, &program);
    }
    for file in &words {
        act.role(Role::Read, file);
    }
    let added = inserted(act);
    if act.reading.modifiers.has(Modifiers::EDITS) && added.is_some() {
        for file in words.iter().take(MAX_EDITED) {
            let path = act.target(file).resolved.unwrap_or_default();
            let flow = Flow {
                partly: added.clone(),
                ..Flow::of(Sources::FILE)
            };
            act.judge.runs_later(&path, &flow, act.call);
        }
    }
    let flow = match words.first() {
        Some(file) => act.judge.content(file, &act.cwd),
        None => act.stdin(),
    };
    let mut flow = super::filters::edited(act, flow);
    if flow.text.is_none() && added.is_some() {
        flow.partly = added;
    }
    flow
}

/// More files than this that one sed edits are not looked at.
const MAX_EDITED: usize = 16;

/// The line that a script of one command adds: `$a text`, `1i\\ text`.
fn inserted(act: &Act<'_, '_>) -> Option<String> {
    let script = match act.reading.value("-e") {
        Some(script) => script,
        None => act.positionals().next()?,
    };
    let rest = skip_addresses(script.literal()?.trim_start())?;
    let text = rest.strip_prefix(['a', 'i', 'c'])?;
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\\');
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads a sed script command by command; what writes or runs becomes an effect.
pub(crate) fn sed_script(
    judge: &mut Judge<'_>,
    state: &mut State,
    call: &Call,
    draft: &mut Draft,
    script: &Given,
) {
    let mut rest = script.text.as_str();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ';' || c == '}');
        if rest.is_empty() {
            return;
        }
        let Some(after) = skip_addresses(rest) else {
            draft.raise(Risk::Normal);
            return;
        };
        let mut letters = after.chars();
        let Some(command) = letters.next() else {
            return;
        };
        let tail = letters.as_str();
        rest = match command {
            's' => {
                let Some((flags, next)) = substitution(tail) else {
                    draft.raise(Risk::Normal);
                    return;
                };
                if let Some((before, file)) = flags.split_once('w') {
                    sed_writes(judge, state, draft, script, file.trim());
                    sed_runs_flag(draft, call, script, before);
                } else {
                    sed_runs_flag(draft, call, script, flags);
                }
                next
            }
            'y' => match substitution(tail) {
                Some((_, next)) => next,
                None => return,
            },
            '{' => tail,
            '#' | 'a' | 'i' | 'c' => next_line(tail),
            'w' | 'W' => {
                let line = tail.lines().next().unwrap_or_default();
                sed_writes(judge, state, draft, script, line.trim());
                next_line(tail)
            }
            'r' | 'R' => next_line(tail),
            'e' => {
                let line = tail.lines().next().unwrap_or_default().trim();
                sed_runs_flag(draft, call, script, "e");
                if !line.is_empty() {
                    let mut inner = call.with_args(Vec::new(), "sed");
                    inner.stdin = Default::default();
                    let mut fresh = State::new(state.cwd.clone());
                    judge.text(line, &mut fresh, &inner, script.span);
                }
                next_line(tail)
            }
            ':' | 'b' | 't' | 'T' => {
                let end = tail.find([';', '\n', '}']).unwrap_or(tail.len());
                &tail[end..]
            }
            'd' | 'D' | 'p' | 'P' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' | 'z' | 'F' => {
                tail
            }
            'q' | 'Q' | 'l' | 'L' => tail
                .trim_start()
                .trim_start_matches(|c: char| c.is_ascii_digit()),
            _ => {
                draft.raise(Risk::Normal);
                return;
            }
        };
    }
}

fn sed_runs_flag(draft: &mut Draft, call: &Call, script: &Given, flags: &str) {
    if flags.contains('e') {
        let action = Action::Runs {
            program: "sh".to_owned(),
        };
        let foreign = call.stdin.from.has(Sources::FOREIGN.with(Sources::HIDDEN));
        let risk = match foreign {
            true => Risk::Critical,
            false => Risk::Dangerous,
        };
        draft.effect(
            action,
            risk,
            "Runs what sed makes of its input",
            script.span,
        );
    }
}

fn sed_writes(judge: &Judge<'_>, state: &State, draft: &mut Draft, script: &Given, file: &str) {
    let given = script.part(file);
    let target = judge.target(&given, &state.cwd);
    harm::touch(draft, Touch::Write, &given, target);
}

fn next_line(text: &str) -> &str {
    // A backslash before the line's end continues `a`, `i` and `c`.
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        if !line.ends_with('\\') {
            return rest;
        }
    }
    ""
}

/// Skips `1,5`, `/re/,+3`, `$!`.
fn skip_addresses(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        let first = rest.chars().next()?;
        match first {
            '0'..='9' | '$' | ',' | '+' | '~' | '!' | ' ' | '\t' => rest = &rest[1..],
            '/' => rest = delimited(&rest[1..], '/')?.trim_start_matches(['I', 'M']),
            '\\' => {
                let mark = rest[1..].chars().next()?;
                rest = delimited(&rest[1 + mark.len_utf8()..], mark)?;
            }
            _ => return Some(rest),
        }
    }
}

/// The flags behind `s/a/b/`, and what follows them.
fn substitution(text: &str) -> Option<(&str, &str)> {
    let mark = text.chars().next()?;
    let rest = delimited(&text[mark.len_utf8()..], mark)?;
    let rest = delimited(rest, mark)?;
    let end = match rest.find(['\n', ';', '}']) {
        // A file name goes on to the end of the line.
        Some(_) if rest[..rest.find([';', '}', '\n']).unwrap_or(0)].contains('w') => {
            rest.find('\n').unwrap_or(rest.len())
        }
        Some(end) => end,
        None => rest.len(),
    };
    Some((&rest[..end], &rest[end..]))
}

/// What follows the closing mark.
fn delimited(text: &str, mark: char) -> Option<&str> {
    let mut class = false;
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => {
                letters.next();
            }
            '[' if mark != '[' => class = true,
            ']' => class = false,
            _ if letter == mark && !class => return Some(&text[at + letter.len_utf8()..]),
            '\n' => class = false,
            _ => {}
        }
    }
    if class {
        // An unbalanced bracket: read the mark plainly.
        let at = text.find(mark)?;
        return Some(&text[at + mark.len_utf8()..]);
    }
    None
}

/// Database clients: statements in arguments or on the input.
pub(crate) fn sql(act: &mut Act<'_, '_>) -> Flow {
    describe(act);
    let name = act.draft.program.name.clone();
    if name.bytes().all(|b| b.is_ascii_uppercase()) {
        let words: Vec<&str> = act.args.iter().map(|word| word.text.as_str()).collect();
        let given = Given::known(format!("{name} {}", words.join(" ")), act.call.span);
        statements(act.judge, act.state, act.call, act.draft, &given);
        return output(act);
    }
    if let Some(text) = act.call.stdin.text.clone() {
        let given = Given::known(text, act.call.span);
        statements(act.judge, act.state, act.call, act.draft, &given);
    } else if act.call.stdin.from.has(Sources::NETWORK) {
        let (says, span) = ("Pipes a download into a database", act.call.span);
        act.draft
            .effect(Action::Opaque, Risk::Dangerous, says, span);
    }
    output(act)
}

/// `less +!cmd`: a pager's own command, which may be a shell's.
pub(crate) fn pager(act: &mut Act<'_, '_>) {
    if act.draft.program.name == "man"
        && let Some(pager) = act.reading.value("-P").cloned()
    {
        return shows(act, &pager);
    }
    if !matches!(act.draft.program.name.as_str(), "less" | "more" | "most") {
        return;
    }
    let commands: Vec<Given> = act
        .args
        .iter()
        .filter_map(|word| Some(word.part(word.text.trim_start_matches('+').strip_prefix('!')?)))
        .filter(|command| !command.text.is_empty())
        .take(8)
        .collect();
    for command in commands {
        act.draft.raise(Risk::Normal);
        act.shell_text(&command);
    }
}

/// `man -P cat`: what only shows text is as good as any other pager.
fn shows(act: &mut Act<'_, '_>, pager: &Given) {
    const PAGERS: &[&str] = &[
        "cat", "less", "more", "most", "bat", "batcat", "col", "head", "tail", "nl", "pg", "lv",
    ];
    let first = pager
        .text
        .split_ascii_whitespace()
        .next()
        .unwrap_or_default();
    if !pager.exact || !PAGERS.contains(&first) {
        let action = Action::Runs {
            program: first.to_owned(),
        };
        let says = "Runs another program";
        act.draft.effect(action, Risk::Dangerous, says, pager.span);
    }
    act.shell_text(pager);
}

/// More commands than this for an editor are not looked at.
const MAX_LINES: usize = 512;

/// The commands of a line for vi, parted by `|`; what goes to a shell keeps its own.
fn vim_commands(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest.take()?.trim().trim_start_matches(':').trim_start();
        let line = line.trim_start_matches("silent ").trim_start_matches('%');
        match line.split_once('|') {
            Some((part, behind)) if vim_shell(line).is_none() && !line.starts_with("au") => {
                rest = Some(behind);
                Some(part)
            }
            _ => Some(line),
        }
    })
}

/// What a command of vi, ed or ftp hands to a shell.
fn vim_shell(command: &str) -> Option<&str> {
    ["!", "r!", "r !", "w !", "e !", "term "]
        .iter()
        .find_map(|start| command.strip_prefix(start))
}

/// `delete("path", "rf")`: what it removes, and whether with all below it.
fn vim_deletion(command: &str) -> Option<(&str, bool)> {
    let (_, arguments) = command.split_once("delete(")?;
    let mut texts = arguments.split(['"', '\'']).skip(1).step_by(2);
    let path = texts.next()?;
    Some((path, texts.next().is_some_and(|flags| flags.contains('r'))))
}

/// An editor's commands: `:!command`, `:w file`, `:py …`.
pub(crate) fn vim(
    judge: &mut Judge<'_>,
    state: &mut State,
    call: &Call,
    draft: &mut Draft,
    source: &Given,
) {
    draft.raise(Risk::Normal);
    for part in source.text.lines().flat_map(vim_commands).take(MAX_LINES) {
        if let Some(command) = vim_shell(part) {
            let mut inner = call.with_args(Vec::new(), &draft.program.name);
            inner.stdin = Default::default();
            let mut fresh = State::new(state.cwd.clone());
            judge.text(command, &mut fresh, &inner, source.span);
        } else if let Some(code) = part
            .strip_prefix("py ")
            .or_else(|| part.strip_prefix("py3 "))
        {
            let given = source.part(code);
            code::judge_parts(judge, state, call, draft, Language::Python, &given);
        } else if let Some(code) = part.strip_prefix("lua ") {
            let given = source.part(code);
            code::judge_parts(judge, state, call, draft, Language::Lua, &given);
        } else if let Some((_, command)) = part.split_once(" !").filter(|_| part.starts_with("au"))
        {
            // `au BufEnter * !command`
            let mut inner = call.with_args(Vec::new(), &draft.program.name);
            inner.stdin = Default::default();
            let mut fresh = State::new(state.cwd.clone());
            judge.text(command, &mut fresh, &inner, source.span);
        } else if let Some((path, tree)) = vim_deletion(part) {
            let touched = match tree {
                true => Touch::DeleteTree,
                false => Touch::Delete,
            };
            let path = source.part(path);
            let target = place::target(&path, &state.cwd, judge.context);
            harm::touch(draft, touched, &path, target);
        } else if part.contains("system(")
            || part.starts_with("shell")
            || part.starts_with("set shell")
        {
            draft.effect(
                Action::Runs {
                    program: "sh".to_owned(),
                },
                Risk::Dangerous,
                "Starts a shell from an editor",
                source.span,
            );
        }
    }
}
