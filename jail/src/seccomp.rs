//! The system-call filter: one program, compiled at build time from `seccomp/syscalls.toml`.
//!
//! The kernel walks a filter once per call *number* when it is loaded (to remember the
//! calls that are always allowed), so what counts is the length of the walk: the numbers
//! are gathered into ranges of equal verdict and the ranges into a balanced tree, eight
//! comparisons deep. A chain of four hundred comparisons loads several times slower.
//!
//! The last range is open-ended: a number beyond the table, that is every newer call and
//! every call with the x32 bit (0x4000_0000), meets `ENOSYS`. A foreign architecture
//! (i386's `int 0x80`) ends the process.

use nix::errno::Errno;
use seccompiler::sock_filter;

include!(concat!(env!("OUT_DIR"), "/syscalls.rs"));

/// A call, what happens to it and why.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    name: Text,
    /// Its number on this architecture.
    pub number: libc::c_long,
    /// What the filter says.
    pub verdict: Verdict,
    reason: Text,
}

impl Entry {
    /// The kernel's name for it.
    pub fn name(&self) -> &'static str {
        self.name.get()
    }

    /// Why the filter says so.
    pub fn reason(&self) -> &'static str {
        self.reason.get()
    }
}

/// Where a text begins in the one that holds them all, and how long it is.
#[derive(Debug, Clone, Copy)]
struct Text(u32, u32);

impl Text {
    fn get(self) -> &'static str {
        let at = self.0 as usize;
        TEXTS.get(at..at + self.1 as usize).unwrap_or_default()
    }
}

/// What the filter says to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes through.
    Allow,
    /// It fails with this errno.
    Refuse(u16),
    /// It depends on an argument.
    Check(Rule),
}

/// A look at the arguments. Each compares the low 32 bits, because each of these
/// arguments is an `int` to the kernel: it drops the high ones itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The request is none of TIOCSTI, TIOCLINUX, TIOCSETD and those for a snapshot of btrfs.
    Ioctl,
    /// The request is none that leases a file.
    Fcntl,
    /// The flags (first argument) name no namespace.
    Clone,
    /// The same for `unshare`, which knows one namespace flag more.
    Unshare,
    /// The domain is Unix, IPv4, IPv6, or netlink with the protocol for routes.
    Socket,
    /// The domain is Unix.
    SocketPair,
    /// The mode, second argument, has neither set-id bit.
    Mode1,
    /// The mode, third argument, has neither set-id bit.
    Mode2,
    /// Nothing is made, or its mode (third argument) has neither set-id bit.
    Open,
    /// The same with everything one argument further.
    OpenAt,
    /// A question, plain Linux, 32-bit look, or no address randomisation.
    Personality,
}

/// Loads the filter for this process and all that descend from it.
pub fn load() -> Result<(), Errno> {
    add(instructions())
}

/// The filter's instructions.
pub fn instructions() -> &'static [sock_filter] {
    PROGRAM
        .instructions
        .get(..PROGRAM.length)
        .unwrap_or_default()
}

/// What the filter answers to a call.
pub fn judge(architecture: u32, number: u32, args: [u64; 6]) -> Option<u32> {
    walk(instructions(), architecture, number, args)
}

/// Runs a program as the kernel does: the part of classic BPF that filters use.
pub fn walk(
    program: &[sock_filter],
    architecture: u32,
    number: u32,
    args: [u64; 6],
) -> Option<u32> {
    let load = |at: u32| match at {
        OFFSET_OF_NUMBER => Some(number),
        OFFSET_OF_ARCHITECTURE => Some(architecture),
        at => {
            let arg = args.get((at as usize).checked_sub(16)? / 8)?;
            Some((arg >> (8 * (at % 8))) as u32)
        }
    };
    let (mut place, mut word) = (0_usize, 0_u32);
    loop {
        let step = program.get(place)?;
        let choose = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
        place += 1;
        match u32::from(step.code) {
            LOAD => word = load(step.k)?,
            RET => return Some(step.k),
            JUMP => place += step.k as usize,
            EQUAL => place += choose(word == step.k),
            AT_LEAST => place += choose(word >= step.k),
            GREATER => place += choose(word > step.k),
            ANY_BIT => place += choose(word & step.k != 0),
            AND => word &= step.k,
            _ => return None,
        }
    }
}

