//! What the jail refused, said when the command has failed: one line each, with the flag
//! that would allow it.
//!
//! Nothing here costs a command that succeeds anything. Two recorders are there anyway:
//! the counters of the jail's own network, and the end of what the command wrote to the
//! terminal or into `--json`. A program says itself which file it could not open; whether
//! the jail is the reason is then looked up on the host.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::poll::PollFlags;
use serde::Serialize;
use sjail_policy::host;
use sjail_policy::plan::{Memory, NetworkMode, Plan};
use sjail_policy::protect;
use sjail_policy::show;

use crate::observe::Refused;
use crate::spawn::Jail;
use crate::supervise::{Guard, Notice};

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
    let mut found: Vec<Denial> = Vec::new();
    let mut add = |denial: Denial| {
        if found.len() < MOST && !found.contains(&denial) {
            found.push(denial);
        }
    };
    let text = String::from_utf8_lossy(tail);
    for line in text.lines() {
        for denial in of_line(line, plan) {
            add(denial);
        }
    }
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

/// More than this is a wall of text.
const MOST: usize = 8;

/// The narrow way: the one host that a command needs, where it says which.
fn network(host: Option<&str>) -> Denial {
    let what = host.unwrap_or("the network");
    let name = host.unwrap_or("NAME");
    Denial {
        kind: Kind::Network,
        what: host.unwrap_or("network").to_owned(),
        why: format!("the command tried to reach {what}, and the jail has no network"),
        flag: Some(format!("--allow-host {name}")),
        policy: Some(format!(
            "[network] mode = \"filtered\", allow = [\"{name}\"]"
        )),
    }
}

/// The host that a line complains about: behind `host:`, in a URL, or the last word that can
/// be nothing else.
fn host_in(line: &str) -> Option<String> {
    let around = |c: char| c.is_whitespace() || "'\"`‘’“”,;()<>[]{}=|".contains(c);
    let bare = |word: &str| {
        let word = word.trim_matches([':', '.', '!', '?']);
        let word = word.split_once("://").map_or(word, |(_, rest)| rest);
        let word = word.split(['/', '?', '#']).next().unwrap_or_default();
        let word = word.rsplit('@').next().unwrap_or_default();
        let (name, port) = word.split_once(':').unwrap_or((word, ""));
        let name = host::canonical(name).filter(|name| name.contains('.'))?;
        Some(match port {
            "" | "80" | "443" => name,
            port if port.bytes().all(|byte| byte.is_ascii_digit()) => format!("{name}:{port}"),
            _ => name,
        })
    };
    let after = line.split_once("resolve host").map(|(_, rest)| rest);
    let named = after.and_then(|rest| rest.split(around).find_map(bare));
    let url = || {
        line.split(around)
            .filter(|w| w.contains("://"))
            .find_map(bare)
    };
    // The first word says who complains: a program, or the class of an error.
    let last = || {
        let words: Vec<&str> = line.split(around).skip(1).collect();
        words.into_iter().rev().find_map(bare)
    };
    named.or_else(url).or_else(last)
}

/// What programs write when a call fails, in the C library's words.
const NOT_THERE: &str = "No such file or directory";
const CLOSED: [&str; 4] = [
    "Read-only file system",
    "Permission denied",
    "Operation not permitted",
    "Device or resource busy",
];
const NO_NETWORK: [&str; 7] = [
    "Network is unreachable",
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Name or service not known",
    "ENETUNREACH",
    "EAI_AGAIN",
    "network is unreachable",
];

/// What programs write when they meet a limit, and the flag that moves it.
const LIMITS: [(&[&str], &str, &str); 4] = [
    (
        &[
            "Cannot allocate memory",
            "MemoryError",
            "std::bad_alloc",
            "out of memory",
            "Out of memory",
            "OutOfMemoryError",
            "memory allocation of",
        ],
        "memory",
        "--memory",
    ),
    (
        &[
            "Resource temporarily unavailable",
            "Cannot fork",
            "can't fork",
            "cannot fork",
            "can't start new thread",
            "unable to create native thread",
        ],
        "pids",
        "--pids",
    ),
    (&["No space left on device"], "tmp", "--tmp-size"),
    (&["Too many open files"], "descriptors", ""),
];

