//! `sjail`: runs a command so that it can do only what its owner said it may.
//!
//! The walk of `sjail run`: [`layout`] makes the plan concrete, [`spawn`] clones pid 1
//! into new namespaces, [`supervise`] waits, relays and watches; [`channel`] carries the
//! few words between the two.

mod bare;
mod caller;
mod channel;
mod child;
mod cleanup;
mod cli;
mod client;
mod cmd;
mod code;
mod degraded;
mod denials;
mod doctor;
mod error;
mod evidence;
mod exec;
mod exit;
mod hook;
mod init;
mod inside;
mod judge;
mod landlock;
mod layout;
mod limits;
#[cfg(feature = "manual")]
mod manual;
mod mounts;
mod names;
mod net;
mod observe;
mod outcome;
mod output;
mod outside;
mod permission;
mod preview;
mod programs;
mod protect;
mod question;
mod report;
mod request;
mod result;
mod run;
mod seccomp;
mod sentence;
mod setup;
mod signals;
mod sources;
mod spawn;
mod stdio;
mod step;
mod supervise;
mod sys;
mod terminal;
mod trace;
mod trust;
mod verify;
mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

use exit::Exit;

fn main() -> ExitCode {
    if let Err(errno) = sys::file::reserve_standard() {
        eprintln!(
            "sjail: /dev/null cannot be opened ({errno}); is this a container without devices?"
        );
        return ExitCode::from(Exit::Failed.code());
    }
    let mut words = std::env::args_os();
    let called = words.next().and_then(|called| names::Name::of(&called));
    if let Some(name) = called {
        return ExitCode::from(name.run(&words.collect::<Vec<_>>()));
    }
    let name = words.next().unwrap_or_default();
    let words: Vec<OsString> = words.collect();
    if name == "run" {
        return run(words);
    }
    ExitCode::from(cmd::run(&name, &words))
}

fn run(words: Vec<OsString>) -> ExitCode {
    let args = match cli::RunArgs::read(words) {
        Ok(args) => args,
        Err(error) => {
            return ExitCode::from(cmd::misused(&error));
        }
    };
    ExitCode::from(run::run(&args))
}
