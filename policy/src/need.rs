//! What a command that somebody is asked about needs beyond what its jail has: it is named
//! before the question, so that a yes is not a yes to a failure, and a command that nothing
//! sensible can be given for is refused before anybody is asked.

mod elevated;
mod hidden;
#[cfg(test)]
mod tests;

pub use elevated::elevated;
pub use hidden::ask_for_hidden;

use serde::{Deserialize, Serialize};

use crate::access::{View, view};
use crate::bytes::ByteString;
use crate::classify::Classification;
use crate::config::{Key, Policy, refused_source};
use crate::effect::{Action, Place, Target};
use crate::host::HostPattern;
use crate::plan::{Access, Grant, Missing, Network, NetworkMode, Plan, Unlisted};
use crate::rule::{Bases, Operation};
use crate::show::inert;

/// One thing that a jail does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Need {
    /// A path of the host.
    Path {
        /// As the command names it, absolute.
        path: ByteString,
        /// What links lead to.
        real: ByteString,
        /// Read-only, or to be changed.
        access: Access,
    },
    /// A host of the network.
    Host {
        /// By name.
        host: HostPattern,
    },
    /// The network, where the line does not say which hosts: each is asked about when the
    /// command reaches for it.
    Network,
    /// To run on the host, outside any jail.
    Elevated {
        /// Why no jail will do.
        why: String,
    },
}

impl Need {
    /// In a few words, inert: "it needs …".
    pub fn sentence(&self) -> String {
        match self {
            Need::Path { path, real, access } => {
                let verb = match access {
                    Access::Rw => "write",
                    Access::Ro | Access::None => "read",
                };
                let led = match path == real {
                    true => String::new(),
                    false => format!(" (which is {})", inert(real.as_bytes())),
                };
                format!("to {verb} {}{led}", inert(path.as_bytes()))
            }
            Need::Host { host } => format!("the network: {host}"),
            Need::Network => {
                "the network: each host is asked about when it is reached for".to_owned()
            }
            Need::Elevated { why } => format!("to run on the host, outside the jail: {why}"),
        }
    }
}

/// What is found at a path of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What links lead to, absolute.
    pub real: ByteString,
    /// Whether it may be read.
    pub readable: bool,
    /// Whether it may be changed.
    pub writable: bool,
}

/// Where a command would run, and who can look there.
pub struct Surroundings<'a> {
    /// The policy in force.
    pub policy: &'a Policy,
    /// Home and workspace.
    pub bases: Bases<'a>,
    /// What the jail would have.
    pub plan: &'a Plan,
    /// Looks at an absolute path.
    pub look: &'a dyn Fn(&[u8]) -> Option<Found>,
}

/// So many paths and hosts are named in one question at most.
const MOST: usize = 16;

/// Folders that are the jail's own, whatever the host has there.
const JAILS_OWN: [&[u8]; 6] = [b"/proc", b"/sys", b"/dev", b"/run", b"/tmp", b"/var/tmp"];

/// What a line needs beyond its jail, or why it can be given to nobody.
pub fn needs(line: &Classification, around: &Surroundings<'_>) -> Result<Vec<Need>, String> {
    if let Some(need) = elevated(line, around)? {
        return Ok(vec![need]);
    }
    let mut found = Vec::new();
    for command in &line.commands {
        let names_host = |action: &Action| matches!(action, Action::Network { host: Some(_) });
        let is_named = command
            .effects
            .iter()
            .any(|effect| names_host(&effect.action));
        for effect in &command.effects {
            let need = match &effect.action {
                Action::Reads(target) => around.path(target, Operation::Read)?,
                Action::Writes(target) => around.path(target, Operation::Write)?,
                Action::Deletes { target, .. } => around.parent(target)?,
                Action::Network { host: None } if is_named => None,
                Action::Network { host } => around.host(host.as_deref())?,
                _ => None,
            };
            if let Some(need) = need {
                add(&mut found, need);
            }
        }
    }
    if found.len() > MOST {
        return Err(format!(
            "it needs more than {MOST} paths and hosts that its jail does not have: name them with --ro, --rw and --allow-host"
        ));
    }
    Ok(found)
}

