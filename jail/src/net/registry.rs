//! Where a package manager fetches from, by the user's own settings of it: its variables,
//! its files in the home and in `/etc`. Never by a file of the project, which could name
//! anybody.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sjail_policy::classify::{Client, Context, classify, classify_argv};
use sjail_policy::plan::HostPattern;

use crate::caller::Account;
use crate::cli::RunArgs;

/// No settings are longer.
const LONGEST: u64 = 256 << 10;

/// The settings of one client.
struct Settings {
    clients: &'static [Client],
    /// What its command line is recognised by, before anything is parsed.
    words: &'static [&'static str],
    variables: &'static [&'static str],
    /// Below the home.
    home: &'static [&'static str],
    /// Of the machine; a folder stands for the files in it, as apt reads them.
    system: &'static [&'static str],
    /// A line counts if its key ends in one of these; with none, every line counts.
    keys: &'static [&'static str],
}

const SETTINGS: &[Settings] = &[
    Settings {
        clients: &[Client::Npm, Client::Pnpm, Client::Yarn, Client::Bun],
        words: &["npm", "npx", "pnpm", "pnpx", "yarn", "bun"],
        variables: &["npm_config_registry", "NPM_CONFIG_REGISTRY"],
        home: &[".npmrc", ".yarnrc.yml", ".yarnrc", ".bunfig.toml"],
        system: &["/etc/npmrc", "/usr/etc/npmrc", "/usr/local/etc/npmrc"],
        keys: &["registry", "npmRegistryServer"],
    },
    Settings {
        clients: &[Client::Pip, Client::Uv, Client::Poetry],
        words: &["pip", "uv", "poetry", "pdm", "hatch", "rye"],
        variables: &[
            "PIP_INDEX_URL",
            "PIP_EXTRA_INDEX_URL",
            "UV_INDEX_URL",
            "UV_DEFAULT_INDEX",
        ],
        home: &[
            ".config/pip/pip.conf",
            ".pip/pip.conf",
            ".config/uv/uv.toml",
        ],
        system: &["/etc/pip.conf", "/etc/uv/uv.toml"],
        keys: &["index-url", "url"],
    },
    Settings {
        clients: &[Client::Cargo, Client::Rustup],
        words: &["cargo", "rustup"],
        variables: &["RUSTUP_DIST_SERVER", "CARGO_REGISTRIES_CRATES_IO_INDEX"],
        home: &[".cargo/config.toml", ".cargo/config"],
        system: &[],
        keys: &["registry", "index"],
    },
    Settings {
        clients: &[Client::Go],
        words: &["go"],
        variables: &["GOPROXY", "GOSUMDB"],
        home: &[".config/go/env"],
        system: &[],
        keys: &["GOPROXY", "GOSUMDB"],
    },
    Settings {
        clients: &[Client::Gem],
        words: &["gem", "bundle"],
        variables: &[],
        home: &[".gemrc"],
        system: &["/etc/gemrc"],
        keys: &[],
    },
    Settings {
        clients: &[Client::Apt],
        words: &["apt"],
        variables: &[],
        home: &[],
        system: &["/etc/apt/sources.list", "/etc/apt/sources.list.d"],
        keys: &[],
    },
    Settings {
        clients: &[Client::Git],
        words: &["git"],
        variables: &[],
        home: &[],
        system: &[],
        keys: &["-"],
    },
];

/// The pseudo-option under which a policy hears of an install's hosts.
pub const OPTION: &str = "--install-host";

