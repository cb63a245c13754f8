//! Gathering the policy: the system's file, the user's, the workspace's.
//!
//! Usually none of them exists, and then this costs four looks.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, fstatat};
use sjail_policy::config::{
    CommandLine, GroupMembers, Holder, HolderKind, MAX_FILE, PolicyFile, Sources, WORKSPACE_FILES,
    WorkspaceFile,
};

use crate::caller::{Account, State};
use crate::error::Error;
use crate::inside;
use crate::trust::TrustStore;

/// The policy of the whole machine.
const SYSTEM: &str = "/etc/sjail/policy.toml";

/// Reads every policy file that there is.
pub fn gather(
    account: &Account,
    workspace: &Path,
    command_line: CommandLine,
) -> Result<Sources, Error> {
    let (system, user) = match inside::an_agents_jail() {
        true => (copied(inside::SYSTEM)?, copied(inside::USER)?),
        false => (
            trusted(Path::new(SYSTEM), account)?,
            trusted(&user_file(account), account)?,
        ),
    };
    let mut sources = Sources {
        system,
        user,
        workspace: Vec::new(),
        command_line,
        uid: account.uid,
        machine_memory: crate::limits::machine_memory(),
    };
    for (name, format) in WORKSPACE_FILES {
        let path = workspace.join(name);
        if !format.holds_beside(&sources.workspace) {
            continue;
        }
        if let Some(text) = content(&path, beneath(workspace, name))? {
            let trust = TrustStore::of(&State::of(account)).trust(&path, &text);
            sources.workspace.push(WorkspaceFile {
                path: path.into(),
                text,
                format,
                trust,
            });
        }
    }
    Ok(sources)
}

/// Opens a file of a workspace, through no link: a project must not name files of its reader
/// for sjail to quote from. Step by step, for in an agent's jail there is no `openat2`.
fn beneath(workspace: &Path, name: &str) -> io::Result<File> {
    let way = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut folder = open(workspace, way, Mode::empty())?;
    let path = Path::new(name);
    for part in path.parent().into_iter().flatten() {
        folder = match openat(&folder, part, way | OFlag::O_NOFOLLOW, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::ENOTDIR) if is_link(&folder, part) => return Err(linked()),
            Err(errno) => return Err(errno.into()),
        };
    }
    let last = path.file_name().unwrap_or_default();
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match openat(&folder, last, flags, Mode::empty()) {
        Ok(file) => Ok(file.into()),
        Err(Errno::ELOOP) => Err(linked()),
        Err(errno) => Err(errno.into()),
    }
}

fn is_link(folder: &OwnedFd, name: &OsStr) -> bool {
    let stat = fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFLNK)
}

fn linked() -> io::Error {
    io::Error::other("it is a link, or lies in a folder that is one")
}

fn user_file(account: &Account) -> PathBuf {
    account.config_home().join("sjail/policy.toml")
}

/// The texts of the owner's policy, for an agent's jail: each with the name that
/// [`copied`] knows it by.
pub fn for_inside(account: &Account) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
    let mut texts = Vec::new();
    for (name, path) in [
        (inside::SYSTEM, PathBuf::from(SYSTEM)),
        (inside::USER, user_file(account)),
    ] {
        if let Some(file) = trusted(&path, account)? {
            texts.push((name, file.text));
        }
    }
    Ok(texts)
}

/// The owner's policy as the jail that we are in was given it: in a place that nobody
/// inside can write, so that its owner is not in question.
fn copied(name: &str) -> Result<Option<PolicyFile>, Error> {
    let path = Path::new(inside::DESK).join(name);
    let holder = Holder {
        path: path.as_path().into(),
        uid: 0,
        mode: 0o444,
        group: GroupMembers::OwnerOnly,
        kind: HolderKind::File,
    };
    Ok(read(&path, libc::O_NOFOLLOW)?.map(|text| PolicyFile {
        path: path.into(),
        text,
        holders: vec![holder],
    }))
}

