//! The files that a tool's input names: in fields, in a pattern, in a patch.

use serde_json::Value;
use sjail_policy::rule::Operation;

/// A field by one of its names: which of them a tool reads is its own affair, so where there are
/// several, they agree.
pub fn spelled(input: &Value, names: &[&str]) -> Result<Option<String>, String> {
    let given = names.iter().filter(|name| !input[**name].is_null());
    let mut said: Option<(&str, &Value)> = None;
    for name in given {
        let value = &input[*name];
        // Some would take it for the end.
        if value.as_str().is_some_and(|text| text.contains('\0')) {
            return Err(format!("`{name}` has a NUL in it"));
        }
        match said {
            Some((first, other)) if other != value => {
                return Err(format!("`{first}` and `{name}` say different things"));
            }
            _ => said = Some((name, value)),
        }
    }
    Ok(said
        .and_then(|(_, value)| value.as_str())
        .map(str::to_owned))
}

/// The files that a tool nobody knows names in the usual fields.
pub fn named(input: &Value) -> Result<Vec<(Operation, String)>, String> {
    const READ: [&[&str]; 3] = [
        &["file_path", "filePath", "absolute_path"],
        &["local_path"],
        &["scriptPath"],
    ];
    const LISTS: [&str; 3] = ["file_paths", "filePaths", "files"];
    const WRITTEN: [&[&str]; 2] = [&["out_dir"], &["download_path"]];
    let mut files = Vec::new();
    for (operation, fields) in [
        (Operation::Read, READ.as_slice()),
        (Operation::Write, WRITTEN.as_slice()),
    ] {
        for names in fields {
            let path = spelled(input, names)?.filter(|path| !path.is_empty());
            files.extend(path.map(|path| (operation, path)));
        }
    }
    for list in LISTS {
        let paths = input[list].as_array().into_iter().flatten();
        let paths = paths.filter_map(|path| path.as_str());
        files.extend(paths.map(|path| (Operation::Read, path.to_owned())));
    }
    match files.iter().any(|(_, path)| path.contains('\0')) {
        true => Err("a path has a NUL in it".to_owned()),
        false => Ok(files),
    }
}

/// Where a pattern for names begins to look: what stands before its first wildcard, and the
/// top of everything where a later part can lead anywhere.
pub fn reached_by(pattern: &str) -> String {
    let Some(special) = pattern.find(['*', '?', '[', '{', '!', '(']) else {
        return pattern.to_owned();
    };
    let (before, rest) = pattern.split_at(special);
    let is_free = rest
        .split(['/', '{', ',', '}', '|', '(', ')'])
        .any(|part| part == "..")
        || ["{/", ",/", "{~", ",~", "|/", "(/"]
            .iter()
            .any(|way| rest.contains(way));
    match before.rfind('/') {
        _ if is_free => "/".to_owned(),
        Some(0) => "/".to_owned(),
        Some(slash) => before[..slash].to_owned(),
        None if before.starts_with('~') => "~".to_owned(),
        None => ".".to_owned(),
    }
}

/// The files that a patch writes. Agents read these lines each in its own way: what two of them
/// could read differently is an error.
pub fn patched(patch: &str) -> Result<Vec<(Operation, String)>, String> {
    const MARKS: [&str; 4] = ["Add File", "Update File", "Delete File", "Move to"];
    let is_blank = |c: char| c.is_whitespace() || c == '\u{feff}';
    let mut files = Vec::new();
    for line in patch.lines() {
        let Some(rest) = line.trim_matches(is_blank).strip_prefix("***") else {
            continue;
        };
        let Some((mark, path)) = MARKS.iter().find_map(|mark| {
            let path = rest.trim_start_matches(is_blank).strip_prefix(mark)?;
            Some((mark, path))
        }) else {
            continue;
        };
        let path = match rest.strip_prefix(&format!(" {mark}: ")) {
            Some(path) => path.trim(),
            None => {
                return Err(format!(
                    "the patch writes `*** {mark}{path}` in its own way"
                ));
            }
        };
        let is_odd = |c: char| c.is_control() || c == ':' || c != ' ' && is_blank(c);
        if path.is_empty() || path.contains(is_odd) {
            return Err(format!(
                "the patch names {path:?}, which agents read differently"
            ));
        }
        files.push((Operation::Write, path.to_owned()));
    }
    match files.is_empty() {
        true => Err("the patch names no file".to_owned()),
        false => Ok(files),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn patterns_are_judged_by_where_they_lead() {
        for (pattern, reached) in [
            ("src/**/*.{ts,tsx}", "src"),
            ("**/*.rs", "."),
            ("*.md", "."),
            ("a/b.txt", "a/b.txt"),
            ("/home/u/.ssh/*", "/home/u/.ssh"),
            ("~/.ssh/*", "~/.ssh"),
            ("~*/x", "~"),
            ("{/home/u/.ssh/id_rsa,x}", "/"),
            ("src/{a,../../../home}/x", "/"),
            ("*/../../x", "/"),
            ("/*", "/"),
        ] {
            assert_eq!(reached_by(pattern), reached, "{pattern}");
        }
    }

    #[test]
    fn a_patch_names_its_files() {
        let patch = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n*** Add File: c\n";
        let paths: Vec<String> = patched(patch).unwrap().into_iter().map(|f| f.1).collect();
        assert_eq!(paths, ["a", "b", "c"]);
        assert!(patched("nothing").is_err());
        // What is data stays data.
        assert!(patched("*** Add File: a\n+*** Add File:/b\n ***\n *** a note\n").is_ok());
        for line in [
            "*** Add File:/b",
            "***Add File: /b",
            "\u{feff}*** Add File:\t/b",
            "*** Move to:/b",
            "*** Add File: \u{feff}/b",
            "*** Add File: .envrc:z",
            "*** Add File: a\r*** Add File: /b",
            "*** Add File:  ",
        ] {
            let patch = format!("*** Add File: a\n{line}\n");
            assert!(patched(&patch).is_err(), "{line:?}");
        }
    }
}
