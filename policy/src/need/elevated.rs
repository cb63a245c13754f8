//! Commands that can only do their work on the host.

use super::{Need, Surroundings};
use crate::classify::{Classification, SimpleCommand};
use crate::config::Key;
use crate::show::inert;

/// Programs that do their work through something that no jail has.
const HOSTS_OWN: [(&str, &[&str]); 4] = [
    (
        "nothing in a jail can gain rights",
        &["sudo", "doas", "run0", "pkexec", "su"],
    ),
    (
        "it talks to a daemon that is as good as root, which no jail shows",
        &[
            "docker",
            "docker.io",
            "podman",
            "nerdctl",
            "finch",
            "docker-compose",
            "podman-compose",
            "crictl",
            "ctr",
        ],
    ),
    (
        "it talks to the system's own services, which no jail shows",
        &[
            "systemctl",
            "service",
            "loginctl",
            "machinectl",
            "hostnamectl",
            "timedatectl",
            "crontab",
            "at",
            "batch",
            "reboot",
            "shutdown",
            "poweroff",
            "halt",
        ],
    ),
    (
        "it changes the system below every jail",
        &[
            "mount", "umount", "modprobe", "insmod", "rmmod", "sysctl", "useradd", "userdel",
            "usermod", "groupadd", "groupdel", "passwd", "visudo", "swapon", "swapoff",
        ],
    ),
];

/// Whether a command can only do its work on the host; of one simple command a person can
/// say that it may.
pub fn elevated(line: &Classification, around: &Surroundings<'_>) -> Result<Option<Need>, String> {
    let Some((name, why)) = line.commands.iter().find_map(hosts_own) else {
        return Ok(None);
    };
    let shown = inert(name.as_bytes());
    let policy = around.policy;
    if !policy.elevated.value {
        return Err(format!(
            "{shown} cannot work here: {why}; and elevated.enabled is false ({}), so nobody can let it run outside",
            policy.elevated.origin
        ));
    }
    if let Some(by) = policy.lock_on(Key::ElevatedPatterns) {
        return Err(format!(
            "{shown} cannot work here: {why}; and elevated.patterns is locked ({by}): only those commands run outside"
        ));
    }
    if !is_one_simple_command(line) {
        return Err(format!(
            "{shown} cannot work here: {why}; outside runs one simple command at a time: ask for it by itself"
        ));
    }
    Ok(Some(Need::Elevated {
        why: format!("{shown}: {why}"),
    }))
}

fn hosts_own(command: &SimpleCommand) -> Option<(&str, &'static str)> {
    // A script of the project's own may have any name.
    let own = Some(&command.program)
        .filter(|program| program.trusted)
        .map(|program| &program.name);
    for name in own.into_iter().chain(&command.wrappers) {
        let reason = HOSTS_OWN
            .iter()
            .find(|(_, programs)| programs.contains(&name.as_str()));
        if let Some((why, _)) = reason {
            return Some((name, why));
        }
    }
    None
}

/// Whether everything that would run is what stands there: no second command but behind
/// `sudo` and its kin, no shell between, no file behind a redirection, no word that is only
/// known later.
fn is_one_simple_command(line: &Classification) -> bool {
    let gains_rights = |name: &String| HOSTS_OWN[0].1.contains(&name.as_str());
    let is_plain = |(depth, command): (usize, &SimpleCommand)| {
        command.nesting == 0
            && command.assignments.is_empty()
            && command.redirects.is_empty()
            && !command.program.defined_here
            && command.program.trusted
            && command.wrappers.len() == depth
            && command.wrappers.iter().all(gains_rights)
            && (depth + 1 == line.commands.len() || gains_rights(&command.program.name))
            && command
                .argv
                .iter()
                .all(|argument| argument.exact && !argument.glob)
    };
    !line.is_opaque() && line.commands.iter().enumerate().all(is_plain)
}
