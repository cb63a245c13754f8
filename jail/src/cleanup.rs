//! What a killed sjail leaves behind, and how the next one clears it away.
//!
//! A jail leaves nothing by itself: its processes die with pid 1, its mounts with its
//! namespace. Only control groups and temporary folders outlive a supervisor that was
//! killed with SIGKILL. A run that makes such things first writes their paths to a file
//! of its own in the run folder and keeps that file locked while it lives; the kernel
//! drops the lock whichever way the process ends. A later start that gets the lock
//! removes what is named there. A run that makes none of them writes nothing.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use sjail_policy::show;

use crate::limits::cgroup;

/// Something that outlives a killed supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leftover {
    /// An empty control group.
    Group(PathBuf),
    /// A folder of sjail's own, with all that is in it.
    Folder(PathBuf),
}

/// The folder where runs write down what they might leave.
#[derive(Debug, Clone)]
pub struct RunFolder(PathBuf);

/// One run's own note in it, locked while the run lives.
#[derive(Debug)]
pub struct Note {
    path: PathBuf,
    file: Flock<File>,
}

/// Why the run folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No place for it.
    #[error("there is no folder for run records: set XDG_RUNTIME_DIR or HOME")]
    NoPlace,
    /// Somebody else could write to it.
    #[error("{} must belong to you and be closed to others (mode 0700)", show::name(.0))]
    Open(PathBuf),
    /// The kernel said no.
    #[error("{act} {} failed: {source}", show::name(path))]
    Io {
        /// What was being done.
        act: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Clears away what earlier runs of this user have left, if any.
pub fn sweep() {
    if let Ok(base) = base() {
        RunFolder(base.join("sjail/runs")).sweep();
    }
}

/// `$XDG_RUNTIME_DIR`, or `/run` for root, or `$XDG_STATE_HOME` (by default
/// `~/.local/state`).
fn base() -> Result<PathBuf, Error> {
    let variable = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    variable("XDG_RUNTIME_DIR")
        .filter(|path| is_private(path))
        .or_else(|| geteuid().is_root().then(|| PathBuf::from("/run")))
        .or_else(|| variable("XDG_STATE_HOME"))
        .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
        .ok_or(Error::NoPlace)
}

impl RunFolder {
    /// The folder `sjail/runs` of this user, made if need be.
    pub fn open() -> Result<RunFolder, Error> {
        RunFolder::below(&base()?)
    }

    /// The folder below a base of the caller's choice.
    pub fn below(base: &Path) -> Result<RunFolder, Error> {
        let own = base.join("sjail");
        let runs = own.join("runs");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&runs)
            .map_err(failed("making", &runs))?;
        for folder in [&own, &runs] {
            if !is_private(folder) {
                return Err(Error::Open(folder.clone()));
            }
        }
        Ok(RunFolder(runs))
    }

    /// Starts the note of the run `id`.
    pub fn note(&self, id: &str) -> Result<Note, Error> {
        let path = self.0.join(id);
        // Locked before it has its name: a sweeper must never find it unlocked.
        let hidden = self.0.join(format!(".{id}"));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&hidden)
            .map_err(failed("making", &hidden))?;
        // Waits: a sweeper that is just looking holds it for a moment.
        let file = Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, errno)| failed("locking", &hidden)(errno.into()))?;
        fs::rename(&hidden, &path).map_err(failed("making", &path))?;
        Ok(Note { path, file })
    }

    /// Removes what runs that are no more have left. Cheap when there is nothing: one
    /// look at an empty folder. What cannot be removed stays noted for the next time.
    pub fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.0) else {
            return;
        };
        if !is_private(&self.0) {
            return;
        }
        for entry in entries.flatten() {
            let path = entry.path();
            let Some(lock) = orphaned(&path) else {
                continue;
            };
            // Under its hidden name a note is about to be locked by its owner, unless
            // the owner died right then; a minute settles it.
            if entry.file_name().as_bytes().starts_with(b".") && !is_old(&lock) {
                continue;
            }
            let Ok(text) = io::read_to_string(&*lock) else {
                continue;
            };
            if text
                .lines()
                .filter_map(Leftover::read)
                .all(|left| left.remove())
            {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

impl Note {
    /// Writes down, before making it, what this run might leave behind.
    pub fn add(&mut self, leftover: &Leftover) -> Result<(), Error> {
        let line = leftover.line();
        self.file
            .write_all(line.as_bytes())
            .map_err(failed("writing", &self.path))
    }

    /// The run has cleared up behind itself.
    pub fn done(self) {
        // Should this fail, the next sweep finds a note whose things are gone.
        let _ = fs::remove_file(&self.path);
    }
}

impl Leftover {
    /// One line: kind and path, the latter with everything but plain letters as
    /// percent codes, so that no path can look like a second line.
    fn line(&self) -> String {
        let (kind, path) = match self {
            Leftover::Group(path) => ("group", path),
            Leftover::Folder(path) => ("folder", path),
        };
        let mut line = format!("{kind} ");
        for byte in path.as_os_str().as_bytes() {
            if byte.is_ascii_alphanumeric() || b"/._-,=".contains(byte) {
                line.push(char::from(*byte));
            } else {
                line.push_str(&format!("%{byte:02x}"));
            }
        }
        line.push('\n');
        line
    }

    fn read(line: &str) -> Option<Leftover> {
        let (kind, coded) = line.split_once(' ')?;
        let mut bytes = Vec::new();
        let mut rest = coded.as_bytes();
        while let [first, tail @ ..] = rest {
            if *first == b'%' {
                let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &tail[2..];
            } else {
                bytes.push(*first);
                rest = tail;
            }
        }
        let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
        match kind {
            "group" => Some(Leftover::Group(path)),
            "folder" => Some(Leftover::Folder(path)),
            _ => None,
        }
    }

    /// Whether it is gone now. A half-written last line names a path that is too short:
    /// only things that carry our own name are ever removed.
    fn remove(&self) -> bool {
        match self {
            Leftover::Group(path) => !is_ours(path) || cgroup::remove_folder(path).is_ok(),
            Leftover::Folder(path) => !is_ours(path) || remove_tree(path),
        }
    }
}

/// A file that a run keeps locked while it lives, if that run is no more.
pub fn orphaned(path: &Path) -> Option<Flock<File>> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .ok()?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()
}

/// Whether the last name of the path is one that only a run of sjail makes.
fn is_ours(path: &Path) -> bool {
    path.is_absolute()
        && path.file_name().is_some_and(|name| {
            name.as_bytes()
                .strip_prefix(b"sjail-")
                .is_some_and(|id| id.len() >= 10)
        })
}

/// Removes a folder and all below it without following links. Overlay work folders are
/// left with mode 000, which only a change of mode opens.
pub fn remove_tree(path: &Path) -> bool {
    match fs::remove_dir_all(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(_) => {
            open_folders(path);
            fs::remove_dir_all(path).is_ok()
        }
    }
}

fn open_folders(folder: &Path) {
    let _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_folders(&entry.path());
        }
    }
}

