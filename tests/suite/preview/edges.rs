//! Where an overlay is not like the folder below it: each known edge by itself, and that
//! it is said when it bites.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use sjail_tests::{Scene, Stop, Test, Verdict, ensure, tests};

use super::{exists, forest, id, same, verb};

pub fn tests() -> Vec<Test> {
    tests![
        a_folder_that_could_not_be_renamed_is_named,
        a_folder_that_was_copied_instead_is_not,
        a_closed_folder_that_was_only_copied_is_named,
        a_file_that_the_kernel_has_copied_keeps_its_holes,
        somebody_elses_file_is_told,
        a_workspace_of_another_group_is_copied,
        what_is_mounted_below_is_shown_and_stays,
        a_layer_on_an_overlay_is_a_copy,
        a_copy_shares_blocks_where_it_can,
        what_is_too_large_to_copy_is_refused,
        the_overlays_scratch_is_gone,
        folders_deeper_than_a_path_are_left_out,
        processes_and_refusals_are_told,
    ]
}

fn python(scene: &Scene, flags: &[&str], code: &str) -> Verdict<sjail_tests::Output> {
    scene.needs(&["python3"])?;
    let words = [&["--dry-run"], flags, &["--", "python3", "-c", code]].concat();
    scene.run(words).output()
}

const BITES: &str = "could not be renamed in the preview";

/// The command's standard error goes straight to its reader: that a rename failed is seen
/// by its effect.
fn a_folder_that_could_not_be_renamed_is_named(scene: &Scene) -> Verdict {
    scene.file("dir/deep/x", "x\n")?;
    scene.file("other/y", "y\n")?;
    let code = "import os
for name in ['dir', 'other/../dir', os.getcwd() + '/dir/deep']:
    try: os.rename(name, 'away')
    except OSError as error: print(error.errno)
";
    let output = python(scene, &[], code)?;
    // The control: it does fail.
    output.succeeds()?.stdout_is("18\n18\n18\n")?;
    let dir = scene.workspace().join("dir");
    output.stderr_has(&format!("the folder {} {BITES}", dir.display()))?;
    output.stderr_has(&format!("the folder {}/deep {BITES}", dir.display()))?;
    output.lacks(&format!("other {BITES}"))?;
    let json = python(scene, &["--json"], code)?.json()?;
    let notes = json["preview"]["notes"].to_string();
    ensure(notes.contains(BITES), || notes)
}

fn a_folder_that_was_copied_instead_is_not(scene: &Scene) -> Verdict {
    scene.file("dir/deep/x", "x\n")?;
    scene.file(
        "move.sh",
        "set -e; mv dir away; mkdir new; mv new newer; echo 1 > one; mv one two; mkdir dir; mv dir last\n",
    )?;
    let output = scene.run(["--dry-run", "--", "sh", "move.sh"]).output()?;
    output.succeeds()?.lacks(BITES)?;
    Ok(())
}

/// `mv` may not empty it, but may well rename it.
fn a_closed_folder_that_was_only_copied_is_named(scene: &Scene) -> Verdict {
    scene.file("closed/x", "x\n")?;
    let closed = scene.workspace().join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555))?;
    let output = scene
        .run(["--dry-run", "--", "mv", "closed", "away"])
        .output()?;
    output.exits(1)?;
    output.stderr_has(&format!("the folder {} {BITES}", closed.display()))?;
    // The control: for real it works.
    let output = scene.run(["--", "mv", "closed", "away"]).output()?;
    output.succeeds()?.lacks(BITES)?;
    ensure(scene.read("away/x")? == "x\n", || "it is not there")
}

