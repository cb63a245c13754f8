//! The workspace and whatever else was granted, but never the ways to the host.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use sjail_policy::config::refused_source;
use sjail_policy::plan::{Access, Grant, Missing, Workspace};
use sjail_policy::show;

use super::look;
use super::origin::{Kind, Seen, Shown};
use super::path::plain;
use super::tree::Tree;
use crate::error::Error;

/// Never granted, nor anything below: what the kernel and the running services show.
const RESERVED: [&str; 5] = ["/proc", "/sys", "/dev", "/run", "/var/run"];

/// Shows the workspace at its own path.
pub fn workspace(tree: &mut Tree, workspace: &Workspace) -> Result<(), Error> {
    let shown = match workspace.access {
        Access::None => return Ok(()),
        Access::Ro => Shown::ReadOnly,
        Access::Rw => Shown::Writable,
    };
    let path = workspace.path.as_path();
    if path == Path::new("/") {
        return everything(tree, shown);
    }
    match seen(path, Missing::Refuse)? {
        Some(seen) => put(tree, seen, path, path, shown),
        None => Ok(()),
    }
}

/// Shows what `--ro`, `--rw`, `--bind` and the policy name.
pub fn lay(tree: &mut Tree, workspace: &Workspace, grants: &[Grant]) -> Result<(), Error> {
    let writable = std::iter::once((workspace.access, workspace.path.as_path()))
        .chain(
            grants
                .iter()
                .map(|grant| (grant.access, grant.source.as_path())),
        )
        .filter(|(access, _)| *access == Access::Rw)
        .map(|(_, path)| path);
    let writable: Vec<&Path> = writable.collect();
    for grant in grants {
        let shown = match grant.access {
            Access::None => continue,
            Access::Ro => Shown::ReadOnly,
            Access::Rw => Shown::Writable,
        };
        let source = grant.source.as_path();
        let Some(seen) = seen(source, grant.missing)? else {
            continue;
        };
        if leads_out(source, &seen.path, &writable) {
            return Err(Error::LedOut {
                path: source.to_owned(),
                real: seen.path,
            });
        }
        put(tree, seen, source, grant.dest.as_path(), shown)?;
    }
    Ok(())
}

/// What jails can write may hold links that one of them has laid: a name in there that leads
/// out of it gives nothing.
fn leads_out(source: &Path, real: &Path, writable: &[&Path]) -> bool {
    writable.iter().any(|top| {
        let inside = source != *top && source.starts_with(top);
        inside && !std::fs::canonicalize(top).is_ok_and(|top| real.starts_with(top))
    })
}

/// What a policy file names and this machine does not have, as sentences.
pub fn left_out(grants: &[Grant]) -> Vec<String> {
    let told = grants
        .iter()
        .filter(|grant| grant.missing == Missing::Tell)
        .map(|grant| grant.source.as_path());
    told.filter(|path| look::through_links(path).is_err_and(is_nothing))
        .map(|path| {
            let path = show::name(path);
            format!("{path} is not there and was left out (filesystem.read)")
        })
        .collect()
}

fn is_nothing(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ENOTDIR)
}

/// What a path leads to; nothing, where it may be missing and is.
fn seen(source: &Path, missing: Missing) -> Result<Option<Seen>, Error> {
    match (look::through_links(source), missing) {
        (Ok(seen), _) => Ok(Some(seen)),
        (Err(_), Missing::Skip) => Ok(None),
        (Err(errno), Missing::Tell) if is_nothing(errno) => Ok(None),
        (Err(errno), Missing::Tell | Missing::Refuse) => Err(Error::Look {
            path: source.to_owned(),
            error: errno.into(),
        }),
    }
}

fn put(tree: &mut Tree, seen: Seen, source: &Path, dest: &Path, shown: Shown) -> Result<(), Error> {
    let dest = plain(dest).ok_or_else(|| Error::BadPath {
        path: dest.to_owned(),
    })?;
    if RESERVED.iter().any(|reserved| dest.starts_with(reserved)) {
        return Err(Error::BlockedPlace { path: dest });
    }
    if let Some(why) = blocked(&seen.path) {
        return Err(Error::BlockedSource {
            path: source.to_owned(),
            real: seen.path,
            why,
        });
    }
    if dest == Path::new("/") {
        return Err(Error::BlockedPlace { path: dest });
    }
    // The source's name may go through links; so may a destination of the same name.
    if dest == source && seen.path != dest {
        follow(tree, &dest, &seen.path);
        tree.show(seen.clone(), &seen.path, shown);
        return Ok(());
    }
    tree.show(seen, &dest, shown);
    Ok(())
}

/// A path that goes through links is shown under its real name, with the first link on
/// the way made again so that the name still leads there.
fn follow(tree: &mut Tree, named: &Path, real: &Path) {
    let link = named
        .ancestors()
        .filter(|above| look::at(above).is_some_and(|(seen, _)| seen.kind == Kind::Link))
        .last();
    if let Some(link) = link
        && let Ok(rest) = named.strip_prefix(link)
        && let Some(target) = strip_suffix(real, rest)
        && tree.link_at(link).is_none()
        && !tree.covered(link)
    {
        tree.link(link, &target);
    }
}

fn strip_suffix(path: &Path, suffix: &Path) -> Option<PathBuf> {
    if suffix.as_os_str().is_empty() {
        return Some(path.to_owned());
    }
    if !path.ends_with(suffix) {
        return None;
    }
    path.ancestors()
        .nth(suffix.components().count())
        .map(Path::to_owned)
}

/// `/` itself: every folder in it but those that every jail has of its own.
fn everything(tree: &mut Tree, shown: Shown) -> Result<(), Error> {
    const OWN: [&str; 6] = ["proc", "sys", "dev", "run", "tmp", "etc"];
    let entries = std::fs::read_dir("/").map_err(|error| Error::Look {
        path: "/".into(),
        error,
    })?;
    for entry in entries.flatten() {
        let path = entry.path();
        if OWN.iter().any(|own| entry.file_name() == *own) {
            continue;
        }
        if let Some((seen, _)) = look::at(&path) {
            match seen.kind {
                Kind::Folder if path == Path::new("/var") => {}
                Kind::Folder | Kind::File => tree.show(seen, &path, shown),
                Kind::Link => {}
            }
        }
    }
    Ok(())
}

/// Why a path is never shown, whatever flag asks for it.
pub fn never_shown(path: &Path) -> Option<&'static str> {
    match look::through_links(path) {
        Ok(seen) => blocked(&seen.path),
        Err(_) => blocked(path),
    }
}

/// Why a path, all links followed, is never shown. The policy says the same of the path
/// as it was typed; a link must not make the difference.
fn blocked(real: &Path) -> Option<&'static str> {
    if let Some(why) = refused_source(real.as_os_str().as_bytes()) {
        return Some(why);
    }
    if RESERVED.iter().any(|reserved| real.starts_with(reserved)) {
        return Some("the kernel and the running services show themselves there");
    }
    is_socket(real).then_some("whoever reaches a socket talks to a process outside")
}

fn is_socket(path: &Path) -> bool {
    nix::sys::stat::lstat(path).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFSOCK)
}
