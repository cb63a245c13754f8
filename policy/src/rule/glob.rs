//! What the shell could find for a name with wildcards, held against the name in a rule, which
//! can have some of its own: whether both can stand for the same file.
//!
//! The shell's pattern becomes a small machine. That and the rule are gone through together,
//! and each pair of places is visited once: the time grows with the product of the two lengths,
//! whatever is in them.

use std::collections::HashSet;

use super::path::Case;

/// What the shell takes for more than itself.
const WILD: [char; 3] = ['*', '?', '['];
/// What stands before a list of alternatives.
const GROUPS: [char; 5] = ['@', '?', '*', '+', '!'];
/// No file's name is so long, and no honest pattern: it could be anything.
const LONGEST: usize = 1 << 10;
/// Alternatives in alternatives; what is deeper could be anything.
const DEEPEST: usize = 8;

/// One name in a rule.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// As it stands.
    Exactly(&'a [u8]),
    /// With `*` and `?`.
    Pattern(&'a [u8]),
}

/// Whether a name that begins with a dot is found only for a pattern that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dots {
    /// As shells begin.
    Hide,
    /// As they can be told to.
    Show,
}

/// How names are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct How {
    pub(super) case: Case,
    pub(super) dots: Dots,
}

/// Whether the pattern must spell out some of what the rule spells out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelled {
    /// Not at all.
    Free,
    /// Where the rule has wildcards, too: `a*` finds a `*.pem` at most by chance.
    WhereWild,
    /// In any case.
    Needed,
}

/// Whether the shell could find, for this pattern, a file that the rule's name is for.
pub(super) fn could_be(glob: &[u8], wanted: Wanted<'_>, spelled: Spelled, how: How) -> bool {
    let How { case, dots } = how;
    if !is_wild(glob) {
        return false;
    }
    let glob = folded(glob, case);
    let rule = rule(wanted, case);
    let is_wild = rule.iter().any(|part| !matches!(part, Part::Literal(_)));
    let is_told = match spelled {
        Spelled::Free => true,
        Spelled::WhereWild => !is_wild,
        Spelled::Needed => false,
    };
    glob.len() > LONGEST || Machine::of(&glob).meets(&rule, is_told, dots)
}

/// Whether the shell takes something in a name for more than itself.
pub(super) fn is_wild(name: &[u8]) -> bool {
    let is_group = |pair: &[u8]| GROUPS.contains(&char::from(pair[0])) && pair[1] == b'(';
    name.iter().any(|byte| WILD.contains(&char::from(*byte))) || name.windows(2).any(is_group)
}

fn folded(name: &[u8], case: Case) -> Vec<char> {
    let text = String::from_utf8_lossy(name);
    let fold = |c: char| match case {
        Case::Exact => c,
        Case::Folded => c.to_ascii_lowercase(),
    };
    text.chars().map(fold).collect()
}

/// A part of the rule's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Literal(char),
    One,
    Any,
}

fn rule(wanted: Wanted<'_>, case: Case) -> Vec<Part> {
    let part = |c: char| match (wanted, c) {
        (Wanted::Pattern(_), '*') => Part::Any,
        (Wanted::Pattern(_), '?') => Part::One,
        _ => Part::Literal(c),
    };
    let (Wanted::Exactly(name) | Wanted::Pattern(name)) = wanted;
    folded(name, case).into_iter().map(part).collect()
}

/// One step in a name that the shell finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// This character.
    Literal(char),
    /// One of some.
    Class,
    /// Any one.
    One,
}

/// The shell's pattern. From each place steps lead on, or ways without one.
#[derive(Debug, Default)]
struct Machine {
    steps: Vec<Vec<(Step, usize)>>,
    ways: Vec<Vec<usize>>,
    end: usize,
}

impl Machine {
    fn of(glob: &[char]) -> Machine {
        let mut machine = Machine::default();
        let begin = machine.place();
        machine.end = machine.pattern(glob, begin, 0);
        machine
    }

    fn place(&mut self) -> usize {
        self.steps.push(Vec::new());
        self.ways.push(Vec::new());
        self.steps.len() - 1
    }

