//! What a command is and what the policy says to it, in process.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sjail_policy::bytes::ByteString;
use sjail_policy::classify::{Classification, Context, classify, classify_argv};
use sjail_policy::config::{CommandLine, Loaded, Mode, Run, load};
use sjail_policy::decide::{Action, Asking, Decision, Place, decide, doubt_programs, matching};
use sjail_policy::explain::Steps;
use sjail_policy::need::{self, Need};
use sjail_policy::only::Only;
use sjail_policy::plan::{Plan, User};
use sjail_policy::rule::Bases;
use sjail_policy::wire::request;

use crate::caller::Account;
use crate::error::Error;
use crate::kept;
use crate::layout;
use crate::programs;
use crate::sources;
use crate::workspace;

/// A workspace that holds nothing: where there is no project, nothing is inside it.
const NO_WORKSPACE: &str = "/.no-workspace";

/// A command as typed.
#[derive(Debug, Clone)]
pub enum Typed {
    /// A line for the shell.
    Line(OsString),
    /// A program and its arguments.
    Argv(Vec<OsString>),
}

impl Typed {
    /// What is executed.
    fn argv(&self) -> Vec<ByteString> {
        match self {
            Typed::Line(line) => request::Typed::Line(line.as_os_str().into()).argv(),
            Typed::Argv(argv) => argv.iter().map(|word| word.as_os_str().into()).collect(),
        }
    }

    /// The command as one line of bytes; the offsets in its classification point into it.
    pub fn line(&self) -> Vec<u8> {
        match self {
            Typed::Line(line) => line.as_bytes().to_vec(),
            Typed::Argv(argv) => argv.join(OsStr::new(" ")).as_bytes().to_vec(),
        }
    }
}

/// Judges commands by the policy of one place.
#[derive(Debug)]
pub struct Judge {
    /// The policy.
    pub loaded: Loaded,
    /// Where commands would run.
    pub context: Context,
    home: PathBuf,
    workspace: PathBuf,
    path: OsString,
    /// The caller's own list, which narrows the policy.
    only: Option<Only>,
}

impl Judge {
    /// The judge for the working folder. Where the project would be the whole home or the
    /// whole machine there is none, and everything is outside it.
    pub fn here(
        account: &Account,
        named: Option<&Path>,
        options: CommandLine,
    ) -> Result<Judge, Error> {
        let (cwd, workspace) = match workspace::find(named, &account.home) {
            Ok(found) => (found.cwd, found.workspace),
            Err(Error::WorkspaceTooWide { path, .. }) => {
                let cwd = nix::unistd::getcwd().unwrap_or(path);
                (cwd, PathBuf::from(NO_WORKSPACE))
            }
            Err(error) => return Err(error),
        };
        let loaded = load(&sources::gather(account, &workspace, options)?)?;
        Ok(Judge::of(account, loaded, &cwd, &workspace))
    }

    /// The same with what the broker keeps: it judges as `sjail run` is judged.
    pub fn with_kept(mut self, account: &Account) -> Judge {
        self.loaded.policy.allow_kept(&kept::patterns(account));
        self
    }

    /// The same, narrowed to the commands that a caller names, if it names any.
    pub fn with_only(mut self, names: &[String]) -> Judge {
        self.only = (!names.is_empty()).then(|| Only::these(names.to_vec()));
        self
    }

    /// The judge by a policy that has been read.
    pub fn of(account: &Account, loaded: Loaded, cwd: &Path, workspace: &Path) -> Judge {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut context = Context::new(&text(cwd), &text(&account.home), &account.name);
        context.workspace = text(workspace);
        Judge {
            loaded,
            context,
            home: account.home.clone(),
            workspace: workspace.to_owned(),
            path: std::env::var_os("PATH").unwrap_or_default(),
            only: None,
        }
    }

    /// The workspace, if this is a project.
    pub fn project(&self) -> Option<&Path> {
        Some(self.workspace.as_path()).filter(|folder| *folder != Path::new(NO_WORKSPACE))
    }

