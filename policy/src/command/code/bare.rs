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
            quote @ (b'"' | b'\'') => text_end(rest, quote, language),
            _ if begins_comment(source.as_bytes(), at, language) => {
                let ends = |byte: &u8| ends_line(*byte, language);
                Some(rest.iter().position(ends).unwrap_or(rest.len()))
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
fn text_end(rest: &[u8], quote: u8, language: Language) -> Option<usize> {
    let long = [quote; 3];
    let is_long = rest.starts_with(&long);
    let mut at = if is_long { 3 } else { 1 };
    loop {
        match *rest.get(at)? {
            b'\\' => at += 2,
            byte if !is_long && ends_line(byte, language) => return None,
            _ if is_long && rest[at..].starts_with(&long) => return Some(at + 3),
            byte if !is_long && byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Python also ends a line at a carriage return.
fn ends_line(byte: u8, language: Language) -> bool {
    byte == b'\n' || byte == b'\r' && language == Language::Python
}

fn begins_comment(source: &[u8], at: usize, language: Language) -> bool {
    let mark: &[u8] = match language {
        Language::Python | Language::Ruby | Language::Perl | Language::R => b"#",
        Language::JavaScript | Language::Php => b"//",
        _ => return false,
    };
    // Elsewhere a mark within a word is part of it: `$#a`.
    let apart = language == Language::Python || at == 0 || source[at - 1].is_ascii_whitespace();
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
            (
                Language::Python,
                "a=1#\'\'\'\nexec\n#\'\'\'",
                "a=1#   \nexec\n#",
            ),
            (Language::Python, "#a\rexec", "# \rexec"),
            (Language::Python, "'a\rexec '", "'a\rexec '"),
            (Language::Python, "\"\"\"a\\\"\"\"\" x", "\"         x"),
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
