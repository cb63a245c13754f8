//! The three questions first: where commands run, which may leave the jail, which tools
//! there are.

use crate::config::{Mode, Policy, is_known_tool, is_own_tool, registered_tools};
use crate::plan::Access;
use crate::show::inert;
use crate::wire::control::Registered;

/// The tools that sjail itself offers; the others are names of the agent's own tools, which
/// the policy can take away where a hook asks.
const OFFERED: [&str; 4] = ["read", "write", "edit", "exec"];

/// Where commands run, and which tools there are.
#[derive(Debug, Clone)]
pub struct Overview {
    mode: Mode,
    scope: &'static str,
    workspace: &'static str,
    elevated: Vec<String>,
    profile: &'static str,
    denied: Vec<String>,
    tools: Vec<&'static str>,
    /// What `sjail mcp` registers for an agent.
    registered: Vec<&'static str>,
    /// Names that are allowed and belong to the agent alone.
    foreign: Vec<String>,
}

impl Overview {
    pub(super) fn of(policy: &Policy) -> Self {
        let how = match policy.elevated_approval.value {
            true => "host, with approval",
            false => "host",
        };
        let patterns = policy.elevated_patterns.iter();
        Self {
            mode: policy.mode.value,
            scope: policy.scope.value.name(),
            workspace: match policy.workspace.value {
                Access::None => "none",
                Access::Ro => "ro, also at /agent",
                Access::Rw => "rw, also at /workspace",
            },
            elevated: match policy.elevated.value {
                true => patterns
                    .map(|rule| format!("{} -> {how}", inert(rule.value.text().as_bytes())))
                    .collect(),
                false => Vec::new(),
            },
            profile: policy.tool_profile.value.name(),
            denied: policy
                .tools_deny
                .iter()
                .map(|name| inert(name.value.as_bytes()))
                .collect(),
            registered: registered_tools(&policy.tools(), |name| policy.denies_tool(name)),
            tools: policy.tools(),
            foreign: policy
                .tools_allow
                .iter()
                .filter(|name| !is_known_tool(&name.value) && !is_own_tool(&name.value))
                .filter(|name| !policy.denies_tool(&name.value))
                .map(|name| inert(name.value.as_bytes()))
                .collect(),
        }
    }

    /// For people.
    pub(super) fn human(&self, sessions: &[Registered], asked: Option<&str>) -> String {
        let mut text = format!(
            "\nsandbox mode:     {}\nsandbox scope:    {}\nworkspace access: {}\n",
            self.mode.name(),
            self.scope,
            self.workspace
        );
        match self.mode {
            Mode::Off => text.push_str("every session -> host (mode off)\n"),
            Mode::All => text.push_str("every session -> jail\n"),
            Mode::NonMain => {
                for one in sessions.iter().filter(|one| one.role == "main") {
                    let name = inert(one.session.as_bytes());
                    let by = inert(one.by.as_bytes());
                    text.push_str(&format!("session \"{name}\" -> host (main, by {by})\n"));
                }
                let is_main = |name: &str| {
                    let mut all = sessions.iter();
                    all.any(|one| one.role == "main" && one.session == name)
                };
                if let Some(name) = asked.filter(|name| !is_main(name)) {
                    let name = inert(name.as_bytes());
                    text.push_str(&format!("session \"{name}\" -> jail\n"));
                }
                match sessions.iter().any(|one| one.role == "main") {
                    true => text.push_str("every other session -> jail\n"),
                    false => text.push_str(
                        "every other session -> jail (`sjail session register NAME` makes one main)\n",
                    ),
                }
            }
        }
        text.push_str("elevated patterns:");
        match self.elevated.as_slice() {
            [] => text.push_str(" none\n"),
            patterns => {
                text.push('\n');
                for pattern in patterns {
                    text.push_str(&format!("  {pattern}\n"));
                }
            }
        }
        let (own, mut others): (Vec<&str>, Vec<&str>) =
            self.tools.iter().partition(|tool| OFFERED.contains(tool));
        others.extend(self.foreign.iter().map(String::as_str));
        let list = |names: &[&str]| match names {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        let denied: Vec<&str> = self.denied.iter().map(String::as_str).collect();
        text.push_str(&format!(
            "tool policy:\n  profile: {}\n  denied: {}\n  tools: {}\n  registered by `sjail mcp`: {}\n  not offered by sjail: {}\n",
            self.profile,
            list(&denied),
            list(&own),
            list(&self.registered),
            list(&others),
        ));
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::{Origin, Setting, ToolProfile};
    use crate::rule::Rule;

    #[test]
    fn it_says_where_commands_run() {
        let mut policy = Policy::default();
        let by = || Origin::CommandLine("test");
        for setting in [
            Setting::SandboxMode(Mode::NonMain),
            Setting::SandboxWorkspace(Access::None),
            Setting::ElevatedEnabled(true),
            Setting::ElevatedPattern(Rule::parse("git push *").unwrap()),
            Setting::ToolsProfile(ToolProfile::Coding),
            Setting::ToolsDeny("group:automation".to_owned()),
            Setting::ToolsDeny("canvas".to_owned()),
            Setting::ToolsAllow("canvas".to_owned()),
            Setting::ToolsAllow("nodes".to_owned()),
        ] {
            policy.apply(setting, by());
        }
        let main = Registered {
            session: "agent:main:main".to_owned(),
            role: "main".to_owned(),
            by: "ann".to_owned(),
        };
        assert_eq!(
            Overview::of(&policy).human(&[main], Some("agent:main:telegram:group:-100123")),
            "\nsandbox mode:     non-main\nsandbox scope:    run\nworkspace access: none\n\
             session \"agent:main:main\" -> host (main, by ann)\n\
             session \"agent:main:telegram:group:-100123\" -> jail\nevery other session -> jail\n\
             elevated patterns:\n  git push * -> host, with approval\n\
             tool policy:\n  profile: coding\n  denied: group:automation, canvas\n  \
             tools: read, write, edit, exec\n  registered by `sjail mcp`: sandbox_check, sandbox_exec, run_code, read, write, edit, \
             sandbox_queue_list, sandbox_audit_log, sandbox_audit_stats, sandbox_allowlist_test\n  not offered by sjail: browser, nodes\n"
        );
    }
}
