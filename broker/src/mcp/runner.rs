//! Calling `sjail` as anybody would type it, and ending it when nobody wants it any more.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::error::{Error, Result};

/// So often a call that takes long says that it is still under way.
const BEAT: Duration = Duration::from_secs(1);

/// The program, found beside this one.
#[derive(Debug, Clone)]
pub struct Sjail(PathBuf);

/// What a call left.
#[derive(Debug)]
pub struct Said {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

impl Said {
    /// Standard output as JSON, or what was said instead as an error.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.stdout).map_err(|_| {
            let said = self.stderr.trim();
            let said = said.strip_prefix("sjail: ").unwrap_or(said);
            Error::Refused(match said.is_empty() {
                true => "sjail ended without an answer".to_owned(),
                false => said.to_owned(),
            })
        })
    }
}

impl Sjail {
    /// The one beside this program, or the one on the path.
    pub fn here() -> Result<Sjail> {
        let own = std::env::current_exe().map_err(Error::file("find", "sjail-broker"))?;
        let beside = own.with_file_name("sjail");
        Ok(Sjail(match beside.exists() {
            true => beside,
            false => PathBuf::from("sjail"),
        }))
    }

    /// Calls it with these words and this input, to its end.
    pub fn call(&self, words: &[String], input: &[u8]) -> Result<Said> {
        self.follow(words, input, &Calls::default(), &Value::Null, &mut |_| {})
    }

    /// The same for a request that can be cancelled meanwhile; `beat` hears the seconds.
    pub fn follow(
        &self,
        words: &[String],
        input: &[u8],
        calls: &Calls,
        id: &Value,
        beat: &mut dyn FnMut(u64),
    ) -> Result<Said> {
        let mut child = Command::new(&self.0)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Error::file("start", &self.0))?;
        calls.started(id, &child);
        let said = self.wait(&mut child, input, beat);
        calls.ended(id);
        said
    }

    fn wait(&self, child: &mut Child, input: &[u8], beat: &mut dyn FnMut(u64)) -> Result<Said> {
        let stdin = child.stdin.take();
        let input = input.to_vec();
        let writer = thread::spawn(move || {
            if let Some(mut stdin) = stdin {
                // A command that does not read to the end is no error.
                let _ = stdin.write_all(&input);
            }
        });
        let (done, ended) = mpsc::channel();
        let stdout = reader(child.stdout.take(), done.clone());
        let stderr = reader(child.stderr.take(), done);
        let mut seconds = 0;
        let mut open = 2;
        while open > 0 {
            match ended.recv_timeout(BEAT) {
                Ok(()) => open -= 1,
                Err(RecvTimeoutError::Timeout) => {
                    seconds += BEAT.as_secs();
                    beat(seconds);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        child.wait().map_err(Error::file("wait for", &self.0))?;
        let _ = writer.join();
        Ok(Said {
            stdout: stdout.join().unwrap_or_default(),
            stderr: String::from_utf8_lossy(&stderr.join().unwrap_or_default()).into_owned(),
        })
    }
}

fn reader(
    stream: Option<impl Read + Send + 'static>,
    done: mpsc::Sender<()>,
) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        let _ = done.send(());
        bytes
    })
}

/// The calls that are under way, by the id of their request.
#[derive(Debug, Clone, Default)]
pub struct Calls(Arc<Mutex<HashMap<String, State>>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Accepted; no program has been started yet.
    Accepted,
    /// This program runs for it.
    Running(u32),
    /// Nobody wants the answer any more.
    Cancelled,
}

impl Calls {
    fn change<T>(&self, act: impl FnOnce(&mut HashMap<String, State>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a request in; how many are under way then. Nothing if one with this id is
    /// under way already: the two could not be told apart.
    pub fn accept(&self, id: &Value) -> Option<usize> {
        self.change(|calls| match calls.entry(id.to_string()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(place) => {
                place.insert(State::Accepted);
                Some(calls.len())
            }
        })
    }

    fn started(&self, id: &Value, child: &Child) {
        let cancelled = self.change(|calls| match calls.get_mut(&id.to_string()) {
            Some(State::Cancelled) => true,
            Some(state) => {
                *state = State::Running(child.id());
                false
            }
            None => false,
        });
        if cancelled {
            end(child.id());
        }
    }

    fn ended(&self, id: &Value) {
        self.change(|calls| {
            if let Some(state @ State::Running(_)) = calls.get_mut(&id.to_string()) {
                *state = State::Accepted;
            }
        });
    }

    /// Ends what runs for a request, now or as soon as it starts.
    pub fn cancel(&self, id: &Value) {
        self.change(|calls| {
            if let Some(state) = calls.get_mut(&id.to_string()) {
                if let State::Running(pid) = *state {
                    end(pid);
                }
                *state = State::Cancelled;
            }
        });
    }

    /// The request has been dealt with; whether its answer is still wanted.
    pub fn finish(&self, id: &Value) -> bool {
        self.change(|calls| calls.remove(&id.to_string())) != Some(State::Cancelled)
    }

    /// Ends everything.
    pub fn cancel_all(&self) {
        self.change(|calls| {
            for state in calls.values_mut() {
                if let State::Running(pid) = *state {
                    end(pid);
                }
                *state = State::Cancelled;
            }
        });
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.change(|calls| calls.is_empty())
    }
}

/// Asks `sjail` to end: it takes the whole jail along. It is our child and not yet
/// waited for, so the number is still its own.
fn end(pid: u32) {
    if let Ok(pid) = i32::try_from(pid) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
    }
}
