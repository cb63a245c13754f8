//! What protecting found during a run, in words and for the result.

use std::path::Path;

use serde::Serialize;
use sjail_policy::bytes::ByteString;
use sjail_policy::git_keys::LeftOut;
use sjail_policy::show;

use super::quarantine::Item;

/// One thing that was kept away from the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file or folder.
    pub path: ByteString,
    /// What was done about it.
    pub action: Action,
    /// Why, as the end of a sentence that starts with the path or the key.
    pub why: String,
    /// The key of git's configuration, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its item in quarantine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<String>,
    /// The command that undoes it on purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore: Option<String>,
    /// How many more of the kind there are, each of which is not told by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<usize>,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Moved to quarantine.
    Quarantined,
    /// A key of git's configuration was left out.
    KeyLeftOut,
    /// A host process replaced it; it was closed to the jail again.
    HeldAgain,
    /// Something to know; nothing was done.
    Noted,
}

impl Finding {
    /// Something went to quarantine.
    pub fn quarantined(item: &Item) -> Finding {
        Finding {
            path: item.path.clone(),
            action: Action::Quarantined,
            why: item.why.clone(),
            key: None,
            quarantine: Some(item.id.clone()),
            restore: Some(format!("sjail quarantine restore {}", item.id)),
            more: None,
        }
    }

    /// More of the same name went there, for this reason.
    pub fn and_more(self, why: &str) -> Finding {
        Finding {
            why: why.to_owned(),
            quarantine: None,
            restore: Some("sjail quarantine list".to_owned()),
            ..self
        }
    }

    /// Whether this is about a name that went to quarantine.
    pub fn is_quarantined(&self, path: &Path) -> bool {
        self.action == Action::Quarantined && self.path.as_path() == path
    }

    /// A key was left out.
    fn key(config: &Path, left: &LeftOut, quarantine: Option<&str>) -> Finding {
        let folder = config.parent().unwrap_or(config);
        let top = if folder.file_name() == Some(".git".as_ref()) {
            folder.parent().unwrap_or(folder)
        } else {
            folder
        };
        // What is longer is nobody's to type.
        const TYPED: usize = 512;
        let restore = match left.change.after.as_slice() {
            [Some(value)] if value.len() <= TYPED => Some(format!(
                "git -C {} config {} {}",
                show_word(top.as_os_str().as_encoded_bytes()),
                show_word(left.change.key.to_string().as_bytes()),
                show_word(value),
            )),
            _ => None,
        };
        Finding {
            path: ByteString::from(config),
            action: Action::KeyLeftOut,
            why: left.why.clone(),
            key: Some(left.change.key.to_string()),
            quarantine: quarantine.map(str::to_owned),
            restore,
            more: None,
        }
    }

    /// Keys were left out: a file can hold tens of thousands, and not all of them are told one
    /// by one.
    pub fn keys(config: &Path, left: &[LeftOut], quarantine: Option<&str>) -> Vec<Finding> {
        const TOLD: usize = 64;
        let told = left.iter().take(TOLD);
        let mut findings: Vec<_> = told
            .map(|left| Finding::key(config, left, quarantine))
            .collect();
        let more = left.len().saturating_sub(TOLD);
        if more > 0 {
            let why = format!("had {more} more such keys, which were left out as well");
            findings.push(Finding {
                action: Action::KeyLeftOut,
                quarantine: quarantine.map(str::to_owned),
                more: Some(more),
                ..Finding::noted(config, why)
            });
        }
        findings
    }

    /// A host process replaced a protected name during the run.
    pub fn held_again(path: &Path) -> Finding {
        Finding {
            path: ByteString::from(path),
            action: Action::HeldAgain,
            why: "was replaced on the host during the run, and closed to the jail again".into(),
            key: None,
            quarantine: None,
            restore: None,
            more: None,
        }
    }

    /// A folder was made unreadable during the run.
    pub fn opened(path: &Path) -> Finding {
        Finding::noted(
            path,
            "was closed to its own owner during the run; it was opened again, to look for protected names in it",
        )
    }

    /// A protected file had a second name and has none any more.
    pub fn parted(path: &Path) -> Finding {
        Finding::noted(
            path,
            "had a second name (a hard link), by which it could be written; it is a file of its own now",
        )
    }

    /// Something to know.
    pub fn noted(path: &Path, why: impl Into<String>) -> Finding {
        Finding {
            path: ByteString::from(path),
            action: Action::Noted,
            why: why.into(),
            key: None,
            quarantine: None,
            restore: None,
            more: None,
        }
    }

    /// One line for people.
    pub fn sentence(&self) -> String {
        let path = show::inert(self.path.as_bytes());
        let why = show::inert(self.why.as_bytes());
        match (&self.action, &self.key, &self.restore) {
            (Action::Quarantined, _, Some(restore)) => {
                format!("{path} {why}: moved to quarantine; to put it back: {restore}")
            }
            (Action::KeyLeftOut, Some(key), restore) => {
                let key = show::inert(key.as_bytes());
                let wanted = restore
                    .as_ref()
                    .map(|restore| format!("; if you want it: {restore}"))
                    .unwrap_or_default();
                format!("{key} was left out of {path}: it {why}{wanted}")
            }
            _ => format!("{path} {why}"),
        }
    }
}

/// The findings as lines for people: of very many the first, and how many more there are. All
/// of them are in the result.
pub fn sentences(findings: &[Finding]) -> Vec<String> {
    const TOLD: usize = 32;
    let mut lines: Vec<_> = findings.iter().take(TOLD).map(Finding::sentence).collect();
    let rest = findings.get(TOLD..).unwrap_or_default();
    let more: usize = rest.iter().map(|finding| finding.more.unwrap_or(1)).sum();
    match more {
        0 => {}
        1 => lines.extend(rest.iter().map(Finding::sentence)),
        _ => lines.push(format!(
            "and {more} more such things were kept away from the host or are to be known; --json names them"
        )),
    }
    lines
}

/// A word as it can be typed into a shell, and shown.
fn show_word(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let quoted = shell_words::quote(&text);
    show::inert(quoted.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sjail_policy::git_config::{Change, Key};

    #[test]
    fn tens_of_thousands_of_keys_are_told_in_a_few_lines() {
        let left = |n: usize| LeftOut {
            change: Change {
                key: Key {
                    section: "core".into(),
                    subsection: None,
                    name: format!("k{n}"),
                },
                before: Vec::new(),
                after: vec![None],
            },
            why: "is not known to be harmless".to_owned(),
        };
        let left: Vec<_> = (0..45_000).map(left).collect();
        let findings = Finding::keys(Path::new("/w/.git/config"), &left, Some("q_1"));
        let counted = findings.iter().map(|finding| finding.more.unwrap_or(1));
        assert_eq!(counted.sum::<usize>(), left.len());
        let lines = sentences(&findings);
        assert!(findings.len() < 100 && lines.len() < 50, "{}", lines.len());
        let last = lines.last().map(String::as_str).unwrap_or_default();
        assert!(last.contains("44968 more"), "{last}");
        assert_eq!(sentences(&findings[..33]).len(), 33);
    }
}
