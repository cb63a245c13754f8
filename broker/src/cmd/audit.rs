//! `sjail audit`: reading, counting, checking and trimming the log. All but `prune`
//! read the file itself, so they work whether a broker runs or not.

use std::fs::{self, File};
use std::io::{BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use sjail_policy::duration::Moment;
use sjail_policy::risk::Risk;
use sjail_policy::wire::control as wire;

use crate::audit::export::{self, Format};
use crate::audit::head::SignedHead;
use crate::audit::query;
use crate::audit::stats::{self, Stats};
use crate::audit::verify::{self, Problem, Witness};
use crate::client::Client;
use crate::cmd::{network, print, print_json, table};
use crate::error::{Error, Result};
use crate::paths;
use crate::service::now;
use crate::store::{self, Files};

/// What can be done with the log.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// List commands and what became of them, the newest last
    Log {
        /// Which commands
        #[command(flatten)]
        filter: Filter,
        /// At most so many, the newest
        #[arg(long, value_name = "N", alias = "limit", default_value_t = query::DEFAULT_LAST, value_parser = number)]
        last: u32,
        /// Every record instead of one line per command
        #[arg(long)]
        events: bool,
        /// One JSON array
        #[arg(long)]
        json: bool,
    },
    /// Show every record about one command, or one record by its number
    Show {
        /// The command's id, or a record's number
        id: String,
        /// One JSON array
        #[arg(long)]
        json: bool,
    },
    /// Count commands by risk, decision, agent and day
    Stats {
        /// A time such as 1d, 7d, 30d, or all
        #[arg(long, default_value = "all")]
        period: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write the log to a file or to standard output
    Export {
        /// The form
        #[arg(long, value_enum, default_value_t = Format::Jsonl)]
        format: Format,
        /// The file; standard output if it is not given
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Which commands
        #[command(flatten)]
        filter: Filter,
    },
    /// Check the chain, the signatures and the length of the log; exit 1 if anything is wrong
    Verify {
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Remove old records; what stays can still be verified
    Prune {
        /// An age such as 30d, or a date
        #[arg(long, value_name = "TIME", value_parser = moment)]
        older_than: Moment,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Which records are wanted.
#[derive(Debug, Args)]
pub struct Filter {
    /// Only this risk: safe, normal, dangerous, critical or disallowed
    #[arg(long, value_parser = risk)]
    risk_level: Option<Risk>,
    /// Not before: an age such as 7d, or a date
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Moment>,
    /// Not after: an age such as 1h, or a date
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Moment>,
    /// Only this account
    #[arg(long)]
    user: Option<String>,
    /// Only this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only this session
    #[arg(long)]
    session: Option<String>,
    /// Only commands that match, `*` and `?` as in file names
    #[arg(long, value_name = "PATTERN")]
    command_pattern: Option<String>,
    /// Only executed, previewed, failed, running, lost, blocked, pending, approved, rejected or expired
    #[arg(long)]
    status: Option<String>,
}

impl Filter {
    fn to_wire(&self) -> wire::AuditFilter {
        wire::AuditFilter {
            risk: self.risk_level,
            since: self.since.map(|moment| moment.resolve(now())),
            until: self.until.map(|moment| moment.resolve(now())),
            user: self.user.clone(),
            agent: self.agent.clone(),
            session: self.session.clone(),
            command_pattern: self.command_pattern.clone(),
            status: self.status.clone(),
            ..wire::AuditFilter::default()
        }
    }
}

fn risk(name: &str) -> std::result::Result<Risk, String> {
    serde_json::from_value(json!(name))
        .map_err(|_| "one of safe, normal, dangerous, critical, disallowed".to_owned())
}

fn moment(text: &str) -> std::result::Result<Moment, String> {
    text.parse()
        .map_err(|error: sjail_policy::duration::TimeError| error.to_string())
}

/// Does what was typed.
pub fn run(verb: Audit) -> Result<u8> {
    let files = Files::new(paths::state_folder());
    match verb {
        Audit::Log {
            filter,
            last,
            events,
            json,
        } => {
            let mut filter = filter.to_wire();
            filter.last = Some(last);
            if events {
                log_events(&files, &filter, json)
            } else {
                log(&files, &filter, json)
            }
        }
        Audit::Show { id, json } => show(&files, &id, json),
        Audit::Stats { period, json } => count(&files, &period, json),
        Audit::Export {
            format,
            output,
            filter,
        } => hand_out(&files, &filter.to_wire(), format, output.as_deref()),
        Audit::Verify { json } => check(&files, json),
        Audit::Prune { older_than, json } => {
            let before = older_than.resolve(now());
            let changed: wire::Changed =
                Client::connect()?.call(wire::AUDIT_PRUNE, &wire::Clear { before })?;
            if json {
                print_json(&json!({ "pruned": changed.count }))?;
            } else {
                print(&format!("{} records removed\n", changed.count))?;
            }
            Ok(0)
        }
    }
}

fn log(files: &Files, filter: &wire::AuditFilter, json: bool) -> Result<u8> {
    let lines = match reader(files)? {
        Some(connection) => query::commands(&connection, filter)?,
        None => Vec::new(),
    };
    if json {
        print_json(&lines)?;
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            vec![
                line.timestamp.clone(),
                line.id.clone().unwrap_or_default(),
                line.status.clone(),
                line.risk_level.clone().unwrap_or_default(),
                table::text(
                    line.agent
                        .as_deref()
                        .or(line.user.as_deref())
                        .unwrap_or("-"),
                ),
                line.exit_code
                    .map(|code| code.to_string())
                    .unwrap_or_default(),
                line.duration_ms
                    .map(|ms| format!("{ms:.0}ms"))
                    .unwrap_or_default(),
                table::command(&typed(line)),
            ]
        })
        .collect();
    let header = [
        "TIME", "ID", "STATUS", "RISK", "WHO", "EXIT", "TOOK", "COMMAND",
    ];
    print(&table::lines(&header, &rows))?;
    Ok(0)
}

/// The command, or what was typed where that is sjail's own.
fn typed(line: &query::Line) -> String {
    let program = line.argv[0].as_str().unwrap_or_default();
    line.text
        .as_deref()
        .and_then(|text| table::code(program, text))
        .unwrap_or_else(|| line.command.clone())
}

fn log_events(files: &Files, filter: &wire::AuditFilter, json: bool) -> Result<u8> {
    let records = match reader(files)? {
        Some(connection) => query::records(&connection, filter)?,
        None => Vec::new(),
    };
    let values: Vec<Value> = records.iter().map(query::record_json).collect();
    if json {
        print_json(&values)?;
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = records
        .iter()
        .map(|record| {
            let entry = &record.entry;
            let what = entry.command.as_deref().or(entry.detail.as_deref());
            vec![
                record.seq.to_string(),
                query::timestamp(record.time),
                entry.event.name().to_owned(),
                entry.id.clone().unwrap_or_default(),
                entry.decision.clone().unwrap_or_default(),
                table::command(what.unwrap_or_default()),
            ]
        })
        .collect();
    print(&table::lines(
        &["SEQ", "TIME", "EVENT", "ID", "DECISION", "WHAT"],
        &rows,
    ))?;
    Ok(0)
}

fn show(files: &Files, id: &str, json: bool) -> Result<u8> {
    let mut found = Vec::new();
    if let Some(connection) = reader(files)? {
        let filter = wire::AuditFilter {
            id: Some(id.to_owned()),
            last: Some(u32::MAX),
            ..wire::AuditFilter::default()
        };
        found = query::records(&connection, &filter)?;
        if found.is_empty()
            && let Ok(seq) = id.parse()
        {
            found.extend(query::record(&connection, seq)?);
        }
    }
    if found.is_empty() {
        return Err(Error::NotFound {
            what: "record",
            name: id.to_owned(),
        });
    }
    let values: Vec<Value> = found.iter().map(query::record_json).collect();
    if json {
        print_json(&values)?;
        return Ok(0);
    }
    for value in values {
        let fields = value.as_object().into_iter().flatten();
        for (name, value) in fields.filter(|(_, value)| !value.is_null()) {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            print(&format!("{name:<14}{}\n", table::text(&text)))?;
        }
        for line in network::lines(&value) {
            print(&format!("{:<14}{}\n", "network", table::text(&line)))?;
        }
        print("\n")?;
    }
    Ok(0)
}

fn number(text: &str) -> std::result::Result<u32, String> {
    text.parse()
        .map_err(|_| "write how many as a whole number, such as 20".to_owned())
}

fn count(files: &Files, period: &str, json: bool) -> Result<u8> {
    let since = stats::since(period, now()).ok_or_else(|| {
        Error::Parameter("--period is a time such as 1d, 7d, 30d, or all".to_owned())
    })?;
    let stats = match reader(files)? {
        Some(connection) => stats::stats(&connection, period, since)?,
        None => Stats {
            period: period.to_owned(),
            ..Stats::default()
        },
    };
    if json {
        print_json(&stats)?;
    } else {
        print(&chart(&stats))?;
    }
    Ok(0)
}

/// The counts with bars.
fn chart(stats: &Stats) -> String {
    let mut out = format!("{} commands ({})\n\n", stats.total_commands, stats.period);
    let mut section = |title: &str, rows: &[(String, i64)]| {
        if rows.is_empty() {
            return;
        }
        out.push_str(&format!("{title}\n"));
        let most = rows
            .iter()
            .map(|(_, count)| *count)
            .max()
            .unwrap_or(0)
            .max(1);
        let width = rows
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or(0);
        for (name, count) in rows {
            let length = usize::try_from((count * 40 + most - 1) / most).unwrap_or(0);
            out.push_str(&format!(
                "  {name:<width$}  {count:>8}  {}\n",
                "#".repeat(length)
            ));
        }
        out.push('\n');
    };
    section(
        "risk",
        &[
            ("safe".to_owned(), stats.safe),
            ("normal".to_owned(), stats.normal),
            ("dangerous".to_owned(), stats.dangerous),
            ("critical".to_owned(), stats.critical),
            ("disallowed".to_owned(), stats.disallowed),
        ],
    );
    let rows = |map: &std::collections::BTreeMap<String, i64>| -> Vec<(String, i64)> {
        map.iter()
            .map(|(name, count)| (table::text(name), *count))
            .collect()
    };
    section("decision", &rows(&stats.decisions));
    section("agent", &rows(&stats.agents));
    section("day", &rows(&stats.days));
    let held = |list: &[stats::Held]| -> Vec<(String, i64)> {
        list.iter()
            .map(|held| (table::command(&held.command), held.count))
            .collect()
    };
    section("most asked about", &held(&stats.most_asked));
    section("most denied", &held(&stats.most_denied));
    out.push_str(&format!(
        "{} runs ended, {} of them not well; {:.0} ms on average, {:.0} ms the longest\n",
        stats.runs.finished, stats.runs.failed, stats.runs.mean_ms, stats.runs.longest_ms
    ));
    out
}

fn hand_out(
    files: &Files,
    filter: &wire::AuditFilter,
    format: Format,
    output: Option<&Path>,
) -> Result<u8> {
    let Some(connection) = reader(files)? else {
        return Err(Error::NotFound {
            what: "log at",
            name: files.database().display().to_string(),
        });
    };
    let to_file = |path: &Path| -> Result<File> {
        fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| Error::Export {
                path: path.to_owned(),
                source,
            })
    };
    let sink: Box<dyn Write> = match output {
        Some(path) => Box::new(to_file(path)?),
        None => Box::new(std::io::stdout().lock()),
    };
    let mut out = BufWriter::new(sink);
    let told = output.is_some() && std::io::stderr().is_terminal();
    let exported = export::export(&connection, filter, format, &mut out, |count| {
        if told {
            eprint!("\r{count} records");
        }
    })
    .and_then(|count| {
        out.flush().map_err(Error::file("write", "the export"))?;
        Ok(count)
    });
    let count = match exported {
        // Whoever reads no further is not an error.
        Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::BrokenPipe => {
            // What is left in the buffer has nowhere to go.
            let _ = out.into_parts();
            return Ok(0);
        }
        other => other?,
    };
    if let Some(path) = output {
        let start = if told { "\r" } else { "" };
        eprintln!("{start}{count} records in {}", path.display());
    }
    Ok(0)
}

fn check(files: &Files, json: bool) -> Result<u8> {
    let report = verify::verify(files, &witnesses())?;
    let problems: Vec<String> = report.problems.iter().map(Problem::to_string).collect();
    if json {
        print_json(&json!({
            "ok": problems.is_empty(),
            "records": report.records,
            "first": report.first,
            "last": report.last,
            "checkpoints": report.checkpoints,
            "problems": problems,
            "more_problems": report.more,
        }))?;
    } else if problems.is_empty() {
        print(&format!(
            "whole: {} records ({} to {}), checkpoints: {}\n",
            report.records, report.first, report.last, report.checkpoints
        ))?;
    } else {
        for problem in &problems {
            print(&format!("{}\n", table::text(problem)))?;
        }
        if report.more {
            print("… and more\n")?;
        }
    }
    Ok(u8::from(!problems.is_empty()))
}

/// What the system's journal remembers of this account's log: the newest heads.
fn witnesses() -> Vec<Witness> {
    let uid = nix::unistd::geteuid();
    let output = Command::new("journalctl")
        .args(["--no-pager", "--quiet", "--output=cat", "--lines=200"])
        .arg(format!("_UID={uid}"))
        .arg("SYSLOG_IDENTIFIER=sjail-broker")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let Ok(output) = output else {
        return Vec::new();
    };
    let heads: Vec<SignedHead> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(SignedHead::parse)
        .collect();
    // A log that was begun anew has another key: only what the newest one vouches for
    // can be held against what is there.
    let Some(newest) = heads.last().copied() else {
        return Vec::new();
    };
    heads
        .into_iter()
        .filter(|head| head.key == newest.key)
        .max_by_key(|head| head.head.seq)
        .map(|head| Witness {
            head,
            place: "the system's journal".to_owned(),
        })
        .into_iter()
        .collect()
}

/// The log, if there is one yet.
fn reader(files: &Files) -> Result<Option<rusqlite::Connection>> {
    match store::open_reader(&files.database()) {
        Ok(connection) => Ok(Some(connection)),
        Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
