//! The host keys that the owner knows, of the hosts that a run may reach: what goes into the
//! jail's own `known_hosts`, and what the agent signs for.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use sjail_policy::host;
use sjail_policy::plan::Network;
use sjail_policy::shell::decode;

use super::digest;
use crate::net::gate::{Gate, Verdict};

/// No file of known hosts is longer.
const LONGEST: u64 = 8 << 20;

/// The port that a name without one means.
pub const SSH: u16 = 22;

/// A host and a key of its.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its canonical name, or its address.
    pub name: String,
    /// The port.
    pub port: u16,
    /// `ssh-ed25519` and the like.
    pub kind: String,
    /// The key as it is on the wire.
    pub blob: Vec<u8>,
    text: String,
}

/// The keys of the hosts that a network allows.
pub fn of(network: &Network, home: &Path) -> Vec<Known> {
    let files = [
        home.join(".ssh/known_hosts"),
        home.join(".ssh/known_hosts2"),
        PathBuf::from("/etc/ssh/ssh_known_hosts"),
    ];
    let read = |path: &PathBuf| {
        let meta = std::fs::metadata(path).ok()?;
        let fits = meta.is_file() && meta.len() <= LONGEST;
        fits.then(|| std::fs::read(path).ok()).flatten()
    };
    let text: Vec<u8> = files
        .iter()
        .filter_map(read)
        .collect::<Vec<_>>()
        .join(&b'\n');
    among(&String::from_utf8_lossy(&text), network)
}

/// A file of known hosts with these alone.
pub fn file(known: &[Known]) -> String {
    known
        .iter()
        .map(|known| {
            let place = place(&known.name, known.port);
            format!("{place} {} {}\n", known.kind, known.text)
        })
        .collect()
}

/// One line of the file.
struct Line<'a> {
    mark: Option<&'a str>,
    hosts: &'a str,
    kind: &'a str,
    text: &'a str,
    blob: Vec<u8>,
}

fn among(text: &str, network: &Network) -> Vec<Known> {
    let gate = Gate::new(network);
    let lines: Vec<Line<'_>> = text.lines().filter_map(Line::read).collect();
    // Names that a rule spells out may be hidden in the file; others must stand in it.
    let spelled = network
        .allow
        .iter()
        .filter_map(|host| Some((host.name()?.to_owned(), host.port()?)));
    let written = lines
        .iter()
        .flat_map(|line| line.hosts.split(','))
        .filter_map(spelled_out);
    let wanted: BTreeSet<(String, u16)> = spelled
        .chain(written)
        .filter(|(name, port)| is_allowed(&gate, name, *port))
        .collect();
    let mut known = Vec::new();
    for (name, port) in wanted {
        let place = place(&name, port);
        let own = || lines.iter().filter(|line| line.means(&place));
        let revoked: Vec<&[u8]> = own()
            .filter(|line| line.mark == Some("@revoked"))
            .map(|line| line.blob.as_slice())
            .collect();
        for line in own() {
            if line.mark.is_none() && !revoked.contains(&line.blob.as_slice()) {
                known.push(Known {
                    name: name.clone(),
                    port,
                    kind: line.kind.to_owned(),
                    blob: line.blob.clone(),
                    text: line.text.to_owned(),
                });
            }
        }
    }
    known
}

fn is_allowed(gate: &Gate, name: &str, port: u16) -> bool {
    let verdict = match name.parse::<IpAddr>() {
        Ok(address) => gate.address(address, port),
        Err(_) => gate.name(name, port),
    };
    verdict == Verdict::Allow
}

/// How a file of known hosts writes a host.
fn place(name: &str, port: u16) -> String {
    match port {
        SSH => name.to_owned(),
        port => format!("[{name}]:{port}"),
    }
}

/// The host in a pattern that is one.
fn spelled_out(pattern: &str) -> Option<(String, u16)> {
    let (name, port) = match pattern.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once("]:")?;
            (name, port.parse().ok()?)
        }
        None => (pattern, SSH),
    };
    match name.parse::<IpAddr>() {
        Ok(address) => Some((address.to_string(), port)),
        Err(_) => Some((host::canonical(name)?, port)),
    }
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Option<Line<'a>> {
        let mut words = line.split_ascii_whitespace();
        let mut first = words.next().filter(|word| !word.starts_with('#'))?;
        let mark = first.starts_with('@').then_some(first);
        if mark.is_some() {
            first = words.next()?;
        }
        let (kind, text) = (words.next()?, words.next()?);
        Some(Line {
            mark,
            hosts: first,
            kind,
            text,
            blob: decode::base64(text.as_bytes())?,
        })
    }

    /// Whether the line speaks of this host, in ssh's own way: a pattern with `!` wins.
    fn means(&self, place: &str) -> bool {
        if let Some(hidden) = self.hosts.strip_prefix("|1|") {
            return hides(hidden, place).unwrap_or(false);
        }
        let mut means = false;
        for pattern in self.hosts.split(',') {
            match pattern.strip_prefix('!') {
                Some(but) if fits(but.as_bytes(), place.as_bytes()) => return false,
                Some(_) => {}
                None => means |= fits(pattern.as_bytes(), place.as_bytes()),
            }
        }
        means
    }
}

