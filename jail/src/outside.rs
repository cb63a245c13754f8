//! Running on the host, under approvals, what is asked for inside an agent's jail: by a
//! process of ours beside the jail, which has nothing from inside but the name of an approval.
//!
//! It is an ordinary `sjail run --approval ID`, with our own variables, no terminal and no
//! input: what may run, and where, is the broker's to say, and is recorded like any other run.

use std::io::Read;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, setsid};
use sjail_policy::bytes::ByteString;
use sjail_policy::plan::Variable;
use sjail_policy::wire::request::{DELIVER, Deliver, Elsewhere, Errand, OFFER, Offer};

use crate::client::Client;
use crate::exit::Exit;
use crate::net::ask::Asker;
use crate::net::confine;
use crate::spawn::Jail;
use crate::supervise::{Guard, Notice};
use crate::sys::{namespace, process};

/// So much of each stream is handed in: as text it fits into one message, whatever it holds.
const KEPT: usize = 64 << 10;
/// A broker that went away is looked for again so often, and after this pause.
const AGAIN: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// The process beside the jail.
#[derive(Debug)]
pub struct Outside {
    asker: Asker,
    workspace: ByteString,
    child: Option<Pid>,
}

impl Outside {
    /// For a run and its workspace; the process starts with the command.
    pub fn new(asker: Asker, workspace: ByteString) -> Outside {
        Outside {
            asker,
            workspace,
            child: None,
        }
    }

    /// Nothing more is run for a jail that has ended.
    pub fn finish(self) {
        if let Some(child) = self.child {
            let _ = kill(child, Signal::SIGKILL);
            while waitpid(child, None) == Err(Errno::EINTR) {}
        }
    }
}

impl Guard for Outside {
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        None
    }

    fn notice(&mut self, _: &Jail) -> Notice {
        Notice::GoOn
    }

    fn started(&mut self, _: &Jail) {
        let (asker, workspace) = (&self.asker, &self.workspace);
        // Without it, what is asked for inside does not run outside, and that is said there.
        self.child = namespace::apart(|| serve(asker, workspace)).ok();
    }
}

/// The process: takes one command after the other, as long as the jail is there.
fn serve(asker: &Asker, workspace: &ByteString) -> i32 {
    // No terminal, none of our descriptors, and gone with us.
    let alone = process::die_with_parent().is_ok()
        && setsid().is_ok()
        && confine::close_others(&[]).is_ok()
        && SigSet::empty().thread_set_mask().is_ok();
    if !alone {
        return 1;
    }
    let offer = Offer {
        run: asker.run.clone(),
        token: asker.token.clone(),
        workspace: workspace.clone(),
        env: std::env::vars_os()
            .map(|(name, value)| Variable {
                name: name.into(),
                value: value.into(),
            })
            .collect(),
    };
    let mut lost = 0;
    while lost < AGAIN {
        if let Ok(mut client) = Client::connect(&asker.desk)
            && client.begin(OFFER, &offer).is_ok()
        {
            while let Ok(reply) = client.next_reply() {
                lost = 0;
                if let Ok(errand) = serde_json::from_value::<Errand>(reply) {
                    hand_in(asker, &errand.ticket, run(&errand));
                }
            }
        }
        lost += 1;
        thread::sleep(PAUSE);
    }
    0
}

/// Should nobody take it, whoever waits for it is gone, too.
fn hand_in(asker: &Asker, ticket: &str, result: Elsewhere) {
    let told = Deliver {
        ticket: ticket.to_owned(),
        result,
    };
    let _ = Client::connect(&asker.desk).and_then(|mut client| client.call(DELIVER, &told));
}

fn run(errand: &Errand) -> Elsewhere {
    let started = Instant::now();
    let mut result = Elsewhere {
        id: errand.id.clone(),
        code: Exit::Failed.code(),
        ..Elsewhere::default()
    };
    if let Err(error) = run_into(errand, &mut result) {
        result.stderr = format!("sjail: what was approved could not be run outside: {error}\n")
            .as_str()
            .into();
    }
    result.duration_ms = started.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
    result
}

fn run_into(errand: &Errand, result: &mut Elsewhere) -> std::io::Result<()> {
    let own: PathBuf = std::env::current_exe()?;
    let mut command = Command::new(own);
    command
        .args(["run", "--quiet", "--no-wait", "--approval", &errand.id])
        .current_dir(errand.cwd.as_path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    process::ends_with_parent(&mut command);
    let mut child = command.spawn()?;
    let errors = child
        .stderr
        .take()
        .map(|stream| thread::spawn(|| kept(stream)));
    let (stdout, cut) = child.stdout.take().map(kept).unwrap_or_default();
    let (stderr, also_cut) = errors
        .and_then(|reader| reader.join().ok())
        .unwrap_or_default();
    let status = child.wait()?;
    result.code = status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(Exit::Failed.code());
    result.stdout = stdout.into();
    result.stderr = stderr.into();
    result.truncated = cut || also_cut;
    Ok(())
}

/// The beginning of a stream, read to its end, and whether there was more.
fn kept(mut stream: impl Read) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let _ = stream.by_ref().take(KEPT as u64).read_to_end(&mut bytes);
    let rest = std::io::copy(&mut stream, &mut std::io::sink());
    (bytes, rest.is_ok_and(|rest| rest > 0))
}
