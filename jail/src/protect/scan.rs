//! Finding protected names: in the workspace's top, in the folders from there to the
//! working folder, and in the repositories that lie up to a stated depth below.
//!
//! The tree is not walked: only folders are read, breadth first, to that depth and up
//! to [`MAX_FOLDERS`]; those that hold built or downloaded things are skipped.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{fstatat, lstat};

use super::inventory::{GitDir, Inventory, Moment, Role, Sighting, Watched};
use super::names::{Names, part_fits, starting_with};
use super::repository::{self, Pointer};
use crate::sys::directory::{self, Kind};
use crate::sys::file::{NO_LINKS, openat2};

/// How many folders are read at most while repositories are looked for.
pub const MAX_FOLDERS: usize = 400;

/// How many names can be held in one jail. Each costs a mount or two.
pub const MAX_NAMES: usize = 2000;

/// Folders that are not searched for repositories: what is in them was built or
/// downloaded, is large, and is not where people work.
const SKIPPED: [&[u8]; 16] = [
    b".git",
    b"node_modules",
    b"target",
    b".venv",
    b"venv",
    b"__pycache__",
    b".cache",
    b".tox",
    b".nox",
    b".gradle",
    b".next",
    b".nuxt",
    b".mypy_cache",
    b".terraform",
    b"bower_components",
    b"site-packages",
];

/// What is looked for, and where.
#[derive(Debug, Clone)]
pub struct Search {
    /// The workspace's top folder, without links in its path.
    pub workspace: PathBuf,
    /// The working folder, inside the workspace or not.
    pub cwd: PathBuf,
    /// What is protected.
    pub names: Names,
    /// How deep repositories are looked for.
    pub depth: u8,
}

impl Search {
    /// Looks at everything.
    pub fn run(&self) -> Inventory {
        let mut look = Look::new(self);
        look.inventory.time = Some(Moment::now());
        look.top(&self.workspace, 0);
        let mut next = 0;
        while let Some((folder, depth)) = look.queue.get(next).cloned() {
            next += 1;
            if look.inventory.searched.len() >= MAX_FOLDERS {
                let note = format!(
                    "repositories were looked for in the first {MAX_FOLDERS} folders of {} only",
                    self.workspace.display()
                );
                look.inventory.notes.push(note);
                break;
            }
            look.search(&folder, depth);
        }
        look.way_to_cwd();
        look.watch_parents();
        look.inventory
    }

    /// Looks again at these tops and folders of git, without searching for more.
    /// Folders of git in `except`, and what is in them, are left out.
    pub fn again(&self, tops: &[PathBuf], git_dirs: &[PathBuf], except: &[PathBuf]) -> Inventory {
        let mut look = Look::new(self);
        look.except = except.to_vec();
        for top in tops {
            let depth = self.depth_of(top);
            look.top(top, depth);
        }
        for git_dir in git_dirs {
            look.git_dir(git_dir);
        }
        look.inventory
    }

    /// How many folders below the workspace this one is.
    fn depth_of(&self, folder: &Path) -> u8 {
        let depth = folder
            .strip_prefix(&self.workspace)
            .map_or(0, |below| below.components().count());
        u8::try_from(depth).unwrap_or(u8::MAX)
    }

    /// The folders in a folder that are searched for repositories.
    pub fn children(&self, folder: &Path) -> Vec<PathBuf> {
        let mut look = Look::new(self);
        if let Some(listing) = look.list(folder) {
            let depth = self.depth_of(folder);
            for (name, kind) in &listing.names {
                let entry = name.to_bytes();
                look.child(folder.join(OsStr::from_bytes(entry)), entry, *kind, depth);
            }
        }
        look.inventory.children
    }

    /// The repository whose top a folder is, if it is one: git's own files in it.
    pub fn repository_at(&self, folder: &Path) -> Inventory {
        let mut look = Look::new(self);
        if let Some(listing) = look.list(folder) {
            look.repository(folder, &listing);
        }
        look.inventory.repositories_only()
    }

    /// Opens a folder to be watched.
    pub fn place(&self, folder: &Path) -> Option<Watched> {
        let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        Some(Watched {
            path: folder.to_owned(),
            fd: openat2(None, &path, flags, 0, NO_LINKS).ok()?,
        })
    }

