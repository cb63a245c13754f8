//! `io.sjail.Control`: what the owner says.

use serde_json::{Value, json};
use sjail_policy::wire::Call;
use sjail_policy::wire::control as wire;
use sjail_policy::wire::message::service as varlink;
use tokio::sync::broadcast::error::RecvError;

use crate::audit::{prune, query, stats};
use crate::error::Error;
use crate::introspect::unknown_method;
use crate::proposal;
use crate::queue::answer::{self, Approver, may_rule};
use crate::queue::request::{self, Detail, Page};
use crate::queue::{allowlist, permit, session};
use crate::server::Visit;
use crate::service::{Failure, now, parameters};
use crate::sources::NoPolicy;

/// So many requests at most in one listing.
const PAGE: u32 = 1000;
/// So many records at most in one answer.
const RECORDS: u32 = 10_000;

/// Answers one call.
pub async fn answer(visit: &mut Visit, call: Call) -> Result<(), Failure> {
    match call.method.as_str() {
        wire::LIST => list(visit, parameters(&call)?).await,
        wire::SHOW => show(visit, parameters(&call)?).await,
        wire::APPROVE => approve(visit, parameters(&call)?).await,
        wire::REJECT => reject(visit, parameters(&call)?).await,
        wire::CLEAR => clear(visit, parameters(&call)?).await,
        wire::WATCH if !call.more => Err(Failure::Named(varlink::EXPECTED_MORE, json!({}))),
        wire::WATCH => watch(visit).await,
        wire::GRANTS => grants(visit).await,
        wire::REVOKE => revoke(visit, parameters(&call)?).await,
        wire::ALLOWLIST_ADD => allowlist_add(visit, parameters(&call)?).await,
        wire::ALLOWLIST_REMOVE => allowlist_remove(visit, parameters(&call)?).await,
        wire::ALLOWLIST_LIST => allowlist_list(visit).await,
        wire::ALLOWLIST_TEST => allowlist_test(visit, parameters(&call)?).await,
        wire::POLICY_STATUS => policy_status(visit).await,
        wire::REGISTER_SESSION => register_session(visit, parameters(&call)?).await,
        wire::SESSIONS => {
            let sessions = visit.service.readers.read(session::list).await?;
            visit.connection.reply(&wire::Sessions { sessions }).await?;
            Ok(())
        }
        wire::AUDIT_LOG => audit_log(visit, parameters(&call)?).await,
        wire::AUDIT_STATS => audit_stats(visit, parameters(&call)?).await,
        wire::AUDIT_PRUNE => audit_prune(visit, parameters(&call)?).await,
        wire::STOP => {
            visit.connection.reply(&json!({})).await?;
            visit.service.stop();
            Ok(())
        }
        _ => {
            let (name, parameters) = unknown_method(visit.door, &call.method);
            Err(Failure::Named(name, parameters))
        }
    }
}

async fn list(visit: &mut Visit, wanted: wire::List) -> Result<(), Failure> {
    let page = Page {
        status: wanted.status,
        limit: wanted.limit.unwrap_or(PAGE).min(PAGE),
        before: wanted.before,
    };
    // Those whose time is over must not be shown as waiting.
    lapse(visit).await?;
    let (found, total) = visit
        .service
        .readers
        .read(move |connection| request::list(connection, &page))
        .await?;
    let requests = found.iter().map(|r| r.to_wire(Detail::Short)).collect();
    visit
        .connection
        .reply(&wire::Listed { requests, total })
        .await?;
    Ok(())
}

async fn lapse(visit: &Visit) -> Result<(), Failure> {
    let lapsed = visit
        .service
        .writer
        .write(|ledger| request::expire(ledger, now()))
        .await?;
    for id in lapsed {
        visit.service.tell_status(&id, wire::RequestStatus::Expired);
    }
    Ok(())
}

async fn show(visit: &mut Visit, wanted: wire::ById) -> Result<(), Failure> {
    lapse(visit).await?;
    let stored = visit.service.request(&wanted.id).await?;
    let request = stored.to_wire(Detail::All);
    visit.connection.reply(&wire::Shown { request }).await?;
    Ok(())
}

