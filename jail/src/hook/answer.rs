//! The verdict in each agent's own form.

use serde_json::{Value, json};

use super::agent::Agent;
use super::question::{COMMAND, Question};
use super::verdict::Verdict;

/// What is printed for the agent.
pub fn written(agent: Agent, question: &Question, verdict: &Verdict) -> Value {
    match agent {
        Agent::ClaudeCode => claude(question, verdict),
        Agent::Codex => codex(question, verdict),
        Agent::Gemini => gemini(question, verdict),
        Agent::Cursor => cursor(question, verdict),
        Agent::Opencode => opencode(verdict),
        Agent::Plain => plain(verdict),
    }
}

/// The tool's input with another command, in the spelling that it came in.
fn updated(question: &Question, instead: &str) -> Value {
    let mut input = question.input.clone();
    if let Some(fields) = input.as_object_mut() {
        for name in COMMAND {
            if let Some(line) = fields.get_mut(name).filter(|line| !line.is_null()) {
                *line = json!(instead);
            }
        }
    }
    input
}

fn refusal(why: &str) -> String {
    format!("sjail: {why}")
}

fn claude(question: &Question, verdict: &Verdict) -> Value {
    let (decision, why, instead) = match verdict {
        Verdict::Nothing => return json!({}),
        Verdict::Go { instead } => ("allow", None, instead.as_ref()),
        // Where nobody is there to ask, that would be a no: what is rewritten asks by itself.
        Verdict::Ask {
            instead: Some(instead),
            ..
        } if is_unattended() => ("allow", None, Some(instead)),
        Verdict::Ask { why, instead } => ("ask", Some(why), instead.as_ref()),
        Verdict::No { why } => ("deny", Some(why), None),
    };
    let mut output = json!({ "hookEventName": "PreToolUse", "permissionDecision": decision });
    output["permissionDecisionReason"] = match why {
        Some(why) => json!(refusal(why)),
        None if instead.is_some() => json!("runs in the jail"),
        None => json!("the policy allows it"),
    };
    if let Some(instead) = instead {
        output["updatedInput"] = updated(question, instead);
    }
    json!({ "hookSpecificOutput": output })
}

/// Whether Claude Code says that nobody sits before it, as under `claude -p`: in a word for
/// just that, which not every version has, or by how it was started.
fn is_unattended() -> bool {
    match std::env::var_os("CLAUDE_CODE_SESSION_ATTENDED") {
        Some(attended) => attended == "0",
        None => std::env::var_os("CLAUDE_CODE_ENTRYPOINT").is_some_and(|how| how == "sdk-cli"),
    }
}

/// As Claude Code's, without asking: it is not acted upon there. What is rewritten asks by
/// itself; what is not is refused. A yes that changes nothing is no answer there.
fn codex(question: &Question, verdict: &Verdict) -> Value {
    match without_asking(verdict) {
        Verdict::Go { instead: None } => json!({}),
        verdict => claude(question, &verdict),
    }
}

fn gemini(question: &Question, verdict: &Verdict) -> Value {
    match without_asking(verdict) {
        Verdict::Nothing | Verdict::Ask { .. } => json!({}),
        Verdict::Go { instead: None } => json!({ "decision": "allow" }),
        Verdict::Go {
            instead: Some(instead),
        } => json!({
            "decision": "allow",
            "hookSpecificOutput": {
                "hookEventName": "BeforeTool",
                "tool_input": updated(question, &instead),
            },
        }),
        Verdict::No { why } => json!({ "decision": "deny", "reason": refusal(&why) }),
    }
}

/// Before a shell runs nothing can be rewritten: what is not in the jail already is
/// refused with the words that put it there.
fn cursor(question: &Question, verdict: &Verdict) -> Value {
    let no = |why: &str| {
        json!({
            "permission": "deny",
            "decision": "deny",
            "user_message": refusal(why),
            "agent_message": refusal(why),
            "reason": refusal(why),
        })
    };
    let yes = json!({ "permission": "allow", "decision": "allow" });
    match without_asking(verdict) {
        Verdict::Nothing | Verdict::Ask { .. } => json!({}),
        Verdict::Go { instead: None } => yes,
        Verdict::Go {
            instead: Some(instead),
        } if question.event == "preToolUse" => {
            let mut yes = yes;
            yes["updated_input"] = updated(question, &instead);
            yes
        }
        Verdict::Go {
            instead: Some(instead),
        } => no(&format!("run it in the jail, exactly so: {instead}")),
        Verdict::No { why } => no(&why),
    }
}

/// What the plugin reads.
fn opencode(verdict: &Verdict) -> Value {
    match without_asking(verdict) {
        Verdict::Nothing | Verdict::Ask { .. } => json!({ "decision": "none" }),
        Verdict::Go { instead } => json!({ "decision": "allow", "command": instead }),
        Verdict::No { why } => json!({ "decision": "deny", "reason": refusal(&why) }),
    }
}

/// Nothing, or a decision to block. What runs then runs as it stands, outside of any jail:
/// what must be asked about is blocked.
fn plain(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Nothing | Verdict::Go { .. } => json!({}),
        Verdict::Ask {
            why,
            instead: Some(instead),
        } => json!({
            "decision": "block",
            "reason": format!("{why}; it needs an approval, so run it exactly so: {instead}"),
        }),
        Verdict::No { why } | Verdict::Ask { why, instead: None } => {
            json!({ "decision": "block", "reason": why })
        }
    }
}

/// For agents that cannot ask in between.
fn without_asking(verdict: &Verdict) -> Verdict {
    match verdict {
        Verdict::Ask {
            instead: Some(instead),
            ..
        } => Verdict::Go {
            instead: Some(instead.clone()),
        },
        Verdict::Ask { why, instead: None } => Verdict::No { why: why.clone() },
        other => other.clone(),
    }
}
