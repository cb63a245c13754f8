//! Too much of everything, up to a number that a limit must not let through.
//! Each bomb is bounded, so that without a limit nothing but the proof happens.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use super::raw::{c, call, is};
use super::{Found, Held, number, word};

/// `bomb-forks COUNT`: that many children alive at once.
pub fn forks(words: &[String]) -> Found {
    let wanted = number(words, 0)?;
    let mut children = Vec::new();
    let mut stopped_by = None;
    for _ in 0..wanted {
        // SAFETY: single-threaded; the child only sleeps.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: waits for the signal that ends it.
                unsafe { libc::pause() };
            },
            -1 => {
                stopped_by = Some(std::io::Error::last_os_error());
                break;
            }
            child => children.push(child),
        }
    }
    let alive = children.len() as i64;
    for child in children {
        // SAFETY: our own children, not yet waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
    match stopped_by {
        None => Ok(format!("{alive} processes at once")),
        Some(error) => Err(format!("stopped after {alive}: {error}").into()),
    }
}

/// `bomb-memory MEGABYTES`: touched memory in one process.
pub fn memory(words: &[String]) -> Found {
    let megabytes = number(words, 0)? as usize;
    for at in 0..megabytes {
        if let Err(error) = touch_megabyte() {
            return Err(format!("stopped after {at} MB: {error}").into());
        }
    }
    Ok(format!("holds {megabytes} MB"))
}

/// `bomb-memory-many PROCESSES MEGABYTES`: no single process takes much.
pub fn memory_many(words: &[String]) -> Found {
    let processes = number(words, 0)?;
    let megabytes = number(words, 1)?;
    let (read, write) = pipe()?;
    let mut children = Vec::new();
    for _ in 0..processes {
        // SAFETY: single-threaded; the child only maps, tells and sleeps.
        match unsafe { libc::fork() } {
            0 => {
                let done = (0..megabytes).all(|_| touch_megabyte().is_ok());
                let _ = (&write).write_all(&[u8::from(done)]);
                loop {
                    // SAFETY: waits for the signal that ends it.
                    unsafe { libc::pause() };
                }
            }
            -1 => break,
            child => children.push(child),
        }
    }
    drop(write);
    // A child that is killed tells nothing, while its siblings keep the pipe open:
    // its end must be looked for, or this would wait for ever.
    let mut told = 0;
    let mut died = children.len() as i64 != processes;
    while !died && told < processes {
        let mut ready = libc::pollfd {
            fd: read.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one pollfd that outlives the call; then our own children.
        unsafe {
            if libc::poll(&mut ready, 1, 100) == 1 {
                let mut done = [0];
                died |= std::io::Read::read(&mut &read, &mut done)? != 1 || done[0] != 1;
                told += 1;
            }
            died |= libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) > 0;
        }
    }
    let all = !died;
    // Whoever watches must have had a moment to see them all.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    for child in children {
        // SAFETY: our own children, not yet waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
    if all {
        Ok(format!("{processes} processes hold {megabytes} MB each"))
    } else {
        Err("not all could take their share".into())
    }
}

fn pipe() -> std::io::Result<(File, File)> {
    let (read, write) = std::io::pipe()?;
    Ok((
        File::from(std::os::fd::OwnedFd::from(read)),
        File::from(std::os::fd::OwnedFd::from(write)),
    ))
}

/// Maps a megabyte and writes to each page of it.
fn touch_megabyte() -> std::io::Result<()> {
    const MEGABYTE: usize = 1 << 20;
    // SAFETY: a fresh anonymous mapping, written within its bounds, kept for good.
    unsafe {
        let place = libc::mmap(
            std::ptr::null_mut(),
            MEGABYTE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if place == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        for page in (0..MEGABYTE).step_by(4096) {
            place.cast::<u8>().add(page).write_volatile(1);
        }
    }
    Ok(())
}

/// `bomb-tmp FOLDER MEGABYTES`: fills a folder.
pub fn fill(words: &[String]) -> Found {
    let path = format!("{}/bomb", word(words, 0)?);
    let megabytes = number(words, 1)?;
    let mut file = File::create(&path)?;
    let block = vec![7; 1 << 20];
    let mut written = Ok(());
    for at in 0..megabytes {
        if let Err(error) = file.write_all(&block) {
            written = Err(Held::from(format!("full after {at} MB: {error}")));
            break;
        }
    }
    std::fs::remove_file(&path)?;
    written.map(|()| format!("wrote {megabytes} MB to {path}"))
}

/// `bomb-inodes FOLDER`: how many files the file system would take.
pub fn inodes(words: &[String]) -> Found {
    let most = statistics(word(words, 0)?)?.f_files;
    // 0 means that nothing counts them.
    if most == 0 || most > 2_000_000 {
        Ok(format!("{most} files possible"))
    } else {
        Err(format!("at most {most} files").into())
    }
}

/// `bomb-shm FOLDER`: how much shared memory the file system would take.
pub fn shared_memory(words: &[String]) -> Found {
    let found = statistics(word(words, 0)?)?;
    let bytes = found.f_blocks * found.f_frsize;
    if bytes == 0 || bytes > 2 << 30 {
        Ok(format!("{bytes} bytes possible"))
    } else {
        Err(format!("at most {bytes} bytes").into())
    }
}

fn statistics(path: &str) -> Result<libc::statvfs, Held> {
    // SAFETY: statvfs is plain numbers; the call fills it.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in NUL and both outlive the call.
    if unsafe { libc::statvfs(c(path).as_ptr(), &mut found) } < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(found)
}

/// `bomb-output MEGABYTES`: writes to standard output without end.
pub fn output(words: &[String]) -> Found {
    let block = vec![b'x'; 1 << 20];
    let mut out = std::io::stdout().lock();
    for _ in 0..number(words, 0)? {
        out.write_all(&block)?;
    }
    out.flush()?;
    Ok("all of it went out".to_string())
}

/// `bomb-descriptors COUNT`: lifts the soft limit to the hard one, then opens.
pub fn descriptors(words: &[String]) -> Found {
    let wanted = number(words, 0)? as u64;
    // SAFETY: plain numbers, filled by the first call and read by the second.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
    let file = File::open("/dev/null")?;
    for at in 3..wanted {
        match call(libc::SYS_dup, &[file.as_raw_fd() as usize]) {
            Ok(_) => {}
            Err(error) if is(&error, libc::EMFILE) => {
                return Err(format!("stopped after {at}").into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(format!("{wanted} descriptors open"))
}

/// `bomb-spin SECONDS`: burns processor time.
pub fn spin(words: &[String]) -> Found {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(number(words, 0)? as u64);
    while std::time::Instant::now() < end {
        std::hint::spin_loop();
    }
    Ok("ran to its end".to_string())
}
