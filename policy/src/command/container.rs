//! Containers: what of the host they get to see.

use super::act::Act;
use super::{describe_base, describe_flags, describe_positionals, output, verbs};
use crate::classify::flow::Flow;
use crate::classify::given::Given;
use crate::effect::{Action, Place};
use crate::risk::Risk;

/// `docker run`, `docker exec` and their kin: flags by the tables, values looked at here.
pub(crate) fn run(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    let flags: Vec<(&'static str, Given)> = act
        .reading
        .flags
        .iter()
        .filter_map(|seen| Some((seen.flag.spellings.get().last()?.get(), seen.value.clone()?)))
        .collect();
    for (name, value) in flags {
        let says = match (name, value.text.as_str()) {
            ("--pid" | "--ipc" | "--userns" | "--uts" | "--cgroupns", "host") => {
                "Shares the host's namespaces with a container"
            }
            ("--security-opt", text) if text.contains("unconfined") || text.contains("disable") => {
                "Weakens a container's confinement"
            }
            ("--cap-add", text) if is_strong(text) => "Gives a container strong rights",
            _ => continue,
        };
        act.draft
            .effect(Action::Privilege, Risk::Dangerous, says, value.span);
    }
    let flow = describe_positionals(act);
    verbs::sub_command(act);
    flow.unwrap_or_else(|| output(act))
}

fn is_strong(capability: &str) -> bool {
    let name = capability.to_ascii_uppercase();
    let name = name.trim_start_matches("CAP_");
    matches!(
        name,
        "ALL"
            | "SYS_ADMIN"
            | "SYS_PTRACE"
            | "SYS_MODULE"
            | "SYS_RAWIO"
            | "DAC_READ_SEARCH"
            | "NET_ADMIN"
            | "BPF"
    )
}

/// `-v source:target`, `--mount type=bind,source=…`.
pub(crate) fn mount(act: &mut Act<'_, '_>, given: &Given) {
    let source = if given.text.contains("target=")
        || given.text.contains("dst=")
        || given.text.contains("destination=")
        || given.text.starts_with("type=")
    {
        given
            .text
            .split(',')
            .find_map(|part| {
                let (key, value) = part.split_once('=')?;
                matches!(key, "source" | "src").then_some(value)
            })
            .unwrap_or_default()
    } else {
        given.text.split(':').next().unwrap_or_default()
    };
    if source.is_empty() || !(source.starts_with(['/', '.', '~', '$'])) {
        return;
    }
    let path = given.part(source);
    let target = act.target(&path);
    let socket = source.ends_with(".sock");
    let says = match target.place {
        _ if socket => "Hands a control socket to a container",
        Place::Root => "Shows the whole host to a container",
        Place::HomeItself => "Shows a home folder to a container",
        Place::System | Place::SystemItself | Place::Startup if !given.text.ends_with(":ro") => {
            "Shows system folders to a container"
        }
        Place::Secret => "Shows keys or passwords to a container",
        Place::Device => "Shows a raw device to a container",
        _ => {
            act.draft
                .effect(Action::Reads(target), Risk::Safe, "", given.span);
            return;
        }
    };
    act.draft
        .effect(Action::Privilege, Risk::Dangerous, says, given.span);
}
