//! The way to the broker: one socket, one call at a time, nothing that runs beside.
//! Where no broker answers, the first caller starts one.

mod desk;
mod outcome;
mod program;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use sjail_policy::wire::control::STOP;
use sjail_policy::wire::frame::{FrameError, MAX_REPLY, MAX_REQUEST, encode};
use sjail_policy::wire::message::service::INVALID_PARAMETER;
use sjail_policy::wire::request::{self as wire, Answer, Submission};
use sjail_policy::wire::{CONTROL_SOCKET, Call, Frames, REQUEST_SOCKET, Reply};

use crate::error::Error;
pub use desk::Desk;
pub use outcome::tell;
pub use program::hand_on;
use program::start;

/// So long a broker may take to start, or to make room.
const START: Duration = Duration::from_secs(10);

/// Why a call has no answer.
#[derive(Debug)]
pub enum Trouble {
    /// It went away before it had answered; another one may know.
    Gone(io::Error),
    /// It is an older one than we are, and should make room.
    Older,
    /// It knows nothing of the run that was spoken of.
    Unknown,
    /// It cannot be reached, or not be understood.
    Said(String),
    /// It has understood, and says what is wrong with what it was asked.
    Told(String),
}

impl Trouble {
    /// The same in words.
    pub fn said(self) -> String {
        match self {
            Trouble::Gone(error) => format!("it went away: {error}"),
            Trouble::Older => "it is older than this sjail and does not make room".to_owned(),
            Trouble::Unknown => "it knows nothing of this run".to_owned(),
            Trouble::Said(text) | Trouble::Told(text) => text,
        }
    }
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Error {
        match trouble {
            Trouble::Told(text) => Error::BrokerSays(text),
            other => Error::Broker(other.said()),
        }
    }
}

/// A connection to the broker.
#[derive(Debug)]
pub struct Client {
    desk: Desk,
    stream: UnixStream,
    frames: Frames,
}

