//! Commits and their undoing are killed at random moments: what is found afterwards is the
//! old tree or the new one, never something between.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sjail_tests::forest::Forest;
use sjail_tests::{Scene, Stop, Test, Verdict, ensure};

use super::{forest, id};

pub fn tests() -> Vec<Test> {
    let test = Test::new("a_killed_commit_is_finished_or_taken_back", |scene| {
        killed(scene, 12, false)
    });
    let other = Test::new("so_is_one_between_file_systems", |scene| {
        killed(scene, 6, true)
    });
    let first = Test::new("a_full_disk_leaves_the_old_tree_or_the_new", |scene| {
        full(scene, 12, Place::State)
    })
    .disk(MEGABYTES);
    let narrow = Test::new("so_does_a_full_disk_under_the_workspace", |scene| {
        full(scene, 12, Place::Workspace)
    })
    .disk(MEGABYTES);
    let all = [test, other, first, narrow];
    all.into_iter().map(|test| test.timeout(300)).collect()
}

/// The same, many times over.
pub fn long_tests() -> Vec<Test> {
    let test = Test::new("hundreds_of_killed_commits", |scene| {
        killed(scene, 300, false)
    });
    let other = Test::new("hundreds_between_file_systems", |scene| {
        killed(scene, 150, true)
    });
    let first = Test::new("many_full_disks", |scene| full(scene, 150, Place::State));
    let first = first.disk(MEGABYTES);
    let narrow = Test::new("many_full_disks_under_the_workspace", |scene| {
        full(scene, 150, Place::Workspace)
    })
    .disk(MEGABYTES);
    let all = [test, other, first, narrow];
    all.into_iter().map(|test| test.timeout(3600)).collect()
}

/// Of the disk that gets full: what is needed once and not twice.
const MEGABYTES: u64 = 3;

/// What lies on the disk that gets full.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    State,
    Workspace,
}

/// The disk that gets full.
struct Disk(PathBuf);

impl Disk {
    /// Leaves so many bytes free, as pages go.
    fn fill(&self, free: u64) -> Verdict {
        self.empty();
        let stat = nix::sys::statvfs::statvfs(&self.0)?;
        let there = stat.blocks_available() * stat.fragment_size();
        let filler = vec![1; usize::try_from(there.saturating_sub(free))?];
        fs::write(self.0.join("filler"), filler)?;
        Ok(())
    }

    fn empty(&self) {
        let _ = fs::remove_file(self.0.join("filler"));
    }
}

/// Commits and takes back with less and less room; what is found afterwards is whole.
fn full(scene: &Scene, times: u64, place: Place) -> Verdict {
    let disk = Disk(scene.disk()?);
    let (state, folder) = match place {
        Place::State => (disk.0.join("state"), scene.workspace()),
        Place::Workspace => (scene.home().join("state"), disk.0.join("work")),
    };
    for number in 0..20 {
        fs::create_dir_all(folder.join(format!("f{number}")))?;
        fs::write(folder.join(format!("f{number}/file")), "old ".repeat(2000))?;
        fs::write(folder.join(format!("g{number}")), "gone ".repeat(2000))?;
    }
    fs::write(
        folder.join("act.sh"),
        "for n in $(seq 0 19); do seq 1 2000 > f$n/file; rm g$n; mkdir n$n; seq 1 900 > n$n/x; done\n",
    )?;
    let call = |words: &[&str]| {
        let call = scene.sjail(words).cwd(&folder);
        call.env("XDG_STATE_HOME", &state)
    };
    let old = Forest::of(&folder)?;
    let output = call(&PREVIEW).output()?;
    output.succeeds()?;
    let id = id(&output.json()?)?;
    call(&["commit", &id]).output()?.succeeds()?;
    let new = Forest::of(&folder)?;
    let mut random = u64::from(std::process::id());
    let (mut refused, mut done) = (0, 0);
    for _ in 0..times {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let listed = call(&["previews", "--json"]).output()?.json()?;
        let act = match state_of(&listed)?.as_str() {
            "committed" => "undo",
            _ => "commit",
        };
        disk.fill((random >> 40) % 600_000)?;
        let output = call(&[act, &id]).output()?;
        match output.code() {
            Some(0) => done += 1,
            _ => refused += 1,
        }
        disk.empty();
        let state = state_of(&call(&["previews", "--json"]).output()?.json()?)?;
        let now = Forest::of(&folder)?;
        let expected = match state.as_str() {
            "pending" => &old,
            "committed" => &new,
            _ => return Err(Stop::failed(format!("left {state}: {}", output.stderr))),
        };
        let differences = expected.differences(&now, i64::MAX);
        ensure(differences.is_empty(), || {
            format!(
                "{act}, {state}: {}; {}",
                differences.join("; "),
                output.stderr
            )
        })?;
    }
    ensure(refused > 0 && done > 0, || {
        format!("{refused} were refused and {done} done: the disk was never the matter")
    })
}

const PREVIEW: [&str; 8] = [
    "run",
    "--no-broker",
    "--quiet",
    "--dry-run",
    "--json",
    "--",
    "sh",
    "act.sh",
];

fn killed(scene: &Scene, times: u32, between: bool) -> Verdict {
    for number in 0..60 {
        scene.file(&format!("f{number}/file"), format!("old {number}\n"))?;
        scene.file(&format!("g{number}"), format!("gone {number}\n"))?;
    }
    scene.file(
        "act.sh",
        "for n in $(seq 0 59); do echo new > f$n/file; rm g$n; mkdir n$n; echo n > n$n/x; done\n",
    )?;
    let other = match between {
        true => Some(tempfile::tempdir_in("/dev/shm")?),
        false => None,
    };
    let call = |words: &[&str]| {
        let call = scene.sjail(words);
        match &other {
            Some(other) => call.env("XDG_STATE_HOME", other.path()),
            None => call,
        }
    };
    let old = forest(scene)?;
    let output = call(&PREVIEW).output()?;
    output.succeeds()?;
    let id = id(&output.json()?)?;
    let began = Instant::now();
    call(&["commit", &id]).output()?.succeeds()?;
    let took = began.elapsed();
    let new = forest(scene)?;
    call(&["undo", &id]).output()?.succeeds()?;
    let mut random = u64::from(std::process::id());
    for _ in 0..times {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let moment = took.mul_f64((random >> 40) as f64 / (1_u64 << 24) as f64);
        let state = state_of(&call(&["previews", "--json"]).output()?.json()?)?;
        let act = if state == "committed" {
            "undo"
        } else {
            "commit"
        };
        let running = call(&[act, &id]).start()?;
        std::thread::sleep(moment.max(Duration::from_micros(1)));
        // It may have ended by itself already.
        let _ = running.signal(Signal::SIGKILL);
        running.finish()?;
        // Whoever comes next finishes it.
        let state = state_of(&call(&["previews", "--json"]).output()?.json()?)?;
        let now = forest(scene)?;
        let expected = match state.as_str() {
            "pending" => &old,
            "committed" => &new,
            _ => return Err(Stop::failed(format!("left {state}"))),
        };
        let differences = expected.differences(&now, i64::MAX);
        ensure(differences.is_empty(), || {
            format!(
                "{act} killed after {moment:?}, {state}: {}",
                differences.join("; ")
            )
        })?;
    }
    Ok(())
}

fn state_of(listed: &serde_json::Value) -> Verdict<String> {
    let state = listed[0]["state"].as_str();
    let state = state.ok_or_else(|| Stop::failed(format!("not listed: {listed}")))?;
    Ok(state.to_owned())
}
