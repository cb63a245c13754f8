//! How it goes on after a yes, and that whoever says what would happen says what happens:
//! secure-sandbox 84-99, 126-151, 226-241 (page 65-77, 94-108, 156-170): execute, queue, the tools;
//! and the hooks.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use sjail_tests::{Scene, Stop, Test, Verdict, tests};

use super::hook::AGENTS;
use super::link;
use crate::desk::Desk;

pub fn tests() -> Vec<Test> {
    tests![
        an_agent_runs_what_was_approved_once,
        only_what_was_approved_runs,
        an_answer_lapses_and_falls_with_the_policy,
        an_approval_is_not_used_by_its_name_in_a_hook,
        sandbox_exec_goes_on_after_a_yes,
        a_tool_goes_on_after_a_yes,
        a_program_text_is_recorded,
        a_program_text_is_part_of_what_was_approved,
        whoever_says_what_would_happen_knows_the_allow_list,
    ]
}

const LINE: &str = "rm -rf build && echo gone";

/// The question that the agent's hook is asked, by its own schema.
fn question(agent: &str, cwd: &Path, session: &str, line: &str) -> Value {
    match agent {
        "gemini" => json!({
            "hook_event_name": "BeforeTool", "session_id": session, "cwd": cwd,
            "tool_name": "run_shell_command", "tool_input": { "command": line },
        }),
        "cursor" => json!({
            "hook_event_name": "beforeShellExecution", "conversation_id": session,
            "cwd": cwd, "command": line,
        }),
        "opencode" => json!({
            "tool": "bash", "sessionID": session, "cwd": cwd, "args": { "command": line },
        }),
        _ => json!({
            "hook_event_name": "PreToolUse", "session_id": session, "cwd": cwd,
            "tool_name": "Bash", "tool_input": { "command": line },
        }),
    }
}

fn hook(scene: &Scene, agent: &str, question: &Value) -> Verdict<Value> {
    let call = scene.sjail(["hook", agent]).input(question.to_string());
    let output = call.output()?;
    output.succeeds()?;
    output.json()
}

/// The line that an agent runs once its hook has answered: what it was given instead, or, where
/// nothing can be given, what it was told to run, which passes the hook.
fn line(scene: &Scene, agent: &str, cwd: &Path, session: &str, line: &str) -> Verdict<String> {
    let answer = hook(scene, agent, &question(agent, cwd, session, line))?;
    let instead = match agent {
        "gemini" => &answer["hookSpecificOutput"]["tool_input"]["command"],
        "opencode" => &answer["command"],
        "cursor" => &answer["agent_message"],
        "plain" => &answer["reason"],
        _ => &answer["hookSpecificOutput"]["updatedInput"]["command"],
    };
    let instead = instead
        .as_str()
        .ok_or_else(|| Stop::failed(format!("{agent}: {answer}")))?;
    let Some((_, told)) = instead.split_once("exactly so: ") else {
        return Ok(instead.to_owned());
    };
    let again = hook(scene, agent, &question(agent, cwd, session, told))?;
    let passes = match agent {
        "plain" => again == json!({}),
        _ => again["permission"] == "allow",
    };
    assert!(passes, "{agent}: {told}: {again}");
    Ok(told.to_owned())
}

/// What came of a line that an agent runs, in a terminal of its own: whoever answers must be
/// no kin of it.
fn ran(scene: &Scene, cwd: &Path, line: &str) -> Verdict<(Option<i32>, String)> {
    let call = scene.host("bash").args(["-c", line]).cwd(cwd);
    let mut terminal = call.terminal()?;
    let status = terminal.finish()?;
    Ok((status.code(), terminal.screen()))
}

fn build(folder: &Path) -> Verdict {
    fs::create_dir_all(folder.join("build/x"))?;
    Ok(())
}

