//! What happens to git's own files that a jailed command made or changed: configuration
//! is judged key by key, hooks by whether git would run them.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use sjail_policy::git_config::Document;
use sjail_policy::git_keys::{self, Ground, Place};

use super::finding::Finding;
use super::quarantine::{self, Quarantine};
use super::reach;
use super::repository::small;
use crate::beneath::{self, Beneath, Kind};

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
    ///
    /// A host that writes the file while it is judged does not lose what it wrote: the
    /// new text is judged instead.
    pub fn config(
        &self,
        path: &Path,
        host: &[u8],
        findings: &mut Vec<Finding>,
    ) -> Result<Vec<u8>, quarantine::Error> {
        const TRIES: usize = 32;
        for _ in 0..TRIES {
            if let Some(good) = self.config_once(path, host, findings)? {
                return Ok(good);
            }
        }
        // Somebody writes it without end: the next look judges what is there then.
        Ok(host.to_owned())
    }

    /// Judges what is there now; `None` when it was something else before the judgement
    /// could be carried out.
    fn config_once(
        &self,
        path: &Path,
        host: &[u8],
        findings: &mut Vec<Finding>,
    ) -> Result<Option<Vec<u8>>, quarantine::Error> {
        let Some(text) = small(path) else {
            // A link, a folder, a pipe, or more than a megabyte: no configuration.
            if fs::symlink_metadata(path).is_ok() {
                let why = "is no file that git's configuration can be";
                let item = self.quarantine.take(path, why)?;
                findings.extend(item.as_ref().map(Finding::quarantined));
            }
            return Ok(Some(host.to_owned()));
        };
        if text == host {
            return Ok(Some(text));
        }
        let git_dir = path.parent().unwrap_or(self.workspace);
        let before = Document::parse(host).or_else(|_| Document::parse(b""));
        let (before, after) = match (before, Document::parse(&text)) {
            (Ok(before), Ok(after)) => (before, after),
            (_, Err(error)) => {
                let why = format!("cannot be read as git's configuration ({error})");
                if host.is_empty() {
                    let item = self.quarantine.take(path, &why)?;
                    findings.extend(item.as_ref().map(Finding::quarantined));
                } else {
                    let item = self.quarantine.keep(path, &text, &why)?;
                    if !self.put(path, &text, host)? {
                        return Ok(None);
                    }
                    findings.push(Finding::quarantined(&item));
                }
                return Ok(Some(host.to_owned()));
            }
            (Err(_), _) => return Ok(Some(host.to_owned())),
        };
        let place = self.place(git_dir);
        let merged = git_keys::merge(&before, &after, place);
        if merged.left_out.is_empty() {
            return Ok(Some(text));
        }
        let item =
            self.quarantine
                .keep(path, &text, "held keys that would run programs on the host")?;
        if !self.put(path, &text, &merged.text)? {
            return Ok(None);
        }
        findings.extend(Finding::keys(path, &merged.left_out, Some(&item.id)));
        Ok(Some(merged.text))
    }

    /// Where a configuration lies.
    pub fn place<'a>(&'a self, git_dir: &'a Path) -> Place<'a> {
        Place {
            workspace: self.workspace,
            git_dir,
            depth: self.depth,
            ground: self,
        }
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
        let listed = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let opened = reach::folder(path).map_err(io::Error::from);
                opened.and_then(|()| fs::read_dir(path))
            }
            listed => listed,
        };
        match listed {
            Ok(entries) => {
                for entry in entries.flatten() {
                    if is_live_hook(&entry.path()) {
                        let why = "is a program that git would run";
                        let item = self.quarantine.take(&entry.path(), why)?;
                        findings.extend(item.as_ref().map(Finding::quarantined));
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => {
                let why = "cannot be looked into, and git would run what is in it";
                let item = self.quarantine.take(path, why)?;
                findings.extend(item.as_ref().map(Finding::quarantined));
            }
        }
        Ok(())
    }

    /// Writes a configuration anew, if it still is what was judged. Over the old bytes, not
    /// by renaming: the jail's read-only mount is on this very file, and would go with it.
    fn put(&self, path: &Path, judged: &[u8], text: &[u8]) -> Result<bool, quarantine::Error> {
        let put = match overwrite(path, judged, text) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let opened = reach::name(path).map_err(io::Error::from);
                opened.and_then(|()| overwrite(path, judged, text))
            }
            put => put,
        };
        put.map_err(|source| quarantine::Error::Take {
            path: path.to_owned(),
            to: path.to_owned(),
            source,
        })
    }
}

impl Ground for Court<'_> {
    fn is_folder(&self, path: &Path) -> bool {
        Beneath::open(path).is_ok()
    }

    fn is_repository(&self, path: &Path) -> bool {
        Beneath::open(path).is_ok_and(|top| {
            let kind = |name: &str| {
                let stat = top.stat(Path::new(name)).ok().flatten();
                stat.map(|stat| beneath::kind(&stat))
            };
            let folder = |name| kind(name) == Some(Kind::Folder);
            match kind(".git") {
                Some(kind) => matches!(kind, Kind::File | Kind::Folder),
                None => kind("HEAD") == Some(Kind::File) && folder("objects") && folder("refs"),
            }
        })
    }

    fn is_out_of_reach(&self, path: &Path) -> bool {
        // Where these lead depends on who goes there.
        const NOWHERE: [&str; 3] = ["/proc", "/dev", "/sys"];
        let real = path.ancestors().find_map(|above| {
            let real = fs::canonicalize(above).ok()?;
            Some(real.join(path.strip_prefix(above).ok()?))
        });
        real.is_some_and(|real| {
            !real.starts_with(self.workspace)
                && !real.starts_with(self.quarantine.sandboxes())
                && !NOWHERE.iter().any(|place| real.starts_with(place))
        }) && !NOWHERE.iter().any(|place| path.starts_with(place))
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

/// Puts `text` into the file that holds `judged`; what is there by another name or with
/// another content stays.
fn overwrite(path: &Path, judged: &[u8], text: &[u8]) -> io::Result<bool> {
    let folder = Beneath::open(path.parent().unwrap_or(path))?;
    let name = path.file_name().unwrap_or_default();
    let file = folder.file_to_change(Path::new(name))?;
    let mut now = Vec::new();
    (&file)
        .take(judged.len() as u64 + 1)
        .read_to_end(&mut now)?;
    if now != judged {
        return Ok(false);
    }
    // From here on it is this very file: one that takes its place is not touched.
    file.write_all_at(text, 0)?;
    file.set_len(text.len() as u64)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_written_since_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, "judged").unwrap();
        assert!(overwrite(&path, b"judged", b"good").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"good");
        fs::write(&path, "written by the host since").unwrap();
        assert!(!overwrite(&path, b"good", b"better").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"written by the host since");
    }
}
