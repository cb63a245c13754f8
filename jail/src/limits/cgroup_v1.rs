//! The hierarchies of the first version: one mount for each controller.
//!
//! There is no clone-into here: pid 1 is moved while it waits for `Go`, before it has
//! run anything that is not ours.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, Pid, access};

use super::cgroup::{
    Controller, Error, Knob, Noted, Tally, View, read_keyed, read_number, remove_folder,
    sweep_beside, write,
};

/// As in the unified hierarchy.
const PERIOD: u64 = 100_000;

/// Our own group in the hierarchy of one controller.
#[derive(Debug)]
pub struct Parent {
    folder: PathBuf,
    controller: Controller,
    disks: Vec<String>,
}

/// Our own groups, as far as they are needed and writable.
pub fn parents(view: &View, needs: &[Controller]) -> Vec<Parent> {
    needs
        .iter()
        .filter_map(|controller| {
            let name = match controller {
                Controller::Io => "blkio",
                other => other.name(),
            };
            let folder = view.legacy(name)?.folder;
            access(&folder, AccessFlags::W_OK).ok()?;
            Some(Parent {
                folder,
                controller: *controller,
                disks: match controller {
                    Controller::Io => view.disks(),
                    _ => Vec::new(),
                },
            })
        })
        .collect()
}

/// The jail's group: one folder in each hierarchy.
#[derive(Debug)]
pub struct Group {
    controllers: Vec<Controller>,
    /// In the order of `controllers`, without repeats where two share a mount.
    paths: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    disks: Vec<String>,
}

impl Group {
    /// Makes `sjail-ID` below each parent.
    pub fn create(parents: Vec<Parent>, id: &str, note: &mut Noted<'_>) -> Result<Group, Error> {
        let mut group = Group {
            controllers: Vec::new(),
            paths: Vec::new(),
            folders: Vec::new(),
            disks: Vec::new(),
        };
        for parent in parents {
            let path = parent.folder.join(format!("sjail-{id}"));
            if !group.paths.contains(&path) {
                sweep_beside(&parent.folder);
                let made = note(&path).map_err(Error::Note).and_then(|()| {
                    fs::create_dir(&path).map_err(|source| Error::Create {
                        path: path.clone(),
                        source,
                    })
                });
                if let Err(error) = made {
                    group
                        .paths
                        .iter()
                        .try_for_each(|made| remove_folder(made))?;
                    return Err(error);
                }
                group.paths.push(path.clone());
            }
            group.controllers.push(parent.controller);
            group.folders.push(path);
            group.disks.extend(parent.disks);
        }
        Ok(group)
    }

    /// Whether it has a controller.
    pub fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    /// Sets one limit.
    pub fn limit(&mut self, knob: Knob, value: u64) -> Result<(), Error> {
        match knob {
            Knob::Memory => {
                let value = value.to_string();
                write(self.file(knob, "memory.limit_in_bytes")?, &value)?;
                // Memory and swap together: without it the surplus would go to swap.
                // Absent where the kernel does not account swap.
                let with_swap = self.file(knob, "memory.memsw.limit_in_bytes")?;
                if with_swap.exists() {
                    write(with_swap, &value)?;
                }
                Ok(())
            }
            Knob::Pids => write(self.file(knob, "pids.max")?, &value.to_string()),
            Knob::Cpu => {
                write(self.file(knob, "cpu.cfs_period_us")?, &PERIOD.to_string())?;
                let quota = (value * PERIOD / 100).max(1000);
                write(self.file(knob, "cpu.cfs_quota_us")?, &quota.to_string())
            }
            Knob::IoRead => {
                let file = self.file(knob, "blkio.throttle.read_bps_device")?;
                if self.disks.is_empty() {
                    return Err(Error::NoDisk);
                }
                self.disks
                    .iter()
                    .try_for_each(|disk| write(file.clone(), &format!("{disk} {value}")))
            }
            // The kernel has a file for it, but buffered writes reach the disk from a
            // kernel thread outside the group: nearly all writes would go free.
            Knob::IoWrite => Err(Error::BufferedWrites),
        }
    }

