//! Builtins that change the shell itself, and so what later commands mean.

use std::rc::Rc;

use super::act::{Act, folder};
use super::knowledge::{Language, Role};
use super::{describe_base, describe_flags, run};
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;
use crate::classify::state::Cwd;
use crate::effect::Action;
use crate::risk::Risk;
use crate::shell;
use crate::shell::decode;
use crate::shell::fold::Value;

const BUILTINS: &[&str] = &[
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];

/// Whether a shell has this name built in.
pub(crate) fn is_builtin(name: &str) -> bool {
    BUILTINS.binary_search(&name).is_ok()
}

/// Builtins that evaluate a name or an expression in their words: a subscript runs commands.
pub(crate) fn subscripts(act: &mut Act<'_, '_>) {
    if !act.draft.program.builtin {
        return;
    }
    let words: Vec<Given> = match act.draft.program.name.as_str() {
        "printf" => act.reading.value("-v").cloned().into_iter().collect(),
        "let" | "read" | "unset" | "test" | "[" | "declare" | "typeset" | "local" | "export"
        | "readonly" | "mapfile" | "readarray" | "getopts" | "wait" => {
            act.args.iter().take(64).cloned().collect()
        }
        _ => return,
    };
    let whole = act.draft.program.name == "let";
    for word in words.iter().filter(|word| word.exact) {
        if whole {
            let expression = shell::parse_arithmetic(word.text.as_bytes());
            let (state, call) = (&mut *act.state, act.call);
            act.judge.inside(word.span, |judge| {
                judge.expand_arithmetic(&expression, state, call)
            });
        } else {
            act.judge
                .arithmetic_text(&word.text, act.state, act.call, word.span);
        }
    }
}

/// `cd`, `pushd`, `popd`.
pub(crate) fn cd(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    let target = act.positionals().last().cloned();
    act.state.cwd = match target {
        None if act.draft.program.name == "cd" => Cwd::Known(act.judge.context.home.clone()),
        None => Cwd::Unknown,
        Some(target) if target.text == "-" || target.text.starts_with('+') => Cwd::Unknown,
        Some(target) if !target.text.starts_with(['/', '.']) && has_search_path(act) => {
            Cwd::Unknown
        }
        Some(target) => folder(&act.state.cwd, &target),
    };
    Flow::literal("")
}

/// `CDPATH=/ cd etc`: the folder is looked for elsewhere first.
fn has_search_path(act: &Act<'_, '_>) -> bool {
    let here = |assignment: &Given| assignment.text.starts_with("CDPATH=");
    act.call.assignments.iter().any(here) || act.state.variables.get(b"CDPATH").is_some()
}

/// `echo`: its words are data.
pub(crate) fn echo(act: &mut Act<'_, '_>) -> Flow {
    let mut words = act.args;
    let (mut newline, mut escapes) = (true, false);
    while let Some((first, rest)) = words.split_first() {
        let letters = first.text.strip_prefix('-').unwrap_or_default();
        if !first.exact || letters.is_empty() || !letters.bytes().all(|b| b"neE".contains(&b)) {
            break;
        }
        newline &= !letters.contains('n');
        escapes |= letters.contains('e');
        words = rest;
    }
    let mut flow = Flow::literal("");
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            flow = flow.and(&Flow::literal(" "));
        }
        flow = flow.and(&word.flow());
    }
    if escapes && let Some(text) = &flow.text {
        let bytes = decode::escapes(text.as_bytes());
        flow.text = String::from_utf8(bytes).ok();
    } else if let Some(text) = &flow.text
        && text.contains('\\')
        && decode::escapes(text.as_bytes()) != text.as_bytes()
    {
        // Some shells' echo undoes escapes unasked.
        flow = Flow::of(flow.from.with(Sources::UNKNOWN));
    }
    if newline {
        flow = flow.and(&Flow::literal("\n"));
    }
    flow
}

