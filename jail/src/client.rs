//! The way to the broker: one socket, one call at a time, nothing that runs beside.
//! Where no broker answers, the first caller starts one.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use sjail_policy::wire::frame::{MAX_REPLY, encode};
use sjail_policy::wire::request::{self as wire, Answer, Outcome, Submission};
use sjail_policy::wire::{CONTROL_SOCKET, Call, Frames, REQUEST_SOCKET, Reply};

use crate::error::Error;

/// The broker's file, beside our own.
const BROKER: &str = "sjail-broker";
/// So long a broker may take to start.
const START: Duration = Duration::from_secs(10);

/// A connection to the broker.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    frames: Frames,
}

impl Client {
    /// Connects to where commands are submitted; starts the broker where none is.
    pub fn connect() -> Result<Client, Error> {
        let folder = folder()?;
        let socket = folder.join(REQUEST_SOCKET);
        let deadline = Instant::now() + START;
        loop {
            let error = match UnixStream::connect(&socket) {
                Ok(stream) => return Ok(Client::on(stream)),
                Err(error) => error,
            };
            if Instant::now() > deadline {
                return Err(Error::Broker(format!(
                    "nobody answers at {}: {error}",
                    socket.display()
                )));
            }
            // Another one may be just starting, or just ending: then this one leaves at
            // once, and the next look tells.
            start()?;
            if !socket.exists() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Connects to where the owner answers, which only a broker that runs has.
    pub fn control() -> Result<Client, Error> {
        let socket = folder()?.join(CONTROL_SOCKET);
        UnixStream::connect(&socket)
            .map(Client::on)
            .map_err(|error| Error::Broker(format!("{}: {error}", socket.display())))
    }

    fn on(stream: UnixStream) -> Client {
        Client {
            stream,
            frames: Frames::new(MAX_REPLY),
        }
    }

    /// Submits a command; its answers come from [`Client::answer`].
    pub fn submit(&mut self, submission: &Submission) -> Result<(), Error> {
        self.send(wire::SUBMIT, submission, true)
    }

    /// The next answer to what was submitted.
    pub fn answer(&mut self) -> Result<Answer, Error> {
        let reply = self.receive()?;
        serde_json::from_value(reply).map_err(unreadable)
    }

    /// Calls a method that answers once.
    pub fn call(&mut self, method: &str, parameters: &impl Serialize) -> Result<Value, Error> {
        self.send(method, parameters, false)?;
        self.receive()
    }

    /// The socket, to wait on it beside other things.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    fn send(&mut self, method: &str, parameters: &impl Serialize, more: bool) -> Result<(), Error> {
        let mut call = Call::new(method, parameters).map_err(unreadable)?;
        call.more = more;
        let bytes = encode(&call).map_err(|error| Error::Broker(error.to_string()))?;
        self.stream.write_all(&bytes).map_err(gone)
    }

    fn receive(&mut self) -> Result<Value, Error> {
        let mut chunk = [0; 1 << 14];
        loop {
            let next = self
                .frames
                .next_message()
                .map_err(|error| Error::Broker(error.to_string()))?;
            if let Some(message) = next {
                let reply: Reply = serde_json::from_slice(message).map_err(unreadable)?;
                return match reply.error {
                    None => Ok(reply.parameters),
                    Some(name) => Err(refused(&name, &reply.parameters)),
                };
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(gone(io::ErrorKind::UnexpectedEof.into())),
                Ok(length) => self.frames.push(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(gone(error)),
            }
        }
    }
}

/// Tells how a run ended. It is written down first: should the broker be gone, or go
/// while it is told, the next one finds it.
pub fn tell(client: &mut Client, outcome: &Outcome) -> Result<(), Error> {
    let spooled = spool(outcome);
    let told = client.call(wire::OUTCOME, outcome);
    match (told, spooled) {
        (Ok(_), Ok(path)) => {
            let _ = fs::remove_file(path);
            Ok(())
        }
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => Ok(()),
        (Err(error), Err(_)) => Err(error),
    }
}

fn spool(outcome: &Outcome) -> io::Result<PathBuf> {
    let folder = folder().map_err(io::Error::other)?.join("spool");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)?;
    let draft = folder.join(format!("{}.new", outcome.id));
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(&serde_json::to_vec(outcome)?)?;
    let path = folder.join(format!("{}.json", outcome.id));
    fs::rename(&draft, &path)?;
    Ok(path)
}

/// The folder of the sockets, if it is ours alone.
fn folder() -> Result<PathBuf, Error> {
    let uid = nix::unistd::geteuid();
    let folder = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute())
        .map_or_else(
            || PathBuf::from(format!("/tmp/sjail-{uid}")),
            |folder| folder.join("sjail"),
        );
    match fs::symlink_metadata(&folder) {
        Ok(meta) if !meta.is_dir() || meta.uid() != uid.as_raw() || meta.mode() & 0o077 != 0 => {
            Err(Error::Broker(format!(
                "{} is not a folder of yours alone (mode 0700): somebody else may listen there",
                folder.display()
            )))
        }
        // Whoever starts the broker makes it.
        _ => Ok(folder),
    }
}

/// Starts a broker and waits until it listens, or another one does.
fn start() -> Result<(), Error> {
    let program = program();
    let failed = |error: io::Error| {
        Error::Broker(format!("{} cannot be started: {error}", program.display()))
    };
    let mut child = Command::new(&program)
        .args(["serve", "--detach"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut word = String::new();
    if let Some(out) = child.stdout.take() {
        out.take(6).read_to_string(&mut word).map_err(failed)?;
    }
    if word == "ready\n" {
        return Ok(());
    }
    let mut why = String::new();
    if let Some(err) = child.stderr.take() {
        err.take(4096).read_to_string(&mut why).map_err(failed)?;
    }
    Err(Error::Broker(why.trim().to_owned()))
}

/// Hands the words of a sub-command on to the broker's program; returns only when
/// that cannot be done.
pub fn hand_on(words: &[&std::ffi::OsStr]) -> Error {
    let program = program();
    let error = Command::new(&program).args(words).exec();
    Error::Broker(format!("{} cannot be started: {error}", program.display()))
}

fn program() -> PathBuf {
    std::env::current_exe()
        .ok()
        .and_then(|own| own.parent().map(|folder| folder.join(BROKER)))
        .filter(|beside| beside.exists())
        .unwrap_or_else(|| Path::new(BROKER).to_owned())
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::Broker(format!("its answer is not understood: {error}"))
}

fn gone(error: io::Error) -> Error {
    Error::Broker(format!("it went away: {error}"))
}

/// An error by its Varlink name, in words.
fn refused(name: &str, parameters: &Value) -> Error {
    match (name, parameters["message"].as_str()) {
        (wire::ERROR_VERSION, _) => Error::Broker(
            "it is of another version than this sjail: end it with `sjail-broker stop`".to_owned(),
        ),
        (_, Some(message)) => Error::Broker(message.to_owned()),
        (_, None) => Error::Broker(format!("{name} {parameters}")),
    }
}
