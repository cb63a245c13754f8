//! The table.

use std::time::Duration;

use super::measure::Times;
use super::workload::Steady;

/// Everything that was measured, as Markdown.
pub fn text(
    startup: &[Times],
    absent: &[(&'static str, String)],
    steady: &[Steady],
    memory: &str,
    rounds: usize,
) -> String {
    let mut out = format!(
        "# What the jail costs\n\nUnprivileged, {rounds} rounds in turns, spawn to reap. Compare ratios, not times.\n\n\
         ## Start-up of /bin/true\n\n| | least µs | median µs | 95 % µs | median ÷ floor | median ÷ bubblewrap |\n|---|---:|---:|---:|---:|---:|\n"
    );
    let floor = find(startup, "floor (static C)");
    let bwrap = find(startup, "bubblewrap");
    for times in startup {
        out += &format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            times.name,
            times.least().as_micros(),
            times.median().as_micros(),
            times.high().as_micros(),
            ratio(times.median(), floor),
            ratio(times.median(), bwrap),
        );
    }
    for (name, reason) in absent {
        out += &format!("| {name} | – {reason} | | | | |\n");
    }
    out += "\n## Everyday commands, start-up included (median ms)\n\n|";
    if let Some(first) = steady.first() {
        for times in &first.times {
            out += &format!(" | {}", times.name);
        }
        out += " | sjail ÷ bare | bare + 1.25 × (floor − bare exec) |\n|---";
        out += &"|---:".repeat(first.times.len() + 2);
        out += "|\n";
    }
    let overhead = match (floor, find(startup, "bare exec")) {
        (Some(floor), Some(bare)) => floor.saturating_sub(bare).mul_f64(1.25),
        _ => Duration::ZERO,
    };
    for command in steady {
        out += &format!("| {}", command.name);
        for times in &command.times {
            out += &match times.failed {
                true => " | fails".to_string(),
                false => format!(" | {:.2}", milliseconds(times.median())),
            };
        }
        let bare = find(&command.times, "bare exec");
        let sjail = find(&command.times, "sjail");
        out += &format!(
            " | {} | {:.2} |\n",
            sjail.map_or(String::new(), |sjail| ratio(sjail, bare)),
            bare.map_or(0.0, |bare| milliseconds(bare + overhead)),
        );
    }
    out += "\n## Memory of a running jail, without the command (PSS, kB)\n\n| process | kB |\n|---|---:|\n";
    out += memory;
    out
}

fn find(all: &[Times], name: &str) -> Option<Duration> {
    all.iter()
        .find(|times| times.name == name)
        .map(Times::median)
}

fn ratio(time: Duration, to: Option<Duration>) -> String {
    to.map_or("–".to_string(), |to| {
        format!("{:.2}", time.as_secs_f64() / to.as_secs_f64())
    })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
