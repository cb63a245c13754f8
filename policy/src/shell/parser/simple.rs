//! Simple commands: assignments, words, redirections; and functions spelled `name()`.

use super::Parser;
use super::cursor::Checkpoint;
use super::reserved::ends_word;
use super::text::Mode;
use crate::shell::ast::{Command, CommandKind, Opaque, Reason, Simple};
use crate::shell::word::{Assignment, AssignmentMode, Element, Part, PartKind, Word};

impl Parser<'_> {
    pub fn simple(&mut self) -> Option<Command> {
        let start = self.pos;
        let mut end = start;
        let mut simple = Simple::default();
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.redirect() {
                redirects.push(redirect);
            } else if self.peek().is_none_or(ends_word) && !self.at_process() {
                break;
            } else if simple.words.is_empty()
                && let Some(assignment) = self.assignment()
            {
                simple.assignments.push(assignment);
            } else {
                simple.words.push(self.word(Mode::Word));
                let alone = simple.words.len() == 1
                    && simple.assignments.is_empty()
                    && redirects.is_empty();
                if alone && self.eat_function_parentheses() {
                    let name = simple.words.remove(0);
                    let kind = self.deeper(|p| Some(p.function(name)))?;
                    let span = self.span(start);
                    return Some(Command {
                        kind,
                        redirects,
                        span,
                    });
                }
            }
            end = self.pos;
        }
        if simple == Simple::default() && redirects.is_empty() {
            return None;
        }
        // Most commands have few words, and there may be thousands of commands.
        simple.words.shrink_to_fit();
        let mut span = self.span(start);
        span.end = self.span(end).start;
        Some(Command {
            kind: CommandKind::Simple(simple),
            redirects,
            span,
        })
    }

    /// `()` behind a command's name.
    fn eat_function_parentheses(&mut self) -> bool {
        let checkpoint = self.checkpoint();
        self.skip_blanks();
        if !self.eat(b'(') {
            self.restore(checkpoint);
            return false;
        }
        self.skip_blanks();
        self.expect(b')', Reason::Syntax("unexpected ("));
        !self.failed()
    }

    /// `name=…`, `name+=…`, `name[…]=…`, if one stands here.
    fn assignment(&mut self) -> Option<Assignment> {
        let start = self.pos;
        let checkpoint = self.checkpoint();
        let name = self.identifier();
        let mut subscript = None;
        if !name.is_empty() && self.eat(b'[') {
            let word = self.subscript();
            if !self.eat(b']') {
                return self.not_subscript(checkpoint);
            }
            subscript = Some(word);
        }
        let mode = if name.is_empty() {
            None
        } else if self.eat(b'=') {
            Some(AssignmentMode::Set)
        } else if self.eat_all(b"+=") {
            Some(AssignmentMode::Append)
        } else {
            None
        };
        let Some(mode) = mode else {
            if let Some(word) = &subscript {
                self.check_subscript(word, b" \t\n;&|<>");
            }
            return self.not_subscript(checkpoint);
        };
        if let Some(word) = &subscript {
            self.check_subscript(word, b"\n;&|<>");
        }
        let value = self.assigned();
        Some(Assignment {
            name,
            subscript,
            mode,
            value,
            span: self.span(start),
        })
    }

    /// What looked like a subscript is part of a word after all, or never ends; a doubt
    /// about it stays one.
    fn not_subscript<T>(&mut self, checkpoint: Checkpoint) -> Option<T> {
        match &self.failure {
            None => self.restore(checkpoint),
            Some(Opaque {
                reason: Reason::Unterminated(_) | Reason::Unfinished(_),
                ..
            }) => {
                self.restore(checkpoint);
            }
            Some(_) => {}
        }
        None
    }

    /// bash reads a subscript to its end whatever is in it; other shells end the word,
    /// or the command, or begin a comment.
    fn check_subscript(&mut self, word: &Word, doubtful: &[u8]) {
        let mut before = b' ';
        for part in &word.parts {
            let PartKind::Plain(text) = &part.kind else {
                before = b'x';
                continue;
            };
            for &byte in text {
                let comment = byte == b'#' && matches!(before, b' ' | b'\t');
                if comment || doubtful.contains(&byte) {
                    return self.fail(Reason::Ambiguous("a subscript"));
                }
                before = byte;
            }
        }
    }

    /// What stands behind `=`.
    fn assigned(&mut self) -> Word {
        if self.peek() != Some(b'(') {
            return self.word(Mode::Value);
        }
        let part = self.array();
        let mut word = Word {
            span: part.span,
            parts: vec![part],
        };
        // `a=(x)y` is not valid; what follows is kept all the same.
        let rest = self.word(Mode::Value);
        word.span = word.span.to(rest.span);
        word.parts.extend(rest.parts);
        word
    }

    /// `( … )` behind `name=`.
    pub fn array(&mut self) -> Part {
        let start = self.pos;
        self.eat(b'(');
        let elements = self.deeper(|p| {
            let mut elements = Vec::new();
            loop {
                p.skip_newlines();
                if p.eat(b')') {
                    return elements;
                }
                if p.peek().is_none_or(ends_word) && !p.at_process() {
                    p.fail(Reason::Unterminated("array"));
                    return elements;
                }
                elements.push(p.element());
            }
        });
        Part {
            kind: PartKind::Array(elements),
            span: self.span(start),
        }
    }

    fn element(&mut self) -> Element {
        let checkpoint = self.checkpoint();
        if self.eat(b'[') {
            let key = self.subscript();
            if self.eat(b']') {
                if self.eat(b'=') || self.eat_all(b"+=") {
                    let value = self.word(Mode::Value);
                    let key = Some(key);
                    return Element { key, value };
                }
                self.check_subscript(&key, b" \t\n;&|<>");
            }
            self.not_subscript::<Element>(checkpoint);
        }
        Element {
            key: None,
            value: self.word(Mode::Word),
        }
    }

    /// The inside of `[ … ]`.
    pub fn subscript(&mut self) -> Word {
        self.deeper(|p| {
            let start = p.pos;
            let parts = p.text(Mode::Bracket).finish();
            let span = p.span(start);
            Word { parts, span }
        })
    }

    /// A name, or nothing.
    pub fn identifier(&mut self) -> Vec<u8> {
        let mut name = Vec::new();
        while let Some(byte) = self.peek() {
            let fits = match name.is_empty() {
                true => byte.is_ascii_alphabetic() || byte == b'_',
                false => byte.is_ascii_alphanumeric() || byte == b'_',
            };
            if !fits {
                break;
            }
            name.push(byte);
            self.advance(1);
        }
        name
    }
}
