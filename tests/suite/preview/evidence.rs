//! Evidence: whoever is asked about a command sees what it would do, and can keep that.

use std::fs;

use sjail_tests::{Scene, Stop, Test, Verdict, ensure, tests, wait};

use super::{exists, forest, id, same, verb};
use crate::desk::Desk;

pub fn tests() -> Vec<Test> {
    tests![
        whoever_is_asked_sees_it_and_can_keep_it,
        at_ones_own_terminal_it_can_be_kept,
        keeping_a_preview_that_would_have_asked_asks,
        what_the_host_changed_since_is_not_written_over,
        no_preview_where_none_is_wanted,
        what_was_changed_in_the_layer_is_not_applied,
        a_dropped_preview_cannot_be_applied,
        a_jail_cannot_tell_what_it_would_do,
        what_is_protected_is_said_and_not_offered,
    ]
}

fn modules(scene: &Scene) -> Verdict {
    for name in ["a/index.js", "b/index.js", "b/deep/x.js"] {
        scene.file(&format!("node_modules/{name}"), "0123456789")?;
    }
    Ok(())
}

fn whoever_is_asked_sees_it_and_can_keep_it(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    scene.needs(&["git"])?;
    modules(scene)?;
    scene.file(".gitignore", "node_modules\n")?;
    let git = |words: &[&str]| scene.host("git").args(words).output()?.succeeds().map(drop);
    git(&["init", "-q", "."])?;
    git(&["add", ".gitignore"])?;
    let told = scene.home().join("told");
    let script = scene.home_file("tell.sh", format!("echo \"$1\" > {}\n", told.display()))?;
    scene.home_file(
        ".config/sjail/policy.toml",
        format!(
            "[approval]\non_ask = [\"sh\", \"{}\", \"{{summary}}\"]\n",
            script.display()
        ),
    )?;
    let before = forest(scene)?;
    let request = desk.ask("rm -rf node_modules; echo gone")?;
    same(&before, &forest(scene)?, "the preview changed the host")?;
    let found = "deletes 3 files, 30 B, none tracked by git, none outside the workspace";
    let shown = desk.sjail(["queue", "show", &request])?;
    shown
        .succeeds()?
        .stdout_has(found)?
        .stdout_has("- node_modules  3 files, 30 B")?;
    desk.sjail(["queue", "list"])?
        .succeeds()?
        .stdout_has(found)?;
    wait::until_true("the owner is told", || {
        fs::read_to_string(&told).is_ok_and(|text| text.contains(found))
    })?;
    desk.sjail(["queue", "approve", "--apply", &request])?
        .succeeds()?;
    let run = desk.sjail(["run", "--json", "--approval", &request])?;
    run.succeeds()?;
    let result = run.json()?;
    ensure(result["stdout"] == "gone\n", || format!("{result}"))?;
    ensure(
        !exists(&scene.workspace().join("node_modules")),
        || "it is still there",
    )?;
    desk.sjail(["run", "--approval", &request])?.exits(77)?;
    // The approval, the preview and the keeping of it are in the record.
    let export = desk.sjail(["audit", "export", "--format", "jsonl"])?;
    export.stdout_has("\"preview\"")?.stdout_has("\"apply\"")?;
    let id = result["preview"]["id"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    verb(scene, &["undo", &id])?.succeeds()?;
    same(&before, &forest(scene)?, "undo is not exact")
}

fn at_ones_own_terminal_it_can_be_kept(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    modules(scene)?;
    let mut terminal = scene
        .sjail(["run", "-c", "rm -rf node_modules"])
        .terminal()?;
    terminal.expect("deletes 3 files")?;
    terminal.expect("[k]eep")?;
    terminal.send("k\n")?;
    terminal.expect("sjail undo")?;
    let status = terminal.finish()?;
    ensure(status.success(), || format!("{status:?}"))?;
    ensure(
        !exists(&scene.workspace().join("node_modules")),
        || "it is still there",
    )
}

fn keeping_a_preview_that_would_have_asked_asks(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    modules(scene)?;
    let run = desk.sjail(["run", "--dry-run", "--json", "-c", "rm -rf node_modules"])?;
    run.succeeds()?;
    let id = id(&run.json()?)?;
    let mut terminal = scene.sjail(["commit", "--no-wait", &id]).terminal()?;
    terminal.expect("approval is pending")?;
    terminal.finish()?;
    ensure(
        exists(&scene.workspace().join("node_modules")),
        || "nobody has agreed",
    )?;
    let listed = desk.sjail(["queue", "list", "--json"])?.json()?;
    let request = listed["requests"][0]["id"].as_str().unwrap_or_default();
    desk.sjail(["queue", "show", request])?
        .stdout_has("deletes 3 files")?;
    desk.sjail(["queue", "approve", request])?.succeeds()?;
    verb(scene, &["commit", "--approval", request, &id])?.succeeds()?;
    ensure(
        !exists(&scene.workspace().join("node_modules")),
        || "it is still there",
    )
}

fn what_the_host_changed_since_is_not_written_over(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    modules(scene)?;
    let request = desk.ask("rm -rf node_modules")?;
    scene.file("node_modules/new.js", "the host's own\n")?;
    desk.sjail(["queue", "approve", "--apply", &request])?
        .succeeds()?;
    desk.sjail(["run", "--approval", &request])?
        .exits(125)?
        .stderr_has("node_modules was changed")?;
    ensure(
        exists(&scene.workspace().join("node_modules/new.js")),
        || "it is lost",
    )
}

fn no_preview_where_none_is_wanted(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    modules(scene)?;
    scene.home_file(
        ".config/sjail/policy.toml",
        "[approval]\npreview = \"never\"\n",
    )?;
    let request = desk.ask("rm -rf node_modules")?;
    desk.sjail(["queue", "show", &request])?
        .succeeds()?
        .lacks("deletes")?;
    desk.sjail(["queue", "approve", "--apply", &request])?
        .exits(77)?
        .stderr_has("nothing to apply")?;
    Ok(())
}

/// The preview that a request's evidence names.
fn shown(desk: &Desk<'_>, request: &str) -> Verdict<String> {
    let shown = desk.sjail(["queue", "show", "--json", request])?.json()?;
    let id = shown["evidence"]["preview"].as_str();
    let id = id.ok_or_else(|| Stop::failed(format!("no preview: {shown}")))?;
    Ok(id.to_owned())
}

/// Exactly what was shown, or nothing.
fn what_was_changed_in_the_layer_is_not_applied(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    modules(scene)?;
    let line = "rm -rf node_modules; mkdir node_modules; echo fine > node_modules/tool";
    let request = desk.ask(line)?;
    desk.sjail(["queue", "approve", "--apply", &request])?
        .succeeds()?;
    let before = forest(scene)?;
    let layer = super::attacks::layer(scene, &shown(&desk, &request)?)?;
    fs::write(layer.join("node_modules/tool"), "evil")?;
    let run = desk.sjail(["run", "--approval", &request])?;
    run.exits(125)?.stderr_has("was changed since")?;
    same(&before, &forest(scene)?, "something was done")?;
    // The approval was for once.
    desk.sjail(["run", "--approval", &request])?.exits(77)?;
    same(&before, &forest(scene)?, "something was done")
}

/// It is not run instead.
fn a_dropped_preview_cannot_be_applied(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    modules(scene)?;
    let before = forest(scene)?;
    let request = desk.ask("rm -rf node_modules")?;
    let preview = shown(&desk, &request)?;
    desk.sjail(["queue", "approve", "--apply", &request])?
        .succeeds()?;
    verb(scene, &["discard", &preview])?.succeeds()?;
    desk.sjail(["run", "--approval", &request])?
        .exits(125)?
        .stderr_has("there is no preview")?;
    same(&before, &forest(scene)?, "something was done")?;
    desk.sjail(["run", "--approval", &request])?.exits(77)?;
    same(&before, &forest(scene)?, "something was done")
}

/// Whoever is asked must not be told by the jail itself that it means no harm.
fn a_jail_cannot_tell_what_it_would_do(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let desk = Desk::at(scene);
    modules(scene)?;
    let script = r#"
import json, os, socket
def call(method, **parameters):
    s = socket.socket(socket.AF_UNIX)
    s.connect("/run/sjail/request.sock")
    message = {"method": "io.sjail.Broker." + method, "parameters": parameters}
    s.sendall(json.dumps(message).encode() + b"\0")
    data = b""
    while not data.endswith(b"\0"):
        data += s.recv(1)
    return json.loads(data[:-1])
here = os.getcwd()
asked = call("Submit", protocol=3, cwd=here, workspace=here, wait_ms=0, command={"line": "rm -rf node_modules"})
id = asked["parameters"]["id"]
print(asked["parameters"].get("wants_preview"))
told = call("Attach", id=id, evidence={"summary": "changes nothing", "preview": "run_x", "digest": "x"})
print(told.get("error"))
"#;
    scene.file("forge.py", script)?;
    let run = [
        "run",
        "--profile",
        "agent",
        "--quiet",
        "--",
        "python3",
        "forge.py",
    ];
    let ran = scene.sjail(run).output()?;
    ran.succeeds()?.stdout_has("io.sjail.Broker.Unable")?;
    let listed = desk.sjail(["queue", "list", "--json"])?.json()?;
    let request = listed["requests"][0]["id"].as_str().unwrap_or_default();
    desk.sjail(["queue", "show", request])?
        .succeeds()?
        .stdout_has("rm -rf node_modules")?
        .lacks("changes nothing")?;
    Ok(())
}

/// No answer lets a jail write a protected name: the question says so, and there is nothing
/// to keep.
fn what_is_protected_is_said_and_not_offered(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    scene.home_file(
        ".config/sjail/policy.toml",
        "[commands]\nlevel = \"allowlist\"\n",
    )?;
    let request = desk.ask("echo x > .envrc")?;
    let shown = desk.sjail(["queue", "show", &request])?;
    shown
        .succeeds()?
        .stdout_has("even after a yes all of it goes to quarantine")?
        .lacks("--apply")?;
    desk.sjail(["queue", "approve", "--apply", &request])?
        .exits(77)?
        .stderr_has("nothing to apply")?;
    // Beside something else, that can be kept.
    let request = desk.ask("echo x > .envrc; echo y > plain")?;
    desk.sjail(["queue", "show", &request])?
        .succeeds()?
        .stdout_has("what is protected goes to quarantine even after a yes")?
        .stdout_has("--apply")?;
    Ok(())
}
