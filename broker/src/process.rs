//! What the kernel tells of a process: read from /proc, never asked of the process.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub started: u64,
}

/// The line that the kernel keeps per process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Which process.
    pub id: ProcessId,
    /// The name the kernel knows it by.
    pub name: String,
    /// Its parent.
    pub parent: i32,
    /// The session it is in; its own number when it leads one.
    pub session: i32,
    /// Its controlling terminal: `pts/3`, `tty1`.
    pub terminal: Option<String>,
}

impl Stat {
    /// What the kernel says now.
    pub fn read(pid: i32) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(line: &str) -> Option<Stat> {
        // The name may hold anything, parentheses and spaces included.
        let (pid, rest) = line.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let field = |number: usize| fields.get(number.checked_sub(3)?).copied();
        Some(Stat {
            id: ProcessId {
                pid: pid.parse().ok()?,
                started: field(22)?.parse().ok()?,
            },
            name: name.to_owned(),
            parent: field(4)?.parse().ok()?,
            session: field(6)?.parse().ok()?,
            terminal: terminal_name(field(7)?.parse().ok()?),
        })
    }

    /// Whether it leads a session that has a terminal: somebody's shell, usually.
    pub fn leads_a_terminal(&self) -> bool {
        self.session == self.id.pid && self.terminal.is_some()
    }
}

/// The name of a terminal's device number.
fn terminal_name(device: i32) -> Option<String> {
    let device = device.cast_unsigned();
    if device == 0 {
        return None;
    }
    let (major, minor) = (
        (device >> 8) & 0xfff,
        (device & 0xff) | ((device >> 12) & 0xf_ff00),
    );
    Some(match major {
        136..=143 => format!("pts/{}", (major - 136) * 256 + minor),
        4 => format!("tty{minor}"),
        _ => format!("{major}:{minor}"),
    })
}

/// The number of one of its namespaces: `pid`, `user`.
pub fn namespace(pid: i32, kind: &str) -> Option<u64> {
    namespace_at(&format!("/proc/{pid}/ns/{kind}"))
}

/// The number of one of our own namespaces.
pub fn own_namespace(kind: &str) -> Option<u64> {
    namespace_at(&format!("/proc/self/ns/{kind}"))
}

fn namespace_at(path: &str) -> Option<u64> {
    let link = fs::read_link(path).ok()?;
    let text = link.to_str()?;
    text.split_once('[')?.1.strip_suffix(']')?.parse().ok()
}

/// The file it runs.
pub fn executable(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The process and all above it, nearest first.
pub fn lineage(pid: i32) -> Vec<Stat> {
    // Deeper than any real tree, and an end to a chain that changes while read.
    const DEEPEST: usize = 128;
    let mut line = Vec::new();
    let mut next = pid;
    while next > 0 && line.len() < DEEPEST {
        let Some(stat) = Stat::read(next) else { break };
        next = stat.parent;
        line.push(stat);
    }
    line
}

/// Those of a lineage that act for whoever started it: everything below the
/// outermost shell that leads a terminal, or, without any, below the system's own
/// processes. Somebody who answers a request must not be among them.
pub fn circle(lineage: &[Stat]) -> Vec<ProcessId> {
    let outermost = lineage.iter().rposition(Stat::leads_a_terminal);
    let end = match outermost {
        // The requester itself may lead the terminal: then it stands alone.
        Some(0) => 1,
        Some(position) => position,
        None => lineage
            .iter()
            .position(is_the_systems)
            .unwrap_or(lineage.len())
            .max(1),
    };
    lineage.iter().take(end).map(|stat| stat.id).collect()
}

/// The system's own: pid 1 and the user's service manager.
fn is_the_systems(stat: &Stat) -> bool {
    stat.id.pid == 1 || (stat.name == "systemd" && stat.parent == 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn stat(pid: i32, name: &str, parent: i32, session: i32, terminal: Option<&str>) -> Stat {
        Stat {
            id: ProcessId {
                pid,
                started: 100 + u64::from(pid.unsigned_abs()),
            },
            name: name.to_owned(),
            parent,
            session,
            terminal: terminal.map(str::to_owned),
        }
    }

    fn pids(line: &[Stat]) -> Vec<i32> {
        circle(line).into_iter().map(|id| id.pid).collect()
    }

    #[test]
    fn a_stat_line_with_a_hostile_name_is_read_right() {
        let line = "42 (a) R 1 (b)) S 7 8 9 34819 10 0 0 0 0 0 0 0 0 0 20 0 1 0 555 1 1\n";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(
            stat,
            Stat {
                id: ProcessId {
                    pid: 42,
                    started: 555
                },
                name: "a) R 1 (b)".to_owned(),
                parent: 7,
                session: 9,
                terminal: Some("pts/3".to_owned()),
            }
        );
    }

    #[test]
    fn one_reads_oneself() {
        let own = i32::try_from(std::process::id()).unwrap();
        let line = lineage(own);
        assert_eq!(line.first().unwrap().id.pid, own);
        assert_eq!(namespace(own, "pid"), own_namespace("pid"));
        assert_eq!(executable(own), std::env::current_exe().ok());
        assert!(Stat::read(0x3fff_ffff).is_none());
    }

    #[test]
    fn what_an_agent_starts_is_one_circle_with_the_agent() {
        let line = [
            stat(50, "sjail", 40, 30, Some("pts/1")),
            stat(40, "claude", 30, 30, Some("pts/1")),
            stat(30, "bash", 20, 30, Some("pts/1")),
            stat(20, "gnome-terminal", 10, 10, None),
            stat(10, "systemd", 1, 10, None),
            stat(1, "systemd", 0, 1, None),
        ];
        assert_eq!(pids(&line), [50, 40]);
    }

    #[test]
    fn an_agent_that_gives_its_commands_their_own_terminal_is_seen_through() {
        let line = [
            stat(60, "sjail", 50, 50, Some("pts/9")),
            stat(50, "bash", 40, 50, Some("pts/9")),
            stat(40, "claude", 30, 30, Some("pts/1")),
            stat(30, "bash", 20, 30, Some("pts/1")),
            stat(1, "init", 0, 1, None),
        ];
        assert_eq!(pids(&line), [60, 50, 40]);
    }

    #[test]
    fn a_daemon_without_terminal_is_a_circle_up_to_the_system() {
        let line = [
            stat(60, "sjail", 50, 40, None),
            stat(50, "node", 40, 40, None),
            stat(40, "openclaw", 10, 40, None),
            stat(10, "systemd", 1, 10, None),
            stat(1, "systemd", 0, 1, None),
        ];
        assert_eq!(pids(&line), [60, 50, 40]);
    }

    #[test]
    fn a_command_typed_at_a_shell_stands_alone() {
        let line = [
            stat(60, "sjail", 50, 50, Some("pts/2")),
            stat(50, "bash", 40, 50, Some("pts/2")),
            stat(40, "sshd", 1, 40, None),
            stat(1, "init", 0, 1, None),
        ];
        assert_eq!(pids(&line), [60]);
    }
}
