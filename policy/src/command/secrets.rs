//! Commands that print keys, passwords or whole stores of data: harmless to look at, grave
//! when what they print leaves the machine.

use super::act::Act;
use crate::classify::flow::{Flow, Sources};
use crate::effect::Action;
use crate::risk::Risk;

/// A program and the words behind it, in order, anything between them; `!` means none at all.
const PRINT: &[(&str, &[&str])] = &[
    // The shell's own memory.
    ("history", &["!"]),
    ("export", &["-p"]),
    ("export", &["!"]),
    ("set", &["!"]),
    ("declare", &["-x"]),
    ("declare", &["-p"]),
    ("declare", &["!"]),
    ("typeset", &["!"]),
    ("jq", &["env"]),
    ("jq", &["$ENV"]),
    // Stores of secrets.
    ("pass", &["show"]),
    ("gopass", &["show"]),
    ("op", &["read"]),
    ("op", &["item", "get"]),
    ("bw", &["get"]),
    ("secret-tool", &["lookup"]),
    ("security", &["find-generic-password"]),
    ("security", &["find-internet-password"]),
    ("vault", &["read"]),
    ("vault", &["kv", "get"]),
    ("doppler", &["secrets"]),
    ("sops", &["-d"]),
    ("sops", &["--decrypt"]),
    ("ansible-vault", &["view"]),
    ("chamber", &["export"]),
    ("git", &["credential", "fill"]),
    ("gpg", &["--export-secret-keys"]),
    // Tokens and secrets of clouds and clusters.
    ("aws", &["configure", "export-credentials"]),
    ("aws", &["sts", "get-session-token"]),
    ("aws", &["sts", "assume-role"]),
    ("aws", &["secretsmanager", "get-secret-value"]),
    ("aws", &["ssm", "get-parameter"]),
    ("aws", &["ssm", "get-parameters-by-path"]),
    ("aws", &["ecr", "get-login-password"]),
    ("gcloud", &["auth", "print-access-token"]),
    ("gcloud", &["auth", "print-identity-token"]),
    ("gcloud", &["secrets", "versions", "access"]),
    ("az", &["account", "get-access-token"]),
    ("az", &["keyvault", "secret", "show"]),
    ("gh", &["auth", "token"]),
    ("glab", &["auth", "token"]),
    ("heroku", &["config"]),
    ("heroku", &["auth:token"]),
    ("kubectl", &["get", "secret"]),
    ("kubectl", &["get", "secrets"]),
    ("kubectl", &["config", "view"]),
    ("docker", &["inspect"]),
    ("npm", &["token", "list"]),
    // Whole databases.
    ("mysqldump", &[]),
    ("mariadb-dump", &[]),
    ("pg_dump", &[]),
    ("pg_dumpall", &[]),
    ("mongodump", &[]),
    ("mongoexport", &[]),
];

/// What a command prints, marked when it is one of those.
pub(crate) fn marked(act: &Act<'_, '_>, flow: Flow) -> Flow {
    let name = act.draft.program.name.as_str();
    let prints = PRINT
        .iter()
        .any(|(program, words)| *program == name && follow(act, words))
        || finds_keeper(act);
    match prints {
        true => Flow {
            from: flow.from.with(Sources::SECRET),
            ..flow
        },
        false => flow,
    }
}

/// Programs that keep keys and passwords in their memory.
const KEEPERS: &[&str] = &[
    "agent",
    "keyring",
    "keychain",
    "kwallet",
    "1password",
    "bitwarden",
    "keepass",
    "vault",
    "sshd",
    "sudo",
    "login",
    "passwd",
    "gdm",
    "lightdm",
    "firefox",
    "chrome",
];

/// The memory of a program that keeps keys, by its number: `gcore $(pgrep ssh-agent)`.
pub(crate) fn memory(act: &mut Act<'_, '_>) {
    let name = act.draft.program.name.as_str();
    if matches!(
        name,
        "gcore" | "procdump" | "gdb" | "lldb" | "strace" | "memdump" | "mimipenguin"
    ) {
        let number = act.args.iter().find(|word| word.from.has(Sources::SECRET));
        let span = match number {
            Some(word) => word.span,
            None => return,
        };
        let says = "Reads keys or passwords";
        act.draft
            .effect(Action::Privilege, Risk::Dangerous, says, span);
    }
}

/// The number of such a program leads to what it keeps.
fn finds_keeper(act: &Act<'_, '_>) -> bool {
    matches!(act.draft.program.name.as_str(), "pgrep" | "pidof")
        && act
            .args
            .iter()
            .any(|word| KEEPERS.iter().any(|keeper| word.text.contains(keeper)))
}

/// `kubectl get secrets -A -o yaml`: all of them, with what they hold.
pub(crate) fn dumps(act: &mut Act<'_, '_>) {
    let name = act.draft.program.name.as_str();
    if !matches!(name, "kubectl" | "oc" | "k" | "microk8s.kubectl") || !follow(act, &["get"]) {
        return;
    }
    let words = || act.call.args.iter().map(|word| word.text.as_str());
    let secrets = words().any(|word| {
        word.split(',')
            .any(|kind| matches!(kind, "secret" | "secrets"))
    });
    let whole =
        words().any(|word| matches!(word, "-A" | "--all-namespaces" | "--all-namespaces=true"));
    let shown = ["json", "yaml", "jsonpath", "go-template", "custom-columns"];
    let contents = words().any(|word| {
        let word = word
            .trim_start_matches("--output")
            .trim_start_matches("-o")
            .trim_start_matches('=');
        shown.iter().any(|form| word.starts_with(form))
    });
    let kind = words().position(|word| matches!(word, "secret" | "secrets"));
    let next = kind.and_then(|at| words().nth(at + 1));
    let named = next.is_some_and(|word| !word.starts_with('-'))
        || words().any(|word| word.contains("secret/"));
    if secrets && contents && (whole || !named) {
        let (says, span) = ("Reads all secrets of a cluster", act.call.span);
        act.draft.effect(Action::Notes, Risk::Dangerous, says, span);
    }
}

/// Whether these words stand among the arguments, in this order.
fn follow(act: &Act<'_, '_>, words: &[&str]) -> bool {
    let args = &act.call.args[1..];
    if words == ["!"] {
        return args.is_empty();
    }
    let mut args = args.iter();
    words
        .iter()
        .all(|word| args.any(|arg| arg.exact && arg.text == *word))
}
