//! Functions of a line: defined, called, recursive, never called.

use std::rc::Rc;

use super::draft::Draft;
use super::flow::{Flow, Sources};
use super::given::Given;
use super::judge::{Call, Judge};
use super::state::{Function, State};
use super::verdict::Program;
use crate::command::knowledge;
use crate::effect::Action;
use crate::risk::Risk;
use crate::shell::Command;
use crate::shell::fold::Value;
impl Judge<'_> {
    /// Remembers a function; what it replaces and nobody called is judged now.
    pub(super) fn define(&mut self, name: &[u8], body: &Command, state: &mut State, call: &Call) {
        let name = String::from_utf8_lossy(name).into_owned();
        if super::bomb::is_bomb(&name, body) {
            self.bomb(call, Risk::Critical);
        }
        let function = Function {
            body: Rc::new(body.clone()),
            frame: self.frame,
            called: false,
            certain: knowledge::program(&name).is_none(),
        };
        state.defined.push(name.clone());
        if let Some(old) = state.functions.insert(name.clone(), function)
            && !old.called
        {
            self.call_function(&name, &old, state, call);
        }
    }

    /// A script that starts itself again and again.
    pub(crate) fn script_bomb(&mut self, text: &str, path: &str, call: &Call) {
        let own = ["$0", "${0", "BASH_SOURCE"]
            .iter()
            .any(|sign| text.contains(sign));
        if !(own || text.contains(path)) || !self.may_read(text, call.span) {
            return;
        }
        if super::bomb::starts_itself(&crate::shell::parse(text.as_bytes()), path) {
            self.bomb(call, Risk::Critical);
        }
    }

    /// Text without an end goes into a file.
    pub(super) fn fills(&mut self, call: &Call) {
        let index = self.reserve(call, &Program::default());
        let mut draft = Draft::new(Program::default());
        let says = "Fills the disk";
        draft.effect(Action::SystemChange, Risk::Dangerous, says, call.span);
        self.complete(index, draft);
    }

    pub(super) fn bomb(&mut self, call: &Call, risk: Risk) {
        let index = self.reserve(call, &Program::default());
        let mut draft = Draft::new(Program::default());
        draft.effect(Action::SystemChange, risk, "Fork bomb", call.span);
        self.complete(index, draft);
    }

    /// A function or alias of the line itself.
    pub(crate) fn defined_here(&mut self, state: &mut State, call: &Call) -> Option<Flow> {
        let name = call.args.first()?.text.clone();
        if let Some(text) = state.aliases.get(&name).cloned() {
            if self.active.contains(&name) {
                return None;
            }
            let mut line = text;
            for arg in &call.args[1..] {
                line.push(' ');
                line.push_str(&arg.text);
            }
            self.active.push(name);
            self.text(&line, state, call, call.span);
            self.active.pop();
            // Scripts expand no aliases: the plain command counts, too.
            return None;
        }
        let function = state.functions.get_mut(&name)?;
        function.called = true;
        let function = function.clone();
        if !call.redirects.is_empty() || !call.assignments.is_empty() {
            // `f > file`: what surrounds the call is the caller's.
            let mut alone = call.clone();
            alone.args.clear();
            self.invoke(state, &alone);
        }
        let flow = self.call_function(&name, &function, state, call);
        // Defined in a branch, or unset since: the program of that name counts, too.
        function.certain.then_some(flow)
    }

    fn call_function(
        &mut self,
        name: &str,
        function: &Function,
        state: &mut State,
        call: &Call,
    ) -> Flow {
        if self.active.iter().any(|active| active == name) {
            return Flow::of(Sources::PROGRAM);
        }
        self.active.push(name.to_owned());
        let mark = state.variables.mark();
        for number in 1..10 {
            let value = match call.args.get(number) {
                Some(arg) if arg.exact => Value::known(arg.text.as_bytes()),
                _ => Value::unknown(),
            };
            state.variables.set(number.to_string().as_bytes(), value);
        }
        let outer = state.positional.replace(Rc::new(
            call.args
                .get(1..)
                .map(<[Given]>::to_vec)
                .unwrap_or_default(),
        ));
        let mut inner = call.clone();
        inner.args.clear();
        inner.assignments.clear();
        inner.redirects.clear();
        // Where its words stand is where it was defined.
        let frame = self.frame;
        self.frame = frame.or(function.frame);
        let flow = self.untied(|judge| judge.command(&function.body, state, &inner));
        self.frame = frame;
        state.positional = outer;
        // Everything but the arguments stays set.
        let mut changes = state.variables.undo(mark);
        changes.retain(|name, _| !name.iter().all(u8::is_ascii_digit));
        // What the function may have declared as its own is perhaps what it was before.
        let own = super::assigned::declared_own(&function.body);
        let (own, rest) = changes
            .into_iter()
            .partition(|(name, _)| own.as_ref().is_none_or(|own| own.contains(name)));
        state.variables.join(&[rest]);
        state.variables.join(&[own, Default::default()]);
        self.active.pop();
        flow
    }

    /// Functions nobody called: a trap, a prompt or a later line may.
    pub(crate) fn uncalled_functions(&mut self, state: &mut State, call: &Call) {
        let mut waiting: Vec<(String, Function)> = state
            .functions
            .iter_mut()
            .filter(|(_, function)| !function.called)
            .map(|(name, function)| {
                function.called = true;
                (name.clone(), function.clone())
            })
            .collect();
        waiting.sort_by(|one, other| one.0.cmp(&other.0));
        for (name, function) in waiting {
            let mut call = call.clone();
            call.args.clear();
            self.call_function(&name, &function, state, &call);
        }
    }
}
