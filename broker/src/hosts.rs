//! May a command that runs reach a host? Asked by the `sjail` that runs it, answered by a
//! person, remembered as far as the answer goes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use sjail_policy::bytes::ByteString;
use sjail_policy::risk::Risk;
use sjail_policy::wire::control::{RequestStatus, Scope};
use sjail_policy::wire::request::{
    AskHost, Binding, BoundFile, HostAnswer, HostVerdict, Place, Typed,
};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use crate::audit::record::{Entry, Event, Hash};
use crate::binding;
use crate::error::{Error, Result};
use crate::judge::Settings;
use crate::notify;
use crate::process;
use crate::queue::permit::{self, CONNECT, Used, Whereabouts};
use crate::queue::{Asked, Body, New, Redacted, Stored, Subject, question, request};
use crate::registries;
use crate::requests::unknown_id;
use crate::server::Visit;
use crate::service::{Change, Failure, now};
use crate::sources::NoPolicy;

/// The longest name of a host.
const LONGEST: usize = 253;
/// So many questions of one run may wait at once: a command cannot bury its owner.
const WAITING: u32 = 16;

/// Answers [`sjail_policy::wire::request::ASK_HOST`].
pub async fn ask(visit: &mut Visit, question: AskHost) -> std::result::Result<(), Failure> {
    let host_is_fine = !question.host.is_empty()
        && question.host.len() <= LONGEST
        && question.host.bytes().all(|byte| byte.is_ascii_graphic());
    if !host_is_fine {
        return Err(Error::Parameter("host is no name of a host".to_owned()).into());
    }
    let (id, uid, token) = (question.run.clone(), visit.peer.uid, question.token.clone());
    let run = visit
        .service
        .readers
        .read(move |connection| find_run(connection, &id, uid, &token))
        .await?;
    let Some(run) = run else {
        return Err(unknown_id(&question.run));
    };
    let case = Case::of(visit, question, run)?;
    let mut changes = visit.service.listen();
    let answer = match put_in_queue(visit, &case).await? {
        Put::Granted(used) => used.into(),
        Put::Refused(message) => no(None, message),
        Put::Waits(stored) => wait(visit, &case, *stored, &mut changes).await?,
    };
    visit.connection.reply(&answer).await?;
    Ok(())
}

/// What the log knows of a run that has not ended.
struct Run {
    command: String,
    cwd: String,
    workspace: ByteString,
    user: String,
    agent: Option<String>,
    session: Option<String>,
    /// The package manager that it is, if it is one that needs a registry.
    client: Option<String>,
}

fn find_run(connection: &Connection, id: &str, uid: u32, token: &str) -> Result<Option<Run>> {
    connection
        .prepare_cached(
            "SELECT command, cwd, isolation, user, agent, session, detail FROM record \
             WHERE seq = (SELECT seq FROM run WHERE id = ?1 AND uid = ?2 AND token = ?3)",
        )
        .and_then(|mut statement| {
            statement
                .query_row(params![id, uid, token], |row| {
                    let isolation: Option<String> = row.get(2)?;
                    let isolation: Value =
                        serde_json::from_str(&isolation.unwrap_or_default()).unwrap_or_default();
                    let detail: Option<String> = row.get(6)?;
                    let detail: Value =
                        serde_json::from_str(&detail.unwrap_or_default()).unwrap_or_default();
                    Ok(Run {
                        command: row.get::<_, Option<String>>(0)?.unwrap_or_default(),
                        cwd: row.get::<_, Option<String>>(1)?.unwrap_or_default(),
                        workspace: serde_json::from_value(isolation["workspace"]["path"].clone())
                            .unwrap_or_default(),
                        user: row.get::<_, Option<String>>(3)?.unwrap_or_default(),
                        agent: row.get(4)?,
                        session: row.get(5)?,
                        client: registries::only_client(&detail["options"]),
                    })
                })
                .optional()
        })
        .map_err(Error::database("look for a run"))
}

/// One question and what is known of the run that it is about.
struct Case {
    question: AskHost,
    run: Run,
    place: String,
    binding: Binding,
    settings: Settings,
}

