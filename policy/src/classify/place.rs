//! What kind of place a path points to.

use std::sync::OnceLock;

use super::context::Context;
use super::given::Given;
use super::state::Cwd;
use crate::command::knowledge::PLACES;
use crate::effect::{Place, Target};

/// Resolves a path argument and says what kind of place it is.
pub(crate) fn target(given: &Given, cwd: &Cwd, context: &Context) -> Target {
    let typed = given.text.clone();
    let sought = given.sought.as_deref();
    let sought = sought.and_then(|sought| absolute(sought, cwd));
    let Some(path) = absolute(&given.text, cwd) else {
        return Target {
            typed,
            resolved: None,
            searched: sought,
            place: Place::Unknown,
        };
    };
    let place = place(&path, given, context);
    let (resolved, searched) = match (given.exact, given.glob) {
        (true, _) => (Some(path), None),
        (false, true) => (None, sought.or(Some(path))),
        (false, false) => (None, sought),
    };
    Target {
        typed,
        resolved,
        searched,
        place,
    }
}

/// The absolute form of a path, [`normal`]; `None` when it hangs on something unknown.
fn absolute(text: &str, cwd: &Cwd) -> Option<String> {
    if text.starts_with('/') {
        return Some(normal(text));
    }
    if text.starts_with('$') || text.is_empty() {
        return None;
    }
    match cwd {
        Cwd::Known(cwd) => Some(joined(&[cwd, text])),
        Cwd::Unknown => None,
    }
}

/// Without empty components, `.` and `..`.
pub(crate) fn normal(path: &str) -> String {
    joined(&[path])
}

/// The components of all these, one after the other, [`normal`].
fn joined(paths: &[&str]) -> String {
    let mut out = String::with_capacity(paths.iter().map(|path| path.len() + 1).sum());
    for part in paths.iter().flat_map(|path| path.split('/')) {
        match part {
            "" | "." => {}
            ".." => out.truncate(out.rfind('/').unwrap_or(0)),
            other => {
                out.push('/');
                out.push_str(other);
            }
        }
    }
    if out.is_empty() {
        out.push('/');
    }
    out
}

fn place(path: &str, given: &Given, context: &Context) -> Place {
    // `dir/*` means all of `dir`, and so does `dir/.[!.]*`.
    // A loop over `dir/*` does to each what it does to one of them.
    let whole = if given.glob || path.ends_with("/*") {
        everything_in(path)
    } else {
        None
    };
    let folder = whole.unwrap_or(path);
    if folder == "/" {
        return Place::Root;
    }
    if folder == context.home && context.home != "/" {
        return Place::HomeItself;
    }
    if folder == context.workspace {
        return Place::WorkspaceItself;
    }
    if whole.is_some() && is_workspace_parent(folder, context) {
        return Place::HomeItself;
    }
    if given.glob && is_top_pattern(path) {
        return Place::SystemItself;
    }
    let inside = inside(path, &context.workspace);
    if let Some(place) = listed(folder, context, inside.is_some()) {
        return place;
    }
    if inside.is_some() {
        return Place::Workspace;
    }
    if self::inside(path, &context.home).is_some() {
        return Place::Home;
    }
    Place::Elsewhere
}

/// Whether a path is, or holds, what must not leave this machine: keys, passwords, a folder
/// of them, a file that by its name keeps them.
pub(crate) fn is_private(target: &Target, context: &Context) -> bool {
    if target.place == Place::Secret {
        return !target.typed.ends_with(".pub");
    }
    if target.place == Place::HomeItself {
        return true;
    }
    let Some(path) = &target.resolved else {
        return false;
    };
    let last = path.rsplit('/').next().unwrap_or_default();
    sounds_private(last) || holds_secrets(path, context)
}

/// Files that keep passwords and keys wherever they lie.
fn sounds_private(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let environment = name == ".env" || name.starts_with(".env.");
    let pattern = ["example", "sample", "template", "dist", "test"]
        .iter()
        .any(|end| name.ends_with(end));
    let ends = [
        ".pem",
        ".key",
        ".p12",
        ".pfx",
        ".jks",
        ".keystore",
        ".kdbx",
        ".ovpn",
        ".ppk",
        ".asc",
    ];
    environment && !pattern
        || ends.iter().any(|end| name.ends_with(end))
        || matches!(
            name.as_str(),
            ".htpasswd"
                | ".netrc"
                | ".npmrc"
                | ".pypirc"
                | "credentials.json"
                | "secrets.json"
                | "secrets.yml"
                | "secrets.yaml"
                | "wp-config.php"
                | "master.key"
        )
}

/// Whether some listed secret lies below a folder.
fn holds_secrets(path: &str, context: &Context) -> bool {
    let below_home = inside(path, &context.home).or_else(|| inside(path, "/root"));
    PLACES
        .iter()
        .filter(|(_, place)| *place == Place::Secret)
        .any(|(pattern, _)| match pattern.strip_prefix("~/") {
            Some(pattern) => {
                below_home.is_some_and(|rest| rest.is_empty() || inside(pattern, rest).is_some())
                    || inside(&context.home, path).is_some()
            }
            None => pattern.starts_with('/') && inside(pattern, path).is_some(),
        })
}

