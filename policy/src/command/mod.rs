//! Judges one command by what is known of its program: options, sub-commands, arguments.

mod act;
pub(crate) mod builtin;
mod code;
mod container;
mod copies;
mod elsewhere;
mod files;
mod filters;
mod git;
mod install;
pub(crate) mod knowledge;
mod network;
mod options;
mod origin;
mod project;
mod request;
mod roles;
mod run;
mod scratch;
mod script;
mod search;
mod secrets;
mod service;
pub(crate) mod table;
mod unknown;
mod url;
mod verbs;
mod wrapper;

use crate::classify::draft::Draft;
use crate::classify::flow::{Flow, Sources};
use crate::classify::harm::{Touch, touch};
use crate::classify::judge::{Call, Judge};
use crate::classify::redirect::is_connection;
use crate::classify::state::State;
use crate::classify::verdict::RedirectKind;
use crate::effect::{Action, Place};
use crate::risk::Risk;

use act::Act;
use knowledge::{Handler, Input, Language, Modifiers, Output, Role, Spec, Unknown};

pub(crate) use builtin::is_builtin;
pub(crate) use code::judge_parts as source_text;
pub(crate) use run::first_line_language;

/// More positional arguments than this are not judged one by one.
const MAX_POSITIONALS: usize = 1024;
/// And so many options; the longest lines of compilers have a few hundred.
const MAX_OPTIONS: usize = 640;

/// Judges a command; gives back what it prints.
pub(crate) fn judge(
    judge: &mut Judge<'_>,
    state: &mut State,
    call: &Call,
    draft: &mut Draft,
    spec: Option<&'static Spec>,
) -> Flow {
    if !draft.program.trusted {
        draft.raise(Risk::Normal);
        run::file(judge, state, call, draft, &call.args[0], None);
    }
    let Some(spec) = spec else {
        draft.raise(Risk::Normal);
        unknown::program(judge, state, call, draft);
        let mut act = Act::new(judge, state, call, draft, &Spec::PLAIN);
        project::put_there(&mut act);
        return Flow::of(Sources::PROGRAM);
    };
    let mut act = Act::new(judge, state, call, draft, spec);
    project::put_there(&mut act);
    if asks(&act) {
        return Flow::of(Sources::PROGRAM);
    }
    act.change_folder();
    install::note_client(&mut act);
    builtin::subscripts(&mut act);
    url::lookup(&mut act);
    script::pager(&mut act);
    files::mode(&mut act);
    if matches!(act.spec.handler, Handler::Tar | Handler::Rsync) {
        bounded(&mut act);
    }
    let flow = handle(&mut act);
    if act.spec.handler == Handler::None && act.spec.args.is_empty() {
        unknown::undescribed(&mut act);
    }
    copies::follow(&mut act);
    files::whole_trees(&mut act);
    project::steps(&mut act);
    secrets::memory(&mut act);
    secrets::dumps(&mut act);
    let flow = origin::marked(&act, flow);
    let flow = secrets::marked(&act, flow);
    let flow = scratch::marked(&act, flow);
    if act.reading.modifiers.has(Modifiers::CALM) {
        act.draft.calm();
    }
    flow
}

/// Every path is looked up in the tables: not more of them than this, and then it is said.
fn bounded(act: &mut Act<'_, '_>) {
    if act.reading.positionals.len() > MAX_POSITIONALS {
        act.reading.positionals.truncate(MAX_POSITIONALS);
        act.draft
            .note(Risk::Dangerous, "Too many arguments to judge");
    }
}

/// Whether the command only prints help or a version: `--help` anywhere, `-h` only alone, because
/// it may mean a host or a header elsewhere.
fn asks(act: &Act<'_, '_>) -> bool {
    act.reading.flags.iter().any(|seen| {
        let long = seen.word.text.starts_with("--");
        seen.flag.modifiers.has(Modifiers::INFO) && (long || act.args.len() == 1)
    })
}