/// The hosts that a command needs because it installs something, each as a value of
/// [`OPTION`]; nothing where the network was spoken of already.
pub fn needed(args: &RunArgs, account: &Account) -> Vec<Vec<u8>> {
    if args.net.is_some() || !args.allow_host.is_empty() || !may_install(args) {
        return Vec::new();
    }
    let context = Context::new("/nowhere", &account.home.to_string_lossy(), &account.name);
    let line = match &args.line {
        Some(line) => classify(line.as_bytes(), &context),
        None => {
            let words: Vec<&[u8]> = args.command.iter().map(|word| word.as_bytes()).collect();
            classify_argv(&words, &context)
        }
    };
    let mut hosts: Vec<Vec<u8>> = Vec::new();
    for install in line.installs() {
        if !install.hosts.is_empty() {
            // Whoever wrote the line chose them: they are asked about.
            let named = install.hosts.iter();
            hosts.extend(named.map(|host| format!("={host}").into_bytes()));
            continue;
        }
        let own = configured(install.client, &account.home);
        if own.is_empty() {
            // The policy may have a group of the client's name; where it has none, somebody is
            // asked, if anybody is there: at the terminal, or behind an agent.
            let attended = args.agent.is_some() || std::io::stderr().is_terminal();
            let mark = match !args.no_broker && attended {
                true => '?',
                false => '@',
            };
            hosts.push(format!("{mark}{}", install.client.name()).into_bytes());
        }
        hosts.extend(own.iter().map(|host| host.to_string().into_bytes()));
    }
    hosts.sort();
    hosts.dedup();
    hosts
}

/// What `@npm` stands for by the client's settings; nothing for what is no client's name, or
/// has no settings.
pub fn group(name: &str, account: &Account) -> Vec<HostPattern> {
    let client = SETTINGS
        .iter()
        .flat_map(|settings| settings.clients)
        .find(|client| client.name() == name);
    client
        .map(|client| configured(*client, &account.home))
        .unwrap_or_default()
}

/// A quick look: most commands have nothing to do with any of this.
fn may_install(args: &RunArgs) -> bool {
    let mentioned = |text: &[u8]| {
        SETTINGS
            .iter()
            .flat_map(|settings| settings.words)
            .any(|word| text.windows(word.len()).any(|part| part == word.as_bytes()))
    };
    match &args.line {
        Some(line) => mentioned(line.as_bytes()),
        None => args.command.iter().any(|word| mentioned(word.as_bytes())),
    }
}

/// The hosts of a client by its settings.
fn configured(client: Client, home: &Path) -> Vec<HostPattern> {
    let Some(settings) = SETTINGS
        .iter()
        .find(|settings| settings.clients.contains(&client))
    else {
        return Vec::new();
    };
    let mut hosts = Vec::new();
    for name in settings.variables {
        if let Some(value) = std::env::var_os(name) {
            hosts.extend(urls(value.as_bytes()));
        }
    }
    let below = settings.home.iter().map(|path| home.join(path));
    let files = below.chain(
        settings
            .system
            .iter()
            .flat_map(|path| sources(Path::new(path))),
    );
    for text in files.filter_map(|path| read(&path)) {
        hosts.extend(in_settings(&text, settings.keys));
    }
    hosts.sort_by_key(ToString::to_string);
    hosts.dedup();
    hosts
}

/// A file of settings, or those of a folder that apt would read.
fn sources(path: &Path) -> Vec<PathBuf> {
    let Ok(folder) = std::fs::read_dir(path) else {
        return vec![path.to_owned()];
    };
    let is_source = |path: &PathBuf| {
        let kind = path.extension().and_then(OsStr::to_str);
        matches!(kind, Some("list" | "sources"))
    };
    folder
        .flatten()
        .map(|entry| entry.path())
        .filter(is_source)
        .collect()
}

/// A file of settings, if it is one.
pub fn read(path: &Path) -> Option<Vec<u8>> {
    let meta = std::fs::metadata(path).ok()?;
    (meta.is_file() && meta.len() <= LONGEST)
        .then(|| std::fs::read(path).ok())
        .flatten()
}

