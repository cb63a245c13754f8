//! Programs that run another command: what they run counts, with what they add to it.

use super::act::Act;
use super::knowledge::{Kind, Language, Role};
use super::search::DELETING;
use super::{describe_base, describe_flags, files, run};
use crate::classify::arguments::sounds_secret;
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;
use crate::effect::Action;
use crate::risk::Risk;

/// `sudo`, `doas`, `pkexec`, `run0`: options, assignments, then a command as another user.
pub(crate) fn sudo(act: &mut Act<'_, '_>) -> Flow {
    describe_flags(act);
    let mut position = 0;
    while let Some(&index) = act.reading.positionals.get(position) {
        let word = act.args[index].clone();
        if !is_assignment(&word.text) {
            break;
        }
        act.role(Role::Environment, &word);
        position += 1;
    }
    let Some(&index) = act.reading.positionals.get(position) else {
        let shell = ["-i", "-s", "--login", "--shell"]
            .iter()
            .any(|flag| act.reading.has(flag));
        if shell {
            act.draft.kind(
                Kind::Privilege,
                Risk::Dangerous,
                act.spec.says.get(),
                act.call.span,
            );
            // A shell that reads what is piped into it.
            return run::input(act, Language::Shell);
        }
        act.draft.raise(Risk::Normal);
        return Flow::of(Sources::PROGRAM);
    };
    let flow = act.inner(index);
    // A look with more rights, too: what may be seen is what the rights are about.
    act.draft.kind(
        Kind::Privilege,
        Risk::Dangerous,
        act.spec.says.get(),
        act.call.span,
    );
    flow
}

/// `env`: options, assignments, then a command; `-S` splits a string.
pub(crate) fn env(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    if let Some(text) = act.reading.value("-S").cloned() {
        let mut words: Vec<Given> = text
            .text
            .split_ascii_whitespace()
            .map(|word| text.part(word))
            .collect();
        words.extend_from_slice(behind_split(act, &text));
        return assignments_then_command(act, without_options(&words));
    }
    let words: Vec<Given> = act.positionals().cloned().collect();
    if words.is_empty() {
        return Flow::of(Sources::PROGRAM.with(Sources::SECRET));
    }
    describe_flags(act);
    assignments_then_command(act, &words)
}

/// The words behind `-S` and its value: whatever they look like, they belong to the command that
/// the value begins.
fn behind_split<'a>(act: &'a Act<'_, '_>, value: &Given) -> &'a [Given] {
    let Some(seen) = act.reading.seen("-S") else {
        return &[];
    };
    let option = seen.word.text.as_str();
    let at = act.args.iter().position(|word| word.text == option);
    let Some(rest) = at.and_then(|at| act.args.get(at + 1..)) else {
        return &[];
    };
    let bare = option == "--split-string" || option.find('S') == Some(option.len() - 1);
    match rest.split_first() {
        Some((next, rest)) if bare && next.text == value.text => rest,
        _ => rest,
    }
}

/// `env -S '-i -u X cmd'`: options of `env` itself.
fn without_options(mut words: &[Given]) -> &[Given] {
    while let Some((first, rest)) = words.split_first() {
        let takes_value = matches!(
            first.text.as_str(),
            "-u" | "-C" | "-P" | "--unset" | "--chdir"
        );
        words = match first.text.as_str() {
            "--" => return rest,
            text if !text.starts_with('-') || text == "-" => break,
            _ if takes_value => rest.get(1..).unwrap_or_default(),
            _ => rest,
        };
    }
    words
}

/// `printenv`: all variables, or those named.
pub(crate) fn printenv(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    let mut names = act.positionals().peekable();
    let secret = names.peek().is_none() || names.any(|name| sounds_secret(&name.text));
    let from = if secret {
        Sources::SECRET
    } else {
        Sources::NONE
    };
    Flow::of(Sources::PROGRAM.with(from))
}

