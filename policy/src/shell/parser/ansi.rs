//! `$'…'`: quotes with escapes.

use super::Parser;
use crate::shell::ast::Reason;
use crate::shell::decode;
use crate::shell::word::{Part, PartKind};

impl Parser<'_> {
    /// `$'…'`, decoded.
    pub fn ansi_quoted(&mut self) -> Part {
        let start = self.pos;
        self.eat_all(b"$'");
        let inside = self.pos;
        loop {
            match self.source.get(self.pos) {
                None => {
                    self.pos = start;
                    self.fail(Reason::Unterminated("$'…'"));
                    break;
                }
                Some(b'\'') => break,
                Some(b'\\') => self.advance(2),
                Some(_) => self.advance(1),
            }
        }
        let text = self.source.get(inside..self.pos).unwrap_or_default();
        let kind = PartKind::Quoted(decode::ansi_quoted(text));
        self.advance(1);
        Part {
            kind,
            span: self.span(start),
        }
    }
}
