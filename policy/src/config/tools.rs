//! Which tools an agent has: profiles, groups, allow and deny.

use super::setting::ToolProfile;

/// Every tool that is known by name, with the group it belongs to.
const TOOLS: &[(&str, &str)] = &[
    ("read", "group:fs"),
    ("write", "group:fs"),
    ("edit", "group:fs"),
    ("exec", "group:runtime"),
    ("browser", "group:browser"),
    ("web_fetch", "group:network"),
    ("web_search", "group:network"),
    ("message", "group:messaging"),
    ("cron", "group:automation"),
    ("gateway", "group:automation"),
    ("sessions_spawn", "group:automation"),
    ("sessions_send", "group:automation"),
    ("image", "group:media"),
    ("tts", "group:media"),
];

/// The tools that `sjail mcp` offers an agent under names of its own, each with the tool of the
/// list above that it needs.
const OWN: &[(&str, Option<&str>)] = &[
    ("sandbox_check", None),
    ("sandbox_exec", Some("exec")),
    ("run_code", Some("exec")),
    ("read", Some("read")),
    ("write", Some("write")),
    ("edit", Some("edit")),
    ("sandbox_queue_list", None),
    ("sandbox_audit_log", None),
    ("sandbox_audit_stats", None),
    ("sandbox_allowlist_test", None),
];

/// Those that it offers an operator besides.
const OPERATORS: &[&str] = &[
    "sandbox_queue_approve",
    "sandbox_queue_reject",
    "sandbox_allowlist_add",
    "sandbox_allowlist_remove",
];

/// Whether a name is that of a tool that sjail offers.
pub fn is_own(name: &str) -> bool {
    OWN.iter().any(|(own, _)| *own == name) || OPERATORS.contains(&name)
}

/// What `sjail mcp` registers for an agent that has these tools, but for what is denied by name.
pub fn registered(tools: &[&str], is_denied: impl Fn(&str) -> bool) -> Vec<&'static str> {
    OWN.iter()
        .filter(|(name, needs)| needs.is_none_or(|tool| tools.contains(&tool)) && !is_denied(name))
        .map(|(name, _)| *name)
        .collect()
}

/// Whether a name is a tool's or a group's.
pub fn is_known(name: &str) -> bool {
    TOOLS
        .iter()
        .any(|(tool, group)| *tool == name || *group == name)
}

/// Every name that can be written in a list.
pub fn names() -> impl Iterator<Item = &'static str> {
    TOOLS
        .iter()
        .map(|(tool, _)| *tool)
        .chain(TOOLS.iter().map(|(_, group)| *group))
}

/// The tools of a profile before any list is applied.
pub fn of_profile(profile: ToolProfile) -> Vec<&'static str> {
    match profile {
        ToolProfile::Full => TOOLS.iter().map(|(tool, _)| *tool).collect(),
        ToolProfile::Coding => vec!["read", "write", "edit", "exec", "browser"],
        ToolProfile::Messaging => vec!["message", "web_search", "web_fetch"],
        ToolProfile::Minimal => vec!["web_search"],
    }
}

/// The tools that are left: the profile's and the allowed ones, without the denied ones.
pub fn effective<'a>(
    profile: ToolProfile,
    allow: impl IntoIterator<Item = &'a str>,
    deny: impl IntoIterator<Item = &'a str>,
) -> Vec<&'static str> {
    let mut given = of_profile(profile);
    for name in allow {
        given.extend(meant(name));
    }
    let taken: Vec<&str> = deny.into_iter().flat_map(meant).collect();
    TOOLS
        .iter()
        .map(|(tool, _)| *tool)
        .filter(|tool| given.contains(tool) && !taken.contains(tool))
        .collect()
}

fn meant(name: &str) -> impl Iterator<Item = &'static str> {
    TOOLS
        .iter()
        .filter(move |(tool, group)| *tool == name || *group == name)
        .map(|(tool, _)| *tool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deny_is_absolute() {
        let tools = effective(
            ToolProfile::Coding,
            ["web_search", "cron"],
            ["group:automation", "browser"],
        );
        assert_eq!(tools, ["read", "write", "edit", "exec", "web_search"]);
        assert_eq!(effective(ToolProfile::Minimal, [], []), ["web_search"]);
        assert!(
            effective(
                ToolProfile::Messaging,
                [],
                ["group:messaging", "group:network"]
            )
            .is_empty()
        );
    }
}
