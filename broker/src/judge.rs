//! What a submitted command is, what the policy says to it, and what the jail would
//! enforce.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::json;
use sjail_policy::bytes::ByteString;
use sjail_policy::classify::{self, Classification, Context};
use sjail_policy::config::{Mode as Jailed, OnFailure, Policy, Preview, Run};
use sjail_policy::decide::{self, Action, Allowing, decide};
use sjail_policy::need::{self, Need};
use sjail_policy::only::Only;
use sjail_policy::plan::{NetworkMode, Plan};
use sjail_policy::risk::Risk;
use sjail_policy::rule::{Bases, Rule};
use sjail_policy::show;
use sjail_policy::wire::control::Proposal;
use sjail_policy::wire::request::{Asking, Place, Submission, Typed};

use crate::audit::record::Hash;
use crate::error::{Error, Result};
use crate::peer::Home;
use crate::programs;
use crate::proposal;
use crate::registries::Registries;
use crate::service::now;
use crate::sources::{InForce, NoPolicy, Owners, Policies};
use crate::tied::{self, Tied};

/// What the classifier says of `sudo` and its kin, whatever they run.
const OTHER_RIGHTS: &str = "Runs with other rights";

/// A longer command is judged on a thread of its own.
const LONG: usize = 4096;

/// Judges commands.
pub struct Judge {
    policies: Arc<Policies>,
    /// The patterns that `sjail allowlist` keeps.
    allowlist: RwLock<Vec<Rule>>,
    /// The hosts that were allowed for good for a package manager.
    pub registries: Registries,
}

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
    wants: std::result::Result<Vec<Need>, String>,
    /// The part of that which no jail can have, whichever it is.
    elevated: std::result::Result<Option<Need>, String>,
    /// By which rule somebody is asked although nobody would have to be, and for what: the
    /// jail does not show what the command names.
    hidden: Option<(String, Vec<Need>)>,
    /// What of that a yes would give.
    pub access: Vec<Need>,
    /// What the jail would enforce.
    pub plan: Plan,
    /// The hash of the policy in force.
    pub policy_hash: String,
    /// The part of the policy that is the owner's.
    pub owners: Owners,
    /// What it is made of.
    line: Classification,
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
    only_leaves_the_jail: bool,
}

/// Whether a command is to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It acts.
    Act,
    /// It runs on layers over the host's files: a preview.
    Preview,
}

/// What the policy says about asking and recording.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a caller waits, in milliseconds.
    pub wait_ms: u64,
    /// Seconds until a request or an approval lapses.
    pub ttl: i64,
    /// So many requests may wait.
    pub queue_limit: u64,
    /// Whether a person may answer at the requester's own terminal.
    pub inline: bool,
    /// The command that tells the owner.
    pub on_ask: Vec<String>,
    /// Whether a command is tried out before somebody is asked.
    pub preview: Preview,
    /// What happens when the log cannot be written.
    pub on_failure: OnFailure,
    /// So many bytes of a run's output are recorded.
    pub recorded_output: u64,
}

impl Judge {
    /// A judge by these policies.
    pub fn new(policies: Policies, allowlist: &[String]) -> Judge {
        let judge = Judge {
            policies: Arc::new(policies),
            allowlist: RwLock::default(),
            registries: Registries::default(),
        };
        judge.allow(allowlist);
        judge
    }

    /// Takes over the allow list as it is now. A pattern that is no longer understood
    /// allows nothing.
    pub fn allow(&self, patterns: &[String]) {
        let rules = patterns
            .iter()
            .filter_map(|text| Rule::parse(text).ok())
            .collect();
        *self
            .allowlist
            .write()
            .unwrap_or_else(PoisonError::into_inner) = rules;
    }

    /// The policies.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Judges a submission.
    pub async fn judge(self: &Arc<Judge>, submission: &Submission) -> Result<Judgement> {
        let length = match &submission.command {
            Some(Typed::Line(line)) => line.as_bytes().len(),
            Some(Typed::Argv(argv)) => argv.iter().map(|word| word.as_bytes().len()).sum(),
            None => 0,
        };
        if length < LONG {
            return self.judge_now(submission);
        }
        let (judge, submission) = (Arc::clone(self), submission.clone());
        tokio::task::spawn_blocking(move || judge.judge_now(&submission))
            .await
            .map_err(|_| Error::WriterGone)?
    }