/// What tables cannot express is done by a function of its own; the rest by [`describe`].
fn handle(act: &mut Act<'_, '_>) -> Flow {
    match act.spec.handler {
        Handler::None => describe(act),
        Handler::Alias => builtin::alias(act),
        Handler::At => service::at(act),
        Handler::Awk => script::awk(act),
        Handler::Carrier => unknown::carrier(act),
        Handler::Cd => builtin::cd(act),
        Handler::Chmod => files::chmod(act),
        Handler::Container => container::run(act),
        Handler::Crontab => service::crontab(act),
        Handler::Curl => network::curl(act),
        Handler::Dd => files::dd(act),
        Handler::Declare => builtin::declare(act),
        Handler::Echo => builtin::echo(act),
        Handler::Env => wrapper::env(act),
        Handler::Eval => builtin::eval(act),
        Handler::Exec => builtin::exec(act),
        Handler::Fetch => network::fetch(act),
        Handler::Find => search::find(act),
        Handler::Git => git::git(act),
        Handler::Elsewhere => elsewhere::elsewhere(act),
        Handler::HandsOut => elsewhere::hands_out(act),
        Handler::Inetd => service::inetd(act),
        Handler::Install => install::install(act),
        Handler::Interpreter => run::interpreter(act),
        Handler::Kill => service::kill(act),
        Handler::Netcat => network::netcat(act),
        Handler::Openssl => network::openssl(act),
        Handler::Parallel => wrapper::parallel(act),
        Handler::Printenv => wrapper::printenv(act),
        Handler::Printf => builtin::printf(act),
        Handler::Read => builtin::read(act),
        Handler::Rm => files::rm(act),
        Handler::Rsync => network::rsync(act),
        Handler::Sed => script::sed(act),
        Handler::Service => service::service(act),
        Handler::Set => builtin::set(act),
        Handler::Sftp => network::sftp(act),
        Handler::Shell => run::shell(act),
        Handler::Socat => network::socat(act),
        Handler::Source => builtin::source(act),
        Handler::Sql => script::sql(act),
        Handler::Ssh => network::ssh(act),
        Handler::Sudo => wrapper::sudo(act),
        Handler::Tar => files::tar(act),
        Handler::Tee => files::tee(act),
        Handler::Trap => builtin::trap(act),
        Handler::Unset => builtin::unset(act),
        Handler::Xargs => wrapper::xargs(act),
        Handler::Ztcp => network::ztcp(act),
    }
}

/// Judges by the tables alone; gives back what it prints.
pub(crate) fn describe(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    let flow = describe_positionals(act);
    verbs::sub_command(act);
    if let Input::Code(language) = reads_code(act)
        && !run::has_code(act)
    {
        return run::input(act, language);
    }
    flow.unwrap_or_else(|| output(act))
}

/// What it makes of its input when nothing else says what to run, or `-` does: `deno run -`.
fn reads_code(act: &Act<'_, '_>) -> Input {
    // Editors and their kin take commands from their input whatever file they work on.
    let always = matches!(act.spec.input, Input::Code(Language::Vim));
    if act.sub.is_empty() && (always || act.reading.positionals.is_empty()) {
        return act.spec.input;
    }
    let named = *act.call.stdin != Flow::default()
        && act.args.iter().any(|word| word.exact && word.text == "-");
    // A sub-command reads what its program reads.
    match knowledge::program(&act.draft.program.name) {
        Some(program) if named => program.input,
        _ => Input::Ignored,
    }
}

/// The risk and effect of the bare command.
pub(crate) fn describe_base(act: &mut Act<'_, '_>) {
    let spec = act.spec;
    if let Some(risk) = spec.bare.filter(|_| act.args.is_empty()) {
        act.draft.raise(risk);
    } else if !act.reading.modifiers.has(Modifiers::READS) {
        act.draft
            .kind(spec.kind, spec.risk, spec.says.get(), act.call.span);
    }
    if !act.reading.unknown.is_empty() {
        match spec.unknown {
            Unknown::Harmless => {}
            Unknown::Normal => act.draft.raise(Risk::Normal),
            Unknown::Dangerous => act.draft.note(Risk::Dangerous, "Unknown option"),
        }
    }
    if act.reading.uncertain
        && spec
            .flags
            .iter()
            .any(|flag| !matches!(flag.role, Role::Data | Role::Read) || flag.risk.is_some())
    {
        // `sort $x`: it may turn out to be `-o file`.
        act.draft.raise(Risk::Normal);
    }
}

/// What each option adds.
pub(crate) fn describe_flags(act: &mut Act<'_, '_>) {
    if act.reading.flags.len() > MAX_OPTIONS {
        act.draft
            .note(Risk::Dangerous, "Too many arguments to judge");
    }
    for index in 0..act.reading.flags.len().min(MAX_OPTIONS) {
        let seen = &act.reading.flags[index];
        let (flag, value, span) = (seen.flag, seen.value.clone(), seen.word.span);
        if flag.risk.is_some() || !flag.says.is_empty() || flag.kind != knowledge::Kind::None {
            let risk = flag.risk.unwrap_or(Risk::Normal);
            act.draft.kind(flag.kind, risk, flag.says.get(), span);
        }
        match value {
            Some(_) if flag.role == Role::Command => {
                // `fd -x rm {}`: the rest of the line.
                let word = seen_text(act, index);
                let at = act
                    .args
                    .iter()
                    .position(|arg| arg.exact && arg.text == word);
                if let Some(at) = at.filter(|at| at + 1 < act.args.len()) {
                    act.inner(at + 1);
                }
            }
            Some(value) => {
                act.role(flag.role, &value);
                if flag.role == Role::Data && prints_files(act.spec) {
                    unknown::reads_secret(act.judge, act.state, act.draft, &value);
                }
            }
            None => {}
        }
    }
}

/// Whether it prints what it reads. Programs that share a table disagree about what takes a
/// value: `cut -c 1`, but `od -c file`.
fn prints_files(spec: &Spec) -> bool {
    matches!(spec.output, Output::Same | Output::Files)
}

