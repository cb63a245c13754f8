//! `.claude/security-config.json`: three layers, an allow list, and what is always blocked.

use serde_json::Value;

use super::openclaw::section;
use super::{ImportError, Imported, Source, list, one_of};
use crate::rule::Rule;

/// What such files are called.
pub const KIND: &str = "security-config.json";

/// What such a file always blocks, whatever else it says.
const ALWAYS: [&str; 7] = [
    r"rm\s+-rf\s+/",
    r"dd\s+if=",
    r"mkfs",
    r":\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\};:",
    r"chmod\s+777",
    r"curl.*\|\s*bash",
    r"wget.*\|\s*sh",
];

/// What such a file allows in the project alone: nothing is removed or moved outside it,
/// nothing is copied out of it.
const OUTSIDE: [&str; 2] = [
    r"^(rm|mv)\s(.*\s)?(/|~|\$HOME|\.\.(/|\s|$))",
    r"^cp\s.*\s(/|~|\$HOME|\.\.(/|$))\S*$",
];

/// Says it again.
pub fn import(value: &Value) -> Result<Imported, ImportError> {
    let mut source = Source::new(value);
    let mut notes = Vec::new();
    let mut toml = String::from("# Taken over from a security-config.json.\n");
    let mut sandbox = Vec::new();
    if source.flag("sandbox.enabled")? == Some(false) {
        sandbox.push("mode = \"off\"".to_owned());
    }
    if let Some(isolation) = source.word("sandbox.isolation")? {
        one_of("sandbox.isolation", isolation, &["strict", "standard"])?;
        if isolation == "strict" {
            sandbox.push("profile = \"strict\"".to_owned());
        }
    }
    let (mut read, mut hidden, mut denied) = (Vec::new(), Vec::new(), Vec::new());
    for path in source.words("permissions.filesystem.read")? {
        match folder(path) {
            "." => {}
            folder => read.push(folder),
        }
    }
    let mut write = Vec::new();
    let mut project = source
        .words("permissions.allow")?
        .iter()
        .any(|rule| ["Write(./**)", "Edit(./**)"].contains(rule));
    for path in source.words("permissions.filesystem.write")? {
        match folder(path) {
            "." => project = true,
            folder => write.push(folder),
        }
    }
    // A list of what may be written without the project on it: the rest is to be read.
    let listed = value.pointer("/permissions/filesystem/write").is_some();
    if project || listed {
        let access = if project { "rw" } else { "ro" };
        sandbox.push(format!("workspace = \"{access}\""));
    }
    for path in source.words("permissions.filesystem.deny")? {
        // What the system itself is made of stays to be seen, read-only, by programs; tools
        // are kept out of it.
        if ["/etc", "/usr", "/bin", "/lib"].contains(&folder(path)) {
            for operation in ["Read", "Write", "Edit"] {
                denied.push(format!("{operation}({path})"));
            }
        } else {
            hidden.push(path);
        }
    }
    section(&mut toml, "sandbox", &sandbox);
    let mut lines = Vec::new();
    for (key, paths) in [("read", &read), ("write", &write), ("deny", &hidden)] {
        if !paths.is_empty() {
            lines.push(format!("{key} = {}", list(paths.iter().copied())));
        }
    }
    section(&mut toml, "filesystem", &lines);
    network(&mut source, &mut toml, &mut notes)?;
    let mut allowed: Vec<String> = Vec::new();
    for key in ["allowlist.commands", "allowlist.custom"] {
        allowed.extend(source.words(key)?.into_iter().map(str::to_owned));
    }
    let listed = !allowed.is_empty();
    for (key, into) in [
        ("permissions.allow", &mut allowed),
        ("permissions.deny", &mut denied),
    ] {
        for rule in source.words(key)? {
            match Rule::parse(rule) {
                // The project is there anyway, unless it is taken away.
                Ok(_) if key == "permissions.allow" && rule.ends_with("(./**)") => {}
                Ok(_) => into.push(rule.to_owned()),
                Err(error) => notes.push(format!("`{key}`: `{rule}` was left out: {error}")),
            }
        }
    }
    let mut lines = Vec::new();
    if listed {
        lines.push("level = \"deny\"".to_owned());
    }
    for (key, rules) in [("allow", &allowed), ("deny", &denied)] {
        if !rules.is_empty() {
            let rules = rules.iter().map(String::as_str);
            lines.push(format!("{key} = {}", list(rules)));
        }
    }
    let never = ALWAYS.into_iter().chain(OUTSIDE);
    lines.push(format!("deny_regex = {}", list(never)));
    section(&mut toml, "commands", &lines);
    notes.extend(source.left());
    Ok(Imported {
        kind: KIND,
        toml,
        notes,
        slips: source.slips(&["sandbox", "permissions", "allowlist"]),
    })
}

fn network(
    source: &mut Source<'_>,
    toml: &mut String,
    notes: &mut Vec<String>,
) -> Result<(), ImportError> {
    let restricted = match source.at("sandbox.network") {
        Value::Null => false,
        Value::String(word) => {
            one_of("sandbox.network", word, &["restricted", "none", "full"])?;
            word == "restricted"
        }
        _ => return Err(super::wrong("sandbox.network", "must be a text")),
    };
    let mut lines = Vec::new();
    let mut hosts = Vec::new();
    for host in source.words("permissions.network.allow")? {
        match host {
            "localhost" | "127.0.0.1" | "::1" => notes.push(format!(
                "`permissions.network.allow`: {host} inside the jail is the jail's own, and always there"
            )),
            host => hosts.push(host),
        }
    }
    if !hosts.is_empty() || restricted {
        lines.push("mode = \"filtered\"".to_owned());
    }
    if !hosts.is_empty() {
        lines.push(format!("allow = {}", list(hosts)));
    }
    let denied = source.words("permissions.network.deny")?;
    let others: Vec<&str> = denied.iter().copied().filter(|host| *host != "*").collect();
    if others.len() < denied.len() {
        // Everything that is not allowed: as it is here by default, without asking.
        lines.push("ask = false".to_owned());
    }
    if !others.is_empty() {
        lines.push(format!("deny = {}", list(others)));
    }
    section(toml, "network", &lines);
    Ok(())
}

/// The folder that a pattern covers: `./**` is `.`.
fn folder(pattern: &str) -> &str {
    let folder = pattern.strip_suffix("/**").unwrap_or(pattern);
    match folder {
        "" => "/",
        folder => folder,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn always_blocked_is_always_there() {
        let imported = import(&serde_json::json!({ "sandbox": { "enabled": true } })).unwrap();
        assert!(
            imported.toml.contains(&crate::import::quoted(ALWAYS[0])),
            "{}",
            imported.toml
        );
    }
}
