//! One peer's connection: calls in, replies out, and no peer can make us wait.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use sjail_policy::wire::frame::{MAX_REQUEST, encode};
use sjail_policy::wire::{Call, Frames};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// A message must arrive whole, and a reply be taken, within this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// A peer that says nothing is let go after this time.
const IDLE: Duration = Duration::from_secs(600);
/// So much is read at once.
const CHUNK: usize = 16 << 10;

/// Why a connection ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The peer hung up between messages, or said nothing for long.
    Quiet,
    /// The peer broke the rules: what it did.
    Fault(String),
}

/// A [`sjail_policy::wire::Reply`] that is written as it is: a plan has hundreds of entries.
#[derive(Serialize)]
struct Answered<'a, T> {
    parameters: &'a T,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    continues: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A connection to one peer.
pub struct Connection {
    stream: UnixStream,
    frames: Frames,
    /// Whether the present call wants no replies.
    oneway: bool,
}

impl Connection {
    /// Takes a connected socket.
    pub fn new(stream: UnixStream) -> Connection {
        Connection {
            stream,
            frames: Frames::new(MAX_REQUEST),
            oneway: false,
        }
    }

    /// The next call.
    pub async fn next_call(&mut self) -> Result<Call, End> {
        loop {
            if let Some(call) = self.parsed()? {
                self.oneway = call.oneway;
                return Ok(call);
            }
            let patience = if self.frames.is_partial() {
                PATIENCE
            } else {
                IDLE
            };
            match timeout(patience, self.fill()).await {
                Ok(Ok(())) => {}
                Ok(Err(end)) => return Err(end),
                Err(_) if self.frames.is_partial() => {
                    return Err(End::Fault("a message was begun and not ended".to_owned()));
                }
                Err(_) => return Err(End::Quiet),
            }
        }
    }

    fn parsed(&mut self) -> Result<Option<Call>, End> {
        let message = self
            .frames
            .next_message()
            .map_err(|error| End::Fault(error.to_string()))?;
        message
            .map(|bytes| {
                serde_json::from_slice(bytes)
                    .map_err(|error| End::Fault(format!("not a Varlink call: {error}")))
            })
            .transpose()
    }

    async fn fill(&mut self) -> Result<(), End> {
        let mut chunk = [0; CHUNK];
        match self.stream.read(&mut chunk).await {
            Ok(0) if self.frames.is_partial() => {
                Err(End::Fault("a message was cut off".to_owned()))
            }
            Ok(0) | Err(_) => Err(End::Quiet),
            Ok(length) => {
                self.frames.push(&chunk[..length]);
                Ok(())
            }
        }
    }

    /// Returns when the peer has hung up. What it sends meanwhile is kept for later,
    /// within bounds.
    pub async fn hung_up(&mut self) -> End {
        // More calls than this in advance are a fault.
        const AHEAD: usize = 64 << 10;
        let mut kept = 0;
        loop {
            let mut chunk = [0; CHUNK];
            match self.stream.read(&mut chunk).await {
                Ok(0) | Err(_) => return End::Quiet,
                Ok(length) => {
                    kept += length;
                    if kept > AHEAD {
                        return End::Fault("too many calls at once".to_owned());
                    }
                    self.frames.push(&chunk[..length]);
                }
            }
        }
    }

    /// The last, or only, reply to a call.
    pub async fn reply<T: Serialize>(&mut self, parameters: &T) -> Result<(), End> {
        self.send(parameters, false, None).await
    }

    /// Likewise, its parameters written as JSON already.
    pub async fn reply_written(&mut self, parameters: &str) -> Result<(), End> {
        if self.oneway {
            return Ok(());
        }
        let bytes = format!("{{\"parameters\":{parameters}}}\0");
        self.write(bytes.as_bytes()).await
    }

    /// A reply that others follow.
    pub async fn reply_and_go_on<T: Serialize>(&mut self, parameters: &T) -> Result<(), End> {
        self.send(parameters, true, None).await
    }

    /// An error.
    pub async fn fail(&mut self, name: &str, parameters: Value) -> Result<(), End> {
        self.send(&parameters, false, Some(name.to_owned())).await
    }

    async fn send<T: Serialize>(
        &mut self,
        parameters: &T,
        continues: bool,
        error: Option<String>,
    ) -> Result<(), End> {
        if self.oneway {
            return Ok(());
        }
        let reply = Answered {
            parameters,
            continues,
            error,
        };
        let bytes = encode(&reply).map_err(|error| End::Fault(error.to_string()))?;
        self.write(&bytes).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), End> {
        match timeout(PATIENCE, self.stream.write_all(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Quiet),
            Err(_) => Err(End::Fault("a reply was not taken in time".to_owned())),
        }
    }
}