    fn judge_now(&self, submission: &Submission) -> Result<Judgement> {
        let Some(typed) = &submission.command else {
            return Err(Error::Parameter("command is missing".to_owned()));
        };
        let surroundings = Surroundings::of(submission, self.policies.account())?;
        let line = classified(typed, &surroundings.context);
        let (_, options) = Only::among(&submission.options);
        let in_policy = |group: &str| {
            let files = self.policies.load(&surroundings.workspace, &[]);
            let groups = |policy: &Policy| policy.groups.iter().any(|own| own.value.name == group);
            files.is_ok_and(|files| groups(&files.loaded.policy))
        };
        let options = self.registries.fill_in(&options, now(), in_policy);
        match self.policies.load(&surroundings.workspace, &options) {
            Ok(in_force) => Ok(self.judge_by(&in_force, submission, typed, &surroundings, line)),
            Err(NoPolicy::CommandLine(error)) => {
                self.refuse_options(submission, typed, &surroundings, line, &error.to_string())
            }
            Err(NoPolicy::File(error)) => Err(error),
        }
    }

    /// What follows when the command line asks for what it may not have.
    fn refuse_options(
        &self,
        submission: &Submission,
        typed: &Typed,
        surroundings: &Surroundings,
        line: Classification,
        message: &str,
    ) -> Result<Judgement> {
        let in_force = match self.policies.load(&surroundings.workspace, &[]) {
            Ok(in_force) => in_force,
            Err(NoPolicy::File(error)) => return Err(error),
            Err(NoPolicy::CommandLine(error)) => return Err(Error::Policy(error.to_string())),
        };
        let mut judgement = self.judge_by(&in_force, submission, typed, surroundings, line);
        judgement.verdict = Verdict::Block;
        judgement.rule = "command line".to_owned();
        message.clone_into(&mut judgement.message);
        Ok(judgement)
    }

    fn judge_by(
        &self,
        in_force: &InForce,
        submission: &Submission,
        typed: &Typed,
        surroundings: &Surroundings,
        line: Classification,
    ) -> Judgement {
        let (policy, allowlist_hash) = self.with_allowlist(&in_force.loaded.policy);
        let policy = policy.as_ref();
        let mut line = line;
        if !policy.allow.is_empty() || policy.elevated.value {
            let path = programs::search_path(&submission.env);
            decide::doubt_programs(&mut line, &|name| programs::whose(path, name));
        }
        let bases = Bases {
            home: surroundings.context.home.as_bytes(),
            workspace: submission.workspace.as_bytes(),
        };
        let asking = match submission.asking {
            Asking::Policy => decide::Asking::Policy,
            Asking::Always => decide::Asking::Always,
        };
        let mut decision = decide(&line, policy, bases, asking);
        if let (Some(only), _) = Only::among(&submission.options) {
            only.narrow(&line, &mut decision);
        }
        let place = match decision.place {
            decide::Place::Jail => Place::Jail,
            decide::Place::Host => Place::Host,
        };
        let mut plan = policy.plan(Run {
            argv: typed.argv(),
            cwd: submission.cwd.clone(),
            program: None,
            workspace: submission.workspace.clone(),
            home: surroundings.context.home.as_str().into(),
            user: submission.user,
            env: submission
                .env
                .iter()
                .map(|variable| (variable.name.clone(), variable.value.clone()))
                .collect(),
            agent: submission.agent.clone(),
            session: submission.session.clone(),
        });
        // What has run in a preview does not run in another one to be kept.
        let mode = match policy.dry_run.value && submission.commit.is_none() {
            true => Mode::Preview,
            false => Mode::Act,
        };
        if mode == Mode::Preview && !submission.options.iter().any(names_network) {
            plan.network.mode = NetworkMode::None;
        }
        let around = need::Surroundings {
            policy,
            bases,
            plan: &plan,
            look: &programs::look,
        };
        let acts = mode == Mode::Act && submission.commit.is_none();
        let is_asked = decision.action == Action::Ask && acts;
        let (wants, elevated) = match is_asked && place == Place::Jail {
            true => (need::needs(&line, &around), need::elevated(&line, &around)),
            false => (Ok(Vec::new()), Ok(None)),
        };
        let mut stricter = decision.clone();
        let hidden = need::ask_for_hidden(&line, &mut stricter, &around);
        let hidden = (acts && !hidden.is_empty()).then(|| (stricter.rule.to_string(), hidden));
        let rule = decision.rule.to_string();
        let hint = in_force.loaded.trust_hint(&decision.rule);
        let message = format!(
            "blocked by {rule}{}",
            match decision.reasons.as_slice() {
                [] => String::new(),
                reasons => format!(": {}", reasons.join(", ")),
            }
        );
        let message = match (&hint, decision.action) {
            (Some(hint), Action::Block) => format!("{message}; {hint}"),
            _ => message,
        };
        Judgement {
            command: one_line(typed),
            risk: decision.risk,
            verdict: match decision.action {
                // Layers keep the files; a critical command is not tried out unseen.
                Action::Ask if mode == Mode::Preview && decision.risk >= Risk::Critical => {
                    Verdict::Block
                }
                // A pattern speaks of words; a variable can make another program of them.
                Action::Execute if place == Place::Host && sets_variables(&submission.options) => {
                    Verdict::Ask(place)
                }
                Action::Execute => Verdict::Run(place),
                Action::Ask => Verdict::Ask(place),
                Action::Block => Verdict::Block,
            },
            rule,
            message,
            needs: needs(place, &submission.options),
            wants,
            elevated,
            hidden,
            access: Vec::new(),
            policy_hash: Hash::of(format!("{} {allowlist_hash}", in_force.hash).as_bytes())
                .to_string(),
            loosened: in_force
                .loaded
                .loosened
                .iter()
                .map(|loosened| format!("{} by {}", loosened.key, loosened.option))
                .collect(),
            alerts: in_force.problems.clone(),
            owners: in_force.owners.clone(),
            notices: in_force.loaded.sentences(),
            trust_hint: hint,
            mode,
            settings: Settings::of(policy),
            jailed: policy.mode.value,
            unjailed: false,
            only_leaves_the_jail: decision.only_leaves_the_jail() && acts,
            reasons: decision.reasons,
            plan,
            line,
        }
    }

