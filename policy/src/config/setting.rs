//! One thing that a policy file or an option says, in the type that its key asks for.

use super::grant::{Bind, GrantPath};
use super::key::{Key, LockPattern};
use crate::bytes::ByteString;
use crate::duration::Duration;
use crate::host::HostPattern;
use crate::plan::{Access, Memory, NetworkMode, Publish, SshKey, Unnamed, Variable};
use crate::profile::Profile;
use crate::rule::{PathPattern, Rule};
use crate::size::{Percent, Size};

/// One thing said. A list in a file is one setting per element.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // each is the value of the key of its name
pub enum Setting {
    SandboxMode(Mode),
    SandboxScope(Scope),
    SandboxWorkspace(Access),
    SandboxProfile(&'static Profile),
    SandboxBroker(bool),
    SandboxAllowDegraded(bool),
    FilesystemRead(GrantPath),
    FilesystemWrite(GrantPath),
    FilesystemDeny(PathPattern),
    FilesystemBind(Bind),
    FilesystemProtect(String),
    NetworkMode(NetworkMode),
    NetworkAllow(HostPattern),
    NetworkDeny(HostPattern),
    NetworkAsk(bool),
    NetworkUnnamed(Unnamed),
    NetworkInstalls(bool),
    NetworkGroup(Group),
    NetworkPublish(Publish),
    NetworkProxy(bool),
    NetworkSshAgent(SshKey),
    LimitsMemory(Memory),
    LimitsCpu(Percent),
    LimitsPids(u32),
    LimitsIoRead(Size),
    LimitsIoWrite(Size),
    LimitsTimeout(Duration),
    LimitsOutput(Size),
    LimitsTmp(Size),
    EnvironmentPass(ByteString),
    EnvironmentSet(Variable),
    CommandsLevel(Level),
    CommandsAllow(Rule),
    CommandsAsk(Rule),
    CommandsDeny(Rule),
    CommandsAutoApproveSafe(bool),
    CommandsDryRun(bool),
    ElevatedEnabled(bool),
    ElevatedPattern(Rule),
    ElevatedRequireApproval(bool),
    ApprovalWait(Duration),
    ApprovalTtl(Duration),
    ApprovalPreview(Preview),
    ApprovalQueueLimit(u32),
    ApprovalInline(bool),
    ApprovalCritical(bool),
    ApprovalOnAsk(Vec<String>),
    AuditRetention(Duration),
    AuditOutput(Size),
    AuditOnFailure(OnFailure),
    ToolsProfile(ToolProfile),
    ToolsAllow(String),
    ToolsDeny(String),
    Lock(LockPattern),
}

/// Hosts under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What stands behind `@`.
    pub name: String,
    /// Whom it stands for.
    pub hosts: Vec<HostPattern>,
}

impl Group {
    /// A group; its name is made of letters, digits, `-` and `_`.
    pub fn new(name: &str, hosts: Vec<HostPattern>) -> Result<Group, String> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || !name.bytes().all(fits) {
            return Err("the name of a group is made of letters, digits, - and _".to_owned());
        }
        Ok(Group {
            name: name.to_owned(),
            hosts,
        })
    }
}

