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
    let found = of(&top.join(".git")).unwrap().links;
    let mut names: Vec<String> = found.into_iter().map(name).collect();
    names.sort();
    names
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
        // As long as a path can be.
        let long = "n/".repeat(2045) + "links";
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
    for name in [&b"../x"[..], b"a/../../x", b"/x"] {
        assert!(below(name).is_none(), "{name:?}");
    }
}

/// An index as nobody's git writes it.
mod made {
    use super::*;

    const ZERO: [u8; 20] = [0x12; 20];

    /// An entry of version 2, with what its flags say of its name.
    fn entry(mode: u32, name: &[u8], told: usize) -> Vec<u8> {
        let mut entry = head(mode, told);
        let length = match told {
            0xfff => name.len(),
            told => told,
        };
        let whole = (entry.len() + length + 8) & !7;
        entry.extend(name);
        entry.resize(whole.max(entry.len()), 0);
        entry
    }

    fn shortened(mode: u32, strip: &[u8], name: &[u8], told: usize) -> Vec<u8> {
        [&head(mode, told)[..], strip, name, b"\0"].concat()
    }

    fn head(mode: u32, told: usize) -> Vec<u8> {
        let mut head = vec![0; 40];
        head[24..28].copy_from_slice(&mode.to_be_bytes());
        head.extend(ZERO);
        head.extend(u16::try_from(told).unwrap().to_be_bytes());
        head
    }

    fn index(version: u32, entries: &[Vec<u8>], extensions: &[u8]) -> Vec<u8> {
        let count = u32::try_from(entries.len()).unwrap().to_be_bytes();
        let begin = [&b"DIRC"[..], &version.to_be_bytes(), &count].concat();
        [&begin[..], &entries.concat(), extensions, &ZERO].concat()
    }

    fn extension(name: &[u8; 4], text: &[u8]) -> Vec<u8> {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        [&name[..], &length, text].concat()
    }

