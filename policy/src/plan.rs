//! What the jail must enforce for one command: declarative, complete, and the
//! same on both sides of a socket. A plan names things; the jail resolves them.
//!
//! Every path in a plan is absolute, `~` and the workspace are already filled in.

use serde::{Deserialize, Serialize};

use crate::bytes::ByteString;
use crate::duration::Duration;
use crate::size::{Percent, Size};

/// One run: the command and everything that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The name of the profile that the defaults came from.
    pub profile: String,
    /// What is run.
    pub command: Command,
    /// Whose identity the command has inside.
    pub user: User,
    /// The project folder.
    pub workspace: Workspace,
    /// What else of the host is seen.
    pub filesystem: Filesystem,
    /// The private home folder.
    pub home: Home,
    /// What can be reached over the network.
    pub network: Network,
    /// What may be used up.
    pub limits: Limits,
    /// Which variables the command gets.
    pub environment: Environment,
    /// What happens when a layer cannot be had.
    pub degraded: Degraded,
    /// Whether the broker's request socket is inside: an agent can ask, never answer.
    #[serde(default)]
    pub desk: Desk,
    /// Who shares the private home, tmp and caches; absent where they are the run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Whether the broker can be asked from inside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Desk {
    /// Nothing of the broker is inside.
    #[default]
    Absent,
    /// Its request socket is, and nothing else of it.
    Requests,
}

/// A sandbox that outlives the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// `session`, `agent` or `shared`.
    pub scope: crate::config::Scope,
    /// The session's or agent's name: a claim.
    pub name: String,
}

/// The command itself. Argv and paths are bytes, they need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program and its arguments, as typed; never empty.
    pub argv: Vec<ByteString>,
    /// Where it starts.
    pub cwd: ByteString,
    /// The file that `argv[0]` was resolved to, where that has been done; the
    /// jail resolves it inside its own view otherwise.
    pub program: Option<ByteString>,
    /// The complete environment, in order; set when [`Environment`] has been
    /// applied to the caller's variables (see [`Environment::apply`]).
    pub env: Vec<Variable>,
}

/// One environment entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// The part before the first `=`.
    pub name: ByteString,
    /// The part behind it.
    pub value: ByteString,
}

/// Whose identity the command has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum User {
    /// The uid and gid of whoever calls sjail.
    Caller,
    /// Another one; only a root caller can ask for it.
    Ids {
        /// The user id inside and outside.
        uid: u32,
        /// The group id inside and outside.
        gid: u32,
    },
}

/// How much of a path is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Not there at all.
    None,
    /// Read and executed, never changed.
    Ro,
    /// Changed as well.
    Rw,
}

/// The project folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    /// The folder, seen inside at the same path.
    pub path: ByteString,
    /// What the command may do in it.
    pub access: Access,
}

/// What of the host is seen besides workspace and home. Everything not named
/// here does not exist inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filesystem {
    /// Top folders shown read-only, nosuid, nodev (`/usr`, `/bin`, …). A symbolic
    /// link among them is made again as a link. Missing ones are left out.
    pub system: Vec<ByteString>,
    /// The files and folders of `/etc` that are shown, read-only. Missing ones
    /// are left out; the rest of `/etc` does not exist.
    pub etc: Vec<ByteString>,
    /// Further paths: `read`, `write` and `binds` of the policy, `--ro`, `--rw`,
    /// `--bind`. Later entries win over earlier ones at the same destination; the
    /// jail mounts by depth of destination.
    pub grants: Vec<Grant>,
    /// What is not to be seen even inside something granted. Absolute patterns:
    /// `*` and `?` within one name, `**` for any number of names. A pattern that
    /// names a folder covers what is in it.
    pub hide: Vec<ByteString>,
    /// Exceptions to `hide`.
    #[serde(default)]
    pub unhide: Vec<Unhide>,
    /// Names inside the workspace that run code on the host later.
    pub protect: Protect,
}

/// What is seen although one of the `hide` patterns covers it; it may still be hidden by
/// another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unhide {
    /// The number of the pattern in `hide`, from 0.
    pub hidden: usize,
    /// An absolute pattern, as in `hide`.
    pub pattern: ByteString,
}

/// One path of the host shown inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The path on the host.
    pub source: ByteString,
    /// Where it appears inside.
    pub dest: ByteString,
    /// Never [`Access::None`].
    pub access: Access,
    /// Whether the source must exist.
    pub missing: Missing,
}

