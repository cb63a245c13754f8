//! Which package managers a line uses, and the hosts that it names for them: what a filtered
//! network has to let through.

use serde::Serialize;

use super::given::Given;
use super::verdict::Classification;
use crate::host::HostPattern;

/// A use of a package manager that fetches from its registry, or of git from a remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Install {
    /// Whose registries it needs.
    pub client: Client,
    /// The hosts that stand on the line itself, each once, with the port their scheme means.
    /// Never a wildcard. Empty when the client's own settings say where to fetch from.
    pub hosts: Vec<HostPattern>,
}

/// A family of package managers that share registries and settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// `npm`, `npx`.
    Npm,
    /// `pnpm`, `pnpx`.
    Pnpm,
    /// `yarn`.
    Yarn,
    /// `bun`, `bunx`.
    Bun,
    /// `deno`.
    Deno,
    /// `pip`, `pipx`, `python -m pip`.
    Pip,
    /// `uv`, `uvx`.
    Uv,
    /// `poetry`, `pdm`, `pipenv`, `hatch`, `rye`.
    Poetry,
    /// `conda`, `mamba`, `micromamba`, `pixi`.
    Conda,
    /// `cargo`.
    Cargo,
    /// `rustup`.
    Rustup,
    /// `go`.
    Go,
    /// `gem`, `bundle`.
    Gem,
    /// `composer`.
    Composer,
    /// `mvn`, `gradle`.
    Maven,
    /// `dotnet`, `nuget`.
    Nuget,
    /// `mix`.
    Hex,
    /// `dart`, `flutter`.
    Pub,
    /// `apt`, `apt-get`.
    Apt,
    /// `git`.
    Git,
}

impl Client {
    /// The name used in output and in groups of hosts.
    pub fn name(self) -> &'static str {
        match self {
            Client::Npm => "npm",
            Client::Pnpm => "pnpm",
            Client::Yarn => "yarn",
            Client::Bun => "bun",
            Client::Deno => "deno",
            Client::Pip => "pip",
            Client::Uv => "uv",
            Client::Poetry => "poetry",
            Client::Conda => "conda",
            Client::Cargo => "cargo",
            Client::Rustup => "rustup",
            Client::Go => "go",
            Client::Gem => "gem",
            Client::Composer => "composer",
            Client::Maven => "maven",
            Client::Nuget => "nuget",
            Client::Hex => "hex",
            Client::Pub => "pub",
            Client::Apt => "apt",
            Client::Git => "git",
        }
    }
}

impl Classification {
    /// Every use of a package manager, in the order in which they are written.
    pub fn installs(&self) -> Vec<Install> {
        self.commands
            .iter()
            .filter_map(|command| command.install.clone())
            .collect()
    }
}

