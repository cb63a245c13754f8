//! Words become arguments: values inserted, split, and what is unknown kept as such.

use std::borrow::Cow;

use super::super::word::{
    Operation, Parameter, Part, PartKind, Reference, Subscript, Translation, Word,
};
use super::{Completeness, Count, Environment, Field, MAX_ALTERNATIVES, MAX_VALUE, Piece, Value};

/// A piece that is no text costs as much as this many bytes.
const COST_OF_PIECE: usize = 32;
/// And so does each word that a value falls into, beside its text.
pub(super) const COST_OF_WORD: usize = 32;

/// Whether known values fall into words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Splitting {
    Words,
    Never,
}

/// One possibility under construction.
#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) fields: Vec<Field>,
    current: Field,
    /// Whether the current field exists even if it stays empty.
    present: bool,
}

impl State {
    fn is_begun(&self) -> bool {
        self.present || !self.current.pieces.is_empty()
    }

    pub(super) fn finish(&mut self) {
        let field = std::mem::take(&mut self.current);
        if self.present || !field.pieces.is_empty() {
            self.fields.push(field);
        }
        self.present = false;
    }
}

/// Builds every argument list that words may become, side by side.
pub(super) struct Builder<'e> {
    environment: &'e Environment,
    splitting: Splitting,
    separators: Option<Vec<u8>>,
    pub(super) states: Vec<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Quoted,
    Unquoted,
}

impl<'e> Builder<'e> {
    pub(super) fn new(environment: &'e Environment, splitting: Splitting) -> Self {
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

    pub(super) fn word(&mut self, parts: &[Part]) {
        self.parts(parts, Quoting::Unquoted);
    }

    pub(super) fn end_field(&mut self) {
        self.states.iter_mut().for_each(State::finish);
    }

    pub(super) fn unknown_words(&mut self) {
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
            PartKind::ExtendedGlob(operator, words) => {
                self.unknown(Piece::Found(pattern(*operator, words)), quoting);
            }
            PartKind::Arithmetic(_) | PartKind::Array(_) | PartKind::Opaque(_) => {
                self.unknown(Piece::Unknown, quoting);
            }
        }
    }

