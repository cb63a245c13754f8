//! git: settings that name programs, and what throws work away.

use super::act::Act;
use super::knowledge::{GIT_KEYS, Modifiers, Role};
use super::{describe, files, unknown};
use crate::classify::flow::Flow;
use crate::classify::given::Given;
use crate::classify::place;
use crate::effect::Action;
use crate::risk::Risk;

/// Sub-commands whose harm hangs on their positionals.
pub(crate) fn git(act: &mut Act<'_, '_>) -> Flow {
    let flow = describe(act);
    match act.sub.first().map(String::as_str) {
        Some("checkout") => checkout(act),
        Some("restore") => restore(act),
        Some("push") => push(act),
        Some("clean") => clean(act),
        Some("add" | "stage") => add(act),
        Some("config") => config(act),
        Some("clone" | "fetch" | "pull" | "ls-remote" | "submodule" | "remote") => transport(act),
        _ => {}
    }
    flow
}

/// `ext::command`: the command speaks for the other side.
fn transport(act: &mut Act<'_, '_>) {
    for word in act.positionals().cloned().collect::<Vec<_>>() {
        if let Some(command) = word.text.strip_prefix("ext::") {
            let says = "Runs another program as a connection";
            let action = Action::Runs {
                program: command.to_owned(),
            };
            act.draft.effect(action, Risk::Dangerous, says, word.span);
            // A blank inside a word is written `% `.
            let words = command.replace("% ", "\u{0}");
            let words = words.split_ascii_whitespace();
            let words = words.map(|part| word.part(&part.replace('\u{0}', " ")));
            let words = words.collect();
            act.inner_args(words);
            // git knows no quotes; whoever writes some means a shell's line.
            if command.contains(['"', '\'']) {
                act.shell_text(&word.part(command));
            }
        }
    }
}

/// A branch, or files whose changes are lost.
fn checkout(act: &mut Act<'_, '_>) {
    let creates = ["-b", "-B", "--orphan", "-t"]
        .iter()
        .any(|flag| act.reading.has(flag));
    let separator = act
        .args
        .iter()
        .position(|word| word.text == "--" && word.exact);
    let words: Vec<Given> = act.positionals().cloned().collect();
    let behind = separator.is_some_and(|at| at + 1 < act.args.len());
    let whole = words
        .iter()
        .any(|word| matches!(word.text.as_str(), "." | ":/" | "./"));
    if !creates && (behind || whole || words.len() > 1) {
        discards(act);
    }
}

fn restore(act: &mut Act<'_, '_>) {
    let staged_only = act.reading.has("--staged") && !act.reading.has("--worktree");
    if !staged_only
        && (!act.reading.positionals.is_empty() || act.reading.has("--pathspec-from-file"))
    {
        discards(act);
    }
}

fn discards(act: &mut Act<'_, '_>) {
    act.draft.effect(
        Action::Discards,
        Risk::Dangerous,
        "Discards uncommitted changes",
        act.call.span,
    );
}

/// `+ref` rewrites, `:ref` deletes.
fn push(act: &mut Act<'_, '_>) {
    let remote = act.positionals().next();
    let span = remote
        .filter(|word| names_password(word))
        .map(|word| word.span);
    if let Some(span) = span {
        let says = "Publishes to an address with a password in it";
        act.draft
            .effect(Action::Publishes, Risk::Dangerous, says, span);
    }
    for word in act.positionals().skip(1).cloned().collect::<Vec<_>>() {
        if word.text.starts_with('+') {
            let says = "Rewrites published history";
            act.draft
                .effect(Action::Publishes, Risk::Dangerous, says, word.span);
        } else if word.text.starts_with(':') && word.text.len() > 1 {
            let says = "Deletes a published branch";
            act.draft
                .effect(Action::Publishes, Risk::Dangerous, says, word.span);
        } else if replaces_main(act, &word.text) {
            let says = "Rewrites published history";
            act.draft
                .effect(Action::Publishes, Risk::Dangerous, says, word.span);
        } else if leads_to_main(&word.text) {
            let says = "Publishes onto a main branch";
            act.draft
                .effect(Action::Publishes, Risk::Dangerous, says, word.span);
        }
    }
}

