//! What a run knew when it started, so that the next start can tell what a killed run
//! has left in a workspace.
//!
//! The file is locked while the run lives; the kernel drops the lock whichever way the
//! process ends. It lies in the user's runtime folder, which is memory: writing it costs
//! some microseconds.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use sjail_policy::bytes::ByteString;

use super::Protection;
use super::finding::Finding;
use super::inventory::Moment;
use super::names::Names;
use super::quarantine::Quarantine;
use super::scan::Search;
use crate::cleanup;

/// The record of a run that lives.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    _lock: Flock<File>,
}

/// What the next start finds if this run is killed.
#[derive(Debug, Default)]
pub enum Recorded {
    /// Nobody watches.
    #[default]
    Nowhere,
    /// The jail is being made: nothing can be left behind yet.
    Awaited { records: PathBuf, sandbox: PathBuf },
    /// It can find it.
    Written(Record),
}

#[derive(Debug, Serialize, Deserialize)]
struct Text {
    workspace: ByteString,
    cwd: ByteString,
    sandbox: ByteString,
    run: String,
    depth: u8,
    known: Vec<ByteString>,
    #[serde(default)]
    shut: Vec<ByteString>,
}

/// Where records lie: in the user's runtime folder, or else among the kept records.
pub fn folder(state: &Path) -> PathBuf {
    std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute() && cleanup::is_private(path))
        .map(|path| path.join("sjail/protect"))
        .unwrap_or_else(|| state.join("protect"))
}

impl Record {
    /// Writes down what the run knows. `folder` is private to the user.
    pub fn write(folder: &Path, protection: &Protection, sandbox: &Path) -> io::Result<Record> {
        let text = Text {
            workspace: ByteString::from(protection.search.workspace.as_path()),
            cwd: ByteString::from(protection.search.cwd.as_path()),
            sandbox: ByteString::from(sandbox),
            run: protection.quarantine.run().to_owned(),
            depth: protection.search.depth,
            known: protection
                .start
                .sightings
                .iter()
                .map(|sighting| sighting.path.as_path())
                .chain(protection.git_dirs())
                .map(ByteString::from)
                .collect(),
            shut: protection
                .start
                .shut
                .iter()
                .map(|path| ByteString::from(path.as_path()))
                .collect(),
        };
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                DirBuilder::new()
                    .mode(0o700)
                    .recursive(true)
                    .create(folder)?;
            }
            _ => {}
        }
        let path = folder.join(protection.quarantine.run());
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)?;
        // Waits: a sweeper that is just looking at the empty file holds it for a moment.
        let mut file = Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, errno)| io::Error::from(errno))?;
        file.write_all(&serde_json::to_vec(&text)?)?;
        Ok(Record { path, _lock: file })
    }

    /// The run has looked after itself.
    pub fn done(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Deals with what killed runs have left. Cheap when there are none: one look at an
/// empty folder.
pub fn sweep(folder: &Path, names: &[ByteString]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Some(lock) = cleanup::orphaned(&path) else {
            continue;
        };
        let Ok(bytes) = io::read_to_string(&*lock) else {
            continue;
        };
        match serde_json::from_str::<Text>(&bytes) {
            Ok(text) => {
                let search = Search {
                    workspace: text.workspace.as_path().to_owned(),
                    cwd: text.cwd.as_path().to_owned(),
                    names: Names::new(names),
                    depth: text.depth,
                    shut: paths(&text.shut),
                };
                let known = paths(&text.known);
                let quarantine = Quarantine::new(text.sandbox.as_path(), &text.run);
                let began = Moment::at(&lock.metadata().and_then(|about| about.modified()));
                findings.extend(Protection::finish_for(search, &known, quarantine, began));
            }
            // Half written: the run was killed before the command could start. A file
            // that is about to be locked by its owner is empty, too: leave it a while.
            Err(_) if is_young(&lock) => continue,
            Err(_) => {}
        }
        let _ = fs::remove_file(&path);
    }
    findings
}

fn paths(list: &[ByteString]) -> HashSet<PathBuf> {
    list.iter().map(|path| path.as_path().to_owned()).collect()
}

fn is_young(file: &File) -> bool {
    file.metadata()
        .and_then(|metadata| metadata.modified())
        .is_ok_and(|time| time.elapsed().is_ok_and(|age| age.as_secs() < 60))
}
