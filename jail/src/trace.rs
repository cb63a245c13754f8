//! `--trace`: the full story. Every call that opens, executes, connects or changes a name
//! waits until it has been looked at, and then goes on: nothing is decided here, so what
//! a process changes in its memory meanwhile can spoil the story but not the jail.
//!
//! A call that the jail's filter refuses waits too, and gets the filter's own answer.
//!
//! A look asks what will happen: the same path, from the same folder, below the same
//! root. What will fail because of the jail, and would not outside, is written down.

use std::collections::HashSet;
use std::ffi::CString;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::statvfs::{FsFlags, fstatvfs};
use sjail_policy::plan::Plan;

use crate::denials::{self, Denial};
use crate::observe;
use crate::spawn::Jail;
use crate::supervise::{Guard, Notice};
use crate::sys::file::openat2;
use crate::sys::notify::Call;
use crate::watched::{self, Answer, Watched, memory};

/// Looks at calls while the command runs.
#[derive(Debug)]
pub struct Tracer<'a> {
    plan: &'a Plan,
    calls: Watched,
    seen: HashSet<(PathBuf, Wish)>,
    found: Vec<Denial>,
}

/// What a call wants with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Wish {
    /// To read or execute what is there.
    Read,
    /// To write what is there, or make or remove a name.
    Change,
}

/// More than this tells nobody more.
const MOST: usize = 200;

impl<'a> Tracer<'a> {
    /// For a run of this plan.
    pub fn new(plan: &'a Plan) -> Tracer<'a> {
        Tracer {
            plan,
            calls: Watched::default(),
            seen: HashSet::new(),
            found: Vec::new(),
        }
    }

    /// What was refused, in order.
    pub fn finish(self) -> Vec<Denial> {
        self.found
    }

    fn look(&mut self, call: &Call) {
        let args = call.data.args;
        let number = libc::c_long::from(call.data.nr);
        let at_cwd = libc::AT_FDCWD as u32 as u64;
        let open_flags = |flags: u64| {
            let writes = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
            match flags as i32 & writes {
                0 => Wish::Read,
                _ => Wish::Change,
            }
        };
        let (folder, text, wish) = match number {
            libc::SYS_openat => (args[0], args[1], open_flags(args[2])),
            libc::SYS_openat2 => {
                let flags = memory(call.pid).and_then(|memory| watched::word(&memory, args[2]));
                (args[0], args[1], open_flags(flags.unwrap_or(0)))
            }
            libc::SYS_execve => (at_cwd, args[0], Wish::Read),
            libc::SYS_mkdirat | libc::SYS_unlinkat | libc::SYS_renameat | libc::SYS_renameat2 => {
                (args[0], args[1], Wish::Change)
            }
            libc::SYS_connect => return self.look_at_address(call),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => (at_cwd, args[0], open_flags(args[1])),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat | libc::SYS_mkdir | libc::SYS_unlink | libc::SYS_rename => {
                (at_cwd, args[0], Wish::Change)
            }
            _ => return,
        };
        let Some(text) = memory(call.pid).and_then(|memory| watched::string(&memory, text)) else {
            return;
        };
        self.look_at_path(call.pid, folder as i32, &text, wish);
    }

    fn look_at_path(&mut self, pid: u32, folder: i32, text: &[u8], wish: Wish) {
        let Some(path) = watched::path(pid, folder, text) else {
            return;
        };
        let own = ["/proc", "/dev", "/tmp", "/sys"];
        if own.iter().any(|own| path.starts_with(own)) || !self.seen.insert((path.clone(), wish)) {
            return;
        }
        let denial = match (inside(pid, &path), wish) {
            (Err(Errno::ENOENT | Errno::ENOTDIR), Wish::Read) => {
                denials::not_there(&path, self.plan)
            }
            (Err(Errno::ENOENT), Wish::Change) => {
                let parent = path.parent().map(|parent| inside(pid, parent));
                match parent {
                    Some(Ok(View::ReadOnly)) => denials::not_writable(&path, self.plan),
                    Some(Err(_)) => denials::not_there(&path, self.plan),
                    _ => None,
                }
            }
            (Ok(View::ReadOnly), Wish::Change) => denials::not_writable(&path, self.plan),
            _ => None,
        };
        self.add(denial);
    }

    fn look_at_address(&mut self, call: &Call) {
        let length = call.data.args[2].min(128) as usize;
        let mut address = vec![0; length];
        let read = memory(call.pid).is_some_and(|memory| {
            memory
                .read_exact_at(&mut address, call.data.args[1])
                .is_ok()
        });
        let family = match address.get(..2) {
            Some(&[low, high]) if read => i32::from(u16::from_ne_bytes([low, high])),
            _ => return,
        };
        let place = match (family, address.as_slice()) {
            (libc::AF_INET, &[_, _, p, q, a, b, c, d, ..]) if a != 127 => {
                SocketAddr::from(([a, b, c, d], u16::from_be_bytes([p, q])))
            }
            (libc::AF_INET6, bytes) if bytes.len() >= 24 => {
                let mut octets = [0; 16];
                octets.copy_from_slice(&bytes[8..24]);
                let ip = std::net::Ipv6Addr::from(octets);
                if ip.is_loopback() {
                    return;
                }
                SocketAddr::from((ip, u16::from_be_bytes([bytes[2], bytes[3]])))
            }
            (libc::AF_UNIX, [_, _, path @ ..]) if path.first() == Some(&b'/') => {
                let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
                return self.look_at_path(call.pid, libc::AT_FDCWD, path, Wish::Read);
            }
            _ => return,
        };
        let denial = denials::unreachable(place, self.plan);
        self.add(denial);
    }

    fn add(&mut self, denial: Option<Denial>) {
        if let Some(denial) = denial
            && self.found.len() < MOST
            && !self.found.contains(&denial)
        {
            self.found.push(denial);
        }
    }
}

impl Guard for Tracer<'_> {
    fn waits_for(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.calls.waits_for()
    }

    fn notice(&mut self, _: &Jail) -> Notice {
        let mut calls = std::mem::take(&mut self.calls);
        calls.answer(|call| match observe::refused(call) {
            Some(refused) => {
                self.add(Some(denials::refused_call(&refused)));
                Answer::Refuse(refused.errno)
            }
            None => {
                self.look(call);
                Answer::GoOn
            }
        });
        self.calls = calls;
        Notice::GoOn
    }

    fn take_listener(&mut self, listener: OwnedFd) -> Option<OwnedFd> {
        self.calls.begin(listener)
    }
}

/// What a path is for a process in the jail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Writable,
    ReadOnly,
}

fn inside(pid: u32, path: &Path) -> Result<View, Errno> {
    let root = CString::new(format!("/proc/{pid}/root")).map_err(|_| Errno::EINVAL)?;
    let root = openat2(None, &root, libc::O_PATH | libc::O_DIRECTORY, 0, 0)?;
    let path = path.strip_prefix("/").unwrap_or(path);
    let path = match path.as_os_str().is_empty() {
        true => CString::from(c"."),
        false => CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?,
    };
    let file = openat2(
        Some(root.as_fd()),
        &path,
        libc::O_PATH,
        0,
        libc::RESOLVE_IN_ROOT,
    )?;
    match fstatvfs(&file)?.flags().contains(FsFlags::ST_RDONLY) {
        true => Ok(View::ReadOnly),
        false => Ok(View::Writable),
    }
}
