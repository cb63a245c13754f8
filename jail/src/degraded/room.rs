//! A home and a temporary folder of the run's own, below sjail's own folders on the host:
//! where nothing can be mounted, `HOME` and `TMPDIR` lead there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use sjail_policy::plan::{Plan, Variable};

use crate::error::Error;
use crate::layout::{make_folder, make_folders, private_home};

/// The room of one run.
#[derive(Debug)]
pub struct Room {
    path: PathBuf,
}

impl Room {
    /// Makes the room and furnishes it: toolchains, the identity for git and the
    /// sandbox's own caches are where programs look for them.
    pub fn make(path: PathBuf, plan: &Plan, cache: Option<&Path>) -> Result<Room, Error> {
        make_folders(&path)?;
        let room = Room { path };
        make_folder(&room.home())?;
        make_folder(&room.tmp())?;
        let (links, git) = private_home(&plan.home, cache)?;
        for (below, target) in links {
            let link = room.home().join(&below);
            if let Some(parent) = link.parent() {
                make_folders(parent)?;
            }
            // Two of a list may lead to the same name; the first one stands.
            let _ = symlink(target, link);
        }
        let config = room.home().join(".gitconfig");
        fs::write(&config, git).map_err(|error| Error::Cache {
            path: config,
            error,
        })?;
        Ok(room)
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    fn tmp(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// Makes the command use it.
    pub fn lead_into(&self, environment: &mut Vec<Variable>) {
        for (name, value) in [
            ("HOME", self.home()),
            ("TMPDIR", self.tmp()),
            ("TMP", self.tmp()),
            ("TEMP", self.tmp()),
        ] {
            environment.retain(|variable| variable.name.as_bytes() != name.as_bytes());
            environment.push(Variable {
                name: name.as_bytes().to_vec().into(),
                value: value.as_os_str().as_encoded_bytes().to_vec().into(),
            });
        }
    }
}
