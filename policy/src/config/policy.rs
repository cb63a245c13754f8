//! The effective policy: every value, and where it came from.

use super::grant::{Bind, GrantPath};
use super::key::{Key, LockPattern};
use super::origin::{Origin, Sourced};
use super::setting::{Group, Level, Mode, OnFailure, Preview, Scope, Setting, ToolProfile};
use super::tools;
use crate::bytes::ByteString;
use crate::duration::Duration;
use crate::host::HostPattern;
use crate::plan::{Access, CacheSource, Memory, NetworkMode, Publish, SshKey, Unnamed, Variable};
use crate::profile::{Entry, Profile};
use crate::rule::{PathPattern, Rule};
use crate::size::{Percent, Size};

/// What holds for a command before it is known which command: the sum of all layers.
///
/// Lists hold what the layers added; the profile's own lists are in [`Policy::profile`].
#[derive(Debug, Clone)]
#[allow(missing_docs)] // each field is the value of the key of its name, see `Key`
pub struct Policy {
    pub profile: Sourced<&'static Profile>,
    pub mode: Sourced<Mode>,
    pub scope: Sourced<Scope>,
    pub workspace: Sourced<Access>,
    pub broker: Sourced<bool>,
    pub allow_degraded: Sourced<bool>,
    pub read: Vec<Sourced<GrantPath>>,
    pub write: Vec<Sourced<GrantPath>>,
    pub deny: Vec<Sourced<PathPattern>>,
    pub binds: Vec<Sourced<Bind>>,
    pub protect: Vec<Sourced<String>>,
    pub network: Sourced<NetworkMode>,
    pub hosts_allow: Vec<Sourced<HostPattern>>,
    pub hosts_deny: Vec<Sourced<HostPattern>>,
    pub hosts_ask: Sourced<bool>,
    pub unnamed: Sourced<Unnamed>,
    pub installs: Sourced<bool>,
    pub groups: Vec<Sourced<Group>>,
    pub publish: Vec<Sourced<Publish>>,
    pub proxy: Sourced<bool>,
    /// Keys of the owner's ssh agent that may sign.
    pub ssh_agent: Vec<Sourced<SshKey>>,
    pub memory: Sourced<Option<Memory>>,
    pub cpu: Sourced<Option<Percent>>,
    pub pids: Sourced<Option<u32>>,
    pub io_read: Sourced<Option<Size>>,
    pub io_write: Sourced<Option<Size>>,
    pub timeout: Sourced<Option<Duration>>,
    pub output: Sourced<Option<Size>>,
    pub tmp: Sourced<Option<Size>>,
    pub pass: Vec<Sourced<ByteString>>,
    pub set: Vec<Sourced<Variable>>,
    pub level: Sourced<Level>,
    pub allow: Vec<Sourced<Rule>>,
    pub ask: Vec<Sourced<Rule>>,
    pub forbid: Vec<Sourced<Rule>>,
    pub auto_approve_safe: Sourced<bool>,
    pub dry_run: Sourced<bool>,
    pub elevated: Sourced<bool>,
    pub elevated_patterns: Vec<Sourced<Rule>>,
    pub elevated_approval: Sourced<bool>,
    pub wait: Sourced<Duration>,
    pub ttl: Sourced<Duration>,
    pub preview: Sourced<Preview>,
    pub queue_limit: Sourced<u32>,
    pub inline: Sourced<bool>,
    pub critical: Sourced<bool>,
    pub on_ask: Sourced<Vec<String>>,
    pub retention: Sourced<Duration>,
    pub audit_output: Sourced<Size>,
    pub on_failure: Sourced<OnFailure>,
    pub tool_profile: Sourced<ToolProfile>,
    pub tools_allow: Vec<Sourced<String>>,
    pub tools_deny: Vec<Sourced<String>>,
    pub locks: Vec<Sourced<LockPattern>>,
}

