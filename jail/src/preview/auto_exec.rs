//! Files that run code on the host later, by themselves or when their owner does what
//! owners do: builds, tests, commits, opens an editor, enters the folder.
//!
//! Some of them are protected and cannot be written from a jail at all; the others must be
//! writable, or nobody could work. A run that touches one says so ([`crate::touched`]).

use std::path::Path;

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
pub fn by_name(name: &[u8]) -> Option<&'static (&'static str, &'static str)> {
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
pub fn is_special(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.windows(2).any(|two| two == b"/.") || path.iter().any(|part| part == "gradle")
}

#[cfg(test)]
mod tests {
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
    fn names_are_in_order() {
        assert!(ANYWHERE.is_sorted_by(|(one, _), (other, _)| one < other));
    }
}
