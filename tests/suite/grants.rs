//! Answers that last, how requests stand, and how their owner hears of them.

use std::fs;

use sjail_tests::{Scene, Test, Verdict, tests, wait};

use crate::desk::Desk;

pub fn suite() -> Vec<Test> {
    tests![
        so_many_times_and_no_more,
        in_one_workspace_and_no_other,
        for_one_session_and_no_other,
        always_is_a_narrow_pattern,
        shells_and_wrappers_are_never_allowed_for_good,
        the_allow_list_is_kept_and_recorded,
        whoever_waits_makes_its_session_no_main_one,
        every_status_has_its_name,
        the_owner_is_told,
    ]
}

const POLICY: &str = ".config/sjail/policy.toml";
const LINE: &str = "rm -rf build";

fn again(desk: &Desk<'_>) -> Verdict<i32> {
    let run = desk.sjail(["run", "--no-wait", "-c", LINE])?;
    Ok(run.code().unwrap_or(-1))
}

fn so_many_times_and_no_more(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let id = desk.ask(LINE)?;
    desk.sjail(["queue", "approve", &id, "--count", "3"])?
        .succeeds()?;
    desk.sjail(["run", "--approval", &id])?.succeeds()?;
    assert_eq!((again(&desk)?, again(&desk)?, again(&desk)?), (0, 0, 75));
    // For a while, until it is taken back.
    let id = desk.newest()?;
    desk.sjail(["queue", "reject", &id])?.exits(77)?;
    let id = desk.ask("rm -rf other")?;
    desk.sjail(["queue", "approve", &id, "--for", "1h"])?
        .succeeds()?;
    let grants = desk.sjail(["queue", "grants", "--json"])?.json()?;
    let other = grants["grants"].as_array().and_then(|all| {
        let mut all = all.iter().filter(|grant| grant["request"] == id.as_str());
        all.next().cloned()
    });
    let other = other.unwrap_or_default();
    desk.sjail(["queue", "grants"])?
        .stdout_has(&scene.workspace().display().to_string())?
        .lacks("folder ")?;
    let name = other["id"].as_str().unwrap_or_default();
    let run = ["run", "--no-wait", "-c", "rm -rf other"];
    desk.sjail(run)?.succeeds()?;
    desk.sjail(["queue", "revoke", name])?.succeeds()?;
    desk.sjail(run)?.exits(75)?;
    // What is not the same command is not covered.
    desk.sjail(["run", "--no-wait", "-c", "rm -rf other more"])?
        .exits(75)?;
    Ok(())
}

fn in_one_workspace_and_no_other(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let id = desk.ask(LINE)?;
    desk.sjail(["queue", "approve", &id, "--workspace"])?
        .succeeds()?;
    assert_eq!(again(&desk)?, 0);
    let other = scene.outside_file("project/x", "")?;
    let folder = other.parent().unwrap_or(&other);
    scene
        .sjail(["run", "--no-wait", "-c", LINE])
        .cwd(folder)
        .output()?
        .exits(75)?;
    Ok(())
}

fn for_one_session_and_no_other(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    let sjail = scene.program("sjail");
    // An agent: a program between the shell of a terminal and what it runs.
    let agent = format!(
        "#!/bin/sh\n{0} run --wait 60s -c '{LINE}'; echo first $?\n\
         {0} run --no-wait -c '{LINE}'; echo second $?\n",
        sjail.display()
    );
    scene.script("agent.sh", &agent)?;
    let shell = || {
        scene
            .host("/bin/sh")
            .args(["-c", "./agent.sh; :"])
            .terminal()
    };
    let mut terminal = shell()?;
    terminal.expect("answer from another terminal")?;
    let id = desk.newest()?;
    desk.sjail(["queue", "approve", &id, "--session"])?
        .succeeds()?;
    terminal.expect("first 0")?;
    terminal.expect("second 0")?;
    terminal.finish()?;
    assert_eq!(again(&desk)?, 75);
    Ok(())
}

fn always_is_a_narrow_pattern(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let id = desk.ask(LINE)?;
    desk.sjail(["queue", "show", &id])?
        .stdout_has("always")?
        .stdout_has("allows exactly `rm -rf build`")?;
    desk.sjail(["queue", "approve", &id, "--always"])?
        .succeeds()?;
    desk.sjail(["allowlist", "list"])?
        .stdout_has("rm -rf build")?
        .stdout_has(&format!("always, from {id}"))?;
    assert_eq!(again(&desk)?, 0);
    desk.sjail(["run", "--no-wait", "-c", "rm -rf build other"])?
        .exits(75)?;
    Ok(())
}

fn shells_and_wrappers_are_never_allowed_for_good(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    for line in [
        "sh -c 'rm -rf build'",
        "python3 -c 'import shutil; shutil.rmtree(\"build\")' && rm -rf build",
        "env X=1 rm -rf build",
        "rm -rf build; rm -rf other",
    ] {
        let id = desk.ask(line)?;
        let always = desk.sjail(["queue", "approve", &id, "--always"])?;
        assert_ne!(always.code(), Some(0), "{line}: {}", always.stdout);
        always.stderr_has("cannot be allowed for good")?;
    }
    for pattern in [
        "bash *",
        "sh -c *",
        "python3 *",
        "env *",
        "xargs *",
        "sudo *",
    ] {
        let added = desk.sjail(["allowlist", "add", pattern, "--reason", "x"])?;
        assert_ne!(added.code(), Some(0), "{pattern}: {}", added.stdout);
    }
    desk.sjail(["allowlist", "list"])?.lacks("*")?;
    Ok(())
}

