//! The owner's side of the control socket, for the verbs of the command line: plain,
//! one call at a time, starting the broker where none is.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sjail_policy::wire::frame::{MAX_REPLY, encode};
use sjail_policy::wire::message::service;
use sjail_policy::wire::{Call, Frames, Reply, control, request};

use crate::error::{Error, Result};
use crate::paths::Places;

/// So long a broker may take to start.
const START: Duration = Duration::from_secs(10);

/// A connection to the control socket.
pub struct Client {
    stream: UnixStream,
    frames: Frames,
}

impl Client {
    /// Connects, and starts the broker where none is.
    pub fn connect() -> Result<Client> {
        let places = Places::prepare()?;
        let path = places.control_socket();
        let deadline = Instant::now() + START;
        loop {
            let source = match UnixStream::connect(&path) {
                Ok(stream) => {
                    return Ok(Client {
                        stream,
                        frames: Frames::new(MAX_REPLY),
                    });
                }
                Err(source) => source,
            };
            if Instant::now() > deadline {
                return Err(Error::Socket {
                    act: "connect to",
                    path,
                    source,
                });
            }
            // Another one may be just starting, or just ending: then this one leaves at
            // once, and the next look tells.
            start_broker()?;
            if !path.exists() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Calls a method that answers once.
    pub fn call<T: Serialize, R: DeserializeOwned>(
        &mut self,
        method: &str,
        parameters: &T,
    ) -> Result<R> {
        self.send(method, parameters, false)?;
        self.receive()
    }

    /// Calls a method that goes on answering.
    pub fn call_more<T: Serialize>(&mut self, method: &str, parameters: &T) -> Result<()> {
        self.send(method, parameters, true)
    }

    /// The next answer.
    pub fn receive<R: DeserializeOwned>(&mut self) -> Result<R> {
        let reply = self.read_reply()?;
        if let Some(name) = reply.error {
            return Err(named_error(&name, &reply.parameters));
        }
        serde_json::from_value(reply.parameters).map_err(|error| Error::Unreadable {
            what: "the broker's answer",
            problem: error.to_string(),
        })
    }

    fn send<T: Serialize>(&mut self, method: &str, parameters: &T, more: bool) -> Result<()> {
        let unreadable = |problem: String| Error::Unreadable {
            what: "a call",
            problem,
        };
        let mut call =
            Call::new(method, parameters).map_err(|error| unreadable(error.to_string()))?;
        call.more = more;
        let bytes = encode(&call).map_err(|error| unreadable(error.to_string()))?;
        self.stream.write_all(&bytes).map_err(gone)
    }

    fn read_reply(&mut self) -> Result<Reply> {
        let mut chunk = [0; 1 << 16];
        loop {
            let next = self
                .frames
                .next_message()
                .map_err(|error| Error::Unreadable {
                    what: "the broker's answer",
                    problem: error.to_string(),
                })?;
            if let Some(message) = next {
                return serde_json::from_slice(message).map_err(|error| Error::Unreadable {
                    what: "the broker's answer",
                    problem: error.to_string(),
                });
            }
            let length = self.stream.read(&mut chunk).map_err(gone)?;
            if length == 0 {
                return Err(gone(io::ErrorKind::UnexpectedEof.into()));
            }
            self.frames.push(&chunk[..length]);
        }
    }
}

fn gone(source: io::Error) -> Error {
    Error::Socket {
        act: "speak to the broker over",
        path: sjail_policy::wire::CONTROL_SOCKET.into(),
        source,
    }
}

/// Starts this very program as the broker and waits until its sockets are there.
fn start_broker() -> Result<()> {
    let own = std::env::current_exe().map_err(Error::file("find", "sjail-broker"))?;
    let mut child = Command::new(&own)
        .args(["serve", "--detach"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(Error::file("start", own))?;
    let mut word = [0; 6];
    let ready = child
        .stdout
        .take()
        .is_some_and(|mut output| output.read_exact(&mut word).is_ok());
    if ready {
        return Ok(());
    }
    // It has said why.
    Err(Error::Refused("the broker does not start".to_owned()))
}

/// An error of the broker in our own words.
fn named_error(name: &str, parameters: &serde_json::Value) -> Error {
    let text = |key: &str| parameters[key].as_str().unwrap_or_default().to_owned();
    match name {
        control::ERROR_NOT_FOUND => Error::NotFound {
            what: match parameters["what"].as_str() {
                Some("request") => "request",
                Some("grant") => "grant",
                Some("pattern") => "pattern",
                _ => "entry",
            },
            name: text("name"),
        },
        control::ERROR_WRONG_STATUS => {
            let status = control::RequestStatus::parse(&text("status"));
            Error::WrongStatus {
                id: text("id"),
                status: status.map_or("over", control::RequestStatus::name),
            }
        }
        control::ERROR_BAD_PATTERN => Error::BadPattern(text("message")),
        control::ERROR_REFUSED | request::ERROR_UNABLE => Error::Refused(text("message")),
        service::INVALID_PARAMETER => Error::Parameter(text("parameter")),
        _ => Error::Refused(format!("the broker refuses: {name} {parameters}")),
    }
}