/// The word that an option stood in.
fn seen_text(act: &Act<'_, '_>, index: usize) -> String {
    act.reading.flags[index].word.text.clone()
}

/// What each positional adds; `Some` when one of them is a command whose output this is.
pub(crate) fn describe_positionals(act: &mut Act<'_, '_>) -> Option<Flow> {
    let count = act.reading.positionals.len();
    let targets_given = act.reading.modifiers.has(Modifiers::TARGET);
    let mut roles = options::roles(&act.spec.args, count);
    if targets_given && let Some(first) = act.spec.args.first() {
        roles.fill(first.role);
    }
    if count > MAX_POSITIONALS {
        roles.truncate(MAX_POSITIONALS);
        act.draft
            .note(Risk::Dangerous, "Too many arguments to judge");
    }
    for (place, role) in roles.into_iter().enumerate() {
        let Some(&index) = act.reading.positionals.get(place) else {
            break;
        };
        match role {
            Role::Command | Role::Shell if is_text_option(act, index) => {
                return Some(act.shell_words(index + 1));
            }
            Role::Command if act.draft.program.name == "command" && looks_up(act) => {
                // Names have no dashes: what has some is judged as if it ran.
                if act.args[index..]
                    .iter()
                    .any(|word| word.text.starts_with('-'))
                {
                    act.inner(index);
                }
                return None;
            }
            Role::Command => return Some(act.inner(index)),
            Role::Shell => return Some(act.shell_words(index)),
            // `vi +cmd file`
            Role::Write if act.args[index].text.starts_with('+') && takes_vim(act.spec) => {
                let command = act.args[index].part(&act.args[index].text[1..]);
                act.role(Role::Code(Language::Vim), &command);
            }
            _ => {
                let args = act.args;
                act.role(role, &args[index]);
            }
        }
    }
    None
}

/// `command -v rm` only says where it is.
fn looks_up(act: &Act<'_, '_>) -> bool {
    act.reading.has("-v") || act.reading.has("-V")
}

/// `flock file -c 'line'`, `sg group -c 'line'`, `capsh -- -c 'line'`: no command, but text for
/// a shell.
fn is_text_option(act: &Act<'_, '_>, index: usize) -> bool {
    let word = &act.args[index];
    word.exact && matches!(word.text.as_str(), "-c" | "--command") && index + 1 < act.args.len()
}

/// Whether an editor takes commands of vi.
fn takes_vim(spec: &Spec) -> bool {
    spec.flags
        .iter()
        .any(|flag| flag.role == Role::Code(Language::Vim))
}

/// What a program prints, by its entry.
pub(crate) fn output(act: &mut Act<'_, '_>) -> Flow {
    let decodes = act.reading.modifiers.has(Modifiers::DECODES);
    match act.spec.output {
        Output::Own => Flow::of(Sources::PROGRAM),
        Output::Network => Flow::of(Sources::NETWORK),
        Output::Same | Output::Files | Output::Decoded => {
            let mut flow = act.read_flow();
            if decodes || act.spec.output == Output::Decoded {
                flow = run::decoded(&act.draft.program.name, &flow);
            } else {
                flow = filters::filtered(act, flow);
            }
            flow
        }
    }
}

/// Variables set before a command: some of them run code.
pub(crate) fn assignments(
    judge: &mut Judge<'_>,
    state: &mut State,
    call: &Call,
    draft: &mut Draft,
) {
    for assignment in &call.assignments {
        roles::environment(judge, state, call, draft, assignment);
    }
    if call.args.is_empty() && !call.assignments.is_empty() {
        // Nothing but a variable of this shell.
        draft.raise(Risk::Safe);
    }
}

/// Files that redirections open.
pub(crate) fn redirects(call: &Call, draft: &mut Draft) {
    for redirect in &call.redirects {
        let Some(target) = &redirect.target else {
            continue;
        };
        let given = crate::classify::given::Given {
            text: target.typed.clone(),
            exact: target.resolved.is_some(),
            span: redirect.span,
            ..Default::default()
        };
        if is_connection(&target.typed) {
            let host = target.typed.split('/').nth(3).unwrap_or_default();
            let (risk, says) = if url::is_local(host) {
                (Risk::Normal, "")
            } else {
                (Risk::Dangerous, "Opens a raw network connection")
            };
            let action = Action::Network {
                host: Some(host.to_owned()),
            };
            draft.effect(action, risk, says, redirect.span);
            continue;
        }
        let how = match redirect.kind {
            RedirectKind::Read => Touch::Read,
            RedirectKind::Write | RedirectKind::ReadWrite => Touch::Write,
            RedirectKind::Append => Touch::Append,
            RedirectKind::Duplicate | RedirectKind::Here => continue,
        };
        if how == Touch::Read && target.place != Place::Secret && target.place != Place::Device {
            draft.effect(Action::Reads(target.clone()), Risk::Safe, "", redirect.span);
            continue;
        }
        touch(draft, how, &given, target.clone());
    }
}
