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
use std::path::{Path, PathBuf};

use sjail_policy::git_config::Document;
use sjail_policy::git_keys::{led_from, normal};
use sjail_policy::show;

use super::inventory::Role;

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
            let value = Path::new(OsStr::from_bytes(value));
            let key = (&*entry.key.section, entry.key.name.as_str());
            match key {
                // Relative to where hooks run.
                ("core", "hookspath") => {
                    found.extend(normal(&top.join(value)).map(|path| (path, Role::GitHooks)));
                }
                // Relative to the file that includes.
                ("include" | "includeif", "path") => {
                    let folder = file.parent().unwrap_or(top);
                    if let Some(path) = normal(&folder.join(value)) {
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
