//! Keeping secrets out of the log: every value that is known to be secret is
//! replaced where it stands, and only it, so that hosts, paths and flags stay.

use crate::plan::Variable;
use crate::show::inert;

/// Shorter values are not replaced: they would take half the text with them.
const SHORTEST: usize = 6;

/// Names of variables whose values are secret.
const SECRET_NAMES: [&str; 16] = [
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
    "DATABASE_URL",
    "CONNECTION_STRING",
    "WEBHOOK",
    "PGPASS",
];

/// Endings of such names.
const SECRET_ENDINGS: [&str; 3] = ["_KEY", "_PAT", "_DSN"];

/// What a secret follows on a line, up to the next blank or quote.
const BEFORE_SECRETS: [&str; 9] = [
    "bearer ",
    "--password=",
    "--passwd=",
    "--passphrase=",
    "--token=",
    "--secret=",
    "--api-key=",
    "--apikey=",
    "--access-token=",
];

/// Beginnings of tokens that are secret wherever they stand, as their issuers
/// document them, with the least length of what follows.
const TOKEN_PREFIXES: [(&str, usize); 25] = [
    ("ghp_", 30),
    ("gho_", 30),
    ("ghs_", 30),
    ("ghu_", 30),
    ("ghr_", 30),
    ("sk_live_", 16),
    ("rk_live_", 16),
    ("sk_test_", 16),
    ("xapp-", 20),
    ("SG.", 40),
    ("eyJ0eXAi", 20),
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
            if secret.is_none()
                && let Some((before, length)) = shaped(rest, word_start)
            {
                let (before, after) = rest.split_at(before);
                // One that is known is named.
                let inside = after.get(..length).unwrap_or_default();
                let known = self.values.iter().find(|secret| inside == secret.value);
                let name = known.map_or("secret", |secret| secret.name.as_str());
                out.extend_from_slice(before);
                out.extend_from_slice(format!("[redacted:{name}]").as_bytes());
                rest = after.get(length..).unwrap_or_default();
                word_start = false;
                continue;
            }
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
    let holds = |part: &&str| {
        name.windows(part.len())
            .any(|window| window == part.as_bytes())
    };
    let ends = |end: &&str| name.ends_with(end.as_bytes());
    SECRET_NAMES.iter().any(holds) || SECRET_ENDINGS.iter().any(ends)
}

/// Where a secret begins that its surroundings mark as one, and how long it is:
/// `Bearer …`, `--password=…`, `scheme://user:…@host`.
fn shaped(text: &[u8], word_start: bool) -> Option<(usize, usize)> {
    let until = |text: &[u8], ends: &[u8]| {
        let end = text.iter().position(|byte| ends.contains(byte));
        end.unwrap_or(text.len())
    };
    if let Some(authority) = text.strip_prefix(b"://") {
        let authority = authority.get(..until(authority, b"/?# \t\r\n'\"\\"))?;
        let host = authority.iter().rposition(|byte| *byte == b'@')?;
        let user = authority
            .get(..host)?
            .iter()
            .position(|byte| *byte == b':')?;
        let length = host - user - 1;
        // `$PASSWORD` is none yet.
        let is_variable = authority.get(user + 1) == Some(&b'$');
        return (length > 0 && !is_variable).then_some((3 + user + 1, length));
    }
    let before = BEFORE_SECRETS
        .iter()
        .filter(|_| word_start)
        .find(|before| {
            let start = text.get(..before.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(before.as_bytes()))
        })?;
    let rest = text.get(before.len()..)?;
    let length = until(rest, b" \t\r\n'\"\\;|&");
    let is_variable = rest.first() == Some(&b'$');
    (length >= SHORTEST && !is_variable).then_some((before.len(), length))
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
        .any(|(prefix, _)| !matches!(prefix, "sk-" | "sk_test_" | "eyJhbGciOi" | "eyJ0eXAi"))
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
    fn secrets_are_known_by_where_they_stand() {
        for (text, left) in [
            (
                "curl -H 'Authorization: Bearer abcdefgh12' https://h/x",
                "curl -H 'Authorization: Bearer [redacted:secret]' https://h/x",
            ),
            (
                "psql postgres://me:pw@db.example/x",
                "psql postgres://me:[redacted:secret]@db.example/x",
            ),
            (
                "git clone https://u:s3cr3t-value@h/a",
                "git clone https://u:[redacted:GH_TOKEN]@h/a",
            ),
            (
                "mysql --password=hunter22 -e 1",
                "mysql --password=[redacted:secret] -e 1",
            ),
        ] {
            assert_eq!(redactor().redact_text(text), left);
        }
        for plain in [
            "git clone https://git@h/a",
            "psql postgres://me:$PW@db/x",
            "mysql --password=$PW",
            "the bearer of a letter",
            "http://h:80/a@b",
        ] {
            assert_eq!(redactor().redact_text(plain), plain);
        }
        for name in [
            "STRIPE_KEY",
            "GH_PAT",
            "SENTRY_DSN",
            "DATABASE_URL",
            "SLACK_WEBHOOK",
        ] {
            assert!(is_secret_name(name.as_bytes()), "{name}");
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
