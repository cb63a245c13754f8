//! The key that signs how far the log goes.

use std::path::Path;

use ed25519_dalek::{Signature, Signer, SigningKey, Verifier, VerifyingKey};

use crate::error::Result;
use crate::private_file;

/// A signing key that lies in a file of its owner's alone.
pub struct Key(SigningKey);

impl Key {
    /// Reads the key, or makes one where there is none yet.
    pub fn load_or_create(path: &Path) -> Result<Key> {
        let secret = private_file::load_or_create_secret(path)?;
        Ok(Key(SigningKey::from_bytes(&secret)))
    }

    /// Reads the key.
    pub fn load(path: &Path) -> Result<Key> {
        let secret = private_file::load_secret(path)?;
        Ok(Key(SigningKey::from_bytes(&secret)))
    }

    /// The half that everybody may know.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// Signs.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

/// The half of a key that checks signatures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Whether the signature under this message is this key's.
    pub fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        VerifyingKey::from_bytes(&self.0).is_ok_and(|key| {
            key.verify(message, &Signature::from_bytes(signature))
                .is_ok()
        })
    }
}

impl std::fmt::Display for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::Error;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_and_signs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.key");
        let first = Key::load_or_create(&path).unwrap();
        let again = Key::load_or_create(&path).unwrap();
        assert_eq!(first.public(), again.public());
        let signature = first.sign(b"head");
        assert!(again.public().verifies(b"head", &signature));
        assert!(!again.public().verifies(b"tail", &signature));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_cut_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.key");
        Key::load_or_create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(
            Key::load_or_create(&path),
            Err(Error::UnsafeFolder { .. })
        ));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, b"short").unwrap();
        assert!(matches!(
            Key::load_or_create(&path),
            Err(Error::Damaged { .. })
        ));
    }
}
