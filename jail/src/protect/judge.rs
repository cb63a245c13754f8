//! What happens to git's own files that a jailed command made or changed: configuration
//! is judged key by key, hooks by whether git would run them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sjail_policy::git_config::Document;
use sjail_policy::git_keys::{self, Place};

use super::finding::Finding;
use super::quarantine::{self, Quarantine};
use super::repository::small;

/// Where the judged repository lies and where refused things go.
#[derive(Debug, Clone, Copy)]
pub struct Court<'a> {
    /// The workspace's top folder.
    pub workspace: &'a Path,
    /// How deep repositories are looked for.
    pub depth: u8,
    /// Where refused things go.
    pub quarantine: &'a Quarantine,
}

impl Court<'_> {
    /// Judges a configuration that may have been changed by the jail: `host` is the text
    /// that the host had, nothing for a new repository. What is not harmless is taken
    /// out of the file; the whole of it goes to quarantine first. Gives the text that was
    /// found good: the file itself may be another one by the time this returns.
    pub fn config(
        &self,
        path: &Path,
        host: &[u8],
        findings: &mut Vec<Finding>,
    ) -> Result<Vec<u8>, quarantine::Error> {
        let Some(text) = small(path) else {
            // A link, a folder, a pipe, or more than a megabyte: no configuration.
            if fs::symlink_metadata(path).is_ok() {
                let why = "is no file that git's configuration can be";
                let item = self.quarantine.take(path, why)?;
                findings.extend(item.as_ref().map(Finding::quarantined));
            }
            return Ok(host.to_owned());
        };
        if text == host {
            return Ok(text);
        }
        let git_dir = path.parent().unwrap_or(self.workspace);
        let before = Document::parse(host).or_else(|_| Document::parse(b""));
        let (before, after) = match (before, Document::parse(&text)) {
            (Ok(before), Ok(after)) => (before, after),
            (_, Err(error)) => {
                let why = format!("cannot be read as git's configuration ({error})");
                let item = match host.is_empty() {
                    true => self.quarantine.take(path, &why)?,
                    false => Some(self.quarantine.keep(path, &text, &why)?),
                };
                findings.extend(item.as_ref().map(Finding::quarantined));
                if !host.is_empty() {
                    self.write(path, host)?;
                }
                return Ok(host.to_owned());
            }
            (Err(_), _) => return Ok(host.to_owned()),
        };
        let place = Place {
            workspace: self.workspace,
            git_dir,
            depth: self.depth,
        };
        let merged = git_keys::merge(&before, &after, place);
        if merged.left_out.is_empty() {
            return Ok(text);
        }
        let item =
            self.quarantine
                .keep(path, &text, "held keys that would run programs on the host")?;
        for left in &merged.left_out {
            findings.push(Finding::key(path, left, Some(&item.id)));
        }
        self.write(path, &merged.text)?;
        Ok(merged.text)
    }

    /// Judges a folder of hooks: everything in it that git could run goes to quarantine.
    pub fn hooks(&self, path: &Path, findings: &mut Vec<Finding>) -> Result<(), quarantine::Error> {
        if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_dir()) {
            let item = self
                .quarantine
                .take(path, "would give git programs to run")?;
            findings.extend(item.as_ref().map(Finding::quarantined));
            return Ok(());
        }
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            if is_live_hook(&entry.path()) {
                let item = self
                    .quarantine
                    .take(&entry.path(), "is a program that git would run")?;
                findings.extend(item.as_ref().map(Finding::quarantined));
            }
        }
        Ok(())
    }

    /// Writes a configuration anew. Over the old bytes, not by renaming: the jail's
    /// read-only mount is on this very file, and would go with it.
    pub fn write(&self, path: &Path, text: &[u8]) -> Result<(), quarantine::Error> {
        overwrite(path, text).map_err(|source| quarantine::Error::Take {
            path: path.to_owned(),
            to: path.to_owned(),
            source,
        })
    }
}

/// Git runs no hook whose name ends in `.sample`; `README` and the like are no hooks.
pub fn is_live_hook(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let harmless = name.ends_with(".sample") || name.eq_ignore_ascii_case("readme");
    let plain = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    !(harmless && plain)
}

fn overwrite(path: &Path, text: &[u8]) -> io::Result<()> {
    let file = File::options()
        .write(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    file.write_all_at(text, 0)?;
    file.set_len(text.len() as u64)
}

/// Writes a new file beside the old one and renames it over; the old one's permissions stay.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mode = fs::symlink_metadata(path).map_or(0o644, |metadata| metadata.mode() & 0o777);
    let folder = path.parent().unwrap_or(Path::new("/"));
    let unique: String = crate::sys::random::bytes::<6>()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let beside: PathBuf = folder.join(format!(".sjail-{unique}"));
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(mode)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&beside)?;
    let written = file
        .write_all(text)
        .and_then(|()| fs::set_permissions(&beside, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}
