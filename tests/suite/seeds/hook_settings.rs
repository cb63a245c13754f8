//! `sjail hook install|uninstall|status`: what is put into agents' settings, and whether it holds.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};
use sjail_tests::{Scene, Test, Verdict, tests};

use crate::desk::Desk;

use super::hook::HARM;

pub fn tests() -> Vec<Test> {
    tests![
        settings_are_changed_and_changed_back,
        links_to_settings_stay_links,
        the_plugin_for_opencode_asks,
        status_knows_whether_codex_runs_the_hook,
        cursors_question_reaches_the_hook,
        a_hook_whose_program_is_gone_is_a_no,
    ]
}

/// What Codex writes into its `config.toml` once its user has seen the hook that stands in its
/// `hooks.json`; nothing where there is none. The real one holds it to be so, too (`real_agents`).
pub fn trusted(scene: &Scene) -> Verdict<String> {
    let hooks = scene.home().join(".codex/hooks.json");
    let Ok(text) = fs::read_to_string(&hooks) else {
        return Ok(String::new());
    };
    let settings: Value = serde_json::from_str(&text)?;
    let entry = &settings["hooks"]["PreToolUse"][0];
    let identity = json!({
        "event_name": "pre_tool_use",
        "hooks": [{
            "async": false, "command": entry["hooks"][0]["command"],
            "timeout": entry["hooks"][0]["timeout"], "type": "command",
        }],
        "matcher": entry["matcher"],
    });
    let call = scene.host("sha256sum").input(identity.to_string());
    let sum = call.output()?.stdout;
    let sum = sum.split_whitespace().next().unwrap_or_default();
    Ok(format!(
        "[hooks.state.\"{}:pre_tool_use:0:0\"]\ntrusted_hash = \"sha256:{sum}\"\n",
        hooks.display()
    ))
}

/// Codex runs no hook that its user has not seen: the status says so, and what else would keep
/// it from being any use.
fn status_knows_whether_codex_runs_the_hook(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let config = scene.home().join(".codex/config.toml");
    let hook = |words: &[&str]| scene.sjail(["hook"]).args(words).output();
    let status = || hook(&["status", "codex"]);
    hook(&["install", "codex", "--yes"])?
        .succeeds()?
        .stdout_has("sandbox_mode")?;
    status()?
        .exits(1)?
        .stdout_has("before you have trusted it")?;
    let seen = trusted(scene)?;
    fs::write(&config, &seen)?;
    status()?
        .succeeds()?
        .stdout_has("refuses what it must")?
        .stdout_has("sandbox_mode")?;
    let open = "sandbox_mode = \"danger-full-access\"\n";
    fs::write(&config, format!("{open}{seen}"))?;
    status()?.succeeds()?.lacks("sandbox_mode")?;
    for (config_text, why) in [
        (
            format!("{open}[features]\nhooks = false\n{seen}"),
            "`hooks = false`",
        ),
        (format!("{seen}enabled = false\n"), "switched off"),
        (seen.replace(":0:0", ":1:0"), "before you have trusted it"),
        (seen.replace("sha256:", "sha256:0"), "not as it was"),
    ] {
        fs::write(&config, &config_text)?;
        status()?.exits(1)?.stdout_has(why)?;
    }
    // Others' hooks before ours move it, as Codex counts.
    let hooks = scene.home().join(".codex/hooks.json");
    let mut settings: Value = serde_json::from_str(&fs::read_to_string(&hooks)?)?;
    if let Some(list) = settings["hooks"]["PreToolUse"].as_array_mut() {
        list.insert(
            0,
            json!({ "hooks": [{ "type": "command", "command": "true" }] }),
        );
    }
    fs::write(&hooks, settings.to_string())?;
    fs::write(&config, &seen)?;
    status()?
        .exits(1)?
        .stdout_has("before you have trusted it")?;
    fs::write(&config, seen.replace(":0:0", ":1:0"))?;
    status()?.succeeds()?;
    Ok(())
}

