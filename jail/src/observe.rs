//! The filters of a run under `--trace`: the same verdicts, told to an observer. (And of a
//! preview, of whose calls only renames are looked at.)
//!
//! A refusal by errno outranks every question to an observer, so the first filter must not
//! refuse by errno here. It answers what it refuses with "ask the tracer" instead: there is
//! none, and the kernel then says ENOSYS, which is what holds pid 1. The command carries a
//! second filter on top, made of the same instructions, whose answer outranks that one: the
//! call waits for the supervisor, which runs the untouched filter over it and gives the
//! very errno. Both are the same walk with other words at its ends, so what one refuses the
//! other does too.

use seccompiler::sock_filter;

use crate::seccomp;
use crate::sys::notify::{Call, RENAMES, SHOWN};

/// Both filters.
#[derive(Debug)]
pub struct Filters {
    /// For pid 1 and all below it, in place of the usual one.
    pub holding: Vec<sock_filter>,
    /// For the command and all below it, on top.
    pub asking: Vec<sock_filter>,
}

/// A call that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The kernel's name for it, if the table has one.
    pub name: Option<&'static str>,
    /// Its number.
    pub number: i32,
    /// The answer that it gets.
    pub errno: i32,
    /// Why.
    pub reason: &'static str,
}

impl Filters {
    /// Made from the usual filter.
    pub fn new() -> Filters {
        let mut asking = questions(&SHOWN);
        asking.extend(with_answer(libc::SECCOMP_RET_USER_NOTIF));
        Filters {
            holding: with_answer(libc::SECCOMP_RET_TRACE),
            asking,
        }
    }
}

/// On top of the usual filter, which holds as it is: renames are looked at. What the usual
/// one refuses outranks a question.
pub fn renames() -> Vec<sock_filter> {
    let mut asking = questions(&RENAMES);
    asking.push(seccomp::statement(seccomp::RET, libc::SECCOMP_RET_ALLOW));
    asking
}

/// Asks about these calls, although they are allowed; all else, and every other
/// architecture, is dealt with by what follows.
fn questions(shown: &[libc::c_long]) -> Vec<sock_filter> {
    let mut asking = Vec::new();
    asking.push(seccomp::statement(
        seccomp::LOAD,
        seccomp::OFFSET_OF_ARCHITECTURE,
    ));
    let count = shown.len() as u8;
    asking.push(seccomp::jump(
        seccomp::EQUAL,
        seccomp::ARCHITECTURE,
        0,
        count + 2,
    ));
    asking.push(seccomp::statement(seccomp::LOAD, seccomp::OFFSET_OF_NUMBER));
    for (index, number) in shown.iter().enumerate() {
        let to_answer = count - index as u8 - 1;
        // The last one leaps over the answer when it does not match.
        let past = u8::from(index + 1 == shown.len());
        asking.push(seccomp::jump(
            seccomp::EQUAL,
            *number as u32,
            to_answer,
            past,
        ));
    }
    asking.push(seccomp::statement(
        seccomp::RET,
        libc::SECCOMP_RET_USER_NOTIF,
    ));
    asking
}

/// The usual filter with every refusal by errno replaced.
fn with_answer(answer: u32) -> Vec<sock_filter> {
    seccomp::instructions()
        .iter()
        .map(|step| {
            let refuses = u32::from(step.code) == seccomp::RET
                && step.k & libc::SECCOMP_RET_ACTION_FULL == libc::SECCOMP_RET_ERRNO;
            let k = if refuses { answer } else { step.k };
            seccomp::jump(u32::from(step.code), k, step.jt, step.jf)
        })
        .collect()
}

/// Whether the usual filter refuses this call, and how.
pub fn refused(call: &Call) -> Option<Refused> {
    let number = call.data.nr;
    let answer = seccomp::judge(call.data.arch, number.cast_unsigned(), call.data.args)?;
    if answer & libc::SECCOMP_RET_ACTION_FULL != libc::SECCOMP_RET_ERRNO {
        return None;
    }
    let entry = seccomp::TABLE
        .iter()
        .find(|entry| entry.number == libc::c_long::from(number));
    Some(Refused {
        name: entry.map(seccomp::Entry::name),
        number,
        errno: (answer & libc::SECCOMP_RET_DATA) as i32,
        reason: entry.map_or("sjail does not know it", seccomp::Entry::reason),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn renames_alone_are_asked_about() {
        let asking = renames();
        for number in (0..600).chain([0x4000_0001, u32::MAX]) {
            let run = |arch| seccomp::walk(&asking, arch, number, [0; 6]).unwrap();
            let asked = RENAMES.contains(&i64::from(number));
            assert_eq!(
                run(seccomp::ARCHITECTURE),
                match asked {
                    true => libc::SECCOMP_RET_USER_NOTIF,
                    false => libc::SECCOMP_RET_ALLOW,
                },
                "{number}"
            );
            assert_eq!(run(1), libc::SECCOMP_RET_ALLOW);
        }
    }

    /// Over every number and a few arguments: what the usual filter refuses the two
    /// refuse, what it allows the first allows, and the second but for what it shows.
    #[test]
    fn the_three_agree() {
        let filters = Filters::new();
        let namespace = libc::CLONE_NEWUSER as u64;
        for number in (0..600).chain([0x4000_0001, u32::MAX]) {
            for first in [0, 1, 2, 16, 40, namespace] {
                for second in [0, 0o4755, libc::TIOCSTI, libc::O_CREAT as u64] {
                    let args = [first, second, 0o4755, 0o4755, 0, 0];
                    let arch = seccomp::ARCHITECTURE;
                    let run = |program| seccomp::walk(program, arch, number, args).unwrap();
                    let usual = run(seccomp::instructions());
                    let refuses = usual != libc::SECCOMP_RET_ALLOW;
                    let holding = run(&filters.holding);
                    assert_eq!(
                        holding,
                        match refuses {
                            true => libc::SECCOMP_RET_TRACE,
                            false => libc::SECCOMP_RET_ALLOW,
                        },
                        "{number}"
                    );
                    let shown = SHOWN.contains(&i64::from(number));
                    assert_eq!(
                        run(&filters.asking),
                        match refuses || shown {
                            true => libc::SECCOMP_RET_USER_NOTIF,
                            false => libc::SECCOMP_RET_ALLOW,
                        },
                        "{number}"
                    );
                }
            }
        }
    }

    #[test]
    fn another_architecture_dies_in_all_of_them() {
        let filters = Filters::new();
        for program in [&filters.holding, &filters.asking] {
            let answer = seccomp::walk(program, 0x4000_0003, 1, [0; 6]);
            assert_eq!(answer, Some(libc::SECCOMP_RET_KILL_PROCESS));
        }
    }
}
