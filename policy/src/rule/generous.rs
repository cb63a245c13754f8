//! Generous matching, for ask and deny: every command that a pattern can mean.

use super::command::{Match, Stage, glob};
use super::spelling::{Arguments, known_start};
use crate::classify::{Arg, Classification, SimpleCommand};

impl Stage {
    fn generous(&self, words: &[Arg]) -> Found {
        let (Some((wanted_program, wanted)), Some((program, args))) =
            (self.words.split_first(), words.split_first())
        else {
            return Found::No;
        };
        if !glob(last_part(wanted_program), last_part(&program.text)) {
            return Found::No;
        }
        let given = Arguments::read(last_part(&program.text), args);
        let mut found = Found::Yes;
        let mut from = 0;
        for (number, word) in wanted.iter().enumerate() {
            if word == "*" {
                continue;
            }
            if word.len() > 1 && word.starts_with('-') {
                found = found.and(match given.has(word) {
                    true => Found::Yes,
                    false if given.unsure => Found::Perhaps,
                    false => Found::No,
                });
                continue;
            }
            let anchored = number == 0 && given.has_subcommands && is_plain_word(word);
            found = found.and(find_word(word, &given, &mut from, anchored));
        }
        found
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    No,
    Perhaps,
    Yes,
}

impl Found {
    fn and(self, other: Found) -> Found {
        self.min(other)
    }
}

/// Finds a word among the positional arguments, in their order; one that can stand anywhere
/// (`if=`, `http://`, a path) also among the values of options.
fn find_word(wanted: &str, given: &Arguments<'_>, from: &mut usize, anchored: bool) -> Found {
    let mut best = Found::No;
    let anywhere = !is_plain_word(wanted);
    let start = if anywhere { 0 } else { *from };
    for (place, arg) in given.positionals.iter().enumerate().skip(start) {
        let fits = if arg.exact || arg.glob {
            word_fits(wanted, &arg.text, arg.glob)
        } else {
            unknown_fits(wanted, &arg.text)
        };
        if fits == Found::Yes {
            *from = (*from).max(place + 1);
            return Found::Yes;
        }
        best = best.max(fits);
        if anchored {
            return best;
        }
    }
    if anywhere
        && given
            .values()
            .any(|value| word_fits(wanted, value, false) == Found::Yes)
    {
        return Found::Yes;
    }
    best
}

/// Whether an argument that is only partly known can be what a word of a pattern means.
fn unknown_fits(wanted: &str, text: &str) -> Found {
    let start = known_start(text);
    if word_fits(wanted, start, false) == Found::Yes
        && (wanted.ends_with('=') || wanted.ends_with("://"))
    {
        return Found::Yes;
    }
    let wanted = wanted.split('*').next().unwrap_or_default();
    match wanted.starts_with(start) || start.starts_with(wanted) {
        true => Found::Perhaps,
        false => Found::No,
    }
}

/// Whether an argument is what a word of a pattern means.
fn word_fits(wanted: &str, text: &str, is_glob: bool) -> Found {
    let prefix = wanted.ends_with('=') || wanted.ends_with("://");
    let fits = if prefix {
        text.get(..wanted.len())
            .is_some_and(|front| front.eq_ignore_ascii_case(wanted))
    } else if wanted.contains('*') {
        glob(wanted, text)
    } else if is_number(wanted) && is_number(text) {
        // 0777 is 777.
        wanted.trim_start_matches('0') == text.trim_start_matches('0')
    } else if wanted.starts_with(['/', '~', '.']) {
        same_place(wanted, text)
    } else {
        wanted == text
    };
    match fits {
        true => Found::Yes,
        false if is_glob && glob(text, wanted) => Found::Perhaps,
        false => Found::No,
    }
}

/// `/`, `//`, `/.`, `/tmp/..`, `/*` are all the same place to somebody who deletes it.
fn same_place(wanted: &str, text: &str) -> bool {
    let normal = |path: &str| {
        let mut names: Vec<&str> = Vec::new();
        for name in path.trim_end_matches('*').split('/') {
            match name {
                "" | "." => {}
                ".." if names.last().is_some_and(|last| *last != "..") => {
                    names.pop();
                }
                name => names.push(name),
            }
        }
        (path.starts_with('/'), names.join("/"))
    };
    wanted == text || (text.starts_with(['/', '~', '.']) && normal(wanted) == normal(text))
}

pub(super) fn generous_stages(stages: &[Stage], line: &Classification) -> Match {
    let mut found = Found::Yes;
    let mut span = None;
    let mut from = 0;
    for stage in stages {
        let mut best = Found::No;
        let mut best_place = from;
        for (place, command) in line.commands.iter().enumerate().skip(from) {
            let fits = candidates(command)
                .map(|words| stage.generous(&words))
                .max()
                .unwrap_or(Found::No);
            if fits > best {
                best = fits;
                best_place = place;
            }
            if best == Found::Yes {
                break;
            }
        }
        if best == Found::No {
            return Match::No;
        }
        found = found.and(best);
        span = span.or(line.commands.get(best_place).map(|command| command.span));
        from = best_place + 1;
    }
    match (found, span) {
        (Found::Yes, Some(span)) => Match::Yes(span),
        (Found::Perhaps, Some(span)) => Match::Perhaps(span),
        _ => Match::No,
    }
}

/// The command by itself, and under each of its wrappers, from the inside out.
fn candidates(command: &SimpleCommand) -> impl Iterator<Item = Vec<Arg>> + '_ {
    let plain = |text: &str| Arg {
        text: text.to_owned(),
        exact: true,
        ..Arg::default()
    };
    let wrappers = &command.wrappers;
    (0..=wrappers.len()).rev().map(move |first| {
        let outer = wrappers
            .iter()
            .skip(first)
            .flat_map(|wrapper| wrapper.split(' '));
        let mut words: Vec<Arg> = outer.map(plain).collect();
        words.extend(command.argv.iter().cloned());
        words
    })
}

/// The same as plain words, for regular expressions.
pub(super) fn spoken(command: &SimpleCommand) -> impl Iterator<Item = Vec<String>> + '_ {
    candidates(command).map(|words| words.into_iter().map(|arg| arg.text).collect())
}

fn last_part(program: &str) -> &str {
    program
        .rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or(program)
}

fn is_plain_word(word: &str) -> bool {
    !word.contains(['=', ':', '/', '.', '~'])
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit())
}
