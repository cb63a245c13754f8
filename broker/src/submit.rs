//! The walk of one submission: judge, ask where a person must answer, record the
//! intent, let it run.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use sjail_policy::bytes::ByteString;
use sjail_policy::config::{Mode as Jailed, OnFailure};
use sjail_policy::plan::User;
use sjail_policy::redact::Redactor;
use sjail_policy::wire::control::RequestStatus;
use sjail_policy::wire::request::{
    Answer, Approval, Asking, Binding, Checked, Meets, Place, Refusal, Run, Submission, Typed,
    Waiting,
};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use crate::audit::record::{Entry, Event, Hash};
use crate::binding::{kin, twin};
use crate::error::{Error, Result};
use crate::id;
use crate::judge::{Judgement, Mode, Verdict};
use crate::notify;
use crate::peer::Home;
use crate::process;
use crate::queue::answer::{RunNote, Taken, begin_run, take};
use crate::queue::permit::{self, Used, Whereabouts};
use crate::queue::request::{self, Asked, Body, New, Redacted, Stored, Subject};
use crate::queue::session;
use crate::server::Visit;
use crate::service::{Change, Failure, now};

/// A command that changes while it waits is asked about again so many times.
const ASKED_AGAIN: u32 = 3;

/// Answers [`sjail_policy::wire::request::CHECK`].
pub async fn check(visit: &mut Visit, submission: Submission) -> std::result::Result<(), Failure> {
    let judgement = judge(visit, &submission).await?;
    let (action, asks) = match judgement.verdict {
        Verdict::Run(_) => ("execute", false),
        Verdict::Ask(_) => ("queue_for_approval", true),
        Verdict::Block => ("block", false),
    };
    let reply = Checked {
        command: judgement.command,
        risk_level: judgement.risk,
        risk_reasons: judgement.reasons,
        requires_approval: asks,
        suggested_action: action.to_owned(),
        rule: judgement.rule,
    };
    visit.connection.reply(&reply).await?;
    Ok(())
}

/// Answers [`sjail_policy::wire::request::SUBMIT`].
pub async fn submit(
    visit: &mut Visit,
    submission: Submission,
    more: bool,
) -> std::result::Result<(), Failure> {
    if submission.approval.is_some() {
        return run_approved(visit, submission, more).await;
    }
    let judgement = judge(visit, &submission).await?;
    let case = Case {
        redactor: Redactor::new(&submission.env),
        submission,
        judgement,
        more,
    };
    match (case.judgement.verdict, case.judgement.mode) {
        (Verdict::Block, _) => block(visit, &case).await,
        // Nobody is asked: nothing of the host changes. Elevated or not, it is in the jail.
        (Verdict::Run(_), Mode::Preview) => {
            run_at_once(visit, &case, AtOnce::Preview(Meets::Execute)).await
        }
        (Verdict::Ask(_), Mode::Preview) => {
            run_at_once(visit, &case, AtOnce::Preview(Meets::Ask)).await
        }
        (Verdict::Run(_), Mode::Act) if case.judgement.unjailed => {
            run_at_once(visit, &case, AtOnce::Unjailed).await
        }
        (Verdict::Run(place), Mode::Act) => run_at_once(visit, &case, AtOnce::In(place)).await,
        (Verdict::Ask(place), Mode::Act) => ask(visit, case, place).await,
    }
}

/// How a command runs that nobody is asked about.
#[derive(Debug, Clone, Copy)]
enum AtOnce {
    /// There.
    In(Place),
    /// On the host: `sandbox.mode` leaves the session out.
    Unjailed,
    /// In the jail and on layers; this is what it would meet without them.
    Preview(Meets),
}

impl AtOnce {
    fn place(self) -> Place {
        match self {
            AtOnce::In(place) => place,
            AtOnce::Unjailed => Place::Host,
            AtOnce::Preview(_) => Place::Jail,
        }
    }

    fn preview(self) -> Option<Meets> {
        match self {
            AtOnce::In(_) | AtOnce::Unjailed => None,
            AtOnce::Preview(meets) => Some(meets),
        }
    }

    fn decision(self) -> &'static str {
        match self {
            AtOnce::In(Place::Jail) | AtOnce::Unjailed => "allow",
            AtOnce::In(Place::Host) => "elevated",
            AtOnce::Preview(_) => "preview",
        }
    }
}

