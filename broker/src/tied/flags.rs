//! Files of instructions that a program is given by an option: `make -f X`, `awk -f X`,
//! `node --require=./X`.

use std::path::PathBuf;

use sjail_policy::classify::{Arg, SimpleCommand};

use super::Places;

/// Programs, the letters before such a file, and the words.
const FLAGS: [(&[&str], &str, &[&str]); 16] = [
    (&["make", "gmake", "bmake"], "f", &["file", "makefile"]),
    (&["just"], "f", &["justfile"]),
    (&["rake"], "f", &["rakefile"]),
    (&["ninja", "mvn"], "f", &["file"]),
    (&["ant"], "f", &["file", "buildfile"]),
    (&["gradle", "gradlew"], "bI", &["build-file", "init-script"]),
    (&["docker-compose"], "f", &["file"]),
    (&["cmake"], "PC", &[]),
    (
        &["awk", "gawk", "mawk", "nawk"],
        "fiE",
        &["file", "include", "exec"],
    ),
    (&["sed", "gsed", "psql", "expect"], "f", &["file"]),
    (&["jq"], "f", &["from-file"]),
    (&["gdb"], "x", &["command", "init-command"]),
    (&["vi", "vim", "nvim", "ex", "view"], "Ssu", &[]),
    (&["emacs"], "lq", &["load", "script"]),
    (
        &["node", "nodejs", "bun", "deno"],
        "r",
        &["require", "import", "loader", "preload"],
    ),
    (
        &["sh", "bash", "dash", "zsh", "ksh", "php", "lua", "Rscript"],
        "fl",
        &["rcfile", "init-file", "file"],
    ),
];

/// What node adds to the name of a module.
const ENDINGS: [&str; 5] = ["", ".js", ".cjs", ".mjs", "/index.js"];

/// The files that options name, from where the program reads them; `Err` with the words of one
/// that cannot be known. What could be one is tied: a file too many, never one too few.
pub(super) fn named(command: &SimpleCommand, places: &Places<'_>) -> Result<Vec<PathBuf>, String> {
    let name = command.program.name.as_str();
    let Some((_, letters, longs)) = FLAGS.iter().find(|(names, ..)| names.contains(&name)) else {
        return Ok(Vec::new());
    };
    let mut files = Vec::new();
    let words: Vec<&Arg> = command.argv.iter().skip(1).collect();
    for (at, word) in words.iter().enumerate() {
        let Some(joined) = value(&word.text, letters, longs) else {
            continue;
        };
        let (text, own) = match (joined, words.get(at + 1)) {
            ("", Some(next)) => (next.text.as_str(), *next),
            ("", None) => continue,
            (joined, _) => (joined, *word),
        };
        if !own.exact || own.glob || matches!(text, "-" | "/dev/stdin" | "/dev/fd/0") {
            return Err(format!("{} {text}", word.text));
        }
        let paths = ENDINGS.iter().map(|ending| format!("{text}{ending}"));
        files.extend(paths.filter_map(|path| places.file(path.as_ref())).next());
    }
    Ok(files)
}

/// What stands behind such an option in its own word; nothing there, if it is the next one.
fn value<'a>(word: &'a str, letters: &str, longs: &[&str]) -> Option<&'a str> {
    let option = word.strip_prefix('-')?;
    if let Some(long) = option.strip_prefix('-') {
        let (name, value) = long.split_once('=').unwrap_or((long, ""));
        // Many programs take the beginning of a long one for the whole.
        let is_meant = !name.is_empty() && longs.iter().any(|long| long.starts_with(name));
        return is_meant.then_some(value);
    }
    // Some write long ones with one dash.
    if longs.contains(&option) || option == "init" {
        return Some("");
    }
    let at = option.find(|letter| letters.contains(letter))?;
    let behind = option.get(at..)?.chars().next()?.len_utf8();
    option.get(at + behind..)
}
