//! Where an agent's tool would be at work, and which files it names: in the forms that the
//! agents were seen to send (Claude Code 2.1.327, Codex 0.169.0, Cursor's executor 1.0.32).

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use sjail_tests::{Scene, Test, Verdict, tests};

use crate::desk::Desk;

pub fn tests() -> Vec<Test> {
    tests![
        codex_names_another_folder,
        cursor_names_another_folder,
        files_are_found_in_every_tool,
        an_agent_reads_what_it_put_aside,
        where_nobody_is_there_the_queue_is_asked,
    ]
}

/// A project beside the session's.
fn other(scene: &Scene) -> Verdict<std::path::PathBuf> {
    scene.outside_file("other/.git/HEAD", "ref: refs/heads/main\n")?;
    scene.file("below/x", "")?;
    Ok(scene.outside().join("other"))
}

/// Asked where the hook is started; the whole answer, or the sentence of a no.
fn asked(scene: &Scene, agent: &str, started: &Path, question: &Value) -> Verdict<String> {
    let call = scene.sjail(["hook", agent]).cwd(started);
    let output = call.input(question.to_string()).output()?;
    Ok(match output.code() {
        Some(0) => output.stdout,
        code => format!("{code:?} {}", output.stderr),
    })
}

/// Codex says as `cwd` where the line is to run, and starts the hook where the session is.
fn codex_names_another_folder(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let other = other(scene)?;
    let work = scene.workspace();
    let question = |cwd: &Path, tool: &str, command: &str| {
        json!({
            "session_id": "s", "turn_id": "t", "transcript_path": "/x/rollout.jsonl", "cwd": cwd,
            "hook_event_name": "PreToolUse", "model": "m", "permission_mode": "bypassPermissions",
            "tool_name": tool, "tool_input": { "command": command }, "tool_use_id": "exec-1",
        })
    };
    for (started, cwd, yes) in [
        (&work, &work, true),
        (&work, &work.join("below"), true),
        (&work, &other, false),
        (&work, &scene.outside(), false),
        (&work, &scene.home(), false),
        (&work, &work.join("nowhere"), false),
        // The session itself is there.
        (&other, &other, true),
        (&other, &work, false),
    ] {
        let said = asked(scene, "codex", started, &question(cwd, "Bash", "ls"))?;
        assert_eq!(
            said.contains("updatedInput"),
            yes,
            "{started:?} {cwd:?}: {said}"
        );
        let workspace = format!("--workspace={}", started.display());
        assert_eq!(
            said.contains(&workspace),
            yes,
            "{started:?} {cwd:?}: {said}"
        );
    }
    // What a patch names is meant from there, and is held to the session's project.
    let below = work.join("below");
    for (path, yes) in [("new", true), ("../new", true), ("../../new", false)] {
        let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch");
        let said = asked(
            scene,
            "codex",
            &work,
            &question(&below, "apply_patch", &patch),
        )?;
        assert_eq!(said.trim() == "{}", yes, "{path}: {said}");
    }
    Ok(())
}

