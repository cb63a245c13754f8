//! Other processes: the jail's pid 1, and the host's by their numbers.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use sjail_tests::attack::files::CANARY;
use sjail_tests::{Scene, Stop, Test, Verdict};

use super::attempt::{Control, Plan, attempt};

pub fn tests() -> Vec<Test> {
    use Control::{Bare, Root};
    let mut tests = Vec::new();
    // Of pid 1, in the jail; of a willing victim, on the host.
    for (name, control, words) in [
        ("b08_ptrace_pid_1", Bare, &["ptrace"][..]),
        ("b08_ptrace_seize_pid_1", Bare, &["ptrace-seize"]),
        ("b16_read_memory_of_pid_1", Bare, &["process-read"]),
        ("b16_write_memory_of_pid_1", Bare, &["process-write"]),
        ("b08_proc_1_mem", Bare, &["proc-mem"]),
        ("b08_proc_1_fd", Bare, &["proc-fd"]),
        ("b16_kcmp_pid_1", Bare, &["kcmp"]),
        ("b16_madvise_pid_1", Root, &["madvise"]),
    ] {
        tests.push(attempt(name, control, move |scene| {
            let victim = Victim::new(scene)?;
            let mut control: Vec<String> = words.iter().map(ToString::to_string).collect();
            control.extend([victim.pid(), victim.address.clone()]);
            Ok(Plan::new(words.iter().copied().chain(["1"]))
                .control(control)
                .keep(victim))
        }));
    }
    tests.push(attempt("b16_pidfd_getfd_of_pid_1", Bare, |scene| {
        let victim = Victim::new(scene)?;
        let control = ["pidfd-getfd".to_string(), victim.pid(), "1".to_string()];
        Ok(Plan::new(["pidfd-getfd", "1", "1"])
            .control(control)
            .keep(victim))
    }));
    for file in [
        "environ",
        "maps",
        "root",
        "cwd",
        "exe",
        "fd",
        "auxv",
        "stack",
        "map_files",
    ] {
        // What only root may see of anyone.
        let control = if ["stack", "map_files"].contains(&file) {
            Root
        } else {
            Bare
        };
        tests.push(attempt(
            &format!("b08_proc_1_{file}"),
            control,
            move |scene| {
                let victim = Victim::new(scene)?;
                let control = ["dumpable-init".to_string(), victim.pid(), file.to_string()];
                Ok(Plan::new(["dumpable-init", "1", file])
                    .control(control)
                    .keep(victim))
            },
        ));
    }
    // By the numbers they have on the host.
    for (name, words) in [
        ("b16_signal_a_host_process", &["kill"][..]),
        ("b16_ptrace_a_host_process", &["ptrace"]),
        ("b16_read_memory_of_a_host_process", &["process-read"]),
        ("b09_proc_of_a_host_process", &["proc-fd"]),
    ] {
        tests.push(attempt(name, Bare, move |scene| {
            let mut victim = Victim::new(scene)?;
            let mut all: Vec<String> = words.iter().map(ToString::to_string).collect();
            all.extend([victim.pid(), victim.address.clone()]);
            let pid = victim.child.id();
            victim.address.clear();
            Ok(Plan::new(all).keep(victim).afterwards(move || {
                match std::path::Path::new(&format!("/proc/{pid}/exe")).read_link() {
                    Ok(_) => Ok(()),
                    Err(error) => Err(Stop::failed(format!("the victim is gone: {error}"))),
                }
            }))
        }));
    }
    tests
}

/// A process of the host that may be traced, with the canary in its memory and
/// in a file that it holds open.
pub(super) struct Victim {
    child: Child,
    address: String,
}

impl Victim {
    pub(super) fn new(scene: &Scene) -> Verdict<Victim> {
        let secret = File::open(scene.outside_file("held-open", CANARY)?)?;
        let number = secret.as_raw_fd();
        let mut call = scene.host(scene.attacker()?).args(["victim"]);
        let command = call.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let inherit = move || {
            // SAFETY: dup2 onto a number that is free or ours.
            unsafe { libc::dup2(number, 30) };
            Ok(())
        };
        // SAFETY: dup2 is signal-safe and the descriptor is open in the parent.
        unsafe { command.pre_exec(inherit) };
        let mut child = command.spawn()?;
        let mut said = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut said)?;
        }
        let address = said
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_string();
        Ok(Victim { child, address })
    }

    pub(super) fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
