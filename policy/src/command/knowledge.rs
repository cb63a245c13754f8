//! What is known of programs, environment variables, paths and code: static tables compiled
//! from `knowledge/*.toml`, whose README describes the schema.

#![allow(dead_code)] // the schema's vocabulary is wider than what entries use today

use super::table::{List, Pooled, Text};
use crate::effect::Place;
use crate::risk::Risk;

/// How a program or a sub-command behaves.
#[derive(Debug)]
pub(crate) struct Spec {
    /// Why the entry says what it says.
    pub reason: Text,
    /// The risk when no flag and no argument says more.
    pub risk: Risk,
    /// The effect that goes with it.
    pub kind: Kind,
    /// The phrase that goes with it.
    pub says: Text,
    /// How options are written.
    pub style: Style,
    /// What an option means that is not listed.
    pub unknown: Unknown,
    /// Its options.
    pub flags: List<Flag>,
    /// Its positional arguments.
    pub args: List<Positional>,
    /// What it does with its standard input.
    pub input: Input,
    /// What its standard output is.
    pub output: Output,
    /// Analysis that a table cannot express.
    pub handler: Handler,
    /// Its sub-commands.
    pub subs: List<Sub>,
    /// The risk when nothing at all follows the name.
    pub bare: Option<Risk>,
    /// Whether the options of the program also count behind this sub-command.
    pub inherit: bool,
    /// Whether general verbs (`delete`, `destroy`) are understood.
    pub verbs: bool,
}

impl Spec {
    /// What is assumed of a program or sub-command that only has a name.
    pub(crate) const PLAIN: Spec = Spec {
        reason: Text::EMPTY,
        risk: Risk::Normal,
        kind: Kind::None,
        says: Text::EMPTY,
        style: Style::Gnu,
        unknown: Unknown::Normal,
        flags: List::EMPTY,
        args: List::EMPTY,
        input: Input::Ignored,
        output: Output::Own,
        handler: Handler::None,
        subs: List::EMPTY,
        bare: None,
        inherit: true,
        verbs: false,
    };
}

/// One option in all its spellings.
#[derive(Debug)]
pub(crate) struct Flag {
    pub spellings: List<Text>,
    pub takes: Takes,
    pub role: Role,
    pub risk: Option<Risk>,
    pub kind: Kind,
    pub says: Text,
    pub modifiers: Modifiers,
}

/// Whether an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// A switch.
    None,
    /// A value, attached or as the next word.
    Required,
    /// A value only when attached.
    Optional,
}

/// A positional argument.
#[derive(Debug)]
pub(crate) struct Positional {
    pub role: Role,
    pub count: Count,
}

/// How often a positional argument occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    One,
    Optional,
    Many,
}

/// What a value is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Text without consequences.
    Data,
    /// A path that is read.
    Read,
    /// A path that is created or overwritten.
    Write,
    /// A folder or an empty file that is made.
    Make,
    /// A path that is appended to.
    Append,
    /// A path that is removed.
    Delete,
    /// A path that is moved away.
    Move,
    /// A path whose owner or mode changes.
    Attributes,
    /// The folder the program works in.
    Directory,
    /// A host name, an address or a URL.
    Host,
    /// `host:path`, or a local path.
    Remote,
    /// The first word of a command that goes on to the end of the line.
    Command,
    /// Text for a shell.
    Shell,
    /// The name of a program that is started.
    Program,
    /// A file that is run.
    Script,
    /// `NAME=value` for the environment.
    Environment,
    /// A folder of the host shown to a container.
    Mount,
    /// `key=value` of git's configuration.
    GitConfig,
    /// A package to install.
    Package,
    /// Where packages come from.
    Registry,
    /// A file, or its address, that says what is to be done.
    Definition,
    /// A file (`@file`) or text that is sent away.
    Upload,
    /// A file or folder that is sent away.
    Send,
    /// What it means cannot be known.
    Opaque,
    /// A process.
    Pid,
    /// Source text.
    Code(Language),
}

/// A language whose source may stand in an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Shell,
    Python,
    Perl,
    Ruby,
    JavaScript,
    Php,
    Lua,
    Awk,
    Sed,
    Sql,
    Vim,
    R,
    PowerShell,
    Other,
}