/// What to do about a granted path that the host does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missing {
    /// Go on without it: it came from a default.
    Skip,
    /// Go on without it, and say so: a policy file names it, and not every machine has it.
    Tell,
    /// Refuse to run: somebody asked for it by name.
    Refuse,
}

/// Names inside the workspace that are kept read-only, whether they exist or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protect {
    /// Relative to the workspace's top folder and to the top of each repository
    /// found in it: `.git/hooks`, `.git/modules/*/config`. `*` stands for one name.
    pub names: Vec<ByteString>,
    /// How many folders deep repositories are looked for at the start.
    pub depth: u8,
}

/// The private home folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Home {
    /// `$HOME` inside; the same path as outside.
    pub path: ByteString,
    /// Toolchain folders shown read-only where they exist.
    pub toolchains: Vec<ByteString>,
    /// Harmless configuration shown read-only where it exists.
    pub config: Vec<ByteString>,
    /// Package caches: folders below home that outlive the run.
    pub caches: Vec<ByteString>,
    /// What stands behind the caches.
    pub cache_source: CacheSource,
    /// What an agent keeps, if the program is one that the profile knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentHome>,
}

/// The part of the home that is an agent's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentHome {
    /// The agent's name.
    pub name: String,
    /// Folders that it writes: the sandbox's own, kept between runs.
    pub state: Vec<ByteString>,
    /// Settings of the host's, read-only, also inside those folders.
    pub config: Vec<ByteString>,
}

/// What stands behind the package caches in the private home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheSource {
    /// Nothing: the caches are as short-lived as the home.
    None,
    /// Nothing, and the home itself cannot be written.
    Closed,
    /// The sandbox's own folders, kept per workspace, writable.
    Own,
    /// The host's own caches, read-only.
    HostReadOnly,
}

/// How much of the network is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// The jail's own loopback only.
    None,
    /// Named hosts only, through the relay.
    Filtered,
    /// The host's network as it is.
    Host,
}

/// What can be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Which of the three.
    pub mode: NetworkMode,
    /// Hosts that may be reached in filtered mode; empty means none.
    pub allow: Vec<HostPattern>,
    /// Hosts that may not, whatever `allow` says.
    pub deny: Vec<HostPattern>,
    /// What happens to a host on neither list.
    pub unlisted: Unlisted,
    /// What happens to a connection that does not say whom it means.
    #[serde(default)]
    pub unnamed: Unnamed,
    /// Ports of the jail that are served on the host.
    #[serde(default)]
    pub publish: Vec<Publish>,
    /// Whether there is a proxy inside for programs that insist on one.
    #[serde(default)]
    pub proxy: Proxy,
    /// Keys of the owner's ssh agent that may sign in to allowed hosts; none means that there
    /// is no agent inside.
    #[serde(default)]
    pub ssh_agent: Vec<SshKey>,
}

/// Where the agent is, inside a jail that has one: a place that is each jail's own.
pub const SSH_AGENT: &str = "/dev/shm/sjail-ssh-agent";

/// Whether programs inside are offered a proxy, to the same hosts as everybody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proxy {
    /// None is needed.
    #[default]
    None,
    /// HTTP and SOCKS5 at [`PROXY`], and the variables that say so.
    Offered,
}

/// Where the proxy is, inside a jail that has one.
pub const PROXY: (std::net::Ipv4Addr, u16) = (std::net::Ipv4Addr::new(198, 18, 0, 1), 3128);

/// What happens when a connection goes to a host on neither list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unlisted {
    /// It is refused.
    Refuse,
    /// A person is asked.
    Ask,
}

/// What happens to a connection to an allowed host whose first words hide or leave out the
/// name that they are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unnamed {
    /// It is cut off.
    #[default]
    Refuse,
    /// It goes on, to the address that the allowed name has.
    Allow,
}

pub use crate::host::HostPattern;
pub use crate::publish::Publish;
pub use crate::ssh_key::SshKey;

/// What may be used up; an absent limit is not set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Memory of the whole jail.
    pub memory: Option<Memory>,
    /// Processor time per wall time; 100 % is one processor.
    pub cpu: Option<Percent>,
    /// Processes and threads at once.
    pub pids: Option<u32>,
    /// Bytes read from disks per second.
    pub io_read: Option<Size>,
    /// Bytes written to disks per second.
    pub io_write: Option<Size>,
    /// Wall-clock time until everything is killed.
    pub timeout: Option<Duration>,
    /// Bytes of output, standard output and error together, until it is cut.
    pub output: Option<Size>,
    /// Size of the private `/tmp` and `/var/tmp` together.
    pub tmp: Option<Size>,
}