impl Client {
    /// Connects to where commands are submitted; starts the broker where none is.
    pub fn connect(desk: &Desk) -> Result<Client, Trouble> {
        let socket = desk.socket(REQUEST_SOCKET)?;
        let deadline = Instant::now() + START;
        loop {
            let error = match UnixStream::connect(&socket) {
                Ok(stream) => return Ok(Client::on(desk, stream)),
                Err(error) => error,
            };
            if desk.inside {
                return Err(Trouble::Said(format!(
                    "the broker that this jail was started with is gone ({error}): start the agent again"
                )));
            }
            if Instant::now() > deadline {
                return Err(Trouble::Said(format!(
                    "nobody answers at {}: {error}",
                    socket.display()
                )));
            }
            // Another one may be just starting, or just ending: then this one leaves at
            // once, and the next look tells.
            start(desk)?;
            if !socket.exists() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Connects to where the owner answers, which only a broker that runs has.
    pub fn control(desk: &Desk) -> Result<Client, Trouble> {
        let socket = desk.socket(CONTROL_SOCKET)?;
        UnixStream::connect(&socket)
            .map(|stream| Client::on(desk, stream))
            .map_err(|error| Trouble::Said(format!("{}: {error}", socket.display())))
    }

    fn on(desk: &Desk, stream: UnixStream) -> Client {
        Client {
            desk: desk.clone(),
            stream,
            frames: Frames::new(MAX_REPLY),
        }
    }

    /// Whose broker it is.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Submits a command; its answers come from [`Client::answer`].
    pub fn submit(&mut self, submission: &Submission) -> Result<(), Trouble> {
        self.send(wire::SUBMIT, submission, true)
    }

    /// The next answer to what was submitted.
    pub fn answer(&mut self) -> Result<Answer, Trouble> {
        loop {
            if let Some(answer) = self.answer_at_hand()? {
                return Ok(answer);
            }
            self.fill()?;
        }
    }

    /// The next answer, if it has arrived: reads once, which does not wait where a poll
    /// has said that there is something.
    pub fn answer_if_any(&mut self) -> Result<Option<Answer>, Trouble> {
        if let Some(answer) = self.answer_at_hand()? {
            return Ok(Some(answer));
        }
        self.fill()?;
        self.answer_at_hand()
    }

    /// Whether more has arrived than was asked for.
    pub fn has_more(&self) -> bool {
        self.frames.is_partial()
    }

    fn answer_at_hand(&mut self) -> Result<Option<Answer>, Trouble> {
        let Some(message) = self.frames.next_message().map_err(broken)? else {
            return Ok(None);
        };
        match Answer::read(message).map_err(unreadable)? {
            Ok(answer) => Ok(Some(answer)),
            Err(reply) => Err(refused(&reply)),
        }
    }

    /// Calls a method that answers once.
    pub fn call(&mut self, method: &str, parameters: &impl Serialize) -> Result<Value, Trouble> {
        self.send(method, parameters, false)?;
        self.next_reply()
    }

    /// Calls a method that answers again and again; its answers come from
    /// [`Client::next_reply`].
    pub fn begin(&mut self, method: &str, parameters: &impl Serialize) -> Result<(), Trouble> {
        self.send(method, parameters, true)
    }

    /// The next of several answers.
    pub fn next_reply(&mut self) -> Result<Value, Trouble> {
        loop {
            if let Some(reply) = self.reply_at_hand()? {
                return Ok(reply);
            }
            self.fill()?;
        }
    }

    /// The socket, to wait on it beside other things.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    fn send(
        &mut self,
        method: &str,
        parameters: &impl Serialize,
        more: bool,
    ) -> Result<(), Trouble> {
        let mut call = Call::new(method, parameters).map_err(unreadable)?;
        call.more = more;
        let bytes = encode(&call).map_err(|error| Trouble::Said(error.to_string()))?;
        if bytes.len() > MAX_REQUEST {
            return Err(Trouble::Said(format!(
                "the command and its environment have {} bytes together, and it takes {MAX_REQUEST} at most; `env -i` or `unset` make the environment smaller",
                bytes.len()
            )));
        }
        self.stream.write_all(&bytes).map_err(Trouble::Gone)
    }

    fn reply_at_hand(&mut self) -> Result<Option<Value>, Trouble> {
        let Some(message) = self.frames.next_message().map_err(broken)? else {
            return Ok(None);
        };
        let reply: Reply = serde_json::from_slice(message).map_err(unreadable)?;
        match reply.error {
            None => Ok(Some(reply.parameters)),
            Some(_) => Err(refused(&reply)),
        }
    }

    fn fill(&mut self) -> Result<(), Trouble> {
        let mut chunk = [0; 1 << 14];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(Trouble::Gone(io::ErrorKind::UnexpectedEof.into())),
                Ok(length) => {
                    self.frames.push(&chunk[..length]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Trouble::Gone(error)),
            }
        }
    }
}

/// Has a broker of an older version end, so that the next call starts one of ours.
pub fn make_room(desk: &Desk) -> Result<(), Trouble> {
    let mut control = Client::control(desk)?;
    match control.call(STOP, &serde_json::json!({})) {
        Ok(_) | Err(Trouble::Gone(_)) => {}
        Err(trouble) => return Err(trouble),
    }
    // It ends what it is about and hangs up last.
    let _ = control.stream.set_read_timeout(Some(START));
    while control.fill().is_ok() {}
    Ok(())
}

fn unreadable(error: serde_json::Error) -> Trouble {
    Trouble::Said(format!("its answer is not understood: {error}"))
}

fn broken(error: FrameError) -> Trouble {
    Trouble::Said(error.to_string())
}

/// An error by its Varlink name, in words.
fn refused(reply: &Reply) -> Trouble {
    let (name, parameters) = (
        reply.error.as_deref().unwrap_or_default(),
        &reply.parameters,
    );
    let number = |key: &str| parameters[key].as_u64().unwrap_or(0);
    match (name, parameters["message"].as_str()) {
        (wire::ERROR_VERSION, _) if number("broker") <= number("caller") => Trouble::Older,
        (wire::ERROR_VERSION, _) => Trouble::Said(
            "it is newer than this sjail: use the sjail that was installed with it".to_owned(),
        ),
        (wire::ERROR_UNKNOWN_ID, _) => Trouble::Unknown,
        (_, Some(message)) => Trouble::Told(message.to_owned()),
        (INVALID_PARAMETER, None) => Trouble::Told(format!(
            "a parameter is wrong: {}",
            parameters["parameter"].as_str().unwrap_or_default()
        )),
        (_, None) => Trouble::Said(format!("{name} {parameters}")),
    }
}
