//! Asking the broker: what is submitted, what is said while somebody is asked, and
//! how the run is told afterwards.

use std::os::fd::{AsFd, BorrowedFd};

use nix::poll::PollFlags;
use sjail_policy::bytes::ByteString;
use sjail_policy::plan::{Plan, User, Variable};
use sjail_policy::redact::Redactor;
use sjail_policy::wire::PROTOCOL;
use sjail_policy::wire::request::{
    Answer, Apply, Asking, Binding, Elsewhere, Outcome as Told, Place, ProgramText, Run,
    Submission, Typed, Waiting,
};

use crate::channel::ToJail;
use crate::client::{self, Client, Desk, Trouble};
use crate::error::Error;
use crate::evidence::{Source, Tried};
use crate::limits::scope::Scope;
use crate::net::ask::Asker;
use crate::question;
use crate::report::{Report, say};
use crate::run::Files;
use crate::spawn::Jail;
use crate::supervise::{Guard, Notice};

/// A broker that goes away before it has answered is asked again so many times.
const AGAIN: u32 = 3;

/// Permission to run one command, good for one run.
#[derive(Debug)]
pub struct Permission {
    inquiry: Inquiry,
    run: Box<Run>,
    redactor: Redactor,
}

/// What came of asking.
#[derive(Debug)]
pub enum Answered {
    /// It may run here.
    Here(Box<Permission>),
    /// We are in a jail, and it has run outside of it.
    Elsewhere(Elsewhere),
}

/// A command that was submitted and has no answer yet.
#[derive(Debug)]
pub struct Inquiry {
    client: Client,
    submission: Submission,
    /// So often the broker went away.
    lost: u32,
}

/// What is asked for.
#[derive(Debug)]
pub struct Wish {
    /// The command; absent where an approval stands for it.
    pub command: Option<Typed>,
    /// Where it starts.
    pub cwd: ByteString,
    /// The project.
    pub workspace: ByteString,
    /// Whose identity it gets.
    pub user: User,
    /// The caller's variables.
    pub env: Vec<Variable>,
    /// The options that change policy, `--net=host`.
    pub options: Vec<ByteString>,
    /// The agent, a claim.
    pub agent: Option<String>,
    /// The session, a claim.
    pub session: Option<String>,
    /// Whether a person is asked in any case.
    pub asking: Asking,
    /// How long to wait, in milliseconds.
    pub wait_ms: Option<u64>,
    /// The approval to run under.
    pub approval: Option<String>,
    /// The preview that is to be kept.
    pub commit: Option<String>,
    /// The program text that the command gets.
    pub text: Option<ProgramText>,
}

/// Submits the command; what does not depend on the answer can be done meanwhile.
pub fn submit(desk: &Desk, wish: Wish, report: &Report) -> Result<Inquiry, Error> {
    let submission = Submission {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        run: Some(report.id().as_str().to_owned()),
        command: wish.command,
        cwd: wish.cwd,
        workspace: wish.workspace,
        user: wish.user,
        env: wish.env,
        options: wish.options,
        agent: wish.agent,
        session: wish.session,
        asking: wish.asking,
        wait_ms: wish.wait_ms,
        approval: wish.approval,
        commit: wish.commit,
        text: wish.text,
    };
    let mut inquiry = Inquiry {
        client: Client::connect(desk)?,
        submission,
        lost: 0,
    };
    match inquiry.client.submit(&inquiry.submission) {
        Ok(()) => Ok(inquiry),
        Err(trouble) => {
            inquiry.again(trouble)?;
            Ok(inquiry)
        }
    }
}

impl Inquiry {
    /// Waits for the answer. Whoever is asked sees what the command would do.
    pub fn answer(mut self, report: &Report, source: &Source<'_>) -> Result<Answered, Error> {
        let mut tried = None;
        let result = self.answered(report, source, &mut tried);
        let is_wanted = match &result {
            Ok(Ok(run)) => run.apply.is_some(),
            Ok(Err(_)) => false,
            // It may be answered later.
            Err(error) => matches!(error, Error::Pending(_)),
        };
        if let Some(tried) = tried.filter(|_| !is_wanted) {
            tried.drop_it();
        }
        Ok(match result? {
            Ok(run) => Answered::Here(Box::new(Permission {
                redactor: Redactor::new(&self.submission.env),
                inquiry: self,
                run,
            })),
            Err(elsewhere) => Answered::Elsewhere(elsewhere),
        })
    }

    /// Likewise, where it can only run here.
    pub fn answer_here(self, report: &Report, source: &Source<'_>) -> Result<Permission, Error> {
        match self.answer(report, source)? {
            Answered::Here(permission) => Ok(*permission),
            Answered::Elsewhere(_) => Err(out_of_turn()),
        }
    }

