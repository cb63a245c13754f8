//! Where a repository keeps its things: `.git` files, further working trees, submodules.
//!
//! A `.git` file can have been planted by an earlier command. So what it points to
//! outside the workspace is believed only when that place, which no jail could write,
//! points back.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use sjail_policy::git_config::Document;
use sjail_policy::git_keys::{led_from, normal};
use sjail_policy::show;

use super::inventory::Role;
use crate::caller::home_of;

/// Where a `.git` file leads.
#[derive(Debug, PartialEq, Eq)]
pub enum Pointer {
    /// A folder of git inside the workspace.
    Inside(PathBuf),
    /// One outside that points back: the folder that working trees share, or a submodule's.
    Outside(PathBuf),
    /// Somewhere that is not believed; the sentence says why.
    Refused(String),
}

/// Follows a `.git` file.
pub fn follow(dot_git: &Path, workspace: &Path) -> Pointer {
    let refused = |why: &str| {
        Pointer::Refused(format!(
            "git will not work here: {} {why}",
            show::name(dot_git)
        ))
    };
    let Some(git_dir) = pointed_to(dot_git) else {
        return refused("does not say where git's folder is");
    };
    if fs::canonicalize(&git_dir).ok().as_ref() != Some(&git_dir) {
        return refused("points to a folder that is missing or is reached through a link");
    }
    if git_dir.starts_with(workspace) {
        return Pointer::Inside(git_dir);
    }
    match (shared(&git_dir), worktree_of(&git_dir)) {
        (Some(common), Some(tree)) if tree.join(".git") == dot_git => {
            if git_dir.parent() != Some(&common.join("worktrees")) || !is_repository(&common) {
                return refused("points to a working tree of no repository");
            }
            Pointer::Outside(common)
        }
        (None, _) if submodule_tree(&git_dir).as_deref() == dot_git.parent() => {
            if !is_repository(&git_dir) {
                return refused("points to a folder that is no repository of yours");
            }
            Pointer::Outside(git_dir)
        }
        _ => refused(&format!(
            "points to {}, which does not point back; if you trust it, allow it with --rw",
            show::name(&git_dir)
        )),
    }
}

/// Where a chain of links leads, whether something is there or not.
pub fn end_of_links(path: &Path) -> Option<PathBuf> {
    const MOST: usize = 16;
    let mut at = path.to_owned();
    for _ in 0..MOST {
        match fs::read_link(&at) {
            Ok(target) => at = normal(&at.parent()?.join(target))?,
            Err(_) => return Some(at),
        }
    }
    None
}

/// The folder that a `.git` file names, absolute.
pub fn pointed_to(dot_git: &Path) -> Option<PathBuf> {
    pointed_to_by(dot_git, dot_git)
}

/// The same for a file that is to stand at `dot_git`.
pub fn pointed_to_by(file: &Path, dot_git: &Path) -> Option<PathBuf> {
    let text = small(file)?;
    let target = line(&text).strip_prefix(b"gitdir: ")?;
    led_from(dot_git.parent()?, target)
}

/// The one line of a file that points somewhere: git takes line ends off, and nothing else.
pub fn line(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'));
    end.map_or(&[], |end| &text[..=end])
}

/// The folder that a working tree's own folder of git shares with the others.
pub fn shared(git_dir: &Path) -> Option<PathBuf> {
    let text = small(&git_dir.join("commondir"))?;
    led_from(git_dir, line(&text))
}

/// The working tree that a folder in `worktrees` belongs to, by its own word.
pub fn worktree_of(admin: &Path) -> Option<PathBuf> {
    let text = small(&admin.join("gitdir"))?;
    let dot_git = led_from(admin, line(&text))?;
    Some(dot_git.parent()?.to_owned())
}

/// Whether a folder in `worktrees` shares the repository it lies in, as git makes it.
pub fn shares_its_own(admin: &Path) -> bool {
    let own = admin.parent().and_then(Path::parent);
    shared(admin).as_deref() == own
}

/// The working tree of a submodule, by its own configuration.
fn submodule_tree(git_dir: &Path) -> Option<PathBuf> {
    let config = Document::parse(&small(&git_dir.join("config"))?).ok()?;
    let tree = config.last("core", None, "worktree")?;
    led_from(git_dir, tree)
}

fn is_repository(git_dir: &Path) -> bool {
    let mine = |metadata: fs::Metadata| metadata.uid() == nix::unistd::getuid().as_raw();
    fs::symlink_metadata(git_dir).is_ok_and(mine)
        && git_dir.join("HEAD").is_file()
        && git_dir.join("objects").is_dir()
        && git_dir.join("refs").is_dir()
}

/// Where a repository's hooks run: at the top of its working tree, or in its own folder where
/// it has none.
pub fn top_of(git_dir: &Path) -> PathBuf {
    match git_dir.parent() {
        Some(top) if git_dir.file_name() == Some(".git".as_ref()) => top.to_owned(),
        _ => submodule_tree(git_dir).unwrap_or_else(|| git_dir.to_owned()),
    }
}

