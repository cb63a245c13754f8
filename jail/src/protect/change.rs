//! Dealing with what has changed in a workspace while a jail runs in it, and once more
//! when it has ended: what is new goes to quarantine, what was replaced is closed again
//! and judged, repositories that the command makes are judged.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sjail_policy::show;

use super::finding::Finding;
use super::inventory::{Inventory, Moment, Role, Sighting, paths};
use super::links::Depth;
use super::{Protection, hold, holders, repository, second_names};
use crate::spawn::Jail;
use crate::sys::directory::Kind;
use crate::sys::pidfd;

impl Protection {
    /// Looks at the watched folders again and deals with what has changed.
    pub(super) fn look(&mut self, jail: Option<&Jail>) {
        let git_dirs: Vec<PathBuf> = self
            .start
            .git_dirs
            .iter()
            .map(|git_dir| git_dir.path.clone())
            .chain(self.made.iter().cloned())
            .filter(|path| !self.copied.contains(path))
            .collect();
        if let Some(jail) = jail {
            self.drop_bare(jail);
        }
        self.notice_refusal(&git_dirs);
        self.take_links(Depth::Top);
        let since = std::mem::replace(&mut self.looked, Moment::now());
        let mut now = self.search.again(&self.tops, &git_dirs, &self.copied);
        let mut new: Vec<PathBuf> = now.children.clone();
        for folder in self.fresh.clone() {
            if since.may_have_changed(&folder) {
                now.absorb(self.search.repository_at(&folder));
                new.extend(self.search.children(&folder));
            }
        }
        for folder in new {
            if !self.seen.contains(&folder) {
                self.explore(&folder, &mut now);
            }
        }
        self.settle(now, jail);
    }

    /// A lock beside a closed configuration: git inside is about to be refused.
    fn notice_refusal(&mut self, git_dirs: &[PathBuf]) {
        if self.refused.is_some() {
            return;
        }
        self.refused = git_dirs
            .iter()
            .filter(|git_dir| !self.is_made(git_dir))
            .map(|git_dir| git_dir.join("config"))
            .find(|config| std::fs::symlink_metadata(config.with_extension("lock")).is_ok());
    }

    /// Closes what is no longer mounted, before anything else is looked at, and forgets
    /// it, so that it counts as changed. The kernel says when mounts of the jail have
    /// changed; only then somebody has to go in.
    fn drop_bare(&mut self, jail: &Jail) {
        let Some(spaces) = &jail.spaces else {
            return;
        };
        let mut changed = [PollFd::new(spaces.mountinfo.as_fd(), PollFlags::POLLPRI)];
        if poll(&mut changed, PollTimeout::ZERO) == Ok(0) {
            return;
        }
        let held: Vec<_> = self.held.iter().map(|held| self.place_of(held)).collect();
        match hold::mend(jail, &held) {
            Ok(bare) => {
                let mut index = 0;
                self.held.retain(|_| {
                    index += 1;
                    !bare.contains(&(index - 1))
                });
            }
            Err(errno) => {
                let all = self.held.clone();
                self.end_open(jail, &all, errno);
            }
        }
    }

    fn place_of(&self, sighting: &Sighting) -> hold::Held {
        hold::Held {
            paths: self.inside(&sighting.path),
            role: sighting.role,
        }
    }

    /// Searches a folder that is new for repositories, as deep as is left, and watches it.
    fn explore(&mut self, folder: &Path, now: &mut Inventory) {
        const MOST_WATCHED: usize = 256;
        let below = self.search.below(folder);
        for (path, _) in &below.searched {
            self.seen.insert(path.clone());
            if self.fresh.len() >= MOST_WATCHED {
                self.crowded = true;
            } else if !self.fresh.contains(path) {
                self.fresh.push(path.clone());
                if let (Some(watch), Some(place)) = (&self.watch, self.search.place(path)) {
                    watch.add(&place);
                    self.start.places.push(place);
                }
            }
        }
        now.absorb(below.repositories_only());
    }