/// Cursor hands the question over as a text behind the command, and that has to reach it.
fn cursors_question_reaches_the_hook(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let words = ["hook", "install", "cursor", "--yes"];
    scene.sjail(words).output()?.succeeds()?;
    let settings = fs::read(scene.home().join(".cursor/hooks.json"))?;
    let settings: Value = serde_json::from_slice(&settings)?;
    let question = json!({
        "conversation_id": "c", "generation_id": "g", "model": "m", "session_id": "c",
        "hook_event_name": "preToolUse", "cursor_version": "x", "transcript_path": null,
        "workspace_roots": [scene.workspace()], "cwd": "", "tool_use_id": "u",
        "tool_name": "Shell", "tool_input": { "command": "ls", "cwd": "" },
    });
    for event in [
        "beforeShellExecution",
        "beforeReadFile",
        "beforeTabFileRead",
        "preToolUse",
    ] {
        let ours = &settings["hooks"][event][0];
        assert_eq!(ours["failClosed"], true, "{settings}");
        assert_eq!(ours["timeout"], 60, "{settings}");
        let line = format!(
            "{} <<'CURSOR_HOOK_EOF'\n{question}\nCURSOR_HOOK_EOF",
            ours["command"].as_str().unwrap_or_default()
        );
        let said = scene.host("bash").args(["-c", &line]).output()?;
        said.succeeds()?.stdout_has("updated_input")?;
    }
    // One from before is known for what it is.
    let text = settings
        .to_string()
        .replace("{ ", "")
        .replace("; }\"", "\"");
    fs::write(scene.home().join(".cursor/hooks.json"), text)?;
    let status = scene.sjail(["hook", "status", "cursor"]).output()?;
    status.exits(1)?.stdout_has("install it again")?;
    Ok(())
}

