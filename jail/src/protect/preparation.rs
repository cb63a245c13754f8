//! What comes before the jail is made: protected names are looked for, and what stands in the
//! way of holding them is put right or said.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use sjail_policy::plan::{Access, Grant, Missing, Plan};

use super::finding::Finding;
use super::inventory::{Inventory, Sighting};
use super::names::Names;
use super::quarantine::Quarantine;
use super::scan::{MAX_NAMES, Search};
use super::{Error, Protection, second_names};
use crate::layout::places::Places;
use crate::result::RunId;

/// What the command writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// The host's own files.
    Host,
    /// Layers over them, which change nothing.
    Layers,
}

impl Protection {
    /// Looks for protected names. `None` when the jail cannot write the workspace anyway,
    /// or nothing is to be protected.
    /// What is writable has one name for each protected file afterwards.
    pub fn prepare(
        plan: &Plan,
        sandbox: &Path,
        run: &RunId,
        ground: Ground,
    ) -> Result<Option<Protection>, Error> {
        let protect = &plan.filesystem.protect;
        if protect.names.is_empty() || !is_written(plan) {
            return Ok(None);
        }
        let mut search = Search {
            workspace: plan.workspace.path.as_path().to_owned(),
            cwd: plan.command.cwd.as_path().to_owned(),
            names: Names::new(&protect.names),
            depth: protect.depth,
            shut: HashSet::new(),
        };
        let mut start = search.run();
        let mut findings = Vec::new();
        if ground == Ground::Host && part_all(&start, &mut findings)? {
            start = search.run();
        }
        if start.shut.contains(&search.workspace) {
            return Err(Error::Shut(search.workspace));
        }
        if let Some((index, why)) = start.unread.first().cloned() {
            return Err(Error::Index { index, why });
        }
        search.shut = start.shut.iter().cloned().collect();
        let held: Vec<Sighting> = start.mounted().into_iter().cloned().collect();
        if held.len() > MAX_NAMES {
            return Err(Error::TooMany {
                workspace: search.workspace,
                found: held.len(),
            });
        }
        let mut grants = plan.filesystem.grants.clone();
        grants.extend(start.grants.iter().map(|folder| writable(folder)));
        Ok(Some(Protection {
            places: Some(Places::of(&plan.workspace, &grants)),
            held,
            findings,
            ..Protection::begun(search, Quarantine::new(sandbox, run.as_str()), start)
        }))
    }
}

/// Whether the jail can write the workspace, or a part of it.
fn is_written(plan: &Plan) -> bool {
    let workspace = plan.workspace.path.as_path();
    plan.workspace.access == Access::Rw
        || plan.filesystem.grants.iter().any(|grant| {
            let source = std::fs::canonicalize(grant.source.as_path());
            let overlaps =
                |source: PathBuf| source.starts_with(workspace) || workspace.starts_with(&source);
            grant.access == Access::Rw && source.is_ok_and(overlaps)
        })
}

/// Parts every protected file from its other names; whether there were any.
fn part_all(found: &Inventory, findings: &mut Vec<Finding>) -> Result<bool, Error> {
    let doubled = found.sightings.iter().filter(|s| s.has_second_name());
    for sighting in doubled {
        let path = &sighting.path;
        if second_names::part(path).map_err(|source| Error::SecondName {
            path: path.clone(),
            source,
        })? {
            findings.push(Finding::parted(path));
        }
    }
    Ok(!findings.is_empty())
}

/// A folder that is shown writable at its own path.
pub fn writable(folder: &Path) -> Grant {
    Grant {
        source: folder.into(),
        dest: folder.into(),
        access: Access::Rw,
        missing: Missing::Skip,
    }
}
