//! A policy in force, and the hash of what it is made of.

use sjail_policy::bytes::ByteString;
use sjail_policy::config::{Loaded, Sources};

use crate::audit::record::Hash;

/// A policy in force for one workspace and one command line.
pub struct InForce {
    /// What holds.
    pub loaded: Loaded,
    /// The hash of everything that it was made of.
    pub hash: Hash,
    /// What its owner should hear: a file that cannot be read.
    pub problems: Vec<String>,
    /// The part of it that is the owner's.
    pub owners: Owners,
}

/// The policy of the machine and of the account, without a workspace's and the command
/// line's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owners {
    /// The hash of it.
    pub hash: Hash,
    /// The files in force, with the hash of their content.
    pub files: Vec<(ByteString, Hash)>,
    /// What could not be read, and is not in force.
    pub problems: Vec<String>,
}

impl Owners {
    pub(super) fn of(sources: &Sources, problems: &[String]) -> Owners {
        let own = Sources {
            system: sources.system.clone(),
            user: sources.user.clone(),
            ..Sources::default()
        };
        let files = [&own.system, &own.user].into_iter().flatten();
        Owners {
            hash: hash_of_good(hash(&own, &[]), problems),
            files: files
                .map(|file| (file.path.clone(), Hash::of(&file.text)))
                .collect(),
            problems: problems.to_vec(),
        }
    }
}

/// The hash of everything that a policy is made of.
pub(super) fn hash(sources: &Sources, options: &[ByteString]) -> Hash {
    let mut bytes = env!("CARGO_PKG_VERSION").as_bytes().to_vec();
    let mut add = |piece: &[u8]| {
        bytes.extend_from_slice(&(piece.len() as u64).to_le_bytes());
        bytes.extend_from_slice(piece);
    };
    for file in [&sources.system, &sources.user] {
        match file {
            Some(file) => {
                add(file.path.as_bytes());
                add(&file.text);
                for holder in &file.holders {
                    add(format!("{holder:?}").as_bytes());
                }
            }
            None => add(b"-"),
        }
    }
    for file in &sources.workspace {
        add(file.path.as_bytes());
        add(&file.text);
        add(format!("{:?}", file.trust).as_bytes());
    }
    for option in options {
        add(option.as_bytes());
    }
    Hash::of(&bytes)
}

/// While a broken file is kept out, what is in force is not what the files say.
pub(super) fn hash_of_good(hash: Hash, problems: &[String]) -> Hash {
    if problems.is_empty() {
        return hash;
    }
    Hash::of(format!("{hash} {}", problems.join("\n")).as_bytes())
}
