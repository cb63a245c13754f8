//! What a package manager inside sees of its owner's settings: where to fetch from, and
//! nothing else. Tokens, passwords and programs stay outside.

use std::path::{Path, PathBuf};

use super::registry;

/// A file of settings below the home, and what of it goes in.
struct Carried {
    path: &'static str,
    /// Keys that go in; of `a:b` and `a.b` the last part counts.
    keys: &'static [&'static str],
    /// What stands between key and value.
    mark: char,
}

const CARRIED: &[Carried] = &[
    Carried {
        path: ".npmrc",
        keys: &["registry"],
        mark: '=',
    },
    Carried {
        path: ".yarnrc.yml",
        keys: &["npmRegistryServer"],
        mark: ':',
    },
    Carried {
        path: ".config/pip/pip.conf",
        keys: &["index-url", "extra-index-url"],
        mark: '=',
    },
    Carried {
        path: ".pip/pip.conf",
        keys: &["index-url", "extra-index-url"],
        mark: '=',
    },
    Carried {
        path: ".config/uv/uv.toml",
        keys: &["index-url", "extra-index-url", "url", "name", "default"],
        mark: '=',
    },
    Carried {
        path: ".cargo/config.toml",
        keys: &["registry", "index", "replace-with", "default"],
        mark: '=',
    },
    Carried {
        path: ".config/go/env",
        keys: &["GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMDB"],
        mark: '=',
    },
];

/// The files that go in, each with its content.
pub fn carried(home: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    CARRIED
        .iter()
        .filter_map(|carried| {
            let path = home.join(carried.path);
            let text = registry::read(&path)?;
            let kept = carried.kept(&String::from_utf8_lossy(&text));
            (!kept.is_empty()).then(|| (path, kept.into_bytes()))
        })
        .collect()
}

impl Carried {
    /// The lines that go in, below the headings that they stand under.
    fn kept(&self, text: &str) -> String {
        let mut kept = String::new();
        let mut heading = None;
        let mut goes_on = false;
        for line in text.lines() {
            let bare = line.trim();
            if bare.starts_with('[') {
                heading = Some(bare);
                goes_on = false;
                continue;
            }
            let continued = line.starts_with([' ', '\t']) && !bare.contains(self.mark);
            let counts = match bare.split_once(self.mark) {
                Some((key, _)) if !continued => self.wants(key),
                _ => continued && goes_on,
            };
            goes_on = counts;
            if !counts {
                continue;
            }
            if let Some(heading) = heading.take() {
                kept.push_str(heading);
                kept.push('\n');
            }
            kept.push_str(&without_credentials(line));
            kept.push('\n');
        }
        kept
    }

    fn wants(&self, key: &str) -> bool {
        let key = key.trim();
        let last = key.rsplit([':', '.']).next().unwrap_or(key);
        // `//host/:_authToken` and the like end in other words.
        self.keys.contains(&last.trim()) && !key.starts_with("//")
    }
}

/// A line without the `user:password@` of its URLs.
fn without_credentials(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (front, behind) = rest.split_at(at + 3);
        kept.push_str(front);
        let end = behind
            .find(|c: char| c.is_whitespace() || "/?#\"',|".contains(c))
            .unwrap_or(behind.len());
        let (authority, tail) = behind.split_at(end);
        kept.push_str(authority.rsplit('@').next().unwrap_or(authority));
        rest = tail;
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn kept(path: &str, text: &str) -> String {
        let carried = CARRIED.iter().find(|own| own.path == path).unwrap();
        carried.kept(text)
    }

    #[test]
    fn registries_go_in_and_secrets_do_not() {
        assert_eq!(
            kept(
                ".npmrc",
                "registry=https://me:pw@npm.test/x/\n@mine:registry = http://mine.test/\n\
                 //npm.test/:_authToken=abc\n_auth=xyz\n//x/:registry=y\nscript-shell=/tmp/x\n"
            ),
            "registry=https://npm.test/x/\n@mine:registry = http://mine.test/\n"
        );
        assert_eq!(
            kept(
                ".config/pip/pip.conf",
                "[global]\ntimeout = 5\nindex-url = https://u:p@pip.test/simple\n\
                 extra-index-url =\n    https://t@two.test/s\nclient-cert = /x\n    y\n[list]\nformat = x\n"
            ),
            "[global]\nindex-url = https://pip.test/simple\nextra-index-url =\n    https://two.test/s\n"
        );
        assert_eq!(
            kept(
                ".cargo/config.toml",
                "[build]\nrustc-wrapper = \"evil\"\n[source.crates-io]\nreplace-with = \"m\"\n\
                 [source.m]\nregistry = \"sparse+https://crates.test/index/\"\n[registries.mine]\n\
                 index = \"https://mine.test/\"\ntoken = \"secret\"\n[registry]\ntoken = \"x\"\n"
            ),
            "[source.crates-io]\nreplace-with = \"m\"\n[source.m]\n\
             registry = \"sparse+https://crates.test/index/\"\n[registries.mine]\n\
             index = \"https://mine.test/\"\n"
        );
        assert_eq!(
            kept(
                ".config/go/env",
                "GOPROXY=https://u:p@go.test|https://v:q@two.test,direct\nGOFLAGS=-toolexec=x\n"
            ),
            "GOPROXY=https://go.test|https://two.test,direct\n"
        );
    }
}
