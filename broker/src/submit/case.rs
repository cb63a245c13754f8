//! One submission, and what its records, answers and question say.

use std::time::Duration;

use serde_json::json;
use sjail_policy::bytes::ByteString;
use sjail_policy::plan::User;
use sjail_policy::redact::Redactor;
use sjail_policy::wire::request::{
    Binding, Place, ProgramText, Refusal, Run, Submission, Typed, Waiting,
};

use crate::audit::record::{Entry, Event, Hash};
use crate::binding::twin;
use crate::error::Result;
use crate::id;
use crate::judge::Judgement;
use crate::peer::Home;
use crate::queue::answer::RunNote;
use crate::queue::{Redacted, Stored};
use crate::server::Visit;

/// So much of a program text is kept, in bytes.
const LONGEST_HEAD: usize = 4096;

/// One submission and what was found about it.
pub(super) struct Case {
    pub(super) submission: Submission,
    pub(super) judgement: Judgement,
    pub(super) redactor: Redactor,
    /// Whether the caller takes several replies.
    pub(super) more: bool,
}

impl Case {
    /// The record's fields that every record about this command shares.
    pub(super) fn entry(&self, visit: &Visit, event: Event) -> Entry {
        let judgement = &self.judgement;
        let mut entry = Entry::new(event);
        let redacted = self.redacted();
        entry.command = Some(redacted.command);
        entry.argv = serde_json::to_string(&redacted.argv).ok();
        entry.cwd = Some(String::from_utf8_lossy(self.submission.cwd.as_bytes()).into_owned());
        entry.user = Some(visit.service.user_name(visit.peer.uid));
        entry.agent.clone_from(&self.submission.agent);
        entry.session.clone_from(&self.submission.session);
        entry.risk = Some(judgement.risk.name().to_owned());
        entry.reasons = serde_json::to_string(&judgement.reasons).ok();
        entry.rule = Some(judgement.rule.clone());
        entry.policy = Some(judgement.policy_hash.clone());
        entry.isolation = Some(judgement.isolation().to_string());
        let mut detail = json!({
            "peer": visit.peer.describe(),
            "options": self.submission.options,
            "loosened": judgement.loosened,
            "needs": judgement.access,
        });
        if let Some(text) = self.text() {
            detail["text"] = json!({
                "sha256": text.sha256,
                "length": text.length,
                "head": String::from_utf8_lossy(text.head.as_bytes()),
                "cut": text.cut,
            });
        }
        entry.detail(&detail)
    }

    /// The program text that goes with it, without secrets, whoever was to take them out.
    pub(super) fn text(&self) -> Option<ProgramText> {
        let text = self.submission.text.as_ref()?;
        let head = text.head.as_bytes();
        let head = head.get(..LONGEST_HEAD).unwrap_or(head);
        Some(ProgramText {
            head: self.redactor.redact(head).into(),
            cut: text.cut || head.len() < text.head.as_bytes().len(),
            ..text.clone()
        })
    }

    pub(super) fn redacted(&self) -> Redacted {
        Redacted {
            command: self.redactor.redact_text(&self.judgement.command),
            argv: self
                .judgement
                .plan
                .command
                .argv
                .iter()
                .map(|argument| ByteString::from(self.redactor.redact(argument.as_bytes())))
                .collect(),
        }
    }

    /// The caller's own name for the run, or one of ours.
    pub(super) fn run_id(&self) -> Result<String> {
        match &self.submission.run {
            Some(name) => Ok(name.clone()),
            None => id::run(),
        }
    }

    pub(super) fn note(&self, visit: &Visit, token: &str) -> RunNote {
        RunNote {
            token: token.to_owned(),
            runner: visit.peer.id,
            asked: visit.service.binder.fingerprint(&self.submission),
        }
    }

    pub(super) fn refusal(&self, id: String, message: String) -> Refusal {
        Refusal {
            id,
            risk: self.judgement.risk,
            reasons: self.judgement.reasons.clone(),
            rule: self.judgement.rule.clone(),
            message,
        }
    }

    pub(super) fn permission(
        &self,
        id: String,
        token: String,
        place: Place,
        decision: &str,
    ) -> Run {
        Run {
            id,
            command: self.judgement.command.clone(),
            token,
            risk: self.judgement.risk,
            reasons: self.judgement.reasons.clone(),
            decision: decision.to_owned(),
            rule: self.judgement.rule.clone(),
            place,
            plan: self.judgement.plan.clone(),
            binding: None,
            approval: None,
            preview: None,
            apply: None,
            notices: self.judgement.notices.clone(),
            recorded_output: Some(self.judgement.settings.recorded_output),
        }
    }

    pub(super) fn typed(&self) -> Typed {
        match &self.submission.command {
            Some(typed) => typed.clone(),
            None => Typed::Argv(self.judgement.plan.command.argv.clone()),
        }
    }

    /// Whether the caller is to tell what a preview showed before the owner hears of it.
    /// From inside a jail, or as somebody else, nothing can be tried out.
    pub(super) fn is_shown_first(&self, visit: &Visit, place: Place) -> bool {
        let can = visit.peer.home == Home::Host && self.submission.user == User::Caller;
        self.submission.commit.is_some() || can && self.judgement.is_shown_first(place)
    }

    /// What identifies the same command asked again; keeping a preview is another thing
    /// than running its command.
    pub(super) fn twin(&self, uid: u32, binding: &Binding) -> Hash {
        let twin = twin(uid, binding);
        match &self.submission.commit {
            Some(preview) => Hash::of(format!("{twin} {preview}").as_bytes()),
            None => twin,
        }
    }

    pub(super) fn waiting(&self, visit: &Visit, stored: &Stored) -> Waiting {
        Waiting {
            id: stored.id.clone(),
            risk: stored.body.risk,
            reasons: stored.body.reasons.clone(),
            rule: stored.body.rule.clone(),
            needs: stored.body.needs.clone(),
            changed: stored.body.changed.clone(),
            hint: self.judgement.trust_hint.clone(),
            expires: stored.expires,
            inline: stored.body.inline,
            wants_preview: stored.body.evidence.is_none()
                && visit.peer.id.is_some()
                && stored.body.requester == visit.peer.id
                && self.is_shown_first(visit, stored.body.place),
        }
    }

    pub(super) fn patience(&self) -> Duration {
        let wait = self.submission.wait_ms;
        Duration::from_millis(wait.unwrap_or(self.judgement.settings.wait_ms))
    }
}
