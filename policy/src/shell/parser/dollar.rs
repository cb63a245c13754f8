//! What begins with `$`, and backquotes.

use super::Parser;
use super::assemble::Lexemes;
use super::text::Mode;
use crate::shell::ast::{Reason, Script};
use crate::shell::word::{
    Arithmetic, Operation, Parameter, Part, PartKind, Reference, Substitution, Translation,
};

impl Parser<'_> {
    /// Whatever the `$` that stands here begins.
    pub fn dollar(&mut self, mode: Mode, out: &mut Lexemes) {
        let start = self.pos;
        match self.peek_ahead(1) {
            Some(b'(') => {
                let kind = self.dollar_parenthesis();
                let span = self.span(start);
                out.part(Part { kind, span });
            }
            Some(b'{') => self.dollar_brace(mode, out),
            Some(b'[') => {
                self.eat_all(b"$[");
                let inside = self.pos;
                let parts = self.deeper(|p| p.text(Mode::Bracket).finish());
                let arithmetic = Arithmetic {
                    parts,
                    span: self.span(inside),
                };
                self.expect(b']', Reason::Unterminated("$[ … ]"));
                out.part(Part {
                    kind: PartKind::Arithmetic(arithmetic),
                    span: self.span(start),
                });
            }
            Some(b'\'') if mode.unquoted() => out.part(self.ansi_quoted()),
            Some(b'"') if mode.unquoted() => {
                out.part(self.double_quoted(Translation::ByLocale));
            }
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                self.eat(b'$');
                let name = self.identifier();
                out.part(self.plain_parameter(name, start));
            }
            Some(byte) if byte.is_ascii_digit() || b"@*#?-$!".contains(&byte) => {
                self.eat(b'$');
                self.take();
                out.part(self.plain_parameter(vec![byte], start));
            }
            _ => {
                self.advance(1);
                out.plain(b'$', self.span(start));
            }
        }
    }

    fn plain_parameter(&self, name: Vec<u8>, start: usize) -> Part {
        Part {
            kind: PartKind::Parameter(Box::new(Parameter {
                name,
                subscript: None,
                reference: Reference::Direct,
                operation: Operation::Value,
            })),
            span: self.span(start),
        }
    }

    /// `$(( … ))` if it ends so; `$( … )` otherwise, as bash decides it.
    fn dollar_parenthesis(&mut self) -> PartKind {
        let start = self.pos;
        let double = self.peek_ahead(2) == Some(b'(');
        if double {
            let checkpoint = self.checkpoint();
            self.eat_all(b"$((");
            if let Some(arithmetic) = self.arithmetic() {
                return PartKind::Arithmetic(arithmetic);
            }
            self.restore(checkpoint);
        }
        self.eat(b'$');
        let script = self.parenthesised_script();
        if double {
            self.check_reread(start);
        }
        PartKind::Command(script, Substitution::Dollar)
    }

    /// `( … )` of a command or process substitution: a script with its own here-documents.
    pub fn parenthesised_script(&mut self) -> Script {
        let pending = std::mem::take(&mut self.pending);
        let documents = std::mem::take(&mut self.documents);
        let substitution = std::mem::replace(&mut self.substitution, true);
        let inline = std::mem::replace(&mut self.inline, false);
        self.eat(b'(');
        let mut script = self.deeper(Self::script);
        self.skip_blanks();
        if !self.pending.is_empty() {
            self.fail(Reason::Ambiguous(
                "a here-document that outlives its $( … )",
            ));
        }
        if !self.eat(b')') {
            self.cut_off("$( … )");
        }
        self.fill(&mut script);
        self.pending = pending;
        self.documents = documents;
        self.substitution = substitution;
        self.inline = inline;
        script
    }

    /// `` `…` ``: its text, with the escapes that are removed before it is read.
    pub fn backquoted(&mut self, mode: Mode) -> Part {
        let start = self.pos;
        self.advance(1);
        let (mut text, mut origins) = (Vec::new(), Vec::new());
        loop {
            let Some(&byte) = self.source.get(self.pos) else {
                self.pos = start;
                self.fail(Reason::Unterminated("backquote"));
                break;
            };
            if byte == b'`' {
                break;
            }
            let escaped = match self.source.get(self.pos + 1) {
                Some(b'$' | b'`' | b'\\') => true,
                Some(b'"') => matches!(mode, Mode::Double | Mode::DoubleBrace),
                _ => false,
            };
            if byte == b'\\' && escaped {
                self.advance(1);
            }
            text.extend(self.source.get(self.pos));
            origins.push(self.span(self.pos).start);
            self.advance(1);
        }
        origins.push(self.span(self.pos).start);
        self.eat(b'`');
        let script = self.deeper(|p| p.inner(&text, Some(&origins)).whole());
        Part {
            kind: PartKind::Command(script, Substitution::Backquote),
            span: self.span(start),
        }
    }
}
