//! A caller's own list of commands: what is not on it does not run. It narrows what the policy
//! says and can allow nothing.

use crate::bytes::ByteString;
use crate::classify::{Classification, SimpleCommand};
use crate::decide::{Action, DecidedBy, Decision};
use crate::effect::Span;
use crate::risk::Risk;

/// The option that names them.
const OPTION: &str = "--only";

/// The commands that may be in a line, by their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Only(Vec<String>);

impl Only {
    /// These and no others; none is a list, too.
    pub fn these(names: Vec<String>) -> Only {
        Only(names)
    }

    /// The list among the options of a submission, and the options without it.
    pub fn among(options: &[ByteString]) -> (Option<Only>, Vec<ByteString>) {
        let name = |option: &ByteString| {
            let name = option.as_bytes().strip_prefix(b"--only=")?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        let names: Vec<String> = options.iter().filter_map(name).collect();
        let rest = options.iter().filter(|option| name(option).is_none());
        let only = (!names.is_empty()).then_some(Only(names));
        (only, rest.cloned().collect())
    }

    /// Blocks a line with any other command in it, also under a wrapper or as one, and a line of
    /// which some part cannot be known.
    pub fn narrow(&self, line: &Classification, decision: &mut Decision) {
        let missing = line.commands.iter().find_map(|command| {
            let name = self.missing(command)?;
            Some((name, command.span))
        });
        let (reason, span) = match (missing, line.opaque.first()) {
            (Some((name, span)), _) => (format!("Command '{name}' not in allowlist"), span),
            (None, Some(opaque)) => (opaque.why.clone(), opaque.span),
            (None, None) => return,
        };
        // What was blocked already keeps its reason.
        if decision.action != Action::Block {
            self.block(decision, reason, span);
        }
    }

    fn block(&self, decision: &mut Decision, reason: String, span: Span) {
        decision.action = Action::Block;
        decision.risk = Risk::Disallowed;
        decision.reasons = vec![reason];
        decision.rule = DecidedBy::Option { option: OPTION };
        decision.spans = vec![span];
    }

    /// The first name of a command that is not on the list. A path is another program than the
    /// name at its end, unless it leads straight into a trusted folder.
    fn missing(&self, command: &SimpleCommand) -> Option<String> {
        let wrappers = command.wrappers.iter();
        let mut outer = wrappers.filter_map(|wrapper| wrapper.split(' ').next());
        if let Some(wrapper) = outer.find(|name| !self.has(name)) {
            return Some(wrapper.to_owned());
        }
        let program = &command.program;
        let listed = self.has(&program.typed) || program.trusted && self.has(&program.name);
        let unlisted = !listed || program.defined_here;
        // A line may assign or redirect and start nothing.
        (unlisted && !program.typed.is_empty()).then(|| program.typed.clone())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|own| own == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::{Context, classify};
    use crate::config::Policy;
    use crate::decide::{Asking, decide};
    use crate::rule::Bases;

    fn judged(text: &str) -> Decision {
        let bases = Bases {
            home: b"/home/u",
            workspace: b"/ws",
        };
        let mut context = Context::new("/ws", "/home/u", "u");
        context.workspace = "/ws".to_owned();
        let line = classify(text.as_bytes(), &context);
        let mut decision = decide(&line, &Policy::default(), bases, Asking::Policy);
        let names = ["npm", "git", "cat", "grep", "rm", "my-tool"];
        Only::these(names.map(str::to_owned).into()).narrow(&line, &mut decision);
        decision
    }

    #[test]
    fn only_what_is_listed_passes() {
        for text in [
            "npm install && npm test",
            "cat file.txt | grep error",
            "git add . && git commit -m 'msg'",
            "/usr/bin/git status",
            "my-tool x",
        ] {
            assert_eq!(judged(text).action, Action::Execute, "{text}");
        }
        for (text, name) in [
            ("ls", "ls"),
            ("npm test; ls", "ls"),
            ("cat $(ls)", "ls"),
            ("sudo npm test", "sudo"),
            ("sh -c 'npm test'", "sh"),
            ("find . -exec cat {} +", "find"),
            ("./npm test", "./npm"),
            ("git() { true; }; git", "git"),
        ] {
            let decision = judged(text);
            assert_eq!(decision.action, Action::Block, "{text}");
            assert!(
                decision.reasons[0].contains(&format!("'{name}'")) || text.starts_with("git()"),
                "{text}: {:?}",
                decision.reasons
            );
        }
        // What cannot be known is not on the list.
        assert_eq!(judged("$x y").action, Action::Block);
    }

    #[test]
    fn nothing_is_allowed_by_it() {
        assert_eq!(judged("rm -rf build").action, Action::Ask);
        let harm = judged("cat x | sh; rm -rf /");
        assert_eq!(harm.action, Action::Block);
        assert_ne!(harm.rule, DecidedBy::Option { option: OPTION });
    }
}
