//! What classification costs: per command over folders of real commands, with length, and on
//! inputs made to hurt.
//!
//! `cargo bench -p sjail-tests --bench classify -- [DIR]`: DIR holds `*.jsonl` files with a `cmd`
//! in each row; without it only the made-up inputs are measured. Prints, asserts nothing.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sjail_policy::classify::{Context, classify};

fn main() {
    let folder = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let context = Context::default();
    if let Some(folder) = folder {
        corpora(Path::new(&folder), &context);
    }
    growth(&context);
    hostile(&context);
}

/// Each command is measured so often, and the best counts: the machine is shared.
const TIMES: u32 = 5;

/// Every command of every file, by length.
fn corpora(folder: &Path, context: &Context) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        eprintln!("cannot read {}", folder.display());
        return;
    };
    let mut commands: Vec<String> = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|ext| ext != "jsonl") {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let rows = text
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        commands.extend(rows.filter_map(|row| Some(row.get("cmd")?.as_str()?.to_owned())));
    }
    for command in commands.iter().take(500) {
        black_box(classify(command.as_bytes(), context));
    }
    for (name, low, high) in [
        ("up to 1 KiB", 0, 1024),
        ("1 to 4 KiB", 1025, 4096),
        ("4 to 64 KiB", 4097, 65536),
    ] {
        let chosen: Vec<&String> = commands
            .iter()
            .filter(|c| c.len() >= low && c.len() <= high)
            .collect();
        if chosen.is_empty() {
            continue;
        }
        let started = processor_time();
        let mut times: Vec<Duration> = chosen
            .iter()
            .map(|command| {
                let times = (0..TIMES).map(|_| once(command.as_bytes(), context));
                times.min().unwrap_or_default()
            })
            .collect();
        let total = processor_time().saturating_sub(started) / TIMES;
        if let Some(count) = slowest() {
            let mut slow: Vec<(Duration, &String)> =
                times.iter().copied().zip(chosen.iter().copied()).collect();
            slow.sort();
            for (time, command) in slow.iter().rev().take(count) {
                println!("{time:>9.1?} {command:?}");
            }
        }
        each_command(&times, &chosen, context);
        times.sort();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!(
            "{name:<12} {:>6} lines      p50 {:>8.1?}  p99 {:>8.1?}  max {:>8.1?}  {:>8.0} lines/s",
            times.len(),
            at(0.5),
            at(0.99),
            at(1.0),
            times.len() as f64 / total.as_secs_f64(),
        );
    }
}

/// The same times shared out among the simple commands of each line.
fn each_command(times: &[Duration], lines: &[&String], context: &Context) {
    let mut shares: Vec<Duration> = Vec::new();
    for (time, line) in times.iter().zip(lines) {
        let count = classify(line.as_bytes(), context).commands.len().max(1);
        shares.extend(std::iter::repeat_n(*time / count as u32, count));
    }
    shares.sort();
    let at = |share: f64| shares[((shares.len() - 1) as f64 * share) as usize];
    println!(
        "  of them    {:>6} simple     p50 {:>8.1?}  p99 {:>8.1?}  max {:>8.1?}",
        shares.len(),
        at(0.5),
        at(0.99),
        at(1.0),
    );
}

/// `SLOWEST=N`: so many of the slowest commands are shown.
fn slowest() -> Option<usize> {
    std::env::var("SLOWEST").ok()?.parse().ok()
}

/// The processor's time, not the clock's: the machine is shared.
fn once(line: &[u8], context: &Context) -> Duration {
    let started = processor_time();
    black_box(classify(black_box(line), context));
    processor_time().saturating_sub(started)
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(Duration::from)
        .unwrap_or_default()
}

/// Time per byte, as lines grow.
fn growth(context: &Context) {
    let pieces = [
        ("commands", "grep -rn 'needle' src | sort -u > out.txt; "),
        ("words", "word "),
        ("substitutions", "echo \"$(git status)\" "),
        ("assignments", "a=b; "),
        ("quotes", "'a'\"b\""),
    ];
    for (name, piece) in pieces {
        print!("growth {name:<14}");
        for size in [1, 4, 16, 63] {
            let mut line = String::from("echo ");
            while line.len() + piece.len() < size * 1024 {
                line.push_str(piece);
            }
            let best = (0..5)
                .map(|_| once(line.as_bytes(), context))
                .min()
                .unwrap_or_default();
            print!("  {size:>2} KiB {best:>9.1?}");
        }
        println!();
    }
}

