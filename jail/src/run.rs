//! `sjail run`: from what was typed to the exit status.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use sjail_policy::bytes::ByteString;
use sjail_policy::plan::{
    self, Access, Command, Degraded, Environment, Filesystem, Grant, Home, Memory, Missing,
    Network, Plan, Protect, Unlisted, User, Variable, Workspace,
};
use sjail_policy::profile::{Entry, Profile};

use crate::caller::{Account, State};
use crate::cli::RunArgs;
use crate::error::Error;
use crate::layout::{self, Host};
use crate::limits::{Limits, Wanted};
use crate::sentence;
use crate::signals::Signals;
use crate::spawn;
use crate::stdio::{self, Output};
use crate::supervise::{self, Watch};
use crate::workspace;

/// Runs the command and gives the exit status.
pub fn run(args: &RunArgs) -> Result<u8, Error> {
    let account = Account::own();
    let plan = plan(args, &account)?;
    let state = State::of(&account);
    let host = Host {
        uid: account.uid,
        gid: account.gid,
        group: account.group_name(),
        cache: match plan.home.cache_source {
            plan::CacheSource::Own => Some(state.cache(plan.workspace.path.as_path())?),
            plan::CacheSource::None | plan::CacheSource::HostReadOnly => None,
        },
        state: Some(state.path().to_owned()),
        home: account.home,
        user: account.name,
        shell: account.shell,
    };
    let limits = Limits::prepare(&Wanted::of(&plan.limits), "run");
    let layout = layout::prepare(&plan, &host, limits.rlimits())?;
    let signals = Signals::block().map_err(Error::Signals)?;
    let (streams, held) = stdio::prepare(Output::Stream {
        limit: plan.limits.output.map(|size| size.bytes()),
    })
    .map_err(Error::Terminal)?;
    let jail = spawn::spawn(&layout, &streams, limits.clone_into())?;
    drop(streams);
    let outcome = supervise::run(
        jail,
        Watch {
            signals,
            stdio: held,
            limits: &limits,
            timeout: plan.limits.timeout.map(|time| time.to_std()),
            guards: Vec::new(),
        },
    )
    .map_err(|error| match error {
        Error::SetUp(failure) => Error::Step {
            sentence: sentence::of(&failure, &layout),
            failure,
        },
        other => other,
    })?;
    if let Some(cause) = &outcome.cause {
        eprintln!("sjail: {cause}");
    }
    Ok(outcome.exit_code())
}

/// What was typed, on the ground of the profile.
fn plan(args: &RunArgs, account: &Account) -> Result<Plan, Error> {
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
        set: variables(&args.env),
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
    use std::os::unix::ffi::OsStrExt;
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
    let dest = Path::new(std::ffi::OsStr::from_bytes(dest));
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
