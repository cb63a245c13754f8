//! How much harm touching a path does: the same act is ordinary in the workspace and grave
//! elsewhere.

use super::draft::Draft;
use super::given::Given;
use crate::effect::{Action, Place, Target};
use crate::risk::Risk;

/// What is done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
    /// A folder or an empty file.
    Make,
    Append,
    Delete,
    DeleteTree,
    /// A tree that was only ever temporary.
    DeleteScratch,
    Move,
    Attributes,
    AttributesTree,
}

/// Adds the effect of touching a path, and what follows from where it points.
pub(crate) fn touch(draft: &mut Draft, touch: Touch, given: &Given, target: Target) {
    let place = target.place;
    let (risk, says) = match touch {
        Touch::Read if is_key_folder(&target) => (Risk::Dangerous, "Reads keys or passwords"),
        Touch::Move if is_key_folder(&target) => (Risk::Dangerous, "Moves keys or passwords"),
        _ => judge(touch, place, given),
    };
    let action = match touch {
        Touch::Read => Action::Reads(target),
        Touch::Write | Touch::Make | Touch::Append | Touch::Attributes | Touch::AttributesTree => {
            Action::Writes(target)
        }
        Touch::Delete | Touch::Move => Action::Deletes {
            target,
            recursive: false,
        },
        Touch::DeleteTree | Touch::DeleteScratch => Action::Deletes {
            target,
            recursive: true,
        },
    };
    let recursive = touch == Touch::DeleteTree;
    let phrase = if recursive && risk == Risk::Dangerous && !grave_on_its_own(place) {
        "Recursive deletion"
    } else {
        says
    };
    draft.effect(action, risk, phrase, given.span);
    if recursive && risk == Risk::Critical {
        draft.effect(
            Action::Notes,
            Risk::Dangerous,
            "Recursive deletion",
            given.span,
        );
    }
    if recursive && given.glob {
        draft.effect(
            Action::Notes,
            Risk::Dangerous,
            "Wildcard pattern",
            given.span,
        );
    }
    if recursive && !given.exact && !given.glob && place == Place::Unknown {
        draft.effect(
            Action::Notes,
            Risk::Dangerous,
            "Path is only known when it runs",
            given.span,
        );
    }
}

/// Adds that keys are read, if that is what the path leads to.
pub(crate) fn touch_secret(draft: &mut Draft, given: &Given, target: Target) {
    let secret = target.place == Place::Secret && !given.text.ends_with(".pub");
    if secret || is_key_folder(&target) {
        touch(draft, Touch::Read, given, target);
    }
}

/// A folder that holds nothing but keys, or all of it.
fn is_key_folder(target: &Target) -> bool {
    let path = target.resolved.as_deref().unwrap_or(&target.typed);
    let path = path.trim_end_matches('*').trim_end_matches('/');
    let last = path.rsplit('/').next().unwrap_or_default();
    matches!(last, ".ssh" | ".gnupg" | ".aws" | ".password-store")
}

fn grave_on_its_own(place: Place) -> bool {
    matches!(
        place,
        Place::System | Place::Secret | Place::Startup | Place::WorkspaceItself | Place::Protected
    )
}

fn judge(touch: Touch, place: Place, given: &Given) -> (Risk, &'static str) {
    match touch {
        Touch::Read => read(place, given),
        Touch::Make if place == Place::Programs => write(Place::Home),
        Touch::Write | Touch::Make | Touch::Append => write(place),
        Touch::Delete => delete(place, given),
        Touch::DeleteTree => delete_tree(place),
        Touch::DeleteScratch => (Risk::Normal, ""),
        Touch::Move => moved(place),
        Touch::Attributes => attributes(place),
        Touch::AttributesTree => attributes_tree(place),
    }
}

fn read(place: Place, given: &Given) -> (Risk, &'static str) {
    match place {
        Place::Secret if !given.text.ends_with(".pub") => {
            (Risk::Dangerous, "Reads keys or passwords")
        }
        Place::Device => (Risk::Dangerous, "Reads a raw device"),
        _ => (Risk::Safe, ""),
    }
}

