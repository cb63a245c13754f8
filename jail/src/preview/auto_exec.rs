//! Files that run code on the host later, by themselves or when their owner does what
//! owners do: builds, tests, commits, opens an editor, enters the folder.
//!
//! Some of them are protected and cannot be written from a jail at all; the others must be
//! writable, or nobody could work. A run that touches one says so.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use serde::Serialize;
use sjail_policy::bytes::ByteString;
use sjail_policy::show;

use crate::sys::directory::{self, Kind};

/// Names that count in any folder, in order, and who runs what is in them.
const ANYWHERE: [(&str, &str); 133] = [
    (".Rprofile", "R, when it starts in the folder"),
    (".bash_login", "bash, at login"),
    (".bash_logout", "bash, at logout"),
    (".bash_profile", "bash, at login"),
    (".bashrc", "bash, at every start"),
    (".bazelrc", "bazel"),
    (
        ".devcontainer.json",
        "the editor, when the folder is opened",
    ),
    (".dir-locals.el", "Emacs, when a file is opened"),
    (".drone.yml", "Drone CI"),
    (".envrc", "direnv, when the folder is entered"),
    (".eslintrc.cjs", "eslint"),
    (".eslintrc.js", "eslint"),
    (".exrc", "vim"),
    (".gdbinit", "gdb"),
    (".ghci", "Haskell's console"),
    (".gitattributes", "git: filters"),
    (".gitlab-ci.yml", "GitLab CI"),
    (".gitmodules", "git submodule update"),
    (".gitpod.yml", "Gitpod"),
    (".iex.exs", "Elixir's console"),
    (".irbrc", "Ruby's console"),
    (".justfile", "just"),
    (".lefthook.yml", "lefthook, at git commit"),
    (".lldbinit", "lldb"),
    (".mcp.json", "an agent, when it starts"),
    (".mise.toml", "mise, when the folder is entered"),
    (".npmrc", "npm"),
    (".nvim.lua", "Neovim"),
    (".nvimrc", "Neovim"),
    (".ocamlinit", "OCaml's console"),
    (".overcommit.yml", "overcommit, at git commit"),
    (".pdbrc", "Python's debugger"),
    (".pnpmfile.cjs", "pnpm"),
    (".pre-commit-config.yaml", "pre-commit, at git commit"),
    (".pre-commit-hooks.yaml", "pre-commit, at git commit"),
    (".profile", "the shell, at login"),
    (".pryrc", "Ruby's console"),
    (".pythonrc", "python"),
    (".rspec", "rspec"),
    (".tmux.conf", "tmux"),
    (".tool-versions", "asdf, mise: other programs"),
    (".travis.yml", "Travis CI"),
    (".vimrc", "vim"),
    (".woodpecker.yml", "Woodpecker CI"),
    (".xprofile", "the desktop, at login"),
    (".yarnrc", "yarn"),
    (".yarnrc.yml", "yarn"),
    (".zlogin", "zsh, at login"),
    (".zprofile", "zsh, at login"),
    (".zshenv", "zsh, at every start"),
    (".zshrc", "zsh, at every start"),
    ("BUILD", "bazel"),
    ("BUILD.bazel", "bazel"),
    ("CMakeLists.txt", "cmake"),
    ("CMakePresets.json", "cmake"),
    ("Cargo.toml", "cargo: build scripts, macros"),
    ("Containerfile", "podman build"),
    ("Dockerfile", "docker build"),
    ("Earthfile", "earthly"),
    ("GNUmakefile", "make"),
    ("Gemfile", "bundler"),
    ("Gruntfile.js", "grunt"),
    ("Guardfile", "guard"),
    ("Jenkinsfile", "Jenkins"),
    ("Justfile", "just"),
    ("Makefile", "make"),
    ("Makefile.am", "automake"),
    ("Package.swift", "swift build"),
    ("Pipfile", "pipenv: scripts"),
    ("Procfile", "foreman"),
    ("Rakefile", "rake"),
    ("SConstruct", "scons"),
    ("Taskfile.yaml", "task"),
    ("Taskfile.yml", "task"),
    ("Tiltfile", "tilt"),
    ("Vagrantfile", "vagrant"),
    ("WORKSPACE", "bazel"),
    ("autogen.sh", "a build"),
    ("azure-pipelines.yml", "Azure Pipelines"),
    ("bitbucket-pipelines.yml", "Bitbucket Pipelines"),
    ("build.gradle", "gradle"),
    ("build.gradle.kts", "gradle"),
    ("build.rs", "cargo build"),
    ("build.sbt", "sbt"),
    ("build.zig", "zig build"),
    ("bunfig.toml", "bun"),
    ("compose.yaml", "docker compose"),
    ("compose.yml", "docker compose"),
    ("composer.json", "composer: scripts"),
    ("conanfile.py", "conan"),
    ("configure", "a build"),
    ("configure.ac", "autoconf"),
    ("conftest.py", "pytest"),
    ("default.nix", "nix"),
    ("deno.json", "deno: tasks"),
    ("docker-compose.yaml", "docker compose"),
    ("docker-compose.yml", "docker compose"),
    ("dodo.py", "doit"),
    ("fabfile.py", "fabric"),
    ("flake.nix", "nix"),
    ("gradlew", "gradle"),
    ("gulpfile.js", "gulp"),
    ("hatch_build.py", "hatch"),
    ("justfile", "just"),
    ("lefthook.yaml", "lefthook, at git commit"),
    ("lefthook.yml", "lefthook, at git commit"),
    ("makefile", "make"),
    ("manage.py", "django"),
    ("meson.build", "meson"),
    ("mise.toml", "mise, when the folder is entered"),
    ("mix.exs", "mix"),
    ("mvnw", "maven"),
    ("noxfile.py", "nox"),
    ("nx.json", "nx"),
    ("package.json", "npm, yarn, pnpm: scripts"),
    ("pom.xml", "maven"),
    ("pyproject.toml", "pip install, and the tools it configures"),
    ("pytest.ini", "pytest"),
    ("rebar.config", "rebar"),
    ("rust-toolchain", "cargo, rustup: another toolchain"),
    ("rust-toolchain.toml", "cargo, rustup: another toolchain"),
    ("settings.gradle", "gradle"),
    ("settings.gradle.kts", "gradle"),
    ("setup.cfg", "pip install"),
    ("setup.py", "pip install"),
    ("shell.nix", "nix-shell"),
    ("sitecustomize.py", "python, at every start"),
    ("tasks.py", "invoke"),
    ("tox.ini", "tox"),
    ("turbo.json", "turbo"),
    ("usercustomize.py", "python, at every start"),
    ("uv.toml", "uv"),
    ("wscript", "waf"),
];