/// Gives a plan what is needed.
pub fn give(needs: &[Need], plan: &mut Plan) {
    for need in needs {
        match need {
            Need::Path { path, real, access } => plan.filesystem.grants.push(Grant {
                source: real.clone(),
                dest: path.clone(),
                access: *access,
                missing: Missing::Refuse,
            }),
            Need::Host { host } => {
                switch_on(&mut plan.network);
                plan.network.allow.push(host.clone());
            }
            Need::Network => {
                switch_on(&mut plan.network);
                plan.network.unlisted = Unlisted::Ask;
            }
            Need::Elevated { .. } => {}
        }
    }
}

/// What the files allow is for a network that they chose to switch on.
fn switch_on(network: &mut Network) {
    if network.mode == NetworkMode::None {
        network.mode = NetworkMode::Filtered;
        network.allow.clear();
        network.unlisted = Unlisted::Refuse;
    }
}

/// One need for one path, with the most that is needed.
fn add(found: &mut Vec<Need>, need: Need) {
    if let Need::Path { path, access, .. } = &need {
        for known in found.iter_mut() {
            if let Need::Path {
                path: known,
                access: most,
                ..
            } = known
                && known == path
            {
                *most = (*most).max(*access);
                return;
            }
        }
    }
    if !found.contains(&need) {
        found.push(need);
    }
}

