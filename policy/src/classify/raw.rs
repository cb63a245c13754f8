//! What the bytes of a line give away before, or instead of, being read as a shell line.

use super::draft::Draft;
use super::judge::{Call, Judge};
use super::state::State;
use super::verdict::Program;
use crate::effect::{Action, Span};
use crate::risk::Risk;

/// Text that was never meant for a shell is looked through up to this length.
const MAX_LOOK: usize = 16 * 1024;

/// A raw connection, in any language.
const CONNECTS: &[&str] = &[
    "/dev/tcp/",
    "/inet/tcp/",
    "socket",
    "Socket",
    "nc -e",
    "ncat ",
    "nc.exe",
    "net.connect",
    "net.Dial",
    "TcpStream",
    "TcpClient",
    "TCPClient",
    "UdpClient",
    "fsockopen",
    "Sock(",
    "ConPtyShell ",
    "PowerShellTcp ",
    "powercat ",
];
/// A shell by name.
const SHELLS: &[&str] = &[
    "/bin/sh",
    "/bin/bash",
    "\"bash\"",
    "\"sh\"",
    "'sh'",
    "'bash'",
    "bash -i",
    "\"sh -i",
    "'sh -i",
    " sh -i",
    "cmd.exe",
    "cmd /c",
    "powershell",
    "ConPtyShell ",
    "PowerShellTcp ",
    "powercat ",
];
/// A call that starts a program or runs text.
const STARTS: &[&str] = &[
    "CreateProcess",
    "ProcessBuilder",
    "Process.new",
    "Process.start",
    "Process.Start",
    "exec.Command",
    "Command::new",
    "getRuntime().exec",
    "proc_open(",
    "shell_exec(",
    "pcntl_exec(",
    "subprocess.",
    "os.system(",
    "pty.spawn(",
    "execve(",
    "execvp(",
    "execl(",
    "child_process",
    "Invoke-Expression",
    "iex ",
    "IEX",
];
/// Fetching code, as PowerShell does.
const FETCHES: &[&str] = &[
    "DownloadString(",
    "DownloadData(",
    "DownloadFile(",
    "Invoke-WebRequest",
    "Invoke-RestMethod",
    "IWR ",
    "iwr ",
    "irm ",
    "IRM ",
    "Net.WebClient",
    "URLDownloadToFile",
];
const EVALUATES: &[&str] = &[
    "Invoke-Expression",
    "IEX",
    "iex",
    "FromBase64String",
    "Start-Process",
    "ScriptBlock]::Create",
    ".Run(",
];
/// What somebody sent to a web page.
const ASKS: &[&str] = &[
    "$_GET",
    "$_POST",
    "$_REQUEST",
    "$_SERVER['HTTP_",
    "$_COOKIE",
    "request.getParameter",
    "Request[",
    "Request.QueryString",
    "request.form",
    "request.args",
    "req.query",
];
const RUNS: &[&str] = &[
    "system(",
    "exec(",
    "passthru(",
    "popen(",
    "proc_open(",
    "`",
    "spawn(",
    "Process(",
    "eval(",
    "assert(",
    "getRuntime()",
    "WScript.Shell",
];
/// How sources of other languages begin that a shell may take for a command and its words.
const OPENINGS: &[&str] = &[
    "#include",
    "<?",
    "<%",
    "<script",
    "using System",
    "package main",
    "import java",
    "import os",
    "import socket",
    "import 'dart",
    "from socket",
    "public class",
    "class ",
    "module Main",
    "use std::",
    "use Socket",
    "use IO::",
    "require ",
    "require(",
    "String ",
    "Process ",
    "Thread.start",
    "int main",
    "var ",
    "const ",
    "let ",
    "(function",
    "IEX",
    "iex ",
    "iex(",
    "Invoke-",
    "Set-Alias",
    "Start-Process",
];

