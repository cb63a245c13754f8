//! What Codex has been told about our hook: it runs one only as its user has seen it.

use std::path::Path;

use serde_json::{Value, json};

use super::settings::PATIENCE;
use crate::trust::sha256;

/// Why Codex does not run the hook that stands in the file, if it does not.
pub fn refusal(hooks: &Path, text: &str) -> Option<String> {
    let config = config(hooks)?;
    if config["features"]["hooks"] == false {
        return Some("but Codex does not run it: `hooks = false` in config.toml".to_owned());
    }
    let (group, entry, command) = place(text)?;
    let key = format!("{}:pre_tool_use:{group}:{entry}", hooks.display());
    let state = &config["hooks"]["state"][key.as_str()];
    if state["enabled"] == false {
        return Some("but Codex does not run it: it is switched off: type /hooks there".to_owned());
    }
    match state["trusted_hash"].as_str() {
        Some(seen) if seen == fingerprint(&command) => None,
        Some(_) => Some(
            "but Codex does not run it: it is not as it was when you trusted it: type /hooks there"
                .to_owned(),
        ),
        None => Some(
            "but Codex does not run it before you have trusted it: type /hooks there".to_owned(),
        ),
    }
}

/// What has to be known of Codex's own sandbox, unless it is off: no other jail can be made in it.
pub fn sandbox(hooks: &Path) -> Option<&'static str> {
    let config = config(hooks).unwrap_or_default();
    (config["sandbox_mode"] != "danger-full-access").then_some(
        "No jail can be made inside Codex's own sandbox, where every command fails: \
         once it trusts the hook, set sandbox_mode = \"danger-full-access\" in its config.toml",
    )
}

/// Its settings beside the file; nothing to be said where they cannot be read.
fn config(hooks: &Path) -> Option<Value> {
    let file = hooks.with_file_name("config.toml");
    match std::fs::read_to_string(file) {
        Ok(text) => serde_json::to_value(toml::from_str::<toml::Table>(&text).ok()?).ok(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(json!({})),
        Err(_) => None,
    }
}

/// Where our hook stands among those before the use of a tool, and its command.
fn place(text: &str) -> Option<(usize, usize, String)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let groups = value["hooks"]["PreToolUse"].as_array()?;
    groups.iter().enumerate().find_map(|(group, item)| {
        let hooks = item["hooks"].as_array()?;
        hooks.iter().enumerate().find_map(|(entry, hook)| {
            let command = hook["command"].as_str()?;
            let is_ours = command.contains(" hook codex ");
            is_ours.then(|| (group, entry, command.to_owned()))
        })
    })
}

/// By what Codex knows a hook again: its fields in order of their names.
fn fingerprint(command: &str) -> String {
    let identity = json!({
        "event_name": "pre_tool_use",
        "hooks": [{ "async": false, "command": command, "timeout": PATIENCE, "type": "command" }],
        "matcher": "*",
    });
    format!("sha256:{}", sha256(identity.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// As Codex 0.169.0 tells it in its list of hooks.
    #[test]
    fn the_fingerprint_is_codexs() {
        let command =
            "/opt/sjail-agents/sjail hook codex || { echo 'sjail: not allowed' >&2; exit 2; }";
        assert_eq!(
            fingerprint(command),
            "sha256:1faba47be4711e4f9549ff34a4674980870b3e426743b0d6320ead2b2c17934d"
        );
    }
}
