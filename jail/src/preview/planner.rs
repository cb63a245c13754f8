//! Turning the list of changes into steps: what was chosen, as long as the host is still
//! what the preview saw.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::commit::{Choice, Conflict, Phase, Progress};
use super::entry::{Act as Change, Entry};
use super::ground::Force;
use super::journal::{Act, Step, Writer};
use super::layer::{Fate, Home};
use super::look::Look;
use super::record::{self, Record};
use super::room::Room;
use super::walk::unchanged;
use crate::beneath::{Beneath, Kind, kind};

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
    /// Changes that were not chosen.
    pub left_out: u64,
    /// Something in a layer that is not what was recorded.
    pub tampered: Option<PathBuf>,
    /// The new folder whose entries are being gone through.
    whole: Option<Whole>,
}

/// A new folder that is put as a whole.
struct Whole {
    layer: usize,
    path: PathBuf,
    /// What it holds, all told.
    holds: u64,
    /// What of that the list has named.
    named: u64,
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
            let full = record.full(&entry);
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
            left_out: 0,
            tampered: None,
            whole: None,
        })
    }

    /// Goes through the whole list; what is put is copied into its room where it must be.
    pub fn run(&mut self, rooms: &mut [Option<Room>], progress: Progress<'_>) -> io::Result<()> {
        let total = usize::try_from(self.record.totals.entries).unwrap_or(usize::MAX);
        for (number, entry) in record::entries(self.folder)?.enumerate() {
            let entry = entry?;
            let mut copied = number;
            self.one(&entry, rooms, &mut || {
                copied += 1;
                progress(Phase::Look, copied, total);
            })?;
            progress(Phase::Look, number + 1, total);
        }
        self.leave();
        // The deepest first, so that none changes the time of one that is done.
        self.last.sort_by(|a, b| b.path.cmp(&a.path));
        for step in std::mem::take(&mut self.last) {
            self.journal.add(&step)?;
        }
        Ok(())
    }

    /// `copied` is called for everything that is copied into a room.
    fn one(
        &mut self,
        entry: &Entry,
        rooms: &mut [Option<Room>],
        copied: &mut dyn FnMut(),
    ) -> io::Result<()> {
        let path = entry.path.as_path();
        let full = self.record.full(entry);
        let is_split = self.split.contains(&(entry.layer, path.to_owned()));
        let chosen = self.choice.wants(&full);
        self.left_out += u64::from(!chosen && entry.is_shown() && entry.renamed_to.is_none());
        // A folder above that goes as a whole takes it along.
        let above = path.parent().map(|above| (entry.layer, above.to_owned()));
        if entry.within && !above.is_some_and(|above| self.split.contains(&above)) {
            return self.within(entry);
        }
        self.leave();
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
        if !is_as_made(entry, upper)? {
            self.tampered.get_or_insert(full);
            return Ok(());
        }
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
                let holds = match room.is_guest() {
                    true => room
                        .stage(upper, path, copied)
                        .and_then(|()| population(upper, path))?,
                    false => clean(upper, path)?,
                };
                if entry.kind == Kind::Folder {
                    self.whole = Some(Whole {
                        layer: entry.layer,
                        path: path.to_owned(),
                        holds,
                        named: 0,
                    });
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

    /// Something in a new folder that is put as a whole.
    fn within(&mut self, entry: &Entry) -> io::Result<()> {
        let path = entry.path.as_path();
        let Some(whole) = &mut self.whole else {
            return Ok(());
        };
        if whole.layer != entry.layer || !path.starts_with(&whole.path) {
            return Ok(());
        }
        whole.named += 1;
        if let Some(Some(upper)) = self.uppers.get(entry.layer)
            && !is_as_made(entry, upper)?
        {
            self.tampered.get_or_insert(self.record.full(entry));
        }
        Ok(())
    }

    /// The list has left the new folder: it must have named all that is in it.
    fn leave(&mut self) {
        if let Some(whole) = self.whole.take()
            && whole.named != whole.holds
        {
            self.tampered.get_or_insert(whole.path);
        }
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

/// Whether the layer still has what was recorded.
fn is_as_made(entry: &Entry, upper: &Beneath) -> io::Result<bool> {
    let Some(made) = &entry.made else {
        return Ok(true);
    };
    let now = upper.stat(entry.path.as_path())?;
    Ok(now.is_some_and(|now| made.is(&now, entry.size)))
}

/// What is in a folder of a layer, all told; nothing in what is no folder.
fn population(upper: &Beneath, path: &Path) -> io::Result<u64> {
    let mut count = 0;
    each_below(upper, path, |_, what| {
        count += u64::from(what != Kind::Whiteout);
        Ok(())
    })?;
    Ok(count)
}

/// Takes an overlay's own notes off everything that leaves the layer; what was in it.
fn clean(upper: &Beneath, path: &Path) -> io::Result<u64> {
    let mut count = 0;
    each_below(upper, path, |path, what| {
        count += u64::from(what != Kind::Whiteout);
        match what {
            Kind::Whiteout => {
                let (folder, name) = upper.parent(path)?;
                let flags = nix::unistd::UnlinkatFlags::NoRemoveDir;
                Ok(nix::unistd::unlinkat(&folder, name.as_c_str(), flags)?)
            }
            Kind::Link => Ok(()),
            _ => upper.strip(path),
        }
    })?;
    if upper
        .stat(path)?
        .is_some_and(|stat| kind(&stat) != Kind::Link)
    {
        upper.strip(path)?;
    }
    Ok(count)
}

/// Calls with everything below a folder.
fn each_below(
    upper: &Beneath,
    path: &Path,
    mut call: impl FnMut(&Path, Kind) -> io::Result<()>,
) -> io::Result<()> {
    let is_folder = |path: &Path| {
        let stat = upper.stat(path)?;
        Ok::<_, io::Error>(stat.is_some_and(|stat| kind(&stat) == Kind::Folder))
    };
    let mut open = Vec::new();
    if is_folder(path)? {
        open.push(path.to_owned());
    }
    while let Some(folder) = open.pop() {
        for name in upper.names(&folder)? {
            let path = folder.join(name);
            let Some(stat) = upper.stat(&path)? else {
                continue;
            };
            call(&path, kind(&stat))?;
            if kind(&stat) == Kind::Folder {
                open.push(path);
            }
        }
    }
    Ok(())
}
