//! What the policy says to a question.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sjail_policy::config::CommandLine;
use sjail_policy::decide::{Action, Asking};
use sjail_policy::rule::Operation;
use sjail_policy::show::inert;

use super::agent::Agent;
use super::line::{jailed, own_line};
use super::question::{Act, Question};
use super::record;
use super::scratch;
use crate::caller::Account;
use crate::cmd::check::{path_decision, pattern_decision};
use crate::judge::{Judge, Typed};
use crate::kept;

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
pub fn of(agent: Agent, question: &Question, only: &[String]) -> Result<Verdict, String> {
    if let Some(cwd) = &question.cwd {
        go(cwd)?;
    }
    let account = Account::own();
    let here = |named: Option<&Path>| {
        Judge::here(&account, named, CommandLine::default()).map_err(|error| error.to_string())
    };
    let mut judge = here(None)?;
    if let Some(at) = &question.at {
        inside(&judge, at)?;
        go(at)?;
        let workspace = judge.project().map(Path::to_owned);
        judge = here(workspace.as_deref())?;
    }
    if let Some(tool) = question.tool
        && !judge.loaded.policy.tools().contains(&tool)
    {
        record::kept_from(agent, question, &used(question), "tools");
        return Ok(Verdict::No {
            why: format!("the tool `{tool}` is taken away by the policy (`tools`)"),
        });
    }
    if judge.loaded.policy.denies_tool(&question.name) {
        record::kept_from(agent, question, &used(question), "tools.deny");
        return Ok(Verdict::No {
            why: format!(
                "the tool `{}` is taken away by the policy (`tools.deny`)",
                inert(question.name.as_bytes())
            ),
        });
    }
    match &question.act {
        Act::Other => Ok(Verdict::Nothing),
        Act::Files(files) => {
            let verdict = of_files(agent, question, &judge, &account, files)?;
            Ok(match (question.tool, verdict) {
                // Whatever else a tool does that is not known is not ours to allow.
                (None, Verdict::Go { .. }) => Verdict::Nothing,
                (_, verdict) => verdict,
            })
        }
        Act::Shell { line, folder, .. } => {
            let judge = judge.with_kept(&account).with_only(only);
            if let Some(folder) = folder {
                inside(&judge, Path::new(folder))?;
            }
            if let Some(why) = approval_by_name(line) {
                return Ok(Verdict::No { why });
            }
            let own = own_line(agent, question, &judge, line);
            let typed = Typed::Line(own.as_deref().unwrap_or(line).into());
            let (_, decision) = judge.judge(&typed, &judge.context, Asking::Policy);
            let mut why = decision.reasons.join(", ");
            if why.is_empty() {
                why = decision.rule.to_string();
            } else {
                why = format!("{why} ({})", decision.rule);
            }
            let instead = || match own {
                // It is in the jail already, and asks there by itself.
                Some(_) => Ok(None),
                None => jailed(agent, question, &judge).map(Some),
            };
            Ok(match decision.action {
                Action::Block => {
                    record::refused(agent, question, own.as_deref().unwrap_or(line), only);
                    Verdict::No { why }
                }
                Action::Ask if own.is_none() && !is_approved(agent, question, &judge, &account) => {
                    Verdict::Ask {
                        why,
                        instead: instead()?,
                    }
                }
                _ => Verdict::Go {
                    instead: instead()?,
                },
            })
        }
    }
}

/// Makes it the working folder.
fn go(folder: &Path) -> Result<(), String> {
    let shown = inert(folder.as_os_str().as_encoded_bytes());
    std::env::set_current_dir(folder)
        .map_err(|error| format!("the folder {shown} cannot be used: {error}"))
}

/// What the policy says to each of the files; the strictest counts for all, and whatever is
/// refused is written down.
fn of_files(
    agent: Agent,
    question: &Question,
    judge: &Judge,
    account: &Account,
    files: &[(Operation, String)],
) -> Result<Verdict, String> {
    let mut worst = Verdict::Go { instead: None };
    let mut is_all_scratch = !files.is_empty();
    for (operation, path) in files {
        let decision = path_decision(judge, &OsString::from(path), *operation)
            .map_err(|error| error.to_string())?;
        let rule = decision.rule.to_string();
        let why = format!("{} {path}: {rule}", operation.name());
        // Only what nothing says anything about: what is denied stays so.
        if decision.action == Action::Ask
            && *operation == Operation::Read
            && scratch::holds(agent, question, &account.home, path)
        {
            continue;
        }
        is_all_scratch = false;
        // Only Claude Code asks its user; to the others it is a no.
        let is_no = match decision.action {
            Action::Execute => false,
            Action::Ask => agent != Agent::ClaudeCode,
            Action::Block => true,
        };
        if is_no {
            let act = format!("{} {}", operation.name(), inert(decision.path.as_bytes()));
            record::kept_from(agent, question, &act, &rule);
        }
        match decision.action {
            Action::Execute => {}
            Action::Ask if matches!(worst, Verdict::No { .. }) => {}
            Action::Ask => worst = Verdict::Ask { why, instead: None },
            Action::Block => worst = Verdict::No { why },
        }
    }
    if let Some(sought) = of_patterns(agent, question, judge)? {
        is_all_scratch = false;
        let is_no = matches!(worst, Verdict::No { .. });
        worst = if is_no { worst } else { sought };
    }
    Ok(match is_all_scratch {
        true => Verdict::Nothing,
        false => worst,
    })
}

