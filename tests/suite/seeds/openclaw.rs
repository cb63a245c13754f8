//! `sjail policy import openclaw.json`, the three scenarios of its guide, and what
//! `sjail explain` says to them.

use serde_json::{Value, json};
use sjail_tests::{Output, Scene, Test, Verdict, tests};

use crate::desk::Desk;

pub fn tests() -> Vec<Test> {
    tests![
        openclaw_is_taken_over,
        inside_the_sandbox_as_its_defaults_say,
        nothing_of_the_workspace_is_seen,
        profiles_and_groups_hold_what_they_say,
        names_of_other_tools_are_taken_and_told,
        what_is_left_out_is_meant_as_it_is_there,
        networks_are_understood,
        mistakes_are_told_without_a_line_that_nobody_wrote,
        a_trusted_machine,
        mixed_trust,
        a_remote_server,
        explained_as_the_guide_explains,
        elevated_commands_are_asked_about_or_not,
        without_a_sandbox_nothing_has_to_leave_it,
        the_three_controls_do_not_depend_on_each_other,
        every_key_of_the_summary_is_taken_over,
        the_exercise_of_the_guide,
    ]
}

/// Takes a configuration over as the user's policy; what was said on the way.
fn taken_over(scene: &Scene, config: &str) -> Verdict<Output> {
    let file = scene.outside_file("openclaw.json", config)?;
    let imported = scene.sjail(["policy", "import"]).args([&file]).output()?;
    imported.succeeds()?;
    scene.home_file(".config/sjail/policy.toml", &imported.stdout)?;
    Ok(imported)
}

fn tools(scene: &Scene) -> Verdict<Value> {
    let mut explained = scene.sjail(["explain", "--json"]).output()?.json()?;
    Ok(explained["tools"].take())
}

/// sandboxing 38-52, 105-130, 138-186, 211-227: the JSON5.
fn openclaw_is_taken_over(scene: &Scene) -> Verdict {
    let file = scene.file(
        "openclaw.json",
        r#"{
  agents: {
    defaults: {
      sandbox: {
        mode: "all",          // Sandbox every session
        scope: "session",     // One container per session
        workspace: "ro",
        binds: [
          "/home/user/projects:/projects:ro",    // Read-only project access
          "/home/user/data:/data:rw"             // Read-write data access
        ]
      }
    }
  },
  tools: {
    profile: "coding",
    deny: [
      "browser",              // Specific tool
      "group:automation",     // Tool group
      "cron",
      "gateway"
    ],
    allow: [
      "web_search"            // Re-enable something denied by profile
    ],
    elevated: {
      enabled: true,
      patterns: [
        "brew *",          // Homebrew commands need host access
        "git push *",      // Push needs host SSH keys
        "docker *"         // Docker commands need host daemon
      ],
      requireApproval: true   // Always ask user first
    }
  },
  channels: { telegram: { enabled: true } }
}
"#,
    )?;
    let imported = scene.sjail(["policy", "import"]).args([&file]).output()?;
    imported
        .succeeds()?
        .stderr_has("`channels.telegram.enabled` has no meaning here")?;
    scene.home_file(".config/sjail/policy.toml", &imported.stdout)?;
    let explained = scene.sjail(["explain", "--json"]).output()?.json()?;
    assert_eq!(
        explained["tools"],
        json!(["read", "write", "edit", "exec", "web_search"])
    );
    let text = scene.sjail(["explain"]).output()?;
    for part in [
        "mode = all",
        "scope = session",
        "workspace = ro",
        "/home/user/data:/data:rw",
        "git push *",
        "timeout = 1m",
    ] {
        text.stdout_has(part)?;
    }
    // What leads out of every container is refused here too.
    for bind in [
        "/var/run/docker.sock:/s:rw",
        "/etc:/x:ro",
        "/proc:/x:ro",
        "/dev:/x:rw",
    ] {
        let config = json!({ "agents": { "defaults": { "sandbox": { "binds": [bind] } } } });
        let file = scene.file("bad.json", config.to_string())?;
        let output = scene.sjail(["policy", "import"]).args([&file]).output()?;
        assert_ne!(output.code(), Some(0), "{bind}: {output}");
    }
    let file = scene.file("broken.json", "{\n agents: [1,\n}\n")?;
    scene
        .sjail(["policy", "import"])
        .args([&file])
        .output()?
        .exits(125)?
        .stderr_has("line 3")?;
    Ok(())
}

