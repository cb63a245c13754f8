//! What can be typed.
//!
//! Values stay as typed here: the policy reads them, because it also has to compare them
//! with what its files say. `run` is on everybody's fast path: only its own flags are built
//! when it is called, and none at all for the few that are typed all the time.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use sjail_policy::duration::Duration;
use sjail_policy::wire::request::ProgramText;

use crate::processor::Processors;

/// Runs a command in a jail.
#[derive(Debug, Clone, Default, Parser)]
#[command(
    name = "sjail run",
    bin_name = "sjail run",
    version,
    override_usage = "sjail run [OPTIONS] -- PROGRAM [ARG]...\n       sjail run [OPTIONS] -c 'SHELL LINE'"
)]
pub struct RunArgs {
    /// What everything starts from: workspace, strict, agent, code, host-net, offline-build
    #[arg(
        long,
        value_name = "NAME",
        allow_hyphen_values = true,
        help_heading = "Isolation"
    )]
    pub profile: Option<OsString>,
    /// The project folder; default: the repository's top folder, else the working folder
    #[arg(
        long,
        value_name = "DIR",
        allow_hyphen_values = true,
        help_heading = "Isolation"
    )]
    pub workspace: Option<PathBuf>,
    /// Show a path of the host, read-only
    #[arg(
        long,
        value_name = "PATH",
        allow_hyphen_values = true,
        help_heading = "Isolation"
    )]
    pub ro: Vec<OsString>,
    /// Show a path of the host, writable
    #[arg(
        long,
        value_name = "PATH",
        allow_hyphen_values = true,
        help_heading = "Isolation"
    )]
    pub rw: Vec<OsString>,
    /// Show a path of the host somewhere else
    #[arg(
        long,
        value_name = "SRC:DST[:ro|rw]",
        allow_hyphen_values = true,
        help_heading = "Isolation"
    )]
    pub bind: Vec<OsString>,
    /// Hide a path, or what a pattern matches, even inside the workspace
    #[arg(
        long,
        value_name = "PATH",
        allow_hyphen_values = true,
        help_heading = "Isolation"
    )]
    pub hide: Vec<OsString>,
    /// Which network the command has
    #[arg(
        long,
        value_name = "none|filtered|host",
        allow_hyphen_values = true,
        help_heading = "Isolation"
    )]
    pub net: Option<OsString>,
    /// Let the command reach this host (implies --net filtered): a name, *.NAME, an
    /// address or a range, ports 80 and 443 unless one is named; or a group, such as @npm
    #[arg(
        long,
        value_name = "NAME[:PORT]",
        allow_hyphen_values = true,
        help_heading = "Isolation"
    )]
    pub allow_host: Vec<OsString>,
    /// Serve a port of the command on this machine, at 127.0.0.1 unless an address is named
    #[arg(
        long,
        value_name = "[ADDRESS:]PORT:PORT-INSIDE",
        allow_hyphen_values = true,
        help_heading = "Isolation"
    )]
    pub publish: Vec<OsString>,
    /// Offer an HTTP and SOCKS5 proxy on the filtered network, for programs that insist on
    /// one, and set the variables that name it
    #[arg(long, help_heading = "Isolation")]
    pub proxy: bool,
    /// Let a key of your ssh agent sign in to allowed hosts: its fingerprint, its comment, or *
    #[arg(
        long,
        value_name = "KEY",
        allow_hyphen_values = true,
        help_heading = "Isolation"
    )]
    pub ssh_agent: Vec<OsString>,
    /// Give the command a variable, with the caller's value or this one
    #[arg(
        long,
        value_name = "NAME[=VALUE]",
        allow_hyphen_values = true,
        help_heading = "Isolation"
    )]
    pub env: Vec<OsString>,
    /// As root: run the command as this user
    #[arg(
        long,
        value_name = "NAME",
        allow_hyphen_values = true,
        help_heading = "Isolation"
    )]
    pub user: Option<String>,
    /// Decide here and now, without the broker; nothing is recorded
    #[arg(long, help_heading = "Isolation")]
    pub no_broker: bool,
    /// Go on when a layer of the jail cannot be had, even user namespaces, and say what is
    /// not enforced
    #[arg(long, help_heading = "Isolation")]
    pub allow_degraded: bool,

    /// Memory of the whole jail
    #[arg(
        long,
        value_name = "512M",
        allow_hyphen_values = true,
        help_heading = "Limits"
    )]
    pub memory: Option<OsString>,
    /// Processor time; 100% is one processor
    #[arg(
        long,
        value_name = "150%",
        allow_hyphen_values = true,
        help_heading = "Limits"
    )]
    pub cpu: Option<OsString>,
    /// Processes and threads at once
    #[arg(
        long,
        value_name = "256",
        allow_hyphen_values = true,
        help_heading = "Limits"
    )]
    pub pids: Option<OsString>,
    /// Bytes read from disks per second
    #[arg(
        long,
        value_name = "BYTES",
        allow_hyphen_values = true,
        help_heading = "Limits"
    )]
    pub io_read: Option<OsString>,
    /// Bytes written to disks per second
    #[arg(
        long,
        value_name = "BYTES",
        allow_hyphen_values = true,
        help_heading = "Limits"
    )]
    pub io_write: Option<OsString>,
    /// Wall-clock time, then everything is killed (exit code 124)
    #[arg(
        long,
        value_name = "60s",
        allow_hyphen_values = true,
        help_heading = "Limits"
    )]
    pub timeout: Option<OsString>,
    /// Bytes of output
    #[arg(
        long,
        value_name = "1M",
        allow_hyphen_values = true,
        help_heading = "Limits"
    )]
    pub max_output: Option<OsString>,
    /// Size of the private /tmp
    #[arg(
        long,
        value_name = "256M",
        allow_hyphen_values = true,
        help_heading = "Limits"
    )]
    pub tmp_size: Option<OsString>,

    /// Ask a person in any case
    #[arg(long, help_heading = "Approval", conflicts_with = "no_broker")]
    pub require_approval: bool,
    /// Wait so long for the answer; default: as the policy says
    #[arg(
        long,
        value_name = "10m",
        help_heading = "Approval",
        conflicts_with = "no_broker"
    )]
    pub wait: Option<Duration>,
    /// Do not wait for an approval: exit 75 with the request's id. A host that is asked about
    /// while the command runs still holds its connection
    #[arg(long, help_heading = "Approval", conflicts_with_all = ["wait", "no_broker"])]
    pub no_wait: bool,
    /// Run what was approved under this id
    #[arg(
        long,
        value_name = "ID",
        help_heading = "Approval",
        conflicts_with = "no_broker"
    )]
    pub approval: Option<String>,
    /// The agent that this is for, as it calls itself
    #[arg(long, value_name = "ID", help_heading = "Identity")]
    pub agent: Option<String>,
    /// The session that this belongs to, as it calls itself
    #[arg(long, value_name = "ID", help_heading = "Identity")]
    pub session: Option<String>,

    /// Run on a copy of what is writable: see what it would do, then keep or drop it
    #[arg(long, help_heading = "Preview")]
    pub dry_run: bool,
    /// Run it although the policy makes every run a dry run
    #[arg(long, conflicts_with = "dry_run", help_heading = "Preview")]
    pub no_dry_run: bool,
    /// With --dry-run: show text changes line by line
    #[arg(long, requires = "dry_run", help_heading = "Preview")]
    pub diff: bool,

    /// Keep the output and print one result object instead
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Let the output stream and write the result object to this descriptor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..), conflicts_with = "json", help_heading = "Output")]
    pub status_fd: Option<i32>,
    /// No notes on standard error but errors
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Say everything that the jail refused, system calls too, also to a command that did
    /// not fail by it
    #[arg(long, help_heading = "Output")]
    pub trace: bool,

    /// How many processors it has; not for anybody to type
    #[arg(skip)]
    pub processors: Processors,

    /// The commands that a caller of `sjail hook plain` names; not for anybody to type
    #[arg(skip)]
    pub only: Vec<String>,

    /// Whether the record is to have the output that is passed on; not for anybody to type
    #[arg(skip)]
    pub record_output: bool,

    /// The program text that waits on standard input; not for anybody to type
    #[arg(skip)]
    pub text: Option<ProgramText>,

    /// A line for bash (/bin/sh where there is none) instead of a program
    #[arg(short = 'c', value_name = "SHELL LINE", conflicts_with = "command")]
    pub line: Option<OsString>,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM [ARG]...")]
    pub command: Vec<OsString>,
}

