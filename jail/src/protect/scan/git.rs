//! What git obeys in a repository: its configuration, its hooks, the files that point
//! elsewhere, in its own folder and in those of submodules and working trees.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::sys::stat::lstat;

use super::listing::Listing;
use super::look::Look;
use crate::protect::gitlinks::{self, Unread};
use crate::protect::inventory::{GitDir, Role, Watched};
use crate::protect::names::starting_with;
use crate::protect::repository::{self, Pointer};
use crate::sys::directory::Kind;

impl Look<'_> {
    /// The repository whose top this is, if it is one.
    pub(super) fn repository(&mut self, top: &Path, listing: &Listing) {
        // Both can be: a command can make any folder look like a repository of its own.
        if listing.is_bare() {
            self.git_dir(top);
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
                if let Some(target) = repository::pointed_to(&dot_git)
                    && lstat(&target).is_err()
                {
                    self.led_to(&target, Role::Target);
                }
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
    pub(super) fn git_dir(&mut self, path: &Path) {
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
        for (entry, kind) in listing.names() {
            let at = path.join(OsStr::from_bytes(entry));
            for name in starting_with(&self.search.names.git, entry) {
                self.name(&at, kind, name.split().1, role(entry));
            }
            match (entry, kind) {
                (b"config" | b"config.worktree", Kind::File) => {
                    self.configured(&at, &repository::top_of(path));
                }
                (b"modules", Kind::Folder) => self.modules(&at),
                (b"worktrees", Kind::Folder) => self.worktrees(&at),
                _ => {}
            }
        }
        let top = repository::top_of(path);
        for config in self.everywhere() {
            self.configured(&config, &top);
        }
        let is_shared = listing.has(b"commondir");
        if listing.has(b"index") {
            self.gitlinks(path, &top);
        }
        self.watch(Watched {
            path: path.to_owned(),
            fd: listing.fd,
        });
        // There git finds its configuration and hooks, whatever else is in the folder.
        if is_shared
            && let Some(common) = repository::shared(path)
            && common.starts_with(&self.search.workspace)
        {
            self.git_dir(&common);
        }
    }

    /// The repositories that an index names, below the top of its working tree.
    fn gitlinks(&mut self, git_dir: &Path, top: &Path) {
        /// What the kernel takes, less what git has below the top of a repository.
        const LONGEST: usize = libc::PATH_MAX as usize - 512;
        let index = git_dir.join("index");
        match gitlinks::of(git_dir) {
            Ok(named) => {
                for link in named.links {
                    let link = top.join(link);
                    match link.as_os_str().len() <= LONGEST {
                        true => self.linked.push(link),
                        false => self.inventory.unread.push((index.clone(), Unread::TooLong)),
                    }
                }
                let folders = named.folders.into_iter().map(|folder| top.join(folder));
                self.sparse
                    .extend(folders.map(|folder| (folder, index.clone())));
            }
            Err(why) => self.inventory.unread.push((index.clone(), why)),
        }
        self.inventory.indexes.push(index);
    }

    /// Files in the workspace that git's configuration makes it obey: the folder of
    /// hooks and included configuration. `top` is where hooks run.
    fn configured(&mut self, config: &Path, top: &Path) {
        for (path, role) in repository::obeyed(config, top) {
            self.led_to(&path, role);
        }
    }

    /// Submodules' own folders. A submodule's name may have slashes in it, so that its folder
    /// can be anywhere below, in another's, too: only objects are passed over.
    fn modules(&mut self, path: &Path) {
        self.way_to(path);
        let mut folders = vec![(path.to_owned(), Within::Modules)];
        while let Some((folder, within)) = folders.pop() {
            if within == Within::Submodule && self.leaves.is_leaf(&folder) {
                continue;
            }
            let Some(listing) = self.list(&folder) else {
                continue;
            };
            for (name, kind) in listing.names() {
                let at = folder.join(OsStr::from_bytes(name));
                if kind != Kind::Folder || is_of_objects(&folder, name) {
                    continue;
                }
                let has_head = lstat(&at.join("HEAD")).is_ok();
                if has_head {
                    self.git_dir(&at);
                }
                folders.push(match has_head {
                    true => (at, Within::Submodule),
                    false => (at, within),
                });
            }
            match within {
                Within::Modules => self.watch(Watched {
                    path: folder,
                    fd: listing.fd,
                }),
                // Too many to be watched.
                Within::Submodule => self.inventory.is_unwatched = true,
            }
        }
    }

    /// What git keeps of further working trees. Those elsewhere are none of the jail's
    /// business: its own git must not even prune them because it does not see them.
    fn worktrees(&mut self, path: &Path) {
        let Some(listing) = self.list(path) else {
            return;
        };
        self.way_to(path);
        for (name, kind) in listing.names() {
            let at = path.join(OsStr::from_bytes(name));
            if kind != Kind::Folder {
                continue;
            }
            match repository::worktree_of(&at) {
                Some(tree) if tree.starts_with(&self.search.workspace) => {
                    let Some(inside) = self.list(&at) else {
                        continue;
                    };
                    self.way_to(&at);
                    let shared = path.with_file_name("config");
                    for config in [shared, at.join("config.worktree")] {
                        self.configured(&config, &tree);
                    }
                    for (entry, kind) in inside.names() {
                        let file = at.join(OsStr::from_bytes(entry));
                        for name in starting_with(&self.search.names.worktree, entry) {
                            self.name(&file, kind, name.split().1, role(entry));
                        }
                    }
                    if inside.has(b"index") {
                        self.gitlinks(&at, &tree);
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
}

/// Where a folder lies that a submodule's own could be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    /// In `modules`, or in the first parts of names there.
    Modules,
    /// In a submodule's.
    Submodule,
}

/// Whether git keeps objects in a folder of this name: two digits of their hashes.
fn is_of_objects(folder: &Path, name: &[u8]) -> bool {
    folder.file_name() == Some(OsStr::new("objects"))
        && name.len() == 2
        && name.iter().all(u8::is_ascii_hexdigit)
}

/// What a name in a folder of git, or in what is kept of a working tree, is for.
fn role(entry: &[u8]) -> Role {
    match entry {
        b"config" | b"config.worktree" => Role::GitConfig,
        b"hooks" => Role::GitHooks,
        _ => Role::GitOther,
    }
}
