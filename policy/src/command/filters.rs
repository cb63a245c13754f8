//! What simple filters make of a text that is known: folding of `echo '~ fr- mr' | rev | sh` and
//! its kin. Where a filter does more than is modelled here, its output is not known.

use super::act::Act;
use crate::classify::flow::{Flow, Sources};
use crate::shell::decode;

/// Longer texts are not worked out: a line may send one through hundreds of filters.
const MAX_TEXT: usize = 8 * 1024;
/// Nor are sets with more letters than this.
const MAX_SET: usize = 256;

/// What a filter prints.
pub(crate) fn filtered(act: &mut Act<'_, '_>, flow: Flow) -> Flow {
    let text = short(act, &flow);
    let name = act.draft.program.name.as_str();
    let made = text.and_then(|text| folded(act, name, text));
    let mut from = flow.from;
    match made {
        Some(text) if text.len() <= MAX_TEXT => {
            return Flow {
                text: Some(text),
                from,
                partly: None,
            };
        }
        _ => from = from.with(Sources::PROGRAM),
    }
    if name == "head" {
        from = from.without(Sources::ENDLESS);
    }
    if name == "tr" && is_cipher(act) {
        from = from.with(Sources::DECODED);
    }
    if name == "rev" {
        from = match from.has(Sources::REVERSED) {
            true => from.without(Sources::REVERSED),
            false => from.with(Sources::REVERSED),
        };
    }
    let partly = match keeps_lines(name) {
        true => flow.text.or(flow.partly),
        false => None,
    };
    Flow {
        text: None,
        from,
        partly,
    }
}

/// A known text that there is time for.
fn short<'f>(act: &mut Act<'_, '_>, flow: &'f Flow) -> Option<&'f str> {
    let text = flow.text.as_deref()?;
    (text.len() <= MAX_TEXT && act.judge.has_time(text.len())).then_some(text)
}

/// Filters that leave lines out, or turn their order, and change nothing in them.
fn keeps_lines(name: &str) -> bool {
    matches!(
        name,
        "cat"
            | "tac"
            | "sort"
            | "uniq"
            | "head"
            | "tail"
            | "grep"
            | "egrep"
            | "fgrep"
            | "rg"
            | "shuf"
            | "sponge"
    )
}

fn folded(act: &Act<'_, '_>, name: &str, text: &str) -> Option<String> {
    match name {
        "cat" | "pv" if act.reading.flags.is_empty() => Some(text.to_owned()),
        "rev" => String::from_utf8(decode::reversed(text.as_bytes())).ok(),
        "tac" if act.reading.flags.is_empty() => {
            let lines: Vec<&str> = text.lines().rev().collect();
            Some(lines.join("\n") + "\n")
        }
        "tr" => translated(act, text),
        "cut" => cut(act, text),
        "head" | "tail" => ends(act, name, text),
        _ => None,
    }
}

/// `tr SET1 SET2`, `tr -d SET`.
fn translated(act: &Act<'_, '_>, text: &str) -> Option<String> {
    let mut sets = act.positionals();
    let from = set(sets.next()?.literal()?)?;
    let to = match sets.next() {
        Some(word) => Some(set(word.literal()?)?),
        None => None,
    };
    let (complement, delete) = (act.reading.has("-c"), act.reading.has("-d"));
    if act.reading.has("-s") {
        return None;
    }
    let mut places = [None; 128];
    for (at, letter) in from.iter().enumerate() {
        if let Some(place) = places.get_mut(*letter as usize) {
            *place = Some(at);
        }
    }
    let place = |letter: char| places.get(letter as usize).copied().flatten();
    let held = |letter: char| place(letter).is_some() != complement;
    match to {
        None if delete => Some(text.chars().filter(|&letter| !held(letter)).collect()),
        Some(to) if !delete => {
            let last = *to.last()?;
            let turned = |letter: char| match place(letter) {
                _ if complement => {
                    if held(letter) {
                        last
                    } else {
                        letter
                    }
                }
                Some(at) => *to.get(at).unwrap_or(&last),
                None => letter,
            };
            Some(text.chars().map(turned).collect())
        }
        _ => None,
    }
}