/// Programs, the sub-commands of theirs that fetch, and whose registry they ask. No
/// sub-commands: every use fetches.
const CLIENTS: &[(Client, &[&str], &[&str])] = &[
    (Client::Npm, &["npx"], &[]),
    (Client::Npm, &["npm", "cnpm"], NODE),
    (Client::Pnpm, &["pnpx"], &[]),
    (Client::Pnpm, &["pnpm"], NODE),
    (Client::Yarn, &["yarn", "yarnpkg"], NODE),
    (Client::Bun, &["bunx"], &[]),
    (Client::Bun, &["bun"], NODE),
    (
        Client::Deno,
        &["deno"],
        &["install", "add", "cache", "run", "test"],
    ),
    (
        Client::Pip,
        &["pip", "pip2", "pip3", "pipx"],
        &[
            "install", "download", "wheel", "run", "inject", "upgrade", "index", "search",
        ],
    ),
    (Client::Uv, &["uvx"], &[]),
    (
        Client::Uv,
        &["uv"],
        &[
            "add",
            "sync",
            "lock",
            "run",
            "pip install",
            "pip sync",
            "pip compile",
            "tool install",
            "tool run",
            "tool upgrade",
            "venv",
            "build",
            "python install",
        ],
    ),
    (
        Client::Poetry,
        &["poetry", "pdm", "pipenv", "hatch", "rye"],
        &[
            "install", "add", "update", "lock", "sync", "upgrade", "remove",
        ],
    ),
    (
        Client::Conda,
        &["conda", "mamba", "micromamba", "pixi"],
        &[
            "install",
            "create",
            "update",
            "upgrade",
            "search",
            "add",
            "env create",
            "env update",
        ],
    ),
    (
        Client::Cargo,
        &["cargo"],
        &[
            "build",
            "b",
            "check",
            "c",
            "test",
            "t",
            "run",
            "r",
            "bench",
            "doc",
            "d",
            "clippy",
            "fetch",
            "update",
            "add",
            "install",
            "vendor",
            "generate-lockfile",
            "search",
            "info",
            "binstall",
            "nextest",
            "package",
            "metadata",
            "tree",
        ],
    ),
    (
        Client::Rustup,
        &["rustup"],
        &[
            "update",
            "install",
            "toolchain install",
            "component add",
            "target add",
        ],
    ),
    (
        Client::Go,
        &["go"],
        &[
            "get", "install", "build", "test", "run", "mod", "list", "vet", "generate", "work",
        ],
    ),
    (
        Client::Gem,
        &["gem", "bundle", "bundler"],
        &[
            "install", "update", "fetch", "add", "lock", "outdated", "search", "package", "cache",
        ],
    ),
    (
        Client::Composer,
        &["composer"],
        &[
            "install",
            "update",
            "require",
            "create-project",
            "global",
            "outdated",
            "search",
        ],
    ),
    (Client::Maven, &["mvn", "mvnd", "gradle"], &[]),
    (
        Client::Nuget,
        &["dotnet", "nuget"],
        &[
            "restore",
            "add",
            "install",
            "build",
            "run",
            "test",
            "tool install",
            "tool restore",
            "update",
        ],
    ),
    (
        Client::Hex,
        &["mix"],
        &["deps.get", "deps.update", "local.hex"],
    ),
    (
        Client::Pub,
        &["dart", "flutter", "pub"],
        &["pub", "get", "upgrade", "create"],
    ),
    (
        Client::Apt,
        &["apt", "apt-get", "aptitude", "nala"],
        &[
            "install",
            "update",
            "upgrade",
            "full-upgrade",
            "dist-upgrade",
            "download",
            "source",
            "build-dep",
        ],
    ),
    (
        Client::Git,
        &["git"],
        &[
            "clone",
            "fetch",
            "pull",
            "ls-remote",
            "submodule update",
            "submodule add",
            "remote update",
            "remote show",
            "lfs pull",
            "lfs fetch",
        ],
    ),
];

/// What fetches, for the package managers of JavaScript.
const NODE: &[&str] = &[
    "install",
    "i",
    "in",
    "ins",
    "add",
    "isntall",
    "ci",
    "clean-install",
    "install-test",
    "it",
    "global add",
    "update",
    "up",
    "upgrade",
    "exec",
    "x",
    "dlx",
    "create",
    "init",
    "outdated",
    "audit",
    "view",
    "info",
    "show",
    "fetch",
    "import",
    "dedupe",
    "pack",
];

/// The client that a program and its sub-command stand for, if it fetches.
pub(crate) fn client(program: &str, sub: &[String], bare: bool) -> Option<Client> {
    let (client, _, subs) = CLIENTS
        .iter()
        .find(|(_, programs, _)| programs.contains(&program))?;
    // `yarn` alone installs.
    if subs.is_empty() || (bare && *client == Client::Yarn) {
        return Some(*client);
    }
    let joined = sub.join(" ");
    let first = sub.first().map_or("", String::as_str);
    let fetches = subs.iter().any(|known| *known == joined || *known == first);
    fetches.then_some(*client)
}

/// The use of a package manager, with the hosts its words name.
pub(crate) fn install(client: Client, args: &[Given], assignments: &[Given]) -> Install {
    let mut hosts: Vec<HostPattern> = Vec::new();
    for word in args.iter().chain(assignments).filter(|word| word.exact) {
        let found = address(&word.text).or_else(|| {
            (client == Client::Git)
                .then(|| remote_shell(&word.text))
                .flatten()
        });
        if let Some(host) = found
            && !hosts.contains(&host)
        {
            hosts.push(host);
        }
    }
    Install { client, hosts }
}

/// The host of a word that is or holds a URL: `https://host/x`, `--registry=https://host`,
/// `name @ git+ssh://git@host/x`.
fn address(text: &str) -> Option<HostPattern> {
    let (before, rest) = text.split_once("://")?;
    let scheme = before
        .rsplit(|c: char| !c.is_ascii_alphanumeric())
        .next()
        .unwrap_or_default();
    let port = match scheme.to_ascii_lowercase().as_str() {
        "https" => 443,
        "http" => 80,
        "ssh" => 22,
        "git" => 9418,
        _ => return None,
    };
    // A backslash ends the host for some readers and not for others: no host at all.
    let authority = rest.split(['/', '?', '#']).next()?;
    if authority.contains('\\') {
        return None;
    }
    let host = authority.rsplit('@').next()?;
    exact(host, port)
}

