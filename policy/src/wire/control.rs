//! `io.sjail.Control` on the control socket: what only the owner may say. The
//! socket never enters a jail; a jailed peer, or one that descends from the
//! requester, is refused all the same.

use serde::{Deserialize, Serialize};

use crate::bytes::ByteString;
use crate::need::Need;
use crate::risk::Risk;

/// The interface's name.
pub const INTERFACE: &str = "io.sjail.Control";
/// The interface's text.
pub const DESCRIPTION: &str = include_str!("io.sjail.Control.varlink");

/// The requests of one status.
pub const LIST: &str = "io.sjail.Control.List";
/// Everything about one request.
pub const SHOW: &str = "io.sjail.Control.Show";
/// Say yes.
pub const APPROVE: &str = "io.sjail.Control.Approve";
/// Say no.
pub const REJECT: &str = "io.sjail.Control.Reject";
/// Forget answered and lapsed requests of a certain age.
pub const CLEAR: &str = "io.sjail.Control.Clear";
/// One reply per change of the queue, until the caller hangs up.
pub const WATCH: &str = "io.sjail.Control.Watch";
/// The standing permissions.
pub const GRANTS: &str = "io.sjail.Control.Grants";
/// Take a standing permission back.
pub const REVOKE: &str = "io.sjail.Control.Revoke";
/// Put a pattern on the allow list.
pub const ALLOWLIST_ADD: &str = "io.sjail.Control.AllowlistAdd";
/// Take a pattern off the allow list.
pub const ALLOWLIST_REMOVE: &str = "io.sjail.Control.AllowlistRemove";
/// The allow list.
pub const ALLOWLIST_LIST: &str = "io.sjail.Control.AllowlistList";
/// Which patterns of the allow list a command matches.
pub const ALLOWLIST_TEST: &str = "io.sjail.Control.AllowlistTest";
/// Records of the log.
pub const AUDIT_LOG: &str = "io.sjail.Control.AuditLog";
/// Counts over the log.
pub const AUDIT_STATS: &str = "io.sjail.Control.AuditStats";
/// Remove old records.
pub const AUDIT_PRUNE: &str = "io.sjail.Control.AuditPrune";
/// Which policy is in force, and whether a newer one could not be read.
pub const POLICY_STATUS: &str = "io.sjail.Control.PolicyStatus";
/// Register a session as the owner's own (`main`).
pub const REGISTER_SESSION: &str = "io.sjail.Control.RegisterSession";
/// The sessions that an operator registered.
pub const SESSIONS: &str = "io.sjail.Control.Sessions";
/// End the broker once what it was told is on the disk.
pub const STOP: &str = "io.sjail.Control.Stop";

/// No request, grant or pattern has this name.
pub const ERROR_NOT_FOUND: &str = "io.sjail.Control.NotFound";
/// The peer may not say this; the text says why.
pub const ERROR_REFUSED: &str = "io.sjail.Control.Refused";
/// The request is no longer one that can be answered so.
pub const ERROR_WRONG_STATUS: &str = "io.sjail.Control.WrongStatus";
/// The pattern is not one that may be allowed; the text says why.
pub const ERROR_BAD_PATTERN: &str = "io.sjail.Control.BadPattern";

/// How a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestStatus {
    /// Nobody has answered.
    Pending,
    /// Somebody said yes; it has not run yet.
    Approved,
    /// Somebody said no.
    Rejected,
    /// Nobody answered in time, or the approval was not used in time.
    Expired,
    /// It was approved and has run.
    Used,
}

impl RequestStatus {
    /// Every status.
    pub const ALL: [RequestStatus; 5] = [
        RequestStatus::Pending,
        RequestStatus::Approved,
        RequestStatus::Rejected,
        RequestStatus::Expired,
        RequestStatus::Used,
    ];

    /// The name on the wire, in the store and in listings.
    pub fn name(self) -> &'static str {
        match self {
            RequestStatus::Pending => "pending",
            RequestStatus::Approved => "approved",
            RequestStatus::Rejected => "rejected",
            RequestStatus::Expired => "expired",
            RequestStatus::Used => "used",
        }
    }

    /// The status of that name.
    pub fn parse(name: &str) -> Option<RequestStatus> {
        RequestStatus::ALL
            .into_iter()
            .find(|status| status.name() == name)
    }
}

/// One request as a listing shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Its id.
    pub id: String,
    /// How it stands.
    pub status: RequestStatus,
    /// The command as one line.
    pub command: String,
    /// The program and its arguments.
    pub argv: Vec<ByteString>,
    /// Where it would start.
    pub cwd: ByteString,
    /// The risk.
    pub risk: Risk,
    /// Why.
    pub reasons: Vec<String>,
    /// The rule that asks.
    pub rule: String,
    /// What it needs beyond the jail.
    pub needs: Vec<String>,
    /// The part of it that no option of its command line names, for programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access: Vec<Need>,
    /// The account, as the kernel names it.
    pub user: String,
    /// The agent's name, a claim.
    pub agent: Option<String>,
    /// The session's name, a claim unless registered.
    pub session: Option<String>,
    /// Who asks, as the kernel sees the process: pid, program, terminal, jail.
    pub peer: serde_json::Value,
    /// Seconds since 1970 when it was asked.
    pub created: i64,
    /// Seconds since 1970 when it lapses.
    pub expires: i64,
    /// Who answered.
    pub approver: Option<String>,
    /// What they wrote.
    pub note: Option<String>,
    /// The workspace.
    pub workspace: ByteString,
    /// What a preview found, as the requester tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<serde_json::Value>,
    /// What an approval would bind: files with their hashes, variables, policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<super::request::Binding>,
    /// The pattern that "always" would allow, and the widest thing it covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<Proposal>,
}

