//! Reach over the caller's own files, whatever their permissions say.
//!
//! A folder that is closed to its own user (0555, 0000) is no obstacle to a command: it
//! opens the folder, works in it and closes it again. Whoever compares or repeats that
//! work must not change permissions on the way. So it is done from a user namespace of
//! its own in which the caller has every right over files of their own user and group,
//! and none over anybody else's.

use std::fs;
use std::os::unix::fs::MetadataExt;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use super::Error;

/// Does something, and where it meets a closed door does it again with that reach: groups
/// beyond the caller's first cannot be given to files from there, so it is not the rule.
pub fn over_own_files<T>(mut act: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    match act() {
        Err(error) if error.is_closed_door() && enter() => act(),
        done => done,
    }
}

/// Enters such a namespace, for good; whether it could.
fn enter() -> bool {
    let (user, group) = (geteuid(), getegid());
    // After a change of user the maps are root's.
    let is_ours = fs::metadata("/proc/self/uid_map").is_ok_and(|map| map.uid() == user.as_raw());
    if user.is_root() || !is_ours || unshare(CloneFlags::CLONE_NEWUSER).is_err() {
        return false;
    }
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ] {
        if fs::write(format!("/proc/self/{file}"), text).is_err() {
            return false;
        }
    }
    true
}
