//! A folder of git that a single command writes to a copy of.
//!
//! `git remote add` and its like must replace `config` in the very folder where `HEAD`
//! and the index are replaced all the time; mounts alone cannot allow the one and forbid
//! the other. So such a command, alone on the line, sees the folder through an overlay:
//! what it writes goes to an upper layer in the sandbox's own folder, the host's files
//! stay as they are. When it has ended, and every process of the jail with it, the layer
//! is gone through: configuration is merged key by key, hooks that git would run and
//! files that point elsewhere stay out, the rest is moved into place. The host's git sees
//! nothing of it before that.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sjail_policy::git_command::{Need, Writer};
use sjail_policy::git_config::Document;
use sjail_policy::git_keys::{self, Place, normal};

use super::finding::Finding;
use super::inventory::Moment;
use super::judge::{Court, is_live_hook};
use super::quarantine;
use super::repository::{self, small};

/// The copy that one run writes to.
#[derive(Debug)]
pub struct Copy {
    /// The host's folder of git.
    lower: PathBuf,
    /// The folder that holds the layer and the overlay's own scratch.
    folder: PathBuf,
    started: Moment,
    /// The host's configurations when the run began, by their places below `lower`.
    configs: Vec<(PathBuf, Vec<u8>)>,
}

/// The folder of git that a command must be able to write the configuration of.
pub fn needed(writer: &Writer, cwd: &Path, git_dirs: &[&Path]) -> Option<PathBuf> {
    let mut folder = cwd.to_owned();
    for step in &writer.folders {
        folder.push(std::ffi::OsStr::from_bytes(step));
    }
    let folder = normal(&folder)?;
    let git_dir = folder.ancestors().find_map(|top| of_top(top, git_dirs))?;
    let needed = match &writer.need {
        Need::Config => true,
        // `git init` in a repository that exists; elsewhere it makes a new one.
        Need::NewRepository => of_top(&folder, git_dirs).is_some() && writer.folders.is_empty(),
        Need::ConfigUnlessBranch(branch) => {
            let branch = Path::new(std::ffi::OsStr::from_bytes(branch));
            !has_ref(&git_dir, &Path::new("refs/heads").join(branch))
                && remotes(&git_dir)
                    .iter()
                    .any(|remote| has_ref(&git_dir, &remote.join(branch)))
        }
    };
    needed.then_some(git_dir)
}

/// The folder of git of a repository's top, as it was found at the start.
fn of_top(top: &Path, git_dirs: &[&Path]) -> Option<PathBuf> {
    let dot_git = top.join(".git");
    let kind = fs::symlink_metadata(&dot_git).ok()?;
    let own = if kind.is_dir() {
        dot_git
    } else {
        repository::pointed_to(&dot_git)?
    };
    let shared = repository::shared(&own).unwrap_or(own);
    git_dirs
        .iter()
        .any(|known| **known == shared)
        .then_some(shared)
}

fn has_ref(git_dir: &Path, name: &Path) -> bool {
    if git_dir.join(name).is_file() {
        return true;
    }
    let packed = small(&git_dir.join("packed-refs")).unwrap_or_default();
    packed
        .split(|byte| *byte == b'\n')
        .any(|line| line.ends_with(name.as_os_str().as_bytes()) && line.get(40) == Some(&b' '))
}

/// `refs/remotes/NAME` for each remote of the configuration.
fn remotes(git_dir: &Path) -> Vec<PathBuf> {
    let text = small(&git_dir.join("config")).unwrap_or_default();
    let Ok(config) = Document::parse(&text) else {
        return Vec::new();
    };
    config
        .entries()
        .filter(|entry| entry.key.section == "remote" && entry.key.name == "url")
        .filter_map(|entry| entry.key.subsection.as_deref())
        .map(|name| Path::new("refs/remotes").join(std::ffi::OsStr::from_bytes(name)))
        .collect()
}