/// Cursor says the same as `cwd`, empty for the folder that is open, and starts the hook elsewhere.
fn cursor_names_another_folder(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let other = other(scene)?;
    let work = scene.workspace().display().to_string();
    let started = scene.home();
    let question = |event: &str, cwd: &str| {
        json!({
            "conversation_id": "c", "generation_id": "g", "model": "m", "session_id": "c",
            "hook_event_name": event, "cursor_version": "x", "transcript_path": null,
            "workspace_roots": [work], "user_email": null, "cwd": cwd, "tool_use_id": "u",
            "tool_name": "Shell", "tool_input": { "command": "ls", "cwd": cwd, "timeout": 5000 },
            "command": "ls", "sandbox": false,
        })
    };
    let below = format!("{work}/below");
    let elsewhere = other.display().to_string();
    for (cwd, yes) in [
        ("", true),
        (work.as_str(), true),
        (below.as_str(), true),
        (elsewhere.as_str(), false),
        ("/usr", false),
        ("other", false),
    ] {
        let said = asked(scene, "cursor", &started, &question("preToolUse", cwd))?;
        assert_eq!(said.contains("updated_input"), yes, "{cwd}: {said}");
        // The same line comes past once more before the shell starts.
        let Ok(said) = serde_json::from_str::<Value>(&said) else {
            continue;
        };
        assert!(
            said.to_string().contains(&format!("--workspace={work}")),
            "{said}"
        );
        let mut again = question("beforeShellExecution", cwd);
        again["command"] = said["updated_input"]["command"].clone();
        let said = asked(scene, "cursor", &started, &again)?;
        assert!(said.contains("\"permission\":\"allow\""), "{cwd}: {said}");
    }
    // Of several that are open, the one that it is in.
    let mut two = question("preToolUse", &elsewhere);
    two["workspace_roots"] = json!([work, elsewhere]);
    let said = asked(scene, "cursor", &started, &two)?;
    assert!(said.contains(&format!("--workspace={elsewhere}")), "{said}");
    let mut odd = question("preToolUse", "");
    odd["workspace_roots"] = json!([7]);
    assert!(asked(scene, "cursor", &started, &odd)?.starts_with("Some(2)"));
    Ok(())
}

/// The fields that tools name files in, each agent's own.
fn files_are_found_in_every_tool(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let secret = scene.outside_file("secret", "")?;
    let own = scene.file("own", "")?;
    let work = scene.workspace();
    for (agent, tool, field, is_list) in [
        ("codex", "view_image", "path", false),
        ("cursor", "Grep", "file_path", false),
        ("cursor", "List", "file_path", false),
        ("cursor", "ReadLints", "file_path", false),
        ("cursor", "FetchMcpResource", "download_path", false),
        ("claude-code", "Artifact", "file_paths", true),
        ("claude-code", "Artifact", "out_dir", false),
        ("claude-code", "Projects", "local_path", false),
        ("claude-code", "Workflow", "scriptPath", false),
        ("claude-code", "SendUserFile", "files", true),
    ] {
        for (path, yes) in [(&own, true), (&secret, false)] {
            let value = match is_list {
                true => json!([path]),
                false => json!(path),
            };
            let question = json!({
                "hook_event_name": if agent == "cursor" { "preToolUse" } else { "PreToolUse" },
                "cwd": work, "workspace_roots": [work], "tool_name": tool,
                "tool_input": { field: value },
            });
            let said = asked(scene, agent, &work, &question)?;
            let is_refused = said.contains("\"deny\"") || said.contains("\"ask\"");
            assert_eq!(is_refused, !yes, "{agent} {tool} {path:?}: {said}");
        }
    }
    Ok(())
}

