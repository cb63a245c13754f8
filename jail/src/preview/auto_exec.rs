//! Files that run code on the host later, by themselves or when their owner does what
//! owners do: builds, tests, commits, opens an editor, enters the folder.
//!
//! Some of them are protected and cannot be written from a jail at all; the others must be
//! writable, or nobody could work. A run that touches one says so.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use sjail_policy::bytes::ByteString;
use sjail_policy::show;

/// Names that count in any folder, and who runs what is in them.
const ANYWHERE: [(&str, &str); 42] = [
    ("package.json", "npm, yarn, pnpm: scripts"),
    ("Makefile", "make"),
    ("makefile", "make"),
    ("GNUmakefile", "make"),
    ("Justfile", "just"),
    ("justfile", "just"),
    ("Taskfile.yml", "task"),
    ("build.rs", "cargo build"),
    ("conftest.py", "pytest"),
    ("setup.py", "pip install"),
    ("noxfile.py", "nox"),
    ("tox.ini", "tox"),
    ("tasks.py", "invoke"),
    ("fabfile.py", "fabric"),
    ("manage.py", "django"),
    ("sitecustomize.py", "python, at every start"),
    ("usercustomize.py", "python, at every start"),
    ("CMakeLists.txt", "cmake"),
    ("meson.build", "meson"),
    ("configure", "a build"),
    ("build.gradle", "gradle"),
    ("build.gradle.kts", "gradle"),
    ("settings.gradle", "gradle"),
    ("pom.xml", "maven"),
    ("Rakefile", "rake"),
    ("Gemfile", "bundler"),
    ("Vagrantfile", "vagrant"),
    ("Dockerfile", "docker build"),
    ("docker-compose.yml", "docker compose"),
    ("compose.yaml", "docker compose"),
    ("Jenkinsfile", "Jenkins"),
    (".gitlab-ci.yml", "GitLab CI"),
    (".travis.yml", "Travis CI"),
    (".pre-commit-config.yaml", "pre-commit, at git commit"),
    (".envrc", "direnv, when the folder is entered"),
    (".npmrc", "npm"),
    (".yarnrc.yml", "yarn"),
    (".mcp.json", "an agent, when it starts"),
    (".gitattributes", "git: filters"),
    (".gitmodules", "git submodule update"),
    (".bashrc", "bash, at every start"),
    (".zshrc", "zsh, at every start"),
];

/// The ends of paths that count: folders whose files are run, files in such folders.
const ENDINGS: [(&str, &str); 22] = [
    (".git/config", "git"),
    (".git/config.worktree", "git"),
    (".git/info/attributes", "git: filters"),
    (".cargo/config.toml", "cargo"),
    (".cargo/config", "cargo"),
    (".vscode/tasks.json", "VS Code, when the folder is opened"),
    (".vscode/settings.json", "VS Code"),
    (".vscode/launch.json", "VS Code"),
    (".claude/settings.json", "an agent's hooks"),
    (".claude/settings.local.json", "an agent's hooks"),
    (".cursor/mcp.json", "an agent, when it starts"),
    (".codex/config.toml", "an agent, when it starts"),
    (".gemini/settings.json", "an agent, when it starts"),
    (".circleci/config.yml", "CircleCI"),
    (".mvn/extensions.xml", "maven"),
    (".mvn/jvm.config", "maven"),
    ("gradle/wrapper/gradle-wrapper.properties", "gradle"),
    (".ssh/authorized_keys", "sshd"),
    (".ssh/config", "ssh"),
    (".config/git/config", "git"),
    (".bash_profile", "bash, at login"),
    (".profile", "the shell, at login"),
];

/// Folders in which every file counts.
const FOLDERS: [(&str, &str); 12] = [
    (".git/hooks", "git"),
    (".github/workflows", "GitHub Actions"),
    (".github/actions", "GitHub Actions"),
    (".gitea/workflows", "Gitea Actions"),
    (".forgejo/workflows", "Forgejo Actions"),
    (".husky", "git, through husky"),
    (".githooks", "git"),
    (".claude/hooks", "an agent's hooks"),
    (".idea", "the editor, when the folder is opened"),
    (".devcontainer", "the editor, when the folder is opened"),
    (".config/autostart", "the desktop, at login"),
    (".config/systemd/user", "systemd, at login"),
];

/// What runs a file later, if anything does.
pub fn runs(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    if name.ends_with(".sample") {
        return None;
    }
    let by_name = ANYWHERE.iter().find(|(own, _)| *own == name);
    let by_end = || ENDINGS.iter().find(|(end, _)| path.ends_with(end));
    let by_folder = || {
        let above = path.parent()?;
        FOLDERS
            .iter()
            .find(|(folder, _)| above.ancestors().any(|above| above.ends_with(folder)))
    };
    by_name
        .or_else(by_end)
        .or_else(by_folder)
        .map(|(_, by)| *by)
}

