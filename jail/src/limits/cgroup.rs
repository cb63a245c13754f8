//! A control group for one jail: found, made, filled, read, removed.
//!
//! The group is always below one that the caller may already write to; nothing is
//! asked of anybody. Where the kernel has both interfaces (a hybrid), the newer one
//! is taken when it has every controller that is needed.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::Pid;

use crate::cleanup;

use super::Means;
use super::{cgroup_v1, cgroup_v2};

/// A part of the kernel that limits one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// Memory, private file systems and sockets included.
    Memory,
    /// Processes and threads.
    Pids,
    /// Processor time.
    Cpu,
    /// Disks.
    Io,
}

/// One limit that can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knob {
    /// Bytes.
    Memory,
    /// Processes and threads.
    Pids,
    /// Percent of one processor.
    Cpu,
    /// Bytes a second, each disk.
    IoRead,
    /// Bytes a second, each disk.
    IoWrite,
}

/// What a group counted over its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Processes the kernel killed because the memory was used up.
    pub oom_kills: u64,
    /// Forks refused because the number of processes was used up.
    pub forks_refused: u64,
    /// The most memory ever used, in bytes.
    pub peak_memory: Option<u64>,
    /// The most processes and threads at once.
    pub peak_pids: Option<u64>,
}

/// Why a group cannot be had or a limit not set.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing to build on.
    #[error(
        "no control group that this user may write to has the {} controller ({})",
        .0.name(), .0.hint()
    )]
    NoController(Controller),
    /// A file of the group refused.
    #[error("writing `{value}` to {} failed: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The folder could not be made.
    #[error("making the control group {} failed: {source}", path.display())]
    Create {
        /// The folder.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The folder could not be removed.
    #[error("removing the control group {} failed: {source}", path.display())]
    Remove {
        /// The folder.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// It could not be written down.
    #[error("{0}")]
    Note(#[from] cleanup::Error),
    /// Disks cannot be told.
    #[error("no mounted file system is on a disk whose rate the kernel can limit")]
    NoDisk,
    /// cgroup v1 and buffered writes.
    #[error(
        "control groups of the first version do not see writes that go through the page cache; \
         boot with systemd.unified_cgroup_hierarchy=1 for the second"
    )]
    BufferedWrites,
}

/// Is told of every folder before it is made, so that it can be removed should sjail be
/// killed.
pub type Noted<'a> = dyn FnMut(&Path) -> Result<(), cleanup::Error> + 'a;

/// The jail's own group.
#[derive(Debug)]
pub enum Group {
    /// In the unified hierarchy.
    V2(cgroup_v2::Group),
    /// One folder in each hierarchy of the first version.
    V1(cgroup_v1::Group),
}

impl Group {
    /// Makes `sjail-ID` with as many of the needed controllers as can be had.
    pub fn create(needs: &[Controller], id: &str, note: &mut Noted<'_>) -> Result<Group, Error> {
        let view = View::of_self();
        let v2 = cgroup_v2::parent(&view, needs);
        let v1 = cgroup_v1::parents(&view, needs);
        if let Some(parent) = v2
            && parent.controllers.len() >= v1.len()
        {
            return cgroup_v2::Group::create(parent, id, note).map(Group::V2);
        }
        if v1.is_empty() {
            let first = needs.first().copied().unwrap_or(Controller::Memory);
            return Err(Error::NoController(first));
        }
        cgroup_v1::Group::create(v1, id, note).map(Group::V1)
    }

    /// Whether it has a controller.
    pub fn has(&self, controller: Controller) -> bool {
        match self {
            Group::V2(group) => group.has(controller),
            Group::V1(group) => group.has(controller),
        }
    }

    /// Sets one limit and says by what means it is now held.
    pub fn limit(&mut self, knob: Knob, value: u64) -> Result<Means, Error> {
        match self {
            Group::V2(group) => group.limit(knob, value).map(|()| Means::CgroupV2),
            Group::V1(group) => group.limit(knob, value).map(|()| Means::CgroupV1),
        }
    }

