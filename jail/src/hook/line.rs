//! The line that runs an agent's line in the jail, and how it is known again.

use super::agent::Agent;
use super::question::{Act, Question};
use crate::judge::Judge;

/// The time limit when neither the agent nor the policy sets one.
const TIMEOUT_MS: u64 = 60_000;

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
pub fn jailed(agent: Agent, question: &Question, judge: &Judge) -> Result<String, String> {
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
pub fn own_line(agent: Agent, question: &Question, judge: &Judge, line: &str) -> Option<String> {
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
    use std::path::Path;

    use super::*;
    use crate::caller::Account;
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
            patterns: Vec::new(),
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