/// Whether `SALT|HASH` is this host's.
fn hides(hidden: &str, place: &str) -> Option<bool> {
    let (salt, hash) = hidden.split_once('|')?;
    let (salt, hash) = (
        decode::base64(salt.as_bytes())?,
        decode::base64(hash.as_bytes())?,
    );
    Some(digest::hmac_sha1(&salt, place.as_bytes())?.as_slice() == hash)
}

/// `*` and `?`, without regard to case. No pattern goes back further than to its last `*`.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(at) {
        match pattern.get(from) {
            Some(b'*') => {
                star = Some((from, at));
                from += 1;
            }
            Some(own) if *own == b'?' || own.eq_ignore_ascii_case(byte) => {
                (at, from) = (at + 1, from + 1);
            }
            _ => match &mut star {
                Some((back, taken)) => {
                    *taken += 1;
                    (at, from) = (*taken, *back + 1);
                }
                None => return false,
            },
        }
    }
    pattern
        .get(from..)
        .is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
pub mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use sjail_policy::plan::{NetworkMode, Unlisted};

    fn network(allow: &[&str], deny: &[&str]) -> Network {
        let read = |list: &[&str]| list.iter().map(|host| host.parse().unwrap()).collect();
        Network {
            mode: NetworkMode::Filtered,
            allow: read(allow),
            deny: read(deny),
            unlisted: Unlisted::Refuse,
            unnamed: Default::default(),
            publish: Vec::new(),
            proxy: Default::default(),
            ssh_agent: Vec::new(),
        }
    }

    /// What a file has of the hosts that are allowed.
    pub fn known(text: &str, allow: &[&str]) -> Vec<Known> {
        among(text, &network(allow, &[]))
    }

    /// A name hidden as ssh-keygen -H hides it, with the salt `0…19`.
    fn hidden(name: &str) -> String {
        let salt: Vec<u8> = (0..20).collect();
        let hash = digest::hmac_sha1(&salt, name.as_bytes()).unwrap();
        let base64 = |bytes: &[u8]| format!("{}=", digest::base64(bytes));
        format!("|1|{}|{}", base64(&salt), base64(&hash))
    }

    fn names(text: &str, allow: &[&str], deny: &[&str]) -> Vec<String> {
        among(text, &network(allow, deny))
            .iter()
            .map(|known| format!("{}:{} {}", known.name, known.port, known.text))
            .collect()
    }

    #[test]
    fn only_allowed_hosts_are_known() {
        let text = format!(
            "# comment\ngit.test,10.0.0.1 ssh-ed25519 AAAA me\nevil.test ssh-ed25519 BBBB\n\
             [git.test]:2222 ssh-ed25519 CCCC\n{} ssh-rsa DDDD\n*.corp.test ssh-ed25519 EEEE\n\
             @cert-authority * ssh-ed25519 FFFF\nbroken\n",
            hidden("hidden.test")
        );
        let names = |allow: &[&str]| names(&text, allow, &[]);
        assert_eq!(names(&["git.test:22"]), ["git.test:22 AAAA"]);
        assert_eq!(names(&["git.test:2222"]), ["git.test:2222 CCCC"]);
        // Without the port, ssh is not reached.
        assert!(names(&["git.test", "*"]).is_empty());
        assert_eq!(names(&["hidden.test:22"]), ["hidden.test:22 DDDD"]);
        assert_eq!(names(&["a.corp.test:22"]), ["a.corp.test:22 EEEE"]);
        assert_eq!(names(&["10.0.0.0/8:22"]), ["10.0.0.1:22 AAAA"]);
        assert_eq!(
            names(&["*.test:22"]),
            ["evil.test:22 BBBB", "git.test:22 AAAA"]
        );
    }

    #[test]
    fn what_is_denied_or_revoked_is_not_known() {
        let text = "git.test ssh-ed25519 AAAA\ngit.test ssh-ed25519 BBBB\n\
            @revoked * ssh-ed25519 AAAA\n!bad.test,*.test ssh-ed25519 CCCC\n";
        assert_eq!(
            names(text, &["git.test:22"], &[]),
            ["git.test:22 BBBB", "git.test:22 CCCC"]
        );
        assert!(names(text, &["bad.test:22"], &[]).is_empty());
        assert!(names(text, &["git.test:22"], &["git.test"]).is_empty());
    }

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("?.TEST", "x.test", true),
            ("*.test", "test", false),
            ("*a*b", "xaxxbxb", true),
        ] {
            assert_eq!(
                fits(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern}"
            );
        }
    }
}
