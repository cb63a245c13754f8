//! What the policy says to a question.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sjail_policy::config::CommandLine;
use sjail_policy::decide::{Action, Asking};
use sjail_policy::rule::Operation;
use sjail_policy::show::inert;

use super::agent::Agent;
use super::question::{Act, Question};
use super::record;
use super::scratch;
use crate::caller::Account;
use crate::cmd::check::path_decision;
use crate::judge::{Judge, Typed};
use crate::kept;

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
    Ok(match is_all_scratch {
        true => Verdict::Nothing,
        false => worst,
    })
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

/// Words as one line.
fn joined(words: &[impl AsRef<str>]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
    words.join(" ")
}

/// A word as every shell reads it: fish takes a backslash between single quotes for more than
/// itself, so none is there.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_/.,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut out = String::from("'");
    for letter in word.chars() {
        match letter {
            '\'' => out.push_str("'\\''"),
            '\\' => out.push_str("'\\\\'"),
            letter => out.push(letter),
        }
    }
    out.push('\'');
    out
}

/// The line that runs the agent's line in the jail.
fn jailed(agent: Agent, question: &Question, judge: &Judge) -> Result<String, String> {
    let Act::Shell {
        line,
        timeout,
        background,
        ..
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
    words.extend(workspace_flag(judge));
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
    Ok(joined(&words))
}

/// The workspace that was judged: the agent may go elsewhere before it runs the line, and a link
/// may lead elsewhere by then. Where there is none, the run says why.
fn workspace_flag(judge: &Judge) -> Option<String> {
    let workspace = judge.project()?;
    Some(format!("--workspace={}", workspace.display()))
}

/// The agent's own line in one that is ours already: this very program, the same agent and
/// session, nothing else said, no longer than the policy's limit.
fn own_line(agent: Agent, question: &Question, judge: &Judge, line: &str) -> Option<String> {
    let words = shell_words::split(line).ok()?;
    // Said in exactly our own way: whatever else a shell would see in it is not.
    if joined(&words) != line {
        return None;
    }
    let [program, run, flags @ .., last] = words.as_slice() else {
        return None;
    };
    let own = std::env::current_exe().ok()?;
    if own.to_str() != Some(program) || run != "run" {
        return None;
    }
    let mut expected = vec![format!("--agent={}", agent.name())];
    if let Some(session) = &question.session {
        expected.push(format!("--session={session}"));
    }
    expected.extend(workspace_flag(judge));
    expected.push("--no-wait".to_owned());
    let rest = flags.strip_prefix(expected.as_slice())?;
    let longest = judge.loaded.policy.limits().timeout;
    let fits = |flag: &String| {
        let time = flag.strip_prefix("--timeout=")?.strip_suffix("ms")?;
        let time: u64 = time.parse().ok()?;
        Some(longest.is_none_or(|longest| time <= longest.millis()))
    };
    match rest {
        [] => {}
        [time] if fits(time) == Some(true) => {}
        _ => return None,
    }
    last.strip_prefix("-c=").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use sjail_policy::config::{Sources, load};

    #[test]
    fn only_our_own_words_count_as_jailed() {
        let own = std::env::current_exe().unwrap();
        let own = own.to_str().unwrap();
        let judge = Judge::of(
            &Account::own(),
            load(&Sources::default()).unwrap(),
            Path::new("/w"),
            Path::new("/w"),
        );
        let question = |session: Option<&str>| Question {
            event: String::new(),
            cwd: None,
            at: None,
            transcript: None,
            session: session.map(str::to_owned),
            name: "Bash".to_owned(),
            tool: Some("exec"),
            act: Act::Other,
            input: serde_json::Value::Null,
        };
        let inner = |session: Option<&str>, words: &[&str]| {
            let words = [&[own, "run"], words].concat();
            let line = joined(&words);
            own_line(Agent::Cursor, &question(session), &judge, &line)
        };
        const PLACE: &str = "--workspace=/w";
        let plain = ["--agent=cursor", PLACE, "--no-wait", "-c=ls -la"];
        assert_eq!(inner(None, &plain).as_deref(), Some("ls -la"));
        let full = [
            "--agent=cursor",
            "--session=s",
            PLACE,
            "--no-wait",
            "--timeout=5ms",
            "-c=x; y",
        ];
        assert_eq!(inner(Some("s"), &full).as_deref(), Some("x; y"));
        // Another's session could be one that is not jailed.
        assert_eq!(inner(Some("t"), &full), None);
        assert_eq!(inner(None, &full), None);
        assert_eq!(inner(Some("s"), &plain), None);
        for words in [
            &["--agent=other", PLACE, "--no-wait", "-c=ls"][..],
            &["--agent=cursor", PLACE, "--no-wait", "--net=host", "-c=ls"],
            &["--agent=cursor", PLACE, "--no-wait", "--timeout=x", "-c=ls"],
            &["--agent=cursor", PLACE, "--no-wait", "--", "ls"],
            &["--agent=cursor", PLACE, "-c=ls"],
            &["--agent=cursor", "--no-wait", "-c=ls"],
            &["--agent=cursor", "--workspace=/other", "--no-wait", "-c=ls"],
        ] {
            assert_eq!(inner(None, words), None, "{words:?}");
        }
        let given = |line: String| own_line(Agent::Cursor, &question(None), &judge, &line);
        let ours = "run '--agent=cursor' '--workspace=/w' --no-wait";
        for line in [
            format!("{own} {ours} '-c=ls'; ls"),
            format!("{own} {ours} -c=$(ls)"),
            format!("{own} {ours} \"-c=$(ls)\""),
            format!("{own} {ours} '-c=ls' > x"),
            format!("{own} {ours} '-c=ls'\nls"),
            format!("{own} queue approve x"),
            format!("sjail {ours} '-c=ls'"),
            format!("/tmp/sjail {ours} '-c=ls'"),
        ] {
            assert_eq!(given(line.clone()), None, "{line}");
        }
    }

    #[test]
    fn a_quoted_word_is_itself_in_every_shell() {
        let word = "echo \\'; touch x # \"$HOME\" \\\\ `id` a\\b";
        for shell in ["sh", "bash", "zsh", "fish"] {
            let line = format!("printf %s {}", quoted(word));
            let Ok(output) = std::process::Command::new(shell)
                .args(["-c", &line])
                .output()
            else {
                continue;
            };
            assert_eq!(String::from_utf8_lossy(&output.stdout), word, "{shell}");
        }
    }
}
