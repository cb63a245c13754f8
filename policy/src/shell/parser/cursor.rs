//! The place in the source where reading stands, with its limits: length, depth, steps.

use std::cell::Cell;

use super::Parser;
use crate::shell::ast::{Opaque, Reason, Span};
use crate::shell::{MAX_DEPTH, MAX_LENGTH};

/// Steps that a source may take for each of its bytes, and some for the start. Ordinary
/// scripts need three to seven; only text that is read again (a here-document in a
/// here-document, `((` that turns out to be two subshells) needs more.
const STEPS_PER_BYTE: usize = 16;
const STEPS_AT_LEAST: usize = 4096;

/// Commands that one source may hold. A script of 64 KiB that a person wrote has about
/// two thousand; what has more is made to tire whoever judges it.
const MAX_COMMANDS: usize = 4096;

/// The steps and commands left to one source and everything inside it.
pub(super) struct Fuel {
    steps: Cell<usize>,
    spent: Cell<usize>,
    commands: Cell<usize>,
}

impl Fuel {
    pub fn new(length: usize) -> Fuel {
        Fuel {
            steps: Cell::new(length.min(MAX_LENGTH) * STEPS_PER_BYTE + STEPS_AT_LEAST),
            spent: Cell::new(0),
            commands: Cell::new(MAX_COMMANDS),
        }
    }

    /// The steps that were taken.
    pub fn spent(&self) -> usize {
        self.spent.get()
    }

    fn left(&self) -> usize {
        self.steps.get()
    }
}

/// Where to go back to when a guess was wrong.
pub(super) struct Checkpoint {
    pos: usize,
    failure: Option<Opaque>,
    pending: usize,
}

impl Parser<'_> {
    /// The next byte, with line continuations before it skipped.
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.source.get(self.pos)?;
            if byte != b'\\' || self.source.get(self.pos + 1) != Some(&b'\n') {
                return Some(byte);
            }
            self.advance(2);
        }
    }

    /// The byte `ahead` of the next one, line continuations not counted.
    pub fn peek_ahead(&mut self, ahead: usize) -> Option<u8> {
        self.peek()?;
        let mut pos = self.pos;
        let mut left = ahead;
        loop {
            self.spend(1);
            let byte = *self.source.get(pos)?;
            if byte == b'\\' && self.source.get(pos + 1) == Some(&b'\n') {
                pos += 2;
            } else if left == 0 {
                return Some(byte);
            } else {
                left -= 1;
                pos += 1;
            }
        }
    }

    /// Takes this byte if it is the next one.
    pub fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.advance(1);
        }
        found
    }

    /// Takes these bytes if they are the next ones.
    pub fn eat_all(&mut self, bytes: &[u8]) -> bool {
        let found = (0..bytes.len()).all(|i| self.peek_ahead(i) == bytes.get(i).copied());
        if found {
            for _ in bytes {
                self.peek();
                self.advance(1);
            }
        }
        found
    }

    /// Takes the next byte, whatever it is.
    pub fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.advance(1);
        Some(byte)
    }

    pub fn advance(&mut self, count: usize) {
        self.pos = (self.pos + count).min(self.source.len());
        self.spend(count);
    }

    pub fn spend(&mut self, count: usize) {
        let left = self.fuel.steps.get();
        self.fuel.steps.set(left.saturating_sub(count));
        self.fuel.spent.set(self.fuel.spent.get() + count.min(left));
        if left <= count {
            self.fail(Reason::TooComplex);
        }
    }

    /// Counts a command; gives up if there are too many.
    pub fn count_command(&mut self) {
        match self.fuel.commands.get().checked_sub(1) {
            Some(left) => self.fuel.commands.set(left),
            None => {
                // For whatever is around this, too.
                self.fuel.steps.set(0);
                self.fail(Reason::TooComplex);
            }
        }
    }

    pub fn at_end(&self) -> bool {
        self.pos >= self.source.len()
    }

    /// Blanks and line continuations, and a comment if one starts here.
    pub fn skip_blanks(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' => self.advance(1),
                b'#' => {
                    let rest = self.source.get(self.pos..).unwrap_or_default();
                    let length = rest.iter().position(|&b| b == b'\n');
                    self.advance(length.unwrap_or(rest.len()));
                }
                _ => break,
            }
        }
    }

    /// The span from a place to here, in the original source.
    pub fn span(&self, start: usize) -> Span {
        Span {
            start: self.origin(start),
            end: self.origin(self.pos).max(self.origin(start)),
        }
    }

    fn origin(&self, pos: usize) -> u32 {
        match self.origins {
            None => pos as u32,
            Some(origins) => origins
                .get(pos)
                .or(origins.last())
                .copied()
                .unwrap_or_default(),
        }
    }

    /// Gives up: everything from here to the end is opaque, and reading is over. The
    /// first failure counts, those that follow from it do not.
    pub fn fail(&mut self, reason: Reason) {
        if self.failure.is_none() {
            let start = self.pos;
            self.pos = self.source.len();
            let span = self.span(start);
            self.failure = Some(Opaque { reason, span });
        }
        self.pos = self.source.len();
    }

    pub fn failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Takes what must come here, or gives up.
    pub fn expect(&mut self, byte: u8, missing: Reason) {
        if !self.eat(byte) {
            self.fail(missing);
        }
    }

    /// Reads something one level deeper, if there is a level left.
    pub fn deeper<T: Default>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        if self.depth >= MAX_DEPTH {
            self.fail(Reason::TooDeep);
            return T::default();
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            pos: self.pos,
            failure: self.failure.clone(),
            pending: self.pending.len(),
        }
    }

    pub fn restore(&mut self, checkpoint: Checkpoint) {
        self.pos = checkpoint.pos;
        self.failure = checkpoint.failure;
        self.pending.truncate(checkpoint.pending);
        if self.fuel.left() == 0 {
            self.fail(Reason::TooComplex);
        }
    }
}
