//! The tree of a shell script: what [`super::parse`] gives back.
//!
//! Every node carries the [`Span`] of the bytes it was read from. Whatever the parser
//! does not model, or gives up on, is an [`Opaque`] node in the place where it stood:
//! judging always has something to look at, and nothing is silently left out.

use super::word::{Arithmetic, Assignment, Word};

/// A range of bytes in the source that was parsed. Text inside backquotes, whose
/// escapes are removed before it is read, still points into the original source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset behind the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes of `source` that this span covers; empty where it does not fit.
    pub fn of<'a>(&self, source: &'a [u8]) -> &'a [u8] {
        source
            .get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }

    /// The smallest span that holds both.
    pub fn to(self, other: Span) -> Span {
        Span {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

/// A place whose meaning the parser cannot tell. At least `dangerous`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Opaque {
    /// Why.
    pub reason: Reason,
    /// What it covers. After a syntax error: everything from the error to the end.
    pub span: Span,
}

/// Why something is [`Opaque`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The source is longer than [`super::MAX_LENGTH`].
    TooLong,
    /// Constructs nest deeper than [`super::MAX_DEPTH`].
    TooDeep,
    /// Reading it took more steps than a source of its length may take.
    TooComplex,
    /// Not a sentence of the shell's grammar; the text says what was missing.
    Syntax(&'static str),
    /// A quote, substitution, here-document or compound command that never ends.
    Unterminated(&'static str),
    /// A compound command that the source ends in, all of it read: every shell refuses it, and
    /// what it holds was read as commands. The text names the construct.
    Unfinished(&'static str),
    /// Shells differ on what this means; the text names the construct.
    Ambiguous(&'static str),
    /// A NUL byte: shells drop it, or stop there.
    Nul,
    /// The value is only known when it runs; the text says what depends on it.
    /// The parser itself never says this: folding and judging do.
    Unknown(&'static str),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::TooLong => f.write_str("longer than 64 KiB"),
            Reason::TooDeep => f.write_str("nested too deeply"),
            Reason::TooComplex => f.write_str("too complex to read"),
            Reason::Syntax(what) => write!(f, "syntax error: {what}"),
            Reason::Unterminated(what) => write!(f, "unterminated {what}"),
            Reason::Unfinished(what) => write!(f, "unfinished {what}"),
            Reason::Ambiguous(what) => write!(f, "shells disagree about {what}"),
            Reason::Nul => f.write_str("a NUL byte"),
            Reason::Unknown(what) => write!(f, "{what} is only known when it runs"),
        }
    }
}

/// A sequence of lists: a whole source, or the inside of a construct that holds commands.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Script {
    /// The lists, in order.
    pub lists: Vec<List>,
    /// Where it stands, without the delimiters around it.
    pub span: Span,
}

impl Script {
    /// The one simple command that it is, if it is nothing else.
    pub fn only_command(&self) -> Option<(&Command, &Simple)> {
        let [list] = self.lists.as_slice() else {
            return None;
        };
        let Pipeline {
            commands,
            status: Status::Plain,
            timing: Timing::Untimed,
            ..
        } = &list.first
        else {
            return None;
        };
        match commands.as_slice() {
            [command] if list.rest.is_empty() && list.ending == Ending::Wait => {
                match &command.kind {
                    CommandKind::Simple(simple) => Some((command, simple)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// Pipelines joined by `&&` and `||`, ended by a newline, `;` or `&`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The first pipeline.
    pub first: Pipeline,
    /// The others, each with what stands before it.
    pub rest: Vec<(Connector, Pipeline)>,
    /// Whether the shell waits for it.
    pub ending: Ending,
    /// Where it stands, without its terminator.
    pub span: Span,
}

impl List {
    /// Its pipelines in order.
    pub fn pipelines(&self) -> impl Iterator<Item = &Pipeline> {
        std::iter::once(&self.first).chain(self.rest.iter().map(|(_, pipeline)| pipeline))
    }
}

/// What joins two pipelines of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connector {
    /// `&&`
    And,
    /// `||`
    Or,
}

/// How a list ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `;`, a newline, or the end: the shell waits.
    Wait,
    /// `&`: it goes on in the background.
    Background,
}

/// Commands joined by `|` or `|&`, with `!` and `time` before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The commands: never empty, but a lone `!` or `time` holds one empty simple command.
    pub commands: Vec<Command>,
    /// What joins command *n* and command *n* + 1: always one fewer than commands.
    pub pipes: Vec<Pipe>,
    /// Whether its exit status is inverted.
    pub status: Status,
    /// Whether `time` stands before it.
    pub timing: Timing,
    /// Where it stands.
    pub span: Span,
}

/// What flows through a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipe {
    /// `|`: standard output.
    Output,
    /// `|&`: standard output and standard error.
    OutputAndError,
}

/// How a pipeline's exit status counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As it is.
    Plain,
    /// Inverted by an odd number of `!`.
    Inverted,
}

/// The reserved word `time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Not there.
    Untimed,
    /// There, with `-p` or without.
    Timed,
}

/// One command with its redirections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What it is.
    pub kind: CommandKind,
    /// Its redirections, in order, wherever among the words they stood.
    pub redirects: Vec<Redirect>,
    /// Where it stands, redirections included, here-document bodies not.
    pub span: Span,
}

