//! Protected names: what in a workspace runs code on the host later, when somebody calls
//! git, opens an editor, starts an agent or enters the folder.
//!
//! Three means, each for what the others cannot do:
//!
//! - A name that exists is mounted on itself read-only ([`scan`] finds it, the jail's
//!   set-up mounts it), the folders on the way to it are mounted on themselves, so that
//!   none of them can be renamed, removed or replaced from inside. The kernel enforces it.
//! - A name that does not exist yet has nothing to mount on, and a stub on the host is
//!   out of the question. The folders where it could appear are watched ([`watch`]); when
//!   it does, it is moved to the sandbox's quarantine at once, and again when the run ends.
//! - A host process that replaces a protected file takes the mount away with the old
//!   file. The watch sees that too, and the new file is mounted on itself ([`hold`])
//!   within a millisecond. What the jail could do meanwhile is undone: configuration of
//!   git is judged by its keys ([`judge`]), other files go to quarantine, and a jail that
//!   still holds the new file open is ended ([`holders`]).
//!
//! A repository that the command itself makes is judged, not forbidden.

mod aftermath;
mod change;
mod copied;
pub mod copy;
mod error;
pub mod finding;
mod gitlinks;
pub mod hold;
pub mod holders;
pub mod inventory;
pub mod judge;
pub mod links;
pub mod names;
mod new_file;
mod preparation;
pub mod quarantine;
pub mod reach;
pub mod record;
pub mod repository;
pub mod scan;
pub mod second_names;
pub mod stillness;
pub mod watch;

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::poll::PollFlags;
use sjail_policy::plan::Access;
use sjail_policy::show;

use crate::layout::places::Places;
use crate::spawn::Jail;
use crate::supervise::{self, Notice};
use copy::Copy;
pub use error::Error;
use finding::Finding;
use inventory::{Inventory, Moment, Role, Sighting};
use judge::Court;
use links::Depth;
pub use preparation::{Ground, writable};
use quarantine::Quarantine;
use record::{Record, Recorded};
use scan::Search;
use watch::Watch;

/// The protection of one run.
#[derive(Debug)]
pub struct Protection {
    search: Search,
    /// Where the jail sees what; nothing is known of one that is gone.
    places: Option<Places>,
    quarantine: Quarantine,
    /// What was there at the start, with the open folders that are watched.
    start: Inventory,
    /// What is mounted on itself in the jail now.
    held: Vec<Sighting>,
    /// The host's own text of each configuration of git.
    configs: Vec<(PathBuf, Vec<u8>)>,
    /// Tops that are looked at again when something happens.
    tops: Vec<PathBuf>,
    /// Folders that have been seen; others are new in this run.
    seen: HashSet<PathBuf>,
    /// Those of them that the command made, searched again when they change.
    fresh: Vec<PathBuf>,
    /// There were more of those than are watched.
    crowded: bool,
    /// When the last look began.
    looked: Moment,
    /// Something was noticed during the run: what came between a look at a new folder and the
    /// watch on it is found by the last look alone.
    stirred: bool,
    /// Folders of git that the command has made.
    made: Vec<PathBuf>,
    /// Folders of git that the command writes to a copy of; they are judged elsewhere.
    copied: Vec<PathBuf>,
    /// `.git` files that point into those, and where to.
    pointers: Vec<(PathBuf, PathBuf)>,
    /// A configuration that a command inside tried to write.
    refused: Option<PathBuf>,
    copy: Option<Copy>,
    watch: Option<Watch>,
    record: Recorded,
    findings: Vec<Finding>,
    /// What went to quarantine.
    taken: quarantine::Amount,
    /// Why the jail was ended, if it was ended here.
    ended: Option<String>,
}

/// What protecting has to say when a run is over.
#[derive(Debug, Default)]
pub struct Report {
    /// One entry each for stderr and the result.
    pub findings: Vec<Finding>,
    /// Why the jail was ended, if it was ended by this.
    pub ended: Option<String>,
}

impl Report {
    /// These findings, of a run that was not ended here.
    pub fn of(findings: Vec<Finding>) -> Report {
        Report {
            findings,
            ended: None,
        }
    }
}

/// How a path is mounted on itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Writable: only its name cannot be changed.
    Pin,
    /// Read-only.
    ReadOnly,
}