/// Whoever answers, as the kernel sees them now.
fn approver(
    visit: &Visit,
    claimed: Option<String>,
    word: Option<String>,
) -> Result<Approver, Failure> {
    let line = visit.peer.lineage();
    if line.is_empty() {
        return Err(Error::Refused(
            "whoever answers must still be there: the process has ended".to_owned(),
        )
        .into());
    }
    Ok(Approver {
        summary: summary(visit),
        line: line.iter().map(|stat| stat.id).collect(),
        claimed,
        word,
    })
}

/// Whoever speaks, in one line.
fn summary(visit: &Visit) -> String {
    visit.peer.summary(&visit.service.user_name(visit.peer.uid))
}

async fn approve(visit: &mut Visit, yes: wire::Approve) -> Result<(), Failure> {
    let by = approver(visit, yes.claimed_by, yes.word)?;
    let stored = visit
        .service
        .writer
        .write(move |ledger| {
            answer::approve(
                ledger,
                &yes.id,
                &by,
                &yes.extent,
                &yes.without,
                yes.note.as_deref(),
                now(),
            )
        })
        .await?;
    visit.service.tell(&stored);
    refresh_allowlist(visit).await?;
    refresh_registries(visit).await?;
    let request = stored.to_wire(Detail::All);
    visit.connection.reply(&wire::Shown { request }).await?;
    Ok(())
}

async fn reject(visit: &mut Visit, no: wire::Reject) -> Result<(), Failure> {
    let by = approver(visit, no.claimed_by, None)?;
    let stored = visit
        .service
        .writer
        .write(move |ledger| answer::reject(ledger, &no.id, &by, no.reason.as_deref(), now()))
        .await?;
    visit.service.tell(&stored);
    let request = stored.to_wire(Detail::All);
    visit.connection.reply(&wire::Shown { request }).await?;
    Ok(())
}

async fn clear(visit: &mut Visit, what: wire::Clear) -> Result<(), Failure> {
    let by = summary(visit);
    let count = visit
        .service
        .writer
        .write(move |ledger| request::clear(ledger, what.before, &by))
        .await?;
    visit.connection.reply(&wire::Changed { count }).await?;
    Ok(())
}

async fn watch(visit: &mut Visit) -> Result<(), Failure> {
    let mut changes = visit.service.listen();
    loop {
        let change = tokio::select! {
            change = changes.recv() => change,
            end = visit.connection.hung_up() => return Err(end.into()),
        };
        let id = match change {
            Ok(change) => change.id,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return Ok(()),
        };
        // It may have been cleared meanwhile.
        if let Ok(stored) = visit.service.request(&id).await {
            let request = stored.to_wire(Detail::All);
            visit
                .connection
                .reply_and_go_on(&wire::Shown { request })
                .await?;
        }
    }
}

async fn grants(visit: &mut Visit) -> Result<(), Failure> {
    let grants = visit
        .service
        .readers
        .read(|connection| permit::list(connection, now()))
        .await?;
    visit.connection.reply(&wire::Grants { grants }).await?;
    Ok(())
}

async fn revoke(visit: &mut Visit, what: wire::ById) -> Result<(), Failure> {
    let by = summary(visit);
    visit
        .service
        .writer
        .write(move |ledger| permit::revoke(ledger, &what.id, &by))
        .await?;
    refresh_registries(visit).await?;
    visit.connection.reply(&wire::Changed { count: 1 }).await?;
    Ok(())
}

async fn allowlist_add(visit: &mut Visit, what: wire::AllowlistAdd) -> Result<(), Failure> {
    proposal::check(&what.pattern)?;
    let by = summary(visit);
    visit
        .service
        .writer
        .write(move |ledger| allowlist::add(ledger, &what, &by, now()))
        .await?;
    refresh_allowlist(visit).await?;
    allowlist_list(visit).await
}

/// The judge goes by the list as it is now.
async fn refresh_allowlist(visit: &Visit) -> Result<(), Failure> {
    let patterns = visit.service.readers.read(allowlist::patterns).await?;
    visit.service.judge.allow(&patterns);
    Ok(())
}

/// And by the hosts that package managers have now.
async fn refresh_registries(visit: &Visit) -> Result<(), Failure> {
    let readers = &visit.service.readers;
    let known = readers.read(|connection| permit::registries(connection, now()));
    visit.service.judge.registries.replace(known.await?);
    Ok(())
}

