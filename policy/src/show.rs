//! Text made safe for showing.
//!
//! Whatever sjail prints about a command was chosen by somebody else. Here it becomes
//! inert: what a terminal would obey, hide or reorder is written out as an escape, so
//! that the reader sees all of it, and two different texts never look the same. Nothing
//! is cut without saying so.

use std::ffi::OsStr;

use crate::effect::Span;

/// Shows bytes inertly, on one line.
///
/// Printable characters stand for themselves. Everything else is escaped: `\n`, `\t`,
/// `\r`, `\x1b` for bytes below 0x80 and for bytes that are not UTF-8, `\u{202e}` for
/// other characters. A backslash that could be read as the start of an escape is
/// doubled; more than eight spaces in a row, and spaces at the end, are escaped, because
/// they push text out of sight.
///
/// ```
/// use sjail_policy::show::inert;
/// assert_eq!(inert(b"grep '\\.rs'"), "grep '\\.rs'");
/// assert_eq!(inert("ls \u{202e}txt".as_bytes()), "ls \\u{202e}txt");
/// assert_eq!(inert(b"a\x1b[2Jb\xff"), "a\\x1b[2Jb\\xff");
/// ```
pub fn inert(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for piece in pieces(bytes) {
        text.push_str(&piece.text);
    }
    text
}

/// Shows the name of a file or program inertly, to stand in a sentence.
pub fn name(name: impl AsRef<OsStr>) -> String {
    inert(name.as_ref().as_encoded_bytes())
}

/// The last look at a line whose strange parts were made inert where they were put in: what
/// is still live is escaped, what is an escape already stays one.
///
/// ```
/// use sjail_policy::show::{inert, settled};
/// assert_eq!(settled(&inert(b"a\nb \\x1b")), inert(b"a\nb \\x1b"));
/// assert_eq!(settled("a\u{202e}b\n"), "a\\u{202e}b\\n");
/// ```
pub fn settled(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for letter in line.chars() {
        match is_printable(letter) {
            true => text.push(letter),
            false => text.push_str(&escape(letter)),
        }
    }
    text
}

/// Makes JSON inert without changing what it says: characters that would not show themselves
/// (text direction, zero width, line separators) are written as `\uXXXX`.
///
/// ```
/// use sjail_policy::show::inert_json;
/// assert_eq!(inert_json("{\"a\":\"é\u{202e}\u{e0041}\"}"), "{\"a\":\"é\\u202e\\udb40\\udc41\"}");
/// ```
pub fn inert_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter == '\n' || is_printable(letter) {
            text.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            text.push_str(&format!("\\u{unit:04x}"));
        }
    }
    text
}

/// Shows an argument vector, one argument a line, numbered from 0. An empty argument is
/// shown as `""`.
pub fn argv_lines<A: AsRef<[u8]>>(argv: &[A]) -> Vec<String> {
    let width = argv.len().saturating_sub(1).to_string().len();
    argv.iter()
        .enumerate()
        .map(|(number, arg)| {
            let arg = arg.as_ref();
            let shown = if arg.is_empty() {
                "\"\"".to_owned()
            } else {
                inert(arg)
            };
            format!("[{number:>width$}] {shown}")
        })
        .collect()
}

/// Shows at most `most` bytes of the text inertly and says how many were left out.
pub fn clipped(bytes: &[u8], most: usize) -> String {
    if bytes.len() <= most {
        return inert(bytes);
    }
    let mut end = most;
    // Not in the middle of a character: its first half would show as broken bytes.
    while end > 0 && bytes.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) && most - end < 3 {
        end -= 1;
    }
    let (shown, rest) = bytes.split_at(end);
    format!("{}… ({} more bytes not shown)", inert(shown), rest.len())
}

/// Shows a source, line by line, with the bytes inside any of the spans underlined: each
/// source line is followed by a line of `^` where something on it is marked.
pub fn underlined(source: &[u8], spans: &[Span]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut start = 0;
    for line in source.split(|byte| *byte == b'\n') {
        let mut text = String::new();
        let mut marks = String::new();
        for piece in pieces(line) {
            let at = start + piece.start;
            let marked = spans.iter().any(|span| span.start <= at && at < span.end);
            let mark = if marked { '^' } else { ' ' };
            marks.extend(std::iter::repeat_n(mark, piece.width));
            text.push_str(&piece.text);
        }
        lines.push(text);
        let marks = marks.trim_end();
        if !marks.is_empty() {
            lines.push(marks.to_owned());
        }
        start += line.len() + 1;
    }
    lines
}

/// Whether a text is shown as it is, nothing in it being escaped.
pub fn is_plain(bytes: &[u8]) -> bool {
    inert(bytes).as_bytes() == bytes
}

