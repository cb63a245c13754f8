//! Who is at the other end of a socket, as the kernel tells it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use serde_json::json;
use sjail_policy::show;

use crate::process::{self, ProcessId, Stat};

/// A connected process.
#[derive(Debug)]
pub struct Peer {
    /// Its account.
    pub uid: u32,
    /// Which process; absent when it was gone before we looked.
    pub id: Option<ProcessId>,
    /// Its name for the kernel.
    pub name: String,
    /// The file it runs, where that may be seen.
    pub executable: Option<PathBuf>,
    /// Its controlling terminal.
    pub terminal: Option<String>,
    /// Where it lives.
    pub home: Home,
    /// Keeps the process's number from being given to another.
    handle: Option<OwnedFd>,
}

/// Where a peer lives, as far as namespaces tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Home {
    /// Beside the broker.
    Host,
    /// In a pid or user namespace of its own: a jail, ours or another.
    Jail {
        /// The number of the pid namespace, 0 when it may not be seen.
        pid_namespace: u64,
    },
    /// It hides itself or is gone; trusted no more than a jail.
    Unknown,
}

/// The namespaces that count as the host's: the broker's own.
#[derive(Debug, Clone, Copy)]
pub struct HostNamespaces {
    pid: u64,
    user: u64,
}

impl HostNamespaces {
    /// Those of this process.
    pub fn own() -> Option<HostNamespaces> {
        Some(HostNamespaces {
            pid: process::own_namespace("pid")?,
            user: process::own_namespace("user")?,
        })
    }
}

impl Peer {
    /// Looks at whoever connected.
    pub fn of(socket: &impl AsFd, host: HostNamespaces) -> nix::Result<Peer> {
        let credentials = getsockopt(socket, sockopt::PeerCredentials)?;
        // Since Linux 6.5; before, the start time read twice has to do.
        let handle = getsockopt(socket, sockopt::PeerPidfd).ok();
        let pid = credentials.pid();
        let mut peer = Peer {
            uid: credentials.uid(),
            id: None,
            name: String::new(),
            executable: None,
            terminal: None,
            home: Home::Unknown,
            handle,
        };
        let Some(stat) = (pid > 0).then(|| Stat::read(pid)).flatten() else {
            return Ok(peer);
        };
        let executable = process::executable(pid);
        let home = home(pid, host);
        let unchanged = match &peer.handle {
            Some(_) => peer.is_alive(),
            None => Stat::read(pid).is_some_and(|again| again.id == stat.id),
        };
        if unchanged {
            peer.id = Some(stat.id);
            peer.name = stat.name;
            peer.terminal = stat.terminal;
            peer.executable = executable;
            peer.home = home;
        }
        Ok(peer)
    }

    /// Whether the process still runs.
    pub fn is_alive(&self) -> bool {
        match (&self.handle, self.id) {
            (Some(handle), _) => {
                let mut wait = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
                matches!(poll(&mut wait, PollTimeout::ZERO), Ok(0))
            }
            (None, Some(id)) => Stat::read(id.pid).is_some_and(|stat| stat.id == id),
            (None, None) => false,
        }
    }

    /// The process and all above it, nearest first; empty when it is gone.
    pub fn lineage(&self) -> Vec<Stat> {
        let Some(id) = self.id else { return Vec::new() };
        let line = process::lineage(id.pid);
        if line.first().is_some_and(|stat| stat.id == id) {
            line
        } else {
            Vec::new()
        }
    }

    /// For records and for whoever answers.
    pub fn describe(&self) -> serde_json::Value {
        json!({
            "uid": self.uid,
            "pid": self.id.map(|id| id.pid),
            "name": show::inert(self.name.as_bytes()),
            "exe": self.executable.as_ref().map(|path| path.to_string_lossy()),
            "tty": self.terminal,
            "jailed": !matches!(self.home, Home::Host),
        })
    }

    /// One short line: `ann on pts/3 (pid 4711, bash)`.
    pub fn summary(&self, user: &str) -> String {
        let place = match &self.terminal {
            Some(terminal) => format!(" on {terminal}"),
            None => String::new(),
        };
        let process = match self.id {
            Some(id) => format!("pid {}, {}", id.pid, show::inert(self.name.as_bytes())),
            None => "process gone".to_owned(),
        };
        format!("{user}{place} ({process})")
    }
}

fn home(pid: i32, host: HostNamespaces) -> Home {
    match (
        process::namespace(pid, "pid"),
        process::namespace(pid, "user"),
    ) {
        (Some(pid_namespace), Some(user)) if pid_namespace == host.pid && user == host.user => {
            Home::Host
        }
        (Some(pid_namespace), _) => Home::Jail { pid_namespace },
        (None, _) => Home::Unknown,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_kernel_names_the_peer() {
        let (left, _right) = UnixStream::pair().unwrap();
        let peer = Peer::of(&left, HostNamespaces::own().unwrap()).unwrap();
        assert_eq!(peer.uid, nix::unistd::getuid().as_raw());
        assert_eq!(
            peer.id.map(|id| id.pid),
            i32::try_from(std::process::id()).ok()
        );
        assert_eq!(peer.home, Home::Host);
        assert!(peer.is_alive());
        assert!(!peer.lineage().is_empty());
    }
}