async fn judge(visit: &Visit, submission: &Submission) -> Result<Judgement> {
    let mut judgement = visit.service.judge.judge(submission).await?;
    if is_unjailed(visit, submission, judgement.jailed).await? {
        judgement.leave_the_jail();
    }
    judgement.settle_needs(visit.peer.home);
    note_policy(visit, &judgement).await;
    Ok(judgement)
}

/// Has the log tell of a policy that is new to it. What cannot be written stands in the way
/// of the record that follows, and is said there.
async fn note_policy(visit: &Visit, judgement: &Judgement) {
    let (service, owners) = (&visit.service, &judgement.owners);
    let noted = service.policy_log.note(&service.writer, owners).await;
    if let (Ok(true), Some(problem)) = (noted, owners.problems.first()) {
        notify::trouble(&judgement.settings.on_ask, problem);
    }
}

/// Whether `sandbox.mode` leaves this session out: never one that is in a jail already,
/// and never a run that asks for a jail of some kind. The main session is the one that an
/// operator has registered.
async fn is_unjailed(visit: &Visit, submission: &Submission, mode: Jailed) -> Result<bool> {
    let plain = submission.options.iter().all(|option| {
        PLAIN
            .iter()
            .any(|plain| option.as_bytes().starts_with(plain))
    });
    if mode == Jailed::All || visit.peer.home != Home::Host || !plain {
        return Ok(false);
    }
    match (mode, &submission.session) {
        (Jailed::Off, _) => Ok(true),
        (Jailed::NonMain, Some(name)) => {
            let name = name.clone();
            let readers = &visit.service.readers;
            let role = readers.read(move |store| session::role(store, &name));
            Ok(role.await?.as_deref() == Some(MAIN))
        }
        (Jailed::NonMain, None) | (Jailed::All, _) => Ok(false),
    }
}

/// The options that ask for no jail: time, output, variables, and what sjail itself adds.
const PLAIN: [&[u8]; 5] = [
    b"--timeout=",
    b"--max-output=",
    b"--env=",
    b"--no-dry-run",
    b"--install-host=",
];
/// The role of the session that `non-main` leaves out.
const MAIN: &str = "main";

/// One submission and what was found about it.
struct Case {
    submission: Submission,
    judgement: Judgement,
    redactor: Redactor,
    /// Whether the caller takes several replies.
    more: bool,
}

impl Case {
    /// The record's fields that every record about this command shares.
    fn entry(&self, visit: &Visit, event: Event) -> Entry {
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
        let detail = json!({
            "peer": visit.peer.describe(),
            "options": self.submission.options,
            "loosened": judgement.loosened,
            "needs": judgement.access,
        });
        entry.detail(&detail)
    }

    fn redacted(&self) -> Redacted {
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
    fn run_id(&self) -> Result<String> {
        match &self.submission.run {
            Some(name) => Ok(name.clone()),
            None => id::run(),
        }
    }

    fn note(&self, visit: &Visit, token: &str) -> RunNote {
        RunNote {
            token: token.to_owned(),
            runner: visit.peer.id,
            asked: visit.service.binder.fingerprint(&self.submission),
        }
    }

    fn refusal(&self, id: String, message: String) -> Refusal {
        Refusal {
            id,
            risk: self.judgement.risk,
            reasons: self.judgement.reasons.clone(),
            rule: self.judgement.rule.clone(),
            message,
        }
    }

    fn permission(&self, id: String, token: String, place: Place, decision: &str) -> Run {
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
        }
    }
}

async fn block(visit: &mut Visit, case: &Case) -> std::result::Result<(), Failure> {
    let id = case.run_id()?;
    let mut entry = case.entry(visit, Event::Decision);
    entry.id = Some(id.clone());
    entry.decision = Some("block".to_owned());
    let alert = json!({
        "alert": "blocked",
        "message": format!("blocked: {}", case.redacted().command),
        "rule": case.judgement.rule,
    });
    let recorded = visit
        .service
        .writer
        .write(move |ledger| {
            let alert_id = entry.id.clone();
            ledger.append(entry)?;
            let mut alarm = Entry::new(Event::Alert);
            alarm.id = alert_id;
            ledger.append(alarm.detail(&alert))
        })
        .await;
    notify::alert(
        &case.judgement.settings.on_ask,
        &id,
        &case.redacted().command,
        case.judgement.risk,
    );
    let mut message = case.judgement.message.clone();
    if let Err(error) = recorded {
        message = format!("{message} (and it could not be recorded: {error})");
    }
    let refusal = case.refusal(id, message);
    visit.connection.reply(&Answer::Blocked(refusal)).await?;
    Ok(())
}