/// Each agent repeats the command that it was told to wait with.
fn an_agent_runs_what_was_approved_once(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    let here = scene.workspace();
    for agent in AGENTS {
        build(&here)?;
        let run = || -> Verdict<(Option<i32>, String)> {
            let line = line(scene, agent, &here, "s", LINE)?;
            ran(scene, &here, &line)
        };
        let (code, said) = run()?;
        assert_eq!(code, Some(75), "{agent}: {said}");
        assert!(said.contains("then run the same again"), "{said}");
        let id = desk.newest()?;
        // It waits on, however often it is asked for.
        assert_eq!(run()?.0, Some(75), "{agent}");
        assert_eq!(desk.newest()?, id, "{agent}");
        desk.sjail(["queue", "approve", &id])?.succeeds()?;
        if agent == "claude-code" {
            let question = question(agent, &here, "s", LINE);
            let answer = &hook(scene, agent, &question)?["hookSpecificOutput"];
            assert_eq!(answer["permissionDecision"], "allow", "{answer}");
        }
        assert!(here.join("build").exists(), "{agent}");
        let (code, said) = run()?;
        assert_eq!(code, Some(0), "{agent}: {said}");
        assert!(said.contains("gone"), "{agent}: {said}");
        assert!(!here.join("build").exists(), "{agent}");
        let shown = desk.sjail(["queue", "show", &id, "--json"])?.json()?;
        assert!(shown.to_string().contains("\"used\""), "{shown}");
        // Once.
        build(&here)?;
        assert_eq!(run()?.0, Some(75), "{agent}");
        assert!(here.join("build").exists(), "{agent}");
        assert_ne!(desk.newest()?, id, "{agent}");
    }
    Ok(())
}

/// Another command, another folder, another session, another agent, another limit, whoever
/// sits at a shell: none of them uses the answer.
fn only_what_was_approved_runs(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    let here = scene.workspace();
    let below = here.join("below");
    build(&here)?;
    build(&below)?;
    let agent = "claude-code";
    let first = line(scene, agent, &here, "s", LINE)?;
    assert_eq!(ran(scene, &here, &first)?.0, Some(75));
    let id = desk.newest()?;
    desk.sjail(["queue", "approve", &id])?.succeeds()?;
    let sjail = scene.program("sjail").display().to_string();
    let others = [
        (
            &here,
            line(scene, agent, &here, "s", "rm -rf build; echo gone")?,
        ),
        (&below, line(scene, agent, &below, "s", LINE)?),
        (&here, line(scene, agent, &here, "t", LINE)?),
        (&here, line(scene, "codex", &here, "s", LINE)?),
        (
            &here,
            format!("A=b {}", first.replace("60000ms", "50000ms")),
        ),
        (&here, format!("TERM=other {first}")),
        (&here, format!("{sjail} run --no-wait -c '{LINE}'")),
    ];
    for (folder, other) in others {
        let (code, said) = ran(scene, folder, &other)?;
        assert_eq!(code, Some(75), "{other}: {said}");
        assert_ne!(desk.newest()?, id, "{other}");
        assert!(folder.join("build").exists(), "{other}");
    }
    // The control: it was there to be used all the while.
    assert_eq!(ran(scene, &here, &first)?.0, Some(0));
    assert!(!here.join("build").exists() && below.join("build").exists());
    Ok(())
}

fn an_answer_lapses_and_falls_with_the_policy(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    let here = scene.workspace();
    build(&here)?;
    let run = || -> Verdict<Option<i32>> {
        let line = line(scene, "codex", &here, "s", LINE)?;
        Ok(ran(scene, &here, &line)?.0)
    };
    let approved = || -> Verdict {
        assert_eq!(run()?, Some(75));
        let id = desk.newest()?;
        desk.sjail(["queue", "approve", &id])?.succeeds()?;
        Ok(())
    };
    approved()?;
    desk.sjail(["allowlist", "add", "make *"])?.succeeds()?;
    assert_eq!(run()?, Some(75), "the allow list is another one");
    let policy = ".config/sjail/policy.toml";
    scene.home_file(policy, "[limits]\npids = 77\n")?;
    approved()?;
    scene.home_file(policy, "[limits]\npids = 78\n")?;
    assert_eq!(run()?, Some(75), "the policy is another one");
    scene.home_file(policy, "[approval]\nttl = \"2s\"\n")?;
    approved()?;
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(run()?, Some(75), "it has lapsed");
    assert!(here.join("build").exists());
    Ok(())
}

/// The name could be that of another's approval: the hook says what works instead.
fn an_approval_is_not_used_by_its_name_in_a_hook(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let here = scene.workspace();
    for line in [
        "sjail run --approval cmd_abcdef",
        "sjail run --approval=cmd_abcdef -c ls",
    ] {
        let answer = hook(
            scene,
            "claude-code",
            &question("claude-code", &here, "s", line),
        )?;
        let output = &answer["hookSpecificOutput"];
        assert_eq!(output["permissionDecision"], "deny", "{answer}");
        let why = output["permissionDecisionReason"]
            .as_str()
            .unwrap_or_default();
        assert!(why.contains("once more, in the same folder"), "{why}");
    }
    Ok(())
}

