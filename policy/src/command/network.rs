//! Programs that talk to other machines.

use super::act::Act;
use super::code;
use super::knowledge::{Kind, Language, Modifiers, Output};
use super::request;
use super::url::{self, is_local, split_remote};
use super::{describe, describe_base, describe_flags};
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;
use crate::classify::harm::Touch;
use crate::classify::judge::Mark;
use crate::classify::place;
use crate::classify::state::Cwd;
use crate::effect::{Action, Place};
use crate::redact::holds_token;
use crate::risk::Risk;

/// More files of one `mput`, or lines of one file of options, are not looked at.
const MAX_PUTS: usize = 64;

/// zsh's `ztcp host port`: the connection's descriptor is in a variable from then on.
pub(crate) fn ztcp(act: &mut Act<'_, '_>) -> Flow {
    let flow = describe(act);
    act.judge.mark(Mark::Connection);
    act.state.network_descriptors.insert("REPLY".to_owned());
    flow
}

/// `curl`, `wget`, `http` and their kin.
pub(crate) fn curl(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    if let Some(word) = act.args.iter().find(|word| holds_token(&word.text)) {
        let (says, span) = ("Writes a secret on the command line", word.span);
        act.draft
            .effect(Action::Publishes, Risk::Dangerous, says, span);
    }
    let mut addresses: Vec<Given> = act.positionals().cloned().collect();
    let mut method = act
        .reading
        .value("-X")
        .or_else(|| act.reading.value("--method"))
        .map(|value| value.text.to_ascii_uppercase());
    let spoken = addresses.first().filter(|first| {
        let upper = first.text.len() > 2 && first.text.bytes().all(|b| b.is_ascii_uppercase());
        upper || matches!(first.text.as_str(), "delete" | "put" | "patch" | "post")
    });
    if let Some(first) = spoken
        && !matches!(act.draft.program.name.as_str(), "curl" | "wget")
    {
        // `http DELETE host/path`
        method = Some(first.text.to_ascii_uppercase());
        addresses.remove(0);
    }
    if matches!(
        act.draft.program.name.as_str(),
        "http" | "https" | "xh" | "xhs"
    ) {
        // `http host/path name=value name@file`
        let items = addresses.split_off(addresses.len().min(1));
        for item in &items {
            url::upload(act, item);
        }
    }
    headers(act);
    configured(act);
    if let Some(address) = act.reading.value("--url").cloned() {
        addresses.push(address);
    }
    for address in &addresses {
        if address.text.starts_with("telnet://") {
            // No request, no answer: whatever either side says.
            act.judge.mark(Mark::Connection);
        }
        url::host(act, address);
        url::inward(act, address);
        in_the_clear(act, address);
    }
    let sends = [
        "-d",
        "--data",
        "--post-data",
        "--json",
        "--data-binary",
        "--data-raw",
    ]
    .iter()
    .any(|flag| act.reading.has(flag));
    if method.is_none() && sends {
        method = Some("POST".to_owned());
    }
    for flag in ["-T", "--post-file"] {
        if let Some(file) = act.reading.value(flag).cloned() {
            url::file_upload(act, &file);
        }
    }
    request::judge(act, method.as_deref(), &addresses);
    let stdin = act.stdin();
    let takes_input = matches!(
        act.draft.program.name.as_str(),
        "http" | "https" | "xh" | "xhs"
    );
    if (takes_input || url::sends(act)) && stdin.from.has(Sources::SECRET) {
        let span = Given::known("", act.call.span);
        url::sends_secret(act, &span);
    }
    let local = !addresses.is_empty()
        && addresses
            .iter()
            .all(|address| is_local(&url::host_of(&address.text)));
    let fetched = if local {
        Sources::PROGRAM
    } else {
        Sources::NETWORK
    };
    saved(act, &addresses, fetched)
}

