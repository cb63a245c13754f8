//! How many of the files that a preview changes git knows: read from the index itself,
//! for asking git would run whatever the repository's configuration names.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::entry::{Act, Entry};
use crate::beneath::Kind;
use crate::protect::repository;

/// Of longer lists nothing is said.
const MOST: usize = 200_000;
/// No path of an index is longer.
const LONGEST: u64 = 64 << 10;

/// The changes that may concern files of a repository.
#[derive(Debug)]
pub struct Tracked {
    top: PathBuf,
    index: PathBuf,
    /// Paths from the top; a deleted folder stands for all that is in it.
    files: HashSet<Vec<u8>>,
    folders: HashSet<Vec<u8>>,
}

impl Tracked {
    /// For the repository that a workspace is, or lies in.
    pub fn of(workspace: &Path) -> Option<Tracked> {
        let top = workspace
            .ancestors()
            .find(|top| fs::symlink_metadata(top.join(".git")).is_ok())?;
        Some(Tracked {
            top: top.to_owned(),
            index: git_folder(top)?.join("index"),
            files: HashSet::new(),
            folders: HashSet::new(),
        })
    }

    /// Takes note of a change at a path of the host.
    pub fn add(&mut self, path: &Path, entry: &Entry) {
        let set = match (entry.act, entry.was.unwrap_or(entry.kind)) {
            (Act::Created | Act::Touched, _) => return,
            (Act::Deleted | Act::Modified, Kind::Folder) => &mut self.folders,
            (_, Kind::Folder) => return,
            _ => &mut self.files,
        };
        if let Ok(below) = path.strip_prefix(&self.top)
            && set.len() < MOST
        {
            set.insert(below.as_os_str().as_bytes().to_vec());
        }
    }

    /// So many of them git knows; nothing where that cannot be told.
    pub fn count(&self) -> Option<u64> {
        if self.files.len().max(self.folders.len()) >= MOST {
            return None;
        }
        // The command can have put anything there, a pipe for one.
        let open = File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(&self.index);
        let file = match open {
            Ok(file) if file.metadata().is_ok_and(|it| it.is_file()) => file,
            Ok(_) => return None,
            // A repository without a commit or anything added.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(0),
            Err(_) => return None,
        };
        let mut count = 0;
        each(BufReader::new(file), |path| {
            count += u64::from(self.covers(path));
        })
        .ok()?;
        Some(count)
    }

    fn covers(&self, path: &[u8]) -> bool {
        self.files.contains(path)
            || path
                .iter()
                .enumerate()
                .filter(|(_, byte)| **byte == b'/')
                .any(|(end, _)| {
                    path.get(..end)
                        .is_some_and(|top| self.folders.contains(top))
                })
    }
}

/// `.git`, or where that file says the folder is.
fn git_folder(top: &Path) -> Option<PathBuf> {
    let git = top.join(".git");
    if fs::symlink_metadata(&git).ok()?.is_dir() {
        return Some(git);
    }
    repository::pointed_to(&git)
}

/// Calls with the path of each entry of an index, versions 2 to 4.
fn each(mut index: impl BufRead, mut call: impl FnMut(&[u8])) -> io::Result<()> {
    let broken = || io::Error::other("the index is not understood");
    let mut head = [0; 12];
    index.read_exact(&mut head)?;
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte))
    };
    let version = number(head.get(4..8).unwrap_or_default());
    if !head.starts_with(b"DIRC") || !(2..=4).contains(&version) {
        return Err(broken());
    }
    let mut path = Vec::new();
    for _ in 0..number(head.get(8..12).unwrap_or_default()) {
        let mut fixed = [0; 62];
        index.read_exact(&mut fixed)?;
        let mut length = fixed.len();
        // Extended flags.
        if fixed.get(60).is_some_and(|byte| byte & 0x40 != 0) {
            index.read_exact(&mut [0; 2])?;
            length += 2;
        }
        if version == 4 {
            let cut = variable(&mut index)?;
            let kept = path.len().checked_sub(cut).ok_or_else(broken)?;
            path.truncate(kept);
        } else {
            path.clear();
        }
        let read = index.by_ref().take(LONGEST).read_until(0, &mut path)?;
        if path.pop() != Some(0) {
            return Err(broken());
        }
        if version < 4 {
            // One to eight zeros, the first of which is read.
            let rest = (8 - (length + read - 1) % 8) - 1;
            index.read_exact(&mut [0; 8][..rest])?;
        }
        call(&path);
    }
    Ok(())
}

/// A number of git's own making: seven bits a byte, each further byte one more.
fn variable(index: &mut impl Read) -> io::Result<usize> {
    let mut value = 0_usize;
    for turn in 0..9 {
        let mut byte = [0];
        index.read_exact(&mut byte)?;
        let part = usize::from(byte[0] & 0x7f);
        value = match turn {
            0 => part,
            _ => ((value + 1) << 7) | part,
        };
        if byte[0] & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(io::Error::other("the index is not understood"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn index(version: u32, entries: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend((entries.len() as u32).to_be_bytes());
        for (prefix, path) in entries {
            let start = bytes.len();
            bytes.extend([0; 62]);
            bytes.extend(*prefix);
            bytes.extend(*path);
            bytes.push(0);
            while version < 4 && !(bytes.len() - start).is_multiple_of(8) {
                bytes.push(0);
            }
        }
        bytes
    }

    fn paths(bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        each(bytes, |path| {
            found.push(String::from_utf8_lossy(path).into_owned());
        })
        .unwrap();
        found
    }

    #[test]
    fn paths_are_read_in_every_version() {
        let long = index(2, &[(b"", b"a"), (b"", b"src/main.rs"), (b"", b"src/z")]);
        assert_eq!(paths(&long), ["a", "src/main.rs", "src/z"]);
        // Version 4: so many bytes of the last path are cut off.
        let short = index(4, &[(&[0], b"src/main.rs"), (&[7], b"z")]);
        assert_eq!(paths(&short), ["src/main.rs", "src/z"]);
    }

    #[test]
    fn nonsense_is_no_index() {
        assert!(each(&b"DIRC\0\0\0\x09\0\0\0\x01"[..], |_| {}).is_err());
        assert!(each(&index(4, &[(&[9], b"a")])[..], |_| {}).is_err());
        assert!(each(&b"DIRC\0\0\0\x02\0\0\0\x05"[..], |_| {}).is_err());
    }

    #[test]
    fn a_deleted_folder_stands_for_what_is_in_it() {
        let mut tracked = Tracked {
            top: "/w".into(),
            index: PathBuf::new(),
            files: HashSet::new(),
            folders: HashSet::new(),
        };
        let entry = |act, kind| Entry::new(0, "".into(), act, kind);
        tracked.add(Path::new("/w/gone"), &entry(Act::Deleted, Kind::Folder));
        tracked.add(Path::new("/w/text"), &entry(Act::Modified, Kind::File));
        tracked.add(Path::new("/w/new"), &entry(Act::Created, Kind::File));
        assert!(tracked.covers(b"gone/deep/file"));
        assert!(tracked.covers(b"text"));
        assert!(!tracked.covers(b"gone2/file"));
        assert!(!tracked.covers(b"new"));
    }
}
