//! Links and pipes in a folder of git. Git writes many of its own files by name, and through
//! a link that lies there: what a command lays at `COMMIT_EDITMSG` decides which file of the
//! host the next `git commit` fills. Git itself makes none.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{AtFlags, OFlag, readlinkat};
use nix::sys::stat::{SFlag, fstat, fstatat};

use super::inventory::Moment;
use super::scan::leaves::Leaves;
use crate::sys::directory::{self, Kind};
use crate::sys::file::{BENEATH, NO_LINKS, openat2};

/// A folder of git with more folders in it is not gone through to the end, and that is said.
const MOST: usize = 20_000;

/// How deep a look goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The folder's own names.
    Top,
    /// Everything but the objects, which git never writes by their names.
    Whole,
}

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Each of them.
    pub paths: Vec<PathBuf>,
    /// There are more folders than were looked into.
    pub unfinished: bool,
}

/// What a folder is to git, which says what is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A folder of git itself.
    Git,
    /// Where submodules have theirs.
    Modules,
    /// Objects, by their hashes.
    Objects,
    /// Of an extension that keeps objects of its own.
    Extension,
    Plain,
}

/// Links and pipes in a folder of git that can have come there since then. A folder that was
/// moved there brings older ones along: in whatever has changed, all of them count.
pub fn made_since(since: &Moment, git_dir: &Path, depth: Depth) -> Found {
    let mut found = Found::default();
    let Some(top) = open(None, git_dir) else {
        return found;
    };
    let mut folders = vec![(PathBuf::new(), Part::Git, false)];
    let leaves = Leaves::of(git_dir);
    let mut looked = 0;
    let mut buffer = vec![0; 32 << 10];
    while let Some((folder, part, above)) = folders.pop() {
        looked += 1;
        if looked > MOST {
            found.unfinished = true;
            return found;
        }
        let opened = match folder.as_os_str().is_empty() {
            true => top.try_clone().ok(),
            false => open(Some(&top), &folder),
        };
        // Gone meanwhile, or a link by now, which was or will be seen above it.
        let Some(open) = opened else { continue };
        let is_top = folder.as_os_str().is_empty();
        let stat = fstat(&open).ok();
        let is_new = stat.is_none_or(|stat| since.may_precede(&stat));
        let changed = above || !is_top && is_new;
        let inside = match part {
            Part::Modules if has(&open, c"HEAD") => Part::Git,
            part => part,
        };
        // No name has come into a folder that is as it was; below some there is nothing to
        // be looked into.
        let is_last = inside == Part::Objects || stat.is_some_and(|stat| leaves.is_leafs(&stat));
        if !is_new && !changed && is_last {
            continue;
        }
        while let Ok(entries) = directory::read(open.as_fd(), &mut buffer) {
            if entries.is_end() {
                break;
            }
            for (name, kind) in entries {
                let path = || folder.join(OsStr::from_bytes(name.to_bytes()));
                match directory::known(open.as_fd(), name, kind) {
                    Kind::File => {}
                    Kind::Folder if depth == Depth::Top => {}
                    Kind::Folder => {
                        folders.extend(below(inside, name).map(|part| (path(), part, changed)));
                    }
                    Kind::Link | Kind::Other if leads_astray(since, &open, name, changed) => {
                        found.paths.push(git_dir.join(path()));
                    }
                    Kind::Link | Kind::Other => {}
                }
            }
        }
    }
    found
}

/// What a folder in such a folder is; nothing, if it is not looked into.
fn below(part: Part, name: &CStr) -> Option<Part> {
    match (part, name.to_bytes()) {
        (Part::Objects, _) | (Part::Extension, b"objects") => None,
        (Part::Git, b"objects") => Some(Part::Objects),
        (Part::Git, b"modules") => Some(Part::Modules),
        (Part::Git, b"lfs" | b"annex") => Some(Part::Extension),
        (Part::Modules, _) => Some(Part::Modules),
        _ => Some(Part::Plain),
    }
}

fn open(top: Option<&OwnedFd>, path: &Path) -> Option<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let flags = (OFlag::O_RDONLY | OFlag::O_DIRECTORY).bits();
    let resolve = match top {
        Some(_) => BENEATH,
        None => NO_LINKS,
    };
    openat2(top.map(AsFd::as_fd), &path, flags, 0, resolve).ok()
}

