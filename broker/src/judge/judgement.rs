//! What was found about a command: what happens to it, why, and what it needs for that.

use std::path::PathBuf;

use serde_json::json;
use sjail_policy::bytes::ByteString;
use sjail_policy::classify::Classification;
use sjail_policy::config::{Mode as Jailed, Preview};
use sjail_policy::need::{self, Need};
use sjail_policy::plan::{NetworkMode, Plan};
use sjail_policy::risk::Risk;
use sjail_policy::show;
use sjail_policy::wire::control::Proposal;
use sjail_policy::wire::request::{Place, Typed};

use super::Settings;
use crate::peer::Home;
use crate::proposal;
use crate::sources::Owners;
use crate::tied::{self, Tied};

/// What the classifier says of `sudo` and its kin, whatever they run.
const OTHER_RIGHTS: &str = "Runs with other rights";

/// What happens to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It runs there.
    Run(Place),
    /// Somebody is asked; then it runs there.
    Ask(Place),
    /// It does not run.
    Block,
}

/// What was found about a command.
#[derive(Debug, Clone)]
pub struct Judgement {
    /// The command as one line.
    pub command: String,
    /// The risk.
    pub risk: Risk,
    /// Why.
    pub reasons: Vec<String>,
    /// What happens.
    pub verdict: Verdict,
    /// What decided.
    pub rule: String,
    /// The sentence for whoever is refused.
    pub message: String,
    /// What it needs beyond the jail, each in a few words.
    pub needs: Vec<String>,
    /// What it needs that no option names, or why nobody can give it; of those that
    /// somebody is asked about.
    pub(super) wants: std::result::Result<Vec<Need>, String>,
    /// The part of that which no jail can have, whichever it is.
    pub(super) elevated: std::result::Result<Option<Need>, String>,
    /// By which rule somebody is asked although nobody would have to be, and for what: the
    /// jail does not show what the command names.
    pub(super) hidden: Option<(String, Vec<Need>)>,
    /// What of that a yes would give.
    pub access: Vec<Need>,
    /// What the jail would enforce.
    pub plan: Plan,
    /// The hash of the policy in force.
    pub policy_hash: String,
    /// The part of the policy that is the owner's.
    pub owners: Owners,
    /// What it is made of.
    pub(super) line: Classification,
    /// What the command line loosened.
    pub loosened: Vec<String>,
    /// What the owner should hear with every run.
    pub alerts: Vec<String>,
    /// What the policy files have to say to the caller.
    pub notices: Vec<String>,
    /// Where a project's file that nobody has trusted is what asks: a sentence on that.
    pub trust_hint: Option<String>,
    /// Whether it only shows what it would do.
    pub mode: Mode,
    /// What the policy says about asking and recording.
    pub settings: Settings,
    /// Which sessions are jailed.
    pub jailed: Jailed,
    /// Whether the session is not jailed, by that mode.
    pub unjailed: bool,
    /// Whether somebody is asked only because the command may leave its jail.
    pub(super) only_leaves_the_jail: bool,
}

/// Whether a command is to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It acts.
    Act,
    /// It runs on layers over the host's files: a preview.
    Preview,
}

impl Judgement {
    /// Has it run on the host: its owner has said that this session is not jailed.
    pub fn leave_the_jail(&mut self) {
        // Outside of any jail there is nothing that a command has to be let out of.
        if self.only_leaves_the_jail {
            self.verdict = Verdict::Run(Place::Jail);
            self.rule = format!("risk {}", self.risk);
            self.needs.clear();
        }
        if let Verdict::Run(place) | Verdict::Ask(place) = &mut self.verdict
            && *place == Place::Jail
        {
            *place = Place::Host;
            self.unjailed = true;
            self.needs.extend(needs(Place::Host, &[]));
        }
        // In a jail sudo gains nothing; here it does.
        if let Verdict::Run(Place::Host) = self.verdict
            && self.reasons.iter().any(|reason| reason == OTHER_RIGHTS)
        {
            self.verdict = Verdict::Ask(Place::Host);
        }
    }

