//! Folders that git's index calls repositories of their own (submodules): `git status` at the
//! top goes into each of them, however deep it lies, and obeys what it finds there.
//!
//! A command may have made the index, so it is read as git reads it, not as git writes it.
//! With threads, git begins at its end: an extension there (EOIE) says where the extensions
//! are, and one of those (IEOT) where entries are. Both ways are gone.

mod entries;
mod text;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use sjail_policy::git_config::Document;

use super::repository;
use entries::Format;
use text::{Stop, Text};

/// The modes of an entry that is a repository of its own, and of a folder whose entries are
/// left out (a sparse index); of the first, git looks at the kind alone.
const KIND: u32 = 0o170_000;
const LINK: u32 = 0o160_000;
const FOLDER: u32 = 0o040_000;

/// The lengths of git's hashes.
const SHA1: usize = 20;
const SHA256: usize = 32;

/// What an index names.
#[derive(Debug, Default)]
pub struct Named {
    /// Repositories, below the top of the working tree.
    pub links: Vec<PathBuf>,
    /// Folders of which it says nothing but that they are there.
    pub folders: Vec<PathBuf>,
}

/// Why nobody can tell what an index names: the end of a sentence that starts with its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// Too large, or so made that it grows when it is read.
    #[error(
        "names more repositories and folders than can be looked through for what git would obey"
    )]
    TooMuch,
    /// Git writes no such names, and goes where they lead.
    #[error(
        "names a repository by a path that leads out of the working tree or up again, as git itself never does"
    )]
    Astray,
    /// Git goes there step by step.
    #[error("names a repository by a path that is too long to be looked at")]
    TooLong,
}

/// What the index in a folder of git names. What is no index, or breaks off, gives what git
/// would have found until there.
pub fn of(git_dir: &Path) -> Result<Named, Unread> {
    let mut found = Found::default();
    for hash in hashes(git_dir) {
        index(git_dir, *hash, &mut found)?;
    }
    Ok(Named {
        links: found.links.into_iter().collect(),
        folders: found.folders.into_iter().collect(),
    })
}

/// Which hash a repository has, its configuration says. Where that cannot be read, both are
/// tried: read with the other one, an index names nothing that is there.
fn hashes(git_dir: &Path) -> &'static [usize] {
    let shared = repository::shared(git_dir).unwrap_or_else(|| git_dir.to_owned());
    let text = repository::small(&shared.join("config"));
    let Some(config) = text.and_then(|text| Document::parse(&text).ok()) else {
        return &[SHA1, SHA256];
    };
    match config.last("extensions", None, "objectformat") {
        Some(b"sha256") => &[SHA256],
        _ => &[SHA1],
    }
}

fn index(git_dir: &Path, hash: usize, found: &mut Found) -> Result<(), Unread> {
    let mut index = Reading::new(hash, Wanted::Links, found);
    index.file(&git_dir.join("index"))?;
    // What replaces an entry of a shared index has no name of its own: it may be any.
    let wanted = match index.has_nameless_link {
        true => Wanted::All,
        false => Wanted::Links,
    };
    for base in index.bases {
        let shared = git_dir.join(format!("sharedindex.{base}"));
        Reading::new(hash, wanted, found).file(&shared)?;
    }
    Ok(())
}

/// Names found so far.
#[derive(Debug, Default)]
struct Found {
    links: HashSet<PathBuf>,
    folders: HashSet<PathBuf>,
    /// How many bytes they have together.
    size: usize,
}

impl Found {
    /// A short index can say a million long names.
    const MOST: usize = 32 << 20;

    fn note(&mut self, what: Noted, name: &[u8]) -> Result<(), Unread> {
        let path = below(name).ok_or(Unread::Astray)?;
        let size = path.as_os_str().len();
        let is_new = match what {
            Noted::Link => self.links.insert(path),
            Noted::Folder => self.folders.insert(path),
        };
        self.size += size * usize::from(is_new);
        match self.size <= Found::MOST {
            true => Ok(()),
            false => Err(Unread::TooMuch),
        }
    }
}

/// What a name is noted as.
#[derive(Debug, Clone, Copy)]
enum Noted {
    Link,
    Folder,
}

/// Which names matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Links,
    All,
}

/// One file that is read.
#[derive(Debug)]
struct Reading<'a> {
    hash: usize,
    wanted: Wanted,
    found: &'a mut Found,
    has_nameless_link: bool,
    /// The hashes of indexes that it only adds to: one, or another one for each way to it.
    bases: HashSet<String>,
}

