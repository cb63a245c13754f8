//! Keeping what a preview showed: as a whole, or not at all.
//!
//! [`super::planner`] turns the list of changes into steps, which are written down before
//! the first is done; [`super::ground`] does them. Whatever stops it in between, whoever
//! comes next finishes it, or takes it back.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::syncfs;
use sjail_policy::show;

use super::Error;
use super::entry;
use super::fallback;
use super::ground::Force;
use super::journal::{self, Act, Step};
use super::layer::{Fate, Home};
use super::planner::Planner;
use super::record::{self, Held, Record, State};
use super::room::{self, Room};
use super::walk::Count;
use crate::beneath::{Kind, kind};
use crate::tick;

/// What of a preview is committed.
#[derive(Debug, Clone)]
pub struct Choice {
    /// These paths of the host and what is below them; none for everything.
    pub paths: Vec<PathBuf>,
    /// Whether changes of the host's own are written over.
    pub force: Force,
}

impl Choice {
    /// Whether a path of the host is among them.
    pub fn wants(&self, full: &Path) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|path| full.starts_with(path))
    }

    /// Whether each of them is a change of the preview, or holds one.
    pub fn fits(&self, folder: &Path, record: &Record) -> io::Result<Result<(), Error>> {
        let mut open: Vec<&PathBuf> = self.paths.iter().collect();
        if open.is_empty() {
            return Ok(Ok(()));
        }
        for entry in record::entries(folder)? {
            let entry = entry?;
            let full = record.full(&entry);
            let is_above = |path: &&&PathBuf| ***path != full && path.starts_with(&full);
            if entry.act == entry::Act::Deleted
                && let Some(path) = open.iter().find(|path| is_above(path))
            {
                return Ok(Err(Error::DeletedWith {
                    id: record.id.clone(),
                    path: (*path).clone(),
                    above: full,
                }));
            }
            open.retain(|path| !entry.is_shown() || !full.starts_with(path));
        }
        Ok(match open.first() {
            None => Ok(()),
            Some(path) => Err(Error::NoChange {
                id: record.id.clone(),
                path: (*path).clone(),
            }),
        })
    }
}

/// What a commit did.
#[derive(Debug, Default)]
pub struct Done {
    /// The steps.
    pub steps: usize,
    /// Changes that were not chosen.
    pub left_out: u64,
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

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Comparing with the host, and copying where the layer is on another file system.
    Look,
    /// Doing the steps.
    Commit,
    /// Copying what was replaced between file systems; how much there is of it is not
    /// known.
    Carry,
    /// Taking them back.
    Undo,
}

/// Called with how much of what is done, and of how much.
pub type Progress<'a> = &'a mut dyn FnMut(Phase, usize, usize);

/// Commits what was chosen.
pub fn commit(
    held: &Held,
    record: &mut Record,
    choice: &Choice,
    progress: Progress<'_>,
) -> Result<Done, Error> {
    let id = record.id.clone();
    let failed = Error::commit_of(&id);
    let planned = plan(held, record, choice, progress);
    let (rooms, done) = match planned {
        Ok(planned) => planned,
        Err(stop) => return Err(stop.told(held, record, failed)),
    };
    forward(held, record, rooms, choice.force, progress)?;
    Ok(done)
}

/// Why a commit, or its undoing, does not begin.
enum Stop {
    Io(io::Error),
    Conflicts(Vec<Conflict>),
    /// The layer was changed there.
    Tampered(PathBuf),
}

impl Stop {
    /// Nothing was done yet; what is left of it goes when somebody looks next.
    fn told(self, held: &Held, record: &mut Record, io: impl FnOnce(io::Error) -> Error) -> Error {
        let _ = depart(held, record);
        let id = record.id.clone();
        match self {
            Stop::Io(source) => io(source),
            Stop::Conflicts(conflicts) => Error::Conflicts { id, conflicts },
            Stop::Tampered(path) => Error::Tampered { id, path },
        }
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Io(error)
    }
}

