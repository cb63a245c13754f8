//! The object that `--json` prints and `--status-fd` delivers: everything there is to
//! say about one run, in one line of JSON.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use sjail_policy::risk::Risk;

use crate::limits;
use crate::output::Captured;

/// One run, from the outside. Fields that do not apply are `null`, never missing, so
/// that a reader can rely on them.
#[derive(Debug, Clone, Serialize)]
pub struct RunResult {
    /// Names the run in every record, `run_7f3k2p`.
    pub id: RunId,
    /// How it went.
    pub status: Status,
    /// The command, as a person would type it.
    pub command: String,
    /// How much harm the command could do.
    pub risk_level: Option<Risk>,
    /// Why it was judged so.
    pub risk_reasons: Vec<String>,
    /// `allow`, `ask` or `block`.
    pub decision: Option<String>,
    /// The rule that decided.
    pub rule: Option<String>,
    /// What `sjail` itself exits with.
    pub exit_code: u8,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// In one sentence, when the run did not simply end: why.
    pub reason: Option<String>,
    /// Wall clock, from the command's start to its end.
    pub duration_ms: u64,
    /// Captured output (`--json`).
    #[serde(flatten)]
    pub output: Output,
    /// Whether output was cut at its bound.
    pub truncated: bool,
    /// What it used up.
    pub usage: Usage,
    /// What held it, and how.
    pub isolation: Isolation,
    /// What the jail refused, worded so that one can act on it.
    pub denials: Vec<serde_json::Value>,
    /// Connections that were let through or refused.
    pub network: Vec<serde_json::Value>,
    /// Files changed, where somebody looked.
    pub changes: Vec<serde_json::Value>,
    /// What a preview comes to (`--dry-run`).
    pub preview: Option<serde_json::Value>,
    /// New or changed files that run code on the host later.
    pub auto_exec: Vec<serde_json::Value>,
    /// Whether the writable places hold more files than were looked at for `auto_exec`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub auto_exec_partial: bool,
    /// The approval it waits for or ran under.
    pub approval: Option<serde_json::Value>,
}

/// How a run went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The command ran to its own end, whatever its exit code.
    Completed,
    /// A signal ended it.
    Signaled,
    /// Its time was up.
    TimedOut,
    /// It used more memory than it may.
    OutOfMemory,
    /// It made more processes than it may.
    TooManyProcesses,
    /// It wrote more output than it may.
    TooMuchOutput,
    /// It was never started: approval is pending.
    Pending,
    /// It was never started: policy, or a person, said no.
    Blocked,
    /// It was never started: sjail could not set up what it promises.
    Failed,
}

/// What a run used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Usage {
    /// Processor time of all its processes.
    pub cpu_ms: u64,
    /// The part of it that the kernel spent for them.
    pub system_ms: u64,
    /// The most memory in use at once, in bytes.
    pub peak_memory: u64,
    /// What `peak_memory` covers.
    pub peak_memory_of: Measure,
    /// The most processes and threads at once, where somebody counted.
    pub processes: Option<u64>,
    /// The processes and threads that were started all told, where somebody counted: in a
    /// preview.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
}

/// What a figure of memory covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The largest single process.
    #[default]
    LargestProcess,
    /// The whole jail, by the kernel's account.
    Jail,
    /// The whole jail, at the moments somebody looked.
    Samples,
}

/// What held the command.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Isolation {
    /// Each layer that was verified before the command started.
    pub layers: Vec<String>,
    /// What is missing (`--allow-degraded`), each in a sentence.
    pub degraded: Vec<String>,
    /// The limits in force, and who holds them.
    pub limits: limits::Report,
}

/// Both streams as JSON carries them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// Standard output, if it was captured.
    pub stdout: Option<Captured>,
    /// Standard error, if it was captured.
    pub stderr: Option<Captured>,
}

impl Output {
    /// Whether either stream was cut.
    pub fn truncated(&self) -> bool {
        [&self.stdout, &self.stderr]
            .into_iter()
            .flatten()
            .any(|captured| captured.truncated)
    }
}

impl Output {
    /// Both streams as text, readable also where they are none.
    pub fn texts(&self) -> [Cow<'_, str>; 2] {
        [&self.stdout, &self.stderr].map(|captured| {
            let bytes = captured.as_ref().map(whole_characters).unwrap_or_default();
            String::from_utf8_lossy(bytes)
        })
    }
}

