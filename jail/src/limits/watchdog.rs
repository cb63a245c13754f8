//! Where no control group can be had: sjail looks at the jail's processes from time to
//! time and ends the jail when it has gone too far.
//!
//! It looks through a descriptor of the jail's own `/proc`, which lists the jail's
//! processes and nothing else. A look is cheap at first (one small file for each
//! process) and gets exact only when the cheap figure is beyond the limit, because the
//! cheap one counts pages that forked processes share once for each of them.
//!
//! The pause between two looks follows from the distance to the limit: it is the time
//! a determined program needs to cover half of it. An idle jail costs one look a second.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::unistd::Pid;

use crate::degraded::family;
use crate::sys;

/// How fast memory can grow, in bytes a second: page faults on two or three busy
/// processors.
const MEMORY_RATE: u64 = 4 << 30;

/// How fast processes can multiply, each second.
const FORK_RATE: u64 = 5_000;

/// Never more often than this, whatever the distance.
const SHORTEST: Duration = Duration::from_millis(20);

/// Never less often.
const LONGEST: Duration = Duration::from_secs(1);

/// What the watchdog has to hold; nothing of it when a control group does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Bytes.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
}

impl Bounds {
    /// Whether there is anything to watch.
    pub fn is_idle(&self) -> bool {
        self.memory.is_none() && self.pids.is_none()
    }
}

/// What went too far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// Bytes used.
    Memory(u64),
    /// Processes and threads found.
    Pids(u64),
}

/// The watch over one jail.
#[derive(Debug)]
pub struct Watchdog {
    members: Members,
    proc: PathBuf,
    _proc: OwnedFd,
    bounds: Bounds,
    next: Instant,
    /// Shared memory of the whole machine when the watch began: a jail can hide memory
    /// in files without a mapping (memfd, tmpfs), but not from this figure.
    shared_before: u64,
    peak_memory: u64,
    peak_pids: u64,
}

/// Which of the processes that `/proc` lists are the jail's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Members {
    /// All of them: it is the jail's own.
    All,
    /// This one and whoever is below it: it is the host's.
    Below(Pid),
}

/// One process, cheaply.
struct Look {
    pid: u32,
    threads: u64,
    private: u64,
    shared: u64,
}

impl Watchdog {
    /// Begins to watch the jail whose `/proc` is behind the descriptor `proc`.
    pub fn new(proc: OwnedFd, members: Members, bounds: Bounds, now: Instant) -> Watchdog {
        if bounds.pids.is_some() {
            // Thousands of processes may soon want the processor that we need to end them.
            // Only root may ask for more of it.
            let _ = sys::process::go_first();
        }
        Watchdog {
            members,
            proc: PathBuf::from(format!("/proc/self/fd/{}", proc.as_raw_fd())),
            _proc: proc,
            bounds,
            next: now + SHORTEST,
            shared_before: machine_shared(),
            peak_memory: 0,
            peak_pids: 0,
        }
    }

    /// When to look next.
    pub fn due(&self) -> Instant {
        self.next
    }

    /// The most memory seen at any look, in bytes.
    pub fn peak_memory(&self) -> u64 {
        self.peak_memory
    }

    /// The most processes and threads seen at any look.
    pub fn peak_pids(&self) -> u64 {
        self.peak_pids
    }

    /// Looks, and sets the time for the next look.
    pub fn look(&mut self, now: Instant) -> Option<Excess> {
        let found = self.pids();
        if let Some(limit) = self.bounds.pids
            && found.len() as u64 > limit
        {
            // Whatever they are: looking at each of so many takes long.
            self.peak_pids = self.peak_pids.max(found.len() as u64);
            return Some(Excess::Pids(found.len() as u64));
        }
        let processes = self.processes(found);
        let pids = processes.iter().map(|process| process.threads).sum();
        let memory = self.memory(&processes);
        self.peak_pids = self.peak_pids.max(pids);
        self.peak_memory = self.peak_memory.max(memory);
        self.next = now + self.pause(memory, pids);

        if let Some(limit) = self.bounds.pids
            && pids > limit
        {
            return Some(Excess::Pids(pids));
        }
        if let Some(limit) = self.bounds.memory
            && memory > limit
        {
            return Some(Excess::Memory(memory));
        }
        None
    }

    fn pause(&self, memory: u64, pids: u64) -> Duration {
        let until = |limit: Option<u64>, used: u64, rate: u64| {
            limit.map_or(LONGEST, |limit| {
                Duration::from_micros(limit.saturating_sub(used).saturating_mul(500_000) / rate)
            })
        };
        until(self.bounds.memory, memory, MEMORY_RATE)
            .min(until(self.bounds.pids, pids, FORK_RATE))
            .clamp(SHORTEST, LONGEST)
    }

