//! The keys of policy files.

/// A key of a policy file: what can be set, locked and explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // each is described in the table below
pub enum Key {
    SandboxMode,
    SandboxScope,
    SandboxWorkspace,
    SandboxProfile,
    SandboxBroker,
    SandboxAllowDegraded,
    FilesystemRead,
    FilesystemWrite,
    FilesystemDeny,
    FilesystemBinds,
    FilesystemProtect,
    NetworkMode,
    NetworkAllow,
    NetworkDeny,
    NetworkAsk,
    NetworkUnnamed,
    NetworkInstalls,
    NetworkGroups,
    NetworkPublish,
    NetworkProxy,
    NetworkSshAgent,
    LimitsMemory,
    LimitsCpu,
    LimitsPids,
    LimitsIoRead,
    LimitsIoWrite,
    LimitsTimeout,
    LimitsOutput,
    LimitsTmp,
    EnvironmentPass,
    EnvironmentSet,
    CommandsLevel,
    CommandsAllow,
    CommandsAsk,
    CommandsDeny,
    CommandsAutoApproveSafe,
    CommandsDryRun,
    ElevatedEnabled,
    ElevatedPatterns,
    ElevatedRequireApproval,
    ApprovalWait,
    ApprovalTtl,
    ApprovalPreview,
    ApprovalQueueLimit,
    ApprovalInline,
    ApprovalCritical,
    ApprovalOnAsk,
    AuditRetention,
    AuditOutput,
    AuditOnFailure,
    ToolsProfile,
    ToolsAllow,
    ToolsDeny,
    LockKeys,
}

/// Each key, its name in files, and what it is for.
const KEYS: &[(Key, &str, &str)] = &[
    (
        Key::SandboxMode,
        "sandbox.mode",
        "which sessions are jailed: off, non-main, all",
    ),
    (
        Key::SandboxScope,
        "sandbox.scope",
        "which runs share a private home, tmp and caches: run (none), session, agent, shared",
    ),
    (
        Key::SandboxWorkspace,
        "sandbox.workspace",
        "what may be done in the workspace: none, ro, rw",
    ),
    (
        Key::SandboxProfile,
        "sandbox.profile",
        "the built-in profile that everything starts from",
    ),
    (
        Key::SandboxBroker,
        "sandbox.broker",
        "whether decisions and records go through the broker",
    ),
    (
        Key::SandboxAllowDegraded,
        "sandbox.allow_degraded",
        "whether to run when a layer cannot be had",
    ),
    (
        Key::FilesystemRead,
        "filesystem.read",
        "paths that can be read",
    ),
    (
        Key::FilesystemWrite,
        "filesystem.write",
        "paths that can be written",
    ),
    (
        Key::FilesystemDeny,
        "filesystem.deny",
        "what is not to be seen, even inside something else",
    ),
    (
        Key::FilesystemBinds,
        "filesystem.binds",
        "paths shown elsewhere: source:destination:ro or rw",
    ),
    (
        Key::FilesystemProtect,
        "filesystem.protect",
        "names in the workspace that stay read-only",
    ),
    (
        Key::NetworkMode,
        "network.mode",
        "how much of the network there is: none, filtered, host",
    ),
    (
        Key::NetworkAllow,
        "network.allow",
        "hosts that can be reached in filtered mode",
    ),
    (
        Key::NetworkDeny,
        "network.deny",
        "hosts that cannot, whatever allow says",
    ),
    (
        Key::NetworkAsk,
        "network.ask",
        "whether a host on neither list is asked about",
    ),
    (
        Key::NetworkUnnamed,
        "network.unnamed",
        "a connection that hides or omits the name it is for (no SNI, ECH): refuse, allow",
    ),
    (
        Key::NetworkInstalls,
        "network.installs",
        "whether a package manager without a network may reach its own registry",
    ),
    (
        Key::NetworkGroups,
        "network.groups",
        "hosts under one name, for --allow-host @NAME",
    ),
    (
        Key::NetworkPublish,
        "network.publish",
        "ports of the jail that are served on the host: 127.0.0.1:8080:3000",
    ),
    (
        Key::NetworkProxy,
        "network.proxy",
        "whether the filtered network has an HTTP and SOCKS5 proxy, and the variables that name it",
    ),
    (
        Key::NetworkSshAgent,
        "network.ssh_agent",
        "keys of your ssh agent that may sign in to allowed hosts on their ssh port: SHA256:…, a comment, or *",
    ),
    (
        Key::LimitsMemory,
        "limits.memory",
        "memory of the whole jail: 2G, or a share of the machine: 75%",
    ),
    (
        Key::LimitsCpu,
        "limits.cpu",
        "processor time; 100% is one processor",
    ),
    (
        Key::LimitsPids,
        "limits.pids",
        "processes and threads at once",
    ),
    (
        Key::LimitsIoRead,
        "limits.io_read",
        "bytes read from disks per second",
    ),
    (
        Key::LimitsIoWrite,
        "limits.io_write",
        "bytes written to disks per second",
    ),
    (
        Key::LimitsTimeout,
        "limits.timeout",
        "wall-clock time until everything is killed",
    ),
    (
        Key::LimitsOutput,
        "limits.output",
        "bytes of output until it is cut",
    ),
    (Key::LimitsTmp, "limits.tmp", "size of the private /tmp"),
    (
        Key::EnvironmentPass,
        "environment.pass",
        "variables that go in; * stands for any characters",
    ),
    (
        Key::EnvironmentSet,
        "environment.set",
        "variables with the values they get",
    ),
    (
        Key::CommandsLevel,
        "commands.level",
        "full: risk decides; allowlist: the rest asks; deny: the rest is blocked",
    ),
    (
        Key::CommandsAllow,
        "commands.allow",
        "commands that run without being asked about",
    ),
    (
        Key::CommandsAsk,
        "commands.ask",
        "commands that a person is asked about",
    ),
    (
        Key::CommandsDeny,
        "commands.deny",
        "commands that never run",
    ),
    (
        Key::CommandsAutoApproveSafe,
        "commands.auto_approve_safe",
        "whether commands that only read run without being asked about",
    ),
    (
        Key::CommandsDryRun,
        "commands.dry_run",
        "whether commands only show what they would do",
    ),
    (
        Key::ElevatedEnabled,
        "elevated.enabled",
        "whether some commands may run outside the jail",
    ),
    (
        Key::ElevatedPatterns,
        "elevated.patterns",
        "commands that may run outside the jail",
    ),
    (
        Key::ElevatedRequireApproval,
        "elevated.require_approval",
        "whether each of them is asked about",
    ),
    (
        Key::ApprovalWait,
        "approval.wait",
        "how long a command waits for an answer",
    ),
    (
        Key::ApprovalTtl,
        "approval.ttl",
        "how long an approval is good for",
    ),
    (
        Key::ApprovalPreview,
        "approval.preview",
        "whether the effect is tried out and shown first: auto, always, never",
    ),
    (
        Key::ApprovalQueueLimit,
        "approval.queue_limit",
        "how many requests may wait",
    ),
    (
        Key::ApprovalInline,
        "approval.inline",
        "whether to ask on the terminal the command was typed on",
    ),
    (
        Key::ApprovalCritical,
        "approval.critical",
        "whether a person may be asked about a critical command, and types a word to let it run",
    ),
    (
        Key::ApprovalOnAsk,
        "approval.on_ask",
        "the program that tells somebody about a request",
    ),
    (
        Key::AuditRetention,
        "audit.retention",
        "how long records are kept",
    ),
    (
        Key::AuditOutput,
        "audit.output",
        "how much of the output is recorded",
    ),
    (
        Key::AuditOnFailure,
        "audit.on_failure",
        "what happens when nothing can be recorded: alert, block",
    ),
    (
        Key::ToolsProfile,
        "tools.profile",
        "which tools an agent has: full, coding, messaging, minimal",
    ),
    (Key::ToolsAllow, "tools.allow", "tools added to the profile"),
    (
        Key::ToolsDeny,
        "tools.deny",
        "tools taken away, whatever else says",
    ),
    (
        Key::LockKeys,
        "lock.keys",
        "keys that nobody further down may loosen",
    ),
];

