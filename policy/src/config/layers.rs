//! Layers over layers: who may say what, and what holds in the end.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::command_line::{CommandLine, Fetches, WorkspaceChoice};
use super::document::{self, Document};
use super::error::{At, Error};
use super::key::Key;
use super::origin::{Layer, Origin, Sourced, shown_path};
use super::ownership::{self, Holder, Owner};
use super::policy::Policy;
use super::sandbox_md;
use super::security_config;
use super::setting::Setting;
use super::testcase::TestCase;
use crate::bytes::ByteString;
use crate::decide::DecidedBy;
use crate::host::HostPattern;
use crate::plan::NetworkMode;
use crate::profile::Profile;
use crate::show;

/// A policy file is not longer than this.
pub const MAX_FILE: usize = 1 << 20;

/// Everything that a policy is made of; whoever calls gathers it.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// `/etc/sjail/policy.toml`, if there is one.
    pub system: Option<PolicyFile>,
    /// The user's `policy.toml`, if there is one.
    pub user: Option<PolicyFile>,
    /// The workspace's own files, those of [`WORKSPACE_FILES`] that exist and hold.
    pub workspace: Vec<WorkspaceFile>,
    /// What was typed.
    pub command_line: CommandLine,
    /// Who calls: the user whose file `user` must be.
    pub uid: u32,
    /// Bytes of memory that the machine has, to compare sizes with shares.
    pub machine_memory: Option<u64>,
}

/// A file that is obeyed as it stands, if nobody else could have written it.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    /// Where it is.
    pub path: ByteString,
    /// What is in it.
    pub text: Vec<u8>,
    /// The file and every folder above it, links resolved.
    pub holders: Vec<Holder>,
}

/// A file that came with the project.
#[derive(Debug, Clone)]
pub struct WorkspaceFile {
    /// Where it is.
    pub path: ByteString,
    /// What is in it.
    pub text: Vec<u8>,
    /// Of which kind it is.
    pub format: Format,
    /// Whether the user has pinned exactly this content.
    pub trust: Trust,
}

/// How a workspace's policy is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `sjail.toml`
    Toml,
    /// `SANDBOX.md`
    Markdown,
    /// `.claude/security-config.json`
    SecurityConfig,
}

impl Format {
    /// Whether such a file holds beside those that were read before it. One of another tool
    /// has been taken over where there is a policy of ours.
    pub fn holds_beside(self, read: &[WorkspaceFile]) -> bool {
        self != Format::SecurityConfig || read.iter().all(|file| file.format != Format::Toml)
    }
}

/// The files that come with a project, in the order in which they are read.
pub const WORKSPACE_FILES: [(&str, Format); 3] = [
    ("sjail.toml", Format::Toml),
    ("SANDBOX.md", Format::Markdown),
    (".claude/security-config.json", Format::SecurityConfig),
];

/// Whether a workspace's file may loosen anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// It may only tighten.
    Untrusted,
    /// The user has seen and pinned this very content.
    Pinned,
}

/// What holds, and what is to be said about it.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The effective policy.
    pub policy: Policy,
    /// What was said and does not hold.
    pub notices: Vec<Notice>,
    /// What the command line loosened; the record says so.
    pub loosened: Vec<Loosened>,
    /// The `[[test]]` cases of all files.
    pub tests: Vec<Sourced<TestCase>>,
    /// The files that were read, in their order.
    pub files: Vec<ReadFile>,
    /// What they say that has no meaning here, each a sentence.
    pub remarks: Vec<String>,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReadFile {
    /// Its layer.
    pub layer: Layer,
    /// Its path, inert.
    #[serde(serialize_with = "shared_text")]
    pub path: Arc<str>,
    /// Whether it may loosen; always for the system's and the user's.
    pub trust: Trust,
}

/// Something that a file says and that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// The key's name.
    pub key: &'static str,
    /// Where it is said.
    pub origin: Origin,
    /// Why it does not hold.
    pub why: Ignored,
}

/// Why something that a file says does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ignored {
    /// It would loosen, and the file is not trusted.
    Untrusted,
    /// It would loosen what is locked there.
    Locked(Origin),
}

impl Notice {
    /// The same was said of the same key of the same file.
    fn is_like(&self, other: &Notice) -> bool {
        self.key == other.key && self.why == other.why && self.origin.same_file(&other.origin)
    }