/// What a configuration makes git obey: its folder of hooks, and files it includes. `top` is
/// where hooks run.
pub fn obeyed(config: &Path, top: &Path) -> Vec<(PathBuf, Role)> {
    let mut found = Vec::new();
    let mut files = vec![config.to_owned()];
    let mut next = 0;
    while let Some(file) = files.get(next).cloned() {
        next += 1;
        let Some(document) = small(&file).and_then(|text| Document::parse(&text).ok()) else {
            continue;
        };
        for entry in document.entries() {
            let Some(value) = entry.value.as_deref().filter(|value| !value.is_empty()) else {
                continue;
            };
            let Some(value) = expanded(value) else {
                continue;
            };
            let key = (&*entry.key.section, entry.key.name.as_str());
            match key {
                // Relative to where hooks run.
                ("core", "hookspath") => {
                    found.extend(ways_to(&top.join(value)).map(|path| (path, Role::GitHooks)));
                }
                // Relative to the file that includes.
                ("include" | "includeif", "path") => {
                    let folder = file.parent().unwrap_or(top);
                    for path in ways_to(&folder.join(&value)) {
                        if files.len() < 8 && !files.contains(&path) {
                            files.push(path.clone());
                        }
                        found.push((path, Role::Plain));
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// The configuration that git obeys in every repository: this user's, and the machine's.
pub fn everywhere() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let home = variable("HOME");
    let own = home.as_ref().map(|home| home.join(".gitconfig"));
    let folder = variable("XDG_CONFIG_HOME").or(home.map(|home| home.join(".config")));
    let other = folder.map(|folder| folder.join("git/config"));
    let machine = Some(PathBuf::from("/etc/gitconfig"));
    let files = [variable("GIT_CONFIG_GLOBAL"), own, other, machine];
    // Many keep theirs as links to somewhere else.
    let files = files.into_iter().flatten();
    files
        .filter_map(|file| fs::canonicalize(file).ok())
        .collect()
}

/// A path as git's configuration writes it, with the home folder that it begins with. `None` for
/// one that git does not go to, or that is in its own installation.
fn expanded(value: &[u8]) -> Option<PathBuf> {
    let value = value.strip_prefix(b":(optional)").unwrap_or(value);
    if value.starts_with(b"%(prefix)/") {
        return None;
    }
    let Some(behind) = value.strip_prefix(b"~") else {
        return Some(Path::new(OsStr::from_bytes(value)).to_owned());
    };
    let slash = behind.iter().position(|byte| *byte == b'/');
    let (name, below) = behind.split_at(slash.unwrap_or(behind.len()));
    let home = match name {
        b"" => std::env::var_os("HOME").map(PathBuf::from)?,
        name => home_of(OsStr::from_bytes(name).to_str()?)?,
    };
    let below = below.strip_prefix(b"/").unwrap_or(below);
    Some(home.join(OsStr::from_bytes(below)))
}

/// Where a path leads by its names, and where it leads now: a `..` behind a link goes up from
/// where that leads.
fn ways_to(path: &Path) -> impl Iterator<Item = PathBuf> {
    let by_name = normal(path);
    let now = really_up(path).filter(|now| Some(now) != by_name.as_ref());
    by_name.into_iter().chain(now)
}

fn really_up(path: &Path) -> Option<PathBuf> {
    let parts: Vec<_> = path.components().collect();
    let up = parts
        .iter()
        .rposition(|part| *part == Component::ParentDir)?;
    let (above, below) = parts.split_at(up + 1);
    let above = fs::canonicalize(above.iter().collect::<PathBuf>()).ok()?;
    Some(above.join(below.iter().collect::<PathBuf>()))
}

/// The contents of a small regular file; links are not followed, pipes not waited for.
pub fn small(path: &Path) -> Option<Vec<u8>> {
    const MOST: u64 = 1 << 20;
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MOST).then_some(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::process::Command;

    /// Each way to write a folder of hooks: found where git says that it is.
    #[test]
    fn hooks_are_where_git_looks_for_them() {
        let base = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(base.path()).unwrap();
        let git = |words: &[&str]| {
            let done = Command::new("git").args(words).current_dir(&top).output();
            let done = done.unwrap();
            assert!(done.status.success(), "{words:?} {done:?}");
            String::from_utf8(done.stdout).unwrap()
        };
        git(&["init", "-q", "."]);
        fs::create_dir_all(top.join("a/deep")).unwrap();
        std::os::unix::fs::symlink("a/deep", top.join("way")).unwrap();
        for written in [
            "my hooks",
            "\"my hooks \" ; said",
            "my  \t hooks\t# said",
            "a\\\n/ho\\\noks",
            "a\\\\\\\"b",
            "a\\tb",
            "\"a;b\"#c",
            "ends-in-\x0b",
            "ends-in-\x0c\x0b  ",
            "~/hooks",
            "~root/hooks",
            "a//./b/../hooks/",
            "way/../hooks",
            "/abs/hooks",
        ] {
            let config = top.join(".git/config");
            fs::write(&config, format!("[core]\n\thooksPath = {written}\n")).unwrap();
            let told = git(&["rev-parse", "--git-path", "hooks/x"]);
            let told = top.join(told.strip_suffix("/x\n").unwrap());
            let told = match told.canonicalize() {
                Ok(there) => there,
                Err(_) => ways_to(&told).last().unwrap(),
            };
            let found: Vec<_> = obeyed(&config, &top)
                .into_iter()
                .map(|(path, _)| path)
                .collect();
            assert!(found.contains(&told), "{written:?}: {told:?} {found:?}");
        }
    }
}
