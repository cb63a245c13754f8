//! From a shell line or an argv to commands, effects, risk and reasons.
//!
//! [`classify`] and [`classify_argv`] are the only doors. They never fail: what cannot be
//! understood is at least [`Risk::Dangerous`], with the reason.

pub(crate) mod arguments;
mod assigned;
mod bomb;
pub(crate) mod call;
mod context;
mod cut_off;
mod disagree;
pub(crate) mod draft;
mod expand;
pub(crate) mod flow;
mod functions;
pub(crate) mod given;
pub(crate) mod harm;
pub(crate) mod installs;
pub(crate) mod judge;
mod later;
pub(crate) mod place;
mod raw;
pub(crate) mod redirect;
pub(crate) mod state;
pub(crate) mod verdict;
mod walk;

pub use context::Context;
pub use installs::{Client, Install};
pub use verdict::{
    Arg, Classification, Form, Opaque, Program, Redirect, RedirectKind, SimpleCommand,
};

use crate::command::knowledge;
use crate::effect::Span;
use crate::failure;
use crate::risk::Risk;
use crate::shell;
use given::Given;
use judge::{Call, Judge};

/// Said when the classifier itself went wrong.
const FAILED: &str = "The classifier failed";

/// What a shell line does, and how risky that is.
pub fn classify(line: &[u8], context: &Context) -> Classification {
    guarded(line.len(), || {
        if let Some(answer) = Judge::cut_off(line, context) {
            return answer;
        }
        let script = shell::parse(line);
        let mut judge = Judge::new(context);
        let mut state = judge.fresh_state();
        let call = Call {
            span: Span::new(0, line.len()),
            ..Call::default()
        };
        judge.script(&script, &mut state, &call);
        judge.uncalled_functions(&mut state, &call);
        judge.hidden(line);
        judge.unreadable(line);
        let form = match script.only_command() {
            Some(_) => Form::Single,
            None => Form::Compound,
        };
        Classification {
            form,
            ..judge.finish()
        }
    })
}

/// What an argument vector does when it is executed without a shell.
pub fn classify_argv<A: AsRef<[u8]>>(argv: &[A], context: &Context) -> Classification {
    let mut args = Vec::with_capacity(argv.len());
    let mut at = 0;
    for arg in argv {
        let text = String::from_utf8_lossy(arg.as_ref()).into_owned();
        let end = at + arg.as_ref().len();
        args.push(Given::known(text, Span::new(at, end)));
        at = end + 1;
    }
    let length = at.saturating_sub(1);
    if length > shell::MAX_LENGTH * 32 {
        return Classification::unknown("", Risk::Dangerous, "Too long to judge");
    }
    guarded(length, || {
        let mut judge = Judge::new(context);
        let mut state = judge.fresh_state();
        let call = Call {
            args,
            span: Span::new(0, length),
            // No shell: neither builtins nor functions.
            ..Call::default()
        };
        judge.invoke(&mut state, &call);
        Classification {
            form: Form::Single,
            ..judge.finish()
        }
    })
}

/// Why the tables say what they say about a program, if they know it.
pub fn known_for(program: &str) -> Option<&'static str> {
    knowledge::program(program).map(|spec| spec.reason.get())
}

/// Why the tables warn of an environment variable, if they do.
pub fn known_for_variable(name: &str) -> Option<&'static str> {
    knowledge::variable(name).map(|variable| variable.reason.get())
}

/// An error of our own is never a pass: whatever panics is dangerous.
fn guarded(length: usize, judge: impl FnOnce() -> Classification) -> Classification {
    failure::caught(judge).unwrap_or_else(|| Classification {
        risk: Risk::Dangerous,
        reasons: vec![FAILED.to_owned()],
        commands: Vec::new(),
        opaque: vec![Opaque {
            why: FAILED.to_owned(),
            span: Span::new(0, length),
        }],
        form: Form::Compound,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]

    use super::*;

    #[test]
    fn a_failure_of_the_classifier_is_dangerous_and_says_so() {
        let answer = guarded(9, || panic!("on purpose"));
        assert_eq!(answer.risk, Risk::Dangerous);
        assert_eq!(answer.reasons, [FAILED]);
        assert_eq!(answer.opaque[0].span, Span::new(0, 9));
        assert!(answer.is_opaque());
    }
}
