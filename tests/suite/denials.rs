//! A command that fails by the jail is told why, in one line, and the flag that the line
//! names is one that helps.

use serde_json::Value;
use sjail_tests::{Identity, Scene, Stop, Test, Verdict, tests};

pub fn suite() -> Vec<Test> {
    tests![
        what_is_not_in_the_jail,
        what_cannot_be_in_a_jail,
        what_is_protected,
        what_needs_root,
        what_needs_a_service_of_the_host,
        the_network,
        what_waited_until_its_time_was_up,
        a_command_that_succeeds_is_told_nothing,
        one_line_at_the_terminal,
        an_agent_is_told_without_a_terminal,
    ]
}

/// An install without a network tries again and again: its end says why.
fn what_waited_until_its_time_was_up(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let line = "python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
                s.connect((\"192.0.2.1\", 9))' 2>/dev/null; exec sleep 60";
    scene.script("line", &format!("#!/bin/sh\n{line}\n"))?;
    let words = ["--json", "--timeout", "3s", "--", "./line"];
    let result = scene.run(words).output()?.json()?;
    assert_eq!(result["status"], "timed_out", "{result}");
    assert_eq!(result["denials"][0]["kind"], "network", "{result}");
    // At the terminal, too; and nothing is said of a command that was only slow.
    scene
        .run(["--timeout", "3s", "--", "./line"])
        .output()?
        .stderr_has("the jail has no network")?;
    let words = ["--json", "--timeout", "1s", "--", "sleep", "60"];
    let slow = scene.run(words).output()?.json()?;
    assert_eq!(slow["denials"], serde_json::json!([]), "{slow}");
    Ok(())
}

/// It runs lines with pipes, and reads what they say.
fn an_agent_is_told_without_a_terminal(scene: &Scene) -> Verdict {
    let file = scene.outside_file("data", "x")?;
    let run = |flags: &[&str]| {
        let call = scene.run(flags.iter().copied()).args(["--", "cat"]);
        call.args([&file]).output()
    };
    run(&["--agent", "claude-code"])?
        .exits(1)?
        .stderr_has("No such file")?
        .stderr_has("is on the host but not in the jail")?;
    Ok(())
}

/// What is said to this script, which fails.
fn denials(scene: &Scene, flags: &[&str], line: &str) -> Verdict<Vec<Value>> {
    scene.script("line", &format!("#!/bin/sh\n{line}\n"))?;
    let output = scene
        .run(["--json"])
        .args(flags)
        .args(["--", "./line"])
        .output()?;
    let result = output.json()?;
    if result["exit_code"] == 0 && flags.is_empty() {
        return Err(Stop::failed(format!("{line} did not fail, {output}")));
    }
    Ok(result["denials"].as_array().cloned().unwrap_or_default())
}

/// One denial of this kind with these words, and whether a flag is offered.
fn told(scene: &Scene, line: &str, kind: &str, words: &str) -> Verdict<Option<String>> {
    let all = denials(scene, &[], line)?;
    let fits = |denial: &&Value| {
        denial["kind"] == kind
            && denial["why"]
                .as_str()
                .is_some_and(|why| why.contains(words))
    };
    match all.iter().find(fits) {
        Some(denial) => Ok(denial["flag"].as_str().map(str::to_owned)),
        None => Err(Stop::failed(format!(
            "{line}: no {kind}, {words:?}: {all:?}"
        ))),
    }
}

/// The flag is offered, and with it the line works.
fn cured(scene: &Scene, line: &str, kind: &str, words: &str) -> Verdict {
    let flag = told(scene, line, kind, words)?
        .ok_or_else(|| Stop::failed(format!("{line}: no flag is named")))?;
    let flags: Vec<&str> = flag.split_whitespace().collect();
    let left = denials(scene, &flags, line)?;
    match left.is_empty() {
        true => Ok(()),
        false => Err(Stop::failed(format!("{line} with {flag}: {left:?}"))),
    }
}

/// No flag would help, so none is offered.
fn incurable(scene: &Scene, line: &str, kind: &str, words: &str) -> Verdict {
    match told(scene, line, kind, words)? {
        None => Ok(()),
        Some(flag) => Err(Stop::failed(format!("{line}: {flag} would not help"))),
    }
}

fn what_is_not_in_the_jail(scene: &Scene) -> Verdict {
    let words = "is on the host but not in the jail";
    let home = scene.home_file("data/file", "text")?;
    cured(
        scene,
        &format!("cat {}", home.display()),
        "path-missing",
        words,
    )?;
    let made = home.with_file_name("made");
    cured(
        scene,
        &format!("echo x >{}", made.display()),
        "path-read-only",
        words,
    )?;
    let outside = scene.outside_file("data/file", "text")?;
    cured(
        scene,
        &format!("cat {}", outside.display()),
        "path-missing",
        words,
    )?;
    let made = outside.with_file_name("made");
    cured(
        scene,
        &format!("echo x >{}", made.display()),
        "path-read-only",
        words,
    )
}

fn what_cannot_be_in_a_jail(scene: &Scene) -> Verdict {
    incurable(scene, "cat /dev/kmsg", "path-missing", "is its hardware")?;
    // Root is told that it cannot be written: it is there for root, but closed.
    let (kind, why) = match scene.identity() {
        Identity::User => ("path-missing", "shows and controls its processes"),
        Identity::Root => ("path-read-only", "cannot be changed from the jail"),
    };
    incurable(scene, "ls /proc/1/root", kind, why)?;
    let line = "echo x >/etc/sjail-test-made";
    incurable(
        scene,
        line,
        "path-read-only",
        "cannot be changed from the jail",
    )
}

fn what_is_protected(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    scene
        .host("git")
        .args(["init", "-q", "."])
        .output()?
        .succeeds()?;
    let line = "echo x >>.git/config";
    incurable(scene, line, "protected", "runs code on the host later")
}

fn what_needs_root(scene: &Scene) -> Verdict {
    incurable(
        scene,
        "unshare -U true",
        "system-call",
        "--trace says which call",
    )?;
    scene.file("own", "")?;
    incurable(scene, "chown 12345 own", "privilege", "only your own user")?;
    scene.needs(&["python3"])?;
    let line = "python3 -m http.server 80";
    incurable(scene, line, "privilege", "ports below 1024")
}

fn what_needs_a_service_of_the_host(scene: &Scene) -> Verdict {
    scene.needs(&["systemctl"])?;
    incurable(
        scene,
        "systemctl --user status",
        "privilege",
        "session's bus",
    )
}

fn the_network(scene: &Scene) -> Verdict {
    scene.needs(&["python3", "bash"])?;
    let flag = told(
        scene,
        "python3 -c \"import socket; socket.create_connection(('example.org', 443))\"",
        "network",
        "the jail has no network",
    )?;
    assert_eq!(flag.as_deref(), Some("--allow-host NAME"));
    let line = "bash -c 'echo >/dev/tcp/127.0.0.1/9'";
    let flag = told(scene, line, "network", "nobody answers at localhost")?;
    assert_eq!(flag.as_deref(), Some("--net host"));
    Ok(())
}

fn a_command_that_succeeds_is_told_nothing(scene: &Scene) -> Verdict {
    let output = scene
        .run([
            "--json",
            "--",
            "sh",
            "-c",
            "cat /etc/no-such-file; cat /dev/kmsg; true",
        ])
        .output()?;
    let result = output.succeeds()?.json()?;
    match result["denials"].as_array() {
        Some(none) if none.is_empty() => Ok(()),
        _ => Err(Stop::failed(format!("{output}"))),
    }
}

fn one_line_at_the_terminal(scene: &Scene) -> Verdict {
    let home = scene.home_file("data/file", "text")?;
    scene.script("line", &format!("#!/bin/sh\ncat {}\n", home.display()))?;
    let mut run = scene.run(["--", "./line"]).terminal()?;
    run.expect("sjail: refused: ")?;
    run.expect("; to allow it: --ro ")?;
    run.expect(", or in a policy file [filesystem] read = ")?;
    assert_eq!(run.finish()?.code(), Some(1));
    assert_eq!(
        run.screen().matches("refused:").count(),
        1,
        "{}",
        run.screen()
    );
    Ok(())
}
