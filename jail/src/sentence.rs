//! The words for a failed step: what was being done, why it failed, what to do.

use std::ffi::CStr;

use nix::errno::Errno;

use crate::layout::{Layout, What};
use crate::step::{Failure, Step};

/// One sentence for a failed step of setting this jail up.
pub fn of(failure: &Failure, layout: &Layout) -> String {
    let errno = Errno::from_raw(failure.errno);
    let act = act(failure, layout);
    match fix(failure.step, errno) {
        Some(fix) => format!("{act} failed ({errno}): {fix}"),
        None => format!("{act} failed ({errno}). `sjail doctor` looks at each layer"),
    }
}

/// What was being done, with the name of the item it was done to.
fn act(failure: &Failure, layout: &Layout) -> String {
    let index = failure.item as usize;
    let root = &layout.root;
    let mount = || root.mounts.get(index);
    let dest = || mount().map_or_else(|| "/".to_owned(), |mount| slashed(&mount.dest));
    let source = || match mount().map(|mount| &mount.what) {
        Some(What::Host(place)) => shown(&place.path),
        _ => dest(),
    };
    match failure.step {
        Step::ParentDeath => "tying the jail's life to sjail's".to_owned(),
        Step::IdMap => "mapping your user id into the jail".to_owned(),
        Step::Namespaces => "making the jail's namespaces".to_owned(),
        Step::Loopback => "bringing the jail's loopback interface up".to_owned(),
        Step::Private => "separating the jail's mounts from the host's".to_owned(),
        Step::OpenSource => format!("opening {} to show it in the jail", source()),
        Step::SourceChanged => format!("showing {}", source()),
        Step::CloneMount => format!("copying the mount of {}", source()),
        Step::MountAttributes => format!("making the jail's {} safe", dest()),
        Step::Root => "making the jail's root file system".to_owned(),
        Step::Folder => format!(
            "making the folder {} in the jail",
            root.folders
                .get(index)
                .map_or_else(String::new, |made| slashed(&made.path))
        ),
        Step::File => format!(
            "making the file {} in the jail",
            root.files
                .get(index)
                .map_or_else(String::new, |made| slashed(&made.path))
        ),
        Step::Link => format!(
            "making the link {} in the jail",
            root.links
                .get(index)
                .map_or_else(String::new, |made| slashed(&made.path))
        ),
        Step::Destination => format!("opening {} in the jail to mount on it", dest()),
        Step::Observe => "putting the command under observation (--trace)".to_owned(),
        Step::Overlay => format!(
            "making a copy of {} for a git command that writes git's configuration",
            dest()
        ),
        Step::Attach => format!("mounting {} in the jail", dest()),
        Step::Proc => "mounting the jail's own /proc".to_owned(),
        Step::Pts => "mounting the jail's own /dev/pts".to_owned(),
        Step::Terminal => "opening the jail's own terminal".to_owned(),
        Step::SshAgent => "making the socket of the ssh agent inside".to_owned(),
        Step::Pivot => "entering the jail's root".to_owned(),
        Step::WorkingFolder => format!(
            "entering the working folder {} in the jail",
            shown(&layout.working_folder.path)
        ),
        Step::Go => "waiting for sjail's word to go on".to_owned(),
        Step::CgroupNamespace => "making the jail's cgroup namespace".to_owned(),
        Step::HostName => "setting the jail's host name".to_owned(),
        Step::Limits => "setting the jail's resource limits".to_owned(),
        Step::Descriptors => "closing inherited descriptors".to_owned(),
        Step::Capabilities => "dropping the capabilities".to_owned(),
        Step::NoNewPrivileges => "setting no_new_privs".to_owned(),
        Step::Undumpable => "making the jail's first process undumpable".to_owned(),
        Step::LandlockRule => format!(
            "allowing {} in Landlock",
            layout
                .rules
                .as_ref()
                .and_then(|rules| rules.rules.get(index))
                .map_or_else(String::new, |rule| shown(&rule.path))
        ),
        Step::Landlock => "enforcing Landlock".to_owned(),
        Step::Seccomp => "loading the system-call filter".to_owned(),
        Step::VerifyCapabilities => "the check that no capability is left".to_owned(),
        Step::VerifyNoNewPrivileges => "the check that no_new_privs is set".to_owned(),
        Step::VerifySeccomp => "the check that the system-call filter is on".to_owned(),
        Step::VerifyLandlock => "the check that Landlock refuses the host's files".to_owned(),
        Step::VerifyNamespace => "the check that the jail has namespaces of its own".to_owned(),
        Step::VerifyRoot => "the check that the host's root is out of reach".to_owned(),
        Step::OpenProgram | Step::ProgramChanged | Step::Exec => {
            format!("executing {}", program(index, layout))
        }
        Step::Fork => "starting the command's process".to_owned(),
        Step::Streams => "connecting the command's standard streams".to_owned(),
    }
}

