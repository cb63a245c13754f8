//! What programs write when they fail, and what it means in a jail.

use sjail_policy::plan::{Memory, NetworkMode, Plan};

use super::path::{Words, in_line, not_there, not_writable};
use super::{Denial, Kind, NETWORK, host, network};

/// More than this is a wall of text.
const MOST: usize = 8;

/// What the lines that a command has written complain about.
pub fn explain(text: &str, plan: &Plan) -> Vec<Denial> {
    let mut found: Vec<Denial> = Vec::new();
    let mut before = "";
    for line in text.lines() {
        for denial in of_line(line, before, plan) {
            if !found.contains(&denial) {
                found.push(denial);
            }
        }
        if !line.trim().is_empty() {
            before = line;
        }
    }
    // Who wants to be root would not be helped by the files that only root has, and one
    // named host says more than "the network".
    let has = |test: fn(&Denial) -> bool| found.iter().any(test);
    let wants_root = has(|denial| denial.kind == Kind::Privilege);
    let names_host = has(|denial| denial.kind == Kind::Network && denial.what != NETWORK);
    found.retain(|denial| match denial.kind {
        Kind::PathMissing | Kind::PathReadOnly => !wants_root,
        Kind::Network => !names_host || denial.what != NETWORK,
        _ => true,
    });
    found.truncate(MOST);
    found
}

/// What programs write when a call fails, in the C library's words, and what a plain shell
/// makes of it.
const NOT_THERE: [&str; 3] = [
    "No such file or directory",
    "Directory nonexistent",
    "ENOENT",
];
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

/// What programs write that want to be root, or a service of the host's, and what to say.
const PRIVILEGES: [(&[&str], &str, &str); 4] = [
    (
        &[
            "are you root",
            "must be root",
            "must be run as root",
            "must be superuser",
            "must be the superuser",
            "need to be root",
            "needs to be run as root",
            "Only root",
            "only root",
            "requires root",
            "requires superuser",
            "no new privileges",
            "effective uid is not 0",
            "cannot lock /etc/passwd",
        ],
        "root",
        "this needs root, and no command in a jail is or becomes root; run it outside, or by itself as `sjail run -- sudo …`, which asks where the policy has [elevated] enabled = true",
    ),
    (
        &[
            "Cannot connect to the Docker daemon",
            "docker.sock",
            "Cannot connect to Podman",
            "containerd.sock",
        ],
        "containers",
        "the containers' daemon is not in the jail: who reaches its socket is root on the host; run it outside, or by itself as `sjail run -- docker …`, which asks where the policy has [elevated] enabled = true",
    ),
    (
        &[
            "booted with systemd",
            "Failed to connect to bus",
            "Failed to connect to system scope bus",
            "Failed to connect to user scope bus",
            "message bus",
            "Cannot autolaunch D-Bus",
        ],
        "bus",
        "the jail has neither the system's nor the session's bus: services of the host cannot be asked from it; run it outside",
    ),
    (
        &["changing ownership of", "changing group of"],
        "owner",
        "only your own user and group exist in the jail: files cannot be given to others",
    ),
];

/// A privilege that a line complains about.
fn privilege(line: &str) -> Option<Denial> {
    let (_, what, why) = PRIVILEGES
        .iter()
        .find(|(words, ..)| words.iter().any(|words| line.contains(words)))?;
    Some(Denial {
        kind: Kind::Privilege,
        what: (*what).to_owned(),
        why: (*why).to_owned(),
        flag: None,
        policy: None,
    })
}

/// A port that a line, or the one before it, says cannot be had.
fn port(line: &str, before: &str) -> Option<Denial> {
    let denied = line.contains("Permission denied") || line.contains("permission denied");
    let about = |line: &str| {
        ["bind(", "bind:", "listen EACCES", "bind: "]
            .iter()
            .any(|words| line.contains(words))
    };
    (denied && (about(line) || about(before))).then(|| Denial {
        kind: Kind::Privilege,
        what: "port".into(),
        why:
            "ports below 1024 are root's, and no command in a jail is root; use a port from 1024 on"
                .into(),
        flag: None,
        policy: None,
    })
}

/// A server that a line says is not there, on what it takes for this machine.
fn nobody_at_home(line: &str, plan: &Plan) -> Option<Denial> {
    let refused = line.contains("onnection refused") || line.contains("ECONNREFUSED");
    let home = ["localhost", "127.0.0.1", "::1"];
    let here = home.iter().any(|name| line.contains(name));
    (refused && here && plan.network.mode != NetworkMode::Host).then(|| Denial {
        kind: Kind::Network,
        what: "localhost".into(),
        why: "nobody answers at localhost: the jail has one of its own, and the servers of the host are not on it".into(),
        flag: Some("--net host".into()),
        policy: Some("[network] mode = \"host\"".into()),
    })
}

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

fn of_line(line: &str, before: &str, plan: &Plan) -> Vec<Denial> {
    if plan.network.mode == NetworkMode::None && NO_NETWORK.iter().any(|words| line.contains(words))
    {
        return vec![network(host::named_in(line).as_deref())];
    }
    let special = privilege(line).or_else(|| port(line, before));
    if let Some(denial) = special.or_else(|| nobody_at_home(line, plan)) {
        return vec![denial];
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
    let absent = NOT_THERE.iter().any(|words| line.contains(words));
    if !closed && !absent {
        return Vec::new();
    }
    let cwd = plan.command.cwd.as_path();
    if closed {
        let found: Vec<Denial> = in_line(line, cwd, Words::All)
            .iter()
            .filter_map(|path| not_writable(path, plan))
            .collect();
        // Not a file: a call that the filter or the lack of capabilities refuses.
        return match found.is_empty() && line.contains("Operation not permitted") {
            true => vec![not_permitted()],
            false => found,
        };
    }
    in_line(line, cwd, Words::WithSlash)
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn privileges_are_found_in_what_programs_say() {
        let met = |line: &str| {
            privilege(line)
                .map(|denial| denial.what)
                .unwrap_or_default()
        };
        for (line, what) in [
            ("mount: /tmp: must be superuser to use mount.", "root"),
            (
                "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?",
                "root",
            ),
            (
                "sudo: The \"no new privileges\" flag is set, which prevents sudo from running as root.",
                "root",
            ),
            ("hostname: you must be root to change the host name", "root"),
            (
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
                "containers",
            ),
            ("Failed to connect to bus: No medium found", "bus"),
            (
                "chown: changing ownership of 'l': Invalid argument",
                "owner",
            ),
            ("cat: x: No such file or directory", ""),
        ] {
            assert_eq!(met(line), what, "{line}");
        }
        let bind = "    self.socket.bind(self.server_address)";
        assert!(port("PermissionError: [Errno 13] Permission denied", bind).is_some());
        assert!(
            port(
                "nginx: [emerg] bind() to 0.0.0.0:80 failed (13: Permission denied)",
                ""
            )
            .is_some()
        );
        assert!(port("Error: listen EACCES: permission denied 0.0.0.0:80", "").is_some());
        assert!(port("cat: x: Permission denied", "reading").is_none());
    }
}
