//! What happens to an operation on a path: for tools that read and write files by themselves,
//! outside any jail.
//!
//! The answer is the one the jail would give: what a jailed command could do is done, the rest
//! is asked about, and what is denied is blocked.

use serde::Serialize;

use crate::bytes::ByteString;
use crate::config::{Level, Policy, Sourced};
use crate::decide::{Action, DecidedBy};
use crate::plan::Access;
use crate::profile::Entry;
use crate::protect;
use crate::rule::{Bases, Case, Operation, PathPattern, Rule, Sign};

/// What happens to an operation on a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathDecision {
    /// The path, absolute and without `.` and `..`.
    pub path: ByteString,
    /// What is to be done with it.
    pub operation: Operation,
    /// What happens.
    pub action: Action,
    /// What decided.
    pub rule: DecidedBy,
}

/// Decides about a path. Relative paths and `~` are meant as in a policy file; links are the
/// caller's to resolve: ask about the path as typed and about what it leads to, and heed the
/// stricter answer.
pub fn decide_path(
    policy: &Policy,
    path: &[u8],
    operation: Operation,
    bases: Bases<'_>,
) -> PathDecision {
    let path = absolute(path, bases);
    let (action, rule) = judged(policy, &path, operation, bases);
    PathDecision {
        path: ByteString::from(path),
        operation,
        action,
        rule,
    }
}

/// Decides about a pattern by which a tool looks for files to read: what it could find is denied
/// or asked about. Nothing, if no rule is about that.
pub fn decide_pattern(policy: &Policy, pattern: &[u8], bases: Bases<'_>) -> Option<PathDecision> {
    let path = absolute(pattern, bases);
    let (action, rule) = sought(policy, &path, bases)?;
    Some(PathDecision {
        path: ByteString::from(path),
        operation: Operation::Read,
        action,
        rule,
    })
}

fn sought(policy: &Policy, path: &[u8], bases: Bases<'_>) -> Option<(Action, DecidedBy)> {
    // An exception is for what it names; a pattern may find more.
    let meets = |pattern: &PathPattern| {
        pattern.sign() == Sign::Include && pattern.could_be_sought(path, bases)
    };
    let ruled = |rules: &[Sourced<Rule>], key: &'static str| {
        let mut rules = rules.iter();
        let met = rules.find(|rule| match &rule.value {
            Rule::Path(own) => own.concerns(Operation::Read) && meets(&own.pattern),
            _ => false,
        })?;
        Some(DecidedBy::Rule {
            key,
            pattern: met.value.text(),
            origin: met.origin.clone(),
        })
    };
    if let Some(rule) = ruled(&policy.forbid, "commands.deny") {
        return Some((Action::Block, rule));
    }
    if let Some(pattern) = policy.deny.iter().find(|pattern| meets(&pattern.value)) {
        let rule = DecidedBy::Rule {
            key: "filesystem.deny",
            pattern: pattern.value.text().to_owned(),
            origin: pattern.origin.clone(),
        };
        return Some((Action::Block, rule));
    }
    let mut built_in = policy.profile.value.hide.iter();
    let hides = |entry: &&Entry| PathPattern::parse(entry.value()).is_ok_and(|own| meets(&own));
    if let Some(entry) = built_in.find(hides) {
        let what = format!("hidden: {}", entry.why());
        return Some((Action::Block, DecidedBy::View { what }));
    }
    ruled(&policy.ask, "commands.ask").map(|rule| (Action::Ask, rule))
}

/// What a jail shows of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// It is there, with enough rights.
    Shown,
    /// It is kept away, whoever asks.
    Denied(DecidedBy),
    /// It is not there, because nobody has given it.
    Outside,
}

/// What a jail under this policy shows of an absolute path.
pub fn view(policy: &Policy, path: &[u8], operation: Operation, bases: Bases<'_>) -> View {
    match denied(policy, path, operation, bases) {
        Some(rule) => View::Denied(rule),
        None if granted(policy, path, operation, bases).is_some() => View::Shown,
        None => View::Outside,
    }
}

