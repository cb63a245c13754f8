//! The thin clients, driven with the documents' own snippets.

use std::fs;
use std::path::{Path, PathBuf};

use sjail_tests::{Scene, Test, Verdict, tests};

use crate::desk::Desk;

pub fn tests() -> Vec<Test> {
    tests![
        the_python_client_asks_sjail,
        the_python_clients_list_is_kept,
        what_is_not_on_the_clients_list_is_refused,
        the_javascript_client_asks_sjail,
        the_javascript_workflow_runs,
        a_client_without_sjail_says_no,
    ]
}

/// A folder of the project's own, where the runner has copied it.
fn clients(scene: &Scene) -> Verdict<PathBuf> {
    let source = match scene.source() {
        Some(source) => source,
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join(".."),
    };
    let folder = source.join("packaging/clients");
    match fs::read_dir(&folder) {
        Ok(_) => Ok(folder),
        Err(_) => scene.skip("the clients are not readable here"),
    }
}

fn python(scene: &Scene, script: &str) -> Verdict<sjail_tests::Output> {
    scene.needs(&["python3"])?;
    let text = fs::read(clients(scene)?.join("python/security_sandbox.py"))?;
    scene.file("scripts/security_sandbox.py", text)?;
    let script = scene.file("try.py", script)?;
    scene
        .host("python3")
        .args([script])
        .env("SJAIL", scene.program("sjail"))
        .output()
}

fn node(scene: &Scene, script: &str) -> Verdict<sjail_tests::Output> {
    scene.needs(&["node"])?;
    let text = fs::read(clients(scene)?.join("javascript/sandbox.js"))?;
    scene.file("sandbox.js", text)?;
    let script = scene.file("try.js", script)?;
    scene
        .host("node")
        .args([script])
        .env("SJAIL", scene.program("sjail"))
        .output()
}

/// ac-security-sandbox 10-20, 133-154: the six operations.
fn the_python_client_asks_sjail(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    scene
        .sjail(["run", "--", "echo", "logged"])
        .output()?
        .succeeds()?;
    let output = python(
        scene,
        r#"
import asyncio
from scripts.security_sandbox import SecuritySandbox

project_dir = "."
sandbox = SecuritySandbox(project_dir)
# Check if command is allowed
is_safe, reason = sandbox.validate_command("npm install")
if is_safe:
    # Execute command
    print("safe", reason)
else:
    print(f"Blocked: {reason}")

async def main():
    await sandbox.initialize()
    for command in ["rm -rf build", "rm -rf /"]:
        is_safe, reason = sandbox.validate_command(command)
        print(is_safe, reason)
    for path in ["src/a", "/etc/shadow"]:
        is_allowed = sandbox.validate_path(path, operation="write")
        print(is_allowed)
    hook = sandbox.create_pre_tool_hook()
    print(await hook({"tool_input": {"command": "git status"}}, "id", None))
    print((await hook({"tool_input": {"command": "rm -rf build"}}, "id", None))["decision"])
    print((await hook({"tool_input": {"command": 7}}, "id", None))["decision"])
asyncio.run(main())
# Get recent security events
events = sandbox.get_audit_log(limit=100)
for event in events:
    print(f"{event.timestamp}: {event.action} - {event.command}")
print(len(events) >= 1, [len(sandbox.get_audit_log(limit=most)) for most in (1, 0)])
"#,
    )?;
    output
        .succeeds()?
        .stdout_has(
            "safe None\nFalse Recursive deletion\nFalse Deletes the whole file system, Recursive deletion\n\
             True\nFalse\n{}\nblock\nblock\n",
        )?
        .stdout_has(": ALLOW - echo logged")?
        .stdout_has("\nTrue [1, 0]\n")?;
    Ok(())
}

/// ac-security-sandbox 21-26, 147-149: the allow list, kept beyond the program that set it.
fn the_python_clients_list_is_kept(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let configure = r#"
from scripts.security_sandbox import SecuritySandbox
sandbox = SecuritySandbox(".")
sandbox.configure_allowlist([
"ls", "cat", "head", "tail",
"npm", "node", "python",
"git", "grep"
])
sandbox.add_allowed_command("my-custom-tool")
"#;
    python(scene, configure)?.succeeds()?;
    desk.broker(["stop"]).output()?.succeeds()?;
    let listed = desk.sjail(["allowlist", "list", "--json"])?.json()?;
    for name in ["ls", "grep", "my-custom-tool"] {
        assert!(
            listed.to_string().contains(&format!("\"{name}\"")),
            "{listed}"
        );
    }
    Ok(())
}

