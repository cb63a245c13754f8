//! Previews: the command really runs, nothing of the host changes, and what was seen can
//! be kept, dropped and taken back.

mod attacks;
mod crash;
mod edges;
mod everyday;
mod evidence;
mod keep;
mod property;

use std::path::Path;

use sjail_tests::forest::Forest;
use sjail_tests::{Output, Scene, Stop, Test, Verdict};

pub fn suite() -> Vec<Test> {
    let mut all = everyday::tests();
    all.extend(keep::tests());
    all.extend(attacks::tests());
    all.extend(evidence::tests());
    all.extend(edges::tests());
    all.extend(property::tests());
    all.extend(crash::tests());
    all
}

/// What takes long.
pub fn long() -> Vec<Test> {
    let mut all = property::long_tests();
    all.extend(crash::long_tests());
    all
}

/// A small workspace with one of each.
fn workspace(scene: &Scene) -> Verdict {
    scene.file("text", "one\ntwo\nthree\n")?;
    scene.file("gone", "will be deleted\n")?;
    scene.file("old-name", "a file that gets another name\n")?;
    scene.file("sub/inner", "inner\n")?;
    scene.file("folder/a", "a\n")?;
    scene.file("folder/deep/b", "b\n")?;
    scene.file("tool", "#!/bin/sh\necho tool\n")?;
    std::os::unix::fs::symlink("text", scene.workspace().join("link"))?;
    scene.file(
        "act.sh",
        "set -e
echo four >> text
rm gone
mv old-name new-name
rm -r folder
mkdir -p fresh/deep
echo fresh > fresh/deep/file
chmod 755 tool
ln -sf sub/inner link
echo out; echo err >&2
exit 3
",
    )?;
    Ok(())
}

fn forest(scene: &Scene) -> Verdict<Forest> {
    Ok(Forest::of(&scene.workspace())?)
}

/// Fails unless two forests are the same to the last bit and nanosecond.
fn same(one: &Forest, two: &Forest, what: &str) -> Verdict {
    let differences = one.differences(two, i64::MAX);
    if differences.is_empty() {
        return Ok(());
    }
    Err(Stop::failed(format!("{what}: {}", differences.join("; "))))
}

/// Runs `sh SCRIPT` in a preview that must end with this code; gives the result object.
fn preview(scene: &Scene, script: &str, code: i32) -> Verdict<serde_json::Value> {
    let output = scene
        .run(["--dry-run", "--json", "--", "sh", script])
        .output()?;
    output.exits(code)?;
    output.json()
}

fn id(result: &serde_json::Value) -> Verdict<String> {
    match result["preview"]["id"].as_str() {
        Some(id) if result["id"].as_str() == Some(id) => Ok(id.to_owned()),
        _ => Err(Stop::failed(format!("no preview in {result}"))),
    }
}

fn verb(scene: &Scene, words: &[&str]) -> Verdict<Output> {
    scene.sjail(words).output()
}

fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}
