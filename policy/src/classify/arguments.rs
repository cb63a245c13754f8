//! From the words of a script to the arguments a program gets.

use super::flow::Sources;
use super::given::Given;
use super::judge::Judge;
use super::state::State;
use crate::effect::Span;
use crate::shell::fold::{Completeness, Count, Environment, Field, Piece, Value};
use crate::shell::word::{Assignment, Operation, Part, PartKind, Word};

/// Stands for the output of a substitution that is only known when it runs.
pub(crate) const UNKNOWN_OUTPUT: &str = "$(…)";
/// Argument lists that the same words may become; more are not followed.
const MAX_LISTS: usize = 16;
/// Of a word with more parts than this, where the rest comes from is not asked.
const MAX_PARTS: usize = 16;

impl Judge<'_> {
    /// Every argument list that these words may become.
    pub(crate) fn arguments(&mut self, words: &[Word], state: &State) -> Vec<Vec<Given>> {
        let Some(positional) = &state.positional else {
            return self.segment(words, state);
        };
        let mut lists: Vec<Vec<Given>> = vec![Vec::new()];
        let mut rest = words;
        while !rest.is_empty() {
            let length = rest.iter().position(is_all_arguments).unwrap_or(rest.len());
            let (segment, after) = rest.split_at(length);
            if !segment.is_empty() {
                let ends = self.segment(segment, state);
                lists = lists
                    .iter()
                    .flat_map(|list| ends.iter().map(move |end| [list.as_slice(), end].concat()))
                    .take(MAX_LISTS)
                    .collect();
            }
            rest = match after.split_first() {
                Some((_, after)) => {
                    for list in &mut lists {
                        list.extend(positional.iter().cloned());
                    }
                    after
                }
                None => after,
            };
        }
        lists
    }

    fn segment(&self, words: &[Word], state: &State) -> Vec<Vec<Given>> {
        // Most commands hold nothing that a shell expands.
        let literal = |word: &Word| {
            let text = String::from_utf8_lossy(&word.literal()?).into_owned();
            Some(Given::known(text, self.span(word.span)))
        };
        if let Some(list) = words.iter().map(literal).collect() {
            return vec![list];
        }
        let lists = state.variables.argv(words);
        let whole = match (words.first(), words.last()) {
            (Some(first), Some(last)) => self.span(first.span.to(last.span)),
            _ => Span::default(),
        };
        // `for t in tests/*.sh; do "$t"; done`: files that are there, and no guess at a name.
        let named = words
            .first()
            .is_some_and(|word| goes_through(&word.parts, &state.variables));
        lists
            .into_iter()
            .take(MAX_LISTS)
            .map(|fields| {
                let one_to_one = fields.len() == words.len();
                fields
                    .iter()
                    .enumerate()
                    .flat_map(|(index, field)| {
                        let span = match words.get(index) {
                            Some(word) if one_to_one => self.span(word.span),
                            _ => whole,
                        };
                        let mut givens = self.givens(field, state, span);
                        if index == 0 && named {
                            let folder = state.cwd.path();
                            givens
                                .iter_mut()
                                .take(1)
                                .for_each(|name| name.found(folder));
                        }
                        if let Some(word) = words.get(index).filter(|_| one_to_one) {
                            for given in givens.iter_mut().filter(|given| !given.exact) {
                                given.from = given.from.with(self.tainted(&word.parts, state));
                            }
                        }
                        givens
                    })
                    .collect()
            })
            .collect()
    }

    /// A word where it is not split: a redirection's target, a here-document.
    pub(crate) fn one(&self, word: &Word, state: &State) -> Given {
        let value = state.variables.value(word);
        let span = self.span(word.span);
        match value.alternatives.first() {
            Some(pieces) => {
                let mut given = self.given(pieces, state, span);
                if !given.exact {
                    given.from = given.from.with(self.tainted(&word.parts, state));
                }
                if value.alternatives.len() > 1 {
                    given.exact = false;
                    given.from = given.from.with(Sources::UNKNOWN);
                }
                given
            }
            None => Given::unknown(span),
        }
    }

    /// Where the values come from that a word makes something of: `${x//a/b}`, `${list[0]}`.
    fn tainted(&self, parts: &[Part], state: &State) -> Sources {
        let strange = Sources::FOREIGN.with(Sources::HIDDEN);
        let mut from = Sources::NONE;
        for part in parts.iter().take(MAX_PARTS) {
            let one = match &part.kind {
                PartKind::Double(inner, _) => self.tainted(inner, state),
                PartKind::Parameter(parameter) => {
                    let known = state.taints.get(&parameter.name);
                    known.copied().unwrap_or_default()
                }
                PartKind::Command(..) => self
                    .output_of(part.span)
                    .map_or(Sources::NONE, |flow| flow.from),
                PartKind::Array(elements) => elements
                    .iter()
                    .take(MAX_PARTS)
                    .map(|element| self.tainted(&element.value.parts, state))
                    .fold(Sources::NONE, Sources::with),
                _ => Sources::NONE,
            };
            from = from.with(one.only(strange));
        }
        from
    }

    /// An assignment as `NAME=value`.
    pub(crate) fn assignment(&self, assignment: &Assignment, state: &mut State) -> Given {
        let value = self.one(&assignment.value, state);
        let name = String::from_utf8_lossy(&assignment.name).into_owned();
        state.taints.insert(assignment.name.clone(), value.from);
        Given {
            text: format!("{name}={}", value.text),
            span: self.span(assignment.span),
            ..value
        }
    }

    /// What a loop's variable may hold.
    pub(crate) fn loop_values(&self, words: &[Word], state: &State) -> Value {
        let mut value = Value {
            alternatives: Vec::new(),
            completeness: Completeness::Closed,
            lists: Vec::new(),
        };
        for list in state.variables.argv(words) {
            for field in list {
                let one = Value::of(field.pieces);
                value = value.or(&one);
                if field.count == Count::Any {
                    value.completeness = Completeness::Open;
                }
            }
        }
        value
    }

    fn givens(&self, field: &Field, state: &State, span: Span) -> Vec<Given> {
        let mut given = self.given(&field.pieces, state, span);
        if field.count == Count::Any {
            if given.exact {
                return given
                    .text
                    .split_ascii_whitespace()
                    .map(|text| Given {
                        glob: text.contains(['*', '?', '[']),
                        ..given.part(text)
                    })
                    .collect();
            }
            given.many = true;
        }
        vec![given]
    }

    fn given(&self, pieces: &[Piece], state: &State, span: Span) -> Given {
        let mut given = Given {
            exact: true,
            span,
            ..Given::default()
        };
        for piece in pieces {
            match piece {
                Piece::Text(text) => given.text.push_str(&String::from_utf8_lossy(text)),
                Piece::Glob(byte) => {
                    given.text.push(char::from(*byte));
                    given.glob = true;
                }
                Piece::Tilde(name) => self.tilde(name, state, &mut given),
                Piece::Variable(name) => self.variable(name, state, &mut given),
                Piece::Output(place) => self.output(*place, &mut given),
                Piece::Found(_) | Piece::Unknown => {
                    given.text.push_str(UNKNOWN);
                    given.exact = false;
                    given.from = given.from.with(Sources::UNKNOWN);
                }
            }
        }
        if given.glob {
            given.exact = false;
        }
        given.sought = sought(&given.text, pieces);
        if let [Piece::Variable(_), Piece::Text(rest)] = pieces
            && rest.starts_with(b"-")
        {
            // An unset variable is nothing: `rm$IFS$9-rf` is `rm -rf`.
            given.text = String::from_utf8_lossy(rest).into_owned();
        }
        given
    }

    fn tilde(&self, name: &[u8], state: &State, given: &mut Given) {
        let name = String::from_utf8_lossy(name);
        match name.as_ref() {
            "" => given.text.push_str(&self.context.home),
            "+" if state.cwd.path().is_some() => {
                given.text.push_str(state.cwd.path().unwrap_or_default());
            }
            "root" => given.text.push_str("/root"),
            "+" | "-" => {
                given.text.push_str("$PWD");
                given.exact = false;
            }
            user => {
                given.text.push_str("/home/");
                given.text.push_str(user);
            }
        }
    }

    fn variable(&self, name: &[u8], state: &State, given: &mut Given) {
        let name_text = String::from_utf8_lossy(name);
        let untouched = state.variables.get(name).is_none();
        let known = match name_text.as_ref() {
            "HOME" if untouched => Some(self.context.home.as_str()),
            "USER" | "LOGNAME" if untouched => Some(self.context.user.as_str()),
            "PWD" if untouched => state.cwd.path(),
            "TMPDIR" if untouched => Some("/tmp"),
            "SHELL" if untouched => Some("/bin/bash"),
            _ => None,
        };
        if let Some(known) = known {
            given.text.push_str(known);
            if name_text == "TMPDIR" {
                given.from = given.from.with(Sources::SCRATCH);
            }
            return;
        }
        given.text.push('$');
        given.text.push_str(&name_text);
        given.exact = false;
        let mut from = state.taints.get(name).copied().unwrap_or(Sources::UNKNOWN);
        if sounds_secret(&name_text) {
            from = from.with(Sources::SECRET);
        }
        given.from = given.from.with(from.with(Sources::UNKNOWN));
    }

    fn output(&self, place: crate::shell::Span, given: &mut Given) {
        if let Some(flow) = self.process_of(place) {
            given.text.push_str("/dev/fd/63");
            given.content = Some(Box::new(flow.clone()));
            return;
        }
        let Some(flow) = self.output_of(place) else {
            given.text.push_str(UNKNOWN_OUTPUT);
            given.exact = false;
            given.from = given.from.with(Sources::UNKNOWN);
            return;
        };
        given.from = given.from.with(flow.from);
        match flow.substituted() {
            Some(text) => given.text.push_str(text),
            None => {
                given.text.push_str(UNKNOWN_OUTPUT);
                given.exact = false;
            }
        }
    }
}

