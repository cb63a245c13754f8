//! The patterns by which an agent's tools look for files: each tool's fields, and every way in
//! which a pattern with braces is written out.

use serde_json::Value;

use super::named::spelled;

/// A pattern that says more than so many is judged by nobody.
const MOST: usize = 256;

/// What a tool of that name would look for, as paths with wildcards.
pub fn patterns(name: &str, input: &Value) -> Result<Vec<String>, String> {
    let folder = [
        "path",
        "dir_path",
        "file_path",
        "filePath",
        "target_directory",
    ];
    let folder = spelled(input, &folder)?.unwrap_or_default();
    let mut said = Vec::new();
    match name {
        "Glob" | "glob" => {
            said.extend(spelled(input, &["pattern", "glob_pattern"])?.map(Said::Path));
        }
        "Grep" | "grep" | "grep_search" | "search_file_content" => {
            let names = ["glob", "include", "include_pattern"];
            said.extend(spelled(input, &names)?.map(Said::Names));
        }
        "read_many_files" => {
            let lists = ["include", "paths"].map(|list| input[list].as_array());
            let all = lists.into_iter().flatten().flatten();
            said.extend(
                all.filter_map(Value::as_str)
                    .map(|text| Said::Path(text.to_owned())),
            );
        }
        _ => {}
    }
    let mut found = Vec::new();
    for said in said {
        for pattern in said.each() {
            for written in written_out(&pattern)? {
                found.push(below(&folder, &written));
            }
        }
    }
    Ok(found)
}

/// A pattern as a tool takes it.
enum Said {
    /// A path.
    Path(String),
    /// Names wherever below, or several of those.
    Names(String),
}

impl Said {
    fn each(self) -> Vec<String> {
        let text = match self {
            Said::Path(text) => return vec![text],
            Said::Names(text) => text,
        };
        let anywhere = |name: &str| match name.strip_prefix('/') {
            Some(path) => path.to_owned(),
            None => format!("**/{name}"),
        };
        // Some take blanks and commas to be between two.
        let pieces = text.split([' ', ',']).filter(|piece| !piece.is_empty());
        let mut all: Vec<_> = pieces.map(str::to_owned).collect();
        all.push(text.clone());
        // What is left out is not looked for.
        all.retain(|name| !name.starts_with('!') || name.starts_with("!("));
        all.iter().map(|name| anywhere(name)).collect()
    }
}

fn below(folder: &str, pattern: &str) -> String {
    match pattern.starts_with(['/', '~']) || folder.is_empty() {
        true => pattern.to_owned(),
        false => format!("{folder}/{pattern}"),
    }
}

/// A pattern with one of the choices in braces each.
fn written_out(pattern: &str) -> Result<Vec<String>, String> {
    let mut open = vec![pattern.to_owned()];
    let mut done = Vec::new();
    while let Some(next) = open.pop() {
        match chosen(&next) {
            Some(choices) => open.extend(choices),
            None => done.push(next),
        }
        if open.len() + done.len() > MOST {
            return Err("the pattern has too many alternatives to be judged".to_owned());
        }
    }
    Ok(done)
}

/// The same pattern with each choice of its first braces.
fn chosen(pattern: &str) -> Option<Vec<String>> {
    let begin = pattern.find('{')?;
    let (mut depth, mut cuts) = (0_usize, vec![begin]);
    let inner = pattern.get(begin..)?;
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            ',' if depth == 1 => cuts.push(begin + at),
            '}' if depth == 1 => {
                cuts.push(begin + at);
                let (before, behind) = (pattern.get(..begin)?, pattern.get(begin + at + 1..)?);
                let choices = cuts
                    .windows(2)
                    .filter_map(|cut| pattern.get(cut[0] + 1..cut[1]));
                return Some(
                    choices
                        .map(|one| format!("{before}{one}{behind}"))
                        .collect(),
                );
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn each_tool_says_what_it_looks_for() {
        for (name, input, wanted) in [
            ("Glob", json!({"pattern": ".e*"}), &[".e*"][..]),
            (
                "Glob",
                json!({"pattern": "a{b,{c,d}}", "path": "/w/x"}),
                &["/w/x/ab", "/w/x/ac", "/w/x/ad"],
            ),
            (
                "Glob",
                json!({"glob_pattern": "/etc/*", "target_directory": "x"}),
                &["/etc/*"],
            ),
            ("Grep", json!({"pattern": "x", "glob": ".e*"}), &["**/.e*"]),
            ("Grep", json!({"pattern": "x", "glob": "!*.rs"}), &[]),
            (
                "search_file_content",
                json!({"pattern": "x", "include": "src/.e*"}),
                &["**/src/.e*"],
            ),
            (
                "read_many_files",
                json!({"include": ["a*"], "paths": ["b"]}),
                &["a*", "b"],
            ),
            ("Read", json!({"file_path": "*"}), &[]),
        ] {
            let mut found = patterns(name, &input).unwrap();
            found.sort();
            found.dedup();
            assert_eq!(found, wanted, "{name} {input}");
        }
        let many = "{a,b}".repeat(20);
        assert!(patterns("Glob", &json!({ "pattern": many })).is_err());
        assert_eq!(written_out("a{b").unwrap(), ["a{b"]);
    }
}
