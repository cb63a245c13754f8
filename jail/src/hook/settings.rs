//! Putting the hook into an agent's settings, taking it out, and seeing whether it works.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use sjail_policy::show::inert;

use super::agent::{Agent, CANARY};
use super::change::{backup, change};
use super::json::Json;
use super::trusted;
use crate::caller::Account;
use crate::cmd::{Failure, print};
use crate::error::Error;
use crate::exit::Exit;

/// The plugin that OpenCode loads.
const PLUGIN: &str = include_str!("opencode.js");
/// What an entry of ours says when it cannot ask.
const SAID: &str = "sjail: not allowed";
/// The hook is not there, or does not answer as it should.
const NOT_WELL: u8 = 1;
/// Seconds that an agent may wait for the hook's answer. An agent that has waited long
/// enough goes on without one: better that it waits.
pub const PATIENCE: u64 = 60;

/// Puts it in.
pub fn install(agent: Agent, yes: bool) -> Result<u8, Failure> {
    let file = agent.settings(&Account::own().home);
    let old = read(&file)?;
    let new = match agent {
        Agent::Opencode => PLUGIN.replace("@SJAIL@", &own()?),
        _ => {
            let mut settings = parsed(&file, old.as_deref())?;
            without(agent, &mut settings);
            with(agent, &mut settings, &file)?;
            pretty(&settings)
        }
    };
    let code = change(&file, old.as_deref(), Some(&new), yes)?;
    if code == Exit::Success.code() {
        for advice in advice(agent, &file) {
            print(&format!("{advice}\n"));
        }
    }
    Ok(code)
}

/// What its user has to do, or to know.
fn advice(agent: Agent, file: &Path) -> Vec<&'static str> {
    let sandbox = match agent {
        Agent::Codex => trusted::sandbox(file),
        _ => None,
    };
    agent.advice().into_iter().chain(sandbox).collect()
}

/// Takes it out.
pub fn uninstall(agent: Agent, yes: bool) -> Result<u8, Failure> {
    let file = agent.settings(&Account::own().home);
    let Some(old) = read(&file)? else {
        print(&format!("{}: nothing to remove\n", shown(&file)));
        return Ok(Exit::Success.code());
    };
    if agent == Agent::Opencode {
        return change(&file, Some(&old), None, yes);
    }
    let mut settings = parsed(&file, Some(&old))?;
    if !without(agent, &mut settings) {
        print(&format!("{}: nothing to remove\n", shown(&file)));
        return Ok(Exit::Success.code());
    }
    // Where there was nothing before us, nothing stays.
    if is_empty(agent, &settings) && !backup(&file).exists() {
        return change(&file, Some(&old), None, yes);
    }
    change(&file, Some(&old), Some(&pretty(&settings)), yes)
}

/// Whether the settings hold nothing, or only what we have put there.
fn is_empty(agent: Agent, settings: &Json) -> bool {
    let ours = match agent {
        Agent::Cursor => Json::from(json!({ "version": 1 })),
        _ => Json::object(),
    };
    *settings == Json::object() || *settings == ours
}

/// Says how it stands, and tries what is written there with a command that must be refused.
pub fn status(agent: Option<Agent>) -> Result<u8, Failure> {
    let mut well = true;
    let agents = agent.map_or(Agent::ALL.to_vec(), |agent| vec![agent]);
    let told = agent.is_some();
    for agent in agents {
        let file = agent.settings(&Account::own().home);
        let text = read(&file)?.unwrap_or_default();
        let there = match agent {
            Agent::Opencode => text.contains("execute.before"),
            _ => text.contains(&mark(agent)),
        };
        let unused = match agent {
            Agent::Codex if there => trusted::refusal(&file, &text),
            _ => None,
        };
        let word = match there {
            false => {
                well &= !told;
                "not installed".to_owned()
            }
            true if !refuses(agent, &text) => {
                well = false;
                "installed, but does not refuse what it must: install it again".to_owned()
            }
            true if !answers(agent, &text) => {
                well = false;
                "installed, but cannot answer, so everything is refused: install it again"
                    .to_owned()
            }
            true => match unused {
                Some(why) => {
                    well = false;
                    format!("installed, {why}")
                }
                None => "installed, and refuses what it must".to_owned(),
            },
        };
        print(&format!("{:<12} {word} ({})\n", agent.name(), shown(&file)));
        if there {
            for advice in advice(agent, &file) {
                print(&format!("{:<12} {advice}\n", ""));
            }
        }
    }
    Ok(if well { Exit::Success.code() } else { NOT_WELL })
}

/// Whether a harmful line is refused.
fn refuses(agent: Agent, text: &str) -> bool {
    asked(agent, text, CANARY).is_some_and(|output| {
        let said = String::from_utf8_lossy(&output.stdout);
        output.status.code() == Some(2) || said.contains("\"deny\"")
    })
}

/// Whether a harmless line gets an answer, whichever.
fn answers(agent: Agent, text: &str) -> bool {
    asked(agent, text, "true").is_some_and(|output| output.status.success())
}