fn program(index: usize, layout: &Layout) -> String {
    let program = &layout.program;
    let place = match index.checked_sub(1) {
        Some(script) => program.scripts.get(script).unwrap_or(&program.file),
        None => program.scripts.first().unwrap_or(&program.file),
    };
    shown(&place.path)
}

/// What to do about it, where that is known.
fn fix(step: Step, errno: Errno) -> Option<&'static str> {
    Some(match (step, errno) {
        (
            Step::IdMap | Step::Loopback | Step::Private | Step::Root,
            Errno::EPERM | Errno::EACCES,
        ) => {
            "user namespaces can be made here but have no rights in them, as Ubuntu's AppArmor restriction does it; `sjail doctor` prints the profile that allows sjail"
        }
        (Step::Proc, Errno::EPERM) => {
            "parts of the host's /proc are masked, as in a container, so the kernel gives no fresh one; start the container with an unmasked /proc (--security-opt systempaths=unconfined)"
        }
        (Step::Overlay, _) => {
            "this kernel gives no overlay to ordinary users (Linux 5.11 and newer do, on most file systems); run this one git command yourself, outside the jail"
        }
        (Step::SourceChanged, _) => {
            "it was replaced while the jail was being set up; run the command again"
        }
        (Step::ProgramChanged, _) => {
            "inside the jail it is another file than outside, or it was replaced just now; run the command again"
        }
        (Step::OpenProgram, Errno::ENOENT) => {
            "it exists outside, but the jail does not show it, or a link on the way to it; --ro PATH shows it"
        }
        (Step::Exec, Errno::ENOENT) => {
            "its loader is not in the jail: a 32-bit program, or one for another C library"
        }
        (Step::Exec, Errno::ENOEXEC) => "it is no program of this machine's kind",
        (Step::Exec, Errno::E2BIG) => "its arguments and environment are too long",
        (Step::Exec, Errno::EACCES) => {
            "it is not executable, or lies on a file system that forbids executing"
        }
        (Step::OpenSource | Step::WorkingFolder, Errno::EACCES) => {
            "you have no right to it; is a folder above it closed to you?"
        }
        (Step::WorkingFolder, Errno::ESTALE) => {
            "it is another folder inside than outside; was it replaced just now?"
        }
        (Step::WorkingFolder, Errno::ENOENT) => {
            "the jail does not show it; go to the workspace, or name it with --workspace"
        }
        (Step::Root | Step::Folder | Step::File, Errno::ENOSPC) => {
            "--tmp-size is too small for the jail itself"
        }
        (Step::Limits, Errno::EPERM) => {
            "a limit would have to be raised above your own; see ulimit -H"
        }
        (Step::Fork, Errno::EAGAIN) => {
            "there are too many processes: --pids, or ulimit -u, is too low"
        }
        (_, Errno::EMFILE | Errno::ENFILE) => "too few descriptors are allowed; raise ulimit -n",
        (_, Errno::EFBIG) => "files cannot grow: ulimit -f is too low",
        (_, Errno::ENOMEM) => "memory is short",
        (_, Errno::ENOSPC) => {
            "a limit of the kernel is reached: see /proc/sys/user/max_mnt_namespaces and its kin, /proc/sys/fs/mount-max"
        }
        (_, Errno::ENOSYS) => "this kernel is too old: Linux 5.13 or newer is needed",
        _ => return None,
    })
}

fn shown(path: &CStr) -> String {
    sjail_policy::show::inert(path.to_bytes())
}

fn slashed(path: &CStr) -> String {
    format!("/{}", shown(path))
}
