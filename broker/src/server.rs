//! Taking connections on the two sockets and handing each call to whoever answers it.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};

use crate::connection::{Connection, End};
use crate::control;
use crate::introspect::{self, Door};
use crate::peer::{Home, Peer};
use crate::requests;
use crate::service::{Failure, Service, varlink_error};
use sjail_policy::wire::message::service as varlink;
use sjail_policy::wire::request::ERROR_BUSY;

/// Answers on one socket until the task is dropped.
pub async fn serve(service: Arc<Service>, listener: UnixListener, door: Door) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => welcome(&service, stream, door),
            // Out of descriptors or memory: give others time to let go.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Looks at the peer and starts a task for it, or lets it go.
fn welcome(service: &Arc<Service>, stream: UnixStream, door: Door) {
    let Ok(peer) = Peer::of(&stream, service.host) else {
        return;
    };
    // The folder keeps others out already; root may come in.
    if peer.uid != service.uid && peer.uid != 0 {
        return;
    }
    let Some(guest) = service.limits.admit(peer.home) else {
        return;
    };
    let busy = service.enter();
    let service = Arc::clone(service);
    tokio::spawn(async move {
        let mut visit = Visit {
            service,
            peer,
            door,
            connection: Connection::new(stream),
        };
        while let Ok(call) = visit.connection.next_call().await {
            let answered = if guest.may_call() {
                visit.answer(call).await
            } else {
                let parameters = serde_json::json!({
                    "message": "too many calls at once from this jail; wait a second",
                });
                visit.connection.fail(ERROR_BUSY, parameters).await
            };
            if answered.is_err() {
                break;
            }
        }
        drop(busy);
    });
}

/// One peer on one connection.
pub struct Visit {
    /// The broker.
    pub service: Arc<Service>,
    /// Who it is.
    pub peer: Peer,
    /// Through which door.
    pub door: Door,
    /// The way to answer.
    pub connection: Connection,
}

impl Visit {
    async fn answer(&mut self, call: sjail_policy::wire::Call) -> Result<(), End> {
        let interface = call
            .method
            .rsplit_once('.')
            .map_or("", |(before, _)| before);
        if interface == varlink::INTERFACE {
            return match introspect::answer(self.door, &call.method, &call.parameters) {
                Ok(reply) => self.connection.reply(&reply).await,
                Err((name, parameters)) => self.connection.fail(name, parameters).await,
            };
        }
        if interface != self.door.interface() {
            let (name, parameters) = introspect::unknown_method(self.door, &call.method);
            return self.connection.fail(name, parameters).await;
        }
        let result = match self.door {
            Door::Request => requests::answer(self, call).await,
            Door::Control if self.peer.home != Home::Host => Err(Failure::from(
                crate::error::Error::Refused(
                    "the control socket is not for processes in a jail or in namespaces of their own"
                        .to_owned(),
                ),
            )),
            Door::Control => control::answer(self, call).await,
        };
        match result {
            Ok(()) => Ok(()),
            Err(Failure::End(end)) => Err(end),
            Err(Failure::Error(error)) => {
                let (name, parameters) = varlink_error(&error);
                self.connection.fail(name, parameters).await
            }
            Err(Failure::Named(name, parameters)) => self.connection.fail(name, parameters).await,
        }
    }
}
