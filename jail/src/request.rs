//! What was typed, made a plan: the profile is the ground, the flags come on top.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use sjail_policy::bytes::ByteString;
use sjail_policy::plan::{
    self, Access, Command, Degraded, Environment, Filesystem, Grant, Home, Memory, Missing,
    Network, Plan, Protect, Unlisted, User, Variable, Workspace,
};
use sjail_policy::profile::{Entry, Profile};

use crate::caller::Account;
use crate::cli::RunArgs;
use crate::error::Error;
use crate::workspace;

/// What was typed, on the ground of the profile.
pub fn plan(args: &RunArgs, account: &Account) -> Result<Plan, Error> {
    let profile = match &args.profile {
        None => Profile::default_profile(),
        Some(name) => {
            Profile::named(name).ok_or_else(|| Error::NoProfile { name: name.clone() })?
        }
    };
    let found = workspace::find(args.workspace.as_deref(), &account.home)?;
    let home = &account.home;
    let absolute = |list: &[Entry]| list.iter().map(|entry| entry.value.into()).collect();
    let below = |list: &[Entry]| {
        list.iter()
            .map(|entry| ByteString::from(home.join(entry.value)))
            .collect()
    };
    let environment = Environment {
        pass: absolute(profile.pass),
        drop: absolute(profile.drop),
        set: set_variables(args, account),
    };
    let caller = std::env::vars_os().map(|(name, value)| (name.into(), value.into()));
    let argv: Vec<ByteString> = match &args.line {
        Some(line) => vec!["/bin/sh".into(), "-c".into(), line.clone().into()],
        None => args.command.iter().cloned().map(ByteString::from).collect(),
    };
    Ok(Plan {
        profile: profile.name.to_owned(),
        command: Command {
            argv,
            cwd: found.cwd.into(),
            program: None,
            env: environment.apply(caller),
        },
        user: User::Caller,
        workspace: Workspace {
            path: found.workspace.into(),
            access: profile.workspace,
        },
        filesystem: Filesystem {
            system: absolute(profile.system),
            etc: absolute(profile.etc),
            grants: granted(args)?,
            hide: args.hide.iter().cloned().map(ByteString::from).collect(),
            protect: Protect {
                names: absolute(profile.protect),
                depth: profile.protect_depth,
            },
        },
        home: Home {
            path: home.clone().into(),
            toolchains: below(profile.toolchains),
            config: below(profile.config),
            caches: below(profile.caches),
            cache_source: profile.cache_source,
        },
        network: Network {
            mode: args.net.unwrap_or(profile.network),
            allow: Vec::new(),
            deny: Vec::new(),
            unlisted: Unlisted::Refuse,
        },
        limits: plan::Limits {
            memory: args
                .memory
                .map(Memory::Bytes)
                .or(profile.memory.map(Memory::OfMachine)),
            cpu: args.cpu,
            pids: args.pids.or(profile.pids),
            io_read: args.io_read,
            io_write: args.io_write,
            timeout: args.timeout,
            output: args.max_output,
            tmp: args.tmp_size.or(profile.tmp),
        },
        environment,
        degraded: if args.allow_degraded {
            Degraded::Allowed
        } else {
            Degraded::Refused
        },
    })
}

/// What `--env` says; for `--user`, that user's own before it.
fn set_variables(args: &RunArgs, account: &Account) -> Vec<Variable> {
    let mut set = Vec::new();
    if args.user.is_some() {
        let home = ByteString::from(account.home.clone());
        for (name, value) in [
            ("HOME", home),
            ("USER", account.name.as_str().into()),
            ("LOGNAME", account.name.as_str().into()),
            ("SHELL", account.shell.as_str().into()),
        ] {
            let name = name.into();
            set.push(Variable { name, value });
        }
    }
    for typed in variables(&args.env) {
        set.retain(|earlier: &Variable| earlier.name != typed.name);
        set.push(typed);
    }
    set
}

fn variables(typed: &[OsString]) -> Vec<Variable> {
    typed
        .iter()
        .filter_map(|typed| {
            let bytes = typed.clone().into_vec();
            match bytes.iter().position(|byte| *byte == b'=') {
                Some(at) => Some(Variable {
                    name: bytes.get(..at)?.into(),
                    value: bytes.get(at + 1..)?.into(),
                }),
                None => Some(Variable {
                    value: std::env::var_os(typed)?.into(),
                    name: bytes.into(),
                }),
            }
        })
        .collect()
}

fn granted(args: &RunArgs) -> Result<Vec<Grant>, Error> {
    let mut grants = Vec::new();
    for (paths, access) in [(&args.ro, Access::Ro), (&args.rw, Access::Rw)] {
        for path in paths {
            let path = std::path::absolute(path).map_err(|error| Error::Look {
                path: path.clone(),
                error,
            })?;
            grants.push(Grant {
                source: path.clone().into(),
                dest: path.into(),
                access,
                missing: Missing::Refuse,
            });
        }
    }
    for bind in &args.bind {
        grants.push(bound(bind)?);
    }
    Ok(grants)
}

fn bound(typed: &OsString) -> Result<Grant, Error> {
    let wrong = || Error::BadBind {
        text: typed.clone(),
    };
    let parts: Vec<&[u8]> = typed.as_bytes().split(|byte| *byte == b':').collect();
    let (source, dest, access) = match parts.as_slice() {
        [source, dest] | [source, dest, b"ro"] => (source, dest, Access::Ro),
        [source, dest, b"rw"] => (source, dest, Access::Rw),
        _ => return Err(wrong()),
    };
    let source = std::path::absolute(PathBuf::from(OsString::from_vec(source.to_vec())))
        .map_err(|_| wrong())?;
    let dest = Path::new(OsStr::from_bytes(dest));
    if !dest.is_absolute() {
        return Err(wrong());
    }
    Ok(Grant {
        source: source.into(),
        dest: dest.into(),
        access,
        missing: Missing::Refuse,
    })
}