/// What a command or a file gives goes out in a header. A token from the environment does so all
/// day, and so does one that a program prints into a header made for it.
fn headers(act: &mut Act<'_, '_>) {
    const HEADERS: &[&str] = &["-H", "--header", "-A", "-U", "-e", "-b"];
    let printed = Sources::FILE.with(Sources::PROGRAM);
    let sent: Vec<Given> = act
        .reading
        .flags
        .iter()
        .filter(|seen| HEADERS.iter().any(|name| seen.flag.spellings.has(name)))
        .filter_map(|seen| seen.value.clone())
        .filter(|value| value.from.has(Sources::SECRET) && value.from.has(printed))
        .filter(|value| !value.from.has(Sources::PROGRAM) || !is_credential(&value.text))
        .collect();
    for value in sent {
        url::sends_secret(act, &value);
    }
}

/// `-K file`: what options in a file that the line itself made send away.
fn configured(act: &mut Act<'_, '_>) {
    let Some(file) = act.reading.value("--config").cloned() else {
        return;
    };
    let text = act.judge.content(&file, &act.cwd).text.unwrap_or_default();
    for line in text.lines().take(MAX_PUTS) {
        let Some((key, value)) = line.trim().split_once(['=', ':', ' ']) else {
            continue;
        };
        let value = Given::known(value.trim_matches(['=', ':', ' ', '"']), file.span);
        match key.trim_start_matches('-') {
            "T" | "upload-file" => url::file_upload(act, &value),
            "d" | "F" | "json" => url::upload(act, &value),
            key if key.starts_with("data") || key.starts_with("form") => url::upload(act, &value),
            _ => {}
        }
    }
}

/// `Authorization: …`, `PRIVATE-TOKEN: …`, `X-Api-Key: …`.
fn is_credential(header: &str) -> bool {
    let name = header.split(':').next().unwrap_or_default();
    let name = name.to_ascii_lowercase();
    ["authorization", "token", "api-key", "apikey"]
        .iter()
        .any(|part| name.contains(part))
}

/// A script or a program over plain HTTP: whoever stands in between decides what it is.
fn in_the_clear(act: &mut Act<'_, '_>, address: &Given) {
    const RUN: &[&str] = &[
        "sh", "bash", "zsh", "ksh", "ps1", "bat", "exe", "elf", "run", "bin", "appimage",
    ];
    let text = address.text.to_ascii_lowercase();
    let path = text.split(['?', '#']).next().unwrap_or_default();
    let program = path
        .rsplit_once('.')
        .is_some_and(|(_, ending)| RUN.contains(&ending));
    if program && text.starts_with("http://") && !is_local(&url::host_of(&address.text)) {
        let says = "Fetches a program without encryption";
        let action = Action::Network { host: None };
        act.draft
            .effect(action, Risk::Dangerous, says, address.span);
    }
}

/// Where the fetched bytes go.
fn saved(act: &mut Act<'_, '_>, addresses: &[Given], fetched: Sources) -> Flow {
    let name = act.draft.program.name.as_str();
    let wget = matches!(name, "wget" | "aria2c" | "axel");
    let named = if name == "wget" {
        act.reading.value("-O")
    } else {
        act.reading.value("-o")
    };
    if let Some(file) = named.cloned() {
        if file.text == "-" || file.text == "/dev/stdout" {
            return Flow::of(fetched);
        }
        act.wrote(&file, Flow::of(fetched));
        return Flow::literal("");
    }
    let own_name = wget && !act.reading.has("--spider") || act.reading.has("-O");
    if !own_name {
        return Flow::of(fetched);
    }
    for address in addresses {
        let mut file = last_part(address);
        if let Some(folder) = act.reading.value("-P") {
            file.text = format!("{}/{}", folder.text, file.text);
        }
        act.wrote(&file, Flow::of(fetched));
        act.touch(Touch::Write, &file);
    }
    Flow::literal("")
}

/// The name under which an address is kept when none is given.
fn last_part(address: &Given) -> Given {
    let path = address.text.split(['?', '#']).next().unwrap_or_default();
    Given {
        text: path.rsplit('/').next().unwrap_or_default().to_owned(),
        ..address.clone()
    }
}

