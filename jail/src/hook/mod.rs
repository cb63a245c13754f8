//! `sjail hook`: the gate that coding agents call before they use a tool.
//!
//! [`question`] reads what the agent is about to do, [`verdict`] asks the policy, and
//! [`answer`] says it in the agent's own form. A shell command that may run is rewritten so
//! that it runs in the jail. Whatever goes wrong on the way is a no. [`settings`] puts the
//! gate into an agent's settings and takes it out again.

mod agent;
mod answer;
mod change;
mod json;
mod line;
mod named;
mod pattern;
mod question;
mod record;
mod scratch;
mod settings;
mod trusted;
mod verdict;

use std::ffi::OsString;
use std::io::{Read, Write};

use clap::{Parser, Subcommand};

use crate::cmd::{Failure, read};
use crate::exit::Exit;
use agent::Agent;

/// Answers an agent that asks before it uses a tool.
///
/// The agent's JSON comes on standard input, the answer goes to standard output; whatever
/// goes wrong is a no. A shell line that may run is rewritten so that it runs in the jail.
#[derive(Debug, Parser)]
#[command(
    name = "sjail hook",
    bin_name = "sjail hook",
    override_usage = "sjail hook AGENT\n       sjail hook install|uninstall|status AGENT"
)]
pub struct HookArgs {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Answer Claude Code's PreToolUse
    ClaudeCode,
    /// Answer Codex's PreToolUse
    Codex,
    /// Answer Gemini CLI's BeforeTool
    Gemini,
    /// Answer Cursor's beforeShellExecution, beforeReadFile and preToolUse
    Cursor,
    /// Answer OpenCode's plugin
    Opencode,
    /// Answer `{}` to let it run, or `{"decision":"block","reason":…}`
    Plain {
        /// Say no to a line with any other command in it; can be repeated
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
    },
    /// Put the hook into an agent's settings
    Install {
        /// Whose
        agent: Agent,
        /// Do it without asking
        #[arg(long)]
        yes: bool,
    },
    /// Take the hook out of an agent's settings
    Uninstall {
        /// Whose
        agent: Agent,
        /// Do it without asking
        #[arg(long)]
        yes: bool,
    },
    /// Say whether the hook is in an agent's settings, and try it with a harmful command
    Status {
        /// Whose; all if it is not given
        agent: Option<Agent>,
    },
}

/// The exit status that every agent takes for a no.
const NO: u8 = 2;
/// More than this is no question of an agent's.
const LONGEST: u64 = 16 << 20;

/// Does it, and gives the exit status.
pub fn run(words: &[OsString]) -> Result<u8, Failure> {
    let args: HookArgs = read(words)?;
    let mut only = Vec::new();
    let agent = match args.act {
        Act::ClaudeCode => Agent::ClaudeCode,
        Act::Codex => Agent::Codex,
        Act::Gemini => Agent::Gemini,
        Act::Cursor => Agent::Cursor,
        Act::Opencode => Agent::Opencode,
        Act::Plain { only: names } => {
            only = names;
            Agent::Plain
        }
        Act::Install { agent, yes } => return settings::install(agent, yes),
        Act::Uninstall { agent, yes } => return settings::uninstall(agent, yes),
        Act::Status { agent } => return settings::status(agent),
    };
    Ok(match answered(agent, &only).and_then(|text| told(&text)) {
        Ok(()) => Exit::Success.code(),
        // Said on standard error, as every agent reads it with this status.
        Err(why) => {
            crate::report::say(&format!(
                "not allowed, because it could not be judged: {why}"
            ));
            NO
        }
    })
}

/// Prints the answer: one that nobody can read is a no, not silence.
fn told(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|error| format!("the answer cannot be written: {error}"))
}

/// The answer to the question on standard input; an error is a no.
fn answered(agent: Agent, only: &[String]) -> Result<String, String> {
    let mut text = Vec::new();
    std::io::stdin()
        .lock()
        .take(LONGEST + 1)
        .read_to_end(&mut text)
        .map_err(|error| format!("the question cannot be read: {error}"))?;
    if text.len() as u64 > LONGEST {
        return Err(format!("the question is longer than {LONGEST} bytes"));
    }
    let question = question::read(agent, &text)?;
    let verdict = verdict::of(agent, &question, only)?;
    Ok(answer::written(agent, &question, &verdict).to_string())
}
