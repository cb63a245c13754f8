//! Running a command on the host: an elevated pattern, approved. No jail, no limits;
//! the broker has recorded who allowed it.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Instant;

use sjail_policy::plan::Plan;

use crate::error::Error;
use crate::outcome::Outcome;
use crate::permission::Permission;
use crate::report::Report;
use crate::result::{Output, Usage};

/// Runs it with the caller's own streams and variables.
pub fn run(plan: &Plan, permission: &mut Permission, report: &Report) -> Result<Outcome, Error> {
    permission.confirm()?;
    report.note("this runs on the host, outside any jail, as it was approved");
    let mut words = plan.command.argv.iter();
    let program = words.next().ok_or(Error::NoCommand)?.as_os_str();
    let started = Instant::now();
    let status = Command::new(program)
        .args(words.map(|word| word.as_os_str()))
        .current_dir(plan.command.cwd.as_path())
        .status()
        .map_err(|error| Error::OnHost {
            program: program.to_owned(),
            error,
        })?;
    Ok(Outcome {
        status: status.into_raw(),
        cause: None,
        output: Output::default(),
        tail: Vec::new(),
        duration: started.elapsed(),
        usage: Usage::default(),
    })
}
