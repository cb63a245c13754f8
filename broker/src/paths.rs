//! Where sockets and records lie, and whether those places can be trusted.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::error::{Error, Result};

/// The folders of one account.
#[derive(Debug, Clone)]
pub struct Places {
    /// Sockets and whatever lasts until the next boot.
    pub runtime: PathBuf,
    /// The log, its key and what else is kept.
    pub state: PathBuf,
}

impl Places {
    /// The folders of whoever runs this, made where they are missing.
    pub fn prepare() -> Result<Places> {
        let places = Places {
            runtime: runtime_folder(),
            state: state_folder(),
        };
        private_folder(&places.runtime)?;
        private_folder(&places.state)?;
        Ok(places)
    }

    /// Where commands are submitted.
    pub fn request_socket(&self) -> PathBuf {
        self.runtime.join(sjail_policy::wire::REQUEST_SOCKET)
    }

    /// Where the owner answers.
    pub fn control_socket(&self) -> PathBuf {
        self.runtime.join(sjail_policy::wire::CONTROL_SOCKET)
    }

    /// Locked by the one broker that listens there.
    pub fn lock(&self) -> PathBuf {
        self.runtime.join("broker.lock")
    }

    /// Locked by the one broker that writes there.
    pub fn state_lock(&self) -> PathBuf {
        self.state.join("records.lock")
    }

    /// Outcomes that could not be told at once.
    pub fn spool(&self) -> PathBuf {
        self.state.join("spool")
    }
}

/// `$XDG_RUNTIME_DIR/sjail`, or where it is for whoever has not set that.
pub fn runtime_folder() -> PathBuf {
    let uid = nix::unistd::geteuid().as_raw();
    sjail_policy::wire::sockets_folder(absolute_variable("XDG_RUNTIME_DIR"), uid)
}

/// `$XDG_STATE_HOME/sjail`, `~/.local/state/sjail` otherwise.
pub fn state_folder() -> PathBuf {
    match absolute_variable("XDG_STATE_HOME") {
        Some(folder) => folder.join("sjail"),
        None => Account::own().home.join(".local/state/sjail"),
    }
}

/// A relative path in such a variable would lead wherever the caller stands.
fn absolute_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

/// Makes a folder that nobody else can enter, or makes sure that it is one.
pub fn private_folder(path: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| Error::Folder {
        path: path.to_owned(),
        source,
    })?;
    check_private(path)
}

fn check_private(path: &Path) -> Result<()> {
    let failed = |source: io::Error| Error::Folder {
        path: path.to_owned(),
        source,
    };
    let not_safe = |problem: String| {
        Err(Error::UnsafeFolder {
            path: path.to_owned(),
            problem,
        })
    };
    let own = nix::unistd::geteuid().as_raw();
    let metadata = fs::symlink_metadata(path).map_err(failed)?;
    if !metadata.is_dir() {
        return not_safe("it is not a folder, or a link to one".to_owned());
    }
    if metadata.uid() != own {
        return not_safe(format!("it belongs to uid {}", metadata.uid()));
    }
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    // Whoever can write a folder above can put another one in its place, unless the
    // sticky bit keeps names with their owners.
    for folder in path.ancestors().skip(1) {
        if folder.as_os_str().is_empty() {
            continue;
        }
        let above = fs::metadata(folder).map_err(failed)?;
        let foreign = above.uid() != own && above.uid() != 0;
        let open = above.mode() & 0o022 != 0 && above.mode() & 0o1000 == 0;
        if foreign || (open && !is_private_group(above.gid(), above.mode())) {
            return not_safe(format!(
                "others can exchange it, because {} is open to them",
                folder.display()
            ));
        }
    }
    Ok(())
}

/// Group-writable for a group that is the account's own, as many systems set it up.
fn is_private_group(gid: u32, mode: u32) -> bool {
    mode & 0o002 == 0 && gid == nix::unistd::getegid().as_raw()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_private_folder_is_made_and_tightened() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("a/b");
        private_folder(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        private_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_link_and_an_open_parent_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let real = base.path().join("real");
        private_folder(&real).unwrap();
        let link = base.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(matches!(
            private_folder(&link),
            Err(Error::UnsafeFolder { .. })
        ));
        let open = base.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(
            private_folder(&open.join("mine")),
            Err(Error::UnsafeFolder { .. })
        ));
    }
}
