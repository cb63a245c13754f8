//! The acts of setting up a jail, in the order in which they happen.
//!
//! The child between `clone3` and `execve` neither allocates nor prints: when an act
//! fails it sends its [`Step`] and the errno to the supervisor, which owns the words.

/// One act of the set-up. The number is what travels over the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Step {
    /// Ask the kernel to kill pid 1 when the supervisor dies.
    ParentDeath = 1,
    /// The namespaces, and the first process in them.
    Namespaces,
    /// `/proc/self/setgroups`, `uid_map`, `gid_map`.
    IdMap,
    /// Bring the loopback interface up.
    Loopback,
    /// Make every mount of the new namespace private.
    Private,
    /// Open one of the folders or files that the jail shows.
    OpenSource,
    /// A source is no longer the file the supervisor looked at.
    SourceChanged,
    /// Take a copy of a mount (`open_tree`).
    CloneMount,
    /// Set read-only, nosuid, nodev on a copied mount.
    MountAttributes,
    /// The tmpfs that becomes `/`.
    Root,
    /// Make a folder on the new root.
    Folder,
    /// Make a file on the new root.
    File,
    /// Make a symbolic link on the new root.
    Link,
    /// Open the place where something is to be mounted.
    Destination,
    /// Make an overlay, so that the command writes to a copy.
    Overlay,
    /// Attach a mount at its destination.
    Attach,
    /// A fresh `/proc`.
    Proc,
    /// A fresh `/dev/pts`.
    Pts,
    /// The jail's own terminal.
    Terminal,
    /// `pivot_root` and the detaching of the old root.
    Pivot,
    /// Enter the working folder.
    WorkingFolder,
    /// Wait for the supervisor's word to go on.
    Go,
    /// The socket of the ssh agent inside.
    SshAgent,
    /// A cgroup namespace rooted in the limits group.
    CgroupNamespace,
    /// The host name inside.
    HostName,
    /// Resource limits.
    Limits,
    /// Close every descriptor that is not the jail's.
    Descriptors,
    /// Empty the five capability sets and lock the securebits.
    Capabilities,
    /// `PR_SET_NO_NEW_PRIVS`.
    NoNewPrivileges,
    /// Make pid 1 undumpable.
    Undumpable,
    /// Add a rule to the Landlock ruleset.
    LandlockRule,
    /// Enforce the Landlock ruleset.
    Landlock,
    /// Load the seccomp filter.
    Seccomp,
    /// Self-check: capabilities are left.
    VerifyCapabilities,
    /// Self-check: no_new_privs is not set.
    VerifyNoNewPrivileges,
    /// Self-check: seccomp is not in filter mode.
    VerifySeccomp,
    /// Self-check: Landlock lets through what the plan forbids.
    VerifyLandlock,
    /// Self-check: a namespace is still the parent's.
    VerifyNamespace,
    /// Self-check: the old root can still be reached.
    VerifyRoot,
    /// Open the program inside the jail.
    OpenProgram,
    /// The program inside is not the file that was resolved outside.
    ProgramChanged,
    /// Fork the command.
    Fork,
    /// Give the command its standard streams.
    Streams,
    /// Put the command under observation (`--trace`).
    Observe,
    /// Execute the program.
    Exec,
}

impl Step {
    /// Every step, in order; also the way back from the number on the wire.
    pub const ALL: [Step; 45] = [
        Step::ParentDeath,
        Step::Namespaces,
        Step::IdMap,
        Step::Loopback,
        Step::Private,
        Step::OpenSource,
        Step::SourceChanged,
        Step::CloneMount,
        Step::MountAttributes,
        Step::Root,
        Step::Folder,
        Step::File,
        Step::Link,
        Step::Destination,
        Step::Overlay,
        Step::Attach,
        Step::Proc,
        Step::Pts,
        Step::Terminal,
        Step::Pivot,
        Step::WorkingFolder,
        Step::Go,
        Step::SshAgent,
        Step::CgroupNamespace,
        Step::HostName,
        Step::Limits,
        Step::Descriptors,
        Step::Capabilities,
        Step::NoNewPrivileges,
        Step::Undumpable,
        Step::LandlockRule,
        Step::Landlock,
        Step::Seccomp,
        Step::VerifyCapabilities,
        Step::VerifyNoNewPrivileges,
        Step::VerifySeccomp,
        Step::VerifyLandlock,
        Step::VerifyNamespace,
        Step::VerifyRoot,
        Step::OpenProgram,
        Step::ProgramChanged,
        Step::Fork,
        Step::Streams,
        Step::Observe,
        Step::Exec,
    ];

    /// The step with this number, if there is one.
    pub fn from_number(number: i32) -> Option<Step> {
        Step::ALL
            .iter()
            .copied()
            .find(|step| *step as i32 == number)
    }
}

/// A failed step: what failed, why, and on which item of the layout (an index whose
/// meaning the step gives: a mount, a rule, a namespace).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The act that failed.
    pub step: Step,
    /// The kernel's reason.
    pub errno: i32,
    /// Which one of several: an index into the layout's list, or 0.
    pub item: u32,
}

/// Says at which step a call failed.
pub trait At<T> {
    /// A failure of this step becomes a [`Failure`].
    fn at(self, step: Step) -> Result<T, Failure>;
    /// The same for one of several items.
    fn at_item(self, step: Step, item: usize) -> Result<T, Failure>;
}

impl<T> At<T> for nix::Result<T> {
    fn at(self, step: Step) -> Result<T, Failure> {
        self.at_item(step, 0)
    }

    fn at_item(self, step: Step, item: usize) -> Result<T, Failure> {
        self.map_err(|errno| Failure {
            step,
            errno: errno as i32,
            item: item as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Step;

    #[test]
    fn the_list_of_steps_is_complete_and_in_order() {
        for (index, step) in Step::ALL.iter().enumerate() {
            assert_eq!(*step as i32, index as i32 + 1);
            assert_eq!(Step::from_number(*step as i32), Some(*step));
        }
        assert_eq!(Step::from_number(0), None);
        assert_eq!(Step::from_number(Step::ALL.len() as i32 + 1), None);
    }
}
