//! The tools that look at the queue, the log and the allow list, or answer.

use serde::Deserialize;
use serde_json::{Value, json};
use sjail_policy::bytes::ByteString;
use sjail_policy::duration::Moment;
use sjail_policy::risk::Risk;
use sjail_policy::wire::control as wire;

use super::execute::arguments;
use super::session::Call;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::known_as;
use crate::service::now;

/// So many commands are listed when nobody says how many.
const LAST: u32 = 50;

/// Does what the tool of this name does.
pub fn call(name: &str, call: &Call<'_>) -> Result<Value> {
    match name {
        "sandbox_queue_list" => list(arguments(call)?),
        "sandbox_queue_approve" => approve(arguments(call)?),
        "sandbox_queue_reject" => reject(arguments(call)?),
        "sandbox_audit_log" => log(arguments(call)?),
        "sandbox_audit_stats" => stats(arguments(call)?),
        "sandbox_allowlist_add" => add(arguments(call)?),
        "sandbox_allowlist_remove" => remove(arguments(call)?),
        "sandbox_allowlist_test" => test(arguments(call)?),
        _ => Err(Error::Parameter(format!("there is no tool `{name}`"))),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    status: Option<String>,
}

fn list(wanted: List) -> Result<Value> {
    let status = match wanted.status.as_deref().unwrap_or("pending") {
        "all" => None,
        name => Some(wire::RequestStatus::parse(name).ok_or_else(|| {
            Error::Parameter(
                "status is one of pending, approved, rejected, expired, used, all".to_owned(),
            )
        })?),
    };
    let list = wire::List {
        status,
        limit: Some(100),
        before: None,
    };
    let found: wire::Listed = Client::connect()?.call(wire::LIST, &list)?;
    Ok(known_as::listed(&found))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Approve {
    id: String,
    approved_by: Option<String>,
    notes: Option<String>,
    #[serde(default)]
    apply: bool,
}

fn approve(yes: Approve) -> Result<Value> {
    let approve = wire::Approve {
        id: yes.id,
        extent: wire::Extent {
            apply: yes.apply,
            ..wire::Extent::default()
        },
        without: Vec::new(),
        note: yes.notes,
        claimed_by: yes.approved_by,
        // A person types it, or nobody.
        word: None,
    };
    let shown: wire::Shown = Client::connect()?.call(wire::APPROVE, &approve)?;
    Ok(json!({ "request": known_as::request(&shown.request) }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reject {
    id: String,
    rejected_by: Option<String>,
    reason: Option<String>,
}

fn reject(no: Reject) -> Result<Value> {
    let reject = wire::Reject {
        id: no.id,
        reason: no.reason,
        claimed_by: no.rejected_by,
    };
    let shown: wire::Shown = Client::connect()?.call(wire::REJECT, &reject)?;
    Ok(json!({ "request": known_as::request(&shown.request) }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Log {
    limit: Option<u32>,
    risk_level: Option<Risk>,
    since: Option<String>,
    command_pattern: Option<String>,
}

fn log(wanted: Log) -> Result<Value> {
    let since = match wanted.since {
        None => None,
        Some(text) => {
            let moment: Moment =
                text.parse()
                    .map_err(|error: sjail_policy::duration::TimeError| {
                        Error::Parameter(error.to_string())
                    })?;
            Some(moment.resolve(now()))
        }
    };
    let filter = wire::AuditFilter {
        last: Some(wanted.limit.unwrap_or(LAST)),
        risk: wanted.risk_level,
        since,
        command_pattern: wanted.command_pattern,
        ..wire::AuditFilter::default()
    };
    Client::connect()?.call(wire::AUDIT_LOG, &filter)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stats {
    period: Option<String>,
}

fn stats(wanted: Stats) -> Result<Value> {
    let period = wanted.period.unwrap_or_else(|| "all".to_owned());
    let mut reply: Value =
        Client::connect()?.call(wire::AUDIT_STATS, &json!({ "period": period }))?;
    Ok(reply["stats"].take())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Add {
    pattern: String,
    description: Option<String>,
    auto_approve: Option<bool>,
}

fn add(add: Add) -> Result<Value> {
    let add = wire::AllowlistAdd {
        pattern: add.pattern,
        reason: add.description,
        auto_approve: add.auto_approve,
    };
    Client::connect()?.call(wire::ALLOWLIST_ADD, &add)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Remove {
    pattern: String,
}

fn remove(remove: Remove) -> Result<Value> {
    let remove = wire::AllowlistRemove {
        pattern: remove.pattern,
    };
    let _: wire::Changed = Client::connect()?.call(wire::ALLOWLIST_REMOVE, &remove)?;
    Ok(json!({ "removed": remove.pattern }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    command: String,
}

fn test(test: Test) -> Result<Value> {
    let question = wire::AllowlistTest {
        cwd: std::env::current_dir().ok().map(ByteString::from),
        path: std::env::var_os("PATH").map(ByteString::from),
        command: test.command.as_str().into(),
    };
    let tested: wire::AllowlistTested = Client::connect()?.call(wire::ALLOWLIST_TEST, &question)?;
    Ok(json!({
        "command": test.command,
        "allowed": tested.allowed,
        "matching": tested.matching,
        "why_not": tested.why_not,
    }))
}
