//! The terminal sjail was started at, and the pty inside that stands for it.
//!
//! ```text
//!   keyboard ─► terminal outside ─► sjail ─► pty master ═ slave ─► command
//!   screen   ◄─ (raw if attached) ◄─       ◄─           ═       ◄─
//! ```
//!
//! *Attached*, the terminal outside is raw and every key goes to the pty, whose own line
//! discipline makes echo, lines and signals of them. *Detached* (before the command has
//! asked for the terminal, in the background, while stopped) the terminal is as its owner
//! left it and sjail reads nothing from it. Nobody can restore a terminal after SIGKILL
//! of sjail; every other end restores it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::Mode;
use nix::unistd::{getpgrp, read, tcgetpgrp};

use crate::output::{Buffer, Outlet};
use crate::sys::tty::{self, WindowSize};

/// How much of what was shown is kept.
const TAIL: usize = 8 << 10;

/// The terminal outside and, once the jail has made it, the pty inside.
#[derive(Debug)]
pub struct Terminal {
    /// The end of what was shown, for whoever has to explain a failure.
    tail: Vec<u8>,
    /// For settings, size and foreground.
    device: OwnedFd,
    /// Opened anew where possible, so that reading never blocks and nobody else's
    /// descriptor changes its mode.
    keyboard: Option<OwnedFd>,
    /// Whether that worked: only then reading never blocks.
    keyboard_is_own: bool,
    screen: Outlet,
    mode: Hold,
    /// The settings to go back to.
    settings: libc::termios,
    /// Whether the last byte shown was a carriage return that may belong to a newline.
    held_return: bool,
    pty: Option<Pty>,
}

#[derive(Debug)]
struct Pty {
    master: OwnedFd,
    keys: Outlet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    Attached,
    Detached,
}

/// In whose hands the terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Our process group has the foreground.
    Ours,
    /// Another one has: we are a background job.
    Theirs,
    /// It is not our controlling terminal, so nobody takes it away from us.
    Uncontrolled,
}

/// What the loop waits for on behalf of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Keys typed.
    Keyboard,
    /// Room on the screen.
    Screen,
    /// The command wrote.
    Master,
    /// Room for keys in the pty.
    Keys,
}

impl Side {
    /// Whether it is on the way of keys to the command.
    pub fn is_inward(self) -> bool {
        matches!(self, Side::Keyboard | Side::Keys)
    }
}

/// What came of moving bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// So many bytes were shown (or none).
    Bytes(usize),
    /// The terminal outside has hung up; the pty has been closed, which tells the
    /// command.
    HungUp,
}

impl Terminal {
    /// The terminal behind the first of our descriptors 0, 1, 2 that is one, if any;
    /// shown on is standard output where that is a terminal, else standard error.
    pub fn of_caller() -> Option<Terminal> {
        let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let all = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let is_terminal = |fd: &BorrowedFd<'_>| tty::attributes(fd).is_ok();
        let first = *all.iter().find(|fd| is_terminal(fd))?;
        let shown_on = all[1..].iter().find(|fd| is_terminal(fd)).unwrap_or(&first);
        Terminal::new(first, *shown_on).ok()
    }

    /// The terminal behind `device`, shown on `screen`.
    fn new(device: BorrowedFd<'_>, screen: BorrowedFd<'_>) -> Result<Terminal, Errno> {
        let settings = tty::attributes(device)?;
        let path = format!("/proc/self/fd/{}", device.as_raw_fd());
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
        let copy = || device.try_clone_to_owned().map_err(|_| Errno::EMFILE);
        let (keyboard, keyboard_is_own) = match open(path.as_str(), flags, Mode::empty()) {
            Ok(keyboard) => (keyboard, true),
            // Another user's terminal (after su): as it is, then.
            Err(_) => (copy()?, false),
        };
        Ok(Terminal {
            tail: Vec::new(),
            device: copy()?,
            keyboard: Some(keyboard),
            keyboard_is_own,
            screen: Outlet::to(screen)?,
            mode: Hold::Detached,
            settings,
            held_return: false,
            pty: None,
        })
    }

