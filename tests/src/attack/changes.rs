//! A program that changes files at random: the same seed does the same.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::{Found, number, word};
use crate::forest::set_attribute;

/// Times that nobody's clock shows any more.
const LONG_AGO: i64 = 1_500_000_000;

/// `plant FOLDER SEED CASES`: makes a small tree for each case.
pub fn plant(words: &[String]) -> Found {
    let (top, seed, cases) = arguments(words)?;
    for case in 0..cases {
        let mut dice = Dice::new(seed, case);
        let folder = top.join(case.to_string());
        fs::create_dir_all(&folder)?;
        for _ in 0..12 {
            let path = folder.join(dice.path());
            if let Some(parent) = path.parent() {
                let _ = fs::create_dir_all(parent);
            }
            match dice.below(6) {
                0 => drop(fs::create_dir(&path)),
                1 => drop(symlink(dice.target(), &path)),
                2 => drop(sparse(&path, &mut dice)),
                _ => drop(write(&path, &mut dice)),
            }
            if dice.below(4) == 0 {
                let _ = set_attribute(&path, "user.planted", b"here");
            }
            if dice.below(4) == 0 {
                let _ = mode(&path, &mut dice);
            }
        }
        age(&folder, &mut dice);
    }
    Ok("planted".to_owned())
}

/// `change FOLDER SEED CASES`: changes each of them, and says what came of every step.
pub fn change(words: &[String]) -> Found {
    let (top, seed, cases) = arguments(words)?;
    let mut log = String::new();
    for case in 0..cases {
        let mut dice = Dice::new(seed ^ 0x5555, case);
        let folder = top.join(case.to_string());
        for step in 0..14 {
            let (name, done) = one(&folder, &mut dice);
            let came = match done {
                Ok(()) => "done".to_owned(),
                Err(error) => format!("{:?}", error.raw_os_error()),
            };
            log.push_str(&format!("{case} {step} {name} {came}\n"));
        }
    }
    print!("{log}");
    Ok("changed".to_owned())
}

fn arguments(words: &[String]) -> Result<(PathBuf, u64, u64), super::Held> {
    let top = PathBuf::from(word(words, 0)?);
    let (seed, cases) = (number(words, 1)?, number(words, 2)?);
    Ok((top, seed.unsigned_abs(), cases.unsigned_abs()))
}

fn one(folder: &Path, dice: &mut Dice) -> (String, io::Result<()>) {
    let (below, other) = (dice.path(), dice.path());
    let (path, to) = (folder.join(&below), folder.join(&other));
    let (name, done) = match dice.below(17) {
        0 | 1 => ("write", write(&path, dice)),
        2 => ("append", append(&path, dice)),
        3 => ("truncate", truncate(&path, dice)),
        4 => ("patch", patch(&path, dice)),
        5 => ("unlink", fs::remove_file(&path)),
        6 => ("remove", remove(&path)),
        7 | 8 => ("mkdir", fs::create_dir_all(&path)),
        9 => ("symlink", symlink(dice.target(), &path)),
        10 | 11 => ("rename", rename(&path, &to)),
        12 => ("link", fs::hard_link(&path, &to)),
        13 => ("chmod", mode(&path, dice)),
        14 => (
            "attribute",
            set_attribute(&path, "user.set", &dice.bytes(20)),
        ),
        15 => (
            "times",
            times(&path, LONG_AGO + 1000 + dice.below(1000) as i64),
        ),
        _ if dice.below(2) == 0 => ("pipe", pipe(&path)),
        _ => ("sparse", sparse(&path, dice)),
    };
    (
        format!("{name} {} {}", below.display(), other.display()),
        done,
    )
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // A pipe must not hold us up.
    options.custom_flags(libc::O_NONBLOCK).open(path)
}

fn write(path: &Path, dice: &mut Dice) -> io::Result<()> {
    let length = dice.below(5000) as usize;
    let bytes = dice.bytes(length);
    let mut options = OpenOptions::new();
    open(path, options.write(true).create(true).truncate(true))?.write_all(&bytes)
}

fn append(path: &Path, dice: &mut Dice) -> io::Result<()> {
    let bytes = dice.bytes(100);
    open(path, OpenOptions::new().append(true))?.write_all(&bytes)
}

fn truncate(path: &Path, dice: &mut Dice) -> io::Result<()> {
    let length = dice.below(3000);
    open(path, OpenOptions::new().write(true))?.set_len(length)
}