impl Protection {
    /// One that knows what a look has found, and holds nothing yet.
    fn begun(search: Search, quarantine: Quarantine, start: Inventory) -> Protection {
        let configs = start
            .sightings
            .iter()
            .filter(|sighting| sighting.role == Role::GitConfig)
            .filter_map(|s| Some((s.path.clone(), repository::small(&s.path)?)))
            .collect();
        Protection {
            places: None,
            held: Vec::new(),
            configs,
            tops: start.tops.clone(),
            seen: start.children.iter().cloned().collect(),
            fresh: Vec::new(),
            crowded: false,
            looked: Moment::now(),
            stirred: false,
            made: Vec::new(),
            copied: Vec::new(),
            pointers: Vec::new(),
            refused: None,
            copy: None,
            watch: None,
            record: Recorded::Nowhere,
            findings: Vec::new(),
            taken: quarantine::Amount::default(),
            ended: None,
            search,
            quarantine,
            start,
        }
    }

    /// Folders outside the workspace that git needs, writable, checked both ways.
    pub fn grants(&self) -> &[PathBuf] {
        &self.start.grants
    }

    /// What could not be honoured, in sentences.
    pub fn notes(&self) -> &[String] {
        &self.start.notes
    }

    /// The folders of git that were found, the workspace's own first.
    pub fn git_dirs(&self) -> impl Iterator<Item = &Path> {
        self.start
            .git_dirs
            .iter()
            .map(|git_dir| git_dir.path.as_path())
    }

    /// What the jail's set-up mounts on itself, in this order, by its paths inside.
    pub fn holds(&self) -> Vec<(PathBuf, Hold)> {
        let hold = |sighting: &Sighting| match sighting.role {
            Role::Way => Hold::Pin,
            _ => Hold::ReadOnly,
        };
        let mut holds = Vec::new();
        for held in &self.held {
            let inside = self.inside(&held.path).into_iter();
            holds.extend(inside.map(|path| (path, hold(held))));
        }
        // The layer that is written instead lies over one of its places alone.
        for git_dir in &self.copied {
            let others = self.inside(git_dir).into_iter();
            let others = others.filter(|path| path != git_dir);
            holds.extend(others.map(|path| (path, Hold::ReadOnly)));
        }
        holds
    }

    /// The paths by which the jail could write something of the host.
    fn inside(&self, path: &Path) -> Vec<PathBuf> {
        let Some(places) = &self.places else {
            return vec![path.to_owned()];
        };
        let seen = places.appearances(path).into_iter();
        seen.filter(|(_, access)| *access == Access::Rw)
            .map(|(path, _)| path)
            .collect()
    }

    /// Whether the jail could have made or changed this: the host's own work elsewhere is
    /// nobody's business.
    fn is_in_reach(&self, path: &Path) -> bool {
        self.places
            .as_ref()
            .is_none_or(|places| places.is_writable(path))
    }

    /// The files that the command could not write, each of them judged if it changed.
    pub fn kept(&self) -> Vec<PathBuf> {
        let sightings = self.start.sightings.iter();
        sightings
            .filter(|sighting| sighting.role != Role::Way)
            .map(|sighting| sighting.path.clone())
            .collect()
    }

    /// Starts watching; to be called before the command runs. What the run knows is written
    /// into `records` when the jail is there.
    pub fn start(&mut self, records: PathBuf, sandbox: PathBuf) -> Result<(), Error> {
        self.watch = Some(Watch::start(&self.start.places).map_err(Error::Watch)?);
        self.record = Recorded::Awaited { records, sandbox };
        Ok(())
    }

    /// The last look, when every process of the jail is gone.
    pub fn finish(mut self) -> Report {
        if let Some(copy) = self.copy.take() {
            self.stirred = true;
            let mut findings = Vec::new();
            copy.apply(self.court(), &mut findings);
            self.findings.extend(findings);
            self.check_pointers();
            self.end_copy();
        }
        let quiet = match &self.watch {
            Some(Watch::Signal(_)) => !self.watch.as_ref().is_some_and(Watch::happened),
            _ => false,
        };
        // What is awaited could have appeared between two folders' being watched.
        let unseen = self.start.is_unwatched || !self.start.awaited.is_empty();
        if self.stirred || !quiet || !self.made.is_empty() || unseen || self.is_index_written() {
            self.look(None);
        }
        self.sweep();
        self.take_links(Depth::Whole);
        if let Recorded::Written(record) = std::mem::take(&mut self.record) {
            record.done();
        }
        if let Some(config) = self.refused.take() {
            self.findings.push(Finding::noted(
                &config,
                "is read-only in a long run; a git command that writes it works when it runs by itself: sjail run -- git remote add …, git config …, git branch -u …",
            ));
        }
        Report {
            findings: self.findings,
            ended: self.ended,
        }
    }

