//! A folder and all that is in it, as it can be compared.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Everything in a folder, by its path below it; the folder itself is the empty path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forest(pub BTreeMap<PathBuf, Leaf>);

/// One thing in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// `file`, `folder`, `link`, `pipe` or `other`.
    pub kind: &'static str,
    /// Permissions.
    pub mode: u32,
    /// The content of a file, the target of a link.
    pub content: Vec<u8>,
    /// When it was last written, seconds and nanoseconds.
    pub mtime: (i64, i64),
    /// The first path of the same file, where it has several.
    pub same_as: Option<PathBuf>,
    /// Attributes, by name.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether a file takes up much less room than it is long.
    pub sparse: bool,
}

impl Forest {
    /// Reads a folder.
    pub fn of(top: &Path) -> io::Result<Forest> {
        let mut forest = Forest(BTreeMap::new());
        let mut first = BTreeMap::new();
        let mut open = vec![PathBuf::new()];
        while let Some(below) = open.pop() {
            let path = top.join(&below);
            let meta = fs::symlink_metadata(&path)?;
            let kind = meta.file_type();
            if kind.is_dir() {
                let mut names: Vec<_> = fs::read_dir(&path)?
                    .map(|entry| entry.map(|entry| entry.file_name()))
                    .collect::<io::Result<_>>()?;
                // The last one is read first: paths come out in order.
                names.sort();
                open.extend(names.iter().rev().map(|name| below.join(name)));
            }
            let content = if kind.is_file() {
                fs::read(&path)?
            } else if kind.is_symlink() {
                fs::read_link(&path)?.as_os_str().as_bytes().to_vec()
            } else {
                Vec::new()
            };
            let same_as = (kind.is_file() && meta.nlink() > 1).then(|| {
                let known = first.entry((meta.dev(), meta.ino()));
                known.or_insert_with(|| below.clone()).clone()
            });
            let leaf = Leaf {
                kind: if kind.is_file() {
                    "file"
                } else if kind.is_dir() {
                    "folder"
                } else if kind.is_symlink() {
                    "link"
                } else if kind.is_fifo() {
                    "pipe"
                } else {
                    "other"
                },
                mode: meta.mode() & 0o7777,
                content,
                mtime: (meta.mtime(), meta.mtime_nsec()),
                same_as,
                attributes: attributes(&path),
                sparse: kind.is_file() && meta.blocks() * 512 + 65536 < meta.size(),
            };
            forest.0.insert(below, leaf);
        }
        Ok(forest)
    }

    /// What differs, one line each. Times are compared where one of the two lies before
    /// its own side's moment (seconds): later ones were made by the clock.
    pub fn differences(&self, other: &Forest, before: i64) -> Vec<String> {
        let mut found = Vec::new();
        let paths: std::collections::BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        for path in paths {
            let name = path.display();
            match (self.0.get(path), other.0.get(path)) {
                (Some(one), Some(two)) => {
                    for difference in one.differences(two, before) {
                        found.push(format!("{name}: {difference}"));
                    }
                }
                (Some(one), None) => found.push(format!("{name}: only left ({})", one.kind)),
                (None, Some(two)) => found.push(format!("{name}: only right ({})", two.kind)),
                (None, None) => {}
            }
        }
        found
    }
}

impl Leaf {
    fn differences(&self, other: &Leaf, before: i64) -> Vec<String> {
        let mut found = Vec::new();
        if self.kind != other.kind {
            return vec![format!("{} and {}", self.kind, other.kind)];
        }
        if self.mode != other.mode {
            found.push(format!("mode {:o} and {:o}", self.mode, other.mode));
        }
        if self.content != other.content {
            found.push(format!(
                "content of {} and {} bytes",
                self.content.len(),
                other.content.len()
            ));
        }
        if self.same_as != other.same_as {
            found.push(format!("links {:?} and {:?}", self.same_as, other.same_as));
        }
        if self.attributes != other.attributes {
            found.push(format!(
                "attributes {:?} and {:?}",
                self.attributes, other.attributes
            ));
        }
        if self.sparse != other.sparse {
            found.push(format!("sparse {} and {}", self.sparse, other.sparse));
        }
        let is_old = self.mtime.0 < before || other.mtime.0 < before;
        if is_old && self.mtime != other.mtime {
            found.push(format!("time {:?} and {:?}", self.mtime, other.mtime));
        }
        found
    }
}

/// The attributes in the `user.` space.
pub fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return found;
    };
    let mut list = vec![0_u8; 1 << 14];
    // SAFETY: the path ends in NUL; the kernel writes at most the stated number of bytes.
    let length = unsafe { libc::llistxattr(path.as_ptr(), list.as_mut_ptr().cast(), list.len()) };
    list.truncate(usize::try_from(length).unwrap_or(0));
    for name in list.split(|byte| *byte == 0) {
        let Ok(own) = CString::new(name) else {
            continue;
        };
        if !name.starts_with(b"user.") {
            continue;
        }
        let mut value = vec![0_u8; 1 << 14];
        // SAFETY: as above.
        let length = unsafe {
            libc::lgetxattr(
                path.as_ptr(),
                own.as_ptr(),
                value.as_mut_ptr().cast(),
                value.len(),
            )
        };
        value.truncate(usize::try_from(length).unwrap_or(0));
        found.insert(name.to_vec(), value);
    }
    found
}

/// Sets an attribute; whether that worked.
pub fn set_attribute(path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let name = CString::new(name)?;
    // SAFETY: both strings end in NUL; the kernel reads the stated number of bytes.
    let done = unsafe {
        libc::lsetxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
