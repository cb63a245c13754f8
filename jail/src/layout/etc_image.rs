//! A ready-made `/etc`, kept between runs.
//!
//! Putting some fifty files and a dozen folders into a fresh jail costs a third of its
//! start. So the harmless `/etc` is copied once to sjail's own folder and then shown by a
//! single mount. A list beside it tells what it was made from: each file and folder with
//! its inode and the time of its last change. One that no longer fits, and a new image is
//! made. A jail that runs keeps a lock on the image it uses, so it is not swept away.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::lstat;
use sjail_policy::bytes::ByteString;

use super::origin::Seen;
use super::{Kind, look};

/// Longer files are left out: no setting is that long.
const LONGEST: u64 = 4 << 20;

/// The copy must not grow without bound, whatever somebody puts into a listed folder.
const MOST: u64 = 32 << 20;

/// How long a look at the sources holds: a change in `/etc` is seen that much later.
const MOMENT: Duration = Duration::from_secs(2);

/// An image in use: it stays as long as this lives.
#[derive(Debug)]
pub struct Image {
    /// The folder to be shown as `/etc`.
    pub seen: Seen,
    _lock: Flock<File>,
}

impl Image {
    /// The image for this list and these generated files, made anew if need be. `None`
    /// when there is no place to keep one.
    pub fn find(folder: &Path, list: &[ByteString], generated: &[(&str, String)]) -> Option<Image> {
        let mut hasher = DefaultHasher::new();
        (list, generated, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
        let stem = format!("{:016x}", hasher.finish());
        let manifest = folder.join(format!("{stem}.made-from"));
        fresh(&manifest)
            .and_then(|name| open(&folder.join(name)))
            .or_else(|| make(folder, &stem, &manifest, list, generated).ok())
    }
}

/// The name of the image, if everything it was made from is as it was. Commands often
/// come in bursts: what was looked at a moment ago is not looked at again.
fn fresh(manifest: &Path) -> Option<PathBuf> {
    let mut file = File::open(manifest).ok()?;
    let looked_at = file.metadata().ok()?.modified().ok()?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    let mut fields = text.split(|byte| *byte == 0);
    let name = Path::new(OsStr::from_bytes(fields.next()?)).to_owned();
    if looked_at.elapsed().is_ok_and(|age| age < MOMENT) {
        return Some(name);
    }
    while let (Some(path), Some(state)) = (fields.next(), fields.next()) {
        if path.is_empty() || stamp(Path::new(OsStr::from_bytes(path)))?.as_bytes() != state {
            return None;
        }
    }
    // Should this fail, the next run looks again.
    let _ = file.set_modified(SystemTime::now());
    Some(name)
}

/// What changes whenever a file's contents or a folder's entries do.
fn stamp(path: &Path) -> Option<String> {
    let stat = lstat(path).ok()?;
    Some(format!(
        "{:x}.{:x}.{:x}",
        stat.st_ino, stat.st_ctime, stat.st_ctime_nsec
    ))
}

fn open(image: &Path) -> Option<Image> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(image)
        .ok()?;
    let lock = Flock::lock(file, FlockArg::LockSharedNonblock).ok()?;
    // Swept away between the two lines above, it has no name any more.
    let meta = lock.metadata().ok()?;
    let (seen, _) = look::at(image)?;
    let same = seen.id.inode == meta.ino() && seen.id.device == meta.dev();
    (same && seen.kind == Kind::Folder).then_some(Image { seen, _lock: lock })
}

fn make(
    folder: &Path,
    stem: &str,
    manifest: &Path,
    list: &[ByteString],
    generated: &[(&str, String)],
) -> io::Result<Image> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let random = u64::from_ne_bytes(crate::sys::random::bytes::<8>());
    let name = format!("{stem}-{random:016x}");
    let image = folder.join(&name);
    DirBuilder::new().mode(0o755).create(&image)?;
    let mut copy = Copy {
        image: &image,
        manifest: name.into_bytes(),
        left: MOST,
    };
    copy.note(Path::new("/etc"));
    for path in list {
        let path = path.as_path();
        if !generated.iter().any(|(made, _)| Path::new(made) == path) {
            copy.take(path)?;
        }
    }
    for (path, contents) in generated {
        write(&copy.place(Path::new(path)), contents.as_bytes())?;
    }
    let text = copy.manifest;
    let done = open(&image).ok_or_else(|| io::Error::other("the image is gone"))?;
    let hidden = folder.join(format!(".{stem}-{random:016x}"));
    write(&hidden, &text)?;
    fs::rename(&hidden, manifest)?;
    sweep(folder, stem, &image);
    Ok(done)
}

