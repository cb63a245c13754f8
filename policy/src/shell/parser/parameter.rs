//! `${ … }`: parameters with their operators, and commands that run in the shell itself.

use super::Parser;
use super::assemble::Lexemes;
use super::text::Mode;
use crate::shell::ast::{Opaque, Reason, Span};
use crate::shell::word::{
    Arithmetic, Operation, Parameter, Part, PartKind, Reference, Subscript, Substitution, Word,
};

impl Parser<'_> {
    /// What the `${` that stands here begins.
    pub fn dollar_brace(&mut self, mode: Mode, out: &mut Lexemes) {
        let start = self.pos;
        self.eat_all(b"${");
        if matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'|')) {
            return self.inline_commands(start, out);
        }
        let parameter = self.deeper(|p| p.parameter(mode));
        let kind = match parameter {
            Some(parameter) if self.peek() == Some(b'}') => {
                PartKind::Parameter(Box::new(parameter))
            }
            _ => {
                // Not an expansion this shell knows. Its extent is that of any other.
                self.deeper(|p| p.word(word_mode(mode)));
                PartKind::Opaque(Opaque {
                    reason: Reason::Syntax("not an expansion that bash knows"),
                    span: Span::default(),
                })
            }
        };
        self.expect(b'}', Reason::Unterminated("${ … }"));
        let span = self.span(start);
        let kind = match kind {
            PartKind::Opaque(Opaque { reason, .. }) => PartKind::Opaque(Opaque { reason, span }),
            kind => kind,
        };
        out.part(Part { kind, span });
    }

    /// `${ …; }` and `${| …; }`.
    fn inline_commands(&mut self, start: usize, out: &mut Lexemes) {
        self.eat(b'|');
        let inside = self.pos;
        let inline = std::mem::replace(&mut self.inline, true);
        let pending = std::mem::take(&mut self.pending);
        let documents = std::mem::take(&mut self.documents);
        let mut script = self.deeper(Self::script);
        self.skip_blanks();
        if !self.pending.is_empty() {
            self.fail(Reason::Ambiguous(
                "a here-document that outlives its ${ … }",
            ));
        }
        let text = self.source.get(inside..self.pos).unwrap_or_default();
        let ambiguous = text.contains(&b'}');
        self.spend(text.len());
        self.expect(b'}', Reason::Unterminated("${ … }"));
        self.fill(&mut script);
        self.pending = pending;
        self.documents = documents;
        self.inline = inline;
        let span = self.span(start);
        out.part(Part {
            kind: PartKind::Command(script, Substitution::Inline),
            span,
        });
        if ambiguous {
            // Shells that do not know this form end it at the first brace.
            let reason = Reason::Ambiguous("${ … }");
            let kind = PartKind::Opaque(Opaque { reason, span });
            out.part(Part { kind, span });
        }
    }

    /// The inside of `${ … }`; `None` if it is not one that is known.
    fn parameter(&mut self, mode: Mode) -> Option<Parameter> {
        let mut reference = Reference::Direct;
        let after = self.peek_ahead(1);
        match self.peek()? {
            b'#' if after != Some(b'}') => {
                if let Some(length) = self.length() {
                    return Some(length);
                }
            }
            b'!' if after.is_some_and(|b| b.is_ascii_alphanumeric() || b"_@*#?".contains(&b)) => {
                self.advance(1);
                reference = Reference::Indirect;
            }
            _ => {}
        }
        let name = self.parameter_name();
        if name.is_empty() {
            return None;
        }
        let subscript = self.parameter_subscript();
        let lists_names = reference == Reference::Indirect
            && match (&subscript, self.peek()?) {
                (Some(Subscript::All(_)), b'}') => true,
                (None, b'*' | b'@') if self.peek_ahead(1) == Some(b'}') => {
                    self.advance(1);
                    true
                }
                _ => false,
            };
        let operation = match lists_names {
            true => Operation::Names,
            false => self.operation(mode)?,
        };
        Some(Parameter {
            name,
            subscript,
            reference,
            operation,
        })
    }

    /// `#name` with nothing behind it.
    fn length(&mut self) -> Option<Parameter> {
        let checkpoint = self.checkpoint();
        self.eat(b'#');
        let name = self.parameter_name();
        let subscript = self.parameter_subscript();
        if name.is_empty() || self.peek() != Some(b'}') {
            self.restore(checkpoint);
            return None;
        }
        Some(Parameter {
            name,
            subscript,
            reference: Reference::Direct,
            operation: Operation::Length,
        })
    }

    fn parameter_name(&mut self) -> Vec<u8> {
        match self.peek() {
            Some(byte) if byte.is_ascii_digit() => {
                let mut digits = Vec::new();
                while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
                    digits.push(digit);
                    self.advance(1);
                }
                digits
            }
            Some(byte) if b"@*#?-$!".contains(&byte) => {
                self.advance(1);
                vec![byte]
            }
            _ => self.identifier(),
        }
    }

    fn parameter_subscript(&mut self) -> Option<Subscript> {
        if !self.eat(b'[') {
            return None;
        }
        let subscript = match (self.peek(), self.peek_ahead(1)) {
            (Some(byte @ (b'@' | b'*')), Some(b']')) => {
                self.advance(1);
                Subscript::All(byte)
            }
            _ => Subscript::Index(self.subscript()),
        };
        self.expect(b']', Reason::Unterminated("subscript"));
        Some(subscript)
    }

    fn operation(&mut self, mode: Mode) -> Option<Operation> {
        let plain = word_mode(mode);
        let next = self.peek_ahead(1);
        let operator = self.peek()?;
        if operator == b'}' {
            return Some(Operation::Value);
        }
        self.advance(1);
        Some(match (operator, next) {
            (b':', Some(byte @ (b'-' | b'=' | b'?' | b'+'))) => {
                self.peek();
                self.advance(1);
                self.substitute(byte, plain)
            }
            (b'-' | b'=' | b'?' | b'+', _) => self.substitute(operator, plain),
            (b':', _) => {
                let start = self.pos;
                let parts = self.text(Mode::DoubleBrace).finish();
                let span = self.span(start);
                Operation::Substring(Arithmetic { parts, span })
            }
            (b'#' | b'%', _) => {
                self.eat(operator);
                Operation::Trim(self.word(Mode::Brace))
            }
            (b'^' | b',' | b'~', _) => {
                self.eat(operator);
                Operation::Case(self.word(Mode::Brace))
            }
            (b'/', _) => self.replace(),
            (b'@', Some(letter)) if letter.is_ascii_alphabetic() => {
                self.take();
                Operation::Transform(letter)
            }
            _ => return None,
        })
    }

    fn substitute(&mut self, operator: u8, mode: Mode) -> Operation {
        let word = self.word(mode);
        match operator {
            b'-' => Operation::Default(word),
            b'=' => Operation::Assign(word),
            b'?' => Operation::Require(word),
            _ => Operation::Alternative(word),
        }
    }

    /// `/p/r`, `//p/r`, `/#p/r`, `/%p/r`, the first slash taken.
    fn replace(&mut self) -> Operation {
        self.eat(b'/');
        // A slash that begins the pattern belongs to it.
        let leading = self.eat(b'/');
        let mut pattern = self.word(Mode::Slash);
        if leading {
            pattern.span.start = pattern.span.start.saturating_sub(1);
            let mut span = pattern.span;
            span.end = span.start + 1;
            let kind = PartKind::Plain(b"/".to_vec());
            pattern.parts.insert(0, Part { kind, span });
        }
        let replacement: Option<Word> = self.eat(b'/').then(|| self.word(Mode::Brace));
        Operation::Replace(pattern, replacement)
    }
}

/// How the word behind an operator is read.
fn word_mode(mode: Mode) -> Mode {
    match mode.unquoted() {
        true => Mode::Brace,
        false => Mode::DoubleBrace,
    }
}
