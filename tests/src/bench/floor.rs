//! The floor program: compiled from `bench/floor.c` and a plan of what sjail's jail
//! consists of, read from a trace of sjail itself, so that the two stay in line.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::unistd::Uid;

use crate::Identity;

/// The filter's length and the rules' places where the trace does not show them:
/// pid 1 is closed to an ordinary user's strace by then.
const FILTER_LENGTH: usize = 400;
const RULES: [&str; 8] = [
    "/", "/usr", "/opt", "/etc", "/proc", "/dev", "/tmp", "/var/tmp",
];

/// Traces sjail, writes the plan, compiles the floor into `ground/bin/floor`.
/// Without strace or a compiler there is no floor, and the report says so.
pub fn compile(
    ground: &Path,
    sjail: &Path,
    workspace: &Path,
    plain: &dyn Fn(&Path) -> Command,
) -> io::Result<()> {
    let traces = ground.join("out/trace");
    // Root may look into pid 1 to the end; its owner only until it closes itself.
    let mut strace = if Uid::effective().is_root() {
        let like = plain(Path::new("strace"));
        let mut strace = Command::new("strace");
        strace
            .args(["-u", Identity::ACCOUNT])
            .current_dir(workspace)
            .env_clear();
        for (name, value) in like.get_envs() {
            if let Some(value) = value {
                strace.env(name, value);
            }
        }
        strace
    } else {
        plain(Path::new("strace"))
    };
    let traced = strace
        .args(["-ff", "-s", "64", "-o"])
        .arg(&traces)
        .arg(sjail)
        .args(["run", "--no-broker", "--quiet", "--", "/bin/true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !traced.is_ok_and(|status| status.success()) {
        eprintln!("bench: no floor: strace is missing or sjail does not run");
        return Ok(());
    }
    let mut jail = None;
    for entry in fs::read_dir(ground.join("out"))?.flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        if text.contains("pivot_root(") {
            jail = Some(text);
        }
    }
    let Some(trace) = jail else {
        return Err(io::Error::other("no traced process has made a jail"));
    };
    let plan = Plan::from_trace(&trace).header(workspace);
    fs::write(ground.join("bin/plan.h"), plan)?;
    let compiled = Command::new("cc")
        .args(["-O2", "-static", "-w", "-I"])
        .arg(ground.join("bin"))
        .arg("-o")
        .arg(ground.join("bin/floor"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/floor.c"))
        .output()?;
    if !compiled.status.success() {
        return Err(io::Error::other(format!(
            "compiling the floor: {}",
            String::from_utf8_lossy(&compiled.stderr)
        )));
    }
    Ok(())
}

/// What the jail consists of.
#[derive(Debug, Default)]
struct Plan {
    folders: Vec<(String, String)>,
    files: Vec<(String, usize, String)>,
    links: Vec<(String, String)>,
    mounts: Vec<Mount>,
    rules: Vec<String>,
    limits: Vec<String>,
    filter: usize,
}

#[derive(Debug)]
struct Mount {
    /// From the host, a fresh proc, a fresh devpts, or a place of the jail itself.
    kind: char,
    source: String,
    destination: String,
    attributes: u32,
    recursive: bool,
}

impl Plan {
    /// Reads the calls of pid 1, in order.
    fn from_trace(trace: &str) -> Plan {
        let mut plan = Plan::default();
        // What each open descriptor was opened as.
        let mut opened: HashMap<String, String> = HashMap::new();
        let mut trees: HashMap<String, Mount> = HashMap::new();
        let mut last_kind = String::new();
        let mut attached = 0;
        for line in trace.lines() {
            let Some((name, rest)) = line.split_once('(') else {
                continue;
            };
            // Short calls are padded before the equals sign.
            let Some((arguments, result)) = rest.rsplit_once(" = ") else {
                continue;
            };
            let arguments = arguments.trim_end().trim_end_matches(')');
            let result = result.split_whitespace().next().unwrap_or("").to_string();
            let mut words = arguments.split(", ");
            let first = words.next().unwrap_or("");
            let quoted = |place: usize| {
                arguments
                    .split('"')
                    .nth(place * 2 + 1)
                    .unwrap_or("")
                    .to_string()
            };
            match name {
                "mkdirat" if !quoted(0).starts_with(".mask") => {
                    plan.folders.push((quoted(0), last_word(arguments)));
                }
                "symlinkat" => plan.links.push((quoted(0), quoted(1))),
                "openat" if arguments.contains("O_CREAT") => {
                    opened.insert(result, "file".to_string());
                    if !quoted(0).starts_with(".mask") {
                        plan.files.push((quoted(0), 0, last_word(arguments)));
                    }
                }
                "write" if opened.get(first).is_some_and(|kind| kind == "file") => {
                    if let (Some(file), Ok(size)) = (plan.files.last_mut(), result.parse::<usize>())
                    {
                        file.1 += size;
                    }
                }
                "openat2" => {
                    opened.insert(result, quoted(0));
                }
                "close" => {
                    opened.remove(first);
                }
                "fsopen" => last_kind = quoted(0),
                "fsmount" => {
                    let kind = if last_kind == "proc" { 'p' } else { 't' };
                    trees.insert(result, Mount::new(kind, String::new()));
                }
                "open_tree" => {
                    let source = opened.get(first).cloned().unwrap_or_default();
                    let kind = if source.starts_with('/') { 'h' } else { 'i' };
                    trees.insert(result, Mount::new(kind, source));
                }
                "mount_setattr" => {
                    if let Some(tree) = trees.get_mut(first) {
                        tree.attributes = attributes(arguments);
                        tree.recursive = arguments.contains("AT_RECURSIVE");
                    }
                }
                "move_mount" => {
                    attached += 1;
                    let place = arguments.split(", ").nth(2).unwrap_or("");
                    // The first is the new root itself.
                    if let (true, Some(mut tree)) = (attached > 1, trees.remove(first)) {
                        tree.destination = opened.get(place).cloned().unwrap_or_default();
                        plan.mounts.push(tree);
                    }
                }
                "prlimit64" if arguments.ends_with("NULL") => {
                    plan.limits
                        .push(arguments.split(", ").nth(1).unwrap_or("").to_string());
                }
                _ => {}
            }
        }
        plan.rules = rules(trace);
        plan.filter = trace
            .split("SECCOMP_SET_MODE_FILTER, 0, {len=")
            .nth(1)
            .and_then(|rest| rest.split(',').next()?.parse().ok())
            .unwrap_or(FILTER_LENGTH);
        plan
    }

    /// The plan as C.
    fn header(&self, workspace: &Path) -> String {
        let mut out =
            String::from("/* Written by the benchmark from a trace of sjail. */\n#define FOLDERS");
        for (path, mode) in &self.folders {
            let _ = write!(out, " \\\n X(\"{path}\", {mode})");
        }
        out += "\n#define FILES";
        for (path, size, mode) in &self.files {
            let _ = write!(out, " \\\n X(\"{path}\", {size}, {mode})");
        }
        out += "\n#define LINKS";
        for (target, path) in &self.links {
            let _ = write!(out, " \\\n X(\"{target}\", \"{path}\")");
        }
        out += "\n#define MOUNTS";
        for mount in &self.mounts {
            let _ = write!(
                out,
                " \\\n X('{}', \"{}\", \"{}\", {}, {})",
                mount.kind,
                mount.source,
                mount.destination,
                mount.attributes,
                u8::from(mount.recursive)
            );
        }
        out += "\n#define RULES";
        for path in &self.rules {
            let folder = !path.starts_with("/dev/") || path == "/dev/pts" || path == "/dev/shm";
            let folder = folder && !Path::new(path).is_file();
            let _ = write!(out, " \\\n X(\"{path}\", {})", u8::from(folder));
        }
        out += "\n#define LIMITS";
        for which in &self.limits {
            let (soft, hard) = match which.as_str() {
                "RLIMIT_NOFILE" => (1024, 4096),
                "RLIMIT_NPROC" => (512, 512),
                _ => (0, 0),
            };
            let _ = write!(out, " \\\n X({which}, {soft}, {hard})");
        }
        let longest = self.files.iter().map(|file| file.1).max().unwrap_or(0);
        let _ = write!(
            out,
            "\n#define FILE_MAX_SIZE {longest}\n#define FILTER_LENGTH {}\n#define WORKING_FOLDER \"{}\"\n",
            self.filter,
            workspace.display()
        );
        out
    }
}

impl Mount {
    fn new(kind: char, source: String) -> Mount {
        Mount {
            kind,
            source,
            destination: String::new(),
            attributes: 0,
            recursive: false,
        }
    }
}

/// The places of the Landlock rules: each is opened just before its rule is added.
fn rules(trace: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut last = String::new();
    for line in trace.lines() {
        if line.starts_with("openat2(") {
            last = line.split('"').nth(1).unwrap_or("").to_string();
        } else if line.starts_with("landlock_add_rule(") {
            found.push(last.clone());
        }
    }
    if found.iter().any(String::is_empty) {
        return RULES.map(str::to_string).to_vec();
    }
    found
}

fn last_word(arguments: &str) -> String {
    arguments.rsplit(", ").next().unwrap_or("0").to_string()
}

/// The bits of a mount's attributes from the names that strace gives them.
fn attributes(arguments: &str) -> u32 {
    let set = arguments
        .split("attr_set=")
        .nth(1)
        .unwrap_or("")
        .split(',')
        .next()
        .unwrap_or("");
    [("RDONLY", 1), ("NOSUID", 2), ("NODEV", 4), ("NOEXEC", 8)]
        .iter()
        .filter(|(name, _)| set.contains(name))
        .map(|(_, bit)| bit)
        .sum()
}
