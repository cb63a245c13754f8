//! Programs of which nothing is known: normal, unless their words give something away.

use super::act::Act;
use super::{describe_base, describe_flags, knowledge, verbs};
use crate::classify::draft::Draft;
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;
use crate::classify::harm;
use crate::classify::judge::{Call, Judge};
use crate::classify::state::State;
use crate::effect::Action;
use crate::risk::Risk;

/// In longer argument lists only the first word that may be a command is looked at.
const MAX_WORDS: usize = 512;
/// Arguments that may carry a command are looked at up to this many.
const MAX_LOOKS: usize = 8;

/// A sub-command that runs the command somewhere among its words: `tool exec 18 -- cmd`.
pub(crate) fn carrier(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    act.draft.raise(Risk::Normal);
    let words = act.args;
    let behind = |text: &str| {
        words
            .iter()
            .position(|word| word.exact && word.text == text)
            .map(|at| at + 1)
            .filter(|&at| at < words.len())
    };
    let known = |word: &Given| {
        word.exact
            && !matches!(word.text.as_str(), "." | "exec" | "run" | "enter" | "shell")
            && knowledge::program(base(&word.text)).is_some()
    };
    let found = behind("--").or_else(|| words.iter().take(MAX_LOOKS).position(known));
    let texts: Vec<Given> = words
        .iter()
        .take(found.unwrap_or(words.len()).min(MAX_LOOKS))
        .filter(|word| word.exact && carries_text(word))
        .cloned()
        .collect();
    // `concurrently 'npm run a' 'npm run b'`: each a line for a shell.
    for text in &texts {
        act.shell_text(text);
    }
    match found {
        Some(first) => act.inner(first),
        None => Flow::of(Sources::PROGRAM),
    }
}

/// A known program, or sub-command, of whose arguments nothing is written down: keys among them
/// are read, and a whole grave command among them is run.
pub(crate) fn undescribed(act: &mut Act<'_, '_>) {
    // Their arguments are prose more often than not; a file among them is shown or sent.
    let talks = ["git", "gh", "glab", "hub", "hg", "svn", "jj"];
    if talks.contains(&act.draft.program.name.as_str()) {
        let files: Vec<Given> = act
            .positionals()
            .filter(|word| word.exact && !word.text.contains(' '))
            .take(MAX_LOOKS * 2)
            .cloned()
            .collect();
        for file in &files {
            reads_secret(act.judge, act.state, act.draft, file);
        }
        return;
    }
    // One look is enough: inside of it, words that are programs would be looked at again and again.
    if act.judge.is_aside() || act.draft.risk() < Risk::Normal {
        return;
    }
    let words: Vec<Given> = act
        .positionals()
        .chain(act.reading.unknown.iter())
        .filter(|word| word.exact)
        .take(MAX_LOOKS * 2)
        .cloned()
        .collect();
    for (at, word) in words.iter().enumerate() {
        reads_secret(act.judge, act.state, act.draft, word);
        let text = match word
            .text
            .strip_prefix('-')
            .and_then(|flag| flag.split_once('='))
        {
            Some((_, value)) => value,
            None => word.text.as_str(),
        };
        let first = text.split_ascii_whitespace().next().unwrap_or_default();
        if knowledge::program(base(first)).is_none() {
            continue;
        }
        let inner = act
            .call
            .with_args(words[at..].to_vec(), base(&act.call.args[0].text));
        let cwd = act.state.cwd.clone();
        let risk = act.judge.aside(|judge| {
            let mut fresh = State::new(cwd);
            if text.len() > first.len() {
                judge.text(text, &mut fresh, &inner, word.span);
            } else {
                judge.invoke(&mut fresh, &inner);
            }
        });
        // Words that happen to be programs are common; the gravest acts are not. One quoted text
        // may be a message, or what a test looks for: a person decides.
        if risk == Risk::Critical {
            let action = Action::Runs {
                program: first.to_owned(),
            };
            let quoted = text.len() > first.len();
            let risk = if quoted && !(at == 0 && runs_text(act)) && !names_a_command(word) {
                Risk::Dangerous
            } else {
                risk
            };
            act.draft
                .effect(action, risk, "Carries a grave command", word.span);
            if risk == Risk::Critical {
                return;
            }
        }
    }
}

/// `heroku run 'line'`: a sub-command whose first word is for a shell. `cargo run` starts the
/// project's own program.
fn runs_text(act: &Act<'_, '_>) -> bool {
    let last = act.sub.last().map(String::as_str);
    matches!(last, Some("run" | "exec" | "ssh" | "shell")) && act.draft.program.name != "cargo"
}

/// `--exec`, `--preview=…`: an option whose value is started.
fn names_a_command(word: &Given) -> bool {
    let Some(option) = word.text.strip_prefix('-') else {
        return false;
    };
    let name = option.split(['=', ' ']).next().unwrap_or_default();
    name.trim_start_matches('-').split('-').any(|part| {
        matches!(
            part,
            "exec" | "execute" | "command" | "cmd" | "run" | "shell" | "preview" | "eval"
        )
    })
}

/// A path to keys handed to a program of which nothing better is known.
pub(crate) fn reads_secret(judge: &Judge<'_>, state: &State, draft: &mut Draft, word: &Given) {
    if !word.text.contains('/') || word.text.starts_with('-') {
        return;
    }
    let target = judge.target(word, &state.cwd);
    harm::touch_secret(draft, word, target);
}