/// `printf`: its words are data; `-v` sets a variable.
pub(crate) fn printf(act: &mut Act<'_, '_>) -> Flow {
    describe_flags(act);
    let words: Vec<Given> = act.positionals().cloned().collect();
    let from = words
        .iter()
        .fold(Sources::NONE, |from, word| from.with(word.from));
    let text = words.split_first().and_then(|(format, rest)| {
        let rest: Option<Vec<&[u8]>> = rest
            .iter()
            .map(|word| word.literal().map(str::as_bytes))
            .collect();
        let bytes = decode::printf(format.literal()?.as_bytes(), &rest?)?;
        String::from_utf8(bytes).ok()
    });
    if let Some(variable) = act.reading.value("-v").cloned() {
        let value = match &text {
            Some(text) => Value::known(text.as_bytes()),
            None => Value::unknown(),
        };
        act.state.variables.set(variable.text.as_bytes(), value);
        act.state.taints.insert(variable.text.into_bytes(), from);
        return Flow::literal("");
    }
    Flow {
        text,
        from,
        ..Flow::default()
    }
}

/// `eval`: its words are a program.
pub(crate) fn eval(act: &mut Act<'_, '_>) -> Flow {
    let Some(first) = act.args.first().cloned() else {
        return Flow::literal("");
    };
    let mut text = first;
    for word in &act.args[1..] {
        text.text.push(' ');
        text.text.push_str(&word.text);
        text.exact &= word.exact;
        text.from = text.from.with(word.from);
    }
    let span = text.span;
    let remote = text.from.has(Sources::REMOTE) && run::is_output(&text.text);
    let judged = if text.from.has(Sources::NETWORK) || remote {
        Some((Risk::Critical, "Evaluates text from the network"))
    } else if text.exact {
        if text.from.has(Sources::HIDDEN) {
            // What it says is judged below.
            let says = "Evaluates decoded text";
            act.draft
                .effect(Action::Opaque, Risk::Dangerous, says, span);
        }
        None
    } else if text.from.has(Sources::HIDDEN) {
        Some((Risk::Critical, "Evaluates decoded text"))
    } else if text.from.has(Sources::UNKNOWN) && text.text.starts_with('$') {
        Some((Risk::Critical, "Evaluates an unknown variable"))
    } else {
        Some((Risk::Dangerous, "Evaluates the output of a program"))
    };
    if let Some((risk, says)) = judged {
        act.draft.effect(Action::Opaque, risk, says, span);
        act.judge.opaque(says, span);
        act.state.variables.forget();
        return Flow::of(Sources::UNKNOWN);
    }
    let inner = act.call.with_args(Vec::new(), "eval");
    act.judge.text(&text.text, act.state, &inner, span)
}

/// `source` and `.`: a file becomes part of this shell.
pub(crate) fn source(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    let Some(file) = act.positionals().next().cloned() else {
        // fish reads its input then.
        return match act.stdin().from == Sources::NONE {
            true => Flow::literal(""),
            false => run::input(act, Language::Shell),
        };
    };
    let input = file.text != "-" && run::is_input(&file.text);
    let flow = if input {
        act.stdin()
    } else {
        act.judge.content(&file, &act.cwd)
    };
    if !file.exact && file.content.is_none() {
        act.draft.raise(Risk::Normal);
        if file.text.starts_with('$') && !file.text.contains('/') {
            act.judge
                .opaque("Runs a file that is only known when it runs", file.span);
        }
    }
    act.role(Role::Read, &file);
    match &flow.text {
        Some(text) if !flow.from.has(Sources::NETWORK) => {
            let inner = act.call.with_args(Vec::new(), "source");
            act.judge.text(text, act.state, &inner, file.span)
        }
        _ if input => {
            act.state.variables.forget();
            run::input(act, Language::Shell)
        }
        _ => {
            run::file(act.judge, act.state, act.call, act.draft, &file, None);
            act.state.variables.forget();
            Flow::of(Sources::PROGRAM)
        }
    }
}

/// `exec`, with a command or only with redirections.
pub(crate) fn exec(act: &mut Act<'_, '_>) -> Flow {
    match act.reading.positionals.first() {
        Some(&index) => act.inner(index),
        None => Flow::literal(""),
    }
}