    fn answered(
        &mut self,
        report: &Report,
        source: &Source<'_>,
        tried: &mut Option<Tried>,
    ) -> Result<Result<Box<Run>, Elsewhere>, Error> {
        loop {
            let answer = match self.client.answer() {
                Ok(answer) => answer,
                Err(trouble) => {
                    self.again(trouble)?;
                    continue;
                }
            };
            match answer {
                Answer::Run(run) => {
                    self.name_earlier_yes(&run, report);
                    return Ok(Ok(run));
                }
                Answer::Elsewhere(told) if self.client.desk().is_inside() => return Ok(Err(told)),
                Answer::Waiting(waiting) => {
                    if let Some(new) = source.lay_out(&waiting, &self.client, Some(report)) {
                        *tried = Some(new);
                    }
                    let mut look = || {
                        let wanted = Waiting {
                            wants_preview: true,
                            ..waiting.clone()
                        };
                        let new = source.lay_out(&wanted, &self.client, Some(report));
                        if new.is_some() {
                            *tried = new;
                        }
                    };
                    let offer = match source.can_try() && waiting.needs.is_empty() {
                        true => Some(&mut look as &mut dyn FnMut()),
                        false => None,
                    };
                    wait(&self.client, &waiting, report, offer)?;
                    // Should the broker go away, the question stays.
                    self.submission.approval = Some(waiting.id);
                }
                Answer::Pending(waiting) => {
                    if let Some(new) = source.lay_out(&waiting, &self.client, None) {
                        *tried = Some(new);
                    }
                    return Err(Error::Pending(Box::new(waiting)));
                }
                Answer::Blocked(refusal) | Answer::Rejected(refusal) => {
                    return Err(Error::Blocked(Box::new(refusal)));
                }
                Answer::Expired(refusal) => return Err(Error::Expired(Box::new(refusal))),
                Answer::Recorded { .. } | Answer::Elsewhere(_) => return Err(out_of_turn()),
            }
        }
    }

    /// A yes to the same command that nobody named this time: it was given earlier, to what
    /// was there then.
    fn name_earlier_yes(&self, run: &Run, report: &Report) {
        if let Some(approval) = &run.approval
            && run.decision == "approved"
            && self.submission.approval.is_none()
        {
            report.note(&format!(
                "this was approved before and runs once: {}, by {}",
                approval.id, approval.approver
            ));
        }
    }

    /// Submits the same once more to the next broker: under the same name it is the same
    /// run.
    fn again(&mut self, trouble: Trouble) -> Result<(), Error> {
        let mut trouble = trouble;
        loop {
            self.lost += 1;
            if self.lost > AGAIN {
                return Err(trouble.into());
            }
            match trouble {
                Trouble::Gone(_) => {}
                Trouble::Older => client::make_room(self.client.desk())?,
                other => return Err(other.into()),
            }
            self.client = Client::connect(self.client.desk())?;
            match self.client.submit(&self.submission) {
                Ok(()) => return Ok(()),
                Err(next) => trouble = next,
            }
        }
    }
}

fn out_of_turn() -> Error {
    Error::Broker("it speaks out of turn".to_owned())
}

/// Says what is waited for; at a person's own terminal, asks them, and offers to try the
/// command out first.
fn wait(
    client: &Client,
    waiting: &Waiting,
    report: &Report,
    preview: Option<&mut dyn FnMut()>,
) -> Result<(), Error> {
    report.note(&waits(waiting));
    if let Some(hint) = &waiting.hint {
        report.note(hint);
    }
    for need in &waiting.needs {
        report.note(&format!("it needs {need}"));
    }
    for change in &waiting.changed {
        report.note(&format!("asked again, because {change}"));
    }
    report.note(&format!(
        "answer from another terminal: sjail queue show {0} · sjail queue approve {0} · sjail queue reject {0}",
        waiting.id
    ));
    if waiting.inline {
        question::put(client, waiting, preview)?;
    }
    Ok(())
}

/// What is waited for, and by which rule, unless that is the risk, which is said anyway.
fn waits(waiting: &Waiting) -> String {
    let because = waiting.reasons.join(", ");
    let colon = if because.is_empty() { "" } else { ": " };
    let rule = match waiting.rule.strip_prefix("risk ") {
        Some(_) => String::new(),
        None => format!(", by {}", waiting.rule),
    };
    format!(
        "this waits for an approval ({}{colon}{because}){rule}",
        waiting.risk
    )
}

impl Permission {
    /// What the jail must enforce.
    pub fn plan(&self) -> Plan {
        self.run.plan.clone()
    }

    /// What was decided, and by what.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Waits until the intent is on the disk and what was approved is still what is
    /// there; nothing may start before.
    pub fn confirm(&mut self) -> Result<(), Error> {
        loop {
            match self.inquiry.client.answer() {
                Ok(answer) => return self.confirmed(answer),
                Err(trouble) => self.ask_again(trouble)?,
            }
        }
    }

    fn confirmed(&self, answer: Answer) -> Result<(), Error> {
        let Answer::Recorded { alerts, .. } = answer else {
            return Err(out_of_turn());
        };
        for alert in alerts {
            say(&alert);
        }
        match &self.run.binding {
            Some(binding) => unchanged(binding),
            None => Ok(()),
        }
    }

