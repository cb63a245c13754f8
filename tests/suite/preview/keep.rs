//! Commit applies exactly what was seen, undo takes it back, and the host's own changes
//! are never lost.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use sjail_tests::forest::set_attribute;
use sjail_tests::{Scene, Stop, Test, Verdict, ensure, tests};

use super::{exists, forest, id, preview, same, verb, workspace};

pub fn tests() -> Vec<Test> {
    tests![
        a_commit_is_what_a_run_would_have_done,
        undo_is_exact_and_can_be_committed_again,
        a_part_can_be_committed,
        a_part_of_a_new_folder_can_be_committed,
        the_hosts_own_changes_are_conflicts,
        what_the_host_changes_during_the_preview_is_a_conflict,
        a_rewritten_but_equal_file_is_no_conflict,
        undo_sees_later_changes,
        links_attributes_and_holes_survive,
        a_file_with_several_names_is_said,
        protected_names_are_never_committed,
        a_new_repository_is_judged,
        git_configuration_stays_out,
        folders_become_files_and_back,
        other_file_systems_work,
        a_folder_made_anew_hides_what_was_in_it,
        a_folder_keeps_its_time,
        a_path_that_is_no_change_is_a_mistake,
        what_was_not_chosen_is_told,
        a_time_is_a_change,
        content_is_what_tells_a_rename,
        a_half_way_preview_is_not_dropped,
    ]
}

fn a_commit_is_what_a_run_would_have_done(scene: &Scene) -> Verdict {
    workspace(scene)?;
    let start = scene.scratch().join("start");
    scene
        .host("cp")
        .args(["-a", "."])
        .args([&start])
        .output()?
        .succeeds()?;
    let id = id(&preview(scene, "act.sh", 3)?)?;
    verb(scene, &["commit", &id])?.succeeds()?;
    let committed = forest(scene)?;
    // The same, for real, on the copy.
    fs::remove_dir_all(scene.workspace())?;
    fs::rename(&start, scene.workspace())?;
    scene.run(["--", "sh", "act.sh"]).output()?.exits(3)?;
    let differences = committed.differences(&forest(scene)?, 0);
    ensure(differences.is_empty(), || differences.join("; "))
}

fn undo_is_exact_and_can_be_committed_again(scene: &Scene) -> Verdict {
    workspace(scene)?;
    let before = forest(scene)?;
    let id = id(&preview(scene, "act.sh", 3)?)?;
    verb(scene, &["undo", &id])?.exits(125)?;
    verb(scene, &["commit", &id])?.succeeds()?;
    let after = forest(scene)?;
    verb(scene, &["commit", &id])?
        .exits(125)?
        .stderr_has("undo")?;
    verb(scene, &["undo", &id])?.succeeds()?;
    same(&before, &forest(scene)?, "undo is not exact")?;
    verb(scene, &["commit", &id])?.succeeds()?;
    same(&after, &forest(scene)?, "the second commit differs")
}

fn a_part_can_be_committed(scene: &Scene) -> Verdict {
    workspace(scene)?;
    let id = id(&preview(scene, "act.sh", 3)?)?;
    verb(scene, &["commit", &id, "text", "folder"])?.succeeds()?;
    let work = scene.workspace();
    ensure(scene.read("text")?.contains("four"), || "text")?;
    ensure(!exists(&work.join("folder")), || "folder")?;
    ensure(exists(&work.join("gone")), || "gone")?;
    ensure(!exists(&work.join("fresh")), || "fresh")
}

fn a_part_of_a_new_folder_can_be_committed(scene: &Scene) -> Verdict {
    scene.file(
        "make.sh",
        "mkdir -p n/m; echo 1 > n/m/one; echo 2 > n/m/two; chmod 750 n\n",
    )?;
    let before = forest(scene)?;
    let id = id(&preview(scene, "make.sh", 0)?)?;
    verb(scene, &["commit", &id, "n/m/one"])?.succeeds()?;
    let work = scene.workspace();
    ensure(
        exists(&work.join("n/m/one")) && !exists(&work.join("n/m/two")),
        || "parts",
    )?;
    ensure(
        fs::metadata(work.join("n"))?.mode() & 0o777 == 0o750,
        || "mode",
    )?;
    verb(scene, &["undo", &id])?.succeeds()?;
    let differences = before.differences(&forest(scene)?, 0);
    ensure(differences.is_empty(), || differences.join("; "))
}

