//! Programs and files of the host: where they are, and whose.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{AccessFlags, access};
use sjail_policy::decide::Whose;
use sjail_policy::need::Found;
use sjail_policy::plan::Variable;

/// Where the caller looks for programs.
pub fn search_path(env: &[Variable]) -> &OsStr {
    env.iter()
        .find(|variable| variable.name.as_bytes() == b"PATH")
        .map(|variable| variable.value.as_os_str())
        .unwrap_or_default()
}

/// Whose the first program of that name along a search path is: root's, in folders of root's,
/// is what its name says.
pub fn whose(path: &OsStr, name: &str) -> Whose {
    let found = std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| {
            fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
        });
    match found {
        Some(file) if is_roots(&file) => Whose::Root,
        Some(file) => Whose::Others(file.parent().unwrap_or(Path::new("/")).to_owned()),
        None => Whose::Nobody,
    }
}

/// The file that links lead to, and every folder above it, are root's and closed to
/// others.
fn is_roots(file: &Path) -> bool {
    let Ok(real) = fs::canonicalize(file) else {
        return false;
    };
    let roots = |path: &Path| {
        fs::symlink_metadata(path)
            .ok()
            .filter(|meta| meta.uid() == 0)
    };
    real.ancestors()
        .all(|path| roots(path).is_some_and(|meta| meta.mode() & 0o022 == 0))
        && file
            .parent()
            .is_some_and(|folder| folder.ancestors().all(|path| roots(path).is_some()))
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
