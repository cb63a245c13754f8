//! Hand-made classifications for tests: what the rules see, without the classifier.

use crate::classify::{Arg, Classification, Form, Program, SimpleCommand};
use crate::effect::Span;
use crate::risk::Risk;

/// A line of plain words; ` | ` and ` && ` part its commands, `sudo`, `xargs`, `env` and
/// `bash -c` in front are wrappers, a word with `$` is not known.
pub(crate) fn line(text: &str, risk: Risk) -> Classification {
    let mut commands = Vec::new();
    let mut start = 0;
    let mut pipeline = 0;
    for piece in text.split_inclusive([';', '|', '&']) {
        let part = piece.trim_end_matches([';', '|', '&']);
        let span = Span::new(start, start + part.len());
        start += piece.len();
        if !part.trim().is_empty() {
            let mut command = command(part, risk, span);
            command.pipeline = pipeline;
            commands.push(command);
        }
        pipeline += usize::from(!piece.ends_with('|'));
    }
    let form = match commands.len() {
        1 => Form::Single,
        _ => Form::Compound,
    };
    Classification {
        risk,
        reasons: Vec::new(),
        commands,
        opaque: Vec::new(),
        form,
    }
}

fn command(text: &str, risk: Risk, span: Span) -> SimpleCommand {
    let words = shell_words::split(text).unwrap_or_default();
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut wrappers = Vec::new();
    loop {
        match words.as_slice() {
            [wrapper @ ("sudo" | "xargs" | "env"), _, ..] => {
                wrappers.push((*wrapper).to_owned());
                words.remove(0);
            }
            ["bash", "-c", rest] => {
                wrappers.push("bash -c".to_owned());
                words = rest.split(' ').collect();
            }
            _ => break,
        }
    }
    let typed = words.first().copied().unwrap_or_default().to_owned();
    let name = typed.rsplit('/').next().unwrap_or_default().to_owned();
    SimpleCommand {
        program: Program {
            trusted: !typed.contains('/') || typed.starts_with("/usr/bin/"),
            name,
            typed,
            ..Program::default()
        },
        argv: words
            .iter()
            .map(|word| Arg {
                text: (*word).to_owned(),
                exact: !word.contains(['$', '*']),
                glob: word.contains('*') && !word.contains('$'),
                span,
            })
            .collect(),
        assignments: Vec::new(),
        redirects: Vec::new(),
        wrappers,
        nesting: 0,
        pipeline: 0,
        folder: None,
        effects: Vec::new(),
        install: None,
        risk,
        reasons: Vec::new(),
        span,
    }
}
