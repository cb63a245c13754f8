//! `sjail quarantine`: what was taken out of workspaces, and the way back.

use std::ffi::OsString;

use clap::{Parser, Subcommand};
use serde::Serialize;
use sjail_policy::show::inert;

use super::{Failure, print, print_json, read};
use crate::caller::{Account, State};
use crate::exit::Exit;
use crate::protect::quarantine::{self, Item};

/// Lists and restores protected names that jailed commands made.
///
/// They are moved out of the workspace, not deleted.
#[derive(Debug, Parser)]
#[command(name = "sjail quarantine", bin_name = "sjail quarantine")]
pub struct QuarantineArgs {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Show what is there
    List {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Put one back where it was, after you have looked at it
    Restore {
        /// As the list names it
        id: String,
    },
    /// Delete one for good
    Remove {
        /// As the list names it
        id: String,
    },
}

/// One line of the list.
#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    item: Item,
    /// Where it is kept, to be looked at.
    kept: std::path::PathBuf,
}

/// Does it, and gives the exit status.
pub fn run(words: &[OsString]) -> Result<u8, Failure> {
    let args: QuarantineArgs = read(words)?;
    let sandboxes = State::of(&Account::own()).path().join("sandboxes");
    match args.act {
        Act::List { json } => {
            let items: Vec<Listed> = quarantine::list(&sandboxes)
                .into_iter()
                .map(|(item, kept)| Listed { item, kept })
                .collect();
            if json {
                print_json(&items);
                return Ok(Exit::Success.code());
            }
            for listed in &items {
                print(&format!(
                    "{}  {}  {}\n          kept in {}\n",
                    listed.item.id,
                    inert(listed.item.path.as_bytes()),
                    inert(listed.item.why.as_bytes()),
                    inert(listed.kept.as_os_str().as_encoded_bytes()),
                ));
            }
            if items.is_empty() {
                print("nothing is in quarantine\n");
            }
        }
        Act::Restore { id } => {
            let item = quarantine::restore(&sandboxes, &id)?;
            print(&format!("{} is back\n", inert(item.path.as_bytes())));
        }
        Act::Remove { id } => {
            let item = quarantine::remove(&sandboxes, &id)?;
            print(&format!("{} is deleted\n", inert(item.path.as_bytes())));
        }
    }
    Ok(Exit::Success.code())
}
