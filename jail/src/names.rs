//! The names `sandbox-check`, `sandbox-exec`, `sandbox-queue`, `sandbox-audit` and
//! `sandbox-allowlist`: links to `sjail` whose words are those of the command lines that
//! agents already know. Each is read here and said again in sjail's own words; none of
//! them can loosen the jail.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use sjail_policy::show::inert;

use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::{cmd, report};

/// A name that sjail answers to beside its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// `sandbox-check LINE`
    Check,
    /// `sandbox-exec [--require-approval] [--dry-run] LINE`
    Exec,
    /// `sandbox-queue list|approve|reject|clear`
    Queue,
    /// `sandbox-audit log|export|stats`
    Audit,
    /// `sandbox-allowlist add|remove|list|test`
    Allowlist,
}

impl Name {
    /// The name that the program was called by, if it is one of these.
    pub fn of(called: &OsStr) -> Option<Name> {
        match Path::new(called).file_name()?.to_str()? {
            "sandbox-check" => Some(Name::Check),
            "sandbox-exec" => Some(Name::Exec),
            "sandbox-queue" => Some(Name::Queue),
            "sandbox-audit" => Some(Name::Audit),
            "sandbox-allowlist" => Some(Name::Allowlist),
            _ => None,
        }
    }

    /// Does what was typed, and gives the exit status.
    pub fn run(self, words: &[OsString]) -> u8 {
        let verb = match self {
            Name::Check => return check(words),
            Name::Exec => return exec(words),
            Name::Queue => "queue",
            Name::Audit => "audit",
            Name::Allowlist => "allowlist",
        };
        cmd::run(OsStr::new(verb), &in_our_form(words))
    }
}

/// Listings take the `--format json` that `export` has, too.
fn in_our_form(words: &[OsString]) -> Vec<OsString> {
    const LISTINGS: [&str; 4] = ["list", "log", "show", "stats"];
    let lists = words
        .first()
        .is_some_and(|verb| LISTINGS.iter().any(|known| verb == known));
    let mut own = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let joined = word == "--format=json";
        let apart = word == "--format" && words.as_slice().first().is_some_and(|w| w == "json");
        if !lists || !joined && !apart {
            own.push(word.clone());
            continue;
        }
        if apart {
            words.next();
        }
        own.push("--json".into());
    }
    own
}

/// Says how risky a command is and what would happen to it, as one JSON object.
///
/// Exit status 0: it would run; 75: somebody would be asked; 77: it would be blocked.
#[derive(Debug, Parser)]
#[command(name = "sandbox-check", bin_name = "sandbox-check")]
struct CheckArgs {
    /// As without: the answer is JSON anyway
    #[arg(long)]
    json: bool,
    /// A shell line as one word, or a program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn check(words: &[OsString]) -> u8 {
    let args: CheckArgs = match read(words) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let mut own = vec![OsString::from("--json"), OsString::from("--by-policy")];
    if args.command.len() > 1 {
        own.push("--".into());
    }
    own.extend(args.command);
    cmd::run(OsStr::new("check"), &own)
}

/// Runs a command in the jail if the policy lets it, and asks first if it must.
#[derive(Debug, Parser)]
#[command(name = "sandbox-exec", bin_name = "sandbox-exec")]
struct ExecArgs {
    /// Ask a person in any case
    #[arg(long)]
    require_approval: bool,
    /// Show what would happen: run it on a copy and keep nothing
    #[arg(long)]
    dry_run: bool,
    /// Wall-clock time: milliseconds, or a time such as 60s
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Give the command a variable
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<OsString>,
    /// Wait so long for an answer
    #[arg(long, value_name = "TIME")]
    wait: Option<OsString>,
    /// Do not wait for an answer: exit 75 with the request's id
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
    /// Run what was approved under this id
    #[arg(long, value_name = "ID")]
    approval: Option<OsString>,
    /// Keep the output and print one result object instead
    #[arg(long)]
    json: bool,
    /// A shell line as one word, or a program and its arguments
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        required_unless_present = "approval"
    )]
    command: Vec<OsString>,
}