fn the_hosts_own_changes_are_conflicts(scene: &Scene) -> Verdict {
    workspace(scene)?;
    let id = id(&preview(scene, "act.sh", 3)?)?;
    scene.file("text", "the host's own\n")?;
    scene.file("folder/deep/new", "the host's own\n")?;
    scene.file("new-name", "the host's own\n")?;
    let before = forest(scene)?;
    let refused = verb(scene, &["commit", &id])?;
    refused.exits(125)?.stderr_has("--force")?;
    for name in ["/text ", "/folder ", "/new-name "] {
        refused.stderr_has(name)?;
    }
    same(
        &before,
        &forest(scene)?,
        "a refused commit changed something",
    )?;
    verb(scene, &["commit", "--force", &id])?.succeeds()?;
    ensure(scene.read("text")?.contains("four"), || "not forced")?;
    verb(scene, &["undo", &id])?.succeeds()?;
    same(&before, &forest(scene)?, "the host's own changes are lost")
}

fn what_the_host_changes_during_the_preview_is_a_conflict(scene: &Scene) -> Verdict {
    workspace(scene)?;
    scene.file(
        "slow.sh",
        "echo four >> text; echo ready; read line; exit 0\n",
    )?;
    let mut running = scene.run(["--dry-run", "--", "sh", "slow.sh"]).start()?;
    running.line()?;
    scene.file("text", "the host's own\n")?;
    let output = running.finish()?;
    output.succeeds()?;
    let listed = verb(scene, &["previews", "--json"])?.json()?;
    let id = listed[0]["id"].as_str().unwrap_or_default().to_owned();
    verb(scene, &["commit", &id])?
        .exits(125)?
        .stderr_has("/text ")?;
    ensure(
        scene.read("text")? == "the host's own\n",
        || "it was written over",
    )
}

fn a_rewritten_but_equal_file_is_no_conflict(scene: &Scene) -> Verdict {
    workspace(scene)?;
    scene.file("more.sh", "echo four >> text\n")?;
    let id = id(&preview(scene, "more.sh", 0)?)?;
    scene.file("text", "one\ntwo\nthree\n")?;
    verb(scene, &["commit", &id])?.succeeds()?;
    ensure(scene.read("text")?.contains("four"), || "not committed")
}

fn undo_sees_later_changes(scene: &Scene) -> Verdict {
    workspace(scene)?;
    let id = id(&preview(scene, "act.sh", 3)?)?;
    verb(scene, &["commit", &id])?.succeeds()?;
    scene.file("text", "later work\n")?;
    scene.file("fresh/deep/added", "later work\n")?;
    scene.file("gone", "made again\n")?;
    let refused = verb(scene, &["undo", &id])?;
    refused
        .exits(125)?
        .stderr_has("/text ")?
        .stderr_has("/fresh ")?;
    refused.stderr_has("/gone ")?;
    ensure(
        scene.read("text")? == "later work\n",
        || "it was written over",
    )
}

fn links_attributes_and_holes_survive(scene: &Scene) -> Verdict {
    let kept = scene.file("kept", "kept\n")?;
    if set_attribute(&kept, "user.mark", b"here").is_err() {
        return scene.skip("this file system has no attributes");
    }
    scene.file(
        "make.sh",
        "echo more >> kept
echo x > first; ln first second; mkdir d; ln first d/third
ln kept also
truncate -s 4M holes; printf end >> holes
mkfifo pipe
touch -d @1000000000 first
mkdir -m 750 special
",
    )?;
    let id = id(&preview(scene, "make.sh", 0)?)?;
    verb(scene, &["commit", &id])?.succeeds()?;
    let now = forest(scene)?;
    let leaf = |path: &str| {
        let found = now.0.get(std::path::Path::new(path));
        found.ok_or_else(|| Stop::failed(format!("{path} is missing")))
    };
    ensure(
        leaf("kept")?
            .attributes
            .contains_key(b"user.mark".as_slice()),
        || "attribute",
    )?;
    ensure(
        leaf("kept")?.same_as == leaf("also")?.same_as,
        || "link of an old file",
    )?;
    ensure(leaf("first")?.same_as == leaf("second")?.same_as, || "link")?;
    ensure(
        leaf("first")?.same_as == leaf("d/third")?.same_as,
        || "link into a folder",
    )?;
    ensure(leaf("first")?.mtime == (1_000_000_000, 0), || "time")?;
    ensure(leaf("holes")?.sparse, || "holes are filled")?;
    ensure(leaf("pipe")?.kind == "pipe", || "pipe")?;
    ensure(leaf("special")?.mode == 0o750, || "permissions")?;
    let foreign = now.0.values().flat_map(|leaf| leaf.attributes.keys());
    ensure(
        !foreign
            .clone()
            .any(|name| name.starts_with(b"user.overlay")),
        || {
            format!(
                "an overlay's notes were committed: {:?}",
                foreign.collect::<Vec<_>>()
            )
        },
    )
}

