//! From what was read of a word to its parts: neighbouring text joined, braces paired.

use super::text::is_identifier;
use crate::shell::MAX_DEPTH;
use crate::shell::ast::{Opaque, Reason, Span};
use crate::shell::word::{Part, PartKind, Word};

/// What was read of a text so far.
#[derive(Default)]
pub(super) struct Lexemes {
    items: Vec<Lexeme>,
    /// Whether the text began as `name=`, once that is known.
    assignment: Option<bool>,
}

enum Lexeme {
    Part(Part),
    /// An unquoted `{`, `,`, `}`, `[` or `]`, which may have a meaning.
    Mark(u8, Span),
}

impl Lexemes {
    pub fn part(&mut self, part: Part) {
        self.items.push(Lexeme::Part(part));
    }

    pub fn mark(&mut self, byte: u8, span: Span) {
        self.items.push(Lexeme::Mark(byte, span));
    }

    pub fn plain(&mut self, byte: u8, span: Span) {
        if byte == b'=' && self.assignment.is_none() {
            self.assignment = Some(self.is_name());
        }
        if let Some(Lexeme::Part(last)) = self.items.last_mut()
            && let PartKind::Plain(text) = &mut last.kind
        {
            text.push(byte);
            last.span.end = span.end;
            return;
        }
        self.part(Part {
            kind: PartKind::Plain(vec![byte]),
            span,
        });
    }

    /// Several bytes that mean nothing; no `=` is among them where that could matter.
    pub fn ordinary(&mut self, bytes: &[u8], span: Span) {
        if let Some(Lexeme::Part(last)) = self.items.last_mut()
            && let PartKind::Plain(text) = &mut last.kind
        {
            text.extend_from_slice(bytes);
            last.span.end = span.end;
            return;
        }
        self.part(Part {
            kind: PartKind::Plain(bytes.to_vec()),
            span,
        });
    }

    fn is_name(&self) -> bool {
        match self.items.as_slice() {
            [
                Lexeme::Part(Part {
                    kind: PartKind::Plain(text),
                    ..
                }),
            ] => is_identifier(text.strip_suffix(b"+").unwrap_or(text)),
            _ => false,
        }
    }

    /// Whether the text began as `name=`.
    pub fn is_assignment(&self) -> bool {
        self.assignment == Some(true)
    }

    /// The parts, where braces stand for themselves.
    pub fn finish(mut self) -> Vec<Part> {
        if let [Lexeme::Part(_)] = self.items.as_slice()
            && let Some(Lexeme::Part(part)) = self.items.pop()
        {
            return vec![part];
        }
        let mut parts = Vec::with_capacity(self.items.len().min(8));
        for item in self.items {
            match item {
                Lexeme::Part(part) => push(&mut parts, part),
                Lexeme::Mark(byte, span) => push(&mut parts, plain(byte, span)),
            }
        }
        parts
    }

    /// The parts, with `{a,b}` and `{1..3}` recognised, and `[` where a `]` follows.
    pub fn finish_with_braces(self) -> Vec<Part> {
        let marked = |item: &Lexeme| matches!(item, Lexeme::Mark(..));
        if !self.items.iter().any(marked) {
            return self.finish();
        }
        let last_bracket = self
            .items
            .iter()
            .rposition(|item| matches!(item, Lexeme::Mark(b']', _)))
            .unwrap_or_default();
        let mut stack = vec![Frame::default()];
        for (i, item) in self.items.into_iter().enumerate() {
            match item {
                Lexeme::Part(part) => add(&mut stack, part),
                Lexeme::Mark(b'[', span) if i < last_bracket => {
                    let kind = PartKind::Glob(b'[');
                    add(&mut stack, Part { kind, span });
                }
                Lexeme::Mark(b'{', span) => {
                    if stack.len() > MAX_DEPTH {
                        let reason = Reason::TooDeep;
                        let kind = PartKind::Opaque(Opaque { reason, span });
                        return vec![Part { kind, span }];
                    }
                    stack.push(Frame {
                        open: Some(span),
                        ..Frame::default()
                    });
                }
                Lexeme::Mark(b',', span) if stack.len() > 1 => {
                    if let Some(frame) = stack.last_mut() {
                        let alternative = std::mem::take(&mut frame.current);
                        frame.alternatives.push((alternative, span));
                    }
                }
                Lexeme::Mark(b'}', span) if stack.len() > 1 => {
                    if let Some(frame) = stack.pop() {
                        frame.close(span, &mut stack);
                    }
                }
                Lexeme::Mark(byte, span) => add(&mut stack, plain(byte, span)),
            }
        }
        while stack.len() > 1 {
            if let Some(frame) = stack.pop() {
                frame.flatten(&mut stack);
            }
        }
        stack.pop().map(|frame| frame.current).unwrap_or_default()
    }
}

/// An open brace and what came after it.
#[derive(Default)]
struct Frame {
    open: Option<Span>,
    /// Alternatives that a comma ended, with the comma's place.
    alternatives: Vec<(Vec<Part>, Span)>,
    current: Vec<Part>,
}

impl Frame {
    fn close(mut self, end: Span, stack: &mut [Frame]) {
        let span = self.open.unwrap_or(end).to(end);
        if self.alternatives.is_empty() {
            let range = match self.current.as_slice() {
                [
                    Part {
                        kind: PartKind::Plain(text),
                        ..
                    },
                ] if is_range(text) => Some(text.clone()),
                _ => None,
            };
            match range {
                Some(text) => {
                    let kind = PartKind::Range(text);
                    add(stack, Part { kind, span });
                }
                None => {
                    self.current.push(plain(b'}', end));
                    self.flatten(stack);
                }
            }
            return;
        }
        self.alternatives.push((self.current, end));
        let words = self
            .alternatives
            .into_iter()
            .map(|(parts, comma)| Word {
                span: parts.first().map_or(comma, |first| first.span).to(Span {
                    start: comma.start,
                    end: comma.start,
                }),
                parts,
            })
            .collect();
        let kind = PartKind::Braces(words);
        add(stack, Part { kind, span });
    }

    /// Not a brace expansion: the bytes stand for themselves.
    fn flatten(self, stack: &mut [Frame]) {
        if let Some(span) = self.open {
            add(stack, plain(b'{', span));
        }
        for (parts, comma) in self.alternatives {
            parts.into_iter().for_each(|part| add(stack, part));
            add(stack, plain(b',', comma));
        }
        self.current.into_iter().for_each(|part| add(stack, part));
    }
}

fn add(stack: &mut [Frame], part: Part) {
    if let Some(frame) = stack.last_mut() {
        push(&mut frame.current, part);
    }
}

fn push(parts: &mut Vec<Part>, part: Part) {
    if let PartKind::Plain(text) = &part.kind
        && let Some(last) = parts.last_mut()
        && let PartKind::Plain(before) = &mut last.kind
    {
        before.extend_from_slice(text);
        last.span.end = part.span.end;
        return;
    }
    parts.push(part);
}

fn plain(byte: u8, span: Span) -> Part {
    Part {
        kind: PartKind::Plain(vec![byte]),
        span,
    }
}

/// `1..9`, `a..e`, each with an optional step.
fn is_range(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let ends: Vec<&str> = text.split("..").collect();
    let number = |s: &str| s.parse::<i64>().is_ok();
    let letter = |s: &str| s.len() == 1 && s.bytes().all(|b| b.is_ascii_alphabetic());
    match ends.as_slice() {
        [from, to] | [from, to, _] => {
            ((number(from) && number(to)) || (letter(from) && letter(to)))
                && ends.get(2).is_none_or(|step| number(step))
        }
        _ => false,
    }
}
