//! A yes to less than was asked for: the plan that was frozen with the request loses what
//! its approver leaves out. Nothing is ever added to it.

use rusqlite::params;
use sjail_policy::bytes::ByteString;
use sjail_policy::plan::{NetworkMode, Plan};
use sjail_policy::show;

use crate::audit::ledger::Ledger;
use crate::error::{Error, Result};
use crate::queue::request::{self, Stored};

/// Takes granted paths, hosts or the whole network out of what would run.
pub fn leave_out(ledger: &Ledger, stored: &Stored, without: &[ByteString]) -> Result<()> {
    let refused = |what: &ByteString, why: &str| {
        Error::Refused(format!(
            "{} cannot be left out: {why}",
            show::inert(what.as_bytes())
        ))
    };
    let Some(mut plan) = request::plan(ledger.connection(), &stored.id)? else {
        let what = without.first().cloned().unwrap_or_default();
        return Err(refused(&what, "this does not run in a jail"));
    };
    for what in without {
        if !take_out(&mut plan, what) {
            return Err(refused(
                what,
                "it is not asked for; `sjail queue show` says what is",
            ));
        }
    }
    let text = serde_json::to_string(&plan).map_err(|error| Error::Unreadable {
        what: "a plan",
        problem: error.to_string(),
    })?;
    ledger
        .connection()
        .prepare_cached("UPDATE request SET plan = ?2 WHERE id = ?1")
        .and_then(|mut statement| statement.execute(params![stored.id, text]))
        .map(|_| ())
        .map_err(Error::database("narrow a request"))
}

/// Whether there was such a thing.
fn take_out(plan: &mut Plan, what: &ByteString) -> bool {
    let grants = &mut plan.filesystem.grants;
    let hosts = &mut plan.network.allow;
    let before = (grants.len(), hosts.len());
    grants.retain(|grant| grant.source != *what && grant.dest != *what);
    hosts.retain(|host| host.to_string().as_bytes() != what.as_bytes());
    let mut found = before != (grants.len(), hosts.len());
    if what.as_bytes() == b"network" && plan.network.mode != NetworkMode::None {
        plan.network.mode = NetworkMode::None;
        found = true;
    }
    found
}