async fn allowlist_test(visit: &mut Visit, what: wire::AllowlistTest) -> Result<(), Failure> {
    let home = visit.service.judge.policies().account().home.clone();
    let cwd = what.cwd.map_or(home, |cwd| cwd.as_path().to_owned());
    let path = what.path.unwrap_or_default();
    let list = visit.service.readers.read(allowlist::list).await?;
    let noted = list.into_iter().filter(|line| !line.auto_approve);
    let noted: Vec<String> = noted.map(|line| line.pattern).collect();
    let judge = &visit.service.judge;
    let allowing = judge.allowing(what.command.as_bytes(), &cwd, path.as_os_str(), &noted);
    let reply = wire::AllowlistTested {
        allowed: !allowing.patterns.is_empty(),
        matching: allowing.patterns,
        why_not: allowing.why_not,
    };
    visit.connection.reply(&reply).await?;
    Ok(())
}

async fn policy_status(visit: &mut Visit) -> Result<(), Failure> {
    let policies = visit.service.judge.policies();
    let reply = match policies.load(&policies.account().home, &[]) {
        Ok(in_force) => wire::PolicyStatus {
            hash: in_force.hash.to_string(),
            problems: in_force.problems.clone(),
        },
        Err(NoPolicy::File(error)) => return Err(error.into()),
        Err(NoPolicy::CommandLine(error)) => return Err(Error::Policy(error.to_string()).into()),
    };
    visit.connection.reply(&reply).await?;
    Ok(())
}

async fn register_session(visit: &mut Visit, what: wire::RegisterSession) -> Result<(), Failure> {
    let by = approver(visit, None, None)?;
    visit
        .service
        .writer
        .write(move |ledger| {
            may_rule(ledger.connection(), &by, |asked| {
                asked.body.session.as_ref() == Some(&what.session)
            })?;
            session::register(ledger, &what.session, &what.role, &by.summary, now())
        })
        .await?;
    visit.connection.reply(&json!({})).await?;
    Ok(())
}

async fn allowlist_remove(visit: &mut Visit, what: wire::AllowlistRemove) -> Result<(), Failure> {
    let by = summary(visit);
    visit
        .service
        .writer
        .write(move |ledger| allowlist::remove(ledger, &what.pattern, &by))
        .await?;
    refresh_allowlist(visit).await?;
    visit.connection.reply(&wire::Changed { count: 1 }).await?;
    Ok(())
}

async fn allowlist_list(visit: &mut Visit) -> Result<(), Failure> {
    let patterns = visit.service.readers.read(allowlist::list).await?;
    visit
        .connection
        .reply(&wire::Allowlist { patterns })
        .await?;
    Ok(())
}

async fn audit_log(visit: &mut Visit, filter: wire::AuditFilter) -> Result<(), Failure> {
    let mut filter = filter;
    filter.last = Some(filter.last.unwrap_or(query::DEFAULT_LAST).min(RECORDS));
    let records: Vec<Value> = visit
        .service
        .readers
        .read(move |connection| {
            if filter.events {
                let found = query::records(connection, &filter)?;
                return Ok(found.iter().map(query::record_json).collect());
            }
            let lines = query::commands(connection, &filter)?;
            Ok(lines.iter().map(|line| json!(line)).collect())
        })
        .await?;
    visit
        .connection
        .reply(&json!({ "records": records }))
        .await?;
    Ok(())
}

async fn audit_stats(visit: &mut Visit, what: Value) -> Result<(), Failure> {
    let period = what["period"].as_str().unwrap_or("all").to_owned();
    let since = stats::since(&period, now()).ok_or_else(|| {
        Error::Parameter("period is a time such as 1d, 7d, 30d, or all".to_owned())
    })?;
    let stats = visit
        .service
        .readers
        .read(move |connection| stats::stats(connection, &period, since))
        .await?;
    visit.connection.reply(&json!({ "stats": stats })).await?;
    Ok(())
}

async fn audit_prune(visit: &mut Visit, what: wire::Clear) -> Result<(), Failure> {
    let by = summary(visit);
    let before = what.before.saturating_mul(1_000_000);
    let count = prune::prune(&visit.service.writer, before, by).await?;
    visit.connection.reply(&wire::Changed { count }).await?;
    Ok(())
}
