//! Patterns for commands and paths in `allow`, `ask`, `deny` and `elevated` lists.
//!
//! Ask and deny match generously, allow and elevated strictly: the same words mean as much
//! as possible where they forbid, and as little as possible where they permit.

pub mod command;
mod generous;
mod glob;
pub mod path;
#[cfg(test)]
pub(crate) mod sample;
mod spelling;

pub use command::{CommandPattern, Lift, Match};
pub use path::{Bases, Case, Dots, PathPattern, Sign};

use serde::{Deserialize, Serialize};

/// One entry of an `allow`, `ask` or `deny` list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// About commands: `npm install *`, `Bash(rm -rf /)`, `*`.
    Command(CommandPattern),
    /// About paths: `Read(./**)`, `Write(/usr/**)`, `Edit(*.md)`.
    Path(PathRule),
}

/// A pattern for paths, and what is done with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRule {
    /// What is done.
    pub operation: Operation,
    /// With which paths.
    pub pattern: PathPattern,
}

/// What is done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Looked into.
    Read,
    /// Created, replaced, removed.
    Write,
    /// Changed.
    Edit,
}

impl Operation {
    /// The name on the command line and in output.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Edit => "edit",
        }
    }

    /// The operation of that name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        [Operation::Read, Operation::Write, Operation::Edit]
            .into_iter()
            .find(|operation| operation.name().eq_ignore_ascii_case(name))
    }
}

/// Why a pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Not a pattern for paths that could match something.
    #[error("the pattern `{text}` can match nothing: {why}")]
    Path {
        /// As written.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Not a pattern for commands that could match something.
    #[error("the pattern `{text}` can match nothing: {why}")]
    Command {
        /// As written.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Not a regular expression.
    #[error("`{text}` is not a regular expression: {why}")]
    Regex {
        /// As written.
        text: String,
        /// What the regular expression engine says.
        why: String,
    },
    /// `Tool(…)` for a tool that has no patterns.
    #[error("`{tool}(…)` is not a kind of rule: use Bash(…), Read(…), Write(…) or Edit(…)")]
    Tool {
        /// The word before the parenthesis.
        tool: String,
    },
}

impl Rule {
    /// Reads an entry of a list.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let trimmed = text.trim();
        let Some((tool, inner)) = tool_form(trimmed) else {
            return CommandPattern::parse(trimmed).map(Rule::Command);
        };
        if tool.eq_ignore_ascii_case("bash") || tool.eq_ignore_ascii_case("shell") {
            return CommandPattern::parse(inner).map(Rule::Command);
        }
        match Operation::named(tool) {
            Some(operation) => {
                let pattern = PathPattern::parse(inner)?;
                Ok(Rule::Path(PathRule { operation, pattern }))
            }
            None => Err(RuleError::Tool {
                tool: tool.to_owned(),
            }),
        }
    }

    /// Reads an entry of one of the `…_regex` lists.
    pub fn regex(text: &str) -> Result<Self, RuleError> {
        CommandPattern::regex(text).map(Rule::Command)
    }

    /// The entry as it is shown.
    pub fn text(&self) -> String {
        match self {
            Rule::Command(pattern) => pattern.text().to_owned(),
            Rule::Path(rule) => {
                let tool = match rule.operation {
                    Operation::Read => "Read",
                    Operation::Write => "Write",
                    Operation::Edit => "Edit",
                };
                format!("{tool}({})", rule.pattern.text())
            }
        }
    }
}

impl PathRule {
    /// Whether the rule speaks of an operation. Whoever may write may edit; whoever must not
    /// edit must not write either, since both change the file.
    pub fn concerns(&self, operation: Operation) -> bool {
        match (self.operation, operation) {
            (Operation::Read, other) => other == Operation::Read,
            (Operation::Write | Operation::Edit, other) => other != Operation::Read,
        }
    }
}

/// `Name(inner)`: a name of letters, directly followed by the parenthesis, to the very end.
fn tool_form(text: &str) -> Option<(&str, &str)> {
    let open = text.find('(')?;
    let tool = text.get(..open)?;
    let inner = text.get(open + 1..)?.strip_suffix(')')?;
    (!tool.is_empty() && tool.bytes().all(|b| b.is_ascii_alphabetic())).then_some((tool, inner))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn forms() {
        assert!(matches!(
            Rule::parse("Read(./**)").unwrap(),
            Rule::Path(PathRule {
                operation: Operation::Read,
                ..
            })
        ));
        assert!(matches!(
            Rule::parse("Bash(rm -rf /)").unwrap(),
            Rule::Command(_)
        ));
        assert!(matches!(
            Rule::parse("npm install *").unwrap(),
            Rule::Command(_)
        ));
        assert_eq!(
            Rule::parse("WebFetch(x)"),
            Err(RuleError::Tool {
                tool: "WebFetch".into()
            })
        );
        assert_eq!(Rule::parse("Edit(~/x)").unwrap().text(), "Edit(~/x)");
        assert!(Rule::parse("Read()").is_err());
        assert!(Rule::parse("").is_err());
        assert!(Rule::regex("rm\\s+(").is_err());
    }
}