/// What one character, or one broken byte, is shown as.
struct Piece {
    /// Offset of its first byte.
    start: usize,
    text: String,
    /// Columns on a terminal.
    width: usize,
}

/// The most spaces in a row that are shown as spaces.
const MOST_SPACES: usize = 8;

fn pieces(bytes: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(bytes.len());
    let trailing = bytes.iter().rev().take_while(|byte| **byte == b' ').count();
    let text_end = bytes.len() - trailing;
    let mut spaces = 0;
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid().chars().peekable();
        while let Some(c) = rest.next() {
            spaces = if c == ' ' { spaces + 1 } else { 0 };
            let next = at + c.len_utf8();
            let text = match c {
                ' ' if spaces > MOST_SPACES || at >= text_end => "\\x20".to_owned(),
                '\\' if backslash_is_ambiguous(rest.peek().copied(), bytes.get(next)) => {
                    "\\\\".to_owned()
                }
                c if is_printable(c) => c.to_string(),
                c => escape(c),
            };
            let width = if text.chars().count() == 1 {
                columns(c)
            } else {
                text.len()
            };
            pieces.push(Piece {
                start: at,
                text,
                width,
            });
            at = next;
        }
        spaces = if chunk.invalid().is_empty() {
            spaces
        } else {
            0
        };
        for byte in chunk.invalid() {
            pieces.push(Piece {
                start: at,
                text: format!("\\x{byte:02x}"),
                width: 4,
            });
            at += 1;
        }
    }
    pieces
}

/// A backslash is doubled before what an escape starts with, before anything that will
/// itself be escaped, and before broken bytes; elsewhere it stands for itself.
fn backslash_is_ambiguous(next: Option<char>, next_byte: Option<&u8>) -> bool {
    match next {
        Some(next) => {
            matches!(next, '\\' | 'x' | 'u' | 'n' | 't' | 'r' | ' ') || !is_printable(next)
        }
        None => next_byte.is_some(),
    }
}

fn escape(c: char) -> String {
    match c {
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        c if c.is_ascii() => format!("\\x{:02x}", u32::from(c)),
        c => format!("\\u{{{:x}}}", u32::from(c)),
    }
}

/// Whether a character shows itself, and only itself: a visible glyph with a place of its
/// own. A list of what may, not of what may not, so that characters that come to Unicode
/// later are escaped until somebody has looked at them.
fn is_printable(c: char) -> bool {
    match u32::from(c) {
        0x20..=0x7e => true,
        // Letters to Unicode, blanks to the eye.
        0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x3164 | 0xffa0 => false,
        0xa1..=0xac | 0xae..=0xff => true,
        // Punctuation, currency, letter-like signs, arrows, mathematics, boxes, shapes.
        // Left out between them: spaces, joiners, direction marks, invisible operators.
        0x2010..=0x2027 | 0x2030..=0x205e => true,
        0x20a0..=0x20c0 | 0x2100..=0x218b | 0x2190..=0x2426 | 0x2440..=0x244a => true,
        0x2460..=0x27ff | 0x2801..=0x2b73 => true,
        // Chinese, Japanese and Korean punctuation; half and full width forms.
        0x3001..=0x3029 | 0x3030..=0x303d => true,
        0xfe30..=0xfe52 | 0xff01..=0xff5e => true,
        // Pictures.
        0x1f300..=0x1f64f | 0x1f680..=0x1f6d7 | 0x1f900..=0x1f9ff => true,
        // Marks that combine with what stands before them can cover it.
        _ => c.is_alphanumeric() && !is_combining(c),
    }
}

/// Marks that Unicode counts as letters although they are drawn on their neighbour.
/// Scripts that are written with such marks (Devanagari, Thai, …) need them; in the
/// blocks of marks alone, nothing does.
fn is_combining(c: char) -> bool {
    matches!(u32::from(c), 0x300..=0x36f | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff | 0x2de0..=0x2dff | 0xfe20..=0xfe2f)
}

