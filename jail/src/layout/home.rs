//! The private home folder: empty but for toolchains, harmless settings and the
//! sandbox's own package caches.

use std::fs;
use std::path::{Path, PathBuf};

use sjail_policy::bytes::ByteString;
use sjail_policy::plan::{CacheSource, Home, Network};

use super::What;
use super::kept::{self, Kept};
use super::look::{self, Names};
use super::origin::{Kind, Seen, Shown};
use super::tree::Tree;
use crate::error::Error;
use crate::net::settings;
use crate::net::ssh::known_hosts;

/// Where the sandbox's own caches are mounted; other caches are links into it, which cost
/// a tenth of a mount.
pub const CACHE: &str = ".cache";

/// Caches that are worth a link in every jail. Those of rarer tools get theirs where the
/// host has used the tool or an earlier run in the same sandbox has filled the cache.
pub const COMMON: [&str; 4] = [".cargo/registry", ".cargo/git", ".npm", "go/pkg"];

/// Draws up the home folder. `cache` is the sandbox's own cache folder on the host, `kept`
/// what stands behind the home where several runs share it.
pub fn lay(
    tree: &mut Tree,
    home: &Home,
    cache: Option<&Path>,
    kept: Option<&Kept>,
) -> Result<(), Error> {
    let top = home.path.as_path();
    if top == Path::new("/") || tree.covered(top) {
        // The home is no folder of its own, or was granted as a whole.
        return Ok(());
    }
    match kept {
        Some(kept) => kept::lay(tree, kept, top)?,
        None => {
            tree.folder(top, 0o700);
            tree.own(What::Itself, top, 0);
        }
    }
    let names = Names::of(top);
    let there = |path: &&ByteString| {
        path.as_path()
            .strip_prefix(top)
            .is_ok_and(|below| names.may_have(below))
    };
    for path in home.toolchains.iter().filter(there) {
        read_only(tree, path.as_path())?;
    }
    for path in home.config.iter().filter(there) {
        if !is_git_config(path.as_path(), top) {
            read_only(tree, path.as_path())?;
        }
    }
    let identity = git_config(home.config.iter().filter(there), top);
    match kept {
        Some(kept) => kept::git_identity(&kept.home, &identity),
        None => tree.file(&top.join(".gitconfig"), identity.into_bytes(), 0o600)?,
    }
    match (home.cache_source, cache) {
        // All of that home is kept.
        (CacheSource::Own, _) if kept.is_some() => Ok(()),
        (CacheSource::Own, Some(cache)) => own_caches(tree, home, &names, cache),
        (CacheSource::HostReadOnly, _) => {
            for path in home.caches.iter().filter(there) {
                read_only(tree, path.as_path())?;
            }
            Ok(())
        }
        (CacheSource::None | CacheSource::Closed, _) | (CacheSource::Own, None) => Ok(()),
    }
}

/// Where package managers fetch from, by their owner's settings, and the keys of hosts that
/// ssh may reach.
pub fn registries(tree: &mut Tree, home: &Path, network: &Network) -> Result<(), Error> {
    if home == Path::new("/") || tree.covered(home) {
        return Ok(());
    }
    for (path, content) in settings::carried(home) {
        if !tree.covered(&path) {
            tree.file(&path, content, 0o600)?;
        }
    }
    let known = known_hosts::of(network, home);
    let path = home.join(".ssh/known_hosts");
    if !known.is_empty() && !tree.covered(&path) {
        tree.file(&path, known_hosts::file(&known).into_bytes(), 0o600)?;
    }
    Ok(())
}

/// Shows a host path below home where it exists; a link is made again if it stays below
/// home, so that it cannot lead to what is hidden.
pub fn read_only(tree: &mut Tree, path: &Path) -> Result<(), Error> {
    if tree.granted(path) {
        return Ok(());
    }
    let Some((seen, _)) = look::at(path) else {
        return Ok(());
    };
    match seen.kind {
        Kind::Folder | Kind::File => tree.show(seen, path, Shown::ReadOnly),
        Kind::Link => {
            // Shown as what it leads to, under its own name.
            if let Ok(real) = look::through_links(path) {
                tree.show(real, path, Shown::ReadOnly);
            }
        }
    }
    Ok(())
}

