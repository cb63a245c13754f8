//! The shell's language: bytes in, tree out ([`parse`]).
//!
//! A conservative reader of bash and POSIX sh. It never fails and never panics: what it
//! does not model, what is too long, too deep or broken becomes an [`ast::Opaque`] node,
//! and everything read before it is kept, because a shell runs the earlier lines of a
//! script before it stumbles over a later one. It takes time linear in the length.

pub mod ast;
pub mod braces;
pub mod decode;
pub mod fold;
mod parser;
pub mod walk;
pub mod word;

pub use ast::{
    Command, CommandKind, Connector, Ending, List, Opaque, Pipe, Pipeline, Reason, Redirect,
    RedirectOperator, RedirectTarget, Script, Simple, Span,
};
pub use word::{Assignment, Parameter, Part, PartKind, Word};

/// The longest source that is read; more is [`Reason::TooLong`].
pub const MAX_LENGTH: usize = 64 * 1024;

/// The deepest nesting that is read; more is [`Reason::TooDeep`].
pub const MAX_DEPTH: usize = 64;

/// Reads a script.
///
/// ```
/// use sjail_policy::shell::{CommandKind, parse};
///
/// let script = parse(b"r''m -rf /");
/// let CommandKind::Simple(command) = &script.lists[0].first.commands[0].kind else {
///     panic!("not a simple command");
/// };
/// assert_eq!(command.words[0].literal().as_deref(), Some(&b"rm"[..]));
/// ```
pub fn parse(source: &[u8]) -> Script {
    parser::read(source).0
}

/// Reads a script, and says how many steps that took: what growth is measured by.
pub fn parse_counting(source: &[u8]) -> (Script, usize) {
    parser::read(source)
}

/// Reads the text of an arithmetic expression, such as the value of a variable that an
/// expression names, or an argument of `let`: substitutions in it run.
pub fn parse_arithmetic(source: &[u8]) -> word::Arithmetic {
    parser::read_arithmetic(source)
}
