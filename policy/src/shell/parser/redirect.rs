//! Redirections.

use super::Parser;
use super::text::Mode;
use crate::shell::ast::{Descriptor, Reason, Redirect, RedirectOperator, RedirectTarget};

/// Operators, each before any other that it begins with.
const OPERATORS: [(&[u8], RedirectOperator); 11] = [
    (b"<<<", RedirectOperator::HereString),
    (b"<<", RedirectOperator::HereDocument),
    (b"<&", RedirectOperator::DuplicateInput),
    (b"<>", RedirectOperator::ReadWrite),
    (b"<", RedirectOperator::Read),
    (b">>", RedirectOperator::Append),
    (b">|", RedirectOperator::Clobber),
    (b">&", RedirectOperator::DuplicateOutput),
    (b">", RedirectOperator::Write),
    (b"&>>", RedirectOperator::AppendBoth),
    (b"&>", RedirectOperator::WriteBoth),
];

impl Parser<'_> {
    /// The redirections behind a compound command.
    pub fn redirects(&mut self) -> Vec<Redirect> {
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            match self.redirect() {
                Some(redirect) => redirects.push(redirect),
                None => return redirects,
            }
        }
    }

    /// A redirection, if one stands here.
    pub fn redirect(&mut self) -> Option<Redirect> {
        let start = self.pos;
        let descriptor = match self.peek()? {
            b'<' | b'>' => None,
            b'&' if self.peek_ahead(1) == Some(b'>') => None,
            b'0'..=b'9' | b'{' => Some(self.descriptor()?),
            _ => return None,
        };
        if self.at_process() {
            return None;
        }
        let (_, operator) = OPERATORS.into_iter().find(|(text, _)| self.eat_all(text))?;
        let target = match operator {
            RedirectOperator::HereDocument => self.here_document(),
            _ => {
                self.skip_blanks();
                let word = self.word(Mode::Word);
                if word.parts.is_empty() {
                    self.fail(Reason::Syntax("a redirection leads nowhere"));
                }
                RedirectTarget::Word(word)
            }
        };
        Some(Redirect {
            descriptor,
            operator,
            target,
            span: self.span(start),
        })
    }

    /// `2` or `{name}` directly before `<` or `>`; nothing is taken otherwise.
    fn descriptor(&mut self) -> Option<Descriptor> {
        let checkpoint = self.checkpoint();
        let descriptor = if self.eat(b'{') {
            let name = self.identifier();
            if !name.is_empty() && self.eat(b'[') {
                self.subscript();
                self.eat(b']');
            }
            (!name.is_empty() && self.eat(b'}')).then_some(Descriptor::Variable(name))
        } else {
            let mut number = 0u32;
            while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
                number = number
                    .saturating_mul(10)
                    .saturating_add(u32::from(digit - b'0'));
                self.advance(1);
            }
            Some(Descriptor::Number(number))
        };
        let fits = matches!(self.peek(), Some(b'<' | b'>')) && !self.at_process();
        match descriptor {
            Some(descriptor) if fits && !self.failed() => Some(descriptor),
            _ => {
                self.restore(checkpoint);
                None
            }
        }
    }

    /// Whether `<(` or `>(` stands here.
    pub fn at_process(&mut self) -> bool {
        matches!(self.peek(), Some(b'<' | b'>')) && self.peek_ahead(1) == Some(b'(')
    }
}
