//! The `sjail`s that hold agents' jails and run outside, under approvals, what is asked for
//! inside. Who holds whom is the kernel's word: the holder is among the requester's parents.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use sjail_policy::bytes::ByteString;
use sjail_policy::plan::Variable;
use sjail_policy::wire::request::{Deliver, ERROR_BUSY, Elsewhere, Errand, Offer};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

use crate::error::{Error, Result};
use crate::id;
use crate::peer::{Home, Peer};
use crate::process::ProcessId;
use crate::requests::unknown_id;
use crate::server::Visit;
use crate::service::Failure;

/// So many commands may wait for one holder: it runs one after the other.
const WAITING: usize = 8;

/// So long after its start a holder may take to make its offer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Everybody who holds a jail and has offered to run for it.
#[derive(Default)]
pub struct Holders {
    state: Mutex<State>,
    /// Woken when somebody offers.
    arrived: Notify,
}

#[derive(Default)]
struct State {
    offers: HashMap<ProcessId, Holder>,
    /// By ticket: who runs it, and who waits for what comes of it.
    errands: HashMap<String, (ProcessId, oneshot::Sender<Elsewhere>)>,
}

/// Who runs outside for one jail.
#[derive(Debug, Clone)]
pub struct Holder {
    /// The `sjail` that made the jail.
    pub process: ProcessId,
    /// Its own variables.
    pub env: Arc<Vec<Variable>>,
    /// The jail's workspace, links resolved.
    pub workspace: ByteString,
    sender: mpsc::Sender<Errand>,
}

impl Holders {
    /// Who holds the jail that a peer is in.
    pub fn of(&self, peer: &Peer) -> Option<Holder> {
        if !matches!(peer.home, Home::Jail { .. }) {
            return None;
        }
        let lineage = peer.lineage();
        let state = self.lock();
        lineage
            .iter()
            .find_map(|stat| state.offers.get(&stat.id).cloned())
    }

    /// Likewise; a holder makes its offer when its command has started, so the first words from
    /// inside may be there before it.
    pub async fn wait_for(&self, peer: &Peer) -> Option<Holder> {
        let found = async {
            loop {
                let arrived = self.arrived.notified();
                if let Some(holder) = self.of(peer) {
                    return holder;
                }
                arrived.await;
            }
        };
        timeout(PATIENCE, found).await.ok()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers [`sjail_policy::wire::request::OFFER`] until the holder hangs up.
pub async fn offer(visit: &mut Visit, offer: Offer) -> std::result::Result<(), Failure> {
    if visit.peer.home != Home::Host {
        return Err(Error::Refused("nothing in a jail runs for others".to_owned()).into());
    }
    let (run, uid, token) = (offer.run.clone(), visit.peer.uid, offer.token);
    let runner = visit
        .service
        .readers
        .read(move |connection| runner(connection, &run, uid, &token))
        .await?;
    // A child of the run's own `sjail`, or that itself.
    let Some(runner) = runner.filter(|runner| visit.peer.lineage().iter().any(|p| p.id == *runner))
    else {
        return Err(unknown_id(&offer.run));
    };
    let workspace = std::fs::canonicalize(offer.workspace.as_path())
        .map_err(Error::file("look at", offer.workspace.as_path()))?;
    let (sender, mut errands) = mpsc::channel(WAITING);
    let holders = Arc::clone(&visit.service.holders);
    let holder = Holder {
        process: runner,
        env: Arc::new(offer.env),
        workspace: workspace.into(),
        sender: sender.clone(),
    };
    holders.lock().offers.insert(runner, holder);
    holders.arrived.notify_waiters();
    let end = loop {
        tokio::select! {
            Some(errand) = errands.recv() => {
                if let Err(end) = visit.connection.reply_and_go_on(&errand).await {
                    break end;
                }
            }
            end = visit.connection.hung_up() => break end,
        }
    };
    let mut state = holders.lock();
    // Unless a later offer of the same holder has taken its place.
    let is_the_last = |holder: &Holder| holder.sender.same_channel(&sender);
    if state.offers.get(&runner).is_some_and(is_the_last) {
        state.offers.remove(&runner);
        // Whoever waits hears that nothing comes any more.
        state.errands.retain(|_, (holder, _)| *holder != runner);
    }
    Err(end.into())
}

/// The process that runs it.
fn runner(connection: &Connection, id: &str, uid: u32, token: &str) -> Result<Option<ProcessId>> {
    connection
        .prepare_cached("SELECT pid, started FROM run WHERE id = ?1 AND uid = ?2 AND token = ?3")
        .and_then(|mut statement| {
            statement
                .query_row(params![id, uid, token], |row| {
                    let started: i64 = row.get(1)?;
                    Ok(ProcessId {
                        pid: row.get(0)?,
                        started: started.cast_unsigned(),
                    })
                })
                .optional()
        })
        .map_err(Error::database("look for a run"))
}

/// Answers [`sjail_policy::wire::request::DELIVER`].
pub async fn deliver(visit: &mut Visit, told: Deliver) -> std::result::Result<(), Failure> {
    let waiting = match visit.peer.home {
        Home::Host => visit.service.holders.lock().errands.remove(&told.ticket),
        Home::Jail { .. } | Home::Unknown => None,
    };
    let Some((_, waiting)) = waiting else {
        return Err(unknown_id(&told.ticket));
    };
    // Whoever hung up does not want to know.
    let _ = waiting.send(told.result);
    visit.connection.reply(&serde_json::json!({})).await?;
    Ok(())
}

/// Has an approval run outside, and waits for what comes of it.
pub async fn run(
    visit: &mut Visit,
    holder: &Holder,
    id: &str,
    cwd: &ByteString,
) -> std::result::Result<Elsewhere, Failure> {
    let ticket = id::token()?;
    let (sender, result) = oneshot::channel();
    let holders = Arc::clone(&visit.service.holders);
    holders
        .lock()
        .errands
        .insert(ticket.clone(), (holder.process, sender));
    let errand = Errand {
        id: id.to_owned(),
        ticket: ticket.clone(),
        cwd: cwd.clone(),
    };
    if holder.sender.try_send(errand).is_err() {
        holders.lock().errands.remove(&ticket);
        let message = format!(
            "too many commands of this jail wait to run outside: try `sjail run --approval {id}` later"
        );
        return Err(Failure::Named(
            ERROR_BUSY,
            serde_json::json!({ "message": message }),
        ));
    }
    let told = tokio::select! {
        told = result => told,
        end = visit.connection.hung_up() => {
            holders.lock().errands.remove(&ticket);
            return Err(end.into());
        }
    };
    told.map_err(|_| {
        Error::Refused(
            "the sjail that holds this jail runs nothing outside any more: start the agent again"
                .to_owned(),
        )
        .into()
    })
}
