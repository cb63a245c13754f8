//! Judging what is new in a workspace that no protection has watched: what a run that was
//! killed has left, and what a preview brings when it is kept.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use sjail_policy::bytes::ByteString;
use sjail_policy::profile::Profile;

use super::Protection;
use super::finding::Finding;
use super::inventory::{self, Inventory, Moment};
use super::links::Depth;
use super::names::Names;
use super::quarantine::Quarantine;
use super::scan::Search;

impl Protection {
    /// What a run that was killed has left in a workspace: everything that its record
    /// does not know is new.
    pub fn finish_for(
        search: Search,
        known: &HashSet<PathBuf>,
        quarantine: Quarantine,
        began: Moment,
    ) -> Vec<Finding> {
        let now = search.run_opening();
        let start = Inventory {
            time: Some(began),
            sightings: now
                .sightings
                .iter()
                .filter(|sighting| known.contains(&sighting.path))
                .cloned()
                .collect(),
            git_dirs: now
                .git_dirs
                .iter()
                .filter(|git_dir| known.contains(&git_dir.path))
                .cloned()
                .collect(),
            ..Inventory::default()
        };
        let mut protection = Protection {
            held: start.sightings.clone(),
            tops: now.tops.clone(),
            seen: now.children.iter().cloned().collect(),
            ..Protection::begun(search, quarantine, start)
        };
        protection.settle(now, None);
        protection.take_links(Depth::Whole);
        protection.findings
    }

    /// Keeps a preview, and then judges what is new as after a run: what was harmless when
    /// the preview was made may make a repository of what lies beside it by now.
    pub fn judged_after<T>(
        workspace: &Path,
        (sandbox, run): (&Path, &str),
        keep: impl FnOnce() -> T,
    ) -> (T, Vec<Finding>) {
        let profile = Profile::default_profile();
        let names: Vec<ByteString> = profile
            .protect
            .iter()
            .map(|name| name.value().into())
            .collect();
        let search = Search {
            workspace: workspace.to_owned(),
            cwd: workspace.to_owned(),
            names: Names::new(&names),
            depth: profile.protect_depth,
            shut: HashSet::new(),
        };
        let before = search.run();
        let git_dirs = before.git_dirs.iter().map(|git_dir| git_dir.path.clone());
        let known = inventory::paths(&before.sightings);
        let known = known.into_iter().chain(git_dirs).collect();
        let (began, kept) = (Moment::now(), keep());
        let quarantine = Quarantine::new(sandbox, run);
        let findings = Protection::finish_for(search, &known, quarantine, began);
        (kept, findings)
    }
}
