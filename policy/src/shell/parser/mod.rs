//! Reading a script: lists and pipelines here, the rest in the files below.
//!
//! There is no separate lexer, because what a byte means in a shell depends on where it
//! stands. Nothing here returns an error: [`Parser::fail`] notes the first one and moves
//! to the end of the source, every loop then comes to its end, and what was read so far
//! is kept.

mod ansi;
mod arithmetic;
mod assemble;
mod compound;
mod cursor;
mod dollar;
mod heredoc;
mod parameter;
mod redirect;
mod reserved;
mod simple;
mod text;

use super::ast::{
    Command, CommandKind, Connector, Ending, List, Opaque, Pipe, Pipeline, Reason, Script, Simple,
    Span, Status, Timing,
};
use super::word::{Arithmetic, Part, Word};
use super::{MAX_LENGTH, ast};
use cursor::Fuel;

/// Reads a script, and says how many steps that took.
pub(super) fn read(source: &[u8]) -> (Script, usize) {
    let fuel = Fuel::new(source.len());
    let (readable, cut) = readable(source);
    let mut script = Parser::new(readable, &fuel).whole();
    if let Some(opaque) = cut {
        script.lists.push(opaque_list(opaque));
    }
    script.span.end = source.len() as u32;
    (script, fuel.spent())
}

/// Reads the text of an arithmetic expression, such as a variable's value.
pub(super) fn read_arithmetic(source: &[u8]) -> Arithmetic {
    let fuel = Fuel::new(source.len());
    let (readable, cut) = readable(source);
    let mut parser = Parser::new(readable, &fuel);
    let word = parser.document();
    let mut parts = word.parts;
    parts.extend(cut.map(opaque_part));
    Arithmetic {
        parts,
        span: word.span,
    }
}

/// What of the source is read at all.
fn readable(source: &[u8]) -> (&[u8], Option<Opaque>) {
    let kept = source.get(..MAX_LENGTH).unwrap_or(source);
    let nul = kept.iter().position(|&byte| byte == 0);
    let reason = match nul {
        Some(_) => Reason::Nul,
        None if kept.len() < source.len() => Reason::TooLong,
        None => return (source, None),
    };
    let kept = kept.get(..nul.unwrap_or(kept.len())).unwrap_or_default();
    let span = Span {
        start: kept.len() as u32,
        end: source.len().min(u32::MAX as usize) as u32,
    };
    (kept, Some(Opaque { reason, span }))
}

fn opaque_list(opaque: Opaque) -> List {
    let span = opaque.span;
    let command = Command {
        kind: CommandKind::Opaque(opaque),
        redirects: Vec::new(),
        span,
    };
    List {
        first: Pipeline {
            commands: vec![command],
            pipes: Vec::new(),
            status: Status::Plain,
            timing: Timing::Untimed,
            span,
        },
        rest: Vec::new(),
        ending: Ending::Wait,
        span,
    }
}

fn opaque_part(opaque: Opaque) -> Part {
    Part {
        span: opaque.span,
        kind: super::word::PartKind::Opaque(opaque),
    }
}

/// A source being read.
struct Parser<'s> {
    source: &'s [u8],
    /// For text whose escapes were removed: where each byte, and the end, came from.
    origins: Option<&'s [u32]>,
    pos: usize,
    depth: usize,
    fuel: &'s Fuel,
    failure: Option<Opaque>,
    /// Here-documents whose bodies begin after the next newline.
    pending: Vec<heredoc::Pending>,
    /// Bodies that were read, to be put in their places when the script is complete.
    documents: Vec<Word>,
    /// Whether this is inside `$( … )`, where here-documents end differently.
    substitution: bool,
    /// Whether this is directly inside `${ …; }`, where any `}` may close it.
    inline: bool,
    /// Whether the arithmetic being read has quotes that shells read differently.
    doubt: bool,
    /// Whether the source speaks of `extglob` anywhere.
    extglob: bool,
}

impl<'s> Parser<'s> {
    fn new(source: &'s [u8], fuel: &'s Fuel) -> Self {
        Parser {
            source,
            origins: None,
            pos: 0,
            depth: 0,
            fuel,
            failure: None,
            pending: Vec::new(),
            documents: Vec::new(),
            substitution: false,
            inline: false,
            doubt: false,
            extglob: source.windows(7).any(|window| window == b"extglob"),
        }
    }

    /// A reader of other text at the same depth, whose failures are its own.
    fn inner<'t>(&self, source: &'t [u8], origins: Option<&'t [u32]>) -> Parser<'t>
    where
        's: 't,
    {
        Parser {
            source,
            origins,
            pos: 0,
            depth: self.depth,
            fuel: self.fuel,
            failure: None,
            pending: Vec::new(),
            documents: Vec::new(),
            substitution: false,
            inline: false,
            doubt: false,
            extglob: self.extglob,
        }
    }

    /// Everything to the end, as a script of its own.
    fn whole(mut self) -> Script {
        let start = self.pos;
        let mut script = self.script();
        if !self.at_end() {
            self.fail(Reason::Syntax("unexpected word or operator"));
        }
        self.read_documents();
        self.fill(&mut script);
        script.lists.extend(self.failure.take().map(opaque_list));
        script.span = self.span(start);
        script
    }