/// The letters of a set: ranges, classes and escapes written out; ASCII alone.
fn set(text: &str) -> Option<Vec<char>> {
    const CLASSES: &[(&str, &str)] = &[
        ("[:lower:]", "a-z"),
        ("[:upper:]", "A-Z"),
        ("[:digit:]", "0-9"),
        ("[:alpha:]", "A-Za-z"),
        ("[:alnum:]", "0-9A-Za-z"),
        ("[:space:]", "\t\n\u{b}\u{c}\r "),
        ("[:blank:]", "\t "),
        ("[:punct:]", "!-/:-@[-`{-~"),
    ];
    let mut written = text.to_owned();
    for (class, letters) in CLASSES {
        if written.contains(class) {
            written = written.replace(class, letters);
        }
    }
    if !written.is_ascii()
        || written.contains("[=")
        || written.contains("*]")
        || written.contains("[:")
    {
        return None;
    }
    let written = match written.contains('\\') {
        true => String::from_utf8(decode::escapes(written.as_bytes())).ok()?,
        false => written,
    };
    let bytes = written.as_bytes();
    let mut letters = Vec::new();
    let mut at = 0;
    while let Some(&first) = bytes.get(at) {
        match (bytes.get(at + 1), bytes.get(at + 2)) {
            (Some(b'-'), Some(&last)) if first <= last => {
                letters.extend((first..=last).map(char::from));
                at += 3;
            }
            _ => {
                letters.push(char::from(first));
                at += 1;
            }
        }
    }
    (letters.len() <= MAX_SET).then_some(letters)
}

/// Whether most of the alphabet becomes other letters, and not only small ones great.
fn is_cipher(act: &Act<'_, '_>) -> bool {
    let sets: Vec<Vec<char>> = act
        .positionals()
        .filter_map(|word| set(word.literal()?))
        .collect();
    let [from, to] = sets.as_slice() else {
        return false;
    };
    let pairs = from.iter().zip(to);
    let moved = pairs.filter(|(one, other)| {
        let letters = one.is_ascii_alphabetic() && other.is_ascii_alphabetic();
        letters && !one.eq_ignore_ascii_case(other)
    });
    moved.count() >= 13
}

/// `cut -c 1-4`, `cut -d: -f2`.
fn cut(act: &Act<'_, '_>, text: &str) -> Option<String> {
    if act.reading.has("--complement") || act.reading.has("--output-delimiter") {
        return None;
    }
    let by_letter = act.reading.value("-c").or_else(|| act.reading.value("-b"));
    if let Some(list) = by_letter {
        let ranges = ranges(list.literal()?)?;
        let line = |line: &str| -> String {
            let numbered = line.chars().enumerate();
            let kept = numbered.filter(|(at, _)| is_in(&ranges, at + 1));
            kept.map(|(_, letter)| letter).collect()
        };
        return Some(each_line(text, line));
    }
    let ranges = ranges(act.reading.value("-f")?.literal()?)?;
    let mark = match act.reading.value("-d") {
        Some(mark) => mark.literal()?.chars().next()?,
        None => '\t',
    };
    let line = |line: &str| -> String {
        if !line.contains(mark) {
            return line.to_owned();
        }
        let parts = line.split(mark).enumerate();
        let kept: Vec<&str> = parts
            .filter(|(at, _)| is_in(&ranges, at + 1))
            .map(|(_, part)| part)
            .collect();
        kept.join(mark.encode_utf8(&mut [0; 4]))
    };
    Some(each_line(text, line))
}

fn each_line(text: &str, change: impl Fn(&str) -> String) -> String {
    let lines: Vec<String> = text.lines().map(change).collect();
    lines.join("\n") + "\n"
}

/// More ranges than this are not followed: each letter is looked up in all of them.
const MAX_RANGES: usize = 32;

/// `1,3-5,7-`
fn ranges(list: &str) -> Option<Vec<(usize, usize)>> {
    let range = |part: &str| match part.split_once('-') {
        None => {
            let only = part.parse().ok()?;
            Some((only, only))
        }
        Some(("", last)) => Some((1, last.parse().ok()?)),
        Some((first, "")) => Some((first.parse().ok()?, usize::MAX)),
        Some((first, last)) => Some((first.parse().ok()?, last.parse().ok()?)),
    };
    let found: Option<Vec<_>> = list.split(',').map(range).collect();
    found.filter(|ranges| ranges.len() <= MAX_RANGES)
}

