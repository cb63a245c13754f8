//! `find`: an expression whose actions run, delete and write.

use super::act::Act;
use super::{describe_base, knowledge::Unknown};
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;
use crate::classify::harm::Touch;
use crate::effect::{Action, Place};
use crate::risk::Risk;

/// Tests and options that take one value.
const WITH_VALUE: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-type",
    "-xtype",
    "-size",
    "-mtime",
    "-atime",
    "-ctime",
    "-mmin",
    "-amin",
    "-cmin",
    "-newer",
    "-anewer",
    "-cnewer",
    "-perm",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-maxdepth",
    "-mindepth",
    "-links",
    "-inum",
    "-samefile",
    "-lname",
    "-ilname",
    "-fstype",
    "-printf",
    "-regextype",
    "-used",
    "-context",
    "-Bmin",
    "-Bnewer",
    "-Btime",
    "-flags",
    "-files0-from",
    "-D",
];
/// Tests and actions without consequences.
const PLAIN: &[&str] = &[
    "-print",
    "-print0",
    "-ls",
    "-prune",
    "-quit",
    "-o",
    "-or",
    "-a",
    "-and",
    "-not",
    "!",
    "(",
    ")",
    ",",
    "-empty",
    "-executable",
    "-readable",
    "-writable",
    "-true",
    "-false",
    "-daystart",
    "-depth",
    "-d",
    "-follow",
    "-mount",
    "-xdev",
    "-noleaf",
    "-nouser",
    "-nogroup",
    "-H",
    "-L",
    "-P",
    "-E",
    "-X",
    "-s",
    "-x",
    "-warn",
    "-nowarn",
    "-ignore_readdir_race",
    "-noignore_readdir_race",
    "-O1",
    "-O2",
    "-O3",
    "-help",
    "--help",
    "-version",
    "--version",
];
/// Programs that delete or empty what they are given.
pub(crate) const DELETING: &[&str] = &["rm", "unlink", "shred", "srm", "wipe"];
/// Tests that pick files by what they are called or how old or large they are.
const SELECTIVE: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-size",
    "-mtime",
    "-atime",
    "-ctime",
    "-mmin",
    "-amin",
    "-cmin",
    "-newer",
    "-anewer",
    "-cnewer",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-inum",
    "-samefile",
    "-lname",
    "-empty",
    "-links",
    "-perm",
    "-nouser",
];

pub(crate) fn find(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    let args = act.args;
    let mut folders: Vec<Given> = Vec::new();
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let text = word.text.as_str();
        if matches!(text, "-H" | "-L" | "-P" | "-E" | "-X") {
            at += 1;
            continue;
        }
        if text.starts_with(['-', '(', '!', ',']) {
            break;
        }
        act.draft.raise(if word.may_be_option() {
            Risk::Normal
        } else {
            Risk::Safe
        });
        folders.push(word.clone());
        at += 1;
    }
    let selective = selective(args);
    let all = takes_all(&args[at..]);
    while let Some(word) = args.get(at) {
        let text = word.text.as_str();
        at += 1;
        if WITH_VALUE.contains(&text) || text.starts_with("-newer") {
            at += 1;
        } else if PLAIN.contains(&text) {
        } else {
            at = action(act, args, at, text, &folders, selective);
        }
    }
    let mut flow = Flow::of(Sources::PROGRAM);
    let grave = |folder: &&Given| {
        let place = act.target(folder).place;
        folder.exact && matches!(place, Place::Root | Place::HomeItself | Place::SystemItself)
    };
    if all && let Some(folder) = folders.iter().find(grave) {
        // All of it: what is done to each file is done to the folder.
        flow.partly = Some(folder.text.clone());
    }
    flow
}

/// An action; gives back where the expression goes on.
fn action(
    act: &mut Act<'_, '_>,
    args: &[Given],
    at: usize,
    text: &str,
    folders: &[Given],
    selective: bool,
) -> usize {
    let span = args[at - 1].span;
    match text {
        "-delete" => {
            delete(act, folders, selective, span);
            at
        }
        "-exec" | "-execdir" | "-ok" | "-okdir" => {
            let rest = &args[at..];
            let end = rest
                .iter()
                .enumerate()
                .position(|(index, word)| {
                    word.text == ";"
                        || (word.text == "+" && index > 0 && rest[index - 1].text == "{}")
                })
                .unwrap_or(rest.len());
            execute(act, &rest[..end], folders, selective);
            at + end + 1
        }
        "-fprint" | "-fprint0" | "-fls" => {
            if let Some(file) = args.get(at).cloned() {
                act.touch(Touch::Write, &file);
            }
            at + 1
        }
        "-fprintf" => {
            if let Some(file) = args.get(at).cloned() {
                act.touch(Touch::Write, &file);
            }
            at + 2
        }
        _ => {
            // Not a test we know: never safe.
            match act.spec.unknown {
                Unknown::Harmless => {}
                _ => act.draft.raise(Risk::Normal),
            }
            at
        }
    }
}

