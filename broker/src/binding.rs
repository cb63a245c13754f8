//! What an approval is tied to, and what has changed since.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::fcntl::OFlag;
use sha2::{Digest, Sha256};
use sjail_policy::bytes::ByteString;
use sjail_policy::plan::Variable;
use sjail_policy::show;
use sjail_policy::wire::request::{Binding, BoundFile, Submission};

use crate::audit::record::Hash;
use crate::error::{Error, Result};

/// So many hashes of files are remembered.
const REMEMBERED: usize = 512;

/// Takes bindings, and remembers the hashes of files that have not changed.
pub struct Binder {
    /// Makes the hashes of variables useless to whoever wants to guess values.
    salt: [u8; 32],
    known: Mutex<HashMap<Stamp, Hash>>,
}

/// A file's state: when all of this is the same, so is its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Stamp {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            dev: metadata.dev(),
            ino: metadata.ino(),
            size: metadata.size(),
            mtime: (metadata.mtime(), metadata.mtime_nsec()),
            ctime: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Binder {
    /// A binder with a secret of its own.
    pub fn new(salt: [u8; 32]) -> Binder {
        Binder {
            salt,
            known: Mutex::new(HashMap::new()),
        }
    }

    /// What a submission asks for, as a hash that tells nothing: the same again is the
    /// same.
    pub fn fingerprint(&self, submission: &Submission) -> Option<Hash> {
        let what = (
            &submission.command,
            &submission.cwd,
            &submission.workspace,
            &submission.user,
            &submission.env,
            &submission.options,
            (&submission.agent, &submission.session, submission.asking),
            &submission.text,
        );
        let mut digest = Sha256::new();
        digest.update(self.salt);
        digest.update(serde_json::to_vec(&what).ok()?);
        Some(Hash(digest.finalize().into()))
    }

    /// Binds a command to where it starts, what it gets, the files it runs and the paths
    /// it is given beyond its jail. Reads those files: not for the thread that answers
    /// everybody.
    pub fn bind(
        &self,
        argv: &[ByteString],
        cwd: &Path,
        env: &[Variable],
        (files, given): (&[PathBuf], &[PathBuf]),
        policy: &str,
    ) -> Result<Binding> {
        let mut bound = Vec::new();
        for file in files {
            bound.push(self.bind_file(file)?);
        }
        for path in given {
            bound.push(bind_place(path)?);
        }
        Ok(Binding {
            argv: argv.to_vec(),
            cwd: bind_place(cwd)?,
            env: self.bind_env(env),
            files: bound,
            open: Vec::new(),
            policy: policy.to_owned(),
            text: None,
        })
    }

    fn bind_env(&self, env: &[Variable]) -> Vec<(String, String)> {
        let mut bound: Vec<(String, String)> = env
            .iter()
            .map(|variable| {
                let mut digest = Sha256::new();
                digest.update(self.salt);
                digest.update(variable.name.as_bytes());
                digest.update(b"=");
                digest.update(variable.value.as_bytes());
                let hash = Hash(digest.finalize().into()).to_string();
                // Enough to notice a change, too little to carry anything.
                let short = hash.chars().take(16).collect();
                (show::inert(variable.name.as_bytes()), short)
            })
            .collect();
        bound.sort();
        bound
    }

    fn bind_file(&self, path: &Path) -> Result<BoundFile> {
        let failed = |source: io::Error| Error::File {
            act: "read",
            path: path.to_owned(),
            source,
        };
        let real = fs::canonicalize(path).map_err(failed)?;
        let mut file = open_file(&real).map_err(failed)?;
        let stamp = Stamp::of(&file.metadata().map_err(failed)?);
        let remembered = self.known().get(&stamp).copied();
        let hash = match remembered {
            Some(hash) => hash,
            None => {
                let hash = hash_file(&mut file).map_err(failed)?;
                let after = Stamp::of(&file.metadata().map_err(failed)?);
                let mut known = self.known();
                if after == stamp {
                    if known.len() >= REMEMBERED {
                        known.clear();
                    }
                    known.insert(stamp, hash);
                }
                hash
            }
        };
        Ok(BoundFile {
            path: ByteString::from(real.as_path()),
            dev: stamp.dev,
            ino: stamp.ino,
            sha256: Some(hash.to_string()),
        })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<Stamp, Hash>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that is larger is not read for an approval: nobody is to keep the broker busy.
const LARGEST: u64 = 512 << 20;

/// Which file or folder it is, whatever it holds.
fn bind_place(path: &Path) -> Result<BoundFile> {
    let metadata = fs::metadata(path).map_err(Error::file("look at", path))?;
    Ok(BoundFile {
        path: ByteString::from(path),
        dev: metadata.dev(),
        ino: metadata.ino(),
        sha256: None,
    })
}

/// Opens what is to be hashed. Whoever asks may put a pipe in its place meanwhile: that is
/// not waited for.
fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut options = File::options();
    let file = options.read(true).custom_flags(flags.bits()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no ordinary file")),
    }
}

/// The hash of a file that may be growing while it is read.
fn hash_file(file: &mut File) -> io::Result<Hash> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut left = LARGEST;
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return Ok(Hash(digest.finalize().into()));
        }
        left = left.checked_sub(length as u64).ok_or_else(|| {
            io::Error::other(
                "it is larger than 512 MiB, too large for an approval to be tied to it",
            )
        })?;
        digest.update(&buffer[..length]);
    }
}

