//! Which keys of the owner's ssh agent a command may have signatures from.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// One key, by what `ssh-add -l` shows of it, or all.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SshKey {
    /// Whatever the agent holds.
    Any,
    /// By its fingerprint, `SHA256:…`.
    Fingerprint(String),
    /// By its comment.
    Comment(String),
}

/// Why a key could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` names no key: {why}")]
pub struct SshKeyError {
    text: String,
    why: &'static str,
}

/// How a fingerprint begins.
const SHA256: &str = "SHA256:";

impl SshKey {
    /// Whether a key with this fingerprint and comment is meant.
    pub fn means(&self, fingerprint: &str, comment: &[u8]) -> bool {
        match self {
            SshKey::Any => true,
            SshKey::Fingerprint(own) => own == fingerprint,
            SshKey::Comment(own) => own.as_bytes() == comment,
        }
    }
}

impl FromStr for SshKey {
    type Err = SshKeyError;

    fn from_str(text: &str) -> Result<Self, SshKeyError> {
        let wrong = |why| SshKeyError {
            text: text.to_owned(),
            why,
        };
        let base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
        Ok(match text.trim() {
            "" => {
                return Err(wrong(
                    "give the fingerprint or the comment that `ssh-add -l` shows, or *",
                ));
            }
            "*" => SshKey::Any,
            text => match text.strip_prefix(SHA256) {
                Some(rest) if rest.len() == 43 && rest.bytes().all(base64) => {
                    SshKey::Fingerprint(text.to_owned())
                }
                Some(_) => return Err(wrong("a fingerprint is SHA256: and 43 characters")),
                None if text.starts_with("MD5:") => {
                    return Err(wrong(
                        "give the fingerprint as `ssh-add -l` shows it, SHA256:…",
                    ));
                }
                None => SshKey::Comment(text.to_owned()),
            },
        })
    }
}

impl std::fmt::Display for SshKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SshKey::Any => "*",
            SshKey::Fingerprint(text) | SshKey::Comment(text) => text,
        })
    }
}

impl Serialize for SshKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SshKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn keys_are_named_by_fingerprint_or_comment() {
        let print = format!("SHA256:{}", "a".repeat(43));
        let key: SshKey = print.parse().unwrap();
        assert_eq!(key, SshKey::Fingerprint(print.clone()));
        assert!(key.means(&print, b"x"));
        assert!(!key.means("SHA256:other", print.as_bytes()));
        let key: SshKey = "me@work".parse().unwrap();
        assert!(key.means(&print, b"me@work"));
        assert!(!key.means("me@work", b"x"));
        assert!("*".parse::<SshKey>().unwrap().means(&print, b""));
        for bad in ["", " ", "SHA256:short", "MD5:00:11"] {
            assert!(bad.parse::<SshKey>().is_err(), "{bad}");
        }
    }
}
