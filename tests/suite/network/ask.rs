//! Hosts that no rule speaks of: held, asked about, answered.

use std::path::PathBuf;

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
        Test::new(
            "an_answer_goes_as_far_as_was_said",
            an_answer_goes_as_far_as_was_said,
        ),
        Test::new(
            "a_registry_is_remembered_for_its_client",
            a_registry_is_remembered_for_its_client,
        ),
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

/// For one workspace: there nobody is asked again, elsewhere somebody is, and silence is a no.
fn an_answer_goes_as_far_as_was_said(scene: &Scene) -> Verdict {
    let _town = town(scene)?;
    let mut terminal = fetch(scene)?;
    let id = question(scene)?;
    scene
        .sjail(["queue", "approve", &id, "--workspace"])
        .output()?
        .succeeds()?;
    terminal.expect("hello new.test")?;
    terminal.finish()?;
    let brief = format!("{POLICY}[approval]\nwait = \"1s\"\n");
    scene.home_file(".config/sjail/policy.toml", brief)?;
    let again = |folder: PathBuf| {
        let words = ["run", "--", "curl", "-sS", "http://new.test/"];
        scene.sjail(words).cwd(folder).output()
    };
    again(scene.workspace())?
        .succeeds()?
        .stdout_has("hello new.test")?;
    let other = scene.home().join("other");
    std::fs::create_dir(&other)?;
    let elsewhere = again(other)?;
    super::is_refused(&elsewhere)?;
    elsewhere.stderr_has("nobody allowed it")?;
    stop(scene)
}

/// Where no settings name a registry somebody is asked; the answer is that package manager's
/// group from then on, also where nobody could be asked, and nobody else's.
fn a_registry_is_remembered_for_its_client(scene: &Scene) -> Verdict {
    scene.needs(&["npm", "curl"])?;
    let _town = town(scene)?;
    scene.file("package.json", "{}")?;
    let install = || {
        scene
            .sjail(["run", "--env", "npm_config_registry=http://new.test/"])
            .args(["--json", "--", "npm", "install", "--fetch-retries=0"])
            .args(["--no-audit", "--no-fund", "--no-update-notifier", "tiny"])
    };
    let curl = |options: &[&str]| {
        scene
            .sjail(["run"])
            .args(options)
            .args(["--", "curl", "-sS", "http://new.test/"])
            .output()
    };
    let reached = || -> Verdict<bool> {
        let network = install().output()?.json()?["network"].to_string();
        Ok(network.contains("new.test") && network.contains("\"allow\""))
    };
    // No terminal, and nothing is known: there is nobody to ask.
    assert!(!reached()?);
    curl(&["--allow-host", "@npm"])?
        .exits(125)?
        .stderr_has("stands for nobody")?;
    let mut terminal = install().terminal()?;
    let id = question(scene)?;
    scene
        .sjail(["queue", "show", &id])
        .output()?
        .succeeds()?
        .stdout_has("always allows it for npm alone")?;
    scene
        .sjail(["queue", "approve", &id, "--always"])
        .output()?
        .succeeds()?;
    // What the server says is no package.
    terminal.finish()?;
    assert!(reached()?);
    super::is_refused(&curl(&[])?)?;
    curl(&["--allow-host", "@npm"])?
        .succeeds()?
        .stdout_has("hello new.test")?;
    // It outlives the broker, and can be taken back.
    stop(scene)?;
    assert!(reached()?);
    let grants = scene
        .sjail(["queue", "grants", "--json"])
        .output()?
        .json()?;
    let grant = grants["grants"][0]["id"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    scene
        .sjail(["queue", "revoke", &grant])
        .output()?
        .succeeds()?;
    assert!(!reached()?);
    // Behind an agent there is somebody, too, who may be late.
    let agents = scene
        .sjail(["run", "--agent", "a", "--timeout", "15s"])
        .args(["--env", "npm_config_registry=http://new.test/", "--"])
        .args(["npm", "install", "--fetch-retries=0", "tiny"])
        .start()?;
    question(scene)?;
    super::is_refused(&agents.finish()?)?;
    stop(scene)
}