    /// Takes over what it needs: it is in the plan that somebody is asked about, or nobody
    /// is asked.
    pub fn settle_needs(&mut self, home: Home) {
        // What a jail that was built before shows is not known here.
        if self.verdict == Verdict::Run(Place::Jail)
            && home == Home::Host
            && let Some((rule, needs)) = self.hidden.take()
        {
            self.verdict = Verdict::Ask(Place::Jail);
            self.rule = rule;
            self.wants = Ok(needs);
        }
        let asked = matches!(self.verdict, Verdict::Ask(_));
        if asked && home != Home::Host {
            let outside = match &self.elevated {
                Err(why) => Some(why.clone()),
                Ok(None) if self.verdict == Verdict::Ask(Place::Jail) => None,
                Ok(_) => {
                    Some("nothing that is asked for inside a jail runs outside of it".to_owned())
                }
            };
            if let Some(why) = outside {
                self.refuse(&why);
            }
            return;
        }
        if self.verdict != Verdict::Ask(Place::Jail) {
            return;
        }
        let access = match std::mem::replace(&mut self.wants, Ok(Vec::new())) {
            Ok(access) => access,
            Err(why) => return self.refuse(&why),
        };
        if access.is_empty() {
            return;
        }
        need::give(&access, &mut self.plan);
        if access
            .iter()
            .any(|need| matches!(need, Need::Elevated { .. }))
        {
            self.verdict = Verdict::Ask(Place::Host);
        }
        self.needs.extend(access.iter().map(Need::sentence));
        self.access = access;
    }

    /// The pattern that "always" would allow.
    pub fn always(&self) -> Proposal {
        match self.access.is_empty() {
            true => proposal::narrowest(&self.line),
            false => Proposal {
                pattern: None,
                widest: "a pattern lets a command run in the jail, and this one needs more: \
                         give that in your policy, or say for how long"
                    .to_owned(),
            },
        }
    }

    /// The programs and scripts that it starts, as far as they are known.
    pub fn tied(&self, typed: &Typed) -> Tied {
        tied::tied(&self.line, &self.plan, typed)
    }

    fn refuse(&mut self, why: &str) {
        self.verdict = Verdict::Block;
        self.rule = "what it needs".to_owned();
        self.message = format!("nobody is asked: {why}");
    }

    /// The paths that a yes gives: it is tied to what they lead to.
    pub fn given(&self) -> Vec<PathBuf> {
        let paths = self.access.iter().filter_map(|need| match need {
            Need::Path { real, .. } => Some(real.as_path().to_owned()),
            Need::Host { .. } | Need::Network | Need::Elevated { .. } => None,
        });
        paths.collect()
    }

    /// Whether a preview tells what the command would do: it must be able to do all of it
    /// in the jail, and on layers.
    pub fn is_shown_first(&self, place: Place) -> bool {
        if self.risk >= Risk::Critical {
            return false;
        }
        let stays_here = self.plan.network.mode == NetworkMode::None && self.access.is_empty();
        match self.settings.preview {
            Preview::Never => false,
            // What only reads has nothing to show.
            Preview::Auto => place == Place::Jail && stays_here && self.risk != Risk::Safe,
            Preview::Always => place == Place::Jail && self.access.is_empty(),
        }
    }

    /// What the record says about the promised isolation.
    pub fn isolation(&self) -> serde_json::Value {
        json!({
            "profile": self.plan.profile,
            "workspace": self.plan.workspace,
            "network": self.plan.network.mode,
            "limits": self.plan.limits,
            "degraded": self.plan.degraded,
        })
    }
}

/// What the command needs beyond the jail as its owner has it, each in a few words: what
/// its command line asks for is granted for this run alone.
pub(super) fn needs(place: Place, options: &[ByteString]) -> Vec<String> {
    let mut needs = Vec::new();
    if place == Place::Host {
        needs.push("to run on the host, outside the jail".to_owned());
    }
    for option in options {
        let text = show::inert(option.as_bytes());
        let (flag, value) = text.split_once('=').unwrap_or((&text, ""));
        needs.push(match flag {
            "--ro" => format!("to read {value}"),
            "--rw" => format!("to write {value}"),
            "--bind" => format!("to see {value}"),
            "--net" if value == "none" => continue,
            "--net" => format!("the network: {value}"),
            "--allow-host" => format!("the network: {value}"),
            "--publish" => format!("a port of its own to be served on this machine: {value}"),
            "--ssh-agent" => format!("signatures of your ssh agent's key {value}"),
            // The value may be a secret.
            "--env" => format!("the variable {}", value.split('=').next().unwrap_or(value)),
            "--allow-degraded" => "to run where layers of the jail are missing".to_owned(),
            _ => continue,
        });
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_command_line_asks_for_is_named_and_no_value_of_a_variable() {
        let options = [
            "--ro=/home/ann/.ssh/id.pub",
            "--net=host",
            "--env=TOKEN=hunter2",
            "--memory=1G",
            "--net=none",
        ];
        let options: Vec<ByteString> = options.map(ByteString::from).into();
        assert_eq!(
            needs(Place::Host, &options),
            [
                "to run on the host, outside the jail",
                "to read /home/ann/.ssh/id.pub",
                "the network: host",
                "the variable TOKEN",
            ]
        );
        assert!(needs(Place::Jail, &[]).is_empty());
    }
}
