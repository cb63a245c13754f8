//! What the bytes of a line give away before, or instead of, being read as a shell line.

use super::draft::Draft;
use super::judge::{Call, Judge};
use super::state::State;
use super::verdict::Program;
use crate::effect::{Action, Span};
use crate::risk::Risk;

/// Text that was never meant for a shell is looked through up to this length.
const MAX_LOOK: usize = 16 * 1024;

impl Judge<'_> {
    /// Characters that make a line look like something else.
    pub(crate) fn hidden(&mut self, line: &[u8]) {
        // A carriage return that ends no line takes the writing back to the line's start.
        let returns = |at: usize| line.get(at + 1).is_some_and(|&next| next != b'\n');
        let mut start = 0;
        for chunk in line.utf8_chunks() {
            let mut letters = chunk.valid().char_indices();
            let hidden = letters
                .find(|&(at, letter)| hides(letter) || (letter == '\r' && returns(start + at)));
            if let Some((at, letter)) = hidden {
                let at = start + at;
                let span = Span::new(at, at + letter.len_utf8());
                self.raw(Risk::Dangerous, "Hidden characters", span);
                return;
            }
            start += chunk.valid().len() + chunk.invalid().len();
        }
    }

    /// When the line is no shell line: code of another language that opens the machine.
    pub(crate) fn unreadable(&mut self, line: &[u8]) {
        if !self.could_not_read() || line.len() > MAX_LOOK {
            return;
        }
        let text = String::from_utf8_lossy(line);
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let connects = has(&[
            "/dev/tcp/",
            "socket",
            "Socket",
            "nc -e",
            "ncat ",
            "nc.exe",
            "net.connect",
            "net.Dial",
            "TcpStream",
            "TcpClient",
            "fsockopen",
            "Sock(",
        ]);
        let shell = has(&[
            "/bin/sh",
            "/bin/bash",
            "\"bash\"",
            "\"sh\"",
            "cmd.exe",
            "powershell",
            "'sh'",
            "'bash'",
        ]);
        let asks = has(&[
            "$_GET",
            "$_POST",
            "$_REQUEST",
            "request.getParameter",
            "Request[",
            "request.form",
        ]);
        let runs = has(&[
            "system(",
            "exec(",
            "passthru(",
            "popen(",
            "`",
            "spawn(",
            "Process(",
            "eval(",
        ]);
        let span = Span::new(0, line.len());
        if connects && shell {
            self.raw(Risk::Critical, "Connects a shell to the network", span);
        } else if asks && runs {
            self.raw(Risk::Critical, "Runs what the network sends", span);
        } else {
            self.quoted_commands(&text, span);
        }
    }

    /// Commands inside the strings of such code.
    fn quoted_commands(&mut self, text: &str, span: Span) {
        let mut rest = text;
        for _ in 0..16 {
            let Some(start) = rest.find(['"', '\'']) else {
                return;
            };
            let quote = &rest[start..start + 1];
            let Some(length) = rest[start + 1..].find(quote) else {
                return;
            };
            let inner = rest[start + 1..start + 1 + length].to_owned();
            rest = &rest[start + 2 + length..];
            if !inner.contains(' ') {
                continue;
            }
            let risk = self.aside(|judge| {
                let mut state: State = judge.fresh_state();
                judge.text(&inner, &mut state, &Call::default(), span);
            });
            if risk == Risk::Critical {
                self.raw(
                    Risk::Critical,
                    "Carries a command that opens the machine",
                    span,
                );
                return;
            }
        }
    }

    /// A compound command that the source ends in: its parts are judged like any others, and
    /// whoever sent a part of a line may have meant another whole.
    pub(crate) fn unfinished(&mut self, call: &Call) {
        self.unfinished = true;
        self.raw(Risk::Dangerous, "Breaks off unfinished", call.span);
    }

    fn raw(&mut self, risk: Risk, says: &'static str, span: Span) {
        let call = Call {
            span,
            ..Call::default()
        };
        let index = self.reserve(&call, &Program::default());
        let mut draft = Draft::new(Program::default());
        draft.effect(Action::Notes, risk, says, span);
        self.complete(index, draft);
    }
}

/// Control characters, text direction, zero width, tags.
fn hides(letter: char) -> bool {
    match letter {
        '\t' | '\n' | '\r' => false,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        '\u{200b}' | '\u{2060}'..='\u{206f}' | '\u{202a}'..='\u{202e}' | '\u{feff}' => true,
        '\u{e0000}'..='\u{e007f}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => true,
        _ => false,
    }
}