/// A memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// So many bytes.
    Bytes(Size),
    /// A share of the machine's memory.
    OfMachine(Percent),
}

impl Memory {
    /// The limit in bytes on a machine with so many bytes of memory.
    pub fn bytes(self, machine: u64) -> u64 {
        match self {
            Memory::Bytes(size) => size.bytes(),
            Memory::OfMachine(share) => share.of(machine),
        }
    }
}

/// Which variables the command gets: the caller's that match `pass` and not
/// `drop`, those that are named in full, then `set` over them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Names, with `*` for any characters.
    pub pass: Vec<ByteString>,
    /// Names that stay out even when `pass` matches: secret-shaped ones, loaders.
    pub drop: Vec<ByteString>,
    /// Names said in full by the owner: they go in even when `drop` matches.
    #[serde(default)]
    pub named: Vec<ByteString>,
    /// Values given whatever the caller has.
    pub set: Vec<Variable>,
}

impl Environment {
    /// The environment that the command gets, sorted as the caller had it, with
    /// the values from `set` replaced in place or added at the end.
    pub fn apply<I>(&self, caller: I) -> Vec<Variable>
    where
        I: IntoIterator<Item = (ByteString, ByteString)>,
    {
        let mut env: Vec<Variable> = Vec::new();
        for (name, value) in caller {
            if self.set.iter().any(|set| set.name == name) || !self.passes(name.as_bytes()) {
                continue;
            }
            env.push(Variable { name, value });
        }
        env.extend(self.set.iter().cloned());
        env
    }

    /// Whether a variable of the caller goes in.
    pub fn passes(&self, name: &[u8]) -> bool {
        let any = |patterns: &[ByteString]| {
            patterns
                .iter()
                .any(|pattern| name_matches(pattern.as_bytes(), name))
        };
        self.named.iter().any(|own| own.as_bytes() == name) || (any(&self.pass) && !any(&self.drop))
    }
}

/// Whether a name matches a pattern in which `*` stands for any characters.
pub fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    // Most patterns fail at their first letter: every start of sjail asks thousands of times.
    if let (Some(first), Some(own)) = (pattern.first(), name.first())
        && *first != b'*'
        && first != own
    {
        return false;
    }
    let (mut p, mut n) = (0, 0);
    let mut retry = None;
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p + 1, n));
            p += 1;
        } else if pattern.get(p) == name.get(n) {
            p += 1;
            n += 1;
        } else if let Some((after_star, from)) = retry {
            p = after_star;
            n = from + 1;
            retry = Some((after_star, n));
        } else {
            return false;
        }
    }
    pattern.iter().skip(p).all(|byte| *byte == b'*')
}

/// What happens when a layer cannot be had on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Degraded {
    /// The command does not run.
    Refused,
    /// It runs, and the result says what is missing.
    Allowed,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn names(list: &[&str]) -> Vec<ByteString> {
        list.iter().map(|name| ByteString::from(*name)).collect()
    }

    #[test]
    fn patterns_for_names() {
        for (pattern, name, expected) in [
            ("*", "ANY", true),
            ("LC_*", "LC_ALL", true),
            ("LC_*", "XLC_ALL", false),
            ("*_TOKEN", "GH_TOKEN", true),
            ("*SECRET*", "MY_SECRET_KEY", true),
            ("A*B*C", "AxxBxxBC", true),
            ("A*B*C", "AxxBxxB", false),
            ("HOME", "HOME", true),
            ("HOME", "HOMER", false),
        ] {
            assert_eq!(
                name_matches(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn environment_passes_lists_and_sets() {
        let environment = Environment {
            pass: names(&["PATH", "CARGO_*"]),
            drop: names(&["*_TOKEN"]),
            named: names(&["MY_TOKEN"]),
            set: vec![Variable {
                name: "CI".into(),
                value: "1".into(),
            }],
        };
        let caller = [
            ("PATH", "/bin"),
            ("CARGO_HOME", "/c"),
            ("CARGO_TOKEN", "x"),
            ("MY_TOKEN", "m"),
            ("CI", "0"),
            ("X", "y"),
        ]
        .map(|(name, value)| (ByteString::from(name), ByteString::from(value)));
        let env: Vec<_> = environment
            .apply(caller)
            .into_iter()
            .map(|v| format!("{}={}", v.name.to_str().unwrap(), v.value.to_str().unwrap()))
            .collect();
        assert_eq!(env, ["PATH=/bin", "CARGO_HOME=/c", "MY_TOKEN=m", "CI=1"]);
    }
}
