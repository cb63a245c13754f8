//! Package managers: where packages come from, and whether their version is fixed.

use super::act::Act;
use super::describe;
use super::knowledge::Role;
use crate::classify::flow::Flow;
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
