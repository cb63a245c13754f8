//! Typed values out of a TOML file, with the place of every mistake.

use std::sync::Arc;

use toml::Spanned;
use toml::de::DeValue;

use super::document::Document;
use super::error::{At, Error, nearest, quoted};
use super::key::Key;
use super::origin::{Layer, Origin, Sourced};
use super::setting::Setting;
use super::value::shown;
use crate::duration::Duration;

/// What is read from where, for messages.
pub(super) struct Reader<'a> {
    pub(super) layer: Layer,
    pub(super) path: &'a Arc<str>,
    pub(super) text: &'a [u8],
}

pub(super) type Item<'a, 'i> = &'a Spanned<DeValue<'i>>;

/// Reads one value of a list or a table of single values.
pub(super) type Read<'r, T> = &'r dyn Fn(&str) -> Result<T, String>;

impl Reader<'_> {
    pub(super) fn push(&self, setting: Setting, value: Item<'_, '_>, into: &mut Document) {
        let origin = self.origin(value.span());
        into.settings.push(Sourced::new(setting, origin));
    }

    pub(super) fn word<T>(
        &self,
        key: Key,
        value: Item<'_, '_>,
        words: &[&str],
        named: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Error> {
        let text = self.text(key.name(), value)?;
        named(text).ok_or_else(|| match nearest(text, words.iter().copied()) {
            Some(suggestion) => Error::Unknown {
                at: self.at(value.span()),
                what: "value",
                name: quoted(text),
                suggestion: Some(suggestion),
            },
            None => self.wrong(
                key.name(),
                value,
                format!("`{}` is none of {}", quoted(text), words.join(", ")),
            ),
        })
    }

    pub(super) fn text<'v>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'_>>,
    ) -> Result<&'v str, Error> {
        value.get_ref().as_str().ok_or_else(|| {
            self.wrong(
                key,
                value,
                format!("{} where a text in quotes is wanted", kind(value)),
            )
        })
    }

    pub(super) fn boolean(&self, key: Key, value: Item<'_, '_>) -> Result<bool, Error> {
        value.get_ref().as_bool().ok_or_else(|| {
            self.wrong(
                key.name(),
                value,
                format!("{} where true or false is wanted", kind(value)),
            )
        })
    }

    pub(super) fn count(&self, key: Key, value: Item<'_, '_>) -> Result<u32, Error> {
        let number = value
            .get_ref()
            .as_integer()
            .filter(|number| number.radix() == 10);
        number
            .and_then(|number| number.as_str().parse().ok())
            .filter(|number| *number > 0)
            .ok_or_else(|| {
                self.wrong(
                    key.name(),
                    value,
                    "a whole number from 1 is wanted, without quotes".to_owned(),
                )
            })
    }

    pub(super) fn amount<T>(
        &self,
        key: Key,
        value: Item<'_, '_>,
        read: Read<'_, T>,
    ) -> Result<T, Error> {
        let text = match value.get_ref() {
            // A bare number is bytes.
            DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
            _ => self.text(key.name(), value)?,
        };
        read(text).map_err(|why| self.wrong(key.name(), value, why))
    }

    pub(super) fn duration(&self, key: Key, value: Item<'_, '_>) -> Result<Duration, Error> {
        self.amount(key, value, &|text| text.parse().map_err(shown))
    }

    pub(super) fn items<'v, 'i>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'i>>,
    ) -> Result<&'v [Spanned<DeValue<'i>>], Error> {
        match value.get_ref() {
            DeValue::Array(items) => Ok(items),
            _ => Err(self.wrong(
                key,
                value,
                format!("{} where a list in brackets is wanted", kind(value)),
            )),
        }
    }

    pub(super) fn list(
        &self,
        key: Key,
        value: Item<'_, '_>,
        into: &mut Document,
        read: Read<'_, Setting>,
    ) -> Result<(), Error> {
        for item in self.items(key.name(), value)? {
            let text = self.text(key.name(), item)?;
            let setting = read(text).map_err(|why| self.wrong(key.name(), item, why))?;
            self.push(setting, item, into);
        }
        Ok(())
    }

    pub(super) fn origin(&self, span: std::ops::Range<usize>) -> Origin {
        Origin::line(self.layer, self.path, self.at(span).line)
    }

    pub(super) fn at(&self, span: std::ops::Range<usize>) -> At {
        At::new(self.path, self.text, span)
    }

    pub(super) fn wrong(&self, key: &str, value: Item<'_, '_>, why: String) -> Error {
        Error::Value {
            at: self.at(value.span()),
            key: key.to_owned(),
            why,
        }
    }

    pub(super) fn syntax(&self, span: std::ops::Range<usize>, why: &str) -> Error {
        Error::Syntax {
            at: self.at(span),
            why: quoted(why),
        }
    }
}

fn kind(value: Item<'_, '_>) -> &'static str {
    match value.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
