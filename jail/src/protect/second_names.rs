//! Second names of protected files: a file that is read-only at its own path can be written
//! by another name that leads to it (a hard link), which a command may have made before the
//! file became what it is. So a protected file has one name; where it has more, it becomes
//! a file of its own, and the other names keep the old one.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use nix::sys::stat::{FileStat, Mode};
use nix::unistd::{AccessFlags, access, geteuid};

use super::new_file::{self, New};
use crate::beneath::{self, Beneath};
use crate::sys::xattr;

/// How often a file is parted from names that are made for it meanwhile.
const TRIES: usize = 16;
/// So much is copied at most: nothing that is protected is that large, and a command can
/// make thousands of names for one file.
const MOST: u64 = 64 << 20;

/// Whether a file has another name by which a command of this account could write it.
pub fn has(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|there| there.is_file() && there.nlink() > 1)
        && access(path, AccessFlags::W_OK).is_ok()
}

/// Makes a file with several names a file of its own, with the same content, mode, times
/// and attributes. Gives whether it had more than one.
pub fn part(path: &Path) -> io::Result<bool> {
    part_within(path, &mut MOST.clone())
}

fn part_within(path: &Path, room: &mut u64) -> io::Result<bool> {
    if !has(path) {
        return Ok(false);
    }
    let folder = Beneath::open(path.parent().unwrap_or(path))?;
    let name = Path::new(path.file_name().unwrap_or_default());
    for _ in 0..TRIES {
        match folder.stat(name)? {
            Some(stat) if is_doubled(&stat) => copy_over(&folder, name, room)?,
            _ => return Ok(true),
        }
    }
    Err(io::Error::other(
        "it is given another name again and again by somebody else",
    ))
}

/// The same for every file in a folder of our own, and for what is no folder.
pub fn part_all(path: &Path) -> io::Result<()> {
    let (mut room, mut left) = (MOST, vec![path.to_owned()]);
    while let Some(path) = left.pop() {
        if fs::symlink_metadata(&path)?.is_dir() {
            for entry in fs::read_dir(path)? {
                left.push(entry?.path());
            }
        } else {
            part_within(&path, &mut room)?;
        }
    }
    Ok(())
}

fn is_doubled(stat: &FileStat) -> bool {
    beneath::kind(stat) == beneath::Kind::File && stat.st_nlink > 1
}

fn copy_over(folder: &Beneath, name: &Path, room: &mut u64) -> io::Result<()> {
    let from = folder.file(name)?;
    let there = from.metadata()?;
    let too_large = || io::Error::other("there is too much to copy");
    *room = room.checked_sub(there.len()).ok_or_else(too_large)?;
    let mut new = New::make(
        folder,
        &new_file::beside(name),
        Mode::S_IRUSR | Mode::S_IWUSR,
    )?;
    // It may grow meanwhile.
    io::copy(&mut from.take(there.len()), &mut new.file)?;
    carry_over(folder, name, &new.file)?;
    if geteuid().is_root() {
        fchown(&new.file, Some(there.uid()), Some(there.gid()))?;
    }
    new.file.set_permissions(there.permissions())?;
    let times = fs::FileTimes::new().set_modified(there.modified()?);
    new.file.set_times(times)?;
    new.rename(name)
}

fn carry_over(folder: &Beneath, name: &Path, to: &File) -> io::Result<()> {
    for (attribute, value) in folder.attributes(name)? {
        xattr::set(to.as_fd(), &CString::new(attribute)?, &value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_parted_from_its_other_names() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("config"), folder.path().join("notes"));
        fs::write(&file, "one").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(!part(&file).unwrap());
        fs::hard_link(&file, &other).unwrap();
        let before = fs::metadata(&file).unwrap();
        assert!(part(&file).unwrap());
        fs::write(&other, "two").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"one");
        let after = fs::metadata(&file).unwrap();
        assert_eq!(after.mode(), before.mode());
        assert_eq!(after.modified().unwrap(), before.modified().unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&file, "one").unwrap();
        fs::hard_link(&file, &other).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(!part(&link).unwrap());
        assert_eq!(fs::metadata(&file).unwrap().nlink(), 2);
    }
}
