//! Too much of everything.

use sjail_tests::{Scene, Stop, Test, Verdict};

use super::attempt::{Control, Plan, attempt, is_held};

pub fn tests() -> Vec<Test> {
    use Control::Bare;
    vec![
        Test::new("b18_forks", |scene| {
            too_many(scene, &["--pids", "64"], "200")
        }),
        Test::new("b18_forks_by_default", |scene| too_many(scene, &[], "900")),
        Test::new("b18_memory_of_one_process", |scene| {
            out_of_memory(scene, &["bomb-memory", "512"])
        }),
        Test::new("b18_memory_of_many_processes", |scene| {
            out_of_memory(scene, &["bomb-memory-many", "8", "64"])
        }),
        attempt("b18_tmp", Bare, |scene| {
            let free = scene.outside().display().to_string();
            Ok(Plan::new(["bomb-tmp", "/tmp", "64"])
                .control(["bomb-tmp", &free, "64"])
                .flags(["--tmp-size", "16M"]))
        }),
        attempt("b18_var_tmp", Bare, |scene| {
            let free = scene.outside().display().to_string();
            Ok(Plan::new(["bomb-tmp", "/var/tmp", "64"])
                .control(["bomb-tmp", &free, "64"])
                .flags(["--tmp-size", "16M"]))
        }),
        attempt("b18_shared_memory", Control::IfHostAllows, |_| {
            Ok(Plan::new(["bomb-shm", "/dev/shm"]))
        }),
        attempt("b18_root_of_the_jail", Bare, |scene| {
            let free = scene.outside().display().to_string();
            Ok(Plan::new(["bomb-tmp", "/", "64"]).control(["bomb-tmp", &free, "64"]))
        }),
        attempt("b18_dev_of_the_jail", Bare, |scene| {
            let free = scene.outside().display().to_string();
            Ok(Plan::new(["bomb-tmp", "/dev", "64"]).control(["bomb-tmp", &free, "64"]))
        }),
        attempt("b18_run_of_the_jail", Bare, |scene| {
            let free = scene.outside().display().to_string();
            Ok(Plan::new(["bomb-tmp", "/run", "2048"]).control(["bomb-tmp", &free, "64"]))
        }),
        attempt("b18_inodes_of_tmp", Control::IfHostAllows, |_| {
            Ok(Plan::new(["bomb-inodes", "/tmp"]).control(["bomb-inodes", "/dev/shm"]))
        }),
        attempt("b18_inodes_of_shm", Control::IfHostAllows, |_| {
            Ok(Plan::new(["bomb-inodes", "/dev/shm"]))
        }),
        attempt("b18_descriptors", Control::IfHostAllows, |_| {
            Ok(Plan::new(["bomb-descriptors", "300000"]))
        }),
        Test::new("b18_output", output),
        Test::new("b18_time", time),
        Test::new("b18_time_with_signals_ignored", stubborn),
    ]
}

/// The fork fails, or, where nothing but a watchdog can count (root without a
/// control group), the jail is ended; then sjail says why.
fn too_many(scene: &Scene, flags: &[&str], count: &str) -> Verdict {
    let attacker = scene.attacker()?;
    let words = ["bomb-forks", count];
    let output = scene
        .run(flags)
        .args(["--"])
        .args([&attacker])
        .args(words)
        .output()?;
    if output.code() == Some(128 + libc::SIGKILL) {
        output.stderr_has("too many processes")?;
    } else {
        is_held(&output)?;
    }
    scene
        .host(&attacker)
        .args(words)
        .output()?
        .stdout_has("OUT ")?;
    Ok(())
}

/// Held by an errno, or ended: then sjail says why.
fn out_of_memory(scene: &Scene, words: &[&str]) -> Verdict {
    let attacker = scene.attacker()?;
    let output = scene
        .run(["--memory", "128M", "--"])
        .args([&attacker])
        .args(words)
        .output()?;
    if output.stdout.contains("OUT ") || output.code() == Some(0) {
        return Err(Stop::failed(format!("more memory than allowed, {output}")));
    }
    if !output.stdout.contains("HELD") {
        output.stderr_has("memory")?;
    }
    scene
        .host(&attacker)
        .args(words)
        .output()?
        .stdout_has("OUT ")?;
    Ok(())
}

fn output(scene: &Scene) -> Verdict {
    let attacker = scene.attacker()?;
    let words = ["bomb-output", "16"];
    let output = scene
        .run(["--max-output", "1M", "--"])
        .args([&attacker])
        .args(words)
        .output()?;
    if output.stdout_bytes.len() > (1 << 20) + 4096 || output.stdout.contains("OUT ") {
        return Err(Stop::failed(format!(
            "{} bytes came through",
            output.stdout_bytes.len()
        )));
    }
    output.stderr_has("output")?;
    let bare = scene.host(&attacker).args(words).output()?;
    assert!(bare.stdout_bytes.len() > 16 << 20, "the check is hollow");
    Ok(())
}

fn time(scene: &Scene) -> Verdict {
    let attacker = scene.attacker()?;
    let output = scene
        .run(["--timeout", "1s", "--"])
        .args([&attacker])
        .args(["bomb-spin", "90"])
        .output()?;
    output.exits(124)?.lacks("OUT ")?;
    Ok(())
}

/// A shell that traps everything it can, with children that do.
fn stubborn(scene: &Scene) -> Verdict {
    let line = "trap '' TERM INT HUP QUIT; sh -c 'trap \"\" TERM INT HUP; sleep 90' & while :; do sleep 1; done";
    scene
        .run(["--timeout", "1s", "--", "sh", "-c", line])
        .output()?
        .exits(124)?;
    Ok(())
}