    fn pids(&self) -> Vec<u32> {
        match self.members {
            Members::All => fs::read_dir(&self.proc)
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                .collect(),
            Members::Below(first) => family::below(first, &[])
                .iter()
                .map(|member| member.pid.unsigned_abs())
                .collect(),
        }
    }

    fn processes(&self, pids: Vec<u32>) -> Vec<Look> {
        pids.into_iter()
            .filter_map(|pid: u32| {
                let status = fs::read_to_string(self.file(pid, "status")).ok()?;
                Some(Look {
                    pid,
                    threads: field(&status, "Threads:").unwrap_or(1),
                    // A process that is ending has no memory fields any more.
                    private: field(&status, "RssAnon:").unwrap_or(0) << 10,
                    shared: field(&status, "RssShmem:").unwrap_or(0) << 10,
                })
            })
            .collect()
    }

    /// Memory in use: exact if the upper bound, which is cheap, is beyond the limit.
    fn memory(&self, processes: &[Look]) -> u64 {
        let private: u64 = processes.iter().map(|process| process.private).sum();
        let mapped: u64 = processes.iter().map(|process| process.shared).sum();
        let grown = machine_shared().saturating_sub(self.shared_before);
        let upper = private + mapped.max(grown);
        let Some(limit) = self.bounds.memory else {
            return private + mapped;
        };
        if upper <= limit {
            return private + mapped;
        }
        let (private, mapped) = processes
            .iter()
            .map(|process| self.proportional(process))
            .fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        private + mapped.max(self.shared_files(processes, grown))
    }

    /// Private and shared memory of one process with shared pages divided among those
    /// who share them. Where we may not look, all of it is charged.
    fn proportional(&self, process: &Look) -> (u64, u64) {
        let rollup = fs::read_to_string(self.file(process.pid, "smaps_rollup"));
        let part = |name| Some(field(rollup.as_deref().ok()?, name)? << 10);
        match (part("Pss_Anon:"), part("Pss_Shmem:")) {
            (Some(private), Some(shared)) => (private, shared),
            _ => (process.private, process.shared),
        }
    }

    /// Bytes in the jail's private file systems and memfds. A process that hides its
    /// descriptors (it is not dumpable) is charged with all that the machine's shared
    /// memory has grown by.
    fn shared_files(&self, processes: &[Look], grown: u64) -> u64 {
        let mut bytes = 0;
        let mut seen = BTreeSet::new();
        // Pid 1 is ours, undumpable, and holds no such files.
        for process in processes.iter().filter(|process| process.pid != 1) {
            let descriptors = match fs::read_dir(self.file(process.pid, "fd")) {
                Ok(descriptors) => descriptors,
                Err(error) if error.kind() == ErrorKind::PermissionDenied => return grown,
                // It has ended, or is about to.
                Err(_) => continue,
            };
            for descriptor in descriptors.flatten() {
                let path = descriptor.path();
                let is_memfd = fs::read_link(&path).is_ok_and(|target| {
                    target
                        .as_os_str()
                        .as_encoded_bytes()
                        .starts_with(b"/memfd:")
                });
                if let (true, Ok(file)) = (is_memfd, fs::metadata(&path))
                    && seen.insert((file.dev(), file.ino()))
                {
                    bytes += file.blocks() * 512;
                }
            }
            for folder in ["root", "root/tmp", "root/var/tmp", "root/dev/shm"] {
                let path = self.file(process.pid, folder);
                if let (Ok(folder), Ok(system)) = (fs::metadata(&path), statfs(&path))
                    && system.filesystem_type() == TMPFS_MAGIC
                    && seen.insert((folder.dev(), 0))
                {
                    let used = system.blocks().saturating_sub(system.blocks_free());
                    bytes += used * u64::try_from(system.block_size()).unwrap_or(0);
                }
            }
        }
        // A file system of the host that was full before is not the jail's doing.
        bytes.min(grown)
    }

    fn file(&self, pid: u32, name: &str) -> PathBuf {
        self.proc.join(pid.to_string()).join(name)
    }
}

/// Shared memory (tmpfs, memfd, SysV) of the whole machine, in bytes.
fn machine_shared() -> u64 {
    fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| field(&text, "Shmem:"))
        .unwrap_or(0)
        << 10
}

