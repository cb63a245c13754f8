//! What all connections share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sjail_policy::wire::Call;
use sjail_policy::wire::control::RequestStatus;
use sjail_policy::wire::{control, message::service, request};
use tokio::sync::{Notify, broadcast};

use crate::account;
use crate::binding::Binder;
use crate::connection::End;
use crate::error::{Error, Result};
use crate::holders::Holders;
use crate::judge::Judge;
use crate::limits::Limits;
use crate::paths::Places;
use crate::peer::HostNamespaces;
use crate::policy_log::PolicyLog;
use crate::queue::{Stored, request as queued};
use crate::readers::Readers;
use crate::unrecorded::Unrecorded;
use crate::writer::Writer;

/// So many changes of the queue may be missed by a slow listener before it has to
/// look into the store.
const CHANGES: usize = 256;

/// The broker as its connections see it.
pub struct Service {
    /// Where its files lie.
    pub places: Places,
    /// Whose broker it is.
    pub uid: u32,
    /// What is kept goes through here.
    pub writer: Writer,
    /// What is read comes from here.
    pub readers: Readers,
    /// Judges commands.
    pub judge: Arc<Judge>,
    /// Ties approvals to files.
    pub binder: Arc<Binder>,
    /// How much each peer may ask.
    pub limits: Arc<Limits>,
    /// Which namespaces are the host's.
    pub host: HostNamespaces,
    /// Which policy the log knows of.
    pub policy_log: PolicyLog,
    /// Who runs outside for agents' jails.
    pub holders: Arc<Holders>,
    /// What the log could not take.
    pub unrecorded: Unrecorded,
    /// Tells everybody who waits what changed in the queue.
    changes: broadcast::Sender<Change>,
    /// Woken when the broker is to end.
    stop: Notify,
    /// Connections at work.
    busy: AtomicUsize,
}

/// A request that was asked, answered or has lapsed.
#[derive(Debug, Clone)]
pub struct Change {
    /// Which.
    pub id: String,
    /// How it stands now.
    pub status: RequestStatus,
}

impl Service {
    /// Puts the parts together.
    pub fn new(
        places: Places,
        writer: Writer,
        readers: Readers,
        judge: Judge,
        binder: Binder,
        host: HostNamespaces,
        policy_log: PolicyLog,
    ) -> Service {
        Service {
            places,
            uid: nix::unistd::geteuid().as_raw(),
            writer,
            readers,
            judge: Arc::new(judge),
            binder: Arc::new(binder),
            limits: Arc::default(),
            host,
            policy_log,
            holders: Arc::default(),
            unrecorded: Unrecorded::default(),
            changes: broadcast::channel(CHANGES).0,
            stop: Notify::new(),
            busy: AtomicUsize::new(0),
        }
    }

    /// The request of that name.
    pub async fn request(&self, id: &str) -> Result<Stored> {
        let id = id.to_owned();
        self.readers
            .read(move |connection| queued::find(connection, &id))
            .await
    }

    /// Hears of every change from now on.
    pub fn listen(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Tells everybody who waits.
    pub fn tell(&self, stored: &Stored) {
        self.tell_status(&stored.id, stored.status);
    }

    /// Tells everybody who waits.
    pub fn tell_status(&self, id: &str, status: RequestStatus) {
        // Nobody listens: nobody waits.
        let _ = self.changes.send(Change {
            id: id.to_owned(),
            status,
        });
    }

    /// The name of an account, as records carry it.
    pub fn user_name(&self, uid: u32) -> String {
        if uid == self.uid {
            self.judge.policies().account().name.clone()
        } else {
            account::name_of(uid)
        }
    }

    /// Ends the broker.
    pub fn stop(&self) {
        self.stop.notify_one();
    }

    /// Returns when the broker is to end.
    pub async fn stopped(&self) {
        self.stop.notified().await;
    }

    /// Counts a connection for as long as the guard lives.
    pub fn enter(self: &Arc<Service>) -> Busy {
        self.busy.fetch_add(1, Ordering::SeqCst);
        Busy(Arc::clone(self))
    }

    /// Whether any connection is open.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst) > 0
    }
}

/// A connection at work.
pub struct Busy(Arc<Service>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Seconds since 1970.
pub fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|elapsed| i64::try_from(elapsed.as_secs()).ok())
        .unwrap_or(0)
}

/// An error as Varlink names it.
pub fn varlink_error(error: &Error) -> (&'static str, Value) {
    let message = error.to_string();
    match error {
        Error::NotFound { what, name } => (
            control::ERROR_NOT_FOUND,
            json!({ "what": what, "name": name }),
        ),
        Error::WrongStatus { id, status } => (
            control::ERROR_WRONG_STATUS,
            json!({ "id": id, "status": status }),
        ),
        Error::Refused(_) => (control::ERROR_REFUSED, json!({ "message": message })),
        Error::BadPattern(_) => (control::ERROR_BAD_PATTERN, json!({ "message": message })),
        Error::Parameter(parameter) => (
            service::INVALID_PARAMETER,
            json!({ "parameter": parameter }),
        ),
        _ => (request::ERROR_UNABLE, json!({ "message": message })),
    }
}

/// Why a call has no answer.
#[derive(Debug)]
pub enum Failure {
    /// The peer is gone.
    End(End),
    /// An act failed.
    Error(Error),
    /// A Varlink error by its name.
    Named(&'static str, Value),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

impl From<End> for Failure {
    fn from(end: End) -> Failure {
        Failure::End(end)
    }
}

/// Reads a call's parameters.
pub fn parameters<T: DeserializeOwned>(call: &Call) -> std::result::Result<T, Failure> {
    let read = match call.parameters.is_null() {
        true => serde_json::from_value(json!({})),
        false => <T as serde::Deserialize>::deserialize(&call.parameters),
    };
    read.map_err(|error| Failure::Error(Error::Parameter(error.to_string())))
}
