//! What the attacker tries. Each attempt is small, real and says what came of it.
//!
//! An attempt that gives text *got out* (or found a door open that leads out);
//! one that gives a [`Held`] did not. What the machine does not have at all, so
//! that nobody could get out by it, is told apart.

use std::io;

pub mod alive;
pub mod bomb;
pub mod changes;
pub mod files;
pub mod gate;
pub mod holds;
pub mod ipc;
pub mod mounts;
pub mod names;
pub mod net;
pub mod newer;
pub mod peers;
pub mod privileges;
pub mod raw;
pub mod terminal;

/// Why an attempt did not get out.
#[derive(Debug)]
pub enum Held {
    /// It was refused, or what it looked for is not there.
    Refused(String),
    /// This machine cannot do it for anyone.
    Absent(String),
}

impl From<io::Error> for Held {
    fn from(error: io::Error) -> Held {
        Held::Refused(error.to_string())
    }
}

impl From<nix::errno::Errno> for Held {
    fn from(errno: nix::errno::Errno) -> Held {
        Held::Refused(errno.desc().to_string())
    }
}

impl From<&str> for Held {
    fn from(reason: &str) -> Held {
        Held::Refused(reason.to_string())
    }
}

impl From<String> for Held {
    fn from(reason: String) -> Held {
        Held::Refused(reason)
    }
}

/// What came of an attempt: the proof that it got out, or why not.
pub type Found = Result<String, Held>;

/// An attempt, given the words after its name.
pub type Attempt = fn(&[String]) -> Found;

/// The exit code of the attacker when it got out.
pub const OUT: i32 = 0;
/// The exit code of the attacker when it was held.
pub const HELD: i32 = 10;
/// The exit code of the attacker when the machine cannot do it for anyone.
pub const ABSENT: i32 = 11;

