//! Where sjail runs: kernel, container, WSL, terminal, its own files and names.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Entry, namespaces};
use crate::caller::{Account, State};

/// The kernel, and what stands between it and us.
pub fn machine() -> Vec<Entry> {
    namespaces::remember_ids();
    let mut entries = Vec::new();
    let version = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    entries.push(Entry::noted("kernel", format!("Linux {}", version.trim())));
    let interop = Path::new("/proc/sys/fs/binfmt_misc/WSLInterop").exists();
    entries.extend(subsystem(&version, interop));
    if let Some(container) = container() {
        entries.push(Entry::noted("container", container));
    }
    entries
}

/// Windows' own Linux, by the name of its kernel, and whether it starts Windows programs.
fn subsystem(version: &str, interop: bool) -> Option<Entry> {
    let version = version.to_lowercase();
    if !version.contains("microsoft") {
        return None;
    }
    if !version.contains("wsl2") && !version.contains("microsoft-standard") {
        return Some(Entry::missing(
            "WSL",
            "WSL 1 has no Linux kernel, so none of what a jail is made of",
            "wsl --set-version DISTRIBUTION 2, in Windows",
        ));
    }
    Some(Entry::noted(
        "WSL",
        match interop {
            true => {
                "Windows programs can be started from this system; the jail shows neither /init nor /mnt, so not from inside it"
            }
            false => "Windows programs are switched off",
        },
    ))
}

fn container() -> Option<String> {
    if env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Some("inside Kubernetes".into());
    }
    if Path::new("/.dockerenv").exists() {
        return Some("inside Docker".into());
    }
    if Path::new("/run/.containerenv").exists() {
        return Some("inside Podman".into());
    }
    fs::read_to_string("/run/systemd/container")
        .ok()
        .map(|kind| format!("inside {}", kind.trim()))
}

/// Terminal, policy files, names on the path.
pub fn surroundings() -> Vec<Entry> {
    vec![terminal(), policies(), names()]
}

fn terminal() -> Entry {
    let injection = fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti");
    Entry::noted(
        "terminal injection",
        match injection.as_deref().map(str::trim) {
            Ok("0") => "off in the kernel (dev.tty.legacy_tiocsti=0), and refused by the jail",
            Ok(_) => {
                "possible on this kernel (dev.tty.legacy_tiocsti=1); the jail has its own terminal and refuses the call"
            }
            Err(_) => {
                "this kernel has no switch for it; the jail has its own terminal and refuses the call"
            }
        },
    )
}

fn policies() -> Entry {
    match own(&["explain", "--json"]) {
        Ok(()) => Entry::verified("policy files", "read and understood (sjail explain)"),
        Err(why) => Entry::missing(
            "policy files",
            why,
            "mend the file that is named; sjail runs nothing while it cannot read them",
        ),
    }
}

/// Whether `sjail` on the path is this program, with the broker beside it.
fn names() -> Entry {
    let Ok(own) = env::current_exe().and_then(fs::canonicalize) else {
        return Entry::noted("names", "this program's own file cannot be found");
    };
    let path = env::var_os("PATH").unwrap_or_default();
    let first = env::split_paths(&path)
        .map(|folder| folder.join("sjail"))
        .find(|file| file.is_file());
    let broker = own.with_file_name("sjail-broker").is_file()
        || env::split_paths(&path).any(|folder| folder.join("sjail-broker").is_file());
    let beside = match broker {
        true => "sjail-broker is there",
        false => "sjail-broker is not beside it: only --no-broker runs",
    };
    match first {
        None => Entry::limited(
            "names",
            format!("{} is not on the PATH; {beside}", own.display()),
            Some("install it into a folder on the PATH, or call it by its full path in aliases and hooks".into()),
        ),
        Some(first) if fs::canonicalize(&first).is_ok_and(|real| real == own) => {
            Entry::verified("names", format!("`sjail` is {}; {beside}", first.display()))
        }
        Some(first) => Entry::limited(
            "names",
            format!("`sjail` on the PATH is {}, not this program ({})", first.display(), own.display()),
            Some(format!("remove the other one, or put {} first", own.parent().unwrap_or(&own).display())),
        ),
    }
}

/// A whole jail, as `sjail run` makes it: every layer together, verified from inside.
pub fn whole_run() -> Entry {
    let Ok(scratch) = tempfile::Builder::new().prefix("sjail-doctor-").tempdir() else {
        return Entry::missing(
            "a whole run",
            "no temporary folder could be made",
            "set TMPDIR",
        );
    };
    let workspace = scratch.path().display().to_string();
    let words = [
        "run",
        "--no-broker",
        "--workspace",
        &workspace,
        "--",
        "/bin/sh",
        "-c",
        "test $$ -gt 1",
    ];
    let run = own_in(&words, scratch.path());
    // What a run keeps for its workspace is of no use for this one.
    let _ = own(&["sandbox", "remove", &workspace]);
    match run {
        Ok(()) => Entry::verified(
            "a whole run",
            "every layer together, verified from inside before the command ran",
        ),
        Err(why) => Entry::missing(
            "a whole run",
            why,
            "see the first entry that is missing above",
        ),
    }
}

fn own(words: &[&str]) -> Result<(), String> {
    own_in(words, Path::new("."))
}

fn own_in(words: &[&str], folder: &Path) -> Result<(), String> {
    let exe = env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(exe)
        .args(words)
        .current_dir(folder)
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or("it said nothing");
    Err(sjail_policy::show::inert(last.as_bytes()))
}

/// Where a run keeps what outlives it.
pub fn state_folder() -> PathBuf {
    State::of(&Account::own()).path().to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::doctor::State;

    /// The names that these kernels give themselves.
    #[test]
    fn windows_own_linux_is_known_by_its_kernel() {
        let two = "5.15.153.1-microsoft-standard-WSL2\n";
        let entry = subsystem(two, true).unwrap();
        assert_eq!(entry.state, State::Noted);
        assert!(entry.how.contains("can be started"));
        assert!(subsystem(two, false).unwrap().how.contains("switched off"));
        let one = subsystem("4.4.0-19041-Microsoft", true).unwrap();
        assert_eq!(one.state, State::Missing);
        assert!(one.fix.unwrap().contains("--set-version"));
        assert!(subsystem("6.12.48+deb13-amd64", true).is_none());
    }
}
