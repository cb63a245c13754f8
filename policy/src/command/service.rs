//! Services, schedules and signals.

use super::act::Act;
use super::{describe, describe_base, describe_flags};
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;
use crate::classify::harm::Touch;
use crate::effect::Action;
use crate::risk::Risk;

/// `service NAME ACTION`.
pub(crate) fn service(act: &mut Act<'_, '_>) -> Flow {
    let words: Vec<Given> = act.positionals().cloned().collect();
    let action = words.get(1).map(|word| word.text.as_str());
    let asks = act.reading.has("--status-all") || matches!(action, None | Some("status"));
    if asks {
        return Flow::of(Sources::PROGRAM);
    }
    act.draft.effect(
        Action::SystemChange,
        Risk::Dangerous,
        "Changes a running service",
        act.call.span,
    );
    Flow::of(Sources::PROGRAM)
}

/// `crontab`: what it schedules runs later.
pub(crate) fn crontab(act: &mut Act<'_, '_>) -> Flow {
    describe_flags(act);
    if act.reading.has("-l") {
        return Flow::of(Sources::FILE);
    }
    if act.reading.has("-r") {
        act.draft.effect(
            Action::Discards,
            Risk::Dangerous,
            "Removes scheduled jobs",
            act.call.span,
        );
        return Flow::literal("");
    }
    let file = act.positionals().next().cloned();
    if let Some(file) = file.filter(|file| file.text != "-") {
        act.touch(Touch::Read, &file);
    }
    act.draft.effect(
        Action::Persistence,
        Risk::Dangerous,
        "Schedules commands",
        act.call.span,
    );
    Flow::literal("")
}

/// `kill`, `pkill`, `killall`.
pub(crate) fn kill(act: &mut Act<'_, '_>) -> Flow {
    let words = act.args.clone();
    let probe = words.iter().any(|word| {
        matches!(
            word.text.as_str(),
            "-0" | "-l" | "-L" | "--list" | "--table"
        )
    }) || words
        .windows(2)
        .any(|pair| pair[0].text == "-s" && pair[1].text == "0");
    if probe {
        return Flow::of(Sources::PROGRAM);
    }
    if act.draft.program.name != "kill" {
        return describe(act);
    }
    describe_base(act);
    let mut targets = words.iter().filter(|word| !is_signal(&word.text));
    let first_signal = words.first().is_some_and(|word| is_signal(&word.text));
    let everything = targets.any(|word| matches!(word.text.as_str(), "1" | "-1" | "0"))
        || (first_signal && words.iter().skip(1).any(|word| word.text == "-1"));
    if everything {
        act.draft.effect(
            Action::Kills,
            Risk::Dangerous,
            "Ends every process",
            act.call.span,
        );
    } else {
        act.draft
            .effect(Action::Kills, Risk::Normal, "", act.call.span);
    }
    Flow::literal("")
}

fn is_signal(text: &str) -> bool {
    text.starts_with('-') && text.len() > 1
}
