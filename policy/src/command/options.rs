//! Reads an argument list the way its program would: options, values, positionals.

use super::knowledge::{
    Count, Flag, INFORMATION, Modifiers, Positional, Role, Spec, Style, Sub, Takes,
};
use crate::classify::given::Given;
use crate::risk::Risk;

/// An argument list, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The options that were recognised, in order.
    pub flags: Vec<Seen>,
    /// Words that look like options and are not known.
    pub unknown: Vec<Given>,
    /// Indices into the argument list of what is neither option nor value.
    pub positionals: Vec<usize>,
    /// What the options change, together.
    pub modifiers: Modifiers,
    /// A word that is only known when it runs may be an option.
    pub uncertain: bool,
}

/// An option that was recognised.
#[derive(Debug)]
pub(crate) struct Seen {
    pub flag: &'static Flag,
    pub value: Option<Given>,
    /// The word it stood in.
    pub word: Given,
}

impl Reading {
    /// Whether any of these spellings was given.
    pub(crate) fn has(&self, spelling: &str) -> bool {
        self.seen(spelling).is_some()
    }

    /// The last occurrence of an option.
    pub(crate) fn seen(&self, spelling: &str) -> Option<&Seen> {
        self.flags
            .iter()
            .rev()
            .find(|seen| seen.flag.spellings.has(spelling))
    }

    /// The value of an option, when it is known.
    pub(crate) fn value(&self, spelling: &str) -> Option<&Given> {
        self.seen(spelling)?.value.as_ref()
    }
}

/// Reads `args` (without the program's name) by the options of `specs`: the most specific
/// sub-command first, then those it inherits from.
pub(crate) fn read(specs: &[&'static Spec], args: &[Given]) -> Reading {
    Reader {
        specs,
        args,
        reading: Reading::default(),
        at: 0,
    }
    .read()
}

struct Reader<'a> {
    specs: &'a [&'static Spec],
    args: &'a [Given],
    reading: Reading,
    at: usize,
}