/// The ends of names that count in any folder.
const SUFFIXES: [(&str, &str); 6] = [
    (".config.cjs", "the tool that it configures"),
    (".config.js", "the tool that it configures"),
    (".config.mjs", "the tool that it configures"),
    (".config.ts", "the tool that it configures"),
    (".mk", "make"),
    (".pth", "python, at every start"),
];

/// The ends of paths that count: files in such folders.
const ENDINGS: [(&str, &str); 25] = [
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
    (".config/fish/config.fish", "fish, at every start"),
    (".zed/tasks.json", "Zed"),
    (".helix/languages.toml", "Helix"),
    (".hg/hgrc", "Mercurial"),
    (".jj/repo", "Jujutsu"),
];

/// Folders in which every file counts.
const FOLDERS: [(&str, &str); 17] = [
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
    (".yarn/plugins", "yarn"),
    (".yarn/releases", "yarn"),
    (".buildkite", "Buildkite"),
    (".config/fish/conf.d", "fish, at every start"),
    (".bsp", "the editor, when the folder is opened"),
];

/// What runs a file later, if anything does.
pub fn runs(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    if name.ends_with(".sample") {
        return None;
    }
    let by_end = || ENDINGS.iter().find(|(end, _)| path.ends_with(end));
    let by_folder = || {
        let above = path.parent()?;
        FOLDERS
            .iter()
            .find(|(folder, _)| above.ancestors().any(|above| above.ends_with(folder)))
    };
    let by_place = || {
        is_special(path)
            .then(|| by_end().or_else(by_folder))
            .flatten()
    };
    by_name(name.as_bytes())
        .or_else(by_place)
        .map(|(_, by)| *by)
}

/// What counts wherever it lies.
fn by_name(name: &[u8]) -> Option<&'static (&'static str, &'static str)> {
    let at = ANYWHERE.binary_search_by(|(own, _)| own.as_bytes().cmp(name));
    let by_suffix = || {
        SUFFIXES
            .iter()
            .find(|(end, _)| name.ends_with(end.as_bytes()))
    };
    at.ok().and_then(|at| ANYWHERE.get(at)).or_else(by_suffix)
}

