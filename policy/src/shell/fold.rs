//! Constant folding: what a word will be, as far as that is provable.
//!
//! An [`Environment`] knows the values that the script itself gave to its variables, as
//! alternatives where branches differ. [`Environment::argv`] turns words into the
//! argument lists the shell would build: braces expanded, known values inserted and
//! split, everything else left as [`Piece`]s that say what is unknown.

mod array;
mod builder;

use std::cell::Cell;
use std::collections::HashMap;

use super::ast::Span;
use super::word::{Assignment, AssignmentMode, PartKind, Word};
use builder::{Builder, Splitting};

/// One argument, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Field {
    /// What it is made of, in order. Neighbouring texts are merged.
    pub pieces: Vec<Piece>,
    /// Whether it is exactly one argument.
    pub count: Count,
}

/// How many arguments a [`Field`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Count {
    /// Exactly one (a glob without a match stays as it is; one with matches may be many).
    #[default]
    One,
    /// None, one or several: an unquoted unknown value.
    Any,
}

/// A piece of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Known text.
    Text(Vec<u8>),
    /// An active `*`, `?` or `[`.
    Glob(u8),
    /// A tilde with the name behind it.
    Tilde(Vec<u8>),
    /// The plain value of a variable the script did not set.
    Variable(Vec<u8>),
    /// The output of the command substitution at this place, or the file name of a
    /// process substitution.
    Output(Span),
    /// An active pattern with alternatives, as the shell reads it: `@(a|b)`.
    Found(Vec<u8>),
    /// Anything else.
    Unknown,
}

impl Field {
    /// A known argument.
    pub fn known(text: &[u8]) -> Field {
        Field {
            pieces: vec![Piece::Text(text.to_vec())],
            count: Count::One,
        }
    }

    /// The argument, if it is wholly known.
    pub fn literal(&self) -> Option<&[u8]> {
        match (self.count, self.pieces.as_slice()) {
            (Count::One, []) => Some(b""),
            (Count::One, [Piece::Text(text)]) => Some(text),
            _ => None,
        }
    }

    /// The text it surely begins with.
    pub fn prefix(&self) -> &[u8] {
        match self.pieces.first() {
            Some(Piece::Text(text)) => text,
            _ => b"",
        }
    }

    fn push(&mut self, piece: Piece) {
        match (self.pieces.last_mut(), &piece) {
            (Some(Piece::Text(last)), Piece::Text(text)) => last.extend_from_slice(text),
            // Anything behind anything is anything.
            (Some(Piece::Unknown), Piece::Unknown) => {}
            _ => self.pieces.push(piece),
        }
    }
}

/// What a variable may hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Value {
    /// Each value the script may have given it.
    pub alternatives: Vec<Vec<Piece>>,
    /// Whether it may hold something else, too.
    pub completeness: Completeness,
    /// If it is an array, each list of elements the script may have given it; none where
    /// that is not known.
    pub lists: Vec<Vec<Field>>,
}

/// Whether a set of alternatives is all there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Completeness {
    /// One of the alternatives, surely.
    Closed,
    /// Perhaps something else.
    #[default]
    Open,
}

impl Value {
    /// A single known text.
    pub fn known(text: &[u8]) -> Value {
        Value::of(vec![Piece::Text(text.to_vec())])
    }

    /// A single value made of pieces.
    pub fn of(pieces: Vec<Piece>) -> Value {
        Value {
            alternatives: vec![pieces],
            completeness: Completeness::Closed,
            lists: Vec::new(),
        }
    }

    /// Nothing is known.
    pub fn unknown() -> Value {
        Value::default()
    }