/// `tftp -g -r NAME HOST`, `ftpget HOST FILE`, `lwp-download URL [FILE]`: files by other
/// protocols, or other programs, than `curl`'s.
pub(crate) fn fetch(act: &mut Act<'_, '_>) -> Flow {
    let flow = describe(act);
    let given: Vec<Given> = act.positionals().cloned().collect();
    let second = given.get(1).cloned();
    let files = match act.draft.program.name.as_str() {
        "tftp" | "atftp" => {
            let local = act.reading.value("-l").or(act.reading.value("-r"));
            let mut files: Vec<Given> = local.cloned().into_iter().collect();
            // `tftp HOST -c put FILE`, as at its prompt.
            files.extend(given.iter().skip(2).cloned());
            if act.reading.has("-p") || second.is_some_and(|verb| verb.text == "put") {
                for file in files.drain(..) {
                    url::file_upload(act, &file);
                }
            }
            files
        }
        "ftpget" => second.into_iter().collect(),
        "lwp-download" if second.is_some() => second.into_iter().collect(),
        _ => given.iter().map(last_part).collect(),
    };
    for file in files {
        act.wrote(&file, Flow::of(Sources::NETWORK));
        act.touch(Touch::Write, &file);
    }
    flow
}

/// `nc`, `telnet`, `openssl s_client`: a raw connection.
pub(crate) fn netcat(act: &mut Act<'_, '_>) -> Flow {
    describe(act);
    act.judge.mark(Mark::Connection);
    if act.reading.has("-U") {
        // Whoever talks to a socket can do what its owner does.
        for socket in act.positionals().cloned().collect::<Vec<_>>() {
            act.touch(Touch::Write, &socket);
        }
    }
    let span = act.call.span;
    if act.call.stdin.from.has(Sources::SECRET) {
        let given = Given::known("", span);
        url::sends_secret(act, &given);
    }
    if let Some(text) = act.call.stdin.text.clone() {
        // `FLUSHALL` to a store that speaks in lines.
        code::judge(act, Language::Sql, &Given::known(text, span));
    }
    Flow::of(Sources::NETWORK)
}

/// `openssl enc`, `openssl base64`: decoders among other things.
pub(crate) fn openssl(act: &mut Act<'_, '_>) -> Flow {
    let flow = describe(act);
    if !act.reading.modifiers.has(Modifiers::DECODES) {
        return flow;
    }
    let input = match act.reading.value("-in").cloned() {
        Some(file) => act.judge.content(&file, &act.cwd),
        None => act.stdin(),
    };
    let encrypted =
        act.sub.first().is_some_and(|sub| sub != "base64") && !act.reading.has("-base64");
    if encrypted {
        return Flow::of(input.from.with(Sources::DECODED));
    }
    super::run::decoded("openssl", &input)
}

/// Whether all that is sent are questions.
fn asks(input: &Flow) -> bool {
    input.text.as_deref().is_some_and(|text| {
        text.split(['\n', ';'])
            .map(str::trim)
            .all(|line| line.is_empty() || line.starts_with("show ") || line == "help")
    })
}

/// A local socket that a service listens on.
fn is_control_socket(word: &Given, kind: &str) -> bool {
    let path = if kind.starts_with("UNIX") {
        word.text.split_once(':').map_or("", |(_, path)| path)
    } else {
        word.text.as_str()
    };
    let path = path.split(',').next().unwrap_or_default();
    path.starts_with("/run/")
        || path.starts_with("/var/run/")
        || path.starts_with('/') && path.ends_with(".sock")
}