fn judged(
    policy: &Policy,
    path: &[u8],
    operation: Operation,
    bases: Bases<'_>,
) -> (Action, DecidedBy) {
    if let Some(rule) = denied(policy, path, operation, bases) {
        return (Action::Block, rule);
    }
    if let Some(rule) = ruled(
        &policy.ask,
        "commands.ask",
        path,
        operation,
        bases,
        Case::Folded,
    ) {
        return (Action::Ask, rule);
    }
    if operation != Operation::Read
        && let Some(rule) = protected(policy, path, bases)
    {
        return (Action::Ask, rule);
    }
    if let Some(rule) = granted(policy, path, operation, bases) {
        return (Action::Execute, rule);
    }
    if let Some(rule) = ruled(
        &policy.allow,
        "commands.allow",
        path,
        operation,
        bases,
        Case::Exact,
    ) {
        return (Action::Execute, rule);
    }
    let outside = DecidedBy::View {
        what: format!("outside of what may be {}", done(operation)),
    };
    match policy.level.value {
        Level::Deny => (Action::Block, outside),
        Level::Full | Level::Allowlist => (Action::Ask, outside),
    }
}

fn denied(
    policy: &Policy,
    path: &[u8],
    operation: Operation,
    bases: Bases<'_>,
) -> Option<DecidedBy> {
    if let Some(rule) = ruled(
        &policy.forbid,
        "commands.deny",
        path,
        operation,
        bases,
        Case::Folded,
    ) {
        return Some(rule);
    }
    if let Some(pattern) = hidden(&policy.deny, path, bases) {
        return Some(DecidedBy::Rule {
            key: "filesystem.deny",
            pattern: pattern.value.text().to_owned(),
            origin: pattern.origin.clone(),
        });
    }
    let built_in = policy.profile.value.hide.iter().find(|entry| {
        PathPattern::parse(entry.value())
            .is_ok_and(|pattern| pattern.covers(path, bases, Case::Folded))
    });
    built_in.map(|entry| DecidedBy::View {
        what: format!("hidden: {}", entry.why()),
    })
}

/// The pattern that hides a path. Each file's list is read by itself, the last word of it
/// counts; an exception in one file does not show what another hides.
pub fn hidden<'a>(
    patterns: &'a [Sourced<PathPattern>],
    path: &[u8],
    bases: Bases<'_>,
) -> Option<&'a Sourced<PathPattern>> {
    let mut found: Vec<&Sourced<PathPattern>> = Vec::new();
    for pattern in patterns {
        match pattern.value.sign() {
            Sign::Include if pattern.value.covers(path, bases, Case::Folded) => found.push(pattern),
            Sign::Exclude if pattern.value.covers(path, bases, Case::Exact) => {
                found.retain(|known| !known.origin.same_file(&pattern.origin));
            }
            _ => {}
        }
    }
    found.first().copied()
}

fn ruled(
    rules: &[Sourced<Rule>],
    key: &'static str,
    path: &[u8],
    operation: Operation,
    bases: Bases<'_>,
    case: Case,
) -> Option<DecidedBy> {
    let mut found: Vec<&Sourced<Rule>> = Vec::new();
    for rule in rules {
        let Rule::Path(own) = &rule.value else {
            continue;
        };
        if !own.concerns(operation) || !own.pattern.covers(path, bases, case) {
            continue;
        }
        match own.pattern.sign() {
            Sign::Include => found.push(rule),
            Sign::Exclude => found.retain(|known| !known.origin.same_file(&rule.origin)),
        }
    }
    found.first().map(|rule| DecidedBy::Rule {
        key,
        pattern: rule.value.text(),
        origin: rule.origin.clone(),
    })
}