/// The effect an entry or a flag stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    None,
    Network,
    Privilege,
    Persistence,
    SystemChange,
    Publishes,
    Kills,
    Discards,
    Runs,
    Opaque,
    Writes,
    Deletes,
}

/// How a program writes its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `-abc`, `-ovalue`, `--long=value`, abbreviated long options, options anywhere.
    Gnu,
    /// The same, but options end at the first positional argument.
    Posix,
    /// Long options with one dash: `-name value`, no bundles.
    Long,
    /// As `Gnu`, and the first word may be a bundle without a dash (`tar xf`, `ps aux`).
    Bundle,
    /// `key=value` operands (`dd`).
    Operands,
    /// No options at all: every word is a positional argument.
    None,
}

/// What an option means that the entry does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// Nothing bad is possible.
    Harmless,
    /// The command is no longer safe.
    Normal,
    /// The command is dangerous.
    Dangerous,
}

/// What a program does with its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// Does not read it, or nothing follows from it.
    Ignored,
    /// Reads it as data.
    Data,
    /// Runs it, unless the arguments already say what to run.
    Code(Language),
}

/// What a program's standard output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Its own report.
    Own,
    /// Its input, filtered.
    Same,
    /// What it fetched from the network.
    Network,
    /// What the files it reads hold.
    Files,
    /// Its input, decoded.
    Decoded,
}

/// Sub-commands that behave alike.
#[derive(Debug)]
pub(crate) struct Sub {
    /// Words separated by blanks; `*` stands for any text at a word's start or end.
    pub names: List<Text>,
    pub spec: Spec,
}

/// What else a flag changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Modifiers(u16);

impl Modifiers {
    pub(crate) const NONE: Modifiers = Modifiers(0);
    /// Whole trees, not single files.
    pub(crate) const RECURSIVE: Modifiers = Modifiers(1);
    /// Without asking back.
    pub(crate) const FORCE: Modifiers = Modifiers(2);
    /// Files that would be read are changed in place.
    pub(crate) const EDITS: Modifiers = Modifiers(4);
    /// The value is the destination: all positionals are sources.
    pub(crate) const TARGET: Modifiers = Modifiers(8);
    /// With it the command only reads.
    pub(crate) const READS: Modifiers = Modifiers(16);
    /// Prints help or a version and does nothing else.
    pub(crate) const INFO: Modifiers = Modifiers(32);
    /// The output is the decoded input.
    pub(crate) const DECODES: Modifiers = Modifiers(64);
    /// Standard input is read even though arguments are given.
    pub(crate) const STDIN: Modifiers = Modifiers(128);
    /// Shows what would be done, without doing it.
    pub(crate) const CALM: Modifiers = Modifiers(256);
    /// Sends data away.
    pub(crate) const UPLOAD: Modifiers = Modifiers(512);
    /// Acts on the whole machine or account.
    pub(crate) const GLOBAL: Modifiers = Modifiers(1024);

    pub(crate) const fn with(self, other: Modifiers) -> Modifiers {
        Modifiers(self.0 | other.0)
    }

    pub(crate) const fn has(self, other: Modifiers) -> bool {
        self.0 & other.0 != 0
    }
}

/// An environment variable that changes what programs do.
#[derive(Debug)]
pub(crate) struct Variable {
    pub name: Text,
    pub risk: Risk,
    pub role: Role,
    pub says: Text,
    pub reason: Text,
}

/// Text in a source that gives away what it does.
#[derive(Debug)]
pub(crate) struct Code {
    pub languages: List<Language>,
    pub means: Means,
    pub text: List<Text>,
}