/// ac-security-sandbox 9, 21-26, 66-79, 147-149: pre-approved commands only. The list narrows
/// and allows nothing: what is dangerous stays so.
fn what_is_not_on_the_clients_list_is_refused(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let output = python(
        scene,
        r#"
import asyncio
from scripts.security_sandbox import SecuritySandbox
sandbox = SecuritySandbox(".")
print("before", sandbox.validate_command("wc -l try.py")[0])
sandbox.configure_allowlist([
"ls", "cat", "head", "tail",
"npm", "node", "python",
"git", "grep", "rm"
])
hook = sandbox.create_pre_tool_hook()
for command in ["git add . && git commit -m 'msg'", "wc -l try.py", "cat try.py | wc -l", "sudo ls", "rm -rf build", "rm -rf /"]:
    is_safe, reason = sandbox.validate_command(command)
    print(command, "->", is_safe, reason)
    print(asyncio.run(hook({"tool_input": {"command": command}}, "id", None)).get("reason"))
print([event.command for event in sandbox.get_audit_log() if event.action == "BLOCK"])
sandbox.add_allowed_command("wc")
print("after", sandbox.validate_command("cat try.py | wc -l"))
sandbox.configure_allowlist([])
print("none", sandbox.validate_command("ls"))
"#,
    )?;
    output
        .succeeds()?
        .stdout_has("before True\n")?
        .stdout_has("git add . && git commit -m 'msg' -> True None\nNone\n")?
        .stdout_has(
            "wc -l try.py -> False Command 'wc' not in allowlist\nCommand 'wc' not in allowlist",
        )?
        .stdout_has("cat try.py | wc -l -> False Command 'wc' not in allowlist\n")?
        .stdout_has("sudo ls -> False Command 'sudo' not in allowlist\n")?
        .stdout_has("rm -rf build -> False Recursive deletion\n")?
        .stdout_has("rm -rf / -> False Deletes the whole file system")?
        .stdout_has("['wc -l try.py', 'cat try.py | wc -l', 'sudo ls', 'rm -rf /']\n")?
        .stdout_has("after (True, None)\nnone (False, \"Command 'ls' not in allowlist\")\n")?;
    Ok(())
}

/// code-sandbox 36-123: Sandbox.execute, from one file and nothing else.
fn the_javascript_client_asks_sjail(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    node(
        scene,
        r#"
const Sandbox = require('./sandbox');
(async () => {
  // Execute JavaScript
  const jsResult = await Sandbox.execute({
    language: 'javascript',
    code: 'const x = 40 + 2; x',
    timeout: 60000
  });
  console.log(jsResult.success, jsResult.output, JSON.stringify(jsResult.stderr), jsResult.exitCode, typeof jsResult.executionTime, jsResult.error);
  // Execute Bash
  const bashResult = await Sandbox.execute({
    language: 'bash',
    code: 'echo "Hello from Bash"',
    timeout: 60000
  });
  console.log(bashResult.output);
  // As a skill
  this.skills = { 'code-sandbox': Sandbox };
  const result = await this.skills['code-sandbox'].execute({
    language: 'bash',
    code: 'echo oops >&2; exit 2',
    timeout: 60000
  });
  console.log(result.success ? `Output: ${result.output}` : `Error: ${result.error}`);
  const cut = await Sandbox.execute({ language: 'bash', code: 'yes | head -c 5000', maxOutputSize: 1000, timeout: 60000 });
  console.log(cut.output.endsWith('[Output truncated at 1000]'));
  const unknown = await Sandbox.execute({ language: 'cobol', code: '' });
  console.log(unknown.success, unknown.error.includes('python, javascript, bash'));
  const nothing = await Sandbox.execute({ language: 'bash' });
  console.log(nothing.success, nothing.error);
  // code-sandbox 203: every error is in the result, also of a call without anything.
  for (const options of [undefined, null]) {
    const none = await Sandbox.execute(options);
    console.log(none.success, none.error);
  }
})();
"#,
    )?
    .succeeds()?
    .stdout_is(
        "true 42 \"\" 0 number null\nHello from Bash\nError: oops\ntrue\nfalse true\nfalse `code` is missing\n\
         false `code` is missing\nfalse `code` is missing\n",
    )?;
    Ok(())
}

