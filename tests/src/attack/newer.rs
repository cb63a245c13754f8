//! Newer system calls, and old ones with a side that few think of.

use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd;

use super::gate::on_the_host;
use super::raw::{address, call, is};
use super::{Found, Held, number, word};

/// `call NUMBER`: a call that this list may not know yet. Any answer but "no such call" and
/// "not for you" comes from the kernel's own code for it.
pub fn call_by_number(words: &[String]) -> Found {
    let nowhere = usize::MAX - 4095;
    let arguments = [nowhere, nowhere, nowhere, nowhere, nowhere, nowhere];
    match call(number(words, 0)?, &arguments) {
        Ok(result) => Ok(format!("the kernel answered {result}")),
        Err(error) if is(&error, libc::ENOSYS) && on_the_host() => {
            Err(Held::Absent("this kernel has no such call".to_string()))
        }
        Err(error) if is(&error, libc::ENOSYS) || is(&error, libc::EPERM) => Err(error.into()),
        Err(error) => Ok(format!("the kernel answered {error}")),
    }
}

/// `lease PATH`: whoever opens the file waits until we let go of it.
pub fn lease(words: &[String]) -> Found {
    let file = OpenOptions::new().read(true).open(word(words, 0)?)?;
    let descriptor = file.as_raw_fd() as usize;
    let request = libc::F_SETLEASE as usize;
    call(
        libc::SYS_fcntl,
        &[descriptor, request, libc::F_RDLCK as usize],
    )?;
    call(
        libc::SYS_fcntl,
        &[descriptor, request, libc::F_UNLCK as usize],
    )?;
    Ok("held up whoever opens it".to_string())
}

/// `own-signals PID`: has the kernel signal a process when a file is ready.
pub fn own_signals(words: &[String]) -> Found {
    let (end, _other) = nix::unistd::pipe()?;
    let descriptor = end.as_raw_fd() as usize;
    let pid = number(words, 0)? as usize;
    call(libc::SYS_fcntl, &[descriptor, libc::F_SETOWN as usize, pid])?;
    match call(libc::SYS_fcntl, &[descriptor, libc::F_GETOWN as usize])? {
        0 => Err("nobody is signalled".into()),
        owner => Ok(format!("{owner} is signalled")),
    }
}

/// `real-time`: a process that runs before all others.
pub fn real_time(_: &[String]) -> Found {
    let first = [1i32];
    let fifo = libc::SCHED_FIFO as usize;
    call(libc::SYS_sched_setscheduler, &[0, fifo, address(&first)])?;
    Ok("runs before all others".to_string())
}

/// `priority`: more of the processor than others get.
pub fn priority(_: &[String]) -> Found {
    call(libc::SYS_setpriority, &[0, 0, -5isize as usize])?;
    Ok("is more important than others".to_string())
}

/// `spared`: the last to be ended when memory is short.
pub fn spared(_: &[String]) -> Found {
    fs::write("/proc/self/oom_score_adj", "-500")?;
    Ok("is spared when memory is short".to_string())
}

/// `immutable PATH`: a file that not even its owner can change any more.
pub fn immutable(words: &[String]) -> Found {
    const GET: usize = 0x8008_6601;
    const SET: usize = 0x4008_6602;
    let file = OpenOptions::new().read(true).open(word(words, 0)?)?;
    let descriptor = file.as_raw_fd() as usize;
    let mut flags: libc::c_long = 0;
    let before = match call(
        libc::SYS_ioctl,
        &[descriptor, GET, super::raw::address_mut(&mut flags)],
    ) {
        Ok(_) => flags,
        Err(_) => {
            return Err(Held::Absent(
                "this file system has no such flags".to_string(),
            ));
        }
    };
    let set = before | 0x10;
    call(libc::SYS_ioctl, &[descriptor, SET, address(&set)])?;
    call(libc::SYS_ioctl, &[descriptor, SET, address(&before)])?;
    Ok("made it unchangeable".to_string())
}

/// `forged-sender`: tells a peer that somebody else is speaking.
pub fn forged_sender(_: &[String]) -> Found {
    use nix::sys::socket::{
        AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixCredentials, sendmsg,
        socketpair,
    };
    let (one, _other) = socketpair(
        AddressFamily::Unix,
        SockType::Datagram,
        None,
        SockFlag::empty(),
    )?;
    let somebody = UnixCredentials::from(libc::ucred {
        pid: std::process::id() as i32,
        uid: 12_345,
        gid: 12_345,
    });
    let text = [std::io::IoSlice::new(b"x")];
    let control = [ControlMessage::ScmCredentials(&somebody)];
    sendmsg::<()>(one.as_raw_fd(), &text, &control, MsgFlags::empty(), None)?;
    Ok("spoke as somebody else".to_string())
}

/// `set-mm`: rewrites what the kernel believes of this process, its program included.
pub fn set_mm(_: &[String]) -> Found {
    const SET_MM: usize = 35;
    const START_BRK: usize = 6;
    // SAFETY: asks for the end of the heap, changes nothing.
    let place = unsafe { libc::sbrk(0) } as usize;
    call(libc::SYS_prctl, &[SET_MM, START_BRK, place & !4095, 0, 0])?;
    Ok("rewrote the kernel's view of this process".to_string())
}