    /// Deals with the difference between what is held and what is there.
    pub(super) fn settle(&mut self, mut now: Inventory, jail: Option<&Jail>) {
        if jail.is_none() {
            self.part(&mut now);
        }
        self.note_made(&now);
        for path in now.opened.drain(..) {
            let finding = Finding::opened(&path);
            if !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
        for (index, why) in now.unread.drain(..) {
            if self.is_in_reach(&index) {
                self.take(&index, &why.to_string());
            }
        }
        let mut watched: HashSet<PathBuf> =
            self.start.places.iter().map(|p| p.path.clone()).collect();
        let new_folders: Vec<_> = now.places.drain(..).collect();
        for place in new_folders {
            if watched.insert(place.path.clone()) {
                if let Some(watch) = &self.watch {
                    watch.add(&place);
                }
                self.start.places.push(place);
            }
        }
        let held: HashMap<&Path, &Sighting> = self
            .held
            .iter()
            .map(|held| (held.path.as_path(), held))
            .collect();
        let is_held = |sighting: &Sighting| {
            let held = held.get(sighting.path.as_path());
            held.is_some_and(|held| held.is_same(sighting))
        };
        let changed: Vec<Sighting> = now
            .mounted()
            .into_iter()
            .filter(|sighting| !self.is_made(&sighting.path) && !self.is_elsewhere(&sighting.path))
            .filter(|sighting| !is_held(sighting) && self.is_in_reach(&sighting.path))
            .cloned()
            .collect();
        if !changed.is_empty() {
            self.on_changed(changed, jail);
        }
        for git_dir in self.made.clone() {
            self.judge_made(&git_dir, &now, jail);
        }
    }

    /// Folders of git that were not there at the start, working trees' included.
    fn note_made(&mut self, now: &Inventory) {
        let known: HashSet<PathBuf> = self
            .start
            .git_dirs
            .iter()
            .map(|git_dir| git_dir.path.clone())
            .chain(paths(&self.start.sightings))
            .collect();
        let in_worktrees = |sighting: &&Sighting| {
            let folder = sighting.path.parent().and_then(Path::file_name);
            folder == Some("worktrees".as_ref()) && sighting.kind == Kind::Folder
        };
        let worktrees = now.sightings.iter().filter(in_worktrees);
        let made: Vec<PathBuf> = now
            .git_dirs
            .iter()
            .map(|git_dir| &git_dir.path)
            .chain(worktrees.map(|sighting| &sighting.path))
            .filter(|path| !known.contains(*path) && !self.is_made(path))
            .filter(|path| !self.copied.iter().any(|copied| path.starts_with(copied)))
            .filter(|path| self.is_in_reach(path))
            .cloned()
            .collect();
        self.made.extend(made);
    }

    /// Names that have appeared, or are other files than they were.
    fn on_changed(&mut self, changed: Vec<Sighting>, jail: Option<&Jail>) {
        let mut close = Vec::new();
        for sighting in changed {
            match self.fate(&sighting, jail) {
                Fate::Leave => {}
                Fate::Close => close.push(sighting),
                Fate::Move(why) => self.take(&sighting.path, why),
            }
        }
        if close.is_empty() {
            return;
        }
        // Closed first, judged then: what is judged must not change any more.
        let mut mounts = Vec::new();
        if let Some(jail) = jail {
            let places: Vec<_> = close.iter().map(|closed| self.place_of(closed)).collect();
            match hold::hold(jail, &places) {
                Ok(made) => mounts = made,
                Err(errno) => self.end_open(jail, &close, errno),
            }
        }
        for sighting in &close {
            self.held.retain(|held| held.path != sighting.path);
            self.held.push(sighting.clone());
        }
        if let Some(jail) = jail
            && let Some(why) = holders::found(jail, &close, &mounts)
        {
            self.end(jail, &why);
        }
        if let Some(jail) = jail
            && let Some(doubled) = close.iter().find(|closed| second_names::has(&closed.path))
        {
            let why = format!(
                "{} has a second name (a hard link) since this run, by which the jail could write it; the jail was ended",
                show::name(&doubled.path)
            );
            self.end(jail, &why);
        }
        for sighting in close {
            self.judge_closed(&sighting);
        }
    }

    /// When no process of the jail is left: every protected file is parted from its other
    /// names. What was written by one of those is judged like what was replaced.
    fn part(&mut self, now: &mut Inventory) {
        for sighting in &mut now.sightings {
            if !sighting.has_second_name() || self.is_elsewhere(&sighting.path) {
                continue;
            }
            match second_names::part(&sighting.path) {
                Ok(false) => continue,
                Ok(true) => self.findings.push(Finding::parted(&sighting.path)),
                Err(error) => {
                    let why = format!(
                        "has a second name (a hard link), by which it can be written, and cannot be made a file of its own: {error}"
                    );
                    self.findings.push(Finding::noted(&sighting.path, why));
                    continue;
                }
            }
            let Some(parted) = Sighting::at(&sighting.path, sighting.role) else {
                continue;
            };
            if let Some(held) = self.held.iter_mut().find(|held| held.is_same(sighting)) {
                *held = parted.clone();
                if parted.role == Role::GitConfig {
                    self.judge(&parted);
                }
            }
            *sighting = parted;
        }
    }

    /// What becomes of a name that has appeared or is another file than it was.
    fn fate(&self, sighting: &Sighting, jail: Option<&Jail>) -> Fate {
        let known = self.was_known(&sighting.path);
        let into_copy = || {
            repository::pointed_to(&sighting.path)
                .is_some_and(|target| self.copied.iter().any(|copied| target.starts_with(copied)))
        };
        let sound_pointer = || {
            sighting.kind == Kind::File
                && matches!(
                    repository::follow(&sighting.path, &self.search.workspace),
                    repository::Pointer::Inside(_)
                )
        };
        let awaited = || self.start.awaited.contains(&sighting.path);
        let unfinished = || jail.is_some() && is_unfinished(sighting);
        match (sighting.role, known) {
            (Role::Way | Role::Target | Role::ForeignWorktree | Role::Shut, true)
            | (Role::GitConfig, _) => Fate::Close,
            (Role::Target, false) if awaited() => {
                Fate::Move("appeared during the run where a protected link leads to")
            }
            (Role::Way | Role::Target | Role::ForeignWorktree | Role::Shut, false) => Fate::Leave,
            (Role::GitHooks, _) if sighting.kind == Kind::Folder => Fate::Close,
            (Role::Pointer, true) if sound_pointer() => Fate::Close,
            (Role::Pointer, false) if unfinished() || into_copy() || sound_pointer() => Fate::Leave,
            (_, true) => Fate::Move("was replaced during the run, and sjail cannot tell by whom"),
            (_, false) => Fate::Move("appeared during the run and could run code on the host"),
        }
    }

    /// Judges git's own files that are closed now.
    fn judge_closed(&mut self, sighting: &Sighting) {
        self.judge(sighting);
        if self.was_known(&sighting.path) && sighting.role != Role::Way {
            self.findings.push(Finding::held_again(&sighting.path));
        }
    }

    fn judge(&mut self, sighting: &Sighting) {
        let mut findings = Vec::new();
        let judged = match sighting.role {
            Role::GitConfig => {
                let host = self.host_text(&sighting.path);
                let judged = self.court().config(&sighting.path, &host, &mut findings);
                judged.map(|good| self.remember(&sighting.path, good))
            }
            Role::GitHooks => self.court().hooks(&sighting.path, &mut findings),
            _ => Ok(()),
        };
        self.admit(judged);
        self.findings.extend(findings);
    }

    /// A file of a working tree that git itself has made in this repository.
    fn is_sound_worktree(&self, path: &Path) -> bool {
        let Some(admin) = path.parent() else {
            return false;
        };
        let in_worktrees = admin.parent().and_then(Path::file_name) == Some("worktrees".as_ref());
        in_worktrees && repository::shares_its_own(admin)
    }

    /// Judges a folder of git that the command has made.
    fn judge_made(&mut self, git_dir: &Path, now: &Inventory, jail: Option<&Jail>) {
        let mut findings = Vec::new();
        for sighting in &now.sightings {
            if !sighting.path.starts_with(git_dir) {
                continue;
            }
            let judged = match sighting.role {
                Role::GitConfig => {
                    let judged = self.court().config(&sighting.path, b"", &mut findings);
                    judged.map(drop)
                }
                Role::GitHooks => self.court().hooks(&sighting.path, &mut findings),
                Role::GitOther
                    if sighting.path.file_name() == Some("commondir".as_ref())
                        && !(jail.is_some() && is_unfinished(sighting))
                        && !self.is_sound_worktree(&sighting.path) =>
                {
                    self.take(&sighting.path, "would point git at another repository");
                    Ok(())
                }
                _ => Ok(()),
            };
            self.admit(judged);
        }
        self.findings.extend(findings);
    }

    /// The folders that were searched at the start, for repositories made since. A folder
    /// whose change time lies before the start has no new names in it.
    pub(super) fn sweep(&mut self) {
        let Some(record_time) = self.start.time else {
            return;
        };
        let mut now = Inventory::default();
        for (folder, _) in self.start.searched.clone() {
            if !record_time.may_have_changed(&folder) {
                continue;
            }
            for child in self.search.children(&folder) {
                if !self.seen.contains(&child) {
                    self.explore(&child, &mut now);
                }
            }
            if !self.tops.contains(&folder) {
                now.absorb(self.search.repository_at(&folder));
            }
        }
        for folder in self.fresh.clone() {
            now.absorb(self.search.repository_at(&folder));
        }
        if !now.sightings.is_empty() || !now.unread.is_empty() {
            self.settle(now, None);
        }
        // Some of what is new was seen once and not watched: everything is looked at again.
        if self.crowded {
            let now = self.search.run_opening();
            self.settle(now, None);
        }
    }

    fn end_open(&mut self, jail: &Jail, open: &[Sighting], errno: Errno) {
        let names: Vec<String> = open
            .iter()
            .map(|s| show::name(&s.path).to_string())
            .collect();
        let why = format!(
            "{} changed on the host during the run and could not be closed to the jail again: {}",
            names.join(", "),
            errno.desc()
        );
        self.end(jail, &why);
    }

    fn end(&mut self, jail: &Jail, why: &str) {
        if self.ended.is_none() {
            self.ended = Some(why.to_owned());
            let _ = pidfd::send_signal(jail.pidfd.as_fd(), libc::SIGKILL);
            // What is judged afterwards must not be written any more: pid 1 is gone when
            // every other process of the jail is.
            let mut gone = [PollFd::new(jail.pidfd.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut gone, PollTimeout::from(10_000_u16));
        }
    }
}

/// Git makes a file that points somewhere empty, and writes its one line then. Until the
/// line has its end it is too early to judge; when the run is over it is not.
fn is_unfinished(sighting: &Sighting) -> bool {
    sighting.kind == Kind::File
        && repository::small(&sighting.path).is_some_and(|text| !text.ends_with(b"\n"))
}

/// What becomes of a changed name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is no danger, or is judged by other means.
    Leave,
    /// It is mounted on itself and judged.
    Close,
    /// It goes to quarantine, for this reason.
    Move(&'static str),
}
