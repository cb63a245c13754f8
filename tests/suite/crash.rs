//! The broker is killed at random moments while clients submit, approve and run: every
//! client has a clear answer each time, nothing that was acknowledged is lost, no approval
//! is used twice, the chain is whole, the next start is clean.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use sjail_tests::{Scene, Stop, Test, Verdict};

use crate::desk::Desk;

/// The short one: run with all others.
pub fn suite() -> Vec<Test> {
    vec![
        Test::new("killed_at_random_moments", |scene| killed(scene, 4, 40))
            .alone()
            .timeout(600),
    ]
}

/// The long one: run by name.
pub fn long() -> Vec<Test> {
    vec![
        Test::new("killed_three_hundred_times", |scene| killed(scene, 16, 300))
            .alone()
            .timeout(3600),
    ]
}

fn killed(scene: &Scene, clients: usize, kills: usize) -> Verdict {
    let desk = Desk::at(scene);
    desk.sjail(["queue", "list"])?.succeeds()?;
    let stop = AtomicBool::new(false);
    let done = std::thread::scope(|scope| -> Verdict<Vec<String>> {
        let clients: Vec<_> = (0..clients)
            .map(|_| scope.spawn(|| client(scene, &stop)))
            .collect();
        let mut killed = 0;
        let mut seed: u64 = 0x9e37_79b9;
        while killed < kills {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            std::thread::sleep(Duration::from_millis(20 + (seed >> 33) % 300));
            if let Ok(pid) = desk.pid() {
                killed += usize::from(kill(pid, Signal::SIGKILL).is_ok());
            }
        }
        stop.store(true, Ordering::SeqCst);
        let mut ids = Vec::new();
        for client in clients {
            let told = client
                .join()
                .map_err(|_| Stop::failed("a client panicked"))?;
            ids.extend(told?);
        }
        Ok(ids)
    })?;
    assert!(!done.is_empty(), "no command ran at all");
    desk.sjail(["queue", "list"])?.succeeds()?;
    desk.sjail(["audit", "verify"])?.succeeds()?;
    let export = desk.sjail(["audit", "export", "--format", "jsonl"])?;
    for id in done {
        // How it ended may still lie in the spool.
        let intents = export
            .stdout
            .lines()
            .filter(|line| line.contains(&id) && line.contains("\"event\":\"intent\""))
            .count();
        assert_eq!(
            intents, 1,
            "{id} ran, and its intent is there {intents} times"
        );
    }
    Ok(())
}

/// Runs commands until told to stop; gives the ids of those that ran.
fn client(scene: &Scene, stop: &AtomicBool) -> Verdict<Vec<String>> {
    let mut ids = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let run = scene
            .sjail(["run", "--agent", "c", "--json", "--", "true"])
            .output()?;
        let result = run.json()?;
        match run.code() {
            Some(0) => ids.extend(result["id"].as_str().map(str::to_owned)),
            // A sentence that names the broker, not a hang and not a crash.
            Some(125) => {
                run.stderr_has("broker")?;
            }
            other => return Err(Stop::failed(format!("exit {other:?}: {result}"))),
        }
    }
    Ok(ids)
}