    /// The descriptor for clone3.
    pub fn clone_into(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Group::V2(group) => Some(group.folder()),
            Group::V1(_) => None,
        }
    }

    /// Moves a process in, where clone3 could not.
    pub fn admit(&self, pid: Pid) -> Result<(), Error> {
        match self {
            Group::V2(_) => Ok(()),
            Group::V1(group) => group.admit(pid),
        }
    }

    /// Moves a process in that was not made by clone3.
    pub fn admit_late(&self, pid: Pid) -> Result<(), Error> {
        match self {
            Group::V2(group) => group
                .paths()
                .iter()
                .try_for_each(|path| write(path.join("cgroup.procs"), &pid.to_string())),
            Group::V1(group) => group.admit(pid),
        }
    }

    /// What it counted so far.
    pub fn tally(&self) -> Tally {
        match self {
            Group::V2(group) => group.tally(),
            Group::V1(group) => group.tally(),
        }
    }

    /// Its folders.
    pub fn paths(&self) -> &[PathBuf] {
        match self {
            Group::V2(group) => group.paths(),
            Group::V1(group) => group.paths(),
        }
    }

    /// Removes it. Every process in it has ended.
    pub fn remove(self) -> Result<(), Error> {
        self.paths().iter().try_for_each(|path| remove_folder(path))
    }
}

impl Drop for Group {
    /// A run that failed before it had a jail leaves no group either.
    fn drop(&mut self) {
        for path in self.paths() {
            let _ = remove_folder(path);
        }
    }
}

impl Controller {
    /// As the unified hierarchy spells it.
    pub fn name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Pids => "pids",
            Controller::Cpu => "cpu",
            Controller::Io => "io",
        }
    }

    /// Where one can be had.
    fn hint(self) -> &'static str {
        match self {
            Controller::Io => "systemd gives it to no user; root has it",
            _ => "with systemd, `systemd-run --user --scope` starts a shell that has one",
        }
    }
}

impl Knob {
    /// The controller it belongs to.
    pub fn controller(self) -> Controller {
        match self {
            Knob::Memory => Controller::Memory,
            Knob::Pids => Controller::Pids,
            Knob::Cpu => Controller::Cpu,
            Knob::IoRead | Knob::IoWrite => Controller::Io,
        }
    }
}

/// Removes an empty group. The kernel takes a moment to let go of processes that have
/// just been reaped, and says EBUSY meanwhile.
pub fn remove_folder(path: &Path) -> Result<(), Error> {
    let mut pause = Duration::from_micros(200);
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY)
                    && pause < Duration::from_millis(200) =>
            {
                std::thread::sleep(pause);
                pause *= 2;
            }
            Err(source) => {
                return Err(Error::Remove {
                    path: path.to_owned(),
                    source,
                });
            }
        }
    }
}