async fn run_at_once(
    visit: &mut Visit,
    case: &Case,
    way: AtOnce,
) -> std::result::Result<(), Failure> {
    let (id, token) = (case.run_id()?, id::token()?);
    let decision = way.decision();
    let mut entry = case.entry(visit, Event::Intent);
    entry.id = Some(id.clone());
    entry.decision = Some(decision.to_owned());
    let note = case.note(visit, &token);
    let uid = visit.peer.uid;
    let (writer, run_id) = (visit.service.writer.clone(), id.clone());
    let record = writer.write(move |ledger| begin_run(ledger, &run_id, uid, &note, entry, now()));
    let run = Answer::Run(Box::new(Run {
        preview: way.preview(),
        ..case.permission(id, token, way.place(), decision)
    }));
    if !case.more {
        let recorded = recorded_or_not(visit, case, record.await).await?;
        return permit_in_one(visit, run, &recorded).await;
    }
    // The jail is being built while the disk works; it starts nothing before the
    // second reply.
    let (recorded_as, told) = tokio::join!(record, visit.connection.reply_and_go_on(&run));
    told?;
    let answer = recorded_or_not(visit, case, recorded_as).await?;
    visit.connection.reply(&answer).await?;
    Ok(())
}

/// Likewise, and remembers a run that is not in the log until that can be said in it.
async fn recorded_or_not(visit: &Visit, case: &Case, result: Result<i64>) -> Result<Answer> {
    let service = &visit.service;
    let failure = result.as_ref().err().map(ToString::to_string);
    let mut answer = recorded(case, result)?;
    let Answer::Recorded { alerts, .. } = &mut answer else {
        return Ok(answer);
    };
    match failure {
        Some(why) => {
            service.unrecorded.add(&why);
            notify::trouble(
                &case.judgement.settings.on_ask,
                &format!("a run is not in the audit log: {why}"),
            );
        }
        None => alerts.extend(service.unrecorded.tell(&service.writer).await),
    }
    Ok(answer)
}

/// What is said when the intent is durable, or is not and the policy goes on.
fn recorded(case: &Case, result: Result<i64>) -> Result<Answer> {
    match result {
        Ok(seq) => Ok(Answer::Recorded {
            seq: Some(seq.unsigned_abs()),
            alerts: case.judgement.alerts.clone(),
        }),
        // The caller's fault, not the log's.
        Err(error @ Error::Parameter(_)) => Err(error),
        Err(error) if case.judgement.settings.on_failure == OnFailure::Alert => {
            let mut alerts = case.judgement.alerts.clone();
            alerts.push(format!("this run is not in the audit log: {error}"));
            Ok(Answer::Recorded { seq: None, alerts })
        }
        Err(error) => Err(error),
    }
}

/// The permission, and that it is recorded, in one.
#[derive(Serialize)]
struct InOne<'a> {
    #[serde(flatten)]
    run: &'a Answer,
    seq: Option<u64>,
    alerts: &'a [String],
}

/// A caller that takes one reply gets the permission when it is durable.
async fn permit_in_one(
    visit: &mut Visit,
    run: Answer,
    recorded: &Answer,
) -> std::result::Result<(), Failure> {
    let (seq, alerts) = match recorded {
        Answer::Recorded { seq, alerts } => (*seq, alerts.as_slice()),
        _ => (None, &[][..]),
    };
    let both = InOne {
        run: &run,
        seq,
        alerts,
    };
    visit.connection.reply(&both).await?;
    Ok(())
}

