//! What the host has for a jail.

use sjail_policy::plan::{CacheSource, Plan};

use crate::caller::{Account, State};
use crate::error::Error;
use crate::layout::Host;
use crate::report::Report;

/// The account's, and the folders of its own that the plan wants kept.
pub(super) fn host(account: Account, plan: &Plan, report: &Report) -> Result<Host, Error> {
    let state = State::of(&account);
    let kept = match (&plan.sandbox, plan.home.cache_source) {
        (None, _) | (_, CacheSource::Closed) => None,
        (Some(sandbox), _) => Some(state.kept(sandbox)?),
    };
    let cache = match plan.home.cache_source {
        CacheSource::None | CacheSource::Closed | CacheSource::HostReadOnly => None,
        CacheSource::Own if kept.is_some() => None,
        CacheSource::Own => match state.cache(plan.workspace.path.as_path()) {
            Ok(cache) => Some(cache),
            // The caches then live as long as the run.
            Err(error) => {
                report.note(&format!("package caches are not kept: {error}"));
                None
            }
        },
    };
    Ok(Host {
        uid: account.uid,
        gid: account.gid,
        group: account.group_name(),
        cache,
        kept,
        agent: plan
            .home
            .agent
            .as_ref()
            .map(|agent| state.path().join("agents").join(&agent.name)),
        desk: None,
        images: Some(state.path().join("etc")),
        own: vec![state.path().to_owned(), account.config_home().join("sjail")],
        home: account.home,
        user: account.name,
        shell: account.shell,
    })
}