impl Key {
    /// Every key, in the order in which they are explained.
    pub fn all() -> impl Iterator<Item = Key> {
        KEYS.iter().map(|(key, ..)| *key)
    }

    /// The key's name in files: `network.mode`.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// What it is for, in one line.
    pub fn summary(self) -> &'static str {
        self.entry().2
    }

    /// The table it stands in: `network`.
    pub fn table(self) -> &'static str {
        self.name().split('.').next().unwrap_or_default()
    }

    /// The key of that name.
    pub fn named(name: &str) -> Option<Key> {
        KEYS.iter()
            .find(|(_, known, _)| *known == name)
            .map(|(key, ..)| *key)
    }

    fn entry(self) -> &'static (Key, &'static str, &'static str) {
        // Every variant has its row: a test looks.
        KEYS.iter()
            .find(|(key, ..)| *key == self)
            .unwrap_or(&KEYS[0])
    }
}

/// What a lock is put on: one key, a whole table, or everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockPattern {
    /// `network.mode`
    Key(Key),
    /// `network` or `network.*`
    Table(&'static str),
    /// `*`
    Everything,
}

impl LockPattern {
    /// Reads an entry of `lock.keys`.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(LockPattern::Everything);
        }
        if let Some(key) = Key::named(text) {
            return Some(LockPattern::Key(key));
        }
        let table = text.strip_suffix(".*").unwrap_or(text);
        KEYS.iter()
            .map(|(key, ..)| key.table())
            .find(|known| *known == table)
            .map(LockPattern::Table)
    }

    /// Whether it locks a key.
    pub fn locks(&self, key: Key) -> bool {
        match self {
            LockPattern::Key(own) => *own == key,
            LockPattern::Table(table) => key.table() == *table,
            LockPattern::Everything => true,
        }
    }

    /// As a policy file says it.
    pub fn shown(&self) -> String {
        match self {
            LockPattern::Key(key) => key.name().to_owned(),
            LockPattern::Table(table) => format!("{table}.*"),
            LockPattern::Everything => "*".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_own_row_and_name() {
        let mut keys: Vec<Key> = Key::all().collect();
        assert_eq!(keys.len(), Key::LockKeys as usize + 1);
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), KEYS.len());
        for key in Key::all() {
            assert_eq!(Key::named(key.name()), Some(key));
        }
    }

    #[test]
    fn locks() {
        let locks = |text: &str, key| LockPattern::parse(text).is_some_and(|lock| lock.locks(key));
        assert!(locks("network.mode", Key::NetworkMode));
        assert!(!locks("network.mode", Key::NetworkAllow));
        assert!(locks("network", Key::NetworkAllow));
        assert!(locks("network.*", Key::NetworkAllow));
        assert!(locks("*", Key::AuditOutput));
        assert_eq!(LockPattern::parse("netwrok.mode"), None);
    }
}
