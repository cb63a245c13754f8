//! From a policy and a command to the plan that the jail enforces.

use super::origin::Origin;
use super::policy::Policy;
use super::setting::Scope;
use crate::bytes::ByteString;
use crate::host::HostPattern;
use crate::plan::{
    Access, AgentHome, CacheSource, Command, Degraded, Desk, Environment, Filesystem, Grant, Home,
    Limits, Missing, Network, NetworkMode, PROXY, Plan, Protect, Proxy, SSH_AGENT, Sandbox, Unhide,
    Unlisted, User, Variable, Workspace,
};
use crate::profile::{AgentEntry, Entry};
use crate::rule::{Bases, PathPattern, Sign};

/// One command that is to run, and the surroundings that the policy does not know.
#[derive(Debug, Clone)]
pub struct Run {
    /// The program and its arguments.
    pub argv: Vec<ByteString>,
    /// Where it starts, absolute.
    pub cwd: ByteString,
    /// The file that `argv[0]` was resolved to, if that has been done.
    pub program: Option<ByteString>,
    /// The workspace, absolute.
    pub workspace: ByteString,
    /// The home folder, absolute.
    pub home: ByteString,
    /// Whose identity the command has.
    pub user: User,
    /// The caller's environment.
    pub env: Vec<(ByteString, ByteString)>,
    /// The agent that it is for, a claim.
    pub agent: Option<String>,
    /// The session that it belongs to, a claim.
    pub session: Option<String>,
}

/// Programs are looked for here when nothing of the caller's `PATH` is left.
const PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

impl Policy {
    /// The plan for a command.
    pub fn plan(&self, run: Run) -> Plan {
        let filesystem = self.filesystem(&run);
        let known = run.argv.first().map(ByteString::as_bytes);
        let known = known.and_then(|program| self.profile.value.agent(program));
        let home = self.home(&run, known);
        let environment = self.environment(run.home.as_bytes(), known);
        let sandbox = self.sandbox(&run);
        let cwd = self.start(&run, &filesystem);
        let mut plan = Plan {
            profile: self.profile.value.name.to_owned(),
            command: Command {
                argv: run.argv,
                cwd,
                program: run.program,
                env: Vec::new(),
            },
            user: run.user,
            workspace: Workspace {
                path: run.workspace,
                access: self.workspace.value,
            },
            filesystem,
            home,
            network: Network {
                mode: self.network.value,
                allow: self
                    .hosts_allow
                    .iter()
                    .map(|host| host.value.clone())
                    .chain(known.into_iter().flat_map(hosts))
                    .collect(),
                deny: self
                    .hosts_deny
                    .iter()
                    .map(|host| host.value.clone())
                    .collect(),
                unlisted: if self.hosts_ask.value {
                    Unlisted::Ask
                } else {
                    Unlisted::Refuse
                },
                unnamed: self.unnamed.value,
                publish: self.publish.iter().map(|port| port.value).collect(),
                proxy: if self.proxy.value {
                    Proxy::Offered
                } else {
                    Proxy::None
                },
                ssh_agent: self.ssh_agent.iter().map(|key| key.value.clone()).collect(),
            },
            limits: self.limits(),
            environment,
            degraded: if self.allow_degraded.value {
                Degraded::Allowed
            } else {
                Degraded::Refused
            },
            desk: match self.profile.value.agents {
                [] => Desk::Absent,
                _ => Desk::Requests,
            },
            sandbox,
        };
        plan.command.env = variables(&plan, run.env);
        plan
    }

    /// Where the command starts: where its caller is, or if the policy shows nothing of the
    /// workspace that the caller is in, in the private home, or where else it can write.
    fn start(&self, run: &Run, filesystem: &Filesystem) -> ByteString {
        let shown = |grant: &Grant| is_below(run.cwd.as_bytes(), grant.dest.as_bytes());
        let hidden = self.workspace.value == Access::None
            && is_below(run.cwd.as_bytes(), run.workspace.as_bytes())
            && !filesystem.grants.iter().any(shown);
        match (hidden, self.profile.value.cache_source) {
            (false, _) => run.cwd.clone(),
            (true, CacheSource::Closed) => ByteString::from("/tmp"),
            (true, _) => run.home.clone(),
        }
    }

    /// The limits alone.
    pub fn limits(&self) -> Limits {
        Limits {
            memory: self.memory.value,
            cpu: self.cpu.value,
            pids: self.pids.value,
            io_read: self.io_read.value,
            io_write: self.io_write.value,
            timeout: self.timeout.value,
            output: self.output.value,
            tmp: self.tmp.value,
        }
    }

