//! A folder of git that a single command writes to a copy of.
//!
//! `git remote add` and its like must replace `config` in the very folder where `HEAD`
//! and the index are replaced all the time; mounts alone cannot allow the one and forbid
//! the other. So such a command, alone on the line, sees the folder through an overlay:
//! what it writes goes to an upper layer in the sandbox's own folder, the host's files
//! stay as they are. When it has ended, and every process of the jail with it, the layer
//! is gone through: configuration is merged key by key, hooks that git would run and
//! files that point elsewhere stay out, the rest is moved into place. The host's git sees
//! nothing of it before that.

mod apply;
pub mod part;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sjail_policy::git_command::{Need, Writer};
use sjail_policy::git_config::Document;
use sjail_policy::git_keys::normal;

use super::finding::Finding;
use super::inventory::Moment;
use super::judge::Court;
use super::repository::{self, small};
use crate::beneath::Beneath;

/// The copy that one run writes to.
#[derive(Debug)]
pub struct Copy {
    /// The host's folder of git, open since the run began: whatever is done to its name, it
    /// is this folder that is written.
    lower: Beneath,
    /// The folder that holds the layer and the overlay's own scratch.
    folder: PathBuf,
    started: Moment,
    /// The host's configurations when the run began, by their places below `lower`.
    configs: Vec<(PathBuf, Vec<u8>)>,
}

/// The folder of git that a command must be able to write the configuration of.
pub fn needed(writer: &Writer, cwd: &Path, git_dirs: &[&Path]) -> Option<PathBuf> {
    let mut folder = cwd.to_owned();
    for step in &writer.folders {
        folder.push(std::ffi::OsStr::from_bytes(step));
    }
    let folder = normal(&folder)?;
    let git_dir = folder.ancestors().find_map(|top| of_top(top, git_dirs))?;
    let needed = match &writer.need {
        Need::Config => true,
        // `git init` in a repository that exists; elsewhere it makes a new one.
        Need::NewRepository => of_top(&folder, git_dirs).is_some() && writer.folders.is_empty(),
        Need::ConfigUnlessBranch(branch) => {
            let branch = Path::new(std::ffi::OsStr::from_bytes(branch));
            !has_ref(&git_dir, &Path::new("refs/heads").join(branch))
                && remotes(&git_dir)
                    .iter()
                    .any(|remote| has_ref(&git_dir, &remote.join(branch)))
        }
    };
    needed.then_some(git_dir)
}

/// The folder of git of a repository's top, as it was found at the start.
fn of_top(top: &Path, git_dirs: &[&Path]) -> Option<PathBuf> {
    let dot_git = top.join(".git");
    let kind = fs::symlink_metadata(&dot_git).ok()?;
    let own = if kind.is_dir() {
        dot_git
    } else {
        repository::pointed_to(&dot_git)?
    };
    let shared = repository::shared(&own).unwrap_or(own);
    git_dirs
        .iter()
        .any(|known| **known == shared)
        .then_some(shared)
}

fn has_ref(git_dir: &Path, name: &Path) -> bool {
    if git_dir.join(name).is_file() {
        return true;
    }
    let packed = small(&git_dir.join("packed-refs")).unwrap_or_default();
    packed
        .split(|byte| *byte == b'\n')
        .any(|line| line.ends_with(name.as_os_str().as_bytes()) && line.get(40) == Some(&b' '))
}

/// `refs/remotes/NAME` for each remote of the configuration.
fn remotes(git_dir: &Path) -> Vec<PathBuf> {
    let text = small(&git_dir.join("config")).unwrap_or_default();
    let Ok(config) = Document::parse(&text) else {
        return Vec::new();
    };
    config
        .entries()
        .filter(|entry| &*entry.key.section == "remote" && entry.key.name == "url")
        .filter_map(|entry| entry.key.subsection.as_deref())
        .map(|name| Path::new("refs/remotes").join(std::ffi::OsStr::from_bytes(name)))
        .collect()
}

impl Copy {
    /// Makes the layer's folders. `folder` is the run's own and does not exist yet.
    pub fn begin(lower: &Path, folder: &Path) -> io::Result<Copy> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true);
        builder.create(folder.join("upper"))?;
        builder.create(folder.join("work"))?;
        // The overlay's root shows the upper folder's permissions.
        fs::set_permissions(folder.join("upper"), fs::metadata(lower)?.permissions())?;
        let mut copy = Copy {
            lower: Beneath::open(lower)?,
            folder: folder.to_owned(),
            started: Moment::sharp(),
            configs: Vec::new(),
        };
        copy.remember_configs(Path::new(""), 0);
        Ok(copy)
    }

    /// The host's folder.
    pub fn lower(&self) -> &Path {
        self.lower.path()
    }

    /// The layer.
    pub fn upper(&self) -> PathBuf {
        self.folder.join("upper")
    }

    /// The overlay's scratch.
    pub fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// Configurations in this folder and in submodules' and working trees' below it.
    fn remember_configs(&mut self, below: &Path, depth: u8) {
        for name in ["config", "config.worktree"] {
            let place = below.join(name);
            if let Some(text) = small(&self.lower().join(&place)) {
                self.configs.push((place, text));
            }
        }
        for name in ["modules", "worktrees"] {
            let folder = below.join(name);
            for entry in fs::read_dir(self.lower().join(&folder))
                .into_iter()
                .flatten()
                .flatten()
            {
                if depth < 4 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    self.remember_configs(&folder.join(entry.file_name()), depth + 1);
                }
            }
        }
        if depth > 0 && !self.lower().join(below).join("HEAD").exists() {
            for entry in fs::read_dir(self.lower().join(below))
                .into_iter()
                .flatten()
                .flatten()
            {
                if depth < 4 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    self.remember_configs(&below.join(entry.file_name()), depth + 1);
                }
            }
        }
    }

    /// Carries over what the command wrote, judged, and removes the layer.
    pub fn apply(self, court: Court<'_>, findings: &mut Vec<Finding>) {
        apply::all(&self, court, findings);
        remove(&self.folder);
    }
}

/// Removes the layer; the overlay leaves a folder of mode 000 in it.
fn remove(folder: &Path) {
    let scratch = folder.join("work/work");
    let _ = fs::set_permissions(scratch, fs::Permissions::from_mode(0o700));
    let _ = fs::remove_dir_all(folder);
}