impl RunArgs {
    /// Reads what stands behind `sjail run`.
    pub fn read(words: &[OsString]) -> Result<RunArgs, clap::Error> {
        if let Some(args) = RunArgs::read_at_once(words) {
            return Ok(args);
        }
        let name = OsString::from("sjail run");
        RunArgs::try_parse_from(std::iter::once(&name).chain(words))
    }

    /// Reads what hooks and people type all the time. Anything else is nothing here: all
    /// flags are built for it, which takes as long as making a namespace.
    fn read_at_once(words: &[OsString]) -> Option<RunArgs> {
        let mut args = RunArgs::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let word = word.to_str()?;
            match word {
                "--" => {
                    args.command = words.cloned().collect();
                    let is_whole = !args.command.is_empty() && args.line.is_none();
                    return is_whole.then_some(args);
                }
                "--json" => once(&mut args.json)?,
                "--quiet" | "-q" => once(&mut args.quiet)?,
                "--no-broker" if !args.no_wait => once(&mut args.no_broker)?,
                "--no-wait" if !args.no_broker => once(&mut args.no_wait)?,
                _ => match word.split_once('=')? {
                    ("--agent", value) => fill(&mut args.agent, value)?,
                    ("--session", value) => fill(&mut args.session, value)?,
                    ("--workspace", value) => fill(&mut args.workspace, value)?,
                    ("--profile", value) => fill(&mut args.profile, value)?,
                    ("--net", value) => fill(&mut args.net, value)?,
                    ("--timeout", value) => fill(&mut args.timeout, value)?,
                    ("-c", value) => fill(&mut args.line, value)?,
                    _ => return None,
                },
            }
        }
        args.line.is_some().then_some(args)
    }

    /// What words that make no sense as a whole still say: where the result object goes,
    /// and which command it is about.
    pub fn at_a_guess(words: &[OsString]) -> RunArgs {
        let dashes = words.iter().position(|word| word == "--");
        let (options, command) = words.split_at(dashes.unwrap_or(words.len()));
        let is_json = options.iter().any(|word| word == "--json");
        let number =
            |at: usize, word: &OsString| match word.to_str()?.strip_prefix("--status-fd")? {
                "" => options.get(at + 1)?.to_str()?.parse().ok(),
                joined => joined.strip_prefix('=')?.parse().ok(),
            };
        let status_fd = options
            .iter()
            .enumerate()
            .find_map(|(at, word)| number(at, word));
        RunArgs {
            json: is_json,
            // Standard output it is, where both were asked for.
            status_fd: status_fd.filter(|number: &i32| !is_json && *number > 0),
            command: command.iter().skip(1).cloned().collect(),
            ..RunArgs::default()
        }
    }
}

