//! Keeping what a preview showed: the list of changes turned into steps, and the steps done
//! as a whole or taken back as a whole.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::beneath::{Beneath, Kind, kind};
use super::entry::{Act as Change, Entry};
use super::journal::{self, Act, Force, Look, Step, Writer};
use super::layer::{Fate, Home};
use super::record::{self, Held, Record, State};
use super::room::{self, Room};
use super::walk::{Count, unchanged};
use super::{Error, next_tick};

/// What of a preview is committed.
#[derive(Debug, Clone)]
pub struct Choice {
    /// These paths of the host and what is below them; none for everything.
    pub paths: Vec<PathBuf>,
    /// Whether changes of the host's own are written over.
    pub force: Force,
}

/// What a commit did.
#[derive(Debug, Default)]
pub struct Done {
    /// The steps.
    pub steps: usize,
    /// What was left out, and why.
    pub kept_out: Vec<(PathBuf, String)>,
}

/// Something on the host that is not what the preview saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Where.
    pub path: PathBuf,
    /// How it differs.
    pub why: String,
}

/// Called with the number of steps done and their total.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// Commits what was chosen.
pub fn commit(
    held: &Held,
    record: &mut Record,
    choice: &Choice,
    progress: Progress<'_>,
) -> Result<Done, Error> {
    let failed = |source| Error::Commit {
        id: record.id.clone(),
        source,
    };
    let mut rooms = open(held.path(), record).map_err(failed)?;
    let planned = Planner::new(held.path(), record, choice)
        .and_then(|mut planner| planner.run(&mut rooms).map(|()| planner));
    let planner = match planned {
        Ok(planner) if planner.conflicts.is_empty() => planner,
        Ok(planner) => {
            abandon(rooms);
            return Err(Error::Conflicts {
                id: record.id.clone(),
                conflicts: planner.conflicts,
            });
        }
        Err(source) => {
            abandon(rooms);
            return Err(failed(source));
        }
    };
    let done = Done {
        steps: planner.journal.count,
        kept_out: planner.kept_out,
    };
    planner.journal.close().map_err(failed)?;
    record.state = State::Committing;
    record.began = Some(next_tick());
    held.write(record).map_err(failed)?;
    forward(held, record, rooms, choice.force, progress)?;
    Ok(done)
}

/// Finishes a commit whose journal stands; takes it back if that cannot be done.
fn forward(
    held: &Held,
    record: &mut Record,
    rooms: Vec<Option<Room>>,
    force: Force,
    progress: Progress<'_>,
) -> Result<(), Error> {
    let failed = |source| Error::Commit {
        id: record.id.clone(),
        source,
    };
    let total = journal::read(held.path()).map_err(failed)?.count();
    let mut walk = || -> io::Result<()> {
        for (number, step) in journal::read(held.path())?.enumerate() {
            let step = step?;
            let room = room_of(&rooms, &step)?;
            room.ground
                .forward(number, &step, force)
                .map_err(|error| named(&step, record, error))?;
            progress(number + 1, total);
        }
        Ok(())
    };
    if let Err(source) = walk() {
        let why = failed(source);
        backward(held, record, rooms, Force::No)?;
        return Err(why);
    }
    for room in rooms.into_iter().flatten() {
        room.leave().map_err(failed)?;
    }
    record.state = State::Committed;
    record.committed = Some(next_tick());
    held.write(record).map_err(failed)
}

/// Takes a commit back, from whatever step it has reached.
fn backward(
    held: &Held,
    record: &mut Record,
    rooms: Vec<Option<Room>>,
    force: Force,
) -> Result<(), Error> {
    let failed = |source| Error::Undo {
        id: record.id.clone(),
        source,
    };
    record.state = State::Undoing;
    held.write(record).map_err(failed)?;
    let walk = || -> io::Result<()> {
        let steps: Vec<Step> = journal::read(held.path())?.collect::<io::Result<_>>()?;
        for (number, step) in steps.iter().enumerate().rev() {
            let room = room_of(&rooms, step)?;
            room.way(step.path.as_path())?;
            room.ground
                .backward(number, step, force)
                .map_err(|error| named(step, record, error))?;
        }
        for step in steps.iter().rev() {
            room_of(&rooms, step)?.ground.time_again(step)?;
        }
        Ok(())
    };
    walk().map_err(failed)?;
    abandon(rooms);
    record.state = State::Pending;
    let ended = next_tick();
    if let Some(began) = record.began.take() {
        record.own.push((began, ended));
    }
    record.committed = None;
    held.write(record).map_err(failed)
}

