//! The parser against real bash: whatever bash starts or writes for a snippet must be
//! among what the parser saw, or the parser must have admitted a gap.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod survey;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const SNIPPETS: &str = include_str!("differential/snippets.txt");

/// Called by bash for every name it cannot find; it writes the name down. Inside the
/// snippet there is no other way to reach a program: PATH is an empty folder.
const HANDLER: &str = "() { printf '%s\\n' \"$1\" >> \"$SJAIL_TEST_LOG\"; return 0; }";

struct Snippet {
    text: String,
    /// Whether the parser must admit a gap.
    opaque: bool,
}

fn snippets() -> Vec<Snippet> {
    let body = SNIPPETS
        .lines()
        .skip_while(|line| line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect::<String>();
    body.split("%%\n")
        .filter(|text| !text.trim().is_empty())
        .map(|text| match text.strip_prefix("opaque\n") {
            Some(text) => Snippet {
                text: text.into(),
                opaque: true,
            },
            None => Snippet {
                text: text.into(),
                opaque: false,
            },
        })
        .collect()
}

#[test]
fn bash_starts_and_writes_nothing_that_was_not_seen() {
    if Command::new("bash").arg("--version").output().is_err() {
        eprintln!("skipped: there is no bash here to compare with");
        return;
    }
    let snippets = snippets();
    assert!(snippets.len() >= 150, "only {} snippets", snippets.len());
    let (mut wrong, mut started) = (Vec::new(), 0);
    for snippet in &snippets {
        let seen = survey::survey(snippet.text.as_bytes());
        let (names, files) = run(&snippet.text);
        started += names.len();
        if snippet.opaque == seen.gaps.is_empty() {
            wrong.push(format!("gaps {:?} in {:?}", seen.gaps, snippet.text));
        }
        if !snippet.opaque && names.is_empty() {
            wrong.push(format!("bash started nothing for {:?}", snippet.text));
        }
        if !seen.gaps.is_empty() {
            continue;
        }
        let unseen: Vec<_> = names
            .iter()
            .filter(|name| !seen.names.contains(name.as_bytes()))
            .collect();
        if !unseen.is_empty() {
            wrong.push(format!("{unseen:?} not seen in {:?}", snippet.text));
        }
        let unwritten: Vec<_> = files
            .iter()
            .filter(|file| !seen.unknown_write && !seen.writes.contains(file.as_bytes()))
            .collect();
        if !unwritten.is_empty() {
            wrong.push(format!("{unwritten:?} written by {:?}", snippet.text));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(started > 300, "bash started only {started} commands in all");
}

/// The names bash tried to run, and the files that were there afterwards.
fn run(snippet: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let scene = tempfile::tempdir().unwrap();
    let (work, empty, log) = (
        scene.path().join("work"),
        scene.path().join("empty"),
        scene.path().join("log"),
    );
    fs::create_dir(&work).unwrap();
    fs::create_dir(&empty).unwrap();
    fs::write(&log, "").unwrap();
    fs::write(work.join("f0"), "").unwrap();
    let script = scene.path().join("script");
    fs::write(&script, snippet).unwrap();
    let bash = bash_path();
    let mut child = Command::new(bash)
        .args(["--norc", "--noprofile"])
        .arg(&script)
        .current_dir(&work)
        .env_clear()
        .env("PATH", &empty)
        .env("HOME", &work)
        .env("LC_ALL", "C")
        .env("SJAIL_TEST_LOG", &log)
        .env("BASH_FUNC_command_not_found_handle%%", HANDLER)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.wait().unwrap();
    let names = fs::read_to_string(&log).unwrap_or_default();
    let names = names.lines().map(str::to_owned).collect();
    let files = fs::read_dir(&work)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name != "f0")
        .collect();
    (names, files)
}

fn bash_path() -> &'static Path {
    ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"]
        .into_iter()
        .map(Path::new)
        .find(|path| path.exists())
        .unwrap_or(Path::new("bash"))
}
