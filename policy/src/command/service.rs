//! Services, schedules and signals.

use super::act::Act;
use super::knowledge::{Language, Modifiers};
use super::run;
use super::{describe, describe_base, describe_flags};
use crate::classify::flow::{Flow, Sources};
use crate::classify::given::Given;
use crate::classify::harm::Touch;
use crate::effect::Action;
use crate::risk::Risk;

/// `service NAME ACTION`.
pub(crate) fn service(act: &mut Act<'_, '_>) -> Flow {
    let words: Vec<Given> = act.positionals().cloned().collect();
    let action = words.get(1).map(|word| word.text.as_str());
    let asks = act.reading.has("--status-all") || matches!(action, None | Some("status"));
    if asks {
        return Flow::of(Sources::PROGRAM);
    }
    act.draft.effect(
        Action::SystemChange,
        Risk::Dangerous,
        "Changes a running service",
        act.call.span,
    );
    Flow::of(Sources::PROGRAM)
}

/// `crontab`: what it schedules runs later.
pub(crate) fn crontab(act: &mut Act<'_, '_>) -> Flow {
    describe_flags(act);
    if act.reading.has("-l") {
        return Flow::of(Sources::FILE);
    }
    if act.reading.has("-r") {
        act.draft.effect(
            Action::Discards,
            Risk::Dangerous,
            "Removes scheduled jobs",
            act.call.span,
        );
        return Flow::literal("");
    }
    let file = act.positionals().next().cloned();
    let table = match file.filter(|file| !run::is_input(&file.text)) {
        Some(file) => {
            act.touch(Touch::Read, &file);
            act.judge.content(&file, &act.cwd)
        }
        None => act.stdin(),
    };
    schedules(act, &table);
    act.judge.scheduled(&table, act.call);
    Flow::literal("")
}

/// Commands that run later, and where they come from.
fn schedules(act: &mut Act<'_, '_>, commands: &Flow) {
    let span = act.call.span;
    let says = "Schedules commands";
    act.draft
        .effect(Action::Persistence, Risk::Dangerous, says, span);
    if commands.from.has(Sources::FOREIGN) && commands.text.is_none() {
        let says = "Schedules what the network sends";
        act.draft
            .effect(Action::Persistence, Risk::Critical, says, span);
    }
}

/// `at`, `batch`: a shell reads their input, later.
pub(crate) fn at(act: &mut Act<'_, '_>) -> Flow {
    describe_base(act);
    describe_flags(act);
    if !act.reading.modifiers.has(Modifiers::READS)
        && !act.reading.has("-f")
        && !act.reading.has("-r")
    {
        run::input(act, Language::Shell);
    }
    Flow::literal("")
}

/// `inetd FILE`: servers that start programs for whoever connects, and tie them together.
pub(crate) fn inetd(act: &mut Act<'_, '_>) -> Flow {
    let flow = describe(act);
    for file in act
        .args
        .iter()
        .filter(|word| word.text.contains('/'))
        .take(4)
    {
        let table = act.judge.content(file, &act.cwd);
        act.judge.served(&table, act.call);
    }
    flow
}

/// `kill`, `pkill`, `killall`.
pub(crate) fn kill(act: &mut Act<'_, '_>) -> Flow {
    let words = act.args;
    let probe = words.iter().any(|word| {
        matches!(
            word.text.as_str(),
            "-0" | "-l" | "-L" | "--list" | "--table"
        )
    }) || words
        .windows(2)
        .any(|pair| pair[0].text == "-s" && pair[1].text == "0");
    if probe {
        return Flow::of(Sources::PROGRAM);
    }
    if act.draft.program.name != "kill" {
        let flow = describe(act);
        let by_name = matches!(
            act.draft.program.name.as_str(),
            "pkill" | "killall" | "skill" | "snice"
        );
        if by_name && names_everything(words) {
            let says = "Ends every process";
            act.draft
                .effect(Action::Kills, Risk::Dangerous, says, act.call.span);
        }
        if let Some(name) = by_name
            .then(|| words.iter().find(|word| watches(word)))
            .flatten()
        {
            let says = "Ends what watches the machine or lets others in";
            act.draft
                .effect(Action::Kills, Risk::Dangerous, says, name.span);
        }
        return flow;
    }
    describe_base(act);
    let mut targets = words.iter().filter(|word| !is_signal(&word.text));
    let first_signal = words.first().is_some_and(|word| is_signal(&word.text));
    let everything = targets.any(|word| matches!(word.text.as_str(), "1" | "-1" | "0"))
        || (first_signal && words.iter().skip(1).any(|word| word.text == "-1"));
    if everything {
        act.draft.effect(
            Action::Kills,
            Risk::Dangerous,
            "Ends every process",
            act.call.span,
        );
    } else {
        act.draft
            .effect(Action::Kills, Risk::Normal, "", act.call.span);
    }
    Flow::literal("")
}

/// Programs that keep logs, guard the machine, or let its people in.
const WATCHERS: &[&str] = &[
    "sshd",
    "auditd",
    "rsyslogd",
    "syslogd",
    "syslog-ng",
    "systemd",
    "systemd-journald",
    "systemd-logind",
    "journald",
    "dockerd",
    "containerd",
    "kubelet",
    "firewalld",
    "fail2ban-server",
    "falco",
    "falcon-sensor",
    "osqueryd",
    "clamd",
    "freshclam",
    "wazuh-agentd",
    "ossec",
    "crond",
    "cron",
    "NetworkManager",
    "init",
];

fn watches(word: &Given) -> bool {
    let name = word.text.trim_start_matches('^').trim_end_matches('$');
    WATCHERS.contains(&name)
}

/// `pkill .`, `pkill -u me`: no name, or one that every process has.
fn names_everything(words: &[Given]) -> bool {
    let mut names = Vec::new();
    let (mut whose, mut others) = (false, false);
    let mut rest = words.iter().map(|word| word.text.as_str());
    while let Some(word) = rest.next() {
        match word {
            "-u" | "-U" | "--euid" | "--uid" | "--user" => {
                whose = true;
                rest.next();
            }
            "-g" | "-G" | "-P" | "-s" | "-t" | "-F" | "--parent" | "--pgroup" | "--group"
            | "--session" | "--terminal" | "--pidfile" | "--signal" | "--ns" | "-o" | "-y" => {
                others = true;
                rest.next();
            }
            "-v" | "--inverse" => return true,
            _ if word.starts_with("--user=") || word.starts_with("--uid=") => whose = true,
            _ if word.len() > 1 && word.starts_with('-') => {}
            _ => names.push(word),
        }
    }
    let any = |name: &&str| !name.contains(|c: char| c.is_alphanumeric() || c == '$' || c == '_');
    names.iter().any(any) || (names.is_empty() && whose && !others)
}

fn is_signal(text: &str) -> bool {
    text.starts_with('-') && text.len() > 1
}
