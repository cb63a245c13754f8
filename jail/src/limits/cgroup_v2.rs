//! The unified hierarchy.
//!
//! A group that has processes of its own cannot hold groups of the ordinary kind with
//! controllers (but for the root), so the jail's group is made below the nearest group
//! above us that has none, that we may write to, and that hands the controllers down
//! already or can be made to: with systemd that is the slice around us. The jail is born
//! in it by clone3, so there is no moment in which it is outside.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, access};

use super::cgroup::{
    Controller, Error, Knob, Noted, Tally, View, read_keyed, read_number, remove_folder,
    sweep_beside, write,
};

/// Length of the accounting period for processor time, in microseconds (the kernel's
/// own default).
const PERIOD: u64 = 100_000;

/// A group in which the jail's can be made.
#[derive(Debug)]
pub struct Parent {
    folder: PathBuf,
    /// What it hands down, of what is needed.
    pub controllers: Vec<Controller>,
    disks: Vec<String>,
}

/// The nearest usable group that hands down the most of what is needed: as things are if
/// that is all of it, else with what can be switched on.
pub fn parent(view: &View, needs: &[Controller]) -> Option<Parent> {
    let place = view.unified()?;
    let usable: Vec<&Path> = place
        .folder
        .ancestors()
        .take_while(|folder| folder.starts_with(&place.mount) && writable(folder))
        .filter(|folder| can_hold_groups(folder))
        .collect();
    let mut best: Option<(&Path, Vec<Controller>)> = None;
    for enable in [Enable::Nothing, Enable::WhatIsThere] {
        for folder in &usable {
            let controllers = hands_down(folder, needs, enable);
            if controllers.len() > best.as_ref().map_or(0, |(_, best)| best.len()) {
                best = Some((folder, controllers));
            }
            if best
                .as_ref()
                .is_some_and(|(_, best)| best.len() == needs.len())
            {
                break;
            }
        }
    }
    let (folder, controllers) = best?;
    let disks = if controllers.contains(&Controller::Io) {
        view.disks()
    } else {
        Vec::new()
    };
    Some(Parent {
        folder: folder.to_owned(),
        controllers,
        disks,
    })
}

/// Whether we may make groups in `folder` and move processes out of it.
fn writable(folder: &Path) -> bool {
    access(folder, AccessFlags::W_OK).is_ok()
        && access(&folder.join("cgroup.procs"), AccessFlags::W_OK).is_ok()
}

/// Whether a group below `folder` can hold processes: the root of all (it alone has no
/// type) or one without processes of its own. Elsewhere the kernel lets one switch
/// controllers on and then refuses every process.
fn can_hold_groups(folder: &Path) -> bool {
    let read = |file| fs::read_to_string(folder.join(file));
    match read("cgroup.type") {
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        Ok(kind) => kind.trim() == "domain" && read("cgroup.procs").is_ok_and(|p| p.is_empty()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Enable {
    Nothing,
    WhatIsThere,
}

/// Which of the needed controllers `folder` gives its children, with those it has but
/// does not hand down yet switched on if that is wanted and the kernel agrees.
fn hands_down(folder: &Path, needs: &[Controller], enable: Enable) -> Vec<Controller> {
    let list = |file| fs::read_to_string(folder.join(file)).unwrap_or_default();
    let has = |list: &str, need: Controller| list.split_whitespace().any(|n| n == need.name());
    let available = list("cgroup.controllers");
    let given = list("cgroup.subtree_control");
    let switch_on = |need: Controller| {
        let file = folder.join("cgroup.subtree_control");
        fs::write(file, format!("+{}", need.name())).is_ok()
    };
    needs
        .iter()
        .copied()
        .filter(|need| {
            has(&given, *need)
                || enable == Enable::WhatIsThere && has(&available, *need) && switch_on(*need)
        })
        .collect()
}

/// The jail's group.
#[derive(Debug)]
pub struct Group {
    paths: [PathBuf; 1],
    handle: OwnedFd,
    controllers: Vec<Controller>,
    disks: Vec<String>,
}

impl Group {
    /// Makes `sjail-ID` below `parent`.
    pub fn create(parent: Parent, id: &str, note: &mut Noted<'_>) -> Result<Group, Error> {
        let path = parent.folder.join(format!("sjail-{id}"));
        let failed = |source| Error::Create {
            path: path.clone(),
            source,
        };
        sweep_beside(&parent.folder);
        note(&path)?;
        fs::create_dir(&path).map_err(failed)?;
        let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_RDONLY;
        let handle = match open(&path, flags, Mode::empty()) {
            Ok(handle) => handle,
            Err(errno) => {
                remove_folder(&path)?;
                return Err(failed(errno.into()));
            }
        };
        Ok(Group {
            paths: [path],
            handle,
            controllers: parent.controllers,
            disks: parent.disks,
        })
    }

    /// Whether it has a controller.
    pub fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    /// Sets one limit.
    pub fn limit(&mut self, knob: Knob, value: u64) -> Result<(), Error> {
        let controller = knob.controller();
        if !self.controllers.contains(&controller) {
            return Err(Error::NoController(controller));
        }
        match knob {
            Knob::Memory => {
                write(self.file("memory.max"), &value.to_string())?;
                // Absent where the kernel has no swap accounting; then there is
                // nothing to close.
                if self.file("memory.swap.max").exists() {
                    write(self.file("memory.swap.max"), "0")?;
                }
                Ok(())
            }
            Knob::Pids => write(self.file("pids.max"), &value.to_string()),
            Knob::Cpu => write(
                self.file("cpu.max"),
                &format!("{} {PERIOD}", value * PERIOD / 100),
            ),
            Knob::IoRead => self.each_disk("rbps", value),
            Knob::IoWrite => self.each_disk("wbps", value),
        }
    }

    fn each_disk(&self, key: &str, rate: u64) -> Result<(), Error> {
        if self.disks.is_empty() {
            return Err(Error::NoDisk);
        }
        self.disks
            .iter()
            .try_for_each(|disk| write(self.file("io.max"), &format!("{disk} {key}={rate}")))
    }

    /// The folder, for clone3.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// The folder's path.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// What the kernel counted.
    pub fn tally(&self) -> Tally {
        Tally {
            oom_kills: read_keyed(&self.file("memory.events"), "oom_kill").unwrap_or(0),
            forks_refused: read_keyed(&self.file("pids.events"), "max").unwrap_or(0),
            peak_memory: read_number(&self.file("memory.peak")),
            peak_pids: read_number(&self.file("pids.peak")),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.paths[0].join(name)
    }
}
