//! The words in which a decision is told.

use serde::Serialize;

use crate::config::Origin;
use crate::effect::Span;
use crate::risk::Risk;
use crate::show::inert;

/// What happens to a command; the order is the strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It runs.
    Execute,
    /// A person is asked.
    Ask,
    /// It does not run.
    Block,
}

impl Action {
    /// The word in output.
    pub fn name(self) -> &'static str {
        match self {
            Action::Execute => "execute",
            Action::Ask => "ask",
            Action::Block => "block",
        }
    }

    /// The word that callers of `check` act on.
    pub fn suggested(self) -> &'static str {
        match self {
            Action::Execute => "execute",
            Action::Ask => "queue_for_approval",
            Action::Block => "block",
        }
    }
}

/// Whether the caller wants a person asked whatever the policy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Asking {
    /// As the policy has it.
    #[default]
    Policy,
    /// In any case.
    Always,
}

/// Where a command runs when it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// In the jail.
    Jail,
    /// On the host: an elevated pattern.
    Host,
}

/// What happens to a command, and by which rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What happens.
    pub action: Action,
    /// Where it runs, if it runs.
    pub place: Place,
    /// The risk; `disallowed` where a deny rule speaks.
    pub risk: Risk,
    /// Why it has that risk.
    pub reasons: Vec<String>,
    /// What decided.
    pub rule: DecidedBy,
    /// The parts of the line that the decision is about.
    pub spans: Vec<Span>,
}

/// What decided about a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum DecidedBy {
    /// An entry of a list.
    Rule {
        /// The list: `commands.deny`.
        key: &'static str,
        /// The entry.
        pattern: String,
        /// Where it stands.
        origin: Origin,
    },
    /// The risk itself.
    Risk {
        /// The risk.
        risk: Risk,
    },
    /// A single value: `commands.level`.
    Setting {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// Where it stands.
        origin: Origin,
    },
    /// What was typed: `--require-approval`.
    Option {
        /// The option.
        option: &'static str,
    },
    /// What the jail shows or protects.
    View {
        /// What it is about the path.
        what: String,
    },
}

impl DecidedBy {
    /// Where it stands, if it stands anywhere.
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            DecidedBy::Rule { origin, .. } | DecidedBy::Setting { origin, .. } => Some(origin),
            DecidedBy::Risk { .. } | DecidedBy::Option { .. } | DecidedBy::View { .. } => None,
        }
    }
}

impl std::fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecidedBy::Rule {
                key,
                pattern,
                origin,
            } => {
                write!(f, "{key} `{}` ({origin})", inert(pattern.as_bytes()))
            }
            DecidedBy::Risk { risk } => write!(f, "risk {risk}"),
            DecidedBy::Setting { key, value, origin } => write!(f, "{key} = {value} ({origin})"),
            DecidedBy::Option { option } => f.write_str(option),
            DecidedBy::View { what } => f.write_str(what),
        }
    }
}
