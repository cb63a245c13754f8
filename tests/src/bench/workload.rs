//! Steady state: everyday commands, start-up included.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use super::contender::{Contender, found};
use super::measure::{Times, interleaved_among};

/// One everyday command and what it took each contender.
pub struct Steady {
    /// The command as shown.
    pub name: &'static str,
    /// In the order of the contenders.
    pub times: Vec<Times>,
}

/// Measures each command that this machine has.
pub fn all(contenders: &[Contender], workspace: &Path, rounds: usize) -> io::Result<Vec<Steady>> {
    lay_out(workspace)?;
    let steady: Vec<&Contender> = contenders
        .iter()
        .filter(|contender| contender.steady)
        .collect();
    let mut measured = Vec::new();
    for (name, words) in [
        ("git status", &["git", "status", "--short"][..]),
        ("rg", &["rg", "-c", "needle", "tree"]),
        ("grep -r", &["grep", "-rc", "needle", "tree"]),
        (
            "python3 -c",
            &["python3", "-c", "import json, re, subprocess; print(1)"],
        ),
        ("node -e", &["node", "-e", "console.log(1)"]),
        ("cc", &["cc", "-O1", "-c", "small.c", "-o", "/dev/null"]),
        (
            "sh -c (20 children)",
            &[
                "sh",
                "-c",
                "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; /bin/true; done",
            ],
        ),
    ] {
        if found(words[0]).is_some() {
            let times = interleaved_among(&steady, words, rounds.max(10))?;
            measured.push(Steady { name, times });
        }
    }
    Ok(measured)
}

/// A repository of two thousand files and a small program.
fn lay_out(workspace: &Path) -> io::Result<()> {
    for number in 0..2000 {
        let folder = workspace.join(format!("tree/{}", number % 50));
        fs::create_dir_all(&folder)?;
        fs::write(
            folder.join(format!("{number}.txt")),
            format!("line\nneedle {number}\n").repeat(20),
        )?;
    }
    fs::write(
        workspace.join("small.c"),
        "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { printf(\"%d\\n\", rand()); return 0; }\n",
    )?;
    for words in [
        &["init", "-q", "."][..],
        &["add", "."],
        &[
            "-c",
            "user.name=b",
            "-c",
            "user.email=b@example.org",
            "commit",
            "-qm",
            "all",
        ],
        &["status", "--short"],
    ] {
        let _ = Command::new("git")
            .args(words)
            .current_dir(workspace)
            .output();
    }
    Ok(())
}
