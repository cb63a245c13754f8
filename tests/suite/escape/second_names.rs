//! Second names: a protected file is written by another name that leads to it (a hard link),
//! which a command has made before the file was closed to it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use sjail_tests::{Output, Scene, Test, Verdict, ensure, tests, wait};

/// A key by which the host's git runs a program; `$PWD` is the workspace.
const KEY: &str = r#"printf '[core]\n\tfsmonitor = "touch %s/pwned; false"\n' "$PWD""#;

pub fn suite() -> Vec<Test> {
    tests![
        b28_of_a_file_that_becomes_configuration,
        b28_of_the_configuration_of_a_new_repository,
        b28_that_the_host_has_laid,
        b28_of_what_the_host_puts_in_its_place,
        b28_of_what_is_put_back_from_quarantine,
        b28_a_dry_run_parts_nothing,
    ]
}

fn repository(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    git(scene, &["init", "-q", "."])?;
    Ok(())
}

fn git(scene: &Scene, words: &[&str]) -> Verdict<Output> {
    scene.host("git").args(words).output()
}

/// Fails if the host's git runs the command's program.
fn is_not_run(scene: &Scene, said: &Output) -> Verdict {
    git(scene, &["status"])?;
    let run = scene.workspace().join("pwned").exists();
    ensure(!run, || format!("the host's git ran the program: {said}"))
}

fn names(scene: &Scene, path: &str) -> Verdict<u64> {
    Ok(fs::symlink_metadata(scene.workspace().join(path))?.nlink())
}

/// In one run: the file is judged and closed as `config.worktree`, and written by its old name.
fn b28_of_a_file_that_becomes_configuration(scene: &Scene) -> Verdict {
    let payload = format!(
        "echo >.git/keep; ln .git/keep .git/t; mv .git/t .git/config.worktree; sleep 1; {KEY} >>.git/keep"
    );
    for jailed in [false, true] {
        repository(scene)?;
        git(scene, &["config", "extensions.worktreeConfig", "true"])?.exits(0)?;
        scene.file("payload", &payload)?;
        if jailed {
            let run = scene.run(["--", "sh", "payload"]).output()?;
            run.exits(125)?.stderr_has("has a second name")?;
            is_not_run(scene, &run)?;
        } else {
            scene.host("sh").args(["payload"]).output()?.exits(0)?;
            git(scene, &["status"])?;
            fs::remove_file(scene.workspace().join("pwned"))?;
            fs::remove_dir_all(scene.workspace().join(".git"))?;
        }
    }
    Ok(())
}

/// In two runs: the first makes the repository, the second writes its configuration.
fn b28_of_the_configuration_of_a_new_repository(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    let make = scene
        .run(["-c", "git init -q .; ln .git/config notes"])
        .output()?;
    make.exits(0)?.stderr_has("it is a file of its own now")?;
    ensure(names(scene, ".git/config")? == 1, || "two names are left")?;
    let run = scene.run(["-c", &format!("{KEY} >>notes")]).output()?;
    run.exits(0)?;
    is_not_run(scene, &run)
}

/// Whoever laid it (a run of an older sjail, a backup by links): it is parted at the start.
fn b28_that_the_host_has_laid(scene: &Scene) -> Verdict {
    repository(scene)?;
    scene.file(".envrc", "export A=1\n")?;
    let here = scene.workspace();
    fs::hard_link(here.join(".git/config"), here.join("notes"))?;
    fs::hard_link(here.join(".envrc"), here.join("env"))?;
    let before = fs::read(here.join(".git/config"))?;
    let line = format!("{KEY} >>notes; echo evil >>env");
    let run = scene.run(["-c", &line]).output()?;
    run.exits(0)?.stderr_has("it is a file of its own now")?;
    is_not_run(scene, &run)?;
    ensure(fs::read(here.join(".git/config"))? == before, || {
        format!("the configuration has changed: {run}")
    })?;
    ensure(fs::read(here.join(".envrc"))? == b"export A=1\n", || {
        format!(".envrc has changed: {run}")
    })
}

/// The host replaces the file while the jail runs, and the jail has a name of the new one.
fn b28_of_what_the_host_puts_in_its_place(scene: &Scene) -> Verdict {
    repository(scene)?;
    let here = scene.workspace();
    let line =
        format!("touch began; while [ ! -e done ]; do sleep 0.01; done; sleep 1; {KEY} >>keep");
    let jail = scene.run(["-c", &line]).start()?;
    wait::until_true("the command runs", || here.join("began").exists())?;
    fs::copy(here.join(".git/config"), here.join("new"))?;
    fs::hard_link(here.join("new"), here.join("keep"))?;
    fs::rename(here.join("new"), here.join(".git/config"))?;
    fs::write(here.join("done"), "")?;
    let run = jail.finish()?;
    run.exits(125)?.stderr_has("has a second name")?;
    ensure(names(scene, ".git/config")? == 1, || "two names are left")?;
    is_not_run(scene, &run)
}

/// What was looked at in quarantine is what is put back, and stays it.
fn b28_of_what_is_put_back_from_quarantine(scene: &Scene) -> Verdict {
    let plant =
        "echo good >data; ln data .envrc; mkdir v; ln data v/tasks.json; mv v .vscode; sleep 1";
    scene.file("plant", plant)?;
    let run = scene.run(["--json", "--", "sh", "plant"]).output()?;
    let listed = scene.sjail(["quarantine", "list"]).output()?;
    scene.run(["-c", "echo evil >data"]).output()?.exits(0)?;
    let words = listed.stdout.split_whitespace();
    let ids: Vec<&str> = words.filter(|word| word.starts_with("q_")).collect();
    ensure(ids.len() == 2, || format!("{listed}{run}"))?;
    for id in ids {
        let put_back = ["quarantine", "restore", id];
        scene.sjail(put_back).output()?.exits(0)?;
    }
    scene.run(["-c", "echo evil >data"]).output()?.exits(0)?;
    for path in [".envrc", ".vscode/tasks.json"] {
        let text = scene.read(path)?;
        ensure(text == "good\n", || format!("{path} is {text:?} now"))?;
    }
    Ok(())
}

/// A preview changes nothing on the host, not even this.
fn b28_a_dry_run_parts_nothing(scene: &Scene) -> Verdict {
    repository(scene)?;
    let here = scene.workspace();
    fs::hard_link(here.join(".git/config"), here.join("notes"))?;
    std::thread::sleep(Duration::from_millis(50));
    scene.run(["--dry-run", "--", "true"]).output()?.exits(0)?;
    ensure(names(scene, ".git/config")? == 2, || "it was parted")
}