/// The narrowest useful pattern for a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The pattern; absent where none may be given.
    pub pattern: Option<String>,
    /// The widest thing that it would allow, or why there is none.
    pub widest: String,
}

/// Parameters of [`LIST`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Only these; nothing lists all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RequestStatus>,
    /// At most so many, the newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only requests older than the one with this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// The reply to [`LIST`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// The requests, the newest first.
    pub requests: Vec<Request>,
    /// How many there are in all.
    pub total: u64,
}

/// Parameters of [`SHOW`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ById {
    /// The request, grant or pattern.
    pub id: String,
}

/// The reply to [`SHOW`], [`APPROVE`] and [`REJECT`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The request.
    pub request: Request,
}

/// Parameters of [`APPROVE`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approve {
    /// The request.
    pub id: String,
    /// How far the yes goes; once, if nothing is said.
    #[serde(default)]
    pub extent: Extent,
    /// What the command asks for and does not get: granted paths, hosts, or `network` for
    /// all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<ByteString>,
    /// A word for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// A name that the approver gives: a claim, recorded beside the kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    /// For a critical command: its [`word`], as the approver typed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word: Option<String>,
}

/// What has to be typed to let the critical command of that request run: known to nobody
/// before the question is there.
pub fn word(id: &str) -> &str {
    id.split_once('_').map_or(id, |(_, word)| word)
}

/// How far an approval goes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extent {
    /// The same command again without asking, for so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// The same command again without asking, so many times in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Where the yes holds.
    #[serde(default)]
    pub scope: Scope,
    /// The command does not run again: what its preview showed is kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apply: bool,
}

/// Where a standing permission holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// For this request alone.
    #[default]
    Once,
    /// In the same workspace.
    Workspace,
    /// In the same session.
    Session,
    /// Everywhere and always: the narrowest pattern goes on the allow list.
    Always,
}

/// Parameters of [`REJECT`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reject {
    /// The request.
    pub id: String,
    /// Why; the requester reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A name that the approver gives: a claim, recorded beside the kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
}

/// Parameters of [`CLEAR`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clear {
    /// Only those asked before this time, in seconds since 1970.
    pub before: i64,
}

/// How many things a call has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// So many.
    pub count: u64,
}

/// A standing permission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its id.
    pub id: String,
    /// The request it came from.
    pub request: String,
    /// The command as one line.
    pub command: String,
    /// Where it holds.
    pub scope: Scope,
    /// The workspace or session it holds in.
    pub within: Option<String>,
    /// Seconds since 1970 when it ends.
    pub expires: Option<i64>,
    /// How often it may still be used.
    pub left: Option<u32>,
    /// Who gave it.
    pub approver: String,
    /// Seconds since 1970 when it was given.
    pub created: i64,
}

/// The reply to [`GRANTS`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// Those that still hold.
    pub grants: Vec<Grant>,
}

/// Parameters of [`ALLOWLIST_ADD`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowlistAdd {
    /// The pattern.
    pub pattern: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether what matches runs without being asked about, as it does if nothing is
    /// said; otherwise the pattern is noted and changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_approve: Option<bool>,
}

/// Parameters of [`ALLOWLIST_REMOVE`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowlistRemove {
    /// The pattern.
    pub pattern: String,
}

/// One line of the allow list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed {
    /// The pattern.
    pub pattern: String,
    /// Why.
    pub reason: Option<String>,
    /// Whether what matches runs without being asked about.
    pub auto_approve: bool,
    /// Who added it.
    pub added_by: String,
    /// Seconds since 1970 when.
    pub added: i64,
}

/// The reply to [`ALLOWLIST_LIST`] and [`ALLOWLIST_ADD`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowlist {
    /// The patterns, in the order in which they were added.
    pub patterns: Vec<Allowed>,
}

/// Parameters of [`ALLOWLIST_TEST`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowlistTest {
    /// A shell line.
    pub command: ByteString,
    /// Where it would start; the caller's own folder if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<ByteString>,
    /// Where the caller looks for programs, its `PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<ByteString>,
}

/// The reply to [`ALLOWLIST_TEST`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowlistTested {
    /// Whether a pattern allows it.
    pub allowed: bool,
    /// The patterns that match.
    pub matching: Vec<String>,
    /// Where patterns speak of it and do not allow it: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// Which records are wanted; parameters of [`AUDIT_LOG`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditFilter {
    /// At most so many, the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<u32>,
    /// Only this risk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// Not before, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// Not after, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// Only this account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Only this agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Only commands that match, `*` and `?` as in file names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_pattern: Option<String>,
    /// Only commands that stand so: `executed`, `blocked`, `pending`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Only records about this command or request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Every record instead of one line per command.
    pub events: bool,
}

/// The reply to [`POLICY_STATUS`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// The hash of what is in force for the caller's own folder.
    pub hash: String,
    /// What could not be read and is therefore not in force.
    pub problems: Vec<String>,
}

/// Parameters of [`REGISTER_SESSION`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisterSession {
    /// The session's name.
    pub session: String,
    /// `main`: not jailed under `sandbox.mode = "non-main"`; `none` takes that away.
    pub role: String,
}

/// The reply to [`SESSIONS`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    /// Those that have a role.
    pub sessions: Vec<Registered>,
}

/// A session that an operator registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// Its name.
    pub session: String,
    /// Its role.
    pub role: String,
    /// Who registered it.
    pub by: String,
}