impl Policy {
    /// What a profile says when no file and no option says more.
    pub fn of_profile(profile: &'static Profile, origin: Origin) -> Self {
        fn of<T>(profile: &Profile, value: T) -> Sourced<T> {
            Sourced::new(value, Origin::Profile(profile.name))
        }
        let p = profile;
        Self {
            profile: Sourced::new(profile, origin),
            mode: of(p, Mode::All),
            scope: of(p, Scope::Run),
            workspace: of(p, p.workspace),
            broker: of(p, true),
            allow_degraded: of(p, false),
            read: Vec::new(),
            write: Vec::new(),
            deny: Vec::new(),
            binds: Vec::new(),
            protect: Vec::new(),
            network: of(p, p.network),
            hosts_allow: Vec::new(),
            hosts_deny: Vec::new(),
            hosts_ask: of(p, false),
            unnamed: of(p, Unnamed::Refuse),
            installs: of(p, p.name != "strict"),
            groups: Vec::new(),
            publish: Vec::new(),
            proxy: of(p, false),
            ssh_agent: Vec::new(),
            memory: of(p, p.memory.map(Memory::OfMachine)),
            cpu: of(p, None),
            pids: of(p, p.pids),
            io_read: of(p, None),
            io_write: of(p, None),
            timeout: of(p, None),
            output: of(p, None),
            tmp: of(p, p.tmp),
            pass: Vec::new(),
            set: Vec::new(),
            level: of(p, Level::Full),
            allow: Vec::new(),
            ask: Vec::new(),
            forbid: Vec::new(),
            auto_approve_safe: of(p, true),
            dry_run: of(p, false),
            elevated: of(p, false),
            elevated_patterns: Vec::new(),
            elevated_approval: of(p, true),
            wait: of(p, Duration::from_secs(10 * 60)),
            ttl: of(p, Duration::from_secs(30 * 60)),
            preview: of(p, Preview::Auto),
            queue_limit: of(p, 1000),
            inline: of(p, true),
            critical: of(p, false),
            on_ask: of(p, Vec::new()),
            retention: of(p, Duration::from_secs(30 * 24 * 60 * 60)),
            audit_output: of(p, Size::from_bytes(64 << 10)),
            on_failure: of(p, OnFailure::Alert),
            tool_profile: of(p, ToolProfile::Full),
            tools_allow: Vec::new(),
            tools_deny: Vec::new(),
            locks: Vec::new(),
        }
    }

    /// Adds the patterns that `sjail allowlist` keeps: they are as good as a line in the
    /// user's own file. Whoever judges, judges with them.
    pub fn allow_kept(&mut self, rules: &[Rule]) {
        for rule in rules {
            self.apply(
                Setting::CommandsAllow(rule.clone()),
                Origin::CommandLine("sjail allowlist"),
            );
        }
    }

