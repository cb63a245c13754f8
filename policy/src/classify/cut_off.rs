//! `echo "done`: a line whose last word is quoted and never closed. A shell that is given it as
//! its whole program refuses it, and nothing of it runs.
//!
//! Only where that can be seen without knowing the shell's grammar: one line, one quote
//! character in it, plain words before that, and nothing behind it that a shell looks at
//! between such quotes. Anything else stays what cannot be read, as does what may be the end
//! of a text that began elsewhere: `"; reboot`.

use super::Context;
use super::judge::{Call, Judge};
use super::verdict::Classification;
use crate::effect::Span;
use crate::risk::Risk;
use crate::shell;

impl Judge<'_> {
    /// The answer to such a line. Whoever typed it meant another, and sends that next: it is
    /// judged as if the quote were closed at its end, and what is above normal then is left to
    /// the usual way.
    pub(crate) fn cut_off(line: &[u8], context: &Context) -> Option<Classification> {
        let closed = closed(line)?;
        let mut judge = Judge::new(context);
        let mut state = judge.fresh_state();
        let span = Span::new(0, line.len());
        let call = Call {
            span,
            ..Call::default()
        };
        // The quote that is added stands nowhere in the line.
        judge.inside(span, |judge| {
            judge.script(&shell::parse(&closed), &mut state, &call);
        });
        judge.breaks_off_quoted(span);
        judge.hidden(line);
        judge.unreadable(line);
        let answer = judge.finish();
        (answer.risk <= Risk::Normal).then_some(answer)
    }
}

/// The line with its quote closed, if it is one of those.
fn closed(line: &[u8]) -> Option<Vec<u8>> {
    let is_quote = |byte: &u8| matches!(byte, b'\'' | b'"');
    let at = line.iter().position(is_quote)?;
    let (before, behind) = (line.get(..at)?, line.get(at + 1..)?);
    let quote = *line.get(at)?;
    let is_looked_at = |byte: &u8| match quote {
        b'"' => matches!(byte, b'$' | b'`' | b'\\'),
        _ => false,
    };
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" _-./,:+%@".contains(byte);
    let begins = before.first() != Some(&b' ') && before.last() == Some(&b' ');
    let is_cut_off = begins
        && before.iter().all(is_plain)
        && !behind
            .iter()
            .any(|byte| is_quote(byte) || is_looked_at(byte) || matches!(byte, b'\n' | 0));
    is_cut_off.then(|| [line, &[quote]].concat())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]

    use super::*;
    use crate::classify::classify;

    #[test]
    fn only_a_line_that_any_shell_refuses_is_closed() {
        for line in [
            "echo 'unterminated",
            "echo \"find . -delete",
            "rg -n \"a b",
            "grep 'a $b `c` \\",
        ] {
            let closed = closed(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(closed.len(), line.len() + 1, "{line}");
        }
        for line in [
            "",
            "'",
            "'; reboot",
            " '; reboot",
            "fi'; reboot",
            "echo done",
            "echo \"$(reboot)",
            "echo \"`reboot`",
            "echo \"a\\",
            "reboot\necho 'a",
            "echo 'a\nreboot",
            "reboot; echo 'a",
            "# it's",
            "cat <<E'",
            "echo $'a",
            "echo \\'a",
            "echo \"it's",
            "x='a' 'b",
            "(echo 'a",
            "reboot & '",
        ] {
            assert_eq!(closed(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn what_is_meant_counts_where_it_is_grave() {
        let context = Context::default();
        for (line, risk) in [
            ("echo 'unterminated", Risk::Normal),
            ("echo \"find . -delete", Risk::Normal),
            ("ls 'a", Risk::Normal),
        ] {
            let answer = classify(line.as_bytes(), &context);
            assert_eq!(answer.risk, risk, "{line}: {:?}", answer.reasons);
            assert!(!answer.is_opaque(), "{line}");
            let ends = answer.commands.iter().map(|command| command.span.end);
            assert!(ends.max() <= Some(line.len()), "{line}");
        }
        for line in [
            "bash -c 'rm -rf build",
            "rm -rf '",
            "sudo 'reboot",
            "git reset --hard 'a",
            "rm -rf \"/",
            "eval 'reboot",
            "sed -i 'w /etc/passwd",
        ] {
            let answer = classify(line.as_bytes(), &context);
            assert!(answer.risk >= Risk::Dangerous, "{line}");
        }
    }
}