/// A part of an index that holds entries: where, and how many.
type Block = (u64, u32);

/// Git divides what it writes among its threads, not further.
const MOST_BLOCKS: usize = 1 << 16;

impl Reading<'_> {
    fn new(hash: usize, wanted: Wanted, found: &mut Found) -> Reading<'_> {
        Reading {
            hash,
            wanted,
            found,
            has_nameless_link: false,
            bases: HashSet::new(),
        }
    }

    fn file(&mut self, path: &Path) -> Result<(), Unread> {
        let Some(mut text) = Text::open(path)? else {
            return Ok(());
        };
        match self.both_ways(&mut text) {
            Err(Stop::Unread(why)) => Err(why),
            Ok(()) | Err(Stop::End) => Ok(()),
        }
    }

    fn both_ways(&mut self, text: &mut Text) -> Result<(), Stop> {
        let (signature, version, count) = (text.number()?, text.number()?, text.number()?);
        if signature != u32::from_be_bytes(*b"DIRC") || !(2..=4).contains(&version) {
            return Ok(());
        }
        let format = Format {
            version,
            hash: self.hash,
        };
        let begin = text.position();
        let mut blocks = Vec::new();
        let forth = self.block(text, format, (begin, count));
        let forth = forth.and_then(|()| self.extensions(text, &mut Vec::new()));
        unless_unread(forth)?;
        unless_unread(self.by_the_end(text, &mut blocks))?;
        for block in blocks {
            unless_unread(self.block(text, format, block))?;
        }
        Ok(())
    }

    /// The entries in one part.
    fn block(&mut self, text: &mut Text, format: Format, block: Block) -> Result<(), Stop> {
        let (begin, count) = block;
        text.go_to(begin)?;
        entries::walk(text, format, count, |mode, name| {
            let is_link = mode & KIND == LINK;
            let what = match name.is_empty() {
                true => {
                    self.has_nameless_link |= is_link;
                    return Ok(());
                }
                false if is_link => Noted::Link,
                false if mode & KIND == FOLDER => Noted::Folder,
                false if self.wanted == Wanted::All => Noted::Link,
                false => return Ok(()),
            };
            self.found.note(what, name).map_err(Stop::Unread)
        })
    }

    /// The parts that are named by extensions that are found from the end.
    fn by_the_end(&mut self, text: &mut Text, blocks: &mut Vec<Block>) -> Result<(), Stop> {
        // Signature, size, offset, a hash over what lies between, which a command can make,
        // and the hash of everything.
        let back = 12 + 2 * self.hash as u64;
        text.go_to(text.size().checked_sub(back).ok_or(Stop::End)?)?;
        let (signature, _, begin) = (text.number()?, text.number()?, text.number()?);
        if signature != u32::from_be_bytes(*b"EOIE") {
            return Ok(());
        }
        text.go_to(u64::from(begin))?;
        self.extensions(text, blocks)
    }

    /// Goes through extensions: notes what index this one adds to, and the parts that entries
    /// are in.
    fn extensions(&mut self, text: &mut Text, blocks: &mut Vec<Block>) -> Result<(), Stop> {
        while text.position() + 8 <= text.size() {
            let (signature, length) = (text.number()?, text.number()?);
            let end = text.position() + u64::from(length);
            match &signature.to_be_bytes() {
                b"link" => self.base(text)?,
                b"IEOT" => {
                    text.number()?;
                    while text.position() + 8 <= end {
                        if blocks.len() == MOST_BLOCKS {
                            return Err(Stop::Unread(Unread::TooMuch));
                        }
                        blocks.push((u64::from(text.number()?), text.number()?));
                    }
                }
                _ => {}
            }
            text.go_to(end)?;
        }
        Ok(())
    }

    fn base(&mut self, text: &mut Text) -> Result<(), Stop> {
        let mut object = vec![0; self.hash];
        text.fill(&mut object)?;
        let digits = object.iter().map(|byte| format!("{byte:02x}"));
        self.bases.insert(digits.collect());
        Ok(())
    }
}

/// Where one way ends, the other may go on.
fn unless_unread(read: Result<(), Stop>) -> Result<(), Stop> {
    match read {
        Err(Stop::End) => Ok(()),
        read => read,
    }
}

/// A name as a path that stays below the top.
fn below(name: &[u8]) -> Option<PathBuf> {
    let mut below = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(name)).components() {
        match part {
            Component::Normal(part) => below.push(part),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(below)
}

#[cfg(test)]
mod tests;
