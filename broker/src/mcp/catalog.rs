//! Which tools there are, for whom, and what they take.

use serde_json::{Value, json};
use sjail_policy::language::Language;

use super::answers;
use super::runner::Sjail;
use crate::error::Result;

/// Who is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// An agent: it may ask.
    Agent,
    /// The owner: may answer as well.
    Operator,
}

/// One tool.
#[derive(Debug)]
pub struct Tool {
    /// What it is called.
    pub name: &'static str,
    title: &'static str,
    description: &'static str,
    /// The name in the policy's `tools` that it stands or falls with; its own always counts.
    policy: Option<&'static str>,
    role: Role,
    kind: Kind,
    input: fn() -> Value,
}

/// What a client may tell its user about a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Changes nothing.
    Looks,
    /// Changes something that can be changed back.
    Changes,
    /// May destroy something.
    Runs,
}

/// What of the policy matters here.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The tools that an agent has.
    tools: Vec<String>,
    /// Those that are taken away by name.
    denied: Vec<String>,
    /// The time limit in milliseconds, if the policy sets one.
    pub timeout: Option<u64>,
    /// Whether the policy bounds the output.
    pub bounds_output: bool,
}

impl Policy {
    /// What holds in this folder.
    pub fn of(sjail: &Sjail) -> Result<Policy> {
        let words = ["explain", "--json"].map(str::to_owned);
        let explained = sjail.call(&words, b"")?.json()?;
        let value = |key: &str| {
            let rows = explained["values"].as_array().into_iter().flatten();
            rows.filter(|row| row["key"] == key)
                .map(|row| row["value"].clone())
                .next()
                .unwrap_or_default()
        };
        let texts = |list: &Value, of: fn(&Value) -> &Value| -> Vec<String> {
            let items = list.as_array().into_iter().flatten();
            items
                .filter_map(|item| of(item).as_str().map(str::to_owned))
                .collect()
        };
        let timeout = value("limits.timeout")["value"]
            .as_str()
            .and_then(|text| text.parse::<sjail_policy::duration::Duration>().ok())
            .map(sjail_policy::duration::Duration::millis);
        Ok(Policy {
            tools: texts(&explained["tools"], |item| item),
            denied: texts(&value("tools.deny"), |item| &item["value"]),
            timeout,
            bounds_output: !value("limits.output")["value"].is_null(),
        })
    }
}

/// The tools for whom and under which policy: what is denied is not there at all.
pub fn offered(role: Role, policy: &Policy) -> Vec<&'static Tool> {
    TOOLS
        .iter()
        .filter(|tool| role == Role::Operator || tool.role == Role::Agent)
        .filter(|tool| !policy.denied.iter().any(|name| name == tool.name))
        .filter(|tool| {
            tool.policy
                .is_none_or(|needed| policy.tools.iter().any(|name| name == needed))
        })
        .collect()
}

impl Tool {
    /// As a client sees it.
    pub fn described(&self) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": (self.input)(),
            "outputSchema": answers::schema(self.name),
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.kind == Kind::Looks,
                "destructiveHint": self.kind == Kind::Runs,
                "openWorldHint": false,
            },
        })
    }
}

/// An object with these properties and no others.
fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

fn flag(about: &str) -> Value {
    json!({ "type": "boolean", "description": about, "default": false })
}

fn number(about: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": about })
}

