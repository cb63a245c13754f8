//! Looking at a jail that does not move.
//!
//! Processes that run while they are looked at can pass a descriptor on, or fork and end,
//! always a step ahead of the look. So a look counts only if none of them ran between its
//! beginning and its end: the kernel counts how often each thread was given a processor
//! and took leave of it. An idle jail is still by itself. A busy one is stopped for the
//! moment, all of it at once, by its own pid 1, and let go again child before parent, so
//! that no shell sees a job of its own stopped.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::channel::ToJail;
use crate::spawn::Jail;

/// Every thread of a jail but pid 1's, and how often it has run.
#[derive(Debug, PartialEq, Eq)]
pub struct Stillness {
    threads: Vec<Thread>,
    /// Some could not be looked at.
    is_complete: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Thread {
    process: i32,
    id: i32,
    state: u8,
    /// Times that it left a processor, by itself or not.
    switches: (u64, u64),
}

impl Stillness {
    /// How things stand now in the jail whose pid 1 has this number outside.
    pub fn now(first: i32) -> Stillness {
        let mut now = Stillness {
            threads: Vec::new(),
            is_complete: true,
        };
        let mut list = vec![first];
        let mut next = 0;
        while let Some(process) = list.get(next).copied() {
            next += 1;
            let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else {
                now.is_complete = false;
                continue;
            };
            for id in tasks.flatten().filter_map(|task| number(&task.file_name())) {
                // Without these nobody below could be found: as bad as not looking.
                match fs::read_to_string(format!("/proc/{process}/task/{id}/children")) {
                    Ok(children) => list.extend(
                        children
                            .split_whitespace()
                            .filter_map(|word| word.parse::<i32>().ok()),
                    ),
                    Err(_) => now.is_complete = false,
                }
                // Pid 1 is our own code: it opens nothing in the workspace.
                if process == first {
                    continue;
                }
                match Thread::read(process, id) {
                    Some(thread) => now.threads.push(thread),
                    None => now.is_complete = false,
                }
            }
        }
        now
    }

    /// Whether nobody runs at this moment or is about to come back from the kernel with
    /// something it looked up before.
    pub fn is_still(&self) -> bool {
        self.is_complete && self.threads.iter().all(Thread::is_still)
    }

    /// The processes, parents before their children.
    fn processes(&self) -> Vec<i32> {
        let mut list: Vec<i32> = self.threads.iter().map(|thread| thread.process).collect();
        list.dedup();
        list
    }

    /// The threads that have not ended, as process and thread.
    pub fn living(&self) -> impl Iterator<Item = (i32, i32)> + '_ {
        let living = |thread: &&Thread| !matches!(thread.state, b'Z' | b'X');
        self.threads
            .iter()
            .filter(living)
            .map(|thread| (thread.process, thread.id))
    }

    fn stopped(&self) -> Vec<i32> {
        let stopped = |thread: &&Thread| thread.state == b'T';
        self.threads
            .iter()
            .filter(stopped)
            .map(|thread| thread.process)
            .collect()
    }
}

fn number(name: &std::ffi::OsStr) -> Option<i32> {
    name.to_str()?.parse().ok()
}

impl Thread {
    fn read(process: i32, id: i32) -> Option<Thread> {
        let status = fs::read(format!("/proc/{process}/task/{id}/status")).ok()?;
        let field = |name: &[u8]| {
            let line = status
                .split(|byte| *byte == b'\n')
                .find_map(|line| line.strip_prefix(name))?;
            Some(line.trim_ascii())
        };
        let count = |name| std::str::from_utf8(field(name)?).ok()?.parse().ok();
        Some(Thread {
            process,
            id,
            state: *field(b"State:")?.first()?,
            switches: (
                count(b"voluntary_ctxt_switches:")?,
                count(b"nonvoluntary_ctxt_switches:")?,
            ),
        })
    }

    fn is_still(&self) -> bool {
        match self.state {
            b'R' => false,
            // It may be in the middle of opening something.
            b'D' => self.opens_nothing(),
            _ => true,
        }
    }

    fn is_stopped(&self) -> bool {
        !matches!(self.state, b'R' | b'S')
    }

    /// Whether a thread that cannot be interrupted waits in a call that takes no path: for
    /// a child that borrows its memory, for a disk.
    fn opens_nothing(&self) -> bool {
        const WITHOUT_PATH: [i64; 16] = [
            // A page that must be read in, outside any call.
            -1,
            libc::SYS_vfork,
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_read,
            libc::SYS_pread64,
            libc::SYS_readv,
            libc::SYS_write,
            libc::SYS_pwrite64,
            libc::SYS_writev,
            libc::SYS_fsync,
            libc::SYS_fdatasync,
            libc::SYS_syncfs,
            libc::SYS_sync,
            libc::SYS_munmap,
            libc::SYS_exit_group,
        ];
        fs::read_to_string(format!("/proc/{}/task/{}/syscall", self.process, self.id))
            .ok()
            .and_then(|text| text.split_whitespace().next()?.parse().ok())
            .is_some_and(|call| WITHOUT_PATH.contains(&call))
    }
}

/// A jail that was told to stand still; dropping this lets it go on.
#[derive(Debug)]
pub struct Halt<'a> {
    jail: &'a Jail,
    /// Those that were stopped before, by whomever: they stay so.
    before: Vec<i32>,
}

impl Halt<'_> {
    /// Has pid 1 stop everybody.
    pub fn begin(jail: &Jail) -> Halt<'_> {
        let halt = Halt {
            jail,
            before: Stillness::now(jail.pid.as_raw()).stopped(),
        };
        halt.again();
        halt
    }

    /// Whether everybody has been stopped.
    pub fn is_done(&self, now: &Stillness) -> bool {
        now.is_still() && now.threads.iter().all(Thread::is_stopped)
    }

    /// They stay stopped: the jail is about to be ended.
    pub fn for_good(self) {
        std::mem::forget(self);
    }

    /// Once more, for those that somebody let go meanwhile.
    pub fn again(&self) {
        let _ = self.jail.channel.send(ToJail::Halt);
    }
}

impl Drop for Halt<'_> {
    fn drop(&mut self) {
        const MOST: Duration = Duration::from_secs(10);
        let _ = self.jail.channel.send(ToJail::Resume);
        // A word to stop that is still on its way would stop them after this.
        let until = Instant::now() + MOST;
        while !self.jail.channel.is_heard() && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(100));
        }
        let now = Stillness::now(self.jail.pid.as_raw());
        for process in now.processes().into_iter().rev() {
            if !self.before.contains(&process) {
                let _ = kill(Pid::from_raw(process), Signal::SIGCONT);
            }
        }
    }
}
