//! `$'…'`: quotes with escapes.

use super::Parser;
use crate::shell::ast::{Opaque, Reason};
use crate::shell::decode;
use crate::shell::word::{Part, PartKind};

impl Parser<'_> {
    /// `$'…'`, decoded.
    pub fn ansi_quoted(&mut self) -> Part {
        let start = self.pos;
        self.eat_all(b"$'");
        let inside = self.pos;
        let mut quotes = false;
        loop {
            match self.source.get(self.pos) {
                None => {
                    self.pos = start;
                    self.fail(Reason::Unterminated("$'…'"));
                    break;
                }
                Some(b'\'') => break,
                Some(b'\\') => {
                    quotes |= self.source.get(self.pos + 1) == Some(&b'\'');
                    self.advance(2);
                }
                Some(_) => self.advance(1),
            }
        }
        let text = self.source.get(inside..self.pos).unwrap_or_default();
        let mut kind = PartKind::Quoted(decode::ansi_quoted(text));
        self.advance(1);
        if quotes {
            // A shell without `$'…'` sees the quote closed there.
            let span = self.span(start);
            let reason = Reason::Ambiguous("a quote inside $'…'");
            kind = PartKind::Opaque(Opaque { reason, span });
        }
        Part {
            kind,
            span: self.span(start),
        }
    }
}
