//! Soundness of the shell parser, measured: real bash runs each snippet of a corpus in a
//! root full of stubs (an oracle script does that, once; its answers are kept), and every
//! program that bash started, every file it opened for writing, must be one that the
//! parser and its constant folding saw, or the parser must have admitted a gap.
//!
//! ```text
//! soundness --corpora DIR --oracle SCRIPT --cache DIR [--verbose] [--classifier] [NAME…]
//! ```
//! With `--classifier` the commands that classification reports are compared instead.
//! `SJAIL_CORPORA` stands in for `--corpora`; without either there is nothing to do, and
//! it says so. NAME selects corpora by the beginning of their file names.

#[path = "../../policy/tests/survey/mod.rs"]
mod survey;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde::Deserialize;
use sjail_policy::classify::{Classification, Context, classify};
use sjail_policy::effect::Action;

/// What the oracle reports of a snippet.
#[derive(Deserialize)]
struct Row {
    id: String,
    cmd: String,
    entered: bool,
    all: Vec<String>,
    writes: Vec<String>,
}

#[derive(Default)]
struct Options {
    corpora: Option<PathBuf>,
    oracle: Option<PathBuf>,
    cache: Option<PathBuf>,
    verbose: bool,
    classifier: bool,
    names: Vec<String>,
}

fn main() -> ExitCode {
    let options = options();
    let Some(corpora) = options.corpora.clone() else {
        println!("soundness: no corpora here (SJAIL_CORPORA is not set); nothing was compared");
        return ExitCode::SUCCESS;
    };
    let mut misses = 0;
    let files = match corpus_files(&corpora, &options.names) {
        Ok(files) => files,
        Err(error) => {
            eprintln!("soundness: listing {}: {error}", corpora.display());
            return ExitCode::FAILURE;
        }
    };
    println!(
        "{:34} {:>6} {:>7} {:>7} {:>7}",
        "corpus", "rows", "opaque", "misses", "writes"
    );
    for file in files {
        match answers(&file, &options) {
            Ok(answers) if options.classifier => misses += judge(&file, &answers),
            Ok(answers) => misses += compare(&file, &answers, &options),
            Err(why) => println!("{:34} {why}", stem(&file)),
        }
    }
    match misses {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn options() -> Options {
    let mut options = Options {
        corpora: std::env::var_os("SJAIL_CORPORA").map(PathBuf::from),
        ..Options::default()
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--corpora" => options.corpora = arguments.next().map(PathBuf::from),
            "--oracle" => options.oracle = arguments.next().map(PathBuf::from),
            "--cache" => options.cache = arguments.next().map(PathBuf::from),
            "--verbose" => options.verbose = true,
            "--classifier" => options.classifier = true,
            _ => options.names.push(argument),
        }
    }
    options
}

fn corpus_files(corpora: &Path, names: &[String]) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(corpora)? {
        let path = entry?.path();
        let chosen = names.is_empty() || names.iter().any(|name| stem(&path).starts_with(name));
        if chosen && path.extension().is_some_and(|e| e == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn stem(path: &Path) -> String {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    name.trim_end_matches("-dev").to_string()
}

/// The oracle's answers for a corpus: kept ones, or fresh ones.
fn answers(file: &Path, options: &Options) -> Result<Vec<Row>, String> {
    let cache = options.cache.as_deref().ok_or("no --cache")?;
    let kept = cache.join(format!("{}.jsonl", stem(file)));
    if !kept.exists() {
        let oracle = options
            .oracle
            .as_deref()
            .ok_or("no answers kept, and no --oracle")?;
        ask(oracle, cache, file, &kept)?;
    }
    let text = std::fs::read_to_string(&kept).map_err(|e| format!("reading answers: {e}"))?;
    let rows: Result<Vec<Row>, _> = text.lines().map(serde_json::from_str).collect();
    rows.map_err(|e| format!("the oracle's answers: {e}"))
}

fn ask(oracle: &Path, cache: &Path, file: &Path, kept: &Path) -> Result<(), String> {
    let root = cache.join("root");
    let run = |arguments: &[&std::ffi::OsStr]| {
        let status = Command::new("python3").arg(oracle).args(arguments).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("the oracle ended with {status}")),
            Err(error) => Err(format!("starting the oracle: {error}")),
        }
    };
    if !root.exists() {
        run(&["setup".as_ref(), root.as_ref()])?;
    }
    let partial = kept.with_extension("partial");
    run(&[
        "batch".as_ref(),
        root.as_ref(),
        file.as_ref(),
        partial.as_ref(),
    ])?;
    std::fs::rename(&partial, kept).map_err(|e| format!("keeping answers: {e}"))
}

fn compare(file: &Path, rows: &[Row], options: &Options) -> usize {
    let (mut opaque, mut misses, mut writes, mut checked) = (0, 0, 0, 0);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.entered) {
        checked += 1;
        let seen = survey::survey(row.cmd.as_bytes());
        if !seen.gaps.is_empty() {
            opaque += 1;
            *reasons.entry(seen.gaps[0].clone()).or_default() += 1;
            if options.verbose {
                println!("OPAQUE {} {:?}: {:?}", row.id, seen.gaps[0], row.cmd);
            }
            continue;
        }
        let missed: Vec<&String> = row
            .all
            .iter()
            .filter(|name| !seen.names.contains(survey::base(name.as_bytes())))
            .collect();
        if !missed.is_empty() && !seen.foreign {
            misses += 1;
            println!("MISS {} {missed:?}: {:?}", row.id, row.cmd);
        }
        let unseen: Vec<&String> = row
            .writes
            .iter()
            .filter(|path| !excused(path, &seen))
            .collect();
        if !unseen.is_empty() && !seen.unknown_write {
            writes += 1;
            println!("WRITE {} {unseen:?}: {:?}", row.id, row.cmd);
        }
    }
    println!(
        "{:34} {checked:6} {opaque:7} {misses:7} {writes:7}",
        stem(file)
    );
    if options.verbose {
        for (reason, count) in reasons {
            println!("    {count:5} {reason}");
        }
    }
    misses + writes
}

