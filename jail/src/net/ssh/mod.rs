//! git over ssh: the owner's ssh agent, for logins at allowed hosts and for nothing else.
//!
//! ```text
//!   ssh inside ──► socket in the jail ──► a confined process ([`serve`]) ──► the owner's agent
//!                                         judges each request ([`session`])
//! ```
//!
//! Off unless the policy or the command line names keys. Whoever is inside gets no key and no
//! signature but for a login at a host that is allowed on that port and whose key the owner
//! knows ([`known_hosts`]).

mod digest;
pub mod known_hosts;
mod serve;
mod session;
mod wire;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use ::landlock::ABI;
use nix::poll::PollFlags;
use sjail_policy::plan::{NetworkMode, Plan, SshKey};

use self::known_hosts::Known;
use self::serve::Agent;
use self::session::Allowed;
use super::attendant::Attendant;
use super::process::Process;
use super::record::{Entry, FromRelay, ToRelay};
use crate::spawn::Jail;
use crate::supervise::{Guard, Notice};
use crate::sys::socket;

/// Where the caller's own agent is.
const VARIABLE: &str = "SSH_AUTH_SOCK";

/// The agent of one run, as the supervisor sees it.
#[derive(Debug)]
pub struct Lent {
    own: Option<PathBuf>,
    keys: Vec<SshKey>,
    hosts: Vec<Known>,
    abi: Option<ABI>,
    agent: Attendant,
}

impl Lent {
    /// What the plan lends; nothing, if it names no keys.
    pub fn of(plan: &Plan, home: &Path) -> Option<Lent> {
        let network = &plan.network;
        if network.ssh_agent.is_empty() || network.mode != NetworkMode::Filtered {
            return None;
        }
        let mut hosts = known_hosts::of(network, home);
        hosts.retain(|known| known.kind == session::KIND);
        Some(Lent {
            own: std::env::var_os(VARIABLE)
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            keys: network.ssh_agent.clone(),
            hosts,
            abi: None,
            agent: Attendant::default(),
        })
    }

    /// What there is to say about it before anything runs.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.own.is_none() {
            notes.push(format!(
                "there is no ssh agent to sign with: {VARIABLE} is not set (start one with ssh-agent, add keys with ssh-add)"
            ));
        }
        if self.hosts.is_empty() {
            notes.push(
                "the ssh agent signs for nobody: no host that is allowed on its ssh port (--allow-host NAME:22) has an ssh-ed25519 key in ~/.ssh/known_hosts"
                    .to_owned(),
            );
        }
        notes
    }

    /// The Landlock that the process is held by as well.
    pub fn held_by(&mut self, abi: Option<ABI>) {
        self.abi = abi;
    }

    /// The jail has ended: what was signed, and what was not.
    pub fn finish(self) -> Vec<Entry> {
        self.agent.finish()
    }

    fn start(&self, listener: OwnedFd) -> Option<Process> {
        let allowed = Allowed {
            keys: self.keys.clone(),
            hosts: self.hosts.clone(),
        };
        let number = |listener: &OwnedFd| vec![listener.as_raw_fd()];
        let work =
            |listener, channel, _| Agent::new(channel, listener, allowed).and_then(Agent::run);
        Process::start_with(|| Ok(()), listener, number, self.abi, work).ok()
    }

    /// Hands the process a connection to the caller's own agent, or none.
    fn dial(&self, process: &Process) -> nix::Result<()> {
        let own = self.own.as_ref();
        let stream = own.and_then(|path| UnixStream::connect(path).ok());
        let word = serde_json::to_vec(&ToRelay::Dialled).unwrap_or_default();
        socket::send(
            process.channel().as_fd(),
            &word,
            stream.as_ref().map(AsFd::as_fd),
        )
    }
}

impl Guard for Lent {
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.agent.waits_for()
    }

    /// The jail has made its socket: somebody has to serve it.
    fn take_agent(&mut self, listener: OwnedFd) -> Option<OwnedFd> {
        self.agent.end();
        match self.start(listener) {
            Some(process) => self.agent.begin(process),
            None => self.agent.lose(),
        }
        None
    }

    fn notice(&mut self, _: &Jail) -> Notice {
        let Some(process) = self.agent.process() else {
            return Notice::GoOn;
        };
        let goes_on = match process.hear() {
            Ok(Some(FromRelay::Dial)) => self.dial(process).is_ok(),
            Ok(Some(_)) => true,
            // Gone, and with it every signature.
            Ok(None) | Err(_) => false,
        };
        if !goes_on {
            self.agent.lose();
        }
        Notice::GoOn
    }
}