/// A file that was touched and runs code later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Touched {
    /// The file.
    pub path: ByteString,
    /// `touched`, beside the actions of protected names.
    pub action: &'static str,
    /// What runs it.
    pub run_by: String,
}

impl Touched {
    /// This file, run by that.
    pub fn new(path: &Path, run_by: &str) -> Touched {
        Touched {
            path: path.into(),
            action: "touched",
            run_by: run_by.to_owned(),
        }
    }

    /// One line for people.
    pub fn sentence(&self) -> String {
        format!(
            "{} was written and will be run by {}",
            show::inert(self.path.as_bytes()),
            self.run_by
        )
    }
}

/// A run this short leaves no time for a look at more than the top folders.
const SHORT: Duration = Duration::from_millis(100);
/// So many names are looked at in a whole workspace.
const MOST: usize = 20_000;
/// Folders of things that were built or downloaded: not where people's own files are.
const SKIPPED: [&str; 8] = [
    "node_modules",
    "target",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
    "site-packages",
    "objects",
];

/// Files of a workspace that a run which began at this moment (seconds and nanoseconds)
/// has touched. The top and the working folder are always looked at; the rest only after
/// a run that took some time, and not without end.
pub fn touched(workspace: &Path, cwd: &Path, began: (i64, i64), took: Duration) -> Vec<Touched> {
    let mut found = BTreeSet::new();
    at_top(workspace, began, &mut found);
    if cwd != workspace && cwd.starts_with(workspace) {
        at_top(cwd, began, &mut found);
    }
    if took >= SHORT {
        below(workspace, began, &mut found);
    }
    found.into_iter().collect()
}

/// Asks the folder once what is in it, and then only about names that are there: asking
/// for each name that counts would cost a short run more than its own work.
fn at_top(top: &Path, began: (i64, i64), found: &mut BTreeSet<Touched>) {
    for entry in fs::read_dir(top).into_iter().flatten().flatten().take(MOST) {
        let name = entry.file_name();
        let is_first = |path: &str| {
            let rest = path.as_bytes().strip_prefix(name.as_bytes());
            rest.is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
        };
        for (path, run_by) in ANYWHERE.iter().chain(&ENDINGS) {
            if is_first(path) {
                let file = top.join(path);
                if is_newer(&file, began) {
                    found.insert(Touched::new(&file, run_by));
                }
            }
        }
        for (folder, run_by) in FOLDERS.iter().filter(|(folder, _)| is_first(folder)) {
            let files = fs::read_dir(top.join(folder));
            for file in files.into_iter().flatten().flatten() {
                let path = file.path();
                if runs(&path).is_some() && is_newer(&path, began) {
                    found.insert(Touched::new(&path, run_by));
                }
            }
        }
    }
}

fn below(workspace: &Path, began: (i64, i64), found: &mut BTreeSet<Touched>) {
    let mut left = MOST;
    let mut open: Vec<PathBuf> = vec![workspace.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            left = left.saturating_sub(1);
            if left == 0 {
                return;
            }
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !SKIPPED.iter().any(|name| entry.file_name() == *name) {
                    open.push(path);
                }
            } else if let Some(run_by) = runs(&path)
                && is_newer(&path, began)
            {
                found.insert(Touched::new(&path, run_by));
            }
        }
    }
}

fn is_newer(path: &Path, began: (i64, i64)) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|meta| !meta.is_dir() && (meta.ctime(), meta.ctime_nsec()) >= began)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_ends_and_folders_count() {
        for (path, run) in [
            ("/w/package.json", true),
            ("/w/sub/build.rs", true),
            ("/w/.git/hooks/pre-commit", true),
            ("/w/.git/hooks/pre-commit.sample", false),
            ("/w/.github/workflows/ci.yml", true),
            ("/w/.cargo/config.toml", true),
            ("/w/config.toml", false),
            ("/w/src/main.rs", false),
        ] {
            assert_eq!(runs(Path::new(path)).is_some(), run, "{path}");
        }
    }

    #[test]
    fn only_what_is_newer_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        fs::write(top.join("Makefile"), "").unwrap();
        fs::create_dir(top.join("sub")).unwrap();
        fs::write(top.join("sub/build.rs"), "").unwrap();
        let long = Duration::from_secs(1);
        assert_eq!(touched(top, top, (0, 0), long).len(), 2);
        assert_eq!(touched(top, top, (0, 0), Duration::ZERO).len(), 1);
        assert!(touched(top, top, (i64::MAX, 0), long).is_empty());
    }
}
