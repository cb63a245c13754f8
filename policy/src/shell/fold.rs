//! Constant folding: what a word will be, as far as that is provable.
//!
//! An [`Environment`] knows the values that the script itself gave to its variables, as
//! alternatives where branches differ. [`Environment::argv`] turns words into the
//! argument lists the shell would build: braces expanded, known values inserted and
//! split, everything else left as [`Piece`]s that say what is unknown.

use std::cell::Cell;
use std::collections::HashMap;

use super::ast::Span;
use super::word::{
    Assignment, AssignmentMode, Operation, Parameter, Part, PartKind, Reference, Translation, Word,
};

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
        if let (Some(Piece::Text(last)), Piece::Text(text)) = (self.pieces.last_mut(), &piece) {
            last.extend_from_slice(text);
        } else {
            self.pieces.push(piece);
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
const MAX_INSERTED: usize = 1 << 20;

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

    /// Performs an assignment. Elements of arrays are not followed.
    pub fn assign(&mut self, assignment: &Assignment) {
        let value = match (&assignment.subscript, assignment.mode) {
            (Some(_), _) => Value::unknown(),
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
            if pieces.contains(&Piece::Unknown) {
                completeness = Completeness::Open;
            }
            if !alternatives.contains(&pieces) {
                alternatives.push(pieces);
            }
        }
        Value {
            alternatives,
            completeness,
        }
    }

    /// Whether this much more may still be inserted.
    fn spend(&self, amount: usize) -> bool {
        let inserted = self.inserted.get().saturating_add(amount);
        self.inserted.set(inserted);
        inserted <= MAX_INSERTED
    }

    /// Every argument list that these words may become.
    pub fn argv(&self, words: &[Word]) -> Vec<Vec<Field>> {
        let mut builder = Builder::new(self, Splitting::Words);
        for word in words {
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Splitting {
    Words,
    Never,
}

/// One possibility under construction.
#[derive(Clone, Default)]
struct State {
    fields: Vec<Field>,
    current: Field,
    /// Whether the current field exists even if it stays empty.
    present: bool,
}

impl State {
    fn finish(&mut self) {
        let field = std::mem::take(&mut self.current);
        if self.present || !field.pieces.is_empty() {
            self.fields.push(field);
        }
        self.present = false;
    }
}

struct Builder<'e> {
    environment: &'e Environment,
    splitting: Splitting,
    separators: Option<Vec<u8>>,
    states: Vec<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Quoted,
    Unquoted,
}

impl<'e> Builder<'e> {
    fn new(environment: &'e Environment, splitting: Splitting) -> Self {
        Builder {
            environment,
            splitting,
            separators: environment
                .get(b"IFS")
                .and_then(Value::literal)
                .map(<[u8]>::to_vec),
            states: vec![State::default()],
        }
    }

    fn word(&mut self, parts: &[Part]) {
        self.parts(parts, Quoting::Unquoted);
    }

    fn end_field(&mut self) {
        self.states.iter_mut().for_each(State::finish);
    }

    fn unknown_words(&mut self) {
        for state in &mut self.states {
            state.fields.push(Field {
                pieces: vec![Piece::Unknown],
                count: Count::Any,
            });
        }
    }

    fn parts(&mut self, parts: &[Part], quoting: Quoting) {
        for part in parts {
            self.part(part, quoting);
        }
    }

    fn part(&mut self, part: &Part, quoting: Quoting) {
        match &part.kind {
            PartKind::Plain(text) => self.each(Piece::Text(text.clone())),
            PartKind::Quoted(text) => {
                self.present();
                self.each(Piece::Text(text.clone()));
            }
            PartKind::Double(inner, translation) => {
                if !is_all_arguments(inner) {
                    self.present();
                }
                match translation {
                    Translation::Never => self.parts(inner, Quoting::Quoted),
                    Translation::ByLocale => self.each(Piece::Unknown),
                }
            }
            PartKind::Parameter(parameter) => self.parameter(parameter, quoting),
            PartKind::Command(..) => self.unknown(Piece::Output(part.span), quoting),
            PartKind::Process(..) => self.each(Piece::Output(part.span)),
            PartKind::Tilde(name) => self.each(Piece::Tilde(name.clone())),
            PartKind::Glob(byte) => match self.splitting {
                Splitting::Words => self.each(Piece::Glob(*byte)),
                Splitting::Never => self.each(Piece::Text(vec![*byte])),
            },
            // Braces still here stand where the shell does not expand them.
            PartKind::Braces(_) | PartKind::Range(_) => self.each(Piece::Unknown),
            PartKind::Arithmetic(_)
            | PartKind::ExtendedGlob(..)
            | PartKind::Array(_)
            | PartKind::Opaque(_) => self.unknown(Piece::Unknown, quoting),
        }
    }

    fn parameter(&mut self, parameter: &Parameter, quoting: Quoting) {
        let plain = parameter.subscript.is_none() && parameter.reference == Reference::Direct;
        if !plain || parameter.operation != Operation::Value {
            return self.unknown(Piece::Unknown, quoting);
        }
        let many = matches!(parameter.name.as_slice(), b"@" | b"*");
        let own = Piece::Variable(parameter.name.clone());
        let Some(value) = self.environment.get(&parameter.name) else {
            let quoting = if many { Quoting::Unquoted } else { quoting };
            return self.unknown(own, quoting);
        };
        let mut alternatives = value.alternatives.clone();
        if value.completeness == Completeness::Open || alternatives.is_empty() {
            alternatives.push(vec![own]);
        }
        let size: usize = alternatives.iter().map(|pieces| length(pieces)).sum();
        if self.states.len() * alternatives.len() > MAX_ALTERNATIVES * 2
            || size > MAX_VALUE
            || !self.environment.spend(size * self.states.len())
        {
            return self.unknown(Piece::Unknown, quoting);
        }
        if let [only] = alternatives.as_slice() {
            // No copy of what came before: a line of many `$x` stays linear.
            return self.insert(only, quoting);
        }
        let before = std::mem::take(&mut self.states);
        for pieces in &alternatives {
            let mut branch = Builder {
                states: before.clone(),
                separators: self.separators.clone(),
                ..*self
            };
            branch.insert(pieces, quoting);
            self.states.append(&mut branch.states);
        }
    }

    fn insert(&mut self, pieces: &[Piece], quoting: Quoting) {
        for piece in pieces {
            match piece {
                Piece::Text(text) if self.splits(quoting) => self.split(text),
                Piece::Text(_) | Piece::Tilde(_) => self.each(piece.clone()),
                Piece::Glob(byte) => self.each(Piece::Text(vec![*byte])),
                _ => self.unknown(piece.clone(), quoting),
            }
        }
    }

    /// Known text, unquoted: split at IFS, its glob characters active.
    fn split(&mut self, text: &[u8]) {
        let Some(separators) = self.separators.clone() else {
            return self.unknown(Piece::Unknown, Quoting::Unquoted);
        };
        if text
            .iter()
            .any(|b| separators.contains(b) && !b" \t\n".contains(b))
        {
            // Other separators delimit empty fields; rarely worth following.
            return self.unknown(Piece::Unknown, Quoting::Unquoted);
        }
        for state in &mut self.states {
            for &byte in text {
                if separators.contains(&byte) {
                    state.finish();
                } else if b"*?[".contains(&byte) {
                    state.current.push(Piece::Glob(byte));
                } else {
                    state.current.push(Piece::Text(vec![byte]));
                }
            }
        }
    }

    fn splits(&self, quoting: Quoting) -> bool {
        self.splitting == Splitting::Words && quoting == Quoting::Unquoted
    }

    fn unknown(&mut self, piece: Piece, quoting: Quoting) {
        let splits = self.splits(quoting);
        for state in &mut self.states {
            state.current.push(piece.clone());
            if splits {
                state.current.count = Count::Any;
            }
        }
    }

    fn each(&mut self, piece: Piece) {
        for state in &mut self.states {
            state.current.push(piece.clone());
        }
    }

    fn present(&mut self) {
        self.states
            .iter_mut()
            .for_each(|state| state.present = true);
    }
}

/// `"$@"` alone may be no argument at all.
fn is_all_arguments(parts: &[Part]) -> bool {
    matches!(parts, [Part { kind: PartKind::Parameter(p), .. }] if p.name == b"@" || p.subscript.is_some())
}

fn length(pieces: &[Piece]) -> usize {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) | Piece::Variable(text) | Piece::Tilde(text) => text.len(),
            _ => 1,
        })
        .sum()
}
