//! The broker is killed at random moments while clients submit, approve and run, and once
//! its disk is full: every client has a clear answer each time, nothing that was acknowledged
//! is lost, no approval is used twice, the chain is whole, the next start is clean.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use sjail_tests::{Identity, Scene, Stop, Test, Verdict, wait};

use crate::desk::Desk;

/// The short one: run with all others.
pub fn suite() -> Vec<Test> {
    vec![
        Test::new("killed_at_random_moments", |scene| killed(scene, 4, 40))
            .alone()
            .timeout(240),
        Test::new(
            "what_a_full_disk_kept_out_is_told_later",
            what_a_full_disk_kept_out_is_told_later,
        )
        .only(Identity::Root),
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

/// What clients were told: their answers bind the broker.
#[derive(Default)]
struct Told {
    /// Runs that ended well.
    ran: Vec<String>,
    /// Approvals that were acknowledged.
    approved: Vec<String>,
    /// The marks of commands that ran under an approval, and those that perhaps did.
    marks: Vec<(PathBuf, Ran)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ran {
    Once,
    AtMostOnce,
}

fn killed(scene: &Scene, clients: usize, kills: usize) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    // Only root can have a disk of its own: in a user namespace of the test's own the folders
    // above would be nobody's, and the broker trusts none that others could exchange.
    let disk = match scene.identity() {
        Identity::Root => SmallDisk::below(scene)?,
        Identity::User => None,
    };
    scene.home_file(
        ".config/sjail/policy.toml",
        "[commands]\nask = [\"printf\"]\n\
         [approval]\npreview = \"never\"\n\
         [audit]\non_failure = \"block\"\n",
    )?;
    desk.sjail(["queue", "list"])?.succeeds()?;
    let stop = AtomicBool::new(false);
    let told = thread::scope(|scope| -> Verdict<Vec<Told>> {
        let stop = &stop;
        let clients: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || client(scene, number, stop)))
            .collect();
        let gone = || clients.iter().all(thread::ScopedJoinHandle::is_finished);
        let ended = kill_again_and_again(&desk, kills, disk.as_ref(), gone);
        stop.store(true, Ordering::SeqCst);
        let mut told = Vec::new();
        for client in clients {
            let joined = client
                .join()
                .map_err(|_| Stop::failed("a client panicked"))?;
            told.push(joined?);
        }
        ended.map(|()| told)
    })?;
    check(scene, &desk, &told)
}

/// Kills the broker at random moments; in the middle of it the disk is full for a while.
/// Without clients none would come up again: then they say what is wrong.
fn kill_again_and_again(
    desk: &Desk<'_>,
    kills: usize,
    disk: Option<&SmallDisk>,
    clients_gone: impl Fn() -> bool,
) -> Verdict {
    let full = kills / 2..kills / 2 + kills / 10;
    let mut ballast = None;
    let mut killed = 0;
    let mut seed: u64 = 0x9e37_79b9;
    while killed < kills && !clients_gone() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        thread::sleep(Duration::from_millis(20 + (seed >> 33) % 300));
        if let Some(pid) = desk.listening() {
            killed += usize::from(kill(pid, Signal::SIGKILL).is_ok());
        } else if ballast.is_some() {
            // On a full disk none may come up that could be killed.
            killed += 1;
        }
        match (full.contains(&killed), &ballast, disk) {
            (true, None, Some(disk)) => ballast = Some(disk.fill()?),
            (false, Some(path), _) => {
                fs::remove_file(path)?;
                ballast = None;
            }
            _ => {}
        }
    }
    if let Some(path) = ballast {
        fs::remove_file(path)?;
    }
    Ok(())
}

fn check(scene: &Scene, desk: &Desk<'_>, told: &[Told]) -> Verdict {
    desk.sjail(["queue", "list"])?.succeeds()?;
    desk.sjail(["run", "--", "true"])?.succeeds()?;
    desk.sjail(["audit", "verify"])?.succeeds()?;
    let export = desk.sjail(["audit", "export", "--format", "jsonl"])?;
    let mut counts: HashMap<(String, String), usize> = HashMap::new();
    for line in export.stdout.lines() {
        let record: Value = serde_json::from_str(line)?;
        let word = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
        *counts.entry((word("id"), word("event"))).or_default() += 1;
    }
    let count = |id: &str, event: &str| {
        let key = (id.to_owned(), event.to_owned());
        counts.get(&key).copied().unwrap_or_default()
    };
    let mut ran = 0;
    for told in told {
        for id in &told.ran {
            // How it ended may still lie in the spool.
            let intents = count(id, "intent");
            assert_eq!(
                intents, 1,
                "{id} ran, and its intent is there {intents} times"
            );
            ran += 1;
        }
        for id in &told.approved {
            assert_eq!(count(id, "approval"), 1, "the answer to {id} is lost");
            assert!(count(id, "intent") <= 1, "{id} was used twice");
        }
        for (mark, expected) in &told.marks {
            let times = fs::read(mark).map_or(0, |text| text.len());
            match expected {
                Ran::Once => assert_eq!(times, 1, "{} ran {times} times", mark.display()),
                Ran::AtMostOnce => assert!(times <= 1, "{} ran {times} times", mark.display()),
            }
        }
    }
    let approved: usize = told.iter().map(|told| told.approved.len()).sum();
    assert!(
        ran > 0 && approved > 0,
        "{ran} ran, {approved} were approved"
    );
    let spool = scene.home().join(".local/state/sjail/spool");
    wait::until_true("the spool is taken in", || {
        fs::read_dir(&spool).map_or(0, Iterator::count) == 0
    })
}

