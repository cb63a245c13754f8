//! Handing the log out, record by record, in the forms that other programs read.

use std::collections::HashSet;
use std::io::Write;

use rusqlite::Connection;
use serde_json::Value as Json;
use sjail_policy::wire::control::AuditFilter;

use crate::audit::query::{self, Go, Kind, Order};
use crate::audit::record::{Event, Record};
use crate::cmd::table;
use crate::error::{Error, Result};

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One JSON array.
    Json,
    /// One JSON object per line.
    Jsonl,
    /// Comma-separated values with a header, as RFC 4180 has it.
    Csv,
    /// One `{timestamp, action, command, reason}` object per line and decision.
    Decisions,
}

/// Told after every so many records.
const PROGRESS: u64 = 10_000;

/// Writes every record that the filter lets through; `progress` hears how many so
/// far. Returns how many there were.
pub fn export(
    connection: &Connection,
    filter: &AuditFilter,
    format: Format,
    out: &mut dyn Write,
    mut progress: impl FnMut(u64),
) -> Result<u64> {
    let mut count: u64 = 0;
    let failed = Error::file;
    let mut write = |bytes: &[u8]| out.write_all(bytes).map_err(failed("write", "the export"));
    match format {
        Format::Json => write(b"[")?,
        Format::Csv => write(csv_line(CSV.iter().map(|name| (*name).to_owned())).as_bytes())?,
        Format::Jsonl | Format::Decisions => {}
    }
    let standing = query::standing(connection, filter)?;
    query::scan(
        connection,
        filter,
        Kind::All,
        Order::OldestFirst,
        |record| {
            let id = record.entry.id.as_ref();
            let is_wanted = |names: &HashSet<String>| id.is_some_and(|id| names.contains(id));
            if !standing.as_ref().is_none_or(is_wanted) {
                return Ok(Go::On);
            }
            let text = match format {
                Format::Json => {
                    let comma = if count == 0 { "\n" } else { ",\n" };
                    format!("{comma}{}", query::record_json(&record))
                }
                Format::Jsonl => format!("{}\n", query::record_json(&record)),
                Format::Csv => csv_record(&record),
                Format::Decisions => match decision(&record) {
                    Some(line) => format!("{line}\n"),
                    None => return Ok(Go::On),
                },
            };
            write(text.as_bytes())?;
            count += 1;
            if count.is_multiple_of(PROGRESS) {
                progress(count);
            }
            Ok(Go::On)
        },
    )?;
    if format == Format::Json {
        write(b"\n]\n")?;
    }
    Ok(count)
}

/// A record as the line of a decision log, if it is a decision.
fn decision(record: &Record) -> Option<Json> {
    let entry = &record.entry;
    let reasons = || {
        let reasons: Vec<String> = serde_json::from_str(entry.reasons.as_deref()?).ok()?;
        (!reasons.is_empty()).then(|| reasons.join(", "))
    };
    let (action, reason) = match (entry.event, entry.decision.as_deref()) {
        // The answer has its own line; a preview changes nothing that anybody decided about.
        (Event::Intent, Some("approved" | "preview")) => return None,
        (Event::Intent, _) => ("ALLOW", None),
        (Event::Decision, Some("ask")) => ("ASK", reasons()),
        (Event::Decision, _) => ("BLOCK", reasons().or_else(|| entry.rule.clone())),
        (Event::Approval, Some("approved")) => ("ALLOW", entry.approver.clone()),
        (Event::Approval, Some("rejected")) => ("BLOCK", entry.approver.clone()),
        _ => return None,
    };
    Some(serde_json::json!({
        "timestamp": query::timestamp(record.time),
        "action": action,
        "command": typed(record).or_else(|| entry.command.clone()),
        "reason": reason,
    }))
}

/// A program text as it was typed: the words around it are sjail's own.
fn typed(record: &Record) -> Option<String> {
    let parsed = |text: &Option<String>| serde_json::from_str::<Json>(text.as_deref()?).ok();
    let detail = parsed(&record.entry.detail)?;
    let argv = parsed(&record.entry.argv)?;
    table::code(argv[0].as_str()?, detail["text"]["head"].as_str()?)
}

const CSV: [&str; 18] = [
    "seq",
    "timestamp",
    "event",
    "id",
    "command",
    "cwd",
    "user",
    "agent",
    "session",
    "risk_level",
    "risk_reasons",
    "decision",
    "rule",
    "approver",
    "exit_code",
    "signal",
    "duration_ms",
    "hash",
];

fn csv_record(record: &Record) -> String {
    let json = query::record_json(record);
    csv_line(CSV.iter().map(|name| match &json[*name] {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }))
}

fn csv_line(fields: impl Iterator<Item = String>) -> String {
    let fields: Vec<String> = fields.map(|field| csv_field(&field)).collect();
    format!("{}\r\n", fields.join(","))
}

