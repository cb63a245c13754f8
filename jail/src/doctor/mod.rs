//! What this machine offers to a jail. Nothing is taken from version numbers or
//! configuration files that could be found out by doing it, in a child that ends at once.

mod namespaces;
mod place;
mod walls;

pub use namespaces::first_refusal;
use serde::Serialize;

/// Everything that was found out.
#[derive(Debug, Serialize)]
pub struct Ledger {
    /// Whether the usual profile can be kept in full.
    pub healthy: bool,
    /// One entry a layer, in the order in which a jail is built.
    pub entries: Vec<Entry>,
}

/// What is known about one layer.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// Its name.
    pub layer: &'static str,
    /// How it stands.
    pub state: State,
    /// By what, or what went wrong.
    pub how: String,
    /// The command or setting that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// How a layer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It was done, and it worked.
    Verified,
    /// It cannot be had, and the usual profile needs it.
    Missing,
    /// Less than could be, and said in each result; the usual profile is kept.
    Limited,
    /// Good to know.
    Noted,
}

impl Entry {
    fn verified(layer: &'static str, how: impl Into<String>) -> Entry {
        Entry {
            layer,
            state: State::Verified,
            how: how.into(),
            fix: None,
        }
    }

    fn missing(layer: &'static str, how: impl Into<String>, fix: impl Into<String>) -> Entry {
        Entry {
            layer,
            state: State::Missing,
            how: how.into(),
            fix: Some(fix.into()),
        }
    }

    fn limited(layer: &'static str, how: impl Into<String>, fix: Option<String>) -> Entry {
        Entry {
            layer,
            state: State::Limited,
            how: how.into(),
            fix,
        }
    }

    fn noted(layer: &'static str, how: impl Into<String>) -> Entry {
        Entry {
            layer,
            state: State::Noted,
            how: how.into(),
            fix: None,
        }
    }
}

/// Tries everything.
pub fn examine() -> Ledger {
    let mut entries = place::machine();
    entries.extend(namespaces::entries());
    entries.extend(walls::entries());
    entries.extend(place::surroundings());
    entries.push(place::whole_run());
    Ledger {
        healthy: entries.iter().all(|entry| entry.state != State::Missing),
        entries,
    }
}