/// A known edge: an overlay parts the names of one file.
fn a_file_with_several_names_is_said(scene: &Scene) -> Verdict {
    let one = scene.file("one", "same\n")?;
    fs::hard_link(&one, scene.workspace().join("two"))?;
    scene.file("more.sh", "echo more >> one\n")?;
    let output = scene.run(["--dry-run", "--", "sh", "more.sh"]).output()?;
    output
        .succeeds()?
        .stderr_has("one of 2 names of the same file")?;
    Ok(())
}

fn protected_names_are_never_committed(scene: &Scene) -> Verdict {
    scene.file(
        "plant.sh",
        "echo evil > .envrc; mkdir -p .vscode n; echo '{}' > .vscode/tasks.json
echo fine > n/fine; git init -q n; echo evil > n/.envrc
",
    )?;
    scene.needs(&["git"])?;
    let result = preview(scene, "plant.sh", 0)?;
    let id = id(&result)?;
    for force in [&["commit", &id][..], &["commit", "--force", &id]] {
        let output = verb(scene, force)?;
        output.succeeds()?.stderr_has(".envrc was not committed")?;
        for name in [".envrc", ".vscode/tasks.json", "n/.envrc"] {
            ensure(!exists(&scene.workspace().join(name)), || name)?;
        }
        ensure(exists(&scene.workspace().join("n/fine")), || "n/fine")?;
        verb(scene, &["undo", &id])?.succeeds()?;
    }
    Ok(())
}

fn a_new_repository_is_judged(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    scene.file(
        "plant.sh",
        "git init -q r; git -C r config core.fsmonitor /tmp/evil; git -C r config user.name t
printf '#!/bin/sh\\n' > r/.git/hooks/pre-commit; chmod +x r/.git/hooks/pre-commit
",
    )?;
    let id = id(&preview(scene, "plant.sh", 0)?)?;
    verb(scene, &["commit", &id])?.succeeds()?;
    let config = scene.read("r/.git/config")?;
    ensure(config.contains("name = t"), || config.clone())?;
    ensure(!config.contains("evil"), || config.clone())?;
    ensure(
        !exists(&scene.workspace().join("r/.git/hooks/pre-commit")),
        || "a hook",
    )?;
    let status = scene.host("git").args(["-C", "r", "status"]).output()?;
    status.succeeds()?;
    Ok(())
}

fn git_configuration_stays_out(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    scene
        .host("git")
        .args(["init", "-q", "."])
        .output()?
        .succeeds()?;
    let before = scene.read(".git/config")?;
    let add = [
        "--dry-run",
        "--json",
        "--",
        "git",
        "config",
        "core.fsmonitor",
        "evil",
    ];
    let output = scene.run(add).output()?;
    output.succeeds()?;
    let id = id(&output.json()?)?;
    verb(scene, &["commit", &id])?
        .succeeds()?
        .stderr_has("was not committed")?;
    ensure(scene.read(".git/config")? == before, || "it was committed")
}

fn folders_become_files_and_back(scene: &Scene) -> Verdict {
    scene.file("a/b", "b\n")?;
    scene.file("c", "c\n")?;
    symlink("c", scene.workspace().join("d"))?;
    fs::set_permissions(
        scene.workspace().join("a"),
        fs::Permissions::from_mode(0o750),
    )?;
    scene.file(
        "turn.sh",
        "rm -r a; echo file > a; rm c; mkdir c; echo x > c/x; rm d; mkdir d\n",
    )?;
    let before = forest(scene)?;
    let id = id(&preview(scene, "turn.sh", 0)?)?;
    verb(scene, &["commit", &id])?.succeeds()?;
    ensure(
        scene.read("a")? == "file\n" && scene.read("c/x")? == "x\n",
        || "turned",
    )?;
    verb(scene, &["undo", &id])?.succeeds()?;
    same(&before, &forest(scene)?, "undo is not exact")
}