    /// What `~` and relative paths of rules mean.
    pub fn bases(&self) -> Bases<'_> {
        Bases {
            home: self.home.as_os_str().as_bytes(),
            workspace: self.workspace.as_os_str().as_bytes(),
        }
    }

    /// What a command is, and what happens to it.
    pub fn judge(
        &self,
        typed: &Typed,
        context: &Context,
        asking: Asking,
    ) -> (Classification, Decision) {
        let mut line = match typed {
            Typed::Line(line) => classify(line.as_bytes(), context),
            Typed::Argv(argv) => {
                let argv: Vec<&[u8]> = argv.iter().map(|word| word.as_bytes()).collect();
                classify_argv(&argv, context)
            }
        };
        if !self.loaded.policy.allow.is_empty() || self.loaded.policy.elevated.value {
            doubt_programs(&mut line, &|name| programs::whose(&self.path, name));
        }
        let mut decision = decide(&line, &self.loaded.policy, self.bases(), asking);
        if let Some(only) = &self.only {
            only.narrow(&line, &mut decision);
        }
        (line, decision)
    }

    /// What a command is, and what `sjail run` does about it: a harmless command that names
    /// what its jail does not show is asked about, too.
    pub fn foresee(
        &self,
        typed: &Typed,
        context: &Context,
        asking: Asking,
    ) -> (Classification, Decision) {
        let (line, decision) = self.judge(typed, context, asking);
        let mut decision = self.placed(decision);
        if decision.place == Place::Jail {
            let plan = self.plan(typed, context);
            need::ask_for_hidden(&line, &mut decision, &self.around(&plan));
        }
        (line, decision)
    }

    /// The same where nothing is jailed, if the policy jails nothing.
    fn placed(&self, decision: Decision) -> Decision {
        match self.loaded.policy.mode.value {
            Mode::Off => decision.without_a_jail(),
            Mode::NonMain | Mode::All => decision,
        }
    }

    /// What would happen to a command, step by step.
    pub fn steps(&self, typed: &Typed, asking: Asking) -> Steps {
        let (line, decision) = self.judge(typed, &self.context, asking);
        let mut decision = self.placed(decision);
        let plan = self.plan(typed, &self.context);
        let needs = match decision.action == Action::Ask || decision.place == Place::Host {
            true => self.needs(&line, &decision, &plan),
            false => Ok(need::ask_for_hidden(
                &line,
                &mut decision,
                &self.around(&plan),
            )),
        };
        let rules = matching(&line, &self.loaded.policy, self.bases());
        let mut steps = Steps::of(&typed.line(), line, decision, rules, needs, &plan);
        steps.isolation.left_out = layout::left_out(&plan.filesystem.grants);
        steps
    }

    /// Why a command that is to be asked about could be given to nobody.
    pub fn refusal(
        &self,
        typed: &Typed,
        context: &Context,
        line: &Classification,
        decision: &Decision,
    ) -> Option<String> {
        let plan = self.plan(typed, context);
        self.needs(line, decision, &plan).err()
    }

    /// What a command needs beyond its jail, when somebody is asked about it.
    fn needs(
        &self,
        line: &Classification,
        decision: &Decision,
        plan: &Plan,
    ) -> Result<Vec<Need>, String> {
        match decision.action == Action::Ask && decision.place == Place::Jail {
            true => need::needs(line, &self.around(plan)),
            false => Ok(Vec::new()),
        }
    }

    /// The jail that a command would have.
    fn plan(&self, typed: &Typed, context: &Context) -> Plan {
        self.loaded.policy.plan(Run {
            argv: typed.argv(),
            cwd: context.cwd.as_str().into(),
            program: None,
            workspace: self.workspace.as_path().into(),
            home: self.home.as_path().into(),
            user: User::Caller,
            env: Vec::new(),
            agent: None,
            session: None,
        })
    }

    /// What a policy file names and this machine does not have, as sentences.
    pub fn left_out(&self) -> Vec<String> {
        let plan = self.plan(&Typed::Argv(Vec::new()), &self.context);
        layout::left_out(&plan.filesystem.grants)
    }

    fn around<'a>(&'a self, plan: &'a Plan) -> need::Surroundings<'a> {
        need::Surroundings {
            policy: &self.loaded.policy,
            bases: self.bases(),
            plan,
            look: &programs::look,
        }
    }
}
