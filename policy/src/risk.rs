//! How much harm a command can do if it runs.

use serde::{Deserialize, Serialize};

/// The risk of a command, from harmless to forbidden; the order is the strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// Only reads, only informs.
    Safe,
    /// A common change: builds, installs, edits inside the workspace.
    Normal,
    /// Destroys or changes the system: a person is asked.
    Dangerous,
    /// Code from the network into a shell, a reverse shell, a wiped disk or home.
    Critical,
    /// On the owner's deny list.
    Disallowed,
}

impl Risk {
    /// The name used in output, in policy files and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Risk::Safe => "safe",
            Risk::Normal => "normal",
            Risk::Dangerous => "dangerous",
            Risk::Critical => "critical",
            Risk::Disallowed => "disallowed",
        }
    }
}

impl std::fmt::Display for Risk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
