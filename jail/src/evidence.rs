//! Evidence: what a command would do, found out in a preview and shown to whoever is asked
//! about it; and keeping exactly that, where they say so.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{close, dup2_stderr, dup2_stdin, dup2_stdout, pipe2};
use serde_json::{Value, json};
use sjail_policy::show::clipped;
use sjail_policy::wire::request::{ATTACH, Apply, Attach, Waiting};

use crate::caller::State;
use crate::cli::RunArgs;
use crate::client::Client;
use crate::error::Error;
use crate::outcome::Outcome;
use crate::output::Captured;
use crate::permission::Permission;
use crate::preview::commit::{self, Choice};
use crate::preview::entry::Entry;
use crate::preview::ground::Force;
use crate::preview::record::{self, Record};
use crate::preview::store::{self, Store};
use crate::preview::{self, reach, show};
use crate::protect::{self, Protection};
use crate::report::Report;
use crate::result::{Output, Usage};
use crate::run;
use crate::sys::{namespace, process};

/// A command is tried out for so long; nobody waits longer to be asked,
const TRIED: &str = "30s";
/// and whoever does not want to wait at all waits this long.
const TRIED_IN_PASSING: &str = "10s";
/// The evidence has so many lines, each of so many characters.
const LINES: usize = 50;
const WIDTH: usize = 400;
/// More than a result object has.
const RESULT: u64 = 64 << 20;
/// What the command said in the preview, beside the layers.
const OUTPUT: &str = "output.json";

/// Where evidence comes from.
#[derive(Debug)]
pub enum Source<'a> {
    /// There is none to be had.
    Nothing,
    /// The command is run in a preview of its own.
    Command {
        /// What was typed.
        args: &'a RunArgs,
        /// Where previews are.
        state: PathBuf,
    },
    /// A preview that has been made.
    Made {
        /// Its folder.
        folder: &'a Path,
        /// What is written down of it.
        record: &'a Record,
    },
}

/// A preview that was made for a question alone.
#[derive(Debug)]
pub struct Tried {
    state: PathBuf,
    id: String,
}

impl Tried {
    /// Nobody wants to keep it.
    pub fn drop_it(self) {
        if let Ok((held, _)) = Store::new(&self.state).take(&self.id) {
            store::remove(&held);
        }
    }
}

impl Source<'_> {
    /// Whether the command can be tried out, now or later.
    pub fn can_try(&self) -> bool {
        matches!(self, Source::Command { .. })
    }

    /// Finds out what there is to see and lays it before whoever is asked. An answer that
    /// comes first ends it. Whoever waits hears of it.
    pub fn lay_out(
        &self,
        waiting: &Waiting,
        asked: &Client,
        heard: Option<&Report>,
    ) -> Option<Tried> {
        let say = |text: &str| {
            if let Some(report) = heard {
                report.note(text);
            }
        };
        if !waiting.wants_preview {
            return None;
        }
        let (evidence, tried) = match self {
            Source::Nothing => return None,
            Source::Made { folder, record } => (evidence(folder, record, None), None),
            Source::Command { args, state } => {
                say("trying it out in a preview, for whoever is asked");
                let result = try_out(args, asked)?;
                found(&result, state)
            }
        };
        if let Some(summary) = evidence["summary"].as_str() {
            say(&format!("in a preview it {summary}"));
        }
        let attach = Attach {
            id: waiting.id.clone(),
            evidence,
        };
        // Who has answered meanwhile needs it no more.
        let _ = Client::connect(asked.desk()).map(|mut client| client.call(ATTACH, &attach));
        tried
    }
}

/// Runs the command once in a preview, in a process of its own; its result object.
fn try_out(args: &RunArgs, asked: &Client) -> Option<Value> {
    let inner = RunArgs {
        dry_run: true,
        diff: false,
        json: true,
        quiet: true,
        trace: false,
        status_fd: None,
        require_approval: false,
        wait: None,
        no_wait: true,
        approval: None,
        timeout: Some(shorter(args)),
        ..args.clone()
    };
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).ok()?;
    let nothing = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .ok()?;
    let child = namespace::apart(|| {
        // It ends with us, and is not its own reader.
        let redirected = process::die_with_parent()
            .and_then(|()| close(reader.as_raw_fd()))
            .and_then(|()| dup2_stdin(&nothing))
            .and_then(|()| dup2_stdout(&writer))
            .and_then(|()| dup2_stderr(&nothing));
        match redirected {
            Ok(()) => i32::from(run::run(&inner)),
            Err(_) => 1,
        }
    })
    .ok()?;
    drop(writer);
    let result = read_unless_answered(reader, asked);
    if result.is_none() {
        let _ = kill(child, Signal::SIGTERM);
    }
    let _ = waitpid(child, None);
    serde_json::from_slice(&result?).ok()
}

/// The shorter of what was typed and what is waited.
fn shorter(args: &RunArgs) -> std::ffi::OsString {
    let most = match args.no_wait {
        true => TRIED_IN_PASSING,
        false => TRIED,
    };
    let millis = |text: &str| {
        text.parse::<sjail_policy::duration::Duration>()
            .map(|time| time.millis())
            .ok()
    };
    let typed = args.timeout.as_deref().and_then(|text| text.to_str());
    match typed.filter(|text| millis(text) < millis(most)) {
        Some(text) => text.into(),
        None => most.into(),
    }
}