impl Setting {
    /// The key that it sets.
    pub fn key(&self) -> Key {
        match self {
            Setting::SandboxMode(_) => Key::SandboxMode,
            Setting::SandboxScope(_) => Key::SandboxScope,
            Setting::SandboxWorkspace(_) => Key::SandboxWorkspace,
            Setting::SandboxProfile(_) => Key::SandboxProfile,
            Setting::SandboxBroker(_) => Key::SandboxBroker,
            Setting::SandboxAllowDegraded(_) => Key::SandboxAllowDegraded,
            Setting::FilesystemRead(_) => Key::FilesystemRead,
            Setting::FilesystemWrite(_) => Key::FilesystemWrite,
            Setting::FilesystemDeny(_) => Key::FilesystemDeny,
            Setting::FilesystemBind(_) => Key::FilesystemBinds,
            Setting::FilesystemProtect(_) => Key::FilesystemProtect,
            Setting::NetworkMode(_) => Key::NetworkMode,
            Setting::NetworkAllow(_) => Key::NetworkAllow,
            Setting::NetworkDeny(_) => Key::NetworkDeny,
            Setting::NetworkAsk(_) => Key::NetworkAsk,
            Setting::NetworkUnnamed(_) => Key::NetworkUnnamed,
            Setting::NetworkInstalls(_) => Key::NetworkInstalls,
            Setting::NetworkGroup(_) => Key::NetworkGroups,
            Setting::NetworkPublish(_) => Key::NetworkPublish,
            Setting::NetworkProxy(_) => Key::NetworkProxy,
            Setting::NetworkSshAgent(_) => Key::NetworkSshAgent,
            Setting::LimitsMemory(_) => Key::LimitsMemory,
            Setting::LimitsCpu(_) => Key::LimitsCpu,
            Setting::LimitsPids(_) => Key::LimitsPids,
            Setting::LimitsIoRead(_) => Key::LimitsIoRead,
            Setting::LimitsIoWrite(_) => Key::LimitsIoWrite,
            Setting::LimitsTimeout(_) => Key::LimitsTimeout,
            Setting::LimitsOutput(_) => Key::LimitsOutput,
            Setting::LimitsTmp(_) => Key::LimitsTmp,
            Setting::EnvironmentPass(_) => Key::EnvironmentPass,
            Setting::EnvironmentSet(_) => Key::EnvironmentSet,
            Setting::CommandsLevel(_) => Key::CommandsLevel,
            Setting::CommandsAllow(_) => Key::CommandsAllow,
            Setting::CommandsAsk(_) => Key::CommandsAsk,
            Setting::CommandsDeny(_) => Key::CommandsDeny,
            Setting::CommandsAutoApproveSafe(_) => Key::CommandsAutoApproveSafe,
            Setting::CommandsDryRun(_) => Key::CommandsDryRun,
            Setting::ElevatedEnabled(_) => Key::ElevatedEnabled,
            Setting::ElevatedPattern(_) => Key::ElevatedPatterns,
            Setting::ElevatedRequireApproval(_) => Key::ElevatedRequireApproval,
            Setting::ApprovalWait(_) => Key::ApprovalWait,
            Setting::ApprovalTtl(_) => Key::ApprovalTtl,
            Setting::ApprovalPreview(_) => Key::ApprovalPreview,
            Setting::ApprovalQueueLimit(_) => Key::ApprovalQueueLimit,
            Setting::ApprovalInline(_) => Key::ApprovalInline,
            Setting::ApprovalCritical(_) => Key::ApprovalCritical,
            Setting::ApprovalOnAsk(_) => Key::ApprovalOnAsk,
            Setting::AuditRetention(_) => Key::AuditRetention,
            Setting::AuditOutput(_) => Key::AuditOutput,
            Setting::AuditOnFailure(_) => Key::AuditOnFailure,
            Setting::ToolsProfile(_) => Key::ToolsProfile,
            Setting::ToolsAllow(_) => Key::ToolsAllow,
            Setting::ToolsDeny(_) => Key::ToolsDeny,
            Setting::Lock(_) => Key::LockKeys,
        }
    }
}

/// Declares an enum of words, from the loosest to the strictest.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every word that stands for a value.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word in policy files.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }

            /// The value that a word stands for.
            pub fn named(word: &str) -> Option<Self> {
                match word {
                    $($word => Some($name::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

words! {
    /// Which sessions are jailed; later is stricter.
    Mode {
        /// None.
        Off = "off",
        /// All but those that an operator registered as the main one.
        NonMain = "non-main",
        /// All.
        All = "all",
    }
}

words! {
    /// Who shares a sandbox's own state (home, temporary files, caches); later is stricter.
    Scope {
        /// Every run.
        Shared = "shared",
        /// The runs that name one agent.
        Agent = "agent",
        /// The runs that name one session.
        Session = "session",
        /// Nobody: home and temporary files end with the run; caches are the workspace's.
        Run = "run",
    }
}

words! {
    /// What decides about a command; later is stricter.
    Level {
        /// Its risk: safe and normal run, dangerous asks, critical is blocked.
        Full = "full",
        /// Safe and listed ones run, the rest asks.
        Allowlist = "allowlist",
        /// Listed ones run, the rest is blocked.
        Deny = "deny",
    }
}

words! {
    /// Whether an effect is tried out before somebody is asked; later is stricter.
    Preview {
        /// Not.
        Never = "never",
        /// Where it says something.
        Auto = "auto",
        /// Wherever it can be done.
        Always = "always",
    }
}

words! {
    /// What happens when nothing can be recorded; later is stricter.
    OnFailure {
        /// The command runs, and somebody is told.
        Alert = "alert",
        /// The command does not run.
        Block = "block",
    }
}

words! {
    /// Which tools an agent has to begin with; later is stricter.
    ToolProfile {
        /// All.
        Full = "full",
        /// read, write, edit, exec, browser.
        Coding = "coding",
        /// message, web_search, web_fetch.
        Messaging = "messaging",
        /// web_search only.
        Minimal = "minimal",
    }
}