/// Loads a filter for this process and all that descend from it, behind those that are
/// there.
pub fn add(program: &[sock_filter]) -> Result<(), Errno> {
    seccompiler::apply_filter(program).map_err(|_| Errno::last())
}

/// What a call with no entry meets, as if the kernel were too old to know it.
const UNKNOWN: Verdict = Verdict::Refuse(libc::ENOSYS as u16);

/// One more than the highest number that can stand in the table.
const NUMBERS: usize = 512;

/// Room for the program; the compilation fails if it does not fit.
const ROOM: usize = 1024;

/// As filters see it.
#[cfg(target_arch = "x86_64")]
pub const ARCHITECTURE: u32 = 0xc000_003e;
/// As filters see it.
#[cfg(target_arch = "aarch64")]
pub const ARCHITECTURE: u32 = 0xc000_00b7;

static PROGRAM: Program = compile();

struct Program {
    instructions: [sock_filter; ROOM],
    length: usize,
}

/// A run of call numbers with one verdict, from `start` to the start of the next.
#[derive(Clone, Copy)]
struct Range {
    start: u32,
    verdict: Verdict,
}

const fn compile() -> Program {
    let mut program = Program {
        instructions: [const { statement(RET, 0) }; ROOM],
        length: 0,
    };
    program.push(statement(LOAD, OFFSET_OF_ARCHITECTURE));
    program.push(jump(EQUAL, ARCHITECTURE, 1, 0));
    program.push(statement(RET, KILL_PROCESS));
    program.push(statement(LOAD, OFFSET_OF_NUMBER));
    let (ranges, count) = ranges();
    program.tree(&ranges, 0, count);
    program
}

const fn ranges() -> ([Range; NUMBERS + 1], usize) {
    let mut verdicts = [UNKNOWN; NUMBERS];
    let mut index = 0;
    while index < TABLE.len() {
        verdicts[TABLE[index].number as usize] = TABLE[index].verdict;
        index += 1;
    }
    let mut ranges = [Range {
        start: 0,
        verdict: verdicts[0],
    }; NUMBERS + 1];
    let mut count = 1;
    let mut number = 1;
    while number <= NUMBERS {
        let verdict = if number < NUMBERS {
            verdicts[number]
        } else {
            UNKNOWN
        };
        if !same(verdict, ranges[count - 1].verdict) {
            ranges[count] = Range {
                start: number as u32,
                verdict,
            };
            count += 1;
        }
        number += 1;
    }
    (ranges, count)
}

/// Equality for constants; every rule is its own range.
const fn same(one: Verdict, other: Verdict) -> bool {
    match (one, other) {
        (Verdict::Allow, Verdict::Allow) => true,
        (Verdict::Refuse(one), Verdict::Refuse(other)) => one == other,
        _ => false,
    }
}

impl Program {
    const fn push(&mut self, instruction: sock_filter) {
        let place = self.length;
        // `=` would drop the old value, which constants cannot do.
        self.instructions[place].code = instruction.code;
        self.instructions[place].jt = instruction.jt;
        self.instructions[place].jf = instruction.jf;
        self.instructions[place].k = instruction.k;
        self.length += 1;
    }

