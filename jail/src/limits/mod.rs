//! What a jail may use up, and who sees to it.
//!
//! Three ways, from the best to the last:
//! - a control group ([`cgroup_v2`], [`cgroup_v1`]) that the kernel enforces for the
//!   jail as a whole;
//! - resource limits ([`rlimits`]), which the kernel enforces per process (the number
//!   of processes: per user and user namespace, hence per jail);
//! - the [`watchdog`], which samples the jail and ends it when it has gone too far.
//!
//! Making a group and moving into it costs 0.3 ms in the usual case and 17 ms in the
//! worst twentieth on cgroup v1: more than the whole jail. The default limits are a
//! safety net, not a quota somebody asked for, so they never make a group: they are
//! held by resource limits and the watchdog. A limit that was asked for gets a group
//! wherever there is one to be had, and so does root's number of processes: the kernel
//! counts none of root's otherwise, and a fork bomb is faster than a watchdog.

pub mod cgroup;
pub mod cgroup_v1;
pub mod cgroup_v2;
pub mod rlimits;
pub mod scope;
pub mod watchdog;

use std::os::fd::BorrowedFd;

use nix::unistd::Pid;
use serde::Serialize;
use sjail_policy::plan;

use cgroup::{Controller, Group};
use rlimits::Rlimits;
use scope::Scope;

/// A limit as the plan has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Want<T> {
    /// None.
    #[default]
    Unlimited,
    /// The built-in value: held as well as is cheap.
    Default(T),
    /// Somebody typed it, on the command line or in a policy: held, or refused.
    Asked(T),
}

impl<T: Copy> Want<T> {
    /// The value, whoever it came from.
    pub fn value(self) -> Option<T> {
        match self {
            Want::Unlimited => None,
            Want::Default(value) | Want::Asked(value) => Some(value),
        }
    }

    /// The value if somebody asked for it.
    fn asked(self) -> Option<T> {
        match self {
            Want::Asked(value) => Some(value),
            Want::Unlimited | Want::Default(_) => None,
        }
    }
}

/// The limits of one run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Bytes, all processes and private file systems together.
    pub memory: Want<u64>,
    /// Processes and threads.
    pub pids: Want<u64>,
    /// Percent of one processor: 150 is one and a half.
    pub cpu: Option<u32>,
    /// Bytes a second read from disks.
    pub io_read: Option<u64>,
    /// Bytes a second written to disks.
    pub io_write: Option<u64>,
}

/// How a limit is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// The kernel, by a control group for the whole jail.
    CgroupV2,
    /// The same, with the older interface.
    CgroupV1,
    /// The kernel, by a resource limit.
    Rlimit,
    /// Samples taken by sjail, with a resource limit per process where one exists.
    Watchdog,
    /// Nobody: goes with `--allow-degraded` only.
    None,
}

/// What the result says of the limits in force.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Report {
    /// Memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Held>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<Held>,
    /// Percent of one processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Held>,
    /// Bytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_read: Option<Held>,
    /// Bytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_write: Option<Held>,
}

/// One limit and how it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Held {
    /// The limit.
    pub limit: u64,
    /// Who sees to it.
    pub by: Means,
}

/// A limit that was asked for and that nothing here can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unheld {
    /// The flag, as it is typed.
    pub flag: &'static str,
    /// Why not.
    pub why: String,
}

impl std::fmt::Display for Unheld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cannot be held: {}", self.flag, self.why)
    }
}

/// The limits of one jail, in force.
pub struct Limits {
    group: Option<Group>,
    rlimits: Rlimits,
    watch: watchdog::Bounds,
    report: Report,
    unheld: Vec<Unheld>,
    moved: Moved,
}

/// Where this process went for its limits' sake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It is where it was.
    Nowhere,
    /// Into a scope of systemd's.
    IntoScope,
}

impl Wanted {
    /// The number of processes that the built-in profiles allow.
    const USUAL_PIDS: u32 = 512;