    fn read(index: &[u8]) -> Result<Named, Unread> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("index"), index).unwrap();
        fs::write(folder.path().join("config"), "").unwrap();
        of(folder.path())
    }

    fn links(index: &[u8]) -> Vec<String> {
        let mut links = read(index).unwrap().links;
        links.sort();
        let names = links.iter().map(|link| link.to_str().unwrap().to_owned());
        names.collect()
    }

    #[test]
    fn of_a_mode_git_looks_at_the_kind_alone() {
        for mode in [LINK, LINK | 0o644, 1 << 20 | LINK] {
            assert_eq!(links(&index(2, &[entry(mode, b"a/b", 3)], b"")), ["a/b"]);
        }
    }

    #[test]
    fn how_long_a_name_is_says_the_field_before_it() {
        let after = entry(LINK, b"z", 1);
        for (name, told, wanted) in [
            (&b"a\0b"[..], 3, &["a", "z"][..]),
            (b"a/b/more-than-is-told", 3, &["a/b", "z"]),
            (b"a/bX", 3, &["a/b", "a/bX", "z"]),
            (b"a/b", 0xfff, &["a/b", "z"]),
        ] {
            let first = entry(LINK, name, told);
            let padded = match told {
                3 => first[..72].to_vec(),
                _ => first,
            };
            let found = links(&index(2, &[padded, after.clone()], b""));
            for wanted in wanted {
                assert!(found.contains(&(*wanted).to_owned()), "{name:?}: {found:?}");
            }
        }
    }

    #[test]
    fn the_first_name_drops_nothing_of_the_one_before() {
        let first = shortened(LINK, &[5], b"a/b", 3);
        let second = shortened(LINK, &[1], b"c", 0xfff);
        assert_eq!(links(&index(4, &[first, second], b"")), ["a/b", "a/c"]);
        // A number that git cannot hold is where the name begins.
        let huge = shortened(LINK, &[], &[0xff; 12], 12);
        assert_eq!(read(&index(4, &[huge], b"")).unwrap().links.len(), 1);
    }

    #[test]
    fn entries_that_only_threads_read() {
        let plain = entry(0o100_644, b"x", 1);
        let hidden = extension(b"ABCD", &entry(LINK, b"a/b", 3));
        let begin = u32::try_from(12 + plain.len()).unwrap();
        let at = (begin + 8).to_be_bytes();
        let table = [&1_u32.to_be_bytes()[..], &at, &1_u32.to_be_bytes()].concat();
        let offsets = extension(b"IEOT", &table);
        let end = extension(b"EOIE", &[&begin.to_be_bytes()[..], &ZERO].concat());
        let found = links(&index(2, &[plain], &[hidden, offsets, end].concat()));
        assert_eq!(found, ["a/b"]);
    }

    /// A table that names the same entries again and again.
    #[test]
    fn what_is_read_is_bounded() {
        let entries: Vec<_> = (0..1000)
            .map(|n| entry(LINK, &[b'a'; 9], 9 - n % 2))
            .collect();
        let begin = u32::try_from(12 + entries.concat().len()).unwrap();
        let block = [12_u32.to_be_bytes(), 1000_u32.to_be_bytes()].concat();
        let table = [&1_u32.to_be_bytes()[..], &block.repeat(1000)].concat();
        let offsets = extension(b"IEOT", &table);
        let end = extension(b"EOIE", &[&begin.to_be_bytes()[..], &ZERO].concat());
        let index = index(2, &entries, &[offsets, end].concat());
        assert_eq!(read(&index).unwrap_err(), Unread::TooMuch);
    }

    /// Names that are long by what they share with the one before.
    #[test]
    fn a_short_index_with_endless_names() {
        let mut entries = vec![shortened(LINK, &[0], &b"x/".repeat(2000), 0xfff)];
        entries.extend(
            (0..200_000).map(|n| shortened(LINK, &[7], format!("{n:07}").as_bytes(), 0xfff)),
        );
        assert_eq!(read(&index(4, &entries, b"")).unwrap_err(), Unread::TooMuch);
        // Names that no path can have are kept short, and what comes after them is found.
        let mut entries = vec![shortened(LINK, &[0], b"x", 1)];
        entries.extend((0..5000).map(|_| shortened(LINK, &[0], &[b'x'; 3000], 0xfff)));
        let all = u32::try_from(1 + 5000 * 3000).unwrap();
        let mut strip = vec![u8::try_from(all & 127).unwrap()];
        let mut rest = all >> 7;
        while rest > 0 {
            rest -= 1;
            strip.insert(0, 128 | u8::try_from(rest & 127).unwrap());
            rest >>= 7;
        }
        entries.push(shortened(LINK, &strip, b"z", 0xfff));
        let found = links(&index(4, &entries, b""));
        assert!(found.contains(&"z".to_owned()));
        assert!(found.len() < 5);
    }

    #[test]
    fn names_that_lead_away_are_refused() {
        for name in [&b"../x"[..], b"a/../b", b"/x"] {
            let index = index(2, &[entry(LINK, name, name.len())], b"");
            assert_eq!(read(&index).unwrap_err(), Unread::Astray);
        }
        let index = index(2, &[entry(LINK, b"./a//b/", 7)], b"");
        assert_eq!(links(&index), ["a/b"]);
    }

    #[test]
    fn a_folder_whose_entries_are_left_out() {
        let index = index(3, &[entry(FOLDER, b"a/b/", 4)], &extension(b"sdir", b""));
        assert_eq!(read(&index).unwrap().folders, [Path::new("a/b")]);
    }

    #[test]
    fn an_index_too_large_to_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = fs::File::create(folder.path().join("index")).unwrap();
        file.set_len(8 << 30).unwrap();
        assert_eq!(of(folder.path()).unwrap_err(), Unread::TooMuch);
    }
}