    fn filesystem(&self, run: &Run) -> Filesystem {
        let bases = Bases {
            home: run.home.as_bytes(),
            workspace: run.workspace.as_bytes(),
        };
        let profile = self.profile.value;
        let mut grants = Vec::with_capacity(self.read.len() + self.write.len() + self.binds.len());
        let lists = [(&self.read, Access::Ro), (&self.write, Access::Rw)];
        for (path, access) in lists
            .into_iter()
            .flat_map(|(list, access)| list.iter().map(move |path| (path, access)))
        {
            let source = path.value.resolve(bases);
            let already = source == run.workspace && access <= self.workspace.value;
            let missing = match (access, &path.origin) {
                (Access::Ro, Origin::File { .. }) => Missing::Tell,
                _ => Missing::Refuse,
            };
            if !already {
                grants.push(Grant {
                    dest: source.clone(),
                    source,
                    access,
                    missing,
                });
            }
        }
        for bind in &self.binds {
            grants.push(Grant {
                source: bind.value.source.resolve(bases),
                dest: bind.value.dest.clone(),
                access: bind.value.access,
                missing: Missing::Refuse,
            });
        }
        let (hide, unhide) = self.hidden(bases);
        let mut names = values(profile.protect);
        names.extend(self.protect.iter().map(|name| name.value.as_str().into()));
        Filesystem {
            system: values(profile.system),
            etc: values(profile.etc),
            grants,
            hide,
            unhide,
            protect: Protect {
                names,
                depth: profile.protect_depth,
            },
        }
    }

    /// What is hidden, and what an exception of the same file shows again.
    fn hidden(&self, bases: Bases<'_>) -> (Vec<ByteString>, Vec<Unhide>) {
        let built_in = self.profile.value.hide.iter();
        let mut hide: Vec<ByteString> = built_in
            .filter_map(|entry| PathPattern::parse(entry.value()).ok())
            .map(|pattern| pattern.absolute(bases))
            .collect();
        let mut unhide = Vec::new();
        let first = hide.len();
        let mut origins = Vec::new();
        for pattern in &self.deny {
            let absolute = pattern.value.absolute(bases);
            match pattern.value.sign() {
                Sign::Include => {
                    hide.push(absolute);
                    origins.push(&pattern.origin);
                }
                Sign::Exclude => unhide.extend(
                    origins
                        .iter()
                        .enumerate()
                        .filter(|(_, origin)| origin.same_file(&pattern.origin))
                        .map(|(number, _)| Unhide {
                            hidden: first + number,
                            pattern: absolute.clone(),
                        }),
                ),
            }
        }
        (hide, unhide)
    }

    /// The sandbox that the run belongs to, by the scope and the names it gives.
    fn sandbox(&self, run: &Run) -> Option<Sandbox> {
        let scope = self.scope.value;
        let name = match scope {
            // Without a name it stands alone.
            Scope::Run => None,
            Scope::Session => run.session.clone(),
            Scope::Agent => run.agent.clone(),
            Scope::Shared => Some("shared".to_owned()),
        };
        name.map(|name| Sandbox { scope, name })
    }

    fn home(&self, run: &Run, known: Option<&AgentEntry>) -> Home {
        let profile = self.profile.value;
        let home = run.home.as_bytes();
        let home = home.strip_suffix(b"/").unwrap_or(home);
        let below = |entries: &[Entry]| -> Vec<ByteString> {
            entries
                .iter()
                .map(|entry| {
                    let mut path = Vec::with_capacity(home.len() + 1 + entry.value().len());
                    path.extend_from_slice(home);
                    path.push(b'/');
                    path.extend_from_slice(entry.value().as_bytes());
                    ByteString::from(path)
                })
                .collect()
        };
        Home {
            path: run.home.clone(),
            toolchains: below(profile.toolchains),
            config: below(profile.config),
            caches: below(profile.caches),
            cache_source: profile.cache_source,
            agent: known.map(|agent| AgentHome {
                name: agent.name.to_owned(),
                state: below(agent.state),
                config: below(agent.config),
            }),
        }
    }

    fn environment(&self, home: &[u8], known: Option<&AgentEntry>) -> Environment {
        let profile = self.profile.value;
        let (mut named, patterns): (Vec<_>, Vec<_>) = self
            .pass
            .iter()
            .map(|name| name.value.clone())
            .partition(|name| !name.as_bytes().contains(&b'*'));
        let mut pass = values(profile.pass);
        pass.extend(patterns);
        let mut set: Vec<Variable> = Vec::new();
        if let Some(agent) = known {
            named.extend(values(agent.pass));
            set.extend(agent.set.iter().filter_map(|entry| given(entry, home)));
        }
        // The policy's own values win.
        set.retain(|own| !self.set.iter().any(|said| said.value.name == own.name));
        set.extend(self.set.iter().map(|variable| variable.value.clone()));
        Environment {
            pass,
            drop: values(profile.drop),
            named,
            set,
        }
    }
}