fn read_unless_answered(reader: OwnedFd, asked: &Client) -> Option<Vec<u8>> {
    let mut file = File::from(reader).take(RESULT);
    let (mut all, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let mut wait = [
            PollFd::new(file.get_ref().as_fd(), PollFlags::POLLIN),
            PollFd::new(asked.stream().as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut wait, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => continue,
            Err(_) => return None,
            Ok(_) => {}
        }
        let [own, other] = wait.map(|one| one.any().unwrap_or(true));
        if other {
            return None;
        }
        if own {
            match file.read(&mut chunk).ok()? {
                0 => return Some(all),
                length => all.extend_from_slice(chunk.get(..length).unwrap_or_default()),
            }
        }
    }
}

/// The evidence in a result object, and the preview that it comes from.
fn found(result: &Value, state: &Path) -> (Value, Option<Tried>) {
    let id = result["preview"]["id"].as_str().unwrap_or_default();
    let (folder, record) = match Store::new(state).find(id) {
        Ok(found) => found,
        Err(_) => {
            let why = result["reason"].as_str().unwrap_or("it has left no trace");
            let summary = format!("could not be tried out: {}", clipped(why.as_bytes(), WIDTH));
            return (json!({ "summary": summary }), None);
        }
    };
    let said = json!({ "stdout": result["stdout"], "stderr": result["stderr"] });
    let _ = record::write_whole(&folder.join(OUTPUT), said.to_string().as_bytes());
    let ended = match result["status"].as_str() {
        Some("completed") => None,
        Some("timed_out") => Some("it had not ended by then".to_owned()),
        other => Some(format!("it ended early ({})", other.unwrap_or("unknown"))),
    };
    let tried = Tried {
        state: state.to_owned(),
        id: record.id.clone(),
    };
    (evidence(&folder, &record, ended), Some(tried))
}

/// What a preview showed, for whoever is asked. Only what has come to its end can be kept,
/// and only if there is something that may be.
fn evidence(folder: &Path, record: &Record, unfinished: Option<String>) -> Value {
    let mut summary = show::brief(&record.totals);
    if record.exit_code != 0 {
        summary.push_str(&format!(", and exits with {}", record.exit_code));
    }
    if let Some(why) = &unfinished {
        summary.push_str(&format!("; {why}"));
    }
    let entries = || record::entries(folder).into_iter().flatten();
    // No answer lets a jail write a protected name: whoever is asked must know that.
    let protected = record.totals.kept_out > 0;
    let stays = |entry: Entry| entry.is_shown() && entry.kept_out.is_none();
    let nothing_stays = protected && !entries().any(|entry| entry.map_or(true, stays));
    let mut notes = record.notes.clone();
    if nothing_stays {
        summary.push_str("; even after a yes all of it goes to quarantine");
    } else if protected {
        notes.insert(
            0,
            "what is protected goes to quarantine even after a yes".to_owned(),
        );
    }
    let lines = show::lines(record, entries(), LINES);
    let clip = |line: &String| clipped(line.as_bytes(), WIDTH);
    let mut evidence = json!({
        "summary": summary,
        "exit_code": record.exit_code,
        "totals": record.totals,
        "changes": lines.iter().map(clip).collect::<Vec<_>>(),
        "notes": notes.iter().take(LINES).map(clip).collect::<Vec<_>>(),
    });
    if unfinished.is_none()
        && !nothing_stays
        && let Ok(digest) = record::digest(folder)
    {
        evidence["preview"] = json!(record.id);
        evidence["digest"] = json!(digest);
    }
    evidence
}

/// Whether what was said goes to our own streams or into the result object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// To the streams.
    Aloud,
    /// Into the object.
    Kept,
}

/// Keeps what a preview showed in place of running the command: exactly that, and as long
/// as the host is still what the preview saw.
pub fn apply(
    apply: &Apply,
    permission: &mut Permission,
    state: &Path,
    said: Said,
    report: &mut Report,
) -> Result<Outcome, Error> {
    permission.confirm()?;
    let (held, mut record) = Store::new(state).take(&apply.preview)?;
    if record::digest(held.path()).ok().as_ref() != Some(&apply.digest) {
        return Err(preview::Error::NotAsShown { id: record.id }.into());
    }
    let choice = Choice {
        paths: Vec::new(),
        force: Force::No,
    };
    let workspace = record.workspace.as_path().to_owned();
    let (sandbox, id) = (State::at(state).sandbox(&workspace), record.id.clone());
    let (done, findings) = Protection::judged_after(&workspace, (&sandbox, &id), || {
        reach::over_own_files(|| {
            commit::recover(&held, &mut record)?;
            commit::commit(&held, &mut record, &choice, &mut |_, _, _| {})
        })
    });
    report.kept_away(protect::Report::of(findings));
    report.kept(&record, &done?.kept_out);
    Ok(Outcome {
        status: i32::from(record.exit_code) << 8,
        cause: None,
        output: output(held.path(), said),
        tail: Vec::new(),
        duration: Duration::ZERO,
        usage: Usage::default(),
        remains: None,
    })
}

/// What the command said in the preview.
fn output(folder: &Path, said: Said) -> Output {
    let text = std::fs::read(folder.join(OUTPUT)).unwrap_or_default();
    let object: Value = serde_json::from_slice(&text).unwrap_or_default();
    let stream = |name: &str| object[name].as_str().unwrap_or_default().as_bytes();
    if said == Said::Aloud {
        let _ = std::io::stdout().write_all(stream("stdout"));
        let _ = std::io::stdout().flush();
        let _ = std::io::stderr().write_all(stream("stderr"));
        return Output::default();
    }
    let captured = |name: &str| Captured {
        bytes: stream(name).to_vec(),
        truncated: false,
    };
    Output {
        stdout: Some(captured("stdout")),
        stderr: Some(captured("stderr")),
    }
}
