//! The table of contents that `sjail`, `sjail help` and `sjail --help` print.

use crate::exit::Exit;

/// What is printed.
pub const TEXT: &str = "\
sjail runs a command so that it can do only what its owner said it may.

Usage: sjail run [OPTIONS] -- PROGRAM [ARG]...
       sjail run [OPTIONS] -c 'SHELL LINE'
       sjail COMMAND --help

Run:
  run         Run a command in the jail

See first, then keep or drop (sjail run --dry-run):
  previews    What was run on a copy and waits
  diff        What a preview would change
  commit      Apply exactly what a preview showed
  undo        Take a commit back
  discard     Drop a preview

Look, without running anything:
  check       What a shell line or command would do, how risky that is, what would happen
  explain     Every setting in force, and the file and line it comes from
  policy      Show, check and test policy files
  doctor      Try each layer of the jail on this machine; causes and fixes

Keep:
  trust       Pin a workspace's policy after reading it, or let it go
  quarantine  Files that a run tried to plant: list, restore
  sandbox     What is kept between runs: list, remove

Answer and look back (the broker starts by itself):
  queue       Requests that wait for an approval: list, show, approve, reject, watch
  allowlist   Patterns that run without being asked about
  session     Sessions that are the owner's own: register, forget, list
  audit       The log: read, count, export, verify, prune

For agents:
  code        Run a program text in a jail of its own: Python, JavaScript, Bash
  hook        Answer agents that ask before they use a tool; put it into their settings
  init        Begin: a starter policy, the text for an agent, lines for a shell
  mcp         Serve the sandbox as tools over standard input and output

Exit codes of run: the command's own, 128+N ended by signal N, 124 timed out,
125 sjail could not keep its promise, 126 not executable, 127 not found,
75 approval pending, 77 blocked by policy.
";

/// Prints the table of contents; it was asked for.
pub fn print() -> u8 {
    super::print(TEXT);
    Exit::Success.code()
}

/// Nothing, or something unknown, was typed: says so, and where to look.
pub fn unknown(name: &std::ffi::OsStr) -> u8 {
    if name.is_empty() {
        eprint!("{TEXT}");
    } else {
        let name = sjail_policy::show::inert(name.as_encoded_bytes());
        crate::report::say(&format!(
            "there is no command `{name}`; `sjail help` lists them. To run a program: sjail run -- {name}"
        ));
    }
    Exit::Failed.code()
}