fn settings_are_changed_and_changed_back(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let before = "{\n  \"model\": \"x\",\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \
                  \"matcher\": \"Edit\",\n        \"hooks\": []\n      }\n    ]\n  },\n  \
                  \"alpha\": 1\n}\n";
    let file = scene.home_file(".claude/settings.json", before)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    let hook = |words: &[&str]| scene.sjail(["hook"]).args(words).output();
    hook(&["status", "claude-code"])?
        .exits(1)?
        .stdout_has("not installed")?;
    // Nobody has seen it: nothing is written.
    hook(&["install", "claude-code"])?.exits(125)?;
    assert_eq!(fs::read_to_string(&file)?, before);
    hook(&["install", "claude-code", "--yes"])?
        .succeeds()?
        .stdout_has("+ ")?;
    let installed = fs::read_to_string(&file)?;
    assert!(installed.contains(" hook claude-code || "), "{installed}");
    // One that takes too long, or cannot be started, is a no there as well.
    let parsed: Value = serde_json::from_str(&installed)?;
    let ours = &parsed["hooks"]["PreToolUse"][1]["hooks"][0];
    assert_eq!(ours["onFailure"], "block", "{installed}");
    let kept = scene.home().join(".claude/settings.json.before-sjail");
    assert_eq!(fs::read_to_string(&kept)?, before);
    // Keys may stand in there: what is kept is as private as it was.
    assert_eq!(fs::metadata(&kept)?.permissions().mode() & 0o777, 0o600);
    hook(&["install", "claude-code", "--yes"])?.stdout_has("already")?;
    assert_eq!(fs::read_to_string(&file)?, installed);
    hook(&["status", "claude-code"])?
        .succeeds()?
        .stdout_has("refuses what it must")?;
    hook(&["uninstall", "claude-code", "--yes"])?.succeeds()?;
    assert_eq!(fs::read_to_string(&file)?, before);
    // What was there before us is not written over by what was there with us.
    assert_eq!(fs::read_to_string(&kept)?, before);
    assert_eq!(fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
    for agent in ["codex", "gemini", "cursor", "opencode"] {
        hook(&["install", agent, "--yes"])?.succeeds()?;
        if agent == "codex" {
            scene.home_file(".codex/config.toml", trusted(scene)?)?;
        }
        hook(&["status", agent])?
            .succeeds()?
            .stdout_has("refuses what it must")?;
        hook(&["uninstall", agent, "--yes"])?.succeeds()?;
        hook(&["status", agent])?.exits(1)?;
    }
    // Where there was nothing, nothing is left.
    for file in [
        ".codex/hooks.json",
        ".gemini/settings.json",
        ".cursor/hooks.json",
    ] {
        let left = scene.home().join(file);
        assert!(!left.exists(), "{file}: {}", fs::read_to_string(&left)?);
        assert!(!scene.home().join(format!("{file}.before-sjail")).exists());
    }
    // Comments are not ours to lose.
    fs::write(&file, "{ // mine\n}\n")?;
    hook(&["install", "claude-code", "--yes"])?
        .exits(125)?
        .stderr_has("no plain JSON")?;
    assert_eq!(fs::read_to_string(&file)?, "{ // mine\n}\n");
    Ok(())
}

/// Settings that lie elsewhere, with a person's other files.
fn links_to_settings_stay_links(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    scene.home_file("dotfiles/there.json", "{}\n")?;
    scene.home_file(".claude/x", "")?;
    let link = scene.home().join(".claude/settings.json");
    for name in ["there.json", "missing.json"] {
        symlink(format!("../dotfiles/{name}"), &link)?;
        scene
            .sjail(["hook", "install", "claude-code", "--yes"])
            .output()?
            .succeeds()?;
        assert!(fs::symlink_metadata(&link)?.is_symlink(), "{name}");
        let text = fs::read_to_string(scene.home().join("dotfiles").join(name))?;
        assert!(text.contains(" hook claude-code "), "{name}: {text}");
        fs::remove_file(&link)?;
    }
    Ok(())
}

/// The plugin in node, as both versions of OpenCode load it.
fn the_plugin_for_opencode_asks(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    scene.needs(&["node"])?;
    let words = ["hook", "install", "opencode", "--yes"];
    scene.sjail(words).output()?.succeeds()?;
    let plugin = scene.home().join(".config/opencode/plugins/sjail.js");
    let module = scene.outside_file("sjail.mjs", fs::read(plugin)?)?;
    let script = format!(
        r#"
import plugin from "{module}"
const cwd = {cwd:?}
const first = await plugin.server({{ directory: cwd }})
const one = first["tool.execute.before"]
let hook
await plugin.setup({{
  tool: {{ hook: async (name, act) => {{ if (name === "execute.before") hook = act }} }},
  session: {{ get: async () => ({{ location: {{ directory: cwd }} }}) }},
}})
async function asked(tool, args) {{
  const output = {{ args: {{ ...args }} }}
  const event = {{ tool, sessionID: "s", input: {{ ...args }} }}
  const said = []
  for (const [act, read] of [
    [() => one({{ tool, sessionID: "s", callID: "c" }}, output), () => output.args],
    [() => hook(event), () => event.input],
  ]) {{
    try {{
      await act()
      const line = read().command
      said.push(line === undefined ? "as it is" : line.includes("--agent=opencode") && line.includes("-c=ls") ? "in the jail" : line)
    }} catch (error) {{
      said.push("no: " + error.message.startsWith("sjail"))
    }}
  }}
  console.log(tool, said.join(", "))
}}
await asked("bash", {{ command: "ls" }})
await asked("bash", {{ command: {harm:?} }})
await asked("read", {{ filePath: "/etc/shadow" }})
await asked("todowrite", {{ todos: [] }})
await asked("bash", {{ command: 7 }})
"#,
        module = module.display(),
        cwd = scene.workspace(),
        harm = HARM,
    );
    let script = scene.outside_file("try.mjs", script)?;
    scene
        .host("node")
        .args([script])
        .output()?
        .succeeds()?
        .stdout_is(
            "bash in the jail, in the jail\nbash no: true, no: true\nread no: true, no: true\n\
             todowrite as it is, as it is\nbash no: true, no: true\n",
        )?;
    Ok(())
}

/// An agent takes some failures for a yes; the line in its settings leaves none of those.
fn a_hook_whose_program_is_gone_is_a_no(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let program = scene.outside().join("sjail");
    fs::copy(scene.program("sjail"), &program)?;
    let words = ["hook", "install", "codex", "--yes"];
    scene
        .host(&program)
        .args(words)
        .output()?
        .succeeds()?
        .stdout_has("/hooks")?;
    let settings = fs::read(scene.home().join(".codex/hooks.json"))?;
    let settings: Value = serde_json::from_slice(&settings)?;
    let line = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"].clone();
    let line = line.as_str().unwrap_or_default();
    let question = json!({
        "hook_event_name": "PreToolUse", "cwd": scene.workspace(), "tool_name": "Bash",
        "tool_input": { "command": "ls" },
    });
    let run = || {
        let call = scene.host("sh").args(["-c", line]);
        call.input(question.to_string()).output()
    };
    run()?.succeeds()?.stdout_has("updatedInput")?;
    fs::remove_file(&program)?;
    run()?
        .exits(2)?
        .stdout_is("")?
        .stderr_has("sjail: not allowed")?;
    fs::write(&program, "#!/bin/sh\nkill -9 $$\n")?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode)?;
    run()?
        .exits(2)?
        .stdout_is("")?
        .stderr_has("sjail: not allowed")?;
    scene
        .sjail(["hook", "status", "codex"])
        .output()?
        .exits(1)?
        .stdout_has("everything is refused")?;
    Ok(())
}
