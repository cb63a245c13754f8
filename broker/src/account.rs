//! Accounts: names and homes from the password file. The binary is static, so there
//! is no NSS; an account that only a directory service knows goes by its number.

use std::fs;
use std::path::PathBuf;

/// An account of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its number.
    pub uid: u32,
    /// Its name.
    pub name: String,
    /// Its home folder.
    pub home: PathBuf,
    /// Where it keeps configuration.
    pub config: PathBuf,
}

impl Account {
    /// The account that this process runs under.
    pub fn own() -> Account {
        let uid = nix::unistd::geteuid().as_raw();
        let listed = listed(uid);
        let variable = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let home = variable("HOME")
            .or_else(|| listed.as_ref().map(|(_, home)| home.clone()))
            .unwrap_or_else(|| PathBuf::from("/"));
        Account {
            uid,
            name: listed.map_or_else(|| format!("u{uid}"), |(name, _)| name),
            config: variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            home,
        }
    }
}

/// The name of an account.
pub fn name_of(uid: u32) -> String {
    listed(uid).map_or_else(|| format!("u{uid}"), |(name, _)| name)
}

fn listed(uid: u32) -> Option<(String, PathBuf)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number: u32 = fields.nth(1)?.parse().ok()?;
        let home = fields.nth(2)?;
        (number == uid).then(|| (name.to_owned(), PathBuf::from(home)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_listed_and_others_go_by_their_number() {
        assert_eq!(name_of(0), "root");
        assert_eq!(name_of(3_999_999_999), "u3999999999");
    }
}
