//! Those who run: each is a way to start a program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A way to start a program, and how it is called in the report.
pub struct Contender {
    /// Its name in the table.
    pub name: &'static str,
    /// The words before the program.
    pub prefix: Vec<String>,
    /// Whether it is one of those that steady state is measured with.
    pub steady: bool,
}

/// Those that this machine has and that really start a program here, and those it
/// has not, with the reason.
pub fn all(ground: &Path, workspace: &Path) -> (Vec<Contender>, Vec<(&'static str, String)>) {
    let own = |name: &str| ground.join("bin").join(name).display().to_string();
    let here = workspace.display().to_string();
    let wanted: Vec<(&'static str, Vec<String>, bool)> = vec![
        ("bare exec", vec![], true),
        ("floor (static C)", vec![own("floor")], true),
        (
            "sjail",
            words(&[&own("sjail"), "run", "--no-broker", "--quiet", "--"]),
            true,
        ),
        (
            "sjail, decided and recorded",
            words(&[&own("sjail"), "run", "--quiet", "--"]),
            false,
        ),
        (
            "unshare",
            words(&[
                "unshare",
                "--user",
                "--map-current-user",
                "--mount",
                "--pid",
                "--fork",
                "--net",
                "--ipc",
                "--uts",
                "--cgroup",
                "--",
            ]),
            false,
        ),
        (
            "bubblewrap",
            words(&[
                "bwrap",
                "--unshare-all",
                "--ro-bind",
                "/usr",
                "/usr",
                "--ro-bind",
                "/etc",
                "/etc",
                "--symlink",
                "usr/bin",
                "/bin",
                "--symlink",
                "usr/lib",
                "/lib",
                "--symlink",
                "usr/lib64",
                "/lib64",
                "--bind",
                &here,
                &here,
                "--chdir",
                &here,
                "--proc",
                "/proc",
                "--dev",
                "/dev",
                "--tmpfs",
                "/tmp",
                "--",
            ]),
            true,
        ),
        (
            "firejail",
            words(&["firejail", "--quiet", "--noprofile", "--net=none", "--"]),
            false,
        ),
        (
            "nsjail",
            words(&[
                "nsjail",
                "-Mo",
                "-Q",
                "--chroot",
                "/",
                "--disable_rlimits",
                "--",
            ]),
            false,
        ),
        (
            "minijail",
            words(&["minijail0", "-U", "-m", "-M", "-p", "-v", "-e", "-n", "--"]),
            false,
        ),
    ];
    let mut present = Vec::new();
    let mut absent = Vec::new();
    for (name, prefix, steady) in wanted {
        let program = prefix
            .first()
            .cloned()
            .unwrap_or_else(|| "/bin/true".to_string());
        if found(&program).is_none() {
            absent.push((name, "not on this machine".to_string()));
            continue;
        }
        let contender = Contender {
            name,
            prefix,
            steady,
        };
        match contender
            .command(&["/bin/true"])
            .stdin(Stdio::null())
            .output()
        {
            Ok(output) if output.status.success() => present.push(contender),
            Ok(output) => absent.push((
                name,
                String::from_utf8_lossy(&output.stderr)
                    .lines()
                    .next()
                    .unwrap_or("it fails here")
                    .to_string(),
            )),
            Err(error) => absent.push((name, error.to_string())),
        }
    }
    (present, absent)
}

impl Contender {
    /// The command that runs `program` this way.
    pub fn command(&self, program: &[&str]) -> Command {
        let mut all: Vec<&str> = self.prefix.iter().map(String::as_str).collect();
        all.extend_from_slice(program);
        let mut command = Command::new(all[0]);
        command
            .args(&all[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// Where a program is, by its path or on the search path.
pub fn found(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).exists().then(|| PathBuf::from(program));
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}
