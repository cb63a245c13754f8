//! The folders of git that the command writes to a copy of, seen from the protection of the
//! run: what is freed for it, and what is looked at again when the copy has been gone through.

use std::path::{Path, PathBuf};

use sjail_policy::git_command::Writer;

use super::copy::{self, Copy};
use super::inventory::Role;
use super::{Error, Protection, repository};
use crate::cleanup;

impl Protection {
    /// Lets the command write to a copy of a folder of git, if it is one that must write
    /// its configuration. `folder` is the run's own, to be made.
    pub fn copy_for<N>(&mut self, writer: &Writer, folder: &Path, note: N) -> Result<(), Error>
    where
        N: FnOnce() -> Result<(), cleanup::Error>,
    {
        let git_dirs: Vec<&Path> = self.git_dirs().collect();
        let Some(git_dir) = copy::needed(writer, &self.search.cwd, &git_dirs) else {
            return Ok(());
        };
        note()?;
        let copy = Copy::begin(&git_dir, folder).map_err(|source| Error::Copy {
            path: git_dir.clone(),
            source,
        })?;
        self.held.retain(|held| !held.path.starts_with(&git_dir));
        self.copied.push(git_dir);
        self.free_pointers();
        self.copy = Some(copy);
        Ok(())
    }

    /// Lets the command write a folder of git on a layer of its own, where nothing of it
    /// reaches the host by itself.
    pub fn free_for(&mut self, writer: &Writer) {
        let git_dirs: Vec<&Path> = self.git_dirs().collect();
        if let Some(git_dir) = copy::needed(writer, &self.search.cwd, &git_dirs) {
            self.held.retain(|held| !held.path.starts_with(&git_dir));
        }
    }

    /// The copy that the command writes to, if there is one.
    pub fn copy(&self) -> Option<&Copy> {
        self.copy.as_ref()
    }

    /// `git worktree remove` and `git submodule deinit` take working trees away, whose
    /// `.git` files point into the copy. Where those point is looked at again at the end.
    fn free_pointers(&mut self) {
        let freed: Vec<(PathBuf, PathBuf)> = self
            .held
            .iter()
            .filter(|held| held.role == Role::Pointer)
            .filter(|held| held.path.parent() != Some(&self.search.workspace))
            .filter_map(|held| Some((held.path.clone(), repository::pointed_to(&held.path)?)))
            .filter(|(_, target)| self.copied.iter().any(|copied| target.starts_with(copied)))
            .collect();
        self.held.retain(|held| {
            let of = |path: &Path| match held.role {
                Role::Way => path.starts_with(&held.path),
                _ => path == held.path,
            };
            !freed.iter().any(|(path, _)| of(path))
        });
        self.pointers = freed;
    }

    /// The folder of git that the command wrote to a copy of has been gone through: what it
    /// is now is the host's. Pointers into it, and the repositories in it that were not there
    /// at the start, are judged like any others from here.
    pub(super) fn end_copy(&mut self) {
        let copied = std::mem::take(&mut self.copied);
        let now = self.search.again(&[], &copied, &[]);
        for sighting in now.mounted() {
            if sighting.role == Role::GitConfig {
                let text = repository::small(&sighting.path).unwrap_or_default();
                self.remember(&sighting.path, text);
            }
            self.held.retain(|held| held.path != sighting.path);
            self.held.push(sighting.clone());
        }
    }

    /// A freed pointer that leads elsewhere now was not changed by git.
    pub(super) fn check_pointers(&mut self) {
        for (path, target) in self.pointers.clone() {
            let there = std::fs::symlink_metadata(&path).is_ok();
            if there && repository::pointed_to(&path).as_ref() != Some(&target) {
                self.take(
                    &path,
                    "was changed during the run and would point git elsewhere",
                );
            }
        }
    }

    /// Judged by other means: in a copied folder of git, or a pointer into one.
    pub(super) fn is_elsewhere(&self, path: &Path) -> bool {
        self.copied.iter().any(|copied| path.starts_with(copied))
            || self.pointers.iter().any(|(pointer, _)| pointer == path)
    }
}
