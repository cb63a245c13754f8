//! A program at a real pseudo-terminal, driven as a person would.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::Pid;
use std::os::fd::AsFd;

use crate::{Stop, Verdict, wait};

/// A running program whose controlling terminal the test holds the other end of.
#[derive(Debug)]
pub struct Terminal {
    master: File,
    slave: OwnedFd,
    child: Child,
    shown: Vec<OsString>,
    seen: Vec<u8>,
    read_to: usize,
}

impl Terminal {
    pub(crate) fn start(mut command: Command, shown: Vec<OsString>) -> Verdict<Terminal> {
        let pair = openpty(&size(24, 80), None)?;
        let slave = pair.slave;
        // A program that held the test's own end would never see a hangup.
        for end in [pair.master.as_fd(), slave.as_fd()] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        }
        command
            .stdin(Stdio::from(slave.try_clone()?))
            .stdout(Stdio::from(slave.try_clone()?))
            .stderr(Stdio::from(slave.try_clone()?));
        let own = || {
            // SAFETY: setsid and the ioctl take no memory of ours; 0 is the terminal by now.
            unsafe {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        };
        // SAFETY: the closure makes two system calls and touches no lock or heap.
        unsafe { command.pre_exec(own) };
        let child = command.spawn()?;
        Ok(Terminal {
            master: File::from(pair.master),
            slave,
            child,
            shown,
            seen: Vec::new(),
            read_to: 0,
        })
    }

    /// The program's process id.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Types bytes: text, or control characters such as `"\x03"` for Ctrl-C.
    pub fn send(&mut self, keys: &str) -> Verdict {
        self.master.write_all(keys.as_bytes())?;
        Ok(())
    }

    /// Types a line and Enter.
    pub fn line(&mut self, line: &str) -> Verdict {
        self.send(&format!("{line}\r"))
    }

    /// Waits until the program shows this text after what earlier calls have
    /// already found, and gives what stood before it.
    pub fn expect(&mut self, text: &str) -> Verdict<String> {
        let deadline = Instant::now() + wait::SOON;
        loop {
            let fresh = &self.seen[self.read_to..];
            if let Some(at) = find(fresh, text.as_bytes()) {
                let before = String::from_utf8_lossy(&fresh[..at]).into_owned();
                self.read_to += at + text.len();
                return Ok(before);
            }
            if !self.read_some(deadline)? {
                return Err(Stop::failed(format!(
                    "{:?} never showed {text:?}; the screen so far: {:?}",
                    self.shown,
                    self.screen()
                )));
            }
        }
    }

    /// All that was shown so far, as bytes turned to text.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Changes the window size, which signals the program.
    pub fn resize(&mut self, rows: u16, columns: u16) -> Verdict {
        let size = size(rows, columns);
        // SAFETY: the ioctl reads one winsize, which outlives the call.
        let done = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &size) };
        if done < 0 {
            return Err(io::Error::last_os_error().into());
        }
        Ok(())
    }

    /// The terminal's settings now, to compare before and after.
    pub fn settings(&self) -> Verdict<Termios> {
        Ok(tcgetattr(&self.slave)?)
    }

    /// Waits for the program's end, reading on meanwhile.
    pub fn finish(&mut self) -> Verdict<ExitStatus> {
        let deadline = Instant::now() + wait::SOON;
        loop {
            if let Some(status) = self.child.try_wait()? {
                // What it wrote last may still be in the terminal.
                while self.read_some(Instant::now() + Duration::from_millis(50))? {}
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Err(Stop::failed(format!(
                    "{:?} did not end; the screen: {:?}",
                    self.shown,
                    self.screen()
                )));
            }
            self.read_some(Instant::now() + Duration::from_millis(50))?;
        }
    }

    /// Reads what is there, waiting up to the deadline; false when nothing came.
    fn read_some(&mut self, deadline: Instant) -> Verdict<bool> {
        let left = deadline.saturating_duration_since(Instant::now());
        let milliseconds = u16::try_from(left.as_millis()).unwrap_or(u16::MAX);
        let mut fds = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(milliseconds))? == 0 {
            return Ok(false);
        }
        let mut buffer = [0; 4096];
        match self.master.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.seen.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
