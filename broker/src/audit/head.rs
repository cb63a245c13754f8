//! The signed statement of how far the log goes: in the database now and then, in
//! a file beside it after every commit, and in the system's log.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::audit::key::{Key, PublicKey};
use crate::audit::record::Hash;
use crate::error::{Error, Result};
use crate::private_file;

/// How far a log goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of its last record.
    pub seq: i64,
    /// That record's hash.
    pub hash: Hash,
}

impl Head {
    /// An empty log.
    pub const EMPTY: Head = Head {
        seq: 0,
        hash: Hash::ZERO,
    };

    /// The bytes that are signed: `sjail-head-1 SEQ HASH`.
    pub fn message(&self) -> String {
        format!("sjail-head-1 {} {}", self.seq, self.hash)
    }

    /// The head with its signature.
    pub fn sign(self, key: &Key) -> SignedHead {
        SignedHead {
            head: self,
            key: key.public(),
            signature: key.sign(self.message().as_bytes()),
        }
    }
}

/// A head that a key vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedHead {
    /// How far the log went.
    pub head: Head,
    /// Who says so.
    pub key: PublicKey,
    /// The proof.
    pub signature: [u8; 64],
}

impl SignedHead {
    /// Whether the signature is right.
    pub fn is_genuine(&self) -> bool {
        self.key
            .verifies(self.head.message().as_bytes(), &self.signature)
    }

    /// One line: `sjail-head-1 SEQ HASH KEY SIGNATURE`, the last three hexadecimal.
    pub fn to_line(self) -> String {
        let mut line = format!("{} {} ", self.head.message(), self.key);
        for byte in self.signature {
            line.push_str(&format!("{byte:02x}"));
        }
        line
    }

    /// Reads such a line.
    pub fn parse(line: &str) -> Option<SignedHead> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [format, seq, hash, key, signature] = words.as_slice() else {
            return None;
        };
        if *format != "sjail-head-1" || signature.len() != 128 {
            return None;
        }
        let (first, second) = signature.split_at_checked(64)?;
        let mut joined = [0; 64];
        joined[..32].copy_from_slice(&Hash::parse(first)?.0);
        joined[32..].copy_from_slice(&Hash::parse(second)?.0);
        Some(SignedHead {
            head: Head {
                seq: seq.parse().ok()?,
                hash: Hash::parse(hash)?,
            },
            key: PublicKey(Hash::parse(key)?.0),
            signature: joined,
        })
    }
}

/// The file beside the database that says how far the log goes.
pub struct HeadFile {
    file: fs::File,
}

/// The line is padded to this, so that one write replaces the former whole.
const LINE: usize = 320;

impl HeadFile {
    /// Opens the file for the writer.
    pub fn open(path: &Path) -> Result<HeadFile> {
        private_file::open(path).map(|file| HeadFile { file })
    }

    /// Says how far the log goes now. Not synced: it must never be ahead of the
    /// database, and after a power cut being behind is harmless.
    pub fn write(&self, head: SignedHead) -> std::io::Result<()> {
        let line = format!("{:<width$}\n", head.to_line(), width = LINE - 1);
        self.file.write_all_at(line.as_bytes(), 0)
    }
}

/// What the file says, `None` where there is no file.
pub fn read(path: &Path) -> Result<Option<SignedHead>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(Error::File {
                act: "read",
                path: path.to_owned(),
                source,
            });
        }
    };
    if text.is_empty() {
        return Ok(None);
    }
    match SignedHead::parse(&text) {
        Some(head) => Ok(Some(head)),
        None => Err(Error::Damaged {
            path: path.to_owned(),
            problem: "it does not hold a signed head".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_head_is_read_back_and_a_changed_one_is_not_genuine() {
        let folder = tempfile::tempdir().unwrap();
        let key = Key::load_or_create(&folder.path().join("key")).unwrap();
        let head = Head {
            seq: i64::MAX,
            hash: Hash::of(b"x"),
        }
        .sign(&key);
        let path = folder.path().join("head");
        let file = HeadFile::open(&path).unwrap();
        assert_eq!(read(&path).unwrap(), None);
        file.write(head).unwrap();
        assert_eq!(read(&path).unwrap(), Some(head));
        assert!(head.is_genuine());
        let mut forged = head;
        forged.head.seq = 1;
        assert!(!forged.is_genuine());
        fs::write(&path, "nonsense").unwrap();
        assert!(matches!(read(&path), Err(Error::Damaged { .. })));
    }
}
