//! `SANDBOX.md`: a workspace's policy as Markdown.
//!
//! ```markdown
//! ## Security Level
//! Level: allowlist
//! ## Allowed Commands (Auto-execute)
//! - ls
//! ## Dangerous Patterns (Require Approval)
//! - rm -rf
//! - *
//! ## Disallowed Commands (Block)
//! - curl http://
//! ## Approval Settings
//! - Auto-approve safe: true
//! - Dry-run by default: false
//! - Audit retention: 30 days
//! ```
//!
//! Strict about headings and items: a misspelt one is an error, since a rule that is silently
//! not read is a rule that does not hold. Text before the first `##` heading is free, and so
//! are blank lines, quotes (`>`) and comments (`<!-- -->`).

use std::sync::Arc;

use super::document::Document;
use super::error::{At, Error, nearest, quoted};
use super::key::Key;
use super::origin::{Layer, Origin, Sourced};
use super::setting::{Level, Setting};
use super::value::rule_setting;
use crate::rule::Rule;

/// The parts of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Level,
    Allowed,
    Dangerous,
    Disallowed,
    Approval,
}

const HEADINGS: &[(&str, Section)] = &[
    ("security level", Section::Level),
    ("allowed commands", Section::Allowed),
    ("dangerous patterns", Section::Dangerous),
    ("disallowed commands", Section::Disallowed),
    ("approval settings", Section::Approval),
];

const APPROVAL_KEYS: &[&str] = &["auto-approve safe", "dry-run by default", "audit retention"];

/// Reads a `SANDBOX.md`.
pub fn read(path: &Arc<str>, text: &[u8]) -> Result<Document, Error> {
    let mut document = Document::default();
    let mut section = None;
    let mut in_comment = false;
    let mut start = 0;
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let at = |span: std::ops::Range<usize>| At::new(path, text, span);
        let span = start..start + line.len();
        start = span.end + 1;
        let line = std::str::from_utf8(line)
            .map_err(|broken| Error::Syntax {
                at: at(span.start + broken.valid_up_to()..span.end),
                why: "the file is not UTF-8".to_owned(),
            })?
            .trim();
        if in_comment || line.starts_with("<!--") {
            in_comment = !line.ends_with("-->");
            continue;
        }
        if line.is_empty() || line.starts_with('>') {
            continue;
        }
        if let Some(heading) = line.strip_prefix("##") {
            section = Some(
                heading_section(heading).map_err(|suggestion| Error::Unknown {
                    at: at(span.clone()),
                    what: "heading",
                    name: quoted(heading.trim()),
                    suggestion,
                })?,
            );
            continue;
        }
        let Some(section) = section else {
            continue;
        };
        let origin = Origin::line(Layer::Workspace, path, number + 1);
        let setting = item(section, line).map_err(|why| Error::Value {
            at: at(span.clone()),
            key: section_name(section).to_owned(),
            why,
        })?;
        document.settings.push(Sourced::new(setting, origin));
    }
    Ok(document)
}

fn heading_section(heading: &str) -> Result<Section, Option<String>> {
    let heading = heading.trim_start_matches('#').trim().to_ascii_lowercase();
    let name = heading
        .split('(')
        .next()
        .unwrap_or_default()
        .trim()
        .trim_end_matches(':')
        .trim_end();
    let known = HEADINGS.iter().find(|(known, _)| *known == name);
    known
        .map(|(_, section)| *section)
        .ok_or_else(|| nearest(name, HEADINGS.iter().map(|(known, _)| *known)))
}

fn section_name(section: Section) -> &'static str {
    HEADINGS
        .iter()
        .find(|(_, own)| *own == section)
        .map_or("", |(name, _)| name)
}

fn item(section: Section, line: &str) -> Result<Setting, String> {
    match section {
        Section::Level => level(bullet(line).unwrap_or(line)),
        Section::Approval => approval(bullet(line).unwrap_or(line)),
        Section::Allowed => rule(Key::CommandsAllow, line),
        Section::Dangerous => rule(Key::CommandsAsk, line),
        Section::Disallowed => rule(Key::CommandsDeny, line),
    }
}

/// The text of a list item. The bare `*` is a pattern, not an empty item.
fn bullet(line: &str) -> Option<&str> {
    if line == "*" {
        return Some(line);
    }
    ["- ", "* ", "+ "]
        .iter()
        .find_map(|mark| line.strip_prefix(mark))
        .map(str::trim)
}

fn level(line: &str) -> Result<Setting, String> {
    let (name, word) = line
        .split_once(':')
        .ok_or("write `Level: full`, `Level: allowlist` or `Level: deny`")?;
    if !name.trim().eq_ignore_ascii_case("level") {
        return Err(format!("`{}` is not `Level`", quoted(name.trim())));
    }
    let word = word.trim().to_ascii_lowercase();
    Level::named(&word)
        .map(Setting::CommandsLevel)
        .ok_or_else(|| format!("`{}` is none of {}", quoted(&word), Level::WORDS.join(", ")))
}

