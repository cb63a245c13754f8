//! Where protected names go that a jailed command made: out of the workspace, into the
//! sandbox's own folder, which no jail can reach. Nothing is destroyed; a person can
//! list what is there and put it back.
//!
//! ```text
//! $XDG_STATE_HOME/sjail/sandboxes/SANDBOX/quarantine/q_7f3k2p/
//!     about.json      where it was, when, why, in which run
//!     NAME            what it was
//! ```

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use nix::errno::Errno;
use nix::fcntl::{RenameFlags, renameat2};
use serde::{Deserialize, Serialize};
use sjail_policy::bytes::ByteString;
use sjail_policy::show;

use super::{reach, second_names};
use crate::beneath::{self, Beneath, Kind};

/// The quarantine of one sandbox.
#[derive(Debug, Clone)]
pub struct Quarantine {
    folder: PathBuf,
    run: String,
    room: Room,
}

/// So much is copied at most where what is taken lies on another file system: nothing that is
/// protected is that large, and of a file that is nearly all holes a copy fills the disk.
const MOST_COPIED: u64 = 64 << 20;

/// What may still be copied, in bytes.
#[derive(Debug, Clone)]
struct Room(Arc<AtomicU64>);

impl Room {
    fn of(bytes: u64) -> Room {
        Room(Arc::new(AtomicU64::new(bytes)))
    }

    /// Room for a name and what is in it.
    fn take(&self, bytes: u64) -> io::Result<()> {
        const NAME: u64 = 1 << 10;
        let cost = bytes.saturating_add(NAME);
        let less = |left: u64| left.checked_sub(cost);
        match self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
        {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other(
                "it lies on another file system, and more than the 64 MiB that are copied in one run",
            )),
        }
    }
}

/// Something that was taken out of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Names it on the command line.
    pub id: String,
    /// Where it was.
    pub path: ByteString,
    /// Why it was taken: the end of a sentence that starts with the path.
    pub why: String,
    /// The run that made it.
    pub run: String,
    /// When, in seconds since 1970.
    pub time: u64,
}

