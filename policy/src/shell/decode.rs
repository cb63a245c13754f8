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

/// The escapes of `echo -e` and of a `printf` format: `\n`, `\x41`, `\101`, `\0101`.
pub fn escapes(text: &[u8]) -> Vec<u8> {
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
            b'c' => break,
            b'x' => rest = digits(rest, 16, 2, b"\\x", &mut out),
            b'0'..=b'7' => {
                // echo writes \0101, printf writes \101: take what comes, up to three
                // digits behind a leading zero.
                let whole = &text[text.len() - rest.len() - 1..];
                let most = if escape == b'0' { 4 } else { 3 };
                rest = digits(whole, 8, most, b"\\", &mut out);
            }
            other => out.extend_from_slice(&[b'\\', other]),
        }
    }
    out
}

fn digits<'a>(
    text: &'a [u8],
    radix: u32,
    most: usize,
    otherwise: &[u8],
    out: &mut Vec<u8>,
) -> &'a [u8] {
    let count = text
        .iter()
        .take(most)
        .take_while(|&&byte| (byte as char).is_digit(radix))
        .count();
    if count == 0 {
        out.extend_from_slice(otherwise);
        return text;
    }
    let (number, rest) = text.split_at(count);
    let value = number.iter().fold(0u32, |sum, &byte| {
        sum * radix + (byte as char).to_digit(radix).unwrap_or_default()
    });
    out.push(value as u8);
    rest
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
