//! `sjail manual FOLDER`: writes man pages, completions and the command-line reference.
//!
//! All of them come from what the sub-commands read their words with, so none can say
//! anything that is not so. Built only with the feature `manual`.

mod markdown;
mod page;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory, Id, ValueHint};
use clap_complete::Shell;
use sjail_policy::config::Key;
use sjail_policy::language::Language;
use sjail_policy::profile::Profile;

use crate::cli::RunArgs;
use crate::cmd;
use crate::exit::Exit;

/// The text of sjail-policy(5); a test holds it against the keys.
const POLICY: &str = include_str!("../../../packaging/docs/policy.md");

/// Writes everything below the folder, and gives the exit status.
pub fn run(words: &[OsString]) -> u8 {
    let [folder] = words else {
        eprintln!("sjail: usage: sjail manual FOLDER");
        return Exit::Failed.code();
    };
    match write(Path::new(folder)) {
        Ok(()) => Exit::Success.code(),
        Err(error) => {
            eprintln!("sjail: the manual could not be written: {error}");
            Exit::Failed.code()
        }
    }
}

/// Every command that `sjail` has, as one tree; those of the broker under its own name too.
fn tree() -> Command {
    let mut tree = Command::new("sjail")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs a command so that it can do only what its owner said it may")
        .disable_help_subcommand(true);
    for (name, command) in [
        ("run", RunArgs::command()),
        ("check", cmd::check::CheckArgs::command()),
        ("explain", cmd::explain::ExplainArgs::command()),
        ("policy", cmd::policy::PolicyArgs::command()),
        ("doctor", cmd::doctor::DoctorArgs::command()),
        ("trust", cmd::trust::TrustArgs::command()),
        ("quarantine", cmd::quarantine::QuarantineArgs::command()),
        ("sandbox", cmd::sandbox::SandboxArgs::command()),
        ("code", crate::code::CodeArgs::command()),
        ("hook", crate::hook::HookArgs::command()),
        ("init", crate::setup::InitArgs::command()),
    ] {
        tree = tree.subcommand(command.name(name));
    }
    for (name, command) in cmd::preview::commands() {
        tree = tree.subcommand(command.name(name));
    }
    for command in sjail_broker::cli::command().get_subcommands() {
        // These two are for init systems and tests: sjail does not hand them on.
        if !["serve", "stop"].contains(&command.get_name()) {
            let spoken = format!("sjail {}", command.get_name());
            tree = tree.subcommand(command.clone().bin_name(spoken));
        }
    }
    tree
}

fn write(folder: &Path) -> io::Result<()> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    for sub in [&man, &completions] {
        fs::create_dir_all(sub)?;
    }
    let tree = tree();
    let names: Vec<String> = tree
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();

    page::overview(&tree, &mut File::create(man.join("sjail.1"))?)?;
    for command in tree.get_subcommands() {
        let path = man.join(format!("sjail-{}.1", command.get_name()));
        page::of_command(command, &names, &mut File::create(path)?)?;
    }
    page::broker(
        &sjail_broker::cli::command(),
        &mut File::create(man.join("sjail-broker.8"))?,
    )?;
    markdown::page(
        "sjail-policy",
        "5",
        "what a jail may do, file by file",
        &policy_text(),
        &mut File::create(man.join("sjail-policy.5"))?,
    )?;

    for (shell, file) in [
        (Shell::Bash, "sjail.bash"),
        (Shell::Zsh, "_sjail"),
        (Shell::Fish, "sjail.fish"),
    ] {
        let mut out = File::create(completions.join(file))?;
        clap_complete::generate(shell, &mut hinted(tree.clone()), "sjail", &mut out);
    }
    reference(&tree, &mut File::create(folder.join("cli.md"))?)
}

