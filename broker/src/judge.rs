//! What a submitted command is, what the policy says to it, and what the jail would
//! enforce.

mod judgement;
mod settings;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use sjail_policy::bytes::ByteString;
use sjail_policy::classify::{self, Classification, Context};
use sjail_policy::config::{Policy, Run};
use sjail_policy::decide::{self, Action, Allowing, decide};
use sjail_policy::need;
use sjail_policy::only::Only;
use sjail_policy::plan::NetworkMode;
use sjail_policy::risk::Risk;
use sjail_policy::rule::{Bases, Rule};
use sjail_policy::wire::request::{Asking, Place, Submission, Typed};

use crate::audit::record::Hash;
use crate::error::{Error, Result};
use crate::programs;
use crate::registries::Registries;
use crate::service::now;
use crate::sources::{InForce, NoPolicy, Policies};
use judgement::needs;
pub use judgement::{Judgement, Mode, Verdict};
pub use settings::Settings;

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
        *self
            .allowlist
            .write()
            .unwrap_or_else(PoisonError::into_inner) = rules(patterns);
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

    /// What the kept allow list says of a line, for a caller with that search path; `noted` are
    /// the patterns on it that let nothing run by themselves.
    pub fn allowing(&self, line: &[u8], cwd: &Path, path: &OsStr, noted: &[String]) -> Allowing {
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
        let mut said = decide::allowing(&policy.allow, &line);
        if said == Allowing::default() {
            let mut policy = Policy::default();
            policy.allow_kept(&rules(noted));
            let noted = decide::allowing(&policy.allow, &line).patterns;
            said.why_not = (!noted.is_empty()).then(|| {
                let noted = noted.join("`, `");
                format!("`{noted}` is on the list without auto_approve, so it lets nothing run by itself")
            });
        }
        said
    }
}

fn rules(patterns: &[String]) -> Vec<Rule> {
    patterns
        .iter()
        .filter_map(|text| Rule::parse(text).ok())
        .collect()
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

/// Whether the caller gives the command variables of its own.
fn sets_variables(options: &[ByteString]) -> bool {
    let mut options = options.iter().map(ByteString::as_bytes);
    options.any(|option| option.starts_with(b"--env"))
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