fn protected(policy: &Policy, path: &[u8], bases: Bases<'_>) -> Option<DecidedBy> {
    let inside = below(path, bases.workspace)?;
    let inside = String::from_utf8_lossy(inside);
    let parts: Vec<&str> = inside.split('/').filter(|part| !part.is_empty()).collect();
    // A repository may sit at any depth: each folder on the way counts as a top.
    for first in 0..parts.len() {
        let rest = parts.get(first..).unwrap_or_default().join("/");
        let built_in: Vec<&str> = policy
            .profile
            .value
            .protect
            .iter()
            .map(|entry| entry.value())
            .collect();
        // A folder above a protected name may be written to; only its removal would matter.
        let covering = |patterns: &[&str]| {
            protect::covering(&rest, patterns)
                .filter(|(_, cover)| *cover != protect::Cover::Above)
                .map(|(name, _)| (*name).to_owned())
        };
        if let Some(name) = covering(&built_in) {
            let why = policy
                .profile
                .value
                .protect
                .iter()
                .find(|entry| entry.value() == name)
                .map_or("", |entry| entry.why());
            return Some(DecidedBy::View {
                what: format!("protected name {name}: {why}"),
            });
        }
        let added: Vec<&str> = policy
            .protect
            .iter()
            .map(|name| name.value.as_str())
            .collect();
        if let Some(name) = covering(&added) {
            let origin = policy
                .protect
                .iter()
                .find(|known| known.value == name)
                .map(|known| known.origin.clone())?;
            return Some(DecidedBy::Rule {
                key: "filesystem.protect",
                pattern: name,
                origin,
            });
        }
    }
    None
}

/// What of the policy shows the path, with enough access.
fn granted(
    policy: &Policy,
    path: &[u8],
    operation: Operation,
    bases: Bases<'_>,
) -> Option<DecidedBy> {
    let needed = if operation == Operation::Read {
        Access::Ro
    } else {
        Access::Rw
    };
    if policy.workspace.value >= needed && below(path, bases.workspace).is_some() {
        return Some(DecidedBy::View {
            what: "inside the workspace".to_owned(),
        });
    }
    let lists = [
        ("filesystem.write", &policy.write, Access::Rw),
        ("filesystem.read", &policy.read, Access::Ro),
    ];
    for (key, list, access) in lists {
        let shown = list
            .iter()
            .find(|grant| below(path, grant.value.resolve(bases).as_bytes()).is_some());
        if let Some(grant) = shown.filter(|_| access >= needed) {
            return Some(DecidedBy::Rule {
                key,
                pattern: grant.value.shown(),
                origin: grant.origin.clone(),
            });
        }
    }
    if needed == Access::Rw {
        return None;
    }
    let profile = policy.profile.value;
    let in_home = |entry: &&Entry| {
        below(path, bases.home).is_some_and(|rest| below_relative(rest, entry.value().as_bytes()))
    };
    let system = profile
        .system
        .iter()
        .chain(profile.etc)
        .find(|entry| below(path, entry.value().as_bytes()).is_some());
    let home = profile
        .toolchains
        .iter()
        .chain(profile.config)
        .find(in_home);
    system.or(home).map(|entry| DecidedBy::View {
        what: format!("shown by profile {}: {}", profile.name, entry.why()),
    })
}

/// The rest of a path below a folder, without a leading slash; empty for the folder itself.
fn below<'p>(path: &'p [u8], folder: &[u8]) -> Option<&'p [u8]> {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    match path.strip_prefix(folder)? {
        b"" => Some(b""),
        rest => rest.strip_prefix(b"/"),
    }
}

