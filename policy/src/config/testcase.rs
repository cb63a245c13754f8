//! `[[test]]` cases: what a policy's owner expects of it.

use crate::risk::Risk;
use crate::rule::Operation;

/// One expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestCase {
    /// What is tried.
    pub subject: Subject,
    /// What is to happen.
    pub expect: Expect,
    /// The risk it is to have, if that is said.
    pub risk: Option<Risk>,
}

/// What a case tries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A shell line.
    Command(String),
    /// An operation on a path.
    Path {
        /// The path, absolute, below `~` or relative to the workspace.
        path: String,
        /// What is done with it.
        operation: Operation,
    },
}

/// What is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// It runs.
    Execute,
    /// Somebody is asked.
    Ask,
    /// It does not run.
    Block,
}

impl Expect {
    /// What messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Expect::Execute => "execute",
            Expect::Ask => "ask",
            Expect::Block => "block",
        }
    }
}

impl TestCase {
    /// The keys that a case may have.
    pub const KEYS: &'static [&'static str] = &["command", "path", "op", "expect", "risk"];

    /// Reads a case from its keys and texts.
    pub fn read(fields: &[(String, String)]) -> Result<Self, String> {
        let field = |name: &str| {
            fields
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, text)| text.as_str())
        };
        let subject = match (field("command"), field("path"), field("op")) {
            (Some(command), None, None) => Subject::Command(command.to_owned()),
            (None, Some(path), op) => Subject::Path {
                path: path.to_owned(),
                operation: Operation::named(op.unwrap_or("read"))
                    .ok_or("`op` is one of read, write, edit")?,
            },
            _ => return Err("a case has either `command`, or `path` and `op`".to_owned()),
        };
        let expect = match field("expect").ok_or("a case needs `expect`: execute, ask or block")? {
            "execute" | "allow" | "run" => Expect::Execute,
            "ask" => Expect::Ask,
            "block" | "deny" => Expect::Block,
            _ => return Err("`expect` is one of execute, ask, block".to_owned()),
        };
        let risk = match field("risk") {
            None => None,
            Some(word) => Some(
                [
                    Risk::Safe,
                    Risk::Normal,
                    Risk::Dangerous,
                    Risk::Critical,
                    Risk::Disallowed,
                ]
                .into_iter()
                .find(|risk| risk.name() == word)
                .ok_or("`risk` is one of safe, normal, dangerous, critical, disallowed")?,
            ),
        };
        Ok(Self {
            subject,
            expect,
            risk,
        })
    }
}
