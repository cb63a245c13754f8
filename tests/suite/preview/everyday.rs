//! What a preview shows, and that it leaves the host alone.

use std::fs;

use sjail_tests::{Scene, Stop, Test, Verdict, ensure, tests};

use super::{exists, forest, id, preview, same, verb, workspace};

pub fn tests() -> Vec<Test> {
    tests![
        the_host_is_unchanged_to_the_nanosecond,
        the_result_counts_what_happened,
        differences_are_shown_line_by_line,
        nothing_changed_is_said,
        a_dry_run_needs_no_approval_but_block_blocks,
        granted_places_are_layers_too,
        a_single_writable_file_is_a_copy,
        caches_are_dropped,
        there_is_no_network_unless_asked_for,
        previews_are_listed_and_dropped,
        previews_expire,
        a_killed_preview_leaves_nothing,
        names_of_strangers_are_inert,
        programs_of_the_workspace_run_in_it,
        other_places_are_private,
        files_that_run_later_are_named,
        a_plain_run_names_them_too,
    ]
}

fn the_host_is_unchanged_to_the_nanosecond(scene: &Scene) -> Verdict {
    workspace(scene)?;
    let before = forest(scene)?;
    let output = scene.run(["--dry-run", "--", "sh", "act.sh"]).output()?;
    output.exits(3)?.stdout_is("out\n")?.stderr_has("err\n")?;
    output.stderr_has("nothing on the host has changed")?;
    same(&before, &forest(scene)?, "the preview changed the host")
}

fn the_result_counts_what_happened(scene: &Scene) -> Verdict {
    workspace(scene)?;
    let result = preview(scene, "act.sh", 3)?;
    id(&result)?;
    let totals = &result["preview"]["totals"];
    for (name, count) in [
        ("created", 1),
        ("modified", 2),
        ("deleted", 3),
        ("renamed", 1),
        ("changed", 1),
        ("links", 1),
        ("folders", 2),
    ] {
        if totals[name].as_u64() != Some(count) {
            return Err(Stop::failed(format!("{name} is not {count} in {totals}")));
        }
    }
    let changes = result["changes"].as_array().cloned().unwrap_or_default();
    let find = |path: &str| changes.iter().find(|entry| entry["path"] == path);
    let expected = [
        ("text", "modified"),
        ("gone", "deleted"),
        ("new-name", "created"),
        ("folder", "deleted"),
        ("fresh/deep/file", "created"),
        ("tool", "changed"),
        ("link", "modified"),
    ];
    for (path, act) in expected {
        if find(path).is_none_or(|entry| entry["act"] != act) {
            return Err(Stop::failed(format!("{path} is not {act} in {changes:?}")));
        }
    }
    let renamed = find("new-name").is_some_and(|entry| entry["renamed_from"] == "old-name");
    let mode = find("tool").is_some_and(|entry| entry["mode"] == serde_json::json!([0o644, 0o755]));
    let target = find("link").is_some_and(|entry| entry["target"] == "sub/inner");
    if !renamed || !mode || !target {
        return Err(Stop::failed(format!(
            "{renamed} {mode} {target}: {changes:?}"
        )));
    }
    Ok(())
}

fn differences_are_shown_line_by_line(scene: &Scene) -> Verdict {
    workspace(scene)?;
    scene.file("bytes", [0_u8, 1, 2])?;
    scene.file(
        "more.sh",
        "echo four >> text; printf '\\0\\1\\2\\3' > bytes\n",
    )?;
    let output = scene
        .run(["--dry-run", "--diff", "--", "sh", "more.sh"])
        .output()?;
    output.succeeds()?.stderr_has("+four")?.stderr_has("@@")?;
    output.stderr_has("binary")?.stderr_has("sha256")?;
    let id = id(&preview(scene, "more.sh", 0)?)?;
    let text = verb(scene, &["diff", &id, "text"])?;
    text.succeeds()?.stdout_has("+four")?.lacks("binary")?;
    verb(scene, &["diff", &id])?.stdout_has("binary")?;
    verb(scene, &["diff", "run_nosuch"])?.exits(125)?;
    Ok(())
}

fn nothing_changed_is_said(scene: &Scene) -> Verdict {
    workspace(scene)?;
    let output = scene.run(["--dry-run", "--", "cat", "text"]).output()?;
    output.succeeds()?.stderr_has("nothing would change")?;
    Ok(())
}

fn a_dry_run_needs_no_approval_but_block_blocks(scene: &Scene) -> Verdict {
    workspace(scene)?;
    let before = forest(scene)?;
    // Asked about without --dry-run; refused outright by what cannot ask.
    scene
        .run(["--", "rm", "-rf", "folder"])
        .output()?
        .exits(77)?;
    scene
        .run(["--dry-run", "--", "rm", "-rf", "folder"])
        .output()?
        .succeeds()?
        .stderr_has("- folder/  2 files")?;
    // A policy's deny list.
    scene.home_file(
        ".config/sjail/policy.toml",
        "[commands]\ndeny = [\"touch *\"]\n",
    )?;
    let blocked = scene.run(["--dry-run", "--", "touch", "x"]).output()?;
    blocked.exits(77)?;
    same(&before, &forest(scene)?, "something was changed")
}

