//! Every effective value and where it came from: for people, as JSON, and as a policy file
//! that says the same.

mod overview;
mod steps;
mod values;

use serde::Serialize;

use crate::config::{Key, Loaded, Origin, ReadFile, Sourced, Trust};
use crate::plan::CacheSource;
use crate::profile::{Entry, Profile};
use crate::show::inert;
use crate::wire::control::Registered;
pub use overview::Overview;
pub use steps::{Isolation, Steps};

/// Everything that holds, ready to be shown.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    /// The profile that everything starts from.
    pub profile: &'static str,
    /// What it gives, in one line.
    pub summary: &'static str,
    /// The files that were read.
    pub files: Vec<ReadFile>,
    /// Every key with its value.
    pub values: Vec<Explained>,
    /// What the profile itself shows and keeps out.
    pub built_in: Vec<BuiltIn>,
    /// The tools that an agent has.
    pub tools: Vec<&'static str>,
    /// Where commands run, and which tools there are, in a few lines.
    #[serde(skip)]
    pub overview: Overview,
    /// The sessions that an operator registered, where the broker was asked.
    pub sessions: Vec<Registered>,
    /// The session that is asked about.
    #[serde(skip)]
    pub session: Option<String>,
    /// What files say and what does not hold, as sentences.
    pub notices: Vec<String>,
    /// The keys that the command line loosened.
    pub loosened: Vec<crate::config::Loosened>,
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The key's name.
    pub key: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Its value, or the elements of its list.
    pub value: Value,
    /// The lock on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_by: Option<Origin>,
}

/// A value or the elements of a list, each with its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// One value; absent where nothing is set.
    One(Sourced<Option<Text>>),
    /// The elements of a list, in order.
    List(Vec<Sourced<Text>>),
}

/// A value as a policy file writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Text {
    /// A text, in quotes.
    Word(String),
    /// A number.
    Number(u64),
    /// True or false.
    Flag(bool),
    /// Several texts.
    Words(Vec<String>),
    /// A name and a text, for tables.
    Pair(String, String),
    /// A regular expression: its list has a key of its own.
    Regex(String),
}

/// A list of the profile, with the reason for each entry.
#[derive(Debug, Clone, Serialize)]
pub struct BuiltIn {
    /// What the list is.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Its entries.
    pub entries: Vec<Reasoned>,
}

/// An entry of a profile's list.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Reasoned {
    /// The entry.
    pub value: &'static str,
    /// Why it is there.
    pub why: &'static str,
}

/// How much is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Keys and values.
    Values,
    /// Also the reason for each entry of the profile's own lists.
    Reasons,
}

impl Explanation {
    /// Explains what was loaded.
    pub fn of(loaded: &Loaded) -> Self {
        let policy = &loaded.policy;
        Self {
            profile: policy.profile.value.name,
            summary: policy.profile.value.summary,
            files: loaded.files.clone(),
            values: Key::all()
                .map(|key| Explained {
                    key: key.name(),
                    about: key.summary(),
                    value: values::value(policy, key),
                    locked_by: policy.lock_on(key).cloned(),
                })
                .collect(),
            built_in: built_in(policy.profile.value),
            tools: policy.tools(),
            overview: Overview::of(policy),
            sessions: Vec::new(),
            session: None,
            notices: [loaded.sentences(), loaded.remarks.clone()].concat(),
            loosened: loaded.loosened.clone(),
        }
    }

    /// The explanation for people, inert.
    pub fn human(&self, detail: Detail) -> String {
        let mut text = format!("profile {}: {}\n", self.profile, self.summary);
        for file in &self.files {
            let trust = match (file.layer, file.trust) {
                (crate::config::Layer::Workspace, Trust::Untrusted) => {
                    "workspace, not trusted: it only tightens"
                }
                (crate::config::Layer::Workspace, Trust::Pinned) => "workspace, trusted by you",
                (layer, _) => layer.name(),
            };
            text.push_str(&format!("file {} ({trust})\n", file.path));
        }
        text.push_str(&self.overview.human(&self.sessions, self.session.as_deref()));
        let mut table = "";
        for explained in &self.values {
            let (own_table, name) = explained.key.split_once('.').unwrap_or(("", explained.key));
            if own_table != table {
                table = own_table;
                text.push_str(&format!("\n[{table}]\n"));
            }
            let lock = explained
                .locked_by
                .as_ref()
                .map_or_else(String::new, |by| format!(", locked by {by}"));
            match &explained.value {
                Value::One(one) => {
                    let shown = one
                        .value
                        .as_ref()
                        .map_or_else(|| "no limit".to_owned(), Text::shown);
                    text.push_str(&format!(
                        "  {:<34} {}{lock}\n",
                        format!("{name} = {shown}"),
                        one.origin
                    ));
                }
                Value::List(items) if items.is_empty() => {
                    text.push_str(&format!("  {name} = []{}\n", lock))
                }
                Value::List(items) => {
                    text.push_str(&format!("  {name}{}:\n", lock));
                    for item in items {
                        text.push_str(&format!("    {:<32} {}\n", item.value.shown(), item.origin));
                    }
                }
            }
        }
        for list in &self.built_in {
            text.push_str(&format!(
                "\n{} ({}, profile {}):\n",
                list.name, list.about, self.profile
            ));
            match detail {
                Detail::Reasons => {
                    for entry in &list.entries {
                        text.push_str(&format!("  {:<34} {}\n", entry.value, entry.why));
                    }
                }
                Detail::Values => {
                    text.push_str(&wrapped(list.entries.iter().map(|entry| entry.value)))
                }
            }
        }
        for loosened in &self.loosened {
            text.push_str(&format!(
                "\nloosened by {}: {}\n",
                loosened.option, loosened.key
            ));
        }
        for notice in &self.notices {
            text.push_str(&format!("\nnote: {notice}\n"));
        }
        text
    }

