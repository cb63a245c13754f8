//! A source's own names for what it imports: `import subprocess as s`, `from os import system`,
//! `import {rmSync as r} from "fs"`, `const {execSync: e} = require("child_process")`.

use std::borrow::Cow;

use crate::command::knowledge::Language;

/// Sources longer than this are looked through as they are.
const MAX_SOURCE: usize = 16 * 1024;
/// More imports than this are not followed.
const MAX_NAMES: usize = 32;

/// The source with whole names in place of those that its imports gave: what the tables know is
/// `subprocess.run(`, whatever it is called there.
pub(super) fn whole_names(source: &str, language: Language) -> Cow<'_, str> {
    let given = match language {
        _ if source.len() > MAX_SOURCE => Vec::new(),
        Language::Python if source.contains("import") => names(source),
        Language::JavaScript => script_names(source),
        _ => Vec::new(),
    };
    if given.is_empty() {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len() * 2);
    let mut rest = source;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let end = match is_name(first) {
            true => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (word, next) = rest.split_at(end);
        let used = next.starts_with(['(', '.']) && before != '.';
        let whole = given.iter().rev().find(|(name, _)| used && *name == word);
        out.push_str(whole.map_or(word, |(_, whole)| whole.as_str()));
        before = word.chars().next_back().unwrap_or(before);
        rest = next;
    }
    Cow::Owned(out)
}

/// Each name that an import gives, and what it stands for; only those that differ.
fn names(source: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    for statement in source.split(['\n', ';']).map(str::trim) {
        if let Some(modules) = statement.strip_prefix("import ") {
            for (name, given) in modules.split(',').map(as_given) {
                if name != given {
                    found.push((given, name.to_owned()));
                }
            }
        } else if let Some((module, imported)) = statement
            .strip_prefix("from ")
            .and_then(|rest| rest.split_once(" import "))
        {
            let imported = imported.trim_matches(|c: char| "() ".contains(c));
            for (name, given) in imported.split(',').map(as_given) {
                found.push((given, format!("{}.{name}", module.trim())));
            }
        }
        if found.len() > MAX_NAMES {
            found.truncate(MAX_NAMES);
            break;
        }
    }
    found.retain(|(given, _)| !given.is_empty() && given.chars().all(is_name));
    found
}

/// The same for JavaScript: what braces rename, and what is taken out of a module by a dot.
fn script_names(source: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    for (at, _) in source.match_indices(" from ") {
        if let Some((_, list)) = source[..at].rsplit_once('{') {
            let list = list.trim_end().trim_end_matches('}');
            renamed(list, " as ", &source[at..], &mut found);
        }
    }
    for word in ["require(", "import("] {
        for (at, _) in source.match_indices(word) {
            let before = source[..at].trim_end().trim_end_matches("await").trim_end();
            let Some(before) = before.strip_suffix('=') else {
                continue;
            };
            let before = before.trim_end();
            match before.strip_suffix('}').and_then(|b| b.rsplit_once('{')) {
                Some((_, list)) => renamed(list, ":", &source[at..], &mut found),
                None => {
                    let given = before.rsplit(|c| !is_name(c)).next().unwrap_or_default();
                    let behind = source[at..].split_once(").").map_or("", |(_, b)| b);
                    let name = behind.split(|c| !is_name(c)).next().unwrap_or_default();
                    if !name.is_empty() && !given.is_empty() {
                        found.push((given, whole(name, &source[at..])));
                    }
                }
            }
        }
    }
    found.truncate(MAX_NAMES);
    found.retain(|(given, _)| !given.is_empty() && given.chars().all(is_name));
    found
}

/// The names in a list that are given others; `module` begins where the module is named.
fn renamed<'s>(list: &'s str, by: &str, module: &str, found: &mut Vec<(&'s str, String)>) {
    for item in list.split(',').take(MAX_NAMES) {
        if let Some((name, given)) = item.split_once(by) {
            found.push((given.trim(), whole(name.trim(), module)));
        }
    }
}

/// The tables know what works on files by its module.
fn whole(name: &str, module: &str) -> String {
    let mut quoted = module.split(['"', '\'', '`']).skip(1);
    match quoted.next() {
        Some("fs" | "node:fs" | "fs/promises" | "node:fs/promises") => format!("fs.{name}"),
        _ => name.to_owned(),
    }
}

/// `run as r`: its name, and the name it is given.
fn as_given(item: &str) -> (&str, &str) {
    match item.split_once(" as ") {
        Some((name, given)) => (name.trim(), given.trim()),
        None => (item.trim(), item.trim()),
    }
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_imports_give_are_undone() {
        for (source, whole) in [
            (
                "import subprocess as s;s.run(['rm'])",
                "import subprocess as s;subprocess.run(['rm'])",
            ),
            (
                "from os import system as s, popen\ns('x'); popen('y')",
                "from os import system as s, popen\nos.system('x'); os.popen('y')",
            ),
            (
                "from subprocess import (run)\nrun('x')",
                "from subprocess import (run)\nsubprocess.run('x')",
            ),
            // Another object's own, and a name without a call.
            (
                "from subprocess import run\napp.run(run)",
                "from subprocess import run\napp.run(run)",
            ),
            (
                "import os, sys\nos.system('x')",
                "import os, sys\nos.system('x')",
            ),
            ("print('import x')", "print('import x')"),
            ("", ""),
        ] {
            assert_eq!(whole_names(source, Language::Python), whole);
        }
    }

    #[test]
    fn names_that_scripts_give_are_undone() {
        for (source, called) in [
            ("import {rmSync as r} from \"fs\";r('/')", "fs.rmSync('/')"),
            (
                "import { a, exec as e } from 'child_process'; e('x')",
                "exec('x')",
            ),
            (
                "const {execSync:e}=require('child_process');e('x')",
                "execSync('x')",
            ),
            (
                "let { rm: d } = await import('fs/promises'); d('/')",
                "fs.rm('/')",
            ),
            (
                "const s = require('child_process').spawn; s('x')",
                "spawn('x')",
            ),
            ("const fs = require('fs'); fs.rmSync('/')", "fs.rmSync('/')"),
        ] {
            let whole = whole_names(source, Language::JavaScript);
            assert!(whole.ends_with(called), "{source}: {whole}");
        }
    }
}
