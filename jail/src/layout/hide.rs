//! What is not to be seen although a folder above it is: laid over with something
//! unreadable.
//!
//! A mount covers one path, so patterns are expanded when the jail is drawn up. A name
//! without `*` costs one look. A pattern with `*` costs a look into the folders that it
//! can match in; `**` reaches [`DEPTH`] folders below where it stands, not the whole
//! tree. What matches a pattern only later, or deeper, is not covered: SECURITY.md says so.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sjail_policy::bytes::ByteString;
use sjail_policy::plan::{Filesystem, Unhide};
use sjail_policy::rule::Case;
use sjail_policy::rule::path::absolute_covers;

use super::look;
use super::tree::{Kind, Origin, Tree, plain};
use crate::error::Error;

/// How many folders deep `**` looks.
pub const DEPTH: usize = 3;

/// How many names are looked at for all patterns together; a pattern that needs more is
/// refused rather than half obeyed.
const BUDGET: usize = 50_000;

/// Sockets and folders of sockets below home that lead to a daemon which is as good as
/// root, or to keys. A read-only mount does not stop `connect`.
const DOORS: [&str; 9] = [
    ".docker/run",
    ".docker/desktop",
    ".colima",
    ".lima",
    ".orbstack/run",
    ".rd/docker.sock",
    ".local/share/containers/podman",
    ".gnupg",
    ".ssh/agent",
];

/// Lays unreadable files and folders over what the patterns match, over sjail's own
/// folders (`own`) and over doors to the host, where a grant would show them.
pub fn lay(
    tree: &mut Tree,
    filesystem: &Filesystem,
    home: &Path,
    own: &[PathBuf],
) -> Result<(), Error> {
    let mut hidden = Vec::new();
    let mut search = Search {
        tree,
        budget: BUDGET,
    };
    for (number, pattern) in filesystem.hide.iter().enumerate() {
        let shown: Vec<&Unhide> = filesystem
            .unhide
            .iter()
            .filter(|unhide| unhide.hidden == number)
            .collect();
        search.expand(pattern, &shown, &filesystem.system, &mut hidden)?;
    }
    for path in DOORS.map(|door| home.join(door)) {
        search.literal(&path, &mut hidden);
    }
    for path in own {
        if search.tree.covered(path) {
            // Absent, it could be planted.
            super::home::make_folders(path)?;
            search.literal(path, &mut hidden);
        }
    }
    hidden.sort();
    hidden.dedup();
    for (path, kind) in hidden {
        tree.pin_way_to(&path);
        tree.mask(&path, kind);
    }
    Ok(())
}

type Hits = Vec<(PathBuf, Kind)>;

struct Search<'a> {
    tree: &'a Tree,
    budget: usize,
}

impl Search<'_> {
    fn expand(
        &mut self,
        pattern: &ByteString,
        shown: &[&Unhide],
        system: &[ByteString],
        hits: &mut Hits,
    ) -> Result<(), Error> {
        let wild = |name: &[u8]| name.contains(&b'*') || name.contains(&b'?');
        let names: Vec<&[u8]> = pattern
            .as_bytes()
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
            .collect();
        let literal = names.iter().take_while(|name| !wild(name)).count();
        let mut prefix = PathBuf::from("/");
        for name in names.iter().take(literal) {
            prefix.push(std::ffi::OsStr::from_bytes(name));
        }
        let rest = names.get(literal..).unwrap_or_default();
        // A folder and all that is in it: the folder itself is laid over, unless a part
        // of it is to be seen.
        if shown.is_empty() && rest.iter().all(|name| *name == b"**") {
            self.literal(&prefix, hits);
            return Ok(());
        }
        let depth = if rest.contains(&b"**".as_slice()) {
            DEPTH + rest.len()
        } else {
            rest.len()
        };
        let mut roots = Vec::new();
        if self.tree.covered(&prefix) {
            roots.push(prefix);
        } else {
            roots.extend(self.tree.mounts().iter().filter_map(|entry| {
                let own = matches!(&entry.origin, Origin::Host(seen) if seen.kind == Kind::Folder);
                let of_system = system.iter().any(|path| entry.dest == path.as_path());
                (own && !of_system && entry.dest.starts_with(&prefix)).then(|| entry.dest.clone())
            }));
        }
        for root in roots {
            let below = if shown.is_empty() {
                depth
            } else {
                depth.max(1)
            };
            self.walk(&root, below, pattern, shown, hits)?;
        }
        Ok(())
    }

    fn walk(
        &mut self,
        inside: &Path,
        depth: usize,
        pattern: &ByteString,
        shown: &[&Unhide],
        hits: &mut Hits,
    ) -> Result<(), Error> {
        if depth == 0 {
            return Ok(());
        }
        let Some((_, outside)) = self.tree.outside(inside) else {
            return Ok(());
        };
        // A folder that this user cannot read the jail cannot read either.
        let Ok(entries) = std::fs::read_dir(&outside) else {
            return Ok(());
        };
        for entry in entries.flatten() {
            self.budget = self
                .budget
                .checked_sub(1)
                .ok_or_else(|| Error::HideTooWide {
                    pattern: pattern.clone(),
                })?;
            let path = inside.join(entry.file_name());
            let covers = |pattern: &ByteString| {
                absolute_covers(
                    pattern.as_bytes(),
                    path.as_os_str().as_bytes(),
                    Case::Folded,
                )
            };
            let kind = match entry.file_type() {
                Ok(kind) if kind.is_dir() => Kind::Folder,
                Ok(kind) if kind.is_symlink() => Kind::Link,
                _ => Kind::File,
            };
            if covers(pattern) && !shown.iter().any(|unhide| covers(&unhide.pattern)) {
                self.hit(&path, kind, hits);
            } else if kind == Kind::Folder {
                self.walk(&path, depth - 1, pattern, shown, hits)?;
            }
        }
        Ok(())
    }

    /// A path by its name, if the jail would show it.
    fn literal(&self, path: &Path, hits: &mut Hits) {
        let Some(path) = plain(path) else {
            return;
        };
        let Some((_, outside)) = self.tree.outside(&path) else {
            return;
        };
        if let Some((seen, _)) = look::at(&outside) {
            self.hit(&path, seen.kind, hits);
        }
    }

    /// A link is covered itself, so that it cannot be led elsewhere, and so is what it
    /// leads to now.
    fn hit(&self, path: &Path, kind: Kind, hits: &mut Hits) {
        hits.push((path.to_owned(), kind));
        if kind == Kind::Link
            && let Some((_, outside)) = self.tree.outside(path)
            && let Ok(real) = look::through_links(&outside)
            && self.tree.covered(&real.path)
        {
            hits.push((real.path, real.kind));
        }
    }
}
