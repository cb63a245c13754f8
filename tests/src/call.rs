//! A program to be run, running, and what it left.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::case::ensure;
use crate::{Terminal, Verdict, wait};

/// A program that is about to be run, with its words, folder and environment.
#[derive(Debug)]
pub struct Call {
    command: Command,
    shown: Vec<OsString>,
    input: Vec<u8>,
    inherited: Vec<OwnedFd>,
}

impl Call {
    /// A program with no arguments, an empty standard input, the caller's
    /// environment and folder.
    pub fn new(program: impl AsRef<OsStr>) -> Call {
        Call {
            command: Command::new(&program),
            shown: vec![program.as_ref().to_os_string()],
            input: Vec::new(),
            inherited: Vec::new(),
        }
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = S>) -> Call {
        for word in words {
            self.shown.push(word.as_ref().to_os_string());
            self.command.arg(word);
        }
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Call {
        self.command.env(name, value);
        self
    }

    /// Removes a variable.
    pub fn without_env(mut self, name: impl AsRef<OsStr>) -> Call {
        self.command.env_remove(name);
        self
    }

    /// Sets the working folder.
    pub fn cwd(mut self, folder: impl AsRef<Path>) -> Call {
        self.command.current_dir(folder);
        self
    }

    /// Gives bytes on standard input, then its end.
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Call {
        self.input = bytes.into();
        self
    }

    /// Lets a descriptor of the test be inherited under its own number, as a
    /// careless caller would.
    pub fn leaking(mut self, descriptor: OwnedFd) -> Call {
        self.inherited.push(descriptor);
        self
    }

    /// Runs something between fork and exec (signal-safe calls only).
    ///
    /// # Safety
    /// As [`CommandExt::pre_exec`].
    pub unsafe fn before_exec(
        mut self,
        act: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
    ) -> Call {
        // SAFETY: handed on to the caller of this function.
        unsafe { self.command.pre_exec(act) };
        self
    }

    /// The command itself, for what this type has no word for.
    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Runs it to its end, with both outputs collected.
    pub fn output(self) -> Verdict<Output> {
        self.start()?.finish()
    }

    /// Starts it with pipes on all three standard descriptors.
    pub fn start(mut self) -> Verdict<Running> {
        self.leak_inherited();
        self.command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = self
            .command
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("{:?}: {error}", self.shown)))?;
        Ok(Running {
            child,
            shown: self.shown,
            input: self.input,
        })
    }

    /// Starts it as the foreground program of a new pseudo-terminal of 24 rows
    /// and 80 columns.
    pub fn terminal(mut self) -> Verdict<Terminal> {
        self.leak_inherited();
        Terminal::start(self.command, self.shown)
    }

    fn leak_inherited(&mut self) {
        let numbers: Vec<i32> = self.inherited.iter().map(AsRawFd::as_raw_fd).collect();
        if numbers.is_empty() {
            return;
        }
        let clear = move || {
            for &number in &numbers {
                // SAFETY: fcntl on descriptors that the parent keeps open across the fork.
                if unsafe { libc::fcntl(number, libc::F_SETFD, 0) } < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        };
        // SAFETY: the closure only calls fcntl, which is signal-safe.
        unsafe { self.command.pre_exec(clear) };
    }
}

/// A program that is running with pipes on 0, 1 and 2.
#[derive(Debug)]
pub struct Running {
    child: Child,
    shown: Vec<OsString>,
    input: Vec<u8>,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Verdict {
        Ok(kill(self.pid(), signal)?)
    }

    /// Its standard input, to be written step by step; dropping it is the end.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Reads its standard output up to and with the next line end.
    pub fn line(&mut self) -> Verdict<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        if let Some(stdout) = &mut self.child.stdout {
            while stdout.read(&mut byte)? == 1 {
                line.push(byte[0]);
                if byte[0] == b'\n' {
                    break;
                }
            }
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Whether it has ended.
    pub fn ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits until a file appears that the program is known to make.
    pub fn wait_for_file(&mut self, path: impl Into<PathBuf>) -> Verdict {
        let path = path.into();
        wait::until_true(&format!("{} appears", path.display()), || path.exists())
    }

    /// Gives the rest of the input, then waits for the end.
    pub fn finish(mut self) -> Verdict<Output> {
        let writer = self.child.stdin.take().map(|mut stdin| {
            let input = std::mem::take(&mut self.input);
            // A program that ends before it has read everything is no error.
            thread::spawn(move || drop(stdin.write_all(&input)))
        });
        let errors = self.child.stderr.take().map(|mut stderr| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = stderr.read_to_end(&mut bytes);
                bytes
            })
        });
        let mut stdout_bytes = Vec::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_end(&mut stdout_bytes)?;
        }
        let stderr_bytes = errors
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default();
        let status = self.child.wait()?;
        if let Some(writer) = writer {
            let _ = writer.join();
        }
        Ok(Output {
            shown: self.shown,
            status,
            stdout: String::from_utf8_lossy(&stdout_bytes).into_owned(),
            stderr: String::from_utf8_lossy(&stderr_bytes).into_owned(),
            stdout_bytes,
        })
    }
}

/// What a program left: its end and its outputs. The checks give the output
/// back, so they chain.
#[derive(Debug)]
pub struct Output {
    shown: Vec<OsString>,
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output as text.
    pub stdout: String,
    /// Standard error as text.
    pub stderr: String,
    /// Standard output as it was.
    pub stdout_bytes: Vec<u8>,
}

impl Output {
    /// The exit code, if it ended by itself.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it, if one did.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Fails unless it ended with this code.
    pub fn exits(&self, code: i32) -> Verdict<&Output> {
        ensure(self.code() == Some(code), || {
            format!("expected exit code {code}, {self}")
        })?;
        Ok(self)
    }

    /// Fails unless it ended with 0.
    pub fn succeeds(&self) -> Verdict<&Output> {
        self.exits(0)
    }

    /// Fails unless standard output is exactly this.
    pub fn stdout_is(&self, text: &str) -> Verdict<&Output> {
        ensure(self.stdout == text, || {
            format!("expected {text:?} on stdout, {self}")
        })?;
        Ok(self)
    }

    /// Fails unless standard output holds this.
    pub fn stdout_has(&self, part: &str) -> Verdict<&Output> {
        ensure(self.stdout.contains(part), || {
            format!("expected {part:?} in stdout, {self}")
        })?;
        Ok(self)
    }

    /// Fails if either output holds this.
    pub fn lacks(&self, part: &str) -> Verdict<&Output> {
        ensure(
            !self.stdout.contains(part) && !self.stderr.contains(part),
            || format!("did not expect {part:?}, {self}"),
        )?;
        Ok(self)
    }

    /// Fails unless standard error holds this.
    pub fn stderr_has(&self, part: &str) -> Verdict<&Output> {
        ensure(self.stderr.contains(part), || {
            format!("expected {part:?} in stderr, {self}")
        })?;
        Ok(self)
    }

    /// Standard output as JSON.
    pub fn json(&self) -> Verdict<serde_json::Value> {
        serde_json::from_str(&self.stdout)
            .map_err(|error| crate::Stop::failed(format!("no JSON ({error}), {self}")))
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "but {:?} ended with {}\n--- stdout\n{}\n--- stderr\n{}",
            self.shown,
            self.status,
            clipped(&self.stdout),
            clipped(&self.stderr)
        )
    }
}

/// The head of a long text: failures are read by people.
fn clipped(text: &str) -> String {
    const MOST: usize = 4000;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}… ({} bytes in all)", &text[..end], text.len()),
        None => text.to_string(),
    }
}