/// Everything up to the point from which it is finished or taken back.
fn plan(
    held: &Held,
    record: &mut Record,
    choice: &Choice,
    progress: Progress<'_>,
) -> Result<(Vec<Option<Room>>, Done), Stop> {
    held.reserve()?;
    settle_layers(held, record)?;
    let mut rooms = open(held, record)?;
    let mut planner = Planner::new(held.path(), record, choice)?;
    planner.run(&mut rooms, progress)?;
    if let Some(path) = planner.tampered {
        return Err(Stop::Tampered(path));
    }
    if !planner.conflicts.is_empty() {
        return Err(Stop::Conflicts(planner.conflicts));
    }
    let done = Done {
        steps: planner.journal.count,
        left_out: planner.left_out,
        kept_out: planner.kept_out,
    };
    planner.journal.close()?;
    record.state = State::Committing;
    record.began = Some(tick::next());
    if let Err(error) = held.write(record) {
        record.state = State::Pending;
        return Err(error.into());
    }
    Ok((rooms, done))
}

/// Finishes a commit whose journal stands; takes it back if that cannot be done.
fn forward(
    held: &Held,
    record: &mut Record,
    rooms: Vec<Option<Room>>,
    force: Force,
    progress: Progress<'_>,
) -> Result<(), Error> {
    let id = record.id.clone();
    let failed = Error::commit_of(&id);
    let mut walk = || -> io::Result<()> {
        let total = journal::read(held.path())?.count();
        for (number, step) in journal::read(held.path())?.enumerate() {
            let step = step?;
            let room = room_of(&rooms, &step)?;
            room.ground
                .forward(number, &step, force)
                .map_err(|error| named(&step, record, error))?;
            progress(Phase::Commit, number + 1, total);
        }
        let mut copied = 0;
        for room in rooms.iter().flatten() {
            room.bring_home(&mut || {
                copied += 1;
                progress(Phase::Carry, copied, copied);
            })?;
        }
        Ok(())
    };
    if let Err(source) = walk() {
        backward(held, record, rooms, Force::No, progress)?;
        return Err(failed(source));
    }
    record.state = State::Committed;
    record.committed = Some(tick::next());
    settle(held, record).map_err(failed)
}

/// Takes a commit back, from whatever step it has reached.
fn backward(
    held: &Held,
    record: &mut Record,
    rooms: Vec<Option<Room>>,
    force: Force,
    progress: Progress<'_>,
) -> Result<(), Error> {
    let id = record.id.clone();
    let failed = Error::undo_of(&id);
    record.state = State::Undoing;
    held.write(record).map_err(failed)?;
    let mut walk = || -> io::Result<()> {
        let total = journal::read(held.path())?.count();
        let mut first = Ok(());
        for step in journal::read_back(held.path())? {
            let (number, step) = step?;
            let room = room_of(&rooms, &step)?;
            let done = room
                .way(step.path.as_path())
                .and_then(|()| room.ground.backward(number, &step, force))
                .map_err(|error| named(&step, record, error));
            // What is in the way of one step is in the way of no other.
            first = first.and(done);
            progress(Phase::Undo, total - number, total);
        }
        for step in journal::read_back(held.path())? {
            let (_, step) = step?;
            room_of(&rooms, &step)?.ground.time_again(&step)?;
        }
        first
    };
    walk().map_err(failed)?;
    for room in rooms.into_iter().flatten() {
        room.drop_backups();
    }
    record.state = State::Pending;
    let ended = tick::next();
    if let Some(began) = record.began.take() {
        record.own.push((began, ended));
    }
    record.committed = None;
    settle(held, record).map_err(failed)
}

/// Finishes what a killed sjail has begun.
pub fn recover(held: &Held, record: &mut Record) -> Result<(), Error> {
    let id = record.id.clone();
    let failed = Error::commit_of(&id);
    let silent: Progress<'_> = &mut |_, _, _| {};
    match record.state {
        State::Pending | State::Committed => depart(held, record).map_err(failed),
        State::Committing => {
            let rooms = open(held, record).map_err(failed)?;
            forward(held, record, rooms, Force::No, silent)
        }
        State::Undoing => {
            let rooms = open(held, record).map_err(failed)?;
            backward(held, record, rooms, Force::No, silent)
        }
    }
}