impl Copy {
    /// Makes the layer's folders. `folder` is the run's own and does not exist yet.
    pub fn begin(lower: &Path, folder: &Path) -> io::Result<Copy> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true);
        builder.create(folder.join("upper"))?;
        builder.create(folder.join("work"))?;
        // The overlay's root shows the upper folder's permissions.
        fs::set_permissions(folder.join("upper"), fs::metadata(lower)?.permissions())?;
        let mut copy = Copy {
            lower: lower.to_owned(),
            folder: folder.to_owned(),
            started: Moment::now(),
            configs: Vec::new(),
        };
        copy.remember_configs(Path::new(""), 0);
        Ok(copy)
    }

    /// The host's folder.
    pub fn lower(&self) -> &Path {
        &self.lower
    }

    /// The layer.
    pub fn upper(&self) -> PathBuf {
        self.folder.join("upper")
    }

    /// The overlay's scratch.
    pub fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// Configurations in this folder and in submodules' and working trees' below it.
    fn remember_configs(&mut self, below: &Path, depth: u8) {
        for name in ["config", "config.worktree"] {
            let place = below.join(name);
            if let Some(text) = small(&self.lower.join(&place)) {
                self.configs.push((place, text));
            }
        }
        for name in ["modules", "worktrees"] {
            let folder = below.join(name);
            for entry in fs::read_dir(self.lower.join(&folder))
                .into_iter()
                .flatten()
                .flatten()
            {
                if depth < 4 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    self.remember_configs(&folder.join(entry.file_name()), depth + 1);
                }
            }
        }
        if depth > 0 && !self.lower.join(below).join("HEAD").exists() {
            for entry in fs::read_dir(self.lower.join(below))
                .into_iter()
                .flatten()
                .flatten()
            {
                if depth < 4 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    self.remember_configs(&below.join(entry.file_name()), depth + 1);
                }
            }
        }
    }

    /// Carries over what the command wrote, judged, and removes the layer.
    pub fn apply(self, court: Court<'_>, findings: &mut Vec<Finding>) {
        let mut applying = Applying {
            copy: &self,
            court,
            findings,
        };
        applying.folder(Path::new(""));
        remove(&self.folder);
    }
}

/// Removes the layer; the overlay leaves a folder of mode 000 in it.
fn remove(folder: &Path) {
    let scratch = folder.join("work/work");
    let _ = fs::set_permissions(scratch, fs::Permissions::from_mode(0o700));
    let _ = fs::remove_dir_all(folder);
}

/// What a path below a folder of git is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Objects, refs, the index, logs: git's own business.
    Data,
    /// Configuration.
    Config,
    /// The folder of hooks.
    Hooks,
    /// A hook, or something in the folder of hooks.
    Hook,
    /// Points to another repository, or chooses programs.
    Pointer,
    /// `commondir` or `gitdir` of a working tree.
    Worktree,
    /// What git keeps of a working tree, as a whole.
    WorktreeFolder,
}

struct Applying<'a, 'b> {
    copy: &'a Copy,
    court: Court<'a>,
    findings: &'b mut Vec<Finding>,
}

