//! `sjail check`: what would happen to a command or a path, without touching either.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};
use sjail_policy::access::{PathDecision, decide_path, decide_pattern};
use sjail_policy::check::{Answer, human};
use sjail_policy::classify::{Classification, Context};
use sjail_policy::config::CommandLine;
use sjail_policy::decide::{Action, Asking, Decision};
use sjail_policy::rule::Operation;
use sjail_policy::show::{inert, inert_json};
use sjail_policy::wire::request::Refused;

use super::{Failure, print, print_json, read};
use crate::caller::Account;
use crate::error::Error;
use crate::exit::Exit;
use crate::judge::{Judge, Typed};
use crate::refused;

/// Says what would happen to a command or a path.
///
/// Exit status 0: it would run; 75: somebody would be asked; 77: it would be blocked or refused.
#[derive(Debug, Parser)]
#[command(
    name = "sjail check",
    bin_name = "sjail check",
    override_usage = "sjail check [OPTIONS] 'SHELL LINE'\n       sjail check [OPTIONS] -- PROGRAM [ARG]...\n       sjail check --path PATH --op read|write|edit\n       sjail check --jsonl < COMMANDS"
)]
pub struct CheckArgs {
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    /// Read one JSON object with `command` a line, print one answer a line, in order
    #[arg(long, conflicts_with_all = ["line", "command", "path"])]
    jsonl: bool,
    /// Ask about a path instead of a command
    #[arg(long, value_name = "PATH", conflicts_with_all = ["line", "command"])]
    path: Option<OsString>,
    /// What is to be done with the path
    #[arg(
        long,
        value_name = "read|write|edit",
        value_enum,
        requires = "path",
        hide_possible_values = true
    )]
    op: Option<Op>,
    /// Say no to a line with any other command in it; can be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "path")]
    only: Vec<String>,
    /// Have a no to a path written down, as this agent's
    #[arg(long, value_name = "AGENT", requires = "path", hide = true)]
    recorded_for: Option<String>,
    /// The session of that agent
    #[arg(long, value_name = "ID", requires = "recorded_for", hide = true)]
    session: Option<String>,
    /// The project folder
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// What the policy says of it, even if nobody could give it what it needs (`sandbox-check`)
    #[arg(long, hide = true)]
    by_policy: bool,
    /// A line for the shell
    #[arg(value_name = "SHELL LINE", conflicts_with = "command")]
    line: Option<OsString>,
    /// A program and its arguments
    #[arg(last = true, value_name = "PROGRAM [ARG]...")]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Op {
    Read,
    Write,
    Edit,
}

/// Checks, and gives the exit status.
pub fn run(words: &[OsString]) -> Result<u8, Failure> {
    let args: CheckArgs = read(words)?;
    let account = Account::own();
    let judge = Judge::here(&account, args.workspace.as_deref(), CommandLine::default())?
        .with_only(&args.only);
    if args.jsonl {
        return each_line(&judge.with_kept(&account));
    }
    if let Some(path) = &args.path {
        let operation = match args.op {
            None | Some(Op::Read) => Operation::Read,
            Some(Op::Write) => Operation::Write,
            Some(Op::Edit) => Operation::Edit,
        };
        let decision = path_decision(&judge, path, operation)?;
        if let (Some(agent), true) = (args.recorded_for, decision.action != Action::Execute) {
            refused::tell(&Refused {
                agent: Some(agent),
                session: args.session,
                cwd: judge.context.cwd.as_str().into(),
                tool: operation.name().to_owned(),
                act: format!("{} {}", operation.name(), inert(decision.path.as_bytes())),
                rule: decision.rule.to_string(),
            });
        }
        match args.json {
            true => print_json(&PathAnswer::of(&decision)),
            false => print(&path_text(&decision)),
        }
        return Ok(status(decision.action));
    }
    let typed = match args.line {
        Some(line) => Typed::Line(line),
        None if args.command.is_empty() => return Err(Error::NothingToCheck.into()),
        None => Typed::Argv(args.command),
    };
    let judge = judge.with_kept(&account);
    let (line, decision) = judge.foresee(&typed, &judge.context, Asking::Policy);
    let refused = judge.refusal(&typed, &judge.context, &line, &decision);
    if !args.json {
        print(&human(&typed.line(), &decision, refused.as_deref()));
    } else if args.by_policy {
        print_json(&Answer {
            refused,
            ..Answer::new(&typed.line(), &line, &decision)
        });
        return Ok(status(decision.action));
    } else {
        print_json(&whole_answer(&typed, &line, &decision, refused.clone()));
    }
    Ok(match refused {
        Some(_) => Exit::Blocked.code(),
        None => status(decision.action),
    })
}

fn whole_answer(
    typed: &Typed,
    line: &Classification,
    decision: &Decision,
    refused: Option<String>,
) -> Answer {
    let answer = Answer::new(&typed.line(), line, decision);
    match refused {
        Some(why) => answer.refused(why),
        None => answer,
    }
}

