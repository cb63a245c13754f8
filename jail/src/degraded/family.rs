//! Every process of a run, found by descent. There is no pid namespace whose end would be
//! theirs; but whoever loses its parent is handed to the nearest process that has asked for
//! orphans, and both the supervisor and the jail's first process have. So no process of a
//! run can leave the tree below them, and when the tree is empty the run is over.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

use crate::sys::pidfd;

/// A process, and the moment it was started: its number may be another's later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub pid: i32,
    parent: i32,
    started: u64,
}

/// Everybody below this process, but neither those who are to be spared nor anybody below
/// them.
pub fn below(root: Pid, spared: &[Member]) -> Vec<Member> {
    let all: Vec<Member> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(member)
        .collect();
    let mut found: Vec<Member> = Vec::new();
    let mut parents = vec![root.as_raw()];
    while let Some(parent) = parents.pop() {
        for child in all.iter().filter(|member| member.parent == parent) {
            let is_spared = spared.iter().any(|member| member.is(child));
            if !is_spared && !found.contains(child) {
                found.push(*child);
                parents.push(child.pid);
            }
        }
    }
    found
}

/// Ends everybody below this process but those who were there before, and waits until
/// they are gone.
pub fn end(spared: &[Member]) {
    loop {
        let left = below(getpid(), spared);
        if left.is_empty() {
            return;
        }
        let handles: Vec<OwnedFd> = left.iter().filter_map(|member| member.handle()).collect();
        // Stopped first: what is stopped makes no new ones while others are ended.
        for signal in [libc::SIGSTOP, libc::SIGKILL] {
            for handle in &handles {
                let _ = pidfd::send_signal(handle.as_fd(), signal);
            }
        }
        for member in left {
            // Ours or not: whoever is somebody else's child comes to us when that ends.
            let _ = waitpid(Pid::from_raw(member.pid), Some(WaitPidFlag::WNOHANG));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Member {
    /// The same process at another moment: it may have got another parent meanwhile.
    fn is(&self, other: &Member) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }

    /// A handle on it, unless its number is another's by now.
    fn handle(&self) -> Option<OwnedFd> {
        let handle = pidfd::open(Pid::from_raw(self.pid)).ok()?;
        member(self.pid)
            .is_some_and(|now| now.is(self))
            .then_some(handle)
    }
}

/// What `/proc/PID/stat` says. The name in it may hold anything, parentheses too.
fn member(pid: i32) -> Option<Member> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let behind = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(behind + 1..)?).ok()?;
    let mut fields = rest.split_whitespace();
    Some(Member {
        pid,
        parent: fields.nth(1)?.parse().ok()?,
        started: fields.nth(17)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn grandchildren_are_found() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 1000 & echo; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let own = Pid::from_raw(child.id() as i32);
        let found = below(own, &[]);
        assert_eq!(found.len(), 1);
        let up: Vec<i32> = below(getpid(), &[])
            .iter()
            .map(|member| member.pid)
            .collect();
        assert!(up.contains(&own.as_raw()) && up.contains(&found[0].pid));
        assert!(!below(getpid(), &found).contains(&found[0]));
        let grandchild = found[0].handle().unwrap();
        pidfd::send_signal(grandchild.as_fd(), libc::SIGKILL).unwrap();
        child.wait().unwrap();
        assert!(found[0].handle().is_none());
    }
}
