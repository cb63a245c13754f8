//! What may run on the host and is asked for inside an agent's jail: its holder runs it
//! outside, and the agent has the result; nothing but the words comes from inside.

use std::fs;

use nix::sys::signal::Signal;
use sjail_tests::{Scene, Test, Verdict, tests, wait};

use crate::desk::Desk;
use crate::seeds::agent::agent;

pub fn suite() -> Vec<Test> {
    tests![
        an_agent_has_the_result,
        what_needs_no_answer_runs_at_once,
        nothing_comes_from_inside,
        nobody_inside_runs_for_others,
        an_approval_of_somebody_else_is_refused,
        it_ends_with_its_jail,
    ]
}

fn policy(scene: &Scene, patterns: &str, asks: bool) -> Verdict {
    let text =
        format!("[elevated]\nenabled = true\npatterns = [{patterns}]\nrequire_approval = {asks}\n");
    scene.home_file(".config/sjail/policy.toml", &text)?;
    Ok(())
}

fn an_agent_has_the_result(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    policy(scene, "\"cat *\"", true)?;
    scene.home_file("secret", "seen\n")?;
    let script = "#!/bin/bash\n\
        $1 run --json -- cat $HOME/secret >first.json; echo first $?\n\
        $1 run -- cat $HOME/secret $HOME/nothing >second 2>errors; echo second $?\n\
        $1 run -- cat $HOME/secret $HOME/other >third 2>&1; echo third $?\n\
        cat $HOME/secret 2>/dev/null; echo control $?\n";
    let mut terminal = agent(scene, "claude", script)?.terminal()?;
    for verb in ["approve", "approve", "reject"] {
        wait::until_true("it is asked", || desk.newest().is_ok())?;
        let id = desk.newest()?;
        let shown = desk.sjail(["queue", "show", &id])?;
        shown
            .stdout_has("in a jail")?
            .stdout_has("to run on the host, outside the jail")?;
        desk.sjail(["queue", verb, &id])?.succeeds()?;
    }
    terminal.expect("control 1")?;
    assert_eq!(terminal.finish()?.code(), Some(0), "{}", terminal.screen());
    let first: serde_json::Value = serde_json::from_str(&scene.read("first.json")?)?;
    assert_eq!(first["stdout"], "seen\n", "{first}");
    assert_eq!(first["exit_code"], 0, "{first}");
    assert_eq!(scene.read("second")?, "seen\n");
    assert!(scene.read("errors")?.contains("nothing"), "cat's own words");
    let screen = terminal.screen();
    for line in ["first 0", "second 1", "third 77"] {
        assert!(screen.contains(line), "{line}: {screen}");
    }
    // Asked from inside, run from outside, both written down.
    let id = first["approval"]["id"].as_str().unwrap_or_default();
    let records = desk.sjail(["audit", "show", id, "--json"])?.json()?;
    let peer = |event: &str| {
        let records = records.as_array().into_iter().flatten();
        let mut found = records.filter(|record| record["event"] == event);
        found
            .next()
            .map(|record| record["detail"]["peer"]["jailed"].clone())
    };
    assert_eq!(peer("decision"), Some(true.into()), "{records}");
    assert_eq!(peer("intent"), Some(false.into()), "{records}");
    assert!(peer("outcome").is_some(), "{records}");
    Ok(())
}

fn what_needs_no_answer_runs_at_once(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    policy(scene, "\"cat *\", \"head *\"", false)?;
    scene.home_file("secret", "seen\n")?;
    let script = "#!/bin/bash\n\
        $1 run -- cat $HOME/secret\n\
        $1 run --json -- head -c 200000 /dev/zero >long.json\n\
        echo no | $1 run -- cat -; echo $?\n";
    let ran = agent(scene, "claude", script)?.output()?;
    ran.succeeds()?.stdout_is("seen\n0\n")?;
    // A variable can make another program of the same words.
    desk.sjail([
        "run",
        "--no-wait",
        "--env",
        "A=b",
        "--",
        "cat",
        "/etc/hostname",
    ])?
    .exits(75)?;
    let long: serde_json::Value = serde_json::from_str(&scene.read("long.json")?)?;
    assert_eq!(long["truncated"], true);
    assert_eq!(long["stdout"].as_str().map(str::len), Some(64 << 10));
    let approved = desk.sjail(["audit", "log", "--events", "--last", "100"])?;
    approved.stdout_has("approval")?;
    Ok(())
}

