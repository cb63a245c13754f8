//! What the policy says to a question.

use std::ffi::OsString;

use sjail_policy::config::CommandLine;
use sjail_policy::decide::{Action, Asking};

use super::agent::Agent;
use super::question::{Act, Question};
use crate::caller::Account;
use crate::cmd::check::path_decision;
use crate::judge::{Judge, Typed};

/// The time limit when neither the agent nor the policy sets one.
const TIMEOUT_MS: u64 = 60_000;

/// What the agent is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Go on; a shell line in this form, inside the jail.
    Go {
        /// The line to run instead.
        instead: Option<String>,
    },
    /// Somebody must be asked first.
    Ask {
        /// Why.
        why: String,
        /// The line to run instead, which asks as well.
        instead: Option<String>,
    },
    /// No.
    No {
        /// Why.
        why: String,
    },
    /// Not for us to say.
    Nothing,
}

/// The policy's answer; an error is a sentence.
pub fn of(agent: Agent, question: &Question) -> Result<Verdict, String> {
    if let Some(cwd) = &question.cwd {
        std::env::set_current_dir(cwd)
            .map_err(|error| format!("the folder {} cannot be used: {error}", cwd.display()))?;
    }
    let judge = Judge::here(&Account::own(), None, CommandLine::default())
        .map_err(|error| error.to_string())?;
    if let Some(tool) = question.tool
        && !judge.loaded.policy.tools().contains(&tool)
    {
        return Ok(Verdict::No {
            why: format!("the tool `{tool}` is taken away by the policy (`tools`)"),
        });
    }
    match &question.act {
        Act::Other => Ok(Verdict::Nothing),
        Act::Files(files) => {
            let mut worst = Verdict::Go { instead: None };
            for (operation, path) in files {
                let decision = path_decision(&judge, &OsString::from(path), *operation)
                    .map_err(|error| error.to_string())?;
                let why = format!("{} {path}: {}", operation.name(), decision.rule);
                match decision.action {
                    Action::Execute => {}
                    Action::Ask if matches!(worst, Verdict::No { .. }) => {}
                    Action::Ask => worst = Verdict::Ask { why, instead: None },
                    Action::Block => worst = Verdict::No { why },
                }
            }
            Ok(worst)
        }
        Act::Shell { line, .. } if is_jailed(line) => Ok(Verdict::Go { instead: None }),
        Act::Shell { line, .. } => {
            let typed = Typed::Line(line.into());
            let (_, decision) = judge.judge(&typed, &judge.context, Asking::Policy);
            let mut why = decision.reasons.join(", ");
            if why.is_empty() {
                why = decision.rule.to_string();
            } else {
                why = format!("{why} ({})", decision.rule);
            }
            let instead = || Ok::<_, String>(Some(jailed(agent, question, &judge)?));
            Ok(match decision.action {
                Action::Execute => Verdict::Go {
                    instead: instead()?,
                },
                Action::Ask => Verdict::Ask {
                    why,
                    instead: instead()?,
                },
                Action::Block => Verdict::No { why },
            })
        }
    }
}

/// The line that runs the agent's line in the jail.
fn jailed(agent: Agent, question: &Question, judge: &Judge) -> Result<String, String> {
    let Act::Shell {
        line,
        timeout,
        background,
    } = &question.act
    else {
        return Err("only a shell line can be jailed".to_owned());
    };
    let own = std::env::current_exe().map_err(|error| format!("sjail is not found: {error}"))?;
    let own = own.to_str().ok_or("the path of sjail is no text")?;
    let mut words = vec![own.to_owned(), "run".to_owned()];
    words.push(format!("--agent={}", agent.name()));
    if let Some(session) = &question.session {
        words.push(format!("--session={session}"));
    }
    words.push("--no-wait".to_owned());
    let set = judge.loaded.policy.limits();
    // A limit of the policy can be made shorter here, never longer.
    let limit = match (timeout, set.timeout) {
        (Some(asked), Some(set)) => Some((*asked).min(set.millis())),
        (None, Some(_)) => None,
        (None, None) if *background => None,
        (asked, None) => Some(asked.unwrap_or(TIMEOUT_MS)),
    };
    if let Some(limit) = limit {
        words.push(format!("--timeout={limit}ms"));
    }
    words.push(format!("-c={line}"));
    Ok(shell_words::join(words))
}

/// Whether a line is already one of ours: this very program, nothing loosened, one line.
fn is_jailed(line: &str) -> bool {
    let Ok(words) = shell_words::split(line) else {
        return false;
    };
    // Said in exactly our own way: whatever else a shell would see in it is not.
    if shell_words::join(&words) != line {
        return false;
    }
    let [program, run, flags @ .., last] = words.as_slice() else {
        return false;
    };
    let own = std::env::current_exe().ok();
    let is_own = own.as_deref().and_then(|own| own.to_str()) == Some(program);
    is_own
        && run == "run"
        && last.starts_with("-c=")
        && flags.iter().all(|flag| {
            flag == "--no-wait"
                || ["--agent=", "--session=", "--timeout="]
                    .iter()
                    .any(|known| flag.starts_with(known))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_words_count_as_jailed() {
        let own = std::env::current_exe().unwrap_or_default();
        let own = own.to_string_lossy();
        assert!(is_jailed(&format!(
            "{own} run '--agent=x' --no-wait '-c=ls'"
        )));
        for line in [
            format!("{own} run '--net=host' '-c=ls'"),
            format!("{own} run '-c=ls'; ls"),
            format!("{own} run -c=$(ls)"),
            format!("{own} run \"-c=$(ls)\""),
            format!("{own} run '--agent=x' -- ls"),
            format!("{own} run '-c=ls' > x"),
            format!("{own} run '-c=ls'\nls"),
            format!("{own} queue approve x"),
            "sjail run '-c=ls'".to_owned(),
            "/tmp/sjail run '-c=ls'".to_owned(),
        ] {
            assert!(!is_jailed(&line), "{line}");
        }
    }
}