/// `export`, `declare`, `local`, `readonly`, `typeset`.
pub(crate) fn declare(act: &mut Act<'_, '_>) -> Flow {
    declares(act);
    let prints = act.reading.positionals.is_empty()
        || ["-p", "-f", "-F"].iter().any(|flag| act.reading.has(flag));
    match prints {
        true => Flow::of(Sources::PROGRAM),
        false => Flow::literal(""),
    }
}

fn declares(act: &mut Act<'_, '_>) {
    describe_base(act);
    let switch = |letter: char| {
        let options = act.args.iter().filter(|word| word.text.starts_with('-'));
        options.into_iter().any(|word| word.text.contains(letter))
    };
    if switch('n') && act.draft.program.name != "export" {
        // From now on one variable is set under another's name.
        act.judge
            .opaque("One variable stands for another", act.call.span);
    }
    let folds = ['l', 'u', 'c'].into_iter().any(switch);
    if folds
        && matches!(
            act.draft.program.name.as_str(),
            "declare" | "typeset" | "local"
        )
    {
        act.judge.opaque(
            "Changes the letters of what a variable is given",
            act.call.span,
        );
    }
    for word in act.positionals().cloned().collect::<Vec<_>>() {
        if word.text.contains("[$(") || word.text.contains("[`") {
            act.judge.opaque("A subscript runs a command", word.span);
        }
        let Some((name, value)) = word.text.split_once('=') else {
            if switch('A') {
                // Its elements have an order of their own.
                act.state
                    .variables
                    .set(word.text.as_bytes(), Value::unknown());
            }
            exports_known(act, &word);
            continue;
        };
        let name = name.trim_end_matches('+');
        renames(act, name, &word);
        let elements = value.starts_with('(') && value.ends_with(')');
        if elements && word.exact {
            // `declare -a 'x=($(cmd))'`: the quotes do not keep bash from reading it.
            let inner = act.call.with_args(Vec::new(), "declare");
            act.judge.isolated(act.state, |judge, state| {
                judge.text(&word.text, state, &inner, word.span)
            });
        }
        let known = word.exact && !elements && !word.text.contains("+=");
        let value = match known {
            true => Value::known(value.as_bytes()),
            false => Value::unknown(),
        };
        act.state.variables.set(name.as_bytes(), value);
        act.state.taints.insert(name.as_bytes().to_vec(), word.from);
        act.role(Role::Environment, &word);
    }
}

/// `export NAME`: what the variable already holds goes to other programs from now on.
fn exports_known(act: &mut Act<'_, '_>, word: &Given) {
    let held = act.state.variables.get(word.text.as_bytes());
    let Some(held) = held.filter(|_| word.exact) else {
        return;
    };
    let value = held.literal().map(String::from_utf8_lossy);
    let given = Given {
        text: format!("{}={}", word.text, value.as_deref().unwrap_or("$_")),
        exact: value.is_some(),
        ..word.clone()
    };
    act.role(Role::Environment, &given);
}

/// Arrays of the shell that say what a command's name means.
fn renames(act: &mut Act<'_, '_>, name: &str, word: &Given) {
    if matches!(name, "BASH_ALIASES" | "BASH_CMDS") {
        act.judge
            .opaque("Gives a command another meaning", word.span);
    }
}

/// `alias name=text`.
pub(crate) fn alias(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    for word in act.positionals().cloned().collect::<Vec<_>>() {
        let Some((name, text)) = word.text.split_once('=') else {
            continue;
        };
        act.draft.raise(Risk::Normal);
        act.state.aliases.insert(name.to_owned(), text.to_owned());
        if text.contains("<<") {
            // The lines behind its call would be the here-document's, not commands.
            act.judge
                .opaque("An alias that begins a here-document", word.span);
        }
        let inner = act.call.with_args(Vec::new(), "alias");
        act.judge.isolated(act.state, |judge, state| {
            judge.text(text, state, &inner, word.span)
        });
    }
    Flow::of(Sources::PROGRAM)
}

