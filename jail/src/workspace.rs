//! Which folder is the project: the repository's top folder, else where the caller is.

use std::path::{Path, PathBuf};

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

/// Finds both. A workspace that would be everything, or the whole home, must be named.
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
            if found == Path::new("/") || real_home.starts_with(&found) {
                return Err(Error::WorkspaceTooWide { path: found });
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
    Ok(Found { cwd, workspace })
}

/// The nearest folder at or above this one that has a `.git`.
fn repository(cwd: &Path) -> Option<&Path> {
    cwd.ancestors()
        .find(|folder| std::fs::symlink_metadata(folder.join(".git")).is_ok())
}
