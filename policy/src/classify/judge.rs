//! Judges commands one by one: from an argument list to effects, and to what it prints.

use std::borrow::Cow;
use std::collections::HashMap;

pub(crate) use super::call::Call;
use super::context::Context;
use super::draft::{Draft, gravest_first};
use super::flow::{Flow, Sources};
use super::given::Given;
use super::place;
use super::state::{Cwd, State, Traces};
use super::verdict::{
    Classification, Form, Opaque, Program, Redirect, RedirectKind, SimpleCommand,
};
use crate::command::{self, knowledge};
use crate::effect::{Action, Effect, Span, Target};
use crate::risk::Risk;
use crate::shell;

/// Text inside text (`sh -c 'sh -c …'`) deeper than this is not followed.
const MAX_TEXTS: usize = 16;
/// More commands than this are not judged one by one: at some ten microseconds each they would
/// take longer than anybody should wait for an answer.
const MAX_COMMANDS: usize = 640;
const TOO_MANY: &str = "Too many commands to judge";
/// The same text may be judged again and again, under other names: not more bytes than this,
/// together.
const MAX_READ: usize = 192 * 1024;
const TOO_MUCH: &str = "Too much text to judge";
/// More reasons than this why something cannot be known are not kept.
const MAX_OPAQUE: usize = 64;

/// The state of one classification.
pub(crate) struct Judge<'c> {
    pub context: &'c Context,
    /// What the line has left behind outside its shells.
    pub traces: Traces,
    /// What the substitutions printed, by where they stand in the source at hand.
    outputs: HashMap<shell::Span, Flow>,
    /// The same of the sources around it, innermost last: variables keep their values there.
    around: Vec<HashMap<shell::Span, Flow>>,
    /// What process substitutions give to read, by where they stand.
    processes: HashMap<shell::Span, Flow>,
    /// How many substitutions deep.
    pub nesting: usize,
    /// Functions that are being judged, against recursion.
    pub active: Vec<String>,
    commands: Vec<SimpleCommand>,
    opaque: Vec<Opaque>,
    /// How many bytes of text were evaluated as arithmetic.
    pub arithmetic: usize,
    /// How many bytes of text inside of text were judged.
    read: usize,
    /// Whether a compound command is cut off at the end of its source.
    pub unfinished: bool,
    /// Inside text that is an argument: where that argument stands.
    pub(super) frame: Option<Span>,
    texts: usize,
    /// How many judgements deep that do not enter the answer.
    asides: usize,
    count: usize,
    /// The commands that are being judged, innermost last.
    open: Vec<usize>,
    /// The pipeline that is being judged, how many there were, and what holds it together.
    pipeline: usize,
    pipelines: usize,
    tie: Tie,
    marks: Vec<(usize, Mark)>,
}

/// What makes the commands at hand parts of the same pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tie {
    /// Nothing: each is one of its own.
    Nothing,
    /// They stand in the words of one command.
    Command,
    /// They stand between bars.
    Bars,
}

/// What the parts of a pipeline must know of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A shell or interpreter that runs what it reads.
    RunsInput,
    /// A raw connection to another machine.
    Connection,
    /// A shell or interpreter that runs what comes through a named pipe.
    RunsFifo,
}

impl<'c> Judge<'c> {
    pub(crate) fn new(context: &'c Context) -> Self {
        Judge {
            context,
            traces: Traces::default(),
            outputs: HashMap::new(),
            around: Vec::new(),
            processes: HashMap::new(),
            nesting: 0,
            active: Vec::new(),
            commands: Vec::new(),
            opaque: Vec::new(),
            arithmetic: 0,
            read: 0,
            unfinished: false,
            frame: None,
            texts: 0,
            asides: 0,
            count: 0,
            open: Vec::new(),
            pipeline: 0,
            pipelines: 0,
            tie: Tie::Nothing,
            marks: Vec::new(),
        }
    }