    fn step(&mut self, from: usize, step: Step, to: usize) {
        if let Some(steps) = self.steps.get_mut(from) {
            steps.push((step, to));
        }
    }

    fn way(&mut self, from: usize, to: usize) {
        if let Some(ways) = self.ways.get_mut(from) {
            ways.push(to);
        }
    }

    /// Puts a pattern behind a place; gives the place behind it.
    fn pattern(&mut self, glob: &[char], from: usize, depth: usize) -> usize {
        let mut at = from;
        let mut rest = glob;
        while let Some((first, after)) = rest.split_first() {
            let group = match after {
                ['(', inner @ ..] if GROUPS.contains(first) => alternatives(inner),
                _ => None,
            };
            if let Some((inner, behind)) = group {
                at = self.group(*first, &inner, at, depth);
                rest = behind;
                continue;
            }
            let (step, behind) = match first {
                '*' => {
                    at = self.anything(at);
                    rest = after;
                    continue;
                }
                '?' => (Step::One, after),
                '[' => match behind_class(after) {
                    Some(behind) => (Step::Class, behind),
                    None => (Step::Literal('['), after),
                },
                c => (Step::Literal(*c), after),
            };
            let next = self.place();
            self.step(at, step, next);
            (at, rest) = (next, behind);
        }
        at
    }

    /// Whatever it is, also nothing.
    fn anything(&mut self, from: usize) -> usize {
        let next = self.place();
        self.way(from, next);
        self.step(next, Step::One, next);
        next
    }

    fn group(&mut self, operator: char, inner: &[&[char]], from: usize, depth: usize) -> usize {
        if operator == '!' || depth == DEEPEST {
            // It finds what begins with a dot, too, where it says so.
            let next = self.anything(from);
            self.step(from, Step::Literal('.'), next);
            return next;
        }
        let (begin, end) = (self.place(), self.place());
        self.way(from, begin);
        for alternative in inner {
            let to = self.pattern(alternative, begin, depth + 1);
            self.way(to, end);
        }
        if matches!(operator, '?' | '*') {
            self.way(begin, end);
        }
        if matches!(operator, '*' | '+') {
            self.way(end, begin);
        }
        end
    }

    /// Whether one name is for both.
    fn meets(&self, rule: &[Part], is_told: bool, dots: Dots) -> bool {
        // A name that begins with a dot the shell finds only where the pattern does.
        let is_hidden = dots == Dots::Hide && rule.first() == Some(&Part::Literal('.'));
        let mut open = vec![(0, 0, is_told)];
        let mut seen = HashSet::new();
        while let Some(state @ (at, place, is_told)) = open.pop() {
            if !seen.insert(state) {
                continue;
            }
            let part = rule.get(at);
            if part.is_none() && place == self.end && is_told {
                return true;
            }
            let ways = self.ways.get(place).into_iter().flatten();
            open.extend(ways.map(|to| (at, *to, is_told)));
            let Some(part) = part else { continue };
            if *part == Part::Any {
                open.push((at + 1, place, is_told));
            }
            for (step, to) in self.steps.get(place).into_iter().flatten() {
                let fits = match (part, step) {
                    (Part::Literal('.'), step) if at == 0 && is_hidden => {
                        *step == Step::Literal('.')
                    }
                    (Part::Literal(one), Step::Literal(other)) => one == other,
                    _ => true,
                };
                if fits {
                    let is_literal = matches!(part, Part::Literal(_)) && *step != Step::One;
                    let next = at + usize::from(*part != Part::Any);
                    open.push((next, *to, is_told || is_literal));
                }
            }
        }
        false
    }
}

/// What comes behind a class of characters, whose `[` is gone already; nothing, if it has no
/// end: then it is none.
fn behind_class(rest: &[char]) -> Option<&[char]> {
    let mut rest = match rest {
        ['!' | '^', rest @ ..] => rest,
        rest => rest,
    };
    let mut is_first = true;
    loop {
        rest = match rest {
            [] => return None,
            [']', behind @ ..] if !is_first => return Some(behind),
            ['\\', _, behind @ ..] => behind,
            ['[', kind @ (':' | '.' | '='), inner @ ..] => {
                behind_named(inner, *kind).unwrap_or(inner)
            }
            [_, behind @ ..] => behind,
        };
        is_first = false;
    }
}

