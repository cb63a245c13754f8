//! What only the combination of calls gives away.

use super::literals::literals;
use super::{Found, Language, Look, MAX_ARGUMENTS, MAX_CALLS, Means, is_call, speaks};
use crate::command::knowledge::CODE;
use crate::effect::Action;
use crate::risk::Risk;

/// Words of sources that wait for what they start.
const PATIENT: &[&str] = &["wait", "accept", "sleep"];

impl Look<'_, '_> {
    pub(super) fn together(&mut self, found: &Found) {
        let has = |means: Means| found.anywhere.contains(&means);
        if has(Means::Socket) && self.is_tied(found) {
            self.effect(
                Action::Network { host: None },
                Risk::Critical,
                "Connects a shell to the network",
            );
        }
        self.runs_foreign_text(found);
        self.forks_for_ever(found);
        if has(Means::Socket) && self.language == Language::PowerShell {
            let says = "Opens a raw network connection";
            self.effect(Action::Network { host: None }, Risk::Dangerous, says);
        }
        if has(Means::Privilege) {
            self.effect(Action::Privilege, Risk::Dangerous, "Changes its own rights");
        }
        if has(Means::Environment) && (has(Means::Network) || has(Means::Socket)) {
            let says = "Sends keys or passwords away";
            self.effect(Action::Publishes, Risk::Dangerous, says);
        }
        if has(Means::Network) || has(Means::Socket) {
            self.effect(Action::Network { host: None }, Risk::Normal, "");
        }
    }

    /// Whether a connection is tied to something that runs what it sends.
    fn is_tied(&self, found: &Found) -> bool {
        let has = |means: Means| found.anywhere.contains(&means);
        let text = self.source.text.as_str();
        // Scripts for tests talk to servers they start; a line for a reverse shell is short,
        // and in some languages nobody writes anything else on a command line.
        let terse = matches!(
            self.language,
            Language::Perl
                | Language::Ruby
                | Language::Lua
                | Language::Php
                | Language::Awk
                | Language::Other
        );
        let short = text.lines().count() <= if terse { 25 } else { 3 };
        let shell = [
            "/bin/sh",
            "/bin/bash",
            "sh -i",
            "bash -i",
            "cmd.exe",
            "powershell",
        ]
        .iter()
        .any(|name| text.contains(name));
        let starts = has(Means::Shell) || has(Means::Argv);
        let tied = has(Means::Attach) || (shell && starts);
        tied || (short && (starts || has(Means::Evaluate)))
    }

    /// What comes from the network or a decoder, evaluated or handed to a shell on one line.
    fn runs_foreign_text(&mut self, found: &Found) {
        let has = |means: Means| found.anywhere.contains(&means);
        let evaluates = has(Means::Evaluate);
        let starts = found.outside.contains(&Means::Shell) || found.outside.contains(&Means::Argv);
        let foreign = has(Means::Network) || has(Means::Decode);
        if !foreign || !(evaluates || starts) {
            return;
        }
        let text = self.source.text.as_str();
        let mut start = 0;
        for line in text.split('\n') {
            let bare = &found.bare[start..start + line.len()];
            start += line.len() + 1;
            let on = |means: Means| self.line_has(line, means);
            let evaluates = evaluates && on(Means::Evaluate);
            let network = has(Means::Network) && on(Means::Network);
            if network && (evaluates || starts && self.line_hands(line, bare)) {
                self.effect(Action::Opaque, Risk::Critical, "Runs code from the network");
                return;
            }
            if evaluates && on(Means::Decode) {
                self.effect(Action::Opaque, Risk::Dangerous, "Runs decoded text");
                return;
            }
        }
    }

    fn line_has(&self, line: &str, means: Means) -> bool {
        self.patterns(means).any(|pattern| {
            line.match_indices(pattern)
                .any(|(at, _)| is_call(line, at, pattern, means))
        })
    }

    /// Whether a line of a source that talks to the network starts something that no text of its
    /// own names: `os.system(requests.get(u).text)`, `execSync(t)`.
    fn line_hands(&self, line: &str, bare: &[u8]) -> bool {
        let starting = self
            .patterns(Means::Shell)
            .chain(self.patterns(Means::Argv));
        let mut calls = starting.flat_map(|pattern| {
            let calls = line.match_indices(pattern);
            calls.filter(move |(at, _)| {
                is_call(line, *at, pattern, Means::Shell) && is_outside(bare, *at, pattern)
            })
        });
        calls.by_ref().take(MAX_CALLS).any(|(at, pattern)| {
            let from = at + pattern.len();
            let end = line.floor_char_boundary(line.len().min(from + MAX_ARGUMENTS));
            let arguments = &line[from..end];
            let is_name = |c: char| c.is_alphabetic() || "_$@".contains(c);
            let named = arguments.trim_start().starts_with(is_name);
            named && literals(arguments, None).list.is_empty()
                || self.holds_network(arguments, &bare[from..end])
        })
    }

    /// Whether the arguments of a call, up to its closing bracket, talk to the network.
    fn holds_network(&self, arguments: &str, bare: &[u8]) -> bool {
        let mut depth = 0usize;
        let end = bare.iter().position(|byte| {
            match byte {
                b'(' | b'[' => depth += 1,
                b')' | b']' if depth == 0 => return true,
                b')' | b']' => depth -= 1,
                b';' if depth == 0 => return true,
                _ => {}
            }
            false
        });
        let call = &arguments[..end.unwrap_or(arguments.len())];
        self.patterns(Means::Network).any(|pattern| {
            call.match_indices(pattern).any(|(at, _)| {
                is_call(call, at, pattern, Means::Network) && is_outside(bare, at, pattern)
            })
        })
    }

    /// Copies of itself, or programs in the background, again and again.
    fn forks_for_ever(&mut self, found: &Found) {
        let starts = found.outside.contains(&Means::Fork) || self.in_background;
        let text = self.source.text.as_str();
        if starts
            && found.outside.contains(&Means::Forever)
            && !PATIENT.iter().any(|word| text.contains(word))
        {
            self.effect(Action::SystemChange, Risk::Critical, "Fork bomb");
        }
    }

    pub(super) fn patterns(&self, means: Means) -> impl Iterator<Item = &'static str> {
        let language = self.language;
        CODE.iter()
            .filter(move |code| code.means == means && speaks(language, code))
            .flat_map(|code| &code.text)
            .map(|pattern| pattern.get())
    }
}

/// Whether a pattern stands outside of texts and comments; one with a quote is part of a text.
pub(super) fn is_outside(bare: &[u8], at: usize, pattern: &str) -> bool {
    pattern.contains(['"', '\'']) || bare.get(at).is_some_and(|byte| *byte != b' ')
}
