//! What a process says about itself: prctl, limits, host name, namespaces.

use std::ffi::CStr;

use nix::errno::Errno;
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask,
};
use nix::unistd::Pid;

/// Asks to be killed when the parent ends.
pub fn die_with_parent() -> nix::Result<()> {
    prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong).map(drop)
}

/// Has a program about to be started asked for the same.
pub fn ends_with_parent(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec only prctl is called, which takes plain numbers.
    unsafe { command.pre_exec(|| die_with_parent().map_err(Into::into)) };
}

/// Takes that back: a jail without a pid namespace must outlive its parent for as long as
/// it takes to end everybody below it.
pub fn outlive_parent() -> nix::Result<()> {
    prctl(libc::PR_SET_PDEATHSIG, 0).map(drop)
}

/// Processes below this one that lose their parent become its own children.
pub fn adopt_orphans() -> nix::Result<()> {
    prctl(libc::PR_SET_CHILD_SUBREAPER, 1).map(drop)
}

/// Whether [`adopt_orphans`] is in force.
pub fn adopts_orphans() -> nix::Result<bool> {
    let mut answer: libc::c_int = 0;
    // SAFETY: the kernel writes one int to the pointer, which outlives the call.
    let done = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut answer, 0, 0, 0) };
    Errno::result(done).map(|_| answer == 1)
}

/// No exec gives privileges any more, for good.
pub fn no_new_privileges() -> nix::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1).map(drop)
}

/// Whether [`no_new_privileges`] is in force.
pub fn has_no_new_privileges() -> nix::Result<bool> {
    prctl(libc::PR_GET_NO_NEW_PRIVS, 0).map(|answer| answer == 1)
}

/// Takes this process out of reach of ptrace and `/proc/PID/mem` of its equals.
pub fn undumpable() -> nix::Result<()> {
    prctl(libc::PR_SET_DUMPABLE, 0).map(drop)
}

/// Undoes what a change of user does to this process: its `/proc` files are its own again.
pub fn dumpable() -> nix::Result<()> {
    prctl(libc::PR_SET_DUMPABLE, 1).map(drop)
}

/// Whether [`undumpable`] is in force.
pub fn is_undumpable() -> nix::Result<bool> {
    prctl(libc::PR_GET_DUMPABLE, 0).map(|answer| answer == 0)
}

/// The seccomp mode: 2 is "filter".
pub fn seccomp_mode() -> nix::Result<i32> {
    prctl(libc::PR_GET_SECCOMP, 0)
}

/// A cgroup namespace rooted where this process now is.
pub fn new_cgroup_namespace() -> nix::Result<()> {
    // SAFETY: a flag, no memory.
    Errno::result(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) }).map(drop)
}

/// The host name of this uts namespace.
pub fn set_host_name(name: &CStr) -> nix::Result<()> {
    // SAFETY: the pointer and the length belong together.
    Errno::result(unsafe { libc::sethostname(name.as_ptr(), name.count_bytes()) }).map(drop)
}

/// Gives a program about to be executed the signals that the caller had: its mask, and
/// the actions that sjail and its runtime changed. What the caller ignores (nohup)
/// stays ignored.
pub fn callers_signals(mask: &SigSet) -> nix::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    set_action(Signal::SIGPIPE, &default)?;
    set_action(Signal::SIGCHLD, &default)?;
    set_action(Signal::SIGXFSZ, &default)?;
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(mask), None)
}

/// A reader that is gone is an error of the write, not sjail's end.
pub fn survive_closed_pipes() -> nix::Result<()> {
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    set_action(Signal::SIGPIPE, &ignore)
}

/// A caller's limit on file sizes is an error in words, not sjail's end.
pub fn survive_file_size_limit() -> nix::Result<()> {
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    set_action(Signal::SIGXFSZ, &ignore)
}

/// Gives a signal an action that calls nothing of ours (default or ignore).
pub fn set_action(signal: Signal, action: &SigAction) -> nix::Result<()> {
    debug_assert!(!matches!(
        action.handler(),
        SigHandler::Handler(_) | SigHandler::SigAction(_)
    ));
    // SAFETY: no handler function is installed, so no code runs in signal context.
    unsafe { sigaction(signal, action) }.map(drop)
}

/// Asks for the processor before everybody else; whoever is started from here does not.
pub fn go_first() -> nix::Result<()> {
    const PLAIN: libc::sched_param = libc::sched_param { sched_priority: 0 };
    let usual = libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK;
    // SAFETY: numbers, and a parameter that outlives the call.
    unsafe {
        Errno::result(libc::sched_setscheduler(0, usual, &PLAIN))?;
        Errno::result(libc::setpriority(libc::PRIO_PROCESS, 0, -20)).map(drop)
    }
}

/// Ends this process at once, without running anything of ours.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: does not return; no destructors or exit handlers run.
    unsafe { libc::_exit(status) }
}

fn prctl(option: i32, argument: libc::c_ulong) -> nix::Result<i32> {
    const ZERO: libc::c_ulong = 0;
    // SAFETY: these options take a plain number, or a pointer that lives through the call.
    Errno::result(unsafe { libc::prctl(option, argument, ZERO, ZERO, ZERO) })
}

/// The next child that has ended or stopped, with its raw status; `None` when there is
/// none to report now, or none at all.
pub fn wait_any() -> nix::Result<Option<(Pid, i32)>> {
    let mut status = 0;
    // SAFETY: `status` is writable and outlives the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::WUNTRACED) };
    match Errno::result(pid) {
        Ok(0) | Err(Errno::ECHILD) => Ok(None),
        Ok(pid) => Ok(Some((Pid::from_raw(pid), status))),
        Err(errno) => Err(errno),
    }
}