fn is_in(ranges: &[(usize, usize)], place: usize) -> bool {
    ranges
        .iter()
        .any(|(first, last)| (first..=last).contains(&&place))
}

/// `head -n 2`, `tail -1`, `tail -c +5`, `tail -n +3`.
fn ends(act: &Act<'_, '_>, name: &str, text: &str) -> Option<String> {
    if act.reading.flags.len() > 1 {
        return None;
    }
    let bare = act.reading.unknown.first().map(|word| &word.text);
    let lines = match (act.reading.value("-n"), bare) {
        (Some(number), _) => number.literal()?.to_owned(),
        (None, Some(word)) => word.trim_start_matches('-').to_owned(),
        (None, None) if act.reading.flags.is_empty() => "10".to_owned(),
        (None, None) => {
            let count: usize = act
                .reading
                .value("-c")?
                .literal()?
                .trim_start_matches('+')
                .parse()
                .ok()?;
            let whole = act.reading.value("-c")?.text.starts_with('+');
            return match (name, whole) {
                ("head", false) => text.get(..count.min(text.len())).map(str::to_owned),
                ("tail", true) => text.get(count.saturating_sub(1)..).map(str::to_owned),
                ("tail", false) => text
                    .get(text.len().saturating_sub(count)..)
                    .map(str::to_owned),
                _ => None,
            };
        }
    };
    let from_there = lines.starts_with('+');
    let count: usize = lines.trim_start_matches('+').parse().ok()?;
    let all: Vec<&str> = text.lines().collect();
    let kept = match (name, from_there) {
        ("head", false) => all.get(..count.min(all.len()))?,
        ("tail", true) => all.get(count.saturating_sub(1)..)?,
        ("tail", false) => all.get(all.len().saturating_sub(count)..)?,
        _ => return None,
    };
    Some(kept.join("\n") + "\n")
}

/// What `sed` prints: a plain `s/text/other/`, or letters for letters, is worked out.
pub(crate) fn edited(act: &mut Act<'_, '_>, flow: Flow) -> Flow {
    let text = short(act, &flow);
    match text.and_then(|text| substituted(act, text)) {
        Some(text) => Flow {
            text: Some(text),
            from: flow.from,
            partly: None,
        },
        None => Flow::of(flow.from.with(Sources::PROGRAM)),
    }
}

/// Edits of one script, one behind the other; `None` for anything but plain ones.
fn substituted(act: &Act<'_, '_>, text: &str) -> Option<String> {
    let flags = &act.reading.flags;
    let script = match flags.as_slice() {
        [] => act.positionals().next()?,
        [only] if only.flag.spellings.has("-e") => only.value.as_ref()?,
        _ => return None,
    };
    let mut out = text.to_owned();
    for command in script.literal()?.split(';').take(MAX_EDITS) {
        out = edit(command.trim(), &out)?;
    }
    Some(out)
}

/// More edits than this of one script are not worked out.
const MAX_EDITS: usize = 8;

fn edit(command: &str, text: &str) -> Option<String> {
    let mut letters = command.chars();
    let kind = letters.next().filter(|kind| matches!(kind, 's' | 'y'))?;
    let mark = letters.next()?;
    let mut parts = letters.as_str().split(mark);
    let (old, new, flags) = (parts.next()?, parts.next()?, parts.next()?);
    let plain = |text: &str| !text.contains(['\\', '.', '*', '[', '^', '$', '&', '+', '?']);
    if parts.next().is_some() || !plain(old) || !plain(new) || old.is_empty() {
        return None;
    }
    let grown = text.matches(old).count() * new.len() + text.len();
    if grown > MAX_TEXT || old.len() > MAX_SET {
        return None;
    }
    if kind == 'y' {
        let (old, new): (Vec<char>, Vec<char>) = (old.chars().collect(), new.chars().collect());
        let turned = |letter: char| {
            let at = old.iter().position(|known| *known == letter);
            at.and_then(|at| new.get(at)).copied().unwrap_or(letter)
        };
        return Some(text.chars().map(turned).collect());
    }
    match flags {
        "g" => Some(text.replace(old, new)),
        "" => {
            let lines: Vec<String> = text
                .split('\n')
                .map(|line| line.replacen(old, new, 1))
                .collect();
            Some(lines.join("\n"))
        }
        _ => None,
    }
}
