//! How many processors a command has, where no control group says it: a program text has one.
//!
//! The supervisor ties the jail to it before the jail goes on; a filter keeps the command from
//! untying itself.

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use seccompiler::sock_filter;

use crate::seccomp::{self, EQUAL, LOAD, OFFSET_OF_NUMBER, RET, jump, statement};

/// The processors that a command may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Processors {
    /// Those that sjail itself may use.
    #[default]
    All,
    /// One of them.
    One,
}

/// Which processors a process runs on is not its own to say.
const TIED: [sock_filter; 4] = [
    statement(LOAD, OFFSET_OF_NUMBER),
    jump(EQUAL, libc::SYS_sched_setaffinity as u32, 0, 1),
    statement(RET, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    statement(RET, libc::SECCOMP_RET_ALLOW),
];

impl Processors {
    /// Ties a process, and whatever it starts from now on.
    pub fn tie(self, process: Pid) -> Result<(), Errno> {
        if self == Processors::All {
            return Ok(());
        }
        let allowed = sched_getaffinity(process)?;
        let usable: Vec<usize> = (0..CpuSet::count())
            .filter(|number| allowed.is_set(*number).unwrap_or(false))
            .collect();
        // Several jails at once do not all take the same one.
        let at = std::process::id() as usize % usable.len().max(1);
        let number = usable.get(at).ok_or(Errno::EINVAL)?;
        let mut one = CpuSet::new();
        one.set(*number)?;
        match sched_setaffinity(process, &one) {
            // It has ended already; why, others say.
            Err(Errno::ESRCH) => Ok(()),
            done => done,
        }
    }

    /// Keeps this process and its descendants tied.
    pub fn keep(self) -> Result<(), Errno> {
        match self {
            Processors::All => Ok(()),
            Processors::One => seccomp::add(&TIED),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::seccomp::{ARCHITECTURE, walk};

    #[test]
    fn one_call_is_refused_and_no_other() {
        for number in 0..600 {
            let answer = walk(&TIED, ARCHITECTURE, number, [0; 6]).unwrap();
            let tied = number == libc::SYS_sched_setaffinity as u32;
            assert_eq!(answer == libc::SECCOMP_RET_ALLOW, !tied, "{number}");
        }
    }
}