    /// What a plan wants on this machine. The plan does not say who set a value; a
    /// share of the machine's memory and the usual number of processes are taken for
    /// the defaults that they are.
    pub fn of(plan: &plan::Limits) -> Wanted {
        Wanted {
            memory: match plan.memory {
                None => Want::Unlimited,
                Some(memory @ plan::Memory::Bytes(_)) => Want::Asked(memory.bytes(0)),
                Some(share @ plan::Memory::OfMachine(_)) => {
                    machine_memory().map_or(Want::Unlimited, |all| Want::Default(share.bytes(all)))
                }
            },
            pids: match plan.pids {
                None => Want::Unlimited,
                Some(Wanted::USUAL_PIDS) => Want::Default(Wanted::USUAL_PIDS.into()),
                Some(pids) => Want::Asked(pids.into()),
            },
            cpu: plan.cpu.map(|share| share.value()),
            io_read: plan.io_read.map(|rate| rate.bytes()),
            io_write: plan.io_write.map(|rate| rate.bytes()),
        }
    }

    /// The number of processes, where a group should hold it.
    fn pids_in_group(&self) -> Option<u64> {
        match nix::unistd::getuid().is_root() {
            true => self.pids.value(),
            false => self.pids.asked(),
        }
    }

    /// Whether any limit is more than a default.
    fn asks(&self) -> bool {
        self.memory.asked().is_some()
            || self.pids.asked().is_some()
            || self.cpu.is_some()
            || self.io_read.is_some()
            || self.io_write.is_some()
    }
}

/// The machine's memory in bytes. sysconf asks the kernel by one call; reading
/// /proc/meminfo would take it twenty times as long.
pub fn machine_memory() -> Option<u64> {
    use nix::unistd::{SysconfVar, sysconf};
    let value = |name| u64::try_from(sysconf(name).ok()??).ok();
    Some(value(SysconfVar::_PHYS_PAGES)? * value(SysconfVar::PAGE_SIZE)?)
}

/// A group that sjail makes by itself, or else in a scope.
fn grouped(
    needs: &[Controller],
    id: &str,
    note: &mut cgroup::Noted<'_>,
    scope: Option<&Scope>,
    moved: &mut Moved,
) -> Result<Group, String> {
    let own = Group::create(needs, id, note);
    // systemd hands no disks to users: for their sake it need not be asked.
    let short = needs
        .iter()
        .any(|need| *need != Controller::Io && !own.as_ref().is_ok_and(|group| group.has(*need)));
    let Some(scope) = scope.filter(|_| short) else {
        return own.map_err(|error| error.to_string());
    };
    match (scope.enter(), own) {
        (Ok(()), own) => {
            *moved = Moved::IntoScope;
            drop(own);
            Group::create(needs, id, note).map_err(|error| error.to_string())
        }
        (Err(_), Ok(own)) => Ok(own),
        (Err(why), Err(error)) => Err(format!("{error}; {why}")),
    }
}

impl Limits {
    /// Chooses the means for each limit and makes the control group if one is
    /// needed. `id` names the group. Limits that nobody can hold are in
    /// [`Limits::unheld`]; the caller refuses, or goes on if it was told to. `note` is
    /// told of every folder before it is made. Where sjail may make no group by itself,
    /// systemd is asked for one, if there is a `scope` to ask for.
    pub fn prepare(
        wanted: &Wanted,
        id: &str,
        note: &mut cgroup::Noted<'_>,
        scope: Option<&Scope>,
    ) -> Limits {
        let mut needs = Vec::new();
        if wanted.memory.asked().is_some() {
            needs.push(Controller::Memory);
        }
        if wanted.pids_in_group().is_some() {
            needs.push(Controller::Pids);
        }
        if wanted.cpu.is_some() {
            needs.push(Controller::Cpu);
        }
        if wanted.io_read.is_some() || wanted.io_write.is_some() {
            needs.push(Controller::Io);
        }
        let mut moved = Moved::Nowhere;
        let (group, why) = if needs.is_empty() {
            (None, String::new())
        } else {
            // systemd is asked for what somebody asked for, not for defaults.
            let scope = scope.filter(|_| wanted.asks());
            match grouped(&needs, id, note, scope, &mut moved) {
                Ok(group) => (Some(group), String::new()),
                Err(why) => (None, why),
            }
        };
        Limits {
            moved,
            ..Limits::with_group(wanted, group, &why)
        }
    }