/// secure-sandbox 84-95, 236-237 (page 65-74, 165-166): an approved command executes.
fn sandbox_exec_goes_on_after_a_yes(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    let exec = || -> Verdict<(Option<i32>, String)> {
        let words = ["--require-approval", "--no-wait", "echo did-run"];
        let mut terminal = link(scene, "sandbox-exec", words)?.terminal()?;
        let status = terminal.finish()?;
        Ok((status.code(), terminal.screen()))
    };
    let (code, said) = exec()?;
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("then run the same again"), "{said}");
    let id = desk.newest()?;
    link(scene, "sandbox-queue", ["approve", &id])?
        .output()?
        .succeeds()?;
    let (code, said) = exec()?;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("did-run"), "{said}");
    assert_eq!(exec()?.0, Some(75), "once");
    Ok(())
}

/// secure-sandbox 226-241 (page 156-170): the same by the tool, whose answer says how it goes on. The server
/// runs in a terminal of its own, as a client's would.
fn a_tool_goes_on_after_a_yes(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    let here = scene.workspace();
    build(&here)?;
    let exec = |arguments: Value| -> Verdict<Value> {
        let messages = [
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": { "name": "robin", "version": "1" },
            }}),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
                "name": "sandbox_exec", "arguments": arguments,
            }}),
        ];
        let said = messages.map(|message| format!("{message}\n")).concat();
        let (asked, told) = (scene.outside().join("asked"), scene.outside().join("told"));
        fs::write(&asked, said)?;
        fs::write(&told, "")?;
        let line = format!(
            "(cat {0}; until grep -q '\"id\":2' {1}; do sleep 0.05; done) | {2} mcp > {1}",
            asked.display(),
            told.display(),
            scene.program("sjail").display(),
        );
        let (code, screen) = ran(scene, &here, &line)?;
        assert_eq!(code, Some(0), "{screen}");
        for line in fs::read_to_string(told)?.lines() {
            let message: Value = serde_json::from_str(line)?;
            if message["id"] == 2 {
                return Ok(message["result"]["structuredContent"].clone());
            }
        }
        Err(Stop::failed("the tool has not answered"))
    };
    let line = json!({ "command": LINE });
    let asked = exec(line.clone())?;
    assert_eq!(asked["status"], "pending", "{asked}");
    let id = asked["approval"]["id"].as_str().unwrap_or_default();
    let next = asked["next"].as_str().unwrap_or_default();
    for part in ["sjail queue approve", "{\"approval\": ", "as now once more"] {
        assert!(next.contains(part), "{next}");
    }
    desk.sjail(["queue", "approve", id])?.succeeds()?;
    let ran = exec(line.clone())?;
    assert_eq!(ran["status"], "completed", "{ran}");
    assert_eq!(ran["stdout"], "gone\n", "{ran}");
    assert_eq!(ran["approval"]["id"], id, "{ran}");
    build(&here)?;
    let again = exec(line)?;
    assert_eq!(again["status"], "pending", "{again}");
    let id = again["approval"]["id"].as_str().unwrap_or_default();
    desk.sjail(["queue", "approve", id])?.succeeds()?;
    let ran = exec(json!({ "approval": id }))?;
    assert_eq!(ran["stdout"], "gone\n", "{ran}");
    Ok(())
}

