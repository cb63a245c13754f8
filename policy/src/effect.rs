//! What a simple command does to the world, each with the place in the line it comes from.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::risk::Risk;

/// A half-open range of byte offsets into the classified line.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

impl Span {
    /// The span from `start` up to, not including, `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Span { start, end }
    }
}

/// One effect of one simple command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// What happens.
    #[serde(flatten)]
    pub action: Action,
    /// How much harm this effect alone can do.
    pub risk: Risk,
    /// The short phrase people read; empty when there is nothing to say.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Cow<'static, str>,
    /// Where in the line it is written.
    pub span: Span,
}

/// What an effect does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum Action {
    /// Reads a file.
    Reads(Target),
    /// Creates or changes a file.
    Writes(Target),
    /// Removes a file, or a whole tree.
    Deletes {
        /// What is removed.
        target: Target,
        /// True for a whole tree.
        recursive: bool,
    },
    /// Starts a program that the line does not show in full: a script, a make target, a hook.
    Runs {
        /// Its name or path.
        program: String,
    },
    /// Talks to another machine.
    Network {
        /// The host, where the line names it.
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// Gains or hands out rights: another user, capabilities, set-user-id.
    Privilege,
    /// Leaves something that runs later by itself.
    Persistence,
    /// Changes the system beyond the workspace: services, packages, kernel, devices.
    SystemChange,
    /// Fetches somebody else's code, which will run here: a link of the supply chain.
    Installs {
        /// The package, as typed.
        package: String,
        /// Whether the line says exactly which version.
        pinned: bool,
    },
    /// Sends work to where others see it.
    Publishes,
    /// Ends other processes.
    Kills,
    /// Throws work away that is kept nowhere else.
    Discards,
    /// Nobody can tell what this part does.
    Opaque,
    /// Notable without fitting another kind.
    Notes,
}

/// A path that a command touches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// As the line has it, expansions kept.
    pub typed: String,
    /// Absolute and normalised, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// The same with the shell's wildcards in it, where those say which.
    #[serde(skip)]
    pub searched: Option<String>,
    /// What kind of place it is.
    pub place: Place,
}

impl Target {
    /// Where the line looks for it: one path, or what the shell makes of wildcards.
    pub fn sought(&self) -> Option<&str> {
        self.resolved.as_deref().or(self.searched.as_deref())
    }
}

/// What kind of place a path points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The root of the file system, or all of it (`/`, `/*`).
    Root,
    /// A home folder itself, or all of it (`~`, `/home/*`).
    HomeItself,
    /// The workspace itself, or all of it.
    WorkspaceItself,
    /// Inside the workspace.
    Workspace,
    /// Inside the workspace, a name that runs code on the host later (`.git/hooks`, `.vscode`).
    Protected,
    /// A folder for temporary files.
    Temp,
    /// A file that is read at login, by a scheduler or by a service manager.
    Startup,
    /// A folder of the user's own where commands are looked for.
    Programs,
    /// Keys, passwords, tokens.
    Secret,
    /// Programs, libraries and settings of the system.
    System,
    /// A top folder of the system itself (`/etc`, `/usr`).
    SystemItself,
    /// A disk, memory, or another raw device.
    Device,
    /// A harmless device (`/dev/null`, a terminal, a descriptor).
    Sink,
    /// Elsewhere in the user's home.
    Home,
    /// Somewhere else.
    Elsewhere,
    /// Not known before it runs.
    Unknown,
}
