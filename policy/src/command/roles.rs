//! What follows from an argument, by its role.

use super::act::Act;
use super::code;
use super::knowledge::{self, Input, Language, Modifiers, Role, Spec};
use super::{container, git, install, run, url};
use crate::classify::arguments::sounds_secret;
use crate::classify::draft::Draft;
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;
use crate::classify::harm::Touch;
use crate::classify::judge::{Call, Judge};
use crate::classify::state::{Cwd, State};
use crate::effect::Action;
use crate::redact::holds_token;
use crate::risk::Risk;

impl Act<'_, '_> {
    /// Adds what an argument does in its role.
    pub(crate) fn role(&mut self, role: Role, given: &Given) {
        let modifiers = self.reading.modifiers;
        let reads = modifiers.has(Modifiers::READS);
        let recursive = modifiers.has(Modifiers::RECURSIVE);
        match role {
            Role::Data | Role::Directory | Role::Command => {}
            Role::Read if modifiers.has(Modifiers::EDITS) => self.touch(Touch::Write, given),
            Role::Read => self.touch(Touch::Read, given),
            Role::Write
            | Role::Make
            | Role::Append
            | Role::Delete
            | Role::Move
            | Role::Attributes
                if reads =>
            {
                self.touch(Touch::Read, given);
            }
            // strace's way to write into a program.
            Role::Write
                if given.text.starts_with(['|', '!']) && self.draft.program.name == "strace" =>
            {
                let command = given.part(&given.text[1..]);
                self.shell_text(&command);
            }
            Role::Write => {
                if given.text != "-" {
                    self.touch(Touch::Write, given);
                }
            }
            Role::Make => self.touch(Touch::Make, given),
            Role::Append => self.touch(Touch::Append, given),
            Role::Delete if recursive => self.touch(Touch::DeleteTree, given),
            Role::Delete => self.touch(Touch::Delete, given),
            Role::Move => self.touch(Touch::Move, given),
            Role::Attributes if recursive => self.touch(Touch::AttributesTree, given),
            Role::Attributes => self.touch(Touch::Attributes, given),
            Role::Host => url::host(self, given),
            Role::Remote => url::remote(self, given),
            Role::Shell => {
                self.shell_text(given);
            }
            Role::Program => run::program(self, given),
            Role::Script if run::is_input(&given.text) => {
                // Known text is looked through where the program reads it.
                let stdin = &self.call.stdin;
                let program = knowledge::program(&self.draft.program.name);
                let looked = program.is_some_and(|spec| matches!(spec.input, Input::Code(_)));
                let language = program.and_then(takes_code);
                if let (false, Some(language), Some(text)) = (looked, language, &stdin.text) {
                    // `awk -f -`: the text is its program.
                    let source = Given::known(text.clone(), given.span);
                    return code::argument(self, language, &source);
                }
                if **stdin != Flow::default() && !(looked && stdin.text.is_some()) {
                    let strange = Sources::FOREIGN.with(Sources::HIDDEN);
                    let risk = match stdin.text.is_none() && stdin.from.has(strange) {
                        true => Risk::Critical,
                        false => Risk::Dangerous,
                    };
                    let says = "Runs what it reads on its input";
                    self.draft.effect(Action::Opaque, risk, says, given.span);
                }
            }
            Role::Script if given.text.starts_with("data:") => {
                let source = given.text.split_once(',').map_or("", |(_, text)| text);
                let source = given.part(source);
                code::argument(self, Language::JavaScript, &source);
            }
            Role::Script if url::is_elsewhere(&given.text) => {
                let says = "Runs code from the network";
                self.draft
                    .effect(Action::Opaque, Risk::Dangerous, says, given.span);
                url::host(self, given);
            }
            Role::Script => {
                self.touch(Touch::Read, given);
                let (judge, state, call) = (&mut *self.judge, &mut *self.state, self.call);
                let language = run::language_by_name(&given.text);
                run::file(judge, state, call, self.draft, given, language);
            }
            Role::Environment => {
                environment(self.judge, self.state, self.call, self.draft, given);
            }
            Role::Mount => container::mount(self, given),
            Role::GitConfig => git::setting(self, given),
            Role::Package => install::package(self, given),
            Role::Registry => install::registry(self, given),
            Role::Definition => url::definition(self, given),
            Role::Upload => url::upload(self, given),
            Role::Send => url::send(self, given),
            Role::Opaque if only_debugs(&self.draft.program.name, &given.text) => {
                self.draft.raise(Risk::Normal);
            }
            Role::Opaque => {
                self.draft.effect(
                    Action::Opaque,
                    Risk::Dangerous,
                    "Cannot be known beforehand",
                    given.span,
                );
                if let Some(command) = debuggers_shell(&given.text) {
                    let command = given.part(command);
                    self.shell_text(&command);
                }
                // `tar --checkpoint-action=exec=command`
                if let Some(command) = given.text.strip_prefix("exec=") {
                    let command = given.part(command);
                    self.shell_text(&command);
                }
            }
            Role::Pid => {}
            Role::Code(language) => code::argument(self, language, given),
        }
    }
}

/// The language of the source that an option of the program takes.
fn takes_code(spec: &Spec) -> Option<Language> {
    spec.flags.iter().find_map(|flag| match flag.role {
        Role::Code(language) => Some(language),
        _ => None,
    })
}