/// Why something could not be taken or put back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Moving it away failed.
    #[error(
        "{} must not stay in the workspace, and moving it to {} failed: {source}; remove it yourself before you use the folder",
        show::name(path),
        show::name(to)
    )]
    Take {
        /// What.
        path: PathBuf,
        /// Where to.
        to: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It could not be moved, and got a harmless name where it is.
    #[error("{why}; it is called {} now, which nothing runs", show::name(to))]
    Aside {
        /// What happened.
        why: Box<Error>,
        /// Its new name.
        to: PathBuf,
    },
    /// Putting it back failed.
    #[error("putting {} back failed: {source}", show::name(path))]
    Restore {
        /// Where it was.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is already something.
    #[error("{} exists: move it away first, then restore again", show::name(.0))]
    InTheWay(PathBuf),
    /// No such item.
    #[error("there is nothing called {0} in quarantine; `sjail quarantine list` shows what is")]
    Unknown(String),
}

impl Quarantine {
    /// The quarantine in a sandbox's folder, for what this run makes. The folder itself
    /// is made when something has to go in.
    pub fn new(sandbox: &Path, run: &str) -> Quarantine {
        Quarantine {
            folder: sandbox.join("quarantine"),
            run: run.to_owned(),
            room: Room::of(MOST_COPIED),
        }
    }

    /// The folder of all sandboxes, where jails have their homes.
    pub fn sandboxes(&self) -> &Path {
        let sandbox = self.folder.parent().unwrap_or(&self.folder);
        sandbox.parent().unwrap_or(sandbox)
    }

    /// The run that it is for.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Takes a file, folder or link out of the workspace. The name itself is moved,
    /// whatever it is by then; links are never followed, on the way there either. What
    /// is gone by itself meanwhile needs no taking: `None`.
    pub fn take(&self, path: &Path, why: &str) -> Result<Option<Item>, Error> {
        match self.take_as(path, path, why) {
            Ok(item) => Ok(Some(item)),
            Err(_) if is_gone(path) => Ok(None),
            Err(error) => Err(aside(path, error)),
        }
    }

    /// Takes a file that would have come to stand at `wanted`.
    pub fn take_as(&self, path: &Path, wanted: &Path, why: &str) -> Result<Item, Error> {
        let id = format!("q_{}", letters());
        let to = self.folder.join(&id);
        let failed = |source: io::Error| Error::Take {
            path: path.to_owned(),
            to: to.clone(),
            source,
        };
        let item = Item {
            id: id.clone(),
            path: ByteString::from(wanted),
            why: why.to_owned(),
            run: self.run.clone(),
            time: SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
        };
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true);
        builder.create(&to).map_err(failed)?;
        let about = serde_json::to_vec_pretty(&item).map_err(|e| failed(e.into()))?;
        fs::write(to.join("about.json"), about).map_err(failed)?;
        let name = wanted.file_name().unwrap_or(OsStr::new("unnamed"));
        let from = path.file_name().unwrap_or(name);
        let go = || move_out(path, from, &to.join(stored(name)), &self.room);
        let moved = match go() {
            // By its mode, or by that of the folder it is in.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let folder = path.parent().unwrap_or(path);
                let opened = reach::folder(folder).and_then(|()| reach::name(path));
                opened.map_err(io::Error::from).and_then(|()| go())
            }
            moved => moved,
        };
        if let Err(source) = moved {
            let _ = fs::remove_dir_all(&to);
            return Err(failed(source));
        }
        // Nobody is to change what lies here: whoever looks at it may put it back. What cannot
        // be parted now is not put back without.
        let _ = second_names::part_all(&to.join(stored(name)));
        Ok(item)
    }

    /// Where something that was taken lies.
    pub fn place_of(&self, item: &Item) -> PathBuf {
        self.folder.join(&item.id)
    }

    /// Keeps bytes that are about to be replaced, under the name of the file they were in.
    pub fn keep(&self, path: &Path, bytes: &[u8], why: &str) -> Result<Item, Error> {
        let scratch = self.folder.join(format!(".kept-{}", letters()));
        let failed = |source: io::Error| Error::Take {
            path: path.to_owned(),
            to: self.folder.clone(),
            source,
        };
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true);
        builder.create(&self.folder).map_err(failed)?;
        fs::write(&scratch, bytes).map_err(failed)?;
        self.take_as(&scratch, path, why)
    }
}

/// How much went to quarantine in a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Amount {
    files: usize,
    bytes: u64,
}

impl Amount {
    /// More than a person leaves there, and far less than a disk holds.
    const MOST_FILES: usize = 4096;
    const MOST_BYTES: u64 = 1 << 30;

    /// Counts something that could not be taken.
    pub fn count_left(&mut self) {
        self.files += 1;
    }

    /// Counts a tree in, as far as that matters.
    pub fn count(&mut self, top: &Path) {
        let mut left = vec![top.to_owned()];
        while let Some(path) = left.pop() {
            if self.is_too_much() {
                return;
            }
            let Ok(there) = fs::symlink_metadata(&path) else {
                continue;
            };
            self.files += 1;
            if there.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten();
                left.extend(entries.flatten().map(|entry| entry.path()));
            } else {
                self.bytes = self.bytes.saturating_add(there.len());
            }
        }
    }

    /// Whether a jail that goes on like that must be ended.
    pub fn is_too_much(&self) -> bool {
        self.files > Amount::MOST_FILES || self.bytes > Amount::MOST_BYTES
    }
}

