//! The built-in profiles: what a jail looks like when nobody says otherwise.
//!
//! They are written in `profiles/*.toml`, each entry with its reason, and compiled in.

use crate::command::table::Text;
use crate::plan::{Access, CacheSource, NetworkMode};
use crate::size::{Percent, Size};

include!(concat!(env!("OUT_DIR"), "/profiles.rs"));

/// One profile: the ground that policy files and the command line build on.
pub struct Profile {
    /// What `--profile` calls it.
    pub name: &'static str,
    /// What it gives, in one line.
    pub summary: &'static str,
    /// What may be done in the workspace.
    pub workspace: Access,
    /// How much of the network is there.
    pub network: NetworkMode,
    /// What stands behind the package caches.
    pub cache_source: CacheSource,
    /// Memory, as a share of the machine's.
    pub memory: Option<Percent>,
    /// Processes and threads at once.
    pub pids: Option<u32>,
    /// Size of the private `/tmp`.
    pub tmp: Option<Size>,
    /// How deep repositories are looked for in the workspace.
    pub protect_depth: u8,
    /// Top folders, read-only; absolute.
    pub system: &'static [Entry],
    /// What of `/etc` is shown; absolute.
    pub etc: &'static [Entry],
    /// Folders with programs; relative to home.
    pub toolchains: &'static [Entry],
    /// Harmless settings; relative to home.
    pub config: &'static [Entry],
    /// What is not seen even below something shown; patterns.
    pub hide: &'static [Entry],
    /// Package caches; relative to home.
    pub caches: &'static [Entry],
    /// Variables that go in; patterns.
    pub pass: &'static [Entry],
    /// Variables that stay out; patterns.
    pub drop: &'static [Entry],
    /// Names that run code on the host later; relative to a repository's top.
    pub protect: &'static [Entry],
    /// The agents that it knows: what each one gets beyond the rest.
    pub agents: &'static [AgentEntry],
}

/// An agent that a profile knows by its program's name.
#[derive(Debug)]
pub struct AgentEntry {
    /// What its program is called.
    pub name: &'static str,
    /// Settings, instructions and programs of its own: read-only; relative to home.
    pub config: &'static [Entry],
    /// Folders that it writes: the sandbox's own, kept between runs; relative to home.
    pub state: &'static [Entry],
    /// The hosts that it talks to.
    pub hosts: &'static [Entry],
    /// Variables that it reads, by full name.
    pub pass: &'static [Entry],
    /// Variables that it gets, `NAME=VALUE`; `~` is the home.
    pub set: &'static [Entry],
}

/// An entry of a list, with the reason why it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    value: Text,
    why: Text,
}

impl Entry {
    /// The path, the name or the pattern.
    pub fn value(&self) -> &'static str {
        self.value.get()
    }

    /// Why it is on the list.
    pub fn why(&self) -> &'static str {
        self.why.get()
    }
}

impl Profile {
    /// The profile of that name.
    pub fn named(name: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// The profile that is used when nobody names one: `workspace`.
    pub fn default_profile() -> &'static Profile {
        // The build script puts it first.
        PROFILES.first().unwrap_or(&EMPTY)
    }

    /// What an agent gets, by the name of its program.
    pub fn agent(&self, program: &[u8]) -> Option<&'static AgentEntry> {
        let name = program.rsplit(|byte| *byte == b'/').next()?;
        self.agents
            .iter()
            .find(|agent| agent.name.as_bytes() == name)
    }

    /// All profiles, the default one first.
    pub fn all() -> &'static [Profile] {
        PROFILES
    }
}

impl std::fmt::Debug for Profile {
    /// The name is enough: the rest is in the source.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Profile({})", self.name)
    }
}