/// Commands of a debugger that stay inside the program it runs.
fn only_debugs(program: &str, command: &str) -> bool {
    const DEBUGGERS: &[&str] = &["gdb", "lldb", "cgdb", "rust-gdb", "rust-lldb"];
    const PLAIN: &[&str] = &[
        "run",
        "r",
        "start",
        "bt",
        "backtrace",
        "where",
        "info",
        "i",
        "thread",
        "frame",
        "f",
        "up",
        "down",
        "list",
        "l",
        "print",
        "p",
        "x",
        "disassemble",
        "disas",
        "break",
        "b",
        "tbreak",
        "watch",
        "continue",
        "c",
        "next",
        "n",
        "step",
        "s",
        "finish",
        "until",
        "quit",
        "q",
        "kill",
        "detach",
        "display",
        "ptype",
        "whatis",
        "echo",
        "target",
        "breakpoint",
        "process",
        "register",
        "image",
        "delete",
        "catch",
    ];
    let mut words = command.split_ascii_whitespace();
    let first = words.next().unwrap_or_default();
    let switch = first == "set"
        && matches!(
            words.next(),
            Some("pagination" | "confirm" | "print" | "width" | "height" | "args" | "breakpoint")
        );
    DEBUGGERS.contains(&program)
        && (switch || PLAIN.contains(&first))
        && !command.contains(['(', '|', '`', '!', '\n'])
}

/// `shell cmd`, `!cmd`: what a debugger hands to a shell.
fn debuggers_shell(command: &str) -> Option<&str> {
    let starts = ["shell ", "!", "platform shell ", "make "];
    starts.iter().find_map(|start| command.strip_prefix(start))
}

/// Options that name a command, in the words of the programs that take them from a variable.
fn starts_something(value: &str) -> bool {
    const SIGNS: &[&str] = &[
        "exec",
        "system(",
        "!",
        "$(",
        "`",
        "|",
        "to-command",
        "-I",
        "program",
        "preview",
        "pager",
        "editor",
        "sshcommand",
        "fsmonitor",
        "hookspath",
        "alias.",
        "helper",
        "reload(",
        "become(",
    ];
    let value = value.to_ascii_lowercase();
    SIGNS
        .iter()
        .any(|sign| value.contains(&sign.to_ascii_lowercase()))
}

/// A key written out behind a name that says so; what only stands for one is none.
fn is_secret(name: &str, value: &Given) -> bool {
    const STANDS_FOR: &[&str] = &[
        "example",
        "your",
        "xxx",
        "dummy",
        "fake",
        "test",
        "changeme",
        "placeholder",
        "secret",
        "password",
        "token",
        "...",
    ];
    let text = value.text.as_str();
    let lower = text.to_ascii_lowercase();
    sounds_secret(name)
        && value.exact
        && text.len() >= 16
        && text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_uppercase())
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
        && !text.contains([' ', '<', '{', ':'])
        && !text.starts_with(['/', '~', '.'])
        && !STANDS_FOR.iter().any(|word| lower.contains(word))
}

/// A variable handed to a program: some of them run code.
pub(crate) fn environment(
    judge: &mut Judge<'_>,
    state: &mut State,
    call: &Call,
    draft: &mut Draft,
    given: &Given,
) {
    let Some((name, value)) = given.text.split_once('=') else {
        return;
    };
    let Some(variable) = knowledge::variable(name.trim_end_matches('+')) else {
        return;
    };
    let value = given.part(value);
    if value.text.is_empty() {
        return;
    }
    let held = match &given.content {
        Some(content) => content.from,
        None if value.exact && value.text.starts_with(['/', '.']) => {
            let content = judge.content(&value, &state.cwd);
            match content.text {
                Some(_) => Sources::NONE,
                None => content.from,
            }
        }
        None => Sources::NONE,
    };
    let says = if given.from.with(held).has(Sources::NETWORK) || held.has(Sources::REMOTE) {
        Some("Runs what the network sends")
    } else if held.has(Sources::HIDDEN) {
        Some("Runs decoded text")
    } else {
        None
    };
    if let Some(says) = says {
        draft.effect(Action::Opaque, Risk::Critical, says, given.span);
    }
    match variable.role {
        Role::Opaque if name.starts_with("BASH_FUNC_") => {
            // A function for the shells below, exported as bash does it.
            draft.raise(Risk::Dangerous);
            draft.note(Risk::Dangerous, variable.says);
            let mut inner = call.with_args(Vec::new(), name);
            inner.stdin = Default::default();
            let text = format!("f{}", value.text);
            judge.isolated(state, |judge, _| {
                let mut fresh = State::new(Cwd::Unknown);
                judge.text(&text, &mut fresh, &inner, given.span)
            });
        }
        Role::Opaque => {
            if starts_something(&value.text) {
                draft.effect(
                    Action::Opaque,
                    Risk::Dangerous,
                    variable.says.get(),
                    given.span,
                );
            }
        }
        // The value is a command: what it does counts.
        Role::Shell | Role::Program if value.exact => {
            // LESSOPEN says with a bar that it wants a pipe.
            let value = value.part(value.text.trim_start_matches(['|', '-']));
            if !matches!(
                value.text.as_str(),
                "cat" | "less" | "more" | "true" | ":" | "most"
            ) {
                draft.kind(knowledge::Kind::Runs, Risk::Normal, "", given.span);
                let mut inner = call.with_args(Vec::new(), name);
                inner.stdin = Default::default();
                judge.isolated(state, |judge, state| {
                    judge.text(&value.text, state, &inner, given.span)
                });
                draft.raise(variable.risk);
                if variable.risk >= Risk::Dangerous {
                    draft.note(variable.risk, variable.says);
                }
            }
        }
        _ => draft.kind(
            knowledge::Kind::Runs,
            match holds_token(&value.text) || is_secret(name, &value) {
                true => variable.risk.max(Risk::Dangerous),
                false => variable.risk,
            },
            variable.says.get(),
            given.span,
        ),
    }
}