/// sandboxing 82-103: no network, an isolated file system, no root, no capabilities, a minute.
fn inside_the_sandbox_as_its_defaults_say(scene: &Scene) -> Verdict {
    taken_over(
        scene,
        "{ agents: { defaults: { sandbox: { mode: \"all\" } } } }",
    )?;
    scene
        .sjail(["explain"])
        .output()?
        .stdout_has("timeout = 1m")?
        .stdout_has("mode = none")?;
    scene.home_file("secret", "seen")?;
    let line = "grep -h '^Cap[A-Z]' /proc/self/status | sort -u -k2; cat ~/secret; \
                ls /var/run/docker.sock; grep -c : /proc/net/dev; \
                echo made > made && cat made";
    let run = scene.run(["--", "bash", "-c", line]).output()?;
    run.stdout_has("0000000000000000")?
        // Its own loopback, and no other way out.
        .stdout_has("\n1\nmade\n")?
        .lacks("seen")?;
    assert_eq!(run.stdout.matches("Cap").count(), 1, "all sets are alike");
    if scene.identity() == sjail_tests::Identity::User {
        let id = scene.run(["--", "id", "-u"]).output()?;
        assert_ne!(id.succeeds()?.stdout, "0\n");
    }
    Ok(())
}

/// sandboxing 45-48, 74, 78: with `none` the sandbox has a place of its own, and commands run.
fn nothing_of_the_workspace_is_seen(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    taken_over(
        scene,
        r#"{
  agents: {
    defaults: {
      sandbox: {
        mode: "all",          // Sandbox every session
        scope: "session",     // One container per session
        workspace: "none"     // No workspace access from sandbox
      }
    }
  }
}"#,
    )?;
    scene.file("mine", "seen")?;
    let mine = scene.workspace().join("mine");
    let line = format!(
        "pwd; cat {}; ls /workspace /agent; echo kept > here; cat here",
        mine.display()
    );
    for flags in [&["--no-broker"][..], &[]] {
        let words = ["run", "--session=a"];
        let run = scene
            .sjail(words)
            .args(flags)
            .args(["-c", &line])
            .output()?;
        let home = scene.home().display().to_string();
        run.stdout_is(&format!("{home}\nkept\n"))?;
    }
    assert!(!scene.workspace().join("here").exists());
    assert!(!scene.home().join("here").exists());
    // The session finds it again; another one does not.
    for (session, text) in [("--session=a", "kept\n"), ("--session=b", "")] {
        let words = ["run", session, "-c", "cat here 2>/dev/null; true"];
        desk.sjail(words)?.succeeds()?.stdout_is(text)?;
    }
    Ok(())
}

/// sandboxing 148-155, 176-186, 347, 377: the tables, line by line.
fn profiles_and_groups_hold_what_they_say(scene: &Scene) -> Verdict {
    for (profile, expected) in [
        (
            "coding",
            json!(["read", "write", "edit", "exec", "browser"]),
        ),
        ("messaging", json!(["web_fetch", "web_search", "message"])),
        ("minimal", json!(["web_search"])),
    ] {
        taken_over(
            scene,
            &json!({ "tools": { "profile": profile } }).to_string(),
        )?;
        assert_eq!(tools(scene)?, expected, "{profile}");
    }
    let full = json!({ "tools": { "profile": "full" } });
    taken_over(scene, &full.to_string())?;
    let all = tools(scene)?;
    for (group, members) in [
        ("group:fs", &["read", "write", "edit"][..]),
        ("group:runtime", &["exec"]),
        (
            "group:automation",
            &["cron", "gateway", "sessions_spawn", "sessions_send"],
        ),
        ("group:browser", &["browser"]),
        ("group:network", &["web_fetch", "web_search"]),
        ("group:media", &["image", "tts"]),
        ("group:messaging", &["message"]),
    ] {
        let mut config = full.clone();
        config["tools"]["deny"] = json!([group]);
        taken_over(scene, &config.to_string())?;
        let left = tools(scene)?;
        let gone: Vec<&Value> = all
            .as_array()
            .into_iter()
            .flatten()
            .filter(|tool| !left.as_array().is_some_and(|left| left.contains(tool)))
            .collect();
        assert_eq!(gone.len(), members.len(), "{group}: {gone:?}");
        assert!(
            members
                .iter()
                .all(|name| gone.iter().any(|tool| **tool == **name))
        );
    }
    Ok(())
}

