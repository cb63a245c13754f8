//! Landlock, seccomp, capabilities and limits.

use std::fs::{self, File};

use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetStatus};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use sjail_policy::plan;
use sjail_policy::size::Size;

use super::Entry;
use crate::caller::Account;
use crate::client::Desk;
use crate::landlock::{Unavailable, usable_abi};
use crate::limits::scope::Scope;
use crate::limits::{Limits, Means, Wanted};
use crate::result::RunId;
use crate::sys::landlock::kernel_abi;
use crate::sys::{capability, namespace, process};

/// Each wall.
pub fn entries() -> Vec<Entry> {
    vec![
        capabilities(),
        landlock(),
        seccomp(),
        notification(),
        group(),
    ]
}

fn capabilities() -> Entry {
    let dropped = namespace::child(|| {
        unshare(CloneFlags::CLONE_NEWUSER)?;
        capability::drop_all()?;
        process::no_new_privileges()?;
        let gone = capability::usable_are_empty()? && process::has_no_new_privileges()?;
        Ok(vec![u8::from(gone)])
    });
    match dropped.as_deref() {
        Ok([1]) => Entry::verified("capabilities", "all dropped; no_new_privs set"),
        Ok(_) => Entry::missing(
            "capabilities",
            "some stayed",
            "report this: it should not be",
        ),
        Err(errno) => Entry::missing(
            "capabilities",
            format!("could not be dropped: {}", errno.desc()),
            "user namespaces are needed for it: see above",
        ),
    }
}

fn landlock() -> Entry {
    let abi = match usable_abi() {
        Ok(abi) => abi,
        Err(Unavailable::Kernel(Errno::EOPNOTSUPP)) => {
            let lsm = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
            let list = if lsm.trim().is_empty() {
                "…"
            } else {
                lsm.trim()
            };
            return Entry::missing(
                "Landlock",
                "built into the kernel but switched off at boot",
                format!("add to the kernel's command line: lsm=landlock,{list}"),
            );
        }
        Err(_) => {
            return Entry::missing(
                "Landlock",
                "not built into this kernel",
                "Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK=y; or run with --allow-degraded",
            );
        }
    };
    // The same rules that a jail has, with nothing allowed: the root must be closed then.
    let closed = namespace::child(|| {
        process::no_new_privileges()?;
        let status = Ruleset::default()
            .handle_access(AccessFs::from_all(ABI::V1))
            .and_then(Ruleset::create)
            .and_then(|rules| rules.restrict_self())
            .map_err(|_| Errno::EINVAL)?;
        let enforced = status.ruleset == RulesetStatus::FullyEnforced;
        let refused = File::open("/etc/passwd").is_err();
        Ok(vec![u8::from(enforced && refused)])
    });
    match closed.as_deref() {
        Ok([1]) => Entry::verified(
            "Landlock",
            format!("{}; a closed file could not be opened", version(abi)),
        ),
        _ => Entry::missing(
            "Landlock",
            format!("{}, but its rules are not enforced", version(abi)),
            "another security module or a container refuses it",
        ),
    }
}

/// What the mounts and the filter must hold alone, by the version that can hold it, too.
const SINCE: [(ABI, &str); 4] = [
    (ABI::V3, "truncating files"),
    (ABI::V5, "control of devices"),
    (ABI::V6, "abstract sockets and signals (so no --net host)"),
    (ABI::V9, "sockets of others in writable folders"),
];

/// The version in use, the kernel's own where it is another, and what it cannot hold.
fn version(used: ABI) -> String {
    let mut text = format!("ABI {used}");
    if let Ok(kernel) = kernel_abi()
        && kernel != used as i32
    {
        text.push_str(&format!(" of the kernel's {kernel}"));
    }
    let without: Vec<&str> = SINCE
        .iter()
        .filter(|(since, _)| used < *since)
        .map(|(_, what)| *what)
        .collect();
    if !without.is_empty() {
        text.push_str(&format!(", which does not know {}", without.join(", ")));
    }
    text
}

fn seccomp() -> Entry {
    let held = namespace::child(|| {
        process::no_new_privileges()?;
        crate::seccomp::load()?;
        let filtering = process::seccomp_mode()? == 2;
        let refused = unshare(CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWUSER).is_err();
        Ok(vec![u8::from(filtering && refused)])
    });
    match held.as_deref() {
        Ok([1]) => Entry::verified(
            "seccomp",
            "the jail's own filter loads, and a refused call is refused",
        ),
        Ok(_) => Entry::missing(
            "seccomp",
            "the filter loads but does not refuse",
            "report this: it should not be",
        ),
        Err(errno) => Entry::missing(
            "seccomp",
            format!("the filter cannot be loaded: {}", errno.desc()),
            "a kernel with CONFIG_SECCOMP_FILTER=y; inside a container: its own filter must allow seccomp(2)",
        ),
    }
}

fn notification() -> Entry {
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    match actions
        .split_whitespace()
        .any(|action| action == "user_notif")
    {
        true => Entry::noted("seccomp notification", "offered by this kernel"),
        false => Entry::noted(
            "seccomp notification",
            "not offered by this kernel (Linux 5.0 and newer do)",
        ),
    }
}

/// Makes a group for limits as a run would, and removes it.
fn group() -> Entry {
    let wanted = Wanted::of(&plan::Limits {
        memory: Some(plan::Memory::Bytes(Size::from_bytes(1 << 30))),
        pids: Some(512),
        ..plan::Limits::default()
    });
    let id = RunId::fresh();
    let scope = Scope {
        desk: Desk::own(&Account::own()),
        run: id.as_str().to_owned(),
    };
    let limits = Limits::prepare(&wanted, id.as_str(), &mut |_| Ok(()), Some(&scope));
    let report = limits.report();
    let means = report.memory.map(|memory| memory.by);
    let pids = report.pids.map(|pids| pids.by);
    let _ = limits.remove();
    match (means, pids) {
        (Some(Means::Watchdog), _) | (_, Some(Means::Watchdog)) | (None, _) => Entry::limited(
            "limits group",
            "no control group can be had here: rlimits and a watchdog hold memory and processes",
            Some("log in with systemd as a user session, or: systemd-run --user --scope -p Delegate=yes $SHELL".into()),
        ),
        (Some(by), _) => Entry::verified("limits group", format!("made and removed: {by:?}")),
    }
}
