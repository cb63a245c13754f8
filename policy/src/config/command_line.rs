//! Options of the command line as settings.

use super::error::{Error, nearest};
use super::grant::{Bind, GrantPath};
use super::setting::Setting;
use super::value::{memory, network_named, variable, variable_pattern};
use crate::duration::Duration;
use crate::host::HostPattern;
use crate::plan::NetworkMode;
use crate::profile::Profile;
use crate::rule::PathPattern;
use crate::show::inert;
use crate::size::Size;

/// What the command line says about isolation and limits.
#[derive(Debug, Clone, Default)]
pub struct CommandLine {
    pub(super) settings: Vec<(Setting, &'static str)>,
    /// Where the package managers on the line fetch from.
    pub(super) installs: Vec<Fetches>,
    /// The groups of hosts that were named, without their `@`.
    pub(super) groups: Vec<String>,
    /// Whether the workspace was named aloud.
    pub workspace: WorkspaceChoice,
}

/// Where a package manager fetches from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fetches {
    /// From this host, by the client's own settings.
    From(HostPattern),
    /// From this host, by the line: whoever wrote that may be anybody, so it is asked about,
    /// unless the policy or one of its groups has it.
    Named(HostPattern),
    /// Its settings do not say: from the policy's group of its name, if there is one.
    ByGroup(String),
    /// The same, and somebody is asked where there is no such group.
    OrAsk(String),
}

impl Fetches {
    fn read(value: &[u8]) -> Result<Fetches, String> {
        let name = |name: &[u8]| text(name).map(str::to_owned);
        match value {
            [b'@', client @ ..] => name(client).map(Fetches::ByGroup),
            [b'?', client @ ..] => name(client).map(Fetches::OrAsk),
            [b'=', host @ ..] => text(host)?.parse().map(Fetches::Named).map_err(shown),
            host => text(host)?.parse().map(Fetches::From).map_err(shown),
        }
    }
}

/// How the workspace was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkspaceChoice {
    /// The repository's top folder, or the working directory.
    #[default]
    Found,
    /// By `--workspace`.
    Said,
}

impl CommandLine {
    /// Takes an option with its value; an option without one has an empty value. Paths must be
    /// absolute.
    ///
    /// ```
    /// use sjail_policy::config::CommandLine;
    /// let mut options = CommandLine::default();
    /// options.push("--memory", b"512M").unwrap();
    /// assert!(options.push("--net", b"everything").is_err());
    /// ```
    pub fn push(&mut self, flag: &'static str, value: &[u8]) -> Result<(), Error> {
        if flag == "--install-host" {
            let fetches = Fetches::read(value).map_err(|why| Error::Flag { flag, why })?;
            self.installs.push(fetches);
            return Ok(());
        }
        if let ("--allow-host", Some(group)) = (flag, value.strip_prefix(b"@")) {
            let group = text(group).map_err(|why| Error::Flag { flag, why })?;
            self.groups.push(group.to_owned());
            return Ok(());
        }
        let setting = read(flag, value).map_err(|why| Error::Flag { flag, why })?;
        self.settings.push((setting, flag));
        Ok(())
    }

    /// Whether hosts were named beside a network that knows none: whoever typed both
    /// means one of them.
    pub fn contradicts_itself(&self) -> Result<(), Error> {
        let named = !self.groups.is_empty()
            || (self.settings.iter())
                .any(|(setting, _)| matches!(setting, Setting::NetworkAllow(_)));
        let mode = self
            .settings
            .iter()
            .rev()
            .find_map(|(setting, _)| match setting {
                Setting::NetworkMode(mode) => Some(*mode),
                _ => None,
            });
        let why = match mode {
            Some(NetworkMode::None) => "there is no network with --net none: leave one of them out",
            Some(NetworkMode::Host) => {
                "every host can be reached with --net host: leave one of them out"
            }
            Some(NetworkMode::Filtered) | None => return Ok(()),
        };
        match named {
            true => Err(Error::Flag {
                flag: "--allow-host",
                why: why.to_owned(),
            }),
            false => Ok(()),
        }
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty()
            && self.installs.is_empty()
            && self.groups.is_empty()
            && self.workspace == WorkspaceChoice::Found
    }
}

