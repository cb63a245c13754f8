//! Sources whose texts and comments are found for certain, so that what looks like a call in them
//! is data. What may be read in two ways is not read here at all: then every call counts.

use super::Language;

/// A source, read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lexed {
    /// Blanks in place of what comments say; every byte keeps its place.
    pub(super) spoken: String,
    /// Blanks in place of what texts say, too.
    pub(super) code: Vec<u8>,
}

/// Reads a source; `None` where it may mean something else than what is found here.
pub(super) fn lexed(source: &str, language: Language) -> Option<Lexed> {
    let known = matches!(
        language,
        Language::Python | Language::JavaScript | Language::Ruby | Language::Perl | Language::Php
    );
    if !known || is_doubtful(source, language) {
        return None;
    }
    let mut lexer = Lexer {
        source: source.as_bytes(),
        language,
        at: 0,
        comments: Vec::new(),
        texts: Vec::new(),
        before: b';',
        templates: Vec::new(),
    };
    lexer.read()?;
    let mut spoken = source.as_bytes().to_vec();
    lexer
        .comments
        .iter()
        .for_each(|span| blank(&mut spoken, span));
    let mut code = spoken.clone();
    lexer.texts.iter().for_each(|span| blank(&mut code, span));
    let spoken = String::from_utf8(spoken).ok()?;
    Some(Lexed { spoken, code })
}

/// Marks that end lines, files or languages where a reader would not look for it.
fn is_doubtful(source: &str, language: Language) -> bool {
    let marks: &[&str] = match language {
        Language::JavaScript => &["\r", "\u{2028}", "\u{2029}", "<!--", "-->", "#!"],
        Language::Php => &["\r", "?>", "<?", "<<<", "#["],
        Language::Perl => &["\r", "\n=", "__END__", "__DATA__", "<<", "format"],
        Language::Ruby => &["\r", "\n=", "__END__", "<<"],
        _ => &[],
    };
    // A comment may say how the bytes are to be read.
    let mut first = source.lines().take(2);
    let is_coded = first.any(|line| line.contains('#') && line.contains("coding"));
    is_coded || marks.iter().any(|mark| source.contains(mark)) || source.starts_with('=')
}

type Span = std::ops::Range<usize>;

fn blank(bytes: &mut [u8], span: &Span) {
    for byte in bytes[span.clone()]
        .iter_mut()
        .filter(|byte| **byte != b'\n')
    {
        *byte = b' ';
    }
}

struct Lexer<'s> {
    source: &'s [u8],
    language: Language,
    at: usize,
    comments: Vec<Span>,
    texts: Vec<Span>,
    /// The last byte that is no blank, outside of comments.
    before: u8,
    /// How deep the braces are in the code of each template around.
    templates: Vec<usize>,
}

