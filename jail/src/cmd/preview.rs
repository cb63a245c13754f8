//! `sjail previews`, `diff`, `commit`, `discard`, `undo`: what becomes of previews.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use sjail_policy::decide::Action;
use sjail_policy::show::{clipped, inert};
use sjail_policy::wire::request::Outcome as Told;

use super::{Failure, print, print_json, read};
use crate::caller::{Account, State as Folders};
use crate::cli::RunArgs;
use crate::client::Desk;
use crate::evidence::Source;
use crate::exit::Exit;
use crate::permission::{self, Permission, Wish};
use crate::preview::commit::{self, Choice, Done, Phase};
use crate::preview::ground::Force;
use crate::preview::reach;
use crate::preview::record::{self, Record, State};
use crate::preview::show::{self, Ink, grouped};
use crate::preview::store::{self, Store};
use crate::preview::{Error, diff};
use crate::protect::{Protection, finding};
use crate::report::Report;
use crate::request;

/// What each of these commands reads its words with, for the manual.
#[cfg(feature = "manual")]
pub fn commands() -> [(&'static str, clap::Command); 5] {
    use clap::CommandFactory;
    [
        ("previews", ListArgs::command()),
        ("diff", DiffArgs::command()),
        ("commit", CommitArgs::command()),
        ("undo", UndoArgs::command()),
        ("discard", DiscardArgs::command()),
    ]
}

/// Show the previews that are kept.
#[derive(Debug, Parser)]
#[command(name = "sjail previews", bin_name = "sjail previews")]
struct ListArgs {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Show what a preview would change, line by line.
#[derive(Debug, Parser)]
#[command(name = "sjail diff", bin_name = "sjail diff")]
struct DiffArgs {
    /// The preview's id
    id: String,
    /// Only this path and what is below it
    paths: Vec<PathBuf>,
    /// Print the changes as JSON, one object per line
    #[arg(long)]
    json: bool,
    /// The summary instead of the lines
    #[arg(long)]
    stat: bool,
}

/// Apply what a preview showed, exactly.
#[derive(Debug, Parser)]
#[command(name = "sjail commit", bin_name = "sjail commit")]
struct CommitArgs {
    /// The preview's id
    id: String,
    /// Only these paths and what is below them
    paths: Vec<PathBuf>,
    /// Write over what has changed on the host since
    #[arg(long)]
    force: bool,
    /// Do not wait for an approval, where one is needed
    #[arg(long, conflicts_with = "approval")]
    no_wait: bool,
    /// The approval to commit under
    #[arg(long, value_name = "ID")]
    approval: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Drop a preview.
#[derive(Debug, Parser)]
#[command(name = "sjail discard", bin_name = "sjail discard")]
struct DiscardArgs {
    /// The preview's id
    id: String,
    /// Even if a commit of it is only half done
    #[arg(long)]
    force: bool,
}

/// Take a commit back.
#[derive(Debug, Parser)]
#[command(name = "sjail undo", bin_name = "sjail undo")]
struct UndoArgs {
    /// The preview's id
    id: String,
    /// Even if the host has changed since
    #[arg(long)]
    force: bool,
}

/// So much of a command is listed.
const COMMAND: usize = 200;

fn store() -> Store {
    let store = Store::new(Folders::of(&Account::own()).path());
    store.sweep();
    for note in store.recover() {
        crate::report::say(&note);
    }
    store
}

/// Lists previews.
pub fn list(words: &[OsString]) -> Result<u8, Failure> {
    let args: ListArgs = read(words)?;
    let previews = store().list();
    if args.json {
        let objects: Vec<_> = previews.iter().map(|(_, r)| show::object(r)).collect();
        print_json(&objects);
        return Ok(Exit::Success.code());
    }
    let now = record::now();
    for (_, record) in &previews {
        print(&format!(
            "{}  {:<9}  {}\n    {} ago, kept for {} more  {}\n    {}\n",
            record.id,
            record.state.name(),
            clipped(record.command.as_bytes(), COMMAND),
            show::span(now - record.time),
            show::span(record.kept_until() - now),
            inert(record.workspace.as_bytes()),
            show::numbers(&record.totals),
        ));
    }
    if previews.is_empty() {
        print("there are no previews; `sjail run --dry-run -- PROGRAM` makes one\n");
    }
    Ok(Exit::Success.code())
}

/// Shows one.
pub fn diff(words: &[OsString]) -> Result<u8, Failure> {
    let args: DiffArgs = read(words)?;
    let (folder, record) = store().find(&args.id)?;
    let unreadable = |source| Error::Read {
        id: args.id.clone(),
        source,
    };
    let choice = Choice {
        paths: absolute(&args.paths, &record),
        force: Force::No,
    };
    choice.fits(&folder, &record).map_err(unreadable)??;
    let entries = || -> Result<_, Failure> {
        let (record, choice) = (&record, &choice);
        let all = record::entries(&folder).map_err(unreadable)?;
        Ok(all.filter(move |entry| {
            let Ok(entry) = entry else { return true };
            choice.wants(&record.full(entry))
        }))
    };
    if args.json {
        for entry in entries()? {
            let entry = entry.map_err(unreadable)?;
            print_json(&entry);
        }
        return Ok(Exit::Success.code());
    }
    let ink = Ink::on(&std::io::stdout());
    if args.stat || record.state != State::Pending {
        print(&show::summary(&record, entries()?, ink));
        return Ok(Exit::Success.code());
    }
    let shown = |text: &str| {
        print(text);
        Ok(())
    };
    diff::all(&folder, &record, &choice.paths, ink, shown).map_err(unreadable)?;
    Ok(Exit::Success.code())
}

/// Commits one.
pub fn commit(words: &[OsString]) -> Result<u8, Failure> {
    let args: CommitArgs = read(words)?;
    let (held, mut record) = store().take(&args.id)?;
    if record.state == State::Committed {
        return Err(Error::IsCommitted { id: args.id }.into());
    }
    let choice = Choice {
        paths: absolute(&args.paths, &record),
        force: force(args.force),
    };
    let unreadable = |source| Error::Read {
        id: args.id.clone(),
        source,
    };
    choice.fits(held.path(), &record).map_err(unreadable)??;
    let permission = match record.verdict.action == Action::Execute.name() {
        true => None,
        false => Some(agreed(&args, held.path(), &record)?),
    };
    let mut progress = Progress::new();
    let workspace = record.workspace.as_path().to_owned();
    let (sandbox, id) = (
        Folders::of(&Account::own()).sandbox(&workspace),
        record.id.clone(),
    );
    let (done, findings) = Protection::judged_after(&workspace, (&sandbox, &id), || {
        reach::over_own_files(|| {
            commit::recover(&held, &mut record)?;
            commit::commit(&held, &mut record, &choice, &mut |phase, step, total| {
                progress.step(phase, step, total);
            })
        })
    });
    progress.end();
    if let Some(mut permission) = permission {
        tell(&mut permission, &done)?;
    }
    let done = done?;
    if args.json {
        let kept: Vec<_> = done
            .kept_out
            .iter()
            .map(|(path, why)| serde_json::json!({ "path": path.to_string_lossy(), "why": why }))
            .collect();
        print_json(&serde_json::json!({
            "id": record.id, "state": record.state, "steps": done.steps, "kept_out": kept,
            "left_out": done.left_out, "protected": findings,
        }));
        return Ok(Exit::Success.code());
    }
    for sentence in finding::sentences(&findings) {
        crate::report::say(&sentence);
    }
    for (path, why) in &done.kept_out {
        let path = inert(path.as_os_str().as_encoded_bytes());
        crate::report::say(&format!("{path} was not committed: it {why}"));
    }
    if done.left_out > 0 {
        crate::report::say(&format!(
            "{} not chosen; to choose again: sjail undo {}, then commit",
            match done.left_out {
                1 => "1 change was".to_owned(),
                count => format!("{} changes were", grouped(count)),
            },
            record.id
        ));
    }
    print(&format!(
        "committed {} in {}; to take it back: sjail undo {}\n",
        record.id,
        steps(done.steps),
        record.id
    ));
    Ok(Exit::Success.code())
}

/// What would have asked if it had run asks to be kept: whoever answers sees what there is
/// to keep.
fn agreed(args: &CommitArgs, folder: &Path, record: &Record) -> Result<Permission, Failure> {
    let account = Account::own();
    let words = RunArgs {
        command: record
            .argv
            .iter()
            .map(|word| word.as_os_str().to_owned())
            .collect(),
        workspace: Some(record.workspace.as_path().to_owned()),
        require_approval: true,
        no_wait: args.no_wait,
        approval: args.approval.clone(),
        quiet: args.json,
        ..RunArgs::default()
    };
    let report = Report::new(&words)?;
    let wish = Wish {
        cwd: record.cwd.clone(),
        workspace: record.workspace.clone(),
        commit: Some(record.id.clone()),
        text: None,
        ..request::wish(&words, &account)?
    };
    let source = Source::Made { folder, record };
    let inquiry = permission::submit(&Desk::own(&account), wish, &report)?;
    let mut permission = inquiry.answer_here(&report, &source)?;
    permission.confirm()?;
    let digest = record::digest(folder).unwrap_or_default();
    match permission.apply() {
        Some(kept) if kept.preview == record.id && kept.digest == digest => Ok(permission),
        _ => Err(Error::NotApproved {
            id: record.id.clone(),
        }
        .into()),
    }
}

/// Tells the broker how it went.
fn tell(permission: &mut Permission, done: &Result<Done, Error>) -> Result<(), Failure> {
    let told = match done {
        Ok(done) => Told {
            status: "completed".to_owned(),
            exit: Some(0),
            detail: serde_json::json!({ "commit": { "steps": done.steps } }),
            ..Told::default()
        },
        Err(error) => Told {
            status: "failed".to_owned(),
            exit: Some(i32::from(Exit::Failed.code())),
            detail: serde_json::json!({ "error": error.to_string() }),
            ..Told::default()
        },
    };
    if let Err(error) = permission.tell(told, || ()) {
        crate::report::say(&format!("how it ended is not recorded: {error}"));
    }
    Ok(())
}

/// Drops one.
pub fn discard(words: &[OsString]) -> Result<u8, Failure> {
    let args: DiscardArgs = read(words)?;
    let (held, record) = store().take(&args.id)?;
    match record.state {
        // Its folder holds what was replaced, and what has not come yet.
        State::Committing | State::Undoing if !args.force => {
            return Err(Error::HalfWay { id: args.id }.into());
        }
        State::Committed if !args.force => {
            crate::report::say("its commit stays on the host, but can no longer be taken back");
        }
        _ => {}
    }
    store::remove(&held);
    print(&format!("dropped {}\n", record.id));
    Ok(Exit::Success.code())
}

/// Takes a commit back.
pub fn undo(words: &[OsString]) -> Result<u8, Failure> {
    let args: UndoArgs = read(words)?;
    let (held, mut record) = store().take(&args.id)?;
    let mut progress = Progress::new();
    let force = force(args.force);
    let count = reach::over_own_files(|| {
        commit::undo(&held, &mut record, force, &mut |phase, step, total| {
            progress.step(phase, step, total);
        })
    });
    progress.end();
    let count = count?;
    print(&format!(
        "took {} back in {}; it can be committed again\n",
        record.id,
        steps(count)
    ));
    Ok(Exit::Success.code())
}

fn steps(count: usize) -> String {
    match count {
        1 => "1 step".to_owned(),
        _ => format!("{} steps", grouped(count as u64)),
    }
}

fn force(flag: bool) -> Force {
    match flag {
        true => Force::Yes,
        false => Force::No,
    }
}

/// Paths as typed, from the working folder; those that are not there from the project.
fn absolute(paths: &[PathBuf], record: &Record) -> Vec<PathBuf> {
    let from_here = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    paths
        .iter()
        .map(|path| {
            let here = from_here(path);
            let workspace = record.workspace.as_path();
            let real = match (here.parent(), here.file_name()) {
                // The folder may be reached through links; what is named may be one.
                (Some(folder), Some(name)) => std::fs::canonicalize(folder)
                    .map(|folder| folder.join(name))
                    .unwrap_or_else(|_| here.clone()),
                _ => here.clone(),
            };
            match real.starts_with(workspace) || path.is_absolute() {
                true => real,
                false => workspace.join(path),
            }
        })
        .collect()
}

/// Says now and then how far a long commit is.
struct Progress {
    is_shown: bool,
    /// What was said last: of what, how far, and when.
    said: Option<(Phase, usize)>,
    next: Instant,
}

/// What is shorter says nothing, and what is longer not more often.
const OFTEN: Duration = Duration::from_millis(200);

impl Progress {
    fn new() -> Progress {
        Progress {
            is_shown: std::io::stderr().is_terminal(),
            said: None,
            next: Instant::now() + OFTEN,
        }
    }

    fn step(&mut self, phase: Phase, step: usize, total: usize) {
        let is_behind = self
            .said
            .is_some_and(|(said, last)| said == phase && step <= last);
        if !self.is_shown || is_behind || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + OFTEN;
        self.said = Some((phase, step));
        let (step, total) = (grouped(step as u64), grouped(total as u64));
        let what = match phase {
            Phase::Look => format!("comparing with the host: {step} of {total}"),
            Phase::Commit => format!("committing: {step} of {total}"),
            Phase::Carry => format!("copying what was replaced: {step}"),
            Phase::Undo => format!("taking back: {step} of {total}"),
        };
        let _ = write!(std::io::stderr(), "\r\x1b[K{what}");
    }

    fn end(&self) {
        if self.said.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
