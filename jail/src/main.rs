//! `sjail`: runs a command so that it can do only what its owner said it may.
//!
//! The walk of `sjail run`: [`layout`] makes the plan concrete, [`spawn`] clones pid 1
//! into new namespaces, [`supervise`] waits, relays and watches; [`channel`] carries the
//! few words between the two.

#![cfg_attr(not(test), no_main)]

mod bare;
mod beneath;
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
mod kept;
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
mod processor;
mod programs;
mod protect;
mod question;
mod refused;
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
mod tick;
mod touched;
mod trace;
mod trust;
mod verify;
mod watched;
mod workspace;

use std::ffi::OsString;

use exit::Exit;

/// All of it, called by `sys::entry`; gives the exit status.
#[cfg_attr(test, allow(dead_code))]
fn main() -> u8 {
    sjail_policy::failure::end_process_on_panic();
    let ready = sys::file::reserve_standard().and_then(|()| sys::process::survive_closed_pipes());
    if let Err(errno) = ready {
        eprintln!(
            "sjail: /dev/null cannot be opened ({errno}); is this a container without devices?"
        );
        return Exit::Failed.code();
    }
    let mut words = std::env::args_os();
    let called = words.next().and_then(|called| names::Name::of(&called));
    if let Some(name) = called {
        return name.run(&words.collect::<Vec<_>>());
    }
    let mut name = words.next().unwrap_or_default();
    let mut words: Vec<OsString> = words.collect();
    // `sjail help run` is `sjail run --help`.
    if name == "help" && !words.is_empty() {
        name = words.remove(0);
        words.push("--help".into());
    }
    if name == "run" {
        return run(words);
    }
    cmd::run(&name, &words)
}

fn run(words: Vec<OsString>) -> u8 {
    match cli::RunArgs::read(&words) {
        Ok(args) => run::run(&args),
        Err(error) => cmd::misused_run(&error, &words),
    }
}
