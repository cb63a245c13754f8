//! Shells and interpreters: text, files and input that become programs.

use super::act::Act;
use super::code;
use super::knowledge::{Input, Language, Modifiers, Role};
use super::{describe_base, describe_flags, unknown, url, verbs};
use crate::classify::arguments::UNKNOWN_OUTPUT;
use crate::classify::draft::Draft;
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;
use crate::classify::judge::{Call, Judge, Mark};
use crate::classify::state::State;
use crate::classify::verdict::RedirectKind;
use crate::effect::Action;
use crate::risk::Risk;
use crate::shell::decode;
use crate::shell::fold::Value;

/// `sh`, `bash` and their kin.
pub(crate) fn shell(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    let positionals: Vec<Given> = act.positionals().cloned().collect();
    if only_parses(act) {
        return Flow::literal("");
    }
    if act.reading.has("-c") {
        act.draft.raise(Risk::Normal);
        let Some(text) = positionals.first() else {
            return Flow::default();
        };
        return text_with(act, text, "sh -c", &positionals[1..]);
    }
    let stdin = act.reading.modifiers.has(Modifiers::STDIN);
    match positionals.first() {
        Some(script) if !stdin && !is_input(&script.text) => {
            let script = script.clone();
            act.role(Role::Read, &script);
            file(
                act.judge,
                act.state,
                act.call,
                act.draft,
                &script,
                Some(Language::Shell),
            );
            Flow::of(Sources::PROGRAM)
        }
        _ => input(act, Language::Shell),
    }
}

/// `bash -n`: reads commands and runs none of them. An interactive shell ignores it, and other
/// shells mean something else by it.
fn only_parses(act: &Act<'_, '_>) -> bool {
    let known = matches!(
        act.draft.program.name.as_str(),
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "mksh"
    );
    let plus = act.args.iter().any(|word| word.text.starts_with('+'));
    let other = ["-i", "-o", "-O", "-l", "-s"];
    let plain =
        !plus && act.reading.unknown.is_empty() && !other.iter().any(|flag| act.reading.has(flag));
    known && plain && act.reading.has("-n") && act.args.iter().all(|word| word.exact || !word.many)
}

/// Names of the standard input.
pub(crate) fn is_input(name: &str) -> bool {
    matches!(
        name,
        "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0" | "/proc/thread-self/fd/0"
    )
}

/// An interpreter: `-c text`, a script file, or its input.
pub(crate) fn interpreter(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    act.draft.raise(Risk::Normal);
    let Input::Code(language) = act.spec.input else {
        return Flow::of(Sources::PROGRAM);
    };
    if language == Language::Python
        && let Some(words) = module(act)
    {
        return act.inner_args(words);
    }
    if language == Language::Python && act.reading.value("-m").is_some_and(runs_text) {
        for text in act.args.iter().filter(|word| word.exact) {
            code::judge(act, language, text);
        }
    }
    let given = act
        .reading
        .flags
        .iter()
        .any(|seen| matches!(seen.flag.role, Role::Code(_)) || seen.flag.spellings.has("-m"));
    if given {
        let files: Vec<Given> = act.positionals().cloned().collect();
        let mut from = Sources::PROGRAM.with(act.call.stdin.from);
        let edits = act.reading.has("-i");
        let loops = edits || act.reading.has("-n") || act.reading.has("-p");
        if loops && matches!(language, Language::Perl | Language::Ruby) {
            // `perl -pi -e …`: the files are changed in place; without -i they are read.
            let role = if edits { Role::Write } else { Role::Read };
            for file in &files {
                act.role(role, file);
                from = from.with(act.judge.content(file, &act.cwd).from);
            }
        }
        if let Some(module) = act
            .reading
            .value("-m")
            .filter(|_| language == Language::Python)
        {
            let serves_files = module.text == "http.server";
            for file in &files {
                unknown::reads_secret(act.judge, act.state, act.draft, file);
            }
            if serves_files {
                serves(act, &["-d", "--directory"]);
            }
        }
        let sources = act.reading.flags.iter().filter_map(|seen| {
            let Role::Code(language) = seen.flag.role else {
                return None;
            };
            Some(code::printed(language, &seen.value.as_ref()?.text))
        });
        return Flow::of(sources.fold(from, Sources::with));
    }
    if language == Language::Php && act.reading.has("-S") {
        serves(act, &["-t"]);
    }
    let script = act.positionals().next().cloned();
    match script {
        Some(script) if !is_input(&script.text) => {
            act.role(Role::Read, &script);
            framework(act, &script);
            file(
                act.judge,
                act.state,
                act.call,
                act.draft,
                &script,
                Some(language),
            );
            Flow::of(Sources::PROGRAM)
        }
        _ => input(act, language),
    }
}

