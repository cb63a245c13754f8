//! `sjail policy`: shows, checks and tests policy files.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use sjail_policy::config::{
    CommandLine, Format, Loaded, Sources, Trust, WORKSPACE_FILES, WorkspaceFile, load,
};
use sjail_policy::explain::Explanation;
use sjail_policy::policy_test::{self, CaseResult};
use sjail_policy::show::inert;
use std::os::unix::ffi::OsStrExt;

use super::{Failure, print, print_json, read};
use crate::caller::Account;
use crate::error::Error;
use crate::exit::Exit;
use crate::judge::Judge;

/// Shows, checks and tests policy files.
#[derive(Debug, Parser)]
#[command(name = "sjail policy", bin_name = "sjail policy")]
pub struct PolicyArgs {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Print the policy that holds in this folder, as one policy file
    Show {
        /// Print as JSON, with the origin of each value
        #[arg(long)]
        json: bool,
    },
    /// Look for mistakes in the given files, or in all that hold in this folder
    Check {
        /// Policy files; SANDBOX.md and security-config.json are read as such
        files: Vec<PathBuf>,
    },
    /// Print another tool's policy as a policy file: openclaw.json, security-config.json
    Import {
        /// The file
        file: PathBuf,
    },
    /// Run the test cases of the given files, or of all that hold in this folder
    Test {
        /// Print as JSON
        #[arg(long)]
        json: bool,
        /// Policy files, taken by themselves
        files: Vec<PathBuf>,
    },
}

/// Prints another tool's policy in our own words; what has no meaning here is said.
fn import(path: &Path) -> Result<u8, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Error::ImportFile {
        path: path.to_owned(),
        error,
    })?;
    let imported = sjail_policy::import::import(&text).map_err(|error| Error::Import {
        path: path.to_owned(),
        error,
    })?;
    // What is handed out must be understood, and held to the same bounds.
    let file = WorkspaceFile {
        path: path.into(),
        text: imported.toml.clone().into_bytes(),
        format: Format::Toml,
        trust: Trust::Pinned,
    };
    let sources = Sources {
        workspace: vec![file],
        machine_memory: crate::limits::machine_memory(),
        ..Sources::default()
    };
    load(&sources).map_err(|error| Error::Import {
        path: path.to_owned(),
        error: error.into(),
    })?;
    print(&imported.toml);
    let slips = imported.slips.iter().map(|(_, why)| why);
    for note in slips.chain(&imported.notes) {
        crate::report::say(note);
    }
    Ok(Exit::Success.code())
}

/// What `sjail policy import` reads and nothing else does, where its tools keep it.
const OTHERS: [&str; 1] = ["openclaw.json"];

/// The exit status when a case did not come out as expected.
const CASES_FAILED: u8 = 1;

/// Does it, and gives the exit status.
pub fn run(words: &[OsString]) -> Result<u8, Failure> {
    let args: PolicyArgs = read(words)?;
    match args.act {
        Act::Show { json } => show(json),
        Act::Check { files } => check(&files),
        Act::Test { json, files } => test(json, &files),
        Act::Import { file } => import(&file),
    }
}

fn here() -> Result<Judge, Error> {
    Judge::here(&Account::own(), None, CommandLine::default())
}

fn show(json: bool) -> Result<u8, Failure> {
    let judge = here()?;
    let explanation = Explanation::of(&judge.loaded);
    match json {
        true => print_json(&explanation),
        false => print(&explanation.toml()),
    }
    Ok(Exit::Success.code())
}

fn check(files: &[PathBuf]) -> Result<u8, Failure> {
    let mut text = String::new();
    if files.is_empty() {
        let judge = here()?;
        for file in &judge.loaded.files {
            text.push_str(&format!("{}: no mistakes\n", file.path));
        }
        for notice in judge.loaded.sentences() {
            text.push_str(&format!("note: {notice}\n"));
        }
        for remark in &judge.loaded.remarks {
            text.push_str(&format!("note: {remark}\n"));
        }
        if text.is_empty() {
            text.push_str("there are no policy files: the profile alone holds\n");
        }
        text.extend(others(&judge));
    }
    let mut wrong = None;
    for file in files {
        match alone(file) {
            Ok(_) => text.push_str(&format!(
                "{}: no mistakes\n",
                inert(file.as_os_str().as_bytes())
            )),
            Err(error) => {
                eprintln!("{error}");
                wrong = Some(error.exit().code());
            }
        }
    }
    print(&text);
    Ok(wrong.unwrap_or(Exit::Success.code()))
}

/// Policies of other tools that lie there and hold nothing: nobody took them over.
fn others(judge: &Judge) -> impl Iterator<Item = String> {
    let own = Path::new(&judge.context.workspace);
    let is_there = move |name: &&str| own.join(name).is_file();
    let [(policy, _), ..] = WORKSPACE_FILES;
    let taken = own.join(policy).exists();
    let found = OTHERS.into_iter().filter(move |_| !taken).filter(is_there);
    found.map(move |name| {
        format!("note: {name} is not read; `sjail policy import {name} > {policy}` takes it over\n")
    })
}

fn test(json: bool, files: &[PathBuf]) -> Result<u8, Failure> {
    let judge = here()?;
    let mut results: Vec<CaseResult> = Vec::new();
    if files.is_empty() {
        results.extend(policy_test::run(&judge.loaded, &judge.context));
    }
    for file in files {
        results.extend(policy_test::run(&alone(file)?, &judge.context));
    }
    let failed = results.iter().filter(|result| !result.passed).count();
    if json {
        print_json(&results);
    } else {
        let mut text: String = results.iter().map(|result| format!("{result}\n")).collect();
        text.push_str(&format!("{} cases, {failed} failed\n", results.len()));
        print(&text);
    }
    Ok(if failed == 0 {
        Exit::Success.code()
    } else {
        CASES_FAILED
    })
}

/// One file over the default profile, as if it were trusted.
fn alone(path: &Path) -> Result<Loaded, Error> {
    let text = fs::read(path).map_err(|error| Error::PolicyFile {
        path: path.to_owned(),
        error,
    })?;
    let format = match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("md") => Format::Markdown,
        Some(extension) if extension.eq_ignore_ascii_case("json") => Format::SecurityConfig,
        _ => Format::Toml,
    };
    let file = WorkspaceFile {
        path: path.into(),
        text,
        format,
        trust: Trust::Pinned,
    };
    let sources = Sources {
        workspace: vec![file],
        machine_memory: crate::limits::machine_memory(),
        ..Sources::default()
    };
    Ok(load(&sources)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_are_consistent() {
        PolicyArgs::command().debug_assert();
    }
}