    /// Lists up to something that does not belong to one: the end, `)`, `;;`, or a
    /// reserved word that closes or continues the construct around.
    fn script(&mut self) -> Script {
        self.skip_newlines();
        let start = self.pos;
        let mut lists = Vec::new();
        let mut end = self.pos;
        while let Some(mut list) = self.list() {
            end = self.pos;
            self.skip_blanks();
            let separated = match self.peek() {
                Some(b'&') => {
                    self.advance(1);
                    list.ending = Ending::Background;
                    true
                }
                Some(b';') if !self.at_arm_end() => {
                    self.advance(1);
                    true
                }
                Some(b'\n') => true,
                _ => false,
            };
            lists.push(list);
            if !separated {
                break;
            }
            self.skip_newlines();
        }
        let mut span = self.span(start);
        span.end = span.start.max(self.origin_of(end));
        Script { lists, span }
    }

    fn origin_of(&self, pos: usize) -> u32 {
        self.span(pos).start
    }

    /// Whether `;;` or `;&` stands here.
    fn at_arm_end(&mut self) -> bool {
        self.peek() == Some(b';') && matches!(self.peek_ahead(1), Some(b';' | b'&'))
    }

    /// Blanks, comments and newlines; bodies of here-documents are read on the way.
    fn skip_newlines(&mut self) {
        loop {
            self.skip_blanks();
            if !self.eat(b'\n') {
                return;
            }
            self.read_documents();
        }
    }

    fn list(&mut self) -> Option<List> {
        let start = self.pos;
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        let mut end = self.pos;
        loop {
            self.skip_blanks();
            let connector = if self.eat_all(b"&&") {
                Connector::And
            } else if self.eat_all(b"||") {
                Connector::Or
            } else {
                break;
            };
            self.skip_newlines();
            match self.pipeline() {
                Some(pipeline) => rest.push((connector, pipeline)),
                None => self.fail(Reason::Syntax("a command is missing after && or ||")),
            }
            end = self.pos;
        }
        Some(List {
            first,
            rest,
            ending: Ending::Wait,
            span: ast::Span {
                start: self.origin_of(start),
                end: self.origin_of(end),
            },
        })
    }

    fn pipeline(&mut self) -> Option<Pipeline> {
        let start = self.pos;
        let (status, timing) = self.pipeline_prefix();
        let prefixed = self.pos != start;
        let mut commands = Vec::new();
        match self.command() {
            Some(command) => commands.push(command),
            None if prefixed => commands.push(Command {
                kind: CommandKind::Simple(Simple::default()),
                redirects: Vec::new(),
                span: self.span(self.pos),
            }),
            None => return None,
        }
        let mut pipes = Vec::new();
        let mut end = self.pos;
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'|') || self.peek_ahead(1) == Some(b'|') {
                break;
            }
            self.advance(1);
            let pipe = if self.eat(b'&') {
                Pipe::OutputAndError
            } else {
                Pipe::Output
            };
            self.skip_newlines();
            // Some shells accept `a | ! b`; `time` is no reserved word here.
            while self.at_negated_subshell() || self.at_word(b"!") {
                self.take();
                self.skip_blanks();
            }
            match self.command() {
                Some(command) => {
                    pipes.push(pipe);
                    commands.push(command);
                }
                None => self.fail(Reason::Syntax("a command is missing after |")),
            }
            end = self.pos;
        }
        Some(Pipeline {
            commands,
            pipes,
            status,
            timing,
            span: Span {
                start: self.origin_of(start),
                end: self.origin_of(end),
            },
        })
    }

    /// Any number of `!` and `time` with its options.
    fn pipeline_prefix(&mut self) -> (Status, Timing) {
        let (mut status, mut timing) = (Status::Plain, Timing::Untimed);
        loop {
            self.skip_blanks();
            if self.at_negated_subshell() || self.at_word(b"!") {
                self.peek();
                self.advance(1);
                status = match status {
                    Status::Plain => Status::Inverted,
                    Status::Inverted => Status::Plain,
                };
            } else if self.at_word(b"time") && self.eat_time() {
                timing = Timing::Timed;
            } else {
                return (status, timing);
            }
        }
    }

    /// `!(…)` is a negated subshell, unless extended globs are on: then it is a pattern.
    fn at_negated_subshell(&mut self) -> bool {
        let here = self.peek() == Some(b'!') && self.peek_ahead(1) == Some(b'(');
        if here && self.extglob {
            self.fail(Reason::Ambiguous("!( at the start of a command"));
        }
        here && !self.failed()
    }

    /// The reserved word `time`. Before an option other than `-p` it is left alone: bash
    /// would take the option for a command, other shells run the program `time`.
    fn eat_time(&mut self) -> bool {
        let checkpoint = self.checkpoint();
        self.eat_all(b"time");
        self.skip_blanks();
        while self.at_word(b"-p") || self.at_word(b"--") {
            self.peek();
            self.take();
            self.take();
            self.skip_blanks();
        }
        if self.peek() == Some(b'-') {
            self.restore(checkpoint);
            return false;
        }
        true
    }
}