/// Asks a person, waits as long as the caller wants, and lets run what was approved.
async fn ask(visit: &mut Visit, case: Case, place: Place) -> std::result::Result<(), Failure> {
    let mut case = case;
    let mut changed = Vec::new();
    for _ in 0..ASKED_AGAIN {
        let binding = bind(visit, &case).await?;
        let mut changes = visit.service.listen();
        let asked = match put_in_queue(visit, &case, place, &binding, &changed).await? {
            Put::Granted(run, answer) => return let_run(visit, &case, *run, answer).await,
            Put::Full { waiting } => {
                let message = format!(
                    "the approval queue is full ({waiting} requests wait): answer or clear some with `sjail queue`"
                );
                notify::trouble(&case.judgement.settings.on_ask, &message);
                let refusal = case.refusal(String::new(), message);
                visit.connection.reply(&Answer::Blocked(refusal)).await?;
                return Ok(());
            }
            Put::Waits(stored) => *stored,
        };
        match wait(visit, &case, &asked, &mut changes).await? {
            Waited::Over => return Ok(()),
            Waited::Approved => {}
        }
        match use_approval(visit, &mut case, &asked.id).await? {
            Use::Over => return Ok(()),
            Use::Drifted(what) => changed = what,
        }
    }
    let message = "what would run changes faster than it can be answered".to_owned();
    let refusal = case.refusal(String::new(), message);
    visit.connection.reply(&Answer::Expired(refusal)).await?;
    Ok(())
}

async fn bind(visit: &Visit, case: &Case) -> Result<Binding> {
    let binder = visit.service.binder.clone();
    let plan = &case.judgement.plan;
    let argv = plan.command.argv.clone();
    let env = plan.command.env.clone();
    let cwd = PathBuf::from(case.submission.cwd.as_os_str());
    let files = case.judgement.files.clone();
    let given = case.judgement.given();
    let policy = case.judgement.policy_hash.clone();
    tokio::task::spawn_blocking(move || binder.bind(&argv, &cwd, &env, (&files, &given), &policy))
        .await
        .map_err(|_| Error::WriterGone)?
}

enum Put {
    /// A standing permission covers it.
    Granted(Box<Run>, Answer),
    /// It waits.
    Waits(Box<Stored>),
    /// No room.
    Full { waiting: u64 },
}

async fn put_in_queue(
    visit: &Visit,
    case: &Case,
    place: Place,
    binding: &Binding,
    changed: &[String],
) -> Result<Put> {
    let judgement = &case.judgement;
    let lineage = visit.peer.lineage();
    let circle = process::circle(&lineage);
    let uid = visit.peer.uid;
    let here = Whereabouts {
        uid,
        kin: kin(uid, binding),
        cwd: (binding.cwd.dev, binding.cwd.ino),
        workspace: judgement.plan.workspace.path.as_bytes().to_vec(),
        circle: circle.clone(),
        session: case.submission.session.clone(),
    };
    let mut plan = judgement.plan.clone();
    plan.command.env.clear();
    let inline = judgement.settings.inline
        && visit.peer.home == Home::Host
        && visit.peer.terminal.is_some()
        && circle.len() == 1;
    let is_shown_first = case.is_shown_first(visit, place);
    let new = New {
        uid,
        twin: case.twin(uid, binding),
        ttl: judgement.settings.ttl,
        limit: judgement.settings.queue_limit,
        entry: case.entry(visit, Event::Decision),
        body: Body {
            command: judgement.command.clone(),
            typed: case.typed(),
            argv: judgement.plan.command.argv.clone(),
            redacted: case.redacted(),
            cwd: case.submission.cwd.clone(),
            workspace: judgement.plan.workspace.path.clone(),
            options: case.submission.options.clone(),
            risk: judgement.risk,
            reasons: judgement.reasons.clone(),
            rule: judgement.rule.clone(),
            needs: judgement.needs.clone(),
            access: judgement.access.clone(),
            changed: changed.to_vec(),
            user: visit.service.user_name(uid),
            agent: case.submission.agent.clone(),
            session: case.submission.session.clone(),
            peer: visit.peer.describe(),
            requester: visit.peer.id,
            circle,
            inline,
            place,
            binding: binding.clone(),
            always: judgement.always.clone(),
            subject: Subject::Command,
            evidence: None,
            commit: case.submission.commit.clone(),
            apply: None,
            on_ask: match is_shown_first {
                true => judgement.settings.on_ask.clone(),
                false => Vec::new(),
            },
        },
        plan: Some(plan),
    };
    let grants = case.submission.asking == Asking::Policy;
    let (run_id, token) = (case.run_id()?, id::token()?);
    let note = case.note(visit, &token);
    let mut intent = case.entry(visit, Event::Intent);
    intent.id = Some(run_id.clone());
    intent.decision = Some("granted".to_owned());
    let granted_id = run_id.clone();
    let outcome = visit
        .service
        .writer
        .write(move |ledger| {
            if grants && let Some(used) = permit::use_one(ledger, &here, now())? {
                intent.approver = Some(used.approver.clone());
                let seq = begin_run(ledger, &granted_id, uid, &note, intent, now())?;
                return Ok(Queued::Granted(used, seq));
            }
            request::ask(ledger, new, now()).map(Queued::Asked)
        })
        .await?;
    match outcome {
        Queued::Granted(used, seq) => {
            let mut run = case.permission(run_id, token, place, "granted");
            run.binding = Some(binding.clone());
            run.approval = Some(Approval {
                id: used.id,
                approver: used.approver,
                note: None,
            });
            let recorded = recorded(case, Ok(seq))?;
            Ok(Put::Granted(Box::new(run), recorded))
        }
        Queued::Asked(Asked::New(stored)) => {
            visit.service.tell(&stored);
            match is_shown_first {
                true => notify_late(visit, &stored),
                false => notify::asked(&judgement.settings.on_ask, &stored),
            }
            Ok(Put::Waits(stored))
        }
        Queued::Asked(Asked::Same(stored)) => Ok(Put::Waits(stored)),
        Queued::Asked(Asked::Full { waiting }) => Ok(Put::Full { waiting }),
    }
}

