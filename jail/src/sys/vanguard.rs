//! A process that goes ahead of the jail: it makes the namespaces while we still read
//! policies, and clones the jail's first process into them when we say so.
//!
//! Namespaces take the kernel about a millisecond, most of it for the network. The
//! vanguard shares our memory and descriptors, so that nothing is copied for it and what
//! it clones sees everything that we have prepared by then. It makes system calls and
//! nothing else, by [`raw`], and is gone before anything foreign runs.

use std::ffi::{CStr, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getpid};

use super::clone::{CLONE_INTO_CGROUP, Cloned, Stack};
use super::net;
use super::raw;
use crate::step::{At, Failure, Step};

/// Room for the vanguard and for the jail's first process, which goes on in a copy of it.
const ROOM: usize = 512 * 1024;

/// How often we look for its answer before we sleep: some milliseconds' worth.
const LOOKS: usize = 10_000;

/// How often it looks for our word before it sleeps: a tenth of a millisecond's worth, which
/// is what waking it takes.
const PATIENCE: usize = 400;

/// The words that we say to it.
const WAIT: u32 = 0;
const CLONE: u32 = 1;
const LEAVE: u32 = 2;

/// What the jail's first process does; it does not come back.
pub type Body<T> = fn(&mut T) -> !;

/// Whose network the jail has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// One of its own, with `lo` up.
    Own,
    /// The host's.
    Host,
}

/// A process that has gone ahead. Dropping this calls it back.
#[derive(Debug)]
pub struct Vanguard {
    pid: Option<Pid>,
    shared: Box<Shared>,
    // Its own until it has been waited for.
    _stack: Stack,
}

/// What both sides see.
#[derive(Debug)]
struct Shared {
    network: Network,
    parent: Pid,
    uid_map: Vec<u8>,
    gid_map: Vec<u8>,

    /// The processors that all of us may use.
    processors: Option<CpuSet>,
    /// Whether it was made patient, see [`Patience`].
    is_patient: AtomicU32,

    /// A futex: what to do next.
    word: AtomicU32,
    /// The cgroup to be born in, or -1.
    group: AtomicI32,
    /// Where the first process begins, an [`Enter`], and with what. Written before the word.
    enter: AtomicPtr<c_void>,
    call: AtomicPtr<c_void>,

    /// How far it came, told before it ends: 0, or the step that failed.
    failed: AtomicI32,
    errno: AtomicI32,
    pid: AtomicI32,
    pidfd: AtomicI32,
}

impl Vanguard {
    /// Sends one ahead. The process must be single-threaded, and SIGCHLD not ignored.
    pub fn send(network: Network, uid_map: Vec<u8>, gid_map: Vec<u8>) -> nix::Result<Vanguard> {
        let mut stack = Stack::of(ROOM);
        let shared = Box::new(Shared {
            network,
            parent: getpid(),
            uid_map,
            gid_map,
            processors: sched_getaffinity(Pid::from_raw(0)).ok(),
            is_patient: AtomicU32::new(0),
            word: AtomicU32::new(WAIT),
            group: AtomicI32::new(-1),
            enter: AtomicPtr::new(ptr::null_mut()),
            call: AtomicPtr::new(ptr::null_mut()),
            failed: AtomicI32::new(0),
            errno: AtomicI32::new(0),
            pid: AtomicI32::new(0),
            pidfd: AtomicI32::new(-1),
        });
        let patience = Patience::take();
        let is_patient = u32::from(patience.is_some());
        shared.is_patient.store(is_patient, Ordering::Relaxed);
        // SAFETY: the stack is a live buffer used by nobody else and, like `shared`, stays
        // where it is until the process has been waited for: see `Drop`.
        let pid = unsafe {
            libc::clone(
                go,
                stack.top().cast(),
                libc::CLONE_VM | libc::CLONE_FILES | libc::SIGCHLD,
                (&raw const *shared).cast_mut().cast(),
            )
        };
        let pid = Errno::result(pid).map(Pid::from_raw)?;
        // Left to itself it would often wait until we pause.
        if let Some(others) = shared.processors.and_then(others) {
            let _ = sched_setaffinity(pid, &others);
        }
        drop(patience);
        Ok(Vanguard {
            pid: Some(pid),
            shared,
            _stack: stack,
        })
    }

    /// Whose network its namespaces have.
    pub fn network(&self) -> Network {
        self.shared.network
    }