fn trusted(path: &Path, account: &Account) -> Result<Option<PolicyFile>, Error> {
    let Some(text) = read(path, 0)? else {
        return Ok(None);
    };
    let failed = |error| Error::PolicyFile {
        path: path.to_owned(),
        error,
    };
    let real = fs::canonicalize(path).map_err(failed)?;
    let mut holders = Vec::new();
    for (index, holder) in real.ancestors().enumerate() {
        let meta = fs::symlink_metadata(holder).map_err(failed)?;
        holders.push(Holder {
            path: holder.into(),
            uid: meta.uid(),
            mode: meta.mode(),
            group: members(&meta, account),
            kind: if index == 0 {
                HolderKind::File
            } else {
                HolderKind::Folder
            },
        });
    }
    Ok(Some(PolicyFile {
        path: path.into(),
        text,
        holders,
    }))
}

/// Whether a group is its user's alone: root's, or the one that bears the user's name and
/// has no further members.
fn members(meta: &Metadata, account: &Account) -> GroupMembers {
    if meta.gid() == 0 {
        return GroupMembers::OwnerOnly;
    }
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let own = groups.lines().any(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        matches!(fields.as_slice(), [name, _, gid, users]
            if *name == account.name
                && gid.parse() == Ok(meta.gid())
                && (users.is_empty() || *users == account.name))
    });
    if own {
        GroupMembers::OwnerOnly
    } else {
        GroupMembers::Others
    }
}

/// A regular file's contents; `None` when there is no such file.
fn read(path: &Path, link_flag: i32) -> Result<Option<Vec<u8>>, Error> {
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | link_flag)
        .open(path);
    content(path, opened)
}

/// What an opened file holds, if there was one.
fn content(path: &Path, opened: io::Result<File>) -> Result<Option<Vec<u8>>, Error> {
    let failed = |error| Error::PolicyFile {
        path: path.to_owned(),
        error,
    };
    let file = match opened {
        Ok(file) => file,
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err(failed(io::Error::other("it is not a regular file")));
    }
    let mut text = Vec::new();
    // One byte more than allowed, so that the reader of the text can say it is too long.
    file.take(MAX_FILE as u64 + 1)
        .read_to_end(&mut text)
        .map_err(failed)?;
    Ok(Some(text))
}

impl Account {
    /// `$XDG_CONFIG_HOME`, by default `~/.config`.
    pub fn config_home(&self) -> PathBuf {
        self.config_home
            .clone()
            .unwrap_or_else(|| self.home.join(".config"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;

    const NESTED: &str = ".claude/security-config.json";

    fn read_beneath(workspace: &Path) -> io::Result<String> {
        let mut text = String::new();
        beneath(workspace, NESTED)?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn a_workspace_file_is_opened_through_no_link() {
        let home = tempfile::tempdir().unwrap();
        let (outside, workspace) = (home.path().join("outside"), home.path().join("work"));
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("security-config.json"), "secret").unwrap();
        let missing = |result: io::Result<String>| {
            matches!(
                result.unwrap_err().raw_os_error(),
                Some(libc::ENOENT | libc::ENOTDIR)
            )
        };
        assert!(missing(read_beneath(&workspace)));
        fs::create_dir(&workspace).unwrap();
        assert!(missing(read_beneath(&workspace)));
        let folder = workspace.join(".claude");
        fs::write(&folder, "no folder").unwrap();
        assert!(missing(read_beneath(&workspace)));
        fs::remove_file(&folder).unwrap();
        // The folder is a link, then the file is one, then neither.
        symlink(&outside, &folder).unwrap();
        let refused = |result: io::Result<String>| result.unwrap_err().to_string();
        assert_eq!(refused(read_beneath(&workspace)), linked().to_string());
        fs::remove_file(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        symlink(outside.join("security-config.json"), workspace.join(NESTED)).unwrap();
        assert_eq!(refused(read_beneath(&workspace)), linked().to_string());
        fs::remove_file(workspace.join(NESTED)).unwrap();
        fs::write(workspace.join(NESTED), "own").unwrap();
        assert_eq!(read_beneath(&workspace).unwrap(), "own");
    }
}