/// Sets a flag; nothing if it was set before, which is a mistake.
fn once(flag: &mut bool) -> Option<()> {
    (!std::mem::replace(flag, true)).then_some(())
}

/// Sets an option; nothing if it was set before or is set to nothing.
fn fill<T: for<'a> From<&'a str>>(option: &mut Option<T>, value: &str) -> Option<()> {
    (!value.is_empty() && option.replace(T::from(value)).is_none()).then_some(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::CommandFactory;

    fn read(words: &[&str]) -> Result<RunArgs, clap::Error> {
        RunArgs::read(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_flags_are_consistent() {
        RunArgs::command().debug_assert();
    }

    #[test]
    fn the_short_way_and_the_long_way_read_the_same() {
        let short = read(&["--", "ls", "--json", "--"]).unwrap();
        let long = read(&["--quiet", "--", "ls", "--json", "--"]).unwrap();
        assert_eq!(short.command, ["ls", "--json", "--"]);
        assert_eq!(short.command, long.command);
        assert!(!short.json && long.quiet);
    }

    #[test]
    fn what_is_read_at_once_reads_the_same_in_full() {
        let words = [
            "--",
            "ls",
            "--json",
            "--quiet",
            "-q",
            "--no-broker",
            "--no-wait",
            "--agent=a",
            "--agent=",
            "--session=s=t",
            "--workspace=/w",
            "--profile=strict",
            "--net=none",
            "--timeout=-1",
            "-c=a b",
            "-c",
            "--dry-run",
        ];
        let in_full = |typed: &[OsString]| {
            RunArgs::try_parse_from(std::iter::once(&OsString::from("sjail run")).chain(typed))
        };
        let mut at_once = 0;
        // Every line of up to three of these words, before a command and without one.
        for number in 0..(words.len() + 1).pow(3) {
            let digit = |place: u32| number / (words.len() + 1).pow(place) % (words.len() + 1);
            let typed = (0..3).filter_map(|place| words.get(digit(place)));
            let typed: Vec<OsString> = typed.map(OsString::from).collect();
            for tail in [&[][..], &["--".into(), "true".into()]] {
                let typed = [&typed[..], tail].concat();
                if let Some(args) = RunArgs::read_at_once(&typed) {
                    at_once += 1;
                    let full = in_full(&typed);
                    assert!(full.is_ok(), "{typed:?}: {full:?}");
                    let full = full.unwrap();
                    assert_eq!(format!("{args:?}"), format!("{full:?}"), "{typed:?}");
                }
            }
        }
        assert!(at_once > 1000, "{at_once}");
    }

    #[test]
    fn nonsense_is_refused() {
        for words in [
            &["-c", "ls", "--", "ls"][..],
            &["ls"],
            &["--json", "--status-fd", "3", "--", "ls"],
        ] {
            assert!(read(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn nonsense_still_says_where_its_result_goes() {
        let guess = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let args = RunArgs::at_a_guess(&words);
            (args.json, args.status_fd, args.command.len())
        };
        assert_eq!(guess(&["--bogus", "--json", "--", "ls"]), (true, None, 1));
        assert_eq!(guess(&["--status-fd", "3", "ls"]), (false, Some(3), 0));
        assert_eq!(guess(&["--status-fd=3", "--json"]), (true, None, 0));
        assert_eq!(guess(&["--status-fd=0"]), (false, None, 0));
        assert_eq!(guess(&["--bogus", "--", "--json"]), (false, None, 1));
        assert_eq!(guess(&[]), (false, None, 0));
    }
}
