//! The hosts that somebody has allowed for good for one package manager: they are its group,
//! wherever its own settings name no registry and no policy file has a group of its name.

use std::sync::{PoisonError, RwLock};

use serde_json::Value;
use sjail_policy::bytes::ByteString;
use sjail_policy::host::HostPattern;

/// An install whose settings name no registry; what follows is a mark and the client's name.
const INSTALL: &str = "--install-host=";
/// A group of hosts on the command line.
const GROUP: &str = "--allow-host=@";
/// The marks: its group or nobody, its group or somebody is asked.
const MARKS: [char; 2] = ['@', '?'];

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    /// The package manager's name.
    pub client: String,
    /// The host, with its port.
    pub host: HostPattern,
    /// Until when, in seconds.
    pub expires: i64,
}

/// All of them, as they are now.
#[derive(Debug, Default)]
pub struct Registries(RwLock<Vec<Registry>>);

impl Registries {
    /// Takes over what holds now.
    pub fn replace(&self, registries: Vec<Registry>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = registries;
    }

    /// The options of a run, with the hosts that are known for the package managers they name.
    /// A group that a policy file has means what the file says.
    pub fn fill_in(
        &self,
        options: &[ByteString],
        now: i64,
        in_policy: impl Fn(&str) -> bool,
    ) -> Vec<ByteString> {
        let mut filled = Vec::new();
        for option in options {
            let hosts = |client: &str, flag: &str| -> Vec<ByteString> {
                let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
                known
                    .iter()
                    .filter(|own| own.client == client && own.expires > now)
                    .map(|own| format!("{flag}={}", own.host).as_str().into())
                    .collect()
            };
            let text = std::str::from_utf8(option.as_bytes()).unwrap_or_default();
            if let Some(client) = client(text)
                && !in_policy(client)
            {
                filled.extend(hosts(client, "--install-host"));
            } else if let Some(client) = text.strip_prefix(GROUP)
                && !in_policy(client)
            {
                let hosts = hosts(client, "--allow-host");
                if !hosts.is_empty() {
                    filled.extend(hosts);
                    continue;
                }
            }
            filled.push(option.clone());
        }
        filled
    }
}

/// The package manager that a run is about, by its options; with several it is none.
pub fn only_client(options: &Value) -> Option<String> {
    let mut clients: Vec<&str> = options
        .as_array()?
        .iter()
        .filter_map(|option| client(option.as_str()?))
        .collect();
    clients.sort_unstable();
    clients.dedup();
    match clients.as_slice() {
        [one] => Some((*one).to_owned()),
        _ => None,
    }
}

fn client(option: &str) -> Option<&str> {
    option.strip_prefix(INSTALL)?.strip_prefix(MARKS)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn filled(options: &[&str], in_policy: &str) -> Vec<String> {
        let known = |client: &str, host: &str, expires| Registry {
            client: client.to_owned(),
            host: host.parse().unwrap(),
            expires,
        };
        let registries = Registries::default();
        registries.replace(vec![
            known("npm", "reg.test:443", 100),
            known("npm", "old.test:443", 10),
            known("pip", "pip.test:443", 100),
        ]);
        let options: Vec<ByteString> = options.iter().map(|option| (*option).into()).collect();
        registries
            .fill_in(&options, 50, |name| name == in_policy)
            .iter()
            .map(|option| String::from_utf8_lossy(option.as_bytes()).into_owned())
            .collect()
    }

    #[test]
    fn a_client_gets_its_own_hosts() {
        assert_eq!(
            filled(&["--install-host=?npm"], ""),
            ["--install-host=reg.test:443", "--install-host=?npm"]
        );
        assert_eq!(
            filled(&["--allow-host=@npm", "--timeout=5s"], ""),
            ["--allow-host=reg.test:443", "--timeout=5s"]
        );
        for unchanged in [
            "--install-host=@cargo",
            "--allow-host=@own",
            "--allow-host=npm",
        ] {
            assert_eq!(filled(&[unchanged], ""), [unchanged]);
        }
        for theirs in ["--install-host=@npm", "--allow-host=@npm"] {
            assert_eq!(filled(&[theirs], "npm"), [theirs]);
        }
    }

    #[test]
    fn one_client_or_none() {
        let of = |options: &[&str]| only_client(&serde_json::json!(options));
        assert_eq!(of(&["--install-host=?npm"]), Some("npm".to_owned()));
        assert_eq!(
            of(&["--install-host=@pip", "--install-host=@pip"]),
            Some("pip".to_owned())
        );
        assert_eq!(of(&["--install-host=?npm", "--install-host=?pip"]), None);
        assert_eq!(of(&["--install-host=reg.test:443", "--net=filtered"]), None);
    }
}
