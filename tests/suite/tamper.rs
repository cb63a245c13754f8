//! The log after somebody has been at it: each way of changing it is found and named, and
//! the next broker says so in the log itself.

use std::fs;
use std::path::{Path, PathBuf};

use sjail_tests::{Output, Scene, Stop, Test, Verdict, tests};

use crate::desk::Desk;

pub fn suite() -> Vec<Test> {
    tests![
        every_change_is_found_and_named,
        another_log_in_its_place_is_named,
        a_pruned_log_is_whole,
    ]
}

/// What is done to the records, and what `verify` says first.
const CHANGES: [(&str, &str); 7] = [
    (
        "UPDATE record SET command = 'ls' WHERE seq = 4",
        "record 4 was changed",
    ),
    (
        "UPDATE record SET approver = 'ann' WHERE seq = 5",
        "record 5 was changed",
    ),
    (
        "DELETE FROM record WHERE seq = 4",
        "record 4 is missing, and no prune record accounts for it",
    ),
    (
        "UPDATE record SET seq = -1 WHERE seq = 4; UPDATE record SET seq = 4 WHERE seq = 5; \
         UPDATE record SET seq = 5 WHERE seq = -1",
        "record 4",
    ),
    (
        "DELETE FROM record WHERE seq > (SELECT max(seq) - 2 FROM record); \
         DELETE FROM checkpoint WHERE seq > (SELECT max(seq) FROM record)",
        "its tail was cut off",
    ),
    (
        "DELETE FROM record WHERE seq <= 3",
        "records 1 to 3 are missing",
    ),
    (
        "UPDATE checkpoint SET signature = zeroblob(64)",
        "is not signed by the key it names",
    ),
];

/// A log with some records, its broker ended.
fn log_of(scene: &Scene, runs: usize) -> Verdict<PathBuf> {
    scene.needs(&["python3"])?;
    let desk = Desk::at(scene);
    for _ in 0..runs {
        desk.sjail(["run", "--", "true"])?.succeeds()?;
    }
    desk.sjail(["audit", "verify"])?.succeeds()?;
    drop(desk);
    Ok(scene.home().join(".local/state"))
}

/// A copy to be tampered with.
fn copy(scene: &Scene, state: &Path, name: &str) -> Verdict<PathBuf> {
    let copy = scene.outside().join(name);
    let copied = scene
        .host("cp")
        .args(["-a"])
        .args([state, &copy])
        .output()?;
    copied.succeeds()?;
    Ok(copy)
}

/// Whoever owns the file can take the triggers off.
fn tamper(scene: &Scene, state: &Path, sql: &str) -> Verdict {
    let program = "import sqlite3, sys\n\
         c = sqlite3.connect(sys.argv[1])\n\
         for (t,) in c.execute(\"SELECT name FROM sqlite_schema WHERE type = 'trigger'\").fetchall():\n\
         \x20   c.execute('DROP TRIGGER ' + t)\n\
         c.executescript(sys.argv[2])\n";
    scene
        .host("python3")
        .args(["-c", program])
        .args([state.join("sjail/audit.db")])
        .args([sql])
        .output()?
        .succeeds()?;
    Ok(())
}

fn verify(scene: &Scene, state: &Path) -> Verdict<Output> {
    scene
        .sjail(["audit", "verify"])
        .env("XDG_STATE_HOME", state)
        .output()
}

fn every_change_is_found_and_named(scene: &Scene) -> Verdict {
    let state = log_of(scene, 6)?;
    for (number, (sql, named)) in CHANGES.iter().enumerate() {
        let copy = copy(scene, &state, &format!("copy{number}"))?;
        verify(scene, &copy)?.succeeds()?.stdout_has("whole")?;
        tamper(scene, &copy, sql)?;
        let found = verify(scene, &copy)?;
        found.exits(1)?;
        let first = found.stdout.lines().next().unwrap_or_default();
        if !first.contains(named) {
            return Err(Stop::failed(format!("{sql}: {}", found.stdout)));
        }
    }
    // The file itself cut in half.
    let copy = copy(scene, &state, "half")?;
    let database = copy.join("sjail/audit.db");
    let text = fs::read(&database)?;
    fs::write(&database, text.get(..text.len() / 2).unwrap_or_default())?;
    let found = verify(scene, &copy)?;
    assert_ne!(found.code(), Some(0), "{}", found.stdout);
    Ok(())
}

fn another_log_in_its_place_is_named(scene: &Scene) -> Verdict {
    let state = log_of(scene, 3)?;
    let other = scene.outside().join("other");
    fs::rename(&state, &other)?;
    let longer = log_of(scene, 5)?;
    // The database alone, then with its key: the head beside it remembers.
    let first = copy(scene, &other, "exchanged")?;
    fs::copy(longer.join("sjail/audit.db"), first.join("sjail/audit.db"))?;
    verify(scene, &first)?
        .exits(1)?
        .stdout_has("another signing key")?;
    let second = copy(scene, &first, "with-key")?;
    fs::copy(
        longer.join("sjail/audit.key"),
        second.join("sjail/audit.key"),
    )?;
    verify(scene, &second)?
        .exits(1)?
        .stdout_has("another signing key")?;
    // Its key exchanged: the next start says so in the log, for good.
    let third = copy(scene, &other, "other-key")?;
    fs::copy(
        longer.join("sjail/audit.key"),
        third.join("sjail/audit.key"),
    )?;
    let run = scene.sjail(["run", "--", "true"]);
    run.env("XDG_STATE_HOME", &third).output()?.succeeds()?;
    let desk = Desk::at(scene);
    drop(desk);
    verify(scene, &third)?
        .exits(1)?
        .stdout_has("the signing key has changed")?;
    Ok(())
}

fn a_pruned_log_is_whole(scene: &Scene) -> Verdict {
    let state = log_of(scene, 3)?;
    let desk = Desk::at(scene);
    let before = desk.log()?.len();
    // Times are told to the second: what is there lies wholly before this one.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let now = scene.host("date").args(["-u", "+%FT%TZ"]).output()?;
    desk.sjail(["run", "--", "true"])?.succeeds()?;
    desk.sjail(["audit", "prune", "--older-than", now.stdout.trim()])?
        .succeeds()?;
    assert!(desk.log()?.len() < before + 1);
    desk.sjail(["audit", "verify"])?.succeeds()?;
    drop(desk);
    // Records that are gone without a word are still missed.
    let copy = copy(scene, &state, "pruned")?;
    tamper(
        scene,
        &copy,
        "DELETE FROM record WHERE seq = (SELECT min(seq) FROM record)",
    )?;
    verify(scene, &copy)?.exits(1)?;
    Ok(())
}
