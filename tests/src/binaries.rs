//! The real release binaries, built once and put where every user can run them.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names a folder with ready binaries, the attacker among them: inside a guest
/// there is no cargo to build them with.
const READY: &str = "SJAIL_TEST_BINARIES";

/// A world-readable folder with `sjail`, `sjail-broker`, `attacker` and the
/// runner itself.
#[derive(Debug, Clone)]
pub struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// Builds `sjail` and `sjail-broker` as they are shipped and copies them,
    /// the attacker and this very program into `folder`.
    pub fn gather(folder: &Path, attacker: &str) -> io::Result<Binaries> {
        let (built, attacker) = match env::var_os(READY).map(PathBuf::from) {
            Some(ready) => (ready.clone(), ready.join("attacker")),
            None => (build()?, PathBuf::from(attacker)),
        };
        fs::create_dir_all(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        let runner = env::current_exe()?;
        for (source, name) in [
            (built.join("sjail"), "sjail"),
            (built.join("sjail-broker"), "sjail-broker"),
            (attacker, "attacker"),
            (runner, "e2e"),
        ] {
            let copy = folder.join(name);
            fs::copy(&source, &copy)
                .map_err(|error| io::Error::other(format!("{}: {error}", source.display())))?;
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
        }
        Ok(Binaries::in_folder(folder))
    }

    /// Those that an earlier [`Binaries::gather`] put there.
    pub fn in_folder(folder: &Path) -> Binaries {
        Binaries {
            folder: folder.to_path_buf(),
        }
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of `sjail`, `sjail-broker`, `attacker` or `e2e`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Runs `cargo build --release` and asks cargo where the programs landed.
fn build() -> io::Result<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let output = Command::new(cargo)
        .args([
            "build",
            "--release",
            "--message-format=json-render-diagnostics",
        ])
        .args(["-p", "sjail", "-p", "sjail-broker", "--manifest-path"])
        .arg(&manifest)
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other("cargo build --release failed"));
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "sjail")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .and_then(|path| path.parent().map(Path::to_path_buf))
        .ok_or_else(|| io::Error::other("cargo named no executable for sjail"))
}

/// Copies the project's own tracked files, for the suite that builds them in the
/// jail. Without git, or outside a clone, there is nothing to copy.
pub(crate) fn copy_source(folder: &Path) -> io::Result<()> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(&top)
        .output();
    let Ok(listed) = listed else { return Ok(()) };
    for name in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
        let (from, to) = (top.join(name), folder.join(name));
        if let (true, Some(parent)) = (from.is_file(), to.parent()) {
            fs::create_dir_all(parent)?;
            fs::copy(from, to)?;
        }
    }
    Ok(())
}
