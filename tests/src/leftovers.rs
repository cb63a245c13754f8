//! What a run may leave on the host: mounts, control groups, files, processes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::{Scene, Stop, Tree, Verdict, wait};

/// Where temporary files of a program end up.
const TEMPORARY: &[&str] = &["/tmp", "/var/tmp", "/dev/shm", "/run"];

/// The traces of a machine at one moment. Take one before and ask
/// [`Snapshot::nothing_new`] after. Whole-machine: mark the test
/// [`crate::Test::alone`].
#[derive(Debug)]
pub struct Snapshot {
    mounts: BTreeSet<String>,
    groups: BTreeSet<String>,
    temporary: BTreeSet<String>,
    files: BTreeSet<String>,
}

impl Snapshot {
    /// What there is now: mounts, control groups, the names in the temporary
    /// folders, and every file of the scene with its size and modification time.
    pub fn take(scene: &Scene) -> Snapshot {
        let mut snapshot = Snapshot::of_the_machine();
        list(&scene.workspace(), &mut snapshot.files);
        list(&scene.outside(), &mut snapshot.files);
        list_names(&scene.runtime(), &mut snapshot.temporary);
        snapshot
    }

    /// Fails if something came that was not there before and does not go away
    /// within the usual deadline; processes below the test count, too.
    pub fn nothing_new(&self, scene: &Scene) -> Verdict {
        let mut news = Vec::new();
        let waited = wait::until_true("nothing is left behind", || {
            news = Snapshot::take(scene).beyond(self);
            news.extend(
                Tree::own()
                    .descendants()
                    .into_iter()
                    .map(|pid| format!("process {pid} {}", crate::tree::command_line(pid))),
            );
            news.is_empty()
        });
        waited.map_err(|_| Stop::failed(format!("left behind: {news:#?}")))
    }

    fn of_the_machine() -> Snapshot {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut groups = BTreeSet::new();
        list_folders(Path::new("/sys/fs/cgroup"), &mut groups);
        let mut temporary = BTreeSet::new();
        for folder in TEMPORARY {
            list_names(Path::new(folder), &mut temporary);
        }
        Snapshot {
            mounts: mounts.lines().map(str::to_string).collect(),
            groups,
            temporary,
            files: BTreeSet::new(),
        }
    }

    fn beyond(&self, earlier: &Snapshot) -> Vec<String> {
        let mut news = Vec::new();
        for (kind, now, before) in [
            ("mount", &self.mounts, &earlier.mounts),
            ("control group", &self.groups, &earlier.groups),
            ("temporary file", &self.temporary, &earlier.temporary),
            ("new or changed file", &self.files, &earlier.files),
        ] {
            news.extend(now.difference(before).map(|name| format!("{kind} {name}")));
        }
        let lost = earlier.files.difference(&self.files);
        news.extend(lost.map(|name| format!("lost or changed file {name}")));
        news
    }
}

/// Every file below a folder, with what tells that it was changed.
fn list(folder: &Path, into: &mut BTreeSet<String>) {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        into.insert(format!(
            "{} {:o} {} {} {}",
            path.display(),
            metadata.mode(),
            metadata.ino(),
            if metadata.is_dir() {
                0
            } else {
                metadata.size()
            },
            if metadata.is_dir() {
                0
            } else {
                metadata.mtime_nsec() + metadata.mtime() * 1_000_000_000
            },
        ));
        if metadata.is_dir() {
            list(&path, into);
        }
    }
}

fn list_names(folder: &Path, into: &mut BTreeSet<String>) {
    if let Ok(entries) = fs::read_dir(folder) {
        into.extend(
            entries
                .flatten()
                .map(|entry| entry.path().display().to_string()),
        );
    }
}

fn list_folders(folder: &Path, into: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            into.insert(entry.path().display().to_string());
            list_folders(&entry.path(), into);
        }
    }
}
