//! What the jail refused, said when the command has failed or its time was up: one line each,
//! with the flag that would allow it.
//!
//! Nothing here costs a command that succeeds anything. Two recorders are there anyway:
//! the counters of the jail's own network, and the end of what the command wrote to the
//! terminal or into `--json`. A program says itself which file it could not open; whether
//! the jail is the reason is then looked up on the host.

mod host;
mod line;
mod path;

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::poll::PollFlags;
use serde::Serialize;
use sjail_policy::plan::{NetworkMode, Plan};
use sjail_policy::show;

use crate::observe::Refused;
use crate::spawn::Jail;
use crate::supervise::{Guard, Notice};

pub use path::{not_there, not_writable};

/// Something that the jail refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Denial {
    /// What kind of thing.
    pub kind: Kind,
    /// The path, host or call.
    pub what: String,
    /// In one sentence, what happened.
    pub why: String,
    /// The flag that would allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flag: Option<String>,
    /// The line in a policy file that would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// What was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A path of the host that is not in the jail.
    PathMissing,
    /// A path that is read-only in the jail.
    PathReadOnly,
    /// A name that is protected.
    Protected,
    /// The network.
    Network,
    /// A system call.
    SystemCall,
    /// More of something than the jail may use.
    Limit,
    /// Being root, or asking a service of the host that is.
    Privilege,
}

impl Denial {
    /// One line for people and agents.
    pub fn sentence(&self) -> String {
        let allow = match (&self.flag, &self.policy) {
            (Some(flag), Some(policy)) => {
                format!("; to allow it: {flag}, or in a policy file {policy}")
            }
            (Some(flag), None) => format!("; to allow it: {flag}"),
            (None, _) => String::new(),
        };
        format!(
            "refused: {}{}",
            show::inert(self.why.as_bytes()),
            show::inert(allow.as_bytes())
        )
    }
}

/// Watches what can be watched for nothing.
#[derive(Debug, Default)]
pub struct Recorder {
    counters: Vec<File>,
}

impl Recorder {
    /// Whether the jail's network turned something away.
    fn network_refused(mut self) -> bool {
        self.counters.iter_mut().any(|file| {
            let mut text = String::new();
            file.read_to_string(&mut text).is_ok() && turned_away(&text)
        })
    }
}

impl Guard for Recorder {
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        None
    }

    fn notice(&mut self, _: &Jail) -> Notice {
        Notice::GoOn
    }

    /// Opened while the command already runs; the files stay those of the jail's network
    /// when the jail is gone.
    fn started(&mut self, jail: &Jail) {
        // Without a network of the jail's own these would count the host's.
        if jail.spaces.is_none() {
            return;
        }
        self.counters = ["snmp", "snmp6"]
            .iter()
            .filter_map(|name| File::open(format!("/proc/{}/net/{name}", jail.pid)).ok())
            .collect();
    }
}

/// The counters of packets that had nowhere to go: a jail without a network has no route,
/// and nobody answers at its own port 53.
fn turned_away(text: &str) -> bool {
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut words = line.split_whitespace();
        let count = match words.next() {
            Some("Ip6OutNoRoutes" | "Udp6NoPorts") => words.next(),
            Some(group @ ("Ip:" | "Udp:")) => {
                let values = lines.next().unwrap_or_default();
                let wanted = if group == "Ip:" {
                    "OutNoRoutes"
                } else {
                    "NoPorts"
                };
                let at = line.split_whitespace().position(|name| name == wanted);
                at.and_then(|at| values.split_whitespace().nth(at))
            }
            _ => None,
        };
        if count.is_some_and(|count| count != "0") {
            return true;
        }
    }
    false
}

/// What the jail refused a command that has failed. `tail` is the end of what it wrote.
pub fn explain(plan: &Plan, recorder: Recorder, tail: &[u8]) -> Vec<Denial> {
    let text = String::from_utf8_lossy(tail);
    let mut found = line::explain(&text, plan);
    let named = found.iter().any(|denial| denial.kind == Kind::Network);
    if plan.network.mode == NetworkMode::None && !named && recorder.network_refused() {
        found.push(network(None));
    }
    found
}

/// A system call that the filter refuses, by name.
pub fn refused_call(call: &Refused) -> Denial {
    let name = match call.name {
        Some(name) => name.to_owned(),
        None => format!("system call {}", call.number),
    };
    let errno = Errno::from_raw(call.errno);
    Denial {
        why: format!("{name} is answered with {errno:?}: {}", call.reason),
        kind: Kind::SystemCall,
        what: name,
        flag: None,
        policy: None,
    }
}

/// What was refused where no host is named.
const NETWORK: &str = "network";

/// The narrow way: the one host that a command needs, where it says which.
fn network(host: Option<&str>) -> Denial {
    let what = host.unwrap_or("the network");
    let name = host.unwrap_or("NAME");
    Denial {
        kind: Kind::Network,
        what: host.unwrap_or(NETWORK).to_owned(),
        why: format!("the command tried to reach {what}, and the jail has no network"),
        flag: Some(format!("--allow-host {name}")),
        policy: Some(format!(
            "[network] mode = \"filtered\", allow = [\"{name}\"]"
        )),
    }
}

/// An address that the jail has no way to. Who asks for names wants a host, not a server of
/// names.
pub fn unreachable(place: SocketAddr, plan: &Plan) -> Option<Denial> {
    let host = match place.port() {
        53 => "NAME".to_owned(),
        80 | 443 => place.ip().to_string(),
        _ => place.to_string(),
    };
    let (address, port) = (place.ip(), place.port());
    (plan.network.mode == NetworkMode::None).then(|| Denial {
        kind: Kind::Network,
        what: format!("{address} port {port}"),
        why: format!(
            "a connection to {address} port {port} was tried, and the jail has no network"
        ),
        flag: Some(format!("--allow-host {host}")),
        policy: Some(format!(
            "[network] mode = \"filtered\", allow = [\"{host}\"]"
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_network_without_routes() {
        let idle = "Ip: Forwarding OutNoRoutes\nIp: 2 0\nUdp: InDatagrams NoPorts\nUdp: 0 0\n";
        let tried = "Ip: Forwarding OutNoRoutes\nIp: 2 3\n";
        let asked = "Udp: InDatagrams NoPorts\nUdp: 0 4\n";
        assert!(!turned_away(idle));
        assert!(turned_away(tried));
        assert!(turned_away(asked));
        assert!(turned_away("Ip6OutNoRoutes                  \t1\n"));
        assert!(!turned_away("Ip6OutNoRoutes                  \t0\n"));
    }
}
