//! Killing is complete: whenever and however sjail ends, nothing of the jail remains.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sjail_tests::{Running, Scene, Stop, Test, Verdict, leftovers::Snapshot, tests, wait};

pub fn suite() -> Vec<Test> {
    let mut all = tests![
        signals_are_passed_on,
        a_signal_ends_sjail_as_it_ended_the_command,
        daemons_go_with_the_jail,
        a_broken_pipe_ends_the_command,
        a_closed_input_is_an_end_of_file,
    ];
    all.push(
        Test::new(
            "killed_at_two_hundred_moments",
            killed_at_two_hundred_moments,
        )
        .alone()
        .timeout(600),
    );
    all
}

fn signals_are_passed_on(scene: &Scene) -> Verdict {
    for name in ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"] {
        let script = format!(
            "trap 'echo got-{name}; exit 5' {name}; echo ready; while :; do sleep 0.02; done"
        );
        let mut run = scene.run(["--", "sh", "-c", &script]).start()?;
        assert_eq!(run.line()?, "ready\n");
        let signal: Signal = format!("SIG{name}").parse()?;
        run.signal(signal)?;
        run.finish()?.exits(5)?.stdout_has(&format!("got-{name}"))?;
    }
    // Stop and continue.
    let script = "trap 'echo continued' CONT; echo ready; n=0; while [ $n -lt 200 ]; do sleep 0.02; n=$((n+1)); done";
    let mut run = scene.run(["--", "sh", "-c", script]).start()?;
    assert_eq!(run.line()?, "ready\n");
    run.signal(Signal::SIGCONT)?;
    assert_eq!(run.line()?, "continued\n");
    run.signal(Signal::SIGTERM)?;
    run.finish()?.exits(143)?;
    Ok(())
}

fn a_signal_ends_sjail_as_it_ended_the_command(scene: &Scene) -> Verdict {
    for (signal, code) in [
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
        (Signal::SIGUSR1, 138),
    ] {
        let mut run = scene
            .run(["--", "sh", "-c", "echo ready; exec sleep 100"])
            .start()?;
        assert_eq!(run.line()?, "ready\n");
        run.signal(signal)?;
        run.finish()?.exits(code)?;
    }
    Ok(())
}

fn daemons_go_with_the_jail(scene: &Scene) -> Verdict {
    let daemon = "setsid sh -c 'trap \"\" HUP TERM INT; while :; do date > tick; sleep 0.05; done' > /dev/null 2>&1 & sleep 0.3; echo left";
    scene
        .run(["--", "sh", "-c", daemon])
        .output()?
        .succeeds()?
        .stdout_is("left\n")?;
    let tick = || fs::metadata(scene.workspace().join("tick")).and_then(|file| file.modified());
    let then = tick()?;
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(tick()?, then, "the daemon still runs");
    Ok(())
}

fn a_broken_pipe_ends_the_command(scene: &Scene) -> Verdict {
    let sjail = scene.program("sjail");
    for options in ["", "--max-output 1G"] {
        let line = format!(
            "set -o pipefail; {} run --no-broker --quiet {options} -- yes | head -n 1",
            sjail.display()
        );
        let run = scene.host("bash").args(["-c", &line]).output()?;
        // 128 + SIGPIPE, as without sjail.
        run.exits(141)?.stdout_is("y\n")?;
    }
    Ok(())
}

fn a_closed_input_is_an_end_of_file(scene: &Scene) -> Verdict {
    scene
        .run(["--", "cat"])
        .input("some\nlines\n")
        .output()?
        .succeeds()?
        .stdout_is("some\nlines\n")?;
    let sjail = scene.program("sjail");
    let line = format!("{} run --no-broker --quiet -- cat <&-", sjail.display());
    scene
        .host("sh")
        .args(["-c", &line])
        .output()?
        .succeeds()?
        .stdout_is("")?;
    Ok(())
}

/// SIGKILL at moments spread over set-up, run and teardown. Afterwards, and after one
/// more ordinary start, nothing is there that was not there before.
fn killed_at_two_hundred_moments(scene: &Scene) -> Verdict {
    scene.file("kept", "as it was")?;
    scene
        .run(["--memory", "200M", "--", "true"])
        .output()?
        .succeeds()?;
    let before = Snapshot::take(scene);
    let mut seed = 0x2545_f491_4f6c_dd1d_u64 ^ u64::from(std::process::id());
    for round in 0..200_u32 {
        // A plain run, one with a control group where there can be one, one whose
        // output runs through sjail.
        let words: &[&str] = match round % 4 {
            0 => &["--", "sh", "-c", "(setsid sleep 1000 &) ; sleep 1000"],
            1 => &[
                "--memory",
                "200M",
                "--pids",
                "60",
                "--",
                "sh",
                "-c",
                "sleep 1000 & sleep 1000",
            ],
            2 => &["--json", "--", "sh", "-c", "yes & sleep 1000"],
            _ => &["--", "true"],
        };
        let run = scene.run(words).start()?;
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        // Most of the time within set-up, which takes a millisecond or two.
        let micros = if round % 5 == 0 {
            seed % 60_000
        } else {
            seed % 4_000
        };
        std::thread::sleep(Duration::from_micros(micros));
        let jailed = descendants(run.pid());
        run.signal(Signal::SIGKILL)?;
        gone(&jailed)?;
        ended(run)?;
    }
    // The next start clears away what a killed one could not.
    scene.run(["--", "true"]).output()?.succeeds()?;
    wait::until_true("it settles", || before.nothing_new(scene).is_ok())
        .or_else(|_| before.nothing_new(scene))?;
    assert_eq!(scene.read("kept")?, "as it was");
    Ok(())
}

/// Everything below a process, as far as one look shows.
fn descendants(root: Pid) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut open = vec![root.as_raw()];
    while let Some(pid) = open.pop() {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            if let Ok(child) = child.parse()
                && found.insert(child)
            {
                open.push(child);
            }
        }
    }
    found
}

/// Waits until none of the processes is there any more (as anything but a zombie, which
/// whoever adopted it reaps when it likes).
fn gone(pids: &BTreeSet<i32>) -> Verdict {
    let alive = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        kill(Pid::from_raw(*pid), None).is_ok() && !stat.contains(") Z ") && !stat.is_empty()
    };
    wait::until_true("the jail's processes are gone", || !pids.iter().any(alive))
}

/// Reaps the killed sjail; a jail that held its pipes open would hang here.
fn ended(run: Running) -> Verdict {
    let output = run.finish()?;
    match output.signal() {
        Some(9) => Ok(()),
        None if output.code() == Some(0) => Ok(()), // It was quicker.
        _ => Err(Stop::failed(format!(
            "expected SIGKILL or success, {output}"
        ))),
    }
}