    /// In one sentence, with how many further lines it is said of.
    fn sentence(&self, further: usize) -> String {
        let place = match further {
            0 => self.origin.to_string(),
            1 => format!("{} and one more line", self.origin),
            _ => format!("{} and {further} more lines", self.origin),
        };
        let key = self.key;
        match &self.why {
            Ignored::Untrusted => format!(
                "{place}: `{key}` would loosen the policy and is left out: a project's file may only tighten until you have read it and run `sjail trust`"
            ),
            Ignored::Locked(by) => {
                format!("{place}: `{key}` would loosen what {by} locks and is left out")
            }
        }
    }
}

impl Loaded {
    /// What was said and does not hold, as sentences: one for all lines of a list.
    pub fn sentences(&self) -> Vec<String> {
        let mut groups: Vec<(&Notice, usize)> = Vec::new();
        for notice in &self.notices {
            match groups.iter_mut().find(|(first, _)| first.is_like(notice)) {
                Some((_, further)) => *further += 1,
                None => groups.push((notice, 0)),
            }
        }
        groups
            .into_iter()
            .map(|(notice, further)| notice.sentence(further))
            .collect()
    }

    /// Where a project's file that nobody has trusted is what asks: that it would otherwise
    /// allow something, and how.
    pub fn trust_hint(&self, rule: &DecidedBy) -> Option<String> {
        let asks = rule.origin()?;
        let speaks_for_itself = |notice: &Notice| {
            notice.why == Ignored::Untrusted
                && notice.key.starts_with("commands.")
                && notice.origin.same_file(asks)
        };
        self.notices.iter().any(speaks_for_itself).then(|| {
            let file = asks.file().unwrap_or_default();
            format!(
                "what {file} allows does not count until you have read it and run `sjail trust`"
            )
        })
    }
}

/// A key that the command line loosened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Loosened {
    /// The key's name.
    pub key: &'static str,
    /// The option that did it.
    pub option: &'static str,
}

/// Puts the layers together.
pub fn load(sources: &Sources) -> Result<Loaded, Error> {
    let parts = Parts::read(sources)?;
    let mut loaded = parts.layered(None);
    if !sources.command_line.is_empty() {
        parts.with_command_line(&mut loaded)?;
    }
    Ok(loaded)
}

/// The files, read.
struct Parts<'a> {
    sources: &'a Sources,
    documents: Vec<(ReadFile, Document)>,
}

impl<'a> Parts<'a> {
    fn read(sources: &'a Sources) -> Result<Self, Error> {
        let mut documents = Vec::new();
        let trusted = [
            (Layer::System, &sources.system, Owner::Root),
            (Layer::User, &sources.user, Owner::User(sources.uid)),
        ];
        for (layer, file, owner) in trusted {
            let Some(file) = file else {
                continue;
            };
            ownership::check(&file.path, &file.holders, owner)?;
            let path = shown_path(file.path.as_bytes());
            let document = document::read(layer, &path, bounded(&path, &file.text)?)?;
            documents.push((
                ReadFile {
                    layer,
                    path,
                    trust: Trust::Pinned,
                },
                document,
            ));
        }
        for file in &sources.workspace {
            let path = shown_path(file.path.as_bytes());
            let text = bounded(&path, &file.text)?;
            let document = match file.format {
                Format::Toml => document::read(Layer::Workspace, &path, text)?,
                Format::Markdown => sandbox_md::read(&path, text)?,
                Format::SecurityConfig => security_config::read(&path, text)?,
            };
            documents.push((
                ReadFile {
                    layer: Layer::Workspace,
                    path,
                    trust: file.trust,
                },
                document,
            ));
        }
        Ok(Self { sources, documents })
    }

    /// The files over a profile: the one they name, or the one that is given.
    fn layered(&self, profile: Option<Sourced<&'static Profile>>) -> Loaded {
        let mut notices = Vec::new();
        let own = self.named_profile(&mut notices);
        let chosen = profile.unwrap_or(own);
        let mut loaded = Loaded {
            policy: Policy::of_profile(chosen.value, chosen.origin),
            notices,
            loosened: Vec::new(),
            tests: Vec::new(),
            files: Vec::new(),
            remarks: Vec::new(),
        };
        for (file, document) in &self.documents {
            for setting in &document.settings {
                self.lay(setting, file, &mut loaded);
            }
            loaded.tests.extend(document.tests.iter().cloned());
            loaded.remarks.extend(document.remarks.iter().cloned());
            loaded.files.push(file.clone());
        }
        loaded
    }