fn path() -> Value {
    text("The file, from the working folder or absolute")
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "sandbox_check",
        title: "Check a command",
        description: "Say what a shell line would do, how risky that is and what would happen \
                      to it, without running anything.",
        policy: None,
        role: Role::Agent,
        kind: Kind::Looks,
        input: || {
            let context = json!({
                "type": "object",
                "description": "Where it would run",
                "properties": {
                    "working_dir": text("The folder, absolute"),
                    "user": text("The user's name"),
                },
                "additionalProperties": false,
            });
            object(
                json!({ "command": text("The shell line"), "context": context }),
                &["command"],
            )
        },
    },
    Tool {
        name: "sandbox_exec",
        title: "Run a command",
        description: "Run a shell line in the jail. What is dangerous is queued for a person: \
                      the result then has status `pending` and an id; once it is approved, call \
                      again with that id as `approval`.",
        policy: Some("exec"),
        role: Role::Agent,
        kind: Kind::Runs,
        input: || {
            let env = json!({
                "type": "object",
                "description": "Extra environment variables",
                "additionalProperties": { "type": "string" },
            });
            object(
                json!({
                    "command": text("The shell line"),
                    "require_approval": flag("Ask a person even if it is safe"),
                    "dry_run": flag("Show what would happen: run it on a copy, keep nothing"),
                    "timeout": number("Milliseconds until it is killed; default 60000"),
                    "env": env,
                    "wait": number("Milliseconds to wait for a person's answer; default 0"),
                    "approval": text("Run what was approved under this id"),
                }),
                &[],
            )
        },
    },
    Tool {
        name: "run_code",
        title: "Run code",
        description: "Run a program text in a jail of its own: no network, nothing of this \
                      machine writable but a temporary folder.",
        policy: Some("exec"),
        role: Role::Agent,
        kind: Kind::Runs,
        input: || {
            let language = json!({
                "type": "string",
                "enum": Language::names().collect::<Vec<_>>(),
                "description": "The language",
            });
            object(
                json!({
                    "language": language,
                    "code": text("The program text"),
                    "timeout": number("Milliseconds until it is killed; default 30000"),
                    "maxOutputSize": number("Bytes of output; default 1 MB"),
                }),
                &["language", "code"],
            )
        },
    },
    Tool {
        name: "read",
        title: "Read a file",
        description: "Read a text file, in the jail.",
        policy: Some("read"),
        role: Role::Agent,
        kind: Kind::Looks,
        input: || object(json!({ "path": path() }), &["path"]),
    },
    Tool {
        name: "write",
        title: "Write a file",
        description: "Write a whole text file, in the jail.",
        policy: Some("write"),
        role: Role::Agent,
        kind: Kind::Runs,
        input: || {
            object(
                json!({ "path": path(), "content": text("Everything that will be in it") }),
                &["path", "content"],
            )
        },
    },
    Tool {
        name: "edit",
        title: "Edit a file",
        description: "Replace a text in a file, in the jail. The text must occur exactly once \
                      unless `replace_all` is set.",
        policy: Some("edit"),
        role: Role::Agent,
        kind: Kind::Runs,
        input: || {
            object(
                json!({
                    "path": path(),
                    "old_string": text("What is there"),
                    "new_string": text("What is to be there"),
                    "replace_all": flag("Wherever it occurs"),
                }),
                &["path", "old_string", "new_string"],
            )
        },
    },
    Tool {
        name: "sandbox_queue_list",
        title: "List approvals",
        description: "List commands that wait for an approval, or were answered.",
        policy: None,
        role: Role::Agent,
        kind: Kind::Looks,
        input: || {
            let status = json!({
                "type": "string",
                "enum": ["pending", "approved", "rejected", "expired", "used", "all"],
                "default": "pending",
                "description": "Which",
            });
            object(json!({ "status": status }), &[])
        },
    },
    Tool {
        name: "sandbox_queue_approve",
        title: "Approve a command",
        description: "Say yes to a queued command.",
        policy: None,
        role: Role::Operator,
        kind: Kind::Runs,
        input: || {
            object(
                json!({
                    "id": text("The request"),
                    "approved_by": text("The name you go by; recorded as a claim"),
                    "apply": flag("Keep what the preview showed, without running the command"),
                    "notes": text("A word for the record"),
                }),
                &["id"],
            )
        },
    },
    Tool {
        name: "sandbox_queue_reject",
        title: "Reject a command",
        description: "Say no to a queued command.",
        policy: None,
        role: Role::Operator,
        kind: Kind::Changes,
        input: || {
            object(
                json!({
                    "id": text("The request"),
                    "rejected_by": text("The name you go by; recorded as a claim"),
                    "reason": text("Why; the requester reads it"),
                }),
                &["id"],
            )
        },
    },
    Tool {
        name: "sandbox_audit_log",
        title: "Read the log",
        description: "Commands and what became of them, the newest last.",
        policy: None,
        role: Role::Agent,
        kind: Kind::Looks,
        input: || {
            let risk = json!({
                "type": "string",
                "enum": ["safe", "normal", "dangerous", "critical", "disallowed"],
                "description": "Only this risk",
            });
            object(
                json!({
                    "limit": number("At most so many; default 50"),
                    "risk_level": risk,
                    "since": text("Not before: a date such as 2026-02-01, or an age such as 7d"),
                    "command_pattern": text("Only commands that match, * and ? as in file names"),
                }),
                &[],
            )
        },
    },
    Tool {
        name: "sandbox_audit_stats",
        title: "Count commands",
        description: "How many commands there were, by risk, decision, agent and day.",
        policy: None,
        role: Role::Agent,
        kind: Kind::Looks,
        input: || object(json!({ "period": text("1d, 7d, 30d, … or all") }), &[]),
    },
    Tool {
        name: "sandbox_allowlist_add",
        title: "Allow a pattern",
        description: "Put a pattern on the allow list: what it matches runs without being asked \
                      about.",
        policy: None,
        role: Role::Operator,
        kind: Kind::Changes,
        input: || {
            object(
                json!({
                    "pattern": text("Words, * for anything"),
                    "description": text("Why"),
                    "auto_approve": {
                        "type": "boolean",
                        "default": true,
                        "description": "Without it the pattern is noted and still asked about",
                    },
                }),
                &["pattern"],
            )
        },
    },
    Tool {
        name: "sandbox_allowlist_remove",
        title: "No longer allow a pattern",
        description: "Take a pattern off the allow list.",
        policy: None,
        role: Role::Operator,
        kind: Kind::Changes,
        input: || object(json!({ "pattern": text("As it was added") }), &["pattern"]),
    },
    Tool {
        name: "sandbox_allowlist_test",
        title: "Test the allow list",
        description: "Say which patterns of the allow list a command matches.",
        policy: None,
        role: Role::Agent,
        kind: Kind::Looks,
        input: || object(json!({ "command": text("The shell line") }), &["command"]),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use sjail_policy::config;

    fn names(role: Role, tools: &[&str], denied: &[&str]) -> Vec<&'static str> {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let policy = Policy {
            tools: own(tools),
            denied: own(denied),
            ..Policy::default()
        };
        let offered = offered(role, &policy);
        offered.iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn answering_is_for_the_operator_alone() {
        let all = ["read", "write", "edit", "exec"];
        let agent = names(Role::Agent, &all, &[]);
        assert_eq!(agent.len(), 10);
        for name in [
            "sandbox_queue_approve",
            "sandbox_queue_reject",
            "sandbox_allowlist_add",
            "sandbox_allowlist_remove",
        ] {
            assert!(!agent.contains(&name));
        }
        assert_eq!(names(Role::Operator, &all, &[]).len(), TOOLS.len());
    }

    #[test]
    fn explain_says_what_is_registered() {
        for (tools, denied) in [
            (&["read", "write", "edit", "exec"][..], &[][..]),
            (&["exec"], &["sandbox_audit_log"]),
            (&[], &[]),
        ] {
            let said = config::registered_tools(tools, |name| denied.contains(&name));
            assert_eq!(names(Role::Agent, tools, denied), said);
        }
        assert!(TOOLS.iter().all(|tool| config::is_own_tool(tool.name)));
    }

    #[test]
    fn what_the_policy_takes_away_is_not_there() {
        let left = names(Role::Agent, &["read"], &["sandbox_audit_log"]);
        for name in ["sandbox_exec", "run_code", "write", "sandbox_audit_log"] {
            assert!(!left.contains(&name), "{name}");
        }
        assert!(left.contains(&"read") && left.contains(&"sandbox_check"));
    }
}
