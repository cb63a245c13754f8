//! Folders of sjail's own that outlive a run: the home and tmp of a sandbox that several
//! runs share, and what an agent keeps. Whatever is mounted inside one of them needs a place
//! there, which is made without following a link: a command has written there before.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use sjail_policy::plan::AgentHome;

use super::home::read_only;
use super::look;
use super::origin::{Kind, Origin};
use super::path::{c_string, within};
use super::tree::Tree;
use crate::error::Error;
use crate::sys::file::{BENEATH, NO_LINKS, openat2};

/// The folders that stand behind a sandbox which several runs share.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Behind the home.
    pub home: PathBuf,
    /// Behind `/tmp`.
    pub tmp: PathBuf,
    /// Behind `/var/tmp`.
    pub var_tmp: PathBuf,
}

/// Puts the kept folders where the private ones would be.
pub fn lay(tree: &mut Tree, kept: &Kept, home: &Path) -> Result<(), Error> {
    let mut places = vec![
        (&kept.tmp, Path::new("/tmp")),
        (&kept.var_tmp, Path::new("/var/tmp")),
    ];
    if home != Path::new("/") && !tree.covered(home) {
        places.push((&kept.home, home));
    }
    for (source, dest) in places {
        show_own(tree, source, dest)?;
    }
    Ok(())
}

/// An agent's own: its folders writable, the host's settings for it over them.
pub fn lay_agent(tree: &mut Tree, agent: &AgentHome, folder: &Path) -> Result<(), Error> {
    for path in &agent.state {
        let name = path.as_path().file_name().unwrap_or_default();
        let parent = path.as_path().parent().and_then(Path::file_name);
        // `.config/cursor` and `.cursor` are two.
        let mut own = parent.unwrap_or_default().to_owned();
        own.push("-");
        own.push(name);
        let source = folder.join(own);
        super::home::make_folders(&source)?;
        show_own(tree, &source, path.as_path())?;
    }
    for path in &agent.config {
        read_only(tree, path.as_path())?;
    }
    Ok(())
}

fn show_own(tree: &mut Tree, source: &Path, dest: &Path) -> Result<(), Error> {
    let seen = look::through_links(source).map_err(|errno| Error::Cache {
        path: source.to_owned(),
        error: errno.into(),
    })?;
    tree.keep(seen, dest);
    Ok(())
}

/// Makes the places that mounts inside our own folders need.
pub fn make_places(tree: &Tree) -> Result<(), Error> {
    for entry in tree.mounts() {
        let kind = match &entry.origin {
            Origin::Host(seen) => seen.kind,
            Origin::Own(_) => continue,
        };
        let above = tree
            .mounts()
            .iter()
            .filter_map(|other| match &other.origin {
                Origin::Host(seen)
                    if other.dest != entry.dest && within(&entry.dest, &other.dest) =>
                {
                    Some((&other.dest, &seen.path))
                }
                _ => None,
            });
        let Some((dest, source)) = above.max_by_key(|(dest, _)| dest.as_os_str().len()) else {
            continue;
        };
        if !tree.is_kept(dest) {
            continue;
        }
        let below = entry.dest.strip_prefix(dest).unwrap_or(Path::new(""));
        make_place(source, below, kind).map_err(|error| Error::Cache {
            path: source.join(below),
            error,
        })?;
    }
    Ok(())
}

/// Makes a folder or an empty file below one of our folders, and what leads to it.
fn make_place(top: &Path, below: &Path, kind: Kind) -> io::Result<()> {
    let names: Vec<&std::ffi::OsStr> = below
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    let Some((last, way)) = names.split_last() else {
        return Ok(());
    };
    let path = c_string(top).map_err(|_| io::Error::from(Errno::EINVAL))?;
    let mut folder = openat2(None, &path, libc::O_PATH | libc::O_DIRECTORY, 0, NO_LINKS)?;
    for name in way {
        folder = enter(&folder, name)?;
    }
    match kind {
        Kind::Folder => enter(&folder, last).map(drop),
        Kind::File | Kind::Link => {
            let flags = OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            openat(
                &folder,
                *last,
                flags | OFlag::O_NONBLOCK,
                Mode::from_bits_truncate(0o600),
            )?;
            Ok(())
        }
    }
}

fn enter(folder: &OwnedFd, name: &std::ffi::OsStr) -> io::Result<OwnedFd> {
    match mkdirat(folder, name, Mode::from_bits_truncate(0o700)) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let path = c_string(Path::new(name)).map_err(|_| io::Error::from(Errno::EINVAL))?;
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    Ok(openat2(Some(folder.as_fd()), &path, flags, 0, BENEATH)?)
}

/// Who commits, where nobody has written anything else yet.
pub fn git_identity(home: &Path, text: &str) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let file = fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(home.join(".gitconfig"));
    // One that is there already is the sandbox's own.
    let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn places_are_made_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("home");
        let outside = folder.path().join("outside");
        fs::create_dir(&top).unwrap();
        fs::create_dir(&outside).unwrap();
        make_place(&top, Path::new("a/b/file"), Kind::File).unwrap();
        make_place(&top, Path::new("a/b/folder"), Kind::Folder).unwrap();
        assert!(top.join("a/b/file").is_file() && top.join("a/b/folder").is_dir());
        std::os::unix::fs::symlink(&outside, top.join("way")).unwrap();
        assert!(make_place(&top, Path::new("way/x"), Kind::Folder).is_err());
        assert!(make_place(&top, Path::new("way/x"), Kind::File).is_err());
        assert!(make_place(&top, Path::new("way"), Kind::Folder).is_err());
        assert!(fs::read_dir(&outside).unwrap().next().is_none());
        fs::write(outside.join("kept"), "as it was").unwrap();
        std::os::unix::fs::symlink(outside.join("kept"), top.join("link")).unwrap();
        assert!(make_place(&top, Path::new("link"), Kind::File).is_err());
        assert_eq!(
            fs::read_to_string(outside.join("kept")).unwrap(),
            "as it was"
        );
    }
}