/// So long a preview may take before the owner hears of the question without it.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// Tells the owner when nobody has told what a preview showed; whoever tells that tells
/// the owner, too.
fn notify_late(visit: &Visit, stored: &Stored) {
    if stored.body.on_ask.is_empty() {
        return;
    }
    let (service, id) = (visit.service.clone(), stored.id.clone());
    tokio::spawn(async move {
        tokio::time::sleep(SHOWN_WITHIN).await;
        let found = service
            .readers
            .read(move |connection| request::find(connection, &id))
            .await;
        if let Ok(stored) = found
            && stored.status == RequestStatus::Pending
            && stored.body.evidence.is_none()
        {
            notify::asked(&stored.body.on_ask, &stored);
        }
    });
}

enum Queued {
    Granted(Used, i64),
    Asked(Asked),
}

impl Case {
    fn typed(&self) -> Typed {
        match &self.submission.command {
            Some(typed) => typed.clone(),
            None => Typed::Argv(self.judgement.plan.command.argv.clone()),
        }
    }

    /// Whether the caller is to tell what a preview showed before the owner hears of it.
    /// From inside a jail, or as somebody else, nothing can be tried out.
    fn is_shown_first(&self, visit: &Visit, place: Place) -> bool {
        let can = visit.peer.home == Home::Host && self.submission.user == User::Caller;
        self.submission.commit.is_some() || can && self.judgement.is_shown_first(place)
    }

    /// What identifies the same command asked again; keeping a preview is another thing
    /// than running its command.
    fn twin(&self, uid: u32, binding: &Binding) -> Hash {
        let twin = twin(uid, binding);
        match &self.submission.commit {
            Some(preview) => Hash::of(format!("{twin} {preview}").as_bytes()),
            None => twin,
        }
    }

    fn waiting(&self, visit: &Visit, stored: &Stored) -> Waiting {
        Waiting {
            id: stored.id.clone(),
            risk: stored.body.risk,
            reasons: stored.body.reasons.clone(),
            rule: stored.body.rule.clone(),
            needs: stored.body.needs.clone(),
            changed: stored.body.changed.clone(),
            expires: stored.expires,
            inline: stored.body.inline,
            wants_preview: stored.body.evidence.is_none()
                && visit.peer.id.is_some()
                && stored.body.requester == visit.peer.id
                && self.is_shown_first(visit, stored.body.place),
        }
    }

    fn patience(&self) -> Duration {
        let wait = self.submission.wait_ms;
        Duration::from_millis(wait.unwrap_or(self.judgement.settings.wait_ms))
    }
}

enum Waited {
    /// Somebody said yes.
    Approved,
    /// The caller has its answer.
    Over,
}

