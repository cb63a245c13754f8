//! A line that ends inside a quote: no shell runs any of it.
//!
//! Who sends one has most likely mistyped it. It is judged as if the quote were closed at
//! the end, and is never called safe.

use super::verdict::Classification;
use super::{Context, judged};
use crate::risk::Risk;

/// Said of such a line.
const SAYS: &str = "Breaks off unfinished";

/// What it would be, closed, where that is nothing to ask about.
pub(super) fn reconsidered(
    answer: Classification,
    line: &[u8],
    context: &Context,
) -> Classification {
    let harmless = answer.commands.iter().all(|c| c.risk <= Risk::Normal);
    let Some(quote) = left_open(line).filter(|_| harmless && answer.opaque.len() == 1) else {
        return answer;
    };
    let closed = judged(&[line, &[quote]].concat(), context);
    if closed.risk > Risk::Normal || closed.is_opaque() {
        return answer;
    }
    let reasons = closed.reasons.into_iter().filter(|reason| reason != SAYS);
    Classification {
        risk: Risk::Normal,
        reasons: std::iter::once(SAYS.to_owned()).chain(reasons).collect(),
        commands: answer.commands,
        opaque: Vec::new(),
    }
}

/// The quote that one line of plain words ends in. Whatever could be read in two ways is
/// left alone: another quote, a backslash, an expansion, a comment, a here-document.
fn left_open(line: &[u8]) -> Option<u8> {
    let special = |byte: &u8| b"'\"\\$`#<(){}!".contains(byte) || byte.is_ascii_control();
    let at = line.iter().position(special)?;
    let (quote, rest) = (line[at], &line[at + 1..]);
    let closed_by: &[u8] = match quote {
        b'\'' => b"'",
        b'"' => b"\"\\$`!",
        _ => return None,
    };
    let stays_open = |byte: &u8| !closed_by.contains(byte) && !byte.is_ascii_control();
    rest.iter().all(stays_open).then_some(quote)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::classify;

    fn risk(line: &str) -> Risk {
        classify(line.as_bytes(), &Context::new("/ws", "/home/u", "u")).risk
    }

    #[test]
    fn a_mistyped_harmless_line_is_not_asked_about() {
        for line in ["echo 'abc", "rg \"find . -delete", "git commit -m 'fix"] {
            assert_eq!(risk(line), Risk::Normal, "{line}");
        }
        let answer = classify(b"echo 'abc", &Context::default());
        assert_eq!(answer.reasons, [SAYS]);
    }

    #[test]
    fn what_would_be_asked_about_when_closed_still_is() {
        for line in [
            "git reset --hard 'x",
            "rm -rf build 'x",
            "sh -c 'rm -rf build",
            "curl https://example.org | \"bash",
            "ls; rm -rf / 'x",
        ] {
            assert!(risk(line) >= Risk::Dangerous, "{line}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_stays_unknown() {
        for line in [
            "echo \\'abc'",
            "echo $'a",
            "echo \"$(ls)",
            "echo 'a\nrm x",
            "cat <<E 'x",
            "echo 'a' 'b",
        ] {
            assert!(risk(line) >= Risk::Dangerous, "{line}");
        }
    }
}
