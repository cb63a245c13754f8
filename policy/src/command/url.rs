//! Hosts, URLs, `host:path`, and what is sent to them.

use super::act::Act;
use super::knowledge::Modifiers;
use crate::classify::flow::Sources;
use crate::classify::given::Given;
use crate::classify::harm::Touch;
use crate::classify::place;
use crate::effect::{Action, Place};
use crate::risk::Risk;

/// A host, an address or a URL that a program talks to.
pub(crate) fn host(act: &mut Act<'_, '_>, given: &Given) {
    let name = host_of(&given.text);
    if given.from.has(Sources::SECRET) {
        sends_secret(act, given);
    }
    if let Some(says) = deceptive(&given.text, &name) {
        act.draft
            .effect(Action::Notes, Risk::Dangerous, says, given.span);
    }
    if matches!(
        name.as_str(),
        "169.254.169.254" | "metadata.google.internal" | "fd00:ec2::254" | "100.100.100.200"
    ) {
        let says = "Asks the cloud for this machine's credentials";
        act.draft
            .effect(Action::Notes, Risk::Dangerous, says, given.span);
    }
    let action = Action::Network {
        host: (!name.is_empty()).then_some(name),
    };
    act.draft.effect(action, Risk::Normal, "", given.span);
}

/// Programs that ask a name server, which sees the whole name.
const LOOKUPS: &[&str] = &[
    "dig",
    "host",
    "nslookup",
    "ping",
    "ping6",
    "drill",
    "kdig",
    "delv",
    "resolvectl",
    "dog",
    "getent",
    "traceroute",
    "mtr",
];

/// A look-up of a name that is made of what a program printed.
pub(crate) fn lookup(act: &mut Act<'_, '_>) {
    if !LOOKUPS.contains(&act.draft.program.name.as_str()) {
        return;
    }
    if let Some(word) = act.args.iter().find(|word| carries_data(word)) {
        let (says, span) = ("Sends data away inside a host name", word.span);
        act.draft
            .effect(Action::Publishes, Risk::Dangerous, says, span);
    }
}

/// What a program prints stands before somebody's domain: `$(whoami).x.example.net`.
fn carries_data(given: &Given) -> bool {
    let printed = Sources::PROGRAM
        .with(Sources::FILE)
        .with(Sources::DECODED)
        .with(Sources::SECRET);
    let domain = given
        .text
        .rsplit(['…', ')', '}'])
        .next()
        .unwrap_or_default();
    given.from.has(printed) && domain.starts_with('.') && domain[1..].contains('.')
}

/// An address inside the private network, or one written so that nobody sees where it leads.
pub(crate) fn inward(act: &mut Act<'_, '_>, given: &Given) {
    if !given.exact {
        return;
    }
    let name = host_of(&given.text);
    let says = match name.parse::<std::net::Ipv4Addr>() {
        Ok(address) if address.is_private() || address.is_link_local() => {
            "Reaches into the private network"
        }
        Err(_) if is_number(&name) => "Address written as a number",
        _ => return,
    };
    act.draft
        .effect(Action::Notes, Risk::Dangerous, says, given.span);
}