    /// The decision among `ranges[low..high]`: the left half follows at once, the right
    /// half behind it.
    const fn tree(&mut self, ranges: &[Range], low: usize, high: usize) {
        if high - low == 1 {
            return self.leaf(ranges[low].verdict);
        }
        let middle = low + (high - low) / 2;
        let fork = self.length;
        self.push(jump(AT_LEAST, ranges[middle].start, 0, 0));
        // A conditional jump reaches 255 instructions; a long way takes a plain one.
        self.push(statement(JUMP, 0));
        self.tree(ranges, low, middle);
        let distance = self.length - fork - 1;
        if distance <= 255 + 1 {
            // Close enough: take the plain jump out again.
            let mut place = fork + 1;
            while place + 1 < self.length {
                let (code, jt, jf, k) = {
                    let next = &self.instructions[place + 1];
                    (next.code, next.jt, next.jf, next.k)
                };
                self.instructions[place].code = code;
                self.instructions[place].jt = jt;
                self.instructions[place].jf = jf;
                self.instructions[place].k = k;
                place += 1;
            }
            self.length -= 1;
            self.instructions[fork].jt = (distance - 1) as u8;
        } else {
            self.instructions[fork].jf = 1;
            self.instructions[fork + 1].k = (distance - 1) as u32;
        }
        self.tree(ranges, middle, high);
    }

    const fn leaf(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Allow => self.push(statement(RET, ALLOW)),
            Verdict::Refuse(errno) => self.push(statement(RET, REFUSE | errno as u32)),
            Verdict::Check(rule) => self.rule(rule),
        }
    }

    const fn rule(&mut self, rule: Rule) {
        match rule {
            Rule::Ioctl => {
                self.push(statement(LOAD, argument(1)));
                self.refuse_any(
                    &[
                        libc::TIOCSTI as u32,
                        libc::TIOCLINUX as u32,
                        TIOCSETD,
                        BTRFS_IOC_SNAP_CREATE,
                        BTRFS_IOC_SNAP_CREATE_V2,
                    ],
                    libc::EPERM,
                );
            }
            Rule::Fcntl => {
                self.push(statement(LOAD, argument(1)));
                self.refuse_any(&[libc::F_SETLEASE as u32, F_SETDELEG], libc::EINVAL);
            }
            Rule::Clone => self.refuse_bits(0, NAMESPACES),
            Rule::Unshare => self.refuse_bits(0, NAMESPACES | CLONE_NEWTIME),
            Rule::Mode1 => self.refuse_bits(1, SET_ID),
            Rule::Mode2 => self.refuse_bits(2, SET_ID),
            Rule::Open => self.refuse_made(1),
            Rule::OpenAt => self.refuse_made(2),
            Rule::Socket => {
                self.push(statement(LOAD, argument(0)));
                self.push(jump(EQUAL, libc::AF_UNIX as u32, 6, 0));
                self.push(jump(EQUAL, libc::AF_INET as u32, 5, 0));
                self.push(jump(EQUAL, libc::AF_INET6 as u32, 4, 0));
                self.push(jump(EQUAL, libc::AF_NETLINK as u32, 1, 0));
                self.push(statement(RET, REFUSE | libc::EAFNOSUPPORT as u32));
                self.push(statement(LOAD, argument(2)));
                self.push(jump(EQUAL, libc::NETLINK_ROUTE as u32, 0, 1));
                self.push(statement(RET, ALLOW));
                self.push(statement(RET, REFUSE | libc::EPROTONOSUPPORT as u32));
            }
            Rule::SocketPair => {
                self.push(statement(LOAD, argument(0)));
                self.allow_any(&[libc::AF_UNIX as u32], libc::EAFNOSUPPORT);
            }
            Rule::Personality => {
                self.push(statement(LOAD, argument(0)));
                self.allow_any(
                    &[
                        0,
                        u32::MAX,
                        libc::ADDR_NO_RANDOMIZE as u32,
                        PER_LINUX32,
                        libc::UNAME26 as u32,
                    ],
                    libc::EPERM,
                );
            }
        }
    }

    /// The mode behind the flags counts only when a file is made.
    const fn refuse_made(&mut self, flags: u32) {
        self.push(statement(LOAD, argument(flags)));
        self.push(jump(ANY_BIT, MAKES, 1, 0));
        self.push(statement(RET, ALLOW));
        self.refuse_bits(flags + 1, SET_ID);
    }

    const fn refuse_bits(&mut self, index: u32, bits: u32) {
        self.push(statement(LOAD, argument(index)));
        self.push(jump(ANY_BIT, bits, 0, 1));
        self.push(statement(RET, REFUSE | libc::EPERM as u32));
        self.push(statement(RET, ALLOW));
    }

    const fn refuse_any(&mut self, values: &[u32], errno: i32) {
        self.one_of(values, REFUSE | errno as u32, ALLOW);
    }

    const fn allow_any(&mut self, values: &[u32], errno: i32) {
        self.one_of(values, ALLOW, REFUSE | errno as u32);
    }

    /// Answers `hit` when the loaded word is one of the values, else `miss`.
    const fn one_of(&mut self, values: &[u32], hit: u32, miss: u32) {
        let mut index = 0;
        while index < values.len() {
            let to_hit = (values.len() - index) as u8;
            self.push(jump(EQUAL, values[index], to_hit, 0));
            index += 1;
        }
        self.push(statement(RET, miss));
        self.push(statement(RET, hit));
    }
}

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO;
const KILL_PROCESS: u32 = libc::SECCOMP_RET_KILL_PROCESS;

