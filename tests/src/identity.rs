//! Who runs a test: the unprivileged case is the main one, root the second.

use std::fs;
use std::io;
use std::process::Command;

use nix::unistd::{Gid, Uid};
use serde::{Deserialize, Serialize};

/// Who a test runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Identity {
    /// An ordinary user: `sjail-test` when the runner is root, else whoever
    /// started it.
    User,
    /// The superuser; only when the runner is root.
    Root,
}

impl Identity {
    /// The ordinary account the suites use when they are started by root.
    pub(crate) const ACCOUNT: &str = "sjail-test";

    /// The name of its account.
    pub fn account(self) -> io::Result<String> {
        let (uid, _) = self.ids()?;
        let accounts = fs::read_to_string("/etc/passwd")?;
        let named = accounts.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let own = fields.nth(1)?.parse::<u32>().ok()?;
            (own == uid.as_raw()).then(|| name.to_owned())
        });
        named.ok_or_else(|| io::Error::other(format!("/etc/passwd has no account {uid}")))
    }

    /// The word used on the command line and in listings.
    pub fn word(self) -> &'static str {
        match self {
            Identity::User => "user",
            Identity::Root => "root",
        }
    }

    /// The identity a word names.
    pub fn from_word(word: &str) -> Option<Identity> {
        match word {
            "user" => Some(Identity::User),
            "root" => Some(Identity::Root),
            _ => None,
        }
    }

    /// Those the runner can be, the ordinary user first.
    pub fn available() -> Vec<Identity> {
        if Uid::effective().is_root() {
            vec![Identity::User, Identity::Root]
        } else {
            vec![Identity::User]
        }
    }

    /// The ids to run with; makes the account when it is missing.
    pub fn ids(self) -> io::Result<(Uid, Gid)> {
        match self {
            Identity::User if Uid::effective().is_root() => match account()? {
                Some(ids) => Ok(ids),
                None => create_account(),
            },
            Identity::User | Identity::Root => Ok((Uid::effective(), Gid::effective())),
        }
    }
}

/// The account's ids, read from the file: a static program cannot ask NSS.
fn account() -> io::Result<Option<(Uid, Gid)>> {
    let accounts = fs::read_to_string("/etc/passwd")?;
    Ok(accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        (name == Identity::ACCOUNT).then_some((Uid::from_raw(uid), Gid::from_raw(gid)))
    }))
}

/// Makes the account, one process at a time: two that ask `useradd` at once can end with
/// an account whose home is somebody else's.
fn create_account() -> io::Result<(Uid, Gid)> {
    let turn = fs::File::create("/run/lock/sjail-test-account")?;
    turn.lock()?;
    if let Some(ids) = account()? {
        return Ok(ids);
    }
    let made = Command::new("useradd")
        .args(["--create-home", "--shell", "/bin/sh", Identity::ACCOUNT])
        .output()?;
    account()?.ok_or_else(|| {
        let said = String::from_utf8_lossy(&made.stderr);
        io::Error::other(format!(
            "useradd could not make the account {}: {said}",
            Identity::ACCOUNT
        ))
    })
}
