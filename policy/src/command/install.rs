//! Package managers: where packages come from, and whether their version is fixed.

mod lookalike;

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
    describe(act)
}

/// `npx package …`: fetched, then run under its own name.
fn fetch_and_run(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    let Some(&index) = act.reading.positionals.first() else {
        return Flow::of(Sources::PROGRAM);
    };
    let given = act.args[index].clone();
    if act.reading.has("-p") {
        act.draft.raise(Risk::Normal);
    } else {
        package(act, &given);
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
    unprotected(act, given);
    if let Some(meant) = lookalike::meant(text) {
        let says = format!("Package name is one slip away from {meant}");
        act.draft
            .effect(Action::Notes, Risk::Dangerous, says, given.span);
    }
    let pinned = PINS.iter().any(|flag| act.reading.has(flag)) || is_pinned(text);
    let says = if is_address(text) {
        "Installs from an unusual source"
    } else if is_file(text) {
        act.touch(Touch::Read, given);
        "Installs from a file"
    } else if pinned {
        ""
    } else {
        "Installs without a fixed version"
    };
    let action = Action::Installs {
        package: text.to_owned(),
        pinned: pinned || is_file(text),
    };
    act.draft.effect(action, Risk::Normal, says, given.span);
}

/// Where packages are looked for: `--index-url`, `--registry`.
pub(crate) fn registry(act: &mut Act<'_, '_>, given: &Given) {
    unprotected(act, given);
    super::url::host(act, given);
    if super::url::is_elsewhere(&given.text) {
        act.draft
            .note(Risk::Normal, "Installs from an unusual source");
    }
}

/// What comes over a connection that anybody on the way can change.
fn unprotected(act: &mut Act<'_, '_>, given: &Given) {
    // `git+http://…`, `name @ http://…`
    let text = match given.text.find("http://") {
        Some(at) if given.text[..at].ends_with(['+', ' ', '@']) => &given.text[at..],
        _ => given.text.as_str(),
    };
    if text.starts_with("http://") && super::url::is_elsewhere(text) {
        act.draft.effect(
            Action::Network {
                host: Some(super::url::host_of(text)),
            },
            Risk::Dangerous,
            "Installs from an unprotected address",
            given.span,
        );
    }
}

/// Options that fix the version of the one package beside them.
const PINS: &[&str] = &["--version", "--vers", "--rev", "--tag", "--require-hashes"];

fn is_address(text: &str) -> bool {
    /// How clients shorten the address of a repository: `github:owner/name`, `gh:owner/name`.
    const FORGES: [&str; 5] = ["github:", "gitlab:", "bitbucket:", "gist:", "gh:"];
    text.contains("://")
        || ["git+", "git@"].iter().any(|way| text.starts_with(way))
        || FORGES.iter().any(|forge| text.starts_with(forge))
}

fn is_file(text: &str) -> bool {
    let known = [
        ".whl", ".tgz", ".tar.gz", ".deb", ".rpm", ".gem", ".apk", ".zip",
    ];
    text.starts_with(['/', '.']) || known.iter().any(|ending| text.ends_with(ending))
}

/// `name==1.2`, `name@1.2`, `name=1.2`, `vendor/name:1.2`, `git+https://…@commit`: not a range,
/// and not a name that moves.
fn is_pinned(text: &str) -> bool {
    let name = text.strip_prefix('@').unwrap_or(text);
    let version = if is_address(text) {
        let end = name.rsplit(['@', '#']).next().unwrap_or_default();
        return end.len() >= 7 && end.bytes().all(|b| b.is_ascii_hexdigit());
    } else {
        name.rsplit_once(['@', '=', ':'])
            .map_or("", |(_, version)| version)
    };
    let ranged = name.contains(['>', '<', '~', '^', '*', '!']);
    let moves = matches!(
        version,
        "" | "latest" | "next" | "stable" | "beta" | "canary" | "main" | "master" | "HEAD"
    );
    !ranged && !moves
}

#[cfg(test)]
mod tests {
    use crate::classify::{Context, classify};
    use crate::effect::Action;

    fn pins(line: &str) -> Vec<(String, bool)> {
        let answer = classify(line.as_bytes(), &Context::default());
        let effects = answer.commands.iter().flat_map(|command| &command.effects);
        effects
            .filter_map(|effect| match &effect.action {
                Action::Installs { package, pinned } => Some((package.clone(), *pinned)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_version_is_fixed_or_it_is_not() {
        for (line, expected) in [
            ("npm install left-pad", false),
            ("npm install left-pad@1.3.0", true),
            ("npm install left-pad@latest", false),
            ("npm install left-pad@^1.3.0", false),
            ("npm install @scope/name", false),
            ("npm install @scope/name@2.0.1", true),
            ("npx cowsay hi", false),
            ("npx cowsay@1.5.0 hi", true),
            ("pip install requests", false),
            ("pip install requests==2.31.0", true),
            ("pip install 'requests>=2'", false),
            ("python3 -m pip install requests", false),
            ("pip install git+https://example.org/x", false),
            ("pip install git+https://example.org/x@0123abc", true),
            ("uv add httpx", false),
            ("poetry add httpx==1.0", true),
            ("cargo install ripgrep", false),
            ("cargo install ripgrep --version 14.1.0", true),
            ("cargo add serde@1.0.200", true),
            ("go install example.org/x@latest", false),
            ("go install example.org/x@v1.2.3", true),
            ("gem install rails", false),
            ("composer require vendor/name", false),
            ("composer require vendor/name:1.2.3", true),
            ("sudo apt-get install -y jq", false),
            ("apt-get install jq=1.6-2", true),
        ] {
            let found = pins(line);
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert_eq!(found[0].1, expected, "{line}");
        }
        assert_eq!(pins("npm install a b@1.0.0").len(), 2);
        assert!(pins("npm ci").is_empty());
        assert!(pins("echo npm install x").is_empty());
    }
}
