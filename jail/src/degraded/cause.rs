//! Why there are no user namespaces here: found out by making them, told in words.

use std::fs;

use nix::errno::Errno;

use crate::doctor;
use crate::error::Error;
use crate::spawn;

/// A cause and its cure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// What refuses them.
    pub why: String,
    /// What to do about it, in one line.
    pub fix: String,
}

/// Makes all the namespaces of a jail and lets them go again, then does in others what a
/// jail does. `None` when all of it works.
pub fn find() -> Option<Cause> {
    if let Err(Error::Clone(errno)) = spawn::try_namespaces() {
        return Some(of(errno));
    }
    doctor::first_refusal().map(|(layer, how)| Cause {
        why: format!("they can be made here, but {layer} is {how}"),
        fix: "`sjail doctor` names the way out".to_owned(),
    })
}

/// What an errno of `clone3` or `unshare` means: each cause has its own number, as far as
/// the kernel gives it one.
pub fn of(errno: Errno) -> Cause {
    named(errno, &|name| {
        fs::read_to_string(format!("/proc/sys/{name}"))
            .map(|text| text.trim().to_owned())
            .ok()
    })
}

fn named(errno: Errno, setting: &dyn Fn(&str) -> Option<String>) -> Cause {
    let is = |name: &str, value: &str| setting(name).as_deref() == Some(value);
    let (why, fix) = match errno {
        Errno::ENOSPC if is("user/max_user_namespaces", "0") => (
            "the system allows none (user.max_user_namespaces=0)",
            "sudo sysctl -w user.max_user_namespaces=15000",
        ),
        Errno::ENOSPC => (
            "the limit of user namespaces is reached (user.max_user_namespaces), here or around this container",
            "sudo sysctl -w user.max_user_namespaces=15000",
        ),
        Errno::EUSERS => (
            "user namespaces are nested too deeply",
            "run sjail further outside",
        ),
        Errno::EACCES => (
            "an AppArmor profile that does not say `userns,` refuses them to this program",
            "`sjail doctor` prints the AppArmor profile that allows sjail",
        ),
        Errno::EPERM if is("kernel/unprivileged_userns_clone", "0") => (
            "the system gives them to root alone (kernel.unprivileged_userns_clone=0)",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        Errno::EPERM if is("kernel/apparmor_restrict_unprivileged_userns", "1") => (
            "AppArmor refuses them to programs without a profile (kernel.apparmor_restrict_unprivileged_userns=1)",
            "`sjail doctor` prints the AppArmor profile that allows sjail",
        ),
        Errno::EPERM => (
            "a filter forbids them, as in a container, another jail or a chroot",
            "docker run --security-opt seccomp=unconfined …, or run sjail outside of it",
        ),
        Errno::ENOSYS => (
            "this kernel has no clone3, or a filter hides it, as in a container or another jail",
            "Linux 5.12 or newer is needed, outside of other sandboxes; docker run --security-opt seccomp=unconfined …",
        ),
        Errno::EINVAL => (
            "this kernel was built without user namespaces, or a filter answers as if it were",
            "use a kernel with CONFIG_USER_NS=y",
        ),
        other => (other.desc(), "`sjail doctor` looks at each layer"),
    };
    Cause {
        why: why.to_owned(),
        fix: fix.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The causes as real machines have shown them: the errno and the settings beside it.
    #[test]
    fn each_cause_has_its_own_words() {
        let seen = [
            (
                Errno::ENOSPC,
                "user/max_user_namespaces",
                "0",
                "allows none",
            ),
            (Errno::ENOSPC, "user/max_user_namespaces", "15000", "limit"),
            (Errno::EACCES, "", "", "userns,"),
            (
                Errno::EPERM,
                "kernel/unprivileged_userns_clone",
                "0",
                "root alone",
            ),
            (
                Errno::EPERM,
                "kernel/apparmor_restrict_unprivileged_userns",
                "1",
                "AppArmor",
            ),
            (
                Errno::EPERM,
                "kernel/unprivileged_userns_clone",
                "1",
                "filter",
            ),
            (Errno::ENOSYS, "", "", "clone3"),
            (Errno::EINVAL, "", "", "built without"),
        ];
        for (errno, name, value, words) in seen {
            let cause = named(errno, &|asked| (asked == name).then(|| value.to_owned()));
            assert!(cause.why.contains(words), "{errno}: {cause:?}");
            assert!(!cause.fix.is_empty());
        }
    }
}
