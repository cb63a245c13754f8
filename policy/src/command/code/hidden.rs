//! Texts that a source decodes before it runs them: what can be undone here is judged.

use super::carried::texts;
use super::{Found, Look, Means, judge_parts};
use crate::classify::draft::Draft;
use crate::classify::given::Given;
use crate::classify::state::State;
use crate::classify::verdict::Program;
use crate::effect::Action;
use crate::risk::Risk;
use crate::shell::decode;

/// Longer texts are not undone.
const MAX_TEXT: usize = 4 * 1024;
/// What more texts than this may have been is not looked at.
const MAX_FOUND: usize = 12;
/// Numbers further apart than this belong to different lists: `114),chr(109`.
const MAX_GAP: usize = 8;

/// How a source may undo a text, and the words that give it away.
const WAYS: &[(Way, &[&str])] = &[
    (
        decode::base64,
        &["b64", "ase64", "atob", "'m0'", "\"m0\"", "(\"m\"", "('m'"],
    ),
    (hex, &["hex", "H*", "(\"H", "('H", "x2b"]),
    (decode::base32, &["b32", "ase32"]),
    (rot13, &["rot13", "rot_13", "N-ZA-M", "n-za-m"]),
    (reversed, &["[::-1]", "reverse", "strrev"]),
];

/// What becomes of a text, if it is such a text.
type Way = fn(&[u8]) -> Option<Vec<u8>>;

impl Look<'_, '_> {
    /// Judges what the texts of a source decode to; gives back whether any could be undone.
    pub(super) fn hidden(&mut self, found: &Found) -> bool {
        let evaluates = found.outside.contains(&Means::Evaluate);
        let text = self.source.text.clone();
        // Once is enough: in what was undone, whatever still hides is grave for that.
        if text.len() > MAX_TEXT * 4 || self.judge.is_aside() {
            return false;
        }
        let (candidates, readable) = candidates(&text);
        if !(evaluates || found.starts(&text)) {
            return false;
        }
        let mut worst = Risk::Safe;
        let mut length = 0;
        for candidate in &candidates {
            length += candidate.len();
            if length > MAX_TEXT * 2 {
                self.effect(Action::Opaque, Risk::Dangerous, "Runs decoded text");
                break;
            }
            worst = worst.max(self.undone(candidate, evaluates));
        }
        if worst >= Risk::Dangerous {
            self.effect(Action::Opaque, worst, "Runs decoded text");
        }
        readable
    }

    /// How grave a decoded text is, as a line for a shell and as source of the same language.
    fn undone(&mut self, text: &str, evaluates: bool) -> Risk {
        let span = self.source.span;
        let mut call = self.call.with_args(Vec::new(), &self.draft.program.name);
        call.stdin = Default::default();
        let (cwd, language) = (self.state.cwd.clone(), self.language);
        let mut source_risk = Risk::Safe;
        let line_risk = self.judge.aside(|judge| {
            let mut state = State::new(cwd);
            judge.text(text, &mut state, &call, span);
            if evaluates {
                let mut draft = Draft::new(Program::default());
                let source = Given::known(text, span);
                judge_parts(judge, &mut state, &call, &mut draft, language, &source);
                source_risk = draft.risk();
            }
        });
        line_risk.max(source_risk)
    }
}

/// What the literals of a source may decode to and may be worth a look, and whether any of them
/// decodes to something that can be read at all.
fn candidates(source: &str) -> (Vec<String>, bool) {
    let ways: Vec<Way> = WAYS
        .iter()
        .filter(|(_, signs)| signs.iter().any(|sign| source.contains(sign)))
        .map(|(way, _)| *way)
        .collect();
    let mut found: Vec<String> = Vec::new();
    let mut readable = false;
    let mut add = |bytes: Vec<u8>| {
        if let Ok(text) = String::from_utf8(bytes)
            && is_readable(&text)
        {
            readable = true;
            // One word is no command worth a look.
            if text.contains([' ', '/', '(']) && found.len() < MAX_FOUND {
                found.push(text);
            }
        }
    };
    for (_, word) in texts(source) {
        if ways.is_empty() || !(4..=MAX_TEXT).contains(&word.len()) {
            continue;
        }
        for (number, way) in ways.iter().enumerate() {
            let Some(once) = way(word.as_bytes()) else {
                continue;
            };
            for (_, other) in ways
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != number)
            {
                other(&once).into_iter().for_each(&mut add);
            }
            add(once);
        }
    }
    let lists = [
        "chr",
        "Char",
        "pack",
        "char(",
        "bytes(",
        "bytearray(",
        "toChars",
        "list_to_binary",
    ];
    if lists.iter().any(|sign| source.contains(sign)) {
        numbers(source).into_iter().for_each(&mut add);
    }
    for text in replaced(source) {
        add(text.into_bytes());
    }
    (found, readable)
}

fn is_readable(text: &str) -> bool {
    let control = |c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\r');
    text.len() >= 2 && !text.contains(control)
}

fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text
        .iter()
        .all(|byte| byte.is_ascii_hexdigit() || byte.is_ascii_whitespace());
    (digits && text.len().is_multiple_of(2)).then(|| decode::hex(text))
}

fn reversed(text: &[u8]) -> Option<Vec<u8>> {
    Some(decode::reversed(text))
}

fn rot13(text: &[u8]) -> Option<Vec<u8>> {
    let turned = |byte: &u8| match byte {
        b'a'..=b'z' => (byte - b'a' + 13) % 26 + b'a',
        b'A'..=b'Z' => (byte - b'A' + 13) % 26 + b'A',
        _ => *byte,
    };
    Some(text.iter().map(turned).collect())
}

/// Lists of numbers that are letters: `chr(114)+chr(109)`, `[114,109].pack("c*")`.
fn numbers(source: &str) -> Vec<Vec<u8>> {
    let bytes = source.as_bytes();
    let mut lists = Vec::new();
    let mut list: Vec<u8> = Vec::new();
    let (mut at, mut end) = (0, 0);
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit());
        let length = digits.count();
        let value = source[at..at + length].parse::<u8>().ok();
        if at - end > MAX_GAP {
            lists.push(std::mem::take(&mut list));
        }
        match value.filter(|value| matches!(value, 9 | 10 | 32..=126)) {
            Some(value) => list.push(value),
            None => lists.push(std::mem::take(&mut list)),
        }
        at += length;
        end = at;
    }
    lists.push(list);
    lists.retain(|list| list.len() >= 4);
    lists
}

/// `"rXm -rXf".replace("X", "")`: a text, and two that say what becomes of it.
fn replaced(source: &str) -> Vec<String> {
    let words: Vec<(&str, String)> = texts(source).collect();
    let calls = ["replace(", "replaceAll(", "gsub(", "tr("];
    let made = words.windows(3).filter_map(|words| {
        let [(_, text), (gap, old), (_, new)] = words else {
            return None;
        };
        let call = calls.iter().any(|call| gap.ends_with(call));
        let grows = new.len() > old.len();
        (call && !old.is_empty() && !grows).then(|| text.replace(old.as_str(), new))
    });
    made.collect()
}
