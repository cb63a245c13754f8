//! What is written down, and what happens when one of the parts goes away.

use std::os::unix::fs::MetadataExt;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sjail_tests::{Identity, Scene, Stop, Test, Verdict, tests, wait};

use super::{curl, filtered, is_refused, town};

pub fn tests() -> Vec<Test> {
    let mut tests = tests![
        every_connection_is_in_the_result,
        what_was_refused_is_named_with_its_remedy,
        a_killed_relay_opens_nothing,
        a_killed_supervisor_takes_the_relay_along,
        the_relay_can_do_nothing_else,
    ];
    // In an ordinary user's world the folders above the broker's belong to nobody.
    tests.push(
        Test::new("the_record_has_the_network", the_record_has_the_network).only(Identity::Root),
    );
    tests
}

fn every_connection_is_in_the_result(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    let result = curl(
        scene,
        &["--json", "--allow-host", "www.test"],
        &["-d", "some data", "http://www.test/"],
    )?
    .succeeds()?
    .json()?;
    let network = result["network"].as_array().cloned().unwrap_or_default();
    let [entry] = network.as_slice() else {
        return Err(Stop::failed(format!("not one entry: {result}")));
    };
    for (key, value) in [
        ("host", serde_json::json!("www.test")),
        ("port", serde_json::json!(80)),
        ("decision", serde_json::json!("allow")),
        ("address", serde_json::json!("203.0.113.10")),
        ("count", serde_json::json!(1)),
    ] {
        if entry[key] != value {
            return Err(Stop::failed(format!("{key} is not {value}: {entry}")));
        }
    }
    let bytes = |key: &str| entry[key].as_u64().unwrap_or(0);
    // The request and the page, to the byte.
    let page = result["stdout"].as_str().unwrap_or_default().len() as u64;
    if bytes("sent") < 60 || bytes("received") < page + 40 {
        return Err(Stop::failed(format!("bytes are missing: {entry}")));
    }
    Ok(())
}

fn what_was_refused_is_named_with_its_remedy(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    let output = curl(
        scene,
        &["--json", "--allow-host", "www.test"],
        &["http://evil.test/", "http://203.0.113.10/"],
    )?;
    let network = output.json()?["network"].clone();
    let find = |host: &str| {
        network
            .as_array()
            .and_then(|list| list.iter().find(|entry| entry["host"] == host))
            .cloned()
            .ok_or_else(|| Stop::failed(format!("{host} is not in {network}")))
    };
    for (host, fix) in [
        ("evil.test", "--allow-host evil.test"),
        ("203.0.113.10", "--allow-host 203.0.113.10"),
    ] {
        let entry = find(host)?;
        if entry["decision"] != "refuse" || entry["fix"] != fix {
            return Err(Stop::failed(format!("not refused with its fix: {entry}")));
        }
        output.stderr_has(fix)?;
    }
    Ok(())
}

fn the_record_has_the_network(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    scene.needs(&["curl"])?;
    let run = scene
        .sjail([
            "run",
            "--session",
            "s1",
            "--json",
            "--allow-host",
            "www.test",
        ])
        .args(["--", "curl", "-sS", "http://www.test/"])
        .output()?;
    run.succeeds()?.stdout_has("hello www.test")?;
    let id = run.json()?["id"].as_str().unwrap_or_default().to_owned();
    let shown = scene.sjail(["audit", "show", &id, "--json"]).output()?;
    shown
        .succeeds()?
        .stdout_has("www.test")?
        .stdout_has("received")?;
    scene
        .sjail(["audit", "show", &id])
        .output()?
        .succeeds()?
        .stdout_has("allow www.test:80, at 203.0.113.10, ")?;
    scene
        .host(scene.program("sjail-broker"))
        .args(["stop"])
        .output()?;
    Ok(())
}

/// The relay of a running sjail: its child that is not the jail's pid 1.
pub fn relay(sjail: Pid) -> Verdict<Pid> {
    wait::until("the relay runs", || {
        let children = std::fs::read_to_string(format!("/proc/{sjail}/task/{sjail}/children"));
        children.ok()?.split_ascii_whitespace().find_map(|pid| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            // The relay is in our own pid namespace; pid 1 of the jail is not.
            let spaces = status.lines().find(|line| line.starts_with("NSpid:"))?;
            let here = spaces.split_ascii_whitespace().count() == 2;
            let held = status.contains("Seccomp:\t2");
            (here && held).then(|| Pid::from_raw(pid.parse().unwrap_or(0)))
        })
    })
}

const WAITS: &str = "touch started; while [ ! -e go ]; do sleep 0.05; done; ";

fn a_killed_relay_opens_nothing(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    scene.needs(&["curl"])?;
    scene.file(
        "later.sh",
        format!("{WAITS} curl -sS --max-time 30 http://www.test/"),
    )?;
    let mut running =
        filtered(scene, &["--allow-host", "www.test"], &["sh", "later.sh"]).start()?;
    running.wait_for_file(scene.workspace().join("started"))?;
    let relay = relay(running.pid())?;
    kill(relay, Signal::SIGKILL)?;
    wait::until_true("the relay is gone", || kill(relay, None).is_err())?;
    scene.file("go", "")?;
    let output = running.finish()?;
    is_refused(&output)?;
    output.stderr_has("relay")?;
    Ok(())
}

fn a_killed_supervisor_takes_the_relay_along(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    scene.file("later.sh", WAITS)?;
    let mut running =
        filtered(scene, &["--allow-host", "www.test"], &["sh", "later.sh"]).start()?;
    running.wait_for_file(scene.workspace().join("started"))?;
    let relay = relay(running.pid())?;
    running.signal(Signal::SIGKILL)?;
    running.finish()?;
    wait::until_true("the relay is gone", || {
        match std::fs::read_to_string(format!("/proc/{relay}/status")) {
            Ok(status) => status.contains("State:\tZ"),
            Err(_) => true,
        }
    })
}

fn the_relay_can_do_nothing_else(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    scene.file("later.sh", WAITS)?;
    let mut running =
        filtered(scene, &["--allow-host", "www.test"], &["sh", "later.sh"]).start()?;
    running.wait_for_file(scene.workspace().join("started"))?;
    let relay = relay(running.pid())?;
    let status = std::fs::read_to_string(format!("/proc/{relay}/status"))?;
    for line in [
        "CapEff:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        if !status.contains(line) {
            return Err(Stop::failed(format!("no {line:?} in {status}")));
        }
    }
    // What nobody may look into belongs to nobody.
    let owner = std::fs::metadata(format!("/proc/{relay}/environ"))?.uid();
    if scene.identity() == Identity::User && owner == nix::unistd::getuid().as_raw() {
        return Err(Stop::failed("the relay can be looked into"));
    }
    scene.file("go", "")?;
    running.finish()?.succeeds()?;
    Ok(())
}