/// The hosts of an agent; each is written as a host pattern is (see the profile's tests).
fn hosts(agent: &AgentEntry) -> impl Iterator<Item = HostPattern> {
    agent
        .hosts
        .iter()
        .filter_map(|host| host.value().parse().ok())
}

/// A variable that an agent gets, `~` filled in.
fn given(entry: &Entry, home: &[u8]) -> Option<Variable> {
    let (name, value) = entry.value().split_once('=')?;
    let value = match value.strip_prefix("~/") {
        Some(below) => [home, b"/", below.as_bytes()].concat(),
        None => value.as_bytes().to_vec(),
    };
    Some(Variable {
        name: name.into(),
        value: value.into(),
    })
}

fn values(entries: &[Entry]) -> Vec<ByteString> {
    entries
        .iter()
        .map(|entry| ByteString::from_static(entry.value()))
        .collect()
}

/// The command's environment: what the policy lets in, `HOME` and `PWD` as they are inside,
/// and a `PATH` without folders that are not there.
fn variables(plan: &Plan, caller: Vec<(ByteString, ByteString)>) -> Vec<Variable> {
    let mut env = plan.environment.apply(caller);
    let own = |name: &[u8]| {
        plan.environment
            .set
            .iter()
            .any(|set| set.name.as_bytes() == name)
    };
    let mut put = |name: &str, value: ByteString| {
        if own(name.as_bytes()) {
            return;
        }
        match env
            .iter_mut()
            .find(|variable| variable.name.as_bytes() == name.as_bytes())
        {
            Some(variable) => variable.value = value,
            None => env.push(Variable {
                name: name.into(),
                value,
            }),
        }
    };
    put("HOME", plan.home.path.clone());
    put("PWD", plan.command.cwd.clone());
    if plan.network.mode == NetworkMode::Filtered && plan.network.proxy == Proxy::Offered {
        let (address, port) = PROXY;
        for (names, scheme) in [
            (["http_proxy", "HTTP_PROXY"], "http"),
            (["https_proxy", "HTTPS_PROXY"], "http"),
            (["all_proxy", "ALL_PROXY"], "socks5h"),
        ] {
            for name in names {
                put(name, format!("{scheme}://{address}:{port}").as_str().into());
            }
        }
        for name in ["no_proxy", "NO_PROXY"] {
            put(name, "localhost,127.0.0.1,::1".into());
        }
    }
    if plan.network.mode == NetworkMode::Filtered && !plan.network.ssh_agent.is_empty() {
        put("SSH_AUTH_SOCK", SSH_AGENT.into());
    }
    if own(b"PATH") {
        return env;
    }
    let path = env
        .iter()
        .position(|variable| variable.name.as_bytes() == b"PATH");
    let value = path
        .and_then(|at| env.get(at))
        .map(|variable| cleaned_path(plan, variable.value.as_bytes()));
    let value = value
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| PATH.into());
    let variable = Variable {
        name: "PATH".into(),
        value,
    };
    match path.and_then(|at| env.get_mut(at)) {
        Some(slot) => *slot = variable,
        None => env.push(variable),
    }
    env
}

/// Whether a path is that folder or below it.
fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// `PATH` without relative entries, which mean another folder in each folder, and without
/// what is not there inside.
fn cleaned_path(plan: &Plan, path: &[u8]) -> ByteString {
    let shown = |folder: &[u8]| {
        let under = |top: &ByteString| is_below(folder, top.as_bytes());
        plan.filesystem.system.iter().any(under)
            || plan.home.toolchains.iter().any(under)
            || plan.home.caches.iter().any(under)
            || plan
                .home
                .agent
                .as_ref()
                .is_some_and(|agent| agent.config.iter().any(under))
            || plan
                .filesystem
                .grants
                .iter()
                .any(|grant| under(&grant.dest))
            || (plan.workspace.access != Access::None && under(&plan.workspace.path))
    };
    let kept: Vec<&[u8]> = path
        .split(|byte| *byte == b':')
        .filter(|folder| folder.starts_with(b"/") && shown(folder))
        .collect();
    ByteString::from(kept.join(&b':'))
}
