//! Decoders that hide commands in plain sight: pure functions for folding
//! `echo cm0gLXJm | base64 -d | sh` and its kin.

/// What `base64 -d` makes of the text; `None` if it would complain.
pub fn base64(text: &[u8]) -> Option<Vec<u8>> {
    bits(text, 6, |byte| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    })
}

/// What `base32 -d` makes of the text.
pub fn base32(text: &[u8]) -> Option<Vec<u8>> {
    bits(text, 5, |byte| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'2'..=b'7' => Some(byte - b'2' + 26),
        _ => None,
    })
}

fn bits(text: &[u8], width: u32, digit: impl Fn(u8) -> Option<u8>) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut pending, mut held) = (0u32, 0u32);
    for &byte in text.iter().filter(|b| !b.is_ascii_whitespace()) {
        if byte == b'=' {
            break;
        }
        pending = (pending << width) | u32::from(digit(byte)?);
        held += width;
        if held >= 8 {
            held -= 8;
            out.push((pending >> held) as u8);
            pending &= (1 << held) - 1;
        }
    }
    Some(out)
}

/// What `xxd -r -p` makes of the text: pairs of hexadecimal digits, all else skipped.
pub fn hex(text: &[u8]) -> Vec<u8> {
    let mut digits = text
        .iter()
        .filter_map(|&byte| (byte as char).to_digit(16))
        .map(|digit| digit as u8);
    let mut out = Vec::with_capacity(text.len() / 2);
    while let (Some(high), Some(low)) = (digits.next(), digits.next()) {
        out.push(high << 4 | low);
    }
    out
}

/// What `rev` makes of the text: each line backwards.
pub fn reversed(text: &[u8]) -> Vec<u8> {
    let lines = text.split(|&byte| byte == b'\n');
    let turned: Vec<Vec<u8>> = lines
        .map(|line| line.iter().rev().copied().collect())
        .collect();
    turned.join(&b'\n')
}

/// The escapes of `echo -e` and of a `printf` format: `\n`, `\x41`, `\101`, `\0101`, `\u41`.
pub fn escapes(text: &[u8]) -> Vec<u8> {
    unescaped(text, Style::Printed)
}

/// The escapes inside `$'…'`; a NUL ends the string.
pub(super) fn ansi_quoted(text: &[u8]) -> Vec<u8> {
    let mut out = unescaped(text, Style::Quoted);
    if let Some(end) = out.iter().position(|&byte| byte == 0) {
        out.truncate(end);
    }
    out
}

/// Where escapes stand; a few mean something else.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// In `$'…'`.
    Quoted,
    /// In what `echo -e` and `printf` print.
    Printed,
}

fn unescaped(text: &[u8], style: Style) -> Vec<u8> {
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
            b'\\' => out.push(b'\\'),
            b'\'' | b'"' | b'?' if style == Style::Quoted => out.push(escape),
            b'0'..=b'7' => {
                // echo writes \0101, printf and quotes write \101.
                let whole = &text[text.len() - rest.len() - 1..];
                let leading = escape == b'0' && style == Style::Printed;
                let (value, after) = number(whole, 8, if leading { 4 } else { 3 });
                out.push(value as u8);
                rest = after;
            }
            b'x' => rest = hexadecimal(rest, style, &mut out),
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
            b'c' if style == Style::Printed => break,
            b'c' => {
                if let Some((&control, after)) = rest.split_first() {
                    out.push(control.to_ascii_uppercase() & 0x1f);
                    rest = after;
                }
            }
            other => out.extend_from_slice(&[b'\\', other]),
        }
    }
    out
}

/// `\x41`, and in quotes `\x{41}`; gives back what follows.
fn hexadecimal<'a>(text: &'a [u8], style: Style, out: &mut Vec<u8>) -> &'a [u8] {
    let braced = text.strip_prefix(b"{").filter(|_| style == Style::Quoted);
    let digits = braced.unwrap_or(text);
    let (value, after) = number(digits, 16, if braced.is_some() { 8 } else { 2 });
    if after.len() == digits.len() {
        out.extend_from_slice(b"\\x");
        return text;
    }
    out.push(value as u8);
    match braced {
        Some(_) => after.strip_prefix(b"}").unwrap_or(after),
        None => after,
    }
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

/// What the builtin `printf` prints for a format and arguments, when the format holds
/// only text, escapes, `%s`, `%b` and `%%`.
pub fn printf(format: &[u8], arguments: &[&[u8]]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut arguments = arguments.iter();
    loop {
        let mut used = false;
        let mut bytes = format.iter().peekable();
        let mut text = Vec::new();
        while let Some(&byte) = bytes.next() {
            if byte != b'%' {
                text.push(byte);
                if byte == b'\\'
                    && let Some(&escaped) = bytes.next()
                {
                    text.push(escaped);
                }
                continue;
            }
            out.extend(escapes(&std::mem::take(&mut text)));
            match bytes.next()? {
                b'%' => out.push(b'%'),
                b's' => {
                    used = true;
                    out.extend_from_slice(arguments.next().copied().unwrap_or_default());
                }
                b'b' => {
                    used = true;
                    out.extend(escapes(arguments.next().copied().unwrap_or_default()));
                }
                _ => return None,
            }
        }
        out.extend(escapes(&text));
        if !used || arguments.len() == 0 {
            return Some(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoders_agree_with_the_tools() {
        assert_eq!(base64(b"cm0gLXJmIC8K").as_deref(), Some(&b"rm -rf /\n"[..]));
        assert_eq!(base64(b"bHM=\n").as_deref(), Some(&b"ls"[..]));
        assert_eq!(base64(b"b!"), None);
        assert_eq!(base32(b"NRZQ====").as_deref(), Some(&b"ls"[..]));
        assert_eq!(hex(b"72 6d\n20"), b"rm ");
        assert_eq!(reversed(b"mr\nsl\n"), b"rm\nls\n");
        assert_eq!(escapes(br"\x72\155 \0162m\q\\n"), b"rm rm\\q\\n");
        assert_eq!(escapes(br"\u0072m \U0000002f\'"), b"rm /\\'");
    }

    #[test]
    fn quotes_are_decoded_as_bash_does() {
        assert_eq!(ansi_quoted(br"\x72\155 \u0041\e\cA"), b"rm A\x1b\x01");
        assert_eq!(ansi_quoted(br"a\0b"), b"a");
        assert_eq!(ansi_quoted(br"\q\x\u"), br"\q\x\u");
        assert_eq!(ansi_quoted(br"\x{72}m\'"), b"rm'");
        assert_eq!(ansi_quoted(br"\1012\777"), b"A2\xff");
    }

    #[test]
    fn printf_repeats_its_format() {
        assert_eq!(
            printf(br"%s-%%\n", &[b"a", b"b"]).as_deref(),
            Some(&b"a-%\nb-%\n"[..])
        );
        assert_eq!(printf(br"\162m", &[]).as_deref(), Some(&b"rm"[..]));
        assert_eq!(printf(b"%d", &[b"1"]), None);
    }
}
