//! Words and what they are made of.

use super::ast::{Opaque, Script, Span};

/// A word: parts side by side.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Word {
    /// The parts in order; empty only for an empty here-document or pattern.
    pub parts: Vec<Part>,
    /// Where it stands.
    pub span: Span,
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub kind: PartKind,
    /// Where it stands, its quotes and delimiters included.
    pub span: Span,
}

/// What a part of a word is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Unquoted text without any special meaning.
    Plain(Vec<u8>),
    /// Quoted text that stands for itself: `\x`, `'…'`, or `$'…'` with its escapes decoded.
    Quoted(Vec<u8>),
    /// `"…"` or `$"…"` (which a translation may replace).
    Double(Vec<Part>, Translation),
    /// `$x`, `${x…}`
    Parameter(Box<Parameter>),
    /// `$( … )`, `` `…` ``, `${ …; }`, `${| …; }`
    Command(Script, Substitution),
    /// `$(( … ))`, `$[ … ]`
    Arithmetic(Arithmetic),
    /// `<( … )`, `>( … )`
    Process(Script, Direction),
    /// `~`, `~user`, `~+`: the text behind the tilde.
    Tilde(Vec<u8>),
    /// An unquoted `*` or `?`, or a `[` with its `]` further on: the byte.
    Glob(u8),
    /// `@( … | … )` and its kin: the operator and its patterns.
    ExtendedGlob(u8, Vec<Word>),
    /// `{a,b}`: each alternative.
    Braces(Vec<Word>),
    /// `{1..9}`, `{a..z..2}`: the text between the braces.
    Range(Vec<u8>),
    /// `( … )` behind `name=` or `name+=`.
    Array(Vec<Element>),
    /// Something the parser could not read.
    Opaque(Opaque),
}

/// Whether a double-quoted string may be translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// `"…"`
    Never,
    /// `$"…"`: by the locale's message catalogue.
    ByLocale,
}

/// The spelling of a command substitution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Substitution {
    /// `$( … )`
    Dollar,
    /// `` `…` ``
    Backquote,
    /// `${ …; }` and `${| …; }`: in the shell itself.
    Inline,
}

/// The direction of a process substitution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `<( … )`: its output is read.
    Read,
    /// `>( … )`: its input is written.
    Write,
}

/// An arithmetic expression. Only what it expands is kept apart: substitutions inside
/// run, and so may subscripts in the values of its variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arithmetic {
    /// Text and expansions, as inside double quotes.
    pub parts: Vec<Part>,
    /// Where it stands, without its delimiters.
    pub span: Span,
}

/// An expansion of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name: of a variable, a digit or more, or one of `@*#?-$!_`.
    pub name: Vec<u8>,
    /// `[ … ]` behind the name.
    pub subscript: Option<Subscript>,
    /// `${!x}`: the value names what is expanded.
    pub reference: Reference,
    /// What is done with the value.
    pub operation: Operation,
}

/// Whether a parameter's value is used, or what the value names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// `${x}`
    Direct,
    /// `${!x}`
    Indirect,
}

/// The subscript of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscript {
    /// `[@]` or `[*]`: the byte.
    All(u8),
    /// An arithmetic expression or a key.
    Index(Word),
}

/// What `${ … }` does with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Nothing: `$x`, `${x}`.
    Value,
    /// `${#x}`
    Length,
    /// `${x-w}`, `${x:-w}`
    Default(Word),
    /// `${x=w}`, `${x:=w}`
    Assign(Word),
    /// `${x?w}`, `${x:?w}`
    Require(Word),
    /// `${x+w}`, `${x:+w}`
    Alternative(Word),
    /// `${x#w}`, `${x##w}`, `${x%w}`, `${x%%w}`
    Trim(Word),
    /// `${x/p/r}` and its kin: pattern and replacement.
    Replace(Word, Option<Word>),
    /// `${x^p}`, `${x^^p}`, `${x,p}`, `${x,,p}`, `${x~p}`, `${x~~p}`
    Case(Word),
    /// `${x:offset}`, `${x:offset:length}`: both together, colon included.
    Substring(Arithmetic),
    /// `${x@Q}` and its kin: the letter. `P` expands the value like a prompt, commands included.
    Transform(u8),
    /// `${!prefix*}`, `${!prefix@}`, `${!array[@]}`: names, not values.
    Names,
}

/// An element of an array literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// `[key]=` before the value.
    pub key: Option<Word>,
    /// The value.
    pub value: Word,
}

/// `name=value`, `name+=value`, `name[subscript]=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The variable's name.
    pub name: Vec<u8>,
    /// The subscript, if there is one.
    pub subscript: Option<Word>,
    /// Whether the value replaces the old one.
    pub mode: AssignmentMode,
    /// The value; an array literal is a word with one [`PartKind::Array`].
    pub value: Word,
    /// Where it stands.
    pub span: Span,
}

/// How an assignment stores its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssignmentMode {
    /// `=`
    Set,
    /// `+=`
    Append,
}

impl Word {
    /// The word's value, if it is provably the same in every run: quotes removed, and
    /// nothing in it that a shell expands. A glob that may match files is not constant.
    pub fn literal(&self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        push_literal(&self.parts, &mut value).then_some(value)
    }

    /// The word's text, if it is unquoted and plain: what a reserved word or an alias
    /// must be.
    pub fn plain(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [
                Part {
                    kind: PartKind::Plain(text),
                    ..
                },
            ] => Some(text),
            _ => None,
        }
    }
}

fn push_literal(parts: &[Part], value: &mut Vec<u8>) -> bool {
    parts.iter().all(|part| match &part.kind {
        PartKind::Plain(text) | PartKind::Quoted(text) => {
            value.extend_from_slice(text);
            true
        }
        PartKind::Double(inner, Translation::Never) => push_literal(inner, value),
        _ => false,
    })
}
