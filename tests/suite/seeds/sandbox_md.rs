//! `SANDBOX.md` as it stands in the documents.

use serde_json::{Value, json};
use sjail_tests::{Scene, Test, Verdict, tests};

use crate::desk::Desk;

pub fn tests() -> Vec<Test> {
    tests![
        the_whole_file_holds_once_trusted,
        until_then_it_only_tightens,
        settings_for_approvals_hold,
        a_question_says_why,
        a_change_takes_the_trust_away,
        mistakes_are_named_by_line,
    ]
}

/// The example, word for word.
const FILE: &str = "\
# Secure Sandbox Configuration
## Security Level
Level: allowlist
## Allowed Commands (Auto-execute)
- ls
- pwd
- cat
- echo
- grep
- rg
- node --version
- npm list
## Dangerous Patterns (Require Approval)
- rm -rf
- dd if=
- mkfs
- sudo
- chmod 777
- *
## Disallowed Commands (Block)
- curl http://
- wget http://
- nc -l
- bash -c
- eval
## Approval Settings
- Auto-approve safe: true
- Dry-run by default: false
- Audit retention: 30 days
";

fn trust(scene: &Scene) -> Verdict {
    let shown = scene.sjail(["trust", "--hash", "0"]).output()?;
    let hash = shown.stdout.trim().rsplit(' ').next().unwrap_or_default();
    scene
        .sjail(["trust", "--hash", hash])
        .output()?
        .succeeds()?;
    Ok(())
}

fn action(scene: &Scene, line: &str) -> Verdict<String> {
    let answer = scene.sjail(["check", "--json", line]).output()?.json()?;
    let word = answer["suggested_action"].as_str().unwrap_or_default();
    Ok(word.to_owned())
}

fn by_policy(scene: &Scene, line: &str) -> Verdict<Value> {
    let words = ["check", "--by-policy", "--json", line];
    scene.sjail(words).output()?.json()
}

/// secure-sandbox 41-71 (page 30-58): the file, word for word.
fn the_whole_file_holds_once_trusted(scene: &Scene) -> Verdict {
    scene.file("SANDBOX.md", FILE)?;
    trust(scene)?;
    for (line, expected) in [
        ("ls -la", "execute"),
        ("cat notes", "execute"),
        ("npm list", "execute"),
        ("node --version", "execute"),
        ("rm -rf build", "queue_for_approval"),
        ("dd if=a of=b", "queue_for_approval"),
        // What is worse by itself than the file says stays worse.
        ("mkfs /dev/null", "block"),
        ("ls | grep x", "execute"),
        ("sudo ls", "queue_for_approval"),
        ("chmod 777 x", "queue_for_approval"),
        ("anything-else", "queue_for_approval"),
        ("npm install express", "queue_for_approval"),
        ("curl http://example.org/", "block"),
        ("wget http://example.org/", "block"),
        ("nc -l 8080", "block"),
        ("bash -c ls", "block"),
        ("eval ls", "block"),
    ] {
        // What the policy says; whether anybody could give it what it needs is another question.
        let answer = by_policy(scene, line)?;
        assert_eq!(answer["suggested_action"], expected, "{line}: {answer}");
    }
    // A pattern of the file names itself, and what it names is dangerous in the log.
    for (line, pattern) in [
        (
            "dd if=a of=b",
            ("commands.ask `dd if=` (", "SANDBOX.md:15)"),
        ),
        (
            "rm -rf build",
            ("commands.ask `rm -rf` (", "SANDBOX.md:14)"),
        ),
    ] {
        let answer = by_policy(scene, line)?;
        assert_eq!(answer["risk_level"], "dangerous", "{answer}");
        let rule = answer["rule"].as_str().unwrap_or_default();
        let (key, place) = pattern;
        assert!(rule.starts_with(key) && rule.ends_with(place), "{rule}");
    }
    assert_eq!(by_policy(scene, "anything-else")?["risk_level"], "normal");
    let explained = scene.sjail(["explain", "--json"]).output()?.json()?;
    for (key, value) in [
        ("commands.level", json!("allowlist")),
        ("commands.auto_approve_safe", json!(true)),
        ("commands.dry_run", json!(false)),
        ("audit.retention", json!("30d")),
    ] {
        let found = explained["values"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|row| row["key"] == key)
            .map(|row| row["value"]["value"].clone());
        assert_eq!(found, Some(value), "{key}");
    }
    scene.run(["--", "ls"]).output()?.succeeds()?;
    scene.run(["--", "nc", "-l", "1"]).output()?.exits(77)?;
    Ok(())
}