/// Everything in the quarantines of all sandboxes below `sandboxes`, oldest first, each
/// with its folder.
pub fn list(sandboxes: &Path) -> Vec<(Item, PathBuf)> {
    let mut items = Vec::new();
    for sandbox in fs::read_dir(sandboxes).into_iter().flatten().flatten() {
        let quarantine = sandbox.path().join("quarantine");
        for entry in fs::read_dir(quarantine).into_iter().flatten().flatten() {
            let about = fs::read(entry.path().join("about.json"));
            let item = about
                .ok()
                .and_then(|text| serde_json::from_slice::<Item>(&text).ok());
            items.extend(item.map(|item| (item, entry.path())));
        }
    }
    items.sort_by(|(a, _), (b, _)| (a.time, &a.id).cmp(&(b.time, &b.id)));
    items
}

/// Puts an item back where it was; never over something that is there now.
pub fn restore(sandboxes: &Path, id: &str) -> Result<Item, Error> {
    let (item, folder) = find(sandboxes, id)?;
    let path = item.path.as_path().to_owned();
    let failed = |source: io::Error| Error::Restore {
        path: path.clone(),
        source,
    };
    if fs::symlink_metadata(&path).is_ok() {
        return Err(Error::InTheWay(path));
    }
    let name = path.file_name().unwrap_or(OsStr::new("unnamed"));
    // The folder it was in may be gone, or may be a link by now: then it stays here.
    let from = parent_of(&folder.join(stored(name))).map_err(failed)?;
    let into = parent_of(&path).map_err(failed)?;
    let to = PathBuf::from(format!("/proc/self/fd/{}", into.root().as_raw_fd())).join(name);
    // Another name of it may still lie in the workspace.
    second_names::part_all(&folder.join(stored(name))).map_err(failed)?;
    // Whoever puts it back has seen it.
    let room = Room::of(u64::MAX);
    move_tree(&from, &stored(name), &to, &room).map_err(failed)?;
    let _ = fs::remove_dir_all(&folder);
    Ok(item)
}

/// Deletes an item for good.
pub fn remove(sandboxes: &Path, id: &str) -> Result<Item, Error> {
    let (item, folder) = find(sandboxes, id)?;
    fs::remove_dir_all(&folder).map_err(|source| Error::Restore {
        path: folder.clone(),
        source,
    })?;
    Ok(item)
}

fn find(sandboxes: &Path, id: &str) -> Result<(Item, PathBuf), Error> {
    list(sandboxes)
        .into_iter()
        .find(|(item, _)| item.id == id)
        .ok_or_else(|| Error::Unknown(id.to_owned()))
}

/// Gives a name that cannot be taken (another file system is full, a tree is too deep to be
/// copied there) another one, in its own folder: a name that neither git nor anybody else
/// looks for.
fn aside(path: &Path, why: Error) -> Error {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".sjail-{}.sample", letters()));
    let to = path.with_file_name(&name);
    let moved = parent_of(path).and_then(|folder| {
        let from = path.file_name().unwrap_or_default();
        let (folder, flags) = (folder.root(), RenameFlags::RENAME_NOREPLACE);
        Ok(renameat2(folder, from, folder, name.as_os_str(), flags)?)
    });
    match moved {
        Ok(()) => Error::Aside {
            why: Box::new(why),
            to,
        },
        Err(_) => why,
    }
}