fn has(folder: &OwnedFd, name: &CStr) -> bool {
    fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok()
}

/// A new link or pipe, but for the way in which old versions of git write HEAD.
fn leads_astray(since: &Moment, folder: &OwnedFd, name: &CStr, changed: bool) -> bool {
    let Ok(stat) = fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) else {
        return false;
    };
    let kind = SFlag::from_bits_truncate(stat.st_mode & libc::S_IFMT);
    let is_head = || {
        let target = readlinkat(folder, name).unwrap_or_default();
        let target = Path::new(&target);
        name == c"HEAD"
            && target.starts_with("refs")
            && target.iter().all(|part| part != OsStr::new(".."))
    };
    let is_new = changed || since.may_precede(&stat);
    match kind {
        SFlag::S_IFLNK => is_new && !is_head(),
        SFlag::S_IFIFO => is_new,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn names(began: &Moment, git: &Path, depth: Depth) -> Vec<String> {
        let found = made_since(began, git, depth);
        assert!(!found.unfinished);
        let name = |path: &PathBuf| path.strip_prefix(git).unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<String> = found.paths.iter().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn links_are_found_wherever_git_writes_by_name() {
        let began = Moment::now();
        let folder = tempfile::tempdir().unwrap();
        let git = &fs::canonicalize(folder.path()).unwrap();
        for sub in [
            "logs/refs/heads/objects/ab",
            "objects/ab",
            "modules/a/b/objects/cd",
            "modules/a/b/logs",
            "lfs/objects/ef",
        ] {
            fs::create_dir_all(git.join(sub)).unwrap();
        }
        fs::write(git.join("modules/a/b/HEAD"), "ref: refs/heads/main\n").unwrap();
        symlink("refs/heads/main", git.join("HEAD")).unwrap();
        let found = [
            "COMMIT_EDITMSG",
            "logs/HEAD",
            "logs/refs/heads/objects/ab/x",
            "modules/a/b/logs/HEAD",
            "objects/cd",
        ];
        let ignored = [
            "objects/ab/x",
            "modules/a/b/objects/cd/x",
            "lfs/objects/ef/x",
        ];
        for name in found.iter().chain(&ignored) {
            symlink("/nowhere", git.join(name)).unwrap();
        }
        assert_eq!(names(&began, git, Depth::Whole), found);
        assert_eq!(names(&began, git, Depth::Top), ["COMMIT_EDITMSG"]);
    }

    #[test]
    fn a_folder_that_is_moved_brings_its_links_along() {
        let folder = tempfile::tempdir().unwrap();
        let top = &fs::canonicalize(folder.path()).unwrap();
        let git = &top.join("git");
        for sub in ["git/refs", "stash/a", "git/old"] {
            fs::create_dir_all(top.join(sub)).unwrap();
        }
        symlink("/nowhere", git.join("old/kept")).unwrap();
        symlink("/nowhere", top.join("stash/a/HEAD")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(60));
        let began = Moment::now();
        fs::rename(top.join("stash"), git.join("logs")).unwrap();
        let found = made_since(&began, git, Depth::Whole);
        assert_eq!(found.paths, [git.join("logs/a/HEAD")]);
    }

    #[test]
    fn what_comes_into_a_quiet_folder_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let git = &fs::canonicalize(folder.path()).unwrap();
        for sub in ["objects/ab", "logs/refs", "info"] {
            fs::create_dir_all(git.join(sub)).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(60));
        let began = Moment::now();
        let made = ["info/x", "logs/refs/x", "objects/cd"];
        assert_eq!(made_since(&began, git, Depth::Whole), Found::default());
        for name in made {
            symlink("/nowhere", git.join(name)).unwrap();
        }
        let mut found = made_since(&began, git, Depth::Whole).paths;
        found.sort();
        assert_eq!(found, made.map(|name| git.join(name)));
    }

    #[test]
    fn a_head_that_leads_out_and_a_pipe_are_none_of_gits() {
        let began = Moment::now();
        let folder = tempfile::tempdir().unwrap();
        let git = &fs::canonicalize(folder.path()).unwrap();
        symlink("refs/../../x", git.join("HEAD")).unwrap();
        nix::unistd::mkfifo(&git.join("index"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(names(&began, git, Depth::Top), ["HEAD", "index"]);
    }
}