/// A server of files: the folder behind one of these options, or where it is started.
fn serves(act: &mut Act<'_, '_>, options: &[&str]) {
    let words = act.args;
    let behind = words
        .iter()
        .zip(words.iter().skip(1))
        .find_map(|(option, folder)| {
            options
                .contains(&option.text.as_str())
                .then(|| folder.clone())
        });
    let attached = words.iter().find_map(|word| {
        let (option, folder) = word.text.split_once('=')?;
        options.contains(&option).then(|| word.part(folder))
    });
    let folder = behind.or(attached);
    let here = || Given::known(".", act.call.span);
    let folder = folder.unwrap_or_else(here);
    url::serves(act, &folder);
}

/// Scripts that every project of a framework has, with the same sub-commands: `manage.py flush`.
fn framework(act: &mut Act<'_, '_>, script: &Given) {
    let name = script.text.rsplit('/').next().unwrap_or_default();
    if !matches!(
        name,
        "manage.py" | "artisan" | "console" | "rails" | "wp-cli.phar" | "occ" | "magento" | "spark"
    ) || verbs::is_question(act.args)
    {
        return;
    }
    let words: Vec<Given> = act.positionals().skip(1).cloned().collect();
    if let [first, option, source, ..] = words.as_slice()
        && first.text == "shell"
        && matches!(option.text.as_str(), "-c" | "--command")
    {
        code::argument(act, Language::Python, source);
    }
    let own = words.first().filter(|word| {
        matches!(
            word.text.as_str(),
            "flush"
                | "reset_db"
                | "sqlflush"
                | "migrate:fresh"
                | "migrate:reset"
                | "migrate:refresh"
                | "doctrine:schema:drop"
                | "doctrine:fixtures:load"
        )
    });
    let span = own
        .map(|word| word.span)
        .or_else(|| verbs::search(words.iter(), true).map(|(_, word)| word.span));
    if let Some(span) = span {
        act.draft.effect(
            Action::Discards,
            Risk::Dangerous,
            "Destroys data in a database",
            span,
        );
    }
}

/// Modules whose arguments are source text.
fn runs_text(module: &Given) -> bool {
    matches!(
        module.text.as_str(),
        "timeit" | "pdb" | "code" | "cProfile" | "profile" | "trace"
    )
}

/// Modules that are the programs of the same name.
const MODULES: &[&str] = &[
    "pip", "pipx", "uv", "poetry", "pdm", "pipenv", "twine", "base64",
];

/// `python -m pip …`: the words of the program that the module is.
fn module(act: &Act<'_, '_>) -> Option<Vec<Given>> {
    act.reading.seen("-m")?;
    let at = act
        .args
        .iter()
        .position(|word| word.exact && word.text.starts_with("-m"))?;
    let (name, rest) = match act.args[at].text.strip_prefix("-m") {
        Some("") | None => (act.args.get(at + 1)?.clone(), at + 2),
        Some(name) => (act.args[at].part(name), at + 1),
    };
    if !name.exact || !MODULES.contains(&name.text.as_str()) {
        return None;
    }
    let mut words = vec![name];
    words.extend_from_slice(act.args.get(rest..).unwrap_or_default());
    Some(words)
}

/// Whether the options already say what to run.
pub(crate) fn has_code(act: &Act<'_, '_>) -> bool {
    act.reading
        .flags
        .iter()
        .any(|seen| matches!(seen.flag.role, Role::Code(_)) || seen.flag.spellings.has("-m"))
}

