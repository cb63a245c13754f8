//! The jail checks itself: after every wall is up and before anything foreign runs.
//!
//! What can be seen better from outside (that each namespace differs from the parent's)
//! the supervisor checks before it says `Go`: see [`crate::spawn`].

use std::ffi::CStr;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, stat};
use nix::unistd::Pid;

use crate::layout::{Layout, Observation};
use crate::mounts::Outside;
use crate::step::{At, Failure, Step};
use crate::sys::file::FileId;
use crate::sys::{capability, process, tty};

/// SECCOMP_MODE_FILTER.
const FILTER: i32 = 2;

/// The cgroup namespace that this process is in, to be compared later.
pub fn cgroup_namespace() -> nix::Result<FileId> {
    stat(c"/proc/self/ns/cgroup").map(|stat| FileId::from(&stat))
}

/// Looks at each layer; the first that is not as promised is the failure. `before` is the
/// cgroup namespace of the supervisor.
pub fn all(layout: &Layout, outside: &Outside, before: FileId) -> Result<(), Failure> {
    promised(capability::usable_are_empty(), Step::VerifyCapabilities)?;
    promised(capability::bounding_is_empty(), Step::VerifyCapabilities)?;
    promised(
        process::has_no_new_privileges(),
        Step::VerifyNoNewPrivileges,
    )?;
    promised(
        process::seccomp_mode().map(|mode| mode == FILTER),
        Step::VerifySeccomp,
    )?;
    // A container has a filter too: this one must be ours.
    let answer = match layout.observation {
        Observation::None | Observation::Renames(_) => Errno::EPERM,
        // The filter for observed runs has no errno of its own.
        Observation::Calls(_) => Errno::ENOSYS,
    };
    promised(tty::typing_is_refused(answer), Step::VerifySeccomp)?;
    promised(process::is_undumpable(), Step::Undumpable)?;
    promised(Ok(Pid::this().as_raw() == 1), Step::VerifyNamespace)?;
    promised(
        cgroup_namespace().map(|group| group != before),
        Step::VerifyNamespace,
    )?;
    promised(
        stat(c"/").map(|root| FileId::from(&root) == outside.new_root),
        Step::VerifyRoot,
    )?;
    promised(
        stat(c"/..").map(|above| FileId::from(&above) == outside.new_root),
        Step::VerifyRoot,
    )?;
    promised(
        stat(c".").map(|here| layout.working_folder.is(FileId::from(&here))),
        Step::WorkingFolder,
    )?;
    match layout.rules {
        Some(_) => promised(is_refused(outside, ALLOWED), Step::VerifyLandlock),
        None => Ok(()),
    }
}

/// Whether Landlock's rules hold where the mounts would not; to be asked before the layer
/// that keeps to the jail's own tree, which would answer in their place.
pub fn rules_hold(outside: &Outside) -> Result<(), Failure> {
    promised(is_refused(outside, c"."), Step::VerifyLandlock)
}

/// A folder that the rules allow, wherever it is come upon: only the tree that it is in can
/// be why it is refused.
const ALLOWED: &CStr = c"usr";

/// Whether a handle on the old root, kept for this question, is of no use for this folder.
fn is_refused(outside: &Outside, folder: &CStr) -> nix::Result<bool> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    match openat(outside.old_root.as_fd(), folder, flags, Mode::empty()) {
        Err(Errno::EACCES | Errno::ENOENT) => Ok(true),
        Err(errno) => Err(errno),
        Ok(_) => Ok(false),
    }
}

fn promised(kept: nix::Result<bool>, step: Step) -> Result<(), Failure> {
    match kept {
        Ok(true) => Ok(()),
        Ok(false) => Err(Errno::EPERM).at(step),
        Err(errno) => Err(errno).at(step),
    }
}
