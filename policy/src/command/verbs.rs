//! Words that mean the same to almost every tool: `delete`, `destroy`, `purge`.

use super::act::Act;
use super::knowledge::{VERBS, Verb};
use crate::classify::given::Given;
use crate::effect::Action;
use crate::risk::Risk;

/// How many of the first words may be the verb.
const DEPTH: usize = 4;

/// A tool with sub-commands, none of which the tables list.
pub(crate) fn sub_command(act: &mut Act<'_, '_>) {
    if !act.spec.verbs {
        return;
    }
    if is_question(act.args) {
        return;
    }
    let found = search(act.positionals(), false).map(|(verb, word)| (verb, word.span));
    if let Some((verb, span)) = found {
        act.draft
            .effect(Action::Discards, verb.risk, verb.says, span);
    }
    let flag = act
        .reading
        .unknown
        .iter()
        .find(|word| is_grave_flag(&word.text));
    if let Some(span) = flag.map(|word| word.span) {
        let says = "Deletes something for good";
        act.draft
            .effect(Action::Discards, Risk::Dangerous, says, span);
    }
}

/// `--delete`, `--delete-config`, `--purge-all=…`.
pub(crate) fn is_grave_flag(text: &str) -> bool {
    let name = text.strip_prefix("--").unwrap_or_default();
    matches!(
        name.split(['-', '=', '_']).next(),
        Some("delete" | "destroy" | "purge" | "wipe" | "nuke")
    )
}

/// Whether the command only asks, or only shows what it would do.
pub(crate) fn is_question(args: &[Given]) -> bool {
    args.iter().any(|word| {
        matches!(
            word.text.as_str(),
            "--help" | "-h" | "help" | "--dry-run" | "--dryrun" | "--version"
        )
    })
}

/// The first word that is a grave verb.
pub(crate) fn search<'g>(
    words: impl Iterator<Item = &'g Given>,
    unknown: bool,
) -> Option<(&'static Verb, &'g Given)> {
    words
        .take(DEPTH)
        .filter(|word| word.exact)
        .find_map(|word| {
            let verb = VERBS
                .iter()
                .filter(|verb| !unknown || verb.everywhere)
                .find(|verb| verb.words.iter().any(|known| matches(known, &word.text)))?;
            (verb.risk > Risk::Normal).then_some((verb, word))
        })
}

/// Also behind a colon: `db:drop`, `sites:delete`; but `vendor:publish` copies into the project.
fn matches(pattern: &str, word: &str) -> bool {
    let word = match word.rsplit_once(':').filter(|(_, last)| *last != "publish") {
        Some((front, last)) if !front.contains(['/', '.']) && !last.starts_with('/') => last,
        _ => word,
    };
    // `vm.destroy`
    let word = match word.rsplit_once('.') {
        Some((front, last @ ("destroy" | "delete" | "purge"))) if !front.contains('/') => last,
        _ => word,
    };
    match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
        (Some(start), _) => word.starts_with(start) && word.len() > start.len(),
        (_, Some(end)) => word.ends_with(end) && word.len() > end.len(),
        _ => pattern == word,
    }
}
