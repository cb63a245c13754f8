//! The answer of `sjail check`: what would happen to a command, without running it.

use serde::Serialize;

use crate::classify::Classification;
use crate::decide::{Action, DecidedBy, Decision, Place};
use crate::effect::Span;
use crate::risk::Risk;
use crate::show::{inert, underlined};

/// What would happen to a command. The first five fields are what callers rely on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The command as given.
    pub command: String,
    /// Its risk.
    pub risk_level: Risk,
    /// Why, in short phrases.
    pub risk_reasons: Vec<String>,
    /// Whether a person would be asked.
    pub requires_approval: bool,
    /// `execute`, `queue_for_approval` or `block`.
    pub suggested_action: &'static str,
    /// What decides, in one line.
    pub rule: String,
    /// What decides, in parts.
    pub decided_by: DecidedBy,
    /// Where it would run.
    pub place: Place,
    /// The programs it would start, as far as they are known, in order.
    pub programs: Vec<String>,
    /// The parts of the command that the answer is about, as byte offsets.
    pub parts: Vec<Span>,
    /// What could not be known, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opaque: Vec<String>,
    /// Why `sjail run` would refuse it without asking anybody, where that was looked into: no
    /// answer could give it what it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Answer {
    /// The answer for a line, its classification and what was decided about it.
    pub fn new(line: &[u8], classification: &Classification, decision: &Decision) -> Self {
        Self {
            command: String::from_utf8_lossy(line).into_owned(),
            risk_level: decision.risk,
            risk_reasons: decision.reasons.clone(),
            requires_approval: decision.action == Action::Ask,
            suggested_action: decision.action.suggested(),
            rule: decision.rule.to_string(),
            decided_by: decision.rule.clone(),
            place: decision.place,
            programs: classification
                .commands
                .iter()
                .map(|command| command.program.name.clone())
                .collect(),
            parts: decision.spans.clone(),
            opaque: classification
                .opaque
                .iter()
                .map(|opaque| opaque.why.clone())
                .collect(),
            refused: None,
        }
    }

    /// The same where nobody would be asked, because no answer could give it what it needs.
    pub fn refused(self, why: String) -> Self {
        Self {
            requires_approval: false,
            suggested_action: Action::Block.suggested(),
            refused: Some(why),
            ..self
        }
    }
}

/// The answer for people: the line with the parts that matter underlined, the reasons, and
/// what would happen by which rule, or why it would be refused before anybody is asked. Inert.
pub fn human(line: &[u8], decision: &Decision, refused: Option<&str>) -> String {
    let mut text = String::new();
    for row in underlined(line, &decision.spans) {
        text.push_str("  ");
        text.push_str(&row);
        text.push('\n');
    }
    text.push_str(&format!("risk: {}\n", decision.risk));
    for reason in &decision.reasons {
        text.push_str(&format!("  - {}\n", inert(reason.as_bytes())));
    }
    let place = match decision.place {
        Place::Jail => "in the jail",
        Place::Host => "on the host, outside the jail",
    };
    if let Some(why) = refused {
        let why = inert(why.as_bytes());
        text.push_str(&format!("would be refused without asking anybody: {why}\n"));
        return text;
    }
    let outcome = match decision.action {
        Action::Execute => format!("would run {place}"),
        Action::Ask => format!("would ask, then run {place}"),
        Action::Block => "would be blocked".to_owned(),
    };
    text.push_str(&format!("{outcome}, by {}\n", decision.rule));
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Policy;
    use crate::decide::{Asking, decide};
    use crate::rule::Bases;
    use crate::rule::sample::line;

    const BASES: Bases<'static> = Bases {
        home: b"/home/u",
        workspace: b"/ws",
    };

    #[test]
    fn the_first_five_fields_have_their_shape() {
        let mut classification = line("rm -rf /tmp/*", Risk::Dangerous);
        classification.reasons = vec!["Recursive deletion".into(), "Wildcard pattern".into()];
        let decision = decide(&classification, &Policy::default(), BASES, Asking::Policy);
        let answer =
            serde_json::to_string(&Answer::new(b"rm -rf /tmp/*", &classification, &decision))
                .unwrap();
        assert!(answer.starts_with(
            r#"{"command":"rm -rf /tmp/*","risk_level":"dangerous","risk_reasons":["Recursive deletion","Wildcard pattern"],"requires_approval":true,"suggested_action":"queue_for_approval","#
        ));
    }

    #[test]
    fn people_see_the_line_and_the_outcome() {
        let classification = line("ls; rm -rf x", Risk::Dangerous);
        let decision = decide(&classification, &Policy::default(), BASES, Asking::Policy);
        let text = human(b"ls; rm -rf x", &decision, None);
        assert!(text.starts_with("  ls; rm -rf x\n  "), "{text}");
        assert!(
            text.ends_with("risk: dangerous\nwould ask, then run in the jail, by risk dangerous\n"),
            "{text}"
        );
    }

    #[test]
    fn a_refusal_is_no_question() {
        let classification = line("sudo ls", Risk::Dangerous);
        let decision = decide(&classification, &Policy::default(), BASES, Asking::Policy);
        assert_eq!(decision.action, Action::Ask);
        let answer =
            Answer::new(b"sudo ls", &classification, &decision).refused("no rights".to_owned());
        assert_eq!(answer.suggested_action, "block");
        assert!(!answer.requires_approval);
        let text = human(b"sudo ls", &decision, Some("no\u{1b} rights"));
        assert!(!text.contains("would ask"), "{text}");
        assert!(
            text.ends_with("would be refused without asking anybody: no\\x1b rights\n"),
            "{text}"
        );
    }
}