/// What identifies the same command in the same place: the hash of all that is bound.
pub fn twin(uid: u32, binding: &Binding) -> Hash {
    digest(uid, binding, Part::All)
}

/// The same without the working directory, for permissions that hold in a workspace.
pub fn kin(uid: u32, binding: &Binding) -> Hash {
    digest(uid, binding, Part::WithoutPlace)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    WithoutPlace,
}

fn digest(uid: u32, binding: &Binding, part: Part) -> Hash {
    let mut bytes = uid.to_le_bytes().to_vec();
    let mut add = |piece: &[u8]| {
        bytes.extend_from_slice(&(piece.len() as u64).to_le_bytes());
        bytes.extend_from_slice(piece);
    };
    for argument in &binding.argv {
        add(argument.as_bytes());
    }
    add(b"\0files");
    for file in &binding.files {
        add(file.path.as_bytes());
        add(file.sha256.as_deref().unwrap_or_default().as_bytes());
    }
    add(b"\0env");
    for (name, hash) in &binding.env {
        add(name.as_bytes());
        add(hash.as_bytes());
    }
    add(binding.policy.as_bytes());
    if let Some(text) = &binding.text {
        add(b"\0text");
        add(text.sha256.as_bytes());
        add(&text.length.to_le_bytes());
    }
    if part == Part::All {
        add(&binding.cwd.dev.to_le_bytes());
        add(&binding.cwd.ino.to_le_bytes());
    }
    Hash::of(&bytes)
}

