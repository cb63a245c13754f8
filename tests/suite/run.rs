//! What a plain `sjail run` promises.

use sjail_tests::{Scene, Test, Verdict, tests};

pub fn suite() -> Vec<Test> {
    tests![
        the_host_runs_programs,
        a_line_is_never_an_option_of_the_shell
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
