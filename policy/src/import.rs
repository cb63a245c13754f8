//! Policies of other tools, said again in sjail's own words: a policy file, and notes on
//! what has no meaning here.

mod json5;
mod openclaw;
mod security_config;

pub use json5::Json5Error;

use serde_json::Value;

use crate::config::{self, nearest};

/// A policy file made out of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Which kind of file it was.
    pub kind: &'static str,
    /// The policy file.
    pub toml: String,
    /// What has no meaning here, each a sentence.
    pub notes: Vec<String>,
    /// Slips of the pen in names that hold all others: the name, and a sentence.
    pub slips: Vec<(String, String)>,
}

/// Why a file cannot be taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read.
    #[error(transparent)]
    Json5(#[from] Json5Error),
    /// It is of no kind that is known.
    #[error(
        "this is neither an OpenClaw configuration (`agents`, `tools`) nor a security-config.json (`sandbox`, `permissions`, `allowlist`)"
    )]
    UnknownKind,
    /// A value has the wrong type or is not known.
    #[error("`{key}`: {why}")]
    Value {
        /// Where.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// What it says is not to be had here.
    #[error("{0}")]
    Refused(String),
}

impl From<config::Error> for ImportError {
    /// Without the place: that is one of the file that was made, which nobody has seen.
    fn from(error: config::Error) -> ImportError {
        ImportError::Refused(error.without_place())
    }
}

/// Reads a file and says it again.
pub fn import(text: &str) -> Result<Imported, ImportError> {
    let value = json5::parse(text)?;
    let has = |name: &str| value.get(name).is_some();
    if has("permissions") || has("allowlist") || has("sandbox") {
        security_config::import(&value)
    } else if has("agents") || has("tools") {
        openclaw::import(&value)
    } else {
        Err(ImportError::UnknownKind)
    }
}

/// Reads a file of one kind, wherever its name already says which.
pub(crate) fn security_config(text: &str) -> Result<Imported, ImportError> {
    let imported = import(text)?;
    match imported.kind {
        security_config::KIND => Ok(imported),
        _ => Err(ImportError::UnknownKind),
    }
}

/// What is taken out of a file, key by key; what is left over is noted.
struct Source<'a> {
    value: &'a Value,
    seen: Vec<String>,
}

impl<'a> Source<'a> {
    fn new(value: &'a Value) -> Source<'a> {
        Source {
            value,
            seen: Vec::new(),
        }
    }

    fn at(&mut self, path: &str) -> &'a Value {
        self.seen.push(path.to_owned());
        let mut value = self.value;
        for name in path.split('.') {
            value = value.get(name).unwrap_or(&Value::Null);
        }
        value
    }

    fn word(&mut self, path: &str) -> Result<Option<&'a str>, ImportError> {
        match self.at(path) {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            _ => Err(wrong(path, "must be a text")),
        }
    }

    fn flag(&mut self, path: &str) -> Result<Option<bool>, ImportError> {
        match self.at(path) {
            Value::Null => Ok(None),
            Value::Bool(flag) => Ok(Some(*flag)),
            _ => Err(wrong(path, "must be true or false")),
        }
    }

    fn words(&mut self, path: &str) -> Result<Vec<&'a str>, ImportError> {
        match self.at(path) {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => items
                .iter()
                .map(|item| item.as_str().ok_or_else(|| wrong(path, "must hold texts")))
                .collect(),
            _ => Err(wrong(path, "must be a list")),
        }
    }

    /// Slips of the pen in the names that hold all others.
    fn slips(&self, known: &[&str]) -> Vec<(String, String)> {
        let mut slips = Vec::new();
        for name in self
            .value
            .as_object()
            .into_iter()
            .flat_map(|top| top.keys())
        {
            let meant = nearest(name, known.iter().copied());
            if let (false, Some(meant)) = (known.contains(&name.as_str()), meant) {
                let why = format!("`{name}` is not known, did you mean `{meant}`?");
                slips.push((name.clone(), why));
            }
        }
        slips
    }

    /// A sentence for each key that nobody asked for.
    fn left(&self) -> Vec<String> {
        let mut notes = Vec::new();
        self.walk(self.value, "", &mut notes);
        notes
    }

    fn walk(&self, value: &Value, path: &str, notes: &mut Vec<String>) {
        if self.seen.iter().any(|seen| seen == path) {
            return;
        }
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (name, value) in fields {
                    let path = match path.is_empty() {
                        true => name.clone(),
                        false => format!("{path}.{name}"),
                    };
                    self.walk(value, &path, notes);
                }
            }
            _ if self
                .seen
                .iter()
                .any(|seen| seen.starts_with(&format!("{path}."))) => {}
            _ => notes.push(format!("`{path}` has no meaning here and was left out")),
        }
    }
}

fn wrong(key: &str, why: &str) -> ImportError {
    ImportError::Value {
        key: key.to_owned(),
        why: why.to_owned(),
    }
}

/// A text as a policy file writes it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A list as a policy file writes it.
fn list<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.into_iter().map(quoted).collect();
    format!("[{}]", items.join(", "))
}

/// One of several words.
fn one_of(key: &str, word: &str, known: &[&str]) -> Result<(), ImportError> {
    match known.contains(&word) {
        true => Ok(()),
        false => Err(wrong(
            key,
            &format!("`{word}` is none of {}", known.join(", ")),
        )),
    }
}