/// An interpreter that runs what it reads on its standard input.
pub(crate) fn input(act: &mut Act<'_, '_>, language: Language) -> Flow {
    let stdin = act.stdin();
    let span = act.call.span;
    act.judge.mark(Mark::RunsInput);
    if stdin.from.has(Sources::FIFO) {
        act.judge.mark(Mark::RunsFifo);
    }
    act.draft.raise(Risk::Normal);
    let what = if language == Language::Shell {
        "a shell"
    } else {
        "an interpreter"
    };
    if act.call.connected {
        act.draft.effect(
            Action::Network { host: None },
            Risk::Critical,
            format!("Connects {what} to the network"),
            span,
        );
        return Flow::of(Sources::PROGRAM);
    }
    if stdin.from.has(Sources::NETWORK) {
        act.draft.effect(
            Action::Opaque,
            Risk::Critical,
            format!("Pipes a download into {what}"),
            span,
        );
        return Flow::of(Sources::NETWORK);
    }
    let known = stdin.text.as_deref().is_some_and(|text| !is_output(text));
    // Statements for a database, and lines for an editor, are data more often than not.
    let programs = !matches!(
        language,
        Language::Sql | Language::Vim | Language::Sed | Language::Awk
    );
    if stdin.from.has(Sources::REMOTE) && programs && !known {
        let says = format!("Feeds text of another machine to {what}");
        act.draft.effect(Action::Opaque, Risk::Critical, says, span);
        return Flow::of(Sources::NETWORK);
    }
    if stdin.from.has(Sources::HIDDEN) {
        let risk = match known || !programs {
            true => Risk::Dangerous,
            false => Risk::Critical,
        };
        act.draft
            .effect(Action::Opaque, risk, "Runs decoded text", span);
    }
    if let Some(text) = &stdin.partly
        && language == Language::Shell
    {
        let mut inner = act.call.with_args(Vec::new(), &act.draft.program.name);
        inner.stdin = Default::default();
        let mut state = State::new(act.cwd.clone());
        act.judge.text(text, &mut state, &inner, span);
    }
    if let Some(text) = &stdin.text {
        if language == Language::Shell && stdin.from.has(Sources::UNKNOWN) {
            act.judge
                .opaque("Runs text that is only known when it runs", span);
        }
        let given = Given {
            text: text.clone(),
            exact: true,
            span,
            ..Given::default()
        };
        if language != Language::Shell {
            code::judge(act, language, &given);
            return Flow::of(Sources::PROGRAM);
        }
        let mut inner = act.call.with_args(Vec::new(), &act.draft.program.name);
        inner.stdin = Default::default();
        let mut state = State::new(act.cwd.clone());
        return act.judge.text(text, &mut state, &inner, span);
    }
    let redirected = act
        .call
        .redirects
        .iter()
        .any(|redirect| redirect.kind == RedirectKind::Read);
    let only_a_file = stdin.from == Sources::FILE && redirected;
    if stdin != Flow::default() && !only_a_file {
        let says = format!("Feeds unknown text to {what}");
        act.draft
            .effect(Action::Opaque, Risk::Dangerous, says.clone(), span);
        act.judge.opaque(says, span);
    }
    Flow::of(Sources::PROGRAM)
}

/// Text for a new shell, named by what runs it.
pub(crate) fn text(act: &mut Act<'_, '_>, text: &Given, wrapper: &str) -> Flow {
    text_with(act, text, wrapper, &[])
}

fn text_with(act: &mut Act<'_, '_>, text: &Given, wrapper: &str, args: &[Given]) -> Flow {
    if text.from.has(Sources::NETWORK) {
        act.draft.effect(
            Action::Opaque,
            Risk::Critical,
            "Runs a download in a shell",
            text.span,
        );
        return Flow::of(Sources::NETWORK);
    }
    let unknown = is_wholly_unknown(text);
    if unknown && text.from.has(Sources::REMOTE) {
        let says = "Runs text of another machine in a shell";
        act.draft
            .effect(Action::Opaque, Risk::Critical, says, text.span);
        return Flow::of(Sources::NETWORK);
    }
    if text.from.has(Sources::HIDDEN) {
        // Inside of other text it is a word of a command more often than a command.
        let risk = match unknown {
            true => Risk::Critical,
            false => Risk::Dangerous,
        };
        act.draft
            .effect(Action::Opaque, risk, "Runs decoded text", text.span);
    }
    if unknown {
        let says = "Runs text that is only known when it runs";
        act.draft
            .effect(Action::Opaque, Risk::Dangerous, says, text.span);
        act.judge.opaque(says, text.span);
        return Flow::of(Sources::UNKNOWN);
    }
    let mut inner = act.call.with_args(Vec::new(), wrapper);
    inner.redirects.clear();
    let mut state = act.state.below(act.cwd.clone());
    for (number, arg) in args.iter().enumerate() {
        let value = match arg.literal() {
            Some(text) => Value::known(text.as_bytes()),
            None => Value::unknown(),
        };
        state.variables.set(number.to_string().as_bytes(), value);
    }
    if !args.is_empty() {
        state.positional = Some(std::rc::Rc::new(args[1..].to_vec()));
    }
    let source = if text.exact {
        text.text.clone()
    } else {
        // What is unknown must not be read as a command of its own.
        text.text
            .replace(UNKNOWN_OUTPUT, "$_")
            .replace("${…}", "$_")
    };
    act.judge.text(&source, &mut state, &inner, text.span)
}

/// Whether a text is nothing but what a substitution prints.
pub(crate) fn is_output(text: &str) -> bool {
    matches!(text.trim(), UNKNOWN_OUTPUT | "${…}")
}

fn is_wholly_unknown(text: &Given) -> bool {
    if text.exact {
        return false;
    }
    let rest = text.text.trim();
    rest == UNKNOWN_OUTPUT
        || (rest.starts_with('$') && !rest.contains(|c: char| c.is_whitespace() || c == ';'))
}

