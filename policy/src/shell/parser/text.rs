//! Text with quotes and expansions in it, in every place where it may stand.

use super::Parser;
use super::assemble::Lexemes;
use super::reserved::ends_word;
use crate::shell::ast::Reason;
use crate::shell::word::{Direction, Part, PartKind, Translation, Word};

/// Where a text stands: what ends it, and what has a meaning in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A word of a command.
    Word,
    /// The value of an assignment: neither braces nor globs.
    Value,
    /// An operand of `[[ … ]]`.
    Pattern,
    /// The right side of `=~`: parentheses and `|` belong to it.
    Regex,
    /// `"…"`
    Double,
    /// A here-document's body.
    Document,
    /// The word in `${x:-…}`.
    Brace,
    /// The same inside double quotes.
    DoubleBrace,
    /// The pattern in `${x/…/…}`.
    Slash,
    /// A subscript, or `$[ … ]`.
    Bracket,
    /// `(( … ))`
    Paren,
    /// An alternative of `@(…|…)`.
    ExtendedGlob,
}

impl Mode {
    fn ends(self, byte: u8, nesting: usize) -> bool {
        match self {
            Mode::Word | Mode::Value | Mode::Pattern => ends_word(byte),
            Mode::Regex => nesting == 0 && ends_word(byte) && !matches!(byte, b'(' | b'|'),
            Mode::Double => byte == b'"',
            Mode::Document => false,
            Mode::Brace | Mode::DoubleBrace => byte == b'}',
            Mode::Slash => matches!(byte, b'}' | b'/'),
            Mode::Bracket => nesting == 0 && byte == b']',
            Mode::Paren => nesting == 0 && byte == b')',
            Mode::ExtendedGlob => nesting == 0 && matches!(byte, b'|' | b')'),
        }
    }

    /// What never ended if the source ends here; `None` where that is fine.
    fn construct(self) -> Option<&'static str> {
        match self {
            Mode::Word | Mode::Value | Mode::Pattern | Mode::Regex | Mode::Document => None,
            Mode::Double => Some("double quote"),
            Mode::Brace | Mode::DoubleBrace | Mode::Slash => Some("${ … }"),
            Mode::Bracket => Some("subscript"),
            Mode::Paren => Some("arithmetic expression"),
            Mode::ExtendedGlob => Some("pattern"),
        }
    }

    /// The brackets that are counted.
    fn nests(self, byte: u8) -> i8 {
        match (self, byte) {
            (Mode::Regex | Mode::Paren | Mode::ExtendedGlob, b'(') | (Mode::Bracket, b'[') => 1,
            (Mode::Regex | Mode::Paren | Mode::ExtendedGlob, b')') | (Mode::Bracket, b']') => -1,
            _ => 0,
        }
    }

    /// Whether this is outside of double quotes and what is treated like them.
    pub fn unquoted(self) -> bool {
        !matches!(
            self,
            Mode::Double | Mode::Document | Mode::DoubleBrace | Mode::Paren | Mode::Bracket
        )
    }

    /// Whether a single quote ends where the next one stands, yet what is between them
    /// is expanded, or not, depending on the shell.
    fn doubtful_quotes(self) -> bool {
        matches!(self, Mode::DoubleBrace | Mode::Paren | Mode::Bracket)
    }

    /// Whether a byte only ever stands for itself, wherever it stands.
    fn is_ordinary(self, byte: u8) -> bool {
        match self {
            Mode::Double | Mode::Document => !matches!(byte, b'\\' | b'"' | b'$' | b'`'),
            Mode::Slash => is_letter(byte),
            _ => is_letter(byte) || byte == b'/',
        }
    }

    fn globs(self) -> bool {
        matches!(self, Mode::Word | Mode::Pattern | Mode::ExtendedGlob)
    }
}

/// Letters in the widest sense, which no shell gives a meaning.
fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || matches!(byte, b'_' | b'-' | b'.' | b'%')
}

