//! Where one test plays: a scratch folder with a home, a workspace and the programs.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::{Binaries, Call, Identity, Stop, Verdict};

/// The name of a test's own disk in its scratch folder.
pub(crate) const DISK: &str = "disk";

/// The folders and programs of one test. Everything lies below one scratch
/// folder, which the runner removes afterwards:
///
/// ```text
/// scratch/            0700, the identity's own
///   home/             HOME while the test runs
///     work/           the workspace, and the working folder of each call
///   run/              XDG_RUNTIME_DIR
///   outside/          files of the host that no jail should reach
///   disk/             a small file system, where the test asked for one
/// ```
#[derive(Debug)]
pub struct Scene {
    identity: Identity,
    binaries: Binaries,
    scratch: PathBuf,
}

impl Scene {
    /// Lays the folders out below an existing, empty scratch folder.
    pub(crate) fn set(identity: Identity, binaries: Binaries, scratch: &Path) -> io::Result<Scene> {
        for folder in ["home/work", "run", "outside"] {
            fs::create_dir_all(scratch.join(folder))?;
        }
        fs::set_permissions(scratch.join("run"), fs::Permissions::from_mode(0o700))?;
        Ok(Scene {
            identity,
            binaries,
            scratch: scratch.to_path_buf(),
        })
    }

    /// Who the test runs as.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The scratch folder itself.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// The home of the host user.
    pub fn home(&self) -> PathBuf {
        self.scratch.join("home")
    }

    /// The small disk of a test that asked for one. Only root can mount it, so the runner
    /// does; whoever started that as somebody else has none.
    pub fn disk(&self) -> Verdict<PathBuf> {
        use std::os::unix::fs::MetadataExt;
        let disk = self.scratch.join(DISK);
        let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev());
        match (device(&disk), device(&self.scratch)) {
            (Ok(own), Ok(other)) if own != other => Ok(disk),
            _ => self.skip("no disk could be mounted"),
        }
    }

    /// The workspace: an empty folder in the home, not yet a repository.
    pub fn workspace(&self) -> PathBuf {
        self.scratch.join("home/work")
    }

    /// A folder of the host outside the workspace and the home.
    pub fn outside(&self) -> PathBuf {
        self.scratch.join("outside")
    }

    /// `XDG_RUNTIME_DIR` of the host user.
    pub fn runtime(&self) -> PathBuf {
        self.scratch.join("run")
    }

    /// The path of one of our programs: `sjail`, `sjail-broker`, `attacker`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.binaries.path(name)
    }

    /// A home with a Rust toolchain in it, and the path that finds it: the one
    /// the runner shared, or the system's. Nothing where there is none.
    pub fn rust(&self) -> Option<(PathBuf, OsString)> {
        let shared = self.binaries.folder().with_file_name("rust");
        let home = match shared.join(".cargo/bin/cargo").exists() {
            true => shared,
            false if self.has("cargo") => self.home(),
            false => return None,
        };
        let mut path = OsString::from(home.join(".cargo/bin"));
        path.push(":");
        path.push(env::var_os("PATH")?);
        Some((home, path))
    }

    /// The project's own sources, where the runner has copied them.
    pub fn source(&self) -> Option<PathBuf> {
        let source = self.binaries.folder().with_file_name("source");
        source.join("Cargo.lock").exists().then_some(source)
    }

    /// Writes a file below the workspace, with the folders it needs.
    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) -> Verdict<PathBuf> {
        write(&self.workspace().join(path), content)
    }

    /// Writes a file below the home, with the folders it needs.
    pub fn home_file(&self, path: &str, content: impl AsRef<[u8]>) -> Verdict<PathBuf> {
        write(&self.home().join(path), content)
    }

    /// Writes a file of the host outside the jail's reach.
    pub fn outside_file(&self, path: &str, content: impl AsRef<[u8]>) -> Verdict<PathBuf> {
        write(&self.outside().join(path), content)
    }

    /// Writes an executable below the workspace.
    pub fn script(&self, path: &str, content: &str) -> Verdict<PathBuf> {
        let path = self.file(path, content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    /// Reads a file below the workspace as text.
    pub fn read(&self, path: &str) -> Verdict<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.workspace().join(path))?).into_owned())
    }

    /// Copies the attacker into the workspace and gives its path there.
    pub fn attacker(&self) -> Verdict<PathBuf> {
        let copy = self.workspace().join("attacker");
        if !copy.exists() {
            fs::copy(self.program("attacker"), &copy)?;
        }
        Ok(copy)
    }

    /// `sjail run --no-broker WORDS…`, in the workspace, without a terminal.
    pub fn run<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Call {
        self.sjail(["run", "--no-broker"]).args(words)
    }

    /// `sjail WORDS…`, in the workspace, without a terminal.
    pub fn sjail<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Call {
        self.host(self.program("sjail")).args(words)
    }

    /// A program outside the jail, in the workspace.
    pub fn host(&self, program: impl AsRef<OsStr>) -> Call {
        let mut call = Call::new(program).cwd(self.workspace());
        for (name, value) in self.environment() {
            call = call.env(name, value);
        }
        call
    }

    /// Whether a program is on the path.
    pub fn has(&self, program: &str) -> bool {
        env::var_os("PATH").is_some_and(|path| {
            env::split_paths(&path).any(|folder| folder.join(program).is_file())
        })
    }

    /// Ends the test as skipped, with the reason that is listed at the end.
    pub fn skip<T>(&self, reason: impl Into<String>) -> Verdict<T> {
        Err(Stop::Skipped(reason.into()))
    }

    /// Skips unless all these programs are on the path.
    pub fn needs(&self, programs: &[&str]) -> Verdict {
        for program in programs {
            if !self.has(program) {
                return self.skip(format!("{program} is not installed"));
            }
        }
        Ok(())
    }

    /// The environment of every call: the scene's own folders, nothing inherited
    /// that would make a test depend on who started it.
    fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        let home = self.home();
        vec![
            ("XDG_CONFIG_HOME", home.join(".config")),
            ("XDG_DATA_HOME", home.join(".local/share")),
            ("XDG_STATE_HOME", home.join(".local/state")),
            ("XDG_CACHE_HOME", home.join(".cache")),
            ("XDG_RUNTIME_DIR", self.runtime()),
            ("HOME", home),
        ]
    }
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Verdict<PathBuf> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, content)
        .map_err(|error| Stop::failed(format!("writing {}: {error}", path.display())))?;
    Ok(path.to_path_buf())
}