/// secure-sandbox 73-83, 109-125 (page 58-65, 84-94): a listed command is judged as it would run, also once the
/// broker has ended.
fn whoever_says_what_would_happen_knows_the_allow_list(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let here = scene.workspace();
    build(&here)?;
    let line = "rm -rf build";
    let judged = || -> Verdict<[String; 4]> {
        let check = link(scene, "sandbox-check", [line])?.output()?.json()?;
        let input = json!({ "command": line }).to_string();
        let lines = scene
            .sjail(["check", "--jsonl"])
            .input(input)
            .output()?
            .json()?;
        let question = question("claude-code", &here, "s", line);
        let hook = hook(scene, "claude-code", &question)?;
        let explained = scene
            .sjail(["explain", "--json", "-c", line])
            .output()?
            .json()?;
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok([
            word(&check["suggested_action"]),
            word(&lines["suggested_action"]),
            word(&hook["hookSpecificOutput"]["permissionDecision"]),
            word(&explained["suggested_action"]),
        ])
    };
    let before = judged()?;
    assert_eq!(
        before[..3],
        ["queue_for_approval", "queue_for_approval", "ask"]
    );
    desk.sjail(["allowlist", "add", line])?.succeeds()?;
    let after = judged()?;
    assert_eq!(after[..3], ["execute", "execute", "allow"]);
    assert_ne!(before[3], after[3], "explain");
    desk.broker(["stop"]).output()?.succeeds()?;
    assert_eq!(judged()?[..3], ["execute", "execute", "allow"]);
    // And so it runs.
    scene.sjail(["run", "-c", line]).output()?.succeeds()?;
    assert!(!here.join("build").exists());
    desk.sjail(["allowlist", "remove", line])?.succeeds()?;
    assert_eq!(judged()?, before);
    Ok(())
}

/// The record of what ran last, whole.
fn last_intent(desk: &Desk<'_>) -> Verdict<Value> {
    let words = ["audit", "log", "--events", "--last", "100", "--json"];
    let events = desk.sjail(words)?.json()?;
    let found = events
        .as_array()
        .into_iter()
        .flatten()
        .rfind(|record| record["event"] == "intent");
    Ok(found.cloned().unwrap_or_default())
}

/// secure-sandbox 9, 33-34 (page 3, 25-26): the log holds what ran, and the words `bash -s` do not say that.
fn a_program_text_is_recorded(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let code = |text: &str| -> Verdict<Value> {
        let call = scene.sjail(["code", "--language", "bash", "-"]);
        let call = call.env("MY_TOKEN", "hunter2hunter2").input(text);
        call.output()?.succeeds()?;
        Ok(last_intent(&desk)?["detail"]["text"].clone())
    };
    let told = code("echo hunter2hunter2\necho second\n")?;
    let head = told["head"].as_str().unwrap_or_default();
    assert!(head.starts_with("echo "), "{told}");
    assert!(head.contains("echo second"), "{told}");
    assert!(!head.contains("hunter2"), "{told}");
    assert_eq!((&told["length"], &told["cut"]), (&json!(32), &json!(false)));
    let sum = scene
        .host("sha256sum")
        .input("echo hunter2hunter2\necho second\n");
    let sum = sum.output()?.stdout;
    assert!(
        sum.starts_with(told["sha256"].as_str().unwrap_or("?")),
        "{told}"
    );
    // A secret that lies across the end of what is kept leaves no part of itself.
    let long = format!(
        ": {}hunter2hunter2\n{}",
        "x".repeat(4084),
        ": y\n".repeat(100)
    );
    let told = code(&long)?;
    let head = told["head"].as_str().unwrap_or_default();
    assert_eq!(told["cut"], true);
    assert!(head.len() <= 4096 && !head.contains("hunt"), "{head}");
    Ok(())
}

/// Somebody who says yes to a text says it to that text.
fn a_program_text_is_part_of_what_was_approved(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    let policy = "[commands]\nlevel = \"allowlist\"\n";
    scene.home_file(".config/sjail/policy.toml", policy)?;
    let sjail = scene.program("sjail").display().to_string();
    let here = scene.workspace();
    let code = |text: &str| -> Verdict<String> {
        let line = format!("printf '%s' '{text}' | {sjail} code --language bash -");
        Ok(ran(scene, &here, &line)?.1)
    };
    let asked = code("echo a-$((1+1))")?;
    assert!(asked.contains("approval is pending"), "{asked}");
    let id = desk.newest()?;
    let shown = desk.sjail(["queue", "show", &id])?;
    shown.stdout_has("echo a-$((1+1))")?.stdout_has("sha256")?;
    desk.sjail(["queue", "approve", &id])?.succeeds()?;
    let other = code("echo b-$((1+1))")?;
    assert!(other.contains("approval is pending"), "{other}");
    assert_ne!(desk.newest()?, id);
    let same = code("echo a-$((1+1))")?;
    assert!(
        same.contains("\"output\":\"a-2\"") || same.contains("\"output\": \"a-2\""),
        "{same}"
    );
    Ok(())
}
