//! The answer of the classifier.

use serde::Serialize;

use super::installs::Install;
use crate::effect::{Effect, Span, Target};
use crate::risk::Risk;

/// What a line does, command by command, and how risky it is as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Classification {
    /// The strictest risk of all its parts.
    pub risk: Risk,
    /// Short phrases, each once, the gravest first.
    pub reasons: Vec<String>,
    /// Every simple command that was seen, also those inside wrappers, substitutions and
    /// `sh -c` strings, in the order in which they are written.
    pub commands: Vec<SimpleCommand>,
    /// What could not be known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opaque: Vec<Opaque>,
    /// What it is to the shell.
    #[serde(skip)]
    pub form: Form,
}

/// What a line is to the shell that reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// One command and nothing around it, or no shell at all.
    Single,
    /// Anything else: several, a loop, a condition, in the background.
    #[default]
    Compound,
}

impl Classification {
    /// The answer when nothing could be said about a line.
    pub fn unknown(line: &str, risk: Risk, why: &str) -> Self {
        Classification {
            risk,
            reasons: vec![why.to_owned()],
            commands: Vec::new(),
            opaque: vec![Opaque {
                why: why.to_owned(),
                span: Span::new(0, line.len()),
            }],
            form: Form::Compound,
        }
    }

    /// True when some part of the line could not be known.
    pub fn is_opaque(&self) -> bool {
        !self.opaque.is_empty()
    }
}

/// A part of the line whose meaning cannot be known before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Opaque {
    /// Why it cannot be known.
    pub why: String,
    /// Where it is.
    pub span: Span,
}

/// One simple command: a program, its arguments and what it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimpleCommand {
    /// The program, with the wrappers taken off.
    pub program: Program,
    /// The arguments, the program's own name first, expansions folded where provable.
    pub argv: Vec<Arg>,
    /// Assignments before the command (`A=1 cmd`), also those of `env`, as `NAME=value`.
    pub assignments: Vec<Arg>,
    /// The redirections of this command.
    pub redirects: Vec<Redirect>,
    /// The wrappers it runs under, outermost first (`sudo`, `xargs`, `sh -c`, `find -exec`).
    pub wrappers: Vec<String>,
    /// How many substitutions (`$(…)`, `<(…)`) deep it is.
    pub nesting: usize,
    /// The same number for the commands of one pipeline, with all that stands in their words.
    #[serde(skip)]
    pub pipeline: usize,
    /// The folder it runs in, when that is known.
    #[serde(skip)]
    pub folder: Option<String>,
    /// What it does.
    pub effects: Vec<Effect>,
    /// The package manager it is, when it fetches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<Install>,
    /// Its own risk.
    pub risk: Risk,
    /// Why, in short phrases.
    pub reasons: Vec<String>,
    /// Where it stands in the line.
    pub span: Span,
}

/// The program of a simple command.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Program {
    /// The last part of its path: `rm` for `/bin/rm`.
    pub name: String,
    /// As typed, folded.
    pub typed: String,
    /// True when it can only be the program of that name in a trusted folder: a bare name that
    /// the shell looks up, or a path straight into a trusted folder.
    pub trusted: bool,
    /// Where trust was taken from it by [`doubt_programs`](crate::decide::doubt_programs): why,
    /// as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// True for a builtin of the shell.
    pub builtin: bool,
    /// True for a function or an alias that the same line defines.
    pub defined_here: bool,
}

/// One word of an argv.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Arg {
    /// Its text; unknown parts stand as typed (`$x`, `$(…)`).
    pub text: String,
    /// True when `text` is exactly what the program will get.
    pub exact: bool,
    /// True when unquoted wildcards are in it.
    pub glob: bool,
    /// Where it stands in the line.
    pub span: Span,
}

/// A redirection of a simple command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Redirect {
    /// Direction and manner.
    pub kind: RedirectKind,
    /// The file, for those that open one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Where it stands in the line.
    pub span: Span,
}

/// Direction and manner of a redirection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RedirectKind {
    /// `< file`
    Read,
    /// `> file`, `>| file`, `&> file`
    Write,
    /// `>> file`, `&>> file`
    Append,
    /// `<> file`
    ReadWrite,
    /// `>&1`, `2>&1`, `<&-`: one descriptor for another, no file
    Duplicate,
    /// A here-document or here-string
    Here,
}