/// What the policy says to the patterns, if any rule is about what they could find.
fn of_patterns(
    agent: Agent,
    question: &Question,
    judge: &Judge,
) -> Result<Option<Verdict>, String> {
    let mut worst = None;
    for pattern in &question.patterns {
        let decision =
            pattern_decision(judge, &OsString::from(pattern)).map_err(|error| error.to_string())?;
        let Some(decision) = decision else { continue };
        let rule = decision.rule.to_string();
        let why = format!("read what {pattern} finds: {rule}");
        if decision.action == Action::Block || agent != Agent::ClaudeCode {
            let act = format!("read {}", inert(decision.path.as_bytes()));
            record::kept_from(agent, question, &act, &rule);
        }
        match decision.action {
            Action::Block => return Ok(Some(Verdict::No { why })),
            _ => worst = Some(Verdict::Ask { why, instead: None }),
        }
    }
    Ok(worst)
}

/// What a tool that is taken away was to do, as far as that is known.
fn used(question: &Question) -> String {
    match &question.act {
        Act::Shell { line, .. } => line.clone(),
        Act::Files(files) => {
            let each = files.iter().map(|(operation, path)| {
                format!("{} {}", operation.name(), inert(path.as_bytes()))
            });
            each.collect::<Vec<_>>().join(", ")
        }
        Act::Other => format!("use {}", inert(question.name.as_bytes())),
    }
}

/// Whether somebody has said yes to this line, and nobody has used that yet: then Claude Code
/// need not ask its own user once more; no other agent asks in between. Nothing is let through
/// by this. The line runs by `sjail run`, and the broker alone finds the approval, holds it
/// against what would run, and uses it up.
fn is_approved(agent: Agent, question: &Question, judge: &Judge, account: &Account) -> bool {
    let Act::Shell { line, .. } = &question.act else {
        return false;
    };
    if agent != Agent::ClaudeCode {
        return false;
    }
    kept::approvals(account).iter().any(|approved| {
        approved.command == *line
            && approved.cwd.as_bytes() == judge.context.cwd.as_bytes()
            && approved.agent.as_deref() == Some(agent.name())
            && approved.session == question.session
    })
}

/// Why an approval is not used by its name here: the name could be that of another's.
fn approval_by_name(line: &str) -> Option<String> {
    let words = shell_words::split(line).ok()?;
    let [program, run, rest @ ..] = words.as_slice() else {
        return None;
    };
    let is_ours = Path::new(program).file_name()? == "sjail" && run == "run";
    let is_named =
        matches!(rest, [flag, ..] if flag == "--approval" || flag.starts_with("--approval="));
    (is_ours && is_named).then(|| {
        "run the approved command itself once more, in the same folder: that uses its approval"
            .to_owned()
    })
}

/// A folder that a line is to run in lies in the workspace: the jail would otherwise be made
/// around another one.
fn inside(judge: &Judge, folder: &Path) -> Result<(), String> {
    let real = |path: &Path| {
        let shown = inert(path.as_os_str().as_encoded_bytes());
        std::fs::canonicalize(path)
            .map_err(|error| format!("the folder {shown} cannot be used: {error}"))
    };
    let workspace = PathBuf::from(&judge.context.workspace);
    let folder_led = real(folder)?;
    // There is no project everywhere; the session's own folder is none of the model's choosing.
    if folder_led.as_os_str().as_encoded_bytes() == judge.context.cwd.as_bytes() {
        return Ok(());
    }
    match folder_led.starts_with(real(&workspace)?) {
        true => Ok(()),
        false => Err(format!(
            "the folder {} is outside the workspace",
            inert(folder.as_os_str().as_encoded_bytes())
        )),
    }
}
