//! The list of changes on its way to the disk: files that only have another name are
//! found, as long as the list is short enough to be looked at as a whole.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use super::entry::{Act, Entry, content_size};
use super::holes;
use super::layer::Means;
use super::record::{Totals, write_entry};
use super::walk::{Count, hash, same};
use crate::beneath::{Beneath, Kind, kind};

/// Longer lists go to the disk as they come.
const WHOLE: usize = 20_000;
/// So many bytes are read in order to find renames.
const COMPARED: u64 = 1 << 30;

/// What two things must have in common: kind, number of files, bytes.
type Sort = (Kind, u64, u64);

/// Something deleted that may only have another name now.
struct Gone {
    /// Its place in the list.
    index: usize,
    /// What tells its content from others, once that is known.
    mark: Option<Vec<u8>>,
}

/// A list of changes that is being written.
pub struct List<'a> {
    out: &'a mut BufWriter<File>,
    totals: &'a mut Totals,
    upper: &'a Beneath,
    lower: &'a Beneath,
    means: Means,
    waiting: Vec<Entry>,
    is_long: bool,
    /// So many bytes may still be read.
    left: Cell<u64>,
}

impl<'a> List<'a> {
    /// A list that goes there, and is counted there.
    pub fn new(
        out: &'a mut BufWriter<File>,
        totals: &'a mut Totals,
        upper: &'a Beneath,
        lower: &'a Beneath,
        means: Means,
    ) -> List<'a> {
        List {
            out,
            totals,
            upper,
            lower,
            means,
            waiting: Vec::new(),
            is_long: false,
            left: Cell::new(COMPARED),
        }
    }

    /// Adds a change.
    pub fn add(&mut self, entry: Entry) -> io::Result<()> {
        if self.is_long {
            return self.write(&entry);
        }
        self.waiting.push(entry);
        if self.waiting.len() > WHOLE {
            self.is_long = true;
            return self.flush();
        }
        Ok(())
    }

    /// Looks for renames and writes what is left.
    pub fn finish(mut self) -> io::Result<()> {
        if !self.is_long {
            self.pair();
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        for entry in std::mem::take(&mut self.waiting) {
            self.write(&entry)?;
        }
        Ok(())
    }

    fn write(&mut self, entry: &Entry) -> io::Result<()> {
        if self.means == Means::Overlay {
            holes::dig(entry, self.upper, self.lower);
        }
        self.totals.add(entry);
        write_entry(self.out, entry)
    }

    fn pair(&mut self) {
        let mut gone: HashMap<Sort, Vec<Gone>> = HashMap::new();
        for (index, entry) in self.waiting.iter().enumerate() {
            if entry.act == Act::Deleted && entry.kept_out.is_none() {
                let sort = (entry.kind, entry.files, entry.old_size);
                gone.entry(sort)
                    .or_default()
                    .push(Gone { index, mark: None });
            }
        }
        let mut new = 0;
        while let (false, Some(entry)) = (gone.is_empty(), self.waiting.get(new)) {
            let is_free = entry.act == Act::Created && entry.kept_out.is_none() && !entry.within;
            if is_free && let Some(old) = self.find(entry, &mut gone) {
                self.mark(old, new);
            }
            new += 1;
        }
    }

    /// The deleted thing that a new one was, if it was one; it is taken out of the list.
    fn find(&self, new: &Entry, gone: &mut HashMap<Sort, Vec<Gone>>) -> Option<usize> {
        let path = new.path.as_path();
        let sort = match new.kind {
            Kind::Folder => {
                let mut count = Count::default();
                count.add(self.upper, path);
                (new.kind, count.files, count.bytes)
            }
            kind => (kind, new.files, new.size),
        };
        // Empty files and folders are like any other.
        let is_something = match sort {
            (Kind::File, _, size) => size > 0,
            (Kind::Folder, files, _) => files > 0,
            (kind, ..) => kind == Kind::Link,
        };
        let same_size = gone.get_mut(&sort).filter(|_| is_something)?;
        let at = match new.kind {
            Kind::Folder => same_size.iter().position(|old| {
                let old = self.waiting.get(old.index);
                old.is_some_and(|old| self.is_same_folder(old.path.as_path(), path))
            })?,
            kind => {
                let own = self.mark_of(self.upper, path, kind, sort.2)?;
                same_size.iter_mut().position(|old| {
                    if old.mark.is_none()
                        && let Some(entry) = self.waiting.get(old.index)
                    {
                        let path = entry.path.as_path();
                        old.mark = self.mark_of(self.lower, path, kind, sort.2);
                    }
                    old.mark.as_ref() == Some(&own)
                })?
            }
        };
        Some(same_size.swap_remove(at).index)
    }

    /// Notes a rename on both sides, and on everything in a renamed folder, which follows
    /// it in the list.
    fn mark(&mut self, old: usize, new: usize) {
        let path = |index: usize| self.waiting.get(index).map(|entry| entry.path.clone());
        let (Some(from), Some(to)) = (path(old), path(new)) else {
            return;
        };
        let mut mode = None;
        if let Some(entry) = self.waiting.get_mut(old) {
            entry.renamed_to = Some(to.clone());
            mode = entry.base.as_ref().map(|base| base.mode & 0o7777);
        }
        for entry in self.waiting.iter_mut().skip(new) {
            let Ok(rest) = entry.path.as_path().strip_prefix(to.as_path()) else {
                break;
            };
            entry.renamed_from = Some(match rest.as_os_str().is_empty() {
                true => from.clone(),
                false => from.as_path().join(rest).into(),
            });
        }
        // The same content under another name may have other permissions.
        if let (Some(before), Some(entry)) = (mode, self.waiting.get_mut(new))
            && entry.kind != Kind::Link
            && let Ok(Some(stat)) = self.upper.stat(to.as_path())
            && stat.st_mode & 0o7777 != before
        {
            entry.mode = Some((before, stat.st_mode & 0o7777));
        }
    }

    /// What tells the content of a file or the target of a link from others.
    fn mark_of(&self, side: &Beneath, path: &Path, kind: Kind, size: u64) -> Option<Vec<u8>> {
        match kind {
            Kind::Link => side.link(path).ok().map(OsString::into_vec),
            Kind::File => {
                self.spend(size)?;
                let hash = side.file(path).and_then(hash).ok()?;
                Some(hash.into_bytes())
            }
            _ => None,
        }
    }

    /// Whether two folders hold the same, to the last byte and bit of permissions.
    fn is_same_folder(&self, from: &Path, to: &Path) -> bool {
        let mut open = vec![(from.to_owned(), to.to_owned())];
        while let Some((from, to)) = open.pop() {
            let (Ok(Some(old)), Ok(Some(new))) = (self.lower.stat(&from), self.upper.stat(&to))
            else {
                return false;
            };
            let same = old.st_mode == new.st_mode
                && match kind(&old) {
                    Kind::Folder => match (self.lower.names(&from), self.upper.names(&to)) {
                        (Ok(names), Ok(others)) if names == others => {
                            open.extend(names.iter().map(|n| (from.join(n), to.join(n))));
                            true
                        }
                        _ => false,
                    },
                    Kind::File => {
                        old.st_size == new.st_size
                            && self.spend(content_size(&old)).is_some()
                            && self.has_same_bytes(&from, &to)
                    }
                    Kind::Link => {
                        let (old, new) = (self.lower.link(&from), self.upper.link(&to));
                        old.is_ok_and(|old| new.is_ok_and(|new| old == new))
                    }
                    _ => old.st_rdev == new.st_rdev,
                };
            if !same {
                return false;
            }
        }
        true
    }

    fn has_same_bytes(&self, from: &Path, to: &Path) -> bool {
        match (self.lower.file(from), self.upper.file(to)) {
            (Ok(old), Ok(new)) => same(old, new).unwrap_or(false),
            _ => false,
        }
    }

    /// Takes so much out of what may be read.
    fn spend(&self, bytes: u64) -> Option<()> {
        let left = self.left.get().checked_sub(bytes)?;
        self.left.set(left);
        Some(())
    }
}
