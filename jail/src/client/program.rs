//! The broker's program: how it is started, and handed words that are its own.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Desk, Trouble};
use crate::error::Error;

/// The broker's file, beside our own.
const BROKER: &str = "sjail-broker";
/// How a broker begins that does not start because of the policy.
const POLICY: &str = "the policy cannot be used: ";

/// Starts a broker and waits until it listens, or another one does.
pub(super) fn start(desk: &Desk) -> Result<(), Trouble> {
    let program = program();
    let failed = |error: io::Error| {
        Trouble::Said(format!("{} cannot be started: {error}", program.display()))
    };
    let mut child = desk
        .command(&program)
        .args(["serve", "--detach"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut word = String::new();
    if let Some(out) = child.stdout.take() {
        out.take(6).read_to_string(&mut word).map_err(failed)?;
    }
    if word == "ready\n" {
        return Ok(());
    }
    let mut why = String::new();
    if let Some(err) = child.stderr.take() {
        err.take(4096).read_to_string(&mut why).map_err(failed)?;
    }
    let _ = child.wait();
    // Whoever prints this says whose words they are.
    let why = why.trim();
    let why = why.strip_prefix("sjail: ").unwrap_or(why);
    // Without a broker the policy is the same.
    Err(match why.starts_with(POLICY) {
        true => Trouble::Told(why.to_owned()),
        false => Trouble::Said(why.to_owned()),
    })
}

/// Hands the words of a sub-command on to the broker's program; returns only when
/// that cannot be done.
pub fn hand_on(words: &[&std::ffi::OsStr]) -> Error {
    let program = program();
    // By the name that was typed: its help says it, and so does the record of an answer.
    let called = std::env::args_os().next();
    let called = called
        .as_deref()
        .and_then(|called| Path::new(called).file_name());
    let error = Command::new(&program)
        .arg0(called.unwrap_or(program.as_os_str()))
        .args(words)
        .exec();
    Error::Broker(format!("{} cannot be started: {error}", program.display()))
}

fn program() -> PathBuf {
    std::env::current_exe()
        .ok()
        .and_then(|own| own.parent().map(|folder| folder.join(BROKER)))
        .filter(|beside| beside.exists())
        .unwrap_or_else(|| Path::new(BROKER).to_owned())
}
