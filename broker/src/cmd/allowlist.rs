//! `sjail allowlist`: patterns that run without being asked about.

use clap::Subcommand;
use serde_json::json;
use sjail_policy::bytes::ByteString;
use sjail_policy::wire::control as wire;

use crate::client::Client;
use crate::cmd::{print, print_json, table};
use crate::error::Result;

/// What can be done with the allow list.
#[derive(Debug, Subcommand)]
pub enum Allowlist {
    /// Put a pattern on the list
    Add {
        /// The pattern: words, `*` for anything
        pattern: String,
        /// Why
        #[arg(long, alias = "description")]
        reason: Option<String>,
        /// Only note it: what matches is still asked about
        #[arg(long)]
        no_auto_approve: bool,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Take a pattern off the list
    Remove {
        /// The pattern, as it was added
        pattern: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// List the patterns
    List {
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Say whether a pattern allows a command; exit 0 if so, 1 if not
    Test {
        /// The command, as one line
        command: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Does what was typed.
pub fn run(verb: Allowlist) -> Result<u8> {
    let mut client = Client::connect()?;
    match verb {
        Allowlist::Add {
            pattern,
            reason,
            no_auto_approve,
            json,
        } => {
            let add = wire::AllowlistAdd {
                pattern,
                reason,
                auto_approve: no_auto_approve.then_some(false),
            };
            let list: wire::Allowlist = client.call(wire::ALLOWLIST_ADD, &add)?;
            if json {
                print_json(&list)?;
            } else {
                let word = if no_auto_approve { "noted" } else { "allowed" };
                print(&format!("{word}: {}\n", table::text(&add.pattern)))?;
            }
            Ok(0)
        }
        Allowlist::Remove { pattern, json } => {
            let remove = wire::AllowlistRemove { pattern };
            let _: wire::Changed = client.call(wire::ALLOWLIST_REMOVE, &remove)?;
            if json {
                print_json(&json!({ "removed": remove.pattern }))?;
            } else {
                print(&format!("removed: {}\n", table::text(&remove.pattern)))?;
            }
            Ok(0)
        }
        Allowlist::List { json } => list(&mut client, json),
        Allowlist::Test { command, json } => {
            let test = wire::AllowlistTest {
                cwd: std::env::current_dir().ok().map(ByteString::from),
                path: std::env::var_os("PATH").map(ByteString::from),
                command: command.as_str().into(),
            };
            let tested: wire::AllowlistTested = client.call(wire::ALLOWLIST_TEST, &test)?;
            if json {
                print_json(&json!({
                    "command": command,
                    "allowed": tested.allowed,
                    "matching": tested.matching,
                    "why_not": tested.why_not,
                }))?;
            } else if tested.allowed {
                print(&format!(
                    "allowed by {}\n",
                    table::text(&tested.matching.join(", "))
                ))?;
            } else if let Some(why) = tested.why_not {
                print(&format!("no pattern allows it: {}\n", table::text(&why)))?;
            } else {
                print("no pattern allows it\n")?;
            }
            Ok(u8::from(!tested.allowed))
        }
    }
}

fn list(client: &mut Client, json: bool) -> Result<u8> {
    let list: wire::Allowlist = client.call(wire::ALLOWLIST_LIST, &json!({}))?;
    if json {
        print_json(&list)?;
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = list
        .patterns
        .iter()
        .map(|line| {
            vec![
                table::text(&line.pattern),
                table::local(line.added),
                table::text(&line.added_by),
                table::text(line.reason.as_deref().unwrap_or_default()),
            ]
        })
        .collect();
    if rows.is_empty() {
        print("the allow list is empty\n")?;
    } else {
        print(&table::lines(&["PATTERN", "ADDED", "BY", "REASON"], &rows))?;
    }
    Ok(0)
}