/// Runs commands until told to stop, every other one after asking.
fn client(scene: &Scene, number: usize, stop: &AtomicBool) -> Verdict<Told> {
    let mut told = Told::default();
    let mut round = 0;
    while !stop.load(Ordering::SeqCst) {
        round += 1;
        match round % 2 {
            0 => ask_and_run(scene, &format!("mark-{number}-{round}"), &mut told)?,
            _ => run_at_once(scene, &mut told)?,
        }
    }
    Ok(told)
}

fn run_at_once(scene: &Scene, told: &mut Told) -> Verdict {
    let run = scene
        .sjail(["run", "--agent", "c", "--json", "--", "true"])
        .output()?;
    let result = run.json()?;
    match run.code() {
        Some(0) => told.ran.extend(result["id"].as_str().map(str::to_owned)),
        // A sentence that names the broker, not a hang and not a crash.
        Some(125) => {
            run.stderr_has("broker")?;
        }
        other => return Err(Stop::failed(format!("exit {other:?}: {result}"))),
    }
    Ok(())
}

/// Asks from a terminal of its own, answers from elsewhere, and uses the answer twice at the
/// same time.
fn ask_and_run(scene: &Scene, mark: &str, told: &mut Told) -> Verdict {
    let line = format!("printf x >>{mark}");
    let mut terminal = scene.sjail(["run", "--no-wait", "-c", &line]).terminal()?;
    let code = terminal.finish()?.code();
    let screen = terminal.screen();
    let id = screen
        .split_once("approval is pending: ")
        .and_then(|(_, rest)| rest.split('.').next())
        .map(str::to_owned);
    let id = match (code, id) {
        (Some(75), Some(id)) => id,
        (Some(125), _) if screen.contains("broker") => return Ok(()),
        (other, _) => return Err(Stop::failed(format!("exit {other:?}: {screen}"))),
    };
    let answer = scene.sjail(["queue", "approve", &id]).output()?;
    match answer.code() {
        Some(0) => told.approved.push(id.clone()),
        // It may have been heard, or not; either way there was a sentence.
        Some(_) if !answer.stderr.trim().is_empty() => {}
        other => return Err(Stop::failed(format!("approve: exit {other:?}, silent"))),
    }
    let use_it = || scene.sjail(["run", "--no-wait", "--approval", &id]).start();
    let (first, second) = (use_it()?, use_it()?);
    let (first, second) = (first.finish()?, second.finish()?);
    for run in [&first, &second] {
        if !matches!(run.code(), Some(0 | 75 | 77 | 125))
            || run.code() != Some(0) && run.stderr.trim().is_empty()
        {
            return Err(Stop::failed(format!(
                "--approval: exit {:?}: {}",
                run.code(),
                run.stderr
            )));
        }
    }
    let ended_well = [&first, &second].iter().any(|run| run.code() == Some(0));
    let ran = match ended_well {
        true => Ran::Once,
        false => Ran::AtMostOnce,
    };
    told.marks.push((scene.workspace().join(mark), ran));
    Ok(())
}

fn what_a_full_disk_kept_out_is_told_later(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let Some(disk) = SmallDisk::below(scene)? else {
        return scene.skip("no mount namespace can be had");
    };
    let run = ["run", "--", "true"];
    desk.sjail(run)?.succeeds()?.lacks("audit log")?;
    let ballast = disk.fill()?;
    // What fits into pages that are there already is still written.
    let mut kept_out = 0;
    for _ in 0..200 {
        let run = desk.sjail(run)?;
        run.succeeds()?;
        kept_out += usize::from(run.stderr.contains("this run is not in the audit log"));
        if kept_out == 2 {
            break;
        }
    }
    assert_eq!(kept_out, 2, "the disk was never full");
    fs::remove_file(ballast)?;
    desk.sjail(run)?
        .succeeds()?
        .stderr_has("2 runs before this one are not in the audit log")?;
    desk.sjail(run)?.succeeds()?.lacks("audit log")?;
    let events = desk.sjail(["audit", "log", "--events"])?;
    events.stdout_has("2 runs before this one are not in the audit log")?;
    desk.sjail(["audit", "verify"])?.succeeds()?;
    Ok(())
}

/// The broker's state on a disk that can be filled, in a mount namespace of this test's own.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// One in a mount namespace of its own, where that can be had.
    fn below(scene: &Scene) -> Verdict<Option<SmallDisk>> {
        if unshare(CloneFlags::CLONE_NEWNS).is_err() {
            return Ok(None);
        }
        let none: Option<&str> = None;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(none, "/", none, private, none)?;
        let folder = scene.home().join(".local/state/sjail");
        fs::create_dir_all(&folder)?;
        // Room for what many clients have recorded on a fast machine, and then some.
        let options = "size=512m,mode=0700";
        let plain = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), &folder, Some("tmpfs"), plain, Some(options))?;
        Ok(Some(SmallDisk { folder }))
    }

    /// Leaves no room, not even for one byte; the file that takes it all.
    fn fill(&self) -> Verdict<PathBuf> {
        let path = self.folder.join("ballast");
        let mut file = File::create(&path)?;
        let chunk = vec![0; 1 << 16];
        for size in [1 << 16, 1 << 12] {
            while file.write_all(&chunk[..size]).is_ok() {}
        }
        Ok(path)
    }
}