fn delete(act: &mut Act<'_, '_>, folders: &[Given], selective: bool, span: crate::effect::Span) {
    for folder in folders_or_here(folders, span) {
        let target = act.target(&folder);
        let grave = matches!(
            target.place,
            Place::Root | Place::HomeItself | Place::SystemItself | Place::System
        );
        if !selective {
            act.touch(Touch::DeleteTree, &folder);
        } else if grave {
            act.draft.effect(
                Action::Deletes {
                    target,
                    recursive: true,
                },
                Risk::Dangerous,
                "Deletes files all over the system",
                span,
            );
        } else {
            act.draft.effect(
                Action::Deletes {
                    target,
                    recursive: false,
                },
                Risk::Normal,
                "Deletes what a search finds",
                span,
            );
        }
    }
}

fn execute(act: &mut Act<'_, '_>, command: &[Given], folders: &[Given], selective: bool) {
    if command.is_empty() {
        return;
    }
    let wanted = wanted(act);
    let start = match folders.first() {
        // Whatever is found all over the system is mostly the system's.
        Some(folder) if folder.exact && folder.text == "/" => "/usr".to_owned(),
        Some(folder) if folder.exact => folder.text.trim_end_matches('/').to_owned(),
        Some(_) => "$found".to_owned(),
        None => ".".to_owned(),
    };
    let args: Vec<Given> = command
        .iter()
        .map(|word| {
            if !word.text.contains("{}") {
                return word.clone();
            }
            // Some file below where the search starts: its name is not known, but for a part.
            let found = format!("{start}/{}", wanted.as_deref().unwrap_or("found"));
            Given {
                text: word.text.replace("{}", &found),
                exact: word.exact && (word.text != "{}" || wanted.is_some()),
                ..word.clone()
            }
        })
        .collect();
    let name = command[0].text.rsplit('/').next().unwrap_or_default();
    if !selective && DELETING.contains(&name) {
        let says = "Deletes everything a search finds";
        let whole = folders.first().is_some_and(|folder| {
            let place = act.target(folder).place;
            matches!(place, Place::Root | Place::HomeItself | Place::SystemItself)
        });
        let risk = if whole {
            Risk::Critical
        } else {
            Risk::Dangerous
        };
        act.draft
            .effect(Action::Discards, risk, says, command[0].span);
    }
    act.inner_args(args);
}

/// The one name that a search looks for, when it is a name of keys or passwords.
fn wanted(act: &Act<'_, '_>) -> Option<String> {
    let named = |pair: &[Given]| {
        matches!(pair[0].text.as_str(), "-name" | "-iname") && !pair[1].text.contains('/')
    };
    let name = act.args.windows(2).find(|pair| named(pair))?[1]
        .text
        .clone();
    let secret = ["/root/", "/root/.ssh/", "/root/.aws/"]
        .iter()
        .any(|folder| {
            let given = Given::known(format!("{folder}{name}"), act.call.span);
            act.target(&given).place == Place::Secret
        });
    let folder = matches!(
        name.as_str(),
        ".ssh" | ".gnupg" | ".aws" | ".password-store"
    );
    (secret || folder).then_some(name)
}

fn folders_or_here(folders: &[Given], span: crate::effect::Span) -> Vec<Given> {
    if folders.is_empty() {
        return vec![Given::known(".", span)];
    }
    folders.to_vec()
}

/// Whether an expression prints whatever there is.
fn takes_all(expression: &[Given]) -> bool {
    let mut words = expression.iter().map(|word| word.text.as_str());
    while let Some(word) = words.next() {
        match word {
            "-print" | "-print0" | "-depth" | "-xdev" | "-mount" => {}
            "-type" | "-mindepth" | "-maxdepth" => {
                words.next();
            }
            _ => return false,
        }
    }
    true
}

/// Whether the expression picks files rather than taking all of them.
fn selective(args: &[Given]) -> bool {
    args.windows(2).any(|pair| {
        let all = matches!(pair[1].text.as_str(), "*" | "**" | "*.*");
        SELECTIVE.contains(&pair[0].text.as_str()) && !all
    }) || args.last().is_some_and(|word| word.text == "-empty")
}