/// A limit that a line complains about, with what it stands at.
fn limit(line: &str, plan: &Plan) -> Option<Denial> {
    let (_, what, flag) = LIMITS
        .iter()
        .find(|(words, ..)| words.iter().any(|words| line.contains(words)))?;
    let limits = &plan.limits;
    let (why, value) = match *what {
        "memory" => {
            let why = match limits.memory? {
                Memory::Bytes(size) => format!("the jail may use {size} of memory"),
                Memory::OfMachine(share) => {
                    format!("the jail may use {share} of the machine's memory")
                }
            };
            (why, "2G")
        }
        "pids" => {
            let pids = limits.pids?;
            let why = format!("the jail may have {pids} processes and threads at once");
            (why, "1024")
        }
        "tmp" => {
            let tmp = limits.tmp?;
            let why = format!("if that was in /tmp or /var/tmp: they hold {tmp} together");
            (why, "4G")
        }
        _ => {
            let why = "a process in the jail may have only so many descriptors (ulimit -n)";
            (why.to_owned(), "")
        }
    };
    let policy = match *what {
        "descriptors" => None,
        what => Some(format!("[limits] {what} = …")),
    };
    Some(Denial {
        kind: Kind::Limit,
        what: (*what).to_owned(),
        why,
        flag: (!flag.is_empty()).then(|| format!("{flag} {value}, say")),
        policy,
    })
}

fn of_line(line: &str, plan: &Plan) -> Vec<Denial> {
    if plan.network.mode == NetworkMode::None && NO_NETWORK.iter().any(|words| line.contains(words))
    {
        return vec![network(host_in(line).as_deref())];
    }
    if line.contains("could not write config file") && line.contains("Device or resource busy") {
        return vec![Denial {
            kind: Kind::Protected,
            what: ".git/config".into(),
            why: ".git/config is read-only in a run of more than one command; a git command that writes it works by itself".into(),
            flag: Some("sjail run -- git … (that one command alone)".into()),
            policy: None,
        }];
    }
    if line.contains("Function not implemented") {
        return vec![Denial {
            kind: Kind::SystemCall,
            what: "system call".into(),
            why: "a system call that jails do not have was refused (Function not implemented)"
                .into(),
            flag: None,
            policy: None,
        }];
    }
    if let Some(limit) = limit(line, plan) {
        return vec![limit];
    }
    let closed = CLOSED.iter().any(|words| line.contains(words)) || line.contains("EROFS");
    let absent = line.contains(NOT_THERE) || line.contains("ENOENT");
    if !closed && !absent {
        return Vec::new();
    }
    let cwd = plan.command.cwd.as_path();
    if closed {
        let found: Vec<Denial> = paths(line, cwd, Words::All)
            .iter()
            .filter_map(|path| not_writable(path, plan))
            .collect();
        // Not a file: a call that the filter or the lack of capabilities refuses.
        return match found.is_empty() && line.contains("Operation not permitted") {
            true => vec![not_permitted()],
            false => found,
        };
    }
    paths(line, cwd, Words::WithSlash)
        .iter()
        .filter_map(|path| not_there(path, plan))
        .collect()
}