/// What a command is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// Assignments and words: `A=1 program argument`.
    Simple(Simple),
    /// `( … )`
    Subshell(Script),
    /// `{ …; }`
    Group(Script),
    /// `if … then … elif … else … fi`
    If(If),
    /// `while … do … done`, `until … do … done`
    While(While),
    /// `for x in …`, `select x in …`
    For(For),
    /// `for ((…;…;…))`
    ArithmeticFor(Box<ArithmeticFor>),
    /// `case … esac`
    Case(Case),
    /// `name() …`, `function name …`
    Function(Function),
    /// `coproc [name] …`
    Coprocess(Coprocess),
    /// `(( … ))`
    Arithmetic(Arithmetic),
    /// `[[ … ]]`
    Test(Test),
    /// Something the parser could not read.
    Opaque(Opaque),
}

/// A simple command. Without words it is assignments (or only redirections).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Simple {
    /// Assignments before the first word.
    pub assignments: Vec<Assignment>,
    /// The command's name and arguments. What looks like an array assignment among the
    /// arguments (`declare a=(1 2)`) is a word with a [`super::word::PartKind::Array`].
    pub words: Vec<Word>,
}

/// `if`: conditions with what they guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct If {
    /// `if` and each `elif`: condition and body.
    pub branches: Vec<(Script, Script)>,
    /// `else`.
    pub otherwise: Option<Script>,
}

/// `while` or `until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct While {
    /// The condition's commands.
    pub condition: Script,
    /// The body.
    pub body: Script,
}

/// `for` or `select` over words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct For {
    /// The variable's name.
    pub variable: Vec<u8>,
    /// The words after `in`; `None` stands for `"$@"`.
    pub words: Option<Vec<Word>>,
    /// The body.
    pub body: Script,
}

/// `for ((init; condition; step))`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArithmeticFor {
    /// The three expressions together, semicolons included.
    pub header: Arithmetic,
    /// The body.
    pub body: Script,
}

/// `case`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The word that is compared.
    pub subject: Word,
    /// The arms in order.
    pub arms: Vec<Arm>,
}

/// One arm of a `case`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    /// Patterns, separated by `|`.
    pub patterns: Vec<Word>,
    /// The body.
    pub body: Script,
    /// What happens after it.
    pub ending: ArmEnding,
}

/// The end of a `case` arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArmEnding {
    /// `;;` (or `esac`): done.
    Done,
    /// `;&`: go on with the next body.
    FallThrough,
    /// `;;&`: go on with the next patterns.
    TestNext,
}

/// A function's definition. Its body runs only when it is called, or never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, quotes removed.
    pub name: Vec<u8>,
    /// Its body, with the redirections that belong to it.
    pub body: Box<Command>,
}

/// `coproc`: a command that runs beside the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coprocess {
    /// Its name, if it has one.
    pub name: Option<Vec<u8>>,
    /// The command.
    pub body: Box<Command>,
}

/// `[[ … ]]`: its words; the operators between them do not matter to what may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// Operands and operators in order; `(`, `)`, `&&`, `||`, `!`, `<`, `>` and such are
    /// words of one plain part.
    pub words: Vec<Word>,
    /// The words that begin a line of their own, by number.
    pub breaks: Vec<usize>,
}

/// A redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The descriptor before the operator, if there is one.
    pub descriptor: Option<Descriptor>,
    /// The operator.
    pub operator: RedirectOperator,
    /// Where to.
    pub target: RedirectTarget,
    /// Where it stands, the here-document's body not included.
    pub span: Span,
}

/// The descriptor a redirection names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// `2>`
    Number(u32),
    /// `{name}>`: the shell picks one and stores it in the variable.
    Variable(Vec<u8>),
}

/// The operator of a redirection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RedirectOperator {
    /// `<`
    Read,
    /// `>`
    Write,
    /// `>>`
    Append,
    /// `>|`
    Clobber,
    /// `<>`
    ReadWrite,
    /// `<&`: duplicates a descriptor, or closes it (`-`).
    DuplicateInput,
    /// `>&`: duplicates a descriptor, closes it (`-`), or (a word that is no number)
    /// writes output and error to a file.
    DuplicateOutput,
    /// `&>`
    WriteBoth,
    /// `&>>`
    AppendBoth,
    /// `<<`, `<<-`
    HereDocument,
    /// `<<<`
    HereString,
}

impl RedirectOperator {
    /// Whether a word that names a file is opened for writing.
    pub fn writes(self) -> bool {
        use RedirectOperator::*;
        matches!(
            self,
            Write | Append | Clobber | ReadWrite | DuplicateOutput | WriteBoth | AppendBoth
        )
    }
}

/// Where a redirection goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedirectTarget {
    /// A word: a path, a descriptor, a here-string's text.
    Word(Word),
    /// A here-document's body. Quoted delimiter: one literal part; otherwise expanded
    /// like double quotes.
    Document(Word),
}
