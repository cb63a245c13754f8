//! The system call gate: foreign dialects, namespaces, calls that must be shut.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::raw::{address, address_mut, c, call, int80, is, low_page};
use super::{Found, Held, number, word};

/// `i386 getpid|open PATH`: the 32-bit table has other numbers than the filter knows.
pub fn i386(words: &[String]) -> Found {
    match word(words, 0)? {
        "getpid" => Ok(format!("getpid by int 0x80 gave {}", int80(20, [0; 3])?)),
        _ => {
            let page = low_page()?;
            let path = c(word(words, 1)?);
            let bytes = path.as_bytes_with_nul();
            // SAFETY: the page is ours, zeroed and longer than any path given here.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), page, bytes.len()) };
            let descriptor = int80(5, [page as u32, 0, 0])?;
            let read = int80(3, [descriptor, page as u32, 4000])?;
            // SAFETY: the kernel has just filled that many bytes of our page.
            let text = unsafe { std::slice::from_raw_parts(page, read as usize) };
            Ok(format!(
                "read by int 0x80: {}",
                String::from_utf8_lossy(text)
            ))
        }
    }
}

/// `i386-socketcall`: all socket calls behind one number.
pub fn i386_socketcall(_: &[String]) -> Found {
    let page = low_page()?;
    // SAFETY: the page is ours; three u32 fit in it.
    unsafe {
        let arguments = page.cast::<u32>();
        arguments.write(libc::AF_UNIX as u32);
        arguments.add(1).write(libc::SOCK_STREAM as u32);
        arguments.add(2).write(0);
    }
    let descriptor = int80(102, [1, page as u32, 0])?;
    Ok(format!("socketcall made descriptor {descriptor}"))
}

