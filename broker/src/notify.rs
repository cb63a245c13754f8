//! Telling the owner that somebody waits, by the command that the policy names.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use sjail_policy::risk::Risk;
use sjail_policy::show;
use tokio::sync::Semaphore;

use crate::queue::Stored;
use crate::say::say;

/// So many of these commands run at once; more are left out, the queue shows them.
static ROOM: std::sync::LazyLock<Arc<Semaphore>> =
    std::sync::LazyLock::new(|| Arc::new(Semaphore::new(4)));
/// One may take so long.
const PATIENCE: Duration = Duration::from_secs(30);
/// So much of a command is told; the queue shows it whole.
const SUMMARY: usize = 200;

/// A request waits.
pub fn asked(command: &[String], stored: &Stored) {
    let found = stored.body.shown().map(|found| {
        let found = show::clipped(found.as_bytes(), SUMMARY);
        format!(" · it {found}")
    });
    let summary = format!(
        "sjail: {} wants to run ({}): {}{} · sjail queue show {}",
        stored.body.agent.as_deref().unwrap_or(&stored.body.user),
        stored.body.risk,
        show::clipped(stored.body.redacted.command.as_bytes(), SUMMARY),
        found.unwrap_or_default(),
        stored.id
    );
    run(command, &summary, &stored.id, stored.body.risk);
}

/// Something was refused that its owner should hear of.
pub fn alert(command: &[String], id: &str, line: &str, risk: Risk) {
    let summary = format!(
        "sjail blocked ({risk}): {}",
        show::clipped(line.as_bytes(), SUMMARY)
    );
    run(command, &summary, id, risk);
}

/// A run was refused something on the network.
pub fn network(command: &[String], id: &str, message: &str) {
    let summary = format!(
        "sjail, {id}: {}",
        show::clipped(message.as_bytes(), SUMMARY)
    );
    run(command, &summary, id, Risk::Dangerous);
}

/// Something is wrong with what sjail itself works with.
pub fn trouble(command: &[String], message: &str) {
    let summary = format!("sjail: {}", show::clipped(message.as_bytes(), SUMMARY));
    run(command, &summary, "-", Risk::Dangerous);
}

/// A word with each value in its place; what a value says is not looked at again.
fn filled_in(word: &str, values: &[(&str, &str, &str)]) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let found = values.iter().find(|(mark, ..)| from.starts_with(mark));
        let (text, taken) = match found {
            Some((mark, _, value)) => (*value, mark.len()),
            None => ("{", 1),
        };
        out.push_str(text);
        rest = from.get(taken..).unwrap_or_default();
    }
    out + rest
}

/// Runs the command, no shell between: `{summary}`, `{id}` and `{risk}` are filled in, and are
/// variables for whoever has a shell of their own.
fn run(command: &[String], summary: &str, id: &str, risk: Risk) {
    let summary = show::inert(summary.as_bytes());
    let values = [
        ("{summary}", "SJAIL_SUMMARY", summary.as_str()),
        ("{id}", "SJAIL_ID", id),
        ("{risk}", "SJAIL_RISK", risk.name()),
    ];
    let mut words = command.iter().map(|word| filled_in(word, &values));
    let Some(program) = words.next() else { return };
    let Ok(place) = Arc::clone(&ROOM).try_acquire_owned() else {
        return;
    };
    let child = tokio::process::Command::new(program)
        .args(words)
        .envs(values.map(|(_, name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    match child {
        Ok(mut child) => {
            tokio::spawn(async move {
                let _ = tokio::time::timeout(PATIENCE, child.wait()).await;
                drop(place);
            });
        }
        Err(error) => say(&format!("on_ask cannot be run: {error}")),
    }
}