    /// The answer, once everything was judged.
    pub(crate) fn finish(mut self) -> Classification {
        let said = |opaque: &Opaque| opaque.why == TOO_MANY;
        if self.exhausted() && !self.opaque.iter().any(said) {
            // Wherever the limit was reached, what follows was not looked at.
            self.opaque(TOO_MANY, Span::default());
        }
        if self.traces.feeds_fifo {
            let reader = self.marks.iter().find(|(_, mark)| *mark == Mark::RunsFifo);
            if let Some(&(index, _)) = reader {
                self.connects(index, "Pipes a download into a shell");
            }
        }
        let risk = self
            .commands
            .iter()
            .map(|command| command.risk)
            .chain(self.opaque.iter().map(|_| Risk::Dangerous))
            .max()
            .unwrap_or(Risk::Safe);
        let mut reasons: Vec<(Risk, &str)> = Vec::new();
        for command in &self.commands {
            for phrase in &command.reasons {
                reasons.push((risk_of(command, phrase), phrase));
            }
        }
        for opaque in &self.opaque {
            reasons.push((Risk::Dangerous, &opaque.why));
        }
        let reasons = gravest_first(reasons);
        Classification {
            risk,
            reasons,
            commands: self.commands,
            opaque: self.opaque,
            form: Form::Compound,
        }
    }

    /// A shell's memory at the start.
    pub(crate) fn fresh_state(&self) -> State {
        State::new(Cwd::Known(place::normal(&self.context.cwd)))
    }

    /// Where something of the current source stands in the line.
    pub(crate) fn span(&self, span: shell::Span) -> Span {
        self.frame
            .unwrap_or_else(|| Span::new(span.start as usize, span.end as usize))
    }

    /// Whether some part of the source is no sentence of the shell's grammar.
    pub(crate) fn could_not_read(&self) -> bool {
        self.unfinished
            || self
                .opaque
                .iter()
                .any(|opaque| opaque.why.starts_with("Cannot be read"))
    }

    /// Something that cannot be known.
    pub(crate) fn opaque(&mut self, why: impl Into<String>, span: Span) {
        let why = why.into();
        let many = self.opaque.len() >= MAX_OPAQUE;
        if !many
            && !self
                .opaque
                .iter()
                .any(|known| known.why == why && known.span == span)
        {
            self.opaque.push(Opaque { why, span });
        }
    }

    /// Judges a pipeline; inside another one it is part of that.
    pub(crate) fn tied<T>(&mut self, tie: Tie, judge: impl FnOnce(&mut Self) -> T) -> T {
        let outer = (self.pipeline, self.tie);
        if self.tie == Tie::Nothing {
            self.pipelines += 1;
            self.pipeline = self.pipelines;
        }
        self.tie = self.tie.max(tie);
        let result = judge(self);
        (self.pipeline, self.tie) = outer;
        result
    }

    /// Judges commands that one command runs one after the other: each is a pipeline of its own,
    /// unless that command stands between bars.
    pub(crate) fn untied<T>(&mut self, judge: impl FnOnce(&mut Self) -> T) -> T {
        let outer = (self.pipeline, self.tie);
        if self.tie == Tie::Command {
            self.tie = Tie::Nothing;
        }
        let result = judge(self);
        (self.pipeline, self.tie) = outer;
        result
    }

    /// Judges text that a shell runs, in the shell `state`.
    pub(crate) fn text(&mut self, text: &str, state: &mut State, call: &Call, span: Span) -> Flow {
        if self.nested_deeply() {
            self.opaque("Text inside text, nested too deeply", span);
            return Flow::of(Sources::UNKNOWN);
        }
        if !self.may_read(text, span) {
            return Flow::of(Sources::UNKNOWN);
        }
        let script = shell::parse(text.as_bytes());
        self.untied(|judge| {
            judge.inside(span, |judge| {
                let flow = judge.script(&script, state, call);
                judge.uncalled_functions(state, call);
                flow
            })
        })
    }

    /// Whether there is still time for a text; otherwise it is said that there is none.
    pub(crate) fn may_read(&mut self, text: &str, span: Span) -> bool {
        let time = self.has_time(text.len());
        if !time {
            self.opaque(TOO_MUCH, span);
        }
        time
    }

    /// Whether there is still time for so many bytes, which count from now on.
    pub(crate) fn has_time(&mut self, bytes: usize) -> bool {
        self.read = self.read.saturating_add(bytes);
        self.read <= MAX_READ
    }