/// sandboxing 157-174: names that only the agent knows.
fn names_of_other_tools_are_taken_and_told(scene: &Scene) -> Verdict {
    let config =
        r#"{ tools: { profile: "minimal", allow: ["nodes"], deny: ["canvas", "group:nosuch"] } }"#;
    taken_over(scene, config)?
        .stderr_has("`tools.deny`: sjail has no tool `canvas`")?
        .stderr_has("unknown tool `group:nosuch`")?;
    scene
        .sjail(["explain"])
        .output()?
        .stdout_has("denied: canvas\n")?
        .stdout_has("not offered by sjail: web_search, nodes\n")?;
    // sandboxing 188-190: a slip of the pen in what is denied would leave the tool there.
    for slip in ["exce", "group:runtme"] {
        let config = json!({ "tools": { "deny": [slip] } });
        let file = scene.file("slip.json", config.to_string())?;
        let output = scene.sjail(["policy", "import"]).args([&file]).output()?;
        output.exits(125)?.stderr_has("did you mean `")?;
    }
    // A slip of the pen is no other tool.
    scene.home_file(".config/sjail/policy.toml", "[tools]\ndeny = [\"exce\"]\n")?;
    scene
        .sjail(["explain"])
        .output()?
        .exits(125)?
        .stderr_has("did you mean `exec`")?;
    Ok(())
}

/// sandboxing 84-100, 267-283, 322-324: what scenario 2 leaves out.
fn what_is_left_out_is_meant_as_it_is_there(scene: &Scene) -> Verdict {
    let config = r#"{ agents: { defaults: { sandbox: { mode: "non-main" } } } }"#;
    taken_over(scene, config)?;
    scene
        .sjail(["explain"])
        .output()?
        .stdout_has("sandbox scope:    session\nworkspace access: none\n")?;
    // The control: what is said holds, and a file without a sandbox says nothing of one.
    let config = r#"{ agents: { defaults: { sandbox: { scope: "agent", workspace: "rw" } } } }"#;
    taken_over(scene, config)?;
    scene
        .sjail(["explain"])
        .output()?
        .stdout_has("sandbox scope:    agent\nworkspace access: rw")?;
    taken_over(scene, r#"{ tools: { profile: "full" } }"#)?;
    scene
        .sjail(["explain"])
        .output()?
        .stdout_has("sandbox scope:    run\nworkspace access: rw")?;
    Ok(())
}

/// sandboxing 101: no network, unless `network` is changed, where its containers have it as well.
fn networks_are_understood(scene: &Scene) -> Verdict {
    for (word, mode, said) in [
        ("none", "none", "became no network"),
        ("host", "host", "became the host's own network"),
        ("bridge", "filtered", "became a filtered network"),
        ("my-net", "none", "became no network"),
    ] {
        let config = json!({ "agents": { "defaults": { "sandbox": { "network": word } } } });
        taken_over(scene, &config.to_string())?.stderr_has(said)?;
        let explained = scene.sjail(["explain"]).output()?;
        explained.stdout_has(&format!("\n  mode = {mode} "))?;
        // A filtered network is open to nobody who was not asked about.
        let asks = format!("\n  ask = {} ", word == "bridge");
        explained.stdout_has(&asks)?;
        assert!(!explained.stdout.contains("allow = *"), "{explained}");
    }
    let docker = json!({ "docker": { "network": "bridge" } });
    let config = json!({ "agents": { "defaults": { "sandbox": docker } } });
    taken_over(scene, &config.to_string())?
        .stderr_has("docker.network`: `bridge` became a filtered network")?;
    let explained = scene.sjail(["explain"]).output()?;
    explained.stdout_has("\n  mode = filtered ")?;
    let config = r#"{ agnts: {}, tools: { profile: "full" }, channels: {} }"#;
    taken_over(scene, config)?
        .stderr_has("`agnts` is not known, did you mean `agents`?")?
        .stderr_has("`channels` has no meaning here")?;
    // Its own tools are known by their names.
    let config = r#"{ tools: { profile: "minimal", deny: ["sandbox_audit_log"] } }"#;
    let imported = taken_over(scene, config)?;
    assert!(!imported.stderr.contains("sjail has no tool"), "{imported}");
    scene.sjail(["explain"]).output()?.stdout_has(
        "registered by `sjail mcp`: sandbox_check, sandbox_queue_list, sandbox_audit_stats, sandbox_allowlist_test\n",
    )?;
    Ok(())
}

fn mistakes_are_told_without_a_line_that_nobody_wrote(scene: &Scene) -> Verdict {
    let config = json!({ "agents": { "defaults": { "sandbox": { "binds": ["/etc:/x:ro"] } } } });
    let file = scene.file("bad.json", config.to_string())?;
    let output = scene.sjail(["policy", "import"]).args([&file]).output()?;
    // By the key that its owner wrote, and with the entry that is wrong.
    output
        .exits(125)?
        .stderr_has("`agents.defaults.sandbox.binds`: `/etc:/x:ro` cannot be given: ")?;
    assert!(!output.stderr.contains("bad.json:"), "{output}");
    assert!(!output.stderr.contains(" | "), "{output}");
    Ok(())
}

/// sandboxing 250-265: no sandbox, every tool.
fn a_trusted_machine(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    taken_over(
        scene,
        r#"{
  agents: {
    defaults: {
      sandbox: { mode: "off" }       // No sandbox needed
    }
  },
  tools: {
    profile: "full"                   // All tools available
  }
}"#,
    )?;
    let secret = scene.home_file("secret", "seen")?.display().to_string();
    desk.sjail(["run", "--", "cat", &secret])?
        .stdout_is("seen")?;
    assert_eq!(tools(scene)?.as_array().map(Vec::len), Some(14));
    // The time limit is the sandbox's (82-92): without one nothing is cut short.
    let explained = scene.sjail(["explain"]).output()?;
    explained.stdout_has("\n  timeout = no limit ")?;
    Ok(())
}