/// Loads a word of what the filter sees.
pub const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
/// Answers.
pub const RET: u32 = libc::BPF_RET | libc::BPF_K;
const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
/// Compares.
pub const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const GREATER: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;

/// Where the call's number stands.
pub const OFFSET_OF_NUMBER: u32 = 0;
/// Where the architecture stands.
pub const OFFSET_OF_ARCHITECTURE: u32 = 4;

const CLONE_NEWTIME: u32 = 0x80;
const TIOCSETD: u32 = 0x5423;
const BTRFS_IOC_SNAP_CREATE: u32 = 0x5000_9401;
const BTRFS_IOC_SNAP_CREATE_V2: u32 = 0x5000_9417;
/// The same for folders, of kernels newer than the C library.
const F_SETDELEG: u32 = 1024 + 16;
const PER_LINUX32: u32 = 8;
const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;
/// The flags of open that make a file; the second is what O_TMPFILE adds to O_DIRECTORY.
const MAKES: u32 = libc::O_CREAT as u32 | (libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// Where the low half of an argument stands in the data that the filter sees.
const fn argument(index: u32) -> u32 {
    const { assert!(cfg!(target_endian = "little")) };
    16 + 8 * index
}

/// One instruction without a choice.
pub const fn statement(code: u32, k: u32) -> sock_filter {
    jump(code, k, 0, 0)
}

/// One instruction.
pub const fn jump(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
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
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule,
    };
    use std::collections::BTreeMap;

    fn run(program: &[sock_filter], arch: u32, number: u32, args: [u64; 6]) -> u32 {
        walk(program, arch, number, args).unwrap()
    }

    fn ours() -> &'static [sock_filter] {
        &PROGRAM.instructions[..PROGRAM.length]
    }

    fn verdict(number: i64, args: [u64; 6]) -> u32 {
        run(ours(), ARCHITECTURE, number as u32, args)
    }

    fn refused(errno: i32) -> u32 {
        REFUSE | errno as u32
    }

    #[test]
    fn every_entry_has_its_name_and_reason() {
        let mut names = std::collections::BTreeSet::new();
        for entry in TABLE {
            assert!(names.insert(entry.name()), "{}", entry.name());
            let is_sentence = entry.reason().ends_with('.') && entry.reason().len() > 10;
            assert!(is_sentence, "{}: {}", entry.name(), entry.reason());
        }
        assert!(names.contains("openat2") && names.contains("ptrace"));
    }

    #[test]
    fn every_entry_has_its_verdict_and_the_rest_is_unknown() {
        for number in 0..2048 {
            let expected = TABLE
                .iter()
                .find(|entry| entry.number == number)
                .map_or(UNKNOWN, |entry| entry.verdict);
            match expected {
                Verdict::Allow => assert_eq!(verdict(number, [0; 6]), ALLOW, "{number}"),
                Verdict::Refuse(errno) => {
                    assert_eq!(verdict(number, [0; 6]), refused(errno.into()), "{number}");
                }
                Verdict::Check(_) => {}
            }
        }
    }

    #[test]
    fn x32_and_negative_numbers_are_unknown_and_i386_dies() {
        for number in [0x4000_0000, 0x4000_0001, 0x4000_0200, 0xffff_ffff] {
            assert_eq!(verdict(number, [0; 6]), refused(libc::ENOSYS));
        }
        assert_eq!(run(ours(), 0x4000_0003, 1, [0; 6]), KILL_PROCESS);
    }

    #[test]
    fn arguments_are_compared_on_their_low_half() {
        const HIGH: u64 = 0xdead_beef_0000_0000;
        let allow = |number, args| assert_eq!(verdict(number, args), ALLOW);
        let refuse = |number, args, errno| assert_eq!(verdict(number, args), refused(errno));

        allow(libc::SYS_ioctl, [0, libc::TCGETS, 0, 0, 0, 0]);
        for request in [
            libc::TIOCSTI,
            libc::TIOCLINUX,
            u64::from(TIOCSETD),
            u64::from(BTRFS_IOC_SNAP_CREATE),
            u64::from(BTRFS_IOC_SNAP_CREATE_V2),
        ] {
            refuse(libc::SYS_ioctl, [0, request, 0, 0, 0, 0], libc::EPERM);
            refuse(
                libc::SYS_ioctl,
                [0, request | HIGH, 0, 0, 0, 0],
                libc::EPERM,
            );
        }
        allow(libc::SYS_fcntl, [0, libc::F_SETFL as u64, 0, 0, 0, 0]);
        for request in [libc::F_SETLEASE as u64, u64::from(F_SETDELEG)] {
            let args = [0, request | HIGH, 0, 0, 0, 0];
            refuse(libc::SYS_fcntl, args, libc::EINVAL);
        }
        allow(libc::SYS_clone, [libc::SIGCHLD as u64, 0, 0, 0, 0, 0]);
        allow(libc::SYS_clone, [0x003d_0f00, 0, 0, 0, 0, 0]);
        for bit in 0..32 {
            let flag = 1_u64 << bit;
            if flag & u64::from(NAMESPACES) != 0 {
                refuse(libc::SYS_clone, [flag | HIGH, 0, 0, 0, 0, 0], libc::EPERM);
                refuse(libc::SYS_unshare, [flag, 0, 0, 0, 0, 0], libc::EPERM);
            }
        }
        refuse(libc::SYS_unshare, [0x80, 0, 0, 0, 0, 0], libc::EPERM);
        allow(libc::SYS_unshare, [libc::CLONE_FILES as u64, 0, 0, 0, 0, 0]);
        for family in 0..64 {
            let args = [family | HIGH, 1, 0, 0, 0, 0];
            match family as i32 {
                libc::AF_UNIX | libc::AF_INET | libc::AF_INET6 | libc::AF_NETLINK => {
                    allow(libc::SYS_socket, args);
                }
                _ => refuse(libc::SYS_socket, args, libc::EAFNOSUPPORT),
            }
        }
        refuse(
            libc::SYS_socket,
            [libc::AF_NETLINK as u64, 3, 9, 0, 0, 0],
            libc::EPROTONOSUPPORT,
        );
        allow(libc::SYS_socketpair, [1, 1, 0, 0, 0, 0]);
        refuse(libc::SYS_socketpair, [2, 1, 0, 0, 0, 0], libc::EAFNOSUPPORT);
        allow(libc::SYS_personality, [u64::from(u32::MAX), 0, 0, 0, 0, 0]);
        refuse(
            libc::SYS_personality,
            [0x0040_0000, 0, 0, 0, 0, 0],
            libc::EPERM,
        );
    }

    #[test]
    fn set_id_bits_are_refused_wherever_a_mode_is_given() {
        let creat = libc::O_CREAT as u64;
        let tmpfile = libc::O_TMPFILE as u64;
        for bit in [0o4000, 0o2000, 0o6755] {
            for (number, args) in [
                (libc::SYS_chmod, [0, bit, 0, 0, 0, 0]),
                (libc::SYS_fchmod, [0, bit, 0, 0, 0, 0]),
                (libc::SYS_fchmodat, [0, 0, bit, 0, 0, 0]),
                (libc::SYS_fchmodat2, [0, 0, bit, 0, 0, 0]),
                (libc::SYS_creat, [0, bit, 0, 0, 0, 0]),
                (libc::SYS_mknod, [0, bit, 0, 0, 0, 0]),
                (libc::SYS_mknodat, [0, 0, bit, 0, 0, 0]),
                (libc::SYS_open, [0, creat, bit, 0, 0, 0]),
                (libc::SYS_openat, [0, 0, creat, bit, 0, 0]),
                (libc::SYS_openat, [0, 0, tmpfile, bit, 0, 0]),
            ] {
                assert_eq!(
                    verdict(number, args),
                    refused(libc::EPERM),
                    "{number} {bit:o}"
                );
                let plain = args.map(|arg| if arg == bit { 0o1755 } else { arg });
                assert_eq!(verdict(number, plain), ALLOW, "{number}");
            }
            // Without O_CREAT the word is whatever was in the register.
            assert_eq!(verdict(libc::SYS_openat, [0, 0, 0, bit, 0, 0]), ALLOW);
            let folder = libc::O_DIRECTORY as u64;
            assert_eq!(verdict(libc::SYS_openat, [0, 0, folder, bit, 0, 0]), ALLOW);
        }
    }

    /// The same allow list, compiled by seccompiler as one long chain, says the same.
    #[test]
    fn agrees_with_seccompiler() {
        let condition = |index, operator, value| {
            SeccompRule::new(vec![
                SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value).unwrap(),
            ])
            .unwrap()
        };
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
        for entry in TABLE {
            let conditions = match entry.verdict {
                Verdict::Allow => vec![],
                Verdict::Check(Rule::Clone) => vec![condition(
                    0,
                    SeccompCmpOp::MaskedEq(u64::from(NAMESPACES)),
                    0,
                )],
                Verdict::Check(Rule::SocketPair) => vec![condition(0, SeccompCmpOp::Eq, 1)],
                _ => continue,
            };
            rules.insert(entry.number, conditions);
        }
        let filter = SeccompFilter::new(
            rules.clone(),
            SeccompAction::Errno(1),
            SeccompAction::Allow,
            std::env::consts::ARCH.try_into().unwrap(),
        )
        .unwrap();
        let theirs: BpfProgram = filter.try_into().unwrap();
        for number in 0..NUMBERS as i64 {
            let checked = TABLE
                .iter()
                .any(|entry| entry.number == number && matches!(entry.verdict, Verdict::Check(_)));
            if checked && !rules.contains_key(&number) {
                continue;
            }
            for flags in [0, 1, 2, 17, 0x1000_0000, 0x2_0000, 0x1_0000_0001] {
                let args = [flags, 0, 0, 0, 0, 0];
                assert_eq!(
                    verdict(number, args) == ALLOW,
                    run(&theirs, ARCHITECTURE, number as u32, args) == ALLOW,
                    "{number} {flags:#x}"
                );
            }
        }
    }

    #[test]
    fn the_walk_is_short() {
        assert!(PROGRAM.length < 600, "{}", PROGRAM.length);
        let (_, count) = ranges();
        assert!(count < 256, "{count}");
    }
}
