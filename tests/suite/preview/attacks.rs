//! What a command in a preview tries in order to change the host anyway, then or later.

use std::fs;
use std::os::unix::fs::symlink;

use sjail_tests::forest::set_attribute;
use sjail_tests::{Scene, Test, Verdict, ensure, tests};

use super::{exists, id, preview, verb};
use crate::desk::Desk;

pub fn tests() -> Vec<Test> {
    tests![
        overlay_notes_cannot_be_forged,
        a_commit_goes_through_no_link,
        whiteouts_cannot_be_made,
        the_layers_are_out_of_sight,
        a_commit_is_no_way_around_an_approval,
        a_layer_that_was_changed_is_not_committed,
        a_stage_that_leads_elsewhere_is_not_followed,
    ]
}

/// With such a note of its own making, a command could hide or show what it wants. The
/// kernel keeps what is written inside apart, and none of it is committed.
fn overlay_notes_cannot_be_forged(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let probe = scene.outside_file("probe", "")?;
    // The control: outside an overlay the names are anybody's.
    if set_attribute(&probe, "user.overlay.opaque", b"y").is_err() {
        return scene.skip("this file system has no attributes");
    }
    scene.file("kept/a", "a\n")?;
    scene.file("kept/b", "b\n")?;
    scene.file(
        "forge.py",
        "import os
os.mkdir('made')
open('made/f', 'w').close()
open('kept/c', 'w').close()
for path in ['kept', 'kept/a', 'kept/c', 'made', 'made/f', '.']:
    for name in ['opaque', 'whiteout', 'redirect', 'metacopy', 'origin', 'impure', 'overlay.opaque']:
        for value in [b'y', b'x', b'/made', b'']:
            try:
                os.setxattr(path, 'user.overlay.' + name, value)
            except OSError:
                pass
",
    )?;
    let output = scene
        .run(["--dry-run", "--json", "--", "python3", "forge.py"])
        .output()?;
    output.succeeds()?;
    let result = output.json()?;
    ensure(result["preview"]["totals"]["deleted"] == 0, || {
        format!("a forged note deletes: {result}")
    })?;
    let id = id(&result)?;
    verb(scene, &["commit", &id])?.succeeds()?;
    for name in ["kept/a", "kept/b", "kept/c", "made/f"] {
        ensure(exists(&scene.workspace().join(name)), || {
            format!("{name} is gone")
        })?;
    }
    let forest = super::forest(scene)?;
    for (path, leaf) in &forest.0 {
        let forged = leaf
            .attributes
            .keys()
            .any(|name| name.starts_with(b"user.overlay"));
        ensure(!forged, || {
            format!("{} carries a forged note", path.display())
        })?;
    }
    Ok(())
}

/// Between preview and commit a folder becomes a link that leads elsewhere.
fn a_commit_goes_through_no_link(scene: &Scene) -> Verdict {
    scene.file("sub/file", "old\n")?;
    scene.outside_file("file", "the host's own\n")?;
    scene.file(
        "write.sh",
        "echo new > sub/file; echo more > sub/other; rm -f sub/nothing\n",
    )?;
    let id = id(&preview(scene, "write.sh", 0)?)?;
    fs::rename(
        scene.workspace().join("sub"),
        scene.workspace().join("away"),
    )?;
    symlink(scene.outside(), scene.workspace().join("sub"))?;
    for words in [&["commit", &id][..], &["commit", "--force", &id]] {
        verb(scene, words)?;
        let file = fs::read_to_string(scene.outside().join("file"))?;
        ensure(
            file == "the host's own\n",
            || "it was written through a link",
        )?;
        ensure(
            !exists(&scene.outside().join("other")),
            || "it was made through a link",
        )?;
    }
    Ok(())
}

fn whiteouts_cannot_be_made(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    scene.file("kept", "kept\n")?;
    scene.file(
        "mark.py",
        "import os, stat
try:
    os.mknod('made', stat.S_IFCHR | 0o666, os.makedev(0, 0))
    print('made')
except OSError:
    print('refused')
",
    )?;
    let output = scene
        .run(["--dry-run", "--", "python3", "mark.py"])
        .output()?;
    output.succeeds()?.stdout_is("refused\n")?;
    Ok(())
}

/// Neither the path of the layers nor anything in it is seen inside.
fn the_layers_are_out_of_sight(scene: &Scene) -> Verdict {
    let state = scene.home().join(".local/state");
    scene.file(
        "look.sh",
        format!(
            "cat /proc/self/mountinfo; ls {0} && echo SEEN; find / -path '*/layers/*' 2>/dev/null\n",
            state.display()
        ),
    )?;
    let output = scene.run(["--dry-run", "--", "sh", "look.sh"]).output()?;
    ensure(
        !output.stdout.contains("previews") && !output.stdout.contains("SEEN"),
        || format!("the layers are seen: {}", output.stdout),
    )?;
    output.stdout_has("overlay")?;
    Ok(())
}