    /// Whether what an index names may be something else now: a watched folder tells of new
    /// files alone.
    fn is_index_written(&self) -> bool {
        let Some(began) = self.start.time else {
            return true;
        };
        let mut indexes = self.start.indexes.iter();
        indexes.any(|index| began.may_have_been_written(index))
    }

    /// Links in folders of git that were not there when the run began.
    fn take_links(&mut self, depth: Depth) {
        let Some(began) = self.start.time else {
            return;
        };
        let git_dirs = self.git_dirs().map(Path::to_owned);
        for git_dir in git_dirs.chain(self.made.clone()).collect::<Vec<_>>() {
            let found = links::made_since(&began, &git_dir, depth);
            for path in found.paths {
                if !self.is_in_reach(&path) {
                    continue;
                }
                self.take(
                    &path,
                    "appeared during the run, and git would write through it",
                );
            }
            if found.unfinished {
                let why = "holds more folders than can be looked through for links that git would write through";
                self.findings.push(Finding::noted(&git_dir, why));
            }
        }
    }

    /// Moves a name to quarantine. It may be the host's own work, so nothing is ever deleted:
    /// a jail that makes more than can be kept is ended.
    fn take(&mut self, path: &Path, why: &str) {
        /// So many of one name are told one by one.
        const TOLD: usize = 8;
        let item = match self.quarantine.take(path, why) {
            // Gone by itself meanwhile.
            Ok(None) => return,
            Ok(Some(item)) => item,
            Err(error) => {
                self.findings.push(Finding::noted(path, error.to_string()));
                self.taken.count_left();
                self.end_if_too_much(path);
                return;
            }
        };
        self.taken.count(&self.quarantine.place_of(&item));
        self.end_if_too_much(path);
        let of_that_name = |finding: &&Finding| finding.is_quarantined(path);
        let before = self.findings.iter().filter(of_that_name).count();
        match before {
            0..TOLD => self.findings.push(Finding::quarantined(&item)),
            TOLD => {
                let again = "came again and again during the run";
                self.findings
                    .push(Finding::quarantined(&item).and_more(again));
            }
            _ => {}
        }
    }

    fn end_if_too_much(&mut self, path: &Path) {
        if self.taken.is_too_much() && self.ended.is_none() {
            self.ended = Some(format!(
                "{} and other protected names came again and again; the jail was ended, and all of them are in quarantine or called something else",
                show::name(path)
            ));
        }
    }

    fn admit(&mut self, judged: Result<(), quarantine::Error>) {
        if let Err(error) = judged {
            self.findings
                .push(Finding::noted(&self.search.workspace, error.to_string()));
        }
    }

    fn court(&self) -> Court<'_> {
        Court {
            workspace: &self.search.workspace,
            depth: self.search.depth,
            quarantine: &self.quarantine,
        }
    }

    fn host_text(&self, path: &Path) -> Vec<u8> {
        let known = self.configs.iter().find(|(known, _)| known == path);
        known.map(|(_, text)| text.clone()).unwrap_or_default()
    }

    /// What was judged, and not what is in the file by now, is the host's text from here.
    fn remember(&mut self, path: &Path, text: Vec<u8>) {
        match self.configs.iter_mut().find(|(known, _)| known == path) {
            Some((_, old)) => *old = text,
            None => self.configs.push((path.to_owned(), text)),
        }
    }

    fn was_known(&self, path: &Path) -> bool {
        self.start
            .sightings
            .iter()
            .any(|sighting| sighting.path == path)
    }

    fn is_made(&self, path: &Path) -> bool {
        self.made.iter().any(|made| path.starts_with(made))
    }
}

impl supervise::Guard for Protection {
    fn born(&mut self, _: &Jail) -> Result<(), crate::error::Error> {
        if let Recorded::Awaited { records, sandbox } = &self.record {
            let record = Record::write(records, self, sandbox).map_err(Error::Record)?;
            self.record = Recorded::Written(record);
        }
        Ok(())
    }

    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.watch
            .as_ref()
            .map(|watch| (watch.as_fd(), PollFlags::POLLIN))
    }

    fn notice(&mut self, jail: &Jail) -> Notice {
        if self.ended.is_none() && self.watch.as_ref().is_some_and(Watch::happened) {
            self.stirred = true;
            // Without namespaces nothing can be mounted, and Landlock keeps known names closed
            // whatever becomes of them: what is new is judged.
            self.look(jail.spaces.as_ref().map(|_| jail));
        }
        match self.ended {
            None => Notice::GoOn,
            Some(_) => Notice::End,
        }
    }
}
