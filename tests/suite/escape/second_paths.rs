//! The workspace at a second path, or open in part: protected names are held wherever they
//! can be written, and nothing that is taken is lost.

use std::fs;
use std::path::Path;

use sjail_tests::{Scene, Test, Verdict, ensure, tests, wait};

pub fn suite() -> Vec<Test> {
    tests![
        names_are_held_at_every_path_that_leads_to_them,
        a_writable_part_of_a_closed_workspace_is_protected,
        nothing_in_quarantine_is_deleted,
        a_jail_that_fills_quarantine_is_ended,
    ]
}

/// A bind shows the workspace a second time: what is read-only at its own path is so there.
fn names_are_held_at_every_path_that_leads_to_them(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    let here = scene.workspace();
    scene
        .host("git")
        .args(["init", "-q", "."])
        .output()?
        .exits(0)?;
    scene
        .host("git")
        .args(["init", "-q", "sub"])
        .output()?
        .exits(0)?;
    let shown = |path: &Path, at: &str| format!("{}:{at}:rw", path.display());
    let above = here.parent().unwrap_or(&here);
    let name = here.file_name().unwrap_or_default().to_string_lossy();
    let ways = [
        (shown(&here, "/app"), "/app".to_owned(), ""),
        (shown(&here.join("sub"), "/app"), "/app".to_owned(), "sub/"),
        (shown(above, "/up"), format!("/up/{name}"), ""),
    ];
    let config = fs::read(here.join(".git/config"))?;
    for (bind, inside, below) in &ways {
        let line = format!(
            "cd {inside} && touch mine && echo x >>.git/config; echo x >.git/hooks/pre-commit; mv .git g; mv .git/hooks h; touch {inside}/done"
        );
        let run = scene.run(["--bind", bind, "-c", &line]).output()?;
        ensure(here.join(below).join("done").exists(), || run.to_string())?;
        for name in [".git/config", "sub/.git/config"] {
            let text = fs::read(here.join(name))?;
            ensure(text == config, || {
                format!("{bind}: {name} has changed: {run}")
            })?;
        }
        let hook = here.join(below).join(".git/hooks/pre-commit");
        ensure(!hook.exists(), || format!("{bind}: a hook is left: {run}"))?;
    }
    // The copy that a git command writes to lies over one of the two.
    let bind = &ways[0].0;
    let script = "#!/bin/sh\n/usr/bin/git config user.name y\nprintf '[core]\\n\\tfsmonitor = ./x\\n' >>/app/.git/config\n";
    scene.script("bin/git", script)?;
    let path = format!("{}:/usr/bin:/bin", here.join("bin").display());
    let words = ["--bind", bind, "--", "git", "config", "user.name", "y"];
    let run = scene.run(words).env("PATH", path).output()?;
    let text = scene.read(".git/config")?;
    ensure(!text.contains("fsmonitor"), || format!("{text}{run}"))?;
    // What the host replaces meanwhile is closed at both.
    let line = "touch began; while [ ! -e go ]; do sleep 0.01; done; sleep 0.5; echo x >>/app/.git/config; true";
    let jail = scene.run(["--bind", bind, "-c", line]).start()?;
    wait::until_true("the command runs", || here.join("began").exists())?;
    let git = |words: &[&str]| scene.host("git").args(words).output();
    git(&["config", "user.email", "a@b"])?.exits(0)?;
    let config = fs::read(here.join(".git/config"))?;
    fs::write(here.join("go"), "")?;
    let run = jail.finish()?;
    let text = fs::read(here.join(".git/config"))?;
    ensure(text == config, || {
        format!("the configuration has changed: {run}")
    })
}

/// The workspace is read-only, a folder in it is not: what lies there is protected, and what
/// the host does elsewhere is left alone.
fn a_writable_part_of_a_closed_workspace_is_protected(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    let here = scene.workspace();
    scene
        .host("git")
        .args(["init", "-q", "sub"])
        .output()?
        .exits(0)?;
    scene.home_file(
        ".config/sjail/policy.toml",
        "[sandbox]\nworkspace = \"ro\"\n",
    )?;
    scene.file(".envrc", "1")?;
    let config = fs::read(here.join("sub/.git/config"))?;
    let line = "cd sub; echo x >>.git/config; echo x >.git/hooks/pre-commit; echo x >.envrc; touch mine; while [ ! -e go ]; do sleep 0.01; done; sleep 0.3";
    scene.file("line", line)?;
    let part = here.join("sub");
    let part = part.to_string_lossy();
    let jail = scene.run(["--rw", &part, "--", "sh", "line"]).start()?;
    wait::until_true("the command runs", || here.join("sub/mine").exists())?;
    scene.file("t", "2")?;
    fs::rename(here.join("t"), here.join(".envrc"))?;
    scene.file("sub/go", "")?;
    let run = jail.finish()?;
    run.exits(0)?;
    let is_gone = |path: &str| !here.join(path).exists();
    ensure(
        is_gone("sub/.envrc") && is_gone("sub/.git/hooks/pre-commit"),
        || format!("what was planted is left: {run}"),
    )?;
    ensure(fs::read(here.join("sub/.git/config"))? == config, || {
        format!("the configuration has changed: {run}")
    })?;
    ensure(scene.read(".envrc")? == "2", || {
        format!("the host's own file was touched: {run}")
    })
}

/// However often a name comes: what is taken may be the host's, and is kept.
fn nothing_in_quarantine_is_deleted(scene: &Scene) -> Verdict {
    let here = scene.workspace();
    let line = "for i in $(seq 12); do echo \"$i\" >.mcp.json; while [ -e .mcp.json ]; do sleep 0.01; done; done; touch planted; while [ ! -e go ]; do sleep 0.01; done";
    scene.file("line", line)?;
    let jail = scene.run(["--", "sh", "line"]).start()?;
    wait::until_true("the names have come", || here.join("planted").exists())?;
    fs::write(here.join(".mcp.json"), "typed by hand")?;
    wait::until_true("it is taken", || !here.join(".mcp.json").exists())?;
    fs::write(here.join("go"), "")?;
    let run = jail.finish()?;
    run.exits(0)?.stderr_has("again and again")?;
    let list = scene.sjail(["quarantine", "list"]).output()?;
    let words = list.stdout.split_whitespace();
    let ids: Vec<&str> = words.filter(|word| word.starts_with("q_")).collect();
    ensure(ids.len() == 13, || {
        format!("{} are kept: {list}", ids.len())
    })?;
    let mut by_hand = 0;
    for id in ids {
        scene
            .sjail(["quarantine", "restore", id])
            .output()?
            .exits(0)?;
        by_hand += usize::from(scene.read(".mcp.json")? == "typed by hand");
        fs::remove_file(here.join(".mcp.json"))?;
    }
    ensure(by_hand == 1, || "the host's own file is gone")
}

/// Nothing is deleted, so a disk could be filled: whoever makes that much goes no further.
fn a_jail_that_fills_quarantine_is_ended(scene: &Scene) -> Verdict {
    let line = "mkdir t; cd t; seq 5000 | xargs touch; cd ..; mv t .claude; sleep 1000";
    let run = scene.run(["--timeout", "1m", "-c", line]).output()?;
    run.stderr_has("the jail was ended")?;
    let kept = scene.sjail(["quarantine", "list"]).output()?;
    kept.stdout_has(".claude")?;
    Ok(())
}
