//! Programs whose harm hangs on the paths and modes they are given.

use super::act::Act;
use super::knowledge::{Kind, Modifiers};
use super::{describe, describe_base, describe_flags, describe_positionals, output, scratch};
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;
use crate::classify::harm::Touch;
use crate::classify::place;
use crate::effect::{Action, Place};
use crate::risk::Risk;

/// `rm`, `rmdir`, `unlink`: by path, and by whether whole trees go.
pub(crate) fn rm(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    let always = matches!(
        act.draft.program.name.as_str(),
        "rimraf" | "del-cli" | "remove_directory"
    );
    let recursive = always || act.reading.modifiers.has(Modifiers::RECURSIVE);
    let touch = if recursive {
        Touch::DeleteTree
    } else {
        Touch::Delete
    };
    let paths: Vec<Given> = act.positionals().cloned().collect();
    for path in &paths {
        let touch = match touch {
            Touch::DeleteTree if scratch::is_scratch(act, path) => Touch::DeleteScratch,
            touch => touch,
        };
        act.touch(touch, path);
        if path.many && path.text == "$input" && !recursive {
            let says = "Deletes whatever its input names";
            act.draft
                .effect(Action::Discards, Risk::Dangerous, says, path.span);
        }
        if act.draft.effects.len() > 2048 {
            act.draft
                .note(Risk::Dangerous, "Too many arguments to judge");
            break;
        }
    }
    if recursive && paths.is_empty() {
        act.draft.note(Risk::Dangerous, "Recursive deletion");
    }
    if recursive && act.reading.has("--no-preserve-root") {
        act.draft
            .note(Risk::Critical, "Deletes the whole file system");
    }
    Flow::literal("")
}

/// Options that delete what a command names, in the words of whoever copies or packs: no great harm
/// to a folder, all of it to a home.
pub(crate) fn whole_trees(act: &mut Act<'_, '_>) {
    let packs = act
        .reading
        .flags
        .iter()
        .any(|seen| seen.flag.kind == Kind::Deletes);
    let away = act.draft.program.name == "mv"
        && act
            .positionals()
            .last()
            .is_some_and(|word| act.target(word).place == Place::Sink);
    if !(packs || away) || act.reading.modifiers.has(Modifiers::CALM) {
        return;
    }
    for path in act
        .positionals()
        .take(MAX_TREES)
        .cloned()
        .collect::<Vec<_>>()
    {
        empties(act, &path);
    }
}

/// More paths than this are not looked at once more.
const MAX_TREES: usize = 64;

/// A path that is emptied: grave when it is a home or the system itself.
pub(crate) fn empties(act: &mut Act<'_, '_>, path: &Given) {
    if matches!(
        act.target(path).place,
        Place::Root | Place::HomeItself | Place::SystemItself
    ) {
        act.touch(Touch::DeleteTree, path);
    }
}

/// `install -m 4755`, `mkdir -m 777`: a mode given along the way.
pub(crate) fn mode(act: &mut Act<'_, '_>) {
    if !matches!(act.draft.program.name.as_str(), "install" | "mkdir") {
        return;
    }
    if let Some(mode) = act.reading.value("-m").cloned() {
        judge_mode(act, &mode);
    }
}

fn judge_mode(act: &mut Act<'_, '_>, mode: &Given) {
    if opens_to_all(&mode.text) {
        act.draft.effect(
            Action::Privilege,
            Risk::Dangerous,
            "Lets everybody write",
            mode.span,
        );
    }
    if sets_identity(&mode.text) {
        act.draft.effect(
            Action::Privilege,
            Risk::Dangerous,
            "Makes a program run as its owner",
            mode.span,
        );
    }
}

/// `chmod`, `chown`, `chgrp`: the mode, then paths.
pub(crate) fn chmod(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    let recursive = act.reading.modifiers.has(Modifiers::RECURSIVE);
    let name = act.draft.program.name.clone();
    let mut words: Vec<Given> = act.positionals().cloned().collect();
    // `chmod -x file`: a mode that looks like an option.
    let dashed = act
        .reading
        .unknown
        .iter()
        .find(|word| {
            word.text[1..]
                .bytes()
                .all(|b| b"rwxXstugoa,+-=".contains(&b))
        })
        .cloned();
    let mode = match dashed {
        Some(mode) if name == "chmod" => Some(mode),
        _ if act.reading.has("--reference") => None,
        _ if words.is_empty() => None,
        _ => Some(words.remove(0)),
    };
    let mode = mode.filter(|_| name == "chmod");
    if let Some(mode) = &mode {
        judge_mode(act, mode);
    }
    if mode.is_some_and(|mode| lets_others_read(&mode.text)) {
        show_secrets(act, &words);
    }
    let touch = if recursive {
        Touch::AttributesTree
    } else {
        Touch::Attributes
    };
    for path in words.iter().take(1024) {
        act.touch(touch, path);
    }
    if words.len() > 1024 {
        act.draft
            .note(Risk::Dangerous, "Too many arguments to judge");
    }
    Flow::literal("")
}

/// A mode for others, on keys and passwords.
fn show_secrets(act: &mut Act<'_, '_>, paths: &[Given]) {
    let mut paths = paths.iter().take(1024);
    if let Some(path) =
        paths.find(|path| act.target(path).place == Place::Secret && !is_for_others(&path.text))
    {
        let says = "Lets others read keys or passwords";
        act.draft
            .effect(Action::Privilege, Risk::Dangerous, says, path.span);
    }
}

