//! Living on after the command has ended.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use sjail_tests::{Scene, Stop, Test, Tree, Verdict, tests, wait};

pub fn tests() -> Vec<Test> {
    tests![
        b19_daemon_by_double_fork,
        b19_stopped_daemon,
        b19_daemon_after_sjail_was_killed,
        b19_daemon_after_sjail_was_killed_at_a_terminal,
        b19_daemon_that_keeps_the_output_open
    ]
}

fn b19_daemon_by_double_fork(scene: &Scene) -> Verdict {
    let attacker = scene.attacker()?;
    scene
        .run(["--"])
        .args([&attacker])
        .args(["daemon", "beats"])
        .output()?
        .stdout_has("left a daemon")?;
    beats_no_more(scene, "beats")?;
    // On the host it goes on beating.
    scene
        .host(&attacker)
        .args(["daemon", "free"])
        .output()?
        .succeeds()?;
    let before = beats(scene, "free");
    let grown = wait::until_true("the free daemon beats on", || beats(scene, "free") > before);
    Tree::own().kill_descendants();
    grown
}

fn b19_stopped_daemon(scene: &Scene) -> Verdict {
    let attacker = scene.attacker()?;
    scene
        .run(["--"])
        .args([&attacker])
        .args(["daemon-stopped", "lock"])
        .output()?
        .stdout_has("left a stopped")?;
    let lock = ["-n", "lock", "true"];
    let freed = wait::until_true("the lock of the stopped daemon is free", || {
        scene
            .host("flock")
            .args(lock)
            .output()
            .is_ok_and(|output| output.code() == Some(0))
    });
    freed?;
    scene
        .host(&attacker)
        .args(["daemon-stopped", "held"])
        .output()?
        .succeeds()?;
    let held = scene.host("flock").args(["-n", "held", "true"]).output()?;
    Tree::own().kill_descendants();
    held.exits(1)?;
    Ok(())
}

fn b19_daemon_after_sjail_was_killed(scene: &Scene) -> Verdict {
    let attacker = scene.attacker()?;
    let line = format!(
        "{} daemon beats; exec {} sleep 600",
        attacker.display(),
        attacker.display()
    );
    let running = scene.run(["--", "sh", "-c", &line]).start()?;
    wait::until_true("the daemon beats", || beats(scene, "beats") > 0)?;
    running.signal(Signal::SIGKILL)?;
    running.finish()?;
    beats_no_more(scene, "beats")
}

fn b19_daemon_after_sjail_was_killed_at_a_terminal(scene: &Scene) -> Verdict {
    let attacker = scene.attacker()?;
    let line = format!(
        "{} daemon beats; exec {} sleep 600",
        attacker.display(),
        attacker.display()
    );
    let mut terminal = scene.run(["--", "sh", "-c", &line]).terminal()?;
    wait::until_true("the daemon beats", || beats(scene, "beats") > 0)?;
    nix::sys::signal::kill(terminal.pid(), Signal::SIGKILL)?;
    terminal.finish()?;
    beats_no_more(scene, "beats")
}

/// A child in the background holds the pipes; the call must end with the command.
fn b19_daemon_that_keeps_the_output_open(scene: &Scene) -> Verdict {
    scene
        .run(["--", "sh", "-c", "sleep 600 & echo done"])
        .output()?
        .exits(0)?
        .stdout_is("done\n")?;
    Ok(())
}

fn beats(scene: &Scene, file: &str) -> u64 {
    fs::metadata(scene.workspace().join(file)).map_or(0, |file| file.len())
}

/// The heart of the daemon stands still: no beat in fifty times its interval.
fn beats_no_more(scene: &Scene, file: &str) -> Verdict {
    wait::until_true("the daemon is gone", || {
        let before = beats(scene, file);
        std::thread::sleep(Duration::from_millis(500));
        before == beats(scene, file)
    })?;
    if beats(scene, file) == 0 {
        return Err(Stop::failed("the daemon never lived: the check is hollow"));
    }
    Ok(())
}
