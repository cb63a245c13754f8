//! Which programs the allow list counts for: those of root's, which nothing that runs in a jail
//! can have replaced.

use std::path::PathBuf;

use super::{lifts, on_the_list};
use crate::classify::{Classification, SimpleCommand};
use crate::config::Sourced;
use crate::rule::Rule;
use crate::show::{inert, name};

/// Whose the first program of a name along `PATH` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// Root's own, in folders of root's.
    Root,
    /// Somebody else can have put it there: into this folder.
    Others(PathBuf),
    /// There is none.
    Nobody,
}

/// Takes the trust from programs whose bare name leads elsewhere than to a trusted folder: the
/// classifier cannot look, so whoever can does it before [`super::decide`].
pub fn doubt_programs(line: &mut Classification, whose: &dyn Fn(&str) -> Whose) {
    for command in &mut line.commands {
        let program = &mut command.program;
        if program.trusted && !program.builtin && !program.typed.contains('/') {
            let typed = inert(program.typed.as_bytes());
            program.doubt = match whose(&program.typed) {
                Whose::Root => None,
                Whose::Others(folder) => Some(format!(
                    "`{typed}` is found in {}, which is not root's alone, so the allow list does not count for it",
                    name(&folder)
                )),
                Whose::Nobody => Some(format!(
                    "`{typed}` is not installed, so the allow list does not count for it"
                )),
            };
            program.trusted = program.doubt.is_none();
        }
    }
}

/// The line as it would be if its doubtful programs were root's; `None` where none is doubtful.
pub(super) fn without_doubt(line: &Classification) -> Option<Classification> {
    let doubtful = |command: &SimpleCommand| command.program.doubt.is_some();
    line.commands.iter().any(doubtful).then(|| {
        let mut line = line.clone();
        for command in &mut line.commands {
            command.program.trusted |= command.program.doubt.is_some();
        }
        line
    })
}

/// Why the allow list does not count for a line that it speaks of.
pub(super) fn doubts(rules: &[Sourced<Rule>], line: &Classification) -> Vec<String> {
    let listed = without_doubt(line).is_some_and(|line| on_the_list(rules, &line).is_some());
    let commands = line.commands.iter().filter(|_| listed);
    let mut doubts: Vec<String> = commands
        .filter_map(|command| command.program.doubt.clone())
        .collect();
    doubts.dedup();
    doubts
}

/// What an allow list says of a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowing {
    /// The patterns that have it run without being asked about.
    pub patterns: Vec<String>,
    /// Where patterns speak of it and do not: why.
    pub why_not: Option<String>,
}

/// What an allow list says of a line, by the same rules as [`super::decide`].
pub fn allowing(rules: &[Sourced<Rule>], line: &Classification) -> Allowing {
    let Some((_, lift)) = on_the_list(rules, line) else {
        let why_not = doubts(rules, line);
        return Allowing {
            patterns: Vec::new(),
            why_not: (!why_not.is_empty()).then(|| why_not.join("; ")),
        };
    };
    if !lifts(lift, line.risk) {
        return Allowing {
            patterns: Vec::new(),
            why_not: Some(format!("it is on the list, but this is {}", line.risk)),
        };
    }
    let speaks = |rule: &&Sourced<Rule>| match &rule.value {
        Rule::Command(pattern) => line
            .commands
            .iter()
            .any(|command| pattern.strict_command(command).is_some()),
        Rule::Path(_) => false,
    };
    Allowing {
        patterns: rules
            .iter()
            .filter(speaks)
            .map(|rule| rule.value.text())
            .collect(),
        why_not: None,
    }
}
