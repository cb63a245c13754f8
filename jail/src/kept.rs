//! What the broker keeps for its owner beside the policy files: the allow list, and the
//! approvals that nobody has used yet.
//!
//! Whoever cannot be asked keeps nothing, which is the stricter answer: without the list more
//! is asked about, never less.

use std::time::Duration;

use sjail_policy::rule::Rule;
use sjail_policy::wire::control::{
    ALLOWLIST_LIST, Allowlist, LIST, List, Listed, Request, RequestStatus,
};

use crate::caller::{Account, State};
use crate::client::{Client, Desk};

/// A broker that says nothing for so long keeps nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// So many unused approvals are looked at, the newest first.
const APPROVALS: u32 = 100;

/// The patterns that `sjail allowlist` keeps and that let a command run.
pub fn patterns(account: &Account) -> Vec<Rule> {
    let reply = asked(account, ALLOWLIST_LIST, &serde_json::json!({}));
    let Some(list) = reply.and_then(|reply| serde_json::from_value::<Allowlist>(reply).ok()) else {
        return Vec::new();
    };
    list.patterns
        .iter()
        .filter(|line| line.auto_approve)
        .filter_map(|line| Rule::parse(&line.pattern).ok())
        .collect()
}

/// The approvals that nobody has used yet.
pub fn approvals(account: &Account) -> Vec<Request> {
    let wanted = List {
        status: Some(RequestStatus::Approved),
        limit: Some(APPROVALS),
        before: None,
    };
    asked(account, LIST, &wanted)
        .and_then(|reply| serde_json::from_value::<Listed>(reply).ok())
        .map(|listed| listed.requests)
        .unwrap_or_default()
}

fn asked(
    account: &Account,
    method: &str,
    parameters: &impl serde::Serialize,
) -> Option<serde_json::Value> {
    let desk = Desk::own(account);
    // In a jail there is no such socket, and where nothing was ever recorded nothing is kept.
    if desk.is_inside() || !State::of(account).path().join("audit.db").exists() {
        return None;
    }
    let mut client = match Client::control(&desk) {
        Ok(client) => client,
        // It has ended because nobody needed it: the list is still there.
        Err(_) => {
            Client::connect(&desk).ok()?;
            Client::control(&desk).ok()?
        }
    };
    client.stream().set_read_timeout(Some(PATIENCE)).ok()?;
    client.call(method, parameters).ok()
}