/// sandboxing 267-283: the main session on the host, groups in sandboxes.
fn mixed_trust(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    taken_over(
        scene,
        r#"{
  agents: {
    defaults: {
      sandbox: { mode: "non-main" }   // Sandbox everything except main DM
    }
  },
  tools: {
    profile: "coding",
    deny: ["group:automation"]
  }
}"#,
    )?;
    desk.sjail(["session", "register", "agent:main:main"])?
        .succeeds()?;
    let secret = scene.home_file("secret", "seen")?.display().to_string();
    let cat = |session: &str| {
        let session = format!("--session={session}");
        desk.sjail(["run", "--no-wait", &session, "--", "cat", &secret])
    };
    cat("agent:main:main")?.stdout_is("seen")?;
    // It is not in the jail: somebody is asked for it.
    cat("agent:main:telegram:group:-100123")?
        .exits(75)?
        .stdout_is("")?;
    assert_eq!(
        tools(scene)?,
        json!(["read", "write", "edit", "exec", "browser"])
    );
    Ok(())
}

/// sandboxing 285-310: everything sandboxed, next to no tools, two commands for the host.
fn a_remote_server(scene: &Scene) -> Verdict {
    taken_over(
        scene,
        r#"{
  agents: {
    defaults: {
      sandbox: {
        mode: "all",
        scope: "session",
        workspace: "ro"
      }
    }
  },
  tools: {
    profile: "messaging",
    deny: ["group:runtime", "group:fs"],
    elevated: {
      enabled: true,
      patterns: ["systemctl status *", "journalctl *"],
      requireApproval: true
    }
  }
}"#,
    )?;
    assert_eq!(tools(scene)?, json!(["web_fetch", "web_search", "message"]));
    for (line, place, action) in [
        ("systemctl status sshd", "host", "queue_for_approval"),
        ("journalctl -u sshd", "host", "queue_for_approval"),
        ("systemctl stop sshd", "jail", "queue_for_approval"),
        ("ls", "jail", "execute"),
    ] {
        // An elevated pattern is about the system's own program.
        let program = line.split(' ').next().unwrap_or_default();
        if place == "host" && !scene.has(program) {
            continue;
        }
        let answer = scene.sjail(["check", "--json", line]).output()?.json()?;
        assert_eq!(answer["place"], place, "{line}: {answer}");
        assert_eq!(answer["suggested_action"], action, "{line}: {answer}");
    }
    scene.file("a", "here\n")?;
    let line = "cat /agent/a; echo x > /agent/b; echo x > b";
    scene.run(["-c", line]).output()?.stdout_is("here\n")?;
    assert!(!scene.workspace().join("b").exists());
    Ok(())
}

