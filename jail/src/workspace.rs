//! Which folder is the project: the repository's top folder, else where the caller is.

use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

use crate::error::Error;

/// Where the caller is and which folder is the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The working folder, without links.
    pub cwd: PathBuf,
    /// The project folder, without links.
    pub workspace: PathBuf,
}

/// Finds both. A workspace that would be everything, the whole home, or everybody's, must be
/// named.
pub fn find(named: Option<&Path>, home: &Path) -> Result<Found, Error> {
    let cwd = nix::unistd::getcwd().map_err(|errno| Error::Cwd { errno })?;
    let workspace = match named {
        Some(named) => std::fs::canonicalize(named).map_err(|error| Error::Workspace {
            path: named.to_owned(),
            error,
        })?,
        None => {
            let found = repository(&cwd).unwrap_or(&cwd).to_owned();
            let real_home = std::fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
            if let Some(why) = too_wide(&found, &real_home) {
                return Err(Error::WorkspaceTooWide { path: found, why });
            }
            found
        }
    };
    if !workspace.is_dir() {
        return Err(Error::Workspace {
            path: workspace,
            error: Errno::ENOTDIR.into(),
        });
    }
    keeps_out(&workspace, home)?;
    Ok(Found { cwd, workspace })
}

/// Why a folder is not taken for a project unless it is named: everything in it could be
/// changed, and every socket in it reached.
fn too_wide(found: &Path, home: &Path) -> Option<&'static str> {
    const EVERYBODYS: u32 = 0o1002;
    let mode = std::fs::metadata(found).map_or(0, |folder| folder.mode());
    if home.starts_with(found) {
        return Some("holds your whole home");
    }
    (mode & EVERYBODYS == EVERYBODYS)
        .then_some("everybody uses, and where programs of yours keep their sockets")
}

/// The folders that sjail keeps its own files in, each with its place in a home where the
/// variable is not set.
const OWN: [(&str, &str); 5] = [
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_CACHE_HOME", ".cache"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_RUNTIME_DIR", ""),
];

/// Policies, records and sockets must not lie where the command writes. A variable that
/// leads into the workspace was set by the project (an `.envrc`), or by mistake. Who
/// makes the whole home the workspace has them there by right: the jail covers them.
fn keeps_out(workspace: &Path, home: &Path) -> Result<(), Error> {
    for (name, usual) in OWN {
        let Some(set) = std::env::var_os(name).map(PathBuf::from) else {
            continue;
        };
        if !set.is_absolute() || (!usual.is_empty() && set == home.join(usual)) {
            continue;
        }
        if real(&set).starts_with(workspace) {
            return Err(Error::OwnFolder {
                name,
                path: set,
                workspace: workspace.to_owned(),
            });
        }
    }
    Ok(())
}

/// A path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (std::fs::canonicalize(above), path.strip_prefix(above)) {
            let mut real = real;
            for part in rest.components() {
                match part {
                    Component::ParentDir => drop(real.pop()),
                    part => real.push(part),
                }
            }
            return real;
        }
    }
    path.to_owned()
}

/// The nearest folder at or above this one that has a `.git`.
fn repository(cwd: &Path) -> Option<&Path> {
    cwd.ancestors()
        .find(|folder| std::fs::symlink_metadata(folder.join(".git")).is_ok())
}
