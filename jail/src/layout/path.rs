//! Paths inside a jail, as they are compared and as the child wants them.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::error::Error;

/// Whether a path is another or lies below it. Both are plain, so their bytes tell;
/// comparing part by part, as `Path` does, takes ten times as long, and this is asked
/// some thousand times for each jail.
pub fn within(path: &Path, top: &Path) -> bool {
    let top = top.as_os_str().as_bytes();
    match path.as_os_str().as_bytes().strip_prefix(top) {
        Some([] | [b'/', ..]) => true,
        Some(_) => top == b"/",
        None => false,
    }
}

/// Whether two plain paths are the same.
pub fn same(one: &Path, other: &Path) -> bool {
    one.as_os_str() == other.as_os_str()
}

/// A path without `.` and doubled slashes; `None` when it is relative or goes up.
pub fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::from("/");
    if !path.is_absolute() {
        return None;
    }
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => plain.push(name),
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// A C string for the kernel; a NUL byte inside cannot be.
pub fn c_string(path: &Path) -> Result<CString, Error> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::NulByte)
}

/// The path as the child wants it: relative to the new root.
pub fn relative(path: &Path) -> Result<CString, Error> {
    let bytes = path.as_os_str().as_bytes();
    CString::new(bytes.strip_prefix(b"/").unwrap_or(bytes)).map_err(|_| Error::NulByte)
}

/// The path inside that is meant by that.
pub fn absolute(relative: &CString) -> PathBuf {
    Path::new("/").join(OsStr::from_bytes(relative.to_bytes()))
}

/// Joins without leaving a slash at the end when there is nothing to join.
pub fn join(path: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() {
        path.to_owned()
    } else {
        path.join(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lies_within_itself_and_what_is_above() {
        for (path, top, expected) in [
            ("/a/b", "/a", true),
            ("/a", "/a", true),
            ("/ab", "/a", false),
            ("/a", "/a/b", false),
            ("/a", "/", true),
        ] {
            assert_eq!(
                within(Path::new(path), Path::new(top)),
                expected,
                "{path} {top}"
            );
        }
    }

    #[test]
    fn plain_paths() {
        assert_eq!(
            plain(Path::new("/a//b/./c/")),
            Some(PathBuf::from("/a/b/c"))
        );
        assert_eq!(plain(Path::new("/a/../b")), None);
        assert_eq!(plain(Path::new("a")), None);
    }
}