/// Whether the text begins like code of another language.
fn is_source(text: &str) -> bool {
    let text = text.trim_start();
    OPENINGS.iter().any(|opening| text.starts_with(opening))
}

impl Judge<'_> {
    /// Characters that make a line look like something else.
    pub(crate) fn hidden(&mut self, line: &[u8]) {
        // A carriage return that ends no line takes the writing back to the line's start.
        let returns = |at: usize| line.get(at + 1).is_some_and(|&next| next != b'\n');
        let mut start = 0;
        for chunk in line.utf8_chunks() {
            let text = chunk.valid();
            let mut letters = text.char_indices();
            let hidden = letters.find(|&(at, letter)| match letter {
                '\r' => returns(start + at),
                '\u{1b}' => !text.get(at..).is_some_and(only_colours),
                _ => hides(letter),
            });
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
        if line.len() > MAX_LOOK {
            return;
        }
        let text = String::from_utf8_lossy(line);
        if !self.could_not_read() && !is_source(&text) {
            return;
        }
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let span = Span::new(0, line.len());
        if has(CONNECTS) && (has(SHELLS) || has(STARTS)) {
            self.raw(Risk::Critical, "Connects a shell to the network", span);
        } else if has(FETCHES) && has(EVALUATES) {
            self.raw(Risk::Critical, "Runs code from the network", span);
        } else if has(ASKS) && has(RUNS) {
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

    /// The same inside quotes that are never closed: a shell refuses that as a whole.
    pub(crate) fn breaks_off_quoted(&mut self, span: Span) {
        self.unfinished = true;
        self.raw(Risk::Normal, "Breaks off inside quotes", span);
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

/// Whether text begins with an escape that gives letters a colour that can be seen, or takes
/// it back: it hides nothing.
fn only_colours(text: &str) -> bool {
    let colour = |number: &str| {
        matches!(
            number,
            "" | "0" | "1" | "3" | "4" | "22" | "23" | "24" | "39"
        ) || matches!(number.as_bytes(), [b'3' | b'9', b'1'..=b'6'])
    };
    let numbers = text.strip_prefix("\u{1b}[").and_then(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';')?;
        rest.get(end..)?.starts_with('m').then(|| rest.get(..end))?
    });
    numbers.is_some_and(|numbers| numbers.split(';').all(colour))
}

/// Control characters, text direction, zero width, tags.
fn hides(letter: char) -> bool {
    match letter {
        '\t' | '\n' | '\r' => false,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        '\u{200b}' | '\u{2060}'..='\u{206f}' | '\u{202a}'..='\u{202e}' | '\u{feff}' => true,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200e}' | '\u{200f}' => true,
        '\u{2028}' | '\u{2029}' | '\u{e0100}'..='\u{e01ef}' => true,
        '\u{e0000}'..='\u{e007f}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Context, classify};

    #[test]
    fn a_colour_hides_nothing_and_every_other_escape_may() {
        let hides = |line: &str| {
            let answer = classify(line.as_bytes(), &Context::default());
            answer.reasons.iter().any(|why| why == "Hidden characters")
        };
        for line in [
            "echo '\u{1b}[31mred\u{1b}[0m'",
            "echo '\u{1b}[1;92mgreen\u{1b}[m'",
            "echo '\u{1b}[3;4mslanted\u{1b}[39m'",
        ] {
            assert!(!hides(line), "{line:?}");
        }
        for line in [
            "echo '\u{1b}[8mconcealed'",
            "echo '\u{1b}[30mblack'",
            "echo '\u{1b}[31;40;8mboth'",
            "echo '\u{1b}[2K'",
            "echo '\u{1b}[1A'",
            "echo '\u{1b}]0;title\u{7}'",
            "echo '\u{1b}[031m'",
            "echo '\u{1b}[31m\u{1b}[8mthen'",
            "echo '\u{1b}",
            "echo '\u{1b}[31",
        ] {
            assert!(hides(line), "{line:?}");
        }
    }
}