    /// The broker went away between its word and the proof that it is written down: the
    /// next one must say the same.
    fn ask_again(&mut self, trouble: Trouble) -> Result<(), Error> {
        if self.run.approval.is_some() {
            // Used up, perhaps; another answer is needed.
            return Err(trouble.into());
        }
        self.inquiry.again(trouble)?;
        match self.inquiry.client.answer()? {
            Answer::Run(run) if run.plan == self.run.plan && run.place == self.run.place => {
                self.run = run;
                Ok(())
            }
            _ => Err(Error::Broker(
                "it was replaced by one that says otherwise; try again".to_owned(),
            )),
        }
    }

    /// Tells how it went, its secrets taken out, and does something of its own before it
    /// hears that this is written down.
    pub fn tell(&mut self, told: Told, meanwhile: impl FnOnce()) -> Result<(), Error> {
        let mut told = told;
        told.id.clone_from(&self.run.id);
        told.token.clone_from(&self.run.token);
        for output in [&mut told.output_head, &mut told.output_tail]
            .into_iter()
            .flatten()
        {
            *output = self.redactor.redact(output.as_bytes()).into();
        }
        client::tell(&mut self.inquiry.client, &told, meanwhile)
    }

    /// Who can be asked for a group that holds its limits.
    pub fn scope(&self) -> Scope {
        Scope {
            desk: self.inquiry.client.desk().clone(),
            run: self.run.id.clone(),
        }
    }

    /// Who can be asked about the hosts that the command reaches.
    pub fn asker(&self) -> Asker {
        Asker {
            desk: self.inquiry.client.desk().clone(),
            run: self.run.id.clone(),
            token: self.run.token.clone(),
        }
    }

    /// The preview that is to be kept in place of running it.
    pub fn apply(&self) -> Option<Apply> {
        self.run.apply.clone()
    }

    /// On what it runs.
    pub fn files(&self) -> Files {
        match self.run.preview {
            Some(_) => Files::Layers,
            None => Files::Host,
        }
    }

    /// Where it runs.
    pub fn place(&self) -> Place {
        self.run.place
    }
}

/// Holds the command of a finished jail back until the broker has it in writing.
#[derive(Debug)]
pub struct Gate<'a> {
    permission: &'a mut Permission,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing may start.
    Closed,
    /// The command was let go.
    Open,
    /// It never will be.
    Failed(Option<Error>),
}

impl<'a> Gate<'a> {
    /// A closed gate.
    pub fn new(permission: &'a mut Permission) -> Gate<'a> {
        Gate {
            permission,
            state: State::Closed,
        }
    }

    /// Why the command was not let go, if that is so.
    pub fn failure(&mut self) -> Option<Error> {
        match &mut self.state {
            State::Failed(error) => error.take(),
            State::Closed | State::Open => None,
        }
    }

    /// Whether the command still has to be held back.
    pub fn is_closed(&self) -> bool {
        !matches!(self.state, State::Open)
    }

    fn look(&mut self) -> Result<bool, Error> {
        match self.permission.inquiry.client.answer_if_any() {
            Ok(None) => Ok(false),
            Ok(Some(answer)) => self.permission.confirmed(answer).map(|()| true),
            Err(trouble) => self.permission.ask_again(trouble).map(|()| false),
        }
    }
}

impl Guard for Gate<'_> {
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let client = &self.permission.inquiry.client;
        match self.state {
            State::Closed if client.has_more() => {
                // It has arrived already: the poll is to return at once.
                Some((
                    client.stream().as_fd(),
                    PollFlags::POLLIN | PollFlags::POLLOUT,
                ))
            }
            State::Closed => Some((client.stream().as_fd(), PollFlags::POLLIN)),
            State::Open | State::Failed(_) => None,
        }
    }

    fn notice(&mut self, jail: &Jail) -> Notice {
        match self.look() {
            Ok(false) => Notice::GoOn,
            Ok(true) => {
                self.state = State::Open;
                // Pid 1 may have ended meanwhile; its pidfd tells.
                let _ = jail.channel.send(ToJail::Start);
                Notice::GoOn
            }
            Err(error) => {
                self.state = State::Failed(Some(error));
                Notice::End
            }
        }
    }
}

/// Compares what an approval is tied to with what is there now.
fn unchanged(binding: &Binding) -> Result<(), Error> {
    use std::os::unix::fs::MetadataExt;
    for file in std::iter::once(&binding.cwd).chain(&binding.files) {
        let path = file.path.as_path();
        let same = std::fs::metadata(path).is_ok_and(|meta| {
            (meta.dev(), meta.ino()) == (file.dev, file.ino)
                && match &file.sha256 {
                    Some(hash) => std::fs::read(path).is_ok_and(|text| sha256(&text) == *hash),
                    None => true,
                }
        });
        if !same {
            return Err(Error::Drifted {
                path: path.to_owned(),
            });
        }
    }
    Ok(())
}

fn sha256(bytes: &[u8]) -> String {
    crate::trust::sha256(bytes)
}
