//! `sjail doctor`: what this machine offers to a jail, found out by doing it.

use std::ffi::OsString;

use clap::Parser;

use super::{Failure, print, print_json, read};
use crate::doctor::{self, State};
use crate::exit::Exit;

/// Tries every layer of the jail for real and says what is missing, why, and what to do.
///
/// Exit status 0: the usual profile can be kept in full.
#[derive(Debug, Parser)]
#[command(name = "sjail doctor", bin_name = "sjail doctor")]
pub struct DoctorArgs {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Does it, and gives the exit status.
pub fn run(words: &[OsString]) -> Result<u8, Failure> {
    let args: DoctorArgs = read(words)?;
    let ledger = doctor::examine();
    if args.json {
        print_json(&ledger);
    } else {
        for entry in &ledger.entries {
            let mark = match entry.state {
                State::Verified => "ok     ",
                State::Missing => "MISSING",
                State::Limited => "limited",
                State::Noted => "note   ",
            };
            print(&format!("{mark}  {:<22}  {}\n", entry.layer, entry.how));
            if let Some(fix) = &entry.fix {
                for line in fix.lines() {
                    print(&format!("           {line}\n"));
                }
            }
        }
        print(match ledger.healthy {
            true => "\nEvery layer that the usual profile promises is there.\n",
            false => "\nThe usual profile cannot be kept here; what is missing is marked above.\n",
        });
    }
    Ok(match ledger.healthy {
        true => Exit::Success.code(),
        false => 1,
    })
}