/// A refusal that names no file.
fn not_permitted() -> Denial {
    Denial {
        kind: Kind::SystemCall,
        what: "system call".into(),
        why: "a system call was refused (Operation not permitted): the command has no capabilities, and jails have no mounts, namespaces or tracing of others; sjail run --trace says which call".into(),
        flag: None,
        policy: None,
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

/// A path that the host has and the jail does not.
pub fn not_there(path: &Path, plan: &Plan) -> Option<Denial> {
    let home = plan.home.path.as_path();
    if path.starts_with(plan.workspace.path.as_path()) || path == home {
        return None;
    }
    std::fs::symlink_metadata(path).ok()?;
    let shown = path.display().to_string();
    Some(Denial {
        kind: Kind::PathMissing,
        why: format!("{shown} is on the host but not in the jail"),
        flag: Some(format!("--ro {shown}")),
        policy: Some(format!("[filesystem] read = [\"{shown}\"]")),
        what: shown,
    })
}

/// A path that may not be changed.
pub fn not_writable(path: &Path, plan: &Plan) -> Option<Denial> {
    let shown = path.display().to_string();
    let workspace = plan.workspace.path.as_path();
    if let Ok(below) = path.strip_prefix(workspace) {
        let names: Vec<&str> = plan
            .filesystem
            .protect
            .names
            .iter()
            .filter_map(|name| name.to_str())
            .collect();
        let (name, _) = protect::covering(below.to_str()?, &names)?;
        return Some(Denial {
            kind: Kind::Protected,
            why: format!(
                "{shown} is protected ({name}): what is in it runs code on the host later"
            ),
            flag: None,
            policy: None,
            what: shown,
        });
    }
    if path.is_relative() || !path.parent()?.is_dir() {
        return None;
    }
    Some(Denial {
        kind: Kind::PathReadOnly,
        why: format!("{shown} cannot be changed from the jail"),
        flag: Some(format!("--rw {shown}")),
        policy: Some(format!("[filesystem] write = [\"{shown}\"]")),
        what: shown,
    })
}

/// Which words of a line may be paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    /// Those with a slash in them.
    WithSlash,
    /// Any: what is no protected name in the workspace comes to nothing.
    All,
}

/// The paths that a line mentions: words without what stands around them. Relative ones
/// count from where the command started.
fn paths(line: &str, cwd: &Path, words: Words) -> Vec<PathBuf> {
    let around = |c: char| c.is_whitespace() || "'\"`‘’“”,;()<>[]{}=|".contains(c);
    line.split(around)
        .map(|word| word.trim_matches([':', '!', '?']))
        .filter(|word| word.contains('/') || words == Words::All)
        .filter(|word| !word.contains("://") && word.len() > 1)
        .filter(|word| !word.contains('\u{fffd}') && !word.chars().any(char::is_control))
        .filter_map(|word| sjail_policy::git_keys::normal(&cwd.join(word)))
        .take(16)
        .collect()
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

    #[test]
    fn the_host_is_found_in_what_programs_say() {
        for (line, host) in [
            (
                "curl: (6) Could not resolve host: www.example.org",
                "www.example.org",
            ),
            (
                "fatal: unable to access 'https://git.example.org/a.git/': Could not resolve host: git.example.org",
                "git.example.org",
            ),
            (
                "npm error request to https://reg.example.org:4873/tiny failed, reason: getaddrinfo EAI_AGAIN reg.example.org",
                "reg.example.org:4873",
            ),
            (
                "ping: a.test: Temporary failure in name resolution",
                "a.test",
            ),
            ("connect to 203.0.113.7: Network is unreachable", ""),
            ("Name or service not known", ""),
            (
                "socket.gaierror: [Errno -3] Temporary failure in name resolution",
                "",
            ),
            (
                "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
                "",
            ),
        ] {
            assert_eq!(host_in(line).unwrap_or_default(), host, "{line}");
        }
    }

    #[test]
    fn limits_are_found_in_what_programs_say() {
        let met = |line: &str| {
            let found = LIMITS
                .iter()
                .find(|(words, ..)| words.iter().any(|words| line.contains(words)));
            found.map_or("", |(_, what, _)| what)
        };
        for (line, what) in [
            ("MemoryError", "memory"),
            ("cc1plus: out of memory allocating 65536 bytes", "memory"),
            ("sh: 0: Cannot fork", "pids"),
            (
                "bash: fork: retry: Resource temporarily unavailable",
                "pids",
            ),
            ("tee: /tmp/x: No space left on device", "tmp"),
            ("cat: x: Too many open files", "descriptors"),
            ("cat: x: No such file or directory", ""),
        ] {
            assert_eq!(met(line), what, "{line}");
        }
    }

    #[test]
    fn paths_are_found_in_what_programs_say() {
        for (line, path) in [
            ("cat: /opt/x/y: No such file or directory", "/opt/x/y"),
            (
                "sh: 1: cannot create /etc/x: Read-only file system",
                "/etc/x",
            ),
            (
                "Error: ENOENT: no such file or directory, open '/opt/x'",
                "/opt/x",
            ),
            ("open(\"/a/b\") failed", "/a/b"),
            ("touch: cannot touch 'sub/f': Permission denied", "/w/sub/f"),
            ("cp: ../up/x: denied", "/up/x"),
        ] {
            let found = paths(line, Path::new("/w"), Words::WithSlash);
            assert_eq!(found, [Path::new(path)], "{line}");
        }
        let words = "see https://example.org/x";
        assert!(paths(words, Path::new("/w"), Words::WithSlash).is_empty());
    }
}