/// Finishes what a killed sjail has begun.
pub fn recover(held: &Held, record: &mut Record) -> Result<(), Error> {
    let opened = |record: &Record| {
        open(held.path(), record).map_err(|source| Error::Commit {
            id: record.id.clone(),
            source,
        })
    };
    match record.state {
        State::Pending => {
            for layer in &record.layers {
                room::clear(layer, &record.id);
            }
            Ok(())
        }
        State::Committed => Ok(()),
        State::Committing => {
            let rooms = opened(record)?;
            forward(held, record, rooms, Force::No, &mut |_, _| {})
        }
        State::Undoing => {
            let rooms = opened(record)?;
            backward(held, record, rooms, Force::No)
        }
    }
}

/// Takes a finished commit back: the host is as it was, the preview pending again.
pub fn undo(held: &Held, record: &mut Record, force: Force) -> Result<usize, Error> {
    let failed = |source| Error::Undo {
        id: record.id.clone(),
        source,
    };
    let (State::Committed, Some(committed)) = (record.state, record.committed) else {
        return Err(Error::NotCommitted {
            id: record.id.clone(),
        });
    };
    let rooms = open(held.path(), record).map_err(failed)?;
    let mut conflicts = Vec::new();
    let mut count = 0;
    for step in journal::read(held.path()).map_err(failed)? {
        let step = step.map_err(failed)?;
        count += 1;
        if force == Force::No {
            conflicts.extend(changed_since(&rooms, &step, committed).map_err(failed)?);
        }
    }
    if !conflicts.is_empty() {
        for room in rooms.into_iter().flatten() {
            room.leave().map_err(failed)?;
        }
        return Err(Error::Conflicts {
            id: record.id.clone(),
            conflicts,
        });
    }
    backward(held, record, rooms, force)?;
    Ok(count)
}

/// Whether the host has changed something since it was committed.
fn changed_since(
    rooms: &[Option<Room>],
    step: &Step,
    committed: (i64, i64),
) -> io::Result<Option<Conflict>> {
    let host = &room_of(rooms, step)?.ground.host;
    let path = step.path.as_path();
    let conflict = |why: &str| {
        Some(Conflict {
            path: host.path().join(path),
            why: why.to_owned(),
        })
    };
    let now = host.stat(path)?;
    Ok(match (&step.act, now) {
        (Act::Put { .. }, None) => conflict("has been deleted since"),
        (Act::Put { .. }, Some(stat)) => {
            let mut count = Count::default();
            if kind(&stat) == Kind::Folder {
                count.add(host, path);
            }
            let newest = count.newest.max((stat.st_ctime, stat.st_ctime_nsec));
            match newest >= committed {
                true => conflict("has been changed since"),
                false => None,
            }
        }
        (Act::Take { .. }, Some(_)) => conflict("has been made again since"),
        _ => None,
    })
}

fn open(preview: &Path, record: &Record) -> io::Result<Vec<Option<Room>>> {
    record
        .layers
        .iter()
        .enumerate()
        .map(|(number, layer)| match layer.fate {
            Fate::Kept => Room::open(preview, number, layer, &record.id).map(Some),
            Fate::Dropped => Ok(None),
        })
        .collect()
}

fn abandon(rooms: Vec<Option<Room>>) {
    for room in rooms.into_iter().flatten() {
        room.abandon();
    }
}

fn room_of<'a>(rooms: &'a [Option<Room>], step: &Step) -> io::Result<&'a Room> {
    rooms
        .get(step.layer)
        .and_then(Option::as_ref)
        .ok_or_else(|| io::Error::other("the journal names a place that the preview has not"))
}

fn named(step: &Step, record: &Record, error: io::Error) -> io::Error {
    let host = record
        .layers
        .get(step.layer)
        .map(|layer| layer.host.as_path());
    let path = host.unwrap_or(Path::new("")).join(step.path.as_path());
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Turns the list of changes into steps.
struct Planner<'a> {
    folder: &'a Path,
    record: &'a Record,
    choice: &'a Choice,
    uppers: Vec<Option<Beneath>>,
    /// New folders of which only a part is committed.
    split: HashSet<(usize, PathBuf)>,
    journal: Writer,
    /// Permissions and times of folders come last: what is put in them changes them.
    last: Vec<Step>,
    conflicts: Vec<Conflict>,
    kept_out: Vec<(PathBuf, String)>,
}

impl<'a> Planner<'a> {
    fn new(folder: &'a Path, record: &'a Record, choice: &'a Choice) -> io::Result<Planner<'a>> {
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

    fn run(&mut self, rooms: &mut [Option<Room>]) -> io::Result<()> {
        for entry in record::entries(self.folder)? {
            let entry = entry?;
            self.one(&entry, rooms)?;
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
