//! Here-documents: the delimiter now, the body after the next newline.

use super::Parser;
use super::text::Mode;
use crate::shell::ast::{Command, CommandKind, Reason, RedirectTarget, Script, Span};
use crate::shell::word::{Part, PartKind, Word};

/// A here-document whose body has not come yet.
pub(super) struct Pending {
    index: usize,
    delimiter: Vec<u8>,
    /// Whether any of the delimiter was quoted: then the body is not expanded.
    quoted: bool,
    /// `<<-`: leading tabs are dropped.
    tabs: bool,
}

impl Parser<'_> {
    /// The rest of `<<` or `<<-`.
    pub fn here_document(&mut self) -> RedirectTarget {
        let tabs = self.eat(b'-');
        self.skip_blanks();
        let (delimiter, quoted) = self.delimiter();
        let index = self.documents.len();
        self.documents.push(Word::default());
        self.pending.push(Pending {
            index,
            delimiter,
            quoted,
            tabs,
        });
        // `fill` puts the body here.
        let span = Span {
            start: index as u32,
            end: u32::MAX,
        };
        RedirectTarget::Document(Word {
            parts: Vec::new(),
            span,
        })
    }

    fn delimiter(&mut self) -> (Vec<u8>, bool) {
        let (mut text, mut quoted, start) = (Vec::new(), false, self.pos);
        while let Some(byte) = self.peek().filter(|&b| !super::reserved::ends_word(b)) {
            self.advance(1);
            match byte {
                b'\'' => {
                    quoted = true;
                    self.until_quote(byte, &mut text);
                }
                b'"' => {
                    quoted = true;
                    self.until_quote(byte, &mut text);
                }
                b'\\' => {
                    quoted = true;
                    text.extend(self.take());
                }
                b'$' if !matches!(self.peek(), Some(b'(' | b'{' | b'[' | b'\'' | b'"')) => {
                    text.push(byte)
                }
                b'`' | b'$' => self.fail(Reason::Ambiguous("a here-document's delimiter")),
                _ => text.push(byte),
            }
        }
        if self.pos == start || text.contains(&b'\n') {
            self.fail(Reason::Syntax("a here-document without a delimiter"));
        }
        (text, quoted)
    }

    fn until_quote(&mut self, quote: u8, text: &mut Vec<u8>) {
        loop {
            let Some(&byte) = self.source.get(self.pos) else {
                return self.fail(Reason::Unterminated("here-document delimiter"));
            };
            self.advance(1);
            if byte == quote {
                return;
            }
            if quote == b'"' && matches!(byte, b'\\' | b'`' | b'$') {
                return self.fail(Reason::Ambiguous("a here-document's delimiter"));
            }
            text.push(byte);
        }
    }

    /// Reads the bodies that begin on this line.
    pub fn read_documents(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            let word = self.body(&pending);
            if let Some(place) = self.documents.get_mut(pending.index) {
                *place = word;
            }
        }
    }

    fn body(&mut self, pending: &Pending) -> Word {
        let start = self.pos;
        let (mut text, mut origins) = (Vec::new(), Vec::new());
        let mut end = self.pos;
        while !self.at_end() {
            let line = text.len();
            let whole = self.line(pending, &mut text, &mut origins);
            let read = text.get(line..).unwrap_or_default();
            if read == pending.delimiter {
                text.truncate(line);
                origins.truncate(line);
                break;
            }
            let early = self.substitution
                && read
                    .strip_prefix(pending.delimiter.as_slice())
                    .is_some_and(|rest| rest.contains(&b')'));
            if early {
                // bash ends the document here, other shells go on.
                self.fail(Reason::Ambiguous("the end of a here-document"));
            }
            if whole {
                text.push(b'\n');
                origins.push(self.span(self.pos - 1).start);
            }
            end = self.pos;
            if self.at_end() && self.substitution {
                self.fail(Reason::Unterminated("here-document"));
            }
        }
        let mut span = self.span(start);
        span.end = self.span(end).start.max(span.start);
        origins.push(span.end);
        if pending.quoted {
            let kind = PartKind::Quoted(text);
            let parts = vec![Part { kind, span }];
            return Word { parts, span };
        }
        let mut word = self.deeper(|p| p.inner(&text, Some(&origins)).document());
        word.span = span;
        word
    }

    /// One line without its newline, continuations joined; says whether it had one.
    fn line(&mut self, pending: &Pending, text: &mut Vec<u8>, origins: &mut Vec<u32>) -> bool {
        if pending.tabs {
            while self.source.get(self.pos) == Some(&b'\t') {
                self.advance(1);
            }
        }
        while let Some(&byte) = self.source.get(self.pos) {
            let next = self.source.get(self.pos + 1).copied();
            let pair = match (byte, next) {
                (b'\n', _) => {
                    self.advance(1);
                    return true;
                }
                (b'\\', Some(b'\n')) if !pending.quoted => {
                    self.advance(2);
                    continue;
                }
                (b'\\', Some(_)) if !pending.quoted => 2,
                _ => 1,
            };
            for _ in 0..pair {
                text.extend(self.source.get(self.pos));
                origins.push(self.span(self.pos).start);
                self.advance(1);
            }
        }
        false
    }

    /// The whole source as the body of a here-document that is expanded.
    pub fn document(&mut self) -> Word {
        let start = self.pos;
        let mut parts = self.text(Mode::Document).finish();
        let span = self.span(start);
        parts.extend(self.failure.take().map(super::opaque_part));
        Word { parts, span }
    }

    /// Puts the bodies that were read where they belong.
    pub fn fill(&mut self, script: &mut Script) {
        if !self.documents.is_empty() {
            let mut documents = std::mem::take(&mut self.documents);
            fill_script(script, &mut documents);
        }
    }
}

fn fill_script(script: &mut Script, documents: &mut [Word]) {
    for list in &mut script.lists {
        let pipelines =
            std::iter::once(&mut list.first).chain(list.rest.iter_mut().map(|r| &mut r.1));
        for command in pipelines.flat_map(|pipeline| &mut pipeline.commands) {
            fill_command(command, documents);
        }
    }
}

fn fill_command(command: &mut Command, documents: &mut [Word]) {
    for redirect in &mut command.redirects {
        if let RedirectTarget::Document(word) = &mut redirect.target
            && word.span.end == u32::MAX
        {
            let index = word.span.start as usize;
            *word = documents
                .get_mut(index)
                .map(std::mem::take)
                .unwrap_or_default();
        }
    }
    match &mut command.kind {
        CommandKind::Subshell(script) | CommandKind::Group(script) => {
            fill_script(script, documents);
        }
        CommandKind::If(command) => {
            for (condition, body) in &mut command.branches {
                fill_script(condition, documents);
                fill_script(body, documents);
            }
            if let Some(script) = &mut command.otherwise {
                fill_script(script, documents);
            }
        }
        CommandKind::While(command) => {
            fill_script(&mut command.condition, documents);
            fill_script(&mut command.body, documents);
        }
        CommandKind::For(command) => fill_script(&mut command.body, documents),
        CommandKind::ArithmeticFor(command) => fill_script(&mut command.body, documents),
        CommandKind::Case(command) => {
            for arm in &mut command.arms {
                fill_script(&mut arm.body, documents);
            }
        }
        CommandKind::Function(function) => fill_command(&mut function.body, documents),
        CommandKind::Coprocess(coprocess) => fill_command(&mut coprocess.body, documents),
        CommandKind::Simple(_)
        | CommandKind::Arithmetic(_)
        | CommandKind::Test(_)
        | CommandKind::Opaque(_) => {}
    }
}
