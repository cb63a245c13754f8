//! Keeping secrets out of the log: every value that is known to be secret is
//! replaced where it stands, and only it, so that hosts, paths and flags stay.

use crate::plan::Variable;
use crate::show::inert;

/// Shorter values are not replaced: they would take half the text with them.
const SHORTEST: usize = 6;

/// Names of variables whose values are secret.
const SECRET_NAMES: [&str; 12] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "APIKEY",
    "API_KEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
    "CREDENTIAL",
    "AUTH",
    "COOKIE",
];

/// Beginnings of tokens that are secret wherever they stand, as their issuers
/// document them, with the least length of what follows.
const TOKEN_PREFIXES: [(&str, usize); 18] = [
    ("ghp_", 30),
    ("gho_", 30),
    ("ghs_", 30),
    ("ghu_", 30),
    ("github_pat_", 20),
    ("glpat-", 20),
    ("sk-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("AKIA", 16),
    ("ASIA", 16),
    ("ABIA", 16),
    ("ACCA", 16),
    ("AIza", 30),
    ("npm_", 30),
    ("pypi-", 30),
    ("eyJhbGciOi", 20),
    ("hf_", 30),
];

/// Replaces the secrets of one caller.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// The longest first, so that no part of one is left.
    values: Vec<Secret>,
}

#[derive(Clone)]
struct Secret {
    name: String,
    value: Vec<u8>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl Redactor {
    /// Knows the secret-shaped variables of an environment.
    pub fn new(env: &[Variable]) -> Redactor {
        let mut values: Vec<Secret> = env
            .iter()
            .filter(|variable| is_secret_name(variable.name.as_bytes()))
            .filter(|variable| variable.value.as_bytes().len() >= SHORTEST)
            .map(|variable| Secret {
                name: inert(variable.name.as_bytes()),
                value: variable.value.as_bytes().to_vec(),
            })
            .collect();
        values.sort_by_key(|secret| std::cmp::Reverse(secret.value.len()));
        Redactor { values }
    }

    /// The text without its secrets: each is replaced by `[redacted:NAME]`, the name of
    /// the variable that holds it or the letters that its issuer begins such tokens with.
    pub fn redact(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut rest = bytes;
        let mut word_start = true;
        while let Some(first) = rest.first() {
            let secret = self
                .values
                .iter()
                .find(|secret| rest.starts_with(&secret.value))
                .map(|secret| (secret.name.as_str(), secret.value.len()))
                .or_else(|| word_start.then(|| token(rest)).flatten());
            let length = match secret {
                Some((name, length)) => {
                    out.extend_from_slice(format!("[redacted:{name}]").as_bytes());
                    word_start = false;
                    length
                }
                None => {
                    out.push(*first);
                    word_start = !is_token_byte(*first);
                    1
                }
            };
            rest = rest.get(length..).unwrap_or_default();
        }
        out
    }

    /// The same for text.
    pub fn redact_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.redact(text.as_bytes())).into_owned()
    }
}

fn is_secret_name(name: &[u8]) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_NAMES.iter().any(|part| {
        name.windows(part.len())
            .any(|window| window == part.as_bytes())
    })
}

/// How many bytes at the start are a token that its issuer marks as one, and how.
fn token(text: &[u8]) -> Option<(&'static str, usize)> {
    let (prefix, least) = TOKEN_PREFIXES
        .iter()
        .find(|(prefix, _)| text.starts_with(prefix.as_bytes()))?;
    let length = text
        .iter()
        .position(|byte| !is_token_byte(*byte))
        .unwrap_or(text.len());
    (length >= prefix.len() + least).then_some((*prefix, length))
}

/// Whether a text holds a token that belongs to an account of somebody's. Those that local
/// services and tests make by the dozen do not count.
pub(crate) fn holds_token(text: &str) -> bool {
    let bytes = text.as_bytes();
    let begins = |at: usize| at == 0 || !is_token_byte(bytes[at - 1]);
    (0..bytes.len())
        .filter(|&at| begins(at))
        .filter_map(|at| token(&bytes[at..]))
        .any(|(prefix, _)| !matches!(prefix, "sk-" | "eyJhbGciOi"))
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn redactor() -> Redactor {
        Redactor::new(&[
            Variable {
                name: "GH_TOKEN".into(),
                value: "s3cr3t-value".into(),
            },
            Variable {
                name: "MY_PASSWORD".into(),
                value: "abc".into(),
            },
            Variable {
                name: "EDITOR".into(),
                value: "vim-editor".into(),
            },
        ])
    }

    #[test]
    fn values_go_and_everything_else_stays() {
        let text = redactor().redact_text("curl -H 'X: s3cr3t-value' https://host/vim-editor abc");
        assert!(
            text.starts_with("curl -H 'X: [redacted:")
                && text.ends_with("]' https://host/vim-editor abc"),
            "{text}"
        );
        assert!(!text.contains("s3cr3t"));
    }

    #[test]
    fn tokens_are_known_by_their_shape() {
        let token = format!("ghp_{}", "a1".repeat(18));
        let text = redactor().redact_text(&format!("git clone https://x:{token}@github.com/a"));
        assert!(!text.contains(&token), "{text}");
        assert!(text.ends_with("@github.com/a"), "{text}");
        // Too short to be one, or in the middle of a word.
        for plain in ["sk-learn", "task-management-of-very-long-names", "AKIA"] {
            assert_eq!(redactor().redact_text(plain), plain);
        }
    }

    #[test]
    fn bytes_that_are_not_text_survive() {
        assert_eq!(
            redactor().redact(b"\xff\x00s3cr3t-value\xfe"),
            b"\xff\x00[redacted:GH_TOKEN]\xfe"
        );
    }
}