    /// What the pty inside starts with: the same size and settings. In the background the
    /// settings are those of whoever has the foreground (a shell's line editor), so the
    /// pty keeps the kernel's own.
    pub fn look(&self) -> (WindowSize, Option<libc::termios>) {
        let size = tty::window_size(&self.device).unwrap_or(WindowSize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        });
        let ours = self.standing() == Standing::Ours;
        (size, ours.then_some(self.settings))
    }

    /// In whose hands the terminal is now.
    pub fn standing(&self) -> Standing {
        match tcgetpgrp(&self.device) {
            Ok(group) if group == getpgrp() => Standing::Ours,
            Ok(_) => Standing::Theirs,
            Err(_) => Standing::Uncontrolled,
        }
    }

    /// Takes the master of the pty inside.
    pub fn connect(&mut self, master: OwnedFd) -> Result<(), Errno> {
        fcntl(
            &master,
            FcntlArg::F_SETFL(OFlag::O_RDWR | OFlag::O_NONBLOCK),
        )?;
        let keys = Outlet::non_blocking(master.try_clone().map_err(|_| Errno::EMFILE)?);
        self.pty = Some(Pty { master, keys });
        Ok(())
    }

    /// Makes the terminal raw and gives its size to the pty.
    pub fn attach(&mut self) {
        self.take_typed_ahead();
        if self.mode == Hold::Detached
            && let Ok(settings) = tty::attributes(&self.device)
            && tty::set_attributes(&self.device, &tty::raw(&settings)).is_ok()
        {
            self.settings = settings;
            self.mode = Hold::Attached;
        }
        self.resize();
    }

    /// Gives the terminal back as it was.
    pub fn detach(&mut self) {
        if self.mode == Hold::Attached {
            // Cannot fail but by the terminal's going away, and then it needs nothing.
            let _ = tty::set_attributes(&self.device, &self.settings);
            self.mode = Hold::Detached;
        }
    }

    /// Whether the command has the keyboard.
    pub fn is_attached(&self) -> bool {
        self.mode == Hold::Attached
    }

    /// Carries the terminal's size over to the pty; the kernel tells the command.
    pub fn resize(&self) {
        if let (Some(pty), Ok(size)) = (&self.pty, tty::window_size(&self.device)) {
            let _ = tty::set_window_size(&pty.master, &size);
        }
    }

    /// What to wait for: each direction waits for its reader while something is on its
    /// way, else for its writer, so neither ever holds more than one buffer.
    pub fn waits(&self) -> [Option<(Side, BorrowedFd<'_>)>; 2] {
        let inward = self.pty.as_ref().and_then(|pty| {
            if pty.keys.is_full() {
                Some((Side::Keys, pty.keys.as_fd()))
            } else if self.is_attached() {
                let keyboard = self.keyboard.as_ref()?;
                Some((Side::Keyboard, keyboard.as_fd()))
            } else {
                None
            }
        });
        let outward = if self.screen.is_full() {
            Some((Side::Screen, self.screen.as_fd()))
        } else {
            self.pty
                .as_ref()
                .map(|pty| (Side::Master, pty.master.as_fd()))
        };
        [inward, outward]
    }

    /// Moves bytes on a side that is ready.
    pub fn advance(&mut self, side: Side, buffer: &mut Buffer) -> Moved {
        match side {
            Side::Keyboard => self.take_keys(buffer),
            Side::Keys => {
                if let Some(pty) = &mut self.pty
                    && pty.keys.flush().is_err()
                {
                    self.pty = None;
                }
                Moved::Bytes(0)
            }
            Side::Screen => match self.screen.flush() {
                Ok(()) => Moved::Bytes(0),
                Err(_) => self.hang_up(),
            },
            Side::Master => self.show(buffer),
        }
    }

    /// Whole lines that were typed before the terminal went raw. They must be read while
    /// it is not: an end of file (Ctrl-D) among them would come out as a null byte.
    fn take_typed_ahead(&mut self) {
        let (Some(keyboard), Some(pty), Hold::Detached) =
            (&self.keyboard, &mut self.pty, self.mode)
        else {
            return;
        };
        if self.settings.c_lflag & libc::ICANON == 0 || !self.keyboard_is_own {
            return;
        }
        let mut line = [0; 4096];
        // More than the kernel holds back for anybody.
        for _ in 0..64 {
            let sent = match read(keyboard, &mut line) {
                Ok(0) => pty.keys.push(&[self.settings.c_cc[libc::VEOF]]),
                Ok(length) => pty.keys.push(&line[..length]),
                Err(_) => return,
            };
            if sent.is_err() {
                return;
            }
        }
    }

    fn take_keys(&mut self, buffer: &mut Buffer) -> Moved {
        let (Some(keyboard), Some(pty)) = (&self.keyboard, &mut self.pty) else {
            return Moved::Bytes(0);
        };
        match read(keyboard, buffer.bytes()) {
            Ok(0) => self.hang_up(),
            Ok(length) => {
                if pty.keys.push(&buffer.bytes()[..length]).is_err() {
                    self.pty = None;
                }
                Moved::Bytes(0)
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Moved::Bytes(0),
            Err(_) => self.hang_up(),
        }
    }

    fn show(&mut self, buffer: &mut Buffer) -> Moved {
        let Some(pty) = &self.pty else {
            return Moved::Bytes(0);
        };
        let length = match read(&pty.master, buffer.bytes()) {
            Ok(length @ 1..) => length,
            Err(Errno::EAGAIN | Errno::EINTR) => return Moved::Bytes(0),
            // The last holder of the slave has gone: the jail has ended.
            Ok(_) | Err(_) => {
                self.pty = None;
                return match self.held_return && self.screen.push(b"\r").is_err() {
                    true => self.hang_up(),
                    false => Moved::Bytes(0),
                };
            }
        };
        let bytes = &buffer.bytes()[..length];
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
        let shown = if self.translates_newlines() {
            let plain = without_returns(bytes, &mut self.held_return);
            self.screen.push(&plain)
        } else {
            self.screen.push(bytes)
        };
        match shown {
            Ok(()) => Moved::Bytes(length),
            Err(_) => self.hang_up(),
        }
    }

    /// Detached, the terminal outside turns a newline into return and newline, as the
    /// pty inside has already done.
    fn translates_newlines(&self) -> bool {
        let both = libc::OPOST | libc::ONLCR;
        self.mode == Hold::Detached && self.settings.c_oflag & both == both
    }

    fn hang_up(&mut self) -> Moved {
        self.keyboard = None;
        self.pty = None;
        self.screen.discard();
        Moved::HungUp
    }

    /// Gives up the end of what was shown.
    pub fn take_tail(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.tail)
    }

    /// Whether nothing is left to show.
    pub fn is_drained(&self) -> bool {
        self.pty.is_none() && !self.screen.is_full()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Undoes what the pty's line discipline did to newlines: `\r\n` becomes `\n`. A return
/// at the end is held until the next byte tells what it was.
fn without_returns(bytes: &[u8], held: &mut bool) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len() + 1);
    for byte in bytes {
        if *held && *byte != b'\n' {
            plain.push(b'\r');
        }
        *held = *byte == b'\r';
        if !*held {
            plain.push(*byte);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use nix::pty::openpty;
    use nix::unistd::write;

    /// A terminal that a person sits at (`person` is their end) and a pty inside.
    struct Pair {
        terminal: Terminal,
        person: OwnedFd,
        outside: OwnedFd,
        inside: OwnedFd,
    }

    fn pair() -> Pair {
        let outer = openpty(None, None).unwrap();
        let inner = openpty(None, None).unwrap();
        for fd in [&outer.master, &inner.slave] {
            fcntl(fd, FcntlArg::F_SETFL(OFlag::O_RDWR | OFlag::O_NONBLOCK)).unwrap();
        }
        let mut terminal = Terminal::new(outer.slave.as_fd(), outer.slave.as_fd()).unwrap();
        terminal.connect(inner.master).unwrap();
        Pair {
            terminal,
            person: outer.master,
            outside: outer.slave,
            inside: inner.slave,
        }
    }

    /// Moves bytes until nothing moves any more.
    fn settle(terminal: &mut Terminal) {
        let mut buffer = Buffer::default();
        for _ in 0..50 {
            let sides = terminal.waits().map(|wait| wait.map(|(side, _)| side));
            for side in sides.into_iter().flatten() {
                terminal.advance(side, &mut buffer);
            }
        }
    }

    fn read_all(fd: &OwnedFd) -> String {
        let mut text = Vec::new();
        let mut chunk = [0; 4096];
        // The line discipline delivers by a kernel worker.
        std::thread::sleep(std::time::Duration::from_millis(20));
        while let Ok(length @ 1..) = read(fd, &mut chunk) {
            text.extend_from_slice(&chunk[..length]);
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn attached_it_is_raw_and_detached_as_before() {
        let mut pair = pair();
        let before = tty::attributes(&pair.outside).unwrap();
        pair.terminal.attach();
        let raw = tty::attributes(&pair.outside).unwrap();
        assert_eq!(raw.c_lflag & (libc::ICANON | libc::ECHO | libc::ISIG), 0);
        let Pair {
            terminal, outside, ..
        } = pair;
        drop(terminal);
        assert_eq!(tty::attributes(&outside).unwrap(), before);
    }

    #[test]
    fn keys_go_in_and_output_comes_out() {
        let mut pair = pair();
        pair.terminal.attach();
        write(&pair.person, b"hello\r").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        settle(&mut pair.terminal);
        assert_eq!(read_all(&pair.inside), "hello\n");
        write(&pair.inside, b"one\ntwo").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        settle(&mut pair.terminal);
        // The echo of the keys, by the pty inside, and the output.
        assert_eq!(read_all(&pair.person), "hello\r\none\r\ntwo");
    }

    #[test]
    fn detached_it_reads_nothing_and_doubles_no_return() {
        let mut pair = pair();
        write(&pair.person, b"typed ahead\n").unwrap();
        write(&pair.inside, b"line\n\rdone\n").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        settle(&mut pair.terminal);
        assert_eq!(read_all(&pair.inside), "");
        // The first line is the outer terminal's own echo.
        assert_eq!(read_all(&pair.person), "typed ahead\r\nline\r\n\rdone\r\n");
    }

    #[test]
    fn the_pty_gets_the_size() {
        let pair = pair();
        let size = WindowSize {
            ws_row: 33,
            ws_col: 99,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tty::set_window_size(&pair.person, &size).unwrap();
        pair.terminal.resize();
        let inside = tty::window_size(&pair.inside).unwrap();
        assert_eq!((inside.ws_row, inside.ws_col), (33, 99));
    }

    #[test]
    fn a_hangup_closes_the_pty() {
        let mut pair = pair();
        pair.terminal.attach();
        drop(pair.person);
        let mut buffer = Buffer::default();
        let moved = pair.terminal.advance(Side::Keyboard, &mut buffer);
        assert_eq!(moved, Moved::HungUp);
        assert_eq!(write(&pair.inside, b"x"), Err(Errno::EIO));
    }

    #[test]
    fn returns_are_undone_across_chunks() {
        let mut held = false;
        let mut all = Vec::new();
        for chunk in [b"a\r".as_slice(), b"\nb\r\r\n", b"c\r", b"d"] {
            all.extend(without_returns(chunk, &mut held));
        }
        assert_eq!(all, b"a\nb\r\nc\rd");
    }
}
