//! Folders that git's index calls repositories of their own (submodules): `git status` at the
//! top goes into each of them, however deep it lies, and obeys what it finds there.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// The mode of an entry that is a repository of its own.
const LINK: u32 = 0o160_000;
/// In an entry's flags: more flags follow; how long the name is.
const EXTENDED: u16 = 0x4000;
const LENGTH: u16 = 0x0fff;
/// Git writes no longer names; a text that says otherwise is no index.
const LONGEST: usize = 1 << 16;

/// The lengths of git's hashes. Which of them a repository has its configuration says; read
/// with the other, an index gives names of nothing.
const HASHES: [usize; 2] = [20, 32];

/// The folders that the index in a folder of git says are repositories, below the top of its
/// working tree. What is no index, or breaks off, gives what was found until there.
pub fn of(git_dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let index = git_dir.join("index");
    for hash in HASHES {
        let Some(read) = Index::read(&index, hash) else {
            continue;
        };
        found.extend(read.links);
        // What replaces an entry of a shared index has no name of its own: it may be any.
        if let Some(base) = read.base {
            let shared = git_dir.join(format!("sharedindex.{base}"));
            let wanted = match read.has_nameless_link {
                true => Wanted::All,
                false => Wanted::Links,
            };
            found.extend(Index::names(&shared, hash, wanted));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// What an index says.
#[derive(Debug, Default)]
struct Index {
    links: Vec<PathBuf>,
    has_nameless_link: bool,
    /// The hash of the index that it only adds to.
    base: Option<String>,
}

/// Which names matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Links,
    All,
}

impl Index {
    fn read(path: &Path, hash: usize) -> Option<Index> {
        let mut text = open(path).ok()?;
        let mut index = Index::default();
        let walked = walk(&mut text, hash, |mode, name| {
            match (mode, name.is_empty()) {
                (LINK, true) => index.has_nameless_link = true,
                (LINK, false) => index.links.extend(below(name)),
                _ => {}
            }
        });
        if walked.is_ok() {
            index.base = base(&mut text, hash).ok().flatten();
        }
        Some(index)
    }

    fn names(path: &Path, hash: usize, wanted: Wanted) -> Vec<PathBuf> {
        let mut names = Vec::new();
        if let Ok(mut text) = open(path) {
            let _ = walk(&mut text, hash, |mode, name| {
                if mode == LINK || wanted == Wanted::All {
                    names.extend(below(name));
                }
            });
        }
        names
    }
}

fn open(path: &Path) -> io::Result<BufReader<File>> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(BufReader::with_capacity(16 << 10, file)),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// A name as a path that stays below the top.
fn below(name: &[u8]) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(name));
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    (!name.contains(&0) && path.components().all(is_plain)).then(|| path.to_owned())
}

/// Goes through the entries: mode and name of each.
fn walk(text: &mut impl BufRead, hash: usize, mut seen: impl FnMut(u32, &[u8])) -> io::Result<()> {
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let [signature, version, count] = [(); 3].map(|()| number(text));
    let (version, count) = (version?, count?);
    if signature? != u32::from_be_bytes(*b"DIRC") || !(2..=4).contains(&version) {
        return Err(broken());
    }
    let mut name = Vec::new();
    // Times, device and inode; mode; owner, group and size.
    let mut fixed = [0; 40];
    let mut object = [0; 34];
    for _ in 0..count {
        text.read_exact(&mut fixed)?;
        let mode = u32::from_be_bytes([fixed[24], fixed[25], fixed[26], fixed[27]]);
        let object = object.get_mut(..hash + 2).ok_or_else(broken)?;
        text.read_exact(object)?;
        let flags = match object {
            [.., high, low] => u16::from_be_bytes([*high, *low]),
            _ => return Err(broken()),
        };
        let mut length = fixed.len() + object.len();
        if flags & EXTENDED != 0 {
            text.read_exact(&mut [0; 2])?;
            length += 2;
        }
        // The last version says how much of the name before is not in this one.
        match version {
            4 => {
                let kept = name.len().checked_sub(offset(text)?).ok_or_else(broken)?;
                name.truncate(kept);
            }
            _ => name.clear(),
        }
        let before = name.len();
        text.by_ref()
            .take(LONGEST as u64)
            .read_until(0, &mut name)?;
        if name.pop() != Some(0) || name.len() > LONGEST {
            return Err(broken());
        }
        let told = usize::from(flags & LENGTH);
        if told != name.len() && told != usize::from(LENGTH) {
            return Err(broken());
        }
        if version != 4 {
            // Zeros up to a multiple of eight, at least the one that ends the name.
            let length = length + name.len() - before;
            let zeros = 8 - length % 8;
            skip(text, zeros - 1)?;
        }
        seen(mode, &name);
    }
    Ok(())
}

