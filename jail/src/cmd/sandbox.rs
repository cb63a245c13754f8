//! `sjail sandbox`: what is kept between runs for each workspace, and removing it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use serde::Serialize;
use sjail_policy::show::inert;

use super::{Failure, print, print_json, read};
use crate::caller::{Account, State};
use crate::error::Error;
use crate::exit::Exit;

/// Lists and removes what is kept between runs.
///
/// That is: package caches and quarantined files of each workspace, home and tmp of what runs
/// share (`sandbox.scope`).
#[derive(Debug, Parser)]
#[command(name = "sjail sandbox", bin_name = "sjail sandbox")]
pub struct SandboxArgs {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// List the sandboxes
    List {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove one with all that is kept in it
    Remove {
        /// Its id, the folder of its workspace, or who shares it, as listed
        which: OsString,
    },
}

/// What is kept for one workspace, session or agent.
#[derive(Debug, Serialize)]
struct Kept {
    id: String,
    workspace: Option<String>,
    /// Who shares it, `session:NAME`, where it is not a workspace's.
    scope: Option<String>,
    #[serde(skip)]
    folder: PathBuf,
}

/// Does it, and gives the exit status.
pub fn run(words: &[OsString]) -> Result<u8, Failure> {
    let args: SandboxArgs = read(words)?;
    let state = State::of(&Account::own());
    let all = kept(&state.path().join("sandboxes"));
    match args.act {
        Act::List { json: true } => print_json(&all),
        Act::List { json: false } => {
            for one in &all {
                let whose = one.workspace.as_deref().or(one.scope.as_deref());
                let whose = inert(whose.unwrap_or("-").as_bytes());
                print(&format!("{}  {whose}\n", one.id));
            }
        }
        Act::Remove { which } => {
            let named = which.to_string_lossy();
            let path = fs::canonicalize(&which).unwrap_or_else(|_| PathBuf::from(&which));
            let found = all.iter().find(|one| {
                let workspace = one.workspace.as_deref().map(Path::new);
                one.id == named
                    || one.scope.as_deref() == Some(&*named)
                    || workspace.is_some_and(|folder| folder == path)
            });
            let Some(found) = found else {
                return Err(Error::NoSandbox {
                    name: named.into_owned(),
                }
                .into());
            };
            fs::remove_dir_all(&found.folder).map_err(|error| Error::Cache {
                path: found.folder.clone(),
                error,
            })?;
            print(&format!("{}: removed\n", found.id));
        }
    }
    Ok(Exit::Success.code())
}

fn kept(folder: &Path) -> Vec<Kept> {
    let mut all: Vec<Kept> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        // A link is not ours.
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| {
            let said = |name: &str| {
                let text = fs::read(entry.path().join(name)).ok()?;
                Some(String::from_utf8_lossy(&text).into_owned())
            };
            Kept {
                id: inert(entry.file_name().as_bytes()),
                workspace: said("workspace"),
                scope: said("scope"),
                folder: entry.path(),
            }
        })
        .collect();
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_are_consistent() {
        SandboxArgs::command().debug_assert();
    }
}
