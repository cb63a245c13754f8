//! What is asked for inside an agent's jail and may run on the host: judged as its holder
//! would run it, asked about, and run by the holder under the approval. Nothing of it comes
//! from inside but the words and the folder, which must be in the jail's workspace.

use sjail_policy::bytes::ByteString;
use sjail_policy::plan::{User, Variable};
use sjail_policy::redact::Redactor;
use sjail_policy::wire::control::{Extent, RequestStatus};
use sjail_policy::wire::request::{Answer, Asking, Place, Submission};

use super::approved::refuse_by_status;
use super::ask::{Waited, bind, question_of, refuse_full, wait, whereabouts};
use super::case::Case;
use super::note_policy;
use crate::error::Result;
use crate::holders::{self, Holder};
use crate::judge::{Judgement, Mode, Verdict};
use crate::notify;
use crate::peer::Home;
use crate::queue::answer::{self, Approver};
use crate::queue::{Asked, Stored, permit, question};
use crate::server::Visit;
use crate::service::{Failure, now};

/// What may leave the jail, and who would run it.
pub(super) struct Errand {
    case: Case,
    holder: Holder,
}

/// The submission as its holder would make it, if it comes from an agent's jail and would run
/// on the host.
pub(super) async fn leaves(
    visit: &Visit,
    submission: &Submission,
    more: bool,
) -> Result<Option<Errand>> {
    if !matches!(visit.peer.home, Home::Jail { .. }) {
        return Ok(None);
    }
    let holders = &visit.service.holders;
    let mut holder = holders.of(&visit.peer);
    if holder.is_none() && runs_outside(visit, submission).await? {
        holder = holders.wait_for(&visit.peer).await;
    }
    let Some(holder) = holder else {
        return Ok(None);
    };
    let Some(cwd) = folder(submission, &holder) else {
        return Ok(None);
    };
    let carried = submission.options.iter().all(may_be_carried);
    if !carried || submission.commit.is_some() {
        return Ok(None);
    }
    let timeouts = submission
        .options
        .iter()
        .filter(|option| option.as_bytes().starts_with(b"--timeout="));
    let submission = Submission {
        run: None,
        cwd,
        user: User::Caller,
        env: holder.env.to_vec(),
        options: timeouts.cloned().collect(),
        session: None,
        ..submission.clone()
    };
    let judgement = judged(visit, &submission).await?;
    if !is_outside(&judgement) {
        return Ok(None);
    }
    note_policy(visit, &judgement).await;
    let case = Case {
        redactor: Redactor::new(&submission.env),
        submission,
        judgement,
        more,
    };
    Ok(Some(Errand { case, holder }))
}

/// What it is, asked for beside the broker.
async fn judged(visit: &Visit, submission: &Submission) -> Result<Judgement> {
    let mut judgement = visit.service.judge.judge(submission).await?;
    judgement.settle_needs(Home::Host);
    Ok(judgement)
}

fn is_outside(judgement: &Judgement) -> bool {
    let place = match judgement.verdict {
        Verdict::Run(place) | Verdict::Ask(place) => place,
        Verdict::Block => return false,
    };
    place == Place::Host && judgement.mode == Mode::Act
}

/// Where programs are looked for until the holder says where it looks.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// Whether it might, as far as can be told without its holder: the variables inside are not
/// those that count.
async fn runs_outside(visit: &Visit, submission: &Submission) -> Result<bool> {
    let path = Variable {
        name: "PATH".into(),
        value: USUAL_PATH.into(),
    };
    let submission = Submission {
        env: vec![path],
        ..submission.clone()
    };
    Ok(is_outside(&judged(visit, &submission).await?))
}

/// Options that mean nothing outside, or only bound the run; a variable from inside is
/// carried by nobody.
fn may_be_carried(option: &ByteString) -> bool {
    [
        &b"--timeout="[..],
        b"--max-output=",
        b"--no-dry-run",
        b"--install-host=",
    ]
    .iter()
    .any(|known| option.as_bytes().starts_with(known))
}

/// Whether a person can be asked about a command that starts there: an approval is tied to
/// the folder as the host has it. From a jail that is so in its workspace only, and nobody
/// inside learns which other folders there are.
pub(super) async fn starts_where_it_may(visit: &Visit, submission: &Submission) -> bool {
    let holder = match visit.peer.home {
        Home::Host => return true,
        Home::Jail { .. } => visit.service.holders.wait_for(&visit.peer).await,
        // Whoever has gone since it connected, or never was to be seen.
        Home::Unknown => None,
    };
    holder.is_some_and(|holder| folder(submission, &holder).is_some())
}