    /// Whether text inside text is no longer followed.
    pub(crate) fn nested_deeply(&self) -> bool {
        self.texts >= MAX_TEXTS
    }

    /// Judges something of another source, which stands as an argument in this one.
    pub(crate) fn inside<T>(&mut self, span: Span, judge: impl FnOnce(&mut Self) -> T) -> T {
        let frame = self.frame.replace(self.frame.unwrap_or(span));
        self.texts += 1;
        self.around.push(std::mem::take(&mut self.outputs));
        let result = judge(self);
        let outputs = self.around.pop().unwrap_or_default();
        let inner = std::mem::replace(&mut self.outputs, outputs);
        // What is only looked at leaves nothing behind.
        if self.asides == 0 {
            for (span, flow) in inner {
                self.printed(span, flow);
            }
        }
        self.texts -= 1;
        self.frame = frame;
        result
    }

    /// Notes what a substitution printed. The same place may stand for two of them: in
    /// different sources, or in a function that is called twice. Then either may be meant.
    pub(crate) fn printed(&mut self, place: shell::Span, flow: Flow) {
        let joined = match self.outputs.remove(&place) {
            Some(other) => other.or(&flow),
            None => flow,
        };
        self.outputs.insert(place, joined);
    }

    /// Notes what a process substitution gives to read.
    pub(crate) fn supplies(&mut self, place: shell::Span, flow: Flow) {
        let joined = match self.processes.remove(&place) {
            Some(other) => other.or(&flow),
            None => flow,
        };
        self.processes.insert(place, joined);
    }

