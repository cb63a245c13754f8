//! Asking the broker: what is submitted, what is said while somebody is asked, and
//! how the run is told afterwards.

use sjail_policy::bytes::ByteString;
use sjail_policy::plan::{Plan, User, Variable};
use sjail_policy::redact::Redactor;
use sjail_policy::wire::PROTOCOL;
use sjail_policy::wire::request::{
    Answer, Asking, Binding, Outcome as Told, Place, Run, Submission, Typed, Waiting,
};

use crate::client::{self, Client};
use crate::error::Error;
use crate::question;
use crate::report::Report;

/// Permission to run one command, good for one run.
#[derive(Debug)]
pub struct Permission {
    client: Client,
    run: Box<Run>,
    redactor: Redactor,
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
}

/// Submits the command and waits for the answer.
pub fn ask(wish: Wish, report: &Report) -> Result<Permission, Error> {
    let mut client = Client::connect()?;
    let submission = Submission {
        protocol: PROTOCOL,
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
    };
    client.submit(&submission)?;
    let redactor = Redactor::new(&submission.env);
    loop {
        match client.answer()? {
            Answer::Run(run) => {
                return Ok(Permission {
                    client,
                    run,
                    redactor,
                });
            }
            Answer::Waiting(waiting) => wait(&client, &waiting, report)?,
            Answer::Pending(waiting) => return Err(Error::Pending(Box::new(waiting))),
            Answer::Blocked(refusal) | Answer::Rejected(refusal) => {
                return Err(Error::Blocked(Box::new(refusal)));
            }
            Answer::Expired(refusal) => return Err(Error::Expired(Box::new(refusal))),
            Answer::Recorded { .. } => {
                return Err(Error::Broker("it speaks out of turn".to_owned()));
            }
        }
    }
}

/// Says what is waited for; at a person's own terminal, asks them.
fn wait(client: &Client, waiting: &Waiting, report: &Report) -> Result<(), Error> {
    let because = waiting.reasons.join(", ");
    report.note(&format!(
        "this waits for an approval ({}{}{because})",
        waiting.risk,
        if because.is_empty() { "" } else { ": " },
    ));
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
        question::put(client, waiting)?;
    }
    Ok(())
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

    /// Returns when the intent is on the disk and what was approved is still what is
    /// there; nothing may start before. Says what the owner should hear.
    pub fn confirm(&mut self, report: &Report) -> Result<(), Error> {
        match self.client.answer()? {
            Answer::Recorded { alerts, .. } => {
                for alert in alerts {
                    report.note(&alert);
                }
            }
            _ => return Err(Error::Broker("it speaks out of turn".to_owned())),
        }
        match &self.run.binding {
            Some(binding) => unchanged(binding),
            None => Ok(()),
        }
    }

    /// Tells how it went, its secrets taken out.
    pub fn tell(&mut self, told: Told) -> Result<(), Error> {
        let mut told = told;
        told.id.clone_from(&self.run.id);
        told.token.clone_from(&self.run.token);
        for output in [&mut told.output_head, &mut told.output_tail]
            .into_iter()
            .flatten()
        {
            *output = self.redactor.redact(output.as_bytes()).into();
        }
        client::tell(&mut self.client, &told)
    }

    /// Where it runs.
    pub fn place(&self) -> Place {
        self.run.place
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
