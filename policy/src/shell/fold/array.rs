//! Arrays: what their elements are, as far as the script itself says it.

use super::super::word::{AssignmentMode, Element, Word};
use super::builder::{COST_OF_WORD, length};
use super::{Completeness, Count, Environment, Field, MAX_ALTERNATIVES, MAX_VALUE, Piece, Value};

impl Environment {
    /// `( … )` behind `name=`. With keys, nobody here knows the order.
    pub(super) fn array(&self, elements: &[Element]) -> Value {
        if elements.iter().any(|element| element.key.is_some()) {
            return Value::unknown();
        }
        let words = elements.iter().map(|element| &element.value);
        self.of_lists(self.argv(words), Completeness::Closed)
    }

    /// `name+=( … )`
    pub(super) fn appended(&self, name: &[u8], more: &Value) -> Value {
        match self.get(name) {
            // It may have come from the environment, or not be there.
            None => self.of_lists(more.lists.clone(), Completeness::Open),
            Some(old) => {
                let both = old
                    .lists
                    .iter()
                    .flat_map(|old| more.lists.iter().map(move |more| [&old[..], more].concat()));
                let both = both.take(MAX_ALTERNATIVES + 1).collect();
                self.of_lists(both, old.completeness)
            }
        }
    }

    /// `name[index]=value`: followed where the index is the next one.
    pub(super) fn with_element(
        &self,
        name: &[u8],
        index: &Word,
        mode: AssignmentMode,
        value: &Word,
    ) -> Value {
        let Some(index) = number(index).filter(|_| mode == AssignmentMode::Set) else {
            return Value::unknown();
        };
        let mut lists = match self.get(name) {
            None => vec![Vec::new()],
            Some(old) if old.completeness == Completeness::Closed => old.lists.clone(),
            Some(_) => return Value::unknown(),
        };
        let value = self.value(value);
        let ([list], [pieces]) = (lists.as_mut_slice(), value.alternatives.as_slice()) else {
            return Value::unknown();
        };
        if list.len() != index || list.iter().any(|field| field.count == Count::Any) {
            return Value::unknown();
        }
        list.push(Field {
            pieces: pieces.clone(),
            count: Count::One,
        });
        self.of_lists(lists, value.completeness)
    }

    fn of_lists(&self, lists: Vec<Vec<Field>>, completeness: Completeness) -> Value {
        let sizes: usize = lists.iter().map(|list| size(list)).sum();
        if lists.is_empty()
            || lists.len() > MAX_ALTERNATIVES
            || sizes > MAX_VALUE
            || !self.spend(sizes)
        {
            return Value::unknown();
        }
        // `$name` is the first element.
        let first = lists.iter().map(|list| first(list)).collect::<Option<_>>();
        let completeness = match first {
            Some(_) => completeness,
            None => Completeness::Open,
        };
        Value {
            alternatives: first.unwrap_or_default(),
            completeness,
            lists,
        }
    }
}

impl Value {
    /// Either of two arrays; where one of them is not known, neither is.
    pub(super) fn join_lists(&mut self, others: &[Vec<Field>]) {
        if others.is_empty() || self.lists.is_empty() {
            self.lists.clear();
            return;
        }
        for list in others {
            if !self.lists.contains(list) {
                self.lists.push(list.clone());
            }
        }
        if self.lists.len() > MAX_ALTERNATIVES {
            self.lists.clear();
        }
    }

    /// The element at an index, as an array of one; nothing where it is not known.
    pub(super) fn at(&self, index: &Word) -> Vec<Vec<Field>> {
        let Some(index) = number(index) else {
            return Vec::new();
        };
        let element = |list: &Vec<Field>| {
            let before = list.get(..=index)?;
            let plain = before.iter().all(is_one);
            plain.then(|| vec![before[index].clone()])
        };
        let elements = self.lists.iter().map(element).collect::<Option<_>>();
        elements.unwrap_or_default()
    }
}

/// What following a list of elements costs.
pub(super) fn size(list: &[Field]) -> usize {
    list.iter()
        .map(|field| length(&field.pieces) + COST_OF_WORD)
        .sum()
}

/// What `$name` is; `None` where that is not known.
fn first(list: &[Field]) -> Option<Vec<Piece>> {
    match list.first() {
        None => Some(Vec::new()),
        Some(field) => is_one(field).then(|| field.pieces.clone()),
    }
}

/// Whether a field is one element, whatever files there are.
fn is_one(field: &Field) -> bool {
    let is_glob = |piece: &Piece| matches!(piece, Piece::Glob(_));
    field.count == Count::One && !field.pieces.iter().any(is_glob)
}

/// An index that stands there as a number.
fn number(index: &Word) -> Option<usize> {
    let text = index.literal()?;
    let digits = (1..=4).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    // `010` is eight.
    let plain = digits && (text.len() == 1 || text[0] != b'0');
    let text = plain.then_some(text)?;
    std::str::from_utf8(&text).ok()?.parse().ok()
}