/// The kernel writes most of them out as zeros, when a file is first written to or renamed.
fn a_file_that_the_kernel_has_copied_keeps_its_holes(scene: &Scene) -> Verdict {
    const SIZE: u64 = 3_000_000;
    let names = ["changed", "renamed", "both", "closed"];
    for name in names {
        let file = fs::File::create(scene.workspace().join(name))?;
        file.set_len(SIZE)?;
        file.write_all_at(b"x", 1_500_000)?;
    }
    let closed = scene.workspace().join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o444))?;
    scene.file(
        "act.sh",
        "set -e
echo end >> changed
mv renamed renamed-2
mv both both-2; echo end >> both-2
chmod 600 closed; echo end >> closed; chmod 444 closed
dd if=/dev/zero of=written bs=100000 count=30 2>/dev/null
",
    )?;
    let id = id(&super::preview(scene, "act.sh", 0)?)?;
    verb(scene, &["commit", &id])?.succeeds()?;
    let room = |name: &str| Ok::<_, Stop>(meta(scene, name)?.blocks() * 512);
    for (name, end) in [
        ("changed", "end\n"),
        ("renamed-2", ""),
        ("both-2", "end\n"),
        ("closed", "end\n"),
    ] {
        ensure(room(name)? < SIZE / 10, || {
            format!("{name} takes {:?} bytes", room(name))
        })?;
        let bytes = fs::read(scene.workspace().join(name))?;
        let mut expected = vec![0; SIZE as usize];
        expected[1_500_000] = b'x';
        expected.extend(end.as_bytes());
        ensure(bytes == expected, || format!("{name}: other content"))?;
    }
    ensure(
        meta(scene, "closed")?.mode() & 0o7777 == 0o444,
        || "the mode",
    )?;
    // What the command itself wrote stays written.
    ensure(room("written")? >= SIZE, || "written has got holes")
}

fn only_root(scene: &Scene, what: &str) -> Verdict {
    match nix::unistd::geteuid().is_root() {
        true => Ok(()),
        false => scene.skip(format!("only root can {what}")),
    }
}

fn somebody_elses_file_is_told(scene: &Scene) -> Verdict {
    only_root(scene, "give files away")?;
    let file = scene.file("foreign", "foreign\n")?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666))?;
    chown(&file, Some(1), Some(1))?;
    let run = ["--dry-run", "--json", "-c", "echo more >> foreign"];
    let output = scene.run(run).output()?;
    let result = output.json()?;
    let said = result["stderr"].as_str().unwrap_or_default();
    ensure(said.contains("Value too large"), || {
        format!("the control: an overlay could: {result}")
    })?;
    let notes = result["preview"]["notes"].to_string();
    ensure(notes.contains("another user or group"), || notes)
}

/// Nothing could be made in it on an overlay.
fn a_workspace_of_another_group_is_copied(scene: &Scene) -> Verdict {
    only_root(scene, "give folders away")?;
    scene.file("kept", "kept\n")?;
    scene.file("text", "old\n")?;
    chown(scene.workspace(), None, Some(1))?;
    let before = forest(scene)?;
    let line = "echo new > made; echo new > text; cat kept";
    let output = scene.run(["--dry-run", "--json", "-c", line]).output()?;
    output.succeeds()?;
    let result = output.json()?;
    ensure(result["preview"]["places"][0]["means"] == "copy", || {
        result.to_string()
    })?;
    let notes = result["preview"]["notes"].to_string();
    ensure(notes.contains("another user or group"), || notes)?;
    same(&before, &forest(scene)?, "the preview changed the host")?;
    let id = id(&result)?;
    verb(scene, &["commit", &id])?.succeeds()?;
    ensure(
        scene.read("made")? == "new\n" && scene.read("text")? == "new\n",
        || "it was not committed",
    )?;
    ensure(fs::metadata(scene.workspace())?.gid() == 1, || "the group")?;
    verb(scene, &["undo", &id])?.succeeds()?;
    same(&before, &forest(scene)?, "undo is not exact")
}

fn meta(scene: &Scene, name: &str) -> Verdict<fs::Metadata> {
    Ok(fs::symlink_metadata(scene.workspace().join(name))?)
}

/// Something mounted for a test, gone with it.
struct Mounted(PathBuf);

