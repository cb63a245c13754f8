//! Texts in a source that are commands: whatever name a call goes by, what it starts stands
//! somewhere as text.

use super::literals::quoted;
use super::{Found, Language, Look, Means};
use crate::classify::given::Given;
use crate::classify::state::State;
use crate::command::knowledge;
use crate::effect::Action;
use crate::risk::Risk;

/// Longer sources are programs, not lines.
const MAX_SOURCE: usize = 8 * 1024;
/// More texts than this are not looked at.
const MAX_TEXTS: usize = 32;
/// What stands between two words of one command: `", "`, `",{args:["`.
const MAX_GAP: usize = 9;

/// Words without which a source starts nothing; the last ones call what a text names.
const STARTING: &[&[u8]] = &[
    b"system",
    b"popen",
    b"exec",
    b"spawn",
    b"Command",
    b"run-program",
    b"sys.process",
    b"getattr(",
    b"__import__(",
    b"import_module",
    b"](",
];

/// Modules that start programs: some languages name them in a text.
const MODULES: &[&str] = &["subprocess", "child_process"];

/// Words without which a source runs no text of its own, beside the calls that are known.
fn evaluating(language: Language) -> &'static [&'static [u8]] {
    match language {
        Language::JavaScript => &[
            b"eval",
            b"Function",
            b"constructor",
            b"import(",
            b"runIn",
            b"Script",
            b"Worker",
            b"_load",
            b"_compile",
            b"binding",
            b"Reflect",
        ],
        Language::Ruby => &[
            b"eval",
            b"exec",
            b"send",
            b"method",
            b"load",
            b"require_relative",
            b"syscall",
        ],
        Language::Perl => &[b"eval", b"do ", b"require", b"&", b"->"],
        Language::Php => &[
            b"eval",
            b"assert",
            b"create_function",
            b"include",
            b"require",
            b"preg_replace",
        ],
        _ => &[],
    }
}

impl Look<'_, '_> {
    /// A command among the texts, in a source that starts programs: only the gravest counts,
    /// because prose mentions commands, too.
    pub(super) fn carried(&mut self, found: &Found) {
        let text = self.source.text.as_str();
        if text.len() > MAX_SOURCE || !found.starts(text) {
            return;
        }
        let mut group: Vec<String> = Vec::new();
        // Texts that `+` makes one.
        let mut sums: Vec<String> = Vec::new();
        for (gap, word) in texts(text) {
            let apart = gap.len() > MAX_GAP || gap.contains([';', '\n', '|']);
            if apart {
                self.group(&group, &sums);
                group.clear();
                sums.clear();
            }
            match sums
                .last_mut()
                .filter(|_| matches!(gap.trim(), "+" | "." | ".." | "~" | "<>" | "++"))
            {
                Some(sum) => sum.push_str(&word),
                None => sums.push(word.clone()),
            }
            group.push(word);
        }
        self.group(&group, &sums);
    }

    fn group(&mut self, words: &[String], sums: &[String]) {
        let Some(first) = words.first() else {
            return;
        };
        let span = self.source.span;
        let mut call = self.call.with_args(Vec::new(), &self.draft.program.name);
        call.stdin = Default::default();
        let cwd = self.state.cwd.clone();
        let mut lines: Vec<&String> = words.iter().collect();
        lines.extend(sums.iter().filter(|sum| !words.contains(sum)));
        lines.retain(|line| may_be_grave(line));
        let mut worst = Risk::Safe;
        for line in lines {
            worst = worst.max(self.judge.aside(|judge| {
                let mut state = State::new(cwd.clone());
                judge.text(line, &mut state, &call, span);
            }));
        }
        let program = first.rsplit('/').next().unwrap_or_default();
        if words.len() > 1 && knowledge::program(program).is_some() {
            let args = words
                .iter()
                .map(|word| Given::known(word.as_str(), span))
                .collect();
            let mut inner = self.call.with_args(args, &self.draft.program.name);
            inner.stdin = Default::default();
            worst = worst.max(self.judge.aside(|judge| {
                let mut state = State::new(cwd.clone());
                judge.invoke(&mut state, &inner);
            }));
        }
        if worst == Risk::Critical {
            let program = first.clone();
            self.effect(
                Action::Runs { program },
                Risk::Critical,
                "Carries a grave command",
            );
        }
    }
}

impl Found {
    /// Whether the source may start a program.
    pub(super) fn starts(&self, text: &str) -> bool {
        let calls = [Means::Shell, Means::Argv, Means::Evaluate];
        calls.iter().any(|means| self.outside.contains(means))
            || MODULES.iter().any(|module| text.contains(module))
            || STARTING.iter().any(|word| self.has_bare(word))
    }

    /// Whether a source may run what stands in its texts.
    pub(super) fn runs_texts(&self, text: &str, language: Language) -> bool {
        let calls = [Means::Shell, Means::Argv, Means::Evaluate];
        let names_module = |module: &&str| match language {
            // Its modules are named outside of texts.
            Language::Python => self.has_bare(module.as_bytes()),
            _ => text.contains(*module),
        };
        calls.iter().any(|means| self.outside.contains(means))
            || MODULES.iter().any(names_module)
            || STARTING.iter().any(|word| self.has_bare_start(word))
            || evaluating(language).iter().any(|word| self.has_bare(word))
    }

    fn has_bare(&self, word: &[u8]) -> bool {
        self.bare.windows(word.len()).any(|part| part == word)
    }

    /// As above, but for `execute`: what databases do with statements starts no program.
    fn has_bare_start(&self, word: &[u8]) -> bool {
        let is_execute = |at: usize| word == b"exec" && self.bare[at..].starts_with(b"execut");
        let mut places = self.bare.windows(word.len()).enumerate();
        places.any(|(at, part)| part == word && !is_execute(at))
    }
}

/// Whether a text begins like a command, or pipes into a shell: the rest is prose and data.
fn may_be_grave(text: &str) -> bool {
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    let name = first.rsplit('/').next().unwrap_or_default();
    let command = text.len() > first.len() && knowledge::program(name).is_some();
    command || text.contains("/dev/tcp/") || text.contains("| sh") || text.contains("|sh")
}

/// The texts of a source, each with what stands before it.
pub(super) fn texts(source: &str) -> impl Iterator<Item = (&str, String)> {
    let mut rest = source;
    std::iter::from_fn(move || {
        let at = rest.find(['"', '\'', '`'])?;
        let quote = rest[at..].chars().next()?;
        let gap = &rest[..at];
        let (word, after) = quoted(&rest[at + 1..], quote);
        rest = after;
        Some((gap, word))
    })
    .take(MAX_TEXTS)
}

/// The texts that a variable of the source is given.
pub(super) fn assigned(source: &str, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in source.match_indices(name).take(MAX_TEXTS) {
        let after = source[at + name.len()..].trim_start();
        let Some(value) = after.strip_prefix('=') else {
            continue;
        };
        if let Some(text) = value.trim_start().strip_prefix('"') {
            found.push(quoted(text, '"').0);
        }
    }
    found
}
