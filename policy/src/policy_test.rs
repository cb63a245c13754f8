//! Runs the `[[test]]` cases of policy files.

use serde::Serialize;

use crate::access::decide_path;
use crate::classify::{Context, classify};
use crate::config::{Expect, Loaded, Origin, Sourced, Subject, TestCase};
use crate::decide::{Action, Asking, decide};
use crate::risk::Risk;
use crate::rule::Bases;
use crate::show::inert;

/// How a case came out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseResult {
    /// What was tried, inert.
    pub subject: String,
    /// Where the case stands.
    pub origin: Origin,
    /// What was to happen.
    pub expected: Expect,
    /// What would happen.
    pub action: Action,
    /// The risk, for a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// The risk it was to have, where that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_risk: Option<Risk>,
    /// What decided.
    pub rule: String,
    /// Whether it came out as expected.
    pub passed: bool,
}

/// Runs every case.
pub fn run(loaded: &Loaded, context: &Context) -> Vec<CaseResult> {
    loaded
        .tests
        .iter()
        .map(|case| run_case(case, loaded, context))
        .collect()
}

fn run_case(case: &Sourced<TestCase>, loaded: &Loaded, context: &Context) -> CaseResult {
    let bases = Bases {
        home: context.home.as_bytes(),
        workspace: context.workspace.as_bytes(),
    };
    let expected = match case.value.expect {
        Expect::Execute => Action::Execute,
        Expect::Ask => Action::Ask,
        Expect::Block => Action::Block,
    };
    let (subject, action, risk, rule) = match &case.value.subject {
        Subject::Command(line) => {
            let classification = classify(line.as_bytes(), context);
            let decision = decide(&classification, &loaded.policy, bases, Asking::Policy);
            (
                inert(line.as_bytes()),
                decision.action,
                Some(decision.risk),
                decision.rule,
            )
        }
        Subject::Path { path, operation } => {
            let decision = decide_path(&loaded.policy, path.as_bytes(), *operation, bases);
            let subject = format!("{} {}", operation.name(), inert(path.as_bytes()));
            (subject, decision.action, None, decision.rule)
        }
    };
    let wrong_risk = case.value.risk.filter(|wanted| risk != Some(*wanted));
    CaseResult {
        subject,
        origin: case.origin.clone(),
        expected: case.value.expect,
        action,
        risk,
        expected_risk: wrong_risk,
        rule: rule.to_string(),
        passed: action == expected && wrong_risk.is_none(),
    }
}

impl std::fmt::Display for CaseResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.passed { "ok  " } else { "FAIL" };
        write!(
            f,
            "{mark} {}: {} → {}",
            self.origin,
            self.subject,
            self.action.name()
        )?;
        if self.passed {
            return Ok(());
        }
        if self.expected.name() != self.action.name() {
            write!(f, ", expected {}", self.expected.name())?;
        }
        if let Some(risk) = self.expected_risk {
            let got = self.risk.map_or("none", Risk::name);
            write!(f, ", risk {got}, expected {risk}")?;
        }
        write!(f, " (by {})", self.rule)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::{Format, Sources, Trust, WorkspaceFile, load};

    #[test]
    fn cases_pass_and_fail() {
        let text = "[commands]\ndeny = [\"git push --force\"]\n\
            [[test]]\ncommand = \"git push --force\"\nexpect = \"block\"\n\
            [[test]]\ncommand = \"ls\"\nexpect = \"ask\"\n\
            [[test]]\ncommand = \"ls\"\nexpect = \"execute\"\nrisk = \"dangerous\"\n\
            [[test]]\npath = \".git/config\"\nop = \"write\"\nexpect = \"ask\"\n";
        let file = WorkspaceFile {
            path: "p".into(),
            text: text.as_bytes().to_vec(),
            format: Format::Toml,
            trust: Trust::Untrusted,
        };
        let loaded = load(&Sources {
            workspace: vec![file],
            ..Sources::default()
        })
        .unwrap();
        let lines: Vec<String> = run(&loaded, &Context::default())
            .iter()
            .map(CaseResult::to_string)
            .collect();
        assert_eq!(
            lines,
            [
                "ok   p:3: git push --force → block",
                "FAIL p:6: ls → execute, expected ask (by risk safe)",
                "FAIL p:9: ls → execute, risk safe, expected dangerous (by risk safe)",
                "ok   p:13: write .git/config → ask",
            ]
        );
    }
}
