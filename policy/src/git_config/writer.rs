//! Our own spelling of sections and lines, put into a text that is there.

use super::Key;

/// A replacement of `text[start..end]`.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) with: Vec<u8>,
}

/// The text with all replacements made.
pub(super) fn edited(text: &[u8], mut edits: Vec<Edit>) -> Vec<u8> {
    // Stable: insertions at one place keep their order, and come before what is removed
    // there. A removed section swallows the removals inside it: it starts first.
    edits.sort_by_key(|edit| {
        (
            edit.start,
            edit.end > edit.start,
            std::cmp::Reverse(edit.end),
        )
    });
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for edit in edits {
        if edit.start < at {
            continue;
        }
        out.extend(text.get(at..edit.start).unwrap_or_default());
        out.extend(edit.with);
        at = at.max(edit.end);
    }
    out.extend(text.get(at..).unwrap_or_default());
    out
}

/// The line that opens the section of a key.
pub(super) fn header(key: &Key) -> Vec<u8> {
    let mut out = format!("[{}", key.section).into_bytes();
    if let Some(subsection) = &key.subsection {
        out.extend(b" \"");
        for byte in subsection.iter() {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(*byte);
        }
        out.push(b'"');
    }
    out.extend(b"]\n");
    out
}

/// The line that gives a key its value.
pub(super) fn line(name: &str, value: Option<&[u8]>) -> Vec<u8> {
    let mut out = format!("\t{name}").into_bytes();
    if let Some(value) = value {
        out.extend(b" = ");
        let plain =
            |byte: &u8| byte.is_ascii_graphic() && !b"\"\\#;".contains(byte) || *byte >= 0x80;
        let quoted = !value.iter().all(plain);
        if quoted {
            out.push(b'"');
        }
        for byte in value {
            match byte {
                b'\n' => out.extend(b"\\n"),
                b'\t' => out.extend(b"\\t"),
                0x08 => out.extend(b"\\b"),
                b'"' => out.extend(b"\\\""),
                b'\\' => out.extend(b"\\\\"),
                other => out.push(*other),
            }
        }
        if quoted {
            out.push(b'"');
        }
    }
    out.push(b'\n');
    out
}
