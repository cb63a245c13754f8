//! One writable place of the jail in a preview: the host's folder, and where changes go.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sjail_policy::bytes::ByteString;

use crate::beneath::Beneath;

/// One writable place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// The host's folder or file.
    pub host: ByteString,
    /// Where the command sees it.
    pub seen_at: ByteString,
    /// How changes are kept from the host.
    pub means: Means,
    /// Whether changes can be committed.
    pub fate: Fate,
    /// The one file of the folder that is writable, where it is not the whole folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<ByteString>,
    /// When the host's folder was last changed, while one of ours lies in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<(i64, i64)>,
}

/// How changes are kept from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// An overlay: only what is changed is copied.
    Overlay,
    /// A copy of everything.
    Copy,
}

/// What becomes of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// They are shown, and kept until they are committed or dropped.
    Kept,
    /// They are dropped when the command ends: package caches of the sandbox itself.
    Dropped,
}

/// The folder of one layer within the preview's own.
#[derive(Debug, Clone)]
pub struct Home(PathBuf);

impl Home {
    /// The folder of the layer of that number.
    pub fn of(preview: &Path, number: usize) -> Home {
        Home(preview.join("layers").join(number.to_string()))
    }

    /// Makes the folders of a layer.
    pub fn make(&self, host: &Path) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true);
        builder.create(&self.0)?;
        if fs::metadata(host)?.is_dir() {
            builder.create(self.upper())?;
            builder.create(self.work())?;
        }
        Ok(())
    }

    /// Where changes go.
    pub fn upper(&self) -> PathBuf {
        self.0.join("upper")
    }

    /// The overlay's scratch.
    pub fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// What the command left.
    pub fn open(&self) -> io::Result<Beneath> {
        Beneath::open(&fs::canonicalize(self.upper())?)
    }

    /// The overlay leaves folders of mode 000 in its scratch, of no use any more.
    pub fn drop_scratch(&self) {
        remove_tree(&self.work());
    }

    /// Drops everything.
    pub fn remove(&self) {
        self.drop_scratch();
        remove_tree(&self.0);
    }
}

/// Removes a folder of ours with all that a command left in it: also what it closed to
/// its own user, or nested deeper than paths, descriptors or stacks reach.
pub fn remove_tree(path: &Path) {
    if fs::remove_dir_all(path).is_ok() {
        return;
    }
    if let Ok(top) = fs::canonicalize(path).and_then(|path| Beneath::open(&path)) {
        top.clear();
    }
    let _ = fs::remove_dir_all(path);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn nothing_is_too_deep_or_too_closed() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().join("top");
        let names: PathBuf = std::iter::repeat_n("d", 300).collect();
        fs::create_dir_all(top.join(&names)).unwrap();
        fs::create_dir_all(top.join("other")).unwrap();
        fs::write(top.join(&names).join("file"), "x").unwrap();
        // Deeper than a path can say.
        for _ in 0..12 {
            let deeper = scratch.path().join("deeper");
            fs::create_dir_all(deeper.join(&names)).unwrap();
            fs::rename(&top, deeper.join(&names).join("top")).unwrap();
            fs::rename(&deeper, &top).unwrap();
        }
        for closed in [top.join("d/d"), top.join("d")] {
            fs::set_permissions(closed, fs::Permissions::from_mode(0o000)).unwrap();
        }
        fs::create_dir_all(top.join("flat-0/deep/deeper")).unwrap();
        let open = Beneath::open(&fs::canonicalize(&top).unwrap()).unwrap();
        open.clear();
        assert_eq!(fs::read_dir(&top).unwrap().count(), 0);
        remove_tree(&top);
        assert!(!top.exists());
    }
}