impl Applying<'_, '_> {
    fn folder(&mut self, below: &Path) {
        let upper = self.copy.upper().join(below);
        let mut entries: Vec<PathBuf> = fs::read_dir(&upper)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| below.join(entry.file_name()))
            .collect();
        // Objects before the refs that name them, configuration last.
        entries.sort_by_key(|path| {
            let name = path.file_name().unwrap_or_default();
            (name == "config", name != "objects", path.clone())
        });
        if is_opaque(&upper) {
            self.clear(below, &entries);
        }
        for entry in entries {
            if let Err(error) = self.entry(&entry) {
                let lower = self.copy.lower.join(&entry);
                self.note(&lower, &format!("could not be carried over: {error}"));
            }
        }
    }

    /// A folder that was deleted and made again hides what was in it.
    fn clear(&mut self, below: &Path, kept: &[PathBuf]) {
        for entry in fs::read_dir(self.copy.lower.join(below))
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = below.join(entry.file_name());
            if !kept.contains(&path) {
                let _ = self.delete(&path);
            }
        }
    }

    fn entry(&mut self, below: &Path) -> io::Result<()> {
        let upper = self.copy.upper().join(below);
        let lower = self.copy.lower.join(below);
        let metadata = fs::symlink_metadata(&upper)?;
        if metadata.file_type().is_char_device() && metadata.rdev() == 0 {
            return self.delete(below);
        }
        let part = self.part(below);
        if metadata.is_dir() {
            match part {
                // As a file or a link these would be read; as folders they are nothing.
                Part::Data | Part::Hooks | Part::WorktreeFolder => {}
                _ => return self.leave_out(&upper, &lower, "is not what git makes there"),
            }
            if !fs::symlink_metadata(&lower).is_ok_and(|there| there.is_dir()) {
                let _ = fs::remove_file(&lower);
                fs::create_dir(&lower)?;
                fs::set_permissions(&lower, metadata.permissions())?;
            }
            self.folder(below);
            return Ok(());
        }
        match part {
            Part::Config => self.config(below),
            Part::Hook if is_live_hook(&upper) => {
                self.leave_out(&upper, &lower, "is a program that git would run")
            }
            Part::Pointer => self.leave_out(&upper, &lower, "would point git elsewhere"),
            Part::Worktree if !self.is_sound(below) => {
                self.leave_out(&upper, &lower, "would point git elsewhere")
            }
            Part::Hooks | Part::WorktreeFolder => {
                self.leave_out(&upper, &lower, "is not what git makes there")
            }
            Part::Data | Part::Hook | Part::Worktree => self.put(&upper, &lower),
        }
    }

    /// Moves a file into place, unless the host changed it meanwhile.
    fn put(&mut self, upper: &Path, lower: &Path) -> io::Result<()> {
        if fs::symlink_metadata(lower).is_ok() && self.copy.started.may_have_changed(lower) {
            let kept = self.court.quarantine.take_as(
                upper,
                lower,
                "was changed on the host while the command ran; the command's version is kept aside",
            );
            return self.settled(kept);
        }
        match fs::rename(upper, lower) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let metadata = fs::symlink_metadata(upper)?;
                if metadata.is_symlink() {
                    let _ = fs::remove_file(lower);
                    std::os::unix::fs::symlink(fs::read_link(upper)?, lower)
                } else {
                    super::judge::replace(lower, &fs::read(upper)?)?;
                    fs::set_permissions(lower, metadata.permissions())
                }
            }
            other => other,
        }
    }

    fn delete(&mut self, below: &Path) -> io::Result<()> {
        let lower = self.copy.lower.join(below);
        let Ok(metadata) = fs::symlink_metadata(&lower) else {
            return Ok(());
        };
        match self.part(below) {
            Part::Data => {}
            // A working tree that the jail cannot see looks dead to its git.
            Part::WorktreeFolder => {
                let tree = repository::worktree_of(&lower);
                if tree.is_some_and(|tree| !tree.starts_with(self.court.workspace) && tree.exists())
                {
                    self.note(
                        &lower,
                        "belongs to a working tree outside the workspace and was kept",
                    );
                    return Ok(());
                }
            }
            Part::Worktree => {}
            _ => {
                self.note(&lower, "was deleted in the jail and kept on the host");
                return Ok(());
            }
        }
        if metadata.is_dir() {
            fs::remove_dir_all(&lower)
        } else if self.copy.started.may_have_changed(&lower) {
            self.note(
                &lower,
                "was changed on the host while the command ran, and not deleted",
            );
            Ok(())
        } else {
            fs::remove_file(&lower)
        }
    }

    /// Merges a configuration key by key into what the host has now.
    fn config(&mut self, below: &Path) -> io::Result<()> {
        let upper = self.copy.upper().join(below);
        let lower = self.copy.lower.join(below);
        let known = self.copy.configs.iter().find(|(place, _)| place == below);
        let before = known.map_or(&[][..], |(_, text)| text.as_slice());
        let Some(after) = small(&upper) else {
            return self.leave_out(&upper, &lower, "is no file that git's configuration can be");
        };
        let (before, after) = match (Document::parse(before), Document::parse(&after)) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(error), _) | (_, Err(error)) => {
                let why = format!("cannot be read as git's configuration ({error})");
                return self.leave_out(&upper, &lower, &why);
            }
        };
        let place = Place {
            workspace: self.court.workspace,
            git_dir: lower.parent().unwrap_or(&self.copy.lower),
            depth: self.court.depth,
        };
        let merged = git_keys::merge(&before, &after, place);
        for left in &merged.left_out {
            self.findings.push(Finding::key(&lower, left, None));
        }
        if merged.carried.is_empty() && lower.exists() {
            return Ok(());
        }
        let lock = Lock::take(&lower)?;
        let now = small(&lower).unwrap_or_default();
        let text = match Document::parse(&now) {
            Ok(now) => now.apply(&merged.carried),
            Err(_) => merged.text,
        };
        lock.replace(&text)
    }

    fn leave_out(&mut self, upper: &Path, lower: &Path, why: &str) -> io::Result<()> {
        let kept = self.court.quarantine.take_as(upper, lower, why);
        self.settled(kept)
    }

    fn settled(&mut self, kept: Result<quarantine::Item, quarantine::Error>) -> io::Result<()> {
        let item = kept.map_err(|error| io::Error::other(error.to_string()))?;
        self.findings.push(Finding::quarantined(&item));
        Ok(())
    }

    fn note(&mut self, path: &Path, why: &str) {
        self.findings.push(Finding::noted(path, why));
    }

    /// What a path is, seen from the repository that it belongs to: the folder itself,
    /// or a submodule's below it.
    fn part(&self, below: &Path) -> Part {
        let names: Vec<&[u8]> = below.iter().map(OsStrExt::as_bytes).collect();
        let mut rest = names.as_slice();
        while let [b"modules", inner @ ..] = rest {
            // A submodule's name may have slashes: its folder is the one with a HEAD.
            let Some(root) = (1..=inner.len()).find(|depth| {
                let path: PathBuf = names[..names.len() - inner.len() + depth]
                    .iter()
                    .map(|name| std::ffi::OsStr::from_bytes(name))
                    .collect();
                self.copy.upper().join(&path).join("HEAD").exists()
                    || self.copy.lower.join(&path).join("HEAD").exists()
            }) else {
                return Part::Data;
            };
            rest = inner.get(root..).unwrap_or_default();
        }
        match rest {
            [b"config" | b"config.worktree"] => Part::Config,
            [b"hooks"] => Part::Hooks,
            [b"hooks", ..] => Part::Hook,
            [b"commondir" | b"gitdir"] | [b"info", b"attributes"] => Part::Pointer,
            [b"objects", b"info", b"alternates" | b"http-alternates"] => Part::Pointer,
            [b"worktrees", _] => Part::WorktreeFolder,
            [b"worktrees", _, b"config.worktree" | b"config"] => Part::Config,
            [b"worktrees", _, b"commondir" | b"gitdir"] => Part::Worktree,
            [b"worktrees", _, b"hooks"] => Part::Hooks,
            [b"worktrees", _, b"hooks", ..] => Part::Hook,
            _ => Part::Data,
        }
    }

    /// Whether a working tree's pointers lead where git makes them lead: to this very
    /// repository, and to a tree inside the workspace.
    fn is_sound(&self, below: &Path) -> bool {
        let upper = self.copy.upper().join(below);
        let Some(text) = small(&upper) else {
            return false;
        };
        let text = std::ffi::OsStr::from_bytes(text.trim_ascii()).to_owned();
        let Some(admin) = below.parent().map(|admin| self.copy.lower.join(admin)) else {
            return false;
        };
        let target = normal(&admin.join(text));
        match below.file_name().map(OsStrExt::as_bytes) {
            Some(b"commondir") => target.as_deref() == admin.parent().and_then(Path::parent),
            _ => target.is_some_and(|target| target.starts_with(self.court.workspace)),
        }
    }
}