/// Runs what is written in the settings, as the agent would, with a shell line.
fn asked(agent: Agent, text: &str, command: &str) -> Option<std::process::Output> {
    let question = agent.canary(command).to_string();
    let line = match agent {
        // As Cursor does: the question follows the command as a text of the shell's.
        Agent::Cursor => format!(
            "{} <<'CURSOR_HOOK_EOF'\n{question}\nCURSOR_HOOK_EOF",
            written(agent, text)?
        ),
        // One from before OpenCode 2 would not even be loaded there.
        Agent::Opencode if !text.contains("setup:") => return None,
        // The plugin's own words, asked as it asks.
        Agent::Opencode => {
            let program = text.split("const SJAIL = \"").nth(1);
            let program = program.and_then(|rest| rest.split('"').next());
            format!(
                "{} hook opencode",
                shell_words::quote(program.unwrap_or_default())
            )
        }
        _ => written(agent, text)?,
    };
    let mut child = Command::new("/bin/sh")
        .args(["-c", &line])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(question.as_bytes());
    }
    child.wait_with_output().ok()
}

/// The command of our hook in the settings.
fn written(agent: Agent, text: &str) -> Option<String> {
    fn find(json: &Json, agent: Agent) -> Option<String> {
        match json {
            Json::Plain(value) => value
                .as_str()
                .filter(|text| is_own_line(agent, text))
                .map(str::to_owned),
            Json::List(items) => items.iter().find_map(|item| find(item, agent)),
            Json::Object(fields) => fields.iter().find_map(|(_, value)| find(value, agent)),
        }
    }
    find(&serde_json::from_str(text).ok()?, agent)
}

/// By what our own entry is known.
pub fn mark(agent: Agent) -> String {
    format!(" hook {} ", agent.name())
}

/// This very program, by its path.
fn own() -> Result<String, Error> {
    let own = std::env::current_exe().map_err(|error| Error::Stream { error })?;
    Ok(own.to_string_lossy().into_owned())
}

fn with(agent: Agent, settings: &mut Json, file: &Path) -> Result<(), Error> {
    // A program that is gone, or dies, is a no as well; one without a reason is none to some.
    let command = format!(
        "{}{}|| {{ echo '{SAID}' >&2; exit 2; }}",
        shell_words::quote(&own()?),
        mark(agent)
    );
    // Cursor puts the question behind it, as a text of the shell's: for all of it, not its end.
    let command = match agent {
        Agent::Cursor => format!("{{ {command}; }}"),
        _ => command,
    };
    let odd = || Error::Settings {
        path: file.to_owned(),
        why: "`hooks` is not where or what it should be".to_owned(),
    };
    if agent == Agent::Cursor {
        settings.field("version", Json::from(json!(1)));
    }
    let hooks = settings.field("hooks", Json::object()).ok_or_else(odd)?;
    for (event, matcher) in agent.events() {
        let list = hooks
            .field(event, Json::List(Vec::new()))
            .and_then(Json::items)
            .ok_or_else(odd)?;
        let entry = match (agent, matcher) {
            (Agent::Cursor, _) => {
                json!({ "command": command, "failClosed": true, "timeout": PATIENCE })
            }
            (Agent::Gemini, matcher) => json!({
                "matcher": matcher,
                "hooks": [{
                    "name": "sjail",
                    "type": "command",
                    "command": command,
                    "timeout": PATIENCE * 1000,
                }],
            }),
            (Agent::ClaudeCode, matcher) => json!({
                "matcher": matcher,
                "hooks": [{
                    "type": "command",
                    "command": command,
                    "timeout": PATIENCE,
                    // Also one that takes too long is a no: for 2.1.327, not yet for 2.1.197.
                    "onFailure": "block",
                }],
            }),
            (_, matcher) => json!({
                "matcher": matcher,
                "hooks": [{ "type": "command", "command": command, "timeout": PATIENCE }],
            }),
        };
        list.push(Json::from(entry));
    }
    Ok(())
}

/// Takes every entry of ours out; whether there was any. What stands beside one stays, also
/// where it is nothing.
fn without(agent: Agent, settings: &mut Json) -> bool {
    let Json::Object(fields) = settings else {
        return false;
    };
    let Some((_, Json::Object(events))) = fields.iter_mut().find(|(name, _)| name == "hooks")
    else {
        return false;
    };
    let mut found = false;
    events.retain_mut(|(_, list)| match list.items() {
        Some(items) => {
            let left = drop_ours(agent, items);
            found |= left != Left::AsItWas;
            left != Left::Nothing
        }
        None => true,
    });
    if found {
        fields.retain(|(name, value)| name != "hooks" || *value != Json::object());
    }
    found
}

/// What is left of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    AsItWas,
    Some,
    Nothing,
}

