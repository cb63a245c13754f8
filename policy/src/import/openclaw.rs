//! OpenClaw's configuration: sandbox mode, tool policy, elevated patterns.

use serde_json::Value;

use super::{ImportError, Imported, Source, list, one_of, quoted};
use crate::config::{Bind, is_known_tool, is_own_tool, nearest, tool_name, tool_names};
use crate::show::inert;

/// Says it again.
pub fn import(value: &Value) -> Result<Imported, ImportError> {
    let mut source = Source::new(value);
    let mut notes = Vec::new();
    let mut toml = String::from("# Taken over from an OpenClaw configuration.\n");
    let sandbox = "agents.defaults.sandbox";
    let has_sandbox = value.pointer("/agents/defaults/sandbox").is_some();
    let mut lines = Vec::new();
    for (key, known, default) in [
        ("mode", &["off", "non-main", "all"], None),
        ("scope", &["session", "agent", "shared"], Some("session")),
        ("workspace", &["none", "ro", "rw"], Some("none")),
    ] {
        let path = format!("{sandbox}.{key}");
        match (source.word(&path)?, default) {
            (Some(word), _) => {
                one_of(&path, word, known)?;
                lines.push(format!("{key} = {}", quoted(word)));
            }
            // What it leaves out is meant as it is there, not as it is here.
            (None, Some(word)) if has_sandbox => {
                lines.push(format!("{key} = {} # its default", quoted(word)));
            }
            (None, _) => {}
        }
    }
    section(&mut toml, "sandbox", &lines);
    // Where its containers have it, too; the shorter key counts.
    for key in ["network", "docker.network"] {
        let path = format!("{sandbox}.{key}");
        if let Some(word) = source.word(&path)? {
            let (lines, became) = network_lines(word);
            section(&mut toml, "network", &lines);
            notes.push(format!("`{path}`: `{word}` became {became}"));
            break;
        }
    }
    let path = format!("{sandbox}.binds");
    let binds = source.words(&path)?;
    if !binds.is_empty() {
        // By the names that its owner wrote, not by ours.
        for bind in &binds {
            Bind::parse(bind.as_bytes()).map_err(|why| ImportError::Value {
                key: path.clone(),
                why: match why.contains(&inert(bind.as_bytes())) {
                    true => why,
                    false => format!("`{}` cannot be given: {why}", inert(bind.as_bytes())),
                },
            })?;
        }
        section(
            &mut toml,
            "filesystem",
            &[format!("binds = {}", list(binds))],
        );
    }
    // Their default, which holds wherever there is a sandbox, and nowhere else.
    if source.word(&format!("{sandbox}.mode"))? != Some("off") {
        section(&mut toml, "limits", &["timeout = \"60s\"".to_owned()]);
    }
    let mut lines = Vec::new();
    if let Some(profile) = source.word("tools.profile")? {
        one_of(
            "tools.profile",
            profile,
            &["full", "coding", "messaging", "minimal"],
        )?;
        lines.push(format!("profile = {}", quoted(profile)));
    }
    for key in ["allow", "deny"] {
        let path = format!("tools.{key}");
        let mut names = source.words(&path)?;
        // Deny is absolute: a slip of the pen in it must not leave the tool there.
        let slip = |name: &&&str| !is_known_tool(name) && nearest(name, tool_names()).is_some();
        if let (Some(name), "deny") = (names.iter().find(slip), key) {
            let why = tool_name(name).err().unwrap_or_default();
            return Err(ImportError::Value { key: path, why });
        }
        names.retain(|name| match tool_name(name) {
            Ok(_) if is_known_tool(name) || is_own_tool(name) => true,
            Ok(_) => {
                notes.push(format!(
                    "`{path}`: sjail has no tool `{name}`; the name counts where an agent's hook asks by it"
                ));
                true
            }
            Err(why) => {
                notes.push(format!("`{path}`: {why}; it was left out"));
                false
            }
        });
        if !names.is_empty() {
            lines.push(format!("{key} = {}", list(names)));
        }
    }
    section(&mut toml, "tools", &lines);
    let mut lines = Vec::new();
    if let Some(enabled) = source.flag("tools.elevated.enabled")? {
        lines.push(format!("enabled = {enabled}"));
    }
    let patterns = source.words("tools.elevated.patterns")?;
    if !patterns.is_empty() {
        lines.push(format!("patterns = {}", list(patterns)));
    }
    if let Some(asks) = source.flag("tools.elevated.requireApproval")? {
        lines.push(format!("require_approval = {asks}"));
    }
    section(&mut toml, "elevated", &lines);
    notes.extend(source.left());
    Ok(Imported {
        kind: "OpenClaw",
        toml,
        notes,
        slips: source.slips(&["agents", "tools"]),
    })
}

/// The network that a container would have had, and what is made of it.
fn network_lines(word: &str) -> (Vec<String>, &'static str) {
    let mode = |mode: &str| format!("mode = {}", quoted(mode));
    match word {
        "none" => (vec![mode("none")], "no network"),
        "host" => (vec![mode("host")], "the host's own network"),
        "bridge" => (
            vec![mode("filtered"), "ask = true".to_owned()],
            "a filtered network that asks about each host: `network.allow` lists those that need no asking",
        ),
        _ => (
            vec![mode("none")],
            "no network: there are none by name here; `network.allow` lists hosts",
        ),
    }
}

/// A table of the policy file, if there is anything in it.
pub fn section(toml: &mut String, name: &str, lines: &[String]) {
    if !lines.is_empty() {
        toml.push_str(&format!("\n[{name}]\n{}\n", lines.join("\n")));
    }
}