    /// What the substitution at a place printed, here or in a source around this one.
    pub(crate) fn output_of(&self, place: shell::Span) -> Option<Cow<'_, Flow>> {
        let sources = self.around.iter().chain([&self.outputs]);
        let flows = sources.filter_map(|outputs| outputs.get(&place).map(Cow::Borrowed));
        flows.reduce(|one, other| Cow::Owned(one.into_owned().or(&other)))
    }

    /// What a process substitution at a place gives to read.
    pub(crate) fn process_of(&self, place: shell::Span) -> Option<&Flow> {
        self.processes.get(&place)
    }

    /// Whether there are too many commands to judge them all.
    pub(crate) fn exhausted(&self) -> bool {
        self.count > MAX_COMMANDS
    }

    /// Judges one command; gives back what it prints.
    pub(crate) fn invoke(&mut self, state: &mut State, call: &Call) -> Flow {
        self.count += 1;
        if self.exhausted() {
            self.opaque(TOO_MANY, call.span);
            return Flow::of(Sources::UNKNOWN);
        }
        let Some(name) = call.args.first() else {
            return self.bare(state, call);
        };
        if !name.exact && !name.glob {
            return self.unknown_name(call);
        }
        if name.exact
            && call
                .wrappers
                .last()
                .is_none_or(|wrapper| wrapper == "function")
            && let Some(flow) = self.defined_here(state, call)
        {
            return flow;
        }
        let program = self.program(name);
        if name.glob {
            // `/bin/c?t`: whatever matches is started.
            let index = self.reserve(call, &program);
            let mut draft = Draft::new(program);
            draft.effect(
                Action::Opaque,
                Risk::Dangerous,
                "Program name is a wildcard",
                name.span,
            );
            self.complete(index, draft);
            self.opaque("Program name is a wildcard", name.span);
            return Flow::of(Sources::PROGRAM);
        }
        let index = self.reserve(call, &program);
        if let Some(command) = self.commands.get_mut(index) {
            command.folder = state.cwd.path().map(str::to_owned);
        }
        let mut draft = Draft::new(program);
        command::assignments(self, state, call, &mut draft);
        command::redirects(call, &mut draft);
        let spec = knowledge::program(&draft.program.name);
        self.open.push(index);
        let flow = command::judge(self, state, call, &mut draft, spec);
        self.open.pop();
        self.complete(index, draft);
        flow
    }

    /// Only assignments and redirections.
    fn bare(&mut self, state: &mut State, call: &Call) -> Flow {
        if call.assignments.is_empty() && call.redirects.is_empty() {
            return Flow::literal("");
        }
        let index = self.reserve(call, &Program::default());
        let mut draft = Draft::new(Program::default());
        command::assignments(self, state, call, &mut draft);
        command::redirects(call, &mut draft);
        self.complete(index, draft);
        let reads = |redirect: &Redirect| redirect.kind == RedirectKind::Read;
        if call.assignments.is_empty() && call.redirects.iter().any(reads) {
            // `$(< file)` is what the file holds.
            let mut flow = (*call.stdin).clone();
            if flow.text.is_none() {
                flow.from = flow.from.with(Sources::FILE);
            }
            return flow;
        }
        Flow::literal("")
    }

    /// The program's name is only known when it runs.
    fn unknown_name(&mut self, call: &Call) -> Flow {
        let name = &call.args[0];
        let program = Program {
            name: String::new(),
            typed: name.text.clone(),
            ..Program::default()
        };
        let index = self.reserve(call, &program);
        let mut draft = Draft::new(program);
        let (risk, says) = if name.from.has(Sources::NETWORK) {
            (Risk::Critical, "Runs what the network sends")
        } else if name.from.has(Sources::HIDDEN) {
            (Risk::Critical, "Runs decoded text")
        } else {
            (Risk::Dangerous, "Program is only known when it runs")
        };
        draft.effect(Action::Opaque, risk, says, name.span);
        command::redirects(call, &mut draft);
        self.complete(index, draft);
        self.opaque(says, name.span);
        Flow::of(Sources::PROGRAM.with(name.from))
    }

    fn program(&self, name: &Given) -> Program {
        let typed = name.text.clone();
        let (folder, last) = match typed.rsplit_once('/') {
            Some((folder, last)) => (Some(folder), last),
            None => (None, typed.as_str()),
        };
        let trusted = match folder {
            None => true,
            Some(folder) => self
                .context
                .trusted_path
                .iter()
                .any(|known| known == folder),
        };
        let name = match folder {
            // zsh's way to a program's path.
            None => last
                .strip_prefix('=')
                .filter(|name| knowledge::program(name).is_some())
                .unwrap_or(last),
            // Whoever starts it, which is the shell.
            Some(folder) if last == "exe" && folder.starts_with("/proc/") => "sh",
            Some(_) => last,
        };
        Program {
            name: name.to_owned(),
            trusted,
            doubt: None,
            builtin: folder.is_none() && command::is_builtin(last),
            defined_here: false,
            typed,
        }
    }

    /// Notes something about the command that is being judged.
    pub(crate) fn mark(&mut self, mark: Mark) {
        if let Some(&index) = self.open.last() {
            self.marks.push((index, mark));
        }
    }

    /// How many commands there are so far.
    pub(crate) fn command_count(&self) -> usize {
        self.commands.len()
    }

    /// The strictest risk of the commands from `first` on.
    pub(crate) fn risk_since(&self, first: usize) -> Risk {
        let commands = self.commands.get(first..).unwrap_or_default();
        let risk = commands.iter().map(|command| command.risk).max();
        risk.unwrap_or(Risk::Safe)
    }

    /// Whether what is judged now does not enter the answer.
    pub(crate) fn is_aside(&self) -> bool {
        self.asides > 0
    }

    /// Judges something without adding it to the answer; only its risk comes back.
    pub(crate) fn aside(&mut self, run: impl FnOnce(&mut Self)) -> Risk {
        let (commands, opaque, marks) = (self.commands.len(), self.opaque.len(), self.marks.len());
        let count = self.count;
        self.asides += 1;
        run(self);
        self.asides -= 1;
        // They cost time, but are not what the line says. Asides of asides count in full: each
        // may be as many again.
        if self.asides == 0 {
            self.count = count + (self.count - count).div_ceil(4);
        }
        let risk = self.risk_since(commands);
        self.commands.truncate(commands);
        self.opaque.truncate(opaque);
        self.marks.truncate(marks);
        risk
    }

    /// As [`Judge::aside`], but commands whose name is not known do not count.
    pub(crate) fn aside_named(&mut self, run: impl FnOnce(&mut Self)) -> Risk {
        let first = self.commands.len();
        let mut named = Risk::Safe;
        self.aside(|judge| {
            run(judge);
            let commands = judge.commands.get(first..).unwrap_or_default();
            let known = commands.iter().filter(|one| !one.program.name.is_empty());
            named = known.map(|one| one.risk).max().unwrap_or(Risk::Safe);
        });
        named
    }

    /// A pipeline that ties a shell to a connection, in either direction.
    pub(crate) fn shell_and_connection(&mut self, first: usize) {
        let of = |mark: Mark| {
            self.marks
                .iter()
                .rev()
                .take_while(|(index, _)| *index >= first)
                .find(|(_, known)| *known == mark)
                .map(|(index, _)| *index)
        };
        let (Some(shell), Some(_)) = (of(Mark::RunsInput), of(Mark::Connection)) else {
            return;
        };
        self.connects(shell, "Connects a shell to the network");
    }

    /// A command is tied to another machine by what stands around it.
    fn connects(&mut self, index: usize, reason: &'static str) {
        if let Some(command) = self.commands.get_mut(index) {
            command.risk = Risk::Critical;
            command.effects.push(Effect {
                action: Action::Network { host: None },
                risk: Risk::Critical,
                reason: reason.into(),
                span: command.span,
            });
            command.reasons.insert(0, reason.to_owned());
        }
    }

    /// Keeps the place of a command in the list, before those it contains.
    pub(crate) fn reserve(&mut self, call: &Call, program: &Program) -> usize {
        self.commands.push(SimpleCommand {
            program: program.clone(),
            argv: call.args.iter().map(Given::to_arg).collect(),
            assignments: call.assignments.iter().map(Given::to_arg).collect(),
            redirects: call.redirects.clone(),
            wrappers: call.wrappers.clone(),
            nesting: self.nesting,
            pipeline: self.pipeline,
            folder: None,
            effects: Vec::new(),
            install: None,
            risk: Risk::Safe,
            reasons: Vec::new(),
            span: call.span,
        });
        self.commands.len() - 1
    }

    /// Fills a reserved place.
    pub(crate) fn complete(&mut self, index: usize, draft: Draft) {
        if let Some(command) = self.commands.get_mut(index) {
            draft.finish(command);
        }
    }

    /// The path an argument names, and what kind of place it is.
    pub(crate) fn target(&self, given: &Given, cwd: &Cwd) -> Target {
        place::target(given, cwd, self.context)
    }

    /// What reading a file gives.
    pub(crate) fn content(&self, given: &Given, cwd: &Cwd) -> Flow {
        if let Some(content) = &given.content {
            return (**content).clone();
        }
        let target = self.target(given, cwd);
        let Some(path) = &target.resolved else {
            return Flow::of(Sources::FILE);
        };
        let descriptor = path
            .strip_prefix("/dev/fd/")
            .or_else(|| path.strip_prefix("/proc/self/fd/"));
        if let Some(descriptor) = descriptor {
            let known = self.traces.descriptors.get(descriptor).cloned();
            return known.unwrap_or_else(|| Flow::of(Sources::UNKNOWN));
        }
        if self.traces.fifos.contains(path) {
            // Whoever writes into it may stand behind its reader.
            let fed = self.traces.files.get(path).map(|flow| flow.from);
            return Flow::of(Sources::FIFO.with(fed.unwrap_or_default()));
        }
        if let Some(flow) = self.traces.files.get(path) {
            return Flow {
                from: flow.from.with(Sources::FILE),
                ..flow.clone()
            };
        }
        let secret = if place::is_private(&target, self.context) {
            Sources::SECRET
        } else {
            Sources::NONE
        };
        Flow::of(Sources::FILE.with(secret))
    }
}

/// The risk of the effect that a phrase belongs to.
fn risk_of(command: &SimpleCommand, phrase: &str) -> Risk {
    command
        .effects
        .iter()
        .filter(|effect| effect.reason == phrase)
        .map(|effect| effect.risk)
        .max()
        .unwrap_or(command.risk)
}