    fn with_group(wanted: &Wanted, mut group: Option<Group>, why_none: &str) -> Limits {
        let mut report = Report::default();
        let mut unheld = Vec::new();
        let mut rlimits = Rlimits::hard_caps();
        let mut watch = watchdog::Bounds::default();

        let mut in_group = |controller, value: u64| -> Result<Means, String> {
            let Some(group) = group.as_mut() else {
                return Err(why_none.to_owned());
            };
            group
                .limit(controller, value)
                .map_err(|error| error.to_string())
        };

        if let Some(limit) = wanted.memory.value() {
            let grouped = wanted
                .memory
                .asked()
                .and_then(|limit| in_group(cgroup::Knob::Memory, limit).ok());
            let by = grouped.unwrap_or_else(|| {
                watch.memory = Some(limit);
                // The default stays without RLIMIT_DATA: 75 % of the machine is
                // less than the address space a sanitizer reserves (private,
                // writable, never touched), and the watchdog sees what is touched.
                if wanted.memory.asked().is_some() {
                    rlimits.data = Some(limit);
                }
                Means::Watchdog
            });
            report.memory = Some(Held { limit, by });
        }

        if let Some(limit) = wanted.pids.value() {
            let grouped = wanted
                .pids_in_group()
                .and_then(|limit| in_group(cgroup::Knob::Pids, limit).ok());
            // The kernel counts RLIMIT_NPROC per user and user namespace, so for the
            // jail alone; but never against root.
            rlimits.nproc = Some(limit);
            let by = grouped.unwrap_or_else(|| {
                if nix::unistd::getuid().is_root() {
                    watch.pids = Some(limit);
                    Means::Watchdog
                } else {
                    Means::Rlimit
                }
            });
            report.pids = Some(Held { limit, by });
        }

        let mut group_only = |flag, knob, limit: Option<u64>| -> Option<Held> {
            let limit = limit?;
            let by = in_group(knob, limit).unwrap_or_else(|why| {
                unheld.push(Unheld { flag, why });
                Means::None
            });
            Some(Held { limit, by })
        };
        report.cpu = group_only("--cpu", cgroup::Knob::Cpu, wanted.cpu.map(u64::from));
        report.io_read = group_only("--io-read", cgroup::Knob::IoRead, wanted.io_read);
        report.io_write = group_only("--io-write", cgroup::Knob::IoWrite, wanted.io_write);

        Limits {
            group,
            rlimits,
            watch,
            report,
            unheld,
            moved: Moved::Nowhere,
        }
    }

    /// Without a user namespace the kernel would count every process of this user, not the
    /// jail's alone: the watchdog counts those.
    pub fn without_namespace(&mut self) {
        if let (Some(limit), Some(held)) = (self.rlimits.nproc.take(), &mut self.report.pids)
            && held.by == Means::Rlimit
        {
            self.watch.pids = Some(limit);
            held.by = Means::Watchdog;
        }
    }

    /// What was asked for and cannot be held.
    pub fn unheld(&self) -> &[Unheld] {
        &self.unheld
    }

    /// Whether this process stands elsewhere now than before [`Limits::prepare`]. Whoever
    /// has gone ahead does not, and could not clone into the group from there.
    pub fn moved(&self) -> Moved {
        self.moved
    }

    /// What the result says.
    pub fn report(&self) -> Report {
        self.report
    }

    /// What pid 1 sets on itself and thereby on everything below it.
    pub fn rlimits(&self) -> Rlimits {
        self.rlimits
    }

    /// What the watchdog has to hold.
    pub fn watch(&self) -> watchdog::Bounds {
        self.watch
    }

    /// The group to clone into (cgroup v2 only).
    pub fn clone_into(&self) -> Option<BorrowedFd<'_>> {
        self.group.as_ref().and_then(Group::clone_into)
    }

    /// Puts the jail's pid 1, which still waits for `Go`, into the group where
    /// clone3 could not (cgroup v1).
    pub fn admit(&self, pid: Pid) -> Result<(), cgroup::Error> {
        match &self.group {
            Some(group) => group.admit(pid),
            None => Ok(()),
        }
    }

    /// The same for a first process that clone3 could not make.
    pub fn admit_late(&self, pid: Pid) -> Result<(), cgroup::Error> {
        match &self.group {
            Some(group) => group.admit_late(pid),
            None => Ok(()),
        }
    }

    /// What the group saw; read before it is removed.
    pub fn tally(&self) -> cgroup::Tally {
        self.group.as_ref().map(Group::tally).unwrap_or_default()
    }

    /// Removes the group; the jail has ended.
    pub fn remove(mut self) -> Result<(), cgroup::Error> {
        match self.group.take() {
            Some(group) => group.remove(),
            None => Ok(()),
        }
    }
}
