//! A change to an agent's settings: shown, agreed to, what was there kept, and written whole.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sjail_policy::show::inert;

use super::agent::Agent;
use super::settings::{mark, shown};
use crate::cmd::{Failure, print, says_yes};
use crate::error::Error;
use crate::exit::Exit;

/// So many links are followed, as the kernel does.
const LINKS: usize = 40;

/// Shows the change, asks, keeps what was there, and writes.
pub fn change(file: &Path, old: Option<&str>, new: Option<&str>, yes: bool) -> Result<u8, Failure> {
    if old == new {
        print(&format!("{}: as it should be already\n", shown(file)));
        return Ok(Exit::Success.code());
    }
    print(&format!(
        "{}:\n{}",
        shown(file),
        difference(old.unwrap_or_default(), new.unwrap_or_default())
    ));
    if !yes && !says_yes("Write it?", Error::NeedsYes)? {
        print("nothing was changed\n");
        return Ok(Exit::Blocked.code());
    }
    let failed = |error: std::io::Error| Error::Settings {
        path: file.to_owned(),
        why: error.to_string(),
    };
    if let (Some(old), Some(_)) = (old, new) {
        keep(file, old)?;
    }
    match new {
        None => fs::remove_file(file).map_err(failed)?,
        Some(new) => {
            let folder = file.parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(folder).map_err(failed)?;
            // Whole or not at all; a link stays a link to the file it names.
            let real = behind_links(file)?;
            let folder = real.parent().unwrap_or(folder);
            let mut fresh = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
            fresh.write_all(new.as_bytes()).map_err(failed)?;
            if let Ok(meta) = fs::metadata(&real) {
                fs::set_permissions(fresh.path(), meta.permissions()).map_err(failed)?;
            }
            fresh.persist(&real).map_err(|error| failed(error.error))?;
        }
    }
    Ok(Exit::Success.code())
}

/// The file that a link names, there or not; nobody else's is written.
fn behind_links(file: &Path) -> Result<PathBuf, Error> {
    let refused = |why: String| Error::Settings {
        path: file.to_owned(),
        why,
    };
    let mut real = file.to_owned();
    for _ in 0..LINKS {
        let Ok(target) = fs::read_link(&real) else {
            let owned = real.ancestors().find_map(|path| fs::metadata(path).ok());
            let own = nix::unistd::geteuid().as_raw();
            return match owned.is_some_and(|meta| meta.uid() == own) {
                true => Ok(real),
                false => Err(refused(format!("{} is not yours", shown(&real)))),
            };
        };
        real = real.parent().unwrap_or(Path::new("/")).join(target);
    }
    Err(refused("it is a link that leads nowhere".to_owned()))
}

/// Keeps what was there, as private as it was. What was there before us stays kept, whatever
/// we change later.
fn keep(file: &Path, old: &str) -> Result<(), Error> {
    let backup = backup(file);
    let failed = |error: std::io::Error| Error::Settings {
        path: backup.clone(),
        why: error.to_string(),
    };
    let is_ours = Agent::ALL.iter().any(|agent| old.contains(&mark(*agent)));
    if is_ours {
        return Ok(());
    }
    let folder = backup.parent().unwrap_or(Path::new("/"));
    let mut fresh = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    fresh.write_all(old.as_bytes()).map_err(failed)?;
    let mode = fs::metadata(file).map_err(failed)?.permissions();
    fs::set_permissions(fresh.path(), mode).map_err(failed)?;
    fresh
        .persist(&backup)
        .map_err(|error| failed(error.error))?;
    print(&format!("what was there is kept in {}\n", shown(&backup)));
    Ok(())
}

/// Where what was there is kept.
pub fn backup(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".before-sjail");
    file.with_file_name(name)
}

/// The lines that come and go, between those that stay at both ends.
fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let tail = old[head..]
        .iter()
        .rev()
        .zip(new[head..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let mut text = String::new();
    for (sign, lines) in [
        ("-", &old[head..old.len() - tail]),
        ("+", &new[head..new.len() - tail]),
    ] {
        for line in lines {
            let plain = line.trim_start_matches(' ');
            let indent = &line[..line.len() - plain.len()];
            text.push_str(&format!("{sign} {indent}{}\n", inert(plain.as_bytes())));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_is_shown() {
        assert_eq!(difference("a\nb\nc\n", "a\nx\ny\nc\n"), "- b\n+ x\n+ y\n");
    }
}