fn patch(path: &Path, dice: &mut Dice) -> io::Result<()> {
    let (bytes, at) = (dice.bytes(10), dice.below(2000));
    open(path, OpenOptions::new().read(true).write(true))?.write_all_at(&bytes, at)
}

fn sparse(path: &Path, dice: &mut Dice) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let file = open(path, options.write(true).create(true).truncate(true))?;
    file.set_len(400_000)?;
    file.write_all_at(&dice.bytes(50), dice.below(300_000))
}

/// With its folders, in order: what cannot be removed stops it at the same place each time.
fn remove(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    for name in names(path)? {
        remove(&path.join(name))?;
    }
    fs::remove_dir(path)
}

fn names(path: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names: Vec<_> = fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

/// An overlay does not rename folders that the host has; programs then do it piece by
/// piece, and so does this one.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.raw_os_error() == Some(libc::EXDEV) => rename_in_pieces(from, to),
        done => done,
    }
}

/// What a rename would have left. It asks nobody whether the folders below are closed: they
/// are opened here, and come out as they were.
fn rename_in_pieces(from: &Path, to: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(from)?;
    let attributes = crate::forest::attributes(from);
    match fs::create_dir(to) {
        // A rename would have replaced an empty one.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_dir(to)?;
            fs::create_dir(to)?;
        }
        done => done?,
    }
    if meta.mode() & 0o700 != 0o700 {
        fs::set_permissions(
            from,
            fs::Permissions::from_mode(meta.mode() & 0o7777 | 0o700),
        )?;
    }
    for name in names(from)? {
        let (old, new) = (from.join(&name), to.join(&name));
        match fs::symlink_metadata(&old)?.is_dir() {
            true => rename_in_pieces(&old, &new)?,
            false => fs::rename(&old, &new)?,
        }
    }
    fs::remove_dir(from)?;
    for (name, value) in attributes {
        set_attribute(to, &String::from_utf8_lossy(&name), &value)?;
    }
    fs::set_permissions(to, fs::Permissions::from_mode(meta.mode() & 0o7777))?;
    set_times(to, (meta.mtime(), meta.mtime_nsec()))
}

fn mode(path: &Path, dice: &mut Dice) -> io::Result<()> {
    let folder = fs::metadata(path)?.is_dir();
    let modes: &[u32] = match folder {
        true => &[0o755, 0o700, 0o775, 0o1777, 0o555],
        false => &[0o644, 0o600, 0o755, 0o444, 0o640],
    };
    let mode = modes[dice.below(modes.len() as u64) as usize];
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn pipe(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends in NUL.
    match unsafe { libc::mkfifo(path.as_ptr(), 0o644) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn times(path: &Path, seconds: i64) -> io::Result<()> {
    set_times(path, (seconds, 5))
}

fn set_times(path: &Path, mtime: (i64, i64)) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let time = libc::timespec {
        tv_sec: mtime.0,
        tv_nsec: mtime.1,
    };
    // SAFETY: the path ends in NUL, the two times outlive the call.
    let done = unsafe {
        libc::utimensat(
            libc::AT_FDCWD,
            path.as_ptr(),
            [time, time].as_ptr(),
            libc::AT_SYMLINK_NOFOLLOW,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes everything old, the deepest first.
fn age(path: &Path, dice: &mut Dice) {
    if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir()) {
        for name in names(path).unwrap_or_default() {
            age(&path.join(name), dice);
        }
    }
    let _ = times(path, LONG_AGO + dice.below(1000) as i64);
}

/// Numbers that look random and are the same each time (splitmix64).
struct Dice(u64);

impl Dice {
    fn new(seed: u64, case: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ case.wrapping_mul(0xbf58_476d_1ce4_e5b9))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length)
            .map(|_| b'a' + (self.next() % 26) as u8)
            .collect()
    }

    /// One of few paths, so that steps meet.
    fn path(&mut self) -> PathBuf {
        const NAMES: [&str; 4] = ["a", "b", "c", "d"];
        let depth = 1 + self.below(3);
        (0..depth).map(|_| NAMES[self.below(4) as usize]).collect()
    }

    fn target(&mut self) -> PathBuf {
        match self.below(3) {
            0 => self.path(),
            1 => Path::new("..").join(self.path()),
            _ => PathBuf::from("nowhere"),
        }
    }
}
