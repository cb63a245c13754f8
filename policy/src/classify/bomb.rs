//! Functions that start themselves again and again beside themselves, and loops without an end
//! that never wait for what they start.

use crate::shell::ast::{Command, CommandKind, Ending, Script, While};
use crate::shell::walk;
use crate::shell::word::{Part, PartKind, Word};

/// Commands that wait, or leave a loop.
const PATIENT: &[&[u8]] = &[b"wait", b"sleep", b"read", b"break", b"exit", b"return"];

/// Whether the function calls itself in a pipeline or in the background.
pub(crate) fn is_bomb(name: &str, body: &Command) -> bool {
    let mut found = false;
    in_command(body, false, &mut |called, beside| {
        found |= beside && called == Some(name.as_bytes());
    });
    found
}

/// Whether a script starts itself, by `$0` or its own path, beside itself, or more than once.
pub(crate) fn starts_itself(script: &Script, path: &str) -> bool {
    let (mut beside, mut times) = (false, 0);
    walk::each(script, &mut |node| {
        if let walk::Node::Command(command) = node
            && let CommandKind::Simple(simple) = &command.kind
        {
            times += usize::from(
                simple
                    .words
                    .iter()
                    .take(3)
                    .any(|word| is_itself(word, path)),
            );
        }
    });
    if times == 0 {
        return false;
    }
    for list in &script.lists {
        beside |= list.ending == Ending::Background;
        beside |= list.pipelines().any(|pipeline| pipeline.commands.len() > 1);
    }
    walk::each(script, &mut |node| {
        if let walk::Node::Command(command) = node
            && let CommandKind::While(repeat) = &command.kind
        {
            beside |= in_background(&repeat.body) || is_endless(repeat);
        }
    });
    beside
}

fn is_itself(word: &Word, path: &str) -> bool {
    let is_zero = |part: &Part| matches!(&part.kind, PartKind::Parameter(parameter) if matches!(parameter.name.as_slice(), b"0" | b"BASH_SOURCE"));
    match word.parts.as_slice() {
        [part] if is_zero(part) => true,
        [part] => {
            matches!(&part.kind, PartKind::Double(inner, _) if matches!(inner.as_slice(), [part] if is_zero(part)))
                || word.literal().is_some_and(|text| text == path.as_bytes())
        }
        _ => word.literal().is_some_and(|text| text == path.as_bytes()),
    }
}

/// Whether a loop has no end, and each time starts something in the background.
pub(crate) fn is_endless(repeat: &While) -> bool {
    let mut endless = true;
    in_script(&repeat.condition, false, &mut |called, beside| {
        endless &= !beside && matches!(called, Some(b":" | b"true"));
    });
    let mut waits = false;
    in_script(&repeat.body, false, &mut |called, _| {
        waits |= called.is_some_and(|name| PATIENT.contains(&name));
    });
    endless && !waits && in_background(&repeat.body)
}

/// Whether anything in a script is not waited for.
fn in_background(script: &Script) -> bool {
    script.lists.iter().any(|list| {
        let mut commands = list.pipelines().flat_map(|pipeline| &pipeline.commands);
        list.ending == Ending::Background
            || commands.any(|command| match &command.kind {
                CommandKind::Subshell(script) | CommandKind::Group(script) => in_background(script),
                CommandKind::For(each) => in_background(&each.body),
                _ => false,
            })
    })
}

/// What is told of each simple command: its name, and whether it runs beside others.
type See<'s> = &'s mut dyn FnMut(Option<&[u8]>, bool);

fn in_script(script: &Script, beside: bool, see: See<'_>) {
    for list in &script.lists {
        let beside = beside || list.ending == Ending::Background;
        for pipeline in list.pipelines() {
            let beside = beside || pipeline.commands.len() > 1;
            for command in &pipeline.commands {
                in_command(command, beside, see);
            }
        }
    }
}

fn in_command(command: &Command, beside: bool, see: See<'_>) {
    match &command.kind {
        CommandKind::Simple(simple) => {
            let name = simple.words.first().and_then(|word| word.literal());
            see(name.as_deref(), beside);
        }
        CommandKind::Subshell(script) | CommandKind::Group(script) => {
            in_script(script, beside, see);
        }
        CommandKind::If(choice) => {
            for (condition, then) in &choice.branches {
                in_script(condition, beside, see);
                in_script(then, beside, see);
            }
            if let Some(script) = &choice.otherwise {
                in_script(script, beside, see);
            }
        }
        CommandKind::While(repeat) => in_script(&repeat.body, beside, see),
        CommandKind::For(each) => in_script(&each.body, beside, see),
        CommandKind::ArithmeticFor(each) => in_script(&each.body, beside, see),
        CommandKind::Case(case) => {
            for arm in &case.arms {
                in_script(&arm.body, beside, see);
            }
        }
        CommandKind::Coprocess(coprocess) => in_command(&coprocess.body, true, see),
        CommandKind::Function(_)
        | CommandKind::Arithmetic(_)
        | CommandKind::Test(_)
        | CommandKind::Opaque(_) => {}
    }
}
