//! What holds a command, in words.

use crate::layout::{Layout, NetworkSpace};

/// The layers of a jail that is made like this.
pub fn of(layout: &Layout) -> Vec<String> {
    let mut layers: Vec<String> = match layout.bare {
        None => ["user", "mount", "pid", "ipc", "uts", "cgroup"]
            .map(|name| format!("{name} namespace"))
            .into(),
        Some(_) => vec!["own session".to_owned(), "second seccomp filter".to_owned()],
    };
    match layout.network {
        _ if layout.bare.is_some() => {}
        NetworkSpace::Own | NetworkSpace::Published => layers.push("network namespace".to_owned()),
        NetworkSpace::Filtered => {
            layers.push("network namespace, with a confined relay".to_owned());
        }
        NetworkSpace::Host => {}
    }
    layers.extend(["no capabilities", "no_new_privs", "seccomp allow list"].map(str::to_owned));
    if let Some(rules) = &layout.rules {
        layers.push(format!("Landlock ABI {}", rules.abi));
    }
    layers
}

/// Those of the jail that we are in ourselves.
pub fn outside() -> Vec<String> {
    [
        "the agent's jail",
        "no capabilities",
        "no_new_privs",
        "seccomp",
    ]
    .map(str::to_owned)
    .into()
}