/// secure-sandbox 252 (page 180): trusted is what its owner has trusted.
fn until_then_it_only_tightens(scene: &Scene) -> Verdict {
    let loose = "## Security Level\nLevel: full\n## Allowed Commands\n- rm -rf *\n\
                 ## Disallowed Commands\n- wget\n";
    scene.file("SANDBOX.md", loose)?;
    assert_eq!(action(scene, "rm -rf build")?, "queue_for_approval");
    assert_eq!(action(scene, "wget https://example.org/")?, "block");
    scene
        .sjail(["policy", "check"])
        .output()?
        .succeeds()?
        .stdout_has("SANDBOX.md:4")?;
    // The control: the same line holds once the file is trusted.
    trust(scene)?;
    assert_eq!(action(scene, "rm -rf build")?, "execute");
    Ok(())
}

/// secure-sandbox 68-71 (page 55-58): safe is asked about if the file says so; every run is a dry run.
fn settings_for_approvals_hold(scene: &Scene) -> Verdict {
    let settings = |safe: bool, dry: bool| {
        let text = format!(
            "## Approval Settings\n- Auto-approve safe: {safe}\n- Dry-run by default: {dry}\n"
        );
        scene.file("SANDBOX.md", text)
    };
    settings(false, false)?;
    assert_eq!(action(scene, "ls")?, "queue_for_approval");
    settings(true, true)?;
    trust(scene)?;
    assert_eq!(action(scene, "ls")?, "execute");
    scene.run(["--", "touch", "made"]).output()?.succeeds()?;
    assert!(!scene.workspace().join("made").exists());
    settings(true, false)?;
    trust(scene)?;
    scene.run(["--", "touch", "made"]).output()?.succeeds()?;
    assert!(scene.workspace().join("made").exists());
    Ok(())
}

/// The file as it stands asks about everything until it is trusted, and says so.
fn a_question_says_why(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    scene.file("SANDBOX.md", FILE)?;
    let asked = scene.sjail(["run", "--wait", "1s", "--", "ls"]).output()?;
    asked
        .exits(75)?
        .stderr_has("this waits for an approval (safe), by commands.ask `*` (")?
        .stderr_has(
            "SANDBOX.md allows does not count until you have read it and run `sjail trust`",
        )?;
    scene
        .sjail(["run", "--no-wait", "--", "ls"])
        .output()?
        .exits(75)?
        .stderr_has("from another terminal")?
        .stderr_has("`sjail trust`")?;
    // One note for the eight lines of a list.
    let checked = scene.sjail(["policy", "check"]).output()?;
    checked.stdout_has("SANDBOX.md:5 and 7 more lines: `commands.allow` would loosen")?;
    assert_eq!(checked.stdout.matches("commands.allow").count(), 1);
    // The control: trusted, nothing has to be said.
    trust(scene)?;
    scene
        .sjail(["run", "--no-wait", "--", "ls"])
        .output()?
        .succeeds()?;
    Ok(())
}

fn a_change_takes_the_trust_away(scene: &Scene) -> Verdict {
    scene.file("SANDBOX.md", "## Allowed Commands\n- rm -rf *\n")?;
    trust(scene)?;
    assert_eq!(action(scene, "rm -rf build")?, "execute");
    scene.file("SANDBOX.md", "## Allowed Commands\n- rm -rf *\n- ls\n")?;
    assert_eq!(action(scene, "rm -rf build")?, "queue_for_approval");
    Ok(())
}

fn mistakes_are_named_by_line(scene: &Scene) -> Verdict {
    scene.file(
        "SANDBOX.md",
        FILE.replace("Level: allowlist", "Level: strict"),
    )?;
    scene
        .run(["--", "ls"])
        .output()?
        .exits(125)?
        .stderr_has("SANDBOX.md:3:1")?
        .stderr_has("full, allowlist, deny")?;
    Ok(())
}