/// sandboxing 314-337: what its own `explain` says, said here.
fn explained_as_the_guide_explains(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    taken_over(
        scene,
        r#"{
  agents: { defaults: { sandbox: { mode: "non-main", scope: "session", workspace: "none" } } },
  tools: {
    profile: "coding", deny: ["group:automation"],
    allow: ["web_search", "web_fetch", "image"],
    elevated: { enabled: true, patterns: ["brew *", "git push *"], requireApproval: true }
  }
}"#,
    )?;
    // Where none is the main one yet, it says how one becomes it.
    scene.sjail(["explain"]).output()?.stdout_has(
        "every other session -> jail (`sjail session register NAME` makes one main)\n",
    )?;
    desk.sjail(["session", "register", "agent:main:main"])?
        .succeeds()?;
    let explained = scene.sjail(["explain"]).output()?;
    for part in [
        "sandbox mode:     non-main\nsandbox scope:    session\nworkspace access: none\n\
         session \"agent:main:main\" -> host (main, by ",
        "every other session -> jail\n",
        "elevated patterns:\n  brew * -> host, with approval\n  git push * -> host, with approval\n",
        "tool policy:\n  profile: coding\n  denied: group:automation\n  tools: read, write, edit, exec\n",
        "not offered by sjail: browser, web_fetch, web_search, image\n",
    ] {
        explained.stdout_has(part)?;
    }
    // One session among the others, by its name.
    scene
        .sjail(["explain", "--session", "agent:main:telegram:group:-100123"])
        .output()?
        .stdout_has("session \"agent:main:telegram:group:-100123\" -> jail\n")?;
    Ok(())
}

/// sandboxing 194-244, 378: approved it runs on the host, rejected it is blocked; without
/// `requireApproval` it is not asked about; other tools are not concerned.
fn elevated_commands_are_asked_about_or_not(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let elevated = |asks: bool| {
        let config = json!({ "tools": { "elevated": {
            "enabled": true, "patterns": ["cat *"], "requireApproval": asks,
        } } });
        taken_over(scene, &config.to_string())
    };
    elevated(true)?;
    let secret = scene.home_file("secret", "seen\n")?.display().to_string();
    let line = format!("cat {secret}");
    let id = desk.ask(&line)?;
    desk.sjail(["queue", "reject", &id, "--reason", "not today"])?
        .succeeds()?;
    desk.sjail(["run", "--approval", &id])?
        .exits(77)?
        .lacks("seen")?;
    let id = desk.ask(&line)?;
    desk.sjail(["queue", "approve", &id])?.succeeds()?;
    desk.sjail(["run", "--approval", &id])?
        .succeeds()?
        .stdout_is("seen\n")?;
    elevated(false)?;
    desk.sjail(["run", "-c", &line])?
        .succeeds()?
        .stdout_is("seen\n")?;
    // Exec only: the path policy of other tools stays.
    let words = ["check", "--path", &secret, "--op", "read"];
    assert_ne!(desk.sjail(words)?.code(), Some(0));
    Ok(())
}

/// sandboxing 198-209: not sandboxed, it runs on the host; elevated patterns are for those who are.
fn without_a_sandbox_nothing_has_to_leave_it(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let elevated = |mode: &str| {
        let config = json!({
            "agents": { "defaults": { "sandbox": { "mode": mode } } },
            "tools": { "elevated": { "enabled": true, "patterns": ["cat *"], "requireApproval": true } },
        });
        taken_over(scene, &config.to_string())
    };
    let secret = scene.home_file("secret", "seen\n")?.display().to_string();
    let line = format!("cat {secret}");
    elevated("off")?;
    desk.sjail(["run", "--no-wait", "-c", &line])?
        .stdout_is("seen\n")?;
    let checked = desk.sjail(["check", "--json", &line])?.json()?;
    assert_eq!(
        (&checked["suggested_action"], &checked["place"]),
        (&json!("execute"), &json!("host")),
        "{checked}"
    );
    elevated("non-main")?;
    desk.sjail(["session", "register", "main"])?.succeeds()?;
    let words = |session| ["run", "--no-wait", "--session", session, "-c", &line];
    desk.sjail(words("main"))?.stdout_is("seen\n")?;
    // What is dangerous is asked about there, too.
    let words_of = [
        "run",
        "--no-wait",
        "--session",
        "main",
        "--",
        "rm",
        "-rf",
        "x",
    ];
    desk.sjail(words_of)?.exits(75)?;
    // The control: another session is sandboxed, so somebody is asked.
    desk.sjail(words("other"))?.exits(75)?.stdout_is("")?;
    Ok(())
}