    /// The text, if there is only one possibility and it is wholly known.
    pub fn literal(&self) -> Option<&[u8]> {
        match (self.completeness, self.alternatives.as_slice()) {
            (Completeness::Closed, [pieces]) => match pieces.as_slice() {
                [] => Some(b""),
                [Piece::Text(text)] => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    /// Either of the two.
    pub fn or(mut self, other: &Value) -> Value {
        for pieces in &other.alternatives {
            if self.alternatives.contains(pieces) {
                continue;
            }
            if self.alternatives.len() >= MAX_ALTERNATIVES {
                self.completeness = Completeness::Open;
                break;
            }
            self.alternatives.push(pieces.clone());
        }
        self.join_lists(&other.lists);
        if other.completeness == Completeness::Open {
            self.completeness = Completeness::Open;
        }
        self
    }
}

/// More alternatives than this for one variable, or one argument list, are not followed.
const MAX_ALTERNATIVES: usize = 8;
/// A value longer than this is not followed.
const MAX_VALUE: usize = 4096;
/// More arguments than this from one command's braces are not followed.
const MAX_FIELDS: usize = 1024;
/// All values inserted by one environment together; beyond it nothing is followed.
const MAX_INSERTED: usize = 1 << 18;

/// The variables a script has set so far.
///
/// For branches: remember [`Environment::mark`] before, call [`Environment::undo`] after
/// each, then [`Environment::join`] with all of them.
#[derive(Debug)]
pub struct Environment {
    variables: HashMap<Vec<u8>, Value>,
    log: Vec<(Vec<u8>, Option<Value>)>,
    inserted: Cell<usize>,
}

/// What one branch did to the variables.
pub type Changes = HashMap<Vec<u8>, Value>;

impl Default for Environment {
    fn default() -> Self {
        Environment {
            // A shell does not take IFS from its environment.
            variables: HashMap::from([(b"IFS".to_vec(), Value::known(b" \t\n"))]),
            log: Vec::new(),
            inserted: Cell::new(0),
        }
    }
}

impl Environment {
    /// What a variable may hold now; `None` if the script did not touch it.
    pub fn get(&self, name: &[u8]) -> Option<&Value> {
        self.variables.get(name)
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &[u8], value: Value) {
        if let Some(at) = name.iter().position(|byte| *byte == b'[') {
            // One element: of its array, nothing is known any more.
            self.set(&name[..at], Value::unknown());
        }
        let old = self.variables.insert(name.to_vec(), value);
        self.log.push((name.to_vec(), old));
    }

    /// Forgets what every variable holds: after an `eval` or `source` of unknown text.
    pub fn forget(&mut self) {
        let names: Vec<_> = self.variables.keys().cloned().collect();
        for name in names {
            self.set(&name, Value::unknown());
        }
    }

    /// Performs an assignment.
    pub fn assign(&mut self, assignment: &Assignment) {
        let array = match assignment.value.parts.as_slice() {
            [part] => match &part.kind {
                PartKind::Array(elements) => Some(elements),
                _ => None,
            },
            _ => None,
        };
        let value = match (&assignment.subscript, assignment.mode) {
            (Some(subscript), mode) => {
                self.with_element(&assignment.name, subscript, mode, &assignment.value)
            }
            (None, AssignmentMode::Set) if array.is_some() => {
                self.array(array.map_or(&[], Vec::as_slice))
            }
            (None, AssignmentMode::Append) if array.is_some() => {
                let more = self.array(array.map_or(&[], Vec::as_slice));
                self.appended(&assignment.name, &more)
            }
            (None, AssignmentMode::Set) => self.value(&assignment.value),
            (None, AssignmentMode::Append) => {
                let (old, new) = (self.get(&assignment.name), self.value(&assignment.value));
                match old.and_then(Value::literal).zip(new.literal()) {
                    Some((old, new)) if old.len() + new.len() <= MAX_VALUE => {
                        Value::known(&[old, new].concat())
                    }
                    _ => Value::unknown(),
                }
            }
        };
        self.set(&assignment.name, value);
    }

    /// A point to come back to.
    pub fn mark(&self) -> usize {
        self.log.len()
    }

    /// Takes back everything since the mark and says what it was.
    pub fn undo(&mut self, mark: usize) -> Changes {
        let mut changes = Changes::new();
        while self.log.len() > mark {
            let Some((name, old)) = self.log.pop() else {
                break;
            };
            let new = match old {
                Some(old) => self.variables.insert(name.clone(), old),
                None => self.variables.remove(&name),
            };
            if let Some(new) = new {
                changes.entry(name).or_insert(new);
            }
        }
        changes
    }

    /// Any one of the branches was taken.
    pub fn join(&mut self, branches: &[Changes]) {
        let mut joined: Changes = HashMap::new();
        for (name, _) in branches.iter().flatten() {
            if joined.contains_key(name) {
                continue;
            }
            let before = || self.get(name).cloned().unwrap_or_default();
            let value = branches
                .iter()
                .map(|branch| branch.get(name).cloned().unwrap_or_else(before))
                .reduce(|one, other| one.or(&other))
                .unwrap_or_default();
            joined.insert(name.clone(), value);
        }
        for (name, value) in joined {
            self.set(&name, value);
        }
    }

    /// What a word holds where it is not split: an assignment's value, a redirection's
    /// target, a `case` subject, a here-document.
    pub fn value(&self, word: &Word) -> Value {
        let mut builder = Builder::new(self, Splitting::Never);
        builder.word(&word.parts);
        let mut alternatives: Vec<Vec<Piece>> = Vec::new();
        let mut completeness = Completeness::Closed;
        for mut state in builder.states {
            state.finish();
            let pieces = match state.fields.len() {
                0 => Vec::new(),
                1 => state.fields.swap_remove(0).pieces,
                _ => vec![Piece::Unknown],
            };
            let is_unknown = |piece: &Piece| matches!(piece, Piece::Unknown | Piece::Found(_));
            if pieces.iter().any(is_unknown) {
                completeness = Completeness::Open;
            }
            if !alternatives.contains(&pieces) {
                alternatives.push(pieces);
            }
        }
        Value {
            alternatives,
            completeness,
            lists: Vec::new(),
        }
    }

    /// Whether this much more may still be inserted.
    fn spend(&self, amount: usize) -> bool {
        let inserted = self.inserted.get().saturating_add(amount);
        self.inserted.set(inserted);
        inserted <= MAX_INSERTED
    }

    /// Every argument list that these words may become.
    pub fn argv<'w>(&self, words: impl IntoIterator<Item = &'w Word>) -> Vec<Vec<Field>> {
        let mut builder = Builder::new(self, Splitting::Words);
        for word in words {
            if !super::braces::has_braces(word) {
                builder.word(&word.parts);
                builder.end_field();
                continue;
            }
            let expanded = super::braces::expand(word, MAX_FIELDS).filter(|words| {
                words.len() == 1 || self.spend(words.len() * word.parts.len() * 16)
            });
            match expanded {
                Some(words) => {
                    for parts in &words {
                        builder.word(parts);
                        builder.end_field();
                    }
                }
                None => builder.unknown_words(),
            }
        }
        builder
            .states
            .into_iter()
            .map(|state| state.fields)
            .collect()
    }
}