/// `trap text signal`: the text runs later.
pub(crate) fn trap(act: &mut Act<'_, '_>) -> Flow {
    let words: Vec<Given> = act.positionals().cloned().collect();
    if words.is_empty() || act.reading.has("-p") || act.reading.has("-P") {
        return Flow::of(Sources::PROGRAM);
    }
    if let [text, _, ..] = words.as_slice()
        && !matches!(text.text.as_str(), "-" | "")
    {
        if text.exact {
            let inner = act.call.with_args(Vec::new(), "trap");
            act.judge.isolated(act.state, |judge, state| {
                judge.text(&text.text, state, &inner, text.span)
            });
        } else {
            act.shell_text(text);
        }
        if text.text.contains('=') {
            // It may assign between any two commands.
            act.state.variables.forget();
        }
    }
    Flow::literal("")
}

/// `read`, `mapfile`: variables from the input.
pub(crate) fn read(act: &mut Act<'_, '_>) -> Flow {
    describe_flags(act);
    let mut names: Vec<Given> = act.positionals().cloned().collect();
    if let Some(array) = act.reading.value("-a") {
        names.push(array.clone());
    }
    if names.is_empty() {
        names.push(Given::known("REPLY", act.call.span));
    }
    let stdin = act.stdin();
    let mut from = stdin.from;
    if let Some(descriptor) = act.reading.value("-u")
        && act.state.network_descriptors.contains(&descriptor.text)
    {
        from = from.with(Sources::NETWORK);
    }
    if act.call.connected {
        from = from.with(Sources::NETWORK);
    }
    let alone = names.len() == 1;
    for name in names {
        let line = stdin.text.as_deref().and_then(|text| text.lines().next());
        let only = stdin
            .text
            .as_deref()
            .is_some_and(|text| text.lines().count() <= 1);
        let value = match line {
            Some(line) if alone && only && from == stdin.from => {
                Value::known(line.trim().as_bytes())
            }
            _ => Value::unknown(),
        };
        act.state.variables.set(name.text.as_bytes(), value);
        let taint = from.with(Sources::UNKNOWN);
        act.state.taints.insert(name.text.into_bytes(), taint);
    }
    Flow::literal("")
}

/// `set -- words`, `shift`: the positional parameters.
pub(crate) fn set(act: &mut Act<'_, '_>) -> Flow {
    if act.draft.program.name == "shift" {
        return shift(act);
    }
    let words: Vec<Given> = match act.args.iter().position(|word| word.text == "--") {
        Some(at) => act.args[at + 1..].to_vec(),
        None => act.positionals().cloned().collect(),
    };
    if act.args.is_empty() {
        // All variables and functions.
        return Flow::of(Sources::PROGRAM);
    }
    if !words.is_empty() {
        arguments(act, words);
    }
    Flow::literal("")
}

/// `shift`: the first arguments go.
fn shift(act: &mut Act<'_, '_>) -> Flow {
    let count = match act.positionals().next() {
        None => Some(1),
        Some(word) => word.literal().and_then(|text| text.parse::<usize>().ok()),
    };
    let words = act.state.positional.as_deref();
    let all_known = words.is_some_and(|words| words.iter().all(|word| word.exact));
    match (count, words) {
        (Some(count), Some(words)) if all_known && count <= words.len() => {
            let rest = words[count..].to_vec();
            arguments(act, rest);
        }
        _ => act.state.forget_arguments(),
    }
    Flow::literal("")
}

/// The arguments from now on.
fn arguments(act: &mut Act<'_, '_>, words: Vec<Given>) {
    for number in 1..10 {
        let value = match words.get(number - 1) {
            Some(word) if word.exact => Value::known(word.text.as_bytes()),
            _ => Value::unknown(),
        };
        act.state
            .variables
            .set(number.to_string().as_bytes(), value);
    }
    act.state.positional = Some(Rc::new(words));
}

/// `unset`: gone variables are empty.
pub(crate) fn unset(act: &mut Act<'_, '_>) -> Flow {
    for word in act.positionals().cloned().collect::<Vec<_>>() {
        act.state
            .variables
            .set(word.text.as_bytes(), Value::known(b""));
        if let Some(function) = act.state.functions.get_mut(&word.text) {
            function.certain = false;
        }
    }
    Flow::literal("")
}
