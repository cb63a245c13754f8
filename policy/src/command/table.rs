//! Text and lists without pointers. The tables of knowledge hold tens of thousands of
//! them; as pointers each would have to be relocated, and its page copied, whenever the
//! program starts, whether or not anything is looked up.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use super::knowledge::TEXTS;

/// A part of the one string that holds all texts of the tables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Text {
    at: u32,
    length: u32,
}

impl Text {
    pub(crate) const EMPTY: Text = Text::new(0, 0);

    pub(crate) const fn new(at: u32, length: u32) -> Text {
        Text { at, length }
    }

    pub(crate) fn get(self) -> &'static str {
        let at = self.at as usize;
        TEXTS.get(at..at + self.length as usize).unwrap_or_default()
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.get()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.get() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.get() == *other
    }
}

impl From<Text> for &'static str {
    fn from(text: Text) -> &'static str {
        text.get()
    }
}

impl From<Text> for Cow<'static, str> {
    fn from(text: Text) -> Cow<'static, str> {
        Cow::Borrowed(text.get())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.get(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

/// What has one array that holds all of its kind.
pub(crate) trait Pooled: Sized + 'static {
    /// That array.
    fn pool() -> &'static [Self];
}

/// A part of the array that holds all entries of one kind.
pub(crate) struct List<T> {
    at: u32,
    length: u32,
    kind: PhantomData<T>,
}

impl<T: Pooled> List<T> {
    pub(crate) const EMPTY: List<T> = List::new(0, 0);

    pub(crate) const fn new(at: u32, length: u32) -> List<T> {
        List {
            at,
            length,
            kind: PhantomData,
        }
    }

    pub(crate) fn get(&self) -> &'static [T] {
        let at = self.at as usize;
        T::pool()
            .get(at..at + self.length as usize)
            .unwrap_or_default()
    }
}

impl List<Text> {
    /// Whether this word is among them.
    pub(crate) fn has(&self, word: &str) -> bool {
        let length = word.len();
        self.get()
            .iter()
            .any(|known| known.length as usize == length && known.get() == word)
    }
}

impl<T: Pooled> IntoIterator for &List<T> {
    type Item = &'static T;
    type IntoIter = std::slice::Iter<'static, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.get().iter()
    }
}

impl<T: Pooled> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.get()
    }
}

impl<T: Pooled + fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::knowledge::{FLAGS, NAMES, SUBS, WORDS, program};
    use super::*;

    /// A part that lay outside would silently be empty.
    #[test]
    fn every_part_lies_inside() {
        let inside = |text: &Text| text.at as usize + text.length as usize <= TEXTS.len();
        assert!(WORDS.iter().all(inside));
        assert!(WORDS.iter().all(|word| !word.is_empty()));
        assert!(
            NAMES
                .iter()
                .all(|(name, _)| inside(name) && !name.is_empty())
        );
        assert!(FLAGS.iter().all(|flag| !flag.spellings.is_empty()));
        assert!(SUBS.iter().all(|sub| !sub.names.is_empty()));
    }

    #[test]
    fn names_are_found() {
        for (name, _) in NAMES.iter() {
            assert!(program(name).is_some(), "{name}");
        }
        assert!(program("no such program").is_none());
    }
}
