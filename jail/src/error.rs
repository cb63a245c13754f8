//! Everything that can go wrong outside the command: one enum, one sentence each that
//! says what was being done, why it failed and what to do.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use nix::errno::Errno;
use sjail_policy::show;
use sjail_policy::wire::request::{Refusal, Waiting};

use crate::degraded::cause::{self, Cause};
use crate::exit::Exit;
use crate::step::{Failure, Step};

/// A failed act of sjail's own.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was typed makes no sense; the sentence says why and how it is used.
    #[error("{0}")]
    Usage(String),
    /// Signal actions could not be set.
    #[error("resetting the signal actions failed: {0}")]
    Signals(Errno),
    /// New namespaces were refused.
    #[error("{}", namespaces_refused(*.0))]
    Clone(Errno),
    /// Orphans cannot be adopted.
    #[error("asking for the orphans of the jail's processes failed: {0}")]
    Adopt(Errno),
    /// Not even a plain process.
    #[error(
        "starting the jail's first process failed: {0}; are there too many processes (ulimit -u)?"
    )]
    Fork(Errno),
    /// Something that needs namespaces, where there are none.
    #[error(
        "{what} cannot be had without user namespaces, even with --allow-degraded: {cause}. The way out: {fix}"
    )]
    NotBare {
        /// What was asked for.
        what: &'static str,
        /// Why there are none.
        cause: String,
        /// What to do about it.
        fix: String,
    },
    /// A path that would have to be mounted elsewhere, where nothing can be mounted.
    #[error(
        "{} cannot be shown at {} without user namespaces: use its own path, as in --ro {}",
        show::name(from),
        show::name(dest),
        show::name(from)
    )]
    BareBind {
        /// On the host.
        from: PathBuf,
        /// In the jail.
        dest: PathBuf,
    },
    /// A folder with a protected or hidden name has too many others.
    #[error(
        "{} holds protected or hidden names and too many others to grant one by one, which is the only way without user namespaces: name a smaller folder with --workspace",
        show::name(path)
    )]
    TooManyRules {
        /// The folder.
        path: PathBuf,
    },
    /// A handle on pid 1 could not be had.
    #[error("opening {name} of the jail's first process failed: {errno}; is /proc mounted?")]
    Handle {
        /// What was to be opened.
        name: &'static str,
        /// Why it failed.
        errno: Errno,
    },
    /// The kernel gave a namespace that is our own.
    #[error("the jail's {name} namespace is the same as outside; nothing was run")]
    SharedNamespace {
        /// Which one.
        name: &'static str,
    },
    /// Quarantine refused.
    #[error(transparent)]
    Quarantine(#[from] crate::protect::quarantine::Error),
    /// Protected names could not be watched.
    #[error(transparent)]
    Protect(#[from] crate::protect::Error),
    /// A preview could not be made, found or committed.
    #[error(transparent)]
    Preview(#[from] crate::preview::Error),
    /// The binary is set-user-id.
    #[error("sjail is installed set-user-id, which it must never be: chmod u-s,g-s its file")]
    SetUserId,
    /// `--user` by somebody who is not root.
    #[error("--user needs a root caller: you are what you are")]
    UserNotRoot,
    /// `--user` with an unknown name.
    #[error("there is no user `{name}` in /etc/passwd")]
    NoUser {
        /// As it was typed.
        name: String,
    },
    /// Becoming another user failed.
    #[error("becoming user {name} failed: {errno}")]
    Become {
        /// As it was typed.
        name: String,
        /// Why.
        errno: Errno,
    },
    /// `--status-fd` names no open descriptor.
    #[error("--status-fd {number}: {errno}; open it in the calling shell, as in 3>result.json")]
    StatusFd {
        /// As it was typed.
        number: i32,
        /// Why not.
        errno: Errno,
    },
    /// A limit that was asked for cannot be held.
    #[error("{text}. Leave the limit out, or --allow-degraded goes on without it")]
    Unheld {
        /// Which, and why.
        text: String,
    },
    /// The working folder is gone or out of reach.
    #[error(
        "the working folder cannot be found ({errno}): it was deleted, or a folder above it is closed to you; cd to another one"
    )]
    Cwd {
        /// Why not.
        errno: Errno,
    },
    /// The named workspace is no folder.
    #[error("the workspace {} cannot be used: {error}", show::name(path))]
    Workspace {
        /// As it was named.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// The workspace would be the whole home or more, or a folder that everybody uses.
    #[error(
        "the workspace would be {}, which {why}: cd into a project, or say it aloud with --workspace {}",
        show::name(path),
        show::name(path)
    )]
    WorkspaceTooWide {
        /// The folder.
        path: PathBuf,
        /// What it is, as the sentence goes on.
        why: &'static str,
    },
    /// A project's policy lies above the workspace, and would not hold in it.
    #[error(
        "the workspace would be {}, where {} above it does not hold: --workspace {} keeps to it, --workspace {} goes without",
        show::name(workspace),
        show::name(policy),
        show::name(policy.parent().unwrap_or(policy)),
        show::name(workspace)
    )]
    PolicyAbove {
        /// The folder.
        workspace: PathBuf,
        /// The file.
        policy: PathBuf,
    },
    /// A folder of sjail's own was moved to where the command writes.
    #[error(
        "{name} is {}, inside the workspace {}, where the command could change what sjail keeps there; unset {name}, or set it to a folder elsewhere",
        show::name(path),
        show::name(workspace)
    )]
    OwnFolder {
        /// The variable.
        name: &'static str,
        /// Its value.
        path: PathBuf,
        /// The workspace.
        workspace: PathBuf,
    },
    /// The policy says no, or cannot be read.
    #[error("{0}")]
    Policy(#[from] sjail_policy::config::Error),
    /// A policy file is there but cannot be read.
    #[error(
        "the policy file {} cannot be read: {error}; without it nothing is run",
        show::name(path)
    )]
    PolicyFile {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// The pins of trusted policies could not be changed.
    #[error(
        "changing the trusted policies in {} failed: {error}",
        show::name(path)
    )]
    Trust {
        /// The folder they are in.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The workspace has no policy.
    #[error(
        "there is no sjail.toml, SANDBOX.md or .claude/security-config.json in {}: nothing to trust",
        show::name(path)
    )]
    NothingToTrust {
        /// The workspace.
        path: PathBuf,
    },
    /// Nobody can have read the policy.
    #[error(
        "trusting a policy needs somebody who reads it: run this on a terminal, or name the file's content with --hash SHA256"
    )]
    TrustNeedsTerminal,
    /// Standard input or output broke.
    #[error("reading or answering the questions failed: {error}")]
    Stream {
        /// Why.
        error: std::io::Error,
    },
    /// The jail could not be tied to a processor.
    #[error(
        "the command could not be held to one processor ({0}); --cpu 100% holds it by a control group"
    )]
    Processor(Errno),
    /// A program text cannot be handed on.
    #[error("the program text cannot be handed to its interpreter: {0}")]
    CodeText(Errno),
    /// A program text cannot be read.
    #[error("the program text {} cannot be read: {error}", show::name(path))]
    CodeFile {
        /// The file, or `-`.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A starter policy cannot be put into the project.
    #[error("the starter policy {} cannot be written: {why}", show::name(path))]
    Starter {
        /// The file.
        path: PathBuf,
        /// Why not, and what helps.
        why: String,
    },
    /// An agent's settings cannot be changed.
    #[error(
        "the settings {} cannot be changed: {why}; nothing was written",
        show::name(path)
    )]
    Settings {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// No sandbox goes by that name.
    #[error("there is no sandbox `{}`; `sjail sandbox list` names them", show::inert(name.as_bytes()))]
    NoSandbox {
        /// As it was typed.
        name: String,
    },
    /// A policy of another tool cannot be read.
    #[error(
        "{} cannot be taken over: {error}; name the other tool's file, such as openclaw.json or .claude/security-config.json",
        show::name(path)
    )]
    ImportFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// Another tool's policy cannot be taken over.
    #[error("{} cannot be taken over: {error}", show::name(path))]
    Import {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: sjail_policy::import::ImportError,
    },
    /// A name that a shell would not take for a tool's.
    #[error("`{}` is not the name of a tool", show::inert(name.as_bytes()))]
    ToolName {
        /// As it was typed.
        name: String,
    },
    /// Nobody is there to agree.
    #[error("a change needs somebody who has seen it: run this on a terminal, or say --yes")]
    NeedsYes,
    /// A path of the host could not be looked at.
    #[error(
        "{} cannot be shown in the jail: {error}; name a path that is there and that you may read",
        show::name(path)
    )]
    Look {
        /// Which path.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A device that every jail has is missing outside.
    #[error(
        "{} is missing; is this a container without devices?",
        show::name(path)
    )]
    NoDevice {
        /// Which device.
        path: PathBuf,
    },
    /// A pattern that would need a walk over everything.
    #[error(
        "hiding `{}` would mean looking at more than {most} names below {}: name the folder it is in, or leave out `**`",
        show::inert(pattern.as_bytes()),
        show::name(folder)
    )]
    HideTooWide {
        /// The pattern.
        pattern: sjail_policy::bytes::ByteString,
        /// Where it is looked for.
        folder: PathBuf,
        /// How many names are looked at.
        most: usize,
    },
    /// A granted path is a way to the host.
    #[error(
        "{} cannot be given to a jail ({}): {why}",
        show::name(path),
        show::name(real)
    )]
    BlockedSource {
        /// What it would give away.
        why: &'static str,
        /// As it was named.
        path: PathBuf,
        /// What it leads to.
        real: PathBuf,
    },
    /// A granted path goes through a link that a jail can have laid.
    #[error(
        "{} is, or goes through, a link to {}, and lies where jails write, so one of them may have laid it: if it is yours, name {} itself",
        show::name(path),
        show::name(real),
        show::name(real)
    )]
    LedOut {
        /// As it was named.
        path: PathBuf,
        /// What it leads to.
        real: PathBuf,
    },
    /// A destination that the jail fills itself.
    #[error(
        "nothing can be put at {} in a jail: that place is the jail's own",
        show::name(path)
    )]
    BlockedPlace {
        /// The destination.
        path: PathBuf,
    },
    /// A path that is relative or goes up.
    #[error("{} must be an absolute path without `..`", show::name(path))]
    BadPath {
        /// The path.
        path: PathBuf,
    },
    /// A destination behind a link.
    #[error(
        "{} is a symbolic link in the jail, so nothing can be put below it: name what it leads to",
        show::name(path)
    )]
    BehindLink {
        /// The link.
        path: PathBuf,
    },
    /// A destination inside something granted does not exist there.
    #[error(
        "{} does not exist, and making it would leave a stub on the host: make it first, or choose another destination",
        show::name(path)
    )]
    PlaceMissing {
        /// The destination.
        path: PathBuf,
    },
    /// A folder cannot be put on a file, nor a file on a folder.
    #[error(
        "{} is a folder where a file is to be put, or a file where a folder is",
        show::name(path)
    )]
    PlaceKind {
        /// The destination.
        path: PathBuf,
    },
    /// The sandbox's own cache folder cannot be used.
    #[error(
        "the sandbox's cache folder {} cannot be used: {error}",
        show::name(path)
    )]
    Cache {
        /// Which folder.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A NUL byte in a path, an argument or the environment.
    #[error("a path, an argument or a variable contains a NUL byte, which no program can be given")]
    NulByte,
    /// Nothing to run.
    #[error("there is no command to run: sjail run [options] -- PROGRAM ARG…")]
    NoCommand,
    /// Nothing to check.
    #[error("there is nothing to check: sjail check 'LINE', or sjail check -- PROGRAM ARG…")]
    NothingToCheck,
    /// No such program in the jail.
    #[error(
        "{}: not found in the jail. {}",
        show::name(program),
        where_to_look(program)
    )]
    NotFound {
        /// As it was typed.
        program: OsString,
    },
    /// There, but not to be executed.
    #[error("{} cannot be executed: {errno}", show::name(program))]
    NotExecutable {
        /// As it was typed.
        program: OsString,
        /// Why not.
        errno: Errno,
    },
    /// A script whose interpreter is missing.
    #[error(
        "{} needs {}, which the jail does not have",
        show::name(script),
        show::name(interpreter)
    )]
    NoInterpreter {
        /// The script.
        script: PathBuf,
        /// What its first line names.
        interpreter: OsString,
    },
    /// The working folder is not in the jail.
    #[error(
        "the working folder {} is not shown in the jail: go to the workspace, or name it with --workspace, --rw or --ro",
        show::name(path)
    )]
    CwdInvisible {
        /// The folder.
        path: PathBuf,
    },
    /// Landlock cannot be had.
    #[error("{0}; or --allow-degraded, which goes on without it")]
    Landlock(#[from] crate::landlock::Unavailable),
    /// The jail's own network could not be opened.
    #[error("opening the jail's filtered network failed: {0}; --net none runs without a network")]
    Network(Errno),
    /// The relay could not be confined, or did not start.
    #[error(
        "the network relay could not be started ({why}); nothing was run. --net none runs without a network"
    )]
    Relay {
        /// Which wall, and why.
        why: String,
    },
    /// A published port cannot be served.
    #[error("publishing port {inside} at {outside} failed: {why}")]
    Publish {
        /// Where on the host.
        outside: std::net::SocketAddr,
        /// The port inside.
        inside: u16,
        /// Why, and what to do.
        why: String,
    },
    /// More ports than there can be sockets for.
    #[error("the allowed hosts name {count} ports, and at most {most} can be served: allow fewer")]
    TooManyPorts {
        /// How many there are.
        count: usize,
        /// How many there can be.
        most: usize,
    },
    /// The channel to pid 1 broke.
    #[error("talking to the jail's first process failed: {0}")]
    Channel(Errno),
    /// The limits group would not take the jail.
    #[error("limiting the jail failed: {0}")]
    Group(crate::limits::cgroup::Error),
    /// The loop's own waiting failed.
    #[error("waiting for the jail failed: {0}")]
    Wait(Errno),
    /// The pty's master could not be set up.
    #[error("connecting the terminal to the jail failed: {0}")]
    Terminal(Errno),
    /// A folder is the way to all that is beside it.
    #[error(
        "{name} is a folder, by which the command would reach what is beside it on the host; nothing was run: give it a file, a pipe or /dev/null"
    )]
    FolderAsStream {
        /// Which stream.
        name: &'static str,
    },
    /// A step of the set-up failed inside.
    #[error("setting up the jail failed: {0:?}")]
    SetUp(Failure),
    /// The same in words.
    #[error("{sentence}")]
    Step {
        /// The words.
        sentence: String,
        /// The failure itself.
        failure: Failure,
    },
    /// What the broker finds wrong with what it was asked.
    #[error("{0}")]
    BrokerSays(String),
    /// The broker cannot be asked, or cannot decide.
    #[error(
        "the broker cannot be asked: {0}. Nothing was run; --no-broker runs without asking and without a record"
    )]
    Broker(String),
    /// A rule or a person says no.
    #[error("{}{}", .0.message, in_brackets(&.0.id))]
    Blocked(Box<Refusal>),
    /// An approval is out of date.
    #[error("{}", .0.message)]
    Expired(Box<Refusal>),
    /// Nobody has answered yet.
    #[error("approval is pending: {id}. Answer from another terminal with `sjail queue approve {id}`, then run the same again, or `sjail run --approval {id}`{hint}", id = .0.id, hint = .0.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    Pending(Box<Waiting>),
    /// What an approval is tied to changed between the answer and the start.
    #[error(
        "{} is not what was approved: it changed just now; nothing was run, submit it again",
        show::name(path)
    )]
    Drifted {
        /// The file or folder.
        path: PathBuf,
    },
    /// A command on the host could not be started.
    #[error("{} cannot be started on the host: {error}", show::name(program))]
    OnHost {
        /// The program.
        program: OsString,
        /// Why.
        error: std::io::Error,
    },
    /// Answering from inside a jail.
    #[error(
        "inside an agent's jail commands can be asked about, not answered: that is for their owner, outside"
    )]
    OwnersBusiness,
    /// What runs on the host cannot be run from inside a jail.
    #[error(
        "this may run on the host, but not from inside a jail: run it outside, `sjail run -- …`"
    )]
    HostFromInside,
    /// A jail in a jail.
    #[error(
        "{option} asks for a jail, and inside an agent's jail no other can be made: leave it out, or run the command outside"
    )]
    NoOtherJail {
        /// The option.
        option: String,
    },
    /// Pid 1 ended without saying how the command ended.
    #[error(
        "the jail's first process died before the command ended; was it killed from outside, or is memory short?"
    )]
    JailDied,
}

