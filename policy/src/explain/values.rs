//! How the value of each key is written.

use super::{Text, Value};
use crate::config::{Key, Policy, Sourced};
use crate::plan::{Access, Memory, NetworkMode, Unnamed};
use crate::rule::Rule;

/// The one place that says how each key's value is written.
pub(super) fn value(policy: &Policy, key: Key) -> Value {
    let p = policy;
    match key {
        Key::SandboxMode => word(&p.mode, |value| value.name()),
        Key::SandboxScope => word(&p.scope, |value| value.name()),
        Key::SandboxWorkspace => word(&p.workspace, |value| access(*value)),
        Key::SandboxProfile => word(&p.profile, |value| value.name),
        Key::SandboxBroker => flag(&p.broker),
        Key::SandboxAllowDegraded => flag(&p.allow_degraded),
        Key::FilesystemRead => list(&p.read, |path| Text::Word(path.shown())),
        Key::FilesystemWrite => list(&p.write, |path| Text::Word(path.shown())),
        Key::FilesystemDeny => list(&p.deny, |pattern| Text::Word(pattern.text().to_owned())),
        Key::FilesystemBinds => list(&p.binds, |bind| Text::Word(bind.shown())),
        Key::FilesystemProtect => list(&p.protect, |name| Text::Word(name.clone())),
        Key::NetworkMode => word(&p.network, |value| network(*value)),
        Key::NetworkAllow => list(&p.hosts_allow, |host| Text::Word(host.to_string())),
        Key::NetworkDeny => list(&p.hosts_deny, |host| Text::Word(host.to_string())),
        Key::NetworkAsk => flag(&p.hosts_ask),
        Key::NetworkInstalls => flag(&p.installs),
        Key::NetworkGroups => list(&p.groups, |group| {
            let hosts: Vec<String> = group.hosts.iter().map(ToString::to_string).collect();
            Text::Pair(group.name.clone(), hosts.join(" "))
        }),
        Key::NetworkPublish => list(&p.publish, |publish| Text::Word(publish.to_string())),
        Key::NetworkProxy => flag(&p.proxy),
        Key::NetworkSshAgent => list(&p.ssh_agent, |key| Text::Word(key.to_string())),
        Key::NetworkUnnamed => word(&p.unnamed, |value| match value {
            Unnamed::Refuse => "refuse",
            Unnamed::Allow => "allow",
        }),
        Key::LimitsMemory => option(&p.memory, |memory| match memory {
            Memory::Bytes(size) => Text::Word(size.to_string()),
            Memory::OfMachine(share) => Text::Word(share.to_string()),
        }),
        Key::LimitsCpu => option(&p.cpu, |share| Text::Word(share.to_string())),
        Key::LimitsPids => option(&p.pids, |count| Text::Number(u64::from(*count))),
        Key::LimitsIoRead => option(&p.io_read, |size| Text::Word(size.to_string())),
        Key::LimitsIoWrite => option(&p.io_write, |size| Text::Word(size.to_string())),
        Key::LimitsTimeout => option(&p.timeout, |time| Text::Word(time.to_string())),
        Key::LimitsOutput => option(&p.output, |size| Text::Word(size.to_string())),
        Key::LimitsTmp => option(&p.tmp, |size| Text::Word(size.to_string())),
        Key::EnvironmentPass => list(&p.pass, |name| Text::Word(lossy(name.as_bytes()))),
        Key::EnvironmentSet => list(&p.set, |variable| {
            Text::Pair(
                lossy(variable.name.as_bytes()),
                lossy(variable.value.as_bytes()),
            )
        }),
        Key::CommandsLevel => word(&p.level, |value| value.name()),
        Key::CommandsAllow => list(&p.allow, rule),
        Key::CommandsAsk => list(&p.ask, rule),
        Key::CommandsDeny => list(&p.forbid, rule),
        Key::CommandsAutoApproveSafe => flag(&p.auto_approve_safe),
        Key::CommandsDryRun => flag(&p.dry_run),
        Key::ElevatedEnabled => flag(&p.elevated),
        Key::ElevatedPatterns => list(&p.elevated_patterns, rule),
        Key::ElevatedRequireApproval => flag(&p.elevated_approval),
        Key::ApprovalWait => one(&p.wait, |time| Text::Word(time.to_string())),
        Key::ApprovalTtl => one(&p.ttl, |time| Text::Word(time.to_string())),
        Key::ApprovalPreview => word(&p.preview, |value| value.name()),
        Key::ApprovalQueueLimit => one(&p.queue_limit, |count| Text::Number(u64::from(*count))),
        Key::ApprovalInline => flag(&p.inline),
        Key::ApprovalCritical => flag(&p.critical),
        Key::ApprovalOnAsk => one(&p.on_ask, |words| Text::Words(words.clone())),
        Key::AuditRetention => one(&p.retention, |time| Text::Word(time.to_string())),
        Key::AuditOutput => one(&p.audit_output, |size| Text::Word(size.to_string())),
        Key::AuditOnFailure => word(&p.on_failure, |value| value.name()),
        Key::ToolsProfile => word(&p.tool_profile, |value| value.name()),
        Key::ToolsAllow => list(&p.tools_allow, |name| Text::Word(name.clone())),
        Key::ToolsDeny => list(&p.tools_deny, |name| Text::Word(name.clone())),
        Key::LockKeys => list(&p.locks, |lock| Text::Word(lock.shown())),
    }
}

fn one<T>(value: &Sourced<T>, text: impl Fn(&T) -> Text) -> Value {
    Value::One(Sourced::new(Some(text(&value.value)), value.origin.clone()))
}

fn word<T>(value: &Sourced<T>, text: impl Fn(&T) -> &'static str) -> Value {
    one(value, |value| Text::Word(text(value).to_owned()))
}

fn flag(value: &Sourced<bool>) -> Value {
    one(value, |value| Text::Flag(*value))
}

fn option<T>(value: &Sourced<Option<T>>, text: impl Fn(&T) -> Text) -> Value {
    Value::One(Sourced::new(
        value.value.as_ref().map(text),
        value.origin.clone(),
    ))
}

fn list<T>(items: &[Sourced<T>], text: impl Fn(&T) -> Text) -> Value {
    Value::List(
        items
            .iter()
            .map(|item| Sourced::new(text(&item.value), item.origin.clone()))
            .collect(),
    )
}

fn rule(rule: &Rule) -> Text {
    match rule {
        Rule::Command(pattern) if pattern.is_regex() => Text::Regex(pattern.text().to_owned()),
        other => Text::Word(other.text()),
    }
}

fn access(access: Access) -> &'static str {
    match access {
        Access::None => "none",
        Access::Ro => "ro",
        Access::Rw => "rw",
    }
}

fn network(mode: NetworkMode) -> &'static str {
    match mode {
        NetworkMode::None => "none",
        NetworkMode::Filtered => "filtered",
        NetworkMode::Host => "host",
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