/// Quoted, and never read as a formula by a spreadsheet.
fn csv_field(text: &str) -> String {
    let text = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::audit::ledger::Ledger;
    use crate::audit::mirror::Mirror;
    use crate::audit::record::Entry;
    use crate::audit::stats;
    use crate::store::{self, Files};

    fn sample() -> (tempfile::TempDir, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        let mut ledger = Ledger::open(&files, Mirror::none()).unwrap();
        let command = |event, id: &str, command: &str, decision: &str, risk: &str| {
            let mut entry = Entry::new(event);
            entry.id = Some(id.to_owned());
            entry.command = Some(command.to_owned());
            entry.decision = Some(decision.to_owned());
            entry.risk = Some(risk.to_owned());
            entry.reasons = Some("[\"Because\"]".to_owned());
            entry.agent = Some("claude".to_owned());
            entry
        };
        ledger
            .transaction(|ledger| {
                ledger.append(command(
                    Event::Intent,
                    "a",
                    "npm install",
                    "allow",
                    "normal",
                ))?;
                let mut outcome = Entry::new(Event::Outcome);
                outcome.id = Some("a".to_owned());
                outcome.exit = Some(0);
                outcome.duration = Some(2500);
                ledger.append(outcome)?;
                ledger.append(command(
                    Event::Decision,
                    "b",
                    "rm -rf /",
                    "block",
                    "critical",
                ))?;
                ledger.append(command(
                    Event::Decision,
                    "c",
                    "=rm,\"x\"",
                    "ask",
                    "dangerous",
                ))?;
                let mut approval =
                    command(Event::Approval, "c", "=rm,\"x\"", "rejected", "dangerous");
                approval.approver = Some("ann".to_owned());
                ledger.append(approval)
            })
            .unwrap();
        let connection = store::open_reader(&files.database()).unwrap();
        (folder, connection)
    }

    #[test]
    fn a_preview_is_told_from_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        let mut ledger = Ledger::open(&files, Mirror::none()).unwrap();
        ledger
            .transaction(|ledger| {
                for (id, decision) in [("a", "preview"), ("b", "allow")] {
                    let mut intent = Entry::new(Event::Intent);
                    intent.id = Some(id.to_owned());
                    intent.command = Some("rm -rf build".to_owned());
                    intent.decision = Some(decision.to_owned());
                    ledger.append(intent)?;
                    let mut outcome = Entry::new(Event::Outcome);
                    outcome.id = Some(id.to_owned());
                    outcome.exit = Some(0);
                    ledger.append(outcome)?;
                }
                Ok(())
            })
            .unwrap();
        let connection = store::open_reader(&files.database()).unwrap();
        let all = query::commands(&connection, &AuditFilter::default()).unwrap();
        let words: Vec<_> = all.iter().map(|line| line.status.as_str()).collect();
        assert_eq!(words, ["previewed", "executed"]);
    }

    fn exported(connection: &Connection, format: Format) -> String {
        let mut out = Vec::new();
        export(
            connection,
            &AuditFilter::default(),
            format,
            &mut out,
            |_| {},
        )
        .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn decisions_have_the_four_fields_of_the_decision_log() {
        let (_folder, connection) = sample();
        let lines: Vec<Json> = exported(&connection, Format::Decisions)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let short: Vec<_> = lines
            .iter()
            .map(|l| format!("{} {} {}", l["action"], l["command"], l["reason"]))
            .collect();
        assert_eq!(
            short,
            [
                r#""ALLOW" "npm install" null"#,
                r#""BLOCK" "rm -rf /" "Because""#,
                r#""ASK" "=rm,\"x\"" "Because""#,
                r#""BLOCK" "=rm,\"x\"" "ann""#,
            ]
        );
        assert!(lines.iter().all(|l| l.as_object().unwrap().len() == 4));
    }

    #[test]
    fn json_parses_and_csv_is_quoted_and_inert() {
        let (_folder, connection) = sample();
        let all: Vec<Json> = serde_json::from_str(&exported(&connection, Format::Json)).unwrap();
        assert_eq!(all.len(), 6);
        assert_eq!(exported(&connection, Format::Jsonl).lines().count(), 6);
        let csv = exported(&connection, Format::Csv);
        assert!(csv.contains(",\"'=rm,\"\"x\"\"\","), "{csv}");
    }

    #[test]
    fn a_status_chooses_whole_commands() {
        let (_folder, connection) = sample();
        for (status, records) in [
            ("blocked", 1),
            ("rejected", 2),
            ("executed", 2),
            ("lost", 0),
        ] {
            let filter = AuditFilter {
                status: Some(status.to_owned()),
                ..AuditFilter::default()
            };
            let mut out = Vec::new();
            let count = export(&connection, &filter, Format::Jsonl, &mut out, |_| {}).unwrap();
            assert_eq!(count, records, "{status}");
        }
    }

    #[test]
    fn commands_are_one_line_each_with_what_became_of_them() {
        let (_folder, connection) = sample();
        let all = query::commands(&connection, &AuditFilter::default()).unwrap();
        let short: Vec<_> = all
            .iter()
            .map(|l| (l.command.as_str(), l.status.as_str()))
            .collect();
        assert_eq!(
            short,
            [
                ("npm install", "executed"),
                ("rm -rf /", "blocked"),
                ("=rm,\"x\"", "rejected")
            ]
        );
        let filter = AuditFilter {
            command_pattern: Some("rm*".to_owned()),
            risk: Some(sjail_policy::risk::Risk::Critical),
            ..AuditFilter::default()
        };
        assert_eq!(query::commands(&connection, &filter).unwrap().len(), 1);
        let filter = AuditFilter {
            status: Some("rejected".to_owned()),
            since: Some(0),
            until: Some(i64::MAX / 2_000_000),
            ..AuditFilter::default()
        };
        assert_eq!(query::commands(&connection, &filter).unwrap().len(), 1);
        let filter = AuditFilter {
            until: Some(1000),
            ..AuditFilter::default()
        };
        assert_eq!(query::commands(&connection, &filter).unwrap(), []);
    }

    #[test]
    fn statistics_count_each_command_once() {
        let (_folder, connection) = sample();
        let stats = stats::stats(&connection, "all", 0).unwrap();
        assert_eq!(stats.total_commands, 3);
        assert_eq!((stats.normal, stats.dangerous, stats.critical), (1, 1, 1));
        assert_eq!(stats.most_denied.first().unwrap().command, "rm -rf /");
        assert_eq!(stats.runs.finished, 1);
        assert_eq!(stats.agents.get("claude"), Some(&3));
    }
}
