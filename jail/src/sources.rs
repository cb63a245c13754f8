//! Gathering the policy: the system's file, the user's, the workspace's.
//!
//! Usually none of them exists, and then this costs four looks.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

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
        if let Some((_, text)) = read(&path, libc::O_NOFOLLOW)? {
            not_through_a_link(workspace, &path)?;
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

/// A folder between the workspace and a policy of its own must not be a link either.
fn not_through_a_link(workspace: &Path, policy: &Path) -> Result<(), Error> {
    let between = policy.ancestors().skip(1);
    let mut between = between.take_while(|folder| *folder != workspace);
    match between.any(Path::is_symlink) {
        true => Err(Error::PolicyFile {
            path: policy.to_owned(),
            error: std::io::Error::other("it lies in a folder that is a link"),
        }),
        false => Ok(()),
    }
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
    Ok(read(&path, libc::O_NOFOLLOW)?.map(|(_, text)| PolicyFile {
        path: path.into(),
        text,
        holders: vec![holder],
    }))
}

fn trusted(path: &Path, account: &Account) -> Result<Option<PolicyFile>, Error> {
    let Some((_, text)) = read(path, 0)? else {
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

/// A regular file's contents; `None` when there is no such file. In a workspace a link is not
/// followed: a project must not name files of its reader for sjail to quote from.
fn read(path: &Path, link_flag: i32) -> Result<Option<(Metadata, Vec<u8>)>, Error> {
    let failed = |error| Error::PolicyFile {
        path: path.to_owned(),
        error,
    };
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | link_flag)
        .open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err(failed(std::io::Error::other("it is not a regular file")));
    }
    let mut text = Vec::new();
    // One byte more than allowed, so that the reader of the text can say it is too long.
    file.take(MAX_FILE as u64 + 1)
        .read_to_end(&mut text)
        .map_err(failed)?;
    Ok(Some((meta, text)))
}

impl Account {
    /// `$XDG_CONFIG_HOME`, by default `~/.config`.
    pub fn config_home(&self) -> PathBuf {
        self.config_home
            .clone()
            .unwrap_or_else(|| self.home.join(".config"))
    }
}
