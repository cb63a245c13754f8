//! Commits and their undoing are killed at random moments: what is found afterwards is the
//! old tree or the new one, never something between.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sjail_tests::{Scene, Stop, Test, Verdict, ensure};

use super::{forest, id};

pub fn tests() -> Vec<Test> {
    let test = Test::new("a_killed_commit_is_finished_or_taken_back", |scene| {
        killed(scene, 12, false)
    });
    let other = Test::new("so_is_one_between_file_systems", |scene| {
        killed(scene, 6, true)
    });
    vec![test.timeout(300), other.timeout(300)]
}

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
    let run = [
        "run",
        "--no-broker",
        "--quiet",
        "--dry-run",
        "--json",
        "--",
        "sh",
        "act.sh",
    ];
    let output = call(&run).output()?;
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