    /// One setting of one file. Files of the same layer cannot lock each other out.
    fn lay(&self, setting: &Sourced<Setting>, file: &ReadFile, into: &mut Loaded) {
        let key = setting.value.key();
        let locked = into
            .policy
            .locks
            .iter()
            .find(|lock| lock.value.locks(key) && is_below(file.layer, &lock.origin))
            .map(|lock| lock.origin.clone());
        if locked.is_none() && file.trust == Trust::Pinned {
            into.policy
                .apply(setting.value.clone(), setting.origin.clone());
            return;
        }
        let mut tried = into.policy.clone();
        tried.apply(setting.value.clone(), setting.origin.clone());
        if !tried.is_looser(&into.policy, key, self.sources.machine_memory) {
            into.policy = tried;
            return;
        }
        let why = locked.map_or(Ignored::Untrusted, Ignored::Locked);
        into.notices.push(Notice {
            key: key.name(),
            origin: setting.origin.clone(),
            why,
        });
    }

    /// The profile that the files name. It is chosen first, because all else is laid over it.
    fn named_profile(&self, notices: &mut Vec<Notice>) -> Sourced<&'static Profile> {
        let default = Profile::default_profile();
        let mut chosen = Sourced::new(default, Origin::Profile(default.name));
        let mut lock: Option<Origin> = None;
        for (file, document) in &self.documents {
            for setting in &document.settings {
                let Setting::SandboxProfile(profile) = setting.value else {
                    continue;
                };
                let old = Policy::of_profile(chosen.value, chosen.origin.clone());
                let new = Policy::of_profile(profile, setting.origin.clone());
                let looser =
                    Key::all().any(|key| new.is_looser(&old, key, self.sources.machine_memory));
                let ignored = match (&lock, file.trust) {
                    (Some(lock), _) if looser && is_below(file.layer, lock) => {
                        Some(Ignored::Locked(lock.clone()))
                    }
                    (_, Trust::Untrusted) if looser => Some(Ignored::Untrusted),
                    _ => None,
                };
                match ignored {
                    Some(why) => notices.push(Notice {
                        key: Key::SandboxProfile.name(),
                        origin: setting.origin.clone(),
                        why,
                    }),
                    None => chosen = Sourced::new(profile, setting.origin.clone()),
                }
            }
            let own_lock = document.settings.iter().find(
                |setting| matches!(&setting.value, Setting::Lock(lock) if lock.locks(Key::SandboxProfile)),
            );
            if let (None, Some(found), Trust::Pinned) = (&lock, own_lock, file.trust) {
                lock = Some(found.origin.clone());
            }
        }
        chosen
    }

    /// A package manager without a network reaches its own registry and nobody else, unless
    /// the policy says no, or the network was spoken of.
    fn install(&self, policy: &mut Policy, spoken_of: bool) {
        let installs = &self.sources.command_line.installs;
        let locked = [Key::NetworkMode, Key::NetworkAllow, Key::NetworkInstalls]
            .into_iter()
            .any(|key| policy.lock_on(key).is_some());
        if spoken_of
            || locked
            || !policy.installs.value
            || policy.network.value != NetworkMode::None
        {
            return;
        }
        let hosts = |client: &str| {
            let known = policy.groups.iter().find(|own| own.value.name == client);
            known.map(|group| group.value.hosts.clone())
        };
        let is_known = |host: &HostPattern| {
            let listed = policy.hosts_allow.iter().map(|own| &own.value);
            let grouped = policy.groups.iter().flat_map(|own| &own.value.hosts);
            listed.chain(grouped).any(|own| own.covers(host))
        };
        let allow = |hosts: Vec<HostPattern>| -> Vec<Setting> {
            hosts.into_iter().map(Setting::NetworkAllow).collect()
        };
        let settings: Vec<Setting> = installs
            .iter()
            .flat_map(|install| match install {
                Fetches::From(host) => allow(vec![host.clone()]),
                Fetches::Named(host) if is_known(host) => allow(vec![host.clone()]),
                Fetches::Named(_) => vec![Setting::NetworkAsk(true)],
                Fetches::ByGroup(client) => hosts(client).map(allow).unwrap_or_default(),
                Fetches::OrAsk(client) => match hosts(client) {
                    Some(hosts) => allow(hosts),
                    None => vec![Setting::NetworkAsk(true)],
                },
            })
            .collect();
        if settings.is_empty() {
            return;
        }
        let origin = Origin::CommandLine("--install-host");
        // What the files allow is for a network that they chose to switch on.
        policy.hosts_allow.clear();
        policy.apply(Setting::NetworkMode(NetworkMode::Filtered), origin.clone());
        for setting in settings {
            policy.apply(setting, origin.clone());
        }
    }

    /// Lays the command line over the files, and refuses what would loosen a locked key.
    fn with_command_line(&self, loaded: &mut Loaded) -> Result<(), Error> {
        let options = &self.sources.command_line;
        let named = options
            .settings
            .iter()
            .rev()
            .find_map(|(setting, flag)| match setting {
                Setting::SandboxProfile(profile) => {
                    Some(Sourced::new(*profile, Origin::CommandLine(flag)))
                }
                _ => None,
            });
        let mut policy = match named {
            Some(profile) => self.layered(Some(profile)).policy,
            None => loaded.policy.clone(),
        };
        for (setting, flag) in &options.settings {
            policy.apply(setting.clone(), Origin::CommandLine(flag));
        }
        for name in &options.groups {
            for host in group(&policy, name)? {
                let origin = Origin::CommandLine(ALLOW_HOST);
                policy.apply(Setting::NetworkAllow(host), origin);
            }
        }
        let said = |key: Key| {
            options
                .settings
                .iter()
                .rev()
                .find(|(setting, _)| setting.key() == key)
                .map(|(_, flag)| *flag)
                .or_else(|| {
                    let named = key == Key::NetworkAllow && !options.groups.is_empty();
                    named.then_some(ALLOW_HOST)
                })
        };
        // Hosts are named to be reached: without --net, that needs the filtered network.
        if let Some(flag) = said(Key::NetworkAllow)
            && said(Key::NetworkMode).is_none()
            && policy.network.value == NetworkMode::None
        {
            policy.apply(
                Setting::NetworkMode(NetworkMode::Filtered),
                Origin::CommandLine(flag),
            );
        }
        let mut loosened = Vec::new();
        for key in Key::all() {
            let option = if policy.is_looser(&loaded.policy, key, self.sources.machine_memory) {
                said(key)
                    .or_else(|| option_behind(key, options))
                    .unwrap_or("--profile")
            } else if options.workspace == WorkspaceChoice::Said && opened_by_workspace(key) {
                "--workspace"
            } else {
                continue;
            };
            if let Some(by) = loaded.policy.lock_on(key) {
                return Err(Error::Locked {
                    key: key.name(),
                    flag: option,
                    by: by.clone(),
                });
            }
            loosened.push(Loosened {
                key: key.name(),
                option,
            });
        }
        // A workspace of the caller's choice loosens only where a lock forbids the choice.
        loosened.retain(|loosened| loosened.option != "--workspace");
        self.install(&mut policy, said(Key::NetworkMode).is_some());
        loaded.policy = policy;
        loaded.loosened = loosened;
        Ok(())
    }
}