/// The id of what is said, where it has one.
/// A whole line that more words follow is taken for the name of a program.
fn where_to_look(program: &OsStr) -> &'static str {
    match program.as_encoded_bytes().contains(&b' ') {
        true => {
            "More words follow it, so it was taken for a program's name: a shell line is one word, and options stand before it"
        }
        false => {
            "Programs are looked for in the jail's own PATH; --ro FOLDER shows one that is elsewhere"
        }
    }
}

fn in_brackets(id: &str) -> String {
    match id {
        "" => String::new(),
        id => format!(" ({id})"),
    }
}

impl Error {
    /// The exit status that goes with the error.
    pub fn exit(&self) -> Exit {
        match self {
            Error::NotFound { .. } | Error::NoInterpreter { .. } => Exit::NotFound,
            Error::NotExecutable { .. } => Exit::NotExecutable,
            Error::Blocked(_) => Exit::Blocked,
            Error::Preview(crate::preview::Error::NotApproved { .. }) => Exit::Blocked,
            Error::Pending(_) | Error::Expired(_) | Error::Drifted { .. } => Exit::Pending,
            Error::OnHost { error, .. } if error.kind() == std::io::ErrorKind::NotFound => {
                Exit::NotFound
            }
            Error::OnHost { .. } => Exit::NotExecutable,
            Error::Policy(error) if error.is_refusal() => Exit::Blocked,
            Error::SetUp(failure) | Error::Step { failure, .. } => {
                match (failure.step, Errno::from_raw(failure.errno)) {
                    (Step::OpenProgram | Step::Exec, Errno::ENOENT) => Exit::NotFound,
                    (Step::OpenProgram | Step::Exec | Step::ProgramChanged, _) => {
                        Exit::NotExecutable
                    }
                    _ => Exit::Failed,
                }
            }
            _ => Exit::Failed,
        }
    }
}

fn namespaces_refused(errno: Errno) -> String {
    let Cause { why, fix } = cause::of(errno);
    format!(
        "creating the jail's namespaces failed ({errno}): {why}. The way out: {fix}; or --allow-degraded, which goes on with Landlock and seccomp alone and says what is not enforced"
    )
}