fn own_caches(tree: &mut Tree, home: &Home, host: &Names, cache: &Path) -> Result<(), Error> {
    let top = home.path.as_path();
    let filled = Names::of(cache);
    let dest = top.join(CACHE);
    let seen = look::through_links(cache).map_err(|errno| Error::Cache {
        path: cache.to_owned(),
        error: errno.into(),
    })?;
    let cache = &seen.path.clone();
    tree.show(seen, &dest, Shown::Writable);
    for path in &home.caches {
        let path = path.as_path();
        let Ok(below) = path.strip_prefix(top) else {
            continue;
        };
        if below == Path::new(CACHE) {
            continue;
        }
        let name = flat_name(below);
        if !filled.may_have(Path::new(&name)) {
            let common = COMMON.iter().any(|common| below == Path::new(common));
            if !common && !host.may_have(below) {
                continue;
            }
            make_folder(&cache.join(&name))?;
        }
        if tree.covered(path) {
            // Inside a toolchain: only a mount can stand there, on a folder that exists.
            if let Some(seen) = own_folder(&cache.join(&name))?
                && look::at(path).is_some_and(|(there, _)| there.kind == Kind::Folder)
            {
                tree.show(seen, path, Shown::Writable);
            }
            continue;
        }
        let mut target = PathBuf::new();
        for _ in below.components().skip(1) {
            target.push("..");
        }
        target.push(CACHE);
        target.push(name);
        tree.link(path, &target);
    }
    Ok(())
}

/// A folder in the sandbox's own cache. Jails write there: whatever else one has put in its
/// place, a link above all, is nothing to be shown, and goes.
fn own_folder(path: &Path) -> Result<Option<Seen>, Error> {
    let folder = || {
        let (seen, _) = look::at(path)?;
        (seen.kind == Kind::Folder).then_some(seen)
    };
    if let Some(seen) = folder() {
        return Ok(Some(seen));
    }
    let _ = fs::remove_file(path);
    make_folder(path)?;
    Ok(folder())
}

/// `.cargo/registry` is `cargo-registry` in the sandbox's own cache folder.
pub fn flat_name(path: &Path) -> String {
    let name = path.to_string_lossy().replace('/', "-");
    name.trim_start_matches('.').to_owned()
}

/// Makes a folder for this user alone, unless it is there.
pub fn make_folder(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::Cache {
            path: path.to_owned(),
            error,
        }),
        _ => Ok(()),
    }
}

/// Makes a folder and those above it for this user alone, unless they are there.
pub fn make_folders(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Error::Cache {
            path: path.to_owned(),
            error,
        })
}

/// Whether this is git's own configuration, of which only the identity is taken over.
pub fn is_git_config(path: &Path, top: &Path) -> bool {
    path == top.join(".gitconfig") || path == top.join(".config/git/config")
}

/// Who commits, and nothing that names a program or a credential. The jail shows files of
/// other groups as nobody's, so git must not compare owners (`checkStat`): its index
/// would flip between inside and outside.
pub fn git_config<'a>(config: impl Iterator<Item = &'a ByteString>, top: &Path) -> String {
    let mut text = String::from("[core]\n\tcheckStat = minimal\n");
    let mut identity = Identity::default();
    for path in config.filter(|path| is_git_config(path.as_path(), top)) {
        if let Ok(bytes) = fs::read(path.as_path()) {
            identity.read(&String::from_utf8_lossy(&bytes));
        }
    }
    if identity.name.is_some() || identity.email.is_some() {
        text.push_str("[user]\n");
        for (key, value) in [("name", identity.name), ("email", identity.email)] {
            if let Some(value) = value {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                text.push_str(&format!("\t{key} = \"{value}\"\n"));
            }
        }
    }
    text
}

#[derive(Default)]
struct Identity {
    name: Option<String>,
    email: Option<String>,
}

impl Identity {
    /// Reads `[user]` of a git config; later values win. Values that go on over lines are
    /// not taken: a name does not.
    fn read(&mut self, text: &str) {
        let mut in_user = false;
        for line in text.lines() {
            let line = line.trim();
            if let Some(section) = line.strip_prefix('[') {
                let section = section.split(']').next().unwrap_or_default();
                in_user = section.trim().eq_ignore_ascii_case("user");
                continue;
            }
            if !in_user {
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let Some(value) = plain_value(value.trim()) else {
                continue;
            };
            match key.trim().to_ascii_lowercase().as_str() {
                "name" => self.name = Some(value),
                "email" => self.email = Some(value),
                _ => {}
            }
        }
    }
}

/// A value as git reads it: quotes away, comments off, the two escapes that matter.
fn plain_value(text: &str) -> Option<String> {
    let mut value = String::new();
    let mut quoted = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => quoted = !quoted,
            '\\' => value.push(characters.next().filter(|next| "\\\"".contains(*next))?),
            '#' | ';' if !quoted => break,
            other if other.is_control() => return None,
            other => value.push(other),
        }
    }
    Some(value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_read_and_nothing_else() {
        let mut identity = Identity::default();
        identity.read(
            "[user]\n\tname = \"A \\\"B\\\" C\" ; x\n\temail=a@b.c # x\n[credential]\n\thelper = !evil\n[user \"x\"]\nname = no\n",
        );
        assert_eq!(identity.name.as_deref(), Some("A \"B\" C"));
        assert_eq!(identity.email.as_deref(), Some("a@b.c"));
    }

    #[test]
    fn flat_names() {
        assert_eq!(flat_name(Path::new(".cargo/registry")), "cargo-registry");
        assert_eq!(flat_name(Path::new("go/pkg")), "go-pkg");
    }
}