impl Lexer<'_> {
    fn read(&mut self) -> Option<()> {
        while let Some(&byte) = self.source.get(self.at) {
            if self.begins_comment() {
                self.comment()?;
                continue;
            }
            match byte {
                b'"' | b'\'' => self.text(byte)?,
                b'`' if self.language == Language::JavaScript => self.template(1)?,
                b'/' if self.language == Language::JavaScript => self.slash()?,
                b'{' | b'}' if !self.templates.is_empty() => self.brace(byte)?,
                b'\\' if self.language == Language::Python => self.at += 2,
                _ if self.begins_other_quotes(byte) => return None,
                _ if is_letter(byte) => self.word()?,
                _ => self.at += 1,
            }
            if !byte.is_ascii_whitespace() {
                self.before = self.source[self.at.min(self.source.len()) - 1];
            }
        }
        self.templates.is_empty().then_some(())
    }

    fn begins_comment(&self) -> bool {
        let rest = &self.source[self.at..];
        match self.language {
            Language::JavaScript => rest.starts_with(b"//") || rest.starts_with(b"/*"),
            Language::Php => [&b"//"[..], b"/*", b"#"]
                .iter()
                .any(|mark| rest.starts_with(mark)),
            // `$#list` is how long a list is.
            Language::Perl => rest.starts_with(b"#") && self.just_before() != b'$',
            _ => rest.starts_with(b"#"),
        }
    }

    fn comment(&mut self) -> Option<()> {
        let rest = &self.source[self.at..];
        // `?#` is a letter to Ruby.
        if self.just_before() == b'?' {
            return None;
        }
        let length = match rest.starts_with(b"/*") {
            true => rest.windows(2).skip(2).position(|two| two == b"*/")? + 4,
            false => {
                let ends = |byte: &u8| matches!(byte, b'\n' | b'\r');
                rest.iter().position(ends).unwrap_or(rest.len())
            }
        };
        self.comments.push(self.at..self.at + length);
        self.at += length;
        Some(())
    }

    fn text(&mut self, quote: u8) -> Option<()> {
        let before = self.just_before();
        let is_odd = match self.language {
            // `?'` is a letter; `$'` is a variable.
            Language::Ruby => matches!(before, b'?' | b'$'),
            // `don't` is a name in Perl.
            Language::Perl => is_letter(before) || b"$@%&#*:".contains(&before),
            _ => false,
        };
        if is_odd {
            return None;
        }
        let rest = &self.source[self.at..];
        let long = [quote; 3];
        let is_long = self.language == Language::Python && rest.starts_with(&long);
        let close: &[u8] = if is_long { &long } else { &long[..1] };
        let mut end = close.len();
        while !rest[end..].starts_with(close) {
            let in_line = matches!(self.language, Language::Python | Language::JavaScript);
            match *rest.get(end)? {
                b'\\' => end += 2,
                b'\n' | b'\r' if in_line && !is_long => return None,
                _ => end += 1,
            }
            if end > rest.len() {
                return None;
            }
        }
        let inside = &rest[close.len()..end];
        let holds_code = inside.contains(&b'{')
            && match self.language {
                Language::JavaScript => false,
                Language::Python => b"fFrRtT".contains(&before),
                _ => quote == b'"',
            };
        // Perl looks for the quote before it looks into the text.
        if holds_code && self.language != Language::Perl && !closes_braces(inside, quote) {
            return None;
        }
        let begin = self.at + close.len();
        if !holds_code {
            self.texts.push(begin..self.at + end);
        }
        self.at += end + close.len();
        Some(())
    }

    /// The text of a template from behind its quote, or the brace, to its end or the next code.
    fn template(&mut self, skip: usize) -> Option<()> {
        self.at += skip;
        loop {
            match *self.source.get(self.at)? {
                b'\\' => self.at += 2,
                b'`' => {
                    self.at += 1;
                    return Some(());
                }
                b'$' if self.source.get(self.at + 1) == Some(&b'{') => {
                    self.at += 2;
                    self.templates.push(0);
                    return Some(());
                }
                _ => self.at += 1,
            }
        }
    }

    fn brace(&mut self, byte: u8) -> Option<()> {
        let depth = self.templates.last_mut()?;
        match (byte, *depth) {
            (b'{', _) => *depth += 1,
            (_, 0) => {
                self.templates.pop();
                return self.template(1);
            }
            _ => *depth -= 1,
        }
        self.at += 1;
        Some(())
    }

    /// JavaScript's `/`: it divides what stands before it, or begins a pattern.
    fn slash(&mut self) -> Option<()> {
        match self.before {
            // Behind a condition, a block, `x++`: either.
            b')' | b'}' | b'+' | b'-' | b'/' | b'.' | b'@' => return None,
            b']' | b'"' | b'\'' | b'`' | b'$' => self.at += 1,
            before if is_letter(before) => self.at += 1,
            _ => self.pattern()?,
        }
        Some(())
    }

    fn pattern(&mut self) -> Option<()> {
        let begin = self.at + 1;
        let mut in_class = false;
        self.at = begin;
        loop {
            match *self.source.get(self.at)? {
                b'\\' => self.at += 1,
                b'\n' => return None,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => break,
                _ => {}
            }
            self.at += 1;
        }
        self.texts.push(begin..self.at);
        self.at += 1;
        Some(())
    }

    /// Commands, patterns, escapes, and texts without quotes.
    fn begins_other_quotes(&self, byte: u8) -> bool {
        match (self.language, byte) {
            (_, b'`' | b'\\') | (Language::Ruby, b'/' | b'%') | (Language::Perl, b'/') => true,
            (Language::Perl, b'<') => {
                let rest = &self.source[self.at..];
                !(rest.starts_with(b"<STDIN>") || rest.starts_with(b"<>"))
            }
            _ => false,
        }
    }

    fn word(&mut self) -> Option<()> {
        let sigil = matches!(self.just_before(), b'$' | b'@' | b'%');
        let rest = &self.source[self.at..];
        let length = rest.iter().position(|byte| !is_letter(*byte));
        let word = &rest[..length.unwrap_or(rest.len())];
        let quotes = match self.language {
            Language::Perl => !sigil && PERLS_QUOTES.contains(&word),
            // A pattern may stand behind it.
            Language::JavaScript => {
                let behind = rest[word.len()..].trim_ascii_start();
                // What is no ASCII may be a blank.
                behind.starts_with(b"/") && KEYWORDS.contains(&word) || !word.is_ascii()
            }
            _ => false,
        };
        self.at += word.len();
        (!quotes).then_some(())
    }

    fn just_before(&self) -> u8 {
        self.at.checked_sub(1).map_or(b' ', |at| self.source[at])
    }
}