fn assignments_then_command(act: &mut Act<'_, '_>, words: &[Given]) -> Flow {
    let mut words = words;
    while let Some((first, rest)) = words.split_first() {
        if first.text != "-" && !is_assignment(&first.text) {
            break;
        }
        act.role(Role::Environment, first);
        words = rest;
    }
    if words.is_empty() {
        return Flow::of(Sources::PROGRAM.with(Sources::SECRET));
    }
    act.inner_args(words.to_vec())
}

fn is_assignment(text: &str) -> bool {
    // As env and sudo see it: any word with an equals sign behind its first letter.
    text.find('=').is_some_and(|at| at > 0)
}

/// `xargs`: the command's last words come from the input.
pub(crate) fn xargs(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    let words: Vec<Given> = act.positionals().cloned().collect();
    if words.is_empty() {
        // `xargs` alone is `xargs echo`.
        let echo = Given::known("echo", act.call.span);
        act.inner_args(vec![echo]);
        return Flow::of(Sources::PROGRAM.with(act.call.stdin.from));
    }
    let stdin = match act.reading.value("-a").cloned() {
        Some(file) => act.judge.content(&file, &act.cwd),
        None => act.stdin(),
    };
    let replace = act
        .reading
        .seen("-I")
        .or_else(|| act.reading.seen("-i"))
        .map(|seen| {
            seen.value
                .as_ref()
                .map_or("{}".to_owned(), |value| value.text.clone())
        });
    let items: Option<Vec<String>> = stdin.text.as_deref().map(|text| {
        if replace.is_some() {
            text.lines().map(|line| line.trim().to_owned()).collect()
        } else {
            text.split(|c: char| c.is_ascii_whitespace() || c == '\0')
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        }
    });
    // A shell with nothing behind -c takes its program from the input.
    if takes_program(&words, replace.as_deref()) {
        input_is_program(act, items.as_deref(), &words);
        return Flow::of(Sources::PROGRAM);
    }
    let span = act.call.span;
    let name = words[0].text.rsplit('/').next().unwrap_or_default();
    if DELETING.contains(&name)
        && let Some(folder) = stdin
            .partly
            .as_deref()
            .and_then(|paths| paths.lines().next())
    {
        // `find ~ | xargs rm`
        files::empties(act, &Given::known(folder, span));
    }
    if stdin.from.has(Sources::ENDLESS) && many_at_once(act) {
        let says = "Fork bomb";
        act.draft
            .effect(Action::SystemChange, Risk::Critical, says, span);
    }
    let unknown = |from: Sources| Given {
        text: "$input".to_owned(),
        many: true,
        from: from.with(Sources::UNKNOWN),
        span,
        ..Given::default()
    };
    match (replace, items) {
        (Some(mark), Some(items)) => {
            for item in items.iter().take(8) {
                let args = words
                    .iter()
                    .map(|word| substitute(word, &mark, item))
                    .collect();
                act.inner_args(args);
            }
        }
        (Some(mark), None) => {
            let args = words
                .iter()
                .map(|word| {
                    if word.text.contains(&mark) {
                        Given {
                            text: word.text.replace(&mark, "$input"),
                            exact: false,
                            from: word.from.with(stdin.from).with(Sources::UNKNOWN),
                            ..word.clone()
                        }
                    } else {
                        word.clone()
                    }
                })
                .collect();
            act.inner_args(args);
        }
        (None, Some(items)) => {
            let mut args = words;
            args.extend(items.iter().map(|item| Given::known(item.as_str(), span)));
            act.inner_args(args);
        }
        (None, None) => {
            let mut args = words;
            args.push(unknown(stdin.from));
            act.inner_args(args);
        }
    }
    Flow::of(Sources::PROGRAM.with(stdin.from))
}

/// `-P 0`: as many at once as there are, or hundreds.
fn many_at_once(act: &Act<'_, '_>) -> bool {
    let value = act.reading.value("-P").map(|value| value.text.as_str());
    value.is_some_and(|value| value == "0" || value.len() >= 3)
}

fn substitute(word: &Given, mark: &str, item: &str) -> Given {
    Given {
        text: word.text.replace(mark, item),
        ..word.clone()
    }
}

