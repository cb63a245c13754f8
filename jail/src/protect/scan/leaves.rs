//! Folders without folders in them, told by their number of names: each folder has one in
//! the folder above, one in itself, and one in every folder below it. Where the file system
//! counts so, a folder with two need not be read to know that nothing is below.

use std::path::Path;

use nix::sys::stat::{FileStat, lstat};
use nix::sys::statfs::{EXT4_SUPER_MAGIC, FsType, TMPFS_MAGIC, XFS_SUPER_MAGIC, statfs};

/// File systems that count folders' names exactly.
const COUNTING: [FsType; 3] = [EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, TMPFS_MAGIC];

/// Tells leaves on the file system of a workspace; on others everything may have folders.
#[derive(Debug)]
pub struct Leaves(Option<libc::dev_t>);

impl Leaves {
    /// On the file system where this folder is.
    pub fn of(workspace: &Path) -> Leaves {
        let counts = statfs(workspace).is_ok_and(|fs| COUNTING.contains(&fs.filesystem_type()));
        let device = lstat(workspace).map(|stat| stat.st_dev).ok();
        Leaves(device.filter(|_| counts))
    }

    /// Whether nothing can be below this folder, for certain.
    pub fn is_leaf(&self, folder: &Path) -> bool {
        self.0.is_some() && lstat(folder).is_ok_and(|stat| self.is_leafs(&stat))
    }

    /// The same for what this is the stat of.
    pub fn is_leafs(&self, stat: &FileStat) -> bool {
        let is_folder = stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
        is_folder && stat.st_nlink == 2 && self.0 == Some(stat.st_dev)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    #[test]
    fn a_folder_with_a_folder_in_it_is_no_leaf() {
        for base in ["/var/tmp", "/dev/shm"] {
            let folder = tempfile::tempdir_in(base).unwrap();
            let top = folder.path();
            let leaves = Leaves::of(top);
            fs::create_dir(top.join("a")).unwrap();
            fs::write(top.join("a/file"), "").unwrap();
            std::os::unix::fs::symlink("..", top.join("a/link")).unwrap();
            assert_eq!(leaves.is_leaf(&top.join("a")), leaves.0.is_some(), "{base}");
            assert!(!leaves.is_leaf(top));
            assert!(!leaves.is_leaf(&top.join("a/file")));
            assert!(!leaves.is_leaf(&top.join("none")));
            fs::create_dir(top.join("a/b")).unwrap();
            assert!(!leaves.is_leaf(&top.join("a")));
        }
    }

    #[test]
    fn elsewhere_nothing_is_certain() {
        assert!(!Leaves::of(Path::new("/proc")).is_leaf(Path::new("/proc/self/fd")));
        // Another file system than the one that was asked.
        assert!(!Leaves::of(Path::new("/var/tmp")).is_leaf(Path::new("/proc/1/task")));
    }
}