/// The host of git's short form for ssh: `git@host:path`.
fn remote_shell(text: &str) -> Option<HostPattern> {
    let (front, path) = text.split_once(':')?;
    if front.contains('/') || path.is_empty() || text.starts_with('-') {
        return None;
    }
    let (user, host) = front.split_once('@')?;
    (!user.is_empty()).then(|| exact(host, 22)).flatten()
}

/// A pattern for one host: no wildcard, a port of its own or the scheme's.
fn exact(host: &str, port: u16) -> Option<HostPattern> {
    if host.is_empty() || host.contains('*') {
        return None;
    }
    let own_port = match host.rsplit_once(':') {
        Some((_, port)) => !host.ends_with(']') && port.bytes().all(|b| b.is_ascii_digit()),
        None => false,
    };
    if own_port {
        host.parse().ok()
    } else {
        format!("{host}:{port}").parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use crate::classify::{Context, classify};

    fn installs(line: &str) -> Vec<(&'static str, Vec<String>)> {
        classify(line.as_bytes(), &Context::default())
            .installs()
            .into_iter()
            .map(|one| {
                let hosts = one.hosts.iter().map(ToString::to_string).collect();
                (one.client.name(), hosts)
            })
            .collect()
    }

    fn only(line: &str) -> Option<&'static str> {
        let found = installs(line);
        assert!(found.len() <= 1, "{line}: {found:?}");
        found.first().map(|(client, _)| *client)
    }

    #[test]
    fn the_client_is_known_by_program_and_sub_command() {
        for (line, client) in [
            ("npm install", "npm"),
            ("npm --prefix web ci", "npm"),
            ("npx -y cowsay hi", "npm"),
            ("pnpm add left-pad", "pnpm"),
            ("yarn", "yarn"),
            ("yarn install --frozen-lockfile", "yarn"),
            ("bun add zod", "bun"),
            ("pip install -r requirements.txt", "pip"),
            ("python3 -m pip install requests", "pip"),
            ("uv pip install x", "uv"),
            ("uv sync", "uv"),
            ("uvx ruff check", "uv"),
            ("poetry add requests", "poetry"),
            ("cargo build --release", "cargo"),
            ("cargo +nightly fetch", "cargo"),
            ("go get example.org/x@v1", "go"),
            ("go mod download", "go"),
            ("gem install rails", "gem"),
            ("bundle install", "gem"),
            ("composer require a/b", "composer"),
            ("git pull", "git"),
            ("git -C sub fetch origin", "git"),
            ("sudo apt-get install -y jq", "apt"),
            ("timeout 60 npm ci", "npm"),
        ] {
            assert_eq!(only(line), Some(client), "{line}");
        }
    }

    #[test]
    fn what_fetches_nothing_is_no_install() {
        for line in [
            "npm run build",
            "npm test",
            "npm publish",
            "git status",
            "git push origin main",
            "cargo fmt",
            "pip list",
            "echo npm install",
            "./npm install",
            "ls",
        ] {
            assert_eq!(only(line), None, "{line}");
        }
    }

    #[test]
    fn hosts_on_the_line_are_named_with_their_port() {
        for (line, hosts) in [
            (
                "git clone https://example.org/a/b.git",
                vec!["example.org:443"],
            ),
            (
                "git clone ssh://git@example.org:2222/a",
                vec!["example.org:2222"],
            ),
            ("git clone git@example.org:a/b.git", vec!["example.org:22"]),
            (
                "git clone 'https://good.example@evil.example/x'",
                vec!["evil.example:443"],
            ),
            (
                "pip install --index-url=https://pypi.example.org/simple x",
                vec!["pypi.example.org:443"],
            ),
            (
                "npm i --registry http://localhost:4873",
                vec!["localhost:4873"],
            ),
            (
                "GOPROXY=https://proxy.example.org go get x.example/y",
                vec!["proxy.example.org:443"],
            ),
            (
                "pip install 'x @ git+https://example.org/x.git'",
                vec!["example.org:443"],
            ),
        ] {
            let found = installs(line);
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!(found[0].1, hosts, "{line}");
        }
    }

    #[test]
    fn a_host_that_could_be_misread_is_not_named() {
        for line in [
            "git clone 'https://*.example.org/x'",
            "git clone \"https://$HOST/x\"",
            "git clone 'https://good.example\\@evil.example/x'",
            "git clone file:///srv/x",
            "git clone ../other",
            "git clone 'https://exa mple.org/'",
        ] {
            let found = installs(line);
            assert_eq!(found.len(), 1, "{line}");
            assert!(found[0].1.is_empty(), "{line}: {found:?}");
        }
    }
}
