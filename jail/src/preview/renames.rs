//! The list of changes on its way to the disk: files that only have another name are
//! found, as long as the list is short enough to be looked at as a whole.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use super::beneath::{Beneath, Kind};
use super::entry::{Act, Entry};
use super::record::{Totals, write_entry};
use super::walk::{Count, hash};

/// Longer lists go to the disk as they come.
const WHOLE: usize = 20_000;
/// Larger files are not compared.
const COMPARED: u64 = 256 << 20;

/// A list of changes that is being written.
pub struct List<'a> {
    out: &'a mut BufWriter<File>,
    totals: &'a mut Totals,
    upper: &'a Beneath,
    lower: &'a Beneath,
    waiting: Vec<Entry>,
    is_long: bool,
}

impl<'a> List<'a> {
    /// A list that goes there, and is counted there.
    pub fn new(
        out: &'a mut BufWriter<File>,
        totals: &'a mut Totals,
        upper: &'a Beneath,
        lower: &'a Beneath,
    ) -> List<'a> {
        List {
            out,
            totals,
            upper,
            lower,
            waiting: Vec::new(),
            is_long: false,
        }
    }

    /// Adds a change.
    pub fn add(&mut self, entry: Entry) -> io::Result<()> {
        if self.is_long {
            self.totals.add(&entry);
            return write_entry(self.out, &entry);
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
            self.totals.add(&entry);
            write_entry(self.out, &entry)?;
        }
        Ok(())
    }

    fn pair(&mut self) {
        let of = |act: Act, entry: &Entry| entry.act == act && entry.kept_out.is_none();
        let mut gone: Vec<usize> = (0..self.waiting.len())
            .filter(|index| {
                self.waiting
                    .get(*index)
                    .is_some_and(|e| of(Act::Deleted, e))
            })
            .collect();
        for index in 0..self.waiting.len() {
            if gone.is_empty() {
                return;
            }
            let Some(new) = self.waiting.get(index) else {
                continue;
            };
            if !of(Act::Created, new) || new.within {
                continue;
            }
            let found = gone.iter().position(|old| {
                let old = self.waiting.get(*old);
                old.is_some_and(|old| self.is_same(old, new))
            });
            let Some(old) = found.map(|at| gone.swap_remove(at)) else {
                continue;
            };
            self.mark(old, index);
        }
    }

    /// Notes a rename on both sides, and on everything in a renamed folder.
    fn mark(&mut self, old: usize, new: usize) {
        let path = |index: usize| self.waiting.get(index).map(|entry| entry.path.clone());
        let (Some(from), Some(to)) = (path(old), path(new)) else {
            return;
        };
        for entry in &mut self.waiting {
            if entry.act == Act::Deleted && entry.path == from {
                entry.renamed_to = Some(to.clone());
            } else if entry.act == Act::Created
                && let Ok(rest) = entry.path.as_path().strip_prefix(to.as_path())
            {
                entry.renamed_from = Some(if rest.as_os_str().is_empty() {
                    from.clone()
                } else {
                    from.as_path().join(rest).into()
                });
            }
        }
    }

    fn is_same(&self, old: &Entry, new: &Entry) -> bool {
        let (from, to) = (old.path.as_path(), new.path.as_path());
        match (old.kind, new.kind) {
            (Kind::File, Kind::File) => {
                (1..=COMPARED).contains(&new.size)
                    && old.old_size == new.size
                    && self.hash_of(self.lower, from).is_some_and(|hash| {
                        self.hash_of(self.upper, to).as_deref() == Some(hash.as_str())
                    })
            }
            (Kind::Link, Kind::Link) => {
                let (old, new) = (self.lower.link(from), self.upper.link(to));
                old.is_ok_and(|old| new.is_ok_and(|new| old == new))
            }
            (Kind::Folder, Kind::Folder) => {
                let mut count = Count::default();
                count.add(self.upper, to);
                old.files > 0
                    && (count.files, count.bytes) == (old.files, old.old_size)
                    && self.lower.names(from).ok() == self.upper.names(to).ok()
            }
            _ => false,
        }
    }

    fn hash_of(&self, beneath: &Beneath, path: &Path) -> Option<String> {
        beneath.file(path).and_then(hash).ok()
    }
}