fn granted_places_are_layers_too(scene: &Scene) -> Verdict {
    workspace(scene)?;
    let outside = scene.outside_file("data", "old\n")?;
    let folder = scene.outside();
    let folder = folder.to_str().unwrap_or_default();
    scene.file(
        "grant.sh",
        format!("echo new > {folder}/data; echo x > {folder}/made\n"),
    )?;
    let run = [
        "--dry-run",
        "--json",
        "--rw",
        folder,
        "--",
        "sh",
        "grant.sh",
    ];
    let output = scene.run(run).output()?;
    output.succeeds()?;
    if fs::read_to_string(&outside)? != "old\n" || exists(&scene.outside().join("made")) {
        return Err(Stop::failed("a granted place was written"));
    }
    let id = id(&output.json()?)?;
    verb(scene, &["commit", &id])?.succeeds()?;
    if fs::read_to_string(&outside)? != "new\n" || !exists(&scene.outside().join("made")) {
        return Err(Stop::failed("a granted place was not committed"));
    }
    Ok(())
}

fn a_single_writable_file_is_a_copy(scene: &Scene) -> Verdict {
    let file = scene.outside_file("one", "old\n")?;
    scene.outside_file("two", "untouched\n")?;
    let path = file.to_str().unwrap_or_default();
    scene.file("write.sh", format!("echo new > {path}\n"))?;
    let run = ["--dry-run", "--json", "--rw", path, "--", "sh", "write.sh"];
    let output = scene.run(run).output()?;
    output.succeeds()?;
    if fs::read_to_string(&file)? != "old\n" {
        return Err(Stop::failed("a granted file was written"));
    }
    let id = id(&output.json()?)?;
    verb(scene, &["commit", &id])?.succeeds()?;
    if fs::read_to_string(&file)? != "new\n" || !exists(&scene.outside().join("two")) {
        return Err(Stop::failed("a granted file was not committed"));
    }
    Ok(())
}

fn caches_are_dropped(scene: &Scene) -> Verdict {
    scene.file("fill.sh", "echo x > ~/.cache/thing; cat ~/.cache/thing\n")?;
    scene.file("look.sh", "test ! -e ~/.cache/thing\n")?;
    let output = scene.run(["--dry-run", "--", "sh", "fill.sh"]).output()?;
    output.succeeds()?.stdout_is("x\n")?;
    scene.run(["--", "sh", "look.sh"]).output()?.succeeds()?;
    Ok(())
}

fn there_is_no_network_unless_asked_for(scene: &Scene) -> Verdict {
    scene.home_file(".config/sjail/policy.toml", "[network]\nmode = \"host\"\n")?;
    let count = |words: &[&str]| -> Verdict<usize> {
        let all = [words, &["--", "cat", "/proc/net/dev"]].concat();
        let output = scene.run(all).output()?;
        output.succeeds()?;
        Ok(output.stdout.lines().count())
    };
    // Two lines of heading, and the loopback.
    if count(&["--dry-run"])? != 3 {
        return Err(Stop::failed("a preview has the host's network"));
    }
    if count(&["--dry-run", "--net", "host"])? < 3 {
        return Err(Stop::failed("--net was not honoured"));
    }
    Ok(())
}

fn previews_are_listed_and_dropped(scene: &Scene) -> Verdict {
    workspace(scene)?;
    let before = forest(scene)?;
    let id = id(&preview(scene, "act.sh", 3)?)?;
    verb(scene, &["previews"])?.succeeds()?.stdout_has(&id)?;
    let listed = verb(scene, &["previews", "--json"])?.json()?;
    if listed[0]["id"].as_str() != Some(&id) || listed[0]["state"] != "pending" {
        return Err(Stop::failed(format!("not listed: {listed}")));
    }
    verb(scene, &["discard", &id])?.succeeds()?;
    verb(scene, &["previews"])?.succeeds()?.lacks(&id)?;
    verb(scene, &["commit", &id])?.exits(125)?;
    same(
        &before,
        &forest(scene)?,
        "a dropped preview changed the host",
    )
}