fn below_relative(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// A path made absolute, `.` and `..` taken out by the text alone.
fn absolute(path: &[u8], bases: Bases<'_>) -> Vec<u8> {
    let (base, rest): (&[u8], &[u8]) = if path.starts_with(b"/") {
        (b"", path)
    } else if path == b"~" {
        (bases.home, b"")
    } else if let Some(rest) = path.strip_prefix(b"~/") {
        (bases.home, rest)
    } else {
        (bases.workspace, path)
    };
    let mut names: Vec<&[u8]> = Vec::new();
    for name in base
        .split(|byte| *byte == b'/')
        .chain(rest.split(|byte| *byte == b'/'))
    {
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    let mut path = vec![b'/'];
    path.extend(names.join(&b'/'));
    path
}

fn done(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "written",
        Operation::Edit => "edited",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::{GrantPath, Layer, Origin, Setting};
    use std::sync::Arc;

    const BASES: Bases<'static> = Bases {
        home: b"/home/u",
        workspace: b"/home/u/ws",
    };

    fn origin(file: &str) -> Origin {
        Origin::File {
            layer: Layer::User,
            path: Arc::from(file),
            line: 1,
        }
    }

    fn policy() -> Policy {
        let mut policy = Policy::default();
        let rule = |text: &str| Rule::parse(text).unwrap();
        for setting in [
            Setting::FilesystemDeny(PathPattern::parse("*.pem").unwrap()),
            Setting::FilesystemDeny(PathPattern::parse("!tests/*.pem").unwrap()),
            Setting::CommandsDeny(rule("Read(/etc/passwd)")),
            Setting::CommandsAsk(rule("Edit(Cargo.lock)")),
            Setting::CommandsAllow(rule("Read(/var/log/**)")),
            Setting::FilesystemWrite(GrantPath::parse("~/out").unwrap()),
        ] {
            policy.apply(setting, origin("a"));
        }
        policy
    }

    fn action(path: &str, operation: Operation) -> Action {
        decide_path(&policy(), path.as_bytes(), operation, BASES).action
    }

    #[test]
    fn paths() {
        use Action::{Ask, Block, Execute};
        use Operation::{Edit, Read, Write};
        for (path, operation, expected) in [
            ("src/main.rs", Read, Execute),
            ("src/main.rs", Write, Execute),
            ("./src/../x", Edit, Execute),
            ("../outside", Write, Ask),
            ("~/.ssh/id_rsa", Read, Ask),
            ("key.pem", Read, Block),
            ("a/b/KEY.PEM", Read, Block),
            ("tests/key.pem", Read, Execute),
            ("/etc/passwd", Read, Block),
            ("/etc/hostname", Read, Execute),
            ("/etc/shadow", Read, Ask),
            ("/usr/bin/ls", Read, Execute),
            ("/usr/bin/ls", Write, Ask),
            ("Cargo.lock", Edit, Ask),
            ("Cargo.lock", Write, Ask),
            ("Cargo.lock", Read, Execute),
            ("/var/log/x", Read, Execute),
            ("/var/log/x", Write, Ask),
            ("~/out/x", Write, Execute),
            ("~/outer", Write, Ask),
            (".git/hooks/pre-commit", Write, Ask),
            ("vendor/lib/.git/config", Edit, Ask),
            (".git/index", Write, Execute),
            (".vscode/tasks.json", Write, Ask),
            (".vscode/tasks.json", Read, Execute),
            ("~/.cargo/bin/cargo", Read, Execute),
            ("~/.cargo/binary", Read, Ask),
            ("~/.dotnet/corefx/x", Read, Block),
        ] {
            assert_eq!(action(path, operation), expected, "{path} {operation:?}");
        }
    }

    #[test]
    fn an_exception_in_one_file_shows_nothing_that_another_hides() {
        let mut policy = policy();
        policy.apply(
            Setting::FilesystemDeny(PathPattern::parse("key.pem").unwrap()),
            origin("b"),
        );
        let decision = decide_path(&policy, b"tests/key.pem", Operation::Read, BASES);
        assert_eq!(decision.action, Action::Block);
        assert_eq!(decision.rule.to_string(), "filesystem.deny `key.pem` (b:1)");
    }
}
