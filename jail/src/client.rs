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
use sjail_policy::wire::control::STOP;
use sjail_policy::wire::frame::{FrameError, MAX_REPLY, MAX_REQUEST, encode};
use sjail_policy::wire::message::service::INVALID_PARAMETER;
use sjail_policy::wire::request::{self as wire, Answer, Outcome, Submission};
use sjail_policy::wire::{CONTROL_SOCKET, Call, Frames, REQUEST_SOCKET, Reply, sockets_folder};

use crate::caller::{Account, State};
use crate::cli::RunArgs;
use crate::error::Error;
use crate::inside;

/// The broker's file, beside our own.
const BROKER: &str = "sjail-broker";
/// How a broker begins that does not start because of the policy.
const POLICY: &str = "the policy cannot be used: ";
/// So long a broker may take to start, or to make room.
const START: Duration = Duration::from_secs(10);
/// So long the broker may take to say that it has an outcome; after that it is left in
/// the spool.
const TOLD: Duration = Duration::from_secs(10);

/// Whose broker, and where it is found.
#[derive(Debug, Clone)]
pub struct Desk {
    sockets: PathBuf,
    spool: PathBuf,
    /// Whether we are in an agent's jail, where only requests can be made.
    inside: bool,
    /// The account that this process has become (`--user`): the caller's variables are not
    /// this account's.
    become_of: Option<Account>,
}

impl Desk {
    /// The one for a run: the caller's, or that of the user whom the caller has become.
    pub fn of(args: &RunArgs, account: &Account) -> Desk {
        match args.user {
            None => Desk::own(account),
            Some(_) => Desk::of_other(account),
        }
    }

    /// The caller's own.
    pub fn own(account: &Account) -> Desk {
        let inside = inside::an_agents_jail();
        let variable = std::env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|folder| folder.is_absolute());
        Desk {
            sockets: match inside {
                true => PathBuf::from(inside::DESK),
                false => sockets_folder(variable, account.uid),
            },
            spool: State::of(account).path().join("spool"),
            inside,
            become_of: None,
        }
    }

    /// Whether we are in an agent's jail.
    pub fn is_inside(&self) -> bool {
        self.inside
    }

    /// The request socket, for an agent's jail.
    pub fn request_socket(&self) -> PathBuf {
        self.sockets.join(REQUEST_SOCKET)
    }

    /// That of the account that this process has become.
    pub fn of_other(account: &Account) -> Desk {
        Desk {
            sockets: sockets_folder(None, account.uid),
            spool: State::of(account).path().join("spool"),
            inside: false,
            become_of: Some(account.clone()),
        }
    }

    /// A socket in the folder, if that is ours alone.
    fn socket(&self, name: &str) -> Result<PathBuf, Trouble> {
        if self.inside {
            // The jail's own root is nobody else's.
            return Ok(self.sockets.join(name));
        }
        let uid = nix::unistd::geteuid().as_raw();
        match fs::symlink_metadata(&self.sockets) {
            Ok(meta) if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o077 != 0 => {
                Err(Trouble::Said(format!(
                    "{} is not a folder of yours alone (mode 0700): somebody else may listen there",
                    self.sockets.display()
                )))
            }
            // Whoever starts the broker makes it.
            _ => Ok(self.sockets.join(name)),
        }
    }

    /// The broker's program with the variables of the account.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some(account) = &self.become_of {
            for name in [
                "XDG_RUNTIME_DIR",
                "XDG_STATE_HOME",
                "XDG_CONFIG_HOME",
                "XDG_DATA_HOME",
                "XDG_CACHE_HOME",
            ] {
                command.env_remove(name);
            }
            command
                .env("HOME", &account.home)
                .env("USER", &account.name)
                .env("LOGNAME", &account.name);
            if let Some(session) = self.sockets.parent()
                && session.starts_with("/run/user")
            {
                command.env("XDG_RUNTIME_DIR", session);
            }
        }
        command
    }
}

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

/// Tells how a run ended. Should the broker be gone, or go while it is told, the next one
/// is told; should there be none, it finds the outcome in the spool. Does something else
/// while the first of them is busy with it.
pub fn tell(client: &mut Client, outcome: &Outcome, meanwhile: impl FnOnce()) -> Result<(), Error> {
    let mut told = tell_once(client, outcome, meanwhile);
    if let Err(Trouble::Gone(_)) = told
        && let Ok(mut next) = Client::connect(&client.desk)
    {
        told = tell_once(&mut next, outcome, || ());
    }
    match told {
        // Never let run, or told already.
        Ok(()) | Err(Trouble::Unknown) => Ok(()),
        Err(trouble) => spool(&client.desk.spool, outcome).map_err(|error| {
            Error::Broker(format!(
                "{}; and {} cannot be written: {error}",
                trouble.said(),
                client.desk.spool.display()
            ))
        }),
    }
}

fn tell_once(
    client: &mut Client,
    outcome: &Outcome,
    meanwhile: impl FnOnce(),
) -> Result<(), Trouble> {
    // A broker that hangs must not hold up a run that is over.
    let _ = client.stream.set_read_timeout(Some(TOLD));
    let _ = client.stream.set_write_timeout(Some(TOLD));
    client.send(wire::OUTCOME, outcome, false)?;
    meanwhile();
    client.next_reply().map(drop)
}

fn spool(folder: &Path, outcome: &Outcome) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let draft = folder.join(format!("{}.new", outcome.id));
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    let told = file
        .write_all(&serde_json::to_vec(outcome)?)
        .and_then(|()| fs::rename(&draft, folder.join(format!("{}.json", outcome.id))));
    if told.is_err() {
        // Half a word is of no use to anybody.
        let _ = fs::remove_file(&draft);
    }
    told
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

/// Starts a broker and waits until it listens, or another one does.
fn start(desk: &Desk) -> Result<(), Trouble> {
    let program = program();
    let failed = |error: io::Error| {
        Trouble::Said(format!("{} cannot be started: {error}", program.display()))
    };
    let mut child = desk
        .command(&program)
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
    let _ = child.wait();
    // Whoever prints this says whose words they are.
    let why = why.trim();
    let why = why.strip_prefix("sjail: ").unwrap_or(why);
    // Without a broker the policy is the same.
    Err(match why.starts_with(POLICY) {
        true => Trouble::Told(why.to_owned()),
        false => Trouble::Said(why.to_owned()),
    })
}

/// Hands the words of a sub-command on to the broker's program; returns only when
/// that cannot be done.
pub fn hand_on(words: &[&std::ffi::OsStr]) -> Error {
    let program = program();
    // By the name that was typed: its help says it, and so does the record of an answer.
    let called = std::env::args_os().next();
    let called = called
        .as_deref()
        .and_then(|called| Path::new(called).file_name());
    let error = Command::new(&program)
        .arg0(called.unwrap_or(program.as_os_str()))
        .args(words)
        .exec();
    Error::Broker(format!("{} cannot be started: {error}", program.display()))
}

fn program() -> PathBuf {
    std::env::current_exe()
        .ok()
        .and_then(|own| own.parent().map(|folder| folder.join(BROKER)))
        .filter(|beside| beside.exists())
        .unwrap_or_else(|| Path::new(BROKER).to_owned())
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