/// A week after they were made, or committed.
fn previews_expire(scene: &Scene) -> Verdict {
    const DAY: i64 = 24 * 3600;
    workspace(scene)?;
    let ids = ["act.sh", "act.sh"].map(|script| preview(scene, script, 3));
    let [old, young] = ids.map(|result| result.and_then(|result| id(&result)));
    let (old, young) = (old?, young?);
    // As if it had been made so long ago.
    let age = |id: &str, days: i64| -> Verdict {
        let layer = super::attacks::layer(scene, id)?;
        let folder = layer.ancestors().nth(3).unwrap_or(&layer);
        let record = folder.join("preview.json");
        let mut object: serde_json::Value = serde_json::from_slice(&fs::read(&record)?)?;
        let made = object["time"].as_i64().unwrap_or_default();
        object["time"] = serde_json::json!(made - days * DAY);
        Ok(fs::write(record, object.to_string())?)
    };
    age(&old, 8)?;
    age(&young, 6)?;
    let folder = super::attacks::layer(scene, &old)?;
    verb(scene, &["previews"])?
        .succeeds()?
        .lacks(&old)?
        .stdout_has(&young)?;
    ensure(!exists(&folder), || "its layer is left")?;
    verb(scene, &["commit", &old])?.exits(125)?;
    // What is committed can be taken back for another week.
    verb(scene, &["commit", &young])?.succeeds()?;
    age(&young, 6)?;
    verb(scene, &["undo", &young])?.succeeds()?;
    verb(scene, &["previews"])?.succeeds()?.lacks(&young)?;
    Ok(())
}

fn a_killed_preview_leaves_nothing(scene: &Scene) -> Verdict {
    workspace(scene)?;
    scene.file("hang.sh", "echo x > made; echo ready; exec sleep 1000\n")?;
    let before = forest(scene)?;
    let mut running = scene.run(["--dry-run", "--", "sh", "hang.sh"]).start()?;
    running.line()?;
    running.signal(nix::sys::signal::Signal::SIGKILL)?;
    running.finish()?;
    verb(scene, &["previews"])?.succeeds()?.lacks("hang.sh")?;
    let sandboxes = scene.home().join(".local/state/sjail/sandboxes");
    for sandbox in fs::read_dir(sandboxes)?.flatten() {
        let left: Vec<_> = fs::read_dir(sandbox.path().join("previews"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        if !left.is_empty() {
            return Err(Stop::failed(format!("left behind: {left:?}")));
        }
    }
    same(
        &before,
        &forest(scene)?,
        "a killed preview changed the host",
    )
}

fn names_of_strangers_are_inert(scene: &Scene) -> Verdict {
    scene.file(
        "paint.sh",
        "printf 'x\\033[2Jy\\n' > text; echo > \"$(printf 'n\\033[31mame')\"\n",
    )?;
    let output = scene
        .run(["--dry-run", "--diff", "--", "sh", "paint.sh"])
        .output()?;
    output.succeeds()?.lacks("\u{1b}")?;
    Ok(())
}

fn programs_of_the_workspace_run_in_it(scene: &Scene) -> Verdict {
    scene.script("own", "#!/bin/sh\necho own > made; cat made\n")?;
    let output = scene.run(["--dry-run", "--", "./own"]).output()?;
    output.succeeds()?.stdout_is("own\n")?;
    fs::create_dir(scene.workspace().join("below"))?;
    let below = scene.run(["--dry-run", "--workspace", "..", "--", "../own"]);
    let output = below.cwd(scene.workspace().join("below")).output()?;
    output.succeeds()?.stdout_is("own\n")?;
    Ok(())
}

/// `/tmp` and home are the jail's own in a preview as in any run.
fn other_places_are_private(scene: &Scene) -> Verdict {
    scene.file(
        "spread.sh",
        "echo x > /tmp/x; echo y > ~/y; cat /tmp/x ~/y\n",
    )?;
    let output = scene.run(["--dry-run", "--", "sh", "spread.sh"]).output()?;
    output.succeeds()?.stdout_is("x\ny\n")?;
    output.stderr_has("nothing would change")?;
    if exists(&scene.home().join("y")) {
        return Err(Stop::failed("the home was written"));
    }
    Ok(())
}

fn files_that_run_later_are_named(scene: &Scene) -> Verdict {
    scene.file(
        "plant.sh",
        "mkdir -p sub; echo 'all:' > sub/Makefile; echo x > .envrc\n",
    )?;
    let result = preview(scene, "plant.sh", 0)?;
    let named = result["auto_exec"].to_string();
    if !named.contains("sub/Makefile") || !named.contains(".envrc") {
        return Err(Stop::failed(format!("not named: {named}")));
    }
    Ok(())
}

fn a_plain_run_names_them_too(scene: &Scene) -> Verdict {
    scene.file("package.json", "{}")?;
    scene.file("Makefile", "all:\n")?;
    scene.file("plant.sh", "echo '{ }' > package.json; cat Makefile\n")?;
    // What is as old as the run, by the coarse clock that files are stamped with, is named
    // in doubt: let that clock pass.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let output = scene.run(["--json", "--", "sh", "plant.sh"]).output()?;
    output.succeeds()?.stderr_has("package.json was written")?;
    let named = output.json()?["auto_exec"].to_string();
    if !named.contains("package.json") || named.contains("Makefile") {
        return Err(Stop::failed(format!("wrongly named: {named}")));
    }
    Ok(())
}
