//! Other processes: pid 1 of the jail, and those of the host by their numbers.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};

use super::files::{CANARY, proof};
use super::raw::{address, address_mut, call};
use super::{Found, number, word};

/// `victim`: somebody to attack in control runs: holds the canary in memory, in
/// an open file (descriptor 3, by the suite's doing) and lets itself be traced.
/// Says where its canary lies.
pub fn victim(_: &[String]) -> Found {
    let held = CANARY.to_string();
    // SAFETY: integer arguments only; any process may trace us from here on.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, usize::MAX, 0, 0, 0) };
    println!("{} {}", held.as_ptr() as usize, held.len());
    std::io::stdout().flush()?;
    loop {
        // SAFETY: waits for the signal that ends it.
        unsafe { libc::pause() };
        std::hint::black_box(&held);
    }
}

/// `ptrace PID`: holds another process as a debugger would.
pub fn ptrace(words: &[String]) -> Found {
    trace(libc::PTRACE_ATTACH, number(words, 0)?)
}

/// `ptrace-seize PID`: the same without stopping it.
pub fn ptrace_seize(words: &[String]) -> Found {
    const SEIZE: u32 = 0x4206;
    trace(SEIZE, number(words, 0)?)
}

fn trace(request: u32, pid: i64) -> Found {
    call(libc::SYS_ptrace, &[request as usize, pid as usize, 0, 0])?;
    if request == libc::PTRACE_ATTACH {
        // SAFETY: waits for the stop that the attach causes, then lets go.
        unsafe {
            libc::waitpid(pid as i32, std::ptr::null_mut(), 0);
            libc::ptrace(libc::PTRACE_DETACH, pid as i32, 0, 0);
        }
    }
    Ok(format!("traced {pid}"))
}

/// Where a process keeps something to read: what the victim said, or, of a
/// process that says nothing, its own stack as the kernel lists it.
fn target(words: &[String]) -> Result<(i64, usize), super::Held> {
    let pid = number(words, 0)?;
    if words.len() > 1 {
        return Ok((pid, number(words, 1)? as usize));
    }
    // The kernel shows no map of an undumpable process: any address then does
    // to see whether the access itself is refused.
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let start = maps
        .lines()
        .find(|line| line.contains("[stack]"))
        .and_then(|line| usize::from_str_radix(line.split('-').next()?, 16).ok());
    Ok((pid, start.unwrap_or(0x40_0000)))
}

/// `process-read PID [ADDRESS]`: another's memory by system call.
pub fn process_read(words: &[String]) -> Found {
    let (pid, place) = target(words)?;
    let mut text = [0u8; CANARY.len()];
    let local = [address_mut(&mut text), text.len()];
    let remote = [place, text.len()];
    let read = call(
        libc::SYS_process_vm_readv,
        &[pid as usize, address(&local), 1, address(&remote), 1, 0],
    )?;
    Ok(format!("read {read} bytes of process {pid}"))
}

/// `process-write PID [ADDRESS]`: writes back what is there.
pub fn process_write(words: &[String]) -> Found {
    let (pid, place) = target(words)?;
    let text = CANARY.as_bytes();
    let local = [text.as_ptr() as usize, text.len()];
    let remote = [place, text.len()];
    call(
        libc::SYS_process_vm_writev,
        &[pid as usize, address(&local), 1, address(&remote), 1, 0],
    )?;
    Ok(format!("wrote memory of process {pid}"))
}

/// `proc-mem PID [ADDRESS]`: another's memory as a file.
pub fn memory_of(words: &[String]) -> Found {
    let (pid, place) = target(words)?;
    let mut file = fs::File::open(format!("/proc/{pid}/mem"))?;
    let mut text = [0u8; CANARY.len()];
    file.seek(SeekFrom::Start(place as u64))?;
    file.read_exact(&mut text)?;
    Ok(format!("read memory of process {pid}"))
}

/// `proc-fd PID`: a file that another holds open.
pub fn descriptor_of(words: &[String]) -> Found {
    let pid = number(words, 0)?;
    let mut seen = 0;
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        seen += 1;
        let path = entry?.path();
        // Pipes and sockets would make the read wait; only files hold a canary.
        if fs::metadata(&path).is_ok_and(|file| file.is_file()) {
            let found = proof(&fs::read(path)?);
            if found.is_ok() {
                return found;
            }
        }
    }
    Err(format!("{seen} descriptors, none of use").into())
}

/// `pidfd-getfd PID DESCRIPTOR`: takes another's descriptor.
pub fn pidfd_getfd(words: &[String]) -> Found {
    let pid = number(words, 0)?;
    let handle = call(libc::SYS_pidfd_open, &[pid as usize, 0])?;
    let taken = call(
        libc::SYS_pidfd_getfd,
        &[handle, number(words, 1)? as usize, 0],
    )?;
    Ok(format!("took descriptor {taken} of process {pid}"))
}

/// `kcmp PID`: learns what another shares with us.
pub fn kcmp(words: &[String]) -> Found {
    let own = std::process::id() as usize;
    let found = call(libc::SYS_kcmp, &[own, number(words, 0)? as usize, 1, 0, 0])?;
    Ok(format!("compared memory: {found}"))
}

/// `madvise PID [ADDRESS]`: evicts another's memory.
pub fn madvise(words: &[String]) -> Found {
    const COLD: usize = 20;
    let (pid, place) = target(words)?;
    let handle = call(libc::SYS_pidfd_open, &[pid as usize, 0])?;
    let remote = [place & !4095, 4096];
    call(
        libc::SYS_process_madvise,
        &[handle, address(&remote), 1, COLD, 0],
    )?;
    Ok(format!("advised on memory of process {pid}"))
}

/// `kill PID`: a signal to a process of the host, by the number it has there.
pub fn kill(words: &[String]) -> Found {
    let pid = number(words, 0)?;
    call(libc::SYS_kill, &[pid as usize, libc::SIGUSR1 as usize])?;
    Ok(format!("signalled {pid}"))
}

/// `dumpable-init FILE`: a file of pid 1 that the kernel shows only of a
/// process that may be looked into.
pub fn init_is_dumpable(words: &[String]) -> Found {
    let path = format!("/proc/{}/{}", number(words, 0)?, word(words, 1)?);
    match word(words, 1)? {
        "root" | "cwd" | "exe" => Ok(format!("{path} is {:?}", fs::read_link(&path)?)),
        "fd" | "map_files" => {
            let names = fs::read_dir(&path)?.collect::<Result<Vec<_>, _>>()?;
            Ok(format!("{path} has {}", names.len()))
        }
        _ => {
            let text = fs::read(&path)?;
            if text.is_empty() {
                Err("it is empty".into())
            } else {
                Ok(format!("read {} bytes of {path}", text.len()))
            }
        }
    }
}
