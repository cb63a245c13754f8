//! What reading a shell script costs, apart from judging it: per command over folders of
//! real commands, and on inputs made to hurt, at four lengths so that growth shows.
//!
//! `cargo bench -p sjail-tests --bench parser -- [DIR]`: DIR holds `*.jsonl` files with a
//! `cmd` in each row. Prints, asserts nothing; that steps grow linearly is a test of
//! `sjail-policy`, where no clock is needed.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use sjail_policy::shell::parse;

fn main() {
    if let Some(folder) = std::env::args().skip(1).find(|arg| !arg.starts_with("--")) {
        corpora(Path::new(&folder));
    }
    println!(
        "{:26} {:>9} {:>9} {:>9} {:>9}  µs, best of five",
        "", "1 KiB", "4 KiB", "16 KiB", "64 KiB"
    );
    for (name, unit) in HOSTILE {
        print!("{name:26}");
        for length in [1 << 10, 1 << 12, 1 << 14, 1 << 16] {
            let source = unit.repeat(length / unit.len());
            print!(" {:9.1}", best(source.as_bytes()).as_secs_f64() * 1e6);
        }
        println!();
    }
}

/// What is repeated to the wanted length.
const HOSTILE: [(&str, &str); 16] = [
    ("pipes", "a|"),
    ("words", "word "),
    ("parentheses", "("),
    ("double parentheses", "((a) "),
    ("substitutions", "$("),
    ("arithmetic or not", "$((a) "),
    ("expansions", "${x:-"),
    ("braces", "{a,"),
    ("backquotes", "`a`"),
    ("backslashes", "\\"),
    ("here-documents", "a <<E\n$x\nE\n"),
    ("here-documents inside", "a <<E\n$("),
    ("one here-document", "$x `b`\n"),
    ("conditions", "if a; then b; fi\n"),
    ("assignments", "x=1 "),
    ("subscripts", "a["),
];

fn best(source: &[u8]) -> Duration {
    let once = || {
        let started = Instant::now();
        black_box(parse(black_box(source)));
        started.elapsed()
    };
    (0..5).map(|_| once()).min().unwrap_or_default()
}

fn corpora(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return eprintln!("cannot read {}", folder.display());
    };
    let mut times = Vec::new();
    let mut bytes = 0;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for row in text.lines() {
            let row: serde_json::Value = serde_json::from_str(row).unwrap_or_default();
            if let Some(command) = row["cmd"].as_str().filter(|c| c.len() <= 1024) {
                bytes += command.len();
                times.push(best(command.as_bytes()));
            }
        }
    }
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    if !times.is_empty() {
        let total: Duration = times.iter().sum();
        println!(
            "{} commands up to 1 KiB: p50 {:.1} µs, p99 {:.1} µs, most {:.1} µs, {:.0} MB/s",
            times.len(),
            at(0.5),
            at(0.99),
            at(1.0),
            bytes as f64 / total.as_secs_f64() / 1e6
        );
    }
}
