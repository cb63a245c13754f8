//! What a line that nobody would be asked about names, and its jail does not show: it is
//! harmless, and can only fail.

use super::{MOST, Need, Surroundings, add, is_below};
use crate::classify::Classification;
use crate::decide::{Action as Follows, DecidedBy, Decision, Place};
use crate::effect::{Action, Target};
use crate::rule::Operation;

/// Has somebody asked about one simple command that would run in its jail, but names files
/// that are not in it: there it has nothing to do. A longer line goes on without them. What is not on the host either, or can be given to nobody, is no reason to
/// ask: then it fails as it would anywhere, and the jail says why. What is asked for, if
/// anything: to read that, and nothing else.
pub fn ask_for_hidden(
    line: &Classification,
    decision: &mut Decision,
    around: &Surroundings<'_>,
) -> Vec<Need> {
    let runs = decision.action == Follows::Execute
        && decision.place == Place::Jail
        && line.commands.len() == 1
        && !line.is_opaque();
    // Its owner has said that nobody is to be asked.
    let is_listed = matches!(
        &decision.rule,
        DecidedBy::Rule {
            key: "commands.allow",
            ..
        }
    );
    if !runs || is_listed {
        return Vec::new();
    }
    let needs = hidden(line, around);
    if needs.is_empty() || needs.len() > MOST {
        return Vec::new();
    }
    decision.action = Follows::Ask;
    decision.rule = DecidedBy::View {
        what: "its jail does not show what it names".to_owned(),
    };
    needs
}

/// The files and folders that a line reads by their names and its jail does not show.
fn hidden(line: &Classification, around: &Surroundings<'_>) -> Vec<Need> {
    let mut found = Vec::new();
    for command in &line.commands {
        for effect in &command.effects {
            if let Action::Reads(target) = &effect.action
                && !around.is_there_in_part(target)
                && let Ok(Some(need)) = around.path(target, Operation::Read)
            {
                add(&mut found, need);
            }
        }
    }
    found
}

impl Surroundings<'_> {
    /// Whether a jail has a folder of that name in any case: home, and whatever home, the
    /// workspace and the working folder are in. The top folders of the system are given to
    /// nobody as a whole.
    fn is_there_in_part(&self, target: &Target) -> bool {
        let Some(path) = self.concerned(target) else {
            return true;
        };
        let cwd = self.plan.command.cwd.as_bytes();
        let is_top = path.iter().filter(|byte| **byte == b'/').count() < 2;
        is_top
            || [self.bases.home, self.bases.workspace, cwd]
                .iter()
                .any(|inner| is_below(inner, path))
    }
}
