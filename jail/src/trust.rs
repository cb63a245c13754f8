//! Which workspace policies the user has read and pinned.
//!
//! One small file per pinned policy below the state folder, named by the hash of the policy's
//! path; in it the hash of its content, and the path for people. Another content, or the same
//! content elsewhere, is not trusted.

use std::fs::{self, DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use sha2::{Digest, Sha256};
use sjail_policy::config::Trust;
use sjail_policy::show::inert;

use crate::caller::State;
use crate::error::Error;

/// The user's pins.
#[derive(Debug, Clone)]
pub struct TrustStore(PathBuf);

/// A pinned policy.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Pin {
    /// The hash of its content, hexadecimal.
    pub sha256: String,
    /// Where it is, inert.
    pub path: String,
}

/// A pin is two short lines.
const LONGEST: u64 = 16 * 1024;

impl TrustStore {
    /// The store in the state folder.
    pub fn of(state: &State) -> TrustStore {
        TrustStore(state.path().join("trust"))
    }

    /// Whether exactly this content at this path is pinned. Whatever is doubtful is not.
    pub fn trust(&self, policy: &Path, text: &[u8]) -> Trust {
        match self.read(&self.pin_path(policy)) {
            Some(pin) if pin.sha256 == sha256(text) => Trust::Pinned,
            _ => Trust::Untrusted,
        }
    }

    /// Pins this content at this path.
    pub fn pin(&self, policy: &Path, text: &[u8]) -> Result<(), Error> {
        let failed = |error| Error::Trust {
            path: self.0.clone(),
            error,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .map_err(failed)?;
        let lines = format!(
            "{}\n{}\n",
            sha256(text),
            inert(policy.as_os_str().as_bytes())
        );
        let path = self.pin_path(policy);
        let draft = path.with_extension(std::process::id().to_string());
        let written = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .and_then(|mut file| {
                file.write_all(lines.as_bytes())
                    .and_then(|()| file.sync_all())
            })
            .and_then(|()| fs::rename(&draft, &path));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written.map_err(failed)
    }

    /// Takes the pin off; says whether there was one.
    pub fn revoke(&self, policy: &Path) -> Result<bool, Error> {
        match fs::remove_file(self.pin_path(policy)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::Trust {
                path: self.0.clone(),
                error,
            }),
        }
    }

    /// Every pin.
    pub fn list(&self) -> Vec<Pin> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut pins: Vec<Pin> = entries
            .filter(|entry| entry.path().extension().is_none())
            .filter_map(|entry| self.read(&entry.path()))
            .collect();
        pins.sort_by(|a, b| a.path.cmp(&b.path));
        pins
    }

    fn pin_path(&self, policy: &Path) -> PathBuf {
        self.0.join(sha256(policy.as_os_str().as_bytes()))
    }

    /// A pin that this user wrote and nobody else could have.
    fn read(&self, path: &Path) -> Option<Pin> {
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .ok()?;
        let own =
            |meta: &fs::Metadata| meta.uid() == geteuid().as_raw() && meta.mode() & 0o022 == 0;
        let meta = file.metadata().ok().filter(own)?;
        fs::symlink_metadata(&self.0)
            .ok()
            .filter(own)
            .filter(|meta| meta.is_dir())?;
        if !meta.is_file() {
            return None;
        }
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text).ok()?;
        let (sha256, path) = text.strip_suffix('\n')?.split_once('\n')?;
        Some(Pin {
            sha256: sha256.to_owned(),
            path: path.to_owned(),
        })
    }
}

/// The hash of some bytes, hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_pin_is_for_one_content_at_one_path() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore(folder.path().join("trust"));
        let policy = Path::new("/ws/sjail.toml");
        assert_eq!(store.trust(policy, b"a"), Trust::Untrusted);
        store.pin(policy, b"a").unwrap();
        assert_eq!(store.trust(policy, b"a"), Trust::Pinned);
        assert_eq!(store.trust(policy, b"b"), Trust::Untrusted);
        assert_eq!(
            store.trust(Path::new("/other/sjail.toml"), b"a"),
            Trust::Untrusted
        );
        store.pin(policy, b"b").unwrap();
        assert_eq!(store.trust(policy, b"a"), Trust::Untrusted);
        assert_eq!(store.list().len(), 1);
        assert!(store.revoke(policy).unwrap());
        assert!(!store.revoke(policy).unwrap());
        assert_eq!(store.trust(policy, b"b"), Trust::Untrusted);
    }

    #[test]
    fn a_pin_that_others_could_have_written_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore(folder.path().join("trust"));
        let policy = Path::new("/ws/sjail.toml");
        store.pin(policy, b"a").unwrap();
        let pin = store.pin_path(policy);
        fs::set_permissions(&pin, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(store.trust(policy, b"a"), Trust::Untrusted);
        fs::set_permissions(&pin, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(&store.0, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(store.trust(policy, b"a"), Trust::Untrusted);
    }
}