/// `socat ADDRESS ADDRESS`.
pub(crate) fn socat(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    let words: Vec<Given> = act.positionals().cloned().collect();
    let kinds: Vec<String> = words
        .iter()
        .map(|word| {
            word.text
                .split([':', ','])
                .next()
                .unwrap_or_default()
                .to_ascii_uppercase()
        })
        .collect();
    let network = |kind: &String| {
        [
            "TCP", "UDP", "SSL", "OPENSSL", "SCTP", "VSOCK", "SOCKS", "PROXY", "DTLS", "IP",
        ]
        .iter()
        .any(|name| kind.starts_with(name))
    };
    let connected = kinds.iter().any(network);
    if connected {
        act.judge.mark(Mark::Connection);
        if act.call.stdin.from.has(Sources::SECRET) {
            let given = Given::known("", act.call.span);
            url::sends_secret(act, &given);
        }
    }
    for (word, kind) in words.iter().zip(&kinds) {
        let rest = word.text.split_once(':').map_or("", |(_, rest)| rest);
        let first = word.part(rest.split(',').next().unwrap_or_default());
        match kind.as_str() {
            "EXEC" | "SYSTEM" | "SHELL" => {
                if connected {
                    act.draft.effect(
                        Action::Network { host: None },
                        Risk::Critical,
                        "Connects a program to the network",
                        word.span,
                    );
                }
                act.shell_text(&first);
            }
            "CREATE" | "OPEN" | "FILE" | "GOPEN" => {
                let touch = if kind == "CREATE"
                    || word.text.contains("wronly")
                    || word.text.contains("creat")
                {
                    Touch::Write
                } else {
                    Touch::Read
                };
                if !first.text.starts_with("/dev/tty") && !first.text.starts_with('`') {
                    act.touch(touch, &first);
                }
            }
            _ if kind.contains("LISTEN") || kind.ends_with("-L") => act.draft.effect(
                Action::Network { host: None },
                Risk::Dangerous,
                "Opens a port to others",
                word.span,
            ),
            // haproxy, docker and others take orders there.
            _ if is_control_socket(word, kind) && !asks(&act.call.stdin) => act.draft.effect(
                Action::SystemChange,
                Risk::Dangerous,
                "Talks to a service's control socket",
                word.span,
            ),
            _ if network(kind) => {
                act.draft
                    .effect(Action::Network { host: None }, Risk::Normal, "", word.span);
            }
            _ => {}
        }
    }
    Flow::of(if connected {
        Sources::NETWORK
    } else {
        Sources::PROGRAM
    })
}

/// `ssh host command`: the command runs elsewhere.
pub(crate) fn ssh(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    connects(act);
    let Some(&host) = act.reading.positionals.first() else {
        return Flow::of(Sources::PROGRAM);
    };
    let given = act.args[host].clone();
    url::host(act, &given);
    act.draft.raise(Risk::Normal);
    if act.call.stdin.from.has(Sources::SECRET) {
        url::sends_secret(act, &given);
    }
    let wide = act.reading.flags.iter().find(|seen| {
        let forwards = seen.flag.spellings.has("-D") || seen.flag.spellings.has("-L");
        let value = seen.value.as_ref().map_or("", |value| value.text.as_str());
        forwards
            && ["0.0.0.0:", "*:", "[::]:"]
                .iter()
                .any(|all| value.starts_with(all))
    });
    if let Some(span) = wide.map(|seen| seen.word.span) {
        let action = Action::Network { host: None };
        let says = "Opens a port to others";
        act.draft.effect(action, Risk::Dangerous, says, span);
    }
    if act.reading.positionals.len() > 1 {
        let command = act.reading.positionals[1];
        // Another machine: where it stands there is not known here.
        act.cwd = Cwd::Unknown;
        act.shell_words(command);
    } else if act.call.stdin.text.is_some() || act.call.stdin.from.has(Sources::NETWORK) {
        // The shell over there reads it.
        act.cwd = Cwd::Unknown;
        super::run::input(act, Language::Shell);
    }
    Flow::of(Sources::NETWORK)
}

/// `-o ProxyCommand=…`: settings of ssh, also behind `scp` and `sftp`, that start a program here.
fn connects(act: &mut Act<'_, '_>) {
    let options: Vec<Given> = act
        .reading
        .flags
        .iter()
        .filter(|seen| seen.flag.spellings.has("-o"))
        .filter_map(|seen| seen.value.clone())
        .collect();
    for option in options {
        let Some((key, value)) = option.text.split_once(['=', ' ']) else {
            continue;
        };
        let runs = [
            "proxycommand",
            "localcommand",
            "knownhostscommand",
            "proxyusefdpass",
        ];
        if runs.contains(&key.to_ascii_lowercase().as_str()) && value != "none" {
            let text = option.part(value);
            act.draft.effect(
                Action::Runs {
                    program: key.to_owned(),
                },
                Risk::Dangerous,
                "Runs a local program through ssh",
                option.span,
            );
            act.shell_text(&text);
        }
    }
}