/// What comes behind `[:alpha:]` and its like, which can stand within a class.
fn behind_named(inner: &[char], kind: char) -> Option<&[char]> {
    let end = inner.windows(2).position(|pair| pair == [kind, ']'])?;
    inner.get(end + 2..)
}

/// The alternatives of a group, whose `(` is gone already, and what comes behind it.
fn alternatives(rest: &[char]) -> Option<(Vec<&[char]>, &[char])> {
    let (mut found, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, c) in rest.iter().enumerate() {
        match c {
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            '|' if depth == 0 => {
                found.push(rest.get(begin..at)?);
                begin = at + 1;
            }
            ')' => {
                found.push(rest.get(begin..at)?);
                return Some((found, rest.get(at + 1..)?));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDED: How = How {
        case: Case::Folded,
        dots: Dots::Hide,
    };

    fn could(glob: &str, wanted: &str) -> bool {
        could_be(
            glob.as_bytes(),
            Wanted::Pattern(wanted.as_bytes()),
            Spelled::WhereWild,
            FOLDED,
        )
    }

    #[test]
    fn what_the_shell_finds_for_a_pattern() {
        for glob in [
            ".e*",
            ".[e]nv",
            ".[[:alpha:]]nv",
            ".[![:digit:]]nv",
            ".[]e]nv",
            ".[!]x]nv",
            ".[[.e.]]nv",
            ".[\\]e]nv",
            ".[[=e=]x]nv",
            "@(.env|x)",
            ".e?(n)v",
            ".e+(n|x)v",
            ".e*(n)v",
            ".@(env)",
            ".!(x)",
            "!(x)",
            ".@(x|e?(n))v",
            ".???",
            ".*",
            ".*n*",
            ".E*",
        ] {
            assert!(could(glob, ".env"), "{glob}");
        }
        for glob in [
            "*", "?env", "[.]env", "*env", ".x*", ".e[n", ".env", ".[e]nvx", "@(env|x)",
            ".e@(n)vx", "@(x|y)", ".e?(n)", ".????", "",
        ] {
            assert!(!could(glob, ".env"), "{glob}");
        }
    }

    #[test]
    fn where_both_have_wildcards_something_must_be_spelled() {
        for (glob, wanted, expected) in [
            ("*.pe?", "*.pem", true),
            ("*.p*", "*.pem", true),
            ("a*.[p]em", "*.pem", true),
            ("id_*", "id_?sa", true),
            ("*.@(pem|key)", "*.pem", true),
            ("*.@(js|ts)", "*.pem", false),
            ("*", "*.pem", false),
            ("a*", "*.pem", false),
            ("????", "*.pem", false),
            ("*.rs", "*.env*", false),
            (".*", ".env*", true),
        ] {
            assert_eq!(could(glob, wanted), expected, "{glob} {wanted}");
        }
        let exact = |name: &str| {
            could_be(
                b"a*",
                Wanted::Exactly(name.as_bytes()),
                Spelled::Free,
                How {
                    case: Case::Exact,
                    dots: Dots::Hide,
                },
            )
        };
        assert!(exact("a*b") && exact("ab") && !exact("A"));
    }

    /// Each of these takes more than the age of the world, if every way is tried by itself.
    #[test]
    fn hostile_patterns_take_no_time() {
        let started = std::time::Instant::now();
        let stars = "*a".repeat(500);
        let nested = format!("{}x{}", "*(".repeat(300), ")".repeat(300));
        let forks = "@(a|aa|a?|*)".repeat(80);
        for glob in [&stars, &nested, &forks] {
            for wanted in [
                "a".repeat(200) + "b",
                "*a".repeat(100) + "b",
                "*a*a*a*a?b".to_owned(),
            ] {
                could(glob, &wanted);
            }
        }
        // No file's name is so long.
        assert!(could(&"*a".repeat(5000), "b"));
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }
}