fn status(action: Action) -> u8 {
    match action {
        Action::Execute => Exit::Success.code(),
        Action::Ask => Exit::Pending.code(),
        Action::Block => Exit::Blocked.code(),
    }
}

/// The longest line of `--jsonl` that is read; one of more gets an answer that says so.
const LONGEST: u64 = 4 << 20;

/// One line of `--jsonl`.
#[derive(Debug, Deserialize)]
struct Question {
    command: String,
    #[serde(default, alias = "working_dir")]
    cwd: Option<String>,
    #[serde(default)]
    context: Surroundings,
}

/// The shape in which other callers say where a command would run.
#[derive(Debug, Default, Deserialize)]
struct Surroundings {
    #[serde(default)]
    working_dir: Option<String>,
    #[serde(default)]
    user: Option<String>,
}

/// The answer to a line that is no question: never a pass.
#[derive(Debug, Serialize)]
struct NoAnswer {
    command: Option<String>,
    risk_level: &'static str,
    risk_reasons: [&'static str; 1],
    requires_approval: bool,
    suggested_action: &'static str,
    error: String,
}

fn each_line(judge: &Judge) -> Result<u8, Failure> {
    let failed = |error| Error::Stream { error };
    let mut input = std::io::stdin().lock();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = input
            .by_ref()
            .take(LONGEST)
            .read_until(b'\n', &mut line)
            .map_err(failed)?;
        if count == 0 {
            break;
        }
        let whole = line.ends_with(b"\n") || count < LONGEST as usize;
        if !whole {
            skip_line(&mut input).map_err(failed)?;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let answer = match whole {
            true => answer(judge, &line),
            false => no_answer(format!("the line is longer than {LONGEST} bytes")),
        };
        // Whoever stops reading wants no more answers.
        let written = out
            .write_all(answer.as_bytes())
            .and_then(|()| out.write_all(b"\n"));
        // Answers must not wait for further questions: the asker may be waiting for them.
        let flushed = written.and_then(|()| {
            if input_is_waiting(&mut input) {
                Ok(())
            } else {
                out.flush()
            }
        });
        match flushed {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            other => other.map_err(failed)?,
        }
    }
    let _ = out.flush();
    Ok(Exit::Success.code())
}

/// Whether more input has been read already.
fn input_is_waiting(input: &mut std::io::StdinLock<'_>) -> bool {
    // Only what is in the buffer: looking further would wait.
    nix::poll::poll(
        &mut [nix::poll::PollFd::new(
            std::os::fd::AsFd::as_fd(input),
            nix::poll::PollFlags::POLLIN,
        )],
        nix::poll::PollTimeout::ZERO,
    )
    .is_ok_and(|ready| ready > 0)
}

fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                input.consume(at + 1);
                return Ok(());
            }
            None => {
                let length = buffer.len();
                input.consume(length);
            }
        }
    }
}

fn answer(judge: &Judge, line: &[u8]) -> String {
    let question: Question = match serde_json::from_slice(line) {
        Ok(question) => question,
        Err(error) => return no_answer(error.to_string()),
    };
    let mut context = judge.context.clone();
    let cwd = question.cwd.or(question.context.working_dir);
    if let Some(cwd) = cwd {
        if !Path::new(&cwd).is_absolute() {
            return no_answer("the working directory is not an absolute path".to_owned());
        }
        context.cwd = cwd;
    }
    if let Some(user) = question.context.user {
        context.user = user;
    }
    answer_in(judge, &context, question.command)
}

fn answer_in(judge: &Judge, context: &Context, command: String) -> String {
    let typed = Typed::Line(command.into());
    let (line, decision) = judge.foresee(&typed, context, Asking::Policy);
    let refused = judge.refusal(&typed, context, &line, &decision);
    match serde_json::to_string(&whole_answer(&typed, &line, &decision, refused)) {
        Ok(text) => inert_json(&text),
        Err(error) => no_answer(error.to_string()),
    }
}

fn no_answer(error: String) -> String {
    let answer = NoAnswer {
        command: None,
        risk_level: "dangerous",
        risk_reasons: ["The question was not understood"],
        requires_approval: true,
        suggested_action: "queue_for_approval",
        error: inert(error.as_bytes()),
    };
    serde_json::to_string(&answer).unwrap_or_default()
}

/// The stricter of what is said about the path as typed and about where it leads.
pub fn path_decision(
    judge: &Judge,
    typed: &OsString,
    operation: Operation,
) -> Result<PathDecision, Error> {
    let decision = |path: &[u8]| decide_path(&judge.loaded.policy, path, operation, judge.bases());
    let full = full(typed)?;
    let named = decision(&full);
    // By name `..` takes the last part away, in the file system it leads out of where that leads.
    let as_typed = match full.starts_with(b"~") {
        true => named.path.as_path().to_owned(),
        false => PathBuf::from(OsString::from_vec(full)),
    };
    // A path that never ends could be anything's.
    let led = resolved(&as_typed).unwrap_or_else(|| PathBuf::from("/"));
    let led = decision(led.as_os_str().as_bytes());
    Ok(match led.action > named.action {
        true => led,
        false => named,
    })
}