impl Serialize for Output {
    /// A stream is text where it can be. Where it is not UTF-8 the text is a readable
    /// approximation, and `stdout_base64` beside it has the exact bytes.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Output", 4)?;
        for (captured, text_key, bytes_key) in [
            (&self.stdout, "stdout", "stdout_base64"),
            (&self.stderr, "stderr", "stderr_base64"),
        ] {
            match captured {
                None => object.serialize_field(text_key, &None::<&str>)?,
                Some(captured) => {
                    let bytes = whole_characters(captured);
                    match std::str::from_utf8(bytes) {
                        Ok(text) => object.serialize_field(text_key, text)?,
                        Err(_) => {
                            object.serialize_field(text_key, &String::from_utf8_lossy(bytes))?;
                            object.serialize_field(bytes_key, &base64(bytes))?;
                        }
                    }
                }
            }
        }
        object.end()
    }
}

/// The bytes without a last character that the bound cut in two: it is gone anyway, and
/// text should not turn into base64 because of it.
fn whole_characters(captured: &Captured) -> &[u8] {
    let bytes = captured.bytes.as_slice();
    if !captured.truncated {
        return bytes;
    }
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// Standard base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group
            .iter()
            .chain([0, 0].iter())
            .take(3)
            .fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        for digit in 0..4 {
            if digit <= group.len() {
                let index = word >> (18 - 6 * digit) & 63;
                text.push(char::from(DIGITS[index as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// The name of a run: short enough to type, random enough not to meet another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunId(String);

impl RunId {
    /// A fresh one, long enough to be the only one without looking: twelve of 32 letters
    /// and digits; `i`, `l`, `o` and `u` are left out because they are misread or make
    /// words.
    pub fn fresh() -> RunId {
        const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let random = crate::sys::random::bytes::<12>();
        let mut id = String::from("run_");
        id.extend(
            random
                .iter()
                .map(|byte| char::from(LETTERS[usize::from(byte & 31)])),
        );
        RunId(id)
    }

    /// The one that the broker gave.
    pub fn given(id: &str) -> RunId {
        RunId(id.to_owned())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn captured(bytes: &[u8], truncated: bool) -> Option<Captured> {
        Some(Captured {
            bytes: bytes.to_vec(),
            truncated,
        })
    }

    #[test]
    fn base64_of_every_length() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfd]), "//79");
    }

    #[test]
    fn text_stays_text_and_bytes_are_not_lost() {
        let output = Output {
            stdout: captured("grüße\n".as_bytes(), false),
            stderr: captured(b"a\xffb", false),
        };
        let json = serde_json::to_value(&output).unwrap();
        let expected = serde_json::json!({
            "stdout": "grüße\n",
            "stderr": "a\u{fffd}b",
            "stderr_base64": "Yf9i",
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn a_cut_character_does_not_spoil_the_text() {
        let cut = &"grüße".as_bytes()[..3];
        let output = Output {
            stdout: captured(cut, true),
            stderr: None,
        };
        let json = serde_json::to_value(&output).unwrap();
        assert_eq!(json, serde_json::json!({"stdout": "gr", "stderr": null}));
        assert!(output.truncated());
    }

    #[test]
    fn ids_look_right_and_differ() {
        let ids: std::collections::HashSet<String> =
            (0..200).map(|_| RunId::fresh().to_string()).collect();
        assert_eq!(ids.len(), 200);
        assert!(
            ids.iter()
                .all(|id| id.len() == 16 && id.starts_with("run_"))
        );
    }

    #[test]
    fn the_object_has_every_promised_field() {
        let result = RunResult {
            id: RunId::fresh(),
            status: Status::Completed,
            command: "true".into(),
            risk_level: Some(Risk::Safe),
            risk_reasons: Vec::new(),
            decision: None,
            rule: None,
            exit_code: 0,
            signal: None,
            reason: None,
            duration_ms: 1,
            output: Output::default(),
            truncated: false,
            usage: Usage::default(),
            isolation: Isolation::default(),
            denials: Vec::new(),
            network: Vec::new(),
            changes: Vec::new(),
            preview: None,
            auto_exec: Vec::new(),
            auto_exec_partial: false,
            approval: None,
        };
        let json = serde_json::to_value(&result).unwrap();
        for field in "id status command risk_level risk_reasons decision rule exit_code signal \
                      duration_ms stdout stderr truncated usage isolation denials network changes \
                      auto_exec approval"
            .split_whitespace()
        {
            assert!(json.get(field).is_some(), "{field}");
        }
    }
}
