//! What would happen to one command, step by step: the commands that were found in it, what
//! each does, the rules that speak of it, what follows, and where it would run.

use serde::Serialize;

use crate::classify::{Classification, SimpleCommand};
use crate::decide::{Action, DecidedBy, Decision, Place};
use crate::effect::{Action as Does, Effect};
use crate::need::Need;
use crate::plan::{Access, NetworkMode, Plan};
use crate::risk::Risk;
use crate::show::inert;

/// What would happen to a command.
#[derive(Debug, Clone, Serialize)]
pub struct Steps {
    /// The command as one line.
    pub command: String,
    /// What was found in it.
    pub commands: Vec<SimpleCommand>,
    /// What could not be known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opaque: Vec<String>,
    /// The risk of it all.
    pub risk_level: Risk,
    /// Why.
    pub risk_reasons: Vec<String>,
    /// Every rule that speaks of it, with its file and line.
    pub rules: Vec<DecidedBy>,
    /// What decides.
    pub decided_by: DecidedBy,
    /// What follows.
    pub suggested_action: &'static str,
    /// Where it would run.
    pub place: Place,
    /// What it needs beyond the jail, where somebody would be asked.
    pub needs: Vec<Need>,
    /// Why nobody would be asked after all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What the jail would enforce.
    pub isolation: Isolation,
}

/// The jail in a few words.
#[derive(Debug, Clone, Serialize)]
pub struct Isolation {
    /// The profile.
    pub profile: String,
    /// The project folder.
    pub workspace: String,
    /// What may be done in it.
    pub access: Access,
    /// The network.
    pub network: NetworkMode,
    /// The hosts that may be reached.
    pub hosts: Vec<String>,
    /// What else of the host is shown.
    pub paths: Vec<String>,
    /// What of it this machine does not have, as sentences, where that was looked into.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The limits.
    pub limits: crate::plan::Limits,
}

impl Isolation {
    fn of(plan: &Plan) -> Isolation {
        let word = |access: Access| match access {
            Access::None => "none",
            Access::Ro => "read-only",
            Access::Rw => "writable",
        };
        let grants = plan.filesystem.grants.iter();
        Isolation {
            profile: plan.profile.clone(),
            workspace: inert(plan.workspace.path.as_bytes()),
            access: plan.workspace.access,
            network: plan.network.mode,
            hosts: plan.network.allow.iter().map(ToString::to_string).collect(),
            paths: grants
                .map(|grant| format!("{} {}", inert(grant.dest.as_bytes()), word(grant.access)))
                .collect(),
            left_out: Vec::new(),
            limits: plan.limits.clone(),
        }
    }
}