/// `x32 NUMBER`: the same call with bit 30 set.
pub fn x32(words: &[String]) -> Found {
    match call(number(words, 0)? | 0x4000_0000, &[]) {
        Ok(result) => Ok(format!("the x32 call gave {result}")),
        Err(error) if is(&error, libc::ENOSYS) && on_the_host() => {
            Err(Held::Absent("this kernel has no x32".to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Tells the control run on the host from the run in the jail, where a missing
/// feature of the kernel and a refusal look alike.
pub fn on_the_host() -> bool {
    std::env::var_os("ATTACKER_CONTROL").is_some()
}

fn namespace(word: &str) -> Result<i64, Held> {
    Ok(i64::from(match word {
        "user" => libc::CLONE_NEWUSER,
        "mnt" => libc::CLONE_NEWNS,
        "pid" => libc::CLONE_NEWPID,
        "net" => libc::CLONE_NEWNET,
        "ipc" => libc::CLONE_NEWIPC,
        "uts" => libc::CLONE_NEWUTS,
        "cgroup" => libc::CLONE_NEWCGROUP,
        "time" => 0x80,
        _ => return Err("no such namespace".into()),
    }))
}

/// `unshare KIND`: a fresh namespace brings fresh capabilities.
pub fn unshare(words: &[String]) -> Found {
    call(libc::SYS_unshare, &[namespace(word(words, 0)?)? as usize])?;
    Ok(format!("unshared {}", word(words, 0)?))
}

/// `clone-namespace KIND`: as [`unshare`], by the old clone.
pub fn clone_namespace(words: &[String]) -> Found {
    clone_with(namespace(word(words, 0)?)? as usize)
}

/// `clone-high-bits`: clone ignores the upper half of its flags; does the filter?
pub fn clone_high_bits(_: &[String]) -> Found {
    clone_with(libc::CLONE_NEWUSER as usize | 1 << 40)
}

fn clone_with(flags: usize) -> Found {
    let child = call(
        libc::SYS_clone,
        &[flags | libc::SIGCHLD as usize, 0, 0, 0, 0],
    )?;
    if child == 0 {
        // SAFETY: the child of a raw clone does nothing but end.
        unsafe { libc::_exit(0) };
    }
    Ok(format!("cloned {child} into a new namespace"))
}

/// `clone3-namespace KIND`: flags in memory, where a filter cannot look.
pub fn clone3_namespace(words: &[String]) -> Found {
    let mut arguments = [0u64; 11];
    arguments[0] = namespace(word(words, 0)?)? as u64;
    arguments[4] = libc::SIGCHLD as u64;
    let size = size_of_val(&arguments);
    let child = call(libc::SYS_clone3, &[address(&arguments), size])?;
    if child == 0 {
        // SAFETY: the child of a raw clone does nothing but end.
        unsafe { libc::_exit(0) };
    }
    Ok(format!("clone3 made {child} in a new namespace"))
}

/// `setns PATH|pidfd`: into a namespace that is already there.
pub fn setns(words: &[String]) -> Found {
    let descriptor = match word(words, 0)? {
        "pidfd" if word(words, 1)? == "self" => {
            call(libc::SYS_pidfd_open, &[std::process::id() as usize, 0])?
        }
        "pidfd" => call(libc::SYS_pidfd_open, &[number(words, 1)? as usize, 0])?,
        path => {
            let file = fs::File::open(path)?;
            let number = file.as_raw_fd() as usize;
            std::mem::forget(file);
            number
        }
    };
    let kinds = libc::CLONE_NEWUTS | libc::CLONE_NEWIPC;
    let kinds = if word(words, 0)? == "pidfd" { kinds } else { 0 };
    call(libc::SYS_setns, &[descriptor, kinds as usize])?;
    Ok("entered a namespace".to_string())
}

/// `io-uring setup|enter|register|open PATH`: work done past the filter.
pub fn io_uring(words: &[String]) -> Found {
    let mut parameters = [0u8; 120];
    match word(words, 0)? {
        "setup" => {
            let ring = call(libc::SYS_io_uring_setup, &[4, address_mut(&mut parameters)])?;
            Ok(format!("made ring {ring}"))
        }
        "enter" => open_door(
            libc::SYS_io_uring_enter,
            &[usize::MAX, 0, 0, 0, 0, 0],
            libc::EBADF,
        ),
        _ => open_door(
            libc::SYS_io_uring_register,
            &[usize::MAX, 0, 0, 0],
            libc::EBADF,
        ),
    }
}

/// A call made with wrong arguments: the errno of the call itself shows that
/// nothing stands before it.
fn open_door(number: i64, arguments: &[usize], errno: i32) -> Found {
    match call(number, arguments) {
        Ok(result) => Ok(format!("call {number} gave {result}")),
        Err(error) if is(&error, errno) => Ok(format!("call {number} answered: {error}")),
        Err(error) if is(&error, libc::ENOSYS) && on_the_host() => {
            Err(Held::Absent(format!("this kernel has no call {number}")))
        }
        Err(error) => Err(error.into()),
    }
}

/// `probe NAME`: calls that no jailed program needs. Arguments are chosen so
/// that an open door changes nothing.
pub fn probe(words: &[String]) -> Found {
    let nothing = c("/nonexistent/by/purpose");
    let path = address(nothing.as_c_str());
    match word(words, 0)? {
        "bpf" => {
            // BPF_MAP_CREATE of an array with one 4-byte key and value.
            let attributes: [u32; 18] = {
                let mut fields = [0; 18];
                fields[..4].copy_from_slice(&[2, 4, 4, 1]);
                fields
            };
            let size = size_of_val(&attributes);
            let map = call(libc::SYS_bpf, &[0, address(&attributes), size])?;
            Ok(format!("made bpf map {map}"))
        }
        "userfaultfd" => Ok(format!("got {}", call(libc::SYS_userfaultfd, &[1])?)),
        "perf" => {
            let mut event = [0u8; 128];
            event[0..4].copy_from_slice(&1u32.to_ne_bytes()); // PERF_TYPE_SOFTWARE
            event[4..8].copy_from_slice(&128u32.to_ne_bytes());
            event[8..16].copy_from_slice(&1u64.to_ne_bytes()); // TASK_CLOCK
            event[40..48].copy_from_slice(&0x61u64.to_ne_bytes()); // disabled, no kernel, no hypervisor
            let none = usize::MAX;
            let counter = call(
                libc::SYS_perf_event_open,
                &[address(&event), 0, none, none, 0],
            )?;
            Ok(format!("perf counter {counter}"))
        }
        "fanotify" => Ok(format!(
            "got {}",
            call(libc::SYS_fanotify_init, &[0x200, 0])?
        )),
        "kexec" => open_door(libc::SYS_kexec_load, &[0, usize::MAX, 0, 0], libc::EINVAL),
        "kexec-file" => open_door(
            libc::SYS_kexec_file_load,
            &[usize::MAX, usize::MAX, 0, 0, 0],
            libc::EBADF,
        ),
        "init-module" => open_door(libc::SYS_init_module, &[path, 4, path], libc::ENOEXEC),
        "finit-module" => open_door(libc::SYS_finit_module, &[usize::MAX, path, 0], libc::EBADF),
        "delete-module" => open_door(libc::SYS_delete_module, &[path, 0], libc::ENOENT),
        "syslog" => {
            let mut buffer = [0u8; 4096];
            let read = call(
                libc::SYS_syslog,
                &[3, address_mut(&mut buffer), buffer.len()],
            )?;
            Ok(format!("read {read} bytes of the kernel's log"))
        }
        // The capability is asked for before the magic numbers are looked at.
        "reboot" => open_door(libc::SYS_reboot, &[1, 2, 3, 0], libc::EINVAL),
        "swapon" => open_door(libc::SYS_swapon, &[path, 0], libc::ENOENT),
        "acct" => open_door(libc::SYS_acct, &[path], libc::ENOENT),
        "iopl" => open_door(libc::SYS_iopl, &[3], 0),
        "ioperm" => open_door(libc::SYS_ioperm, &[0x80, 1, 1], 0),
        "clock" => {
            let mut now = [0u64; 26];
            call(libc::SYS_adjtimex, &[address_mut(&mut now)])?;
            // Sets the tick to what it already is (10,000 µs).
            let mut same = [0u64; 26];
            same[0] = 0x4000;
            same[11] = now[11];
            call(libc::SYS_adjtimex, &[address_mut(&mut same)])?;
            Ok("set the machine's clock".to_string())
        }
        "sethostname" => open_door(libc::SYS_sethostname, &[path, 4], 0),
        "add-key" => {
            let kind = c("user");
            let kind = address(kind.as_c_str());
            open_door(libc::SYS_add_key, &[kind, 1, 0, 0, 0], libc::EFAULT)
        }
        "request-key" => {
            let kind = c("user");
            let kind = address(kind.as_c_str());
            open_door(libc::SYS_request_key, &[kind, 1, 0, 0], libc::EFAULT)
        }
        _ => {
            eprintln!("attacker: no such probe");
            std::process::exit(2)
        }
    }
}

/// `memfd ATTEMPT…`: runs another attempt from a program that has no path.
pub fn memfd(words: &[String]) -> Found {
    let name = c("nameless");
    let descriptor = call(libc::SYS_memfd_create, &[address(name.as_c_str()), 0])?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    let mut file = unsafe { fs::File::from_raw_fd(descriptor as i32) };
    file.write_all(&fs::read("/proc/self/exe")?)?;
    let error = Command::new(format!("/proc/self/fd/{descriptor}"))
        .args(words)
        .exec();
    // A program that may not run from memory is told apart from one that runs
    // there and is held: the suite reads which.
    Err(io::Error::new(error.kind(), format!("not executed: {error}")).into())
}
