//! Folders that were only ever temporary: what `mktemp` made, and named folders below `$TMPDIR`.

use super::act::Act;
use super::knowledge::Modifiers;
use crate::classify::arguments::UNKNOWN_OUTPUT;
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;
use crate::effect::Place;

/// What `mktemp` prints is the name of something new, which nobody else can have put there.
pub(crate) fn marked(act: &Act<'_, '_>, flow: Flow) -> Flow {
    let makes = act.draft.program.name == "mktemp" && act.draft.program.trusted;
    let other =
        act.state.functions.contains_key("mktemp") || act.state.aliases.contains_key("mktemp");
    // `-u` only makes up a name.
    if !makes || other || act.reading.has("-u") || act.reading.has("--dry-run") {
        return flow;
    }
    Flow::of(Sources::PROGRAM.with(Sources::SCRATCH))
}

/// Whether removing a whole tree here takes nothing away that was meant to stay.
pub(crate) fn is_scratch(act: &Act<'_, '_>, path: &Given) -> bool {
    if path.glob {
        return false;
    }
    if !path.exact {
        // All of it is what `mktemp` printed: with anything behind it, an empty answer would
        // lead elsewhere.
        return path.text == UNKNOWN_OUTPUT && path.from == Sources::PROGRAM.with(Sources::SCRATCH);
    }
    if !is_temporary(act, path) {
        return false;
    }
    let asks_back = matches!(act.draft.program.name.as_str(), "rm" | "grm")
        && !act.reading.modifiers.has(Modifiers::FORCE);
    asks_back || path.from.has(Sources::SCRATCH) && holds_without(act, path)
}

/// A name below a folder for temporary files.
fn is_temporary(act: &Act<'_, '_>, path: &Given) -> bool {
    let target = act.target(path);
    let below = |folder: &str| {
        target
            .resolved
            .as_deref()
            .and_then(|path| path.strip_prefix(folder))
            .is_some_and(|name| !name.is_empty())
    };
    target.place == Place::Temp && (below("/tmp/") || below("/var/tmp/"))
}

/// `$TMPDIR/name` where the variable is empty, or is something else for whoever wrote the line,
/// still leads nowhere that matters.
fn holds_without(act: &Act<'_, '_>, path: &Given) -> bool {
    let Some(tail) = path.text.strip_prefix("/tmp/") else {
        return false;
    };
    let bare = path.part(&format!("/{tail}"));
    let elsewhere = act.call.assignments.iter().any(|assignment| {
        let value = assignment.text.strip_prefix("TMPDIR=");
        value.is_some_and(|value| {
            act.target(&assignment.part(&format!("{value}/x"))).place != Place::Temp
        })
    });
    !elsewhere && act.target(&bare).place == Place::Elsewhere
}
