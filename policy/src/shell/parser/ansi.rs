//! `$'…'`: quotes with escapes.

use super::Parser;
use crate::shell::ast::Reason;
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
        let kind = PartKind::Quoted(decode(text));
        self.advance(1);
        Part {
            kind,
            span: self.span(start),
        }
    }
}

fn decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some((&escape, after)) = rest.split_first() else {
            out.push(b'\\');
            break;
        };
        rest = after;
        match escape {
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'e' | b'E' => out.push(27),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'\\' | b'\'' | b'"' | b'?' => out.push(escape),
            b'0'..=b'7' => {
                let whole = &text[text.len() - rest.len() - 1..];
                let (value, after) = number(whole, 8, 3);
                out.push(value as u8);
                rest = after;
            }
            b'x' => {
                let braced = rest.strip_prefix(b"{");
                let most = if braced.is_some() { 8 } else { 2 };
                let digits = braced.unwrap_or(rest);
                let (value, after) = number(digits, 16, most);
                if after.len() == digits.len() {
                    out.extend_from_slice(b"\\x");
                } else {
                    out.push(value as u8);
                    rest = match braced {
                        Some(_) => after.strip_prefix(b"}").unwrap_or(after),
                        None => after,
                    };
                }
            }
            b'u' | b'U' => {
                let (value, after) = number(rest, 16, if escape == b'u' { 4 } else { 8 });
                match char::from_u32(value).filter(|_| after.len() < rest.len()) {
                    Some(letter) => {
                        out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                    None => out.extend_from_slice(&[b'\\', escape]),
                }
                rest = after;
            }
            b'c' => {
                if let Some((&control, after)) = rest.split_first() {
                    out.push(control.to_ascii_uppercase() & 0x1f);
                    rest = after;
                }
            }
            other => out.extend_from_slice(&[b'\\', other]),
        }
    }
    // A NUL ends the string.
    if let Some(end) = out.iter().position(|&byte| byte == 0) {
        out.truncate(end);
    }
    out
}

fn number(text: &[u8], radix: u32, most: usize) -> (u32, &[u8]) {
    let count = text
        .iter()
        .take(most)
        .take_while(|&&byte| (byte as char).is_digit(radix))
        .count();
    let (digits, rest) = text.split_at(count);
    let value = digits.iter().fold(0u32, |sum, &byte| {
        let digit = (byte as char).to_digit(radix).unwrap_or_default();
        sum.wrapping_mul(radix).wrapping_add(digit)
    });
    (value, rest)
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn escapes_are_decoded_as_bash_does() {
        assert_eq!(decode(br"\x72\155 \u0041\e\cA"), b"rm A\x1b\x01");
        assert_eq!(decode(br"a\0b"), b"a");
        assert_eq!(decode(br"\q\x\u"), br"\q\x\u");
        assert_eq!(decode(br"\x{72}m\'"), b"rm'");
        assert_eq!(decode(br"\1012\777"), b"A2\xff");
    }
}
