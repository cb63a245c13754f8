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
    let Some((first, behind)) = stages.split_first() else {
        return Match::No;
    };
    let mut best = (Found::No, None);
    for (place, command) in line.commands.iter().enumerate() {
        let mut found = first.in_command(command);
        let mut rest = line.commands.iter().skip(place + 1);
        for stage in behind {
            if found == Found::No {
                break;
            }
            // The next of the same pipeline that fits.
            let fits = rest
                .by_ref()
                .filter(|other| other.pipeline == command.pipeline)
                .map(|other| stage.in_command(other))
                .find(|fits| *fits != Found::No);
            found = found.and(fits.unwrap_or(Found::No));
        }
        if found > best.0 {
            best = (found, Some(command.span));
        }
        if found == Found::Yes {
            break;
        }
    }
    match best {
        (Found::Yes, Some(span)) => Match::Yes(span),
        (Found::Perhaps, Some(span)) => Match::Perhaps(span),
        _ => Match::No,
    }
}

impl Stage {
    /// Whether it can mean this command, by itself or under its wrappers.
    fn in_command(&self, command: &SimpleCommand) -> Found {
        candidates(command)
            .map(|words| self.generous(&words))
            .max()
            .unwrap_or(Found::No)
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
pub(super) fn spoken(command: &SimpleCommand) -> impl Iterator<Item = Vec<&str>> + '_ {
    let wrappers = &command.wrappers;
    let own = own_words(command);
    (0..=wrappers.len()).rev().map(move |first| {
        let outer = wrappers.iter().skip(first);
        let mut words: Vec<&str> = outer.flat_map(|wrapper| wrapper.split(' ')).collect();
        words.extend(&own);
        words
    })
}

/// The words of a command; of a shell without the text that it runs, whose commands stand for
/// themselves.
pub(super) fn own_words(command: &SimpleCommand) -> Vec<&str> {
    let words = command.argv.iter().map(|arg| arg.text.as_str());
    let text = match is_shell(&command.program.name) {
        true => words.clone().position(is_text_option).map(|at| at + 1),
        false => None,
    };
    words
        .enumerate()
        .filter(|(place, _)| Some(*place) != text)
        .map(|(_, word)| word)
        .collect()
}

fn is_shell(program: &str) -> bool {
    matches!(program, "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash")
}

/// `-c`, `-lc`, `-xec`
fn is_text_option(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    letters.ends_with('c') && letters.bytes().all(|b| b.is_ascii_lowercase())
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