    /// Applies one setting: a single value replaces the one before, an element of a list is
    /// added to it.
    pub fn apply(&mut self, setting: Setting, origin: Origin) {
        fn put<T>(slot: &mut Sourced<T>, value: T, origin: Origin) {
            *slot = Sourced::new(value, origin);
        }
        fn add<T: PartialEq>(list: &mut Vec<Sourced<T>>, value: T, origin: Origin) {
            if !list.iter().any(|known| known.value == value) {
                list.push(Sourced::new(value, origin));
            }
        }
        match setting {
            // Chosen before anything is applied, because everything is applied to it.
            Setting::SandboxProfile(_) => {}
            Setting::SandboxMode(value) => put(&mut self.mode, value, origin),
            Setting::SandboxScope(value) => put(&mut self.scope, value, origin),
            Setting::SandboxWorkspace(value) => put(&mut self.workspace, value, origin),
            Setting::SandboxBroker(value) => put(&mut self.broker, value, origin),
            Setting::SandboxAllowDegraded(value) => put(&mut self.allow_degraded, value, origin),
            Setting::FilesystemRead(value) => add(&mut self.read, value, origin),
            Setting::FilesystemWrite(value) => add(&mut self.write, value, origin),
            // Order and file count here, because of `!`.
            Setting::FilesystemDeny(value) => self.deny.push(Sourced::new(value, origin)),
            Setting::FilesystemBind(value) => add(&mut self.binds, value, origin),
            Setting::FilesystemProtect(value) => add(&mut self.protect, value, origin),
            Setting::NetworkMode(value) => put(&mut self.network, value, origin),
            Setting::NetworkAllow(value) => add(&mut self.hosts_allow, value, origin),
            Setting::NetworkDeny(value) => add(&mut self.hosts_deny, value, origin),
            Setting::NetworkAsk(value) => put(&mut self.hosts_ask, value, origin),
            Setting::NetworkUnnamed(value) => put(&mut self.unnamed, value, origin),
            Setting::NetworkInstalls(value) => put(&mut self.installs, value, origin),
            Setting::NetworkGroup(value) => {
                self.groups.retain(|known| known.value.name != value.name);
                self.groups.push(Sourced::new(value, origin));
            }
            Setting::NetworkPublish(value) => add(&mut self.publish, value, origin),
            Setting::NetworkProxy(value) => put(&mut self.proxy, value, origin),
            Setting::NetworkSshAgent(value) => add(&mut self.ssh_agent, value, origin),
            Setting::LimitsMemory(value) => put(&mut self.memory, Some(value), origin),
            Setting::LimitsCpu(value) => put(&mut self.cpu, Some(value), origin),
            Setting::LimitsPids(value) => put(&mut self.pids, Some(value), origin),
            Setting::LimitsIoRead(value) => put(&mut self.io_read, Some(value), origin),
            Setting::LimitsIoWrite(value) => put(&mut self.io_write, Some(value), origin),
            Setting::LimitsTimeout(value) => put(&mut self.timeout, Some(value), origin),
            Setting::LimitsOutput(value) => put(&mut self.output, Some(value), origin),
            Setting::LimitsTmp(value) => put(&mut self.tmp, Some(value), origin),
            Setting::EnvironmentPass(value) => add(&mut self.pass, value, origin),
            Setting::EnvironmentSet(value) => {
                self.set.retain(|known| known.value.name != value.name);
                self.set.push(Sourced::new(value, origin));
            }
            Setting::CommandsLevel(value) => put(&mut self.level, value, origin),
            Setting::CommandsAllow(value) => add(&mut self.allow, value, origin),
            Setting::CommandsAsk(value) => add(&mut self.ask, value, origin),
            Setting::CommandsDeny(value) => add(&mut self.forbid, value, origin),
            Setting::CommandsAutoApproveSafe(value) => {
                put(&mut self.auto_approve_safe, value, origin)
            }
            Setting::CommandsDryRun(value) => put(&mut self.dry_run, value, origin),
            Setting::ElevatedEnabled(value) => put(&mut self.elevated, value, origin),
            Setting::ElevatedPattern(value) => add(&mut self.elevated_patterns, value, origin),
            Setting::ElevatedRequireApproval(value) => {
                put(&mut self.elevated_approval, value, origin)
            }
            Setting::ApprovalWait(value) => put(&mut self.wait, value, origin),
            Setting::ApprovalTtl(value) => put(&mut self.ttl, value, origin),
            Setting::ApprovalPreview(value) => put(&mut self.preview, value, origin),
            Setting::ApprovalQueueLimit(value) => put(&mut self.queue_limit, value, origin),
            Setting::ApprovalInline(value) => put(&mut self.inline, value, origin),
            Setting::ApprovalCritical(value) => put(&mut self.critical, value, origin),
            Setting::ApprovalOnAsk(value) => put(&mut self.on_ask, value, origin),
            Setting::AuditRetention(value) => put(&mut self.retention, value, origin),
            Setting::AuditOutput(value) => put(&mut self.audit_output, value, origin),
            Setting::AuditOnFailure(value) => put(&mut self.on_failure, value, origin),
            Setting::ToolsProfile(value) => put(&mut self.tool_profile, value, origin),
            Setting::ToolsAllow(value) => add(&mut self.tools_allow, value, origin),
            Setting::ToolsDeny(value) => add(&mut self.tools_deny, value, origin),
            Setting::Lock(value) => add(&mut self.locks, value, origin),
        }
    }