fn everything_in(path: &str) -> Option<&str> {
    let (folder, last) = path.rsplit_once('/')?;
    let all = matches!(
        last,
        "*" | ".*" | ".[!.]*" | ".??*" | "**" | "*.*" | "{*,.*}"
    );
    all.then_some(if folder.is_empty() { "/" } else { folder })
}

/// `/u*`, `/[a-z]*`: a pattern that may stand for a top folder of the system.
fn is_top_pattern(path: &str) -> bool {
    const TOP: &[&str] = &[
        "bin", "boot", "dev", "etc", "home", "lib", "opt", "root", "sbin", "srv", "usr", "var",
    ];
    let name = path.trim_start_matches('/');
    let start = name.split(['*', '?', '[', '{']).next().unwrap_or_default();
    !name.contains('/') && start.len() < name.len() && TOP.iter().any(|top| top.starts_with(start))
}

fn is_workspace_parent(folder: &str, context: &Context) -> bool {
    context
        .home
        .rsplit_once('/')
        .is_some_and(|(parent, _)| parent == folder && !parent.is_empty())
}

/// What is left of `path` below `folder`.
pub(crate) fn inside<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(folder)?;
    if rest.is_empty() || folder == "/" {
        return Some(rest);
    }
    rest.strip_prefix('/')
}

/// The first entry of the table of places that matches. What a project protects is protected in
/// the workspace alone.
fn listed(path: &str, context: &Context, in_workspace: bool) -> Option<Place> {
    let below_home = inside(path, &context.home)
        .or_else(|| path.strip_prefix("/root/"))
        .or_else(|| other_home(path));
    let top = path.trim_start_matches('/');
    let has_dot_name = path.contains("/.");
    let found = entries().iter().find(|entry| match entry.below {
        _ if entry.place == Place::Protected && !in_workspace => false,
        // A workspace below /tmp, /srv or /usr/src is a workspace first.
        _ if in_workspace && is_wide(entry.place) => false,
        Below::Home => below_home.is_some_and(|rest| entry.matches(rest)),
        Below::Root => entry.matches(top),
        Below::Any if entry.first == Some(b'.') && !has_dot_name => false,
        Below::Any => path.contains(entry.start) && anywhere(entry.pattern, path),
    });
    found.map(|entry| entry.place)
}

/// Whether such a place may hold a whole workspace.
fn is_wide(place: Place) -> bool {
    matches!(place, Place::Temp | Place::System | Place::Elsewhere)
}

/// Where a pattern of the table begins.
#[derive(Clone, Copy)]
enum Below {
    Home,
    Root,
    Any,
}

/// An entry of the table of places, taken apart once.
struct Entry {
    below: Below,
    pattern: &'static str,
    /// Its first letter, unless that is a wildcard: most are out by it.
    first: Option<u8>,
    /// What stands before its first `/` or wildcard.
    start: &'static str,
    place: Place,
}

impl Entry {
    fn matches(&self, path: &str) -> bool {
        let possible = self.first.is_none() || self.first == path.as_bytes().first().copied();
        possible && matches(self.pattern, path)
    }
}

fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let taken_apart = PLACES.iter().map(|(pattern, place)| {
            let pattern = pattern.get();
            let (below, pattern) = match (pattern.strip_prefix("~/"), pattern.strip_prefix("**/")) {
                (Some(rest), _) => (Below::Home, rest),
                (_, Some(rest)) => (Below::Any, rest),
                _ => (Below::Root, pattern.trim_start_matches('/')),
            };
            Entry {
                below,
                pattern,
                first: pattern.bytes().next().filter(|first| *first != b'*'),
                start: pattern.split(['/', '*']).next().unwrap_or_default(),
                place: *place,
            }
        });
        taken_apart.collect()
    })
}

/// The part of a path below another user's home.
fn other_home(path: &str) -> Option<&str> {
    let rest = path
        .strip_prefix("/home/")
        .or_else(|| path.strip_prefix("/Users/"))?;
    rest.split_once('/').map(|(_, rest)| rest)
}

fn anywhere(pattern: &str, path: &str) -> bool {
    let mut rest = path;
    loop {
        rest = rest.trim_start_matches('/');
        if matches(pattern, rest) {
            return true;
        }
        match rest.split_once('/') {
            Some((_, next)) => rest = next,
            None => return false,
        }
    }
}

/// Component by component; `*` inside a component, `**` for all the rest.
fn matches(pattern: &str, path: &str) -> bool {
    let mut pattern = pattern.split('/');
    let mut path = path.split('/');
    loop {
        match (pattern.next(), path.next()) {
            (Some("**"), _) => return true,
            (Some(one), Some(two)) => {
                if !component(one, two) {
                    return false;
                }
            }
            (None, None) => return true,
            _ => return false,
        }
    }
}

fn component(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => {
            text.len() >= start.len() + end.len() && text.starts_with(start) && text.ends_with(end)
        }
    }
}