/// Long outputs, and those of the background: of this session, and through no link.
fn an_agent_reads_what_it_put_aside(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let kept = scene.home_file(".claude/projects/-w/s1/tool-results/a.txt", "")?;
    let others = scene.home_file(".claude/projects/-w/s2/tool-results/a.txt", "")?;
    let secret = scene.home_file("secret", "")?;
    let link = kept.with_file_name("link.txt");
    std::os::unix::fs::symlink(&secret, &link)?;
    let ask = |session: &str, tool: &str, path: &Path| -> Verdict<Value> {
        let question = json!({
            "session_id": session, "cwd": scene.workspace(), "permission_mode": "default",
            "transcript_path": scene.home().join(format!(".claude/projects/-w/{session}.jsonl")),
            "hook_event_name": "PreToolUse", "tool_name": tool,
            "tool_input": { "file_path": path, "content": "" },
        });
        Ok(serde_json::from_str(&asked(
            scene,
            "claude-code",
            &scene.workspace(),
            &question,
        )?)?)
    };
    // Left to Claude Code: neither allowed by us nor refused.
    assert_eq!(ask("s1", "Read", &kept)?, json!({}));
    let is_refused = |answer: Value| answer["hookSpecificOutput"]["permissionDecision"] == "ask";
    for (session, tool, path) in [
        ("s1", "Read", &others),
        ("s1", "Read", &link),
        ("s1", "Write", &kept),
        ("", "Read", &kept),
        ("projects", "Read", &kept),
        ("..", "Read", &secret),
    ] {
        assert!(
            is_refused(ask(session, tool, path)?),
            "{session} {tool} {path:?}"
        );
    }
    scene.home_file(
        ".config/sjail/policy.toml",
        "[filesystem]\ndeny = [\"~/.claude/**\"]\n",
    )?;
    let answer = ask("s1", "Read", &kept)?;
    assert_eq!(answer["hookSpecificOutput"]["permissionDecision"], "deny");
    fs::remove_file(scene.home().join(".config/sjail/policy.toml"))?;
    let kept = scene.home_file(".gemini/tmp/w/tool-outputs/session-s1/ls.txt", "")?;
    for (session, is_own) in [("s1", true), ("s2", false)] {
        let question = json!({
            "session_id": session, "cwd": scene.workspace(), "hook_event_name": "BeforeTool",
            "tool_name": "read_file", "tool_input": { "file_path": kept },
        });
        let said = asked(scene, "gemini", &scene.workspace(), &question)?;
        assert_eq!(said.trim() == "{}", is_own, "{session}: {said}");
    }
    let kept = scene.home_file(".local/share/opencode/tool-output/tool_1", "")?;
    for (path, decision) in [(&kept, "none"), (&secret, "deny")] {
        let question = json!({
            "tool": "read", "sessionID": "s", "cwd": scene.workspace(), "args": { "filePath": path },
        });
        let said = asked(scene, "opencode", &scene.workspace(), &question)?;
        assert!(
            said.contains(&format!("\"decision\":\"{decision}\"")),
            "{said}"
        );
    }
    Ok(())
}

/// `claude -p`: a question to its user would be a no; the jailed line asks by itself.
fn where_nobody_is_there_the_queue_is_asked(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let decide = |(name, value): (&str, &str), tool: &str, input: Value| -> Verdict<Value> {
        let question = json!({
            "session_id": "s", "cwd": scene.workspace(), "hook_event_name": "PreToolUse",
            "permission_mode": "default", "tool_name": tool, "tool_input": input,
        });
        let call = scene.sjail(["hook", "claude-code"]);
        let call = call.env(name, value);
        let answer = call.input(question.to_string()).output()?.json()?;
        Ok(answer["hookSpecificOutput"].clone())
    };
    let line = json!({ "command": "rm -rf build" });
    // A word for just that, which not every version says, and how it was started.
    let attended = "CLAUDE_CODE_SESSION_ATTENDED";
    let started = "CLAUDE_CODE_ENTRYPOINT";
    for somebody in [(attended, "1"), (started, "cli"), (started, "sdk-ts")] {
        let decided = decide(somebody, "Bash", line.clone())?;
        assert_eq!(decided["permissionDecision"], "ask", "{somebody:?}");
    }
    let alone = decide((started, "sdk-cli"), "Bash", line.clone())?;
    assert_eq!(alone["permissionDecision"], "allow", "{alone}");
    let nobody = (attended, "0");
    let alone = decide(nobody, "Bash", line)?;
    assert_eq!(alone["permissionDecision"], "allow", "{alone}");
    let instead = alone["updatedInput"]["command"]
        .as_str()
        .unwrap_or_default();
    assert!(instead.contains("--no-wait"), "{alone}");
    let ran = scene.host("bash").args(["-c", instead]).output()?;
    ran.exits(75)?.stderr_has("approval is pending")?;
    // A file is not rewritten: that stays a question, which is a no there.
    let file = json!({ "file_path": scene.outside_file("x", "")? });
    assert_eq!(decide(nobody, "Read", file)?["permissionDecision"], "ask");
    let harm = json!({ "command": super::hook::HARM });
    assert_eq!(decide(nobody, "Bash", harm)?["permissionDecision"], "deny");
    Ok(())
}