/// The hosts in the lines that count. A line that begins with a blank goes on with the key
/// above it.
fn in_settings(text: &[u8], keys: &[&str]) -> Vec<HostPattern> {
    let mut hosts = Vec::new();
    let mut counts = keys.is_empty();
    for line in text.split(|byte| *byte == b'\n') {
        let bare = line.trim_ascii();
        if bare.is_empty() || matches!(bare.first(), Some(b'#' | b';')) {
            continue;
        }
        let end = bare
            .iter()
            .position(|byte| matches!(byte, b'=' | b':') || byte.is_ascii_whitespace());
        // `@scope:registry=…` has its colon before the key's end.
        let key = match bare.iter().position(|byte| *byte == b'=') {
            Some(equal) => bare.get(..equal),
            None => end.and_then(|end| bare.get(..end)),
        };
        let goes_on = line.first().is_some_and(u8::is_ascii_whitespace) && !bare.contains(&b'=');
        if !keys.is_empty() && !goes_on {
            let key = key.unwrap_or_default().trim_ascii();
            counts = keys.iter().any(|wanted| key.ends_with(wanted.as_bytes()));
        }
        if counts {
            hosts.extend(urls(bare));
        }
    }
    hosts
}

/// The hosts of the URLs in a text, each with its port.
fn urls(text: &[u8]) -> Vec<HostPattern> {
    let text = String::from_utf8_lossy(text);
    let mut hosts = Vec::new();
    for (scheme, port) in [("https://", 443), ("http://", 80)] {
        for (at, _) in text.match_indices(scheme) {
            let rest = text.get(at + scheme.len()..).unwrap_or_default();
            let authority = rest
                .split(|c: char| {
                    matches!(c, '/' | '?' | '#' | ',' | '|' | '"' | '\'' | ']') || c.is_whitespace()
                })
                .next()
                .unwrap_or_default();
            let host = authority.rsplit('@').next().unwrap_or_default();
            let named = match host.contains(':') {
                true => host.to_owned(),
                false => format!("{host}:{port}"),
            };
            // A pattern in somebody's settings is none of ours.
            if !host.contains('*')
                && let Ok(host) = named.parse::<HostPattern>()
            {
                hosts.push(host);
            }
        }
    }
    hosts
}

/// Whether a value of `--allow-host` names a group.
pub fn is_group(value: &OsStr) -> Option<&str> {
    value.to_str()?.strip_prefix('@')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_folder_of_sources() {
        let folder = std::env::temp_dir().join(format!("sjail-sources-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["a.sources", "b.list", "c.sources.save", "d"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let mut found = sources(&folder);
        found.sort();
        let file = sources(&folder.join("d"));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, ["a.sources", "b.list"].map(|name| folder.join(name)));
        assert_eq!(file, [folder.join("d")]);
    }

    fn shown(hosts: Vec<HostPattern>) -> Vec<String> {
        hosts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn settings_name_hosts() {
        let npmrc = b"; comment https://no.test/\nregistry=https://user:pw@npm.corp.test/x/\n\
            @mine:registry = http://mine.test:4873/\n//npm.corp.test/:_authToken=https://t.test\n";
        assert_eq!(
            shown(in_settings(npmrc, &["registry"])),
            ["npm.corp.test:443", "mine.test:4873"]
        );
        let pip = b"[global]\nindex-url = https://pip.test/simple\nextra-index-url =\n    https://two.test/simple\n    https://three.test/s\ntimeout = 5\nproxy = http://proxy.test\n";
        assert_eq!(
            shown(in_settings(pip, &["index-url", "url"])),
            ["pip.test:443", "two.test:443", "three.test:443"]
        );
        let cargo = b"[source.crates-io]\nreplace-with = \"m\"\n[source.m]\nregistry = \"sparse+https://crates.test/index/\"\n[net]\ngit-fetch-with-cli = true\n";
        assert_eq!(
            shown(in_settings(cargo, &["registry", "index"])),
            ["crates.test:443"]
        );
        let apt = b"# deb http://old.test/debian stable main\nTypes: deb\nURIs: http://deb.test/debian\n  https://two.test/debian\nSuites: stable\n";
        assert_eq!(
            shown(in_settings(apt, &[])),
            ["deb.test:80", "two.test:443"]
        );
        let go = b"GOPROXY=https://go.test,direct\nGOFLAGS=-mod=mod\n";
        assert_eq!(shown(in_settings(go, &["GOPROXY"])), ["go.test:443"]);
        assert_eq!(
            shown(urls(b"https://*.test/ https://10.0.0.1:8443/x")),
            ["10.0.0.1:8443"]
        );
    }
}
