//! One command on the table: what is known of its program, and its words taken apart.

use super::knowledge::{Role, Spec};
use super::options::{self, Reading};
use crate::classify::draft::Draft;
use crate::classify::flow::Flow;
use crate::classify::given::Given;
use crate::classify::harm::{self, Touch};
use crate::classify::judge::{Call, Judge};
use crate::classify::place;
use crate::classify::state::{Cwd, State};
use crate::effect::Target;
use crate::risk::Risk;

/// More words than this are not judged.
const MAX_ARGS: usize = 2_048;
/// What more files than this hold is not followed.
const MAX_FILES: usize = 64;

/// A command, its entry and everything a handler needs.
pub(crate) struct Act<'a, 'c> {
    pub judge: &'a mut Judge<'c>,
    pub state: &'a mut State,
    pub call: &'a Call,
    pub draft: &'a mut Draft,
    /// The entry: of the sub-command, when there is one.
    pub spec: &'static Spec,
    /// The words of the sub-command that was recognised.
    pub sub: Vec<String>,
    /// The words behind the program's name and its sub-command.
    pub args: &'a [Given],
    /// How many words of the call stand before `args`.
    pub offset: usize,
    pub reading: Reading,
    /// The folder the program works in.
    pub cwd: Cwd,
}

impl<'a, 'c> Act<'a, 'c> {
    pub(crate) fn new(
        judge: &'a mut Judge<'c>,
        state: &'a mut State,
        call: &'a Call,
        draft: &'a mut Draft,
        spec: &'static Spec,
    ) -> Self {
        // `cargo +nightly build`: the toolchain stands before everything else.
        let toolchain = draft.program.name == "cargo"
            && call
                .args
                .get(1)
                .is_some_and(|word| word.text.starts_with('+'));
        let offset = 1 + usize::from(toolchain);
        let mut words = &call.args[offset..];
        if words.len() > MAX_ARGS {
            draft.note(Risk::Dangerous, "Too many arguments to judge");
            words = &words[..MAX_ARGS];
        }
        let cwd = state.cwd.clone();
        let mut act = Act {
            judge,
            state,
            call,
            draft,
            spec,
            sub: Vec::new(),
            args: words,
            offset,
            reading: Reading::default(),
            cwd,
        };
        act.resolve();
        act
    }