/// What differs between what was approved and what would run now, in sentences;
/// empty when nothing does.
pub fn differences(approved: &Binding, now: &Binding) -> Vec<String> {
    let mut found = Vec::new();
    if approved.argv != now.argv {
        found.push("the arguments are not the same".to_owned());
    }
    if (approved.cwd.dev, approved.cwd.ino) != (now.cwd.dev, now.cwd.ino) {
        found.push(format!(
            "the working directory was {}, now it is {}, or another folder took its place",
            show::inert(approved.cwd.path.as_bytes()),
            show::inert(now.cwd.path.as_bytes())
        ));
    }
    let text = |binding: &Binding| {
        let text = binding.text.as_ref()?;
        Some((text.sha256.clone(), text.length))
    };
    if text(approved) != text(now) {
        found.push("the program text is another one".to_owned());
    }
    if approved.policy != now.policy {
        found.push("the policy has changed".to_owned());
    }
    let before: HashMap<_, _> = approved.env.iter().map(|(n, h)| (n, h)).collect();
    let after: HashMap<_, _> = now.env.iter().map(|(n, h)| (n, h)).collect();
    let mut names: Vec<_> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let what = match (before.get(*name), after.get(*name)) {
            (Some(old), Some(new)) if old == new => continue,
            (Some(_), Some(_)) => "has another value",
            (Some(_), None) => "is gone",
            (None, _) => "is new",
        };
        found.push(format!("the variable {name} {what}"));
    }
    for file in &approved.files {
        let path = show::inert(file.path.as_bytes());
        match now.files.iter().find(|other| other.path == file.path) {
            None if file.sha256.is_none() => {
                found.push(format!("{path} is no longer what it would be given"));
            }
            None => found.push(format!("{path} is no longer what would run")),
            Some(other) if other.sha256 != file.sha256 => {
                found.push(format!("the content of {path} has changed"));
            }
            Some(other) if file.sha256.is_none() && other.ino != file.ino => {
                found.push(format!("another file took the place of {path}"));
            }
            Some(_) => {}
        }
    }
    for file in &now.files {
        if !approved.files.iter().any(|other| other.path == file.path) {
            let what = match file.sha256 {
                Some(_) => "would run",
                None => "would be given",
            };
            found.push(format!(
                "{} {what}, which was not approved",
                show::inert(file.path.as_bytes())
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use sjail_policy::wire::request::ProgramText;

    fn variable(name: &str, value: &str) -> Variable {
        Variable {
            name: name.into(),
            value: value.into(),
        }
    }

    fn bind(binder: &Binder, folder: &Path, env: &[Variable]) -> Binding {
        binder
            .bind(
                &["./x".into(), "a".into()],
                folder,
                env,
                (&[folder.join("x")], &[]),
                "p1",
            )
            .unwrap()
    }

    #[test]
    fn every_change_is_noticed_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(folder.path()).unwrap();
        fs::write(path.join("x"), "#!/bin/sh\n").unwrap();
        let binder = Binder::new([7; 32]);
        let env = [variable("A", "1"), variable("B", "2")];
        let before = bind(&binder, &path, &env);
        assert_eq!(differences(&before, &bind(&binder, &path, &env)), [""; 0]);
        assert_eq!(twin(1, &before), twin(1, &bind(&binder, &path, &env)));

        fs::write(path.join("x"), "#!/bin/sh\nrm\n").unwrap();
        let after = bind(&binder, &path, &env);
        assert_ne!(twin(1, &before), twin(1, &after));
        assert_eq!(
            differences(&before, &after),
            [format!("the content of {}/x has changed", path.display())]
        );
        fs::write(path.join("x"), "#!/bin/sh\n").unwrap();

        let after = bind(&binder, &path, &[variable("A", "2"), variable("C", "2")]);
        assert_eq!(
            differences(&before, &after),
            [
                "the variable A has another value",
                "the variable B is gone",
                "the variable C is new"
            ]
        );

        let mut after = before.clone();
        after.text = Some(ProgramText {
            sha256: "t".to_owned(),
            length: 1,
            head: "x".into(),
            cut: false,
        });
        assert_ne!(twin(1, &before), twin(1, &after));
        assert_eq!(
            differences(&before, &after),
            ["the program text is another one"]
        );

        let mut after = before.clone();
        after.policy = "p2".to_owned();
        after.argv.pop();
        assert_eq!(
            differences(&before, &after),
            ["the arguments are not the same", "the policy has changed"]
        );

        let other = tempfile::tempdir().unwrap();
        let mut after = before.clone();
        after.cwd = bind(&binder, &path, &env).cwd;
        after.cwd.ino += 1;
        assert_ne!(twin(1, &before), twin(1, &after));
        assert_eq!(kin(1, &before), kin(1, &after));
        assert_ne!(kin(1, &before), kin(2, &after));
        assert_eq!(differences(&before, &after).len(), 1);
        drop(other);
    }

    #[test]
    fn what_is_no_file_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(folder.path()).unwrap();
        nix::unistd::mkfifo(&path.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let binder = Binder::new([7; 32]);
        for name in ["pipe", "."] {
            let refused = binder.bind_file(&path.join(name)).unwrap_err();
            assert!(
                refused.to_string().contains("no ordinary file"),
                "{refused}"
            );
        }
        let large = File::create(path.join("large")).unwrap();
        large.set_len(LARGEST + 1).unwrap();
        assert!(binder.bind_file(&path.join("large")).is_err());
    }

    #[test]
    fn values_of_variables_do_not_show() {
        let binder = Binder::new([7; 32]);
        let bound = binder.bind_env(&[variable("TOKEN", "hunter2")]);
        assert_eq!(bound.len(), 1);
        assert_eq!(bound[0].1.len(), 16);
        assert_ne!(
            bound,
            Binder::new([8; 32]).bind_env(&[variable("TOKEN", "hunter2")])
        );
    }
}