/// Where it would start: a folder of the jail's workspace, as the host has it. A link that
/// was laid inside leads nowhere else.
fn folder(submission: &Submission, holder: &Holder) -> Option<ByteString> {
    let cwd = std::fs::canonicalize(submission.cwd.as_path()).ok()?;
    let is_inside = cwd.starts_with(holder.workspace.as_path()) && cwd.is_dir();
    (is_inside && cwd == submission.cwd.as_path()).then(|| cwd.into())
}

/// Asks where somebody must be asked, has it run, and answers with what came of it.
pub(super) async fn run(visit: &mut Visit, errand: Errand) -> std::result::Result<(), Failure> {
    let Errand { case, holder } = errand;
    let mut changes = visit.service.listen();
    let stored = match put_in_queue(visit, &case, &holder).await? {
        Asked::New(stored) | Asked::Same(stored) => stored,
        Asked::Full { waiting } => return refuse_full(visit, &case, waiting).await,
    };
    if stored.status == RequestStatus::Pending
        && let Waited::Over = wait(visit, &case, &stored, &mut changes).await?
    {
        return Ok(());
    }
    let result = holders::run(visit, &holder, &stored.id, &case.submission.cwd).await?;
    visit.connection.reply(&Answer::Elsewhere(result)).await?;
    Ok(())
}

/// Puts it in the queue, and says yes at once where the policy or a standing permission does.
async fn put_in_queue(visit: &Visit, case: &Case, holder: &Holder) -> Result<Asked> {
    let binding = bind(visit, case).await?;
    let mut new = question_of(visit, case, Place::Host, &binding, &[]);
    new.body.holder = Some(holder.process);
    let here = whereabouts(visit, case, &binding);
    let by_policy = case.judgement.verdict == Verdict::Run(Place::Host);
    let by_permit = case.submission.asking == Asking::Policy;
    let asked = visit
        .service
        .writer
        .write(move |ledger| {
            if !by_policy
                && let Some(stored) = question::answered(ledger.connection(), &new, now())?
            {
                return Ok(Asked::Same(Box::new(stored)));
            }
            let by = match by_policy {
                true => Some("policy: elevated.require_approval = false".to_owned()),
                false if by_permit => permit::use_one(ledger, &here, now())?.map(|u| u.approver),
                false => None,
            };
            let asked = question::ask(ledger, new, now())?;
            match (by, asked) {
                (Some(by), Asked::New(stored) | Asked::Same(stored)) => {
                    let by = Approver {
                        summary: by,
                        line: Vec::new(),
                        claimed: None,
                        word: None,
                    };
                    let once = Extent::default();
                    answer::approve(ledger, &stored.id, &by, &once, &[], None, now())
                        .map(|stored| Asked::New(Box::new(stored)))
                }
                (_, asked) => Ok(asked),
            }
        })
        .await?;
    if let Asked::New(stored) = &asked {
        visit.service.tell(stored);
        if stored.status == RequestStatus::Pending {
            notify::asked(&case.judgement.settings.on_ask, stored);
        }
    }
    Ok(asked)
}

/// Has an approval run that somebody in a jail holds (`--approval`): one of its own jail's.
pub(super) async fn run_approved(
    visit: &mut Visit,
    errand: Errand,
    stored: &Stored,
) -> std::result::Result<(), Failure> {
    let Errand { case, holder } = errand;
    if stored.body.holder != Some(holder.process) {
        let refusal = case.refusal(
            stored.id.clone(),
            format!("{} was asked for outside this jail", stored.id),
        );
        visit.connection.reply(&Answer::Blocked(refusal)).await?;
        return Ok(());
    }
    let mut changes = visit.service.listen();
    let stored = visit.service.request(&stored.id).await?;
    match stored.status {
        RequestStatus::Pending => {
            if let Waited::Over = wait(visit, &case, &stored, &mut changes).await? {
                return Ok(());
            }
        }
        RequestStatus::Approved => {}
        other => return refuse_by_status(visit, &case, &stored.id, other).await,
    }
    let result = holders::run(visit, &holder, &stored.id, &case.submission.cwd).await?;
    visit.connection.reply(&Answer::Elsewhere(result)).await?;
    Ok(())
}