/// Takes our entries out of a list, and out of the lists that those in it have.
fn drop_ours(agent: Agent, items: &mut Vec<Json>) -> Left {
    let mut found = false;
    items.retain_mut(|item| {
        if is_own(agent, item) {
            found = true;
            return false;
        }
        let Json::Object(fields) = item else {
            return true;
        };
        let inner = fields.iter_mut().find(|(name, _)| name == "hooks");
        let Some(inner) = inner.and_then(|(_, list)| list.items()) else {
            return true;
        };
        let left = drop_ours(agent, inner);
        found |= left != Left::AsItWas;
        left != Left::Nothing
    });
    match (found, items.is_empty()) {
        (false, _) => Left::AsItWas,
        (true, false) => Left::Some,
        (true, true) => Left::Nothing,
    }
}

/// Whether it is an entry of ours.
fn is_own(agent: Agent, entry: &Json) -> bool {
    let Json::Object(fields) = entry else {
        return false;
    };
    fields.iter().any(|(name, value)| match value {
        Json::Plain(value) if name == "command" => {
            value.as_str().is_some_and(|line| is_own_line(agent, line))
        }
        _ => false,
    })
}

/// Whether a hook's line is ours: others have programs that are called in a like way.
fn is_own_line(agent: Agent, line: &str) -> bool {
    let Some((program, _)) = line.split_once(&mark(agent)) else {
        return false;
    };
    let program = program.trim_end_matches(['\'', '"']);
    line.contains(SAID) || program.ends_with("/sjail") || matches!(program, "sjail" | "{ sjail")
}

fn parsed(file: &Path, text: Option<&str>) -> Result<Json, Error> {
    let text = match text {
        None => return Ok(Json::object()),
        Some(text) if text.trim().is_empty() => return Ok(Json::object()),
        Some(text) => text,
    };
    let wrong = |why: String| Error::Settings {
        path: file.to_owned(),
        why,
    };
    match serde_json::from_str(text) {
        Ok(settings @ Json::Object(_)) => Ok(settings),
        Ok(_) => Err(wrong("it holds no JSON object".to_owned())),
        Err(error) => Err(wrong(format!("it is no plain JSON ({error})"))),
    }
}

fn pretty(settings: &Json) -> String {
    let text = serde_json::to_string_pretty(settings).unwrap_or_default();
    format!("{text}\n")
}

fn read(file: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::Settings {
            path: file.to_owned(),
            why: error.to_string(),
        }),
    }
}

pub fn shown(path: &Path) -> String {
    inert(path.as_os_str().as_encoded_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn in_and_out_again_leaves_what_was_there() {
        for agent in [Agent::ClaudeCode, Agent::Codex, Agent::Gemini] {
            let text = r#"{"z":1,"hooks":{"PreToolUse":[{"matcher":"X","hooks":[]}]},"a":2}"#;
            let before: Json = serde_json::from_str(text).unwrap();
            let mut settings = before.clone();
            with(agent, &mut settings, Path::new("/x")).unwrap();
            assert_ne!(settings, before);
            let once = settings.clone();
            without(agent, &mut settings);
            assert_eq!(settings, before);
            with(agent, &mut settings, Path::new("/x")).unwrap();
            assert_eq!(settings, once);
        }
    }

    /// Entries of other tools: beside ours in one list, in one entry, called in a like way.
    #[test]
    fn neighbours_stay() {
        for (agent, inner) in [
            (Agent::ClaudeCode, "claude-code"),
            (Agent::Codex, "codex"),
            (Agent::Gemini, "gemini"),
            (Agent::Cursor, "cursor"),
        ] {
            let theirs = format!(r#"{{"type":"command","command":"guard hook {inner} --strict"}}"#);
            let ours = format!(
                r#"{{"type":"command","command":"/usr/bin/sjail hook {inner} || exit 2"}}"#
            );
            let group = |hooks: &str| format!(r#"{{"matcher":"Bash","hooks":[{hooks}]}}"#);
            let both = format!("{theirs},{ours},{theirs}");
            let settings = |entries: &str| {
                let text =
                    format!(r#"{{"a":1,"hooks":{{"PreToolUse":[{entries}],"Stop":[]}},"z":2}}"#);
                serde_json::from_str::<Json>(&text).unwrap()
            };
            let mut mixed = settings(&format!("{},{both}", group(&both)));
            assert!(without(agent, &mut mixed));
            let left = format!("{theirs},{theirs}");
            assert_eq!(
                mixed,
                settings(&format!("{},{left}", group(&left))),
                "{inner}"
            );
            let before = settings(&format!("{},{theirs}", group(&theirs)));
            let mut changed = before.clone();
            assert!(!without(agent, &mut changed));
            with(agent, &mut changed, Path::new("/x")).unwrap();
            assert!(without(agent, &mut changed));
            let Json::Object(fields) = &mut changed else {
                unreachable!()
            };
            // Cursor's settings have a version, which stays.
            fields.retain(|(name, _)| name != "version");
            assert_eq!(changed, before, "{inner}");
        }
    }
}
