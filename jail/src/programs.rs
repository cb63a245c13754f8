//! Which file a program's name leads to, and whether anybody but root can have put it there.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::unistd::{AccessFlags, access};
use sjail_policy::decide::Whose;
use sjail_policy::need::Found;

/// Whose the first program of that name along `PATH` is: root's, in folders of root's, is what
/// its name says.
pub fn whose(path: &OsStr, name: &str) -> Whose {
    let found = std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file));
    match found {
        Some(file) if is_roots(&file) => Whose::Root,
        Some(file) => Whose::Others(file.parent().unwrap_or(Path::new("/")).to_owned()),
        None => Whose::Nobody,
    }
}

/// What is at a path, as far as this account may use it.
pub fn look(path: &[u8]) -> Option<Found> {
    let real = fs::canonicalize(OsStr::from_bytes(path)).ok()?;
    let may = |flag| access(&real, flag).is_ok();
    Some(Found {
        readable: may(AccessFlags::R_OK),
        writable: may(AccessFlags::W_OK),
        real: real.into(),
    })
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The file that links lead to, and every folder above it, are root's and closed to others.
fn is_roots(file: &Path) -> bool {
    let Ok(real) = fs::canonicalize(file) else {
        return false;
    };
    let closed = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == 0 && meta.mode() & 0o022 == 0)
    };
    real.ancestors().all(closed)
        && file.parent().is_some_and(|folder| {
            folder
                .ancestors()
                .all(|path| fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == 0))
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_first_one_counts() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("ls");
        fs::write(&own, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        let both = std::env::join_paths([folder.path(), Path::new("/usr/bin"), Path::new("/bin")])
            .unwrap();
        let system = OsStr::new("/usr/bin:/bin");
        assert_eq!(whose(system, "ls"), Whose::Root);
        fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(whose(&both, "ls"), Whose::Others(folder.path().to_owned()));
        assert_eq!(whose(system, "no-such-program-here"), Whose::Nobody);
        assert_eq!(whose(OsStr::new("usr/bin:."), "ls"), Whose::Nobody);
    }
}