/// Variables, programs and folders of the jail are not those of the command outside.
fn nothing_comes_from_inside(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let _desk = Desk::at(scene);
    policy(scene, "\"printenv *\", \"pwd\", \"ls *\"", false)?;
    let evil = scene.script("evil/printenv", "#!/bin/sh\ntouch $0.ran\n")?;
    let submit = r#"
import json, os, socket, sys
def submit(**more):
    s = socket.socket(socket.AF_UNIX)
    s.connect("/run/sjail/request.sock")
    words = {"protocol": 3, "command": {"argv": ["pwd"]}, "cwd": os.getcwd(), "workspace": os.getcwd(), "wait_ms": 0}
    words.update(more)
    s.sendall(json.dumps({"method": "io.sjail.Broker.Submit", "parameters": words}).encode() + b"\0")
    text = b""
    while not text.endswith(b"\0"):
        text += s.recv(65536)
    reply = json.loads(text[:-1])
    reply = reply["parameters"] if "error" not in reply else reply
    print(reply.get("state", reply), reply.get("stdout", "").strip())
here = os.getcwd()
submit()
submit(cwd=here + "/link", workspace=here)
submit(cwd=here + "/evil/..", workspace=here)
submit(cwd="/", workspace="/")
submit(options=["--env=MARK=inside"])
submit(options=["--ro=/"])
submit(session="main", env=[{"name": "PATH", "value": here + "/evil"}])
"#;
    scene.file("submit.py", submit)?;
    std::os::unix::fs::symlink("/", scene.workspace().join("link"))?;
    let script = "#!/bin/bash\n\
        export MARK=inside PATH=$PWD/evil:$PATH LD_PRELOAD=/nothing.so\n\
        $1 run -- printenv OUTER\n\
        $1 run -- printenv MARK; echo mark $?\n\
        $1 run -- ls /proc/self/fd | tr '\\n' ' '; echo\n\
        unset LD_PRELOAD\n\
        python3 submit.py\n";
    let ran = agent(scene, "claude", script)?
        .env("OUTER", "outside")
        .output()?;
    let here = scene.workspace().display().to_string();
    let lines: Vec<&str> = ran.succeeds()?.stdout.lines().collect();
    let elsewhere = format!("elsewhere {here}");
    let expected = ["outside", "mark 1", "0 1 2 3 ", &elsewhere];
    assert_eq!(lines.get(..4), Some(&expected[..]), "{}", ran.stdout);
    // Wherever it cannot run outside it is an ordinary command of the jail, or refused.
    for line in lines.get(4..9).into_iter().flatten() {
        assert!(!line.starts_with("elsewhere"), "{}", ran.stdout);
    }
    assert_eq!(lines.get(9), Some(&elsewhere.as_str()), "{}", ran.stdout);
    assert_eq!(lines.len(), 10, "{}", ran.stdout);
    assert!(!evil.with_file_name("printenv.ran").exists());
    Ok(())
}

/// The verbs of whoever holds a jail are for nobody in one.
fn nobody_inside_runs_for_others(scene: &Scene) -> Verdict {
    scene.needs(&["python3"])?;
    let _desk = Desk::at(scene);
    policy(scene, "\"cat *\"", true)?;
    let call = r#"
import json, socket
def call(method, more, **parameters):
    s = socket.socket(socket.AF_UNIX)
    s.connect("/run/sjail/request.sock")
    words = {"method": "io.sjail.Broker." + method, "parameters": parameters, "more": more}
    s.sendall(json.dumps(words).encode() + b"\0")
    print(json.loads(s.recv(65536).split(b"\0")[0]).get("error"))
call("Offer", True, run="run_000000000000", token="x", workspace="/", env=[])
result = {"id": "cmd_x", "code": 0, "duration_ms": 0, "stdout": "", "stderr": "", "truncated": False}
call("Deliver", False, ticket="x", result=result)
"#;
    scene.file("call.py", call)?;
    let script = "#!/bin/bash\npython3 call.py\n";
    let ran = agent(scene, "claude", script)?.output()?;
    ran.succeeds()?
        .stdout_is("io.sjail.Control.Refused\nio.sjail.Broker.UnknownId\n")?;
    Ok(())
}

fn an_approval_of_somebody_else_is_refused(scene: &Scene) -> Verdict {
    let desk = Desk::at(scene);
    desk.needs_no_terminal()?;
    policy(scene, "\"cat *\"", true)?;
    let secret = scene.home_file("secret", "seen\n")?;
    let id = desk.ask(&format!("cat {}", secret.display()))?;
    desk.sjail(["queue", "approve", &id])?.succeeds()?;
    let script = format!("#!/bin/bash\n$1 run --approval {id} 2>&1; echo $?\n");
    let ran = agent(scene, "claude", &script)?.output()?;
    ran.succeeds()?
        .stdout_has("was asked for outside this jail")?
        .stdout_has("77\n")?
        .lacks("seen")?;
    // The control: it is good for whoever asked.
    desk.sjail(["run", "--approval", &id])?.stdout_has("seen")?;
    Ok(())
}

fn it_ends_with_its_jail(scene: &Scene) -> Verdict {
    let _desk = Desk::at(scene);
    policy(scene, "\"tail *\"", false)?;
    let mark = scene.home_file("followed", "x\n")?;
    let mark = mark.display().to_string();
    let script = format!("#!/bin/bash\n$1 run -- tail -f {mark}\n");
    let running = agent(scene, "claude", &script)?.start()?;
    let follows = || {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
            .any(|words| words == format!("tail\0-f\0{mark}\0").as_bytes())
    };
    wait::until_true("it runs on the host", follows)?;
    running.signal(Signal::SIGKILL)?;
    wait::until_true("it has ended", || !follows())?;
    Ok(())
}