/// A program that no table lists.
pub(crate) fn program(judge: &mut Judge<'_>, state: &mut State, call: &Call, draft: &mut Draft) {
    let args = &call.args[1..];
    let name = call.args[0].text.as_str();
    if let Some(action) = args.first()
        && name.starts_with("/etc/init.d/")
        && action.text != "status"
    {
        draft.effect(
            Action::SystemChange,
            Risk::Dangerous,
            "Changes a running service",
            call.span,
        );
    }
    // A script of the project may call its own steps anything, and reads what it likes.
    if !name.contains('/') {
        for word in args.iter().filter(|word| word.exact).take(MAX_LOOKS * 2) {
            reads_secret(judge, state, draft, word);
        }
    }
    if !name.contains('/') && !verbs::is_question(args) {
        deletes(call, draft);
    }
    carries(judge, state, call, draft);
}

/// A verb, a flag or the name itself says that something is deleted.
fn deletes(call: &Call, draft: &mut Draft) {
    let args = &call.args[1..];
    let words = args.iter().filter(|word| !word.text.starts_with('-'));
    if let Some((verb, word)) = verbs::search(words, true) {
        draft.effect(Action::Discards, verb.risk, verb.says, word.span);
    }
    let grave = |part: &str| matches!(part, "delete" | "destroy" | "purge" | "wipe" | "nuke");
    let flag = args.iter().find(|word| verbs::is_grave_flag(&word.text));
    let span = match flag {
        Some(word) => word.span,
        None if call.args[0].text.split(['-', '_', '.']).any(grave) => call.args[0].span,
        None => return,
    };
    draft.effect(
        Action::Discards,
        Risk::Dangerous,
        "Deletes something for good",
        span,
    );
}

/// It may be a wrapper: what it would run counts, when that is grave.
fn carries(judge: &mut Judge<'_>, state: &mut State, call: &Call, draft: &mut Draft) {
    let args = &call.args[1..];
    // `mywrapper 5 rm -rf x`, but not `tool config init`; what follows `--` in any case.
    let dashes = args
        .iter()
        .take(MAX_LOOKS)
        .position(|word| word.exact && word.text == "--")
        .map(|at| at + 1)
        .filter(|&at| at < args.len());
    let known = dashes
        .or_else(|| args.iter().take(MAX_LOOKS).position(|word| !is_own(word)))
        .filter(|&first| {
            args[first].exact && knowledge::program(base(&args[first].text)).is_some()
        });
    let mut worst = Risk::Safe;
    let mut at = call.span;
    if let Some(first) = known {
        let inner = call.inner(first + 1, base(&call.args[0].text));
        let risk = judge.aside(|judge| {
            judge.isolated(state, |judge, state| judge.invoke(state, &inner));
        });
        (worst, at) = (risk, args[first].span);
    }
    let looks = if args.len() > MAX_WORDS { 0 } else { MAX_LOOKS };
    for (at_word, word) in args.iter().enumerate().take(looks) {
        if known == Some(at_word) || !word.exact || knowledge::program(base(&word.text)).is_none() {
            continue;
        }
        let inner = call.inner(at_word + 1, base(&call.args[0].text));
        let risk = judge.aside(|judge| {
            judge.isolated(state, |judge, state| judge.invoke(state, &inner));
        });
        // Words that happen to be programs are common; the gravest acts are not.
        if risk == Risk::Critical {
            (worst, at) = (risk, word.span);
        }
    }
    let texts = args
        .iter()
        .enumerate()
        .filter(|(_, word)| word.exact && carries_text(word));
    for (at_word, word) in texts.take(MAX_LOOKS) {
        let inner = call.with_args(Vec::new(), base(&call.args[0].text));
        // `--exec='cmd'`: the option's value.
        let text = match word
            .text
            .strip_prefix('-')
            .and_then(|flag| flag.split_once('='))
        {
            Some((_, value)) => value,
            None => word.text.as_str(),
        };
        let risk = judge.aside(|judge| {
            let mut fresh = State::new(state.cwd.clone());
            judge.text(text, &mut fresh, &inner, word.span);
        });
        // Prose that mentions a command is common; a whole reverse shell is not. It may be
        // a message, or what a test looks for: a person decides.
        let option = if word.text.starts_with('-') {
            Some(word)
        } else {
            at_word.checked_sub(1).and_then(|before| args.get(before))
        };
        let risk = match risk {
            Risk::Critical if !option.is_some_and(names_a_command) => Risk::Dangerous,
            Risk::Critical => risk,
            _ => Risk::Safe,
        };
        if risk > worst {
            (worst, at) = (risk, word.span);
        }
    }
    if worst >= Risk::Dangerous {
        let action = Action::Runs {
            program: call.args[0].text.clone(),
        };
        draft.effect(action, worst, "Unknown program around a grave command", at);
    }
}

/// A word that a wrapper keeps for itself: an option, a number, an assignment.
fn is_own(word: &Given) -> bool {
    let text = word.text.as_str();
    text.starts_with(['-', '+'])
        || text.contains('=')
        || text.starts_with(|c: char| c.is_ascii_digit())
}

fn carries_text(word: &Given) -> bool {
    word.text.contains(' ') && word.text.len() <= 4096
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
