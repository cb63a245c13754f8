//! Where a preview is not like a run for real, and how that is said.
//!
//! An overlay refuses to rename a folder that the host has, cannot change what belongs to
//! another user or group, and cannot lie over a folder in which something is mounted.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{getegid, geteuid};

use super::show_path;
use crate::beneath::{Beneath, Kind, kind};

/// Why a place is copied, though overlays can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// Something is mounted below it: there.
    Mount(PathBuf),
    /// It belongs to another user or group.
    Owner,
}

impl Obstacle {
    /// What stands in the way of an overlay over this folder of the host.
    pub fn at(host: &Path, mounts: &[PathBuf]) -> Option<Obstacle> {
        if let Some(mount) = mounts.iter().find(|mount| is_below(mount, host)) {
            return Some(Obstacle::Mount(mount.clone()));
        }
        let meta = fs::symlink_metadata(host).ok()?;
        let own = (geteuid().as_raw(), getegid().as_raw());
        ((meta.uid(), meta.gid()) != own).then_some(Obstacle::Owner)
    }

    /// That a copy was made.
    pub fn copied(&self, host: &Path) -> String {
        let host = show_path(host);
        match self {
            Obstacle::Mount(mount) => format!(
                "the preview ran on a copy of {host}: an overlay cannot lie over {}, which is mounted there; what changes in it is not committed",
                show_path(mount)
            ),
            Obstacle::Owner => format!(
                "the preview ran on a copy of {host}: the folder belongs to another user or group, and an overlay could not change it"
            ),
        }
    }

    /// That the overlay stays as it is: there is too much to copy.
    pub fn stays(&self, host: &Path) -> String {
        format!(
            "{} belongs to another user or group: in the preview nothing could be made, renamed or deleted right in it (\"{OVERFLOW}\"), and it is too large for a copy",
            show_path(host)
        )
    }
}

/// The folders and files of the host that something is mounted on.
pub fn mounts() -> Vec<PathBuf> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescaped)
        .collect()
}

/// What lies below a folder, seen from there.
pub fn below(mounts: &[PathBuf], host: &Path) -> Vec<PathBuf> {
    let mounts = mounts.iter().filter(|mount| is_below(mount, host));
    mounts
        .filter_map(|mount| mount.strip_prefix(host).ok())
        .map(Path::to_owned)
        .collect()
}

fn is_below(mount: &Path, host: &Path) -> bool {
    mount != host && mount.starts_with(host)
}

/// The kernel writes blanks and the like as a backslash and three octal digits.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let code = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = match code {
            Some(_) => tail.get(3..).unwrap_or_default(),
            None => tail,
        };
    }
    OsString::from_vec(bytes).into()
}

/// What the C library says of a file whose owner a jail cannot name.
const OVERFLOW: &str = "Value too large for defined data type";

/// Whether a command has met somebody else's file, by the end of what it wrote.
pub fn met_an_owner(last_words: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(last_words);
    let line = text
        .lines()
        .find(|line| line.contains(OVERFLOW) || line.contains("EOVERFLOW"))?;
    Some(format!(
        "what belongs to another user or group cannot be changed in a preview, though it may be for real: {}",
        sjail_policy::show::clipped(line.trim().as_bytes(), 200)
    ))
}

/// Of folders that a command tried to rename, those that an overlay has refused to: they
/// are still there, and still the host's. Where a program has copied it instead and removed
/// it, as `mv` does if it may, nothing is to be said.
pub fn not_renamed(
    tried: &BTreeSet<PathBuf>,
    seen_at: &Path,
    upper: &Beneath,
    lower: &Beneath,
) -> Vec<String> {
    let still_there = |path: &&PathBuf| {
        let is_folder = |beneath: &Beneath| {
            let stat = beneath.stat(path).ok().flatten();
            stat.map(|stat| kind(&stat) == Kind::Folder)
        };
        // A folder above that was made anew hides what the host has.
        let hidden = path.ancestors().any(|above| upper.is_opaque(above))
            || path.ancestors().skip(1).any(|above| {
                upper
                    .stat(above)
                    .is_ok_and(|stat| stat.is_some_and(|stat| kind(&stat) != Kind::Folder))
            });
        is_folder(lower) == Some(true) && is_folder(upper) != Some(false) && !hidden
    };
    let below = tried
        .iter()
        .filter_map(|path| path.strip_prefix(seen_at).ok());
    let below: BTreeSet<PathBuf> = below.map(Path::to_owned).collect();
    below
        .iter()
        .filter(|path| !path.as_os_str().is_empty())
        .filter(still_there)
        .map(|path| {
            format!(
                "the folder {} could not be renamed in the preview (\"Invalid cross-device link\"): overlays cannot, and what the command did instead has not moved it as a whole; for real it could be",
                show_path(&lower.path().join(path))
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn blanks_in_mount_points() {
        assert_eq!(unescaped(b"/a\\040b"), Path::new("/a b"));
        assert_eq!(unescaped(b"/a\\b"), Path::new("/a\\b"));
        assert_eq!(unescaped(b"/end\\13"), Path::new("/end\\13"));
    }

    #[test]
    fn mounts_below_and_beside() {
        let mounts = ["/w", "/w/m", "/w/deep/n", "/wide"].map(PathBuf::from);
        let found = below(&mounts, Path::new("/w"));
        assert_eq!(found, [Path::new("m"), Path::new("deep/n")]);
        let mount = Obstacle::Mount("/w/m".into());
        assert_eq!(Obstacle::at(Path::new("/w"), &mounts), Some(mount));
    }

    #[test]
    fn foreign_files_are_met() {
        let said = b"ok\ntouch: setting times of 'x': Value too large for defined data type\n";
        assert!(met_an_owner(said).unwrap().contains("touch"));
        assert_eq!(met_an_owner(b"ok\n"), None);
    }
}