/// Gives nothing; stands in for a profile that the build script would have refused to leave out.
static EMPTY: Profile = Profile {
    name: "empty",
    summary: "nothing at all",
    workspace: Access::None,
    network: NetworkMode::None,
    cache_source: CacheSource::None,
    memory: Percent::new(1),
    pids: Some(1),
    tmp: None,
    protect_depth: 0,
    system: &[],
    etc: &[],
    toolchains: &[],
    config: &[],
    hide: &[],
    caches: &[],
    pass: &[],
    drop: &[],
    protect: &[],
    agents: &[],
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_profiles_exist_and_the_default_is_first() {
        let mut names: Vec<_> = Profile::all().iter().map(|profile| profile.name).collect();
        assert_eq!(Profile::default_profile().name, "workspace");
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "agent",
                "code",
                "host-net",
                "offline-build",
                "strict",
                "workspace"
            ]
        );
    }

    #[test]
    fn every_entry_is_unique_well_formed_and_reasoned() {
        for profile in Profile::all() {
            let absolute = [profile.system, profile.etc];
            let relative = [
                profile.toolchains,
                profile.config,
                profile.caches,
                profile.protect,
            ];
            for list in
                absolute
                    .iter()
                    .chain(&relative)
                    .chain(&[profile.pass, profile.drop, profile.hide])
            {
                let mut seen = HashSet::new();
                for entry in *list {
                    assert!(
                        seen.insert(entry.value()),
                        "{}: {} twice",
                        profile.name,
                        entry.value()
                    );
                    assert!(
                        entry.why().len() > 3,
                        "{}: {} has no reason",
                        profile.name,
                        entry.value()
                    );
                    assert!(
                        !entry.value().ends_with('/') && !entry.value().contains("//"),
                        "{}",
                        entry.value()
                    );
                    assert!(
                        !entry
                            .value()
                            .split('/')
                            .any(|part| part == ".." || part == "."),
                        "{}",
                        entry.value()
                    );
                }
            }
            assert!(
                absolute
                    .iter()
                    .flat_map(|list| list.iter())
                    .all(|entry| entry.value().starts_with('/'))
            );
            assert!(
                relative
                    .iter()
                    .flat_map(|list| list.iter())
                    .all(|entry| !entry.value().starts_with('/'))
            );
            assert!(
                profile
                    .etc
                    .iter()
                    .all(|entry| entry.value().starts_with("/etc/"))
            );
        }
    }

    #[test]
    fn agents_are_well_formed() {
        let agent = Profile::named("agent").unwrap();
        for known in agent.agents {
            for entry in known.config.iter().chain(known.state) {
                assert!(!entry.value().starts_with('/'), "{}", entry.value());
                assert!(!entry.value().split('/').any(|part| part == ".."));
            }
            for host in known.hosts {
                assert!(host.value().parse::<crate::host::HostPattern>().is_ok());
            }
            assert!(known.set.iter().all(|entry| entry.value().contains('=')));
            assert!(!known.state.is_empty() && !known.hosts.is_empty());
        }
        assert!(agent.agent(b"/usr/local/bin/claude").is_some());
        assert!(agent.agent(b"bash").is_none());
        assert!(Profile::default_profile().agents.is_empty());
    }

    #[test]
    fn nothing_secret_is_shown() {
        for profile in Profile::all() {
            for entry in profile.etc {
                for secret in [
                    "shadow",
                    "sudoers",
                    "ssh",
                    "ssl/private",
                    "krb5",
                    "credentials",
                ] {
                    assert!(!entry.value().contains(secret), "{}", entry.value());
                }
            }
            for entry in profile.toolchains.iter().chain(profile.config) {
                for secret in [
                    ".ssh",
                    ".gnupg",
                    ".aws",
                    ".kube",
                    ".docker",
                    ".netrc",
                    "credentials",
                    ".npmrc",
                ] {
                    assert!(!entry.value().starts_with(secret), "{}", entry.value());
                }
            }
        }
    }

    #[test]
    fn strict_shows_a_part_of_what_the_default_shows() {
        let strict = Profile::named("strict").unwrap();
        let base = Profile::default_profile();
        for (small, large) in [
            (strict.system, base.system),
            (strict.etc, base.etc),
            (strict.pass, base.pass),
        ] {
            for entry in small {
                assert!(
                    large.iter().any(|other| other.value() == entry.value()),
                    "{}",
                    entry.value()
                );
            }
        }
        assert!(strict.workspace < base.workspace);
    }

    #[test]
    fn offline_build_does_not_show_the_whole_cache_folder() {
        let profile = Profile::named("offline-build").unwrap();
        assert_eq!(profile.cache_source, CacheSource::HostReadOnly);
        assert!(profile.caches.iter().all(|entry| entry.value() != ".cache"));
    }
}
