//! The second filter: what namespaces and mounts make harmless elsewhere, and Landlock
//! does not look at, is refused here.
//!
//! It stands behind the first one, which has looked at the architecture and at everything
//! that every jail refuses. A short list walked from top to bottom.

use seccompiler::sock_filter;

use super::Sockets;

/// What happens to a call.
#[derive(Debug, Clone, Copy)]
enum Verdict {
    /// It fails with this errno.
    Refuse(i32),
    /// The first argument, a process, must be the caller itself (0).
    OwnProcess,
    /// The first argument must not be -1, which is everybody.
    NotEverybody,
    /// Emptying a file needs a descriptor that can write; the flags are this argument.
    NoEmptying(u32),
    /// A pair of sockets that know each other and nobody else.
    Pair,
    /// A socket of the internet, or the one that tells about routes.
    Internet,
}

/// The calls that are always refused, and why.
const REFUSED: &[(&[libc::c_long], Verdict)] = &[
    // Landlock does not look at modes, owners and times, by name or by descriptor: what
    // can be read could be opened to others.
    (
        &[
            libc::SYS_fchmod,
            libc::SYS_fchmodat,
            452, // fchmodat2
            libc::SYS_fchown,
            libc::SYS_fchownat,
            libc::SYS_utimensat,
        ],
        Verdict::Refuse(libc::EPERM),
    ),
    #[cfg(target_arch = "x86_64")]
    (
        &[
            libc::SYS_chmod,
            libc::SYS_chown,
            libc::SYS_lchown,
            libc::SYS_utime,
            libc::SYS_utimes,
            libc::SYS_futimesat,
        ],
        Verdict::Refuse(libc::EPERM),
    ),
    // Nor at attributes; programs take this answer for a file system without them.
    (
        &[
            libc::SYS_setxattr,
            libc::SYS_lsetxattr,
            libc::SYS_fsetxattr,
            libc::SYS_removexattr,
            libc::SYS_lremovexattr,
            libc::SYS_fremovexattr,
        ],
        Verdict::Refuse(libc::EOPNOTSUPP),
    ),
    // Before ABI 3 it does not look at emptying either.
    (&[libc::SYS_truncate], Verdict::Refuse(libc::EPERM)),
    #[cfg(target_arch = "x86_64")]
    (&[libc::SYS_open], Verdict::NoEmptying(1)),
    (&[libc::SYS_openat], Verdict::NoEmptying(2)),
    // There is no ipc namespace.
    (
        &[
            libc::SYS_shmget,
            libc::SYS_shmat,
            libc::SYS_shmctl,
            libc::SYS_semget,
            libc::SYS_semop,
            libc::SYS_semtimedop,
            libc::SYS_semctl,
            libc::SYS_msgget,
            libc::SYS_msgsnd,
            libc::SYS_msgrcv,
            libc::SYS_msgctl,
            libc::SYS_mq_open,
            libc::SYS_mq_unlink,
        ],
        Verdict::Refuse(libc::ENOSYS),
    ),
    // There is no pid namespace: limits and priorities of others are theirs.
    (&[libc::SYS_prlimit64], Verdict::OwnProcess),
    (
        &[
            libc::SYS_setpriority,
            libc::SYS_ioprio_set,
            libc::SYS_sched_setscheduler,
            libc::SYS_sched_setparam,
            libc::SYS_sched_setattr,
        ],
        Verdict::Refuse(libc::EPERM),
    ),
    (&[libc::SYS_kill], Verdict::NotEverybody),
    // A datagram pair could be turned towards a socket of the host's.
    (&[libc::SYS_socketpair], Verdict::Pair),
];

/// Without a network there is nobody to talk to but the other end of a pair.
const NO_NETWORK: &[(&[libc::c_long], Verdict)] = &[(
    &[
        libc::SYS_socket,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
    ],
    Verdict::Refuse(libc::EACCES),
)];

/// With the host's network: never a Unix socket, whose names are the host's.
const INTERNET: &[(&[libc::c_long], Verdict)] = &[(&[libc::SYS_socket], Verdict::Internet)];

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;

/// The filter, ready to be loaded.
pub fn program(sockets: Sockets) -> Vec<sock_filter> {
    let network = match sockets {
        Sockets::None => NO_NETWORK,
        Sockets::Internet => INTERNET,
    };
    let mut program = vec![step(LOAD, 0, 0, 0)];
    for (numbers, verdict) in REFUSED.iter().chain(network) {
        for number in *numbers {
            let answer = answer(*verdict);
            // Each answer ends the walk, so the call's number is still loaded after it
            // was passed over.
            program.push(step(EQUAL, 0, answer.len() as u8, *number as u32));
            program.extend(answer);
        }
    }
    program.push(step(RETURN, 0, 0, ALLOW));
    program
}