/// What lies beside keys and says nothing.
pub(crate) fn is_for_others(path: &str) -> bool {
    let name = path.trim_end_matches('/').rsplit('/').next();
    name.is_some_and(|name| {
        name.ends_with(".pub")
            || matches!(name, "known_hosts" | "config" | "authorized_keys" | ".ssh")
    })
}

/// Whether a mode gives others something.
pub(crate) fn lets_others_read(mode: &str) -> bool {
    let digits = mode.strip_prefix("0o").unwrap_or(mode);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return digits.bytes().next_back().is_some_and(|b| b != b'0');
    }
    mode.split(',').any(|part| {
        let Some(at) = part.find(['+', '=']) else {
            return false;
        };
        let (who, what) = part.split_at(at);
        what.contains(['r', 'w']) && (who.is_empty() || who.contains(['o', 'a']))
    })
}

fn opens_to_all(mode: &str) -> bool {
    if mode.bytes().all(|b| b.is_ascii_digit()) {
        let last = mode.bytes().last().unwrap_or(b'0') - b'0';
        let sticky = mode.len() == 4 && mode.starts_with('1');
        return last & 2 != 0 && !sticky;
    }
    mode.split(',').any(|part| {
        let Some(at) = part.find(['+', '=']) else {
            return false;
        };
        let (who, what) = part.split_at(at);
        what.contains('w') && (who.contains('o') || who.contains('a'))
    })
}

fn sets_identity(mode: &str) -> bool {
    if mode.bytes().all(|b| b.is_ascii_digit()) {
        return mode.len() == 4 && matches!(mode.as_bytes()[0], b'4' | b'6' | b'7' | b'2')
            || mode.len() == 5 && matches!(mode.as_bytes()[1], b'4' | b'6' | b'7' | b'2');
    }
    mode.split(',').any(|part| {
        part.split_once(['+', '='])
            .is_some_and(|(who, what)| what.contains('s') && !who.contains('o'))
    })
}

/// `dd if=… of=…`.
pub(crate) fn dd(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    let endless = act.reading.value("if").is_some_and(|file| {
        matches!(
            file.text.as_str(),
            "/dev/zero" | "/dev/urandom" | "/dev/random"
        )
    });
    if let Some(file) = act.reading.value("of").cloned() {
        let place = act.target(&file).place;
        if endless && !act.reading.has("count") && place != Place::Device && place != Place::Sink {
            act.draft.effect(
                Action::SystemChange,
                Risk::Dangerous,
                "Fills the disk",
                file.span,
            );
        }
        let flow = match act.reading.value("if").cloned() {
            Some(source) => act.judge.content(&source, &act.cwd),
            None => act.stdin(),
        };
        act.wrote(&file, flow);
        return Flow::literal("");
    }
    match act.reading.value("if").cloned() {
        Some(file) => act.judge.content(&file, &act.cwd),
        None => act.stdin(),
    }
}

/// `tee`: the input goes to files and on.
pub(crate) fn tee(act: &mut Act<'_, '_>) -> Flow {
    describe(act);
    if act.draft.program.name == "mkfifo" {
        for file in act.positionals().cloned().collect::<Vec<_>>() {
            if let Some(path) = act.target(&file).resolved {
                act.judge.traces.fifos.insert(path);
            }
        }
        return Flow::literal("");
    }
    let stdin = act.stdin();
    for file in act.positionals().cloned().collect::<Vec<_>>() {
        act.wrote(&file, stdin.clone());
    }
    stdin
}

/// `tar` and its kin: creating reads the positionals, extracting writes below a folder.
pub(crate) fn tar(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    let has = |flag: &str| act.reading.has(flag);
    let (creates, lists) = (has("-c") || has("-r") || has("-u"), has("-t"));
    let extracts = has("-x");
    let archive = act.reading.value("-f").cloned();
    let mut private = false;
    if let Some(archive) = &archive {
        let remote = archive.text.contains(':') && !archive.text.starts_with(['/', '.']);
        if remote {
            act.draft.effect(
                Action::Network { host: None },
                Risk::Normal,
                "",
                archive.span,
            );
        } else if creates && archive.text != "-" {
            act.touch(Touch::Write, archive);
        } else {
            act.touch(Touch::Read, archive);
        }
    }
    if lists && !creates && !extracts {
        return Flow::of(Sources::PROGRAM);
    }
    act.draft.raise(Risk::Normal);
    if creates {
        for path in act.positionals().cloned().collect::<Vec<_>>() {
            act.touch(Touch::Read, &path);
            let target = act.target(&path);
            private |= place::is_private(&target, act.judge.context);
        }
        let from = if private {
            Sources::FILE.with(Sources::SECRET)
        } else {
            Sources::FILE
        };
        if let Some(archive) = archive.filter(|archive| archive.text != "-") {
            act.wrote(&archive, Flow::of(from));
        }
        return Flow::of(from);
    }
    if extracts {
        let here = Given::known(".", act.call.span);
        let place = act.target(&here).place;
        let absolute = act.reading.has("-P");
        if matches!(place, Place::Protected | Place::Startup | Place::Secret) {
            act.touch(Touch::Write, &here);
        }
        if absolute || matches!(place, Place::Root | Place::System | Place::SystemItself) {
            act.draft.effect(
                Action::SystemChange,
                Risk::Dangerous,
                "Unpacks over system files",
                act.call.span,
            );
        }
        if act.reading.has("-O") {
            return Flow::of(act.call.stdin.from.with(Sources::FILE));
        }
    }
    describe_positionals(act).unwrap_or_else(|| output(act))
}
