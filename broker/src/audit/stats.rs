//! Counts over the log, from the tallies that are kept as it grows.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::Serialize;
use sjail_policy::duration::Moment;

use crate::audit::tally::HOUR;
use crate::error::{Error, Result};

/// So many commands are named as most asked and most refused.
const NAMED: i64 = 5;

/// What happened in a period.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Stats {
    /// The period, as it was asked for.
    pub period: String,
    /// Commands submitted.
    pub total_commands: i64,
    /// Commands of that risk.
    pub safe: i64,
    /// Commands of that risk.
    pub normal: i64,
    /// Commands of that risk.
    pub dangerous: i64,
    /// Commands of that risk.
    pub critical: i64,
    /// Commands of that risk.
    pub disallowed: i64,
    /// Commands by what was decided.
    pub decisions: BTreeMap<String, i64>,
    /// Commands by the agent that claims them; `-` for none.
    pub agents: BTreeMap<String, i64>,
    /// Commands by day, `2026-02-25`.
    pub days: BTreeMap<String, i64>,
    /// What was asked about most.
    pub most_asked: Vec<Held>,
    /// What was refused most.
    pub most_denied: Vec<Held>,
    /// How long commands ran.
    pub runs: Runs,
}

/// A command and how often it was held back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    /// The command, its first 200 characters.
    pub command: String,
    /// How often.
    pub count: i64,
}

/// How long commands ran.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Runs {
    /// How many ended.
    pub finished: i64,
    /// How many of them not well.
    pub failed: i64,
    /// All together.
    pub total_ms: f64,
    /// On average.
    pub mean_ms: f64,
    /// The longest.
    pub longest_ms: f64,
}

/// The time, in microseconds since 1970, where a period that ends now begins.
pub fn since(period: &str, now: i64) -> Option<i64> {
    if period == "all" {
        return Some(0);
    }
    let moment: Moment = period.parse().ok()?;
    Some(moment.resolve(now).saturating_mul(1_000_000))
}

/// The counts since a time, in microseconds since 1970, to the hour.
pub fn stats(connection: &Connection, period: &str, since: i64) -> Result<Stats> {
    let hour = since.div_euclid(HOUR);
    let mut stats = Stats {
        period: period.to_owned(),
        ..Stats::default()
    };
    count_commands(connection, hour, &mut stats)?;
    stats.most_asked = held(connection, hour, "ask")?;
    stats.most_denied = held(connection, hour, "block")?;
    stats.runs = runs(connection, hour)?;
    Ok(stats)
}

fn count_commands(connection: &Connection, hour: i64, stats: &mut Stats) -> Result<()> {
    let mut statement = connection
        .prepare(
            "SELECT hour / 24, agent, risk, decision, sum(count) FROM tally WHERE hour >= ?1 \
             GROUP BY 1, 2, 3, 4",
        )
        .map_err(Error::database("read the counts"))?;
    let mut rows = statement
        .query([hour])
        .map_err(Error::database("read the counts"))?;
    while let Some(row) = rows.next().map_err(Error::database("read the counts"))? {
        let read = || -> rusqlite::Result<(i64, String, String, String, i64)> {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ))
        };
        let (day, agent, risk, decision, count) =
            read().map_err(Error::database("read the counts"))?;
        stats.total_commands += count;
        match risk.as_str() {
            "safe" => stats.safe += count,
            "normal" => stats.normal += count,
            "dangerous" => stats.dangerous += count,
            "critical" => stats.critical += count,
            _ => stats.disallowed += count,
        }
        *stats.decisions.entry(decision).or_default() += count;
        let agent = if agent.is_empty() {
            "-".to_owned()
        } else {
            agent
        };
        *stats.agents.entry(agent).or_default() += count;
        *stats.days.entry(date(day)).or_default() += count;
    }
    Ok(())
}

fn held(connection: &Connection, hour: i64, decision: &str) -> Result<Vec<Held>> {
    let act = Error::database;
    let mut statement = connection
        .prepare(
            "SELECT command, sum(count) AS n FROM held WHERE hour >= ?1 AND decision = ?2 \
             GROUP BY command ORDER BY n DESC, command LIMIT ?3",
        )
        .map_err(act("read the counts"))?;
    let rows = statement
        .query_map(rusqlite::params![hour, decision, NAMED], |row| {
            Ok(Held {
                command: row.get(0)?,
                count: row.get(1)?,
            })
        })
        .map_err(act("read the counts"))?;
    rows.collect::<rusqlite::Result<_>>()
        .map_err(act("read the counts"))
}

fn runs(connection: &Connection, hour: i64) -> Result<Runs> {
    connection
        .query_row(
            "SELECT coalesce(sum(runs), 0), coalesce(sum(failed), 0), coalesce(sum(total), 0), \
             coalesce(max(longest), 0) FROM spent WHERE hour >= ?1",
            [hour],
            |row| {
                let (finished, failed): (i64, i64) = (row.get(0)?, row.get(1)?);
                let (total, longest): (i64, i64) = (row.get(2)?, row.get(3)?);
                let total_ms = total as f64 / 1000.0;
                Ok(Runs {
                    finished,
                    failed,
                    total_ms,
                    mean_ms: if finished == 0 {
                        0.0
                    } else {
                        total_ms / finished as f64
                    },
                    longest_ms: longest as f64 / 1000.0,
                })
            },
        )
        .map_err(Error::database("read the times"))
}

/// The date of a day counted from 1970.
fn date(day: i64) -> String {
    match chrono::DateTime::from_timestamp(day.saturating_mul(86_400), 0) {
        Some(time) => time.format("%Y-%m-%d").to_string(),
        None => day.to_string(),
    }
}