const ALLOW_HOST: &str = "--allow-host";

/// Whom a group of the policy stands for.
fn group(policy: &Policy, name: &str) -> Result<Vec<HostPattern>, Error> {
    let known = policy.groups.iter().find(|group| group.value.name == name);
    match known {
        Some(group) => Ok(group.value.hosts.clone()),
        None => Err(Error::Flag {
            flag: ALLOW_HOST,
            why: format!(
                "@{} stands for nobody: no package manager of that name has a registry in its settings, and no policy file has such a group (`groups` below [network]); name the host instead",
                show::inert(name.as_bytes())
            ),
        }),
    }
}

/// The option that changed a key which it does not name.
fn option_behind(key: Key, options: &CommandLine) -> Option<&'static str> {
    let wanted = match key {
        Key::NetworkMode => ALLOW_HOST,
        _ => return None,
    };
    if !options.groups.is_empty() {
        return Some(wanted);
    }
    options
        .settings
        .iter()
        .find(|(_, flag)| *flag == wanted)
        .map(|(_, flag)| *flag)
}

/// The keys that naming another workspace goes around.
fn opened_by_workspace(key: Key) -> bool {
    matches!(
        key,
        Key::SandboxWorkspace | Key::FilesystemRead | Key::FilesystemWrite
    )
}

/// Whether a layer must heed a lock: one that was put on above it.
fn is_below(layer: Layer, lock: &Origin) -> bool {
    matches!(lock, Origin::File { layer: above, .. } if *above < layer)
}

fn shared_text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

fn bounded<'t>(path: &Arc<str>, text: &'t [u8]) -> Result<&'t [u8], Error> {
    if text.len() > MAX_FILE {
        let why = format!(
            "the file has {} bytes, more than the {MAX_FILE} that are read",
            text.len()
        );
        return Err(Error::Syntax {
            at: At::new(path, b"", 0..0),
            why,
        });
    }
    Ok(text)
}