async fn wait(
    visit: &mut Visit,
    case: &Case,
    stored: &Stored,
    changes: &mut Receiver<Change>,
) -> std::result::Result<Waited, Failure> {
    let waiting = case.waiting(visit, stored);
    let patience = case.patience();
    if !case.more || patience.is_zero() {
        visit.connection.reply(&Answer::Pending(waiting)).await?;
        return Ok(Waited::Over);
    }
    visit
        .connection
        .reply_and_go_on(&Answer::Waiting(waiting.clone()))
        .await?;
    let until = Instant::now() + patience;
    let lapses = Instant::now()
        + Duration::from_secs(u64::try_from(stored.expires - now()).unwrap_or(0))
        + Duration::from_millis(1100);
    loop {
        let status = tokio::select! {
            change = changes.recv() => match change {
                Ok(change) if change.id == stored.id => change.status,
                Ok(_) => continue,
                // Too many changes at once: the store knows.
                Err(RecvError::Lagged(_)) => status_now(visit, &stored.id).await?,
                Err(RecvError::Closed) => return Err(Error::WriterGone.into()),
            },
            end = visit.connection.hung_up() => return Err(end.into()),
            () = tokio::time::sleep_until(lapses.min(until)) => {
                if Instant::now() < lapses {
                    visit.connection.reply(&Answer::Pending(waiting)).await?;
                    return Ok(Waited::Over);
                }
                let lapsed = visit.service.writer.write(|ledger| request::expire(ledger, now())).await?;
                for id in &lapsed {
                    visit.service.tell_status(id, RequestStatus::Expired);
                }
                status_now(visit, &stored.id).await?
            }
        };
        match status {
            RequestStatus::Pending => {}
            RequestStatus::Approved => return Ok(Waited::Approved),
            other => {
                refuse_by_status(visit, case, &stored.id, other).await?;
                return Ok(Waited::Over);
            }
        }
    }
}

async fn find(visit: &Visit, id: &str) -> Result<Stored> {
    let id = id.to_owned();
    visit
        .service
        .readers
        .read(move |connection| request::find(connection, &id))
        .await
}

async fn status_now(visit: &Visit, id: &str) -> Result<RequestStatus> {
    Ok(find(visit, id).await?.status)
}

/// The answer for a request that cannot be used.
async fn refuse_by_status(
    visit: &mut Visit,
    case: &Case,
    id: &str,
    status: RequestStatus,
) -> std::result::Result<(), Failure> {
    let stored = find(visit, id).await.ok();
    let who = stored.as_ref().and_then(|stored| stored.approver.clone());
    let note = stored.and_then(|stored| stored.note);
    let because = note.map(|note| format!(": {note}")).unwrap_or_default();
    let refusal = |message| case.refusal(id.to_owned(), message);
    let answer = match status {
        RequestStatus::Rejected => Answer::Rejected(refusal(format!(
            "rejected by {}{because}",
            who.as_deref().unwrap_or("its owner")
        ))),
        RequestStatus::Expired => Answer::Expired(refusal(format!(
            "{id} has expired{because}: submit it again"
        ))),
        RequestStatus::Used => Answer::Blocked(refusal(format!(
            "{id} was already used: an approval runs once"
        ))),
        RequestStatus::Pending | RequestStatus::Approved => {
            Answer::Expired(refusal(format!("{id} is {}", status.name())))
        }
    };
    visit.connection.reply(&answer).await?;
    Ok(())
}

enum Use {
    /// The caller has its answer.
    Over,
    /// What would run is not what was approved.
    Drifted(Vec<String>),
}

