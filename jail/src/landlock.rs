//! Landlock: a second wall behind the mounts, at the best ABI that the kernel has.
//!
//! What the kernel's ABI can refuse is refused as a hard requirement; the crate's default,
//! best effort, would weaken silently. Rules are few: each walks up from the file that is
//! opened, so a rule on a folder covers all that is mounted below it.

use std::ffi::CString;
use std::os::fd::BorrowedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags,
};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::stat::fstat;

use crate::layout::origin::Kind;
use crate::step::{At, Failure, Step};
use crate::sys::file::{self, NO_LINKS, openat2};
use crate::sys::landlock::kernel_abi;

/// For tests: pretend that the kernel's ABI is at most this number, 0 for none. Lowering
/// it takes nothing from the other walls, and is said aloud and recorded.
pub const ABI_VARIABLE: &str = "SJAIL_LANDLOCK_ABI";

/// The rules, and the ABI whose every right is handled.
#[derive(Debug)]
pub struct Rules {
    /// The ABI in use.
    pub abi: ABI,
    /// What is allowed; everything else is not.
    pub rules: Vec<Rule>,
    /// Whether TCP is refused here too.
    pub tcp: Tcp,
}

/// What becomes of TCP ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tcp {
    /// They are left to the network namespace: handled, the jail's own loopback would die.
    Unhandled,
    /// None can be bound or connected to, where the ABI knows them.
    Refused,
}

/// What is allowed below a path.
#[derive(Debug)]
pub struct Rule {
    /// Absolute, as seen inside.
    pub path: CString,
    /// What may be done there.
    pub grant: Grant,
    /// A file takes only the rights that files have.
    pub kind: Kind,
}

/// What a rule allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// Listing folders; for `/` itself.
    List,
    /// Reading and executing.
    Read,
    /// The same, and writing to files that exist; for `/proc`.
    Write,
    /// Reading, writing and controlling devices.
    Devices,
    /// Everything but device files, and but sockets of others: those that the jail's own
    /// processes make are always theirs.
    Change,
    /// Talking to a socket that somebody outside made for the jail.
    Talk,
}

/// A Landlock that cannot do what is asked of it.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// Not in this kernel, or switched off.
    #[error("{}", match .0 {
        Errno::EOPNOTSUPP => "Landlock is switched off in this kernel: add `landlock` to the `lsm=` boot parameter",
        _ => "this kernel has no Landlock: Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK is needed",
    })]
    Kernel(Errno),
    /// With the host's network the kernel cannot keep abstract sockets apart.
    #[error(
        "with the host's network, Landlock ABI 6 (Linux 6.12) is needed to keep the command from the host's abstract sockets; this kernel has ABI {0}"
    )]
    Scopes(ABI),
    /// The override is not a number.
    #[error("{ABI_VARIABLE} must be a number from 0 to 9")]
    Override,
}

/// Enforces the rules on this process and all that descend from it.
pub fn enforce(rules: &Rules) -> Result<(), Failure> {
    let mut ruleset = create(rules)
        .map_err(|_| Errno::last())
        .at(Step::Landlock)?;
    allow_places(&mut ruleset, rules)?;
    restrict(ruleset)
}

/// The same for a command, with its standard streams and, where it has no name of the jail's
/// own, its terminal.
pub fn enforce_on_command(rules: &Rules, terminal: Option<BorrowedFd<'_>>) -> Result<(), Failure> {
    let refused = |_| Errno::last();
    let mut ruleset = create(rules).map_err(refused).at(Step::Landlock)?;
    if let Some(terminal) = terminal {
        let access = Grant::Devices.access(rules.abi) & AccessFs::from_file(rules.abi);
        (&mut ruleset)
            .add_rule(PathBeneath::new(terminal, access))
            .map_err(refused)
            .at(Step::Landlock)?;
    }
    allow_streams(&mut ruleset, rules.abi)?;
    allow_places(&mut ruleset, rules)?;
    restrict(ruleset)
}

fn allow_places(ruleset: &mut RulesetCreated, rules: &Rules) -> Result<(), Failure> {
    let refused = |_| Errno::last();
    for (index, rule) in rules.rules.iter().enumerate() {
        let place = openat2(None, &rule.path, libc::O_PATH, 0, NO_LINKS)
            .at_item(Step::LandlockRule, index)?;
        let mut access = rule.grant.access(rules.abi);
        if rule.kind != Kind::Folder {
            access &= AccessFs::from_file(rules.abi);
        }
        (&mut *ruleset)
            .add_rule(PathBeneath::new(place, access))
            .map_err(refused)
            .at_item(Step::LandlockRule, index)?;
    }
    Ok(())
}

/// Keeps this process and all that descend from it to the jail's own tree of mounts, by a
/// layer of its own. The other layer's rules hang on files of the host, which the next jail
/// has, too: a folder that it hands over could be gone into, past all that it had mounted
/// there, once that jail is gone. The root hangs on nothing but this jail.
pub fn keep_to_own_tree(abi: ABI) -> Result<(), Failure> {
    let refused = |_| Errno::last();
    let all = AccessFs::from_all(abi);
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)
        .and_then(Ruleset::create);
    let mut ruleset = ruleset.map_err(refused).at(Step::Landlock)?;
    ruleset = ruleset.no_new_privs(false);
    let root = openat2(None, c"/", libc::O_PATH, 0, NO_LINKS).at(Step::Landlock)?;
    (&mut ruleset)
        .add_rule(PathBeneath::new(root, all))
        .map_err(refused)
        .at(Step::Landlock)?;
    allow_streams(&mut ruleset, abi)?;
    restrict(ruleset)
}

