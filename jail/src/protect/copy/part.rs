//! What a path below a folder of git is, by its name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a path below a folder of git is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Objects, refs, the index, logs: git's own business.
    Data,
    /// Configuration.
    Config,
    /// The folder of hooks.
    Hooks,
    /// A hook, or something in the folder of hooks.
    Hook,
    /// Points to another repository, or chooses programs.
    Pointer,
    /// `commondir` or `gitdir` of a working tree.
    Worktree,
    /// What git keeps of a working tree, as a whole.
    WorktreeFolder,
}

/// What a path is, seen from the repository that it belongs to: the folder itself, or a
/// submodule's below it. A submodule's name may have slashes, so any folder below `modules`
/// that `is_root` (it has a `HEAD`) can be one, and one within another; where none is, each
/// might become one. Whoever makes more of the path than data is right.
pub(super) fn part(below: &Path, is_root: &dyn Fn(&Path) -> bool) -> Part {
    let names: Vec<&[u8]> = below.iter().map(OsStrExt::as_bytes).collect();
    let Some((b"modules", inner)) = names.split_first().map(|(first, rest)| (*first, rest)) else {
        return own_names(&names);
    };
    let path = |depth: usize| -> PathBuf {
        let names = names.iter().take(depth + 1);
        names.map(|name| OsStr::from_bytes(name)).collect()
    };
    let all: Vec<usize> = (1..=inner.len()).collect();
    let roots: Vec<usize> = all
        .iter()
        .copied()
        .filter(|at| is_root(&path(*at)))
        .collect();
    let roots = if roots.is_empty() { all } else { roots };
    let parts = roots.into_iter().map(|at| {
        let rest = inner.get(at..).unwrap_or_default();
        match rest.first() {
            // A submodule's own submodules.
            Some(name) if *name == b"modules" => {
                let rest: PathBuf = rest.iter().map(|name| OsStr::from_bytes(name)).collect();
                part(&rest, &|inside: &Path| is_root(&path(at).join(inside)))
            }
            _ => own_names(rest),
        }
    });
    parts
        .into_iter()
        .find(|part| *part != Part::Data)
        .unwrap_or(Part::Data)
}

/// The same for a path in the repository's own folder.
pub fn own(below: &Path) -> Part {
    let names: Vec<&[u8]> = below.iter().map(OsStrExt::as_bytes).collect();
    own_names(&names)
}

fn own_names(names: &[&[u8]]) -> Part {
    match names {
        [b"config" | b"config.worktree"] => Part::Config,
        [b"hooks"] => Part::Hooks,
        [b"hooks", ..] => Part::Hook,
        [b"commondir" | b"gitdir"] | [b"info", b"attributes"] => Part::Pointer,
        [b"remotes" | b"branches", _, ..] => Part::Pointer,
        [b"objects", b"info", b"alternates" | b"http-alternates"] => Part::Pointer,
        [b"worktrees", _] => Part::WorktreeFolder,
        [b"worktrees", _, b"config.worktree" | b"config"] => Part::Config,
        [b"worktrees", _, b"commondir" | b"gitdir"] => Part::Worktree,
        [b"worktrees", _, b"hooks"] => Part::Hooks,
        [b"worktrees", _, b"hooks", ..] => Part::Hook,
        _ => Part::Data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submodule_can_be_any_folder_that_looks_like_one() {
        let at = |path: &str, roots: &[&str]| {
            part(Path::new(path), &|folder: &Path| {
                roots.iter().any(|root| folder == Path::new(root))
            })
        };
        assert_eq!(at("modules/a/config", &["modules/a"]), Part::Config);
        assert_eq!(
            at("modules/a/refs/heads/config", &["modules/a"]),
            Part::Data
        );
        // One within another, and one without a sign of it.
        let two = ["modules/a", "modules/a/b"];
        assert_eq!(at("modules/a/b/config", &two), Part::Config);
        assert_eq!(at("modules/a/b/config", &[]), Part::Config);
        assert_eq!(at("modules/a/b/hooks/pre-commit", &[]), Part::Hook);
        assert_eq!(
            at("modules/a/objects/info/alternates", &["modules/a"]),
            Part::Pointer
        );
        let deep = ["modules/a", "modules/a/modules/c"];
        assert_eq!(at("modules/a/modules/c/config", &deep), Part::Config);
        assert_eq!(
            at("modules/a/worktrees/w/commondir", &["modules/a"]),
            Part::Worktree
        );
        assert_eq!(at("refs/heads/config", &[]), Part::Data);
        assert_eq!(at("hooks/pre-commit", &[]), Part::Hook);
    }
}