    /// Looks at one folder that is new, and below it as deep as is left.
    pub fn below(&self, folder: &Path) -> Inventory {
        let depth = self.depth_of(folder);
        let mut look = Look::new(self);
        look.queue.push((folder.to_owned(), depth));
        let mut next = 0;
        while let Some((folder, depth)) = look.queue.get(next).cloned() {
            next += 1;
            if depth > self.depth || look.inventory.searched.len() >= MAX_FOLDERS {
                break;
            }
            look.search(&folder, depth);
        }
        look.inventory
    }
}

/// A look in progress.
struct Look<'a> {
    search: &'a Search,
    inventory: Inventory,
    queue: Vec<(PathBuf, u8)>,
    except: Vec<PathBuf>,
    buffer: Vec<u8>,
    /// Where each sighting stands in the list: a hostile workspace has many.
    index: HashMap<PathBuf, usize>,
    placed: HashSet<PathBuf>,
    git_dirs: HashSet<PathBuf>,
}

/// What a folder holds that matters here.
struct Listing {
    fd: OwnedFd,
    names: Vec<(CString, Kind)>,
}

impl<'a> Look<'a> {
    fn new(search: &'a Search) -> Look<'a> {
        Look {
            search,
            inventory: Inventory::default(),
            queue: Vec::new(),
            except: Vec::new(),
            buffer: vec![0; 16 * 1024],
            index: HashMap::new(),
            placed: HashSet::new(),
            git_dirs: HashSet::new(),
        }
    }

    fn watch(&mut self, place: Watched) {
        self.placed.insert(place.path.clone());
        self.inventory.places.push(place);
    }

    /// A top folder: its plain names, its repository, and what is to be searched below.
    fn top(&mut self, path: &Path, depth: u8) {
        if self.placed.contains(path) {
            return;
        }
        let Some(listing) = self.list(path) else {
            return;
        };
        for (name, kind) in &listing.names {
            let entry = name.to_bytes();
            let at = path.join(OsStr::from_bytes(entry));
            for name in starting_with(&self.search.names.plain, entry) {
                self.name(&at, *kind, name.0.get(1..).unwrap_or_default(), Role::Plain);
            }
            self.child(at, entry, *kind, depth);
        }
        self.repository(path, &listing);
        self.inventory.tops.push(path.to_owned());
        self.watch(Watched {
            path: path.to_owned(),
            fd: listing.fd,
        });
    }

    /// A folder in which a repository may lie, or which may be one.
    fn search(&mut self, path: &Path, depth: u8) {
        // At the last level only two names matter, and asking for them is cheaper than
        // reading the folder.
        if depth >= self.search.depth {
            self.inventory.searched.push((path.to_owned(), depth));
            let has = |name: &str| lstat(&path.join(name)).is_ok();
            if has(".git") || has("HEAD") && has("objects") && has("refs") {
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
        for (name, kind) in &listing.names {
            let entry = name.to_bytes();
            self.child(path.join(OsStr::from_bytes(entry)), entry, *kind, depth);
        }
    }

    fn child(&mut self, at: PathBuf, entry: &[u8], kind: Kind, depth: u8) {
        if kind == Kind::Folder && depth < self.search.depth && !SKIPPED.contains(&entry) {
            self.inventory.children.push(at.clone());
            self.queue.push((at, depth + 1));
        }
    }

    /// The folders between the workspace and the working folder, which are tops as well:
    /// whoever works there starts editors and agents there.
    fn way_to_cwd(&mut self) {
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
    fn watch_parents(&mut self) {
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

    /// The repository whose top this is, if it is one.
    fn repository(&mut self, top: &Path, listing: &Listing) {
        if listing.is_bare() {
            self.git_dir(top);
            return;
        }
        let dot_git = top.join(".git");
        match listing.kind(b".git") {
            None => {}
            Some(Kind::Folder) => self.git_dir(&dot_git),
            Some(Kind::Link) => {
                self.see(&dot_git, Role::Pointer);
                if let Ok(target) = std::fs::canonicalize(&dot_git)
                    && target.starts_with(&self.search.workspace)
                {
                    self.git_dir(&target);
                }
            }
            Some(Kind::File | Kind::Other) => {
                self.see(&dot_git, Role::Pointer);
                match repository::follow(&dot_git, &self.search.workspace) {
                    Pointer::Inside(git_dir) => self.git_dir(&git_dir),
                    Pointer::Outside(git_dir) => {
                        self.inventory.grants.push(git_dir.clone());
                        self.git_dir(&git_dir);
                    }
                    // Elsewhere a stale pointer is nobody's concern today.
                    Pointer::Refused(why) if top == self.search.workspace => {
                        self.inventory.notes.push(why);
                    }
                    Pointer::Refused(_) => {}
                }
            }
        }
    }

    /// A folder of git.
    fn git_dir(&mut self, path: &Path) {
        let known = self.git_dirs.contains(path);
        if known || self.except.iter().any(|except| path.starts_with(except)) {
            return;
        }
        let Some(listing) = self.list(path) else {
            return;
        };
        self.git_dirs.insert(path.to_owned());
        self.inventory.git_dirs.push(GitDir {
            path: path.to_owned(),
        });
        self.way_to(path);
        for (entry, kind) in &listing.names {
            let entry = entry.to_bytes();
            let at = path.join(OsStr::from_bytes(entry));
            for name in starting_with(&self.search.names.git, entry) {
                let role = match entry {
                    b"config" | b"config.worktree" => Role::GitConfig,
                    b"hooks" => Role::GitHooks,
                    _ => Role::GitOther,
                };
                self.name(&at, *kind, name.0.get(1..).unwrap_or_default(), role);
            }
            match (entry, kind) {
                (b"config", Kind::File) => self.configured(&at, path),
                (b"modules", Kind::Folder) => self.modules(&at, 0),
                (b"worktrees", Kind::Folder) => self.worktrees(&at),
                _ => {}
            }
        }
        self.watch(Watched {
            path: path.to_owned(),
            fd: listing.fd,
        });
    }

    /// Files in the workspace that git's configuration makes it obey: the folder of
    /// hooks and included configuration.
    fn configured(&mut self, config: &Path, git_dir: &Path) {
        for (path, role) in repository::obeyed(config, git_dir) {
            if path.starts_with(&self.search.workspace) && lstat(&path).is_ok() {
                self.see(&path, role);
            }
        }
    }

    /// Submodules' own folders; a submodule's name may have slashes in it.
    fn modules(&mut self, path: &Path, depth: u8) {
        let Some(listing) = self.list(path) else {
            return;
        };
        self.way_to(path);
        for (name, kind) in &listing.names {
            let at = path.join(OsStr::from_bytes(name.to_bytes()));
            if *kind != Kind::Folder {
                continue;
            }
            if lstat(&at.join("HEAD")).is_ok() {
                self.git_dir(&at);
            } else if depth < 4 {
                self.modules(&at, depth + 1);
            }
        }
        self.watch(Watched {
            path: path.to_owned(),
            fd: listing.fd,
        });
    }

    /// What git keeps of further working trees. Those elsewhere are none of the jail's
    /// business: its own git must not even prune them because it does not see them.
    fn worktrees(&mut self, path: &Path) {
        let Some(listing) = self.list(path) else {
            return;
        };
        self.way_to(path);
        for (name, kind) in &listing.names {
            let at = path.join(OsStr::from_bytes(name.to_bytes()));
            if *kind != Kind::Folder {
                continue;
            }
            match repository::worktree_of(&at) {
                Some(tree) if tree.starts_with(&self.search.workspace) => {
                    let Some(inside) = self.list(&at) else {
                        continue;
                    };
                    self.way_to(&at);
                    for (entry, kind) in &inside.names {
                        let entry = entry.to_bytes();
                        let file = at.join(OsStr::from_bytes(entry));
                        for name in starting_with(&self.search.names.worktree, entry) {
                            let role = match entry {
                                b"config.worktree" | b"config" => Role::GitConfig,
                                b"hooks" => Role::GitHooks,
                                _ => Role::GitOther,
                            };
                            self.name(&file, *kind, name.0.get(1..).unwrap_or_default(), role);
                        }
                    }
                    self.watch(Watched {
                        path: at,
                        fd: inside.fd,
                    });
                }
                _ => self.see(&at, Role::ForeignWorktree),
            }
        }
        self.watch(Watched {
            path: path.to_owned(),
            fd: listing.fd,
        });
    }

    /// A name whose first part is at `at`: the whole of it, or what is left of it below.
    fn name(&mut self, at: &Path, kind: Kind, rest: &[Vec<u8>], role: Role) {
        let Some((part, rest)) = rest.split_first() else {
            self.see(at, role);
            return;
        };
        match kind {
            Kind::Folder => {
                let Some(listing) = self.list(at) else {
                    return;
                };
                for (entry, kind) in &listing.names {
                    if part_fits(part, entry.to_bytes()) {
                        let below = at.join(OsStr::from_bytes(entry.to_bytes()));
                        self.name(&below, *kind, rest, role);
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
    fn see(&mut self, path: &Path, role: Role) {
        let Some(sighting) = Sighting::at(path, role) else {
            return;
        };
        if let Some(parent) = path.parent() {
            self.way_to(parent);
        }
        let kind = sighting.kind;
        self.add(sighting);
        if kind == Kind::Link
            && let Ok(target) = std::fs::canonicalize(path)
            && target.starts_with(&self.search.workspace)
            && target != self.search.workspace
        {
            self.see(&target, Role::Target);
        }
    }

    /// Folders between the workspace (or a granted folder) and a name, the last included.
    fn way_to(&mut self, folder: &Path) {
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

    fn list(&mut self, path: &Path) -> Option<Listing> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let fd = openat2(None, &path, flags, 0, NO_LINKS).ok()?;
        let mut names = Vec::new();
        loop {
            let entries = directory::read(fd.as_fd(), &mut self.buffer).ok()?;
            if entries.is_end() {
                return Some(Listing { fd, names });
            }
            for (name, kind) in entries {
                let kind = known(&fd, name, kind);
                names.push((name.to_owned(), kind));
            }
        }
    }
}

/// Some file systems do not say what a name is.
fn known(folder: &OwnedFd, name: &CStr, kind: Kind) -> Kind {
    if kind != Kind::Other {
        return kind;
    }
    match fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => match stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR => Kind::Folder,
            libc::S_IFREG => Kind::File,
            libc::S_IFLNK => Kind::Link,
            _ => Kind::Other,
        },
        Err(Errno::ENOENT) | Err(_) => Kind::Other,
    }
}

impl Listing {
    fn kind(&self, wanted: &[u8]) -> Option<Kind> {
        self.names
            .iter()
            .find(|(name, _)| name.to_bytes().eq_ignore_ascii_case(wanted))
            .map(|(_, kind)| *kind)
    }

    fn has(&self, wanted: &[u8]) -> bool {
        self.kind(wanted).is_some()
    }

    /// Git takes a folder with these three for a repository of its own.
    fn is_bare(&self) -> bool {
        self.has(b"HEAD") && self.has(b"objects") && self.has(b"refs")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use sjail_policy::bytes::ByteString;
    use std::fs;
    use std::process::Command;

    fn search(workspace: &Path) -> Search {
        let list: Vec<ByteString> = sjail_policy::protect::names()
            .iter()
            .map(|entry| ByteString::from(entry.value))
            .collect();
        Search {
            workspace: workspace.to_owned(),
            cwd: workspace.to_owned(),
            names: Names::new(&list),
            depth: 3,
        }
    }

    fn git(folder: &Path, words: &[&str]) {
        let done = Command::new("git")
            .args([
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@t",
                "-c",
                "protocol.file.allow=always",
            ])
            .args(words)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }

    fn scratch() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = fs::canonicalize(folder.path()).unwrap();
        (folder, path)
    }

    fn shown(inventory: &Inventory, base: &Path) -> Vec<String> {
        inventory
            .mounted()
            .iter()
            .map(|s| {
                format!(
                    "{:?} {}",
                    s.role,
                    s.path.strip_prefix(base).unwrap().display()
                )
            })
            .collect()
    }

    #[test]
    fn names_ways_and_repositories() {
        let (_keep, base) = scratch();
        git(&base, &["init", "-q", "."]);
        fs::create_dir_all(base.join(".VSCode/x")).unwrap();
        fs::write(base.join(".envrc"), "").unwrap();
        fs::create_dir_all(base.join("a/b")).unwrap();
        git(&base.join("a/b"), &["init", "-q", "."]);
        git(&base, &["init", "-q", "--bare", "bare.git"]);
        fs::create_dir_all(base.join("node_modules/x")).unwrap();
        git(&base.join("node_modules/x"), &["init", "-q", "."]);
        git(&base, &["config", "core.hooksPath", "tools/hooks"]);
        git(&base, &["config", "include.path", "../shared.conf"]);
        fs::create_dir_all(base.join("tools/hooks")).unwrap();
        fs::write(base.join("shared.conf"), "").unwrap();
        let mut found = shown(&search(&base).run(), &base);
        found.sort();
        let mut wanted = vec![
            "GitConfig .git/config",
            "GitConfig a/b/.git/config",
            "GitConfig bare.git/config",
            "GitHooks .git/hooks",
            "GitHooks a/b/.git/hooks",
            "GitHooks bare.git/hooks",
            "GitHooks tools/hooks",
            "Plain .VSCode",
            "Plain .envrc",
            "Plain shared.conf",
            "Way .git",
            "Way a",
            "Way a/b",
            "Way a/b/.git",
            "Way bare.git",
            "Way tools",
        ];
        wanted.sort();
        assert_eq!(found, wanted);
    }

    #[test]
    fn working_trees_are_believed_both_ways_only() {
        let (_keep, base) = scratch();
        let main = base.join("main");
        fs::create_dir(&main).unwrap();
        git(&main, &["init", "-q", "."]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(&main, &["worktree", "add", "-q", "../tree", "-b", "t"]);
        git(&main, &["worktree", "add", "-q", "../other", "-b", "o"]);
        let inventory = search(&base.join("tree")).run();
        assert_eq!(inventory.grants, [main.join(".git")]);
        let found = shown(&inventory, &base);
        for wanted in [
            "Pointer tree/.git",
            "GitConfig main/.git/config",
            "GitHooks main/.git/hooks",
            "ForeignWorktree main/.git/worktrees/other",
            "GitOther main/.git/worktrees/tree/commondir",
            "GitOther main/.git/worktrees/tree/gitdir",
        ] {
            assert!(found.contains(&wanted.to_owned()), "{wanted}: {found:#?}");
        }
        // A planted pointer to another's working tree, or to any folder.
        for target in ["main/.git/worktrees/other", "main/.git", "main"] {
            let text = format!("gitdir: {}\n", base.join(target).display());
            fs::write(base.join("tree/.git"), text).unwrap();
            let inventory = search(&base.join("tree")).run();
            assert!(inventory.grants.is_empty(), "{target}");
            assert_eq!(inventory.notes.len(), 1);
        }
    }

    #[test]
    fn submodules_inside_and_as_a_workspace() {
        let (_keep, base) = scratch();
        for name in ["lib", "app"] {
            fs::create_dir(base.join(name)).unwrap();
            git(&base.join(name), &["init", "-q", "."]);
            git(
                &base.join(name),
                &["commit", "-q", "--allow-empty", "-m", "x"],
            );
        }
        git(
            &base.join("app"),
            &["submodule", "add", "-q", "../lib", "deps/lib"],
        );
        let inventory = search(&base.join("app")).run();
        let found = shown(&inventory, &base);
        for wanted in [
            "Pointer app/deps/lib/.git",
            "GitConfig app/.git/modules/deps/lib/config",
            "GitHooks app/.git/modules/deps/lib/hooks",
            "Way app/.git/modules/deps/lib",
        ] {
            assert!(found.contains(&wanted.to_owned()), "{wanted}: {found:#?}");
        }
        let inventory = search(&base.join("app/deps/lib")).run();
        assert_eq!(inventory.grants, [base.join("app/.git/modules/deps/lib")]);
    }

    #[test]
    fn links_are_seen_with_what_they_lead_to() {
        let (_keep, base) = scratch();
        fs::create_dir_all(base.join("dot/vs")).unwrap();
        std::os::unix::fs::symlink("dot/vs", base.join(".vscode")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", base.join(".envrc")).unwrap();
        let mut found = shown(&search(&base).run(), &base);
        found.sort();
        assert_eq!(
            found,
            ["Plain .envrc", "Plain .vscode", "Target dot/vs", "Way dot"]
        );
    }

    /// Not a check: prints what a look costs. `cargo test --release -- --ignored --nocapture look_costs`
    #[test]
    #[ignore = "prints figures"]
    fn look_costs() {
        let (_keep, base) = scratch();
        let empty = base.join("empty");
        let repository = base.join("repository");
        fs::create_dir(&empty).unwrap();
        fs::create_dir(&repository).unwrap();
        git(&repository, &["init", "-q", "."]);
        for n in 0..8 {
            for m in 0..5 {
                fs::create_dir_all(repository.join(format!("d{n}/e{m}/f"))).unwrap();
            }
        }
        for path in [
            empty,
            repository,
            std::env::current_dir().unwrap().join(".."),
        ] {
            let path = fs::canonicalize(path).unwrap();
            let search = search(&path);
            let mut best = u128::MAX;
            let mut folders = 0;
            for _ in 0..200 {
                let start = std::time::Instant::now();
                let inventory = search.run();
                best = best.min(start.elapsed().as_nanos());
                folders = inventory.searched.len();
            }
            println!("{}: {} µs, {folders} folders", path.display(), best / 1000);
        }
    }
}
