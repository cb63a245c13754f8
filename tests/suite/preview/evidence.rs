//! Evidence: whoever is asked about a command sees what it would do, and can keep that.

use std::fs;

use sjail_tests::{Scene, Test, Verdict, ensure, tests, wait};

use super::{exists, forest, id, same, verb};
use crate::desk::Desk;

pub fn tests() -> Vec<Test> {
    tests![
        whoever_is_asked_sees_it_and_can_keep_it,
        at_ones_own_terminal_it_can_be_kept,
        keeping_a_preview_that_would_have_asked_asks,
        what_the_host_changed_since_is_not_written_over,
        no_preview_where_none_is_wanted,
    ]
}

fn modules(scene: &Scene) -> Verdict {
    for name in ["a/index.js", "b/index.js", "b/deep/x.js"] {
        scene.file(&format!("node_modules/{name}"), "0123456789")?;
    }
    Ok(())
}

fn whoever_is_asked_sees_it_and_can_keep_it(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    scene.needs(&["git"])?;
    modules(scene)?;
    scene.file(".gitignore", "node_modules\n")?;
    let git = |words: &[&str]| scene.host("git").args(words).output()?.succeeds().map(drop);
    git(&["init", "-q", "."])?;
    git(&["add", ".gitignore"])?;
    let told = scene.home().join("told");
    let script = scene.home_file("tell.sh", format!("echo \"$1\" > {}\n", told.display()))?;
    scene.home_file(
        ".config/sjail/policy.toml",
        format!(
            "[approval]\non_ask = [\"sh\", \"{}\", \"{{summary}}\"]\n",
            script.display()
        ),
    )?;
    let before = forest(scene)?;
    let request = desk.ask("rm -rf node_modules; echo gone")?;
    same(&before, &forest(scene)?, "the preview changed the host")?;
    let found = "deletes 3 files, 30 B, none tracked by git, none outside the workspace";
    let shown = desk.sjail(["queue", "show", &request])?;
    shown
        .succeeds()?
        .stdout_has(found)?
        .stdout_has("- node_modules  3 files, 30 B")?;
    desk.sjail(["queue", "list"])?
        .succeeds()?
        .stdout_has(found)?;
    wait::until_true("the owner is told", || {
        fs::read_to_string(&told).is_ok_and(|text| text.contains(found))
    })?;
    desk.sjail(["queue", "approve", "--apply", &request])?
        .succeeds()?;
    let run = desk.sjail(["run", "--json", "--approval", &request])?;
    run.succeeds()?;
    let result = run.json()?;
    ensure(result["stdout"] == "gone\n", || format!("{result}"))?;
    ensure(
        !exists(&scene.workspace().join("node_modules")),
        || "it is still there",
    )?;
    desk.sjail(["run", "--approval", &request])?.exits(77)?;
    // The approval, the preview and the keeping of it are in the record.
    let export = desk.sjail(["audit", "export", "--format", "jsonl"])?;
    export.stdout_has("\"preview\"")?.stdout_has("\"apply\"")?;
    let id = result["preview"]["id"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    verb(scene, &["undo", &id])?.succeeds()?;
    same(&before, &forest(scene)?, "undo is not exact")
}

fn at_ones_own_terminal_it_can_be_kept(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    modules(scene)?;
    let mut terminal = scene
        .sjail(["run", "-c", "rm -rf node_modules"])
        .terminal()?;
    terminal.expect("deletes 3 files")?;
    terminal.expect("[k]eep")?;
    terminal.send("k\n")?;
    terminal.expect("sjail undo")?;
    let status = terminal.finish()?;
    ensure(status.success(), || format!("{status:?}"))?;
    ensure(
        !exists(&scene.workspace().join("node_modules")),
        || "it is still there",
    )
}

fn keeping_a_preview_that_would_have_asked_asks(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    modules(scene)?;
    let run = desk.sjail(["run", "--dry-run", "--json", "-c", "rm -rf node_modules"])?;
    run.succeeds()?;
    let id = id(&run.json()?)?;
    let mut terminal = scene.sjail(["commit", "--no-wait", &id]).terminal()?;
    terminal.expect("approval is pending")?;
    terminal.finish()?;
    ensure(
        exists(&scene.workspace().join("node_modules")),
        || "nobody has agreed",
    )?;
    let listed = desk.sjail(["queue", "list", "--json"])?.json()?;
    let request = listed["requests"][0]["id"].as_str().unwrap_or_default();
    desk.sjail(["queue", "show", request])?
        .stdout_has("deletes 3 files")?;
    desk.sjail(["queue", "approve", request])?.succeeds()?;
    verb(scene, &["commit", "--approval", request, &id])?.succeeds()?;
    ensure(
        !exists(&scene.workspace().join("node_modules")),
        || "it is still there",
    )
}

fn what_the_host_changed_since_is_not_written_over(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    modules(scene)?;
    let request = desk.ask("rm -rf node_modules")?;
    scene.file("node_modules/new.js", "the host's own\n")?;
    desk.sjail(["queue", "approve", "--apply", &request])?
        .succeeds()?;
    desk.sjail(["run", "--approval", &request])?
        .exits(125)?
        .stderr_has("node_modules was changed")?;
    ensure(
        exists(&scene.workspace().join("node_modules/new.js")),
        || "it is lost",
    )
}

fn no_preview_where_none_is_wanted(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    modules(scene)?;
    scene.home_file(
        ".config/sjail/policy.toml",
        "[approval]\npreview = \"never\"\n",
    )?;
    let request = desk.ask("rm -rf node_modules")?;
    desk.sjail(["queue", "show", &request])?
        .succeeds()?
        .lacks("deletes")?;
    desk.sjail(["queue", "approve", "--apply", &request])?
        .exits(77)?
        .stderr_has("nothing to apply")?;
    Ok(())
}
