//! The same option in its many spellings: `-rf`, `-fr`, `-r -f`, `--recursive --force`,
//! `--recurs`.

use crate::classify::Arg;
use crate::command::knowledge::{self, Flag, Spec, Style, Takes};

/// The arguments of a command, told apart.
#[derive(Debug, Default)]
pub(super) struct Arguments<'a> {
    /// Every option, each in all its spellings.
    options: Vec<Given<'a>>,
    /// What is no option, in order.
    pub positionals: Vec<&'a Arg>,
    /// Some argument is only known when the command runs; it may be any option.
    pub unsure: bool,
    /// The first positional is a sub-command.
    pub has_subcommands: bool,
}

#[derive(Debug)]
struct Given<'a> {
    /// As typed: `-r` out of `-rf`, `--force` out of `--force=x`.
    typed: String,
    /// All spellings that mean the same, the typed one included where it is known.
    known: Vec<&'static str>,
    value: Option<Value<'a>>,
}

#[derive(Debug)]
enum Value<'a> {
    Attached(&'a str),
    Next(&'a Arg),
}

impl<'a> Arguments<'a> {
    /// Tells the arguments of a program apart, the program's own name left out.
    pub fn read(program: &str, args: &'a [Arg]) -> Self {
        let spec = knowledge::program(program);
        let mut read = Arguments {
            has_subcommands: spec.is_some_and(|spec| !spec.subs.is_empty()),
            ..Self::default()
        };
        let mut specs: Vec<&'static Spec> = spec.into_iter().collect();
        let style = spec.map_or(Style::Gnu, |spec| spec.style);
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            read.unsure |= may_be_option(arg);
            let text = arg.text.as_str();
            if text == "--" {
                read.positionals.extend(rest.by_ref());
                break;
            }
            let option = text.len() > 1 && text.starts_with('-') && style != Style::None;
            if !option {
                if let Some(sub) = read
                    .positionals
                    .is_empty()
                    .then(|| subcommand(spec, text))
                    .flatten()
                {
                    specs.push(sub);
                }
                read.positionals.push(arg);
                continue;
            }
            if read.take_option(text, &specs, style) == Takes::Required {
                let value = rest.next();
                if let (Some(given), Some(value)) = (read.options.last_mut(), value) {
                    given.value = Some(Value::Next(value));
                }
            }
        }
        read
    }

    /// Records one word of options; says whether the next word is the value of its last one.
    fn take_option(&mut self, text: &'a str, specs: &[&'static Spec], style: Style) -> Takes {
        if text.starts_with("--") || style == Style::Long {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(Value::Attached(value))),
                None => (text, None),
            };
            let flags = long_flags(name, specs);
            let takes = match flags.first() {
                Some(flag) if value.is_none() => flag.takes,
                _ => Takes::None,
            };
            let known = flags.iter().copied().flat_map(spellings).collect();
            self.options.push(Given {
                typed: name.to_owned(),
                known,
                value,
            });
            return takes;
        }
        // The whole word may be one option with a single dash (`-exec`, `-name`).
        if let Some(flag) = exact_flag(text, specs) {
            self.options.push(Given {
                typed: text.to_owned(),
                known: spellings(flag),
                value: None,
            });
            return flag.takes;
        }
        let cluster = text.get(1..).unwrap_or_default();
        for (at, letter) in cluster.char_indices() {
            let typed = format!("-{letter}");
            let flag = exact_flag(&typed, specs);
            let known = flag.map_or_else(Vec::new, spellings);
            let after = cluster.get(at + letter.len_utf8()..).unwrap_or_default();
            let takes = flag.map_or(Takes::None, |flag| flag.takes);
            let ends = takes != Takes::None;
            let value = (ends && !after.is_empty()).then_some(Value::Attached(after));
            let wants_next = takes == Takes::Required && value.is_none();
            self.options.push(Given {
                typed,
                known,
                value,
            });
            if ends {
                return if wants_next {
                    Takes::Required
                } else {
                    Takes::None
                };
            }
        }
        Takes::None
    }

    /// Whether an option of a pattern is among those given, in whatever spelling; `-rf` in a
    /// pattern stands for both letters.
    pub fn has(&self, wanted: &str) -> bool {
        let (name, value) = match wanted.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (wanted, None),
        };
        if self.has_one(name, value) {
            return true;
        }
        let cluster = name
            .strip_prefix('-')
            .filter(|letters| !letters.starts_with('-') && letters.len() > 1);
        cluster.is_some_and(|letters| {
            letters
                .chars()
                .all(|letter| self.has_one(&format!("-{letter}"), None))
        })
    }

    fn has_one(&self, name: &str, value: Option<&str>) -> bool {
        self.options.iter().any(|given| {
            let named = given.typed == name
                || given.known.contains(&name)
                // An abbreviation, of a program whose options are not known.
                || (given.known.is_empty()
                    && given.typed.len() > 4
                    && given.typed.starts_with("--")
                    && name.starts_with(&given.typed));
            named
                && match (value, &given.value) {
                    (None, _) => true,
                    (Some(wanted), Some(Value::Attached(text))) => {
                        super::command::glob(wanted, text)
                    }
                    (Some(wanted), Some(Value::Next(arg))) => {
                        super::command::glob(wanted, &arg.text)
                    }
                    (Some(_), None) => false,
                }
        })
    }

    /// The values of options, as words that a pattern may also mean.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.options.iter().filter_map(|given| match &given.value {
            Some(Value::Attached(text)) => Some(*text),
            Some(Value::Next(arg)) => Some(arg.text.as_str()),
            None => None,
        })
    }
}

/// Whether an argument that is not fully known may turn out to be an option: one whose first
/// character is unknown, or a dash.
fn may_be_option(arg: &Arg) -> bool {
    !arg.exact && matches!(known_start(&arg.text), "" | "-" | "--")
}

/// The part of an argument before anything that is only known when the command runs.
pub(super) fn known_start(text: &str) -> &str {
    let end = text
        .find(['$', '`', '*', '?', '[', '{', '~'])
        .unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

fn subcommand(spec: Option<&'static Spec>, word: &str) -> Option<&'static Spec> {
    let subs = spec?.subs.get();
    let named = |sub: &&knowledge::Sub| {
        sub.names
            .iter()
            .any(|name| name.split(' ').next() == Some(word))
    };
    subs.iter().find(named).map(|sub| &sub.spec)
}

fn spellings(flag: &Flag) -> Vec<&'static str> {
    flag.spellings.iter().map(|known| known.get()).collect()
}

fn exact_flag(text: &str, specs: &[&'static Spec]) -> Option<&'static Flag> {
    specs
        .iter()
        .rev()
        .flat_map(|spec| &spec.flags)
        .find(|flag| flag.spellings.has(text))
}

/// The flags that a long option can mean: exactly, or as an abbreviation.
fn long_flags(name: &str, specs: &[&'static Spec]) -> Vec<&'static Flag> {
    if let Some(flag) = exact_flag(name, specs) {
        return vec![flag];
    }
    if name.len() < 4 {
        return Vec::new();
    }
    let abbreviated = |flag: &&'static Flag| {
        flag.spellings
            .iter()
            .any(|spelling| spelling.starts_with(name))
    };
    specs
        .iter()
        .rev()
        .flat_map(|spec| &spec.flags)
        .filter(abbreviated)
        .collect()
}
