//! What a running jail holds in memory, beyond the command itself.

use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::Tree;

/// Starts a jail that sleeps and reads the proportional set size of sjail's two
/// processes in it: the supervisor and pid 1. Lines of the report.
pub fn measure(mut sjail: Command) -> io::Result<String> {
    let mut child = sjail
        .args(["run", "--no-broker", "--quiet", "--", "/bin/sleep", "60"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let supervisor = Pid::from_raw(child.id() as i32);
    let deadline = Instant::now() + Duration::from_secs(20);
    let sleeping = |pid: &Pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
    };
    while Instant::now() < deadline && !Tree::of(supervisor).descendants().iter().any(sleeping) {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    let mut lines = String::new();
    let mut sum = 0;
    let mut all = vec![("supervisor", supervisor)];
    all.extend(
        Tree::of(supervisor)
            .descendants()
            .into_iter()
            .filter(|pid| !sleeping(pid))
            .map(|pid| ("pid 1 of the jail", pid)),
    );
    for (name, pid) in all {
        match pss(pid) {
            Some(kilobytes) => {
                sum += kilobytes;
                lines += &format!("| {name} | {kilobytes} |\n");
            }
            None => lines += &format!("| {name} | not readable by this user |\n"),
        }
    }
    lines += &format!("| **sum** | **{sum}** |\n");
    child.kill()?;
    child.wait()?;
    Ok(lines)
}

fn pss(pid: Pid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find(|line| line.starts_with("Pss:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