fn approval(line: &str) -> Result<Setting, String> {
    let (name, value) = line.split_once(':').ok_or("write `- Name: value`")?;
    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
    let flag = || match value.to_ascii_lowercase().as_str() {
        "true" | "yes" => Ok(true),
        "false" | "no" => Ok(false),
        _ => Err(format!("`{}` is neither true nor false", quoted(value))),
    };
    match name.as_str() {
        "auto-approve safe" => flag().map(Setting::CommandsAutoApproveSafe),
        "dry-run by default" => flag().map(Setting::CommandsDryRun),
        "audit retention" => value
            .parse()
            .map(Setting::AuditRetention)
            .map_err(|error: crate::duration::TimeError| quoted(&error.to_string())),
        _ => {
            let hint = nearest(&name, APPROVAL_KEYS.iter().copied());
            let hint = hint.map_or_else(
                || format!(": there are {}", APPROVAL_KEYS.join(", ")),
                |near| format!(", did you mean `{near}`?"),
            );
            Err(format!("unknown setting `{}`{hint}", quoted(&name)))
        }
    }
}

fn rule(key: Key, line: &str) -> Result<Setting, String> {
    let text = bullet(line).ok_or("write each pattern as a list item: `- pattern`")?;
    let text = text.split(" # ").next().unwrap_or(text).trim();
    let text = text
        .strip_prefix('`')
        .and_then(|text| text.strip_suffix('`'))
        .unwrap_or(text);
    // Here `npm list` means every `npm list …`: the format has names of commands, not lines.
    let several_words = text.contains(' ') && !text.ends_with('*') && !text.ends_with(')');
    let pattern = if key == Key::CommandsAllow && several_words {
        format!("{text} *")
    } else {
        text.to_owned()
    };
    let rule = Rule::parse(&pattern).map_err(|error| quoted(&error.to_string()))?;
    rule_setting(key, rule)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: &str = "# Secure Sandbox Configuration\n\nFree text.\n\n## Security Level\nLevel: allowlist\n\n\
        ## Allowed Commands (Auto-execute)\n- ls\n- npm list\n\n## Dangerous Patterns (Require Approval)\n- rm -rf\n- dd if=\n- *\n\n\
        ## Disallowed Commands (Block)\n- curl http://\n- `nc -l`\n- eval\n\n\
        ## Approval Settings\n- Auto-approve safe: true\n- Dry-run by default: false\n- Audit retention: 30 days\n";

    fn read_text(text: &str) -> Result<Document, Error> {
        read(&Arc::from("SANDBOX.md"), text.as_bytes())
    }

    #[test]
    fn the_whole_format_is_read() {
        let document = read_text(SAMPLE).unwrap();
        let shown: Vec<String> = document
            .settings
            .iter()
            .map(|s| format!("{} {}", s.origin, describe(&s.value)))
            .collect();
        assert_eq!(
            shown,
            [
                "SANDBOX.md:6 level allowlist",
                "SANDBOX.md:9 allow ls",
                "SANDBOX.md:10 allow npm list *",
                "SANDBOX.md:13 ask rm -rf",
                "SANDBOX.md:14 ask dd if=",
                "SANDBOX.md:15 ask *",
                "SANDBOX.md:18 deny curl http://",
                "SANDBOX.md:19 deny nc -l",
                "SANDBOX.md:20 deny eval",
                "SANDBOX.md:23 safe true",
                "SANDBOX.md:24 dry-run false",
                "SANDBOX.md:25 retention 30d",
            ]
        );
    }

    fn describe(setting: &Setting) -> String {
        match setting {
            Setting::CommandsLevel(level) => format!("level {}", level.name()),
            Setting::CommandsAllow(rule) => format!("allow {}", rule.text()),
            Setting::CommandsAsk(rule) => format!("ask {}", rule.text()),
            Setting::CommandsDeny(rule) => format!("deny {}", rule.text()),
            Setting::CommandsAutoApproveSafe(value) => format!("safe {value}"),
            Setting::CommandsDryRun(value) => format!("dry-run {value}"),
            Setting::AuditRetention(value) => format!("retention {value}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn mistakes_are_found_at_their_line() {
        for (text, message) in [
            (
                "## Disalowed Commands\n- x\n",
                "SANDBOX.md:1:1: unknown heading `Disalowed Commands`, did you mean `disallowed commands`?",
            ),
            (
                "## Security Level\nLevel: alowlist\n",
                "SANDBOX.md:2:1: `security level`: `alowlist` is none of full, allowlist, deny",
            ),
            (
                "## Dangerous Patterns\nrm -rf\n",
                "SANDBOX.md:2:1: `dangerous patterns`: write each pattern as a list item: `- pattern`",
            ),
            (
                "## Approval Settings\n- Dry run by default: true\n",
                "SANDBOX.md:2:1: `approval settings`: unknown setting `dry run by default`, did you mean `dry-run by default`?",
            ),
            (
                "## Allowed Commands\n- ./run.sh\n",
                "SANDBOX.md:2:1: `allowed commands`: the pattern `./run.sh` can match nothing",
            ),
        ] {
            let error = read_text(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in proptest::collection::vec(any::<u8>(), 0..200), lines in "(## (Allowed Commands|Security Level|x)\n|[-*+] ?[a-z*:` ]{0,8}\n){0,8}") {
            let _ = read(&Arc::from("SANDBOX.md"), &text);
            let _ = read_text(&lines);
        }
    }
}