/// Git's own lock on a file: `NAME.lock`, renamed over it.
struct Lock {
    path: PathBuf,
    lock: PathBuf,
    file: File,
}

impl Lock {
    fn take(path: &Path) -> io::Result<Lock> {
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let mode = fs::symlink_metadata(path).map_or(0o644, |there| there.mode() & 0o777);
        for _ in 0..50 {
            let opened = File::options()
                .write(true)
                .create_new(true)
                .mode(mode)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&lock);
            match opened {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(error),
                Ok(file) => {
                    return Ok(Lock {
                        path: path.to_owned(),
                        lock,
                        file,
                    });
                }
            }
        }
        Err(io::Error::other(format!(
            "{} exists: another git holds it, or one has died",
            lock.display()
        )))
    }

    fn replace(mut self, text: &[u8]) -> io::Result<()> {
        let done = self
            .file
            .write_all(text)
            .and_then(|()| fs::rename(&self.lock, &self.path));
        if done.is_err() {
            let _ = fs::remove_file(&self.lock);
        }
        done
    }
}

/// Whether a folder of the layer hides what the host has in it.
fn is_opaque(folder: &Path) -> bool {
    crate::sys::xattr::get(folder, c"user.overlay.opaque").as_deref() == Ok(b"y".as_slice())
}