impl Case {
    fn of(visit: &Visit, question: AskHost, run: Run) -> Result<Case> {
        let policies = visit.service.judge.policies();
        let in_force = match policies.load(run.workspace.as_path(), &[]) {
            Ok(in_force) => in_force,
            Err(NoPolicy::File(error)) => return Err(error),
            Err(NoPolicy::CommandLine(error)) => return Err(Error::Policy(error.to_string())),
        };
        let place = format!("{}:{}", question.host, question.port);
        let folder = fs::metadata(Path::new(&run.cwd)).ok();
        let binding = Binding {
            argv: vec!["connect".into(), place.as_str().into()],
            cwd: BoundFile {
                path: run.cwd.as_str().into(),
                dev: folder.as_ref().map_or(0, MetadataExt::dev),
                ino: folder.as_ref().map_or(0, MetadataExt::ino),
                sha256: None,
            },
            env: Vec::new(),
            files: Vec::new(),
            open: Vec::new(),
            // No command has this: an answer about a host never lets one run.
            policy: "network".to_owned(),
            text: None,
        };
        Ok(Case {
            settings: Settings::of(&in_force.loaded.policy),
            question,
            run,
            place,
            binding,
        })
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.question.wait_ms.unwrap_or(self.settings.wait_ms))
    }

    fn whereabouts(&self, visit: &Visit) -> Whereabouts {
        Whereabouts {
            uid: visit.peer.uid,
            kin: binding::kin(visit.peer.uid, &self.binding),
            cwd: (self.binding.cwd.dev, self.binding.cwd.ino),
            workspace: self.run.workspace.as_bytes().to_vec(),
            circle: process::circle(&visit.peer.lineage()),
            session: self.run.session.clone(),
            client: self.run.client.clone(),
        }
    }

    fn entry(&self) -> Entry {
        let mut entry = Entry::new(Event::Decision);
        entry.command = Some(format!("{CONNECT}{}", self.place));
        entry.cwd = Some(self.run.cwd.clone());
        entry.user = Some(self.run.user.clone());
        entry.agent.clone_from(&self.run.agent);
        entry.session.clone_from(&self.run.session);
        entry.risk = Some(Risk::Normal.name().to_owned());
        entry.rule = Some("network.ask".to_owned());
        entry.detail(&serde_json::json!({ "run": self.question.run, "host": self.place }))
    }

    fn request(&self, visit: &Visit) -> New {
        let uid = visit.peer.uid;
        let command = format!("{CONNECT}{}", self.place);
        let mut reasons = vec![format!("{} runs and asks for it", self.run.command)];
        reasons.extend(self.question.reason.clone());
        reasons.extend(self.run.client.as_ref().map(|client| {
            format!("no settings name a registry of {client}: always allows it for {client} alone")
        }));
        // It is of no use to anybody once nobody waits for it.
        let waits = i64::try_from(self.patience().as_secs()).unwrap_or(i64::MAX);
        New {
            uid,
            twin: Hash::of(format!("{} {}", self.question.run, self.place).as_bytes()),
            ttl: self.settings.ttl.min(waits.saturating_add(1)),
            limit: self.settings.queue_limit,
            entry: self.entry(),
            body: Body {
                typed: Typed::Argv(self.binding.argv.clone()),
                argv: self.binding.argv.clone(),
                redacted: Redacted {
                    command: command.clone(),
                    argv: self.binding.argv.clone(),
                },
                command,
                cwd: self.run.cwd.as_str().into(),
                workspace: self.run.workspace.clone(),
                options: Vec::new(),
                risk: Risk::Normal,
                reasons,
                rule: "network.ask".to_owned(),
                needs: vec![format!("the network: {}", self.place)],
                access: Vec::new(),
                changed: Vec::new(),
                user: self.run.user.clone(),
                agent: self.run.agent.clone(),
                session: self.run.session.clone(),
                peer: visit.peer.describe(),
                requester: visit.peer.id,
                circle: process::circle(&visit.peer.lineage()),
                inline: false,
                place: Place::Jail,
                binding: self.binding.clone(),
                always: None,
                subject: Subject::Host {
                    run: self.question.run.clone(),
                    client: self.run.client.clone(),
                },
                holder: None,
                evidence: None,
                commit: None,
                apply: None,
                on_ask: Vec::new(),
            },
            plan: None,
        }
    }
}

enum Put {
    /// An earlier answer covers it.
    Granted(Used),
    /// It waits.
    Waits(Box<Stored>),
    /// It is not even asked.
    Refused(String),
}