/// A dry run needs no approval, so what would have asked must not be committed without.
fn a_commit_is_no_way_around_an_approval(scene: &Scene) -> Verdict {
    scene.file("folder/a", "a\n")?;
    let run = ["--dry-run", "--json", "--", "rm", "-rf", "folder"];
    let output = scene.run(run).output()?;
    output.succeeds()?;
    let id = id(&output.json()?)?;
    // Ends the broker that is asked.
    let _desk = Desk::at(scene);
    for words in [
        &["commit", "--no-wait", &id][..],
        &["commit", "--no-wait", "--force", &id],
    ] {
        verb(scene, words)?
            .exits(75)?
            .stderr_has("approval is pending")?;
        ensure(exists(&scene.workspace().join("folder/a")), || "it is gone")?;
    }
    Ok(())
}

/// What is committed is what was recorded, not what somebody has put into the layer since.
fn a_layer_that_was_changed_is_not_committed(scene: &Scene) -> Verdict {
    scene.file("text", "old\n")?;
    scene.file(
        "make.sh",
        "echo new > text; mkdir -p made/deep; echo in > made/deep/file\n",
    )?;
    let before = super::forest(scene)?;
    type Change = fn(&std::path::Path) -> std::io::Result<()>;
    let changes: [Change; 4] = [
        |upper| fs::write(upper.join("text"), "evil"),
        |upper| fs::write(upper.join("made/deep/file"), "evil"),
        |upper| fs::write(upper.join("made/deep/more"), "evil"),
        |upper| {
            fs::remove_file(upper.join("made/deep/file"))?;
            symlink("/etc/passwd", upper.join("made/deep/file"))
        },
    ];
    for change in changes {
        let id = id(&preview(scene, "make.sh", 0)?)?;
        change(&layer(scene, &id)?)?;
        for words in [&["commit", &id][..], &["commit", "--force", &id]] {
            verb(scene, words)?
                .exits(125)?
                .stderr_has("was changed since")?;
        }
        super::same(&before, &super::forest(scene)?, "it was committed")?;
        verb(scene, &["discard", &id])?.succeeds()?;
    }
    Ok(())
}

/// On another file system a commit stages in the workspace, where a jail that runs meanwhile
/// writes too: it swaps what is there for links. Here it has done so before.
fn a_stage_that_leads_elsewhere_is_not_followed(scene: &Scene) -> Verdict {
    let other = tempfile::tempdir_in("/dev/shm")?;
    let here = |words: &[&str]| {
        let call = scene.sjail(words);
        call.env("XDG_STATE_HOME", other.path()).output()
    };
    scene.file("sub/file", "old\n")?;
    scene.file("gone/deep/file", "old\n")?;
    scene.outside_file("file", "the host's own\n")?;
    fs::create_dir_all(scene.outside().join("stage/sub"))?;
    scene.outside_file("stage/sub/file", "the host's own\n")?;
    let outside = sjail_tests::forest::Forest::of(&scene.outside())?;
    scene.file(
        "write.sh",
        "echo new > sub/file; mkdir made; echo more > made/file; rm -r gone\n",
    )?;
    let run = ["run", "--no-broker", "--quiet", "--dry-run", "--json"];
    for way in ["stage/sub", "stage", "backup", ""] {
        let output = here(&[&run[..], &["--", "sh", "write.sh"]].concat())?;
        output.succeeds()?;
        let id = id(&output.json()?)?;
        let before = super::forest(scene)?;
        let guest = scene.workspace().join(format!(".sjail-{id}"));
        let link = guest.join(way);
        if let Some(folder) = link.parent() {
            fs::create_dir_all(folder)?;
        }
        // Without a slash at its end the last one is the folder itself.
        let link: std::path::PathBuf = link.components().collect();
        symlink(scene.outside(), &link)?;
        let output = here(&["commit", &id])?;
        super::same(
            &outside,
            &sjail_tests::forest::Forest::of(&scene.outside())?,
            &format!("a link at {way} was followed"),
        )?;
        output.exits(125)?.stderr_has("the host is as it was")?;
        // The way is clear again, and the commit can be made.
        let _ = fs::remove_file(&link);
        here(&["commit", &id])?.succeeds()?;
        here(&["undo", &id])?.succeeds()?;
        // But for the folder's time, which the links have changed.
        let differences = before.differences(&super::forest(scene)?, 0);
        ensure(differences.is_empty(), || differences.join("; "))?;
        here(&["discard", &id])?.succeeds()?;
    }
    Ok(())
}

/// The layer of a preview's first place.
pub fn layer(scene: &Scene, id: &str) -> Verdict<std::path::PathBuf> {
    let sandboxes = scene.home().join(".local/state/sjail/sandboxes");
    for sandbox in fs::read_dir(sandboxes)?.flatten() {
        let path = sandbox
            .path()
            .join("previews")
            .join(id)
            .join("layers/0/upper");
        if exists(&path) {
            return Ok(path);
        }
    }
    Err(sjail_tests::Stop::failed(format!("no layer of {id}")))
}