/// The state on another file system than the workspace: what is put is staged beside it.
fn other_file_systems_work(scene: &Scene) -> Verdict {
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else {
        return scene.skip("/dev/shm cannot be written");
    };
    let device = |path: &std::path::Path| fs::metadata(path).map(|meta| meta.dev());
    if device(other.path())? == device(&scene.home())? {
        return scene.skip("/dev/shm is on the same file system as the scratch folder");
    }
    workspace(scene)?;
    let before = forest(scene)?;
    let here = |words: &[&str]| {
        let call = scene.sjail(words).env("XDG_STATE_HOME", other.path());
        call.output()
    };
    let output = here(&[
        "run",
        "--no-broker",
        "--dry-run",
        "--json",
        "--",
        "sh",
        "act.sh",
    ])?;
    output.exits(3)?;
    let id = id(&output.json()?)?;
    same(&before, &forest(scene)?, "the preview changed the host")?;
    here(&["commit", &id])?.succeeds()?;
    let work = scene.workspace();
    ensure(
        !exists(&work.join(format!(".sjail-{id}"))),
        || "the stage is left",
    )?;
    ensure(scene.read("text")?.contains("four"), || "text")?;
    ensure(!exists(&work.join("folder")), || "folder")?;
    let after = forest(scene)?;
    here(&["undo", &id])?.succeeds()?;
    same(&before, &forest(scene)?, "undo is not exact")?;
    here(&["commit", &id])?.succeeds()?;
    same(&after, &forest(scene)?, "the second commit differs")
}

/// Only the topmost folder carries the overlay's mark; those below it are new as well.
fn a_folder_made_anew_hides_what_was_in_it(scene: &Scene) -> Verdict {
    scene.file("d/a/b", "old\n")?;
    scene.file("d/a/deep/c", "old\n")?;
    scene.file(
        "again.sh",
        "rm -r d; mkdir -p d/a/deep; echo new > d/a/deep/n\n",
    )?;
    let id = id(&preview(scene, "again.sh", 0)?)?;
    verb(scene, &["commit", &id])?.succeeds()?;
    let work = scene.workspace();
    ensure(!exists(&work.join("d/a/b")), || "an old file is left")?;
    ensure(
        !exists(&work.join("d/a/deep/c")),
        || "an old file is left deep down",
    )?;
    ensure(scene.read("d/a/deep/n")? == "new\n", || "the new file")
}

/// A file that is written again does not change the time of its folder; nor does a commit.
fn a_folder_keeps_its_time(scene: &Scene) -> Verdict {
    scene.file("sub/file", "old\n")?;
    scene.file("write.sh", "echo new > sub/file\n")?;
    let before = forest(scene)?;
    let id = id(&preview(scene, "write.sh", 0)?)?;
    let folder = |forest: &sjail_tests::forest::Forest| {
        forest
            .0
            .get(std::path::Path::new("sub"))
            .map(|leaf| leaf.mtime)
    };
    verb(scene, &["commit", &id])?.succeeds()?;
    ensure(folder(&before) == folder(&forest(scene)?), || "commit")?;
    verb(scene, &["undo", &id])?.succeeds()?;
    same(&before, &forest(scene)?, "undo is not exact")
}

fn a_path_that_is_no_change_is_a_mistake(scene: &Scene) -> Verdict {
    workspace(scene)?;
    let before = forest(scene)?;
    let id = id(&preview(scene, "act.sh", 3)?)?;
    for words in [&["commit", &id, "nosuch"][..], &["diff", &id, "nosuch"]] {
        verb(scene, words)?
            .exits(125)?
            .stderr_has("changes nothing at")?;
    }
    verb(scene, &["commit", &id, "text", "sub/inner"])?
        .exits(125)?
        .stderr_has("sub/inner")?;
    verb(scene, &["commit", &id, "folder/a"])?
        .exits(125)?
        .stderr_has("as a whole")?;
    same(&before, &forest(scene)?, "something was committed")?;
    let json = verb(scene, &["diff", "--json", &id, "text"])?;
    ensure(json.succeeds()?.stdout.lines().count() == 1, || {
        json.stdout.clone()
    })
}

fn what_was_not_chosen_is_told(scene: &Scene) -> Verdict {
    workspace(scene)?;
    let id = id(&preview(scene, "act.sh", 3)?)?;
    let output = verb(scene, &["commit", "--json", &id, "text"])?;
    let left = output.succeeds()?.json()?["left_out"].as_u64();
    ensure(left.is_some_and(|left| left >= 6), || format!("{left:?}"))?;
    verb(scene, &["diff", &id])?
        .succeeds()?
        .stdout_has("it is committed")?
        .stdout_has(&format!("sjail undo {id}"))?
        .lacks("nothing on the host has changed")?;
    verb(scene, &["undo", &id])?.succeeds()?;
    let output = verb(scene, &["commit", &id, "text"])?;
    output.succeeds()?.stderr_has("changes were not chosen")?;
    Ok(())
}

