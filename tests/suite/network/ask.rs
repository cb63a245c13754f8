//! Hosts that no rule speaks of: held, asked about, answered.

use sjail_tests::{Identity, Scene, Stop, Terminal, Test, Verdict, wait};

use super::town;

pub fn tests() -> Vec<Test> {
    // In an ordinary user's world the folders above the broker's belong to nobody.
    [
        Test::new(
            "a_new_name_is_held_until_somebody_allows_it",
            a_new_name_is_held_until_somebody_allows_it,
        ),
        Test::new("a_no_is_a_refusal", a_no_is_a_refusal),
        Test::new("without_anybody_it_is_no", without_anybody_it_is_no),
    ]
    .map(|test| test.only(Identity::Root))
    .into()
}

const POLICY: &str = "[network]\nmode = \"filtered\"\nask = true\n";

/// A page fetched at a terminal of its own, so that the test may answer for it.
fn fetch(scene: &Scene) -> Verdict<Terminal> {
    scene.needs(&["curl"])?;
    scene.home_file(".config/sjail/policy.toml", POLICY)?;
    scene
        .sjail(["run", "--", "curl", "-sS", "--max-time", "100"])
        .args(["http://new.test/"])
        .terminal()
}

/// The question that waits.
fn question(scene: &Scene) -> Verdict<String> {
    wait::until("a question waits", || {
        let listed = scene.sjail(["queue", "list", "--json"]).output().ok()?;
        let listed = listed.json().ok()?;
        let first = &listed["requests"][0];
        first.to_string().contains("new.test").then_some(())?;
        first["id"].as_str().map(str::to_owned)
    })
}

fn stop(scene: &Scene) -> Verdict {
    scene
        .host(scene.program("sjail-broker"))
        .args(["stop"])
        .output()?;
    Ok(())
}

fn a_new_name_is_held_until_somebody_allows_it(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    let mut terminal = fetch(scene)?;
    let id = question(scene)?;
    if !town.asked().is_empty() {
        return Err(Stop::failed("the name was looked up before the answer"));
    }
    scene
        .sjail(["queue", "approve", &id])
        .output()?
        .succeeds()?;
    terminal.expect("hello new.test")?;
    assert!(terminal.finish()?.success());
    stop(scene)
}

fn a_no_is_a_refusal(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    let mut terminal = fetch(scene)?;
    let id = question(scene)?;
    scene
        .sjail(["queue", "reject", &id, "--reason", "not today"])
        .output()?
        .succeeds()?;
    terminal.expect("nobody allowed it")?;
    assert!(!terminal.finish()?.success());
    if !town.asked().is_empty() {
        return Err(Stop::failed("the name was looked up all the same"));
    }
    stop(scene)
}

fn without_anybody_it_is_no(scene: &Scene) -> Verdict {
    let town = town(scene)?;
    scene.needs(&["curl"])?;
    scene.home_file(".config/sjail/policy.toml", POLICY)?;
    let ended = scene
        .run(["--", "curl", "-sS", "http://new.test/"])
        .output()?;
    super::is_refused(&ended)?;
    ended.stderr_has("nobody allowed it")?;
    match town.asked().is_empty() {
        true => Ok(()),
        false => Err(Stop::failed("the name was looked up all the same")),
    }
}
