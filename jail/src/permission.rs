//! Permission to run one command: how it is asked for, confirmed before anything starts, and
//! how the broker is told afterwards.

mod gate;
mod inquiry;

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use sjail_policy::plan::Plan;
use sjail_policy::redact::Redactor;
use sjail_policy::wire::request::{Answer, Apply, Binding, BoundFile, Outcome as Told, Place, Run};

use crate::client::{self, Trouble};
use crate::error::Error;
use crate::limits::scope::Scope;
use crate::net::ask::Asker;
use crate::report::say;
use crate::run::Files;
use crate::trust;
pub use gate::Gate;
pub use inquiry::{Answered, Inquiry, Wish, submit};

/// Permission to run one command, good for one run.
#[derive(Debug)]
pub struct Permission {
    inquiry: Inquiry,
    run: Box<Run>,
    redactor: Redactor,
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

fn out_of_turn() -> Error {
    Error::Broker("it speaks out of turn".to_owned())
}

/// Compares what an approval is tied to with what is there now.
fn unchanged(binding: &Binding) -> Result<(), Error> {
    let mut bound = std::iter::once(&binding.cwd).chain(&binding.files);
    match bound.find(|file| !is_there_still(file)) {
        None => Ok(()),
        Some(other) => Err(Error::Drifted {
            path: other.path.as_path().to_owned(),
        }),
    }
}

/// Whether this very file, with this content, is there. A pipe that took its place is not
/// waited for.
fn is_there_still(bound: &BoundFile) -> bool {
    let path = bound.path.as_path();
    let is_it = |meta: &Metadata| (meta.dev(), meta.ino()) == (bound.dev, bound.ino);
    let Some(hash) = &bound.sha256 else {
        return std::fs::metadata(path).is_ok_and(|meta| is_it(&meta));
    };
    let mut options = File::options();
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let Ok(mut file) = options.read(true).custom_flags(flags).open(path) else {
        return false;
    };
    let mut text = Vec::new();
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && is_it(&meta))
        && file.read_to_end(&mut text).is_ok()
        && trust::sha256(&text) == *hash
}
