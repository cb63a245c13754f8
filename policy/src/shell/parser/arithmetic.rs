//! `((` and what it may turn out to be.
//!
//! bash reads to the parenthesis that closes the second one; if another follows at once
//! it is arithmetic, otherwise two subshells. Other shells decide otherwise. What is not
//! plausible arithmetic is therefore not taken for it.

use super::Parser;
use super::text::Mode;
use crate::shell::ast::Reason;
use crate::shell::word::{Arithmetic, Part, PartKind};

impl Parser<'_> {
    /// The inside of `((` to `))`; `None` if it is two subshells. If it ends like
    /// arithmetic and does not look like it, that is a failure.
    pub fn arithmetic(&mut self) -> Option<Arithmetic> {
        let arithmetic = self.arithmetic_inside()?;
        if !self.failed() && !is_plausible(&arithmetic.parts) {
            self.fail(Reason::Ambiguous("(( … ))"));
        }
        Some(arithmetic)
    }

    /// The inside of `((` to `))`; `None` if it does not end so, and is something else.
    pub fn arithmetic_inside(&mut self) -> Option<Arithmetic> {
        let start = self.pos;
        let doubt = std::mem::replace(&mut self.doubt, false);
        let parts = self.deeper(|p| p.text(Mode::Paren).finish());
        let span = self.span(start);
        let complete = self.eat(b')') && self.eat(b')');
        if complete && self.doubt {
            self.fail(Reason::Ambiguous("quotes inside an expansion"));
        }
        self.doubt = doubt;
        // Whatever could not be read here may be read wrongly as commands, too.
        (complete || self.failed()).then_some(Arithmetic { parts, span })
    }

    /// Two subshells that began like arithmetic, from `start` to here. bash reads them a
    /// second time, and then looks for here-documents elsewhere.
    pub fn check_reread(&mut self, start: usize) {
        let text = self.source.get(start..self.pos).unwrap_or_default();
        let here = text.windows(2).any(|two| two == b"<<");
        self.spend(text.len());
        if here {
            self.fail(Reason::Ambiguous("a here-document inside (( … ))"));
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Operator,
    /// A name or number, with nothing behind it yet.
    Operand,
    /// A name or number, and a blank.
    Separated,
    /// An expansion, which may hold anything.
    Anything,
}

/// Whether operands and operators alternate and nothing else is there.
fn is_plausible(parts: &[Part]) -> bool {
    let mut last = Last::Anything;
    for part in parts {
        let PartKind::Plain(text) = &part.kind else {
            last = Last::Anything;
            continue;
        };
        for (i, &byte) in text.iter().enumerate() {
            last = match byte {
                b' ' | b'\t' | b'\n' if last == Last::Operand => Last::Separated,
                b' ' | b'\t' | b'\n' => last,
                b')' | b']' => Last::Separated,
                b'+' | b'-' if i > 0 && text.get(i - 1) == Some(&byte) => Last::Anything,
                b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'&' | b'|'
                | b'^' | b'~' | b'?' | b':' | b',' | b'(' | b'[' => Last::Operator,
                b'#' if last == Last::Operand => Last::Operand,
                _ if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'@') => {
                    if last == Last::Separated {
                        return false;
                    }
                    Last::Operand
                }
                _ => return false,
            };
        }
    }
    last != Last::Operator
}

#[cfg(test)]
mod tests {
    use crate::shell::{parse, walk};

    fn opaque(source: &str) -> bool {
        !walk::opaque(&parse(source.as_bytes())).is_empty()
    }

    #[test]
    fn arithmetic_is_taken_for_arithmetic() {
        for inside in [
            "",
            " i++ ",
            "--i",
            "x = y ? 1 : 2",
            "a[i + 1] *= 3",
            "16#ff & $mask",
            "$a $op $b",
            "x == 1 && (y > 2 || !z)",
            "a, b",
            "${#x} - 1",
            "$(n) + 1",
            "i <<= 2",
            "1.5 * @",
        ] {
            assert!(!opaque(&format!("(({inside}))")), "{inside}");
            assert!(!opaque(&format!("echo $(({inside}))")), "{inside}");
        }
    }

    #[test]
    fn commands_are_not() {
        for inside in [
            "rm -rf /",
            "a; b",
            "a | b c",
            "{ a; }",
            "a b",
            "a # b",
            "echo 'a(b)'",
        ] {
            assert!(opaque(&format!("(({inside}))")), "{inside}");
            assert!(opaque(&format!("echo $(({inside}))")), "{inside}");
        }
    }
}