async fn put_in_queue(visit: &Visit, case: &Case) -> Result<Put> {
    let (here, new, run) = (
        case.whereabouts(visit),
        case.request(visit),
        case.question.run.clone(),
    );
    let put = visit
        .service
        .writer
        .write(move |ledger| {
            if let Some(used) = permit::use_one(ledger, &here, now())? {
                return Ok(Put::Granted(used));
            }
            if question::waiting_for_run(ledger.connection(), &run)? >= WAITING {
                return Ok(Put::Refused(format!(
                    "{WAITING} hosts of this run wait for an answer already"
                )));
            }
            Ok(match question::ask(ledger, new, now())? {
                Asked::New(stored) | Asked::Same(stored) => Put::Waits(stored),
                Asked::Full { waiting } => {
                    Put::Refused(format!("the approval queue is full ({waiting} waiting)"))
                }
            })
        })
        .await?;
    if let Put::Waits(stored) = &put {
        visit.service.tell(stored);
        notify::asked(&case.settings.on_ask, stored);
    }
    Ok(put)
}

/// Holds the call until somebody has answered or the time is over.
async fn wait(
    visit: &mut Visit,
    case: &Case,
    stored: Stored,
    changes: &mut Receiver<Change>,
) -> std::result::Result<HostAnswer, Failure> {
    let until = Instant::now() + case.patience();
    loop {
        let status = tokio::select! {
            change = changes.recv() => match change {
                Ok(change) if change.id == stored.id => change.status,
                Ok(_) => continue,
                Err(RecvError::Lagged(_)) => visit.service.request(&stored.id).await?.status,
                Err(RecvError::Closed) => return Err(Error::WriterGone.into()),
            },
            end = visit.connection.hung_up() => {
                withdraw(visit, &stored.id).await?;
                return Err(end.into());
            }
            () = tokio::time::sleep_until(until) => {
                withdraw(visit, &stored.id).await?;
                // Somebody may have been quicker by a moment.
                visit.service.request(&stored.id).await?.status
            }
        };
        match status {
            RequestStatus::Pending => {}
            RequestStatus::Approved => return use_answer(visit, case, &stored.id).await,
            _ => {
                let stored = visit.service.request(&stored.id).await?;
                let message = match (stored.status, stored.note) {
                    (RequestStatus::Rejected, Some(note)) => format!("rejected: {note}"),
                    (RequestStatus::Rejected, None) => "rejected".to_owned(),
                    _ => "nobody has answered in time".to_owned(),
                };
                let mut answer = no(Some(stored.id), message);
                answer.approver = stored.approver;
                return Ok(answer);
            }
        }
    }
}

/// Nobody waits for the answer any more.
async fn withdraw(visit: &Visit, id: &str) -> Result<()> {
    let (name, gone) = (id.to_owned(), "nobody waits for it any more");
    let done = visit
        .service
        .writer
        .write(move |ledger| request::withdraw(ledger, &name, gone))
        .await;
    match done {
        Ok(()) => visit.service.tell_status(id, RequestStatus::Expired),
        // Answered just now.
        Err(Error::WrongStatus { .. }) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The yes is used up; how far it goes is what the grant says that came with it.
async fn use_answer(
    visit: &Visit,
    case: &Case,
    id: &str,
) -> std::result::Result<HostAnswer, Failure> {
    let (name, here) = (id.to_owned(), case.whereabouts(visit));
    let (stored, used) = visit
        .service
        .writer
        .write(move |ledger| {
            let stored = request::use_up(ledger, &name)?;
            Ok((stored, permit::find(ledger, &here, now())?))
        })
        .await?;
    visit.service.tell_status(id, RequestStatus::Used);
    Ok(HostAnswer {
        answer: verdict(used.map_or(Scope::Once, |used| used.scope)),
        id: Some(stored.id),
        approver: stored.approver,
        message: None,
    })
}

impl From<Used> for HostAnswer {
    fn from(used: Used) -> HostAnswer {
        HostAnswer {
            answer: verdict(used.scope),
            id: Some(used.id),
            approver: Some(used.approver),
            message: None,
        }
    }
}

fn verdict(scope: Scope) -> HostVerdict {
    match scope {
        Scope::Once => HostVerdict::Once,
        Scope::Session => HostVerdict::Session,
        Scope::Workspace => HostVerdict::Workspace,
        Scope::Always => HostVerdict::Always,
    }
}

fn no(id: Option<String>, message: String) -> HostAnswer {
    HostAnswer {
        answer: HostVerdict::No,
        id,
        approver: None,
        message: Some(message),
    }
}