fn the_allow_list_is_kept_and_recorded(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    scene.home_file(POLICY, "[commands]\nlevel = \"allowlist\"\n")?;
    let make = ["run", "--no-wait", "-c", "mkdir -p made"];
    desk.sjail(["check", "mkdir -p made"])?.exits(75)?;
    let add = ["allowlist", "add", "mkdir *", "--reason", "folders"];
    desk.sjail(add)?.succeeds()?;
    desk.sjail(make)?.succeeds()?;
    desk.sjail(["allowlist", "test", "mkdir x"])?
        .succeeds()?
        .stdout_has("mkdir *")?;
    // Another broker knows it, too.
    desk.broker(["stop"]).output()?.succeeds()?;
    let list = desk.sjail(["allowlist", "list", "--json"])?.json()?;
    let entry = &list["patterns"][0];
    assert_eq!(entry["pattern"], "mkdir *", "{list}");
    assert_eq!(entry["reason"], "folders", "{list}");
    assert!(
        entry["added_by"].is_string() && entry["added"].is_i64(),
        "{list}"
    );
    desk.sjail(make)?.succeeds()?;
    desk.sjail(["allowlist", "remove", "mkdir *"])?.succeeds()?;
    desk.sjail(make)?.exits(75)?;
    let events = desk.sjail(["audit", "log", "--events", "--last", "100", "--json"])?;
    let changes = events.json()?;
    let changes = changes.as_array().into_iter().flatten();
    let count = changes
        .filter(|record| record["event"] == "allowlist")
        .count();
    assert_eq!(count, 2, "{}", events.stdout);
    Ok(())
}

fn whoever_waits_makes_its_session_no_main_one(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.sjail(["run", "--no-wait", "--session=mine", "-c", LINE])?
        .exits(75)?;
    desk.sjail(["session", "register", "mine"])?
        .exits(77)?
        .stderr_has("from another terminal")?;
    desk.sjail(["session", "register", "another"])?.succeeds()?;
    Ok(())
}

fn every_status_has_its_name(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let status = |id: &str| -> Verdict<String> {
        let shown = desk.sjail(["queue", "show", id, "--json"])?.json()?;
        Ok(shown["status"].as_str().unwrap_or_default().to_owned())
    };
    let id = desk.ask(LINE)?;
    assert_eq!(status(&id)?, "pending");
    desk.sjail(["queue", "approve", &id])?.succeeds()?;
    assert_eq!(status(&id)?, "approved");
    desk.sjail(["run", "--approval", &id])?.succeeds()?;
    assert_eq!(status(&id)?, "used");
    let id = desk.ask(LINE)?;
    desk.sjail(["queue", "reject", &id, "--reason", "not now"])?
        .succeeds()?;
    assert_eq!(status(&id)?, "rejected");
    desk.sjail(["run", "--approval", &id])?
        .exits(77)?
        .stderr_has("not now")?;
    scene.home_file(POLICY, "[approval]\nttl = \"4s\"\n")?;
    let id = desk.ask(LINE)?;
    wait::until_true("it lapses", || {
        status(&id).is_ok_and(|now| now == "expired")
    })?;
    desk.sjail(["run", "--approval", &id])?.exits(75)?;
    let listed = |status: &str| -> Verdict<u64> {
        let words = ["queue", "list", "--status", status, "--json"];
        let listed = desk.sjail(words)?.json()?;
        Ok(listed["total"].as_u64().unwrap_or_default())
    };
    for (status, count) in [("used", 1), ("rejected", 1), ("expired", 1), ("all", 3)] {
        assert_eq!(listed(status)?, count, "{status}");
    }
    desk.sjail(["queue", "clear", "--older-than", "1h"])?
        .stdout_has("0 requests")?;
    let cleared = || {
        desk.sjail(["queue", "clear", "--older-than", "0s"])
            .and_then(|_| listed("all"))
            .is_ok_and(|left| left == 0)
    };
    wait::until_true("all are cleared", cleared)
}

fn the_owner_is_told(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let told = scene.home().join("told");
    let tell = scene.home_file("tell", "#!/bin/sh\nprintf '%s\\n' \"$@\" >\"$HOME/told.new\"\nmv \"$HOME/told.new\" \"$HOME/told\"\n")?;
    fs::set_permissions(&tell, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let policy = format!(
        "[approval]\npreview = \"never\"\non_ask = [\"{}\", \"{{summary}}\"]\n",
        tell.display()
    );
    scene.home_file(POLICY, &policy)?;
    desk.sjail(["queue", "list"])?.succeeds()?;
    let early = desk.ask("rm -rf early")?;
    let mut watch = scene.sjail(["queue", "watch"]).start()?;
    // What waits already is told first, and how to answer it.
    for _ in 0..2 {
        let said = watch.line()?;
        assert!(said.contains(&early), "{said:?}");
    }
    let line = "rm -rf build # \u{1b}[2J\u{202e}";
    let mut number = 0;
    let said = loop {
        number += 1;
        desk.ask(&format!("{line}{number}"))?;
        if let Ok(said) = watch.line()
            && !said.is_empty()
        {
            break said;
        }
    };
    assert!(said.starts_with('\u{7}'), "the bell: {said:?}");
    assert!(
        said.contains("pending") && !said.contains('\u{1b}'),
        "{said:?}"
    );
    wait::until_true("somebody is told", || {
        fs::read_to_string(&told).is_ok_and(|text| text.contains("rm -rf build"))
    })?;
    let text = fs::read_to_string(&told)?;
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    Ok(())
}
