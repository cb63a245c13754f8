//! Where previews are kept, and until when.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Error;
use super::commit;
use super::layer::{Home, remove_tree};
use super::reach;
use super::record::{self, Held, Record, State};

/// Everything that is kept for workspaces: the folder `sandboxes` of the state.
#[derive(Debug, Clone)]
pub struct Store(PathBuf);

impl Store {
    /// The store in this state folder.
    pub fn new(state: &Path) -> Store {
        Store(state.join("sandboxes"))
    }

    /// Every preview of this user, the newest first.
    pub fn list(&self) -> Vec<(PathBuf, Record)> {
        let mut found: Vec<(PathBuf, Record)> = self
            .folders()
            .into_iter()
            .filter_map(|path| record::read(&path).ok().map(|record| (path, record)))
            .collect();
        found.sort_by(|(_, a), (_, b)| (b.time, b.nanos, &b.id).cmp(&(a.time, a.nanos, &a.id)));
        found
    }

    fn folders(&self) -> Vec<PathBuf> {
        let entries = |path: &Path| {
            fs::read_dir(path)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
                .collect::<Vec<PathBuf>>()
        };
        entries(&self.0)
            .iter()
            .flat_map(|sandbox| entries(&sandbox.join("previews")))
            .collect()
    }

    /// The preview of this id.
    pub fn find(&self, id: &str) -> Result<(PathBuf, Record), Error> {
        let unknown = || Error::Unknown { id: id.to_owned() };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if id.is_empty() || !id.chars().all(plain) {
            return Err(unknown());
        }
        let path = self
            .folders()
            .into_iter()
            .find(|path| path.file_name() == Some(id.as_ref()))
            .ok_or_else(unknown)?;
        match record::read(&path) {
            Ok(record) => Ok((path, record)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(unknown()),
            Err(source) => Err(Error::Read {
                id: id.to_owned(),
                source,
            }),
        }
    }

    /// The same, held: nobody else commits, takes back or drops it meanwhile.
    pub fn take(&self, id: &str) -> Result<(Held, Record), Error> {
        let (path, _) = self.find(id)?;
        // Whoever only looks holds it for a moment.
        const TRIES: usize = 40;
        let mut tries = 0;
        let held = loop {
            let held = Held::lock(&path).map_err(|source| Error::Read {
                id: id.to_owned(),
                source,
            })?;
            tries += 1;
            match held {
                Some(held) => break held,
                None if tries > TRIES => return Err(Error::Busy { id: id.to_owned() }),
                None => std::thread::sleep(std::time::Duration::from_millis(50)),
            }
        };
        // Read again: whoever had it before may have changed it.
        let (_, record) = self.find(id)?;
        Ok((held, record))
    }

    /// Finishes commits that a killed sjail has begun; says what was done.
    pub fn recover(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (path, record) in self.list() {
            let Ok(Some(held)) = Held::lock(&path) else {
                continue;
            };
            // Read again: whoever had it before may have changed it.
            let mut record = record::read(&path).unwrap_or(record);
            let before = record.state;
            let done = reach::over_own_files(|| commit::recover(&held, &mut record));
            match (before, done) {
                (State::Pending | State::Committed, _) => {}
                (_, Ok(())) => notes.push(format!(
                    "preview {} had been left half committed; it is {} now",
                    record.id,
                    record.state.name()
                )),
                (_, Err(error)) => notes.push(error.to_string()),
            }
        }
        notes
    }

    /// Drops what has expired, and what a killed run has left half made.
    pub fn sweep(&self) {
        for path in self.folders() {
            let name = path.file_name().unwrap_or_default();
            // About to get its name, unless whoever made it died right then.
            if name.as_encoded_bytes().starts_with(b".") && !is_old(&path) {
                continue;
            }
            let Ok(Some(held)) = Held::lock(&path) else {
                continue;
            };
            let gone = match record::read(&path) {
                Ok(record) => {
                    let settled = matches!(record.state, State::Pending | State::Committed);
                    settled && record.kept_until() < record::now()
                }
                // The lock is held while it is made: nobody is at it any more.
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            };
            if gone {
                remove(&held);
            }
        }
    }
}

fn is_old(path: &Path) -> bool {
    fs::metadata(path)
        .and_then(|meta| meta.modified())
        .is_ok_and(|time| time.elapsed().is_ok_and(|age| age.as_secs() > 60))
}

/// Drops a preview with all its layers.
pub fn remove(held: &Held) {
    for entry in fs::read_dir(held.path().join("layers"))
        .into_iter()
        .flatten()
        .flatten()
    {
        if let Some(number) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        {
            Home::of(held.path(), number).remove();
        }
    }
    remove_tree(held.path());
}
