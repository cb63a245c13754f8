//! A look in progress: what has been found so far, and the folders that are still to be
//! read.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::lstat;
use nix::unistd::geteuid;
use sjail_policy::protect::NOT_SEARCHED;
use sjail_policy::show;

use super::Search;
use super::leaves::Leaves;
use super::listing::{self, Listing};
use crate::protect::gitlinks::Unread;
use crate::protect::inventory::{Inventory, Role, Sighting, Watched};
use crate::protect::names::{first_part, part_fits, starting_with};
use crate::protect::{reach, repository};
use crate::sys::directory::Kind;

/// A look in progress.
pub(super) struct Look<'a> {
    pub(super) search: &'a Search,
    pub(super) inventory: Inventory,
    pub(super) queue: Vec<(PathBuf, u8)>,
    pub(super) except: Vec<PathBuf>,
    pub(super) on_shut: OnShut,
    buffer: Vec<u8>,
    pub(super) leaves: Leaves,
    /// Where each sighting stands in the list: a hostile workspace has many.
    index: HashMap<PathBuf, usize>,
    placed: HashSet<PathBuf>,
    pub(super) git_dirs: HashSet<PathBuf>,
    /// Folders that an index calls repositories, still to be looked at.
    pub(super) linked: Vec<PathBuf>,
    /// Folders of which an index does not say what it names in them, each with that index.
    pub(super) sparse: Vec<(PathBuf, PathBuf)>,
    searched_whole: HashSet<PathBuf>,
    read_for_all: usize,
    /// The configuration that git obeys in every repository, once it was asked for.
    everywhere: Option<Vec<PathBuf>>,
}

/// What becomes of a folder that cannot be looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnShut {
    /// Before a run: the command must not open it, either.
    Close,
    /// Later: the command may have closed it.
    Open,
}

