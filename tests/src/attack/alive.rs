//! Living on: processes that try to outlast the command that started them.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use super::{Found, number, word};

/// `daemon PATH`: leaves session and parents behind, shrugs signals off, and
/// adds a byte to a file again and again. The parent ends at once.
pub fn daemon(words: &[String]) -> Found {
    let path = word(words, 0)?.to_string();
    if fork_twice()? {
        for _ in 0..6000 {
            let file = OpenOptions::new().create(true).append(true).open(&path);
            if file.and_then(|mut file| file.write_all(b".")).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        std::process::exit(0);
    }
    // The first beat shows that the daemon came up before the command ended.
    while std::fs::metadata(&path).map_or(0, |file| file.len()) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok("left a daemon".to_string())
}

/// `daemon-stopped PATH`: a daemon that is stopped cannot act on a signal;
/// it is found again by the lock it holds on a file.
pub fn daemon_stopped(words: &[String]) -> Found {
    let path = word(words, 0)?.to_string();
    if fork_twice()? {
        use std::os::fd::AsRawFd;
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        // SAFETY: locks our own open file, then stops ourselves.
        unsafe {
            libc::flock(file.as_raw_fd(), libc::LOCK_EX);
            (&file).write_all(b".")?;
            libc::raise(libc::SIGSTOP);
        }
        std::process::exit(0);
    }
    while std::fs::metadata(&path).map_or(0, |file| file.len()) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok("left a stopped daemon".to_string())
}

/// Whether we are the grandchild: in a session of its own, deaf to the usual
/// signals, with no hold on the pipes of the caller.
fn fork_twice() -> Result<bool, super::Held> {
    // SAFETY: single-threaded; both sides go on with plain code.
    unsafe {
        if libc::fork() != 0 {
            return Ok(false);
        }
        libc::setsid();
        if libc::fork() != 0 {
            libc::_exit(0);
        }
        for signal in [libc::SIGHUP, libc::SIGTERM, libc::SIGINT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
        for descriptor in 0..3 {
            libc::close(descriptor);
        }
    }
    Ok(true)
}

/// `sleep SECONDS`: does nothing, for who needs somebody there.
pub fn sleep(words: &[String]) -> Found {
    std::thread::sleep(Duration::from_secs(number(words, 0)? as u64));
    Ok("slept".to_string())
}
