//! What a plain `sjail run` promises.

use sjail_tests::attack::HELD;
use sjail_tests::{Scene, Test, Verdict, tests};

pub fn suite() -> Vec<Test> {
    tests![
        the_host_runs_programs,
        a_line_is_never_an_option_of_the_shell,
        a_trace_names_refused_calls,
    ]
}

/// The ground itself: without it no other check means anything.
fn the_host_runs_programs(scene: &Scene) -> Verdict {
    scene
        .host("sh")
        .args(["-c", "echo here; exit 3"])
        .output()?
        .exits(3)?
        .stdout_is("here\n")?;
    let mut terminal = scene.host("sh").terminal()?;
    terminal.line("tty; exit 4")?;
    terminal.expect("/dev/pts/")?;
    assert_eq!(terminal.finish()?.code(), Some(4));
    Ok(())
}

/// A line that begins with `-` is a command like any other: here one that is not there.
fn a_line_is_never_an_option_of_the_shell(scene: &Scene) -> Verdict {
    let line = "-e; echo ran";
    let control = scene.host("sh").args(["-c", line]).output()?;
    control.lacks("ran\n")?;
    scene
        .run([format!("-c={line}")])
        .output()?
        .succeeds()?
        .stdout_is("ran\n")?;
    Ok(())
}

/// Under observation the same calls are refused in the same way, and told by name.
fn a_trace_names_refused_calls(scene: &Scene) -> Verdict {
    scene.attacker()?;
    for (words, name) in [
        (["unshare-namespace", "user"], "unshare"),
        (["clone-namespace", "net"], "clone"),
        (["probe", "add-key"], "add_key"),
        (["socket", "packet"], "socket"),
    ] {
        let plain = scene.run(["--", "./attacker"]).args(words).output()?;
        let traced = scene
            .run(["--trace", "--json", "--quiet", "--", "./attacker"])
            .args(words)
            .output()?
            .json()?;
        assert_eq!(traced["exit_code"], i64::from(HELD), "{traced}");
        assert_eq!(traced["stdout"], plain.stdout.as_str());
        let denials = traced["denials"].as_array().into_iter().flatten();
        let named = denials
            .filter(|denial| denial["kind"] == "system-call")
            .any(|denial| denial["what"] == name);
        assert!(named, "{name}: {traced}");
    }
    let told = scene
        .run(["--trace", "--", "./attacker", "unshare-namespace", "user"])
        .output()?;
    told.stderr_has("refused: unshare is answered with EPERM")?;
    Ok(())
}