/// Removes groups beside ours that a killed sjail left and whose note is lost (its run
/// folder went with its owner's session). One that is in use is never empty for long, and
/// the kernel refuses to remove it.
pub fn sweep_beside(parent: &Path) {
    const NEVER_EMPTY_SO_LONG: Duration = Duration::from_secs(60);
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let is_old = || {
            let made = entry.metadata().and_then(|folder| folder.modified());
            made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > NEVER_EMPTY_SO_LONG))
        };
        let name = entry.file_name();
        let ours = [&b"sjail-run_"[..], b"sjail-cmd_"]
            .iter()
            .any(|prefix| name.as_encoded_bytes().starts_with(prefix));
        if ours && is_old() {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Writes one value to a file of a group.
pub fn write(path: PathBuf, value: &str) -> Result<(), Error> {
    fs::write(&path, value).map_err(|source| Error::Write {
        path,
        value: value.to_owned(),
        source,
    })
}

/// Reads one number from a file of a group; `max` and the absent are none.
pub fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number behind `key` in a flat keyed file such as `memory.events`.
pub fn read_keyed(path: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    value.trim().parse().ok()
}

/// Where the calling process stands in every hierarchy.
#[derive(Debug)]
pub struct View {
    mountinfo: String,
    membership: String,
}

impl View {
    /// Reads the kernel's own account.
    pub fn of_self() -> View {
        View {
            mountinfo: fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(),
            membership: fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
        }
    }

    /// The folder of our own group in the unified hierarchy.
    pub fn unified(&self) -> Option<Place> {
        self.place("cgroup2", |_| true, |controllers| controllers.is_empty())
    }

    /// The folder of our own group in the v1 hierarchy of `controller`.
    pub fn legacy(&self, controller: &str) -> Option<Place> {
        let named = |list: &str| list.split(',').any(|name| name == controller);
        self.place("cgroup", named, named)
    }

    fn place(
        &self,
        kind: &str,
        options_match: impl Fn(&str) -> bool,
        membership_matches: impl Fn(&str) -> bool,
    ) -> Option<Place> {
        let own = self.membership.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            membership_matches(controllers).then_some(path)
        })?;
        self.mountinfo.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut right = right.split(' ');
            if right.next()? != kind || !options_match(right.nth(1)?) {
                return None;
            }
            let mut left = left.split(' ').skip(3);
            let (root, mount) = (left.next()?, left.next()?);
            let below = own.strip_prefix(root.trim_end_matches('/'))?;
            let below = below.trim_start_matches('/');
            Some(Place {
                mount: PathBuf::from(mount),
                folder: if below.is_empty() {
                    PathBuf::from(mount)
                } else {
                    Path::new(mount).join(below)
                },
            })
        })
    }

    /// Whole disks (major and minor) that hold mounted file systems.
    pub fn disks(&self) -> Vec<String> {
        let mut disks = Vec::new();
        for line in self.mountinfo.lines() {
            let Some(device) = line.split(' ').nth(2) else {
                continue;
            };
            if device.starts_with("0:") {
                continue;
            }
            let sys = Path::new("/sys/dev/block").join(device);
            // The kernel limits disks, not their partitions.
            let disk = if sys.join("partition").exists() {
                fs::canonicalize(&sys)
                    .ok()
                    .and_then(|path| fs::read_to_string(path.parent()?.join("dev")).ok())
                    .map(|text| text.trim().to_owned())
            } else {
                sys.exists().then(|| device.to_owned())
            };
            if let Some(disk) = disk
                && !disks.contains(&disk)
            {
                disks.push(disk);
            }
        }
        disks
    }
}

/// Our own group in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Where the hierarchy is mounted: nothing above it is ours to look at.
    pub mount: PathBuf,
    /// Our own group's folder.
    pub folder: PathBuf,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn view(mountinfo: &str, membership: &str) -> View {
        View {
            mountinfo: mountinfo.to_owned(),
            membership: membership.to_owned(),
        }
    }

    #[test]
    fn finds_our_place_in_each_hierarchy() {
        let view = view(
            "30 27 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
             31 27 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             32 27 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            "4:memory:/a/b\n3:cpu,cpuacct:/\n0::/user.slice/x\n",
        );
        let folder = |place: Option<Place>| place.unwrap().folder;
        assert_eq!(
            folder(view.legacy("memory")),
            Path::new("/sys/fs/cgroup/memory/a/b")
        );
        assert_eq!(
            folder(view.legacy("cpu")),
            Path::new("/sys/fs/cgroup/cpu,cpuacct")
        );
        assert_eq!(view.legacy("pids"), None);
        assert_eq!(
            folder(view.unified()),
            Path::new("/sys/fs/cgroup/unified/user.slice/x")
        );
    }

    #[test]
    fn old_empty_groups_beside_ours_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let age = |path: &Path| {
            let then = std::time::SystemTime::now() - Duration::from_secs(3600);
            fs::File::open(path).unwrap().set_modified(then).unwrap();
        };
        let (left, fresh, used) = (
            make("sjail-run_aaaaaa"),
            make("sjail-run_bbbbbb"),
            make("sjail-run_cccccc"),
        );
        let other = make("somebody.scope");
        fs::write(used.join("process"), "").unwrap();
        for path in [&left, &used, &other] {
            age(path);
        }
        sweep_beside(parent.path());
        assert!(!left.exists());
        assert!(fresh.exists() && used.exists() && other.exists());
    }

    #[test]
    fn a_hierarchy_mounted_at_a_group_of_its_own() {
        let inside = view(
            "32 27 0:28 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "0::/docker/abc/deep\n",
        );
        assert_eq!(
            inside.unified().unwrap().folder,
            Path::new("/sys/fs/cgroup/deep")
        );
        let outside = view(
            "32 27 0:28 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "0::/elsewhere\n",
        );
        assert_eq!(outside.unified(), None);
    }
}
