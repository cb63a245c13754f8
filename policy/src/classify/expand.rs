//! Judges what stands inside words: substitutions, and arithmetic that may run commands.

use super::flow::Flow;
use super::judge::{Call, Judge};
use super::state::State;
use crate::effect::Span;
use crate::shell;
use crate::shell::fold::Value;
use crate::shell::word::{Arithmetic, Direction, Operation, Part, PartKind, Reference, Subscript};

/// The same value may be evaluated again and again: not more bytes than this, together.
const MAX_ARITHMETIC: usize = 64 * 1024;

impl Judge<'_> {
    /// Judges every substitution inside, and remembers what it prints.
    pub(crate) fn expand(&mut self, parts: &[Part], state: &mut State, call: &Call) {
        for part in parts {
            match &part.kind {
                PartKind::Plain(_)
                | PartKind::Quoted(_)
                | PartKind::Tilde(_)
                | PartKind::Glob(_) => {}
                PartKind::Range(_) => {}
                PartKind::Double(inner, _) => self.expand(inner, state, call),
                PartKind::Parameter(parameter) => {
                    if let Some(Subscript::Index(word)) = &parameter.subscript {
                        self.expand(&word.parts, state, call);
                    }
                    if parameter.reference == Reference::Indirect {
                        self.named_value(&parameter.name, part, state, call);
                    }
                    self.expand_operation(&parameter.operation, part, state, call);
                }
                PartKind::Command(script, _) => {
                    let flow = self.nested(state, call, |judge, state, call| {
                        judge.script(script, state, call)
                    });
                    self.printed(part.span, flow);
                }
                PartKind::Process(script, direction) => {
                    let flow = self.nested(state, call, |judge, state, call| {
                        judge.script(script, state, call)
                    });
                    if *direction == Direction::Read {
                        self.supplies(part.span, flow);
                    } else {
                        self.supplies(part.span, Flow::literal(""));
                    }
                }
                PartKind::Arithmetic(arithmetic) => self.expand_arithmetic(arithmetic, state, call),
                PartKind::ExtendedGlob(_, words) | PartKind::Braces(words) => {
                    for word in words {
                        self.expand(&word.parts, state, call);
                    }
                }
                PartKind::Array(elements) => {
                    for element in elements {
                        if let Some(key) = &element.key {
                            self.expand(&key.parts, state, call);
                        }
                        self.expand(&element.value.parts, state, call);
                    }
                }
                PartKind::Opaque(opaque) => {
                    let span = self.span(part.span);
                    self.opaque(format!("Cannot be read: {}", opaque.reason), span);
                }
            }
        }
    }

    pub(crate) fn expand_arithmetic(
        &mut self,
        arithmetic: &Arithmetic,
        state: &mut State,
        call: &Call,
    ) {
        self.expand(&arithmetic.parts, state, call);
        self.named_values(arithmetic, state, call);
    }

    /// The values of the variables that an expression names are expressions themselves:
    /// `x='a[$(cmd)]'; (( x ))` runs the command.
    fn named_values(&mut self, arithmetic: &Arithmetic, state: &mut State, call: &Call) {
        for part in &arithmetic.parts {
            let PartKind::Plain(text) = &part.kind else {
                continue;
            };
            let names = text.split(|b| !b.is_ascii_alphanumeric() && *b != b'_');
            for name in names.filter(|name| !name.is_empty() && !name[0].is_ascii_digit()) {
                self.named_value(name, part, state, call);
            }
        }
    }

    /// The value of a variable is read as an expression, or as the name of an element.
    fn named_value(&mut self, name: &[u8], part: &Part, state: &mut State, call: &Call) {
        if let Some(value) = state.variables.get(name).and_then(Value::literal) {
            let value = String::from_utf8_lossy(value).into_owned();
            let span = self.span(part.span);
            self.arithmetic_text(&value, state, call, span);
        }
    }

    /// Text that is evaluated as arithmetic, or names a variable: a subscript in it may run
    /// commands.
    pub(crate) fn arithmetic_text(
        &mut self,
        text: &str,
        state: &mut State,
        call: &Call,
        span: Span,
    ) {
        if !text.contains('[') || !text.contains(['$', '`']) {
            return;
        }
        self.arithmetic += text.len();
        if self.arithmetic > MAX_ARITHMETIC {
            self.opaque("Too much arithmetic to judge", span);
            return;
        }
        let arithmetic = shell::parse_arithmetic(text.as_bytes());
        self.inside(span, |judge| judge.expand(&arithmetic.parts, state, call));
    }

    fn expand_operation(
        &mut self,
        operation: &Operation,
        part: &Part,
        state: &mut State,
        call: &Call,
    ) {
        match operation {
            Operation::Value | Operation::Length | Operation::Names => {}
            Operation::Assign(word) => {
                self.expand(&word.parts, state, call);
                if let PartKind::Parameter(parameter) = &part.kind {
                    let held = state.variables.get(&parameter.name).cloned();
                    let value = held.unwrap_or_default().or(&state.variables.value(word));
                    state.variables.set(&parameter.name, value);
                }
            }
            Operation::Default(word)
            | Operation::Require(word)
            | Operation::Alternative(word)
            | Operation::Trim(word)
            | Operation::Case(word) => self.expand(&word.parts, state, call),
            Operation::Replace(pattern, replacement) => {
                self.expand(&pattern.parts, state, call);
                if let Some(replacement) = replacement {
                    self.expand(&replacement.parts, state, call);
                }
            }
            Operation::Substring(arithmetic) => self.expand_arithmetic(arithmetic, state, call),
            Operation::Transform(b'P') => {
                let span = self.span(part.span);
                self.opaque("Runs what a variable holds, as a prompt", span);
            }
            Operation::Transform(_) => {}
        }
    }

    /// Runs something inside a substitution.
    fn nested(
        &mut self,
        state: &mut State,
        call: &Call,
        run: impl FnOnce(&mut Self, &mut State, &Call) -> Flow,
    ) -> Flow {
        let call = Call {
            args: Vec::new(),
            assignments: Vec::new(),
            redirects: Vec::new(),
            ..call.clone()
        };
        self.nesting += 1;
        let flow = self.isolated(state, |judge, state| run(judge, state, &call));
        self.nesting -= 1;
        flow
    }
}
