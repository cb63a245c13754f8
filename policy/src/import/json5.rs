//! JSON as people write it: comments, names without quotes, single quotes, commas at the
//! end.

use serde_json::{Map, Number, Value};

/// Why a text is not JSON5.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Json5Error {
    /// Counted from one.
    pub line: usize,
    /// What is wrong.
    pub why: &'static str,
}

/// Deeper than any configuration.
const DEEPEST: usize = 64;

/// Reads a whole text.
pub fn parse(text: &str) -> Result<Value, Json5Error> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.space()?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.wrong("there is more behind the end")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn take(&mut self, word: &str) -> bool {
        let there = self.rest().starts_with(word);
        if there {
            self.at += word.len();
        }
        there
    }

    fn wrong(&self, why: &'static str) -> Json5Error {
        let before = self.text.get(..self.at).unwrap_or(self.text);
        Json5Error {
            line: before.matches('\n').count() + 1,
            why,
        }
    }

    fn space(&mut self) -> Result<(), Json5Error> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            self.at += rest.len() - trimmed.len();
            if self.take("//") {
                let rest = self.rest();
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if self.take("/*") {
                match self.rest().find("*/") {
                    Some(end) => self.at += end + 2,
                    None => return Err(self.wrong("a comment has no end")),
                }
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Json5Error> {
        if depth > DEEPEST {
            return Err(self.wrong("it is nested too deeply"));
        }
        self.space()?;
        match self.peek() {
            Some('{') => self.object(depth),
            Some('[') => self.list(depth),
            Some('"' | '\'') => self.quoted().map(Value::String),
            Some(c) if c.is_ascii_digit() || "+-.".contains(c) => self.number(),
            _ if self.take("true") => Ok(Value::Bool(true)),
            _ if self.take("false") => Ok(Value::Bool(false)),
            _ if self.take("null") => Ok(Value::Null),
            _ => Err(self.wrong("a value is missing")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Json5Error> {
        self.next();
        let mut fields = Map::new();
        loop {
            self.space()?;
            if self.take("}") {
                return Ok(Value::Object(fields));
            }
            let name = match self.peek() {
                Some('"' | '\'') => self.quoted()?,
                _ => self.name()?,
            };
            self.space()?;
            if !self.take(":") {
                return Err(self.wrong("a colon is missing"));
            }
            let value = self.value(depth + 1)?;
            if fields.insert(name, value).is_some() {
                return Err(self.wrong("a name stands there twice"));
            }
            self.space()?;
            if !self.take(",") && self.peek() != Some('}') {
                return Err(self.wrong("a comma or } is missing"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, Json5Error> {
        self.next();
        let mut items = Vec::new();
        loop {
            self.space()?;
            if self.take("]") {
                return Ok(Value::Array(items));
            }
            items.push(self.value(depth + 1)?);
            self.space()?;
            if !self.take(",") && self.peek() != Some(']') {
                return Err(self.wrong("a comma or ] is missing"));
            }
        }
    }

    fn name(&mut self) -> Result<String, Json5Error> {
        let fits = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let name: String = self.rest().chars().take_while(|c| fits(*c)).collect();
        self.at += name.len();
        match name.is_empty() {
            true => Err(self.wrong("a name is missing")),
            false => Ok(name),
        }
    }

    fn quoted(&mut self) -> Result<String, Json5Error> {
        let quote = self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err(self.wrong("a text has no end")),
                end if end == quote => return Ok(text),
                Some('\\') => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some('b') => text.push('\u{8}'),
                    Some('f') => text.push('\u{c}'),
                    Some('0') => text.push('\0'),
                    Some('\n') => {}
                    Some('u') => {
                        let digits = self.rest().get(..4).unwrap_or_default();
                        let code = u32::from_str_radix(digits, 16).ok();
                        let Some(c) = code.and_then(char::from_u32) else {
                            return Err(self.wrong("\\u needs four digits of a character"));
                        };
                        self.at += 4;
                        text.push(c);
                    }
                    Some(other) => text.push(other),
                    None => return Err(self.wrong("a text has no end")),
                },
                Some(c) => text.push(c),
            }
        }
    }

    fn number(&mut self) -> Result<Value, Json5Error> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let text: String = self.rest().chars().take_while(|c| fits(*c)).collect();
        self.at += text.len();
        let plain = text.strip_prefix('+').unwrap_or(&text);
        if let Ok(whole) = plain.parse::<i64>() {
            return Ok(Value::from(whole));
        }
        let number = plain.parse::<f64>().ok().and_then(Number::from_f64);
        number
            .map(Value::Number)
            .ok_or_else(|| self.wrong("that is no number"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_people_write() {
        let text =
            "// a\n{ a: 'x', \"b\": [1, -2.5, true, null,], /* c */ d: { e: \"\\u0041\\n\" }, }\n";
        assert_eq!(
            parse(text).unwrap(),
            json!({ "a": "x", "b": [1, -2.5, true, null], "d": { "e": "A\n" } })
        );
    }

    #[test]
    fn mistakes_are_named_by_line() {
        for (text, line) in [
            ("", 1),
            ("{\n a 1}", 2),
            ("{\n\n a: }", 3),
            ("[1 2]", 1),
            ("{} x", 1),
            ("{a:1,a:2}", 1),
            ("'x", 1),
            ("/* x", 1),
        ] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text}");
        }
        assert!(parse(&"[".repeat(10_000)).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "[\\[\\]{}:,'\"\\\\/*a-z0-9é\n -]{0,60}") {
            let _ = parse(&text);
        }
    }
}