/// Words that begin texts with quotes of anybody's choice.
const PERLS_QUOTES: &[&[u8]] = &[b"q", b"qq", b"qw", b"qx", b"qr", b"m", b"s", b"y", b"tr"];

/// Words behind which `/` does not divide.
const KEYWORDS: &[&[u8]] = &[
    b"return",
    b"typeof",
    b"case",
    b"in",
    b"of",
    b"void",
    b"delete",
    b"throw",
    b"new",
    b"instanceof",
    b"do",
    b"else",
    b"yield",
    b"await",
];

/// Whether the code in the braces of a text ends before the text does: its quotes are others.
fn closes_braces(inside: &[u8], quote: u8) -> bool {
    let mut depth = 0usize;
    let mut rest = inside;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'{' if depth == 0 && behind.first() == Some(&b'{') => rest = &behind[1..],
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => {}
            b'#' | b'\\' | b'?' | b'%' | b'/' | b'`' => return false,
            b'"' | b'\'' if byte != quote => match behind.iter().position(|one| *one == byte) {
                Some(end) => rest = &behind[end + 1..],
                None => return false,
            },
            _ => {}
        }
    }
    depth == 0
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_comments_and_patterns_are_blank() {
        for (language, source, code) in [
            (Language::JavaScript, "f('exec({a})') // x", "f(' ') "),
            (Language::JavaScript, "a=/['\"]exec/g; b", "a=/ /g; b"),
            (Language::JavaScript, "a/2; 'x'; b/'y'", "a/2; ' '; b/' '"),
            (
                Language::JavaScript,
                "`don't ${f('a')}`; x",
                "`don't ${f(' ')}`; x",
            ),
            (Language::JavaScript, "/* ' */ x", " x"),
            (Language::Php, "f('x\ny'); # z", "f(' \n '); "),
            (Language::Php, "f(\"{$a}\"); // z", "f(\"{$a}\"); "),
            (Language::Perl, "print 'a', $#b; # c", "print ' ', $#b; "),
            (
                Language::Ruby,
                "puts 'x#{1}', \"#{y}\"",
                "puts ' ', \"#{y}\"",
            ),
            (Language::Python, "f('x') # y\nz", "f(' ') \nz"),
            (Language::Python, "f'{d[\"a\"]}' 'b{'", "f'{d[\"a\"]}' ' '"),
            (Language::Python, "'''a\n'b''' x", "''' \n ''' x"),
        ] {
            let found = lexed(source, language).map(|lexed| lexed.code);
            assert_eq!(found.as_ref().map(Vec::len), Some(source.len()), "{source}");
            let found = String::from_utf8_lossy(&found.unwrap_or_default()).into_owned();
            assert!(
                found
                    .split_ascii_whitespace()
                    .eq(code.split_ascii_whitespace()),
                "{source}: {found}"
            );
        }
    }

    #[test]
    fn what_may_be_read_otherwise_is_not_read() {
        for (language, source) in [
            (Language::JavaScript, "(a) /'/ 1; exec('x')"),
            (Language::JavaScript, "return /'/; exec('x')"),
            (Language::JavaScript, "a++ /'/; exec('x')"),
            (Language::JavaScript, "// a\u{2028}exec('x')"),
            (Language::JavaScript, "'a\nb'"),
            (Language::JavaScript, "`${"),
            (Language::Php, "'a ?> exec"),
            (Language::Perl, "q'; system('x'); '"),
            (Language::Perl, "$x =~ /'/; system('x')"),
            (Language::Perl, "$'; system('x'); '"),
            (Language::Perl, "a'b; system('x')"),
            (Language::Ruby, "?'; system('x'); '"),
            (Language::Ruby, "%q('); system('x')"),
            (Language::Ruby, "`x`"),
            (Language::Ruby, "\"#{'}' + \"'\"}\"; system('x')"),
            (Language::Ruby, "\"#{?}}\"; system('x')"),
            (Language::Python, "f'{d['#']}'; os.system('x')"),
            (Language::Python, "x = '"),
            (Language::Lua, "x"),
        ] {
            assert_eq!(lexed(source, language), None, "{source}");
        }
    }
}
