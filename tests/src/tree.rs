//! All that descends from a process, found and ended as a whole.

use std::collections::HashMap;
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process and all that descend from it.
///
/// The root adopts orphans (it is made a child subreaper), so nothing gets away
/// by forking twice.
#[derive(Debug, Clone, Copy)]
pub struct Tree {
    root: Pid,
}

impl Tree {
    /// The tree below a process.
    pub fn of(root: Pid) -> Tree {
        Tree { root }
    }

    /// The tree below the caller, which becomes the one that adopts orphans.
    pub fn own() -> Tree {
        // SAFETY: prctl with a constant option and integer arguments only.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
        Tree { root: Pid::this() }
    }

    /// The living descendants, without the root and without the dead.
    pub fn descendants(self) -> Vec<Pid> {
        let mut children: HashMap<i32, Vec<(i32, char)>> = HashMap::new();
        for (pid, parent, state) in processes() {
            children.entry(parent).or_default().push((pid, state));
        }
        let mut found = Vec::new();
        let mut open = vec![self.root.as_raw()];
        while let Some(parent) = open.pop() {
            for &(pid, state) in children.get(&parent).map_or(&[][..], Vec::as_slice) {
                open.push(pid);
                if state != 'Z' && state != 'X' {
                    found.push(Pid::from_raw(pid));
                }
            }
        }
        found
    }

    /// Kills every descendant, again and again until none is left.
    pub fn kill_descendants(self) {
        // Bounded: what does not die of a thousand SIGKILLs hangs in the kernel.
        for _ in 0..1000 {
            let living = self.descendants();
            if living.is_empty() {
                return;
            }
            for pid in living {
                let _ = kill(pid, Signal::SIGKILL);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Kills the descendants, then the root; the root is stopped first so that
    /// it keeps adopting while its descendants die.
    pub fn kill(self) {
        let _ = kill(self.root, Signal::SIGSTOP);
        self.kill_descendants();
        let _ = kill(self.root, Signal::SIGKILL);
    }
}

/// What a process calls itself, for messages.
pub fn command_line(pid: Pid) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    if words.trim().is_empty() {
        fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default()
    } else {
        words
    }
    .trim()
    .to_string()
}

/// Every process: its id, its parent's, its state letter.
fn processes() -> Vec<(i32, i32, char)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name in brackets may itself hold brackets and blanks.
            let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
            let state = fields.next()?.chars().next()?;
            let parent = fields.next()?.parse().ok()?;
            Some((pid, parent, state))
        })
        .collect()
}
