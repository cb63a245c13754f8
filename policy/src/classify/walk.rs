//! Walks the tree of a script in the order in which a shell would run it.

use std::rc::Rc;

use super::assigned::{arrays_declared, assigned, assigned_by, called, moves_arguments};
use super::flow::{Flow, Sources};
use super::judge::{Call, Judge, Tie};
use super::redirect::feeds_a_process;
use super::state::{Cwd, State};
use crate::risk::Risk;
use crate::shell::ast::Test;
use crate::shell::ast::{Case, For, If, While};
use crate::shell::fold::{Completeness, Value};
use crate::shell::{Command, CommandKind, Connector, List, Pipeline, Script, Simple};
use crate::shell::{Reason, Redirect, RedirectTarget, Word};

/// More assignments than this before one command are not judged one by one.
const MAX_ASSIGNMENTS: usize = 512;
/// Of more words than this only the first are judged, and it is said.
const MAX_WORDS: usize = 2_048;

impl Judge<'_> {
    /// Judges a script; `around` says what its commands read and run under.
    pub(crate) fn script(&mut self, script: &Script, state: &mut State, around: &Call) -> Flow {
        let mut flow = Flow::literal("");
        for list in &script.lists {
            if self.exhausted() {
                // Said once already, where the limit was reached.
                return Flow::of(Sources::UNKNOWN);
            }
            flow = flow.and(&self.list(list, state, around));
        }
        flow
    }

    fn list(&mut self, list: &List, state: &mut State, around: &Call) -> Flow {
        let mut flow = self.pipeline(&list.first, state, around);
        let mut mark = state.variables.mark();
        for (connector, pipeline) in &list.rest {
            let cwd = state.cwd.clone();
            if *connector == Connector::Or {
                // What stands before `||` may not have run to its end.
                let changes = state.variables.undo(mark);
                state.variables.join(&[Default::default(), changes]);
                mark = state.variables.mark();
            }
            let next = self.branch(state, |judge, state| {
                judge.pipeline(pipeline, state, around)
            });
            flow = flow.and(&next);
            if *connector == Connector::Or && state.cwd != cwd {
                state.cwd = Cwd::Unknown;
            }
        }
        if !list.rest.is_empty() {
            let changes = state.variables.undo(mark);
            state.variables.join(&[Default::default(), changes]);
        }
        flow
    }

    fn pipeline(&mut self, pipeline: &Pipeline, state: &mut State, around: &Call) -> Flow {
        if let [command] = pipeline.commands.as_slice() {
            return match command.kind {
                CommandKind::Simple(_) => {
                    self.tied(Tie::Command, |judge| judge.command(command, state, around))
                }
                _ => self.command(command, state, around),
            };
        }
        self.tied(Tie::Bars, |judge| judge.parts(pipeline, state, around))
    }

    fn parts(&mut self, pipeline: &Pipeline, state: &mut State, around: &Call) -> Flow {
        let mut call = around.clone();
        let first = self.command_count();
        for command in &pipeline.commands {
            if self.exhausted() {
                break;
            }
            // Each part of a pipeline is a shell of its own.
            let stdin = self.isolated(state, |judge, state| judge.command(command, state, &call));
            call.stdin = stdin.into();
        }
        self.shell_and_connection(first);
        Rc::unwrap_or_clone(call.stdin)
    }

    /// Runs something in a copy of the shell.
    pub(crate) fn isolated<T>(
        &mut self,
        state: &mut State,
        run: impl FnOnce(&mut Self, &mut State) -> T,
    ) -> T {
        let cwd = state.cwd.clone();
        let mark = state.variables.mark();
        let positional = state.positional.clone();
        let result = self.branch(state, run);
        state.variables.undo(mark);
        state.positional = positional;
        state.cwd = cwd;
        result
    }

    /// Runs something that may not be run, or in a shell of its own: functions and arguments
    /// that it sets may not be there afterwards.
    pub(crate) fn branch<T>(
        &mut self,
        state: &mut State,
        run: impl FnOnce(&mut Self, &mut State) -> T,
    ) -> T {
        let outer = std::mem::take(&mut state.defined);
        let positional = state.positional.clone();
        let result = run(self, state);
        let same = match (&positional, &state.positional) {
            (Some(before), Some(after)) => Rc::ptr_eq(before, after),
            (None, None) => true,
            _ => false,
        };
        if !same {
            state.positional = None;
        }
        for name in std::mem::replace(&mut state.defined, outer) {
            if let Some(function) = state.functions.get_mut(&name) {
                function.certain = false;
            }
        }
        result
    }

    pub(crate) fn command(&mut self, command: &Command, state: &mut State, around: &Call) -> Flow {
        let simple = matches!(command.kind, CommandKind::Simple(_));
        let io = self.redirections(&command.redirects, state, around);
        let mut call = around.clone();
        call.span = self.span(command.span);
        call.stdin = io.stdin;
        call.connected |= io.connected;
        if simple || !io.redirects.is_empty() {
            call.redirects = io.redirects;
        }
        if !simple && !call.redirects.is_empty() {
            // The redirections of a compound command are judged as a command without words.
            let mut alone = call.clone();
            alone.args.clear();
            alone.assignments.clear();
            self.invoke(state, &alone);
        }
        if !simple {
            call.redirects.clear();
        }
        let flow = match &command.kind {
            CommandKind::Simple(simple) => self.simple(simple, state, call),
            CommandKind::Subshell(script) => {
                self.isolated(state, |judge, state| judge.script(script, state, &call))
            }
            CommandKind::Group(script) => self.script(script, state, &call),
            CommandKind::If(choice) => self.choice(choice, state, &call),
            CommandKind::While(repeat) => self.repeat(repeat, state, &call),
            CommandKind::For(each) => self.each(each, state, &call),
            CommandKind::ArithmeticFor(each) => {
                self.expand_arithmetic(&each.header, state, &call);
                self.widen(&each.body, state);
                self.branch(state, |judge, state| judge.script(&each.body, state, &call))
            }
            CommandKind::Case(case) => self.case(case, state, &call),
            CommandKind::Function(function) => {
                self.define(&function.name, &function.body, state, &call);
                Flow::literal("")
            }
            CommandKind::Coprocess(coprocess) => {
                let flow = self.isolated(state, |judge, state| {
                    judge.command(&coprocess.body, state, &call)
                });
                let name = coprocess.name.clone();
                let name = name.unwrap_or_else(|| b"COPROC".to_vec());
                self.traces.coprocesses.insert(name, flow);
                // It goes to a pipe, not to where this shell's output goes.
                Flow::literal("")
            }
            CommandKind::Arithmetic(arithmetic) => {
                self.expand_arithmetic(arithmetic, state, &call);
                self.arithmetic_elsewhere(arithmetic, state, &call);
                Flow::literal("")
            }
            CommandKind::Test(test) => {
                self.test(test, state, &call);
                self.test_elsewhere(test, state, &call);
                Flow::literal("")
            }
            CommandKind::Opaque(opaque) if matches!(opaque.reason, Reason::Unfinished(_)) => {
                self.unfinished(&call);
                Flow::of(Sources::UNKNOWN)
            }
            CommandKind::Opaque(opaque) => {
                self.opaque(format!("Cannot be read: {}", opaque.reason), call.span);
                Flow::of(Sources::UNKNOWN)
            }
        };
        self.feed(&command.redirects, &flow, state, around);
        self.deliver(flow, io.output, io.appends, around)
    }

    /// `> >(command)`: what the command reads is known only now; it is judged once more where
    /// that makes a difference.
    fn feed(&mut self, redirects: &[Redirect], flow: &Flow, state: &mut State, around: &Call) {
        if !flow.from.has(Sources::FOREIGN.with(Sources::HIDDEN)) {
            return;
        }
        for redirect in redirects {
            let RedirectTarget::Word(word) = &redirect.target else {
                continue;
            };
            if feeds_a_process(word) {
                let fed = Call {
                    stdin: flow.clone().into(),
                    ..around.clone()
                };
                self.expand(&word.parts, state, &fed);
            }
        }
    }

    /// `[[ … ]]`: what is compared as a number, or asked for as a variable, is arithmetic.
    fn test(&mut self, test: &Test, state: &mut State, call: &Call) {
        let text = |at: usize| test.words.get(at).and_then(Word::literal);
        let number = |at: usize| {
            text(at).is_some_and(|word| {
                matches!(
                    word.as_slice(),
                    b"-eq" | b"-ne" | b"-lt" | b"-le" | b"-gt" | b"-ge"
                )
            })
        };
        for (at, word) in test.words.iter().enumerate() {
            self.expand(&word.parts, state, call);
            let before = at.checked_sub(1);
            let asked = before.is_some_and(|at| {
                number(at) || text(at).is_some_and(|word| word == b"-v" || word == b"-R")
            });
            if (asked || number(at + 1))
                && let Some(text) = word.literal()
            {
                let text = String::from_utf8_lossy(&text).into_owned();
                let span = self.span(word.span);
                self.arithmetic_text(&text, state, call, span);
            }
        }
    }

    fn simple(&mut self, simple: &Simple, state: &mut State, mut call: Call) -> Flow {
        let assignments = &simple.assignments;
        let few = assignments.len().min(MAX_ASSIGNMENTS);
        if few < assignments.len() {
            self.opaque("Too many assignments to judge", call.span);
        }
        let assignments = &assignments[..few];
        for assignment in assignments {
            self.expand(&assignment.value.parts, state, &call);
            if let Some(subscript) = &assignment.subscript {
                self.expand(&subscript.parts, state, &call);
                if matches!(assignment.name.as_slice(), b"BASH_ALIASES" | b"BASH_CMDS") {
                    self.opaque("Gives a command another meaning", call.span);
                }
            }
        }
        for word in &simple.words {
            self.expand(&word.parts, state, &call);
        }
        call.assignments = assignments
            .iter()
            .map(|assignment| self.assignment(assignment, state))
            .collect();
        if simple.words.is_empty() {
            for assignment in assignments {
                state.variables.assign(assignment);
            }
            return self.invoke(state, &call);
        }
        let words = simple.words.get(..MAX_WORDS).unwrap_or(&simple.words);
        if words.len() < simple.words.len() {
            self.opaque("Too many arguments to judge", call.span);
        }
        let mut lists = self.arguments(words, state);
        let mut flow: Option<Flow> = None;
        let many = lists.len() > 1;
        for args in lists.drain(..) {
            call.args = args;
            let one = self.invoke(state, &call);
            flow = Some(match flow {
                None => one,
                Some(other) => other.or(&one),
            });
        }
        let mut flow = flow.unwrap_or_default();
        if many {
            flow.text = None;
            flow.from = flow.from.with(Sources::PROGRAM);
        }
        for assignment in arrays_declared(words) {
            state.variables.assign(&assignment);
        }
        flow
    }

    fn choice(&mut self, choice: &If, state: &mut State, call: &Call) -> Flow {
        let mut branches = Vec::new();
        let mut flow = Flow::literal("");
        let cwd = state.cwd.clone();
        let mut moved = false;
        for (condition, body) in &choice.branches {
            flow = flow.and(&self.script(condition, state, call));
            let here = state.cwd.clone();
            let mark = state.variables.mark();
            flow = flow.or(&self.branch(state, |judge, state| judge.script(body, state, call)));
            branches.push(state.variables.undo(mark));
            moved |= state.cwd != here;
            state.cwd = here;
        }
        let mark = state.variables.mark();
        if let Some(otherwise) = &choice.otherwise {
            flow =
                flow.or(&self.branch(state, |judge, state| judge.script(otherwise, state, call)));
            moved |= state.cwd != cwd;
        }
        branches.push(state.variables.undo(mark));
        state.variables.join(&branches);
        if moved {
            state.cwd = Cwd::Unknown;
        }
        flow
    }

    fn repeat(&mut self, repeat: &While, state: &mut State, call: &Call) -> Flow {
        if super::bomb::is_endless(repeat) {
            self.bomb(call, Risk::Dangerous);
        }
        self.widen(&repeat.condition, state);
        self.widen(&repeat.body, state);
        let flow = self.script(&repeat.condition, state, call);
        let cwd = state.cwd.clone();
        let body = self.branch(state, |judge, state| {
            judge.script(&repeat.body, state, call)
        });
        if state.cwd != cwd {
            state.cwd = Cwd::Unknown;
        }
        unrepeated(flow.and(&body))
    }

    fn each(&mut self, each: &For, state: &mut State, call: &Call) -> Flow {
        let value = match &each.words {
            None => Value::unknown(),
            Some(words) => {
                for word in words {
                    self.expand(&word.parts, state, call);
                }
                self.loop_values(words, state)
            }
        };
        self.widen(&each.body, state);
        state.variables.set(&each.variable, value);
        let cwd = state.cwd.clone();
        let flow = self.branch(state, |judge, state| judge.script(&each.body, state, call));
        if state.cwd != cwd {
            state.cwd = Cwd::Unknown;
        }
        unrepeated(flow)
    }

    fn case(&mut self, case: &Case, state: &mut State, call: &Call) -> Flow {
        self.expand(&case.subject.parts, state, call);
        let mut branches = vec![Default::default()];
        let mut flow = Flow::literal("");
        let cwd = state.cwd.clone();
        let mut moved = false;
        for arm in &case.arms {
            for pattern in &arm.patterns {
                self.expand(&pattern.parts, state, call);
            }
            let mark = state.variables.mark();
            flow =
                flow.or(&self.branch(state, |judge, state| judge.script(&arm.body, state, call)));
            branches.push(state.variables.undo(mark));
            moved |= state.cwd != cwd;
            state.cwd = cwd.clone();
        }
        state.variables.join(&branches);
        if moved {
            state.cwd = Cwd::Unknown;
        }
        flow
    }

    /// A loop's body runs more than once: what it assigns may already be assigned.
    fn widen(&mut self, body: &Script, state: &mut State) {
        for name in assigned(body) {
            let mut value = state.variables.get(&name).cloned().unwrap_or_default();
            value.completeness = Completeness::Open;
            state.variables.set(&name, value);
        }
        if moves_arguments(body) {
            state.forget_arguments();
        }
        for name in called(body) {
            if matches!(name.as_slice(), b"eval" | b"." | b"source") {
                // Text may assign anything.
                state.variables.forget();
                return;
            }
            let function = state.functions.get(String::from_utf8_lossy(&name).as_ref());
            let names = function.map(|function| assigned_by(&function.body));
            for name in names.unwrap_or_default() {
                state.variables.set(&name, Value::unknown());
            }
        }
    }
}

/// What a loop prints is not known, only where it comes from.
fn unrepeated(mut flow: Flow) -> Flow {
    if flow.text.as_deref() != Some("") {
        flow.text = None;
        flow.from = flow.from.with(Sources::PROGRAM);
    }
    flow
}