/// `"$@"` or `$@` alone.
fn is_all_arguments(word: &Word) -> bool {
    let [part] = word.parts.as_slice() else {
        return false;
    };
    match &part.kind {
        PartKind::Double(inner, _) => {
            matches!(inner.as_slice(), [part] if is_at(part))
        }
        _ => is_at(part),
    }
}

fn is_at(part: &Part) -> bool {
    matches!(&part.kind, PartKind::Parameter(parameter)
        if parameter.name == b"@" && parameter.operation == Operation::Value)
}

/// Whether the wildcards of a word are all those of a loop that went through what they found.
fn goes_through(parts: &[Part], variables: &Environment) -> bool {
    let is_wildcard = |byte: &u8| matches!(byte, b'*' | b'?' | b'[');
    let in_text = |piece: &Piece| match piece {
        Piece::Text(text) => text.iter().any(is_wildcard),
        _ => false,
    };
    parts.iter().all(|part| match &part.kind {
        PartKind::Plain(_) | PartKind::Quoted(_) => true,
        PartKind::Double(inner, _) => goes_through(inner, variables),
        PartKind::Parameter(parameter) => variables
            .get(&parameter.name)
            .is_some_and(|value| !value.alternatives.iter().flatten().any(in_text)),
        _ => false,
    })
}

/// Whether a variable's name says that its value is a secret.
pub(crate) fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    [
        "SECRET",
        "TOKEN",
        "PASSWORD",
        "PASSWD",
        "API_KEY",
        "APIKEY",
        "PRIVATE_KEY",
        "ACCESS_KEY",
    ]
    .iter()
    .any(|part| name.contains(part))
}

/// How a word shows what is not known of it.
const UNKNOWN: &str = "${…}";

/// A word with its patterns put where they stand, if nothing else of it is unknown.
fn sought(text: &str, pieces: &[Piece]) -> Option<String> {
    let mut patterns = pieces.iter().filter_map(|piece| match piece {
        Piece::Found(pattern) => Some(String::from_utf8_lossy(pattern)),
        _ => None,
    });
    let mut known = text.split(UNKNOWN);
    let mut sought = known.next()?.to_owned();
    let mut is_any = false;
    for part in known {
        is_any = true;
        sought.push_str(&patterns.next()?);
        sought.push_str(part);
    }
    (is_any && patterns.next().is_none()).then_some(sought)
}