/// Uses an approval: judged and bound afresh, so that it runs only what a person saw.
async fn use_approval(
    visit: &mut Visit,
    case: &mut Case,
    id: &str,
) -> std::result::Result<Use, Failure> {
    case.judgement = judge(visit, &case.submission).await?;
    let place = match case.judgement.verdict {
        Verdict::Block => {
            block(visit, case).await?;
            return Ok(Use::Over);
        }
        Verdict::Run(place) | Verdict::Ask(place) => place,
    };
    let binding = bind(visit, case).await?;
    let token = id::token()?;
    let note = case.note(visit, &token);
    let intent = case.entry(visit, Event::Intent);
    let (owned_id, uid, present) = (id.to_owned(), visit.peer.uid, binding.clone());
    let taken = visit
        .service
        .writer
        .write(move |ledger| take(ledger, &owned_id, uid, &present, &note, intent, now()))
        .await;
    match taken {
        Ok(Taken::Run { stored, plan, seq }) => {
            visit.service.tell_status(id, RequestStatus::Used);
            let mut run = case.permission(id.to_owned(), token, place, "approved");
            // What was shown is what runs, with the caller's own variables.
            if let Some(mut plan) = plan {
                plan.command
                    .env
                    .clone_from(&case.judgement.plan.command.env);
                run.plan = *plan;
            }
            run.place = stored.body.place;
            run.apply.clone_from(&stored.body.apply);
            run.binding = Some(binding);
            run.approval = Some(Approval {
                id: id.to_owned(),
                approver: stored.approver.clone().unwrap_or_default(),
                note: stored.note.clone(),
            });
            let answer = recorded(case, Ok(seq))?;
            let_run(visit, case, run, answer).await?;
            Ok(Use::Over)
        }
        Ok(Taken::Drifted { changed, .. }) => {
            visit.service.tell_status(id, RequestStatus::Expired);
            Ok(Use::Drifted(changed))
        }
        Err(Error::WrongStatus { status, .. }) => {
            let status = RequestStatus::parse(status).unwrap_or(RequestStatus::Expired);
            if status == RequestStatus::Used && case.submission.approval.is_none() {
                // Another caller with the very same command was first: ask anew.
                return Ok(Use::Drifted(vec![
                    "the approval was used by another run of the same command".to_owned(),
                ]));
            }
            refuse_by_status(visit, case, id, status).await?;
            Ok(Use::Over)
        }
        Err(error) => Err(error.into()),
    }
}

async fn let_run(
    visit: &mut Visit,
    case: &Case,
    run: Run,
    recorded: Answer,
) -> std::result::Result<(), Failure> {
    let run = Answer::Run(Box::new(run));
    if !case.more {
        return permit_in_one(visit, run, &recorded).await;
    }
    visit.connection.reply_and_go_on(&run).await?;
    visit.connection.reply(&recorded).await?;
    Ok(())
}

/// Runs what was approved under a name (`--approval`).
async fn run_approved(
    visit: &mut Visit,
    submission: Submission,
    more: bool,
) -> std::result::Result<(), Failure> {
    let mut submission = submission;
    let id = submission.approval.clone().unwrap_or_default();
    let uid = visit.peer.uid;
    let stored = find(visit, &id)
        .await
        .ok()
        .filter(|stored| stored.uid == uid && stored.body.subject == Subject::Command);
    if let Some(stored) = &stored {
        // Alone, the name stands for the command; beside one, they must agree.
        if submission.command.is_none() {
            submission.command = Some(stored.body.typed.clone());
        }
        submission.options.clone_from(&stored.body.options);
    }
    let Some(stored) = stored.filter(|_| submission.command.is_some()) else {
        let refusal = Refusal {
            id: id.clone(),
            risk: sjail_policy::risk::Risk::Dangerous,
            reasons: Vec::new(),
            rule: "--approval".to_owned(),
            message: format!(
                "no approval {id} is known: `sjail queue list --status all` shows them"
            ),
        };
        visit.connection.reply(&Answer::Blocked(refusal)).await?;
        return Ok(());
    };
    let judgement = judge(visit, &submission).await?;
    let mut case = Case {
        redactor: Redactor::new(&submission.env),
        submission,
        judgement,
        more,
    };
    if stored.status == RequestStatus::Pending {
        let mut changes = visit.service.listen();
        // It may have been answered between the look and the listening.
        let stored = find(visit, &id).await?;
        if stored.status == RequestStatus::Pending {
            match wait(visit, &case, &stored, &mut changes).await? {
                Waited::Over => return Ok(()),
                Waited::Approved => {}
            }
        }
    }
    match use_approval(visit, &mut case, &id).await? {
        Use::Over => Ok(()),
        Use::Drifted(changed) => {
            let refusal = case.refusal(
                id.clone(),
                format!(
                    "{id} was approved for something else, and is void now: {}; submit it again",
                    changed.join("; ")
                ),
            );
            visit.connection.reply(&Answer::Expired(refusal)).await?;
            Ok(())
        }
    }
}