struct Copy<'a> {
    image: &'a Path,
    manifest: Vec<u8>,
    left: u64,
}

impl Copy<'_> {
    /// Where a path below `/etc` goes.
    fn place(&self, path: &Path) -> PathBuf {
        self.image.join(path.strip_prefix("/etc").unwrap_or(path))
    }

    /// Takes a listed path with the folders that lead to it; what is not there is told by
    /// the folder that it is not in.
    fn take(&mut self, path: &Path) -> io::Result<()> {
        let above: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .take_while(|above| *above != Path::new("/etc") && above.starts_with("/etc"))
            .collect();
        for folder in above.into_iter().rev() {
            if look::at(folder).is_none_or(|(seen, _)| seen.kind != Kind::Folder) {
                return Ok(());
            }
            if !self.place(folder).exists() {
                self.note(folder);
                DirBuilder::new().mode(0o755).create(self.place(folder))?;
            }
        }
        self.copy(path)
    }

    fn copy(&mut self, path: &Path) -> io::Result<()> {
        let Some((seen, stat)) = look::at(path) else {
            return Ok(());
        };
        let to = self.place(path);
        match seen.kind {
            Kind::Link => {
                let target = fs::read_link(path)?;
                std::os::unix::fs::symlink(target, &to)
            }
            Kind::Folder => {
                self.note(path);
                if !to.exists() {
                    DirBuilder::new().mode(0o755).create(&to)?;
                }
                // A folder that this user cannot read stays empty.
                for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                    self.copy(&entry.path())?;
                }
                Ok(())
            }
            // Only what everybody may read: also for a root caller.
            Kind::File
                if stat.st_mode & libc::S_IFMT == libc::S_IFREG && stat.st_mode & 0o004 != 0 =>
            {
                self.note(path);
                self.contents(path, &to)
            }
            Kind::File => Ok(()),
        }
    }

    fn contents(&mut self, path: &Path, to: &Path) -> io::Result<()> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path);
        let Ok(file) = file else {
            return Ok(());
        };
        let mut contents = Vec::new();
        file.take(LONGEST + 1).read_to_end(&mut contents)?;
        let length = contents.len() as u64;
        if length > LONGEST || length > self.left {
            return Ok(());
        }
        self.left -= length;
        write(to, &contents)
    }

    fn note(&mut self, path: &Path) {
        let state = stamp(path).unwrap_or_default();
        for field in [path.as_os_str().as_bytes(), state.as_bytes()] {
            self.manifest.push(0);
            self.manifest.extend_from_slice(field);
        }
    }
}

fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o444)
        .open(path)?
        .write_all(contents)
}

/// Removes older images that no jail uses.
fn sweep(folder: &Path, stem: &str, current: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let ours = entry
            .file_name()
            .as_bytes()
            .strip_prefix(stem.as_bytes())
            .is_some_and(|rest| rest.starts_with(b"-"));
        if !ours || path == current {
            continue;
        }
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(&path);
        if let Ok(file) = file
            && let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock)
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn list() -> Vec<ByteString> {
        [
            "/etc/passwd",
            "/etc/os-release",
            "/etc/alternatives",
            "/etc/nothing/here",
        ]
        .map(ByteString::from)
        .into()
    }

    #[test]
    fn an_image_is_made_once_and_again_when_its_source_changes() {
        let folder = tempfile::tempdir().unwrap();
        let generated = [("/etc/passwd", "me:x:1:1::/:/bin/sh\n".to_owned())];
        let find = || Image::find(folder.path(), &list(), &generated).unwrap();
        let first = find();
        let path = first.seen.path.clone();
        assert_eq!(
            fs::read_to_string(path.join("passwd")).unwrap(),
            generated[0].1
        );
        assert!(path.join("alternatives").is_dir());
        assert!(!path.join("shadow").exists());
        assert_eq!(find().seen.path, path);

        // Pretend that a source has changed, and that it is a while since somebody looked.
        let manifest = fs::read_dir(folder.path())
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|end| end == "made-from"))
            .unwrap();
        let text = fs::read(&manifest).unwrap();
        let old = String::from_utf8(text).unwrap();
        fs::write(
            folder.path().join("x"),
            old.replace("/etc/alternatives", "/etc/alternativez"),
        )
        .unwrap();
        fs::rename(folder.path().join("x"), &manifest).unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        let changed = File::open(&manifest).unwrap();
        changed.set_modified(long_ago).unwrap();
        let second = find();
        assert_ne!(second.seen.path, path);
        // The first is still in use, so it is still there.
        assert!(path.join("passwd").exists());
        drop(first);
        drop(second);
    }
}