fn answer(verdict: Verdict) -> Vec<sock_filter> {
    let refuse = |errno: i32| step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32);
    let allow = || step(RETURN, 0, 0, ALLOW);
    // The low half of an argument; each of these is an `int` to the kernel.
    let load = |index: u32| step(LOAD, 0, 0, 16 + 8 * index);
    match verdict {
        Verdict::Refuse(errno) => vec![refuse(errno)],
        Verdict::OwnProcess => vec![load(0), step(EQUAL, 0, 1, 0), allow(), refuse(libc::EPERM)],
        Verdict::NotEverybody => vec![
            load(0),
            step(EQUAL, 0, 1, u32::MAX),
            refuse(libc::EPERM),
            allow(),
        ],
        Verdict::NoEmptying(flags) => vec![
            load(flags),
            step(AND, 0, 0, (libc::O_TRUNC | libc::O_ACCMODE) as u32),
            step(EQUAL, 0, 1, (libc::O_TRUNC | libc::O_RDONLY) as u32),
            refuse(libc::EPERM),
            allow(),
        ],
        Verdict::Pair => vec![
            load(1),
            step(AND, 0, 0, 0xf),
            step(EQUAL, 2, 0, libc::SOCK_STREAM as u32),
            step(EQUAL, 1, 0, libc::SOCK_SEQPACKET as u32),
            refuse(libc::EACCES),
            allow(),
        ],
        Verdict::Internet => vec![
            load(0),
            step(EQUAL, 3, 0, libc::AF_INET as u32),
            step(EQUAL, 2, 0, libc::AF_INET6 as u32),
            step(EQUAL, 1, 0, libc::AF_NETLINK as u32),
            refuse(libc::EACCES),
            allow(),
        ],
    }
}

fn step(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn verdict(sockets: Sockets, number: i64, args: [u32; 3]) -> u32 {
        let program = program(sockets);
        let (mut place, mut word) = (0, 0_u32);
        loop {
            let now = &program[place];
            place += 1;
            match u32::from(now.code) {
                LOAD if now.k == 0 => word = number as u32,
                LOAD => word = args[(now.k as usize - 16) / 8],
                AND => word &= now.k,
                EQUAL if word == now.k => place += usize::from(now.jt),
                EQUAL => place += usize::from(now.jf),
                RETURN => return now.k,
                code => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    #[test]
    fn what_it_says() {
        let refused = |errno: i32| libc::SECCOMP_RET_ERRNO | errno as u32;
        let none = |number, args| verdict(Sockets::None, number, args);
        let inet = |number, args| verdict(Sockets::Internet, number, args);
        let (unix, four) = (libc::AF_UNIX as u32, libc::AF_INET as u32);
        let stream = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as u32;
        let trunc = libc::O_TRUNC as u32;
        let cases = [
            (none(libc::SYS_read, [0; 3]), ALLOW),
            (none(libc::SYS_socket, [four, 1, 0]), refused(libc::EACCES)),
            (none(libc::SYS_socket, [unix, 1, 0]), refused(libc::EACCES)),
            (inet(libc::SYS_socket, [unix, 1, 0]), refused(libc::EACCES)),
            (inet(libc::SYS_socket, [four, 1, 0]), ALLOW),
            (inet(libc::SYS_connect, [3, 0, 0]), ALLOW),
            (none(libc::SYS_connect, [3, 0, 0]), refused(libc::EACCES)),
            (none(libc::SYS_socketpair, [unix, stream, 0]), ALLOW),
            (
                none(libc::SYS_socketpair, [unix, 2, 0]),
                refused(libc::EACCES),
            ),
            (
                none(libc::SYS_socketpair, [unix, 3, 0]),
                refused(libc::EACCES),
            ),
            (none(libc::SYS_kill, [u32::MAX, 9, 0]), refused(libc::EPERM)),
            (none(libc::SYS_kill, [42, 9, 0]), ALLOW),
            (none(libc::SYS_prlimit64, [0, 1, 0]), ALLOW),
            (none(libc::SYS_prlimit64, [42, 1, 0]), refused(libc::EPERM)),
            (none(libc::SYS_fchmod, [3, 0o777, 0]), refused(libc::EPERM)),
            (none(libc::SYS_truncate, [0; 3]), refused(libc::EPERM)),
            (none(libc::SYS_openat, [0, 0, trunc]), refused(libc::EPERM)),
            (none(libc::SYS_openat, [0, 0, trunc | 1]), ALLOW),
            (none(libc::SYS_openat, [0, 0, 0]), ALLOW),
            (none(libc::SYS_shmget, [0; 3]), refused(libc::ENOSYS)),
        ];
        for (index, (found, expected)) in cases.into_iter().enumerate() {
            assert_eq!(found, expected, "case {index}");
        }
    }
}
