//! A command that was submitted: what the broker is asked, and what is said while it waits
//! for an answer.

use sjail_policy::bytes::ByteString;
use sjail_policy::plan::{User, Variable};
use sjail_policy::redact::Redactor;
use sjail_policy::wire::PROTOCOL;
use sjail_policy::wire::request::{
    Answer, Asking, Elsewhere, ProgramText, Run, Submission, Typed, Waiting,
};

use super::{Permission, out_of_turn};
use crate::client::{self, Client, Desk, Trouble};
use crate::error::Error;
use crate::evidence::{Source, Tried};
use crate::question;
use crate::report::Report;

/// A broker that goes away before it has answered is asked again so many times.
const AGAIN: u32 = 3;

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
    pub(super) client: Client,
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
    pub(super) fn again(&mut self, trouble: Trouble) -> Result<(), Error> {
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
