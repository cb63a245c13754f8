//! Functions that start themselves again and again beside themselves.

use crate::shell::ast::{Command, CommandKind, Ending, Script};

/// Whether the function calls itself in a pipeline or in the background.
pub(crate) fn is_bomb(name: &str, body: &Command) -> bool {
    in_command(name.as_bytes(), body, false)
}

fn in_script(name: &[u8], script: &Script, beside: bool) -> bool {
    script.lists.iter().any(|list| {
        let beside = beside || list.ending == Ending::Background;
        list.pipelines().any(|pipeline| {
            let beside = beside || pipeline.commands.len() > 1;
            pipeline
                .commands
                .iter()
                .any(|command| in_command(name, command, beside))
        })
    })
}

fn in_command(name: &[u8], command: &Command, beside: bool) -> bool {
    match &command.kind {
        CommandKind::Simple(simple) => {
            beside
                && simple
                    .words
                    .first()
                    .and_then(|word| word.literal())
                    .as_deref()
                    == Some(name)
        }
        CommandKind::Subshell(script) | CommandKind::Group(script) => {
            in_script(name, script, beside)
        }
        CommandKind::If(choice) => {
            choice
                .branches
                .iter()
                .any(|(one, two)| in_script(name, one, beside) || in_script(name, two, beside))
                || choice
                    .otherwise
                    .as_ref()
                    .is_some_and(|script| in_script(name, script, beside))
        }
        CommandKind::While(repeat) => in_script(name, &repeat.body, beside),
        CommandKind::For(each) => in_script(name, &each.body, beside),
        CommandKind::ArithmeticFor(each) => in_script(name, &each.body, beside),
        CommandKind::Case(case) => case
            .arms
            .iter()
            .any(|arm| in_script(name, &arm.body, beside)),
        CommandKind::Coprocess(coprocess) => in_command(name, &coprocess.body, true),
        CommandKind::Function(_)
        | CommandKind::Arithmetic(_)
        | CommandKind::Test(_)
        | CommandKind::Opaque(_) => false,
    }
}
