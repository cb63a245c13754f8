//! Resource limits: what the kernel holds for each process by itself.
//!
//! Set by the jail's pid 1 just before it gives up its privileges, soft and hard
//! alike, so nothing inside can raise them again. No allocation.

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// Descriptors a process may hold. Enough for any build or server under test; small
/// enough that programs which walk or size tables by it (old `daemon()` loops, Python
/// 2, Java) stay fast, and that a descriptor bomb ends in the bomber.
const OPEN_FILES: rlim_t = 65_536;

/// The soft value programs see first; `select(2)` cannot go beyond it, and whoever
/// needs more raises it up to the hard cap.
const OPEN_FILES_SOFT: rlim_t = 1024;

/// The limits that pid 1 sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rlimits {
    /// RLIMIT_DATA: private writable memory of one process. Not RLIMIT_AS, which
    /// counts reserved address space and kills node and java at 512 MB.
    pub data: Option<u64>,
    /// RLIMIT_NPROC: processes and threads of this user in the jail's user namespace.
    pub nproc: Option<u64>,
}

impl Rlimits {
    /// The caps that always hold: no core files (they would write the memory of the
    /// command to the host's handler or the workspace), bounded descriptors, no
    /// locked memory beyond the caller's own, no real-time priority.
    pub fn hard_caps() -> Rlimits {
        Rlimits {
            data: None,
            nproc: None,
        }
    }

    /// Sets them on the calling process. A caller's own lower limit stays: nothing is
    /// ever raised.
    pub fn apply(&self) -> Result<(), Errno> {
        cap(Resource::RLIMIT_CORE, 0, 0)?;
        cap(Resource::RLIMIT_NOFILE, OPEN_FILES_SOFT, OPEN_FILES)?;
        cap(Resource::RLIMIT_RTPRIO, 0, 0)?;
        cap(Resource::RLIMIT_NICE, 0, 0)?;
        if let Some(bytes) = self.data {
            cap(Resource::RLIMIT_DATA, bytes, bytes)?;
        }
        if let Some(count) = self.nproc {
            cap(Resource::RLIMIT_NPROC, count, count)?;
        }
        Ok(())
    }
}

/// Lowers one limit to at most `soft` and `hard`.
fn cap(resource: Resource, soft: rlim_t, hard: rlim_t) -> Result<(), Errno> {
    let (soft_now, hard_now) = getrlimit(resource)?;
    let hard = hard.min(hard_now);
    setrlimit(resource, soft.min(soft_now).min(hard), hard)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use std::process::Command;

    /// Runs one of the ignored tests below in a process of its own, which may lower its
    /// limits for good.
    fn alone(test: &str) {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--test-threads=1"])
            .arg(format!("limits::rlimits::tests::{test}"))
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{test}");
    }

    #[test]
    fn limits_hold() {
        alone("caps_are_hard");
        alone("a_lower_limit_of_the_caller_stays");
        alone("data_holds_back_private_memory");
    }

    #[test]
    #[ignore = "changes the limits of its process: run by limits_hold"]
    fn caps_are_hard() {
        Rlimits::hard_caps().apply().unwrap();
        assert_eq!(getrlimit(Resource::RLIMIT_CORE), Ok((0, 0)));
        let (_, files) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert!(files <= OPEN_FILES);
    }

    #[test]
    #[ignore = "changes the limits of its process: run by limits_hold"]
    fn a_lower_limit_of_the_caller_stays() {
        setrlimit(Resource::RLIMIT_NOFILE, 100, 200).unwrap();
        Rlimits::hard_caps().apply().unwrap();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE), Ok((100, 200)));
    }

    #[test]
    #[ignore = "changes the limits of its process: run by limits_hold"]
    fn data_holds_back_private_memory() {
        let limits = Rlimits {
            data: Some(256 << 20),
            nproc: None,
        };
        limits.apply().unwrap();
        let mut heap: Vec<u8> = Vec::new();
        assert!(heap.try_reserve_exact(1 << 30).is_err());
        assert!(heap.try_reserve_exact(16 << 20).is_ok());
    }
}