impl Reader<'_> {
    fn read(mut self) -> Reading {
        let style = self.specs.first().map_or(Style::Gnu, |spec| spec.style);
        let stop = command_position(self.specs.first().map_or(&[][..], |spec| spec.args.get()));
        while let Some(word) = self.args.get(self.at) {
            let index = self.at;
            self.at += 1;
            let text = word.text.as_str();
            if style == Style::None {
                self.reading.positionals.push(index);
            } else if text == "--" && word.exact {
                self.reading.positionals.extend(self.at..self.args.len());
                break;
            } else if style == Style::Operands && self.operand(word) {
                continue;
            } else if text.starts_with("--") && style != Style::Long {
                self.long(word);
            } else if text.len() > 1 && text.starts_with(['-', '+']) && self.short(word, style) {
                continue;
            } else if index == 0 && style == Style::Bundle && self.is_bundle(word) {
                self.bundle(word, text);
            } else {
                if word.may_be_option() {
                    self.reading.uncertain = true;
                }
                self.reading.positionals.push(index);
                let enough = stop.is_some_and(|stop| self.reading.positionals.len() > stop);
                if style == Style::Posix || enough {
                    self.reading.positionals.extend(self.at..self.args.len());
                    break;
                }
            }
        }
        self.reading
    }

    fn flags(&self) -> impl Iterator<Item = &'static Flag> {
        self.specs.iter().flat_map(|spec| spec.flags.iter())
    }

    fn exact(&self, spelling: &str) -> Option<&'static Flag> {
        let own = self.specs.first().map_or(0, |spec| spec.flags.len());
        self.flags()
            .enumerate()
            .find(|(place, flag)| {
                // `docker -v` tells the version, `docker rm -v` does not.
                let inherited = *place >= own;
                flag.spellings.has(spelling) && !(inherited && flag.modifiers.has(Modifiers::INFO))
            })
            .map(|(_, flag)| flag)
    }

    fn operand(&mut self, word: &Given) -> bool {
        let Some((key, value)) = word.text.split_once('=') else {
            return false;
        };
        let Some(flag) = self.exact(key) else {
            return false;
        };
        let value = word.part(value);
        self.seen(flag, Some(value), word);
        true
    }

    fn long(&mut self, word: &Given) {
        let (name, value) = match word.text.split_once('=') {
            Some((name, value)) => (name, Some(word.part(value))),
            None => (word.text.as_str(), None),
        };
        let flag = self.exact(name).or_else(|| {
            // Behind a sub-command `--version` may take a value and mean something else.
            let asks = name == "--help" || (name == "--version" && self.specs.len() == 1);
            if asks {
                return Some(&INFORMATION);
            }
            // An abbreviation: of several candidates the gravest.
            self.flags()
                .filter(|flag| {
                    flag.spellings
                        .iter()
                        .any(|known| known.starts_with("--") && known.starts_with(name))
                })
                .max_by_key(|flag| flag.risk)
                .filter(|_| name.len() > 3)
        });
        let Some(flag) = flag else {
            self.reading.unknown.push(word.clone());
            return;
        };
        let value = match (value, flag.takes) {
            (None, Takes::Required) => self.next(),
            (value, _) => value,
        };
        self.seen(flag, value, word);
    }

    /// Reads a word with one dash; false when it is no option after all.
    fn short(&mut self, word: &Given, style: Style) -> bool {
        let text = word.text.as_str();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(word.part(value))),
            None => (text, None),
        };
        let whole = self.exact(name).or_else(|| match style {
            Style::Long => self.exact(name.trim_start_matches('-')).or_else(|| {
                let other = name.strip_prefix("--").map(|name| format!("-{name}"));
                other.and_then(|other| self.exact(&other))
            }),
            _ => None,
        });
        if let Some(flag) = whole
            && (name.len() > 2 || value.is_some() || style == Style::Long)
        {
            let value = match (value, flag.takes) {
                (None, Takes::Required) => self.next(),
                (value, _) => value,
            };
            self.seen(flag, value, word);
            return true;
        }
        if text.starts_with('+') {
            let known = self.exact("+").is_some();
            return known;
        }
        if text[1..].bytes().all(|b| b.is_ascii_digit())
            && let Some(flag) = self.exact("-#")
        {
            self.seen(flag, None, word);
            return true;
        }
        if style == Style::Long {
            if INFORMATION.spellings.has(name) || name == "-help" || name == "-version" {
                self.seen(&INFORMATION, None, word);
            } else {
                self.reading.unknown.push(word.clone());
            }
            return true;
        }
        self.bundle(word, &text[1..]);
        true
    }

    fn bundle(&mut self, word: &Given, letters: &str) {
        for (offset, letter) in letters.char_indices() {
            let mut buffer = [0; 5];
            let spelling = spell(letter, &mut buffer);
            let Some(flag) = self.exact(spelling) else {
                self.reading.unknown.push(word.clone());
                continue;
            };
            let rest = &letters[offset + letter.len_utf8()..];
            match flag.takes {
                Takes::None => self.seen(flag, None, word),
                Takes::Optional => {
                    let value = (!rest.is_empty()).then(|| word.part(rest));
                    self.seen(flag, value, word);
                    return;
                }
                Takes::Required => {
                    let value = if rest.is_empty() {
                        self.next()
                    } else {
                        Some(word.part(rest))
                    };
                    self.seen(flag, value, word);
                    return;
                }
            }
        }
    }

    fn is_bundle(&self, word: &Given) -> bool {
        let mut buffer = [0; 5];
        word.exact
            && !word.text.is_empty()
            && word
                .text
                .chars()
                .all(|letter| self.exact(spell(letter, &mut buffer)).is_some())
    }

    fn next(&mut self) -> Option<Given> {
        let value = self.args.get(self.at).cloned();
        self.at += 1;
        value
    }

    fn seen(&mut self, flag: &'static Flag, value: Option<Given>, word: &Given) {
        self.reading.modifiers = self.reading.modifiers.with(flag.modifiers);
        self.reading.flags.push(Seen {
            flag,
            value,
            word: word.clone(),
        });
    }
}

fn spell(letter: char, buffer: &mut [u8; 5]) -> &str {
    buffer[0] = b'-';
    let length = letter.encode_utf8(&mut buffer[1..]).len() + 1;
    std::str::from_utf8(&buffer[..length]).unwrap_or("-")
}