fn exec(words: &[OsString]) -> u8 {
    let args = match ExecArgs::try_parse_from(called(words)) {
        Ok(args) => args,
        Err(error) => {
            if let Some(option) = option_of_the_jail(&error) {
                let option = inert(option.as_bytes());
                report::say(&format!(
                    "unexpected argument '{option}': what a jail is like is for the policy to say, not for `sandbox-exec`; `sjail explain` shows what holds and where it is said, and `sjail run` takes {option}"
                ));
                return Exit::Failed.code();
            }
            return said(&error);
        }
    };
    match RunArgs::read(&run_words(args)) {
        Ok(mut args) => {
            // The log that goes with this name has each command's output.
            args.record_output = true;
            crate::run::run(&args)
        }
        Err(error) => said(&error),
    }
}

/// The same in the words of `sjail run`.
fn run_words(args: ExecArgs) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    for (flag, given) in [
        ("--require-approval", args.require_approval),
        ("--dry-run", args.dry_run),
        ("--no-wait", args.no_wait),
        ("--json", args.json),
    ] {
        if given {
            words.push(flag.into());
        }
    }
    if let Some(time) = args.timeout {
        words.extend(["--timeout".into(), milliseconds(time).into()]);
    }
    for variable in args.env {
        words.extend(["--env".into(), variable]);
    }
    for (flag, value) in [("--wait", args.wait), ("--approval", args.approval)] {
        if let Some(value) = value {
            words.extend([flag.into(), value]);
        }
    }
    let mut command = args.command;
    if command.len() == 1 {
        // One word is a line for the shell, as it would be typed.
        words.push("-c".into());
    } else if !command.is_empty() {
        words.push("--".into());
    }
    words.append(&mut command);
    words
}

/// A bare number means milliseconds, as elsewhere with these names.
fn milliseconds(time: String) -> String {
    match time.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("{time}ms"),
        false => time,
    }
}

fn read<T: Parser>(words: &[OsString]) -> Result<T, u8> {
    T::try_parse_from(called(words)).map_err(|error| said(&error))
}

fn called(words: &[OsString]) -> impl Iterator<Item = OsString> {
    std::iter::once(OsString::from("sandbox")).chain(words.iter().cloned())
}

/// The option that is not known here, where `sjail run` has it.
fn option_of_the_jail(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let name = given.strip_prefix("--")?;
    let run = RunArgs::command();
    let known = run
        .get_arguments()
        .any(|flag| flag.get_long() == Some(name));
    (known && error.kind() == ErrorKind::UnknownArgument).then(|| given.clone())
}

fn said(error: &clap::Error) -> u8 {
    cmd::misused(error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn said_again(words: &[&str]) -> Vec<OsString> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        run_words(read(&words).unwrap())
    }

    #[test]
    fn the_flags_are_consistent() {
        CheckArgs::command().debug_assert();
        ExecArgs::command().debug_assert();
    }

    #[test]
    fn a_link_is_known_by_its_last_part() {
        assert_eq!(
            Name::of(OsStr::new("/usr/bin/sandbox-exec")),
            Some(Name::Exec)
        );
        assert_eq!(Name::of(OsStr::new("sandbox-audit")), Some(Name::Audit));
        assert_eq!(Name::of(OsStr::new("/usr/bin/sjail")), None);
    }

    #[test]
    fn one_word_is_a_line_and_more_are_a_program() {
        assert_eq!(
            said_again(&["--require-approval", "cat ~/.ssh/id_rsa.pub"]),
            ["--require-approval", "-c", "cat ~/.ssh/id_rsa.pub"]
        );
        assert_eq!(
            said_again(&["--timeout", "60000", "ls", "--dry-run"]),
            ["--timeout", "60000ms", "--", "ls", "--dry-run"]
        );
    }

    #[test]
    fn isolation_is_not_for_these_names_to_change() {
        for flag in [
            "--net",
            "--rw",
            "--no-broker",
            "--allow-degraded",
            "--profile",
        ] {
            let words = [flag, "host", "ls"].map(OsString::from);
            assert!(
                ExecArgs::try_parse_from(std::iter::once(OsString::from("sandbox")).chain(words))
                    .is_err()
            );
        }
    }
}
