//! Who calls: ids from the kernel, names from the password file, and sjail's own folders.
//!
//! The binary is static, so there is no NSS; a user that only a directory service knows
//! has the name from `USER`, which is for showing only.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, getegid, geteuid, getgid, getuid, setgroups, setresgid, setresuid};
use sha2::{Digest, Sha256};
use sjail_policy::plan::Sandbox;

use crate::error::Error;
use crate::layout::kept::Kept;
use crate::sys;

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The login name.
    pub name: String,
    /// The user id.
    pub uid: u32,
    /// The main group.
    pub gid: u32,
    /// The home folder.
    pub home: PathBuf,
    /// The login shell.
    pub shell: String,
    /// `$XDG_STATE_HOME`, where the variable is this account's own.
    pub state_home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`, likewise.
    pub config_home: Option<PathBuf>,
}

impl Account {
    /// The account that this process runs under.
    pub fn own() -> Account {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        let listed = find(|account| account.uid == uid);
        let variable = |name| {
            // As its parts, so that two ways to write the same path are the same bytes.
            std::env::var_os(name)
                .map(|path| PathBuf::from(path).components().collect::<PathBuf>())
                .filter(|path| path.is_absolute())
        };
        let home = variable("HOME");
        let state_home = variable("XDG_STATE_HOME");
        let config_home = variable("XDG_CONFIG_HOME");
        match listed {
            Some(account) => Account {
                gid,
                home: home.unwrap_or_else(|| account.home.clone()),
                state_home,
                config_home,
                ..account
            },
            None => Account {
                name: std::env::var("USER")
                    .ok()
                    .filter(|name| is_name(name))
                    .unwrap_or_else(|| format!("u{uid}")),
                uid,
                gid,
                home: home.unwrap_or_else(|| PathBuf::from("/")),
                shell: "/bin/sh".to_owned(),
                state_home,
                config_home,
            },
        }
    }

    /// The account of this name, for `--user`.
    pub fn named(name: &str) -> Option<Account> {
        find(|account| account.name == name)
    }

    /// The name of its main group.
    pub fn group_name(&self) -> String {
        let groups = fs::read_to_string("/etc/group").unwrap_or_default();
        groups
            .lines()
            .find_map(|line| {
                let mut fields = line.split(':');
                let name = fields.next().filter(|name| is_name(name))?;
                let gid: u32 = fields.nth(1)?.parse().ok()?;
                (gid == self.gid).then(|| name.to_owned())
            })
            .unwrap_or_else(|| format!("g{}", self.gid))
    }
}

/// The account that the jail runs under: the caller's, or for a root caller the one that
/// `--user` names, which this process then becomes for good.
pub fn become_user(name: Option<&str>) -> Result<Account, Error> {
    if getuid() != geteuid() || getgid() != getegid() {
        return Err(Error::SetUserId);
    }
    let Some(name) = name else {
        return Ok(Account::own());
    };
    if !geteuid().is_root() {
        return Err(Error::UserNotRoot);
    }
    let account = Account::named(name).ok_or_else(|| Error::NoUser {
        name: name.to_owned(),
    })?;
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    setgroups(&[gid])
        .and_then(|()| setresgid(gid, gid, gid))
        .and_then(|()| setresuid(uid, uid, uid))
        // A change of user closes /proc/self to its owner; the maps are written there.
        .and_then(|()| sys::process::dumpable())
        .map_err(|errno| Error::Become {
            name: name.to_owned(),
            errno,
        })?;
    Ok(account)
}

/// The home folder of an account.
pub fn home_of(name: &str) -> Option<PathBuf> {
    find(|account| account.name == name).map(|account| account.home)
}

fn find(wanted: impl Fn(&Account) -> bool) -> Option<Account> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().filter_map(account).find(wanted)
}

fn account(line: &str) -> Option<Account> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, uid, gid, _, home, shell] = fields.as_slice() else {
        return None;
    };
    Some(Account {
        name: Some(*name).filter(|name| is_name(name))?.to_owned(),
        uid: uid.parse().ok()?,
        gid: gid.parse().ok()?,
        home: PathBuf::from(home),
        shell: (*shell).to_owned(),
        state_home: None,
        config_home: None,
    })
}

/// A name that can stand in a password file.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 256
        && name
            .chars()
            .all(|c| !c.is_control() && !c.is_whitespace() && c != ':' && c != '/')
}

/// sjail's own folders below `$XDG_STATE_HOME`.
#[derive(Debug, Clone)]
pub struct State(PathBuf);

impl State {
    /// `$XDG_STATE_HOME/sjail`, by default `~/.local/state/sjail`.
    pub fn of(account: &Account) -> State {
        let base = account
            .state_home
            .clone()
            .unwrap_or_else(|| account.home.join(".local/state"));
        State(base.join("sjail"))
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The cache folder of the sandbox that belongs to a workspace; made if need be, and
    /// refused if anybody else could have prepared it.
    pub fn cache(&self, workspace: &Path) -> Result<PathBuf, Error> {
        let sandbox = self.sandbox(workspace);
        let cache = sandbox.join("cache");
        let failed = |error| Error::Cache {
            path: cache.clone(),
            error,
        };
        match fs::symlink_metadata(&cache) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(&cache)
                    .map_err(failed)?;
                // So that a person can tell the sandboxes apart.
                let name = workspace.as_os_str().as_encoded_bytes();
                fs::write(sandbox.join("workspace"), name).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        own_alone(&cache).map_err(failed)?;
        Ok(cache)
    }

    /// What stands behind home and tmp of a sandbox that several runs share; made if need
    /// be.
    pub fn kept(&self, sandbox: &Sandbox) -> Result<Kept, Error> {
        let name = format!("{}:{}", sandbox.scope.name(), sandbox.name);
        let folder = self.0.join("sandboxes").join(hash(name.as_bytes()));
        let kept = Kept {
            home: folder.join("home"),
            tmp: folder.join("tmp"),
            var_tmp: folder.join("var-tmp"),
        };
        for path in [&kept.home, &kept.tmp, &kept.var_tmp] {
            let failed = |error| Error::Cache {
                path: path.clone(),
                error,
            };
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(failed)?;
            own_alone(path).map_err(failed)?;
        }
        let said = folder.join("scope");
        if !said.exists() {
            fs::write(&said, &name).map_err(|error| Error::Cache { path: said, error })?;
        }
        Ok(kept)
    }

    /// The folder of that name.
    pub fn at(path: &Path) -> State {
        State(path.to_owned())
    }

    /// Everything that is kept for a workspace.
    pub fn sandbox(&self, workspace: &Path) -> PathBuf {
        let id = hash(workspace.as_os_str().as_encoded_bytes());
        self.0.join("sandboxes").join(id)
    }
}

/// A short name for something of any length.
fn hash(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Refuses a folder that anybody else could have prepared.
fn own_alone(folder: &Path) -> std::io::Result<()> {
    let meta = fs::symlink_metadata(folder)?;
    if !meta.is_dir() || meta.uid() != geteuid().as_raw() || meta.mode() & 0o077 != 0 {
        return Err(std::io::Error::other(
            "it must be a folder of yours, closed to others (mode 0700)",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_line_of_the_password_file() {
        let read = account("ann:x:1000:1001:Ann,,,:/home/ann:/bin/bash").unwrap();
        assert_eq!((read.uid, read.gid), (1000, 1001));
        assert_eq!(read.home, Path::new("/home/ann"));
        assert!(account("ann:x:1000").is_none());
        assert!(account("a b:x:1:1::/:/bin/sh").is_none());
    }

    #[test]
    fn each_workspace_has_its_own_sandbox() {
        let state = State(PathBuf::from("/s"));
        assert_ne!(
            state.sandbox(Path::new("/a")),
            state.sandbox(Path::new("/b"))
        );
    }
}