impl Mounted {
    fn at(scene: &Scene, words: &[&str], place: &Path) -> Verdict<Mounted> {
        only_root(scene, "mount")?;
        fs::create_dir_all(place)?;
        let call = scene.host("mount").args(words).args([place]).cwd("/");
        if call.output()?.code() != Some(0) {
            return scene.skip("nothing can be mounted here");
        }
        Ok(Mounted(place.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}

fn what_is_mounted_below_is_shown_and_stays(scene: &Scene) -> Verdict {
    let place = scene.workspace().join("sub/mounted");
    let _mounted = Mounted::at(scene, &["-t", "tmpfs", "sjail-test"], &place)?;
    scene.file("sub/mounted/there", "there\n")?;
    scene.file("sub/beside", "old\n")?;
    let before = forest(scene)?;
    let line = "cat sub/mounted/there; echo new > sub/mounted/there; echo new > sub/beside";
    let output = scene.run(["--dry-run", "--json", "-c", line]).output()?;
    output.succeeds()?;
    let result = output.json()?;
    ensure(result["stdout"] == "there\n", || result.to_string())?;
    let notes = result["preview"]["notes"].to_string();
    ensure(
        notes.contains("sub/mounted, which is mounted there"),
        || notes,
    )?;
    same(&before, &forest(scene)?, "the preview changed the host")?;
    let id_ = id(&result)?;
    verb(scene, &["commit", &id_])?
        .succeeds()?
        .stderr_has("sub/mounted/there was not committed")?;
    ensure(scene.read("sub/beside")? == "new\n", || "beside")?;
    ensure(scene.read("sub/mounted/there")? == "there\n", || "there")?;
    verb(scene, &["undo", &id_])?.succeeds()?;
    same(&before, &forest(scene)?, "undo is not exact")?;
    // What holds it cannot be taken away, and the rest is committed all the same.
    scene.needs(&["python3"])?;
    scene.file(
        "clear.py",
        "import shutil\nshutil.rmtree('sub')\nopen('made', 'w').close()\n",
    )?;
    let run = ["--dry-run", "--json", "--", "python3", "clear.py"];
    let output = scene.run(run).output()?;
    output.succeeds()?;
    let id = id(&output.json()?)?;
    verb(scene, &["commit", &id])?
        .succeeds()?
        .stderr_has("/sub was not committed")?;
    ensure(exists(&scene.workspace().join("made")), || "made")?;
    ensure(exists(&place.join("there")), || "it is gone")
}

/// An overlay cannot have its layer on another one, as in containers: the workspace is
/// copied, and all else is the same.
fn a_layer_on_an_overlay_is_a_copy(scene: &Scene) -> Verdict {
    let folder = scene.scratch().join("stack");
    for name in ["lower", "upper", "work"] {
        fs::create_dir_all(folder.join(name))?;
    }
    let options = format!(
        "lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/work",
        folder.display()
    );
    let words = ["-t", "overlay", "-o", &options, "sjail-test"];
    let state = folder.join("state");
    let _mounted = Mounted::at(scene, &words, &state)?;
    super::workspace(scene)?;
    let before = forest(scene)?;
    let here = |words: &[&str]| scene.sjail(words).env("XDG_STATE_HOME", &state).output();
    let run = [
        "run",
        "--no-broker",
        "--dry-run",
        "--json",
        "--",
        "sh",
        "act.sh",
    ];
    let output = here(&run)?;
    output.exits(3)?;
    let result = output.json()?;
    ensure(result["preview"]["places"][0]["means"] == "copy", || {
        result["preview"].to_string()
    })?;
    output.stderr_has("an overlay could not be had")?;
    for (name, count) in [
        ("created", 1),
        ("modified", 2),
        ("deleted", 3),
        ("renamed", 1),
    ] {
        let totals = &result["preview"]["totals"];
        ensure(totals[name] == count, || format!("{name}: {totals}"))?;
    }
    same(&before, &forest(scene)?, "the preview changed the host")?;
    let id = id(&result)?;
    here(&["commit", &id])?.succeeds()?;
    ensure(scene.read("text")?.ends_with("four\n"), || "text")?;
    ensure(!exists(&scene.workspace().join("folder")), || "folder")?;
    here(&["undo", &id])?.succeeds()?;
    same(&before, &forest(scene)?, "undo is not exact")?;
    // One that is much larger has no preview, and nothing is left of the try.
    fs::File::create(scene.workspace().join("large"))?.set_len(3 << 30)?;
    here(&run)?
        .exits(125)?
        .stderr_has("a copy would be too large")?;
    Ok(())
}

/// On a file system that can share blocks a copy takes next to no room.
fn a_copy_shares_blocks_where_it_can(scene: &Scene) -> Verdict {
    only_root(scene, "mount")?;
    scene.needs(&["mkfs.btrfs"])?;
    let image = scene.scratch().join("image");
    fs::File::create(&image)?.set_len(400 << 20)?;
    let made = scene.host("mkfs.btrfs").args(["-q"]).args([&image]);
    made.output()?.succeeds()?;
    let disk = scene.scratch().join("shares");
    let _mounted = Mounted::at(scene, &["-o", "loop", &image.to_string_lossy()], &disk)?;
    let work = disk.join("work");
    fs::create_dir(&work)?;
    // As it comes: nothing that a file system could make small.
    let mut noise = vec![0; 32 << 20];
    std::io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut noise)?;
    fs::write(work.join("large"), &noise)?;
    chown(&work, None, Some(1))?;
    let taken = || -> Verdict<u64> {
        nix::unistd::syncfs(&fs::File::open(&disk)?)?;
        let now = nix::sys::statvfs::statvfs(&disk)?;
        Ok((now.blocks() - now.blocks_free()) * now.fragment_size())
    };
    let before = taken()?;
    let here = |words: &[&str]| {
        let call = scene.sjail(words).cwd(&work);
        call.env("XDG_STATE_HOME", disk.join("state")).output()
    };
    let line = "printf new | dd of=large bs=1 seek=4096 conv=notrunc";
    let output = here(&["run", "--no-broker", "--dry-run", "--json", "-c", line])?;
    output.succeeds()?;
    let result = output.json()?;
    let places = result["preview"]["places"].to_string();
    ensure(places.contains("\"copy\""), || places)?;
    let more = taken()?.saturating_sub(before);
    ensure(more < 16 << 20, || format!("the copy took {more} bytes"))?;
    here(&["commit", &id(&result)?])?.succeeds()?;
    noise[4096..4099].copy_from_slice(b"new");
    ensure(fs::read(work.join("large"))? == noise, || "the content")
}

fn what_is_too_large_to_copy_is_refused(scene: &Scene) -> Verdict {
    let place = scene.workspace().join("mounted");
    let _mounted = Mounted::at(scene, &["-t", "tmpfs", "sjail-test"], &place)?;
    fs::File::create(scene.workspace().join("large"))?.set_len(3 << 30)?;
    let output = scene.run(["--dry-run", "--", "true"]).output()?;
    output
        .exits(125)?
        .stderr_has("a copy would be too large")?
        .stderr_has("--workspace")?;
    ensure(layers(scene)?.is_empty(), || "something is left")
}

/// The folders of the layers that are kept.
fn layers(scene: &Scene) -> Verdict<Vec<PathBuf>> {
    let inside = |path: PathBuf| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let sandboxes = inside(scene.home().join(".local/state/sjail/sandboxes"));
    let previews = sandboxes
        .into_iter()
        .flat_map(|one| inside(one.join("previews")));
    Ok(previews
        .flat_map(|one| inside(one.join("layers")))
        .collect())
}

/// The kernel leaves a folder that is closed even to its owner.
fn the_overlays_scratch_is_gone(scene: &Scene) -> Verdict {
    super::workspace(scene)?;
    let id = id(&super::preview(scene, "act.sh", 3)?)?;
    let layers = layers(scene)?;
    ensure(!layers.is_empty(), || "there are no layers")?;
    for layer in &layers {
        ensure(!exists(&layer.join("work")), || {
            format!("{}", layer.display())
        })?;
    }
    verb(scene, &["discard", &id])?.succeeds()?;
    for layer in &layers {
        ensure(!exists(layer), || format!("{} is left", layer.display()))?;
    }
    Ok(())
}

/// Such folders can be made step by step, and have no path that anybody could use.
fn folders_deeper_than_a_path_are_left_out(scene: &Scene) -> Verdict {
    let code = "import os
open('beside', 'w').write('x')
for i in range(2300):
    os.mkdir('dd'); os.chdir('dd')
open('last', 'w').write('x')
";
    let output = python(scene, &["--json"], code)?;
    output.succeeds()?;
    let id = id(&output.json()?)?;
    verb(scene, &["diff", "--stat", &id])?.succeeds()?;
    verb(scene, &["diff", &id])?.succeeds()?;
    let committed = verb(scene, &["commit", &id])?;
    committed
        .succeeds()?
        .stderr_has("lies too deep to be looked through")?;
    ensure(exists(&scene.workspace().join("beside")), || "beside")?;
    ensure(exists(&scene.workspace().join("dd/dd/dd")), || "dd")?;
    verb(scene, &["undo", &id])?.succeeds()?;
    ensure(!exists(&scene.workspace().join("dd")), || "dd is left")?;
    let layers = layers(scene)?;
    verb(scene, &["discard", &id])?.succeeds()?;
    match layers.iter().find(|layer| exists(layer)) {
        None => Ok(()),
        Some(layer) => Err(Stop::failed(format!("{} is left", layer.display()))),
    }
}

fn processes_and_refusals_are_told(scene: &Scene) -> Verdict {
    scene.file(
        "many.sh",
        "for n in 1 2 3 4 5 6 7; do /bin/true; done; ls /root/nothing 2>/dev/null; exit 0\n",
    )?;
    let output = scene
        .run(["--dry-run", "--json", "--", "sh", "many.sh"])
        .output()?;
    output
        .succeeds()?
        .stderr_has("9 processes and threads were started")?;
    ensure(output.json()?["usage"]["started"] == 9, || "usage.started")
}
