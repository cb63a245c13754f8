//! What was typed, made a plan: profile, policy files and flags, one over the other.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use sjail_policy::bytes::ByteString;
use sjail_policy::config::{self, CommandLine, Loaded, Run, WorkspaceChoice};
use sjail_policy::plan::{Plan, User, Variable};
use sjail_policy::wire::request::{Asking, Typed};

use crate::caller::Account;
use crate::cli::RunArgs;
use crate::error::Error;
use crate::net::registry;
use crate::permission::Wish;
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
    let sources = sources::gather(account, &found.workspace, options(args, account)?)?;
    let loaded = config::load(&sources)?;
    let plan = loaded.policy.plan(Run {
        argv: argv(args)?,
        cwd: found.cwd.into(),
        program: None,
        workspace: found.workspace.into(),
        home: account.home.clone().into(),
        user: user(args, account),
        env: environment(args, account),
        agent: args.agent.clone(),
        session: args.session.clone(),
    });
    Ok(Request { plan, loaded })
}

fn argv(args: &RunArgs) -> Result<Vec<ByteString>, Error> {
    match &args.line {
        Some(line) => Ok(Typed::Line(line.clone().into()).argv()),
        None if args.command.is_empty() => Err(Error::NoCommand),
        None => Ok(args.command.iter().cloned().map(ByteString::from).collect()),
    }
}

/// The flags that a policy knows, as it wants them.
pub fn options(args: &RunArgs, account: &Account) -> Result<CommandLine, Error> {
    let mut options = CommandLine::default();
    if workspace::is_said(args.workspace.as_deref(), &account.home) {
        options.workspace = WorkspaceChoice::Said;
    }
    for (flag, value) in flags(args, account)? {
        options.push(flag, &value)?;
    }
    Ok(options)
}

/// The same flags, each with its value.
fn flags(args: &RunArgs, account: &Account) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
    let mut flags = Vec::new();
    for (flag, path) in (args.ro.iter().map(|path| ("--ro", path)))
        .chain(args.rw.iter().map(|path| ("--rw", path)))
        .chain(args.bind.iter().map(|bind| ("--bind", bind)))
    {
        flags.push((flag, absolute(path)?));
    }
    for (flag, values) in [
        ("--hide", &args.hide),
        ("--env", &args.env),
        ("--publish", &args.publish),
        ("--ssh-agent", &args.ssh_agent),
    ] {
        for value in values {
            flags.push((flag, value.as_bytes().to_vec()));
        }
    }
    for value in &args.allow_host {
        match registry::is_group(value) {
            None => flags.push(("--allow-host", value.as_bytes().to_vec())),
            Some(group) => {
                let hosts = registry::group(group, account);
                if hosts.is_empty() {
                    // One of the policy's own, or nobody's: the policy says.
                    flags.push(("--allow-host", value.as_bytes().to_vec()));
                }
                for host in hosts {
                    flags.push(("--allow-host", host.to_string().into_bytes()));
                }
            }
        }
    }
    for host in registry::needed(args, account) {
        flags.push((registry::OPTION, host));
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
            flags.push((flag, value.as_bytes().to_vec()));
        }
    }
    if args.no_dry_run {
        flags.push(("--no-dry-run", Vec::new()));
    }
    if args.no_broker {
        flags.push(("--no-broker", Vec::new()));
    }
    if args.proxy {
        flags.push(("--proxy", Vec::new()));
    }
    if args.allow_degraded {
        flags.push(("--allow-degraded", Vec::new()));
    }
    if args.dry_run {
        flags.push(("--dry-run", Vec::new()));
    }
    Ok(flags)
}

/// What the broker is asked for.
pub fn wish(args: &RunArgs, account: &Account) -> Result<Wish, Error> {
    let command = match (&args.line, args.command.as_slice()) {
        (Some(line), _) => Some(Typed::Line(line.clone().into())),
        (None, []) if args.approval.is_some() => None,
        (None, []) => return Err(Error::NoCommand),
        (None, argv) => Some(Typed::Argv(
            argv.iter().cloned().map(ByteString::from).collect(),
        )),
    };
    let found = workspace::find(args.workspace.as_deref(), &account.home)?;
    // What makes no sense is wrong usage, whatever the policy says.
    self::options(args, account)?;
    let mut options: Vec<ByteString> = flags(args, account)?
        .into_iter()
        .map(|(flag, value)| {
            let mut word = flag.as_bytes().to_vec();
            if !value.is_empty() {
                word.push(b'=');
                word.extend(value);
            }
            word.into()
        })
        .collect();
    if workspace::is_said(args.workspace.as_deref(), &account.home) {
        options.push("--workspace".into());
    }
    let only = args.only.iter();
    options.extend(only.map(|name| format!("--only={name}").as_str().into()));
    Ok(Wish {
        command,
        cwd: found.cwd.into(),
        workspace: found.workspace.into(),
        user: user(args, account),
        env: environment(args, account)
            .into_iter()
            .map(|(name, value)| Variable { name, value })
            .collect(),
        options,
        agent: args.agent.clone(),
        session: args.session.clone(),
        asking: if args.require_approval {
            Asking::Always
        } else {
            Asking::Policy
        },
        wait_ms: if args.no_wait {
            Some(0)
        } else {
            args.wait.map(sjail_policy::duration::Duration::millis)
        },
        approval: args.approval.clone(),
        commit: None,
        text: args.text.clone(),
    })
}

fn user(args: &RunArgs, account: &Account) -> User {
    match args.user {
        None => User::Caller,
        Some(_) => User::Ids {
            uid: account.uid,
            gid: account.gid,
        },
    }
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
