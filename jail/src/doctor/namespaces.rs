//! User namespaces and what is done in them, step by step: a system may allow the first
//! step and refuse a later one, and each refusal has its own cause.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};

use super::Entry;
use crate::degraded::cause::{self, Cause};
use crate::sys::file::openat2;
use crate::sys::mount::{self, NO_DEVICES, NO_EXEC, NO_SUID};
use crate::sys::{namespace, net};

/// One thing that is done in a fresh user namespace.
struct Step {
    layer: &'static str,
    act: fn() -> nix::Result<()>,
    /// What a success shows.
    how: &'static str,
}

const STEPS: &[Step] = &[
    Step {
        layer: "id maps",
        act: map_ids,
        how: "your own user and group id, setgroups denied",
    },
    Step {
        layer: "mount namespace",
        act: || unshare(CloneFlags::CLONE_NEWNS),
        how: "made",
    },
    Step {
        layer: "mounts",
        act: private_and_tmpfs,
        how: "made private; a tmpfs and copies of mounts by the new mount interface",
    },
    Step {
        layer: "network namespace",
        act: || unshare(CloneFlags::CLONE_NEWNET),
        how: "made",
    },
    Step {
        layer: "loopback",
        act: net::loopback_up,
        how: "brought up",
    },
    Step {
        layer: "ipc namespace",
        act: || unshare(CloneFlags::CLONE_NEWIPC),
        how: "made",
    },
    Step {
        layer: "uts namespace",
        act: || unshare(CloneFlags::CLONE_NEWUTS),
        how: "made",
    },
    Step {
        layer: "cgroup namespace",
        act: || unshare(CloneFlags::CLONE_NEWCGROUP),
        how: "made",
    },
    Step {
        layer: "pid namespace",
        act: || unshare(CloneFlags::CLONE_NEWPID),
        how: "made",
    },
    Step {
        layer: "/proc",
        act: fresh_proc,
        how: "a fresh one can be mounted",
    },
    Step {
        layer: "terminals",
        act: fresh_pts,
        how: "own pseudo-terminals can be mounted",
    },
    Step {
        layer: "overlay",
        act: overlay,
        how: "writing to a copy works (git commands that write git's configuration)",
    },
];

/// Every step, in one child.
pub fn entries() -> Vec<Entry> {
    let results = match attempt() {
        Err(errno) => {
            let (how, fix) = refused(errno);
            return vec![Entry::missing("user namespace", how, fix)];
        }
        Ok(results) => results,
    };
    let mut entries = vec![Entry::verified("user namespace", "made without privileges")];
    for (step, result) in STEPS.iter().zip(results) {
        entries.push(match result {
            0 => Entry::verified(step.layer, step.how),
            errno => failed(step, Errno::from_raw(i32::from(errno))),
        });
    }
    entries
}

/// Does it; one byte a step comes back.
fn attempt() -> nix::Result<Vec<u8>> {
    remember_ids();
    namespace::child(|| {
        unshare(CloneFlags::CLONE_NEWUSER)?;
        // One byte a step: 0, or its errno. A step is tried even when one before it
        // failed: what it needs of that may still be there.
        Ok(STEPS
            .iter()
            .map(|step| match (step.act)() {
                Ok(()) => 0,
                Err(errno) => errno as i32 as u8,
            })
            .collect())
    })
}

/// The first step that a jail needs and this machine refuses, and how.
pub fn first_refusal() -> Option<(&'static str, String)> {
    let results = match attempt() {
        Err(errno) => return Some(("a user namespace", cause::of(errno).why)),
        Ok(results) => results,
    };
    STEPS
        .iter()
        .zip(results)
        .filter(|(step, _)| step.layer != "overlay")
        .find(|(_, result)| *result != 0)
        .map(|(step, result)| {
            let entry = failed(step, Errno::from_raw(i32::from(result)));
            (step.layer, entry.how)
        })
}

/// Why a user namespace was refused, and what to do.
fn refused(errno: Errno) -> (String, String) {
    let Cause { why, fix } = cause::of(errno);
    let fix = match fix.contains("AppArmor profile") {
        true => app_armor_profile(),
        false => fix,
    };
    (format!("refused ({errno:?}): {why}"), fix)
}

