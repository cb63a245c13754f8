//! `sjail init`: a policy to begin with, the agent's text; `sjail sandbox`.

use std::fs;

use serde_json::json;
use sjail_tests::{Scene, Test, Verdict, tests};

pub fn tests() -> Vec<Test> {
    tests![
        a_starter_policy_is_written_once,
        the_agents_text_is_printed,
        sandboxes_are_listed_and_removed,
    ]
}

/// secure-sandbox 41-42 (page 30), ac-security-sandbox 48-66: a configuration to begin with; the allow list to switch on.
fn a_starter_policy_is_written_once(scene: &Scene) -> Verdict {
    scene.sjail(["init", "policy"]).output()?.succeeds()?;
    scene.sjail(["policy", "check"]).output()?.succeeds()?;
    scene
        .sjail(["init", "policy"])
        .output()?
        .exits(125)?
        .stderr_has("sjail.toml cannot be written: there is one already; change that one")?;
    scene
        .sjail(["init", "policy", "--markdown"])
        .output()?
        .succeeds()?;
    scene.sjail(["policy", "check"]).output()?.succeeds()?;
    fs::remove_file(scene.workspace().join("SANDBOX.md"))?;
    fs::remove_file(scene.workspace().join("sjail.toml"))?;
    scene
        .sjail(["init", "policy", "--coding"])
        .output()?
        .succeeds()?;
    // Switched on, it allows nothing but the list.
    for (line, code) in [("anything-else", 77), ("chmod 777 x", 77)] {
        scene.sjail(["check", line]).output()?.exits(code)?;
    }
    Ok(())
}

/// secure-sandbox 195-241 (page 126-170): the text for an agent's prompt.
fn the_agents_text_is_printed(scene: &Scene) -> Verdict {
    let text = scene.sjail(["init", "agent"]).output()?;
    for part in [
        "sandbox_check(command)",
        "sandbox_exec",
        "Dry run",
        "dangerous",
    ] {
        text.stdout_has(part)?;
    }
    Ok(())
}

fn sandboxes_are_listed_and_removed(scene: &Scene) -> Verdict {
    scene.run(["--", "true"]).output()?.succeeds()?;
    let work = scene.workspace().display().to_string();
    let list = |scene: &Scene| scene.sjail(["sandbox", "list", "--json"]).output()?.json();
    let listed = list(scene)?;
    assert_eq!(listed[0]["workspace"], work.as_str(), "{listed}");
    scene
        .sjail(["sandbox", "remove", &work])
        .output()?
        .succeeds()?;
    assert_eq!(list(scene)?, json!([]));
    scene
        .sjail(["sandbox", "remove", "none"])
        .output()?
        .exits(125)?;
    Ok(())
}