/// Every attempt by its name.
pub const ATTEMPTS: &[(&str, Attempt)] = &[
    ("bomb-descriptors", bomb::descriptors),
    ("bomb-forks", bomb::forks),
    ("bomb-inodes", bomb::inodes),
    ("bomb-memory", bomb::memory),
    ("bomb-memory-many", bomb::memory_many),
    ("bomb-output", bomb::output),
    ("bomb-shm", bomb::shared_memory),
    ("bomb-spin", bomb::spin),
    ("bomb-tmp", bomb::fill),
    ("caps-any", privileges::any_capability),
    ("caps-raise", privileges::raise),
    ("change", changes::change),
    ("chmod-mode", files::chmod),
    ("chroot-here", mounts::chroot),
    ("clone-high-bits", gate::clone_high_bits),
    ("clone-namespace", gate::clone_namespace),
    ("clone3-namespace", gate::clone3_namespace),
    ("connect-abstract", net::connect_abstract),
    ("connect-tcp", net::connect_tcp),
    ("connect-unix", net::connect_unix),
    ("core-limit", privileges::core_limit),
    ("create", names::create),
    ("cut-short", names::cut_short),
    ("daemon", alive::daemon),
    ("daemon-stopped", alive::daemon_stopped),
    ("descriptors", files::leaked_descriptors),
    ("device", files::open_device),
    ("dumpable-init", peers::init_is_dumpable),
    ("env", files::environment),
    ("exchange", names::exchange),
    ("fchdir-stdin", files::read_below_stdin),
    ("fsopen", mounts::fsopen),
    ("fsmount", mounts::fsmount),
    ("handle", files::open_by_handle),
    ("high-socket", net::high_bits_family),
    ("i386", gate::i386),
    ("i386-socketcall", gate::i386_socketcall),
    ("io-uring", gate::io_uring),
    ("keep-hold", holds::keep),
    ("keyring", ipc::keyring),
    ("kill", peers::kill),
    ("kcmp", peers::kcmp),
    ("link-from", files::link_from),
    ("madvise", peers::madvise),
    ("make-group", files::make_group),
    ("map-write", names::write_by_mapping),
    ("memfd", gate::memfd),
    ("mkdir", names::mkdir),
    ("mknod", files::mknod),
    ("mount-tmpfs", mounts::mount),
    ("mount-bind", mounts::bind),
    ("mount-setattr", mounts::setattr),
    ("mounts-nosuid", mounts::without_nosuid),
    ("move-in", files::move_in),
    ("move-mount", mounts::move_mount),
    ("mqueue", ipc::message_queue),
    ("msg-queue", ipc::sysv_message),
    ("netlink", net::netlink),
    ("new-privs", privileges::new_privileges),
    ("open-tree", mounts::open_tree),
    ("passwd-status", privileges::setuid_program),
    ("pidfd-getfd", peers::pidfd_getfd),
    ("pivot-root", mounts::pivot_root),
    ("posix-shm", ipc::posix_shared_memory),
    ("probe", gate::probe),
    ("proc-fd", peers::descriptor_of),
    ("proc-mem", peers::memory_of),
    ("process-read", peers::process_read),
    ("process-write", peers::process_write),
    ("ptrace", peers::ptrace),
    ("ptrace-seize", peers::ptrace_seize),
    ("read", files::read),
    ("read-below", files::read_below_descriptor),
    ("read-when", files::read_when),
    ("remount", mounts::remount),
    ("rename", names::rename),
    ("rename-away", names::rename_away),
    ("scm-rights", net::receive_descriptor),
    ("second-name", names::second_name),
    ("sem", ipc::sysv_semaphore),
    ("sendto-unix", net::send_datagram),
    ("setgroups", privileges::setgroups),
    ("setns", gate::setns),
    ("setuid", privileges::setuid),
    ("shm", ipc::sysv_shared_memory),
    ("sleep", alive::sleep),
    ("socket", net::socket),
    ("socket-same", net::socketpair_family),
    ("symlink", names::symlink),
    ("take-away", names::take_away),
    ("tiocsti", terminal::tiocsti),
    ("tioclinux", terminal::tioclinux),
    ("udp", net::send_udp),
    ("umount-it", mounts::umount),
    ("unshare-namespace", gate::unshare),
    ("victim", peers::victim),
    ("weak", mounts::in_weak_jail),
    ("who-am-i", privileges::effective_root),
    ("write", files::write),
    ("write-below", files::write_below_descriptor),
    ("write-open", files::open_for_writing),
    ("write-same", files::write_same),
    ("write-until", names::write_until),
    ("x32", gate::x32),
    ("call", newer::call_by_number),
    ("lease", newer::lease),
    ("own-signals", newer::own_signals),
    ("real-time", newer::real_time),
    ("priority", newer::priority),
    ("spared", newer::spared),
    ("immutable", newer::immutable),
    ("forged-sender", newer::forged_sender),
    ("set-mm", newer::set_mm),
    ("plant", changes::plant),
];

/// Runs the named attempt and tells on standard output what came of it.
pub fn main(words: &[String]) -> i32 {
    let attempt = words
        .first()
        .and_then(|name| ATTEMPTS.iter().find(|(known, _)| known == name));
    let Some((_, attempt)) = attempt else {
        eprintln!("attacker: no such attempt: {:?}", words.first());
        return 2;
    };
    match attempt(&words[1..]) {
        Ok(proof) => {
            println!("OUT {proof}");
            OUT
        }
        Err(Held::Refused(why)) => {
            println!("HELD {why}");
            HELD
        }
        Err(Held::Absent(why)) => {
            println!("ABSENT {why}");
            ABSENT
        }
    }
}

/// The word at a place, or a refusal that says what was forgotten.
fn word(words: &[String], at: usize) -> Result<&str, Held> {
    match words.get(at) {
        Some(word) => Ok(word),
        None => {
            eprintln!("attacker: word {at} is missing");
            std::process::exit(2)
        }
    }
}

/// The number at a place.
fn number(words: &[String], at: usize) -> Result<i64, Held> {
    match word(words, at)?.parse() {
        Ok(number) => Ok(number),
        Err(_) => {
            eprintln!("attacker: word {at} is no number");
            std::process::exit(2)
        }
    }
}
