//! `sjail mcp` and the protocol's own Python client, which the runner puts in place
//! (`SJAIL_TEST_MCP_PYTHON` names a Python that has it).

use std::ffi::OsString;
use std::time::Duration;

use sjail_tests::{Call, Scene, Test, Verdict, tests, wait};

use crate::desk::Desk;

/// A Python with this package takes its time to start.
const LONG: Duration = Duration::from_secs(200);

pub fn tests() -> Vec<Test> {
    tests![
        official_client_is_greeted,
        official_client_uses_every_tool,
        official_client_waits_for_a_person,
        official_client_follows_and_cancels,
        official_client_sends_nonsense,
        official_client_as_operator,
        official_client_under_a_tool_policy,
        official_client_without_a_greeting,
    ]
    .into_iter()
    .map(|test| test.timeout(300))
    .collect()
}

/// The words that start the client with one of its plans; skipped by name where the
/// package is not to be had.
fn words(scene: &Scene, plan: &str) -> Verdict<Vec<OsString>> {
    let python = std::env::var("SJAIL_TEST_MCP_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let there = scene
        .host(&python)
        .args(["-c", "import mcp.client.stdio, jsonschema"])
        .output();
    if !there.is_ok_and(|there| there.code() == Some(0)) {
        return scene.skip("the Python package `mcp` is not installed");
    }
    let script = scene.outside_file("client.py", include_str!("official.py"))?;
    Ok(vec![
        python.into(),
        script.into(),
        scene.program("sjail").into(),
        plan.into(),
    ])
}

fn client(scene: &Scene, plan: &str) -> Verdict<Call> {
    let words = words(scene, plan)?;
    Ok(scene.host(&words[0]).args(&words[1..]))
}

/// secure-sandbox 118-177 (page 91-119): the tools with the documents' parameters.
fn official_client_is_greeted(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    client(scene, "greeting")?.output()?.succeeds()?.stdout_is(
        "sjail True\n\
         sandbox_check shut looks command,context\n\
         sandbox_exec shut acts approval,command,dry_run,env,require_approval,timeout,wait\n\
         run_code shut acts code,language,maxOutputSize,timeout\n\
         read shut looks path\n\
         write shut acts content,path\n\
         edit shut acts new_string,old_string,path,replace_all\n\
         sandbox_queue_list shut looks status\n\
         sandbox_audit_log shut looks command_pattern,limit,risk_level,since\n\
         sandbox_audit_stats shut looks period\n\
         sandbox_allowlist_test shut looks command\n",
    )?;
    Ok(())
}

/// secure-sandbox 118-177 (page 91-119): every tool that an agent has.
fn official_client_uses_every_tool(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    client(scene, "tools")?.output()?.succeeds()?.stdout_is(
        "False dangerous ['Recursive deletion', 'Wildcard pattern'] queue_for_approval\n\
         completed production 0\n\
         completed False ['made']\n\
         code 3 False\n\
         one 2 one 2\n\
         0\n\
         ['echo $NODE_ENV']\n\
         True 0\n\
         False\n",
    )?;
    Ok(())
}

/// secure-sandbox 28-29, 135-151 (page 20-21, 100-108): what waits goes on once somebody else has said so.
fn official_client_waits_for_a_person(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    for folder in ["first", "second", "third"] {
        scene.file(&format!("{folder}/x"), "")?;
    }
    // At a terminal of its own, as an agent is: the test's own hand is then somebody else's.
    let mut running = scene
        .host("sh")
        .args(["-c", "exec \"$@\" >said 2>&1", "sh"])
        .args(words(scene, "approval")?)
        .terminal()?;
    let asked = scene.workspace().join("asked");
    let id = wait::until_within(LONG, "the client has asked", || {
        let id = std::fs::read_to_string(&asked).unwrap_or_default();
        (!id.is_empty()).then_some(id)
    })?;
    desk.sjail(["queue", "approve", &id])?.succeeds()?;
    for (line, words) in [
        ("rm -rf second", &["approve"][..]),
        ("rm -rf third", &["reject", "--reason", "Too risky"]),
    ] {
        let id = wait::until_within(LONG, "the next one waits", || {
            let listed = desk.sjail(["queue", "list", "--json"]).ok()?.json().ok()?;
            let requests = listed["requests"].as_array().cloned().unwrap_or_default();
            let found = requests.iter().find(|one| one["command"] == line);
            found.and_then(|one| one["id"].as_str().map(str::to_owned))
        })?;
        scene
            .sjail(["queue"])
            .args(words)
            .args([id])
            .output()?
            .succeeds()?;
    }
    running.finish()?;
    assert_eq!(
        scene.read("said")?,
        "pending True True\nown hand: True\ncompleted False\nagain: blocked\n\
         completed False\nblocked True True\n"
    );
    Ok(())
}

fn official_client_follows_and_cancels(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    client(scene, "long_calls")?
        .output()?
        .succeeds()?
        .stdout_is("True True True\nmeanwhile: safe\nafter: hi\n")?;
    Ok(())
}

fn official_client_sends_nonsense(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    scene.outside_file("secret", "hidden")?;
    client(scene, "hostile")?
        .output()?
        .succeeds()?
        .stdout_is("blocked\nalive: hi\n")?;
    Ok(())
}

/// secure-sandbox 138-151, 165-177 (page 100-108, 115-119): approve, reject and the allow list, for the owner.
fn official_client_as_operator(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let first = desk.ask("rm -rf first")?;
    let second = desk.ask("rm -rf second")?;
    scene.file("asked", format!("{first} {second}"))?;
    client(scene, "operator")?
        .output()?
        .succeeds()?
        .stdout_is("14\napproved\nrejected\nown: True\n['npm install *']\n[]\n")?;
    Ok(())
}

/// sandboxing 134-190: profiles, groups, deny; what is denied is not registered.
fn official_client_under_a_tool_policy(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let always = "sandbox_queue_list sandbox_audit_log sandbox_audit_stats sandbox_allowlist_test";
    for (policy, tools) in [
        (
            "profile = \"coding\"",
            "sandbox_exec run_code read write edit ",
        ),
        (
            "profile = \"coding\"\ndeny = [\"group:runtime\", \"write\"]",
            "read edit ",
        ),
        ("profile = \"messaging\"", ""),
        ("profile = \"minimal\"\nallow = [\"read\"]", "read "),
    ] {
        let text = format!("[tools]\n{policy}\n");
        scene.home_file(".config/sjail/policy.toml", text)?;
        client(scene, "policy")?
            .output()?
            .succeeds()?
            .stdout_is(&format!("sandbox_check {tools}{always}\n"))?;
    }
    Ok(())
}

fn official_client_without_a_greeting(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let output = client(scene, "stateless")?.output()?;
    output.succeeds()?;
    if output.stdout == "no such client\n" {
        return scene.skip("the Python package `mcp` is older than this version of the protocol");
    }
    output.stdout_is("2026-07-28 10 completed hi\n")?;
    Ok(())
}
