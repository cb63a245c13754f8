//! `.claude/security-config.json`: a workspace's policy as another tool writes it.
//!
//! It is said again in our own words, as by `sjail policy import`, and every setting has the
//! line of the file that it stands for.

use std::sync::Arc;

use super::document::{self, Document};
use super::error::{At, Error, quoted};
use super::key::Key;
use super::origin::{Layer, Origin};
use super::setting::Setting;
use crate::import::{ImportError, security_config};

/// Reads a `security-config.json`.
pub fn read(path: &Arc<str>, text: &[u8]) -> Result<Document, Error> {
    let source = std::str::from_utf8(text).map_err(|broken| Error::Syntax {
        at: At::new(path, text, broken.valid_up_to()..text.len()),
        why: "the file is not UTF-8".to_owned(),
    })?;
    let lines = Lines { path, source };
    let imported = security_config(source).map_err(|error| lines.wrong(error))?;
    if let Some((name, why)) = imported.slips.first() {
        return Err(Error::Syntax {
            at: lines.at(name),
            why: why.clone(),
        });
    }
    let made = document::read(Layer::Workspace, path, imported.toml.as_bytes());
    let mut document = made.map_err(|error| lines.wrong(error.into()))?;
    for setting in &mut document.settings {
        let line = lines.of_setting(&setting.value);
        setting.origin = Origin::line(Layer::Workspace, path, line);
    }
    document
        .settings
        .sort_by_key(|setting| match setting.origin {
            Origin::File { line, .. } => line,
            _ => 0,
        });
    document.remarks = imported
        .notes
        .iter()
        .map(|note| format!("{path}: {note}"))
        .collect();
    Ok(document)
}

/// The file, to find in it what was taken out of it.
struct Lines<'a> {
    path: &'a Arc<str>,
    source: &'a str,
}

impl Lines<'_> {
    /// Where a text stands in quotes for the first time; the top where it does not.
    fn at(&self, word: &str) -> At {
        let start = self.source.find(&format!("\"{word}\"")).unwrap_or(0);
        At::new(self.path, self.source.as_bytes(), start..start)
    }

    fn line(&self, word: &str) -> usize {
        self.at(word).line
    }

    fn of_setting(&self, setting: &Setting) -> usize {
        match setting {
            Setting::CommandsAllow(rule) | Setting::CommandsDeny(rule) => {
                let text = rule.text();
                let is_there = |text: &str| self.source.contains(&format!("\"{text}\""));
                // A path of the list of folders became three rules, `Bash(x)` became `x`.
                let inner = text.split_once('(').map(|(_, rest)| rest);
                let inner = inner.and_then(|rest| rest.strip_suffix(')'));
                match inner {
                    Some(path) if !is_there(&text) => self.line(path),
                    None if !is_there(&text) => self.line(&format!("Bash({text})")),
                    _ => self.line(&text),
                }
            }
            Setting::FilesystemDeny(pattern) => self.line(pattern.text()),
            Setting::FilesystemRead(_) => self.line("read"),
            Setting::FilesystemWrite(_) | Setting::SandboxWorkspace(_) => self.line("write"),
            Setting::NetworkAllow(host) | Setting::NetworkDeny(host) => {
                self.line(&host.to_string())
            }
            other => self.line(match other.key() {
                Key::SandboxMode => "enabled",
                Key::SandboxProfile => "isolation",
                Key::CommandsLevel => "allowlist",
                Key::NetworkMode | Key::NetworkAsk => "network",
                _ => return 1,
            }),
        }
    }

    fn wrong(&self, error: ImportError) -> Error {
        let (line, why) = match &error {
            ImportError::Json5(error) => (error.line, error.why.to_owned()),
            ImportError::Value { key, .. } => {
                let name = key.rsplit('.').next().unwrap_or_default();
                (self.line(name), error.to_string())
            }
            _ => (1, error.to_string()),
        };
        let start = self
            .source
            .split_inclusive('\n')
            .take(line.saturating_sub(1))
            .map(str::len)
            .sum::<usize>();
        Error::Syntax {
            at: At::new(self.path, self.source.as_bytes(), start..start),
            why: quoted(&why),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: &str = r#"{
  "sandbox": { "isolation": "strict" },
  "permissions": {
    "filesystem": {
      "read": ["./**", "~/.config/claude/**"],
      "deny": ["/etc/**", "~/.ssh/**"]
    },
    "network": { "allow": ["api.example.org"], "deny": ["*"] },
    "deny": ["Bash(rm -rf /)"]
  },
  "allowlist": {
    "commands": ["npm"],
    "custom": ["my-tool"]
  }
}
"#;

    fn read_text(text: &str) -> Result<Document, Error> {
        read(&Arc::from("c.json"), text.as_bytes())
    }

    #[test]
    fn every_setting_has_its_line() {
        let document = read_text(SAMPLE).unwrap();
        let line = |key: Key, text: &str| {
            let found = document.settings.iter().find(|setting| {
                setting.value.key() == key && format!("{:?}", setting.value).contains(text)
            });
            found.unwrap().origin.to_string()
        };
        assert_eq!(line(Key::SandboxProfile, "strict"), "c.json:2");
        assert_eq!(line(Key::FilesystemRead, "claude"), "c.json:5");
        assert_eq!(line(Key::FilesystemDeny, "ssh"), "c.json:6");
        assert_eq!(line(Key::CommandsDeny, "etc"), "c.json:6");
        assert_eq!(line(Key::NetworkAllow, "example"), "c.json:8");
        assert_eq!(line(Key::CommandsDeny, "\"rm -rf /\""), "c.json:9");
        assert_eq!(line(Key::CommandsLevel, ""), "c.json:11");
        assert_eq!(line(Key::CommandsAllow, "my-tool"), "c.json:13");
        assert_eq!(line(Key::CommandsDeny, "mkfs"), "c.json:1");
    }

    #[test]
    fn mistakes_are_found_at_their_line() {
        for (text, message) in [
            ("{\n\"sandbox\": }", "c.json:2:1: "),
            (
                "{\n\"sandbox\": {\n\"isolation\": \"lax\"}}",
                "c.json:3:1: `sandbox.isolation`: `lax` is none of strict, standard",
            ),
            (
                "{\"sandbox\": {},\n \"alowlist\": {}}",
                "c.json:2:2: `alowlist` is not known, did you mean `allowlist`?",
            ),
            ("{\"other\": 1}", "c.json:1:1: "),
            ("[]", "c.json:1:1: "),
        ] {
            let error = read_text(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..SAMPLE.len()) {
            let _ = read(&Arc::from("c.json"), &text);
            let _ = read_text(&SAMPLE[..cut]);
        }
    }
}
