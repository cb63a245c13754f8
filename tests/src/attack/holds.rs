//! Getting hold of a protected file in the moment in which the host has just replaced
//! it, and keeping it where a look at the jail's processes might not find it.

use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::{OFlag, open};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};
use nix::sys::stat::{Mode, fstat};
use nix::sys::statvfs::{FsFlags, fstatvfs};

use super::{Found, Held, word};

const CONTENT: &[u8] = b"the jail was here\n";

/// The files by which the host and the attempt talk.
const READY: &str = "ready";
const GOT: &str = "got";
const GO: &str = "go";
const RESULT: &str = "result";

/// `keep-hold PATH HOW`: takes hold of the file as soon as it can be written, keeps hold
/// until the host says go, and writes then.
pub fn keep(words: &[String]) -> Found {
    let path = word(words, 0)?;
    match word(words, 1)? {
        "handle" => by_handle(path),
        "undumpable" => {
            // SAFETY: takes integers.
            unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
            by_handle(path)
        }
        "leaderless" => leaderless(path),
        "mapping" => by_mapping(path),
        "flight" => in_flight(path),
        "forks" => by_forks(path),
        "woken" => {
            wake_always()?;
            let handle = caught(path)?;
            while !Path::new(GO).exists() {}
            written(&handle)
        }
        _ => Err("no such way to hold".into()),
    }
}

fn by_handle(path: &str) -> Found {
    let handle = caught(path)?;
    wait_for(GO)?;
    written(&handle)
}

/// The process's first thread is gone, and with it what is seen of it at first sight.
fn leaderless(path: &str) -> Found {
    let path = path.to_owned();
    std::thread::spawn(move || {
        let code = match by_mapping(&path) {
            Ok(said) => {
                println!("OUT {said}");
                super::OUT
            }
            Err(held) => {
                println!("HELD {held:?}");
                super::HELD
            }
        };
        std::process::exit(code);
    });
    // SAFETY: ends this thread alone; nothing of its stack is used by the other one.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    Err("unreachable".into())
}

/// No descriptor at all: only memory.
fn by_mapping(path: &str) -> Found {
    let handle = caught_after(path, || {})?;
    let file = open(of(&handle).as_str(), OFlag::O_RDWR, Mode::empty())?;
    // SAFETY: one page of the file, which is longer than what is written to it below.
    let place = unsafe {
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        let fd = file.as_raw_fd();
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            writable,
            libc::MAP_SHARED,
            fd,
            0,
        )
    };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error().into());
    }
    drop((file, handle));
    fs::write(GOT, "")?;
    wait_for(GO)?;
    // SAFETY: the page is mapped and writable.
    unsafe { std::ptr::copy_nonoverlapping(CONTENT.as_ptr(), place.cast(), CONTENT.len()) };
    Ok("wrote through a mapping".to_owned())
}

/// No descriptor of any process: only a message that nobody has read.
fn in_flight(path: &str) -> Found {
    let (one, other) = socketpair(
        AddressFamily::Unix,
        SockType::Datagram,
        None,
        SockFlag::empty(),
    )?;
    let handle = caught_after(path, || {})?;
    let carried = [handle.as_raw_fd()];
    let text = [IoSlice::new(b"x")];
    let rights = [ControlMessage::ScmRights(&carried)];
    sendmsg::<()>(one.as_raw_fd(), &text, &rights, MsgFlags::empty(), None)?;
    drop(handle);
    fs::write(GOT, "")?;
    wait_for(GO)?;
    let mut byte = [0];
    let mut parts = [io::IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!(RawFd);
    let flags = MsgFlags::empty();
    let message = recvmsg::<()>(other.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(received) = control
            && let Some(fd) = received.first()
        {
            // SAFETY: just received, and nobody else's.
            return written(&unsafe { OwnedFd::from_raw_fd(*fd) });
        }
    }
    Err("the descriptor did not come back".into())
}

/// A process that is another one every moment, among many that idle.
fn by_forks(path: &str) -> Found {
    const CROWD: usize = 150;
    // SAFETY: single-threaded; children of ours are reaped by the kernel.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let parent = nix::unistd::getpid().as_raw();
    for _ in 0..CROWD {
        // SAFETY: single-threaded; the child only waits.
        unsafe {
            if libc::fork() == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // Who begins late has no parent any more, and would wait for good.
                if libc::getppid() == parent {
                    libc::pause();
                }
                libc::_exit(0);
            }
        }
    }
    let handle = caught_after(path, || {})?;
    // SAFETY: single-threaded, so the child may do whatever we may.
    if unsafe { libc::fork() } == 0 {
        let _ = fs::write(GOT, "");
        while !Path::new(GO).exists() {
            // SAFETY: as above; the parent leaves without running anything.
            unsafe {
                if libc::fork() > 0 {
                    libc::_exit(0);
                }
            }
        }
        let said = written(&handle).unwrap_or_else(|held| format!("held: {held:?}"));
        let _ = fs::write(RESULT, said);
        // SAFETY: ends the last of the children.
        unsafe { libc::_exit(0) };
    }
    drop(handle);
    wait_for(RESULT)?;
    match fs::read_to_string(RESULT)? {
        said if said.starts_with("held") => Err(said.into()),
        said => Ok(said),
    }
}

/// Has the kernel continue this process a thousand times a second, should anybody stop it.
fn wake_always() -> Result<(), Held> {
    // SAFETY: all-zero structures are valid; the calls read them and write one timer.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGCONT;
        let mut timer = std::mem::zeroed();
        let mut often: libc::itimerspec = std::mem::zeroed();
        often.it_interval.tv_nsec = 1_000_000;
        often.it_value.tv_nsec = 1_000_000;
        let made = libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer);
        let set = libc::timer_settime(timer, 0, &raw const often, std::ptr::null_mut());
        if made != 0 || set != 0 {
            return Err(io::Error::last_os_error().into());
        }
    }
    Ok(())
}

fn caught(path: &str) -> Result<OwnedFd, Held> {
    caught_after(path, || {
        let _ = fs::write(GOT, "");
    })
}

/// Waits for the moment in which the name leads to a file that can be written.
fn caught_after(path: &str, then: impl FnOnce()) -> Result<OwnedFd, Held> {
    fs::write(READY, "")?;
    let deadline = Instant::now() + Duration::from_secs(100);
    while Instant::now() < deadline {
        let Ok(handle) = open(path, OFlag::O_PATH, Mode::empty()) else {
            continue;
        };
        let closed = fstatvfs(&handle)?.flags().contains(FsFlags::ST_RDONLY);
        if !closed && fstat(&handle)?.st_nlink > 0 {
            then();
            return Ok(handle);
        }
    }
    Err("it was never to be had".into())
}

fn wait_for(name: &str) -> Result<(), Held> {
    let deadline = Instant::now() + Duration::from_secs(100);
    while Instant::now() < deadline {
        if Path::new(name).exists() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err("the host did not say go".into())
}

fn of(handle: &OwnedFd) -> String {
    format!("/proc/thread-self/fd/{}", handle.as_raw_fd())
}

fn written(handle: &OwnedFd) -> Found {
    fs::write(of(handle), CONTENT)?;
    Ok("wrote what was replaced".to_owned())
}
