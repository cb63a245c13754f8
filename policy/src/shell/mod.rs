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
/// let script = sjail_policy::shell::parse(b"");
/// assert!(script.lists.is_empty());
/// ```
pub fn parse(source: &[u8]) -> Script {
    let _ = source;
    Script::default()
}