    /// The policy with the kept allow list.
    fn with_allowlist<'a>(&self, policy: &'a Policy) -> (Cow<'a, Policy>, Hash) {
        let rules = self
            .allowlist
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut policy = Cow::Borrowed(policy);
        if !rules.is_empty() {
            policy.to_mut().allow_kept(&rules);
        }
        let mut text = String::new();
        for rule in rules.iter() {
            text.push_str(&rule.text());
            text.push('\n');
        }
        (policy, Hash::of(text.as_bytes()))
    }

    /// What the kept allow list says of a line, for a caller with that search path.
    pub fn allowing(&self, line: &[u8], cwd: &Path, path: &OsStr) -> Allowing {
        let account = self.policies.account();
        let context = Context::new(
            &cwd.to_string_lossy(),
            &account.home.to_string_lossy(),
            &account.name,
        );
        let mut line = classify::classify(line, &context);
        decide::doubt_programs(&mut line, &|name| programs::whose(path, name));
        let bare = Policy::default();
        let (policy, _) = self.with_allowlist(&bare);
        decide::allowing(&policy.allow, &line)
    }
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

impl Settings {
    /// Those of a policy.
    pub fn of(policy: &Policy) -> Settings {
        Settings {
            wait_ms: policy.wait.value.millis(),
            ttl: i64::try_from(policy.ttl.value.millis() / 1000).unwrap_or(i64::MAX),
            queue_limit: u64::from(policy.queue_limit.value),
            inline: policy.inline.value,
            on_ask: policy.on_ask.value.clone(),
            preview: policy.preview.value,
            on_failure: policy.on_failure.value,
            recorded_output: policy.audit_output.value.bytes(),
        }
    }
}

/// Where a command would run.
struct Surroundings {
    workspace: PathBuf,
    context: Context,
}

impl Surroundings {
    fn of(submission: &Submission, account: &crate::account::Account) -> Result<Surroundings> {
        let workspace = PathBuf::from(submission.workspace.as_os_str());
        if !workspace.is_absolute() {
            return Err(Error::Parameter("workspace is not absolute".to_owned()));
        }
        let home = submission
            .env
            .iter()
            .find(|variable| variable.name.as_bytes() == b"HOME")
            .map(|variable| PathBuf::from(variable.value.as_os_str()))
            .filter(|home| home.is_absolute())
            .unwrap_or_else(|| account.home.clone());
        let mut context = Context::new(
            &submission.cwd.as_path().to_string_lossy(),
            &home.to_string_lossy(),
            &account.name,
        );
        context.workspace = workspace.to_string_lossy().into_owned();
        Ok(Surroundings { workspace, context })
    }
}

/// What the command needs beyond the jail as its owner has it, each in a few words: what
/// its command line asks for is granted for this run alone.
/// Whether the caller gives the command variables of its own.
fn sets_variables(options: &[ByteString]) -> bool {
    let mut options = options.iter().map(ByteString::as_bytes);
    options.any(|option| option.starts_with(b"--env"))
}

fn needs(place: Place, options: &[ByteString]) -> Vec<String> {
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

impl Judgement {
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
}

/// Whether an option says which network there is: a preview has none unless told.
fn names_network(option: &ByteString) -> bool {
    option.as_bytes().starts_with(b"--net=")
}

fn classified(typed: &Typed, context: &Context) -> Classification {
    match typed {
        Typed::Line(line) => classify::classify(line.as_bytes(), context),
        Typed::Argv(argv) => classify::classify_argv(argv, context),
    }
}

/// The command as one line, as a person would type it.
fn one_line(typed: &Typed) -> String {
    match typed {
        Typed::Line(line) => String::from_utf8_lossy(line.as_bytes()).into_owned(),
        Typed::Argv(argv) => shell_words::join(
            argv.iter()
                .map(|word| String::from_utf8_lossy(word.as_bytes()).into_owned()),
        ),
    }
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
