//! What the tools of an agent were kept from: told by the hook or the tool that said no, since
//! nothing ran that anybody else could tell of.

use std::path::Path;

use serde_json::json;
use sjail_policy::redact::Redactor;
use sjail_policy::risk::Risk;
use sjail_policy::wire::request::{Recorded, Refused};

use crate::audit::record::{Entry, Event};
use crate::error::Error;
use crate::id;
use crate::notify;
use crate::requests::{NAMES, are_names};
use crate::server::Visit;
use crate::service::Failure;

/// So many bytes of each text are taken.
const LONGEST: usize = 16 << 10;

/// Answers [`sjail_policy::wire::request::REFUSED`].
pub async fn record(visit: &mut Visit, refused: Refused) -> Result<(), Failure> {
    let wrong = |what: &str| Err(Error::Parameter(what.to_owned()).into());
    if !refused.cwd.as_bytes().starts_with(b"/") {
        return wrong("cwd is not absolute");
    }
    if !are_names([&refused.agent, &refused.session]) {
        return wrong(NAMES);
    }
    let texts = [&refused.tool, &refused.act, &refused.rule];
    if texts.iter().any(|text| text.len() > LONGEST) {
        return wrong("tool, act and rule have at most 16 KiB each");
    }
    let id = id::run()?;
    let act = Redactor::new(&[]).redact_text(&refused.act);
    let mut entry = Entry::new(Event::Decision);
    entry.id = Some(id.clone());
    entry.command = Some(act.clone());
    entry.cwd = Some(String::from_utf8_lossy(refused.cwd.as_bytes()).into_owned());
    entry.user = Some(visit.service.user_name(visit.peer.uid));
    entry.agent = refused.agent;
    entry.session = refused.session;
    entry.decision = Some("block".to_owned());
    entry.rule = Some(refused.rule.clone());
    let entry = entry.detail(&json!({ "peer": visit.peer.describe(), "tool": refused.tool }));
    let mut alarm = Entry::new(Event::Alert);
    alarm.id = Some(id.clone());
    let alarm = alarm.detail(&json!({
        "alert": "blocked",
        "message": format!("blocked: {act}"),
        "rule": refused.rule,
    }));
    let seq = visit
        .service
        .writer
        .write(move |ledger| {
            let seq = ledger.append(entry)?;
            ledger.append(alarm)?;
            Ok(seq)
        })
        .await?;
    if let Ok(in_force) = visit.service.judge.policies().load(Path::new("/"), &[]) {
        let on_ask = &in_force.loaded.policy.on_ask.value;
        notify::alert(on_ask, &id, &act, Risk::Disallowed);
    }
    let seq = seq.unsigned_abs();
    visit.connection.reply(&Recorded { seq }).await?;
    Ok(())
}