    /// The same as a policy file: whoever reads it gets these values.
    pub fn toml(&self) -> String {
        let mut text = format!("# profile {}: {}\n", self.profile, self.summary);
        let mut table = "";
        for explained in &self.values {
            let (own_table, name) = explained.key.split_once('.').unwrap_or(("", explained.key));
            if own_table != table {
                table = own_table;
                text.push_str(&format!("\n[{table}]\n"));
            }
            match &explained.value {
                Value::One(one) => {
                    if let Some(value) = &one.value {
                        text.push_str(&format!("{name} = {} # {}\n", value.toml(), one.origin));
                    }
                }
                Value::List(items) => text.push_str(&toml_list(name, items)),
            }
        }
        text
    }
}

fn toml_list(name: &str, items: &[Sourced<Text>]) -> String {
    let pairs = items
        .iter()
        .any(|item| matches!(item.value, Text::Pair(..)));
    let (regexes, plain): (Vec<_>, Vec<_>) = items
        .iter()
        .partition(|item| matches!(item.value, Text::Regex(_)));
    let mut text = String::new();
    if pairs {
        let entries: Vec<String> = items.iter().map(|item| item.value.toml()).collect();
        return format!("{name} = {{ {} }}\n", entries.join(", "));
    }
    for (name, items) in [(name.to_owned(), plain), (format!("{name}_regex"), regexes)] {
        if items.is_empty() {
            continue;
        }
        text.push_str(&format!("{name} = [\n"));
        for item in items {
            text.push_str(&format!("  {}, # {}\n", item.value.toml(), item.origin));
        }
        text.push_str("]\n");
    }
    text
}

impl Text {
    /// For people, inert.
    fn shown(&self) -> String {
        match self {
            Text::Word(word) => inert(word.as_bytes()),
            Text::Number(number) => number.to_string(),
            Text::Flag(flag) => flag.to_string(),
            Text::Words(words) if words.is_empty() => "none".to_owned(),
            Text::Words(words) => words
                .iter()
                .map(|word| inert(word.as_bytes()))
                .collect::<Vec<_>>()
                .join(" "),
            Text::Pair(name, value) => {
                format!("{}={}", inert(name.as_bytes()), inert(value.as_bytes()))
            }
            Text::Regex(regex) => format!("regex {}", inert(regex.as_bytes())),
        }
    }

    /// For a policy file.
    fn toml(&self) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        match self {
            Text::Word(word) | Text::Regex(word) => quoted(word),
            Text::Number(number) => number.to_string(),
            Text::Flag(flag) => flag.to_string(),
            Text::Words(words) => {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                format!("[{}]", words.join(", "))
            }
            Text::Pair(name, value) => format!("{} = {}", quoted(name), quoted(value)),
        }
    }
}