fn failed(step: &Step, errno: Errno) -> Entry {
    let restricted = fs::read_to_string("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
        .is_ok_and(|text| text.trim() == "1");
    failed_on(step, errno, restricted)
}

/// The same on a machine where AppArmor restricts user namespaces, or does not.
fn failed_on(step: &Step, errno: Errno, restricted: bool) -> Entry {
    let how = format!("refused ({errno:?}: {})", errno.desc());
    match (step.layer, errno) {
        ("overlay", _) => Entry::limited(
            step.layer,
            format!("{how}: git commands that write git's configuration cannot run in the jail"),
            Some("Linux 5.11 or newer; the folder ~/.local/state must be on a file system with user.* attributes".into()),
        ),
        ("/proc", Errno::EPERM) => Entry::missing(
            step.layer,
            "parts of this /proc are masked, as in a container, so the kernel gives no fresh one",
            "docker run --security-opt systempaths=unconfined …; in Kubernetes: securityContext.procMount: Unmasked",
        ),
        (_, Errno::EPERM | Errno::EACCES) if restricted => Entry::missing(
            step.layer,
            format!("{how}: Ubuntu's AppArmor restriction gives user namespaces without rights"),
            app_armor_profile(),
        ),
        _ => Entry::missing(
            step.layer,
            how,
            "a container's or host's restriction; outside of it sjail works",
        ),
    }
}

/// The profile that allows this very binary.
fn app_armor_profile() -> String {
    let exe = std::env::current_exe().unwrap_or_else(|_| "/usr/bin/sjail".into());
    format!(
        "sudo tee /etc/apparmor.d/sjail <<'END'\n\
         abi <abi/4.0>,\n\
         include <tunables/global>\n\
         profile sjail \"{}\" flags=(unconfined) {{\n\
         \x20 userns,\n\
         \x20 include if exists <local/sjail>\n\
         }}\n\
         END\n\
         sudo apparmor_parser -r /etc/apparmor.d/sjail",
        exe.display()
    )
}

fn map_ids() -> nix::Result<()> {
    let write = |path: &str, text: String| {
        fs::write(path, text)
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
    };
    write("/proc/self/setgroups", "deny".into())?;
    let (uid, gid) = ids();
    write("/proc/self/uid_map", format!("{uid} {uid} 1\n"))?;
    write("/proc/self/gid_map", format!("{gid} {gid} 1\n"))
}

/// The ids outside; inside, until they are mapped, everybody is nobody.
fn ids() -> (u32, u32) {
    static IDS: std::sync::OnceLock<(u32, u32)> = std::sync::OnceLock::new();
    *IDS.get_or_init(|| {
        (
            nix::unistd::geteuid().as_raw(),
            nix::unistd::getegid().as_raw(),
        )
    })
}

fn private_and_tmpfs() -> nix::Result<()> {
    let root = openat2(None, c"/", libc::O_PATH | libc::O_DIRECTORY, 0, 0)?;
    mount::make_private(root.as_fd())?;
    let tmpfs = mount::fresh(c"tmpfs", &[(c"size", c"65536")], NO_SUID | NO_DEVICES)?;
    let usr = openat2(None, c"/usr", libc::O_PATH | libc::O_DIRECTORY, 0, 0)?;
    mount::copy(usr.as_fd(), mount::Reach::Tree)?;
    let tmp = openat2(None, c"/tmp", libc::O_PATH | libc::O_DIRECTORY, 0, 0)?;
    mount::attach(tmpfs.as_fd(), tmp.as_fd())
}

/// Only a process in the new pid namespace can mount its /proc.
fn fresh_proc() -> nix::Result<()> {
    namespace::child(|| {
        mount::fresh(c"proc", &[], NO_SUID | NO_DEVICES | NO_EXEC)?;
        Ok(Vec::new())
    })
    .map(drop)
}

fn fresh_pts() -> nix::Result<()> {
    mount::fresh(
        c"devpts",
        &[(c"mode", c"0600"), (c"ptmxmode", c"0666")],
        NO_SUID | NO_EXEC,
    )
    .map(drop)
}

fn overlay() -> nix::Result<()> {
    let io = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
    let base = super::place::state_folder();
    fs::create_dir_all(&base).map_err(io)?;
    let scratch = tempfile::Builder::new()
        .prefix("sjail-doctor-")
        .tempdir_in(&base)
        .map_err(io)?;
    let make = |name: &str| -> nix::Result<std::ffi::CString> {
        let path = scratch.path().join(name);
        fs::create_dir(&path).map_err(io)?;
        std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| Errno::EINVAL)
    };
    let (lower, upper, work) = (make("lower")?, make("upper")?, make("work")?);
    let done = mount::fresh(
        c"overlay",
        &[
            (c"userxattr", c""),
            (c"lowerdir", &lower),
            (c"upperdir", &upper),
            (c"workdir", &work),
        ],
        NO_SUID | NO_DEVICES,
    )
    .map(drop);
    remove(scratch.path());
    done
}

/// The overlay leaves a folder of mode 000 behind.
fn remove(scratch: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let inner = scratch.join("work/work");
    let _ = fs::set_permissions(inner, fs::Permissions::from_mode(0o700));
    let _ = fs::remove_dir_all(scratch);
}

/// Before the first child: afterwards they could be asked in the wrong namespace.
pub fn remember_ids() {
    ids();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn step(layer: &str) -> &'static Step {
        STEPS.iter().find(|step| step.layer == layer).unwrap()
    }

    /// Ubuntu: the namespace is made, and the first act in it is refused.
    #[test]
    fn the_restriction_of_app_armor_comes_with_a_profile_for_this_very_file() {
        let exe = std::env::current_exe().unwrap().display().to_string();
        for (layer, errno) in [("id maps", Errno::EPERM), ("mounts", Errno::EACCES)] {
            let entry = failed_on(step(layer), errno, true);
            let fix = entry.fix.unwrap();
            assert!(entry.how.contains("AppArmor"), "{}", entry.how);
            assert!(fix.contains(&format!("profile sjail \"{exe}\"")), "{fix}");
            assert!(fix.contains("userns,") && fix.contains("apparmor_parser -r"));
        }
        let plain = failed_on(step("id maps"), Errno::EPERM, false);
        assert!(!plain.how.contains("AppArmor"));
    }

    /// Docker and Kubernetes lay something over parts of `/proc`.
    #[test]
    fn a_masked_proc_is_told_apart() {
        let entry = failed_on(step("/proc"), Errno::EPERM, false);
        assert!(entry.how.contains("masked"), "{}", entry.how);
        let fix = entry.fix.unwrap();
        assert!(fix.contains("systempaths=unconfined") && fix.contains("procMount: Unmasked"));
    }

    #[test]
    fn an_errno_of_the_first_step_has_its_cure() {
        for (errno, words) in [
            (Errno::ENOSPC, "max_user_namespaces"),
            (Errno::EACCES, "apparmor_parser -r"),
            (Errno::EINVAL, "CONFIG_USER_NS"),
        ] {
            let (_, fix) = refused(errno);
            assert!(fix.contains(words), "{errno}: {fix}");
        }
    }
}
