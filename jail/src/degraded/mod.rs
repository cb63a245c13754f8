//! A jail without namespaces, for machines that give no user namespaces: Landlock, a
//! second system-call filter, limits, a session of its own, and nothing else.
//!
//! Only with `--allow-degraded`, and only after the whole jail was tried. What mounts and
//! namespaces do elsewhere is done here by refusing more (every socket, all that changes
//! modes and owners, System V and POSIX queues), and what cannot be done at all is said:
//! [`shortfalls`].
//!
//! - [`cause`]: why there are no namespaces here, in words.
//! - [`room`]: a home and a temporary folder of the run's own.
//! - [`filter`]: the second filter.
//! - [`family`]: every process of the run, found by descent, for there is no pid namespace
//!   that would end them.

pub mod cause;
pub mod child;
pub mod family;
pub mod filter;
pub mod room;

use std::ffi::CString;
use std::path::PathBuf;

use landlock::ABI;
use seccompiler::sock_filter;
use sjail_policy::plan::{Desk, NetworkMode, Plan};
use sjail_policy::show::inert;

use crate::error::Error;
use crate::landlock::has_scopes;
use cause::Cause;

/// What a jail without namespaces has instead of a root of its own.
#[derive(Debug)]
pub struct Bare {
    /// The second filter.
    pub filter: Vec<sock_filter>,
    /// Whether every socket is refused.
    pub sockets: Sockets,
    /// Whether signals stay among the command's own processes.
    pub signals: Signals,
    /// Files that exist and must not be opened for writing; for the self-check.
    pub closed: Vec<CString>,
    /// Files and folders that must not be opened at all; for the self-check.
    pub hidden: Vec<CString>,
    /// Folders that hold protected or hidden names: what is in them is granted one by one,
    /// so nothing new can be made there.
    pub split: Vec<PathBuf>,
}

/// What sockets can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sockets {
    /// None but pairs.
    None,
    /// Those of the host's network; Unix sockets never.
    Internet,
}

/// Who can be signalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signals {
    /// The command's own processes.
    Scoped,
    /// Every process of the same user: this kernel's Landlock cannot tell.
    Open,
}

impl Signals {
    /// What this ABI can do.
    pub fn of(abi: ABI) -> Signals {
        match has_scopes(abi) {
            true => Signals::Scoped,
            false => Signals::Open,
        }
    }
}

/// Refuses what a plan asks for and nothing here could hold.
pub fn possible(plan: &Plan, previewing: bool, cause: &Cause) -> Result<(), Error> {
    let refuse = |what: &'static str| {
        Err(Error::NotBare {
            what,
            cause: cause.why.clone(),
            fix: cause.fix.clone(),
        })
    };
    match plan.network.mode {
        _ if previewing => refuse("a preview (--dry-run)"),
        NetworkMode::Filtered => refuse("a filtered network (--net filtered, --allow-host)"),
        _ if !plan.network.publish.is_empty() => refuse("a published port (--publish)"),
        NetworkMode::None | NetworkMode::Host => Ok(()),
    }
}

/// What is not enforced, each in a sentence, the cause first.
pub fn shortfalls(bare: &Bare, cause: &Cause, plan: &Plan) -> Vec<String> {
    let mut list = vec![
        format!("user namespaces are not used: {}", cause.why),
        "there is no private view of processes: the names and command lines of others can be seen".to_owned(),
        "there is no private file system: names, sizes and owners of the host's files can be seen, their contents cannot; /tmp, /var/tmp and /dev/shm are closed, HOME and TMPDIR are folders of this run".to_owned(),
        "there is no namespace for System V and POSIX queues, semaphores and shared memory: they are refused".to_owned(),
        "modes, owners, times and attributes of files cannot be changed".to_owned(),
        "should sjail and the jail's first process be killed at the same moment, processes of the command could go on".to_owned(),
    ];
    list.push(match bare.sockets {
        Sockets::None => "there is no network namespace: every socket is refused instead, Unix sockets too".to_owned(),
        Sockets::Internet => "Unix sockets are refused: without a file system of its own the command would reach the host's".to_owned(),
    });
    if bare.signals == Signals::Open {
        list.push(
            "signals to your other processes are not refused: Landlock ABI 6 (Linux 6.12) could"
                .to_owned(),
        );
    }
    if plan.desk == Desk::Requests {
        list.push("nobody can be asked from inside: there is no socket to ask at".to_owned());
    }
    if plan.limits.tmp.is_some() {
        list.push(
            "--tmp-size is not enforced: the temporary folder is on the host's disk".to_owned(),
        );
    }
    if !bare.split.is_empty() {
        const NAMED: usize = 8;
        let mut folders: Vec<String> = bare
            .split
            .iter()
            .take(NAMED)
            .map(|path| inert(path.as_os_str().as_encoded_bytes()))
            .collect();
        if bare.split.len() > NAMED {
            folders.push(format!("{} more", bare.split.len() - NAMED));
        }
        list.push(format!(
            "protected and hidden names stay closed, but no name can be made, removed or renamed in the folders that hold them: {}",
            folders.join(", ")
        ));
    }
    list
}