fn a_time_is_a_change(scene: &Scene) -> Verdict {
    scene.file("text", "text\n")?;
    let before = forest(scene)?;
    let touch = [
        "--dry-run",
        "--json",
        "--",
        "touch",
        "-d",
        "@1000000000",
        "text",
    ];
    let output = scene.run(touch).output()?;
    output.succeeds()?.stderr_has("1 with another time")?;
    let id = id(&output.json()?)?;
    verb(scene, &["diff", &id])?
        .succeeds()?
        .stdout_has("time ")?;
    verb(scene, &["commit", &id])?.succeeds()?;
    let time = fs::metadata(scene.workspace().join("text"))?.mtime();
    ensure(time == 1_000_000_000, || format!("{time}"))?;
    verb(scene, &["undo", &id])?.succeeds()?;
    same(&before, &forest(scene)?, "undo is not exact")?;
    // The old time does not come back to a file that was written since.
    verb(scene, &["commit", &id])?.succeeds()?;
    scene.file("text", "later work\n")?;
    verb(scene, &["undo", &id])?
        .exits(125)?
        .stderr_has("/text has been changed since")?;
    Ok(())
}

/// As many files, as many bytes, the same names: but not the same.
fn content_is_what_tells_a_rename(scene: &Scene) -> Verdict {
    for folder in ["one", "two"] {
        scene.file(&format!("{folder}/a"), "aaaa\n")?;
        scene.file(&format!("{folder}/b"), "bbbb\n")?;
    }
    scene.file("text", "same length\n")?;
    scene.file("moved", "moved\n")?;
    scene.file(
        "act.sh",
        "set -e; cp -a one three; rm -r one; rm -r two; mkdir four; echo evil > four/a; echo bbbb > four/b
rm text; echo 'SAME LENGTH' > other; mv moved away; chmod 755 away\n",
    )?;
    let result = preview(scene, "act.sh", 0)?;
    let changes = result["changes"].as_array().cloned().unwrap_or_default();
    let from = |path: &str| {
        let entry = changes.iter().find(|entry| entry["path"] == path);
        entry.map(|entry| entry["renamed_from"].clone())
    };
    for (path, expected) in [
        ("three", serde_json::json!("one")),
        ("three/a", serde_json::json!("one/a")),
        ("four", serde_json::Value::Null),
        ("four/a", serde_json::Value::Null),
        ("other", serde_json::Value::Null),
        ("away", serde_json::json!("moved")),
    ] {
        ensure(from(path) == Some(expected.clone()), || {
            format!("{path} is not from {expected}: {changes:?}")
        })?;
    }
    let away = changes.iter().find(|entry| entry["path"] == "away");
    let mode = away.map(|entry| entry["mode"].clone());
    ensure(mode == Some(serde_json::json!([0o644, 0o755])), || {
        format!("{mode:?}")
    })
}

/// A commit that can neither be finished nor taken back keeps its folder; what is in the
/// way of one file is in the way of no other.
fn a_half_way_preview_is_not_dropped(scene: &Scene) -> Verdict {
    workspace(scene)?;
    let before = forest(scene)?;
    let id = id(&preview(scene, "act.sh", 3)?)?;
    verb(scene, &["commit", &id])?.succeeds()?;
    // As if it had been killed while it was taken back, and the host had gone on.
    let sandboxes = scene.home().join(".local/state/sjail/sandboxes");
    let mut record = None;
    for sandbox in fs::read_dir(sandboxes)?.flatten() {
        let path = sandbox
            .path()
            .join("previews")
            .join(&id)
            .join("preview.json");
        record = record.or(exists(&path).then_some(path));
    }
    let record = record.ok_or_else(|| Stop::failed("the record is not found"))?;
    let text = fs::read_to_string(&record)?;
    fs::write(&record, text.replace("\"committed\",", "\"undoing\","))?;
    let work = scene.workspace();
    fs::write(work.join("draft"), "the host's own\n")?;
    fs::rename(work.join("draft"), work.join("text"))?;
    let refused = verb(scene, &["discard", &id])?;
    refused
        .exits(125)?
        .stderr_has("/text: somebody changed it")?
        .stderr_has("half on the host")?;
    ensure(scene.read("text")? == "the host's own\n", || "it is lost")?;
    ensure(
        exists(&work.join("gone")) && exists(&work.join("folder/deep/b")),
        || "the rest was not taken back",
    )?;
    verb(scene, &["undo", &id])?.exits(125)?;
    verb(scene, &["undo", "--force", &id])?.succeeds()?;
    same(&before, &forest(scene)?, "undo is not exact")
}