    /// Whether this policy permits more than another in what one key says. Where it cannot
    /// be told which of two values permits more, a different one counts as more.
    pub fn is_looser(&self, than: &Policy, key: Key, machine_memory: Option<u64>) -> bool {
        let (new, old) = (self, than);
        match key {
            Key::SandboxMode => new.mode.value < old.mode.value,
            Key::SandboxScope => new.scope.value < old.scope.value,
            Key::SandboxWorkspace => new.workspace.value > old.workspace.value,
            Key::SandboxProfile => {
                new.profile.value.name != old.profile.value.name
                    && new.profile.value.name != STRICTEST
            }
            Key::SandboxBroker => !new.broker.value && old.broker.value,
            Key::SandboxAllowDegraded => new.allow_degraded.value && !old.allow_degraded.value,
            Key::FilesystemRead => {
                grew(&new.read, &old.read) || shows_more(new.profile.value, old.profile.value)
            }
            Key::FilesystemWrite => {
                grew(&new.write, &old.write) || knows_agents(new.profile.value, old.profile.value)
            }
            Key::FilesystemDeny => {
                shrank(&new.deny, &old.deny)
                    || has_more(old.profile.value.hide, new.profile.value.hide)
            }
            Key::FilesystemBinds => grew(&new.binds, &old.binds),
            Key::FilesystemProtect => {
                shrank(&new.protect, &old.protect)
                    || has_more(old.profile.value.protect, new.profile.value.protect)
            }
            Key::NetworkMode => new.network.value > old.network.value,
            Key::NetworkAllow => {
                knows_agents(new.profile.value, old.profile.value)
                    || new.hosts_allow.iter().any(|host| {
                        !old.hosts_allow
                            .iter()
                            .any(|known| known.value.covers(&host.value))
                    })
            }
            Key::NetworkDeny => shrank(&new.hosts_deny, &old.hosts_deny),
            // Asking lets a person open what would otherwise be refused.
            Key::NetworkAsk => new.hosts_ask.value && !old.hosts_ask.value,
            Key::NetworkUnnamed => new.unnamed.value > old.unnamed.value,
            Key::NetworkInstalls => new.installs.value && !old.installs.value,
            Key::NetworkGroups => grew(&new.groups, &old.groups),
            Key::NetworkPublish => grew(&new.publish, &old.publish),
            // It leads to the same hosts, but it sets variables.
            Key::NetworkProxy => new.proxy.value && !old.proxy.value,
            Key::NetworkSshAgent => grew(&new.ssh_agent, &old.ssh_agent),
            Key::LimitsMemory => more_memory(new.memory.value, old.memory.value, machine_memory),
            Key::LimitsCpu => more(new.cpu.value, old.cpu.value),
            Key::LimitsPids => more(new.pids.value, old.pids.value),
            Key::LimitsIoRead => more(new.io_read.value, old.io_read.value),
            Key::LimitsIoWrite => more(new.io_write.value, old.io_write.value),
            Key::LimitsTimeout => more(new.timeout.value, old.timeout.value),
            Key::LimitsOutput => more(new.output.value, old.output.value),
            Key::LimitsTmp => more(new.tmp.value, old.tmp.value),
            // By value only: a name said in full goes in even when it looks like a secret, so it
            // is more than the pattern that matches it.
            Key::EnvironmentPass => {
                grew(&new.pass, &old.pass)
                    || knows_agents(new.profile.value, old.profile.value)
                    || has_more(new.profile.value.pass, old.profile.value.pass)
                    || has_more(old.profile.value.drop, new.profile.value.drop)
            }
            Key::EnvironmentSet => differs(&new.set, &old.set),
            Key::CommandsLevel => new.level.value < old.level.value,
            Key::CommandsAllow => grew(&new.allow, &old.allow),
            Key::CommandsAsk => shrank(&new.ask, &old.ask),
            Key::CommandsDeny => shrank(&new.forbid, &old.forbid),
            Key::CommandsAutoApproveSafe => {
                new.auto_approve_safe.value && !old.auto_approve_safe.value
            }
            // A dry run changes nothing, but is not asked about either.
            Key::CommandsDryRun => new.dry_run.value != old.dry_run.value,
            Key::ElevatedEnabled => new.elevated.value && !old.elevated.value,
            Key::ElevatedPatterns => grew(&new.elevated_patterns, &old.elevated_patterns),
            Key::ElevatedRequireApproval => {
                !new.elevated_approval.value && old.elevated_approval.value
            }
            Key::ApprovalWait => new.wait.value != old.wait.value,
            Key::ApprovalTtl => new.ttl.value > old.ttl.value,
            Key::ApprovalPreview => new.preview.value < old.preview.value,
            Key::ApprovalQueueLimit => new.queue_limit.value != old.queue_limit.value,
            Key::ApprovalInline => new.inline.value && !old.inline.value,
            Key::ApprovalCritical => new.critical.value && !old.critical.value,
            Key::ApprovalOnAsk => new.on_ask.value != old.on_ask.value,
            Key::AuditRetention => new.retention.value < old.retention.value,
            Key::AuditOutput => new.audit_output.value < old.audit_output.value,
            Key::AuditOnFailure => new.on_failure.value < old.on_failure.value,
            Key::ToolsProfile | Key::ToolsAllow | Key::ToolsDeny => {
                let known = old.tools();
                new.tools().iter().any(|tool| !known.contains(tool))
            }
            // Locks bind whoever types the command: a project must not bind its reader.
            Key::LockKeys => differs(&new.locks, &old.locks),
        }
    }