/// Whether the input becomes the text of `sh -c`.
fn takes_program(words: &[Given], mark: Option<&str>) -> bool {
    let shell = words.first().is_some_and(|word| {
        matches!(
            word.text.rsplit('/').next(),
            Some("sh" | "bash" | "zsh" | "dash" | "ksh")
        )
    });
    let Some(at) = words.iter().position(|word| word.text == "-c") else {
        return false;
    };
    shell
        && match words.get(at + 1) {
            None => true,
            Some(text) => mark == Some(text.text.as_str()),
        }
}

fn input_is_program(act: &mut Act<'_, '_>, items: Option<&[String]>, words: &[Given]) {
    let span = words.first().map_or(act.call.span, |word| word.span);
    let says = "Runs each line of its input as a command";
    let from = act.call.stdin.from;
    let (risk, says) = if items.is_none() && from.has(Sources::FOREIGN) {
        (Risk::Critical, "Pipes a download into a shell")
    } else if items.is_none() && from.has(Sources::HIDDEN) {
        (Risk::Critical, "Runs decoded text")
    } else {
        (Risk::Dangerous, says)
    };
    act.draft.effect(Action::Opaque, risk, says, span);
    match items {
        Some(items) => {
            let mut words = words.to_vec();
            let at = words.iter().position(|word| word.text == "-c");
            words.truncate(at.map_or(words.len(), |at| at + 1));
            words.push(Given::known(items.join(" "), span));
            act.inner_args(words);
        }
        None => act.judge.opaque(says, span),
    }
}

/// GNU `parallel`: the command's words, then `:::` and their arguments, or the input.
pub(crate) fn parallel(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    let words: Vec<Given> = act.positionals().cloned().collect();
    let at = words
        .iter()
        .position(|word| word.text.starts_with(":::"))
        .unwrap_or(words.len());
    let (command, inputs) = words.split_at(at);
    let inputs: Vec<&Given> = inputs
        .iter()
        .filter(|word| !word.text.starts_with(":::"))
        .collect();
    if command.is_empty() {
        // The arguments themselves are the commands.
        for input in inputs {
            act.shell_text(input);
        }
        if at == words.len() {
            let text = Given {
                text: act.call.stdin.text.clone().unwrap_or_default(),
                exact: act.call.stdin.text.is_some(),
                span: act.call.span,
                ..Given::default()
            };
            if text.exact {
                act.shell_text(&text);
            } else {
                run::input(act, Language::Shell);
            }
        }
        return Flow::of(Sources::PROGRAM);
    }
    let mark = command
        .iter()
        .any(|word| word.text.contains("{}"))
        .then_some("{}");
    if takes_program(command, mark) {
        let items: Vec<String> = inputs.iter().map(|input| input.text.clone()).collect();
        let known = (at < words.len()).then_some(items.as_slice());
        input_is_program(act, known, command);
        return Flow::of(Sources::PROGRAM);
    }
    let unknown = Given {
        text: "$input".to_owned(),
        from: act.call.stdin.from.with(Sources::UNKNOWN),
        span: act.call.span,
        ..Given::default()
    };
    let inputs: Vec<Given> = if inputs.is_empty() {
        vec![unknown]
    } else {
        inputs.into_iter().take(8).cloned().collect()
    };
    for input in &inputs {
        let mut args: Vec<Given> = command
            .iter()
            .map(|word| match mark {
                Some(mark) if word.text.contains(mark) => Given {
                    exact: word.exact && input.exact,
                    from: word.from.with(input.from),
                    ..substitute(word, mark, &input.text)
                },
                _ => word.clone(),
            })
            .collect();
        if mark.is_none() {
            args.push(input.clone());
        }
        // One word with blanks is a line for a shell.
        match args.as_slice() {
            [first, ..] if first.text.contains(' ') => {
                let line: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
                let text = first.part(&line.join(" "));
                act.shell_text(&text);
            }
            _ => {
                act.inner_args(args);
            }
        }
    }
    Flow::of(Sources::PROGRAM)
}