/// `sftp`, `ftp` and their kin: a host, settings of ssh, and commands.
pub(crate) fn sftp(act: &mut Act<'_, '_>) -> Flow {
    if act.draft.program.name == "sftp" {
        connects(act);
    }
    puts(act);
    let flow = describe(act);
    match act.spec.output {
        Output::Network => Flow::of(flow.from.with(Sources::NETWORK)),
        _ => flow,
    }
}

/// Files that the commands of an `ftp` send: on its input, behind `-e` or `-c`, in plain words.
fn puts(act: &mut Act<'_, '_>) {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(act.call.stdin.text.clone());
    for flag in ["-e", "-c"] {
        lines.extend(act.reading.value(flag).map(|value| value.text.clone()));
    }
    // `tftp host -c put file`
    let put = act.args.iter().position(|word| is_put(&word.text));
    if let Some(at) = put {
        let words: Vec<&str> = act.args[at..]
            .iter()
            .map(|word| word.text.as_str())
            .collect();
        lines.push(words.join(" "));
    }
    let span = act.call.span;
    for line in lines.iter().flat_map(|text| text.split(['\n', ';'])) {
        let mut words = line.split_ascii_whitespace();
        let Some(verb) = words.next() else {
            continue;
        };
        let many = verb == "mput";
        let reverse = verb != "mirror" || line.contains(" -R") || line.contains("--reverse");
        if !is_put(verb) || !reverse {
            continue;
        }
        let files = words.filter(|word| !word.starts_with('-'));
        for file in files.take(if many { MAX_PUTS } else { 1 }) {
            url::file_upload(act, &Given::known(file, span));
        }
    }
}

fn is_put(verb: &str) -> bool {
    matches!(
        verb,
        "put" | "mput" | "send" | "reput" | "append" | "mirror" | "put-file"
    )
}

/// `rsync`, `scp`: sources, then a destination; either may be on another machine.
pub(crate) fn rsync(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    connects(act);
    let words: Vec<Given> = act.positionals().cloned().collect();
    let Some((destination, sources)) = words.split_last() else {
        return Flow::of(Sources::PROGRAM);
    };
    let lists = act.reading.modifiers.has(Modifiers::READS);
    match split_remote(&destination.text) {
        _ if sources.is_empty() || lists => {}
        Some((_, path)) => {
            url::host(act, destination);
            let path = destination.part(path);
            let place = place::target(&path, &Cwd::Unknown, act.judge.context).place;
            // A store of objects has no system files.
            let machine = matches!(
                act.draft.program.name.as_str(),
                "rsync" | "unison" | "scp" | "pscp"
            );
            let system = matches!(
                place,
                Place::Root | Place::System | Place::SystemItself | Place::Startup | Place::Secret
            ) || path.text.starts_with("/var/lib");
            if machine && system {
                act.draft.effect(
                    Action::SystemChange,
                    Risk::Dangerous,
                    "Changes system files on another machine",
                    destination.span,
                );
            }
            for source in sources {
                url::file_upload(act, source);
            }
        }
        None => {
            act.touch(Touch::Write, destination);
            let deletes = act
                .reading
                .flags
                .iter()
                .any(|seen| seen.flag.kind == Kind::Discards)
                || act
                    .sub
                    .iter()
                    .any(|word| matches!(word.as_str(), "sync" | "bisync"));
            if deletes && !act.reading.modifiers.has(Modifiers::CALM) {
                super::files::empties(act, destination);
            }
        }
    }
    for source in sources {
        match split_remote(&source.text) {
            Some(_) => {
                url::host(act, source);
                let name = source.text.rsplit('/').next().unwrap_or_default();
                let here = Given {
                    text: format!("{}/{name}", destination.text.trim_end_matches('/')),
                    ..destination.clone()
                };
                act.wrote(&here, Flow::of(Sources::NETWORK));
                act.wrote(destination, Flow::of(Sources::NETWORK));
            }
            None => act.touch(Touch::Read, source),
        }
    }
    Flow::of(Sources::PROGRAM)
}