fn read(flag: &str, value: &[u8]) -> Result<Setting, String> {
    Ok(match flag {
        "--profile" => Setting::SandboxProfile(profile(text(value)?)?),
        "--ro" => Setting::FilesystemRead(GrantPath::literal(value)?),
        "--rw" => Setting::FilesystemWrite(GrantPath::literal(value)?),
        "--bind" => Setting::FilesystemBind(Bind::parse(value)?),
        "--hide" => Setting::FilesystemDeny(PathPattern::parse(text(value)?).map_err(shown)?),
        "--net" => Setting::NetworkMode(
            network_named(text(value)?)
                .ok_or_else(|| format!("`{}` is none of none, filtered, host", inert(value)))?,
        ),
        "--allow-host" => Setting::NetworkAllow(text(value)?.parse().map_err(shown)?),
        "--publish" => Setting::NetworkPublish(text(value)?.parse().map_err(shown)?),
        "--proxy" => Setting::NetworkProxy(true),
        "--ssh-agent" => Setting::NetworkSshAgent(text(value)?.parse().map_err(shown)?),
        "--env" => environment(value)?,
        "--no-broker" => Setting::SandboxBroker(false),
        "--allow-degraded" => Setting::SandboxAllowDegraded(true),
        "--memory" => Setting::LimitsMemory(memory(text(value)?)?),
        "--cpu" => Setting::LimitsCpu(text(value)?.parse().map_err(shown)?),
        "--pids" => Setting::LimitsPids(
            text(value)?
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .ok_or_else(|| format!("`{}` is not a whole number from 1", inert(value)))?,
        ),
        "--io-read" => Setting::LimitsIoRead(Size::parse_rate(text(value)?).map_err(shown)?),
        "--io-write" => Setting::LimitsIoWrite(Size::parse_rate(text(value)?).map_err(shown)?),
        "--timeout" => Setting::LimitsTimeout(text(value)?.parse().map_err(shown)?),
        "--max-output" => Setting::LimitsOutput(text(value)?.parse().map_err(shown)?),
        "--tmp-size" => Setting::LimitsTmp(text(value)?.parse().map_err(shown)?),
        "--wait" => Setting::ApprovalWait(text(value)?.parse().map_err(shown)?),
        "--no-wait" => Setting::ApprovalWait(Duration::from_millis(0)),
        "--dry-run" => Setting::CommandsDryRun(true),
        "--no-dry-run" => Setting::CommandsDryRun(false),
        _ => return Err("is not an option that a policy knows".to_owned()),
    })
}

fn profile(name: &str) -> Result<&'static Profile, String> {
    Profile::named(name).ok_or_else(|| {
        let names: Vec<&str> = Profile::all().iter().map(|profile| profile.name).collect();
        let near = match nearest(name, names.iter().copied()) {
            Some(near) => format!(", did you mean `{near}`?"),
            None => String::new(),
        };
        format!(
            "unknown profile `{}`{near}: there are {}",
            inert(name.as_bytes()),
            names.join(", ")
        )
    })
}

/// `NAME` passes the caller's value, `NAME=VALUE` gives one.
fn environment(value: &[u8]) -> Result<Setting, String> {
    match value.iter().position(|byte| *byte == b'=') {
        Some(at) => {
            let (name, rest) = value.split_at(at);
            variable(name, rest.get(1..).unwrap_or_default()).map(Setting::EnvironmentSet)
        }
        None => variable_pattern(text(value)?).map(Setting::EnvironmentPass),
    }
}

fn text(value: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(value).map_err(|_| format!("`{}` is not UTF-8", inert(value)))
}

fn shown(error: impl std::fmt::Display) -> String {
    inert(error.to_string().as_bytes())
}