    /// Finds the sub-command and reads the options.
    fn resolve(&mut self) {
        let mut specs = vec![self.spec];
        let mut before = Reading::default();
        loop {
            let reading = options::read(&specs, self.args);
            let words: Vec<&Given> = reading
                .positionals
                .iter()
                .map(|&index| &self.args[index])
                .collect();
            let found = match self.spec.subs.get() {
                [] => None,
                subs => options::sub_command(subs, &words, self.args),
            };
            let Some((spec, length)) = found else {
                before.flags.extend(reading.flags);
                before.unknown.extend(reading.unknown);
                before.positionals = reading.positionals;
                before.modifiers = before.modifiers.with(reading.modifiers);
                before.uncertain |= reading.uncertain;
                self.reading = before;
                return;
            };
            let last = reading.positionals[length - 1];
            self.sub
                .extend(words[..length].iter().map(|word| word.text.clone()));
            // Options before the sub-command belong to the program.
            if last >= length {
                let leading: Vec<Given> = self.args[..last]
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| !reading.positionals[..length].contains(index))
                    .map(|(_, given)| given.clone())
                    .collect();
                let first = options::read(&specs, &leading);
                before.flags.extend(first.flags);
                before.unknown.extend(first.unknown);
                before.modifiers = before.modifiers.with(first.modifiers);
            }
            self.args = &self.args[last + 1..];
            self.offset += last + 1;
            if spec.inherit {
                specs.insert(0, spec);
            } else {
                specs = vec![spec];
            }
            self.spec = spec;
        }
    }

    /// `-C dir`: paths of this command are relative to it.
    pub(crate) fn change_folder(&mut self) {
        for seen in &self.reading.flags {
            if seen.flag.role != Role::Directory {
                continue;
            }
            if let Some(value) = &seen.value {
                self.cwd = folder(&self.cwd, value);
            }
        }
    }

    /// The positionals.
    pub(crate) fn positionals(&self) -> impl Iterator<Item = &'a Given> {
        let args = self.args;
        self.reading.positionals.iter().map(|&index| &args[index])
    }

    /// The path an argument names.
    pub(crate) fn target(&self, given: &Given) -> Target {
        self.judge.target(given, &self.cwd)
    }

    /// Adds the effect of touching a path.
    pub(crate) fn touch(&mut self, touch: Touch, given: &Given) {
        let target = self.target(given);
        harm::touch(self.draft, touch, given, target);
    }

    /// Judges the command that begins at an argument.
    pub(crate) fn inner(&mut self, index: usize) -> Flow {
        let name = self.draft.program.name.clone();
        let inner = self.call.inner(self.offset + index, &name);
        self.inner_call(inner)
    }

    /// Judges a command made of other words.
    pub(crate) fn inner_args(&mut self, args: Vec<Given>) -> Flow {
        let name = self.draft.program.name.clone();
        let inner = self.call.with_args(args, &name);
        self.inner_call(inner)
    }

    /// Judges a command in the folder of this one, without changing this shell.
    pub(crate) fn inner_call(&mut self, call: Call) -> Flow {
        let cwd = self.cwd.clone();
        self.judge.isolated(self.state, |judge, state| {
            state.cwd = cwd;
            judge.invoke(state, &call)
        })
    }

    /// Judges the words from an argument on, joined, as text for a shell.
    pub(crate) fn shell_words(&mut self, index: usize) -> Flow {
        let words = &self.args[index..];
        let Some(first) = words.first() else {
            return Flow::default();
        };
        let mut joined = first.clone();
        for word in &words[1..] {
            joined.text.push(' ');
            joined.text.push_str(&word.text);
            joined.exact &= word.exact;
            joined.from = joined.from.with(word.from);
        }
        self.shell_text(&joined)
    }

    /// Judges an argument as text for a new shell.
    pub(crate) fn shell_text(&mut self, text: &Given) -> Flow {
        let name = self.draft.program.name.clone();
        super::run::text(self, text, &name)
    }

    /// What it reads on its standard input.
    pub(crate) fn stdin(&self) -> Flow {
        (*self.call.stdin).clone()
    }

    /// What its input and the files it reads give.
    pub(crate) fn read_flow(&mut self) -> Flow {
        let roles = options::roles(&self.spec.args, self.reading.positionals.len());
        let files: Vec<Given> = self
            .positionals()
            .zip(roles)
            .filter(|(_, role)| *role == Role::Read)
            .map(|(given, _)| given.clone())
            .take(MAX_FILES)
            .collect();
        if files.is_empty() {
            return self.stdin();
        }
        let mut flow = Flow::literal("");
        for file in files {
            let one = if file.text == "-" {
                self.stdin()
            } else {
                self.judge.content(&file, &self.cwd)
            };
            flow = flow.and(&one);
        }
        flow
    }

    /// Remembers what the line wrote into a file.
    pub(crate) fn wrote(&mut self, file: &Given, flow: Flow) {
        if let Some(path) = self.target(file).resolved {
            self.judge.runs_later(&path, &flow, self.call);
            self.judge.traces.files.insert(path, flow);
        }
    }
}

/// The folder that `cd value` leads to.
pub(crate) fn folder(cwd: &Cwd, value: &Given) -> Cwd {
    if !value.exact {
        return Cwd::Unknown;
    }
    if value.text.starts_with('/') {
        return Cwd::Known(place::normal(&value.text));
    }
    match cwd {
        Cwd::Known(cwd) => Cwd::Known(place::normal(&format!("{cwd}/{}", value.text))),
        Cwd::Unknown => Cwd::Unknown,
    }
}