/// What a piece of source does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    /// Runs text in a shell.
    Shell,
    /// Starts a program from a list of words.
    Argv,
    /// Opens a raw connection.
    Socket,
    /// Talks to another machine.
    Network,
    /// Takes what a connection sends; counts only beside one.
    Receive,
    /// Answers whoever asks; what they ask for is received.
    Serves,
    /// Reads its standard input; counts only where strangers write that.
    Input,
    /// Ties a connection to a program's input and output.
    Attach,
    /// Decodes text.
    Decode,
    /// Runs text as source.
    Evaluate,
    /// Removes a file.
    Delete,
    /// Removes a tree.
    DeleteTree,
    /// Opens a file; the mode says whether it is written.
    Open,
    /// Writes a file.
    Write,
    /// Reads a file.
    Read,
    /// Makes one file out of another, or a link to it.
    Copy,
    /// Gives a file another name.
    Move,
    /// Changes the rights or the owner of a file.
    Attributes,
    /// A path as an object; what is called on it says what happens to it.
    Path,
    /// The home folder.
    Home,
    /// Makes a copy of the process.
    Fork,
    /// Goes on without an end.
    Forever,
    /// Changes rights.
    Privilege,
    /// Destroys data in a database.
    Drop,
    /// Hands a statement to a database.
    Statement,
    /// Ends every process.
    Kill,
    /// Fetches into a file.
    Fetch,
    /// Reaches into another process or the loader.
    Injects,
    /// Hands on all variables of the environment.
    Environment,
}

/// A key of git's configuration that names a program, or weakens git.
#[derive(Debug)]
pub(crate) struct GitKey {
    pub key: Text,
    pub role: Role,
    pub says: Text,
}

/// A word that means the same as a sub-command of almost every tool.
#[derive(Debug)]
pub(crate) struct Verb {
    pub words: List<Text>,
    pub risk: Risk,
    pub says: Text,
    /// Also for programs of which nothing is known.
    pub everywhere: bool,
}

/// Analysis that a table cannot express; each has a function of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handler {
    None,
    Alias,
    At,
    Awk,
    Carrier,
    Cd,
    Chmod,
    Container,
    Crontab,
    Curl,
    Dd,
    Declare,
    Echo,
    Elsewhere,
    Env,
    Eval,
    Exec,
    Fetch,
    Find,
    Git,
    HandsOut,
    Inetd,
    Install,
    Interpreter,
    Kill,
    Netcat,
    Openssl,
    Parallel,
    Printenv,
    Printf,
    Read,
    Rm,
    Rsync,
    Sed,
    Service,
    Set,
    Sftp,
    Shell,
    Socat,
    Source,
    Sql,
    Ssh,
    Sudo,
    Tar,
    Tee,
    Trap,
    Unset,
    Xargs,
    Ztcp,
}

include!(concat!(env!("OUT_DIR"), "/knowledge.rs"));

macro_rules! pooled {
    ($($kind:ty: $pool:ident),*) => {
        $(impl Pooled for $kind {
            fn pool() -> &'static [$kind] {
                &$pool
            }
        })*
    };
}

pooled!(Text: WORDS, Flag: FLAGS, Positional: ARGS, Sub: SUBS, Language: LANGUAGES);

/// The entry of a program, by the last part of its path. `python.exe` is Python, and so is
/// `python3.15`, whatever version comes next.
pub(crate) fn program(name: &str) -> Option<&'static Spec> {
    let runs = |spec: &&Spec| matches!(spec.handler, Handler::Interpreter | Handler::Shell);
    listed(name)
        .or_else(|| listed(&windows_stem(name)?))
        .or_else(|| listed(without_version(name)?).filter(runs))
}

fn windows_stem(name: &str) -> Option<String> {
    let (stem, ending) = name.split_at_checked(name.len().checked_sub(4)?)?;
    let stem = || stem.to_ascii_lowercase();
    ending.eq_ignore_ascii_case(".exe").then(stem)
}

fn without_version(name: &str) -> Option<&str> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    (stem.len() < name.len()).then_some(stem)
}

fn listed(name: &str) -> Option<&'static Spec> {
    let at = NAMES
        .binary_search_by(|(known, _)| known.get().cmp(name))
        .ok()?;
    PROGRAMS.get(usize::from(NAMES.get(at)?.1))
}

/// The entry of an environment variable; a trailing `*` in a name stands for any ending.
pub(crate) fn variable(name: &str) -> Option<&'static Variable> {
    VARIABLES
        .iter()
        .find(|variable| match variable.name.get().strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => variable.name == name,
        })
}
