//! The relay's own walls. It reads what strangers send on both sides, so it can do
//! nothing but relay: no files, no programs, no other processes, no sockets but those of
//! the internet.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, RawFd};

use landlock::ABI;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::unistd::{Pid, getppid, setsid};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare,
    SeccompCondition as Condition, SeccompFilter, SeccompRule as Rule,
};

use crate::landlock::{self as wall, Rules, Tcp};
use crate::sys::{capability, file, process};

/// What the relay may hold open at most; a connection needs up to six.
const DESCRIPTORS: u64 = 1 << 15;

/// Which wall failed, and why.
pub type Failure = (&'static str, Errno);

/// Turns a forked child of the supervisor into the relay. Everything but the named
/// descriptors is closed. Gives how many descriptors it may have.
pub fn confine(supervisor: Pid, keep: &[RawFd], abi: Option<ABI>) -> Result<u64, Failure> {
    let at = |step: &'static str| move |errno: Errno| (step, errno);
    process::die_with_parent().map_err(at("dying with sjail"))?;
    if getppid() != supervisor {
        return Err(("dying with sjail", Errno::ESRCH));
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)
        .map_err(at("blocking signals"))?;
    setsid().map_err(at("a session of its own"))?;
    close_others(keep).map_err(at("closing descriptors"))?;
    let descriptors = limits().map_err(at("resource limits"))?;
    capability::drop_all()
        .or_else(|_| capability::drop_without_bounding())
        .map_err(at("dropping capabilities"))?;
    process::no_new_privileges().map_err(at("no_new_privs"))?;
    process::undumpable().map_err(at("being undumpable"))?;
    if let Some(abi) = abi {
        let nothing = Rules {
            abi,
            rules: Vec::new(),
            tcp: Tcp::Unhandled,
        };
        wall::enforce(&nothing).map_err(|failure| ("Landlock", Errno::from_raw(failure.errno)))?;
    }
    let filter = filter().map_err(|_| ("the system-call filter", Errno::EINVAL))?;
    seccompiler::apply_filter(&filter).map_err(|_| ("the system-call filter", Errno::last()))?;
    match (
        capability::usable_are_empty(),
        process::has_no_new_privileges(),
        process::seccomp_mode(),
    ) {
        (Ok(true), Ok(true), Ok(2)) => Ok(descriptors),
        _ => Err(("checking its walls", Errno::EPERM)),
    }
}

/// Closes everything but these; the standard streams lead nowhere.
pub fn close_others(keep: &[RawFd]) -> nix::Result<()> {
    let null = nix::fcntl::open(
        c"/dev/null",
        nix::fcntl::OFlag::O_RDWR,
        nix::sys::stat::Mode::empty(),
    )?;
    for number in 0..=2 {
        file::install(std::os::fd::AsFd::as_fd(&null), number)?;
    }
    let mut numbers: Vec<u32> = keep.iter().map(|fd| *fd as u32).collect();
    numbers.push(null.as_raw_fd() as u32);
    numbers.sort_unstable();
    let mut next = 3;
    for number in numbers {
        if number >= next {
            if number > next {
                file::close_range(next, number - 1)?;
            }
            next = number + 1;
        }
    }
    file::close_range(next, u32::MAX)
}

fn limits() -> nix::Result<u64> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    setrlimit(Resource::RLIMIT_FSIZE, 0, 0)?;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let most = hard.min(DESCRIPTORS);
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    Ok(most)
}

/// What a relay needs, and nothing else: everything else is not permitted.
fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<Rule>> =
        CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let is = |argument, value: i32| {
        Condition::new(argument, Length::Dword, Compare::Eq, value as u32 as u64)
    };
    let kind = |kind: i32| {
        let mask = Compare::MaskedEq(!((libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) as u32) as u64);
        Condition::new(1, Length::Dword, mask, kind as u64)
    };
    let mut sockets = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        for sort in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            sockets.push(Rule::new(vec![is(0, family)?, kind(sort)?])?);
        }
    }
    rules.insert(libc::SYS_socket, sockets);
    let blocking = Rule::new(vec![is(1, libc::FIONBIO as i32)?])?;
    let unsent = Rule::new(vec![is(1, libc::TIOCOUTQ as i32)?])?;
    rules.insert(libc::SYS_ioctl, vec![blocking, unsent]);
    // Memory, but none that is code.
    let data = Compare::MaskedEq(libc::PROT_EXEC as u64);
    let data = Rule::new(vec![Condition::new(2, Length::Dword, data, 0)?])?;
    rules.insert(libc::SYS_mmap, vec![data]);
    // Its own look at its walls.
    let looks = [
        libc::PR_GET_SECCOMP,
        libc::PR_GET_NO_NEW_PRIVS,
        libc::PR_CAP_AMBIENT,
    ];
    let looks = looks
        .into_iter()
        .map(|option| Rule::new(vec![is(0, option)?]))
        .collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_prctl, looks);
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(
        rules,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
        arch,
    )?
    .try_into()
}

const CALLS: &[i64] = &[
    // Bytes through sockets and pipes.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_splice,
    libc::SYS_pipe2,
    libc::SYS_fcntl,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    // Waiting.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_ctl,
    libc::SYS_clock_gettime,
    libc::SYS_futex,
    libc::SYS_restart_syscall,
    // Memory, randomness, an end.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_getrandom,
    libc::SYS_capget,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_filter_compiles() {
        assert!(!filter().unwrap().is_empty());
    }
}