    /// Has it clone the jail's first process, as a child of ours and where a group is given
    /// as a member of that cgroup v2 folder: `body` begins with a copy of our memory as it
    /// is now. The vanguard itself ends.
    pub fn clone_first<T>(
        &mut self,
        group: Option<BorrowedFd<'_>>,
        body: Body<T>,
        argument: &mut T,
    ) -> Result<Cloned, Failure> {
        struct Call<'a, T> {
            body: Body<T>,
            argument: &'a mut T,
        }
        fn enter<T>(call: *mut c_void) -> ! {
            // SAFETY: the `Call` below, in this process's own copy of its parent's memory.
            let call = unsafe { &mut *call.cast::<Call<'_, T>>() };
            (call.body)(call.argument)
        }
        let mut call = Call { body, argument };
        let shared = &self.shared;
        let group = group.map_or(-1, |group| group.as_raw_fd());
        shared.group.store(group, Ordering::Relaxed);
        let begin: Enter = enter::<T>;
        shared.enter.store(begin as *mut c_void, Ordering::Relaxed);
        let call = (&raw mut call).cast();
        shared.call.store(call, Ordering::Relaxed);
        shared.say(CLONE);
        // It takes a fraction of a millisecond. Who sleeps meanwhile finds the new process
        // on its own processor, waiting for us.
        for _ in 0..LOOKS {
            if shared.has_answered() {
                break;
            }
            std::thread::yield_now();
        }
        if !shared.has_answered() {
            self.wait();
        }
        self.shared.answer()?;
        let shared = &self.shared;
        let pid = Pid::from_raw(shared.pid.load(Ordering::Acquire));
        if pid.as_raw() <= 0 {
            return Err(Errno::ECHILD).at(Step::Namespaces);
        }
        // It begins where the vanguard was, not behind us, and is not kept to that.
        if let Some(all) = &shared.processors {
            let _ = sched_setaffinity(pid, all);
        }
        Ok(Cloned {
            pid,
            // SAFETY: the kernel put it into our table for the one who reads this.
            pidfd: unsafe { OwnedFd::from_raw_fd(shared.pidfd.load(Ordering::Acquire)) },
        })
    }

    /// Calls it back and tells whether it got the namespaces.
    pub fn dismiss(mut self) -> Result<(), Failure> {
        self.shared.say(LEAVE);
        self.wait();
        self.shared.answer()
    }

    fn wait(&mut self) {
        if let Some(pid) = self.pid.take() {
            while waitpid(pid, None) == Err(Errno::EINTR) {}
        }
    }
}

impl Drop for Vanguard {
    fn drop(&mut self) {
        if self.pid.is_some() {
            self.shared.say(LEAVE);
        }
        self.wait();
    }
}

/// While this lives, a process that we make does not take our processor from us the moment it
/// is there: it is to have another one. Dropping this ends that for us; the process ends it
/// for itself.
struct Patience;

impl Patience {
    /// `None` for somebody who has chosen how to be scheduled: that stays.
    fn take() -> Option<Patience> {
        // SAFETY: no memory.
        let policy = unsafe { libc::sched_getscheduler(0) };
        let is_ours = policy == libc::SCHED_OTHER && schedule(libc::SCHED_BATCH).is_ok();
        // Made only then: whoever drops one is scheduled as usual.
        is_ours.then(|| Patience)
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        let _ = schedule(libc::SCHED_OTHER);
    }
}

/// Has the caller scheduled in another way.
fn schedule(policy: i32) -> nix::Result<()> {
    // Of the parameters only real-time policies know another priority than this.
    let priority: i32 = 0;
    let at = (&raw const priority) as usize;
    // SAFETY: reads one number, all that the structure has, which outlives the call.
    unsafe { raw::call(libc::SYS_sched_setscheduler, [0, policy as usize, at, 0, 0]) }.map(drop)
}

/// All of these processors but the one that we run on, if there are others.
fn others(mut all: CpuSet) -> Option<CpuSet> {
    let here = sched_getcpu().ok()?;
    all.unset(here).ok()?;
    let is_usable = |number| all.is_set(number).unwrap_or(false);
    (0..CpuSet::count()).any(is_usable).then_some(all)
}

/// Begins the first process with what is behind the pointer.
type Enter = fn(*mut c_void) -> !;

/// The vanguard's own part. What it returns is its exit status, which nobody reads.
extern "C" fn go(shared: *mut c_void) -> i32 {
    // SAFETY: the pointer is the `Shared` of `send`, which waits for us before it is freed.
    let shared = unsafe { &*shared.cast::<Shared>() };
    if let Err(failure) = shared.prepare().and_then(|()| shared.follow()) {
        shared.errno.store(failure.errno, Ordering::Relaxed);
        shared.failed.store(failure.step as i32, Ordering::Release);
    }
    0
}

/// Our side of it.
impl Shared {
    fn say(&self, word: u32) {
        self.word.store(word, Ordering::Release);
        let wake = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
        let address = self.word.as_ptr() as usize;
        // SAFETY: wakes whoever waits at the address of a live number.
        let _ = unsafe { raw::call(libc::SYS_futex, [address, wake, 1, 0, 0]) };
    }

    fn has_answered(&self) -> bool {
        self.pid.load(Ordering::Acquire) != 0 || self.failed.load(Ordering::Acquire) != 0
    }

    fn answer(&self) -> Result<(), Failure> {
        match Step::from_number(self.failed.load(Ordering::Acquire)) {
            None => Ok(()),
            Some(step) => Err(Failure {
                step,
                errno: self.errno.load(Ordering::Acquire),
                item: 0,
            }),
        }
    }
}