/// sandboxing 3, 22-32, 341-349: where, which and when are three settings.
fn the_three_controls_do_not_depend_on_each_other(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let secret = scene.home_file("secret", "seen\n")?.display().to_string();
    let line = format!("cat {secret}");
    for (mode, profile, elevated, tool, runs_on_the_host) in [
        // Sandbox on and few tools; off and all of them; on with a way out.
        ("all", "minimal", Value::Null, false, false),
        ("off", "full", Value::Null, true, true),
        (
            "all",
            "full",
            json!({ "enabled": true, "patterns": ["cat *"], "requireApproval": false }),
            true,
            true,
        ),
        ("off", "minimal", Value::Null, false, true),
    ] {
        let mut config = json!({
            "agents": { "defaults": { "sandbox": { "mode": mode } } },
            "tools": { "profile": profile },
        });
        if !elevated.is_null() {
            config["tools"]["elevated"] = elevated;
        }
        taken_over(scene, &config.to_string())?;
        let has = tools(scene)?
            .as_array()
            .is_some_and(|all| all.contains(&json!("exec")));
        assert_eq!(has, tool, "{config}");
        let run = desk.sjail(["run", "--no-wait", "-c", &line])?;
        assert_eq!(
            run.stdout.contains("seen"),
            runs_on_the_host,
            "{config}: {run}"
        );
    }
    Ok(())
}

/// sandboxing 361-370: each of the keys is one that holds.
fn every_key_of_the_summary_is_taken_over(scene: &Scene) -> Verdict {
    let data = scene.outside().join("data");
    std::fs::create_dir_all(&data)?;
    let config = json!({
        "agents": { "defaults": { "sandbox": {
            "mode": "non-main", "scope": "agent", "workspace": "ro",
            "binds": [format!("{}:/data:ro", data.display())],
        } } },
        "tools": {
            "profile": "messaging", "deny": ["message"],
            "elevated": { "enabled": true, "patterns": ["git push *"], "requireApproval": false },
        },
    });
    taken_over(scene, &config.to_string())?;
    let explained = scene.sjail(["explain", "--json"]).output()?.json()?;
    let values = explained["values"].as_array().cloned().unwrap_or_default();
    for (key, expected) in [
        ("sandbox.mode", "non-main"),
        ("sandbox.scope", "agent"),
        ("sandbox.workspace", "ro"),
        ("filesystem.binds", ":/data:ro"),
        ("tools.profile", "messaging"),
        ("tools.deny", "message"),
        ("elevated.enabled", "true"),
        ("elevated.patterns", "git push *"),
        ("elevated.require_approval", "false"),
    ] {
        let found = values.iter().find(|row| row["key"] == key);
        let text = found.map(ToString::to_string).unwrap_or_default();
        assert!(text.contains(expected), "{key}: {text}");
        assert!(text.contains("policy.toml"), "{key}: {text}");
    }
    Ok(())
}

/// sandboxing 374-378: the guide's exercise, step by step.
fn the_exercise_of_the_guide(scene: &Scene) -> Verdict {
    scene.needs(&["git"])?;
    let desk = Desk::at(scene);
    let config = |mode: &str, profile: &str, patterns: Value| {
        let config = json!({
            "agents": { "defaults": { "sandbox": { "mode": mode } } },
            "tools": { "profile": profile, "elevated": { "enabled": true, "patterns": patterns } },
        });
        taken_over(scene, &config.to_string())
    };
    // 1. and 2.: the policy in force, off and then not for the main session.
    config("off", "full", json!([]))?;
    desk.sjail(["explain"])?
        .stdout_has("every session -> host (mode off)")?;
    config("non-main", "full", json!([]))?;
    desk.sjail(["explain"])?
        .stdout_has("every other session -> jail")?;
    // 3.: everything sandboxed, next to no tool: an agent has nothing to run anything with.
    config("all", "minimal", json!([]))?;
    let question = json!({
        "hook_event_name": "PreToolUse", "cwd": scene.workspace(), "tool_name": "Bash",
        "tool_input": { "command": "ls" },
    });
    scene
        .sjail(["hook", "claude-code"])
        .input(question.to_string())
        .output()?
        .stdout_has("\"deny\"")?;
    // 4.: one elevated pattern, and somebody is asked.
    config("all", "full", json!(["git status"]))?;
    scene
        .host("git")
        .args(["init", "-q"])
        .output()?
        .succeeds()?;
    let id = desk.ask("git status")?;
    desk.sjail(["queue", "approve", &id])?.succeeds()?;
    desk.sjail(["run", "--approval", &id])?
        .succeeds()?
        .stdout_has("No commits yet")?;
    Ok(())
}