impl Steps {
    /// Puts together what was found; `needs` is what the broker would find.
    pub fn of(
        command: &[u8],
        line: Classification,
        decision: Decision,
        rules: Vec<DecidedBy>,
        needs: Result<Vec<Need>, String>,
        plan: &Plan,
    ) -> Steps {
        let (needs, refused) = match needs {
            Ok(needs) => (needs, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        Steps {
            command: String::from_utf8_lossy(command).into_owned(),
            opaque: line.opaque.into_iter().map(|part| part.why).collect(),
            commands: line.commands,
            risk_level: decision.risk,
            risk_reasons: decision.reasons,
            rules,
            decided_by: decision.rule,
            suggested_action: match refused {
                Some(_) => Action::Block.suggested(),
                None => decision.action.suggested(),
            },
            place: decision.place,
            needs,
            refused,
            isolation: Isolation::of(plan),
        }
    }

    /// For people, inert.
    pub fn human(&self) -> String {
        let mut out = format!("{}\n\ncommands\n", inert(self.command.as_bytes()));
        for (number, command) in self.commands.iter().enumerate() {
            out.push_str(&format!("  {}. {}\n", number + 1, shown(command)));
            for effect in &command.effects {
                out.push_str(&format!("       {}\n", effect_shown(effect)));
            }
        }
        for why in &self.opaque {
            out.push_str(&format!(
                "  not known before it runs: {}\n",
                inert(why.as_bytes())
            ));
        }
        out.push_str(&format!("\nrisk: {}\n", self.risk_level));
        for reason in &self.risk_reasons {
            out.push_str(&format!("  - {}\n", inert(reason.as_bytes())));
        }
        out.push_str("\nrules that speak of it\n");
        for rule in &self.rules {
            out.push_str(&format!("  {rule}\n"));
        }
        if self.rules.is_empty() {
            out.push_str("  none: its risk decides\n");
        }
        let place = match self.place {
            Place::Jail => "in the jail",
            Place::Host => "on the host, outside the jail",
        };
        let outcome = match (self.suggested_action, &self.refused) {
            (_, Some(why)) => format!("would be refused before anybody is asked: {why}"),
            ("execute", None) => format!("would run {place}, by {}", self.decided_by),
            ("block", None) => format!("would be blocked, by {}", self.decided_by),
            (_, None) => format!("would ask, then run {place}, by {}", self.decided_by),
        };
        out.push_str(&format!("\n{outcome}\n"));
        for need in &self.needs {
            out.push_str(&format!("  it needs {}\n", need.sentence()));
        }
        out.push_str(&self.isolation.human());
        out
    }
}

impl Isolation {
    fn human(&self) -> String {
        let access = match self.access {
            Access::None => "not shown",
            Access::Ro => "read-only",
            Access::Rw => "writable",
        };
        let network = match self.network {
            NetworkMode::None => "none",
            NetworkMode::Filtered => "filtered",
            NetworkMode::Host => "the host's",
        };
        let mut out = format!(
            "\njail (profile {})\n  workspace {} {access}\n  network {network}\n",
            self.profile, self.workspace
        );
        for host in &self.hosts {
            out.push_str(&format!("    {host}\n"));
        }
        for path in &self.paths {
            out.push_str(&format!("  {path}\n"));
        }
        for sentence in &self.left_out {
            out.push_str(&format!("  {sentence}\n"));
        }
        out.push_str("  everything else: `sjail explain`\n");
        out
    }
}

fn shown(command: &SimpleCommand) -> String {
    let words: Vec<String> = command
        .argv
        .iter()
        .map(|argument| inert(argument.text.as_bytes()))
        .collect();
    let behind = match command.wrappers.as_slice() {
        [] => String::new(),
        wrappers => format!(" (behind {})", inert(wrappers.join(", ").as_bytes())),
    };
    format!("{}{behind}: {}", words.join(" "), command.risk)
}

fn effect_shown(effect: &Effect) -> String {
    let path = |target: &crate::effect::Target| {
        let known = target.resolved.as_deref().unwrap_or(&target.typed);
        inert(known.as_bytes())
    };
    let what = match &effect.action {
        Does::Reads(target) => format!("reads {}", path(target)),
        Does::Writes(target) => format!("writes {}", path(target)),
        Does::Deletes { target, recursive } => match recursive {
            true => format!("deletes {} and all below", path(target)),
            false => format!("deletes {}", path(target)),
        },
        Does::Runs { program } => format!("runs {}", inert(program.as_bytes())),
        Does::Network { host: Some(host) } => format!("talks to {}", inert(host.as_bytes())),
        Does::Network { host: None } => "talks to the network".to_owned(),
        Does::Privilege => "gains rights".to_owned(),
        Does::Persistence => "leaves something that runs later".to_owned(),
        Does::SystemChange => "changes the system".to_owned(),
        Does::Installs { package, .. } => format!("installs {}", inert(package.as_bytes())),
        Does::Publishes => "sends work to where others see it".to_owned(),
        Does::Kills => "ends other processes".to_owned(),
        Does::Discards => "throws work away".to_owned(),
        Does::Opaque => "does what nobody can tell".to_owned(),
        Does::Notes => "is notable".to_owned(),
    };
    match effect.reason.is_empty() {
        true => format!("{what} ({})", effect.risk),
        false => format!(
            "{what} ({}: {})",
            effect.risk,
            inert(effect.reason.as_bytes())
        ),
    }
}