/// The vanguard's.
impl Shared {
    /// Makes the namespaces, and what in them needs no plan.
    fn prepare(&self) -> Result<(), Failure> {
        if self.is_patient.load(Ordering::Relaxed) != 0 {
            schedule(libc::SCHED_OTHER).at(Step::Namespaces)?;
        }
        block_signals().at(Step::ParentDeath)?;
        self.die_with_parent().at(Step::ParentDeath)?;
        let spaces = libc::CLONE_NEWUSER
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS
            | match self.network {
                Network::Own => libc::CLONE_NEWNET,
                Network::Host => 0,
            };
        // SAFETY: flags, no memory.
        unsafe { raw::call(libc::SYS_unshare, [spaces as usize, 0, 0, 0, 0]) }
            .at(Step::Namespaces)?;
        // Our own uid and gid mean the same inside; supplementary groups cannot be changed.
        put(c"/proc/self/setgroups", b"deny").at(Step::IdMap)?;
        put(c"/proc/self/uid_map", &self.uid_map).at(Step::IdMap)?;
        put(c"/proc/self/gid_map", &self.gid_map).at(Step::IdMap)?;
        if self.network == Network::Own {
            net::loopback_up().at(Step::Loopback)?;
        }
        Ok(())
    }

    /// Waits for the word, and does it.
    fn follow(&self) -> Result<(), Failure> {
        for _ in 0..PATIENCE {
            if self.word.load(Ordering::Acquire) != WAIT {
                break;
            }
            // SAFETY: no arguments.
            let _ = unsafe { raw::call(libc::SYS_sched_yield, [0; 5]) };
        }
        let address = self.word.as_ptr() as usize;
        let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        loop {
            match self.word.load(Ordering::Acquire) {
                WAIT => {
                    // SAFETY: sleeps while the number at this live address is WAIT. Woken
                    // for whatever reason, we look again.
                    let _ =
                        unsafe { raw::call(libc::SYS_futex, [address, wait, WAIT as usize, 0, 0]) };
                }
                CLONE => return self.clone_first().at(Step::Namespaces),
                _ => return Ok(()),
            }
        }
    }

    fn clone_first(&self) -> nix::Result<()> {
        // SAFETY: all-zero clone_args is valid and means "nothing special".
        let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
        // A child of our parent's: it waits for it, and its end is the jail's.
        args.flags = (libc::CLONE_PIDFD | libc::CLONE_PARENT) as u64;
        args.pidfd = self.pidfd.as_ptr() as u64;
        let group = self.group.load(Ordering::Relaxed);
        if group >= 0 {
            args.flags |= CLONE_INTO_CGROUP;
            args.cgroup = group as u64;
        }
        let at = (&raw const args) as usize;
        // SAFETY: `args` is a valid clone_args of the stated size; without CLONE_VM and
        // without a stack the call behaves like fork. The kernel writes the descriptor
        // into `pidfd`, which outlives the call.
        let pid = unsafe { raw::call(libc::SYS_clone3, [at, size_of_val(&args), 0, 0, 0]) }?;
        if pid == 0 {
            let enter = self.enter.load(Ordering::Relaxed);
            // SAFETY: an `Enter` that was made a pointer before the word was given.
            let enter: Enter = unsafe { std::mem::transmute(enter) };
            enter(self.call.load(Ordering::Relaxed))
        }
        self.pid.store(pid as i32, Ordering::Release);
        Ok(())
    }

    /// Whoever called us may be gone already; then nobody will.
    fn die_with_parent(&self) -> nix::Result<()> {
        let (option, signal) = (libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize);
        // SAFETY: plain numbers.
        let parent = unsafe {
            raw::call(libc::SYS_prctl, [option, signal, 0, 0, 0])?;
            raw::call(libc::SYS_getppid, [0; 5])?
        };
        match parent as i32 == self.parent.as_raw() {
            true => Ok(()),
            false => Err(Errno::ESRCH),
        }
    }
}

/// Keys and signals are for the supervisor, which calls us back.
fn block_signals() -> nix::Result<()> {
    let all = u64::MAX;
    let at = (&raw const all) as usize;
    let how = libc::SIG_SETMASK as usize;
    // SAFETY: reads a set of the stated size, which outlives the call.
    unsafe { raw::call(libc::SYS_rt_sigprocmask, [how, at, 0, size_of_val(&all), 0]) }.map(drop)
}

fn put(path: &CStr, contents: &[u8]) -> nix::Result<()> {
    let flags = (libc::O_WRONLY | libc::O_CLOEXEC) as usize;
    let here = libc::AT_FDCWD as usize;
    // SAFETY: a path that ends, and a buffer with its length; the descriptor is ours alone
    // and closed once.
    unsafe {
        let file = raw::call(
            libc::SYS_openat,
            [here, path.as_ptr() as usize, flags, 0, 0],
        )?;
        let address = contents.as_ptr() as usize;
        let written = raw::call(libc::SYS_write, [file, address, contents.len(), 0, 0]);
        raw::call(libc::SYS_close, [file, 0, 0, 0, 0])?;
        match written? == contents.len() {
            true => Ok(()),
            false => Err(Errno::EIO),
        }
    }
}