    fn parameter(&mut self, parameter: &Parameter, quoting: Quoting) {
        if let Some(subscript) = &parameter.subscript
            && parameter.reference == Reference::Direct
            && parameter.operation == Operation::Value
        {
            return self.elements(&parameter.name, subscript, quoting);
        }
        let plain = parameter.subscript.is_none() && parameter.reference == Reference::Direct;
        let otherwise = match &parameter.operation {
            _ if !plain => return self.unknown(Piece::Unknown, quoting),
            Operation::Value | Operation::Require(_) => None,
            // `${x:-text}` is one or the other.
            Operation::Default(word) | Operation::Assign(word) if is_bare(&word.parts) => {
                Some(self.environment.value(word).alternatives)
            }
            _ => return self.unknown(Piece::Unknown, quoting),
        };
        let many = matches!(parameter.name.as_slice(), b"@" | b"*");
        let own = Piece::Variable(parameter.name.clone());
        let value = match self.environment.get(&parameter.name) {
            Some(value) => value,
            None if otherwise.is_some() && !many => &Value::unknown(),
            None => {
                let quoting = if many { Quoting::Unquoted } else { quoting };
                return self.unknown(own, quoting);
            }
        };
        let size: usize = value.alternatives.iter().map(|one| length(one)).sum();
        if size > MAX_VALUE {
            return self.unknown(Piece::Unknown, quoting);
        }
        let mut alternatives = value.alternatives.clone();
        if value.completeness == Completeness::Open || alternatives.is_empty() {
            alternatives.push(vec![own]);
        }
        alternatives.extend(otherwise.into_iter().flatten());
        let size: usize = alternatives.iter().map(|pieces| length(pieces)).sum();
        let words = match self.splits(quoting) {
            true => alternatives.iter().map(|pieces| blanks(pieces)).sum(),
            false => 0,
        };
        let cost = size + words * COST_OF_WORD;
        if self.states.len() * alternatives.len() > MAX_ALTERNATIVES * 2
            || size > MAX_VALUE
            || !self.environment.spend(cost * self.states.len())
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

    /// `${x[@]}`, `${x[*]}`, `${x[0]}`
    fn elements(&mut self, name: &[u8], subscript: &Subscript, quoting: Quoting) {
        let value = self.environment.get(name);
        let (byte, lists) = match (subscript, value) {
            (Subscript::All(byte), Some(value)) => (*byte, Cow::Borrowed(&value.lists)),
            (Subscript::Index(index), Some(value)) => (b'@', Cow::Owned(value.at(index))),
            (_, None) => (b'@', Cow::Owned(Vec::new())),
        };
        let open = value.is_none_or(|value| value.completeness == Completeness::Open);
        // One argument: with the first separator between the elements.
        let joined =
            self.splitting == Splitting::Never || byte == b'*' && quoting == Quoting::Quoted;
        let is_odd = self.separators.as_deref() != Some(b" \t\n");
        let size: usize = lists.iter().map(|list| super::array::size(list)).sum();
        let count = lists.len() + usize::from(open);
        if lists.is_empty()
            || joined && is_odd
            || self.states.len() * count > MAX_ALTERNATIVES * 2
            || !self.environment.spend(size * self.states.len())
        {
            return self.unknown(Piece::Unknown, quoting);
        }
        if let ([only], false) = (&lists[..], open) {
            // No copy of what came before, as above.
            return self.list(only, quoting, joined);
        }
        let before = std::mem::take(&mut self.states);
        let others = open.then_some(None);
        for list in lists.iter().map(Some).chain(others) {
            let mut branch = Builder {
                states: before.clone(),
                separators: self.separators.clone(),
                ..*self
            };
            match list {
                Some(list) => branch.list(list, quoting, joined),
                None => branch.unknown(Piece::Unknown, Quoting::Unquoted),
            }
            self.states.append(&mut branch.states);
        }
    }

    /// The elements of an array: an argument each, or all in one.
    fn list(&mut self, list: &[Field], quoting: Quoting, joined: bool) {
        for (index, field) in list.iter().enumerate() {
            match (index, joined) {
                (0, _) => {}
                (_, true) => self.each(Piece::Text(b" ".to_vec())),
                (_, false) => self.end_field(),
            }
            if quoting == Quoting::Quoted {
                self.present();
            }
            for piece in &field.pieces {
                match piece {
                    Piece::Text(text) if self.splits(quoting) => self.split(text),
                    // What the shell finds for a wildcard, it found before.
                    Piece::Text(_) | Piece::Tilde(_) | Piece::Glob(_) => self.each(piece.clone()),
                    _ => self.unknown(piece.clone(), quoting),
                }
            }
            if field.count == Count::Any && !joined {
                for state in &mut self.states {
                    state.current.count = Count::Any;
                }
            }
        }
    }

    fn insert(&mut self, pieces: &[Piece], quoting: Quoting) {
        for piece in pieces {
            match piece {
                Piece::Text(text) if self.splits(quoting) => self.split(text),
                Piece::Text(_) | Piece::Tilde(_) => self.each(piece.clone()),
                // A loop went through what the shell found: one name after the other, but all
                // of them in the end.
                Piece::Glob(_) => self.each(piece.clone()),
                _ => self.unknown(piece.clone(), quoting),
            }
        }
    }

    /// Known text, unquoted: split at IFS, its glob characters active.
    fn split(&mut self, text: &[u8]) {
        let Some(separators) = self.separators.clone() else {
            return self.unknown(Piece::Unknown, Quoting::Unquoted);
        };
        for state in &mut self.states {
            let ends = |byte: &u8| separators.contains(byte) || b"*?[".contains(byte);
            let mut rest = text;
            // Blanks around another separator belong to it: together they end one field.
            let mut blank = false;
            while let Some(&byte) = rest.first() {
                let length = rest.iter().take_while(|byte| !ends(byte)).count();
                let was_blank = std::mem::replace(&mut blank, false);
                if length > 0 {
                    state.current.push(Piece::Text(rest[..length].to_vec()));
                } else if !separators.contains(&byte) {
                    state.current.push(Piece::Glob(byte));
                } else if b" \t\n".contains(&byte) {
                    blank = was_blank || state.is_begun();
                    state.finish();
                } else {
                    // Others delimit empty fields, too.
                    state.present |= !was_blank;
                    state.finish();
                }
                rest = &rest[length.max(1)..];
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

/// A pattern with alternatives as text; one that holds something unknown finds anything.
fn pattern(operator: u8, words: &[Word]) -> Vec<u8> {
    let mut text = vec![operator, b'('];
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            text.push(b'|');
        }
        for part in &word.parts {
            match &part.kind {
                PartKind::Plain(plain) | PartKind::Quoted(plain) => text.extend(plain),
                PartKind::Glob(byte) => text.push(*byte),
                PartKind::ExtendedGlob(operator, words) => text.extend(pattern(*operator, words)),
                _ => return b"!()".to_vec(),
            }
        }
    }
    text.push(b')');
    match text.contains(&b'/') {
        true => b"!()".to_vec(),
        false => text,
    }
}

/// Nothing quoted: then it falls into words like the value it stands for.
fn is_bare(parts: &[Part]) -> bool {
    parts
        .iter()
        .all(|part| !matches!(part.kind, PartKind::Quoted(_) | PartKind::Double(..)))
}

/// `"$@"` alone may be no argument at all.
fn is_all_arguments(parts: &[Part]) -> bool {
    matches!(parts, [Part { kind: PartKind::Parameter(p), .. }] if p.name == b"@" || p.subscript.is_some())
}

/// How many words a value falls into, about.
fn blanks(pieces: &[Piece]) -> usize {
    let texts = pieces.iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text),
        _ => None,
    });
    texts
        .map(|text| {
            text.iter()
                .filter(|byte| !byte.is_ascii_alphanumeric())
                .count()
        })
        .sum()
}

/// What following a value costs: its text, and more for what is no text.
pub(super) fn length(pieces: &[Piece]) -> usize {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.len(),
            Piece::Variable(text) | Piece::Tilde(text) => text.len() + COST_OF_PIECE,
            _ => COST_OF_PIECE,
        })
        .sum()
}
