//! A source without its texts and comments: what stands in them is not called there.

use super::Language;

/// The source with blanks in place of what texts and comments say; every byte keeps its place.
/// What may be a call all the same stays: backticks, texts with braces, quotes that nothing closes.
pub(super) fn bare(source: &str, language: Language) -> Vec<u8> {
    let mut out = source.as_bytes().to_vec();
    let mut at = 0;
    while at < out.len() {
        let rest = &source.as_bytes()[at..];
        let end = match rest[0] {
            b'\\' => {
                at += 2;
                continue;
            }
            quote @ (b'"' | b'\'') => text_end(rest, quote),
            _ if begins_comment(source.as_bytes(), at, language) => {
                Some(rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()))
            }
            _ => None,
        };
        let Some(end) = end else {
            at += 1;
            continue;
        };
        if rest[0] == b'#' || !rest[..end].contains(&b'{') {
            let inside = &mut out[at + 1..at + end];
            for byte in inside.iter_mut().filter(|byte| **byte != b'\n') {
                *byte = b' ';
            }
        }
        at += end;
    }
    out
}

/// Where the text that begins here ends, its closing quote included.
fn text_end(rest: &[u8], quote: u8) -> Option<usize> {
    if rest.starts_with(&[quote, quote, quote]) {
        let inside = &rest[3..];
        let end = inside.windows(3).position(|part| part == [quote; 3])?;
        return Some(end + 6);
    }
    let mut at = 1;
    loop {
        match rest.get(at)? {
            b'\\' => at += 2,
            b'\n' => return None,
            byte if *byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

fn begins_comment(source: &[u8], at: usize, language: Language) -> bool {
    let mark: &[u8] = match language {
        Language::Python | Language::Ruby | Language::Perl | Language::R => b"#",
        Language::JavaScript | Language::Php => b"//",
        _ => return false,
    };
    let apart = at == 0 || source[at - 1].is_ascii_whitespace();
    apart && source[at..].starts_with(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_comments_are_blank() {
        for (language, source, left) in [
            (Language::Python, "f('exec') # system", "f('     ) #"),
            (Language::Python, "'''a\nb''' x", "'   \n     x"),
            (Language::Python, "f(f'{exec}')", "f(f'{exec}')"),
            (Language::Python, "don't\nexec", "don't\nexec"),
            (
                Language::JavaScript,
                "a // exec\nb 'x\\'y'",
                "a /      \nb '",
            ),
            (Language::Perl, "`exec`; $#a", "`exec`; $#a"),
            (Language::Other, "# exec", "# exec"),
        ] {
            let bytes = bare(source, language);
            let text = String::from_utf8_lossy(&bytes);
            assert_eq!(bytes.len(), source.len());
            assert_eq!(text.trim_end(), left.trim_end(), "{source}");
        }
    }
}