/// The same with what can stand after an option, for shells: words of ours, paths, programs.
fn hinted(tree: Command) -> Command {
    let profiles = || Profile::all().iter().map(|profile| profile.name);
    let words =
        |arg: Arg, words: Vec<&'static str>| arg.value_parser(PossibleValuesParser::new(words));
    let hint = |arg: Arg| match arg.get_id().as_str() {
        "net" => words(arg, vec!["none", "filtered", "host"]),
        "profile" => words(arg, profiles().collect()),
        "language" => words(arg, Language::names().collect()),
        "workspace" => arg.value_hint(ValueHint::DirPath),
        "ro" | "rw" | "hide" | "path" => arg.value_hint(ValueHint::AnyPath),
        "command" => arg.value_hint(ValueHint::CommandWithArguments),
        _ => arg,
    };
    let names: Vec<String> = tree
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();
    names.into_iter().fold(tree, |tree, name| {
        tree.mut_subcommand(name, |command| {
            let named: Vec<Id> = command
                .get_arguments()
                .map(|argument| argument.get_id().clone())
                .collect();
            named
                .into_iter()
                .fold(command, |command, id| command.mut_arg(id, hint))
        })
    })
}

/// The text of the policy page, with what it does not yet speak of at its end.
fn policy_text() -> String {
    let mut text = String::from(POLICY);
    for key in Key::all().filter(|key| !POLICY.contains(&format!("| `{}`", key.name()))) {
        text.push_str(&format!("- `{}`: {}\n", key.name(), key.summary()));
    }
    text
}

/// What `--help` says of each command, on one page.
fn reference(tree: &Command, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "# Command-line reference\n\n```text\n{}```",
        cmd::help::TEXT
    )?;
    for command in tree.get_subcommands() {
        described(command, &format!("sjail {}", command.get_name()), 2, out)?;
    }
    Ok(())
}

fn described(command: &Command, name: &str, depth: usize, out: &mut impl Write) -> io::Result<()> {
    let marks = "#".repeat(depth);
    let mut shown = command.clone().bin_name(name).disable_help_flag(true);
    writeln!(
        out,
        "\n{marks} {name}\n\n```text\n{}\n```",
        shown.render_long_help().to_string().trim_end()
    )?;
    for sub in command.get_subcommands() {
        if sub.get_name() != "help" && !sub.is_hide_set() {
            described(sub, &format!("{name} {}", sub.get_name()), depth + 1, out)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    /// The tree has no command that the table of contents does not name.
    #[test]
    fn help_names_every_command_of_the_tree() {
        let told: BTreeSet<&str> = cmd::help::TEXT
            .lines()
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .filter_map(|line| line.trim().split_once("  "))
            .map(|(name, _)| name)
            .filter(|name| !name.contains(' '))
            .collect();
        let tree = tree();
        let known: BTreeSet<&str> = tree.get_subcommands().map(Command::get_name).collect();
        assert_eq!(told, known);
        assert!(told.contains("run") && told.contains("queue"));
    }

    /// The policy page speaks of every key, and of no other.
    #[test]
    fn the_policy_page_names_every_key_and_no_other() {
        let said: BTreeSet<&str> = POLICY
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
            .map(|(name, _)| name)
            .filter(|name| name.contains('.'))
            .collect();
        let known: BTreeSet<&str> = Key::all().map(Key::name).collect();
        assert_eq!(said, known);
    }

    #[test]
    fn everything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let run = fs::read_to_string(folder.path().join("man/sjail-run.1")).unwrap();
        assert!(run.contains("\\-\\-memory"), "{run}");
        let queue = fs::read_to_string(folder.path().join("man/sjail-queue.1")).unwrap();
        assert!(queue.contains("approve"), "{queue}");
        for shell in ["sjail.bash", "_sjail", "sjail.fish"] {
            let text = fs::read_to_string(folder.path().join("completions").join(shell)).unwrap();
            for word in [
                "require-approval",
                "approve",
                "filtered",
                "offline-build",
                "javascript",
                "half done",
            ] {
                // bash has no descriptions.
                let told = text.contains(word) || shell == "sjail.bash" && word == "half done";
                assert!(told, "{shell}: {word}");
            }
        }
    }
}
