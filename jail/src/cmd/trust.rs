//! `sjail trust`: lets a workspace's policy loosen what it says, after somebody has read it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use sjail_policy::bytes::ByteString;
use sjail_policy::config::{CommandLine, Ignored, Sources, Trust, WorkspaceFile, load};
use sjail_policy::show::inert;

use super::{Failure, print, print_json, read, says_yes};
use crate::caller::{Account, State};
use crate::error::Error;
use crate::exit::Exit;
use crate::sources;
use crate::trust::{TrustStore, sha256};
use crate::workspace;

/// Shows the policy files of a project, and pins them once you have agreed.
///
/// Until then they may only tighten. Whatever changes in them must be agreed to again.
#[derive(Debug, Parser)]
#[command(name = "sjail trust", bin_name = "sjail trust")]
pub struct TrustArgs {
    /// Take the trust back
    #[arg(long, conflicts_with_all = ["list", "hash"])]
    revoke: bool,
    /// List what is trusted
    #[arg(long, conflicts_with = "hash")]
    list: bool,
    /// Pin without asking the file with this SHA-256, and no other
    #[arg(long, value_name = "SHA256")]
    hash: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// The project folder; default: the repository's top folder, else the working folder
    workspace: Option<PathBuf>,
}

/// Does it, and gives the exit status.
pub fn run(words: &[OsString]) -> Result<u8, Failure> {
    let args: TrustArgs = read(words)?;
    let account = Account::own();
    let store = TrustStore::of(&State::of(&account));
    if args.list {
        list(&store, args.json);
        return Ok(Exit::Success.code());
    }
    let found = workspace::find(args.workspace.as_deref(), &account.home)?;
    let sources = sources::gather(&account, &found.workspace, CommandLine::default())?;
    if sources.workspace.is_empty() {
        return Err(Error::NothingToTrust {
            path: found.workspace,
        }
        .into());
    }
    if args.revoke {
        for file in &sources.workspace {
            let was = store.revoke(file.path.as_path())?;
            let shown = inert(file.path.as_bytes());
            print(&format!(
                "{shown}: {}\n",
                if was {
                    "no longer trusted"
                } else {
                    "was not trusted"
                }
            ));
        }
        return Ok(Exit::Success.code());
    }
    // What is pinned must be what is understood.
    load(&sources)?;
    let mut refused = false;
    for number in 0..sources.workspace.len() {
        refused |= !pin(&store, &sources, number, &args)?;
    }
    Ok(if refused {
        Exit::Blocked.code()
    } else {
        Exit::Success.code()
    })
}

fn list(store: &TrustStore, json: bool) {
    let pins = store.list();
    match json {
        true => print_json(&pins),
        false => print(
            &pins
                .iter()
                .map(|pin| format!("{} {}\n", pin.sha256, inert(pin.path.as_bytes())))
                .collect::<String>(),
        ),
    }
}

/// Shows one file and what it would loosen, and pins it if that is agreed to.
fn pin(
    store: &TrustStore,
    sources: &Sources,
    number: usize,
    args: &TrustArgs,
) -> Result<bool, Error> {
    let Some(file) = sources.workspace.get(number) else {
        return Ok(true);
    };
    let hash = sha256(&file.text);
    let shown = inert(file.path.as_bytes());
    if file.trust == Trust::Pinned {
        print(&format!("{shown}: trusted already ({hash})\n"));
        return Ok(true);
    }
    let agreed = if args.hash.is_empty() {
        print(&description(sources, file, &hash)?);
        // Without a terminal nobody can have read the file: then it must be named by its hash.
        says_yes(&format!("\nTrust {shown}?"), Error::TrustNeedsTerminal)?
    } else {
        args.hash
            .iter()
            .any(|given| given.eq_ignore_ascii_case(&hash))
    };
    if agreed {
        store.pin(file.path.as_path(), &file.text)?;
        print(&format!("{shown}: trusted ({hash})\n"));
    } else {
        print(&format!("{shown}: not trusted; its hash is {hash}\n"));
    }
    Ok(agreed)
}

fn description(sources: &Sources, file: &WorkspaceFile, hash: &str) -> Result<String, Error> {
    let mut text = format!("{} (sha256 {hash}):\n\n", inert(file.path.as_bytes()));
    for line in file.text.split(|byte| *byte == b'\n') {
        text.push_str(&format!("  | {}\n", inert(line)));
    }
    let path = ByteString::from(inert(file.path.as_bytes()));
    let loosening: Vec<_> = load(sources)?
        .notices
        .into_iter()
        .filter(|notice| notice.why == Ignored::Untrusted && notice.origin.file() == path.to_str())
        .collect();
    if loosening.is_empty() {
        text.push_str("\nIt loosens nothing: all of it holds already.\n");
    } else {
        text.push_str("\nTrusting it lets these lines loosen the policy:\n");
        for notice in loosening {
            text.push_str(&format!("  {} {}\n", notice.origin, notice.key));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_are_consistent() {
        TrustArgs::command().debug_assert();
    }
}
