//! Containers: what of the host they get to see.

use super::act::Act;
use super::knowledge::Role;
use super::{describe_base, describe_flags, describe_positionals, output, verbs};
use crate::classify::flow::{Flow, Sources};
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
    on_the_host(act);
    verbs::sub_command(act);
    let flow = flow.unwrap_or_else(|| output(act));
    match fetches(act) {
        true => Flow::of(flow.from.with(Sources::NETWORK)),
        false => flow,
    }
}

/// An image that is nothing but a program that fetches.
fn fetches(act: &Act<'_, '_>) -> bool {
    let image = act
        .positionals()
        .next()
        .map_or("", |image| image.text.as_str());
    let last = image.rsplit('/').next().unwrap_or_default();
    let name = last.split([':', '@']).next().unwrap_or_default();
    matches!(name, "curl" | "wget" | "httpie" | "aria2" | "curlimages")
}

/// More mounts than this are not followed.
const MAX_MOUNTS: usize = 8;

/// What a command inside does to a folder of the host, it does to the host: its paths are judged
/// once more as they are called outside.
fn on_the_host(act: &mut Act<'_, '_>) {
    let mounts: Vec<(String, String)> = act
        .reading
        .flags
        .iter()
        .filter(|seen| seen.flag.role == Role::Mount)
        .filter_map(|seen| seen.value.as_ref())
        .filter(|value| value.exact && !value.text.ends_with(":ro"))
        .filter_map(|value| ends(&value.text))
        .filter(|(source, target)| source != target && target.len() > 1)
        .take(MAX_MOUNTS)
        .collect();
    let command = act.reading.positionals.get(1).copied();
    let Some(command) = command.filter(|_| !mounts.is_empty()) else {
        return;
    };
    let outside = |word: &Given| {
        let mut text = word.text.clone();
        for (source, target) in &mounts {
            text = translated(&text, source, target);
        }
        word.part(&text)
    };
    let words: Vec<Given> = act.args[command..]
        .iter()
        .take(MAX_WORDS)
        .map(outside)
        .collect();
    if words
        .iter()
        .zip(&act.args[command..])
        .any(|(one, other)| one.text != other.text)
    {
        act.inner_args(words);
    }
}

/// Longer commands are not translated.
const MAX_WORDS: usize = 64;

/// A text with the host's name of a folder in place of the container's.
fn translated(text: &str, source: &str, target: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(target) {
        let behind = &rest[at + target.len()..];
        let begins = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || "/._-~".contains(c));
        let ends = !behind.starts_with(|c: char| c.is_alphanumeric() || "._-".contains(c));
        out.push_str(&rest[..at]);
        out.push_str(if begins && ends { source } else { target });
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Both ends of a mount.
fn ends(mount: &str) -> Option<(String, String)> {
    if mount.contains("target=") || mount.contains("dst=") || mount.contains("destination=") {
        let value = |names: [&str; 3]| {
            let mut parts = mount.split(',').filter_map(|part| part.split_once('='));
            parts.find_map(|(key, value)| names.contains(&key).then(|| value.to_owned()))
        };
        return Some((
            value(["source", "src", ""])?,
            value(["target", "dst", "destination"])?,
        ));
    }
    let mut parts = mount.split(':');
    let (source, target) = (parts.next()?, parts.next()?);
    let target = target.trim_end_matches('/');
    source
        .starts_with(['/', '.', '~'])
        .then(|| (source.to_owned(), target.to_owned()))
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
