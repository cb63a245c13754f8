//! Package managers: where packages come from, and whether their version is fixed.

use super::act::Act;
use super::knowledge::{Positional, Role};
use super::{describe, describe_base, describe_flags};
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;
use crate::classify::harm::Touch;
use crate::classify::installs;
use crate::effect::Action;
use crate::risk::Risk;

/// Remembers which package manager this is, when it fetches.
pub(crate) fn note_client(act: &mut Act<'_, '_>) {
    if !act.draft.program.trusted {
        return;
    }
    let bare = act.args.is_empty() && act.sub.is_empty();
    if let Some(client) = installs::client(&act.draft.program.name, &act.sub, bare) {
        let words = act.call.args.get(1..).unwrap_or_default();
        let found = installs::install(client, words, &act.call.assignments);
        act.draft.install = Some(found);
    }
}

/// An installation: normal, with what is unusual about it.
pub(crate) fn install(act: &mut Act<'_, '_>) -> Flow {
    act.draft.effect(
        Action::Network { host: None },
        Risk::Normal,
        "",
        act.call.span,
    );
    let runs = |arg: &Positional| arg.role == Role::Command;
    if act.spec.args.iter().any(runs) {
        return fetch_and_run(act);
    }
    let flow = describe(act);
    let packages = act
        .positionals()
        .filter(|word| !is_pinned(&word.text))
        .count();
    let listed = act.spec.args.iter().any(|arg| arg.role == Role::Package);
    if listed && packages > 0 {
        act.draft
            .note(Risk::Normal, "Installs without a fixed version");
    }
    flow
}

/// `npx package …`: fetched, then run under its own name.
fn fetch_and_run(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    let Some(&index) = act.reading.positionals.first() else {
        return Flow::of(Sources::PROGRAM);
    };
    let given = act.args[index].clone();
    package(act, &given);
    if !is_pinned(&given.text) && !act.reading.has("-p") {
        act.draft
            .note(Risk::Normal, "Installs without a fixed version");
    }
    let mut words = act.args[index..].to_vec();
    words[0].text = program_of(&given.text).to_owned();
    act.inner_args(words)
}

/// The program that a package is named after: `prisma` for `prisma@5`, `cli` for `@scope/cli`.
fn program_of(package: &str) -> &str {
    let name = match package.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').map_or(scoped, |(_, name)| name),
        None => package,
    };
    match name.split_once('@') {
        Some((name, _)) if !name.is_empty() => name,
        _ => name,
    }
}

/// One package.
pub(crate) fn package(act: &mut Act<'_, '_>, given: &Given) {
    let text = given.text.as_str();
    if text.starts_with("http://") {
        act.draft.effect(
            Action::Network {
                host: Some(super::url::host_of(text)),
            },
            Risk::Dangerous,
            "Installs from an unprotected address",
            given.span,
        );
    } else if text.contains("://") || text.starts_with("git+") || text.starts_with("git@") {
        act.draft
            .note(Risk::Normal, "Installs from an unusual source");
    } else if is_file(text) {
        act.touch(Touch::Read, given);
        act.draft.note(Risk::Normal, "Installs from a file");
    }
}

fn is_file(text: &str) -> bool {
    let known = [
        ".whl", ".tgz", ".tar.gz", ".deb", ".rpm", ".gem", ".apk", ".zip",
    ];
    text.starts_with(['/', '.']) || known.iter().any(|ending| text.ends_with(ending))
}

fn is_pinned(text: &str) -> bool {
    let scoped = text.strip_prefix('@').unwrap_or(text);
    text.contains("==")
        || scoped.contains('@')
        || text.contains("://")
        || text.contains('=')
        || is_file(text)
}
