//! Files of the account alone: never through a link, never one that belongs to somebody
//! else, never readable by others.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::{Error, Result};

/// The length of a secret.
const SECRET: usize = 32;

/// Opens a file to be read and written, made where there is none. One that others can read
/// is closed to them.
pub fn open(path: &Path) -> Result<File> {
    let file = made(path)?;
    let metadata = file.metadata().map_err(Error::file("read", path))?;
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Err(Error::UnsafeFolder {
            path: path.to_owned(),
            problem: format!("it belongs to uid {}", metadata.uid()),
        });
    }
    if metadata.mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))
            .map_err(Error::file("restrict", path))?;
    }
    Ok(file)
}

/// Locks the file that only one broker can have; `None` when another has it.
pub fn lock(path: &Path) -> Result<Option<Flock<File>>> {
    let file = made(path)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(Error::file("lock", path)(errno.into())),
    }
}

fn made(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC)
        .open(path)
        .map_err(Error::file("open", path))
}

/// A secret of 32 bytes: the one in the file, or a random one that is put there.
pub fn load_or_create_secret(path: &Path) -> Result<[u8; SECRET]> {
    match load_secret(path) {
        Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            create_secret(path)
        }
        other => other,
    }
}

/// The secret in a file. One that others could have read is none any more.
pub fn load_secret(path: &Path) -> Result<[u8; SECRET]> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC)
        .open(path)
        .map_err(Error::file("read", path))?;
    let metadata = file.metadata().map_err(Error::file("read", path))?;
    if metadata.uid() != nix::unistd::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
        return Err(Error::UnsafeFolder {
            path: path.to_owned(),
            problem: "this secret is readable by others".to_owned(),
        });
    }
    let mut bytes = Vec::with_capacity(SECRET + 1);
    file.take(SECRET as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(Error::file("read", path))?;
    bytes.try_into().map_err(|_| Error::Damaged {
        path: path.to_owned(),
        problem: format!("a secret has {SECRET} bytes"),
    })
}

fn create_secret(path: &Path) -> Result<[u8; SECRET]> {
    let mut secret = [0; SECRET];
    getrandom::fill(&mut secret).map_err(Error::Random)?;
    // A new name first: a crash must not leave half a secret under the right name.
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let _ = fs::remove_file(&fresh);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .map_err(Error::file("write", &fresh))?;
    file.write_all(&secret)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&fresh, path))
        .map_err(Error::file("write", path))?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_secret_stays_the_same_and_is_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("salt");
        let secret = load_or_create_secret(&path).unwrap();
        assert_eq!(load_or_create_secret(&path).unwrap(), secret);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(
            load_or_create_secret(&path),
            Err(Error::UnsafeFolder { .. })
        ));
    }

    #[test]
    fn half_a_secret_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("salt");
        fs::write(&path, "short").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(
            load_or_create_secret(&path),
            Err(Error::Damaged { .. })
        ));
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("other"), &path).unwrap();
        assert!(open(&path).is_err());
        assert!(!folder.path().join("other").exists());
    }

    #[test]
    fn an_open_file_is_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}