/// Files and devices that the command was given as standard streams may be opened once more
/// (`/dev/stdout`), for what they are open for. To whom a file was given to be added to, it
/// is not given to be written anew.
fn allow_streams(ruleset: &mut RulesetCreated, abi: ABI) -> Result<(), Failure> {
    for stream in file::standard() {
        let kind = fstat(stream).at(Step::Landlock)?.st_mode & libc::S_IFMT;
        let flags = fcntl(stream, FcntlArg::F_GETFL).at(Step::Landlock)?;
        let read = BitFlags::from(AccessFs::ReadFile);
        let write = make_bitflags!(AccessFs::{WriteFile | Truncate}) & AccessFs::from_all(abi);
        let access = match flags & libc::O_ACCMODE {
            _ if kind != libc::S_IFREG && kind != libc::S_IFCHR => continue,
            _ if flags & (libc::O_APPEND | libc::O_PATH) != 0 => continue,
            libc::O_RDONLY => read,
            libc::O_WRONLY => write,
            _ => read | write,
        };
        let added = ruleset.add_rule(PathBeneath::new(stream, access));
        match added.map_err(|_| Errno::last()) {
            // It lies in no tree of files (the text that `sjail code` hands over): no rule can
            // hang on it, and Landlock holds nobody to one.
            Ok(_) | Err(Errno::EBADFD) => {}
            Err(errno) => return Err(errno).at(Step::Landlock),
        }
    }
    Ok(())
}

fn restrict(ruleset: RulesetCreated) -> Result<(), Failure> {
    let restricted = ruleset.restrict_self().map_err(|_| Errno::last());
    match restricted.at(Step::Landlock)?.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
            Err(Errno::ENOTSUP).at(Step::VerifyLandlock)
        }
    }
}

/// An empty ruleset that handles everything this ABI can: what no rule allows is refused.
fn create(rules: &Rules) -> Result<RulesetCreated, landlock::RulesetError> {
    let abi = rules.abi;
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    let ports = AccessNet::from_all(abi);
    if rules.tcp == Tcp::Refused && !ports.is_empty() {
        ruleset = ruleset.handle_access(ports)?;
    }
    let scopes = Scope::from_all(abi);
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    // The jail has set no_new_privs itself, one step before.
    Ok(ruleset.create()?.no_new_privs(false))
}

impl Grant {
    /// Whether this allows all that the other does.
    pub fn includes(self, other: Grant) -> bool {
        match (self, other) {
            (Grant::Devices, other) => other == Grant::Devices,
            (Grant::Talk, other) => other == Grant::Talk,
            (_, Grant::Devices | Grant::Talk) => false,
            (Grant::Change, _) | (_, Grant::List) => true,
            (Grant::Write, other) => other != Grant::Change,
            (Grant::Read, other) => other == Grant::Read,
            (Grant::List, _) => false,
        }
    }

    fn access(self, abi: ABI) -> BitFlags<AccessFs> {
        let list = BitFlags::from(AccessFs::ReadDir);
        let read = AccessFs::from_read(abi);
        let all = AccessFs::from_all(abi);
        let write = make_bitflags!(AccessFs::{WriteFile | Truncate}) & all;
        let control = BitFlags::from(AccessFs::IoctlDev) & all;
        let devices = make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev});
        let sockets = BitFlags::from(AccessFs::ResolveUnix) & all;
        match self {
            Grant::List => list,
            Grant::Read => read,
            Grant::Write => read | write,
            Grant::Devices => (read | write | control) & !BitFlags::from(AccessFs::Execute),
            Grant::Change => all & !(devices | sockets),
            Grant::Talk => read | write | sockets,
        }
    }
}

/// Whether this ABI keeps abstract sockets and signals within the jail.
pub fn has_scopes(abi: ABI) -> bool {
    !Scope::from_all(abi).is_empty()
}

/// What is less than it could be because the environment says so.
pub fn lowered(abi: ABI) -> Option<String> {
    let kernel = ABI::from(kernel_abi().ok()?);
    (abi < kernel).then(|| {
        format!(
            "Landlock is used at ABI {abi}, not at the kernel's {kernel}: {ABI_VARIABLE} says so"
        )
    })
}

/// The ABI of the kernel, or less where the environment says so.
pub fn usable_abi() -> Result<ABI, Unavailable> {
    let kernel = kernel_abi().map_err(Unavailable::Kernel)?;
    let abi = match std::env::var_os(ABI_VARIABLE) {
        None => kernel,
        Some(text) => {
            let wanted: i32 = text
                .to_str()
                .and_then(|text| text.parse().ok())
                .filter(|number| (0..=9).contains(number))
                .ok_or(Unavailable::Override)?;
            wanted.min(kernel)
        }
    };
    if abi < 1 {
        return Err(Unavailable::Kernel(Errno::ENOSYS));
    }
    Ok(ABI::from(abi))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that knows more is used as the newest that is known.
    #[test]
    fn newer_kernels_are_the_newest_known() {
        assert_eq!(ABI::from(9), ABI::V9);
        assert_eq!(ABI::from(12), ABI::V9);
        assert!(AccessFs::from_all(ABI::from(12)).contains(AccessFs::ResolveUnix));
    }

    #[test]
    fn sockets_of_others_are_for_those_that_may_talk() {
        let socket = BitFlags::from(AccessFs::ResolveUnix);
        let all = [
            Grant::List,
            Grant::Read,
            Grant::Write,
            Grant::Devices,
            Grant::Change,
        ];
        for grant in all {
            assert!(!grant.access(ABI::V9).intersects(socket), "{grant:?}");
            assert!(!grant.includes(Grant::Talk), "{grant:?}");
        }
        assert!(Grant::Talk.access(ABI::V9).contains(socket));
        assert!(!Grant::Talk.access(ABI::V8).intersects(socket));
    }
}