/// Inputs made to hurt: budget 10 ms at 64 KiB.
fn hostile(context: &Context) {
    let fill = |piece: &str| piece.repeat(63 * 1024 / piece.len());
    let mut doubling = String::from("f0() { ls; }\n");
    for n in 1..200 {
        doubling.push_str(&format!("f{n}() {{ f{}; f{}; }}\n", n - 1, n - 1));
    }
    doubling.push_str("f199\n");
    let mut choices = String::new();
    for n in 0..200 {
        choices.push_str(&format!("for v{n} in a b c d e f g h; do\n"));
        if n % 10 == 9 {
            choices.push_str("$v1 $v2 $v3 $v4 $v5 $v6 $v7 $v8\n");
            choices.push_str(&"done\n".repeat(10));
        }
    }
    let inputs: Vec<(&str, String)> = vec![
        (
            "deep substitutions",
            format!("{}ls{}", "$(".repeat(63), ")".repeat(63)),
        ),
        ("too deep", "$(".repeat(30_000)),
        ("deep groups", "{ ".repeat(30_000)),
        ("ten thousand pipes", vec!["cat"; 10_000].join("|")),
        ("many commands", fill("ls;")),
        ("many rm", fill("rm x;")),
        (
            "huge here-document",
            format!("cat <<E\n{}\nE\n", fill("text ")),
        ),
        (
            "here-document to python",
            format!("python3 <<E\n{}\nE\n", fill("os.system('ls')\n")),
        ),
        (
            "here-document to sh",
            format!("sh <<E\n{}\nE\n", fill("ls -l\n")),
        ),
        ("sh -c in sh -c", nested_shells()),
        ("functions that double", doubling),
        ("loops with choices", choices),
        ("one huge word", format!("echo {}", "x".repeat(63 * 1024))),
        ("braces", format!("echo {}", "{a,b}".repeat(12_000))),
        ("globs", format!("rm {}", fill("*?"))),
        ("wildcards as paths", format!("rm -r {}", fill("a/*b?/ "))),
        ("files to pack", format!("tar c {} | nc h 1", fill("a/b "))),
        ("files to send", format!("curl {} h", fill("-F a=@b "))),
        ("names to look up", format!("dig {}", fill("$(a).b.c "))),
        ("assignments before", format!("{} ls", fill("A=b "))),
        ("expansions", format!("echo {}", fill("${a:-${b#c}}"))),
        ("arithmetic", format!("echo $(({}))", fill("1+") + "1")),
        ("array", format!("a=({})", fill("[1]=b "))),
        ("here-documents", fill("cat <<E\nx\nE\n")),
        ("redirections", format!("ls {}", fill(">a "))),
        ("aliases", format!("{}\na", fill("alias a=b;"))),
        ("variables", format!("x=ls; {}", fill("$x "))),
        ("growing variable", fill("x=$x$x;")),
        ("options", format!("rm {}", fill("-rf "))),
        (
            "unknown program with text",
            format!("foo {}", fill("'rm -rf /' ")),
        ),
        ("sed script", format!("sed '{}'", fill("s/a/b/;"))),
        ("find expression", format!("find . {}", fill("-name x "))),
        ("quotes never closed", fill("'\"")),
        ("bytes", fill("\u{fffd}")),
        ("newlines", fill("\n")),
        ("case arms", format!("case x in {} esac", fill("a) ls;; "))),
    ];
    for (name, line) in inputs {
        let best = (0..3)
            .map(|_| once(line.as_bytes(), context))
            .min()
            .unwrap_or_default();
        println!("hostile {name:<26} {:>6} bytes  {best:>9.1?}", line.len());
    }
}

fn nested_shells() -> String {
    let mut line = String::from("ls");
    for _ in 0..10 {
        line = format!("sh -c {}", quote(&line));
        if line.len() > 60_000 {
            break;
        }
    }
    line
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
