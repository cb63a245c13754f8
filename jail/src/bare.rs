//! Running a command without making a jail: on the host, where its owner has said so (an
//! elevated pattern, `sandbox.mode`), or in the agent's jail that we are in already. The
//! broker has recorded it; time and output are bounded here.

use std::io::{IsTerminal, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use sjail_policy::plan::Plan;

use crate::cli::RunArgs;
use crate::error::Error;
use crate::outcome::{Cause, Outcome};
use crate::output::Captured;
use crate::permission::Permission;
use crate::report::Report;
use crate::result::{Output, Usage};
use crate::stdio::KEPT_BY_DEFAULT;
use crate::sys;

/// Where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// On the host, with the caller's own variables.
    Host,
    /// In the jail that the caller is in, with the variables of the plan.
    AgentsJail,
}

/// Runs it with the caller's own streams, or keeps its output where that is asked for.
pub fn run(
    args: &RunArgs,
    plan: &Plan,
    ground: Ground,
    permission: &mut Permission,
    report: &mut Report,
) -> Result<Outcome, Error> {
    permission.confirm()?;
    match ground {
        Ground::Host => report.note(match permission.run().decision.as_str() {
            "allow" => "this runs on the host, outside any jail, as `sandbox.mode` says",
            _ => "this runs on the host, outside any jail, as it was approved",
        }),
        Ground::AgentsJail => report.held_outside(),
    }
    let mut words = plan.command.argv.iter();
    let program = words.next().ok_or(Error::NoCommand)?.as_os_str();
    let mut command = Command::new(program);
    // Where its caller is: the plan's folder is the one inside a jail.
    command.args(words.map(|word| word.as_os_str()));
    let variables = match ground {
        Ground::Host => &plan.environment.set,
        Ground::AgentsJail => {
            command.env_clear();
            &plan.command.env
        }
    };
    for variable in variables {
        command.env(variable.name.as_os_str(), variable.value.as_os_str());
    }
    // At a terminal it must stay in the group that may read from it.
    let alone = !std::io::stdin().is_terminal();
    if alone {
        command.process_group(0);
    }
    let limit = plan.limits.output.map(|size| size.bytes());
    let tapped = args.json || limit.is_some();
    if tapped {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    sys::process::ends_with_parent(&mut command);
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| Error::OnHost {
        program: program.to_owned(),
        error,
    })?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let end = move || {
        let _ = match alone {
            true => killpg(pid, Signal::SIGKILL),
            false => kill(pid, Signal::SIGKILL),
        };
    };
    let room = Arc::new(AtomicU64::new(match (args.json, limit) {
        (true, limit) => limit.unwrap_or(KEPT_BY_DEFAULT),
        (false, limit) => limit.unwrap_or(u64::MAX),
    }));
    let taps = [
        tap(
            child.stdout.take(),
            Sink::of(args, Sink::Stdout),
            &room,
            end,
        ),
        tap(
            child.stderr.take(),
            Sink::of(args, Sink::Stderr),
            &room,
            end,
        ),
    ];
    let timeout = plan.limits.timeout.map(|time| time.to_std());
    let (status, timed_out) = wait(child, timeout, end).map_err(|error| Error::OnHost {
        program: program.to_owned(),
        error,
    })?;
    // What it left behind in its group ends with it, and with that its pipes.
    if alone {
        end();
    }
    let [stdout, stderr] = taps.map(|tap| tap.and_then(|tap| tap.join().ok()));
    let too_much = |kept: &Option<Captured>| kept.as_ref().is_some_and(|kept| kept.truncated);
    let cause = match timed_out {
        Some(limit) => Some(Cause::Timeout(limit)),
        None if !args.json && (too_much(&stdout) || too_much(&stderr)) => Some(Cause::Output {
            limit: limit.unwrap_or_default(),
        }),
        None => None,
    };
    Ok(Outcome {
        status: status.into_raw(),
        cause,
        output: match args.json {
            true => Output { stdout, stderr },
            false => Output::default(),
        },
        tail: Vec::new(),
        duration: started.elapsed(),
        usage: Usage::default(),
        remains: None,
    })
}

/// Waits for its end, or ends it when its time is up, which is then said.
fn wait(
    mut child: Child,
    timeout: Option<Duration>,
    end: impl Fn(),
) -> std::io::Result<(ExitStatus, Option<Duration>)> {
    let Some(timeout) = timeout else {
        return Ok((child.wait()?, None));
    };
    let (done, ended) = mpsc::channel();
    let waiter = thread::spawn(move || {
        let status = child.wait();
        let _ = done.send(());
        status
    });
    let timed_out = match ended.recv_timeout(timeout) {
        Err(RecvTimeoutError::Timeout) => {
            end();
            Some(timeout)
        }
        Ok(()) | Err(RecvTimeoutError::Disconnected) => None,
    };
    let status = waiter
        .join()
        .map_err(|_| std::io::Error::other("nobody waited for it"))??;
    Ok((status, timed_out))
}

/// Where output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sink {
    Kept,
    Stdout,
    Stderr,
}

impl Sink {
    fn of(args: &RunArgs, own: Sink) -> Sink {
        match args.json {
            true => Sink::Kept,
            false => own,
        }
    }

    fn take(self, bytes: &[u8], kept: &mut Vec<u8>) {
        // A reader that has gone away is no reason to end differently.
        let _ = match self {
            Sink::Kept => kept.write_all(bytes),
            Sink::Stdout => std::io::stdout().write_all(bytes),
            Sink::Stderr => std::io::stderr().write_all(bytes),
        };
    }
}

/// Reads one stream to its end; what is beyond the room that both share is dropped where
/// output is kept, and ends the command where it is passed on.
fn tap(
    stream: Option<impl Read + Send + 'static>,
    sink: Sink,
    room: &Arc<AtomicU64>,
    end: impl Fn() + Send + 'static,
) -> Option<JoinHandle<Captured>> {
    let mut stream = stream?;
    let room = Arc::clone(room);
    Some(thread::spawn(move || {
        let mut captured = Captured::default();
        let mut chunk = vec![0; 1 << 16];
        while let Ok(length @ 1..) = stream.read(&mut chunk) {
            let asked = length as u64;
            let left = room
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    Some(left.saturating_sub(asked))
                })
                .unwrap_or_default();
            let taken = usize::try_from(left.min(asked)).unwrap_or(length);
            sink.take(chunk.get(..taken).unwrap_or_default(), &mut captured.bytes);
            if taken < length && !captured.truncated {
                captured.truncated = true;
                if sink != Sink::Kept {
                    end();
                }
            }
        }
        if sink == Sink::Stdout {
            let _ = std::io::stdout().flush();
        }
        captured
    }))
}
