//! Commands that print keys, passwords or whole stores of data: harmless to look at, grave
//! when what they print leaves the machine.

use super::act::Act;
use crate::classify::flow::{Flow, Sources};

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
        .any(|(program, words)| *program == name && follow(act, words));
    match prints {
        true => Flow {
            from: flow.from.with(Sources::SECRET),
            ..flow
        },
        false => flow,
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