/// A program that another one starts by name, perhaps with arguments in the same word.
pub(crate) fn program(act: &mut Act<'_, '_>, given: &Given) {
    if !given.exact {
        let says = "Program is only known when it runs";
        act.draft
            .effect(Action::Opaque, Risk::Dangerous, says, given.span);
        return;
    }
    act.shell_text(given);
}

/// A file that is started, or handed to an interpreter.
pub(crate) fn file(
    judge: &mut Judge<'_>,
    state: &mut State,
    call: &Call,
    draft: &mut Draft,
    path: &Given,
    language: Option<Language>,
) {
    let flow = judge.content(path, &state.cwd);
    let remote = flow.from.has(Sources::REMOTE) && flow.text.is_none();
    let downloaded = flow.from.has(Sources::NETWORK) || remote;
    let (risk, says) = if downloaded && path.content.is_some() {
        (Risk::Critical, "Pipes a download into a shell")
    } else if downloaded {
        (Risk::Critical, "Runs a downloaded file")
    } else if flow.from.has(Sources::HIDDEN) && flow.text.is_none() {
        (Risk::Critical, "Runs decoded text")
    } else if flow.from.has(Sources::HIDDEN) {
        (Risk::Dangerous, "Runs decoded text")
    } else {
        (Risk::Normal, "")
    };
    let action = Action::Runs {
        program: path.text.clone(),
    };
    draft.effect(action, risk, says, path.span);
    let Some(text) = flow.text.filter(|_| !downloaded) else {
        if path.content.is_some() && flow.from.has(Sources::UNKNOWN.with(Sources::PROGRAM)) {
            let says = "Runs text that is only known when it runs";
            judge.opaque(says, path.span);
        }
        return;
    };
    let language = language.unwrap_or_else(|| first_line_language(&text));
    let mut inner = call.with_args(Vec::new(), &path.text);
    inner.stdin = call.stdin.clone();
    if language == Language::Shell {
        judge.script_bomb(&text, &path.text, call);
        let mut fresh = State::new(state.cwd.clone());
        judge.text(&text, &mut fresh, &inner, path.span);
    } else {
        let given = Given::known(text, path.span);
        code::judge_parts(judge, state, call, draft, language, &given);
    }
}

/// The language that the first line of a script names.
pub(crate) fn first_line_language(text: &str) -> Language {
    let first = text.lines().next().unwrap_or_default();
    let Some(interpreter) = first.strip_prefix("#!") else {
        return Language::Shell;
    };
    let name = interpreter
        .split_ascii_whitespace()
        .find(|word| !word.ends_with("/env") && !word.starts_with('-'))
        .and_then(|word| word.rsplit('/').next())
        .unwrap_or_default();
    match super::knowledge::program(name).map(|spec| spec.input) {
        Some(Input::Code(language)) => language,
        _ => Language::Other,
    }
}

/// The language that a source's name gives away, for programs that run sources. (The kernel and
/// the shells look at the first line alone.)
pub(crate) fn language_by_name(path: &str) -> Option<Language> {
    let (_, ending) = path.rsplit('/').next()?.rsplit_once('.')?;
    Some(match ending {
        "py" => Language::Python,
        "pl" => Language::Perl,
        "rb" => Language::Ruby,
        "js" | "mjs" | "cjs" | "ts" | "mts" => Language::JavaScript,
        "php" => Language::Php,
        "lua" => Language::Lua,
        "R" | "r" => Language::R,
        "ps1" => Language::PowerShell,
        "go" | "rs" | "c" | "cc" | "cpp" | "java" | "kt" | "kts" | "cs" | "csx" | "swift"
        | "scala" | "groovy" | "dart" | "cr" | "v" | "nim" | "zig" | "d" | "hs" | "ml" | "ex"
        | "exs" | "erl" | "jl" | "tcl" | "exp" | "raku" | "rkt" | "clj" | "vala" => Language::Other,
        _ => return None,
    })
}

/// What a decoder prints.
pub(crate) fn decoded(program: &str, flow: &Flow) -> Flow {
    let from = flow.from.with(Sources::DECODED);
    let partly = None;
    let text = flow.text.as_deref().and_then(|text| {
        let bytes = match program {
            "base64" | "gbase64" | "b64decode" | "openssl" | "uudecode" => {
                decode::base64(text.as_bytes())?
            }
            "base32" => decode::base32(text.as_bytes())?,
            "xxd" => decode::hex(text.as_bytes()),
            _ => return None,
        };
        String::from_utf8(bytes).ok()
    });
    Flow { text, from, partly }
}