/// The shared index that one only adds to, if its extensions name one.
fn base(text: &mut impl BufRead, hash: usize) -> io::Result<Option<String>> {
    loop {
        let (signature, length) = (number(text)?, number(text)?);
        if signature == u32::from_be_bytes(*b"link") {
            let mut object = vec![0; hash];
            text.read_exact(&mut object)?;
            let digits = object.iter().map(|byte| format!("{byte:02x}"));
            return Ok(Some(digits.collect()));
        }
        skip(text, length as usize)?;
    }
}

fn number(text: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    text.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

/// A number in git's own form of seven bits a byte.
fn offset(text: &mut impl Read) -> io::Result<usize> {
    let mut byte = [0];
    text.read_exact(&mut byte)?;
    let mut value = usize::from(byte[0] & 0x7f);
    while byte[0] & 0x80 != 0 {
        text.read_exact(&mut byte)?;
        if value > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        value = ((value + 1) << 7) | usize::from(byte[0] & 0x7f);
    }
    Ok(value)
}

fn skip(text: &mut impl Read, length: usize) -> io::Result<()> {
    let skipped = io::copy(&mut text.take(length as u64), &mut io::sink())?;
    match skipped == length as u64 {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;
    use std::process::Command;

    const ZERO: &str = "1234567890123456789012345678901234567890";

    fn git(folder: &Path, words: &[&str]) {
        let done = Command::new("git")
            .args(words)
            .current_dir(folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{words:?}: {said}");
    }

    /// A repository with these entries.
    fn repository(format: &str, entries: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        git(top, &["init", "-q", &format!("--object-format={format}")]);
        add(top, format, entries);
        folder
    }

    fn add(top: &Path, format: &str, entries: &[(&str, &str)]) {
        let object = match format {
            "sha1" => ZERO.to_owned(),
            _ => format!("{ZERO}{}", &ZERO[..24]),
        };
        for (mode, path) in entries {
            let info = format!("{mode},{object},{path}");
            git(
                top,
                &["update-index", "--add", "--info-only", "--cacheinfo", &info],
            );
        }
    }

    fn names(top: &Path) -> Vec<String> {
        let name = |path: PathBuf| path.to_str().unwrap().to_owned();
        of(&top.join(".git")).into_iter().map(name).collect()
    }

    const ENTRIES: &[(&str, &str)] = &[
        ("100644", "a"),
        ("160000", "a-link"),
        ("100755", "deep/er/x"),
        ("160000", "deep/er/y/z/link"),
        ("120000", "deep/er/zz"),
        ("160000", "z"),
    ];
    const LINKS: [&str; 3] = ["a-link", "deep/er/y/z/link", "z"];

    #[test]
    fn links_are_found_in_every_version_and_with_both_hashes() {
        for format in ["sha1", "sha256"] {
            let folder = repository(format, ENTRIES);
            let top = folder.path();
            for version in ["2", "3", "4", "2"] {
                git(top, &["update-index", "--index-version", version]);
                assert_eq!(names(top), LINKS, "{format} {version}");
            }
            // More flags, which only the third version and later have.
            git(top, &["update-index", "--skip-worktree", "a", "z"]);
            assert_eq!(names(top), LINKS);
            let long = "n/".repeat(2100) + "link";
            add(top, format, &[("160000", &long)]);
            assert_eq!(names(top), ["a-link", "deep/er/y/z/link", &long, "z"]);
        }
    }

    #[test]
    fn links_of_a_shared_index_are_found_and_those_that_take_an_entrys_place() {
        let folder = repository("sha1", ENTRIES);
        let top = folder.path();
        git(top, &["update-index", "--split-index"]);
        add(top, "sha1", &[("160000", "new")]);
        assert_eq!(names(top), ["a-link", "deep/er/y/z/link", "new", "z"]);
        add(top, "sha1", &[("160000", "a")]);
        let found = names(top);
        assert!(found.contains(&"a".to_owned()), "{found:?}");
    }

    #[test]
    fn what_is_no_index_ends_where_it_breaks_off() {
        let folder = repository("sha1", ENTRIES);
        let index = folder.path().join(".git/index");
        let whole = fs::read(&index).unwrap();
        for length in 0..whole.len() {
            fs::write(&index, &whole[..length]).unwrap();
            let found = names(folder.path());
            assert!(found.len() <= LINKS.len(), "{length}: {found:?}");
        }
        for byte in 0..whole.len() {
            let mut other = whole.clone();
            other[byte] ^= 0xff;
            fs::write(&index, &other).unwrap();
            let _ = of(&folder.path().join(".git"));
        }
        fs::remove_file(&index).unwrap();
        assert!(names(folder.path()).is_empty());
        nix::unistd::mkfifo(&index, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        assert!(below(b"a/b").is_some());
        for name in [&b"../x"[..], b"a/../../x", b"/x", b"a\0b"] {
            assert!(below(name).is_none(), "{name:?}");
        }
    }
}
