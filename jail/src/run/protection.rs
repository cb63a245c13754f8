//! The names that are kept from the command.

use sjail_policy::git_command;
use sjail_policy::plan::Plan;

use super::noted::Noted;
use crate::caller::State;
use crate::cleanup::Leftover;
use crate::error::Error;
use crate::protect::{self, Ground, Protection, record};
use crate::report::Report;

/// Where a git command that must write git's configuration writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Git {
    /// On a copy, judged when it has ended.
    OnCopy,
    /// On the layers of a preview.
    OnLayers,
    /// Nowhere: there is nothing to copy on.
    ReadOnly,
}

/// Finds the names in the workspace that must be kept from the command, watches where
/// they could appear, and grants what git needs outside.
pub(super) fn protection(
    plan: &mut Plan,
    state: &State,
    report: &mut Report,
    note: &mut Noted,
    git: Git,
) -> Result<Option<Protection>, Error> {
    let sandbox = state.sandbox(plan.workspace.path.as_path());
    let records = record::folder(state.path());
    report.kept_away(protect::Report::of(record::sweep(
        &records,
        &plan.filesystem.protect.names,
    )));
    let ground = match git {
        Git::OnLayers => Ground::Layers,
        Git::OnCopy | Git::ReadOnly => Ground::Host,
    };
    let Some(mut protection) = Protection::prepare(plan, &sandbox, report.id(), ground)? else {
        return Ok(None);
    };
    for note in protection.notes() {
        report.note(note);
    }
    for folder in protection.grants() {
        plan.filesystem.grants.push(protect::writable(folder));
    }
    if git == Git::OnLayers {
        if let Some(writer) = git_command::writer(&plan.command.argv) {
            protection.free_for(&writer);
        }
        return Ok(Some(protection));
    }
    if let Some(writer) = git_command::writer(&plan.command.argv)
        && git == Git::OnCopy
    {
        let folder = sandbox.join(format!("sjail-{}", report.id()));
        protection.copy_for(&writer, &folder, &mut || {
            note.add(report.id(), Leftover::Folder(folder.clone()))
        })?;
    }
    protection.start(records, sandbox)?;
    Ok(Some(protection))
}
