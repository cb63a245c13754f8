//! The literal arguments of a call in another language.

use super::Language;

/// More words than this in one call are not read.
const MAX_WORDS: usize = 64;

/// So much of what stands behind the first literal is kept.
const MAX_TAIL: usize = 80;

/// The literal arguments of a call.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub(super) list: Vec<String>,
    /// Whether nothing but literals was found.
    pub(super) complete: bool,
    /// Whether they stood in brackets, or were several.
    pub(super) is_list: bool,
    /// How many arguments stand before the first literal.
    argument: usize,
    /// What stands behind the first literal.
    pub(super) tail: String,
}

impl Words {
    /// The file that an opening call opens, and whether for writing.
    pub(super) fn opened(&self, language: Language) -> Option<(&str, bool)> {
        let mut names = self.list.iter().map(|word| match language {
            Language::Perl => word.trim_start_matches(['<', '>', '+', ' ']),
            _ => word.as_str(),
        });
        let name = names.find(|name| !name.is_empty())?;
        Some((name, self.opens_for_writing(language)))
    }

    fn opens_for_writing(&self, language: Language) -> bool {
        if language == Language::Perl {
            return self.list.iter().any(|word| word.starts_with('>'));
        }
        match self.list.get(1) {
            Some(mode) => {
                let mode = mode.split([':', ',']).next().unwrap_or_default();
                mode.len() <= 3 && mode.contains(['w', 'a', 'x', '+'])
            }
            // Nobody knows what a variable says; `encoding=` says nothing.
            None => {
                let Some(rest) = self.tail.trim_start().strip_prefix(',') else {
                    return false;
                };
                let rest = rest.trim_start();
                let name = rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
                let named = name.starts_with('=') && !name.starts_with("==");
                match rest.strip_prefix("mode=") {
                    Some(mode) => {
                        !mode.starts_with(['"', '\'']) || mode[1..].starts_with(['w', 'a', 'x'])
                    }
                    None => !named && !rest.is_empty(),
                }
            }
        }
    }

    /// The first literal, where it is in the first argument.
    pub(super) fn leading(&self) -> Option<&str> {
        let first = self.list.first()?;
        (self.argument == 0).then_some(first)
    }

    /// The last literal, where another argument stands before it.
    pub(super) fn trailing(&self) -> Option<&str> {
        let last = self.list.last()?;
        (self.argument > 0 || self.list.len() > 1).then_some(last)
    }
}

/// Reads literals up to the end of the call; `quote` when the first one is already open.
pub(super) fn literals(text: &str, quote: Option<char>) -> Words {
    let mut words = Words {
        complete: true,
        ..Words::default()
    };
    let mut rest = text;
    if let Some(quote) = quote {
        let (word, after) = quoted(rest, quote);
        words.list.push(word);
        words.tail = after.chars().take(MAX_TAIL).collect();
        return words;
    }
    let mut depth = 0usize;
    while words.list.len() < MAX_WORDS {
        rest = rest.trim_start();
        if let Some((inner, is_list, after)) = bracketed(rest) {
            if is_list {
                words.is_list = true;
                words
                    .list
                    .extend(inner.split_ascii_whitespace().map(str::to_owned));
            } else {
                words.list.push(inner.to_owned());
            }
            rest = after;
            continue;
        }
        let mut letters = rest.chars();
        let Some(letter) = letters.next() else { break };
        match letter {
            '"' | '\'' | '`' => {
                let (word, after) = quoted(letters.as_str(), letter);
                words.list.push(word);
                rest = after;
                if words.list.len() == 1 {
                    words.tail = after.chars().take(MAX_TAIL).collect();
                }
                continue;
            }
            '[' | '{' => {
                words.is_list = true;
                depth += 1;
            }
            '(' => depth += 1,
            ',' if depth == 0 && !words.list.is_empty() && !words.is_list => {
                // Further literal arguments are further words; anything else is an option.
                let next = letters.as_str().trim_start();
                if next.starts_with(['"', '\'']) || next.starts_with(['[']) {
                    words.is_list = true;
                } else {
                    break;
                }
            }
            ',' => words.argument += usize::from(depth == 0 && words.list.is_empty()),
            ']' | '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    break;
                }
            }
            ')' | ';' | '\n' if depth == 0 => break,
            ')' => depth = depth.saturating_sub(1),
            'r' | 'b' | 'f' | 'u' | 'R' | 'B' | 'F' | 'U'
                if letters.as_str().starts_with(['"', '\'']) => {}
            '\n' | ';' => {}
            _ => {
                // A name, a call, an operator: not a literal.
                words.complete = false;
                if words.list.is_empty() && depth == 0 {
                    let name = rest.find(|c: char| !(c.is_alphanumeric() || "_.$@".contains(c)));
                    let skip = name.unwrap_or(rest.len()).max(letter.len_utf8());
                    rest = &rest[skip..];
                    if rest.starts_with('(') {
                        rest = &rest[1..];
                        depth += 1;
                    }
                    continue;
                }
                if depth == 0 {
                    break;
                }
            }
        }
        rest = letters.as_str();
    }
    words
}

/// Perl's and Ruby's other quotes: `q(…)`, `qq{…}`, `qw(…)`, `%w[…]`.
fn bracketed(text: &str) -> Option<(&str, bool, &str)> {
    let marks = [
        ("qw", true),
        ("qq", false),
        ("q", false),
        ("%w", true),
        ("%q", false),
    ];
    let (mark, is_list) = *marks.iter().find(|(mark, _)| text.starts_with(mark))?;
    let mut letters = text[mark.len()..].chars();
    let close = match letters.next()? {
        '(' => ')',
        '{' => '}',
        '[' => ']',
        '<' => '>',
        same @ ('/' | '|' | '!' | '~') => same,
        _ => return None,
    };
    let (inner, after) = letters.as_str().split_once(close)?;
    Some((inner, is_list, after))
}

/// The text up to the closing quote, escapes undone, and what follows.
pub(super) fn quoted(text: &str, quote: char) -> (String, &str) {
    // Python's triple quotes.
    let triple: String = std::iter::repeat_n(quote, 2).collect();
    if let Some(inner) = text.strip_prefix(triple.as_str()) {
        let close: String = std::iter::repeat_n(quote, 3).collect();
        if let Some(end) = inner.find(&close) {
            return (inner[..end].to_owned(), &inner[end + 3..]);
        }
        return (String::new(), inner);
    }
    let mut word = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        if letter == quote {
            return (word, &text[at + letter.len_utf8()..]);
        }
        if letter == '\\' {
            match letters.next() {
                Some((_, 'n')) => word.push('\n'),
                Some((_, 't')) => word.push('\t'),
                Some((_, other)) => word.push(other),
                None => break,
            }
            continue;
        }
        word.push(letter);
    }
    (word, "")
}