/// Whether a file can count by the folder it is in: below one whose name begins with a dot,
/// or `gradle`.
fn is_special(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.windows(2).any(|two| two == b"/.") || path.iter().any(|part| part == "gradle")
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

/// So many names of a workspace are looked at after a short run,
const LEAST: usize = 2_000;
/// so many more for every millisecond that it took,
const EACH: usize = 100;
/// and so many after the longest.
const MOST: usize = 200_000;
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

/// Of git's own folder these hold what is run; the others hold what it keeps.
const GIT: [&str; 4] = ["hooks", "info", "modules", "worktrees"];

/// What was found in a workspace after a run.
#[derive(Debug, Default)]
pub struct Looked {
    /// Files that were touched and run code later.
    pub touched: Vec<Touched>,
    /// Whether the workspace has more names than were looked at.
    pub is_partial: bool,
}

/// Files below writable folders that a run which began at this moment (seconds and
/// nanoseconds) has touched. The working folder and the folders at the top come first; the longer the
/// run was, the more is looked at.
pub fn touched(tops: &[&Path], cwd: &Path, began: (i64, i64), took: Duration) -> Looked {
    let millis = usize::try_from(took.as_millis()).unwrap_or(usize::MAX);
    let left = millis.saturating_mul(EACH).clamp(LEAST, MOST);
    look(tops, cwd, began, left)
}

fn look(tops: &[&Path], cwd: &Path, began: (i64, i64), names: usize) -> Looked {
    let mut found = BTreeSet::new();
    let mut left = names;
    let mut open: VecDeque<PathBuf> = tops.iter().map(|top| (*top).to_owned()).collect();
    if tops.iter().any(|top| cwd != *top && cwd.starts_with(top)) {
        open.push_front(cwd.to_owned());
    }
    let mut is_partial = false;
    let mut buffer = vec![0; 32 << 10];
    while let Some(folder) = open.pop_front() {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let Ok(opened) = nix::fcntl::open(&folder, flags, Mode::empty()) else {
            continue;
        };
        let is_git = folder.ends_with(".git");
        let is_special = is_special(&folder);
        'names: while let Ok(entries) = directory::read(opened.as_fd(), &mut buffer)
            && !entries.is_end()
        {
            for (entry, kind) in entries {
                if left == 0 {
                    is_partial = true;
                    break 'names;
                }
                left -= 1;
                let name = entry.to_bytes();
                let path = || folder.join(OsStr::from_bytes(name));
                if directory::known(opened.as_fd(), entry, kind) == Kind::Folder {
                    match name.first() {
                        _ if SKIPPED.iter().any(|skipped| name == skipped.as_bytes()) => {}
                        _ if is_git && !GIT.iter().any(|own| name == own.as_bytes()) => {}
                        // Was the first that was looked at.
                        _ if path() == cwd => {}
                        // What tools and editors run is mostly there.
                        Some(b'.') => open.push_front(path()),
                        _ => open.push_back(path()),
                    }
                } else if (is_special || by_name(name).is_some())
                    && let path = path()
                    && let Some(run_by) = runs(&path)
                    && is_newer(&path, began)
                {
                    found.insert(Touched::new(&path, run_by));
                }
            }
        }
    }
    Looked {
        touched: found.into_iter().collect(),
        is_partial,
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
            ("/w/src/vite.config.ts", true),
            ("/w/.github/workflows/deep/x.yml", true),
            ("/w/gradle/wrapper/gradle-wrapper.properties", true),
            ("/w/.github/README.md", false),
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
        let sub = top.join("sub");
        assert_eq!(
            touched(&[top], top, (0, 0), Duration::ZERO).touched.len(),
            2
        );
        assert_eq!(
            touched(&[top], &sub, (0, 0), Duration::ZERO).touched.len(),
            2
        );
        let later = touched(&[top], top, (i64::MAX, 0), Duration::ZERO);
        assert!(later.touched.is_empty() && !later.is_partial);
        let few = look(&[top], &sub, (0, 0), 1);
        assert!(few.is_partial && few.touched.len() == 1);
    }

    #[test]
    fn names_are_in_order() {
        assert!(ANYWHERE.is_sorted_by(|(one, _), (other, _)| one < other));
    }
}
