//! Random programs: what a preview and its commit leave is what a run in the jail leaves.

use std::fs;
use std::path::Path;

use sjail_tests::forest::Forest;
use sjail_tests::{Scene, Stop, Test, Verdict, ensure};

use super::{id, same, verb};

/// Later times were made by the clock, and differ between two runs.
const CLOCK: i64 = 1_700_000_000;

/// Some hundred cases, in one run.
pub fn tests() -> Vec<Test> {
    let test = Test::new("random_changes_are_committed_exactly", |scene| {
        batch(scene, 1, 100)
    });
    vec![test.timeout(300)]
}

/// Thousands.
pub fn long_tests() -> Vec<Test> {
    let test = Test::new("thousands_of_random_changes", |scene| {
        let mut failed = Vec::new();
        for seed in 100..120 {
            if let Err(Stop::Failed(why)) = batch(scene, seed, 100) {
                failed.push(format!("seed {seed}: {why}"));
            }
        }
        ensure(failed.is_empty(), || failed.join("\n"))
    });
    vec![test.timeout(3600)]
}

fn batch(scene: &Scene, seed: u64, cases: u64) -> Verdict {
    let work = scene.workspace();
    reset(&work)?;
    let start = scene.scratch().join("start");
    reset(&start)?;
    let (seed, cases) = (seed.to_string(), cases.to_string());
    let attacker = scene.program("attacker");
    let plant = scene.host(&attacker).args(["plant", "."]);
    plant.args([&seed, &cases]).output()?.succeeds()?;
    copy(scene, &work, &start)?;
    let before = Forest::of(&work)?;

    // For real.
    let tool = attacker.parent().unwrap_or(Path::new("/"));
    let command: [&str; 5] = ["--", "attacker", "change", ".", &seed];
    let run = |flags: &[&str]| {
        let tool = tool.to_str().unwrap_or_default();
        let path = format!("{tool}:/usr/bin:/bin");
        let call = scene.run(flags).args(["--ro", tool, "--env"]);
        call.args([format!("PATH={path}").as_str()])
            .args(command)
            .args([&cases])
    };
    let plain = run(&["--quiet"]).output()?;
    plain.succeeds()?;
    let real = Forest::of(&work)?;

    // In a preview, then committed.
    reset(&work)?;
    copy(scene, &start, &work)?;
    let preview = run(&["--quiet", "--dry-run", "--json"]).output()?;
    preview.succeeds()?;
    same(&before, &Forest::of(&work)?, "the preview changed the host")?;
    let result = preview.json()?;
    let inside = result["stdout"].as_str().unwrap_or_default();
    let steps = plain.stdout.lines().zip(inside.lines());
    let other: Vec<String> = steps
        .filter(|(real, seen)| real != seen)
        .map(|(real, seen)| format!("`{real}` was `{seen}` in the preview"))
        .collect();
    let id = id(&result)?;
    verb(scene, &["commit", &id])?.succeeds()?;
    let committed = Forest::of(&work)?;
    let mut wrong = real.differences(&committed, CLOCK);
    wrong.extend(other);
    ensure(wrong.is_empty(), || {
        format!("{} differences: {}", wrong.len(), wrong.join("\n"))
    })?;
    verb(scene, &["undo", &id])?.succeeds()?;
    same(&before, &Forest::of(&work)?, "undo is not exact")?;
    verb(scene, &["discard", &id])?.succeeds()?;
    Ok(())
}

fn copy(scene: &Scene, from: &Path, to: &Path) -> Verdict {
    let from = from.join(".");
    let call = scene.host("cp").args(["-a"]).args([from.as_path(), to]);
    call.cwd("/").output()?.succeeds()?;
    Ok(())
}

/// An empty folder, whatever was there.
fn reset(path: &Path) -> Verdict {
    use std::os::unix::fs::PermissionsExt;
    let mut open = vec![path.to_path_buf()];
    while let Some(folder) = open.pop() {
        if !folder.is_dir() {
            continue;
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        for entry in fs::read_dir(&folder)?.flatten() {
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            }
        }
    }
    if path.exists() {
        fs::remove_dir_all(path)?;
    }
    fs::create_dir_all(path)?;
    Ok(())
}