impl<'a> Look<'a> {
    pub(super) fn new(search: &'a Search) -> Look<'a> {
        Look {
            search,
            inventory: Inventory::default(),
            queue: Vec::new(),
            except: Vec::new(),
            on_shut: OnShut::Open,
            buffer: vec![0; 16 * 1024],
            leaves: Leaves::of(&search.workspace),
            index: HashMap::new(),
            placed: HashSet::new(),
            git_dirs: HashSet::new(),
            linked: Vec::new(),
            sparse: Vec::new(),
            searched_whole: HashSet::new(),
            read_for_all: 0,
            everywhere: None,
        }
    }

    pub(super) fn everywhere(&mut self) -> Vec<PathBuf> {
        let known = self.everywhere.get_or_insert_with(repository::everywhere);
        known.clone()
    }

    pub(super) fn watch(&mut self, place: Watched) {
        self.placed.insert(place.path.clone());
        self.inventory.places.push(place);
    }

    /// A top folder: its plain names, its repository, and what is to be searched below.
    pub(super) fn top(&mut self, path: &Path, depth: u8) {
        if self.placed.contains(path) {
            return;
        }
        let Some(listing) = self.list(path) else {
            return;
        };
        for (entry, kind) in listing.names() {
            for name in starting_with(&self.search.names.plain, entry) {
                let at = path.join(OsStr::from_bytes(entry));
                self.name(&at, kind, name.split().1, Role::Plain);
            }
            self.child(path, entry, kind, depth);
        }
        self.repository(path, &listing);
        self.inventory.tops.push(path.to_owned());
        self.watch(Watched {
            path: path.to_owned(),
            fd: listing.fd,
        });
    }

    /// A folder in which a repository may lie, or which may be one.
    pub(super) fn search(&mut self, path: &Path, depth: u8) {
        // At the last level, and where there is nothing below, only two names matter, and
        // asking for them is cheaper than reading the folder.
        if depth >= self.search.depth || self.leaves.is_leaf(path) {
            self.inventory.searched.push((path.to_owned(), depth));
            let has = |name: &str| !matches!(lstat(&path.join(name)), Err(Errno::ENOENT));
            let bare = || has("objects") && has("refs") || has("commondir");
            if has(".git") || has("HEAD") && bare() {
                self.top(path, depth);
            }
            return;
        }
        let Some(listing) = self.list(path) else {
            return;
        };
        self.inventory.searched.push((path.to_owned(), depth));
        if listing.has(b".git") || listing.is_bare() {
            self.top(path, depth);
            return;
        }
        for (entry, kind) in listing.names() {
            self.child(path, entry, kind, depth);
        }
    }

    /// The folders that git goes into from above, however deep they lie.
    pub(super) fn follow_gitlinks(&mut self) {
        loop {
            while let Some(folder) = self.linked.pop() {
                self.follow_gitlink(&folder);
            }
            let Some((folder, index)) = self.sparse.pop() else {
                return;
            };
            self.search_all(folder, index);
        }
    }

    fn follow_gitlink(&mut self, folder: &Path) {
        if self.placed.contains(folder) || !folder.starts_with(&self.search.workspace) {
            return;
        }
        match lstat(&folder.join(".git")) {
            Err(Errno::ENOENT) => {
                // Nothing for git to obey yet.
                self.inventory.awaited.push(folder.join(".git"));
                self.watch_above(folder);
            }
            _ => self.top(folder, self.search.depth),
        }
    }

    /// A folder in which any other may be a repository that git goes into. Where an index leaves
    /// a folder out, git does, too: mostly there is none.
    fn search_all(&mut self, folder: PathBuf, index: PathBuf) {
        if !self.searched_whole.insert(folder.clone()) {
            return;
        }
        // It can be made, and filled, when nobody looks.
        self.inventory.is_unwatched = true;
        let mut folders = vec![folder];
        while let Some(folder) = folders.pop() {
            self.read_for_all += 1;
            if self.read_for_all > super::MAX_SPARSE {
                self.inventory.unread.push((index, Unread::TooMuch));
                return;
            }
            let Some(listing) = self.list(&folder) else {
                continue;
            };
            if listing.has(b".git") {
                self.top(&folder, self.search.depth);
            }
            let below = listing
                .names()
                .filter(|(name, kind)| *kind == Kind::Folder && *name != b".git");
            folders.extend(below.map(|(name, _)| folder.join(OsStr::from_bytes(name))));
        }
    }

    /// A name in a folder that is searched: if it is a folder, it is searched as well.
    pub(super) fn child(&mut self, folder: &Path, entry: &[u8], kind: Kind, depth: u8) {
        if kind == Kind::Folder && depth < self.search.depth && !is_skipped(entry) {
            let at = folder.join(OsStr::from_bytes(entry));
            self.inventory.children.push(at.clone());
            self.queue.push((at, depth + 1));
        }
    }

    /// The folders between the workspace and the working folder, which are tops as well:
    /// whoever works there starts editors and agents there.
    pub(super) fn way_to_cwd(&mut self) {
        let Ok(below) = self.search.cwd.strip_prefix(&self.search.workspace) else {
            return;
        };
        let mut at = self.search.workspace.clone();
        for part in below.components().take(16) {
            at.push(part);
            self.top(&at, self.search.depth);
        }
    }

    /// A name that is replaced is noticed by the folder it is in.
    pub(super) fn watch_parents(&mut self) {
        let parents: Vec<PathBuf> = self
            .inventory
            .sightings
            .iter()
            .filter_map(|sighting| sighting.path.parent())
            .filter(|parent| !self.placed.contains(*parent))
            .map(Path::to_owned)
            .collect();
        for parent in parents {
            if !self.placed.contains(&parent)
                && let Some(place) = self.search.place(&parent)
            {
                self.watch(place);
            }
        }
    }

    /// A name whose first part is at `at`: the whole of it, or what is left of it below.
    pub(super) fn name(&mut self, at: &Path, kind: Kind, rest: &[u8], role: Role) {
        if rest.is_empty() {
            self.see(at, role);
            return;
        }
        let (part, rest) = first_part(rest);
        match kind {
            Kind::Folder => {
                let only = match is_objects(at, role) && part == b"info" {
                    true => listing::only(at, part).ok(),
                    false => None,
                };
                let Some(listing) = only.or_else(|| self.list(at)) else {
                    return;
                };
                for (entry, kind) in listing.names() {
                    if part_fits(part, entry) {
                        self.name(&at.join(OsStr::from_bytes(entry)), kind, rest, role);
                    }
                }
                if !self.placed.contains(at) {
                    self.watch(Watched {
                        path: at.to_owned(),
                        fd: listing.fd,
                    });
                }
            }
            // A link where a folder should be could be turned elsewhere.
            Kind::Link => self.see(at, role),
            Kind::File | Kind::Other => {}
        }
    }

    /// Notes a name that exists, the folders on the way to it, and where a link leads.
    pub(super) fn see(&mut self, path: &Path, role: Role) {
        let Some(sighting) = Sighting::at(path, role) else {
            return;
        };
        if let Some(parent) = path.parent() {
            self.way_to(parent);
        }
        let kind = sighting.kind;
        self.add(sighting);
        if kind != Kind::Link {
            return;
        }
        match std::fs::canonicalize(path) {
            Ok(target) if target == self.search.workspace => {}
            Ok(target) => self.led_to(&target, Role::Target),
            // Nothing is there yet.
            Err(_) => {
                if let Some(target) = repository::end_of_links(path) {
                    self.led_to(&target, Role::Target);
                }
            }
        }
    }

    /// A path that something protected leads to: seen, or awaited where it would appear.
    pub(super) fn led_to(&mut self, path: &Path, role: Role) {
        let Ok(below) = path.strip_prefix(&self.search.workspace) else {
            return;
        };
        // A link on the way is what leads there: it must not be made or turned elsewhere.
        let mut way = self.search.workspace.clone();
        for part in below.parent().unwrap_or(Path::new("")) {
            way.push(part);
            if std::fs::symlink_metadata(&way).is_ok_and(|there| there.is_symlink()) {
                self.see(&way, Role::Plain);
                if let Ok(real) = std::fs::canonicalize(path) {
                    self.led_to(&real, role);
                }
                return;
            }
        }
        if lstat(path).is_ok() {
            self.see(path, role);
            return;
        }
        self.inventory.awaited.push(path.to_owned());
        self.watch_above(path.parent().unwrap_or(path));
    }

    /// Watches a folder, or the first one above it that is there.
    fn watch_above(&mut self, folder: &Path) {
        let there = folder.ancestors().find(|above| lstat(*above).is_ok());
        if let Some(there) = there
            && !self.placed.contains(there)
            && let Some(place) = self.search.place(there)
        {
            self.watch(place);
        }
    }

    /// Folders between the workspace (or a granted folder) and a name, the last included.
    pub(super) fn way_to(&mut self, folder: &Path) {
        let workspace = self.search.workspace.clone();
        let grants = self.inventory.grants.iter();
        let base = grants
            .chain([&workspace])
            .find(|base| folder.starts_with(base))
            .cloned();
        let Some(base) = base else {
            return;
        };
        let missing: Vec<PathBuf> = folder
            .ancestors()
            .take_while(|ancestor| *ancestor != base)
            .filter(|ancestor| !self.index.contains_key(*ancestor))
            .map(Path::to_owned)
            .collect();
        for ancestor in missing.into_iter().rev() {
            if let Some(sighting) = Sighting::at(&ancestor, Role::Way) {
                self.add(sighting);
            }
        }
    }

    fn add(&mut self, sighting: Sighting) {
        let sightings = &mut self.inventory.sightings;
        let known = self.index.get(&sighting.path);
        match known.and_then(|at| sightings.get_mut(*at)) {
            Some(known) if known.role == Role::Way => known.role = sighting.role,
            Some(_) => {}
            None => {
                self.index.insert(sighting.path.clone(), sightings.len());
                sightings.push(sighting);
            }
        }
    }

    /// Reads a folder. One that keeps its own owner out is remembered or opened: the
    /// command could have closed it to hide what is in it.
    pub(super) fn list(&mut self, path: &Path) -> Option<Listing> {
        match listing::of(path, &mut self.buffer) {
            Err(Errno::EACCES) if !self.search.shut.contains(path) => match self.on_shut {
                OnShut::Close => {
                    self.inventory.shut.push(path.to_owned());
                    None
                }
                OnShut::Open => {
                    reach::folder(path).ok()?;
                    self.inventory.opened.push(path.to_owned());
                    listing::of(path, &mut self.buffer).ok()
                }
            },
            listing => listing.ok(),
        }
    }

    /// The command must not open what could not be looked into. A folder of somebody else's
    /// it cannot open anyway.
    pub(super) fn close_shut(&mut self) {
        let is_own =
            |path: &&PathBuf| lstat(*path).is_ok_and(|stat| stat.st_uid == geteuid().as_raw());
        let own: Vec<PathBuf> = self.inventory.shut.iter().filter(is_own).cloned().collect();
        for path in &own {
            if *path != self.search.workspace {
                self.see(path, Role::Shut);
                self.inventory.notes.push(format!(
                    "{} cannot be looked into, because its mode keeps its own owner out: the jail may not change it or what is in it",
                    show::name(path)
                ));
            }
        }
        self.inventory.shut = own;
    }
}

/// Whether git keeps its objects there: by their hashes, in hundreds of folders.
fn is_objects(folder: &Path, role: Role) -> bool {
    role == Role::GitOther && folder.file_name() == Some(OsStr::new("objects"))
}

/// Whether repositories are not searched for in a folder of this name.
fn is_skipped(name: &[u8]) -> bool {
    NOT_SEARCHED.iter().any(|own| own.as_bytes() == name)
}
