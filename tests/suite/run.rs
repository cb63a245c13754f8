//! What a plain `sjail run` promises.

use std::fs;

use sjail_tests::attack::HELD;
use sjail_tests::{Scene, Test, Verdict, tests};

pub fn suite() -> Vec<Test> {
    tests![
        the_host_runs_programs,
        a_line_is_never_an_option_of_the_shell,
        standard_streams_can_be_opened_by_name,
        the_command_is_scheduled_as_its_caller,
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

/// How sjail makes itself wait for its helpers is nothing that the command inherits, and what its
/// caller has chosen stays.
fn the_command_is_scheduled_as_its_caller(scene: &Scene) -> Verdict {
    scene.needs(&["awk", "chrt"])?;
    let sjail = scene.program("sjail");
    let (normal, batch) = ("0", "3");
    for (chosen, policy) in [("--other", normal), ("--batch", batch)] {
        let words = [chosen, "0"].map(str::to_owned).into_iter();
        let words = words.chain([sjail.display().to_string()]);
        let words = words
            .chain(["run", "--no-broker", "-q", "--", "awk", "{ print $41 }"].map(str::to_owned));
        let run = scene
            .host("chrt")
            .args(words.chain(["/proc/self/stat".to_owned()]))
            .output()?;
        run.succeeds()?.stdout_is(&format!("{policy}\n"))?;
    }
    Ok(())
}

/// `/dev/stdout` works where it is a file of the caller's, wherever that lies, or `/dev/null`;
/// but a file that is added to is not written anew, and nobody's file by it is another's.
fn standard_streams_can_be_opened_by_name(scene: &Scene) -> Verdict {
    let sjail = scene.program("sjail");
    let outside = scene.outside();
    scene.outside_file("in", "given\n")?;
    scene.outside_file("log", "before\n")?;
    let run = |inside: &str, streams: &str| {
        let line = format!(
            "{} run --no-broker -q -- sh -c '{inside}' {streams}",
            sjail.display()
        );
        scene
            .host("sh")
            .args(["-c", &line])
            .cwd(scene.workspace())
            .output()
    };
    let at = |name: &str| outside.join(name).display().to_string();
    let streams = format!("<{} >{} 2>/dev/null", at("in"), at("out"));
    let inside = "cat /dev/stdin && echo more >>/dev/stdout && echo lost >/dev/stderr";
    run(inside, &streams)?.succeeds()?;
    assert_eq!(fs::read_to_string(at("out"))?, "given\nmore\n");
    // Not for more than it is open for, and not by its own name.
    let inside = format!("echo x >/dev/stdin || echo x >{0} || cat {0}", at("in"));
    let output = run(&inside, &format!("<{}", at("in")))?;
    assert_ne!(output.code(), Some(0), "{output}");
    assert_eq!(fs::read_to_string(at("in"))?, "given\n");
    run(
        "echo after; echo x >/dev/stdout",
        &format!(">>{} 2>/dev/null", at("log")),
    )?;
    assert_eq!(fs::read_to_string(at("log"))?, "before\nafter\n");
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
