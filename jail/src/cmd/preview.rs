//! `sjail previews`, `diff`, `commit`, `discard`, `undo`: what becomes of previews.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Parser;
use sjail_policy::decide::Action;
use sjail_policy::show::inert;
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
use crate::preview::record::{Record, State};
use crate::preview::show::{self, Ink, grouped};
use crate::preview::store::{self, Store};
use crate::preview::{Error, diff};
use crate::report::Report;
use crate::request;

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

/// Drop a preview; or take a commit back.
#[derive(Debug, Parser)]
#[command(name = "sjail", bin_name = "sjail")]
struct IdArgs {
    /// The preview's id
    id: String,
    /// Even if the host has changed since
    #[arg(long)]
    force: bool,
}

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
    for (_, record) in &previews {
        print(&format!(
            "{}  {:<9}  {}\n              {}  {}\n",
            record.id,
            record.state.name(),
            inert(record.command.as_bytes()),
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
    let paths = absolute(&args.paths, &record);
    let entries = || crate::preview::record::entries(&folder).map_err(unreadable);
    if args.json {
        for entry in entries()? {
            let entry = entry.map_err(unreadable)?;
            print_json(&entry);
        }
        return Ok(Exit::Success.code());
    }
    let ink = Ink::on(&std::io::stdout());
    if args.stat || record.state == State::Committed {
        print(&show::summary(&record, entries()?, ink));
        return Ok(Exit::Success.code());
    }
    let shown = |text: &str| {
        print(text);
        Ok(())
    };
    diff::all(&folder, &record, &paths, ink, shown).map_err(unreadable)?;
    Ok(Exit::Success.code())
}

/// Commits one.
pub fn commit(words: &[OsString]) -> Result<u8, Failure> {
    let args: CommitArgs = read(words)?;
    let (held, mut record) = store().take(&args.id)?;
    if record.state == State::Committed {
        return Err(Error::IsCommitted { id: args.id }.into());
    }
    let permission = match record.verdict.action == Action::Execute.name() {
        true => None,
        false => Some(agreed(&args, held.path(), &record)?),
    };
    let choice = Choice {
        paths: absolute(&args.paths, &record),
        force: force(args.force),
    };
    let mut progress = Progress::new();
    let done = reach::over_own_files(|| {
        commit::recover(&held, &mut record)?;
        commit::commit(&held, &mut record, &choice, &mut |phase, step, total| {
            progress.step(phase, step, total);
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
        }));
        return Ok(Exit::Success.code());
    }
    for (path, why) in &done.kept_out {
        let path = inert(path.as_os_str().as_encoded_bytes());
        crate::report::say(&format!("{path} was not committed: it {why}"));
    }
    print(&format!(
        "committed {} in {} steps; to take it back: sjail undo {}\n",
        record.id,
        grouped(done.steps as u64),
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
        ..request::wish(&words, &account)?
    };
    let source = Source::Made { folder, record };
    let inquiry = permission::submit(&Desk::own(&account), wish, &report)?;
    let mut permission = inquiry.answer(&report, &source)?;
    permission.confirm()?;
    let digest = crate::preview::record::digest(folder).unwrap_or_default();
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
    if let Err(error) = permission.tell(told) {
        crate::report::say(&format!("how it ended is not recorded: {error}"));
    }
    Ok(())
}

/// Drops one.
pub fn discard(words: &[OsString]) -> Result<u8, Failure> {
    let args: IdArgs = read(words)?;
    let (held, record) = store().take(&args.id)?;
    if record.state == State::Committed && !args.force {
        crate::report::say("its commit stays on the host, but can no longer be taken back");
    }
    store::remove(&held);
    print(&format!("dropped {}\n", record.id));
    Ok(Exit::Success.code())
}

/// Takes a commit back.
pub fn undo(words: &[OsString]) -> Result<u8, Failure> {
    let args: IdArgs = read(words)?;
    let (held, mut record) = store().take(&args.id)?;
    let mut progress = Progress::new();
    let force = force(args.force);
    let steps = reach::over_own_files(|| {
        commit::undo(&held, &mut record, force, &mut |phase, step, total| {
            progress.step(phase, step, total);
        })
    });
    progress.end();
    let steps = steps?;
    print(&format!(
        "took {} back in {} steps; it can be committed again\n",
        record.id,
        grouped(steps as u64)
    ));
    Ok(Exit::Success.code())
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
    said: usize,
}

impl Progress {
    fn new() -> Progress {
        Progress {
            is_shown: std::io::stderr().is_terminal(),
            said: 0,
        }
    }

    fn step(&mut self, phase: Phase, step: usize, total: usize) {
        if self.is_shown && step.is_multiple_of(1000) {
            let what = match phase {
                Phase::Look => "comparing with the host",
                Phase::Commit => "committing",
                Phase::Undo => "taking back",
            };
            let (step, total) = (grouped(step as u64), grouped(total as u64));
            let _ = write!(std::io::stderr(), "\r\x1b[K{what}: {step} of {total}");
            self.said += 1;
        }
    }

    fn end(&self) {
        if self.said > 0 {
            let _ = writeln!(std::io::stderr());
        }
    }
}
