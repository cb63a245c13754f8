//! Finding protected names: in the workspace's top, in the folders from there to the
//! working folder, and in the repositories that lie up to a stated depth below, or that
//! git's index names.
//!
//! The tree is not walked: only folders are read, breadth first, to that depth and up
//! to [`MAX_FOLDERS`]; those that hold built or downloaded things are skipped.

mod git;
pub(super) mod leaves;
mod listing;
mod look;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use sjail_policy::show;

use super::inventory::{Inventory, Moment, Watched};
use super::names::Names;
use look::{Look, OnShut};

/// How many folders are read at most while repositories are looked for.
pub const MAX_FOLDERS: usize = 400;

/// How many folders are read at most where an index does not say what it names in them.
pub const MAX_SPARSE: usize = 20_000;

/// How many names can be held in one jail. Each costs a mount or two.
pub const MAX_NAMES: usize = 2000;

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
    /// Folders that could not be looked into at the start: they stay as they are.
    pub shut: HashSet<PathBuf>,
}

impl Search {
    /// Looks at everything. Folders that cannot be looked into are to be closed to the jail.
    pub fn run(&self) -> Inventory {
        let mut look = self.all(OnShut::Close);
        look.close_shut();
        look.inventory
    }

    /// Looks at everything after a run; folders that cannot be looked into are opened, but
    /// for those that were so before.
    pub fn run_opening(&self) -> Inventory {
        self.all(OnShut::Open).inventory
    }

    fn all(&self, on_shut: OnShut) -> Look<'_> {
        let mut look = Look::new(self);
        look.on_shut = on_shut;
        look.inventory.time = Some(Moment::now());
        look.top(&self.workspace, 0);
        let mut next = 0;
        while let Some((folder, depth)) = look.queue.get(next).cloned() {
            next += 1;
            if look.inventory.searched.len() >= MAX_FOLDERS {
                let note = format!(
                    "repositories were looked for in the first {MAX_FOLDERS} folders of {} only",
                    show::name(&self.workspace)
                );
                look.inventory.notes.push(note);
                break;
            }
            look.search(&folder, depth);
        }
        look.way_to_cwd();
        look.follow_gitlinks();
        look.watch_parents();
        look
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
        look.follow_gitlinks();
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
            for (entry, kind) in listing.names() {
                look.child(folder, entry, kind, depth);
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
        look.follow_gitlinks();
        look.inventory.repositories_only()
    }

    /// Opens a folder to be watched.
    pub fn place(&self, folder: &Path) -> Option<Watched> {
        Some(Watched {
            path: folder.to_owned(),
            fd: listing::open(folder).ok()?,
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
        look.follow_gitlinks();
        look.inventory
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::protect::gitlinks::Unread;
    use sjail_policy::bytes::ByteString;
    use std::fs;
    use std::process::Command;

    fn search(workspace: &Path) -> Search {
        let list: Vec<ByteString> = sjail_policy::protect::names()
            .iter()
            .map(|entry| ByteString::from(entry.value()))
            .collect();
        Search {
            workspace: workspace.to_owned(),
            cwd: workspace.to_owned(),
            names: Names::new(&list),
            depth: 3,
            shut: HashSet::new(),
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

    /// An index with one entry, which git would read.
    fn index(mode: u32, name: &str) -> Vec<u8> {
        let mut text = b"DIRC\0\0\0\x02\0\0\0\x01".to_vec();
        text.extend([0; 24]);
        text.extend(mode.to_be_bytes());
        text.extend([0; 32]);
        text.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
        text.extend(name.as_bytes());
        text.resize(12 + ((62 + name.len() + 8) & !7), 0);
        text.extend([0; 20]);
        text
    }

    #[test]
    fn repositories_where_an_index_leaves_out_what_it_names() {
        let (_keep, base) = scratch();
        git(&base, &["init", "-q", "."]);
        let deep = base.join("a/b/c/d/e/f");
        fs::create_dir_all(&deep).unwrap();
        git(&deep, &["init", "-q", "."]);
        let config = "GitConfig a/b/c/d/e/f/.git/config".to_owned();
        assert!(!shown(&search(&base).run(), &base).contains(&config));
        fs::write(base.join(".git/index"), index(0o040_000, "a/b/")).unwrap();
        let inventory = search(&base).run();
        assert!(shown(&inventory, &base).contains(&config));
        assert!(inventory.is_unwatched && inventory.unread.is_empty());
    }

    #[test]
    fn an_index_of_which_nobody_can_tell_is_said() {
        let (_keep, base) = scratch();
        git(&base, &["init", "-q", "."]);
        let at = base.join(".git/index");
        let long = format!("{}x", "y/".repeat(2000));
        for (name, why) in [("../x", Unread::Astray), (&long, Unread::TooLong)] {
            fs::write(&at, index(0o160_000, name)).unwrap();
            assert_eq!(search(&base).run().unread, [(at.clone(), why)]);
        }
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

    #[test]
    fn another_spelling_does_not_pass_for_git() {
        let (_keep, base) = scratch();
        fs::write(base.join(".git"), "gitdir: elsewhere\n").unwrap();
        for name in [".GIT", ".Git", ".giT"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        let found = shown(&search(&base).run(), &base);
        assert!(found.contains(&"Pointer .git".to_owned()), "{found:?}");
    }

    #[test]
    fn what_cannot_be_looked_into_is_closed_or_opened() {
        use std::os::unix::fs::PermissionsExt;
        if nix::unistd::geteuid().is_root() {
            // Root can look into everything.
            return;
        }
        for mode in [0o300, 0o600, 0o000] {
            let (_keep, base) = scratch();
            let folder = base.join("a/b");
            fs::create_dir_all(&folder).unwrap();
            git(&folder, &["init", "-q", "."]);
            fs::set_permissions(base.join("a"), fs::Permissions::from_mode(mode)).unwrap();
            let search = search(&base);
            assert_eq!(shown(&search.run(), &base), ["Shut a"], "{mode:o}");
            let inventory = search.run_opening();
            assert_eq!(inventory.opened, [base.join("a")]);
            let found = shown(&inventory, &base);
            let config = "GitConfig a/b/.git/config".to_owned();
            assert!(found.contains(&config), "{mode:o} {found:?}");
        }
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
