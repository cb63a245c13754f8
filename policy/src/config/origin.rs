//! Where a value came from.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::show::inert;

/// Where a value came from: every effective value carries one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The built-in profile of that name.
    Profile(&'static str),
    /// A line of a policy file.
    File {
        /// Which layer the file is.
        layer: Layer,
        /// The file's path, inert.
        path: Arc<str>,
        /// The line, from 1.
        line: usize,
    },
    /// An option on the command line.
    CommandLine(&'static str),
}

/// The layers of policy files, each over the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// `/etc/sjail/policy.toml`: the machine's owner.
    System,
    /// `~/.config/sjail/policy.toml`: the user.
    User,
    /// `sjail.toml` or its like in the workspace: whoever wrote the project.
    Workspace,
}

impl Layer {
    /// What messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Layer::System => "system",
            Layer::User => "user",
            Layer::Workspace => "workspace",
        }
    }
}

impl Origin {
    /// A line of a file.
    pub fn line(layer: Layer, path: &Arc<str>, line: usize) -> Self {
        Origin::File {
            layer,
            path: Arc::clone(path),
            line,
        }
    }

    /// The file it came from, if it is one.
    pub fn file(&self) -> Option<&str> {
        match self {
            Origin::File { path, .. } => Some(path),
            Origin::Profile(_) | Origin::CommandLine(_) => None,
        }
    }

    /// Whether both came from the same file.
    pub fn same_file(&self, other: &Origin) -> bool {
        match (self, other) {
            (Origin::File { path: a, .. }, Origin::File { path: b, .. }) => a == b,
            (a, b) => a == b,
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Profile(name) => write!(f, "profile {name}"),
            Origin::File { path, line, .. } => write!(f, "{path}:{line}"),
            Origin::CommandLine(flag) => write!(f, "{flag}"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Origin::Profile(name) => map.serialize_entry("profile", name)?,
            Origin::File { layer, path, line } => {
                map.serialize_entry("layer", layer)?;
                map.serialize_entry("file", path.as_ref())?;
                map.serialize_entry("line", line)?;
            }
            Origin::CommandLine(flag) => map.serialize_entry("option", flag)?,
        }
        map.end()
    }
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
}

impl<T> Sourced<T> {
    /// A value with its origin.
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }
}

/// A path made fit for messages, shared by all values of a file.
pub fn shown_path(path: &[u8]) -> Arc<str> {
    Arc::from(inert(path))
}