    /// Moves a process in.
    pub fn admit(&self, pid: Pid) -> Result<(), Error> {
        self.paths
            .iter()
            .try_for_each(|path| write(path.join("cgroup.procs"), &pid.to_string()))
    }

    /// Its folders.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// What the kernel counted.
    pub fn tally(&self) -> Tally {
        let number = |knob, name| read_number(&self.file(knob, name).ok()?);
        let keyed = |knob, name, key| read_keyed(&self.file(knob, name).ok()?, key);
        Tally {
            oom_kills: keyed(Knob::Memory, "memory.oom_control", "oom_kill").unwrap_or(0),
            forks_refused: keyed(Knob::Pids, "pids.events", "max").unwrap_or(0),
            peak_memory: number(Knob::Memory, "memory.max_usage_in_bytes"),
            peak_pids: number(Knob::Pids, "pids.peak"),
        }
    }

    fn file(&self, knob: Knob, name: &str) -> Result<PathBuf, Error> {
        let wanted = knob.controller();
        self.controllers
            .iter()
            .zip(&self.folders)
            .find(|(controller, _)| **controller == wanted)
            .map(|(_, folder)| Path::join(folder, name))
            .ok_or(Error::NoController(wanted))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::super::Means;
    use super::super::cgroup::Group as AnyGroup;
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    /// A group with the controller, or none: these tests mean something only to a user
    /// who may write to the hierarchy (root on a v1 or hybrid machine).
    fn group(needs: &[Controller], name: &str) -> Option<AnyGroup> {
        let group = AnyGroup::create(
            needs,
            &format!("test-{name}-{}", std::process::id()),
            &mut |_| Ok(()),
        )
        .ok();
        if group.is_none() {
            eprintln!("skipped: no writable control group here");
        }
        group
    }

    #[test]
    fn the_kernel_kills_what_uses_too_much_memory() {
        let Some(mut group) = group(&[Controller::Memory], "memory") else {
            return;
        };
        let means = group.limit(Knob::Memory, 64 << 20).unwrap();
        assert!(matches!(means, Means::CgroupV1 | Means::CgroupV2));
        let mut child = Command::new("/bin/sh")
            .args(["-c", "read go; exec python3 -c 'x = bytearray(200 << 20)'"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        group
            .admit(Pid::from_raw(i32::try_from(child.id()).unwrap()))
            .unwrap();
        drop(child.stdin.take());
        let status = child.wait().unwrap();
        let tally = group.tally();
        let paths = group.paths().to_vec();
        group.remove().unwrap();
        if matches!(means, Means::CgroupV1) {
            assert_eq!(status.signal(), Some(libc::SIGKILL));
            assert_eq!(tally.oom_kills, 1);
            assert!(tally.peak_memory.unwrap() > 50 << 20);
        }
        assert!(paths.iter().all(|path| !path.exists()));
    }

    #[test]
    fn the_kernel_refuses_forks_beyond_the_limit() {
        let Some(mut group) = group(&[Controller::Pids], "pids") else {
            return;
        };
        group.limit(Knob::Pids, 4).unwrap();
        let mut child = Command::new("/bin/bash")
            .args(["-c", "read go; for i in 1 2 3 4 5 6 7 8; do sleep 5 & done"])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .env("BASH_FORK_RETRIES", "0")
            .spawn()
            .unwrap();
        group
            .admit(Pid::from_raw(i32::try_from(child.id()).unwrap()))
            .unwrap();
        drop(child.stdin.take());
        std::thread::sleep(std::time::Duration::from_millis(500));
        let refused = group.tally().forks_refused;
        for path in group.paths() {
            let members = fs::read_to_string(path.join("cgroup.procs")).unwrap();
            for pid in members.lines() {
                let pid = Pid::from_raw(pid.parse().unwrap());
                nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
            }
        }
        child.wait().unwrap();
        group.remove().unwrap();
        assert!(refused >= 1, "{refused}");
    }
}