/// The number behind `name` at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use std::io::Read;
    use std::process::{Child, Command, Stdio};

    /// A shell line as pid 1 of a pid namespace of its own, and the view of its /proc.
    /// None where this user cannot make one.
    struct Space {
        child: Child,
        proc: Option<OwnedFd>,
    }

    impl Space {
        fn run(line: &str) -> Option<Space> {
            let mut child = Command::new("unshare")
                .args(["-Urpf", "--kill-child", "--mount-proc", "sh", "-c"])
                .arg(format!("sleep 1000 & {line}; wait"))
                .stdout(Stdio::piped())
                .spawn()
                .ok()?;
            let mut ready = [0; 1];
            child.stdout.as_mut()?.read_exact(&mut ready).ok()?;
            let task = format!("/proc/{0}/task/{0}/children", child.id());
            let first = fs::read_to_string(task).ok()?;
            let proc = fs::File::open(format!("/proc/{}/root/proc", first.trim())).ok()?;
            Some(Space {
                child,
                proc: Some(proc.into()),
            })
        }

        fn look(&mut self, bounds: Bounds) -> (Option<Excess>, Watchdog) {
            self.look_after(0, bounds)
        }

        /// As if so many bytes of shared memory had come since the watch began.
        fn look_after(&mut self, come: u64, bounds: Bounds) -> (Option<Excess>, Watchdog) {
            let now = Instant::now();
            let mut dog = Watchdog::new(self.proc.take().unwrap(), Members::All, bounds, now);
            dog.shared_before = dog.shared_before.saturating_sub(come);
            (dog.look(now), dog)
        }
    }

    impl Drop for Space {
        fn drop(&mut self) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }

    #[test]
    fn counts_processes_and_threads() {
        let Some(mut space) = Space::run("for i in 1 2 3 4; do sleep 1000 & done; echo") else {
            return;
        };
        let bounds = Bounds {
            memory: None,
            pids: Some(4),
        };
        let (excess, dog) = space.look(bounds);
        assert_eq!(excess, Some(Excess::Pids(6)));
        assert_eq!(dog.peak_pids(), 6);
    }

    #[test]
    fn sums_the_memory_of_all_processes() {
        let hog = "import time; x=bytearray(60<<20); print(flush=True); time.sleep(1000)";
        let line = format!("python3 -c '{hog}' >&2 & python3 -c '{hog}' >&2 & echo");
        let Some(mut space) = Space::run(&line) else {
            return;
        };
        let (mut excess, mut dog) = space.look(Bounds {
            memory: Some(100 << 20),
            pids: None,
        });
        let deadline = Instant::now() + Duration::from_secs(30);
        while excess.is_none() && Instant::now() < deadline {
            std::thread::sleep(SHORTEST);
            excess = dog.look(Instant::now());
        }
        let Some(Excess::Memory(used)) = excess else {
            panic!("{excess:?}");
        };
        assert!((100 << 20..300 << 20).contains(&used), "{used}");
    }

    #[test]
    fn shared_pages_count_once() {
        // Ten forks share 60 MB: 600 MB by the cheap figure, 60 MB in truth.
        let fork = "import os,time\nx=bytearray(60<<20)\nfor i in range(10):\n  if os.fork()==0: time.sleep(1000)\nprint(flush=True)\ntime.sleep(1000)";
        let Some(mut space) = Space::run(&format!("python3 -c '{fork}'")) else {
            return;
        };
        let (excess, dog) = space.look(Bounds {
            memory: Some(200 << 20),
            pids: None,
        });
        assert_eq!(excess, None);
        assert!(dog.peak_memory() > 60 << 20, "{}", dog.peak_memory());
    }

    #[test]
    fn memory_without_a_mapping_is_seen() {
        let hide = "import os,time\nf=os.memfd_create(\"x\")\nfor i in range(200): os.write(f, bytes(1<<20))\nprint(flush=True)\ntime.sleep(1000)";
        let Some(mut space) = Space::run(&format!("python3 -c '{hide}'")) else {
            return;
        };
        // What was written before the watch began here.
        let come = 220 << 20;
        let (excess, _) = space.look_after(
            come,
            Bounds {
                memory: Some(150 << 20),
                pids: None,
            },
        );
        assert!(
            matches!(excess, Some(Excess::Memory(used)) if used >= 200 << 20),
            "{excess:?}"
        );
    }

    #[test]
    fn looks_more_often_near_the_limit() {
        let Some(mut space) = Space::run("echo") else {
            return;
        };
        let far = Bounds {
            memory: Some(1 << 40),
            pids: None,
        };
        let (_, dog) = space.look(far);
        assert_eq!(dog.pause(0, 0), LONGEST);
        assert_eq!(dog.pause((1 << 40) - 1, 0), SHORTEST);
    }
}
