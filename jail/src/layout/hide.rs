//! What is not to be seen although a folder above it is: laid over with something
//! unreadable.
//!
//! A mount covers one path, so patterns are expanded when the jail is drawn up. A name
//! without `*` costs one look. A pattern with `*` costs a look into the folders that it
//! can match in; `**` reaches [`DEPTH`] folders below where it stands, not the whole
//! tree. What matches a pattern only later, or deeper, is not covered: SECURITY.md says so.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sjail_policy::bytes::ByteString;
use sjail_policy::plan::{Filesystem, Unhide};
use sjail_policy::rule::Case;
use sjail_policy::rule::path::absolute_covers;

use super::look;
use super::origin::{Kind, Origin};
use super::path::plain;
use super::tree::Tree;
use crate::error::Error;

/// How many folders deep `**` looks.
pub const DEPTH: usize = 3;

/// How many names below one folder are looked at; patterns that need more are refused
/// rather than half obeyed.
pub const BUDGET: usize = 200_000;

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
    let search = Search { tree };
    // All patterns that are looked for below the same folder share one walk.
    let mut walks: BTreeMap<PathBuf, Vec<Wanted>> = BTreeMap::new();
    for (number, pattern) in filesystem.hide.iter().enumerate() {
        let shown: Vec<&Unhide> = filesystem
            .unhide
            .iter()
            .filter(|unhide| unhide.hidden == number)
            .collect();
        let Some((roots, wanted)) = search.expand(pattern, shown, &filesystem.system, &mut hidden)
        else {
            continue;
        };
        for root in roots {
            walks.entry(root).or_default().push(wanted.clone());
        }
    }
    for (root, mut wanted) in walks {
        for wanted in &mut wanted {
            wanted.begin(&root);
        }
        let mut budget = BUDGET;
        let done = search.walk(&root, 0, &wanted, &mut budget, &mut hidden);
        if done.is_break() {
            let wildest = wanted.iter().max_by_key(|wanted| wanted.depth);
            return Err(Error::HideTooWide {
                pattern: wildest.map_or_else(ByteString::default, |wanted| wanted.pattern.clone()),
                folder: root,
                most: BUDGET,
            });
        }
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

/// A pattern that is looked for.
#[derive(Clone)]
struct Wanted<'a> {
    pattern: &'a ByteString,
    /// What is seen although the pattern covers it.
    shown: Vec<&'a Unhide>,
    /// How many folders deep it is looked for.
    depth: usize,
    /// How each name begins and ends that can be the pattern's last: spares the whole
    /// comparison for nearly every name.
    ends: (&'a [u8], &'a [u8]),
}

impl Wanted<'_> {
    /// Below a folder that the pattern covers, every name is the pattern's.
    fn begin(&mut self, root: &Path) {
        if self.matches(self.pattern, root) {
            self.ends = (b"", b"");
        }
    }

    fn can_be(&self, name: &[u8]) -> bool {
        let (first, last) = self.ends;
        let is = |part: Option<&[u8]>, own| part.is_some_and(|p| p.eq_ignore_ascii_case(own));
        let from = name.len().checked_sub(last.len());
        is(name.get(..first.len()), first) && is(from.and_then(|at| name.get(at..)), last)
    }

    fn covers(&self, path: &Path) -> bool {
        self.matches(self.pattern, path)
            && !self
                .shown
                .iter()
                .any(|unhide| self.matches(&unhide.pattern, path))
    }

    fn matches(&self, pattern: &ByteString, path: &Path) -> bool {
        absolute_covers(
            pattern.as_bytes(),
            path.as_os_str().as_bytes(),
            Case::Folded,
        )
    }
}

fn is_wild(byte: &u8) -> bool {
    matches!(byte, b'*' | b'?')
}

struct Search<'a> {
    tree: &'a Tree,
}

impl Search<'_> {
    /// Where a pattern is to be looked for; nothing if that is done already.
    fn expand<'p>(
        &self,
        pattern: &'p ByteString,
        shown: Vec<&'p Unhide>,
        system: &[ByteString],
        hits: &mut Hits,
    ) -> Option<(Vec<PathBuf>, Wanted<'p>)> {
        let wild = |name: &[u8]| name.iter().any(is_wild);
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
            return None;
        }
        let mut depth = rest.len();
        if rest.contains(&b"**".as_slice()) {
            depth += DEPTH;
        }
        if !shown.is_empty() {
            depth = depth.max(1);
        }
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
        let last = names.last().copied().unwrap_or_default();
        let ends = (
            last.split(is_wild).next().unwrap_or_default(),
            last.rsplit(is_wild).next().unwrap_or_default(),
        );
        Some((
            roots,
            Wanted {
                pattern,
                shown,
                depth,
                ends,
            },
        ))
    }

    /// Looks at everything in a folder that lies `level` folders below where the walk
    /// began; breaks off when the budget is used up.
    fn walk(
        &self,
        inside: &Path,
        level: usize,
        wanted: &[Wanted<'_>],
        budget: &mut usize,
        hits: &mut Hits,
    ) -> ControlFlow<()> {
        let here = || wanted.iter().filter(|wanted| wanted.depth > level);
        if here().next().is_none() {
            return ControlFlow::Continue(());
        }
        let Some((_, outside)) = self.tree.outside(inside) else {
            return ControlFlow::Continue(());
        };
        // A folder that this user cannot read the jail cannot read either.
        let Ok(entries) = std::fs::read_dir(&outside) else {
            return ControlFlow::Continue(());
        };
        for entry in entries.flatten() {
            let Some(left) = budget.checked_sub(1) else {
                return ControlFlow::Break(());
            };
            *budget = left;
            let kind = match entry.file_type() {
                Ok(kind) if kind.is_dir() => Kind::Folder,
                Ok(kind) if kind.is_symlink() => Kind::Link,
                _ => Kind::File,
            };
            let name = entry.file_name();
            let mut likely = here()
                .filter(|wanted| wanted.can_be(name.as_bytes()))
                .peekable();
            if likely.peek().is_none() && kind != Kind::Folder {
                continue;
            }
            let path = inside.join(&name);
            if likely.any(|wanted| wanted.covers(&path)) {
                self.hit(&path, kind, hits);
            } else if kind == Kind::Folder {
                self.walk(&path, level + 1, wanted, budget, hits)?;
            }
        }
        ControlFlow::Continue(())
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
