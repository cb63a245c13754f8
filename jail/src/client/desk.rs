//! Whose broker is spoken to, and where it is found.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sjail_policy::wire::{REQUEST_SOCKET, sockets_folder};

use super::Trouble;
use crate::caller::{Account, State};
use crate::cli::RunArgs;
use crate::inside;

/// Whose broker, and where it is found.
#[derive(Debug, Clone)]
pub struct Desk {
    sockets: PathBuf,
    pub(super) spool: PathBuf,
    /// Whether we are in an agent's jail, where only requests can be made.
    pub(super) inside: bool,
    /// The account that this process has become (`--user`): the caller's variables are not
    /// this account's.
    become_of: Option<Account>,
}

impl Desk {
    /// The one for a run: the caller's, or that of the user whom the caller has become.
    pub fn of(args: &RunArgs, account: &Account) -> Desk {
        match args.user {
            None => Desk::own(account),
            Some(_) => Desk::of_other(account),
        }
    }

    /// The caller's own.
    pub fn own(account: &Account) -> Desk {
        let inside = inside::an_agents_jail();
        let variable = std::env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|folder| folder.is_absolute());
        Desk {
            sockets: match inside {
                true => PathBuf::from(inside::DESK),
                false => sockets_folder(variable, account.uid),
            },
            spool: State::of(account).path().join("spool"),
            inside,
            become_of: None,
        }
    }

    /// Whether we are in an agent's jail.
    pub fn is_inside(&self) -> bool {
        self.inside
    }

    /// The request socket, for an agent's jail.
    pub fn request_socket(&self) -> PathBuf {
        self.sockets.join(REQUEST_SOCKET)
    }

    /// That of the account that this process has become.
    pub fn of_other(account: &Account) -> Desk {
        Desk {
            sockets: sockets_folder(None, account.uid),
            spool: State::of(account).path().join("spool"),
            inside: false,
            become_of: Some(account.clone()),
        }
    }

    /// A socket in the folder, if that is ours alone.
    pub(super) fn socket(&self, name: &str) -> Result<PathBuf, Trouble> {
        if self.inside {
            // The jail's own root is nobody else's.
            return Ok(self.sockets.join(name));
        }
        let uid = nix::unistd::geteuid().as_raw();
        match fs::symlink_metadata(&self.sockets) {
            Ok(meta) if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o077 != 0 => {
                Err(Trouble::Said(format!(
                    "{} is not a folder of yours alone (mode 0700): somebody else may listen there",
                    self.sockets.display()
                )))
            }
            // Whoever starts the broker makes it.
            _ => Ok(self.sockets.join(name)),
        }
    }

    /// The broker's program with the variables of the account.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some(account) = &self.become_of {
            for name in [
                "XDG_RUNTIME_DIR",
                "XDG_STATE_HOME",
                "XDG_CONFIG_HOME",
                "XDG_DATA_HOME",
                "XDG_CACHE_HOME",
            ] {
                command.env_remove(name);
            }
            command
                .env("HOME", &account.home)
                .env("USER", &account.name)
                .env("LOGNAME", &account.name);
            if let Some(session) = self.sockets.parent()
                && session.starts_with("/run/user")
            {
                command.env("XDG_RUNTIME_DIR", session);
            }
        }
        command
    }
}