fn is_gone(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// A name that cannot meet our own `about.json`.
fn stored(name: &OsStr) -> OsString {
    if name == "about.json" {
        OsString::from("about.json.taken")
    } else {
        name.to_owned()
    }
}

/// Moves a name to a path that does not exist yet.
fn move_out(path: &Path, name: &OsStr, to: &Path, room: &Room) -> io::Result<()> {
    move_tree(&parent_of(path)?, name, to, room)
}

/// The folder that holds a name, reached without any link.
fn parent_of(path: &Path) -> io::Result<Beneath> {
    Beneath::open(path.parent().ok_or(Errno::EINVAL)?)
}

/// Moves a name from an open folder to a path that does not exist yet; by copying where
/// the two are on different file systems.
fn move_tree(from: &Beneath, name: &OsStr, to: &Path, room: &Room) -> io::Result<()> {
    let flags = RenameFlags::RENAME_NOREPLACE;
    match renameat2(from.root(), name, nix::fcntl::AT_FDCWD, to, flags) {
        Ok(()) => Ok(()),
        Err(Errno::EXDEV) => {
            let name = Path::new(name);
            copy_tree(from, name, to, room)?;
            from.remove(name)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Copies files, folders and links, going through no link: who made them may still be
/// there to swap one for the other. Pipes, sockets and devices are left out.
fn copy_tree(from: &Beneath, below: &Path, to: &Path, room: &Room) -> io::Result<()> {
    let stat = from
        .stat(below)?
        .ok_or_else(|| io::Error::from(Errno::ENOENT))?;
    match beneath::kind(&stat) {
        Kind::Link => {
            room.take(0)?;
            std::os::unix::fs::symlink(from.link(below)?, to)
        }
        Kind::Folder => {
            room.take(0)?;
            DirBuilder::new().mode(0o700).create(to)?;
            for name in from.names(below)? {
                copy_tree(from, &below.join(&name), &to.join(&name), room)?;
            }
            fs::set_permissions(to, fs::Permissions::from_mode(stat.st_mode & 0o777))
        }
        Kind::File => {
            let source = from.file(below)?;
            let there = source.metadata()?;
            room.take(there.len())?;
            let mode = there.permissions().mode() & 0o777;
            let mut target = File::options()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(to)?;
            // It may grow meanwhile.
            io::copy(&mut source.take(there.len()), &mut target)?;
            target.set_permissions(fs::Permissions::from_mode(mode))
        }
        Kind::Other | Kind::Whiteout => Ok(()),
    }
}

fn letters() -> String {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    crate::sys::random::bytes::<6>()
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte & 31)]))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// A folder that was one when it was looked at may be a link when it is gone into.
    #[test]
    fn a_copy_goes_through_no_link() {
        let base = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(base.path()).unwrap();
        fs::create_dir_all(base.join("private/deep")).unwrap();
        fs::write(base.join("private/key"), "secret").unwrap();
        fs::create_dir_all(base.join("work/made/sub")).unwrap();
        fs::write(base.join("work/made/file"), "own").unwrap();
        std::os::unix::fs::symlink("../../private", base.join("work/made/way")).unwrap();
        let work = Beneath::open(&base.join("work")).unwrap();
        let copy = |below: &str, to: &str| {
            copy_tree(&work, Path::new(below), &base.join(to), &Room::of(1 << 20))
        };
        copy("made", "copy").unwrap();
        assert_eq!(fs::read_to_string(base.join("copy/file")).unwrap(), "own");
        assert!(base.join("copy/sub").is_dir());
        let way = fs::read_link(base.join("copy/way")).unwrap();
        assert_eq!(way, Path::new("../../private"));
        for below in ["made/way/key", "made/way/deep"] {
            assert!(copy(below, "stolen").is_err(), "{below}");
            assert!(!base.join("stolen").exists());
        }
    }

    #[test]
    fn taken_listed_and_put_back() {
        let base = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(base.path()).unwrap();
        let work = base.join("work");
        fs::create_dir_all(work.join(".vscode/deep")).unwrap();
        fs::write(work.join(".vscode/tasks.json"), "{}").unwrap();
        let quarantine = Quarantine::new(&base.join("sandboxes/s1"), "run_1");
        let vscode = work.join(".vscode");
        let item = quarantine.take(&vscode, "appeared").unwrap().unwrap();
        assert_eq!(quarantine.take(&vscode, "appeared").unwrap(), None);
        assert!(!work.join(".vscode").exists());
        let listed = list(&base.join("sandboxes"));
        assert_eq!(listed.iter().map(|(i, _)| i).collect::<Vec<_>>(), [&item]);

        fs::create_dir(work.join(".vscode")).unwrap();
        assert!(matches!(
            restore(&base.join("sandboxes"), &item.id),
            Err(Error::InTheWay(_))
        ));
        fs::remove_dir(work.join(".vscode")).unwrap();
        restore(&base.join("sandboxes"), &item.id).unwrap();
        assert_eq!(fs::read(work.join(".vscode/tasks.json")).unwrap(), b"{}");
        assert!(list(&base.join("sandboxes")).is_empty());
        assert!(matches!(
            restore(&base.join("sandboxes"), &item.id),
            Err(Error::Unknown(_))
        ));
    }

    #[test]
    fn links_are_taken_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(base.path()).unwrap();
        fs::create_dir_all(base.join("work")).unwrap();
        fs::create_dir_all(base.join("secret")).unwrap();
        fs::write(base.join("secret/key"), "k").unwrap();
        std::os::unix::fs::symlink("../secret", base.join("work/.claude")).unwrap();
        std::os::unix::fs::symlink("../secret", base.join("work/sub")).unwrap();
        let quarantine = Quarantine::new(&base.join("sandboxes/s1"), "run_1");
        quarantine
            .take(&base.join("work/.claude"), "appeared")
            .unwrap();
        assert!(base.join("secret/key").exists());
        assert!(fs::symlink_metadata(base.join("work/.claude")).is_err());
        assert!(
            quarantine
                .take(&base.join("work/sub/key"), "appeared")
                .is_err()
        );
        assert!(base.join("secret/key").exists());
    }

    #[test]
    fn other_file_systems_are_copied_to() {
        let shm = Path::new("/dev/shm");
        let Ok(work) = tempfile::tempdir_in(shm) else {
            return;
        };
        let base = tempfile::tempdir_in("/var/tmp").unwrap();
        let base = fs::canonicalize(base.path()).unwrap();
        fs::create_dir(work.path().join(".idea")).unwrap();
        fs::write(work.path().join(".idea/x"), "1").unwrap();
        std::os::unix::fs::symlink("x", work.path().join(".idea/l")).unwrap();
        let quarantine = Quarantine::new(&base.join("sandboxes/s1"), "run_1");
        let item = quarantine
            .take(&work.path().join(".idea"), "appeared")
            .unwrap()
            .unwrap();
        assert!(!work.path().join(".idea").exists());
        let kept = base
            .join("sandboxes/s1/quarantine")
            .join(&item.id)
            .join(".idea");
        assert_eq!(fs::read(kept.join("x")).unwrap(), b"1");
        assert_eq!(fs::read_link(kept.join("l")).unwrap(), Path::new("x"));
        restore(&base.join("sandboxes"), &item.id).unwrap();
        assert_eq!(fs::read(work.path().join(".idea/x")).unwrap(), b"1");
    }

    /// Gigantic files, which are nearly all holes: called harmless names where they are.
    #[test]
    fn no_more_is_copied_than_a_person_would_leave() {
        let Ok(work) = tempfile::tempdir_in("/dev/shm") else {
            return;
        };
        let base = tempfile::tempdir_in("/var/tmp").unwrap();
        let quarantine = Quarantine::new(&base.path().join("sandboxes/s1"), "run_1");
        fs::create_dir(work.path().join(".vscode")).unwrap();
        for (name, size) in [
            (".envrc", 1_u64 << 40),
            (".vscode/a", 40 << 20),
            (".vscode/b", 40 << 20),
        ] {
            let file = File::create(work.path().join(name)).unwrap();
            file.set_len(size).unwrap();
        }
        for name in [".envrc", ".vscode"] {
            let path = work.path().join(name);
            let error = quarantine.take(&path, "appeared").unwrap_err();
            let Error::Aside { to, why } = &error else {
                panic!("{error}");
            };
            assert!(why.to_string().contains("64 MiB"), "{why}");
            assert!(to.exists() && !path.exists());
        }
        assert!(list(&base.path().join("sandboxes")).is_empty());
        fs::write(work.path().join(".envrc"), "small").unwrap();
        let small = quarantine.take(&work.path().join(".envrc"), "appeared");
        assert!(small.unwrap().is_some());
    }
}