/// A write that the script asked for, or that is the shell's or a program's own affair: a
/// program may write what it was given as an argument.
fn excused(path: &str, seen: &survey::Survey) -> bool {
    let bytes = path.as_bytes();
    let named = |known: &Vec<u8>| {
        known == bytes || survey::base(known) == survey::base(bytes) || {
            let text = String::from_utf8_lossy(known);
            text.ends_with(path.trim_start_matches("./"))
        }
    };
    // mktemp makes up a name, xargs passes on what it reads.
    let inventive = [&b"mktemp"[..], b"xargs"];
    path == "/dev/null"
        || inventive.iter().any(|name| seen.names.contains(*name))
        || path.ends_with("/.history")
        || path.starts_with("/dev/fd/")
        || path.starts_with("/tmp/tac")
        || seen.unknown_argument
        || path.starts_with("/tmp/sh-thd")
        || seen.writes.iter().any(named)
        || seen.arguments.iter().any(named)
}

/// The same question to the classifier: every program bash started is a command it
/// reported, with its wrappers, or it said that something is opaque.
fn judge(file: &Path, rows: &[Row]) -> usize {
    let context = Context::default();
    let (mut opaque, mut misses, mut writes, mut checked) = (0, 0, 0, 0);
    for row in rows.iter().filter(|row| row.entered) {
        checked += 1;
        let verdict = classify(row.cmd.as_bytes(), &context);
        if verdict.is_opaque() {
            opaque += 1;
            continue;
        }
        let mut seen = BTreeSet::new();
        for command in &verdict.commands {
            seen.insert(command.program.name.clone());
            // A folder as a command (`/usr/bin/`) has no name but what was typed.
            seen.insert(command.program.typed.clone());
            let wrappers = command.wrappers.iter().flat_map(|w| w.split(' '));
            seen.extend(wrappers.map(str::to_owned));
            for effect in &command.effects {
                if let Action::Runs { program } = &effect.action {
                    let name = survey::base(program.as_bytes());
                    seen.insert(String::from_utf8_lossy(name).into_owned());
                }
            }
        }
        let missed: Vec<_> = row
            .all
            .iter()
            .filter(|name| !seen.contains(*name) && !is_a_files_own(name, &seen))
            .collect();
        if !missed.is_empty() {
            misses += 1;
            println!(
                "MISS {} {missed:?} ({}): {:?}",
                row.id, verdict.risk, row.cmd
            );
        }
        let unseen: Vec<_> = row
            .writes
            .iter()
            .filter(|path| !names_file(path, &verdict, &seen))
            .collect();
        if !unseen.is_empty() {
            writes += 1;
            println!(
                "WRITE {} {unseen:?} ({}): {:?}",
                row.id, verdict.risk, row.cmd
            );
        }
    }
    println!(
        "{:34} {checked:6} {opaque:7} {misses:7} {writes:7}",
        stem(file)
    );
    misses + writes
}

/// Whether the answer names a file that was written: a redirection's target, an effect, or an
/// argument of some command; names that are made up when it runs excuse any.
fn names_file(path: &str, verdict: &Classification, seen: &BTreeSet<String>) -> bool {
    let last = String::from_utf8_lossy(survey::base(path.as_bytes())).into_owned();
    let names = |text: &str| text.ends_with(&last) || text.contains(path);
    let own = ["/dev/null", "/.history"]
        .iter()
        .any(|end| path.ends_with(end))
        || ["/dev/fd/", "/tmp/tac", "/tmp/sh-thd", "/proc/"]
            .iter()
            .any(|start| path.starts_with(start));
    let made_up = ["mktemp", "xargs"].iter().any(|name| seen.contains(*name));
    own || made_up
        || verdict.commands.iter().any(|command| {
            let targets = command.redirects.iter().filter_map(|r| r.target.as_ref());
            let arguments = command.argv.iter().skip(1);
            targets
                .into_iter()
                .any(|target| target.resolved.is_none() || names(&target.typed))
                || arguments
                    .into_iter()
                    .any(|arg| !arg.exact || names(&arg.text))
        })
}

/// What no line shows: the commands of a script that `.` finds along PATH (here the stubs'
/// bytes), and an option of `time`, which bash takes for the name of a program and other
/// shells hand to `time`.
fn is_a_files_own(name: &str, seen: &BTreeSet<String>) -> bool {
    let sourced = seen.contains(".") || seen.contains("source");
    sourced && name.starts_with('\u{7f}') || name.starts_with('-') && seen.contains("time")
}