/// Takes a finished commit back: the host is as it was, the preview pending again.
pub fn undo(
    held: &Held,
    record: &mut Record,
    force: Force,
    progress: Progress<'_>,
) -> Result<usize, Error> {
    let id = record.id.clone();
    let failed = Error::undo_of(&id);
    if matches!(record.state, State::Undoing | State::Committing) {
        let rooms = open(held, record).map_err(failed)?;
        backward(held, record, rooms, force, progress)?;
        return journal::read(held.path())
            .map(Iterator::count)
            .map_err(failed);
    }
    let (State::Committed, Some(committed)) = (record.state, record.committed) else {
        return Err(Error::NotCommitted { id });
    };
    let mut look = || -> Result<(Vec<Option<Room>>, usize), Stop> {
        held.reserve()?;
        let rooms = open(held, record)?;
        let mut conflicts = Vec::new();
        let mut count = 0;
        for step in journal::read(held.path())? {
            let step = step?;
            count += 1;
            if force == Force::No {
                conflicts.extend(changed_since(&rooms, &step, committed)?);
            }
        }
        if !conflicts.is_empty() {
            return Err(Stop::Conflicts(conflicts));
        }
        let mut copied = 0;
        for room in rooms.iter().flatten() {
            room.fetch(&mut || {
                copied += 1;
                progress(Phase::Carry, copied, copied);
            })?;
        }
        Ok((rooms, count))
    };
    let (rooms, count) = match look() {
        Ok(ready) => ready,
        Err(stop) => return Err(stop.told(held, record, failed)),
    };
    backward(held, record, rooms, force, progress)?;
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
        // A folder changes whenever something in it does; a file by itself.
        (Act::Set { .. }, Some(stat))
            if kind(&stat) != Kind::Folder && (stat.st_ctime, stat.st_ctime_nsec) >= committed =>
        {
            conflict("has been changed since")
        }
        _ => None,
    })
}

/// Opens the room of every layer. Where one must lie in the host's folder, that folder's
/// time is written down first.
/// Has what the command left on the disk before the host's files depend on it.
fn settle_layers(held: &Held, record: &Record) -> io::Result<()> {
    for (number, layer) in record.layers.iter().enumerate() {
        if layer.fate == Fate::Kept {
            match File::open(Home::of(held.path(), number).upper()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                folder => syncfs(folder?)?,
            }
        }
    }
    Ok(())
}

fn open(held: &Held, record: &mut Record) -> io::Result<Vec<Option<Room>>> {
    let mut fresh = Vec::new();
    for (number, layer) in record.layers.iter_mut().enumerate() {
        if layer.fate == Fate::Kept && layer.time.is_none() {
            layer.time = room::time_abroad(held.path(), number, layer)?;
            fresh.extend(layer.time.map(|time| (layer.host.clone(), time)));
        }
    }
    if !fresh.is_empty() {
        held.write(record)?;
    }
    let layers = record.layers.iter().enumerate();
    let rooms = layers
        .map(|(number, layer)| match layer.fate {
            Fate::Kept => Room::open(held.path(), number, layer, &record.id).map(Some),
            Fate::Dropped => Ok(None),
        })
        .collect::<io::Result<_>>()?;
    for (host, time) in fresh {
        fallback::times(host.as_path(), time)?;
    }
    Ok(rooms)
}

/// Writes down what has become of it, and leaves the host's folders.
fn settle(held: &Held, record: &mut Record) -> io::Result<()> {
    for layer in &mut record.layers {
        if layer.time.is_some() {
            layer.time = Some(room::time_of(layer.host.as_path())?);
        }
    }
    held.write(record)?;
    depart(held, record)
}

/// Takes our folders out of the host's, whose times stay.
fn depart(held: &Held, record: &mut Record) -> io::Result<()> {
    let mut was_there = false;
    for layer in &mut record.layers {
        if let Some(time) = layer.time.take() {
            room::depart(layer, &record.id, time);
            was_there = true;
        }
    }
    held.release();
    match was_there {
        true => held.write(record),
        false => Ok(()),
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
    io::Error::new(error.kind(), format!("{}: {error}", show::name(path)))
}
