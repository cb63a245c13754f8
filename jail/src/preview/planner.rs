//! Turning the list of changes into steps: what was chosen, as long as the host is still
//! what the preview saw.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::beneath::{Beneath, Kind, kind};
use super::commit::{Choice, Conflict, Phase, Progress};
use super::entry::{Act as Change, Entry};
use super::ground::Force;
use super::journal::{Act, Step, Writer};
use super::layer::{Fate, Home};
use super::look::Look;
use super::record::{self, Record};
use super::room::Room;
use super::walk::unchanged;

/// Turns the list of changes into steps.
pub struct Planner<'a> {
    folder: &'a Path,
    record: &'a Record,
    choice: &'a Choice,
    uppers: Vec<Option<Beneath>>,
    /// New folders of which only a part is committed.
    split: HashSet<(usize, PathBuf)>,
    /// The steps.
    pub journal: Writer,
    /// Permissions and times of folders come last: what is put in them changes them.
    last: Vec<Step>,
    /// What the host has changed.
    pub conflicts: Vec<Conflict>,
    /// What is left out, and why.
    pub kept_out: Vec<(PathBuf, String)>,
}

impl<'a> Planner<'a> {
    /// For one commit.
    pub fn new(
        folder: &'a Path,
        record: &'a Record,
        choice: &'a Choice,
    ) -> io::Result<Planner<'a>> {
        let mut split = HashSet::new();
        for entry in record::entries(folder)? {
            let entry = entry?;
            let full = full(record, &entry);
            let is_part =
                entry.within && (entry.kept_out.is_some() || choice.paths.contains(&full));
            if is_part {
                for above in entry.path.as_path().ancestors().skip(1) {
                    split.insert((entry.layer, above.to_owned()));
                }
            }
        }
        let open = |(number, layer): (usize, &super::layer::Layer)| match layer.fate {
            Fate::Kept => Home::of(folder, number).open().map(Some),
            Fate::Dropped => Ok(None),
        };
        let layers = record.layers.iter().enumerate();
        Ok(Planner {
            folder,
            record,
            choice,
            uppers: layers.map(open).collect::<io::Result<_>>()?,
            split,
            journal: Writer::begin(folder)?,
            last: Vec::new(),
            conflicts: Vec::new(),
            kept_out: Vec::new(),
        })
    }

    /// Goes through the whole list; what is put is copied into its room where it must be.
    pub fn run(&mut self, rooms: &mut [Option<Room>], progress: Progress<'_>) -> io::Result<()> {
        let total = usize::try_from(self.record.totals.entries).unwrap_or(usize::MAX);
        for (number, entry) in record::entries(self.folder)?.enumerate() {
            let entry = entry?;
            self.one(&entry, rooms)?;
            progress(Phase::Look, number + 1, total);
        }
        // The deepest first, so that none changes the time of one that is done.
        self.last.sort_by(|a, b| b.path.cmp(&a.path));
        for step in std::mem::take(&mut self.last) {
            self.journal.add(&step)?;
        }
        Ok(())
    }

    fn one(&mut self, entry: &Entry, rooms: &mut [Option<Room>]) -> io::Result<()> {
        let path = entry.path.as_path();
        let full = full(self.record, entry);
        let is_split = self.split.contains(&(entry.layer, path.to_owned()));
        let chosen = self.choice.paths.is_empty()
            || self.choice.paths.iter().any(|path| full.starts_with(path));
        // A folder above that goes as a whole takes it along.
        let above = path.parent().map(|above| (entry.layer, above.to_owned()));
        if entry.within && !above.is_some_and(|above| self.split.contains(&above)) {
            return Ok(());
        }
        if !(chosen || is_split && self.leads(&full)) {
            return Ok(());
        }
        if let Some(why) = &entry.kept_out {
            self.kept_out.push((full, why.clone()));
            return Ok(());
        }
        let Some(Some(room)) = rooms.get_mut(entry.layer) else {
            return Ok(());
        };
        let Some(Some(upper)) = self.uppers.get(entry.layer) else {
            return Ok(());
        };
        let host = &room.ground.host;
        let now = host.stat(path)?;
        if let Some(why) = self.conflict(entry, host, now.as_ref())? {
            if entry.act != Change::Touched {
                self.conflicts.push(Conflict { path: full, why });
            }
            return Ok(());
        }
        let step = |act| Step {
            layer: entry.layer,
            path: entry.path.clone(),
            act,
        };
        match (entry.act, now) {
            (Change::Deleted, None) => {}
            (Change::Deleted, Some(now)) => {
                self.journal.add(&step(Act::Take { old: now.st_ino }))?;
            }
            (Change::Changed | Change::Touched, _) => {
                let set = step(Act::Set {
                    old: Some(Look::of(host, path)?),
                    new: Look::of(upper, path)?.at(entry.mtime),
                });
                match entry.kind {
                    Kind::Folder => self.last.push(set),
                    _ => self.journal.add(&set)?,
                }
            }
            (Change::Created, None) if is_split => {
                self.journal.add(&step(Act::MakeFolder))?;
                self.last.push(step(Act::Set {
                    old: None,
                    new: Look::of(upper, path)?.at(entry.mtime),
                }));
            }
            (_, now) => {
                if room.is_guest() {
                    room.stage(upper, path)?;
                } else {
                    clean(upper, path)?;
                }
                let new = room.ground.stage.stat(path)?;
                let new = new.ok_or_else(|| io::Error::other("the layer is not complete"))?;
                self.journal.add(&step(Act::Put {
                    new: new.st_ino,
                    over: now.map(|now| now.st_ino),
                }))?;
            }
        }
        Ok(())
    }

    /// Whether a chosen path lies below this one.
    fn leads(&self, full: &Path) -> bool {
        self.choice.paths.iter().any(|path| path.starts_with(full))
    }

    /// How the host differs from what the preview saw, if it does.
    fn conflict(
        &self,
        entry: &Entry,
        host: &Beneath,
        now: Option<&nix::sys::stat::FileStat>,
    ) -> io::Result<Option<String>> {
        let path = entry.path.as_path();
        if host.parent(path).is_err() && !path.as_os_str().is_empty() && !entry.within {
            return Ok(Some("its folder is no longer there".to_owned()));
        }
        if self.choice.force == Force::Yes {
            return Ok(None);
        }
        let why = match (entry.act, now, &entry.base) {
            (Change::Created, Some(_), _) => "was made on the host since the preview",
            (Change::Created, None, _) | (Change::Deleted, None, _) => return Ok(None),
            (_, None, _) => "was deleted on the host since the preview",
            (Change::Changed | Change::Touched, Some(now), Some(base))
                if entry.kind == Kind::Folder =>
            {
                match kind(now) == Kind::Folder && base.mode == now.st_mode {
                    true => return Ok(None),
                    false => "has other permissions on the host since the preview",
                }
            }
            (_, Some(now), Some(base)) if unchanged(host, path, base, now, &self.record.own)? => {
                return Ok(None);
            }
            _ => "was changed on the host since the preview began",
        };
        Ok(Some(why.to_owned()))
    }
}

fn full(record: &Record, entry: &Entry) -> PathBuf {
    let host = record
        .layers
        .get(entry.layer)
        .map(|layer| layer.host.as_path());
    let host = host.unwrap_or(Path::new("/"));
    match entry.path.is_empty() {
        true => host.to_owned(),
        false => host.join(entry.path.as_path()),
    }
}

/// Takes an overlay's own notes off everything that leaves the layer.
fn clean(upper: &Beneath, path: &Path) -> io::Result<()> {
    let Some(stat) = upper.stat(path)? else {
        return Ok(());
    };
    if kind(&stat) == Kind::Whiteout {
        let (folder, name) = upper.parent(path)?;
        let flags = nix::unistd::UnlinkatFlags::NoRemoveDir;
        return Ok(nix::unistd::unlinkat(&folder, name.as_c_str(), flags)?);
    }
    if kind(&stat) != Kind::Link {
        upper.strip(path)?;
    }
    if kind(&stat) == Kind::Folder {
        for name in upper.names(path)? {
            clean(upper, &path.join(name))?;
        }
    }
    Ok(())
}