/// How many columns a printable character takes; wide East Asian ones and pictures two.
fn columns(c: char) -> usize {
    match u32::from(c) {
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6d7
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_hides_or_reorders_is_written_out() {
        for (text, shown) in [
            ("a\u{200b}b", "a\\u{200b}b"),
            ("a\u{2066}b", "a\\u{2066}b"),
            ("a\u{e0041}b", "a\\u{e0041}b"),
            ("a\u{ad}b", "a\\u{ad}b"),
            ("a\u{a0}b", "a\\u{a0}b"),
            ("a\u{3000}b", "a\\u{3000}b"),
            ("a\u{3164}b", "a\\u{3164}b"),
            ("a\u{2800}b", "a\\u{2800}b"),
            ("a\u{9b}2J", "a\\u{9b}2J"),
            ("a\u{feff}b", "a\\u{feff}b"),
            ("a\u{2028}b", "a\\u{2028}b"),
            ("e\u{301}", "e\\u{301}"),
            ("\u{378}", "\\u{378}"),
            ("\u{e000}", "\\u{e000}"),
            ("a\r\n\tb\x07\x7f", "a\\r\\n\\tb\\x07\\x7f"),
            ("naïve – 日本 Ωmega", "naïve – 日本 Ωmega"),
            ("नमस्ते", "नमस\\u{94d}ते"),
            ("end  ", "end\\x20\\x20"),
            ("\\x1b", "\\\\x1b"),
            ("s/\\./x/", "s/\\./x/"),
        ] {
            assert_eq!(inert(text.as_bytes()), shown, "{text:?}");
        }
    }

    #[test]
    fn padding_does_not_push_text_away() {
        let padded = format!("ls{}; rm", " ".repeat(200));
        let shown = inert(padded.as_bytes());
        assert!(!shown.contains(&" ".repeat(9)));
        assert!(shown.ends_with("; rm"));
    }

    #[test]
    fn argv_is_numbered_and_complete() {
        assert_eq!(
            argv_lines(&["rm", "", "a\nb"]),
            ["[0] rm", "[1] \"\"", "[2] a\\nb"]
        );
    }

    #[test]
    fn a_cut_is_said() {
        assert_eq!(clipped(b"abc", 3), "abc");
        assert_eq!(clipped(b"abcdef", 3), "abc… (3 more bytes not shown)");
        assert_eq!(clipped("aéé".as_bytes(), 2), "a… (4 more bytes not shown)");
    }

    #[test]
    fn marks_stand_under_their_text() {
        let line = "ls 日; rm\u{200b} x\nrm y".as_bytes();
        let at = |text: &str| {
            let start = line
                .windows(text.len())
                .position(|w| w == text.as_bytes())
                .unwrap();
            Span::new(start, start + text.len())
        };
        assert_eq!(
            underlined(line, &[at("rm\u{200b} x"), at("rm y")]),
            [
                "ls 日; rm\\u{200b} x",
                "       ^^^^^^^^^^^^",
                "rm y",
                "^^^^"
            ]
        );
        assert_eq!(underlined(b"ls", &[]), ["ls"]);
    }

    /// Reads an inert text back: the proof that nothing was lost.
    fn read_back(shown: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = shown;
        while let Some(c) = rest.chars().next() {
            let after = &rest[c.len_utf8()..];
            let (value, left): (Vec<u8>, &str) = if c != '\\' {
                (c.to_string().into_bytes(), after)
            } else if let Some(left) = after.strip_prefix('\\') {
                (b"\\".to_vec(), left)
            } else if let Some(left) = after.strip_prefix('n') {
                (b"\n".to_vec(), left)
            } else if let Some(left) = after.strip_prefix('t') {
                (b"\t".to_vec(), left)
            } else if let Some(left) = after.strip_prefix('r') {
                (b"\r".to_vec(), left)
            } else if let Some(left) = after.strip_prefix('x') {
                (
                    vec![u8::from_str_radix(&left[..2], 16).unwrap()],
                    &left[2..],
                )
            } else if let Some(left) = after.strip_prefix("u{") {
                let (hex, left) = left.split_once('}').unwrap();
                let c = char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap();
                (c.to_string().into_bytes(), left)
            } else {
                (b"\\".to_vec(), after)
            };
            bytes.extend(value);
            rest = left;
        }
        bytes
    }

    fn hostile() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
            any::<u8>().prop_map(|b| vec![b]),
            Just(b"\\".to_vec()),
            Just(b" ".to_vec()),
            Just(b"x1b".to_vec()),
            Just(b"u{".to_vec()),
            Just("\u{202e}".as_bytes().to_vec()),
        ];
        proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_is_live(bytes in hostile()) {
            let shown = inert(&bytes);
            prop_assert_eq!(read_back(&shown), bytes);
            prop_assert!(shown.chars().all(is_printable), "{:?}", shown);
        }

        #[test]
        fn a_last_look_changes_nothing_that_is_inert(bytes in hostile()) {
            let shown = inert(&bytes);
            prop_assert_eq!(settled(&shown), shown);
            let lossy = String::from_utf8_lossy(&bytes);
            prop_assert!(settled(&lossy).chars().all(is_printable));
        }

        #[test]
        fn underlining_shows_the_same_text(bytes in hostile(), start in 0usize..40, len in 0usize..40) {
            let lines = underlined(&bytes, &[Span::new(start, start + len)]);
            prop_assert!(lines.iter().all(|line| line.chars().all(is_printable)));
        }

        #[test]
        fn clipping_never_panics(bytes in hostile(), most in 0usize..40) {
            let shown = clipped(&bytes, most);
            prop_assert!(bytes.len() <= most || shown.contains("more bytes not shown"));
        }
    }
}