/// What is said about what a tool could find by a pattern, as typed and from where its folders
/// lead.
pub fn pattern_decision(judge: &Judge, typed: &OsString) -> Result<Option<PathDecision>, Error> {
    let decision = |path: &[u8]| decide_pattern(&judge.loaded.policy, path, judge.bases());
    let full = full(typed)?;
    let named = decision(&full);
    let path = PathBuf::from(OsString::from_vec(full));
    let is_plain = |part: &OsStr| !part.as_bytes().iter().any(|byte| b"*?[~(".contains(byte));
    let plain: PathBuf = path.iter().take_while(|part| is_plain(part)).collect();
    let rest = path.strip_prefix(&plain).unwrap_or(Path::new(""));
    let led = match plain.is_absolute() {
        true => {
            let led = resolved(&plain).unwrap_or_else(|| PathBuf::from("/"));
            decision(led.join(rest).as_os_str().as_bytes())
        }
        false => None,
    };
    Ok(match (named, led) {
        (Some(named), Some(led)) if led.action > named.action => Some(led),
        (named, led) => named.or(led),
    })
}

/// A path from the root, or from a home.
fn full(typed: &OsString) -> Result<Vec<u8>, Error> {
    let bytes = typed.as_bytes();
    if bytes.starts_with(b"~") || bytes.starts_with(b"/") {
        return Ok(bytes.to_vec());
    }
    let cwd = nix::unistd::getcwd().map_err(|errno| Error::Cwd { errno })?;
    Ok(cwd.join(typed).into_os_string().into_vec())
}

/// Where a path leads, every link on the way followed, whether something is there or not: a
/// link that leads nowhere is made real by writing. `None` for one that goes on for ever.
fn resolved(path: &Path) -> Option<PathBuf> {
    const MOST_LINKS: usize = 40;
    let mut links = 0;
    let mut at = PathBuf::from("/");
    let mut left: Vec<OsString> = parts(path);
    while let Some(part) = left.pop() {
        match part.as_bytes() {
            b"/" => at = PathBuf::from("/"),
            b"." => {}
            b".." => {
                at.pop();
            }
            _ => {
                at.push(&part);
                if let Ok(target) = std::fs::read_link(&at) {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    at.pop();
                    left.extend(parts(&target));
                }
            }
        }
    }
    Some(at)
}

/// The parts of a path, the last first.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

#[derive(Debug, Serialize)]
struct PathAnswer<'a> {
    path: String,
    operation: &'static str,
    allowed: bool,
    requires_approval: bool,
    suggested_action: &'static str,
    rule: String,
    decided_by: &'a sjail_policy::decide::DecidedBy,
}

impl<'a> PathAnswer<'a> {
    fn of(decision: &'a PathDecision) -> Self {
        Self {
            path: String::from_utf8_lossy(decision.path.as_bytes()).into_owned(),
            operation: decision.operation.name(),
            allowed: decision.action == Action::Execute,
            requires_approval: decision.action == Action::Ask,
            suggested_action: decision.action.suggested(),
            rule: decision.rule.to_string(),
            decided_by: &decision.rule,
        }
    }
}

fn path_text(decision: &PathDecision) -> String {
    let outcome = match decision.action {
        Action::Execute => "allowed",
        Action::Ask => "would ask",
        Action::Block => "blocked",
    };
    format!(
        "{} {}: {outcome}, by {}\n",
        decision.operation.name(),
        inert(decision.path.as_bytes()),
        decision.rule
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;
    use clap::CommandFactory;

    #[test]
    fn links_are_followed_to_their_end() {
        let folder = tempfile::tempdir().unwrap();
        let top = std::fs::canonicalize(folder.path()).unwrap();
        let at = |name: &str| top.join(name);
        std::fs::create_dir_all(at("home/deep")).unwrap();
        symlink("home", at("l")).unwrap();
        symlink("l/.bash_aliases", at("notes.md")).unwrap();
        symlink("l/autostart", at("dir")).unwrap();
        symlink("home/deep", at("l2")).unwrap();
        symlink("round", at("round")).unwrap();
        let led = |name: &str| resolved(&at(name));
        assert_eq!(led("notes.md"), Some(at("home/.bash_aliases")));
        assert_eq!(led("dir/x.desktop"), Some(at("home/autostart/x.desktop")));
        assert_eq!(led("l2/../evil"), Some(at("home/evil")));
        assert_eq!(led("new/file"), Some(at("new/file")));
        assert_eq!(led("round/x"), None);
    }

    #[test]
    fn the_flags_are_consistent() {
        CheckArgs::command().debug_assert();
    }
}