/// secure-sandbox 118-177, 206-241, 266-271 (page 91-119, 137-170, 193-196): the functions and the
/// workflow, as they are written there: without waiting, by name or by place.
fn the_javascript_workflow_runs(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    scene.file("node_modules/x", "kept")?;
    node(
        scene,
        r#"
const { sandbox_check, sandbox_exec, sandbox_queue_list, sandbox_audit_log, sandbox_audit_stats,
  sandbox_allowlist_add, sandbox_allowlist_remove, sandbox_allowlist_test } = require('./sandbox');
// 1. Check if command is safe
const check = sandbox_check({ command: "rm -rf node_modules" });
// 2. If dangerous, use approval workflow
if (check.risk_level === "dangerous") {
const result = sandbox_exec({
command: "rm -rf node_modules",
dry_run: true // Preview first
});
console.log(result.status, require('fs').existsSync('node_modules/x'));
// After review, execute for real
console.log(sandbox_exec({ command: "rm -rf node_modules" }).status);
}
// 3. Review audit log periodically
const stats = sandbox_audit_stats({ period: "7d" });
console.log(`Executed ${stats.total_commands > 0} commands (${stats.dangerous} dangerous)`);
console.log(sandbox_check("ls", { working_dir: "/job", user: "agent" }).risk_level);
console.log(sandbox_exec("echo $A", { env: { A: "b c" } }).stdout.trim());
console.log(sandbox_queue_list({ status: "pending" }).total, sandbox_queue_list("all").total);
const log = sandbox_audit_log({
limit: 50,
risk_level: "dangerous", // safe, normal, dangerous, critical
since: "2026-02-01",
command_pattern: "rm*"
});
console.log(log.every((record) => record.command === "rm -rf node_modules"), log.length > 0);
sandbox_allowlist_add({
pattern: "rm *",
description: "for now",
auto_approve: true
});
const impact = { deletes_important_files: true };
if (impact.deletes_important_files) {
sandbox_allowlist_remove("rm *");
}
console.log(sandbox_allowlist_test({ command: "npm install express" }).allowed);
console.log(Object.keys(sandbox_audit_stats("all")).includes("total_commands"));
"#,
    )?
    .succeeds()?
    .stdout_is(
        "completed true\npending\nExecuted true commands (1 dangerous)\nsafe\nb c\n1 1\n\
         true true\nfalse\ntrue\n",
    )?;
    Ok(())
}

/// Whoever cannot ask must not do it.
fn a_client_without_sjail_says_no(scene: &Scene) -> Verdict {
    scene.needs(&["python3", "node"])?;
    let python = python(
        scene,
        r#"
import asyncio, os
os.environ["SJAIL"] = "/nowhere/sjail"
from scripts.security_sandbox import SecuritySandbox, SandboxError
sandbox = SecuritySandbox(".")
try:
    print(sandbox.validate_command("ls"))
except SandboxError as error:
    print("refused")
try:
    print(sandbox.get_audit_log())
except SandboxError as error:
    print("name it in the variable SJAIL" in str(error))
try:
    print(SecuritySandbox("/nowhere").validate_command("ls"))
except SandboxError as error:
    print(error)
hook = sandbox.create_pre_tool_hook()
print(asyncio.run(hook({"tool_input": {"command": "ls"}}, "id", None))["decision"])
"#,
    )?;
    python
        .succeeds()?
        .stdout_is("refused\nTrue\nsjail cannot be asked: there is no folder /nowhere\nblock\n")?;
    let node = node(
        scene,
        r#"
process.env.SJAIL = '/nowhere/sjail';
const Sandbox = require('./sandbox');
try { console.log(Sandbox.sandbox_check('ls')) } catch { console.log('refused') }
Sandbox.execute({ language: 'bash', code: 'echo hi' }).then((result) => console.log(result.success, result.error));
"#,
    )?;
    node.succeeds()?.stdout_is(
        "refused\nfalse sjail cannot be started: there is no /nowhere/sjail; install it, or name it in the variable SJAIL\n",
    )?;
    Ok(())
}
