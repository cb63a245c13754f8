//! What was typed, made a plan: profile, policy files and flags, one over the other.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use sjail_policy::bytes::ByteString;
use sjail_policy::config::{self, CommandLine, Loaded, Run, WorkspaceChoice};
use sjail_policy::plan::{Plan, User};

use crate::caller::Account;
use crate::cli::RunArgs;
use crate::error::Error;
use crate::sources;
use crate::workspace;

/// A plan, and what the policy files had to say on the way.
#[derive(Debug)]
pub struct Request {
    /// What the jail must enforce.
    pub plan: Plan,
    /// Where it comes from, with notices for the user.
    pub loaded: Loaded,
}

/// Reads the policies and lays the command line over them.
pub fn read(args: &RunArgs, account: &Account) -> Result<Request, Error> {
    let found = workspace::find(args.workspace.as_deref(), &account.home)?;
    let sources = sources::gather(account, &found.workspace, options(args)?)?;
    let loaded = config::load(&sources)?;
    let plan = loaded.policy.plan(Run {
        argv: argv(args)?,
        cwd: found.cwd.into(),
        program: None,
        workspace: found.workspace.into(),
        home: account.home.clone().into(),
        user: match args.user {
            None => User::Caller,
            Some(_) => User::Ids {
                uid: account.uid,
                gid: account.gid,
            },
        },
        env: environment(args, account),
    });
    Ok(Request { plan, loaded })
}

fn argv(args: &RunArgs) -> Result<Vec<ByteString>, Error> {
    match &args.line {
        Some(line) => Ok(vec!["/bin/sh".into(), "-c".into(), line.clone().into()]),
        None if args.command.is_empty() => Err(Error::NoCommand),
        None => Ok(args.command.iter().cloned().map(ByteString::from).collect()),
    }
}

/// The flags that a policy knows, as it wants them.
pub fn options(args: &RunArgs) -> Result<CommandLine, Error> {
    let mut options = CommandLine::default();
    if args.workspace.is_some() {
        options.workspace = WorkspaceChoice::Said;
    }
    for (flag, path) in (args.ro.iter().map(|path| ("--ro", path)))
        .chain(args.rw.iter().map(|path| ("--rw", path)))
        .chain(args.bind.iter().map(|bind| ("--bind", bind)))
    {
        options.push(flag, &absolute(path)?)?;
    }
    for (flag, values) in [("--hide", &args.hide), ("--env", &args.env)] {
        for value in values {
            options.push(flag, value.as_bytes())?;
        }
    }
    for (flag, value) in [
        ("--profile", &args.profile),
        ("--net", &args.net),
        ("--memory", &args.memory),
        ("--cpu", &args.cpu),
        ("--pids", &args.pids),
        ("--io-read", &args.io_read),
        ("--io-write", &args.io_write),
        ("--timeout", &args.timeout),
        ("--max-output", &args.max_output),
        ("--tmp-size", &args.tmp_size),
    ] {
        if let Some(value) = value {
            options.push(flag, value.as_bytes())?;
        }
    }
    if args.allow_degraded {
        options.push("--allow-degraded", b"")?;
    }
    Ok(options)
}

/// A path as typed, from the working folder; `~` is left to the policy.
fn absolute(typed: &OsStr) -> Result<Vec<u8>, Error> {
    if typed.as_bytes().starts_with(b"~") {
        return Ok(typed.as_bytes().to_vec());
    }
    let path = std::path::absolute(Path::new(typed)).map_err(|error| Error::Look {
        path: typed.into(),
        error,
    })?;
    Ok(path.into_os_string().into_vec())
}

/// The caller's variables; for `--user`, with that user's own in their place.
fn environment(args: &RunArgs, account: &Account) -> Vec<(ByteString, ByteString)> {
    let mut env: Vec<(ByteString, ByteString)> = std::env::vars_os()
        .map(|(name, value): (OsString, OsString)| (name.into(), value.into()))
        .collect();
    if args.user.is_some() {
        for (name, value) in [
            ("HOME", ByteString::from(account.home.clone())),
            ("USER", account.name.as_str().into()),
            ("LOGNAME", account.name.as_str().into()),
            ("SHELL", account.shell.as_str().into()),
        ] {
            let name = ByteString::from(name);
            env.retain(|(other, _)| *other != name);
            env.push((name, value));
        }
    }
    env
}