/// `https://user:password@host/…`, written out.
fn names_password(word: &Given) -> bool {
    let authority = word.text.split_once("://").map_or("", |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    let password = user.split_once(':').map_or("", |(_, password)| password);
    word.exact && !password.is_empty()
}

/// Branches that others build on.
const MAIN: &[&str] = &["main", "master", "trunk", "production"];

fn branch(reference: &str) -> &str {
    reference.strip_prefix("refs/heads/").unwrap_or(reference)
}

/// `topic:main`: what was not that branch here becomes it for everybody.
fn leads_to_main(refspec: &str) -> bool {
    refspec
        .split_once(':')
        .is_some_and(|(from, to)| MAIN.contains(&branch(to)) && branch(from) != branch(to))
}

/// `--force-with-lease origin main`: what others had there is gone.
fn replaces_main(act: &Act<'_, '_>, refspec: &str) -> bool {
    let to = refspec.rsplit(':').next().unwrap_or_default();
    act.reading.has("--force-with-lease") && MAIN.contains(&branch(to))
}

/// Untracked files are kept nowhere else.
fn clean(act: &mut Act<'_, '_>) {
    let force = act.reading.has("-f");
    let dry = act.reading.has("-n");
    if force || !dry {
        act.draft.effect(
            Action::Discards,
            Risk::Dangerous,
            "Deletes untracked files",
            act.call.span,
        );
        if !dry {
            let here = Given::known(".", act.call.span);
            files::empties(act, &here);
        }
    }
}

/// `git add -f .env`: what is kept out of the repository on purpose gets in.
fn add(act: &mut Act<'_, '_>) {
    unknown::undescribed(act);
    if !act.reading.modifiers.has(Modifiers::FORCE) {
        return;
    }
    let private = |word: &&Given| place::is_private(&act.target(word), act.judge.context);
    let found = act.positionals().take(64).find(private);
    if let Some(span) = found.map(|word| word.span) {
        let says = "Puts keys or passwords into the repository";
        act.draft
            .effect(Action::Publishes, Risk::Dangerous, says, span);
    }
}

/// `git config key value`.
fn config(act: &mut Act<'_, '_>) {
    let mut words: Vec<Given> = act.positionals().cloned().collect();
    if words
        .first()
        .is_some_and(|word| matches!(word.text.as_str(), "set" | "add"))
    {
        words.remove(0);
    }
    if let [key, value, ..] = words.as_slice() {
        judge_setting(act, &key.text, value);
        stays(act, &key.text, value);
    }
}

/// A setting outlives the command: what it names is started later, by somebody else.
fn stays(act: &mut Act<'_, '_>, key: &str, value: &Given) {
    let key = key.to_ascii_lowercase();
    let names = GIT_KEYS.iter().any(|known| matches(&known.key, &key));
    // An alias only runs when it is typed.
    let starts = !value.exact || value.text.contains(['/', '!', ';', '|', '&', '$', '`']);
    if names && starts && !key.starts_with("alias.") && value.text != "/dev/null" {
        let says = "Names a program that git starts later";
        act.draft
            .effect(Action::Persistence, Risk::Dangerous, says, value.span);
    }
}

/// `-c key=value`.
pub(crate) fn setting(act: &mut Act<'_, '_>, given: &Given) {
    match given.text.split_once('=') {
        Some((key, value)) => {
            let value = given.part(value);
            judge_setting(act, key, &value);
        }
        None => act.draft.raise(Risk::Normal),
    }
}

fn judge_setting(act: &mut Act<'_, '_>, key: &str, value: &Given) {
    let key = key.to_ascii_lowercase();
    let unchecked = key.starts_with("http.") && key.ends_with(".sslverify");
    if unchecked && matches!(value.text.as_str(), "false" | "0" | "no" | "off") {
        let says = "Does not check who it talks to";
        act.draft
            .effect(Action::Notes, Risk::Dangerous, says, value.span);
        return;
    }
    let Some(known) = GIT_KEYS.iter().find(|known| matches(&known.key, &key)) else {
        return;
    };
    if matches!(
        value.text.as_str(),
        "" | "true" | "false" | "cat" | "less" | "0" | "1" | "/dev/null"
    ) {
        act.draft.raise(Risk::Normal);
        return;
    }
    let text = value.text.strip_prefix('!').unwrap_or(&value.text);
    match known.role {
        Role::Shell if value.exact => {
            act.draft.effect(
                Action::Runs {
                    program: text.to_owned(),
                },
                Risk::Normal,
                "",
                value.span,
            );
            let line = value.part(text);
            act.shell_text(&line);
        }
        Role::Program if value.exact && !value.text.contains(['/', '!', ' ']) => {
            act.draft.raise(Risk::Normal);
        }
        _ => act.draft.effect(
            Action::Runs {
                program: text.to_owned(),
            },
            Risk::Dangerous,
            known.says,
            value.span,
        ),
    }
}

/// `*` stands for any section name.
fn matches(pattern: &str, key: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == key,
        Some((start, end)) => {
            key.len() >= start.len() + end.len() && key.starts_with(start) && key.ends_with(end)
        }
    }
}
