//! `sjail init`: what one puts somewhere to begin with. A starter policy for a project, the
//! text that tells an agent how to work with the sandbox, and lines for a shell's start-up
//! file that run risky tools in the jail.

mod shell;

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;

use clap::{Parser, Subcommand};
use sjail_policy::show::inert;

use crate::caller::Account;
use crate::cmd::{Failure, print, read};
use crate::error::Error;
use crate::exit::Exit;
use crate::workspace;
use shell::Shell;

/// The text that tells an agent how to work with the sandbox.
const AGENT: &str = include_str!("../../../packaging/agent/instructions.md");
const STARTER: &str = include_str!("../../../packaging/policies/starter.toml");
const CODING: &str = include_str!("../../../packaging/policies/coding.toml");
const MARKDOWN: &str = include_str!("../../../packaging/policies/SANDBOX.md");

/// Writes a starter policy, or prints what an agent or a shell should know.
#[derive(Debug, Parser)]
#[command(
    name = "sjail init",
    bin_name = "sjail init",
    override_usage = "sjail init policy|agent|bash|zsh|fish"
)]
pub struct InitArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write a commented sjail.toml into the project
    Policy {
        /// Write a SANDBOX.md instead
        #[arg(long, conflicts_with = "coding")]
        markdown: bool,
        /// Only the usual commands of a coder, everything else blocked
        #[arg(long)]
        coding: bool,
    },
    /// Print the text that tells an agent how to work with the sandbox
    Agent,
    /// Print lines for ~/.bashrc
    Bash(ShellArgs),
    /// Print lines for ~/.zshrc
    Zsh(ShellArgs),
    /// Print lines for config.fish
    Fish(ShellArgs),
}

#[derive(Debug, clap::Args)]
struct ShellArgs {
    /// The tools that run in the jail
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    tools: Option<Vec<String>>,
}

/// Does it, and gives the exit status.
pub fn run(words: &[OsString]) -> Result<u8, Failure> {
    let args: InitArgs = read(words)?;
    match args.what {
        What::Policy { markdown, coding } => {
            let (name, text) = match (markdown, coding) {
                (true, _) => ("SANDBOX.md", MARKDOWN),
                (_, true) => ("sjail.toml", CODING),
                _ => ("sjail.toml", STARTER),
            };
            write(name, text)?;
        }
        What::Agent => print(AGENT),
        What::Bash(args) => print(&shell::lines(Shell::Bash, args.tools.as_deref())?),
        What::Zsh(args) => print(&shell::lines(Shell::Zsh, args.tools.as_deref())?),
        What::Fish(args) => print(&shell::lines(Shell::Fish, args.tools.as_deref())?),
    }
    Ok(Exit::Success.code())
}

/// Writes a file into the project, never over one that is there.
fn write(name: &str, text: &str) -> Result<(), Error> {
    let file = workspace::find(None, &Account::own().home)?
        .workspace
        .join(name);
    let failed = |error: std::io::Error| Error::Starter {
        path: file.clone(),
        why: match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                "there is one already; change that one, or move it away first".to_owned()
            }
            _ => format!("{error}; make the folder yours and writable, or go to another"),
        },
    };
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&file)
        .and_then(|mut out| out.write_all(text.as_bytes()))
        .map_err(failed)?;
    print(&format!(
        "{}: written. Read it, change it, then pin it with `sjail trust`\n",
        inert(file.as_os_str().as_encoded_bytes())
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use sjail_policy::config::{Format, Sources, Trust, WorkspaceFile, load};

    #[test]
    fn what_is_written_is_understood() {
        for (text, format) in [
            (STARTER, Format::Toml),
            (CODING, Format::Toml),
            (MARKDOWN, Format::Markdown),
        ] {
            let file = WorkspaceFile {
                path: "/x".into(),
                text: text.as_bytes().to_vec(),
                format,
                trust: Trust::Pinned,
            };
            load(&Sources {
                workspace: vec![file],
                ..Sources::default()
            })
            .unwrap();
        }
    }
}