fn write(place: Place) -> (Risk, &'static str) {
    match place {
        Place::Device => (Risk::Critical, "Overwrites a raw device"),
        Place::Startup => (Risk::Dangerous, "Changes a start-up file"),
        Place::Programs => (
            Risk::Dangerous,
            "Puts a program where commands are looked for",
        ),
        Place::Secret => (Risk::Dangerous, "Changes keys or passwords"),
        Place::System | Place::SystemItself | Place::Root => {
            (Risk::Dangerous, "Changes system files")
        }
        Place::Protected => (Risk::Dangerous, "Changes a file that runs code later"),
        Place::Home | Place::HomeItself | Place::Elsewhere => {
            (Risk::Normal, "Writes outside the workspace")
        }
        Place::Sink => (Risk::Safe, ""),
        Place::Workspace | Place::WorkspaceItself | Place::Temp | Place::Unknown => {
            (Risk::Normal, "")
        }
    }
}

fn delete(place: Place, given: &Given) -> (Risk, &'static str) {
    match place {
        Place::Root => (Risk::Critical, "Deletes the whole file system"),
        Place::Device => (Risk::Dangerous, "Deletes a device"),
        Place::Startup => (Risk::Dangerous, "Deletes a start-up file"),
        Place::Secret => (Risk::Dangerous, "Deletes keys or passwords"),
        Place::System | Place::SystemItself => (Risk::Dangerous, "Deletes system files"),
        Place::HomeItself if given.glob => (Risk::Dangerous, "Deletes files of the home folder"),
        Place::WorkspaceItself if given.glob => {
            (Risk::Dangerous, "Deletes all files of the workspace")
        }
        Place::Protected => (Risk::Dangerous, "Deletes a file that runs code later"),
        _ => (Risk::Normal, ""),
    }
}

fn delete_tree(place: Place) -> (Risk, &'static str) {
    match place {
        Place::Root => (Risk::Critical, "Deletes the whole file system"),
        Place::HomeItself => (Risk::Critical, "Deletes a home folder"),
        Place::SystemItself => (Risk::Critical, "Deletes a system folder"),
        Place::Device => (Risk::Critical, "Deletes devices"),
        Place::System => (Risk::Dangerous, "Deletes system files"),
        Place::Startup => (Risk::Dangerous, "Deletes start-up files"),
        Place::Secret => (Risk::Dangerous, "Deletes keys or passwords"),
        Place::WorkspaceItself => (Risk::Dangerous, "Deletes the whole workspace"),
        Place::Protected => (Risk::Dangerous, "Deletes files that run code later"),
        _ => (Risk::Dangerous, "Recursive deletion"),
    }
}

fn moved(place: Place) -> (Risk, &'static str) {
    match place {
        Place::Root | Place::SystemItself => (Risk::Critical, "Moves a system folder away"),
        Place::HomeItself => (Risk::Dangerous, "Moves a home folder away"),
        Place::WorkspaceItself => (Risk::Normal, ""),
        _ => match delete_one(place) {
            (Risk::Normal, _) => (Risk::Normal, ""),
            grave => grave,
        },
    }
}

fn delete_one(place: Place) -> (Risk, &'static str) {
    match place {
        Place::Startup => (Risk::Dangerous, "Moves a start-up file away"),
        Place::Secret => (Risk::Dangerous, "Moves keys or passwords"),
        Place::System => (Risk::Dangerous, "Moves system files away"),
        Place::Protected => (Risk::Dangerous, "Moves a file that runs code later"),
        _ => (Risk::Normal, ""),
    }
}

fn attributes(place: Place) -> (Risk, &'static str) {
    match place {
        Place::System | Place::SystemItself | Place::Root | Place::Startup | Place::Device => {
            (Risk::Dangerous, "Changes rights of system files")
        }
        _ => (Risk::Normal, ""),
    }
}

fn attributes_tree(place: Place) -> (Risk, &'static str) {
    match place {
        Place::Root | Place::SystemItself => (Risk::Critical, "Changes rights of the whole system"),
        Place::HomeItself => (Risk::Dangerous, "Changes rights of a whole home"),
        _ => attributes(place),
    }
}