/// Whether it is a folder of this user's that is closed to everybody else.
pub fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|folder| {
        folder.is_dir() && folder.uid() == geteuid().as_raw() && folder.mode() & 0o077 == 0
    })
}

fn is_old(file: &File) -> bool {
    file.metadata()
        .and_then(|metadata| metadata.modified())
        .is_ok_and(|time| time.elapsed().is_ok_and(|age| age.as_secs() > 60))
}

fn failed(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { act, path, source }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn lines_carry_any_path() {
        for path in ["/a/b-c", "/new\nline", "/per%cent 100", "/\u{fc}\u{1}"] {
            for leftover in [Leftover::Group(path.into()), Leftover::Folder(path.into())] {
                let line = leftover.line();
                assert_eq!(line.lines().count(), 1);
                assert_eq!(Leftover::read(line.trim_end()), Some(leftover));
            }
        }
        assert_eq!(Leftover::read("folder /x%4"), None);
        assert_eq!(Leftover::read("other /x"), None);
    }

    #[test]
    fn a_living_run_is_left_alone_and_a_dead_one_cleared() {
        let base = tempfile::tempdir().unwrap();
        let runs = RunFolder::below(base.path()).unwrap();
        let scratch = base.path().join("sjail-run_abcdef");
        fs::create_dir_all(scratch.join("deep/er")).unwrap();
        fs::write(scratch.join("deep/file"), "x").unwrap();
        fs::set_permissions(scratch.join("deep"), Permissions::from_mode(0o000)).unwrap();
        let precious = base.path().join("precious");
        fs::create_dir(&precious).unwrap();

        let mut note = runs.note("run_abcdef").unwrap();
        note.add(&Leftover::Folder(scratch.clone())).unwrap();
        note.add(&Leftover::Folder(precious.clone())).unwrap();
        runs.sweep();
        assert!(scratch.exists());

        drop(note); // What the kernel does for a killed process.
        runs.sweep();
        assert!(!scratch.exists());
        assert!(precious.exists(), "only what carries our name is removed");
        assert_eq!(fs::read_dir(&runs.0).unwrap().count(), 0);
    }

    #[test]
    fn a_run_that_cleared_up_leaves_no_note() {
        let base = tempfile::tempdir().unwrap();
        let runs = RunFolder::below(base.path()).unwrap();
        runs.note("run_abcdef").unwrap().done();
        assert_eq!(fs::read_dir(&runs.0).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_open_to_others_is_refused() {
        let base = tempfile::tempdir().unwrap();
        RunFolder::below(base.path()).unwrap();
        let own = base.path().join("sjail");
        fs::set_permissions(&own, Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(RunFolder::below(base.path()), Err(Error::Open(_))));
    }
}