/// Where among the positionals a command begins, if one does.
fn command_position(args: &[Positional]) -> Option<usize> {
    args.iter()
        .position(|arg| matches!(arg.role, Role::Command))
}

/// Gives each positional its role: what follows a `Many` counts from the end.
pub(crate) fn roles(args: &[Positional], count: usize) -> Vec<Role> {
    let Some(many) = args.iter().position(|arg| arg.count == Count::Many) else {
        let optional = args
            .iter()
            .filter(|arg| arg.count == Count::Optional)
            .count();
        let mut spare = count.saturating_sub(args.len() - optional);
        let mut roles = Vec::with_capacity(count);
        for arg in args {
            if arg.count == Count::Optional {
                if spare == 0 {
                    continue;
                }
                spare -= 1;
            }
            roles.push(arg.role);
        }
        roles.resize(count, args.last().map_or(Role::Data, |arg| arg.role));
        return roles;
    };
    let (before, after) = (&args[..many], &args[many + 1..]);
    (0..count)
        .map(|index| {
            let from_end = count - index;
            if let Some(arg) = before.get(index) {
                arg.role
            } else if from_end <= after.len()
                && count > after.len().saturating_sub(1) + before.len()
            {
                after[after.len() - from_end].role
            } else {
                args[many].role
            }
        })
        .collect()
}

/// Whether a wildcard of the name stands for a word that only asks.
fn reads(name: &str, words: &[&Given]) -> bool {
    name.split(' ').zip(words).any(|(pattern, word)| {
        pattern == "*"
            && matches!(
                word.text.as_str(),
                "list" | "ls" | "get" | "show" | "info" | "status" | "describe" | "view" | "help"
            )
    })
}

/// The sub-command that an argument list names: its entry, and how many positionals name it.
pub(crate) fn sub_command(
    subs: &'static [Sub],
    words: &[&Given],
    args: &[Given],
) -> Option<(&'static Spec, usize)> {
    let mut best: Option<(&'static Spec, Fit)> = None;
    let initial = words.first()?.text.as_bytes().first();
    for sub in subs {
        for name in &sub.names {
            // Most are out at the first letter.
            let first = name.as_bytes().first();
            if first != initial && first != Some(&b'*') {
                continue;
            }
            let Some(fit) = matches(name, words, args) else {
                continue;
            };
            // `user *` is about changes: `user list` is not meant.
            if fit.stars > 0 && sub.spec.risk >= Risk::Dangerous && reads(name, words) {
                continue;
            }
            if best.is_none_or(|(_, other)| fit.is_closer_than(other)) {
                best = Some((&sub.spec, fit));
            }
        }
    }
    best.map(|(spec, fit)| (spec, fit.length))
}

/// How a name covers the words of a command.
#[derive(Clone, Copy, Default)]
struct Fit {
    /// So many words are covered.
    length: usize,
    /// So many options the name asks for besides: `remote -v`.
    options: usize,
    /// So many words are covered by wildcards.
    stars: usize,
}

impl Fit {
    fn is_closer_than(self, other: Fit) -> bool {
        let measure = |fit: Fit| (fit.length, fit.options, std::cmp::Reverse(fit.stars));
        measure(self) > measure(other)
    }
}

fn matches(pattern: &str, words: &[&Given], args: &[Given]) -> Option<Fit> {
    let mut fit = Fit::default();
    for part in pattern.split(' ') {
        if fit.length > 0 && part.starts_with('-') {
            args.iter().find(|arg| arg.exact && arg.text == part)?;
            fit.options += 1;
            continue;
        }
        let word = words.get(fit.length)?;
        if !word.exact {
            return None;
        }
        let hit = match (part.strip_suffix('*'), part.strip_prefix('*')) {
            (Some(""), _) => true,
            (Some(middle), Some(_)) => word.text.contains(middle.trim_start_matches('*')),
            (Some(start), _) => word.text.starts_with(start),
            (_, Some(end)) => word.text.ends_with(end),
            _ => part == word.text,
        };
        if !hit {
            return None;
        }
        fit.stars += usize::from(part.contains('*'));
        fit.length += 1;
    }
    Some(fit)
}