fn built_in(profile: &'static Profile) -> Vec<BuiltIn> {
    let caches = match profile.cache_source {
        CacheSource::None => "folders below home, gone with the jail",
        CacheSource::Closed => "folders below home, which cannot be written",
        CacheSource::Own => "folders below home, the sandbox's own, kept for this workspace",
        CacheSource::HostReadOnly => "folders below home, the host's, read-only",
    };
    let lists: [(&'static str, &'static str, &'static [Entry]); 9] = [
        ("system", "folders shown read-only", profile.system),
        ("etc", "of /etc, shown read-only", profile.etc),
        (
            "toolchains",
            "below home, shown read-only",
            profile.toolchains,
        ),
        ("config", "below home, shown read-only", profile.config),
        (
            "hidden",
            "not seen although a folder above is",
            profile.hide,
        ),
        ("caches", caches, profile.caches),
        (
            "variables that pass",
            "from the caller's environment",
            profile.pass,
        ),
        (
            "variables that stay out",
            "whatever a pattern says",
            profile.drop,
        ),
        (
            "protected names",
            "in the workspace, read-only",
            profile.protect,
        ),
    ];
    let agents = profile.agents.iter().map(|agent| BuiltIn {
        name: agent.name,
        about: "agent by that name: settings read-only, state kept, hosts reached, variables",
        entries: [
            agent.config,
            agent.state,
            agent.hosts,
            agent.pass,
            agent.set,
        ]
        .into_iter()
        .flat_map(reasoned)
        .collect(),
    });
    lists
        .into_iter()
        .filter(|(.., entries)| !entries.is_empty())
        .map(|(name, about, entries)| BuiltIn {
            name,
            about,
            entries: reasoned(entries).collect(),
        })
        .chain(agents)
        .collect()
}

fn reasoned(entries: &'static [Entry]) -> impl Iterator<Item = Reasoned> {
    entries.iter().map(|entry| Reasoned {
        value: entry.value(),
        why: entry.why(),
    })
}

/// Words in lines of moderate length.
fn wrapped<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in words {
        if width == 0 || width + word.len() > 92 {
            text.push_str(if width == 0 { "  " } else { "\n  " });
            width = 2;
        } else {
            text.push(' ');
        }
        text.push_str(word);
        width += word.len() + 1;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::{GroupMembers, Holder, HolderKind, PolicyFile, Sources, load};

    const POLICY: &str = "[sandbox]\nprofile = \"offline-build\"\nworkspace = \"ro\"\n[filesystem]\nread = [\"~/data\"]\nbinds = [\"/srv/x:/x:rw\"]\ndeny = [\"*.pem\", \"!a.pem\"]\n\
        [network]\nmode = \"filtered\"\nallow = [\"*.example.org:443\"]\n[limits]\nmemory = \"2G\"\ntimeout = \"60s\"\n[environment]\npass = [\"CARGO_*\"]\nset = { CI = \"1\", \"A B\" = \"x\\u0007\" }\n\
        [commands]\nlevel = \"allowlist\"\nallow = [\"cargo *\"]\ndeny = [\"rm -rf\", \"Read(/etc/**)\"]\ndeny_regex = [\"a\\\\s+b\"]\n[approval]\non_ask = [\"notify-send\", \"{summary}\"]\n\
        [lock]\nkeys = [\"network.mode\"]\n[tools]\nprofile = \"coding\"\ndeny = [\"browser\"]\n";

    fn explained(text: &str) -> Explanation {
        let holders = vec![Holder {
            path: "/u".into(),
            uid: 0,
            mode: 0o600,
            group: GroupMembers::OwnerOnly,
            kind: HolderKind::File,
        }];
        let file = PolicyFile {
            path: "/u.toml".into(),
            text: text.as_bytes().to_vec(),
            holders,
        };
        Explanation::of(
            &load(&Sources {
                user: Some(file),
                ..Sources::default()
            })
            .unwrap(),
        )
    }

    #[test]
    fn every_key_is_explained_with_its_origin() {
        let explanation = explained(POLICY);
        assert_eq!(explanation.values.len(), Key::all().count());
        let text = explanation.human(Detail::Values);
        for expected in [
            "profile offline-build:",
            "file /u.toml (user)",
            "  workspace = ro                     /u.toml:3\n",
            "  mode = filtered                    /u.toml:9, locked by /u.toml:25\n",
            "    rm -rf                           /u.toml:20\n",
            "    regex a\\s+b                      /u.toml:21\n",
            "  pids = 512                         profile offline-build\n",
            "    A B=x\\x07 ",
            "tools: read, write, edit, exec\n",
            "host's, read-only",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(
            explanation
                .human(Detail::Reasons)
                .contains("programs, libraries and their data")
        );
        let json: serde_json::Value = serde_json::to_value(&explanation).unwrap();
        assert_eq!(json["values"][2]["value"]["value"], "ro");
        assert_eq!(json["values"][2]["value"]["origin"]["line"], 3);
    }

    #[test]
    fn the_policy_file_it_writes_says_the_same() {
        let first = explained(POLICY);
        let again = explained(&first.toml());
        for (a, b) in first.values.iter().zip(&again.values) {
            let bare = |value: &Value| match value {
                Value::One(one) => vec![one.value.clone()],
                Value::List(items) => items.iter().map(|item| Some(item.value.clone())).collect(),
            };
            assert_eq!(
                bare(&a.value),
                bare(&b.value),
                "{}\n{}",
                a.key,
                first.toml()
            );
        }
    }
}
