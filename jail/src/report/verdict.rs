//! What the policy says to a command, as results carry it.

use sjail_policy::decide::Decision;
use sjail_policy::risk::Risk;
use sjail_policy::wire::request::Run;

use crate::error::Error;

/// What was decided, and by what.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// The risk.
    pub risk: Option<Risk>,
    /// Why.
    pub reasons: Vec<String>,
    /// What happens.
    pub decision: Option<String>,
    /// What decided.
    pub rule: Option<String>,
    /// Under which approval.
    pub approval: Option<serde_json::Value>,
}

impl Verdict {
    /// The broker's, that lets it run.
    pub fn of_run(run: &Run) -> Verdict {
        Verdict {
            risk: Some(run.risk),
            reasons: run.reasons.clone(),
            decision: Some(match run.preview {
                Some(meets) => meets.name().to_owned(),
                None => run.decision.clone(),
            }),
            rule: Some(run.rule.clone()),
            approval: serde_json::to_value(&run.approval)
                .ok()
                .filter(|approval| !approval.is_null()),
        }
    }

    /// What was decided in process.
    pub fn of_decision(decision: &Decision) -> Verdict {
        Verdict {
            risk: Some(decision.risk),
            reasons: decision.reasons.clone(),
            decision: Some(decision.action.name().to_owned()),
            rule: Some(decision.rule.to_string()),
            approval: None,
        }
    }

    /// The broker's, that does not let it run, or not yet, with the request's name.
    pub fn of_refusal(error: &Error) -> Option<(&str, Verdict)> {
        let (id, risk, reasons, rule, decision) = match error {
            Error::Blocked(refusal) => (
                &refusal.id,
                refusal.risk,
                &refusal.reasons,
                &refusal.rule,
                "block",
            ),
            Error::Expired(refusal) => (
                &refusal.id,
                refusal.risk,
                &refusal.reasons,
                &refusal.rule,
                "ask",
            ),
            Error::Pending(waiting) => (
                &waiting.id,
                waiting.risk,
                &waiting.reasons,
                &waiting.rule,
                "ask",
            ),
            _ => return None,
        };
        let verdict = Verdict {
            risk: Some(risk),
            reasons: reasons.clone(),
            decision: Some(decision.to_owned()),
            rule: Some(rule.clone()),
            approval: Some(serde_json::json!({ "id": id })),
        };
        Some((id, verdict))
    }

    /// The decision by its name in results: the same whether a broker decided or not.
    pub fn in_a_result(&self) -> Option<String> {
        self.decision.as_deref().map(|decision| match decision {
            "execute" => "allow".to_owned(),
            other => other.to_owned(),
        })
    }
}