impl Surroundings<'_> {
    /// The path of a target that a person could be asked about; of a pattern at least the
    /// folder is known. What the jail has of its own is not among them, unless a home lies
    /// there.
    fn concerned<'t>(&self, target: &'t Target) -> Option<&'t [u8]> {
        let typed = || {
            let typed = target.typed.as_str();
            let is_known = is_pattern(typed.as_bytes())
                && !typed.contains(['$', '`', '{', '\\'])
                && !typed.split('/').any(|part| part == "..");
            is_known.then_some(typed)
        };
        let path = target.resolved.as_deref().or_else(typed)?.as_bytes();
        let in_home = is_below(path, self.bases.home);
        let is_own = !in_home && JAILS_OWN.iter().any(|top| is_below(path, top));
        match target.place {
            Place::Home
            | Place::Programs
            | Place::Startup
            | Place::Secret
            | Place::System
            | Place::Elsewhere
                if !is_own && path.starts_with(b"/") =>
            {
                Some(path)
            }
            Place::Temp if in_home && !is_below(path, self.bases.workspace) => Some(path),
            _ => None,
        }
    }

    /// What it needs to read or write at a path.
    fn path(&self, target: &Target, operation: Operation) -> Result<Option<Need>, String> {
        let Some(path) = self.concerned(target) else {
            return Ok(None);
        };
        // A pattern stands for names in its folder.
        let whole = path.split(|byte| *byte == b'/').position(is_pattern);
        if let Some(parts) = whole {
            let folder: Vec<&[u8]> = path.split(|byte| *byte == b'/').take(parts).collect();
            return self.folder(&folder.join(&b'/'), path, operation);
        }
        if let Some(seen) = self.seen(path, operation)? {
            return Ok(seen);
        }
        match ((self.look)(path), operation) {
            (Some(found), _) => self.given(path, found, operation),
            // It is not there on the host either.
            (None, Operation::Read) => Ok(None),
            (None, Operation::Write | Operation::Edit) => {
                self.folder(parent_of(path), path, operation)
            }
        }
    }

    /// What it needs to take a path away: the folder that it is in.
    fn parent(&self, target: &Target) -> Result<Option<Need>, String> {
        let Some(path) = self.concerned(target) else {
            return Ok(None);
        };
        if let Some(seen) = self.seen(path, Operation::Write)? {
            return Ok(seen);
        }
        let parts = path.split(|byte| *byte == b'/').position(is_pattern);
        if parts.is_none() && (self.look)(path).is_none() {
            return Ok(None);
        }
        let folder: Vec<&[u8]> = match parts {
            Some(parts) => path.split(|byte| *byte == b'/').take(parts).collect(),
            None => vec![parent_of(path)],
        };
        self.folder(&folder.join(&b'/'), path, Operation::Write)
    }

    /// A whole folder for the sake of a path in it.
    fn folder(
        &self,
        folder: &[u8],
        path: &[u8],
        operation: Operation,
    ) -> Result<Option<Need>, String> {
        if let Some(seen) = self.seen(folder, operation)? {
            return Ok(seen);
        }
        let Some(found) = (self.look)(folder) else {
            return Ok(None);
        };
        let real = found.real.as_bytes();
        // Home and what is above it, and the top folders of the system.
        let home = self.bases.home;
        let is_top = real.iter().filter(|byte| **byte == b'/').count() < 2;
        if is_top || is_below(home, real) || is_below(home, folder) {
            return Err(format!(
                "{} is not in the jail, and all of {} is too much to give for one command: run it in a folder of its own, or name what it may have with --ro or --rw",
                inert(path),
                inert(folder)
            ));
        }
        self.given(folder, found, operation)
    }

    /// `Some` where the answer is there already: the jail has it.
    fn seen(&self, path: &[u8], operation: Operation) -> Result<Option<Option<Need>>, String> {
        let bound = self.plan.filesystem.grants.iter().any(|grant| {
            let enough = operation == Operation::Read || grant.access == Access::Rw;
            let dest = grant.dest.as_bytes();
            enough && is_below(path, dest)
        });
        match view(self.policy, path, operation, self.bases) {
            View::Denied(rule) => Err(format!(
                "{} is kept from every command: {rule}",
                inert(path)
            )),
            View::Shown => Ok(Some(None)),
            View::Outside if bound => Ok(Some(None)),
            View::Outside => Ok(None),
        }
    }

    /// A path that is there and is not in the jail.
    fn given(
        &self,
        path: &[u8],
        found: Found,
        operation: Operation,
    ) -> Result<Option<Need>, String> {
        let (key, access, own) = match operation {
            Operation::Read => (Key::FilesystemRead, Access::Ro, found.readable),
            Operation::Write | Operation::Edit => {
                (Key::FilesystemWrite, Access::Rw, found.writable)
            }
        };
        // On the host it would fail just the same.
        if !own {
            return Ok(None);
        }
        // A link is no way around what is kept away.
        if let View::Denied(rule) = view(self.policy, found.real.as_bytes(), operation, self.bases)
        {
            return Err(format!(
                "{} leads to {}, which is kept from every command: {rule}",
                inert(path),
                inert(found.real.as_bytes())
            ));
        }
        let refused = refused_source(path).or_else(|| refused_source(found.real.as_bytes()));
        if let Some(why) = refused {
            return Err(format!("{} is given to no jail: {why}", inert(path)));
        }
        self.unlocked(key, &format!("{} is not in the jail", inert(path)))?;
        Ok(Some(Need::Path {
            path: path.into(),
            real: found.real,
            access,
        }))
    }

    /// What it needs of the network.
    fn host(&self, host: Option<&str>) -> Result<Option<Need>, String> {
        let network = &self.plan.network;
        if network.mode == NetworkMode::Host || host.is_some_and(is_own) {
            return Ok(None);
        }
        let pattern = host.and_then(|host| host.parse::<HostPattern>().ok());
        let Some(pattern) = pattern else {
            let asked = network.mode == NetworkMode::Filtered && network.unlisted == Unlisted::Ask;
            if asked {
                return Ok(None);
            }
            self.unlocked(Key::NetworkMode, "the jail has no network for it")?;
            self.unlocked(Key::NetworkAsk, "the jail has no network for it")?;
            return Ok(Some(Need::Network));
        };
        if let Some(rule) = network.deny.iter().find(|rule| rule.covers(&pattern)) {
            return Err(format!(
                "{pattern} is kept from every command: network.deny `{rule}`"
            ));
        }
        let listed = network.mode == NetworkMode::Filtered
            && network.allow.iter().any(|rule| rule.covers(&pattern));
        if listed {
            return Ok(None);
        }
        for key in [Key::NetworkMode, Key::NetworkAllow] {
            self.unlocked(key, &format!("{pattern} cannot be reached from the jail"))?;
        }
        Ok(Some(Need::Host { host: pattern }))
    }

    /// Whoever asks does not get around a lock.
    fn unlocked(&self, key: Key, what: &str) -> Result<(), String> {
        match self.policy.lock_on(key) {
            None => Ok(()),
            Some(by) => Err(format!("{what}, and `{}` is locked ({by})", key.name())),
        }
    }
}

/// Whether a path is that folder, or something in it.
fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || folder == b"/")
}

fn is_pattern(name: &[u8]) -> bool {
    name.iter().any(|byte| b"*?[".contains(byte))
}

fn parent_of(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => b"/",
        Some(at) => path.get(..at).unwrap_or(b"/"),
    }
}

/// The jail has a loopback of its own; the host's is never given.
fn is_own(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback() || address.is_unspecified())
}