/// `2130706433`, `0x7f000001`, `0177.0.0.1`: numbers that some programs read as addresses.
fn is_number(host: &str) -> bool {
    let part = |part: &str| {
        let digits = part
            .strip_prefix("0x")
            .or_else(|| part.strip_prefix("0X"))
            .map(|hex| !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()));
        digits.unwrap_or(!part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    host.split('.').all(part)
}

/// `host:path`, `scheme://…`, or a local path.
pub(crate) fn remote(act: &mut Act<'_, '_>, given: &Given) {
    match split_remote(&given.text) {
        Some(_) => host(act, given),
        None => act.touch(Touch::Read, given),
    }
}

/// A file that says what is to be done: when it comes from elsewhere, others say it.
pub(crate) fn definition(act: &mut Act<'_, '_>, given: &Given) {
    let fetched = given.text == "-" && act.call.stdin.from.has(Sources::NETWORK);
    if !fetched && !is_elsewhere(&given.text) {
        return remote(act, given);
    }
    if !fetched {
        host(act, given);
    }
    let says = "Does what a file from the network says";
    act.draft
        .effect(Action::Opaque, Risk::Dangerous, says, given.span);
}

/// Whether a text is the address of something on another machine.
pub(crate) fn is_elsewhere(text: &str) -> bool {
    let schemes = ["http://", "https://", "ftp://", "git://", "ssh://"];
    schemes.iter().any(|scheme| text.starts_with(scheme)) && !is_local(&host_of(text))
}

/// Host and path of a `host:path` argument; `None` for a local one.
pub(crate) fn split_remote(text: &str) -> Option<(&str, &str)> {
    if let Some((_, rest)) = text.split_once("://") {
        let end = rest.find('/').unwrap_or(rest.len());
        return Some((&rest[..end], &rest[end..]));
    }
    if let Some((remote, path)) = text.strip_prefix(':').and_then(|rest| rest.split_once(':')) {
        // rclone's remotes made up on the spot: `:ftp,host=…:path`.
        return Some((remote, path));
    }
    let (host, path) = text.split_once(':')?;
    let local =
        host.is_empty() || host.contains('/') || (host.len() == 1 && path.starts_with('\\'));
    (!local).then_some((host, path.trim_start_matches(':')))
}

/// Text or a file (`@file`) that is sent away.
pub(crate) fn upload(act: &mut Act<'_, '_>, given: &Given) {
    if given.from.has(Sources::SECRET) {
        sends_secret(act, given);
    }
    let file = match given.text.split_once('@') {
        // httpie's `name:=@file` is JSON from a file.
        Some((name, file)) if !name.trim_end_matches(":=").contains(['{', '"', ' ', ':']) => file,
        _ => return,
    };
    let file = given.part(file.split(';').next().unwrap_or_default());
    file_upload(act, &file);
}

/// A file, a folder or the input that is sent away; what lies elsewhere already is not.
pub(crate) fn send(act: &mut Act<'_, '_>, given: &Given) {
    if given.text == "-" {
        if act.call.stdin.from.has(Sources::SECRET) {
            sends_secret(act, given);
        }
    } else if split_remote(&given.text).is_some() {
        host(act, given);
    } else {
        file_upload(act, given);
    }
}

/// A folder that a program shows to everybody who asks.
pub(crate) fn serves(act: &mut Act<'_, '_>, folder: &Given) {
    let target = act.target(folder);
    if place::is_private(&target, act.judge.context) {
        let says = "Serves this machine's files";
        act.draft
            .effect(Action::Publishes, Risk::Dangerous, says, folder.span);
    }
}

/// A file that is sent away.
pub(crate) fn file_upload(act: &mut Act<'_, '_>, file: &Given) {
    let file = &expanded(act, file);
    let target = act.target(file);
    // Whoever lets it run has to give it, too.
    let read = Action::Reads(target.clone());
    // `~/.ssh/$name`: which file is not known, which folder is.
    let folder = match (&target.resolved, file.text.split_once('$')) {
        (None, Some((known, _))) => known.rsplit_once('/').map(|(folder, _)| folder),
        _ => None,
    };
    let folder = folder.filter(|folder| !folder.is_empty()).map(|folder| {
        let given = Given::known(folder, file.span);
        act.target(&given)
    });
    let in_private = folder.is_some_and(|folder| {
        folder.place != Place::HomeItself && place::is_private(&folder, act.judge.context)
    });
    match target.place {
        _ if in_private || place::is_private(&target, act.judge.context) => {
            act.draft.effect(read, Risk::Safe, "", file.span);
            sends_secret(act, file);
        }
        Place::System | Place::Startup => act.draft.effect(
            Action::Publishes,
            Risk::Dangerous,
            "Sends system files away",
            file.span,
        ),
        _ => act.touch(Touch::Read, file),
    }
}

/// curl expands no tilde, but whoever wrote `@~/…` meant the home folder.
fn expanded(act: &Act<'_, '_>, file: &Given) -> Given {
    let home = &act.judge.context.home;
    match file.text.strip_prefix('~') {
        Some("") => file.part(home),
        Some(rest) if rest.starts_with('/') => file.part(&format!("{home}{rest}")),
        _ => file.clone(),
    }
}

/// Keys, passwords or tokens leave the machine.
pub(crate) fn sends_secret(act: &mut Act<'_, '_>, given: &Given) {
    act.draft.effect(
        Action::Publishes,
        Risk::Dangerous,
        "Sends keys or passwords away",
        given.span,
    );
}

/// The host's name inside a URL or address.
pub(crate) fn host_of(text: &str) -> String {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let rest = rest.rsplit('@').next().unwrap_or_default();
    match rest.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default().to_owned(),
        None => rest.split(':').next().unwrap_or_default().to_owned(),
    }
}

/// Whether a host is this machine.
pub(crate) fn is_local(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "::1" | "0.0.0.0") || host.starts_with("127.")
}

/// Addresses made to be misread.
fn deceptive(text: &str, host: &str) -> Option<&'static str> {
    if !host.is_ascii() {
        return Some("Host name with look-alike letters");
    }
    if host.split('.').any(|label| label.starts_with("xn--")) {
        return Some("Host name in disguise");
    }
    if host.contains('%') {
        return Some("Host name with escapes");
    }
    if text.split(['/', '?', '&', '.']).any(mixes_alphabets) {
        return Some("Address with look-alike letters");
    }
    let authority = text
        .split_once("://")
        .map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    match authority.and_then(|authority| authority.split_once('@')) {
        Some((user, _)) if user.contains('.') && !user.contains(':') => {
            Some("Host name hidden behind a user name")
        }
        _ => None,
    }
}

/// Latin letters beside Greek or Cyrillic ones in the same word.
fn mixes_alphabets(word: &str) -> bool {
    let other = |c: char| matches!(c, '\u{370}'..='\u{3ff}' | '\u{400}'..='\u{52f}');
    word.chars().any(|c| c.is_ascii_alphabetic()) && word.chars().any(other)
}

/// Whether the command sends data rather than fetching it.
pub(crate) fn sends(act: &Act<'_, '_>) -> bool {
    act.reading.modifiers.has(Modifiers::UPLOAD)
}
