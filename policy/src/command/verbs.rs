//! Words that mean the same to almost every tool: `delete`, `destroy`, `purge`.

use super::act::Act;
use super::knowledge::{VERBS, Verb};
use crate::classify::draft::Draft;
use crate::classify::given::Given;
use crate::classify::judge::Call;
use crate::effect::Action;
use crate::risk::Risk;

/// How many of the first words may be the verb.
const DEPTH: usize = 4;

/// A program of which nothing is known.
pub(crate) fn unknown_program(call: &Call, draft: &mut Draft) {
    // A script of the project may call its own steps anything.
    if call.args[0].text.contains('/') {
        return;
    }
    let words = call.args[1..]
        .iter()
        .filter(|word| !word.text.starts_with('-'));
    if is_question(&call.args[1..]) {
        return;
    }
    if let Some((verb, word)) = search(words, true) {
        draft.effect(Action::Discards, verb.risk, verb.says, word.span);
    }
}

/// A tool with sub-commands, none of which the tables list.
pub(crate) fn sub_command(act: &mut Act<'_, '_>) {
    if !act.spec.verbs || act.spec.subs.is_empty() {
        return;
    }
    if is_question(&act.args) {
        return;
    }
    let found = search(act.positionals(), false).map(|(verb, word)| (verb, word.span));
    if let Some((verb, span)) = found {
        act.draft
            .effect(Action::Discards, verb.risk, verb.says, span);
    }
}

fn is_question(args: &[Given]) -> bool {
    args.iter().any(|word| {
        matches!(
            word.text.as_str(),
            "--help" | "-h" | "help" | "--dry-run" | "--dryrun" | "--version"
        )
    })
}

fn search<'g>(
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

fn matches(pattern: &str, word: &str) -> bool {
    match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
        (Some(start), _) => word.starts_with(start) && word.len() > start.len(),
        (_, Some(end)) => word.ends_with(end) && word.len() > end.len(),
        _ => pattern == word,
    }
}
