//! Reserved words, which mean something only where a command begins.

use super::Parser;

/// A word with a meaning of its own where a command begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserved {
    If,
    While,
    Until,
    For,
    Select,
    Case,
    Function,
    Coproc,
    OpenBrace,
    OpenTest,
    /// `then do done fi elif else esac }`: ends or continues something around.
    Closing,
}

impl Reserved {
    pub fn of(word: &[u8]) -> Option<Reserved> {
        Some(match word {
            b"if" => Reserved::If,
            b"while" => Reserved::While,
            b"until" => Reserved::Until,
            b"for" => Reserved::For,
            b"select" => Reserved::Select,
            b"case" => Reserved::Case,
            b"function" => Reserved::Function,
            b"coproc" => Reserved::Coproc,
            b"{" => Reserved::OpenBrace,
            b"[[" => Reserved::OpenTest,
            b"then" | b"do" | b"done" | b"fi" | b"elif" | b"else" | b"esac" | b"}" => {
                Reserved::Closing
            }
            _ => return None,
        })
    }
}

impl Parser<'_> {
    /// Whether exactly this unquoted word stands here.
    pub fn at_word(&mut self, word: &[u8]) -> bool {
        (0..word.len()).all(|i| self.peek_ahead(i) == word.get(i).copied())
            && self.peek_ahead(word.len()).is_none_or(ends_word)
    }

    /// Takes exactly this unquoted word if it stands here.
    pub fn eat_word(&mut self, word: &[u8]) -> bool {
        self.at_word(word) && self.eat_all(word)
    }

    /// The reserved word that stands here, if there is one.
    pub fn reserved(&mut self) -> Option<Reserved> {
        const LONGEST: usize = 8;
        if self.inline && self.peek() == Some(b'}') {
            return Some(Reserved::Closing);
        }
        let mut word = Vec::with_capacity(LONGEST);
        while word.len() <= LONGEST {
            match self.peek_ahead(word.len()) {
                Some(byte) if !ends_word(byte) => word.push(byte),
                _ => break,
            }
        }
        Reserved::of(&word)
    }
}

/// Whether a byte ends an unquoted word.
pub(super) fn ends_word(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>'
    )
}
