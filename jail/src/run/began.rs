//! What was touched since a run began.

use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sjail_policy::plan::{Access, Plan};

use crate::preview::auto_exec::{self, Looked};

/// The moment at which a run began, as file systems tell time.
pub(super) struct Began((i64, i64));

impl Began {
    pub(super) fn now() -> Began {
        let now = clock_gettime(ClockId::CLOCK_REALTIME_COARSE);
        Began(now.map_or((0, 0), |time| (time.tv_sec(), time.tv_nsec())))
    }

    /// What was touched since in the places that the command may write.
    pub(super) fn touched(&self, plan: &Plan, took: Duration) -> Looked {
        let workspace = &plan.workspace;
        let granted = plan.filesystem.grants.iter();
        let tops: Vec<&Path> = (workspace.access == Access::Rw)
            .then_some(workspace.path.as_path())
            .into_iter()
            .chain(
                granted
                    .filter(|grant| grant.access == Access::Rw)
                    .map(|grant| grant.source.as_path()),
            )
            .collect();
        auto_exec::touched(&tops, plan.command.cwd.as_path(), self.0, took)
    }
}
