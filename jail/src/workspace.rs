//! Which folder is the project: the repository's top folder, else where the caller is.

use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use sjail_policy::config::WORKSPACE_FILES;

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
        None => unnamed(&cwd, home)?,
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

/// Whether a workspace was named that would not have been found.
pub fn is_said(named: Option<&Path>, home: &Path) -> bool {
    named.is_some_and(|named| {
        let cwd = nix::unistd::getcwd().map_err(|errno| Error::Cwd { errno });
        let found = cwd.and_then(|cwd| unnamed(&cwd, home)).ok();
        found.is_none() || found != std::fs::canonicalize(named).ok()
    })
}

/// The workspace of a folder when none is named.
fn unnamed(cwd: &Path, home: &Path) -> Result<PathBuf, Error> {
    let found = repository(cwd).unwrap_or(cwd);
    let home = std::fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    if let Some(why) = too_wide(found, &home) {
        let path = found.to_owned();
        return Err(Error::WorkspaceTooWide { path, why });
    }
    // A command inside can make a repository, and must not leave a project's rules by that.
    let above = found.ancestors().skip(1);
    let policy = above
        .take_while(|folder| !home.starts_with(folder))
        .flat_map(|folder| WORKSPACE_FILES.map(|(name, _)| (folder, folder.join(name))))
        .find(|(folder, policy)| is_ours_to_heed(folder, policy));
    match policy.map(|(_, policy)| policy) {
        Some(policy) => Err(Error::PolicyAbove {
            workspace: found.to_owned(),
            policy,
        }),
        None => Ok(found.to_owned()),
    }
}

/// Whether a policy is there, and not put by somebody else into a folder that everybody uses. (A
/// command inside can give a folder that mode, too; its files are ours.)
fn is_ours_to_heed(folder: &Path, policy: &Path) -> bool {
    let uid = nix::unistd::geteuid().as_raw();
    let is_ours = |file: std::fs::Metadata| file.uid() == uid || file.uid() == 0;
    std::fs::symlink_metadata(policy).is_ok_and(|file| is_ours(file) || !is_everybodys(folder))
}

/// Why a folder is not taken for a project unless it is named: everything in it could be read
/// and changed, and every socket in it reached.
fn too_wide(found: &Path, home: &Path) -> Option<&'static str> {
    if home.starts_with(found) {
        return Some("holds your whole home");
    }
    if is_everybodys(found) {
        return Some("everybody uses, and where programs of yours keep their sockets");
    }
    is_settings(found, home).then_some("is where programs keep keys and settings of yours")
}

/// Writable to everybody, each their own names: `/tmp` and its like.
fn is_everybodys(folder: &Path) -> bool {
    const EVERYBODYS: u32 = 0o1002;
    std::fs::metadata(folder).is_ok_and(|folder| folder.mode() & EVERYBODYS == EVERYBODYS)
}

/// A hidden folder of the home, and what is in it, but for a repository that lies there.
fn is_settings(found: &Path, home: &Path) -> bool {
    const KEYS: [&str; 6] = [
        ".ssh",
        ".gnupg",
        ".aws",
        ".kube",
        ".docker",
        ".password-store",
    ];
    let first = found
        .strip_prefix(home)
        .ok()
        .and_then(|rest| rest.iter().next());
    let Some(first) = first.filter(|first| first.as_encoded_bytes().starts_with(b".")) else {
        return false;
    };
    let is_repository = std::fs::symlink_metadata(found.join(".git")).is_ok();
    !is_repository || KEYS.iter().any(|keys| first == *keys)
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
