//! What is kept of a request beside its status: what was asked for, by whom, and in what words.

use serde::{Deserialize, Serialize};
use sjail_policy::bytes::ByteString;
use sjail_policy::need::Need;
use sjail_policy::risk::Risk;
use sjail_policy::wire::control::Proposal;
use sjail_policy::wire::request::{Apply, Binding, Place, Typed};

use crate::process::ProcessId;

/// What is kept of a request beside its status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    /// The command as one line.
    pub command: String,
    /// As it was typed.
    pub typed: Typed,
    /// The program and its arguments.
    pub argv: Vec<ByteString>,
    /// Line and arguments without secrets: what the log gets, and what is left of
    /// them once the request is over.
    pub redacted: Redacted,
    /// Where it would start.
    pub cwd: ByteString,
    /// The workspace.
    pub workspace: ByteString,
    /// The options of the command line that change policy.
    pub options: Vec<ByteString>,
    /// The risk.
    pub risk: Risk,
    /// Why.
    pub reasons: Vec<String>,
    /// The rule that asks.
    pub rule: String,
    /// What it needs beyond the jail.
    pub needs: Vec<String>,
    /// The part of it that no option names.
    #[serde(default)]
    pub access: Vec<Need>,
    /// What differs from an earlier approval.
    pub changed: Vec<String>,
    /// The account.
    pub user: String,
    /// The agent, a claim.
    pub agent: Option<String>,
    /// The session, a claim.
    pub session: Option<String>,
    /// The process that asked, as the kernel saw it.
    pub peer: serde_json::Value,
    /// The process that asked.
    pub requester: Option<ProcessId>,
    /// Everything that acts for whoever asked.
    pub circle: Vec<ProcessId>,
    /// Whether the requester may answer at its own terminal.
    pub inline: bool,
    /// Where it would run.
    pub place: Place,
    /// What an approval ties itself to.
    pub binding: Binding,
    /// The pattern that "always" would allow.
    pub always: Option<Proposal>,
    /// What is asked for.
    #[serde(default)]
    pub subject: Subject,
    /// Asked for inside a jail, to run outside: who holds that jail and runs it.
    #[serde(default)]
    pub holder: Option<ProcessId>,
    /// What a preview found, as the requester tells it.
    #[serde(default)]
    pub evidence: Option<serde_json::Value>,
    /// The preview that is to be kept; nothing is to run.
    #[serde(default)]
    pub commit: Option<String>,
    /// Whoever said yes wants this kept as it was shown.
    #[serde(default)]
    pub apply: Option<Apply>,
    /// The command that tells the owner when a preview has shown what there is to see.
    #[serde(default)]
    pub on_ask: Vec<String>,
}

impl Body {
    /// What a preview showed, in one sentence.
    pub fn shown(&self) -> Option<&str> {
        self.evidence.as_ref()?["summary"].as_str()
    }

    /// Whether this is the question of `before` again. The same command in the same place is
    /// not enough: it comes under the same names, with the same options, for the same
    /// purpose, and out of a jail only from the processes that asked.
    pub(super) fn comes_back_for(&self, before: &Body) -> bool {
        let is_jailed = |body: &Body| body.peer["jailed"] != false;
        let same_jail =
            is_jailed(self) && self.circle.iter().any(|own| before.circle.contains(own));
        self.typed == before.typed
            && self.cwd == before.cwd
            && self.workspace == before.workspace
            && self.options == before.options
            && self.agent == before.agent
            && self.session == before.session
            && self.subject == before.subject
            && self.commit == before.commit
            && self.place == before.place
            && self.holder == before.holder
            && is_jailed(self) == is_jailed(before)
            && (!is_jailed(self) || same_jail)
    }

    /// The preview that was shown, if it can be kept.
    pub fn kept(&self) -> Option<Apply> {
        let evidence = self.evidence.as_ref()?;
        Some(Apply {
            preview: evidence["preview"].as_str()?.to_owned(),
            digest: evidence["digest"].as_str()?.to_owned(),
        })
    }
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// To run a command.
    #[default]
    Command,
    /// To let a command that runs reach a host.
    Host {
        /// The run.
        run: String,
        /// The package manager that it is, where that needs a registry: always means for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
    },
}

/// A command without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redacted {
    /// As one line.
    pub command: String,
    /// The program and its arguments.
    pub argv: Vec<ByteString>,
}