impl Parser<'_> {
    /// A word; without parts if none stands here.
    pub fn word(&mut self, mode: Mode) -> Word {
        self.peek();
        let start = self.pos;
        let lexemes = self.text(mode);
        let parts = match mode {
            Mode::Word => lexemes.finish_with_braces(),
            _ => lexemes.finish(),
        };
        let span = self.span(start);
        Word { parts, span }
    }

    /// Everything up to what ends this mode, which is not taken.
    pub fn text(&mut self, mode: Mode) -> Lexemes {
        self.peek();
        let start = self.pos;
        let mut out = Lexemes::default();
        let mut nesting = 0usize;
        let mut quote_end = None;
        loop {
            let Some(byte) = self.peek() else {
                if let Some(construct) = mode.construct() {
                    self.fail(Reason::Unterminated(construct));
                }
                break;
            };
            let process = matches!(byte, b'<' | b'>') && mode.unquoted() && self.at_process();
            if mode.ends(byte, nesting) && !process {
                if byte == b'(' && mode == Mode::Word && self.is_assignment(start) {
                    out.part(self.array());
                    continue;
                }
                break;
            }
            match byte {
                b'\\' => self.backslash(mode, &mut out),
                b'\'' if mode.unquoted() => out.part(self.single_quoted()),
                b'\'' if mode.doubtful_quotes() && quote_end != Some(self.pos) => {
                    quote_end = self.doubtful_quote(mode);
                    self.plain(&mut out);
                }
                b'"' if mode != Mode::Document => out.part(self.double_quoted(Translation::Never)),
                b'$' => self.dollar(mode, &mut out),
                b'`' => out.part(self.backquoted(mode)),
                b'<' | b'>' if process => out.part(self.process()),
                b'~' if self.tilde(mode, start, &mut out) => {}
                b'*' | b'?' | b'+' | b'@' | b'!'
                    if mode.globs() && self.peek_ahead(1) == Some(b'(') =>
                {
                    if mode == Mode::Word && self.at_empty_parentheses() {
                        // `f?() { …`: the name of a function.
                        self.plain(&mut out);
                    } else {
                        out.part(self.extended_glob());
                    }
                }
                b'*' | b'?' if mode.globs() => {
                    let start = self.pos;
                    self.advance(1);
                    out.part(Part {
                        kind: PartKind::Glob(byte),
                        span: self.span(start),
                    });
                }
                b'{' | b',' | b'}' | b'[' | b']' if mode == Mode::Word => {
                    let start = self.pos;
                    self.advance(1);
                    out.mark(byte, self.span(start));
                }
                _ if mode.is_ordinary(byte) => self.ordinary(mode, &mut out),
                _ => {
                    match mode.nests(byte) {
                        1 => nesting += 1,
                        -1 => nesting = nesting.saturating_sub(1),
                        _ => {}
                    }
                    self.plain(&mut out);
                }
            }
        }
        out
    }

    /// All bytes from here on that mean nothing in this mode.
    fn ordinary(&mut self, mode: Mode, out: &mut Lexemes) {
        let start = self.pos;
        let source = self.source;
        let rest = source.get(start..).unwrap_or_default();
        let length = rest
            .iter()
            .take_while(|byte| mode.is_ordinary(**byte))
            .count();
        self.advance(length);
        // Less is left when reading was given up.
        if self.pos == start + length {
            let text = rest.get(..length).unwrap_or_default();
            out.ordinary(text, self.span(start));
        }
    }

    fn plain(&mut self, out: &mut Lexemes) {
        let start = self.pos;
        if let Some(byte) = self.take() {
            out.plain(byte, self.span(start));
        }
    }

    fn backslash(&mut self, mode: Mode, out: &mut Lexemes) {
        let start = self.pos;
        self.advance(1);
        let Some(&next) = self.source.get(self.pos) else {
            if self.origins.is_some() {
                return out.plain(b'\\', self.span(start));
            }
            // In a file a newline follows and joins the lines; in `sh -c` it is itself.
            self.pos = start;
            return self.fail(Reason::Ambiguous("a backslash at the end"));
        };
        self.advance(1);
        let span = self.span(start);
        if mode.unquoted() {
            let kind = PartKind::Quoted(vec![next]);
            return out.part(Part { kind, span });
        }
        let special = match mode {
            Mode::Document => matches!(next, b'$' | b'`' | b'\\'),
            Mode::DoubleBrace => matches!(next, b'$' | b'`' | b'\\' | b'"' | b'}'),
            _ => matches!(next, b'$' | b'`' | b'\\' | b'"'),
        };
        if !special {
            out.plain(b'\\', span);
        }
        out.plain(next, span);
    }

    fn single_quoted(&mut self) -> Part {
        let start = self.pos;
        self.advance(1);
        let rest = self.source.get(self.pos..).unwrap_or_default();
        let text = match rest.iter().position(|&byte| byte == b'\'') {
            Some(length) => {
                let text = rest.get(..length).unwrap_or_default().to_vec();
                self.advance(length + 1);
                text
            }
            None => {
                self.pos = start;
                self.fail(Reason::Unterminated("single quote"));
                Vec::new()
            }
        };
        Part {
            kind: PartKind::Quoted(text),
            span: self.span(start),
        }
    }

    /// A single quote where double quotes rule. bash looks for its end, other shells do
    /// not: only if that makes no difference it is read on. Gives the place of its end.
    fn doubtful_quote(&mut self, mode: Mode) -> Option<usize> {
        let rest = self.source.get(self.pos + 1..).unwrap_or_default();
        let length = rest.iter().position(|&byte| byte == b'\'');
        let inside = rest.get(..length.unwrap_or_default()).unwrap_or_default();
        self.spend(inside.len());
        let mut harmless = length.is_some();
        let mut open = false;
        for (i, &byte) in inside.iter().enumerate() {
            harmless &= match byte {
                b'{' => {
                    open = i > 0 && inside.get(i - 1) == Some(&b'$');
                    open
                }
                b'}' => std::mem::take(&mut open),
                b'"' | b'`' | b'\\' | b'(' | b')' | b'[' | b']' | b'\n' => false,
                _ => !open || byte.is_ascii_alphanumeric() || byte == b'_',
            };
        }
        match length {
            None => self.fail(Reason::Unterminated("single quote")),
            Some(length) if (!harmless || open) && mode == Mode::Paren => {
                // It matters only if this turns out to be arithmetic.
                self.doubt = true;
                self.advance(length + 1);
                return Some(self.pos);
            }
            Some(_) if !harmless || open => {
                self.fail(Reason::Ambiguous("quotes inside an expansion"));
            }
            Some(_) => {}
        }
        length.map(|length| self.pos + 1 + length)
    }

    pub fn double_quoted(&mut self, translation: Translation) -> Part {
        let start = self.pos;
        if translation == Translation::ByLocale {
            self.eat(b'$');
        }
        self.eat(b'"');
        let parts = self.deeper(|p| p.text(Mode::Double).finish());
        self.expect(b'"', Reason::Unterminated("double quote"));
        Part {
            kind: PartKind::Double(parts, translation),
            span: self.span(start),
        }
    }

    fn process(&mut self) -> Part {
        let start = self.pos;
        let direction = match self.take() {
            Some(b'<') => Direction::Read,
            _ => Direction::Write,
        };
        let script = self.parenthesised_script();
        Part {
            kind: PartKind::Process(script, direction),
            span: self.span(start),
        }
    }

    /// `~name` where a tilde is expanded.
    fn tilde(&mut self, mode: Mode, start: usize, out: &mut Lexemes) -> bool {
        let before = self.pos.checked_sub(1).and_then(|i| self.source.get(i));
        let first = self.pos == start;
        let place = match mode {
            Mode::Word => first || (matches!(before, Some(b'=' | b':')) && out.is_assignment()),
            Mode::Value => first || before == Some(&b':'),
            Mode::Brace | Mode::Pattern => first,
            _ => false,
        };
        if !place {
            return false;
        }
        let rest = self.source.get(self.pos + 1..).unwrap_or_default();
        let length = rest
            .iter()
            .take(256)
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(byte))
            .count();
        let ends = match rest.get(length) {
            None | Some(b'/' | b':' | b'}') => true,
            Some(&byte) => ends_word(byte),
        };
        if !ends {
            return false;
        }
        let name = rest.get(..length).unwrap_or_default().to_vec();
        let start = self.pos;
        self.advance(1 + length);
        out.part(Part {
            kind: PartKind::Tilde(name),
            span: self.span(start),
        });
        true
    }

    /// Whether the text from `start` to here is `name=` or `name+=`.
    fn is_assignment(&mut self, start: usize) -> bool {
        let text = self.source.get(start..self.pos).unwrap_or_default();
        let name = match text {
            [name @ .., b'+', b'='] | [name @ .., b'='] => name,
            _ => return false,
        };
        let identifier = is_identifier(name);
        self.spend(name.len());
        identifier
    }

    fn at_empty_parentheses(&mut self) -> bool {
        let mut ahead = 2;
        while ahead < 8 && matches!(self.peek_ahead(ahead), Some(b' ' | b'\t')) {
            ahead += 1;
        }
        self.peek_ahead(ahead) == Some(b')')
    }

    fn extended_glob(&mut self) -> Part {
        let start = self.pos;
        let operator = self.take().unwrap_or_default();
        self.eat(b'(');
        let alternatives = self.deeper(|p| {
            let mut alternatives = Vec::new();
            loop {
                alternatives.push(p.word(Mode::ExtendedGlob));
                if !p.eat(b'|') {
                    return alternatives;
                }
            }
        });
        self.expect(b')', Reason::Unterminated("pattern"));
        Part {
            kind: PartKind::ExtendedGlob(operator, alternatives),
            span: self.span(start),
        }
    }
}

/// Whether this can be the name of a variable.
pub(super) fn is_identifier(name: &[u8]) -> bool {
    name.first()
        .is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
        && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}