    /// The tools that an agent has.
    pub fn tools(&self) -> Vec<&'static str> {
        tools::effective(
            self.tool_profile.value,
            self.tools_allow.iter().map(|name| name.value.as_str()),
            self.tools_deny.iter().map(|name| name.value.as_str()),
        )
    }

    /// Whether a tool is denied by the very name that its agent gives it.
    pub fn denies_tool(&self, name: &str) -> bool {
        let mut denied = self.tools_deny.iter();
        denied.any(|denied| denied.value.eq_ignore_ascii_case(name))
    }

    /// The lock on a key, if there is one.
    pub fn lock_on(&self, key: Key) -> Option<&Origin> {
        self.locks
            .iter()
            .find(|lock| lock.value.locks(key))
            .map(|lock| &lock.origin)
    }
}

/// The profile that gives no more than any other.
const STRICTEST: &str = "strict";

/// Whether a profile shows something of the host that another does not.
fn shows_more(new: &Profile, old: &Profile) -> bool {
    let caches = new.cache_source == CacheSource::HostReadOnly
        && (old.cache_source != CacheSource::HostReadOnly || has_more(new.caches, old.caches));
    caches
        || has_more(new.system, old.system)
        || has_more(new.etc, old.etc)
        || has_more(new.toolchains, old.toolchains)
        || has_more(new.config, old.config)
        || knows_agents(new, old)
}

/// Whether a profile gives agents what is theirs, and another does not.
fn knows_agents(new: &Profile, old: &Profile) -> bool {
    !new.agents.is_empty() && old.agents.is_empty()
}

fn has_more(new: &[Entry], old: &[Entry]) -> bool {
    !std::ptr::eq(new, old)
        && new
            .iter()
            .any(|entry| !old.iter().any(|known| known.value() == entry.value()))
}

fn grew<T: PartialEq>(new: &[Sourced<T>], old: &[Sourced<T>]) -> bool {
    new.iter()
        .any(|item| !old.iter().any(|known| known.value == item.value))
}

fn shrank<T: PartialEq>(new: &[Sourced<T>], old: &[Sourced<T>]) -> bool {
    grew(old, new)
}

fn differs<T: PartialEq>(new: &[Sourced<T>], old: &[Sourced<T>]) -> bool {
    new.len() != old.len() || new.iter().zip(old).any(|(a, b)| a.value != b.value)
}

/// An absent limit is the largest.
fn more<T: PartialOrd>(new: Option<T>, old: Option<T>) -> bool {
    match (new, old) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(new), Some(old)) => new > old,
    }
}

fn more_memory(new: Option<Memory>, old: Option<Memory>, machine: Option<u64>) -> bool {
    match (new, old) {
        (Some(Memory::Bytes(new)), Some(Memory::Bytes(old))) => new > old,
        (Some(Memory::OfMachine(new)), Some(Memory::OfMachine(old))) => new > old,
        (Some(new), Some(old)) => match machine {
            Some(machine) => new.bytes(machine) > old.bytes(machine),
            None => true,
        },
        (new, old) => new.is_none() && old.is_some(),
    }
}

impl Default for Policy {
    fn default() -> Self {
        let profile = Profile::default_profile();
        Self::of_profile(profile, Origin::Profile(profile.name))
    }
}
