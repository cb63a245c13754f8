//! The classifier against a plain `sh`: a line that bash and it read differently is judged for
//! both. Whatever the shell starts was seen, or the answer says that something cannot be known.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use sjail_policy::classify::{Context, classify};

/// What may be started: stubs of these names that write down that they were.
const NAMES: &[&str] = &[
    "rm", "reboot", "shutdown", "curl", "ls", "sh", "cat", "halt",
];

/// Lines, and whether the plain shell starts something for them.
const LINES: &[(&str, bool)] = &[
    ("((reboot))", true),
    ("(((rm -rf x)))", true),
    ("((rm -rf x)) && ls", true),
    ("if ((reboot)); then ls; fi", true),
    ("while ((rm -rf x)); do break; done", true),
    ("! ((halt))", true),
    ("{ ((shutdown now)); }", true),
    ("f() { ((reboot)); }; f", true),
    ("[[ a || reboot ]]", true),
    ("[[ a || rm -rf x ]]", true),
    ("[[ -n x ]] || reboot", true),
    ("[[ a =~ x|reboot ]]", true),
    ("if [[ x || halt ]]; then ls; fi", true),
    ("[[\nreboot\n]]", true),
    ("echo $'\\' ; rm -rf x #'", true),
    ("echo $'it\\'s'; reboot", false),
    ("echo 'ls\\nreboot' | sh", true),
    ("echo 'ls\\073reboot' | sh", true),
    ("function f {\nreboot\n}", true),
    ("rm -rf x & ls", true),
    ("time ls", false),
    ("x=$'ls'; ls", true),
    ("((i = 1)); ls", true),
    ("[[ -d x && -f y ]]; ls", true),
    ("echo {rm,x}; ls", true),
    ("cat <<E\n$(reboot)\nE", true),
    ("${x:-reboot}", true),
    ("x=reboot; $x", true),
    ("eval 'reboot'", true),
    ("trap reboot EXIT", true),
    (". /dev/null; reboot", true),
    ("alias l=reboot\nl", true),
];

#[test]
fn a_plain_shell_starts_nothing_that_was_not_seen() {
    let shell = Path::new("/bin/dash");
    if !shell.exists() {
        eprintln!("skipped: there is no dash here to compare with");
        return;
    }
    let context = Context::new("/home/user/project", "/home/user", "user");
    let mut wrong = Vec::new();
    for (line, starts) in LINES {
        let started = run(shell, line);
        if started.is_empty() == *starts {
            wrong.push(format!("dash started {started:?} for {line:?}"));
        }
        let answer = classify(line.as_bytes(), &context);
        let seen: BTreeSet<&str> = answer
            .commands
            .iter()
            .map(|command| command.program.name.as_str())
            .collect();
        let unseen: Vec<_> = started
            .iter()
            .filter(|name| !seen.contains(name.as_str()))
            .collect();
        if !unseen.is_empty() && !answer.is_opaque() {
            wrong.push(format!("{unseen:?} not seen in {line:?}: {}", answer.risk));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The stubs that the shell starts for a line. They stand in for the system's programs, so
/// nothing else can be reached.
fn run(shell: &Path, line: &str) -> BTreeSet<String> {
    let scene = tempfile::tempdir().unwrap();
    let (bin, log, work) = (
        scene.path().join("bin"),
        scene.path().join("log"),
        scene.path().join("work"),
    );
    for folder in [&bin, &log, &work] {
        fs::create_dir(folder).unwrap();
    }
    for name in NAMES {
        let stub = bin.join(name);
        // `sh` reads its input, as it would.
        let reads = match *name {
            "sh" => "exec /bin/dash",
            _ => ":",
        };
        let text = format!("#!/bin/dash\n: > \"$SJAIL_TEST_LOG/{name}\"\n{reads}\n");
        fs::write(&stub, text).unwrap();
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let status = Command::new(shell)
        .args(["-c", line])
        .current_dir(&work)
        .env_clear()
        .env("PATH", &bin)
        .env("SJAIL_TEST_LOG", &log)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.unwrap();
    let entries = fs::read_dir(&log).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}
